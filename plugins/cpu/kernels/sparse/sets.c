/* sets.c - sets along the last dimension: DenseToDenseSetOperation, DenseToSparseSetOperation,
 * SparseToSparseSetOperation, SetSize; and EditDistance between sequences there.
 *
 * Method: each operand becomes a list of (group, element), sorted and without repetitions; an
 * operation is one merge of two lists.  A group is the flat index of the leading dimensions.
 *
 * Threads: one per call.
 */
#include <stdlib.h>
#include "sparse/sparse.h"

/* strings: text, length in number */
typedef struct {
  int64_t group, number;
  const char *text;
} item;
typedef struct {
  item *items;
  int64_t n;
  int64_t dims[PF_MAX_DIMS];
  int32_t rank;
} members;

static int compare_numbers(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  return (a->number > b->number) - (a->number < b->number);
}
static int compare_texts(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  int64_t n = PF_MIN(a->number, b->number);
  int d = n ? memcmp(a->text, b->text, (size_t)n) : 0;
  return d ? d : (a->number > b->number) - (a->number < b->number);
}
typedef int (*comparison)(const void *, const void *);
static comparison comparison_of(int32_t type) {
  return type == PF_STRING ? compare_texts : compare_numbers;
}
static pf_status get_item(pf_ctx *c, const DLTensor *x, int32_t type, int64_t i, item *e) {
  if (type != PF_STRING) {
    e->number = pf_index_at(x, type, i), e->text = NULL;
    return PF_OK;
  }
  pf_str s;
  PF_TRY(c->host->str_get(x, i, &s));
  e->number = s.len, e->text = s.data;
  return PF_OK;
}
static void sort_unique(members *m, comparison order) {
  if (m->n) qsort(m->items, (size_t)m->n, sizeof(item), order);
  int64_t k = 0;
  for (int64_t i = 0; i < m->n; i++)
    if (!k || order(&m->items[k - 1], &m->items[i])) m->items[k++] = m->items[i];
  m->n = k;
}
static pf_status dense_members(pf_ctx *c, int32_t in, members *m) {
  const DLTensor *x = c->in[in];
  PF_TRY(pf_check_rank(c, x, "set"));
  if (x->ndim < 2) return PF_INVALID(c, "Input must have rank >= 2, got shape %s", PF_SHAPE(x).s);
  m->rank = x->ndim, m->n = pf_numel(x);
  memcpy(m->dims, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  m->items = c->host->scratch(c, (uint64_t)m->n * sizeof(item) + 8, 64);
  PF_EXHAUSTED(m->items);
  int64_t inner = PF_MAX(x->shape[x->ndim - 1], 1);
  for (int64_t i = 0; i < m->n; i++) {
    m->items[i].group = i / inner;
    PF_TRY(get_item(c, x, c->in_type[in], i, &m->items[i]));
  }
  return PF_OK;
}
static pf_status sparse_members(pf_ctx *c, int32_t in, int validate, members *m) {
  coo s;
  int64_t step[PF_MAX_DIMS], groups, wrong;
  PF_TRY(pf_coo_input(c, in, in + 1, in + 2, "set", &s));
  if (validate && !pf_coo_rises(&s, &wrong))
    return PF_INVALID(c,
                      "indices[%" PRId64 "] is out of order or repeated; use tf.sparse_reorder "
                      "first",
                      wrong);
  if (s.rank < 2) return PF_INVALID(c, "Input must have rank >= 2, got %d", s.rank);
  PF_TRY(pf_coo_numel(c, s.dims, s.rank - 1, &groups));
  m->rank = s.rank, m->n = s.n;
  memcpy(m->dims, s.dims, sizeof(int64_t) * (size_t)s.rank);
  m->items = c->host->scratch(c, (uint64_t)m->n * sizeof(item) + 8, 64);
  PF_EXHAUSTED(m->items);
  pf_row_major(s.dims, s.rank - 1, step);
  for (int64_t i = 0; i < m->n; i++) {
    m->items[i].group = 0;
    for (int32_t k = 0; k < s.rank - 1; k++) m->items[i].group += s.at[i * s.rank + k] * step[k];
    PF_TRY(get_item(c, s.values, s.type, i, &m->items[i]));
  }
  return PF_OK;
}

typedef struct {
  pf_str set_operation;
  int32_t validate_indices;
} set_state;
enum { A_MINUS_B = 1, B_MINUS_A = 2, BOTH = 4 }; /* what is emitted: only a, only b, in both */
static int emitted(pf_str s) {
  static const struct {
    const char *name;
    int what;
  } known[] = {{"a-b", A_MINUS_B},
               {"b-a", B_MINUS_A},
               {"intersection", BOTH},
               {"union", A_MINUS_B | B_MINUS_A | BOTH}};
  for (int i = 0; i < 4; i++)
    if ((int64_t)strlen(known[i].name) == s.len && !memcmp(known[i].name, s.data, (size_t)s.len))
      return known[i].what;
  return 0;
}
static pf_status emit(pf_ctx *c, const members *a, int32_t type, const item *found, int64_t n) {
  int64_t dims[PF_MAX_DIMS], longest = 0, run = 0;
  int32_t rank = a->rank;
  coo_out y;
  for (int64_t i = 0; i < n; i++) {
    run = i && found[i].group == found[i - 1].group ? run + 1 : 1;
    longest = PF_MAX(longest, run);
  }
  memcpy(dims, a->dims, sizeof(int64_t) * (size_t)rank);
  dims[rank - 1] = longest;
  PF_TRY(pf_coo_output(c, 0, 1, 2, n, dims, rank, &y));
  for (int64_t i = 0; i < n; i++) {
    int64_t left = found[i].group;
    run = i && found[i].group == found[i - 1].group ? run + 1 : 0;
    y.at[i * rank + rank - 1] = run;
    for (int32_t k = rank - 2; k >= 0; k--) y.at[i * rank + k] = left % dims[k], left /= dims[k];
    if (type == PF_STRING)
      PF_TRY(c->host->str_set(y.values, i, (pf_str){found[i].text, found[i].number}));
    else pf_put_index(y.values, type, i, found[i].number);
  }
  return PF_OK;
}
static pf_status operate(pf_ctx *c, const void *state, members *a, members *b, int32_t type) {
  int what = emitted(((const set_state *)state)->set_operation);
  comparison order = comparison_of(type);
  if (!what)
    return PF_INVALID(c, "Invalid set_operation %.*s: use a-b, b-a, intersection or union",
                      (int)PF_MIN(((const set_state *)state)->set_operation.len, 100),
                      ((const set_state *)state)->set_operation.data);
  if (a->rank != b->rank || pf_row_compare(a->dims, b->dims, a->rank - 1))
    return PF_INVALID(c, "Mismatched group shapes %s vs %s", pf_shape_text(a->dims, a->rank - 1).s,
                      pf_shape_text(b->dims, b->rank - 1).s);
  sort_unique(a, order);
  sort_unique(b, order);
  item *found = c->host->scratch(c, (uint64_t)(a->n + b->n) * sizeof(item) + 8, 64);
  PF_EXHAUSTED(found);
  int64_t n = 0;
  for (int64_t i = 0, j = 0; i < a->n || j < b->n;) {
    int d = i >= a->n ? 1 : j >= b->n ? -1 : order(&a->items[i], &b->items[j]);
    if (what & (d < 0 ? A_MINUS_B : d > 0 ? B_MINUS_A : BOTH))
      found[n++] = d <= 0 ? a->items[i] : b->items[j];
    i += d <= 0, j += d >= 0;
  }
  return emit(c, a, type, found, n);
}
static pf_status dense_dense(pf_ctx *c, const void *state) {
  members a, b;
  PF_TRY(dense_members(c, 0, &a));
  PF_TRY(dense_members(c, 1, &b));
  return operate(c, state, &a, &b, c->in_type[0]);
}
static int validates(const void *state) { return ((const set_state *)state)->validate_indices; }
static pf_status dense_sparse(pf_ctx *c, const void *state) {
  members a, b;
  PF_TRY(dense_members(c, 0, &a));
  PF_TRY(sparse_members(c, 1, validates(state), &b));
  return operate(c, state, &a, &b, c->in_type[0]);
}
static pf_status sparse_sparse(pf_ctx *c, const void *state) {
  members a, b;
  PF_TRY(sparse_members(c, 0, validates(state), &a));
  PF_TRY(sparse_members(c, 3, validates(state), &b));
  return operate(c, state, &a, &b, c->in_type[1]);
}
typedef struct { int32_t validate_indices; } size_state;
static pf_status set_size(pf_ctx *c, const void *state) {
  members a;
  PF_TRY(sparse_members(c, 0, ((const size_state *)state)->validate_indices, &a));
  sort_unique(&a, comparison_of(c->in_type[1]));
  DLTensor *y = pf_output_checked(c, 0, a.dims, a.rank - 1);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(y);
  if (n) memset(PF_DATA(char, y), 0, (size_t)n * 4);
  for (int64_t i = 0; i < a.n; i++) PF_DATA(int32_t, y)[a.items[i].group]++;
  return PF_OK;
}

/* ---------------------------------------------------------------- EditDistance */
typedef struct { int32_t normalize; } edit_state;
/* equal as numbers: -0 is 0, NaN is nothing */
static int same_floats(int32_t type, const void *a, int64_t i, const void *b, int64_t j) {
  float x, y;
  switch (type) {
    case PF_FLOAT32: return ((const float *)a)[i] == ((const float *)b)[j];
    case PF_FLOAT64: return ((const double *)a)[i] == ((const double *)b)[j];
    case PF_COMPLEX64: return ((const float _Complex *)a)[i] == ((const float _Complex *)b)[j];
    case PF_COMPLEX128: return ((const double _Complex *)a)[i] == ((const double _Complex *)b)[j];
    default:
      pf_half_to_float(type, (const uint16_t *)a + i, &x, 1);
      pf_half_to_float(type, (const uint16_t *)b + j, &y, 1);
      return x == y;
  }
}
static int is_float(int32_t type) {
  return type == PF_FLOAT32 || type == PF_FLOAT64 || type == PF_COMPLEX64 ||
         type == PF_COMPLEX128 || pf_is_half(type);
}
static pf_status same_value(pf_ctx *c, const coo *a, int64_t i, const coo *b, int64_t j,
                            int *same) {
  int64_t es = pf_type_size(a->type);
  if (is_float(a->type)) {
    *same =
        same_floats(a->type, PF_DATA(const void, a->values), i, PF_DATA(const void, b->values), j);
    return PF_OK;
  }
  if (a->type != PF_STRING) {
    *same = !memcmp(PF_DATA(const char, a->values) + i * es,
                    PF_DATA(const char, b->values) + j * es, (size_t)es);
    return PF_OK;
  }
  pf_str x, y;
  PF_TRY(c->host->str_get(a->values, i, &x));
  PF_TRY(c->host->str_get(b->values, j, &y));
  *same = x.len == y.len && (!x.len || !memcmp(x.data, y.data, (size_t)x.len));
  return PF_OK;
}
/* bit q: value j + q of b is value i of a, for q < m <= 64 */
static pf_status same_bits(pf_ctx *c, const coo *a, int64_t i, const coo *b, int64_t j, int64_t m,
                           uint64_t *bits) {
  int64_t es = a->type == PF_STRING || is_float(a->type) ? 0 : pf_type_size(a->type);
  *bits = 0;
  if (es == 8) {
    const uint64_t *y = PF_DATA(const uint64_t, b->values) + j;
    const uint64_t x = PF_DATA(const uint64_t, a->values)[i];
    for (int64_t q = 0; q < m; q++) *bits |= (uint64_t)(x == y[q]) << q;
  } else if (es == 4) {
    const uint32_t *y = PF_DATA(const uint32_t, b->values) + j;
    const uint32_t x = PF_DATA(const uint32_t, a->values)[i];
    for (int64_t q = 0; q < m; q++) *bits |= (uint64_t)(x == y[q]) << q;
  } else
    for (int64_t q = 0; q < m; q++) {
      int same;
      PF_TRY(same_value(c, a, i, b, j + q, &same));
      *bits |= (uint64_t)same << q;
    }
  return PF_OK;
}
/* Levenshtein's distance of rows [i, i + n) of a and [j, j + m) of b, m <= 64: a column of the
 * table is the bits of where it rises and falls (Myers, 1999; Hyyro, 2003) */
static pf_status short_distance(pf_ctx *c, const coo *a, int64_t i, int64_t n, const coo *b,
                                int64_t j, int64_t m, int64_t *found) {
  uint64_t rises = ~(uint64_t)0, falls = 0, same, last = m ? (uint64_t)1 << (m - 1) : 0;
  *found = m ? m : n;
  for (int64_t p = 0; p < n && m; p++) {
    PF_TRY(same_bits(c, a, i + p, b, j, m, &same));
    uint64_t v = same | falls, h = (((same & rises) + rises) ^ rises) | same;
    uint64_t up = falls | ~(h | rises), down = rises & h;
    *found += (int64_t)((up & last) != 0) - (int64_t)((down & last) != 0);
    up = up << 1 | 1;
    rises = down << 1 | ~(v | up);
    falls = up & v;
  }
  return PF_OK;
}
/* the same for any m; line: m + 1 numbers */
static pf_status distance(pf_ctx *c, const coo *a, int64_t i, int64_t n, const coo *b, int64_t j,
                          int64_t m, int64_t *line) {
  if (m <= 64) return short_distance(c, a, i, n, b, j, m, &line[m]);
  for (int64_t q = 0; q <= m; q++) line[q] = q;
  for (int64_t p = 1; p <= n; p++) {
    int64_t corner = line[0];
    line[0] = p;
    for (int64_t q = 1; q <= m; q++) {
      int same;
      PF_TRY(same_value(c, a, i + p - 1, b, j + q - 1, &same));
      int64_t least = PF_MIN(PF_MIN(line[q], line[q - 1]) + 1, corner + !same);
      corner = line[q];
      line[q] = least;
    }
  }
  return PF_OK;
}
/* Sequences are rows in their order: where they stand along the last dimension is not read, as
 * in TF, whose tutorials give a size of 1 there; out of order they are merged as they come. */
static pf_status edit_distance(pf_ctx *c, const void *state) {
  int normalize = ((const edit_state *)state)->normalize;
  coo a, b;
  int64_t dims[PF_MAX_DIMS], step[PF_MAX_DIMS], i = 0, j = 0;
  PF_TRY(pf_coo_bounded(c, 0, 1, 2, "hypothesis", 1, &a));
  PF_TRY(pf_coo_bounded(c, 3, 4, 5, "truth", 1, &b));
  if (a.rank != b.rank || a.rank < 2)
    return PF_INVALID(c, "hypothesis and truth must have one rank of at least 2, got %d and %d",
                      a.rank, b.rank);
  int32_t keys = a.rank - 1;
  for (int32_t k = 0; k < keys; k++) dims[k] = PF_MAX(a.dims[k], b.dims[k]);
  DLTensor *y = pf_output_checked(c, 0, dims, keys);
  PF_EXHAUSTED(y);
  int64_t numel = pf_numel(y);
  if (numel) memset(PF_DATA(char, y), 0, (size_t)numel * 4);
  int64_t *line = c->host->scratch(c, (uint64_t)(b.n + 1) * 8 + 8, 64);
  PF_EXHAUSTED(line);
  pf_row_major(dims, keys, step);
  while (i < a.n || j < b.n) {
    int d = i >= a.n   ? 1
            : j >= b.n ? -1
                       : pf_row_compare(a.at + i * a.rank, b.at + j * b.rank, keys);
    const int64_t *row = d <= 0 ? a.at + i * a.rank : b.at + j * b.rank;
    int64_t n = 0, m = 0, at = 0;
    if (d <= 0)
      while (i + n < a.n && !pf_row_compare(a.at + (i + n) * a.rank, row, keys)) n++;
    if (d >= 0)
      while (j + m < b.n && !pf_row_compare(b.at + (j + m) * b.rank, row, keys)) m++;
    for (int32_t k = 0; k < keys; k++) at += row[k] * step[k];
    PF_TRY(distance(c, &a, i, n, &b, j, m, line));
    float found = (float)line[m];
    if (normalize) found = m ? found / (float)m : n ? INFINITY : 0.0f;
    PF_DATA(float, y)[at] = found;
    i += n, j += m;
  }
  return PF_OK;
}

#define SETS "T=int8|int16|int32|int64|uint8|uint16|string"
#define SET_STATE .state_size = sizeof(set_state), \
    .attrs = PF_ATTRS(PF_ATTR(set_state, PF_ATTR_STRING, set_operation), \
                      PF_ATTR(set_state, PF_ATTR_BOOL, validate_indices))
const pf_kernel *const sets_kernels[] = {
  PF_CPU("DenseToDenseSetOperation", SETS, .compute = dense_dense, SET_STATE),
  PF_CPU("DenseToSparseSetOperation", SETS, .compute = dense_sparse, SET_STATE),
  PF_CPU("SparseToSparseSetOperation", SETS, .compute = sparse_sparse, SET_STATE),
  PF_CPU("SetSize", SETS, .compute = set_size, .state_size = sizeof(size_state),
         .attrs = PF_ATTRS(PF_ATTR(size_state, PF_ATTR_BOOL, validate_indices))),
  PF_CPU_LONG("EditDistance", NULL, .compute = edit_distance, .state_size = sizeof(edit_state),
              .attrs = PF_ATTRS(PF_ATTR(edit_state, PF_ATTR_BOOL, normalize))),
  NULL};
