/* sparse_cross.c - SparseCross, SparseCrossV2, SparseCrossHashed.
 *
 * Every row of the batch has a list of features in each column (the sparse tensors, then the dense
 * ones).  The result's row holds one value for each way to take a feature from every column, the
 * last column's turning fastest: their texts joined, or their hashes combined.
 *
 * Invariants: first[b], first[b + 1] bound the features of row b within a sparse column's values;
 * the number of crosses is computed with checked arithmetic before anything is made.
 * Threads: one.
 */
#include "base/bytes.h"
#include "base/hash.h"

enum { VALUES = 1, SHAPES = 2, DENSE = 3, OPTIONS = 4 }; /* the op's arguments */
typedef struct {
  int64_t num_buckets, hash_key;
  int32_t out_type, hashed;
} cross_state;
typedef struct {
  const DLTensor *values;
  int32_t type;
  int64_t *first, width;
} column;
typedef struct {
  column *columns;
  int64_t n, batch, *at; /* `at`: which feature of each column */
  int64_t crosses, longest;
  pf_str between;
  uint64_t buckets, start, key[2];
  int strong, hashed, keyed;
} crossing;

/* ---------------------------------------------------------------- columns */
static pf_status sparse_column(pf_ctx *c, crossing *x, int32_t k, column *col) {
  const DLTensor *where = c->in[c->in_start[0] + k], *shape = c->in[c->in_start[SHAPES] + k];
  col->values = c->in[c->in_start[VALUES] + k];
  col->type = c->in_type[c->in_start[VALUES] + k];
  if (where->ndim != 2 || where->shape[1] != 2 || col->values->ndim != 1 ||
      where->shape[0] != col->values->shape[0] || shape->ndim != 1 || shape->shape[0] != 2)
    return PF_INVALID(c,
                      "sparse input %d must have indices [n, 2], values [n] and a shape [2], "
                      "got %s, %s and %s",
                      k, PF_SHAPE(where).s, PF_SHAPE(col->values).s, PF_SHAPE(shape).s);
  if (PF_DATA(const int64_t, shape)[0] != x->batch)
    return PF_INVALID(c, "Expected batch size %" PRId64 ", got %" PRId64 " in sparse input %d",
                      x->batch, PF_DATA(const int64_t, shape)[0], k);
  int64_t n = where->shape[0], row = 0;
  col->first = c->host->scratch(c, (uint64_t)(x->batch + 1) * 8, 64);
  if (!col->first) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a column");
  col->first[0] = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t b = PF_DATA(const int64_t, where)[2 * i];
    if (b < row || b >= x->batch)
      return PF_INVALID(c,
                        "the rows of sparse input %d must rise within [0, %" PRId64
                        "), got %" PRId64 " at %" PRId64,
                        k, x->batch, b, i);
    while (row < b) col->first[++row] = i;
  }
  while (row < x->batch) col->first[++row] = n;
  return PF_OK;
}
static pf_status dense_column(pf_ctx *c, crossing *x, int32_t k, column *col) {
  col->values = c->in[c->in_start[DENSE] + k];
  col->type = c->in_type[c->in_start[DENSE] + k];
  if (col->values->ndim != 2 || col->values->shape[0] != x->batch)
    return PF_INVALID(c, "dense input %d must be a matrix of %" PRId64 " rows, got shape %s", k,
                      x->batch, PF_SHAPE(col->values).s);
  col->width = col->values->shape[1];
  return PF_OK;
}
static int64_t feature_count(const column *col, int64_t b) {
  return col->first ? col->first[b + 1] - col->first[b] : col->width;
}
static int64_t place_of(const column *col, int64_t b, int64_t k) {
  return (col->first ? col->first[b] : b * col->width) + k;
}
static pf_status open_columns(pf_ctx *c, crossing *x) {
  int32_t sparse = c->in_start[1], dense = c->in_start[DENSE + 1] - c->in_start[DENSE];
  const DLTensor *shape = sparse ? c->in[c->in_start[SHAPES]] : NULL;
  x->n = (int64_t)sparse + dense;
  if (x->n == 0) return PF_INVALID(c, "there must be at least one column");
  if (c->in_start[2] - c->in_start[1] != sparse || c->in_start[3] - c->in_start[2] != sparse)
    return PF_INVALID(c, "there must be as many values and shapes as indices");
  if (shape && (shape->ndim != 1 || shape->shape[0] != 2))
    return PF_INVALID(c, "shapes must be [2], got shape %s", PF_SHAPE(shape).s);
  if (!shape && c->in[c->in_start[DENSE]]->ndim != 2)
    return PF_INVALID(c, "dense inputs must be matrices, got shape %s",
                      PF_SHAPE(c->in[c->in_start[DENSE]]).s);
  x->batch = shape ? PF_DATA(const int64_t, shape)[0] : c->in[c->in_start[DENSE]]->shape[0];
  if (x->batch < 0 || x->batch > ((int64_t)1 << 26))
    return PF_INVALID(c, "a batch of %" PRId64 " rows is not in [0, 2^26]", x->batch);
  x->columns = c->host->scratch(c, (uint64_t)x->n * sizeof *x->columns, 64);
  x->at = c->host->scratch(c, (uint64_t)x->n * 8, 64);
  if (!x->columns || !x->at) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for columns");
  memset(x->columns, 0, (size_t)x->n * sizeof *x->columns);
  for (int32_t k = 0; k < sparse; k++) PF_TRY(sparse_column(c, x, k, &x->columns[k]));
  for (int32_t k = 0; k < dense; k++) PF_TRY(dense_column(c, x, k, &x->columns[sparse + k]));
  return PF_OK;
}
static pf_status count_crosses(pf_ctx *c, crossing *x) {
  for (int64_t b = 0; b < x->batch; b++) {
    int64_t n = 1;
    for (int64_t k = 0; k < x->n; k++)
      if (__builtin_mul_overflow(n, feature_count(&x->columns[k], b), &n))
        return PF_INVALID(c, "row %" PRId64 " has more crosses than int64 holds", b);
    if (__builtin_add_overflow(x->crosses, n, &x->crosses) || x->crosses > INT32_MAX)
      return pf_failf(c, PF_RESOURCE_EXHAUSTED, "more than 2^31 crosses");
    x->longest = PF_MAX(x->longest, n);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- one cross */
static uint64_t mixed(uint64_t v) { return v ^ v >> 47; }
/* FingerprintCat64 */
static uint64_t combined(uint64_t a, uint64_t b) {
  const uint64_t by = 0xc6a4a7935bd1e995u;
  uint64_t h = a ^ by;
  h ^= mixed(b * by) * by;
  h *= by;
  return mixed(mixed(h) * by);
}
static pf_status feature_hash(pf_ctx *c, const crossing *x, const column *col, int64_t at,
                              uint64_t *hash) {
  pf_str s;
  char low[4];
  if (col->type != PF_STRING) {
    uint64_t v = (uint64_t)PF_DATA(const int64_t, col->values)[at];
    *hash = v;
    if (!x->keyed || !col->first) return PF_OK;
    for (int i = 0; i < 4; i++) low[i] = (char)(v >> 8 * i); /* of a sparse number TF takes these */
    s = (pf_str){low, 4};
  } else PF_TRY(c->host->str_get(col->values, at, &s));
  *hash = x->strong ? pf_keyed_hash(s.data, (uint64_t)s.len, x->key)
                    : pf_fingerprint64(s.data, (uint64_t)s.len);
  return PF_OK;
}
static pf_status cross_hash(pf_ctx *c, const crossing *x, int64_t b, int64_t *out) {
  uint64_t hash = x->start, one;
  for (int64_t k = 0; k < x->n; k++) {
    PF_TRY(feature_hash(c, x, &x->columns[k], place_of(&x->columns[k], b, x->at[k]), &one));
    hash = k == 0 && x->keyed ? one : combined(hash, one);
  }
  *out = (int64_t)(hash % (x->buckets ? x->buckets : (uint64_t)INT64_MAX));
  return PF_OK;
}
static pf_status cross_text(pf_ctx *c, const crossing *x, int64_t b, pf_bytes *text) {
  text->n = 0;
  for (int64_t k = 0; k < x->n; k++) {
    const column *col = &x->columns[k];
    int64_t at = place_of(col, b, x->at[k]);
    pf_str s;
    if (k) pf_bytes_add(text, x->between.data, x->between.len);
    if (col->type != PF_STRING) {
      pf_bytes_printf(text, "%" PRId64, PF_DATA(const int64_t, col->values)[at]);
      continue;
    }
    PF_TRY(c->host->str_get(col->values, at, &s));
    pf_bytes_add(text, s.data, s.len);
  }
  return text->failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a text") : PF_OK;
}
/* the next choice of features of row b; 0: that was the last */
static int turn(const crossing *x, int64_t b) {
  for (int64_t k = x->n - 1; k >= 0; k--) {
    if (++x->at[k] < feature_count(&x->columns[k], b)) return 1;
    x->at[k] = 0;
  }
  return 0;
}
static int is_empty(const crossing *x, int64_t b) {
  for (int64_t k = 0; k < x->n; k++)
    if (feature_count(&x->columns[k], b) == 0) return 1;
  return 0;
}
static pf_status write_rows(pf_ctx *c, crossing *x, int64_t *where, DLTensor *values,
                            pf_bytes *text) {
  int64_t at = 0;
  for (int64_t b = 0; b < x->batch; b++) {
    int64_t k = 0;
    if (is_empty(x, b)) continue;
    memset(x->at, 0, (size_t)x->n * 8);
    do {
      where[2 * at] = b, where[2 * at + 1] = k++;
      if (x->hashed) PF_TRY(cross_hash(c, x, b, &PF_DATA(int64_t, values)[at]));
      else {
        PF_TRY(cross_text(c, x, b, text));
        PF_TRY(c->host->str_set(values, at, (pf_str){text->data, text->n}));
      }
      at++;
    } while (turn(x, b));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- kernels */
static pf_status cross(pf_ctx *c, crossing *x) {
  PF_TRY(open_columns(c, x));
  PF_TRY(count_crosses(c, x));
  int64_t pairs[2] = {x->crosses, 2}, two = 2;
  pf_bytes text = {0};
  DLTensor *where = c->host->output(c, 0, pairs, 2);
  DLTensor *values = c->host->output(c, 1, &x->crosses, 1);
  DLTensor *shape = c->host->output(c, 2, &two, 1);
  if (!where || !values || !shape) return PF_RESOURCE_EXHAUSTED;
  PF_DATA(int64_t, shape)[0] = x->batch;
  PF_DATA(int64_t, shape)[1] = x->longest;
  pf_status st = write_rows(c, x, PF_DATA(int64_t, where), values, &text);
  pf_bytes_free(&text);
  return st;
}
static pf_status sparse_cross(pf_ctx *c, const void *state) {
  const cross_state *s = state;
  crossing x = {.between = {"_X_", 3},
                .buckets = (uint64_t)s->num_buckets,
                .start = (uint64_t)s->hash_key,
                .hashed = s->hashed};
  if (s->num_buckets < 0)
    return PF_INVALID(c, "num_buckets must be >= 0, got %" PRId64, s->num_buckets);
  if (s->hashed != (s->out_type == PF_INT64))
    return PF_INVALID(c, "out_type must be int64 with hashed_output and string without");
  return cross(c, &x);
}
static pf_status sparse_cross_texts(pf_ctx *c, const void *state) {
  crossing x = {.hashed = 0};
  const DLTensor *between = c->in[c->in_start[OPTIONS]];
  (void)state;
  if (between->ndim != 0)
    return PF_INVALID(c, "sep must be a scalar, got shape %s", PF_SHAPE(between).s);
  PF_TRY(c->host->str_get(between, 0, &x.between));
  return cross(c, &x);
}
static pf_status sparse_cross_hashed(pf_ctx *c, const void *state) {
  crossing x = {.hashed = 1, .keyed = 1};
  int32_t at = c->in_start[OPTIONS];
  const DLTensor *salt = c->in[at + 2];
  int64_t buckets;
  (void)state;
  PF_TRY(pf_in_scalar(c, at, "num_buckets", &buckets));
  if (buckets < 0) return PF_INVALID(c, "num_buckets must be >= 0, got %" PRId64, buckets);
  if (c->in[at + 1]->ndim != 0)
    return PF_INVALID(c, "strong_hash must be a scalar, got shape %s", PF_SHAPE(c->in[at + 1]).s);
  if (salt->ndim != 1 || salt->shape[0] != 2)
    return PF_INVALID(c, "salt must have shape [2], got %s", PF_SHAPE(salt).s);
  x.buckets = (uint64_t)buckets;
  x.strong = PF_DATA(const uint8_t, c->in[at + 1])[0];
  for (int i = 0; i < 2; i++) x.key[i] = (uint64_t)PF_DATA(const int64_t, salt)[i];
  return cross(c, &x);
}

const pf_kernel *const sparse_cross_kernels[] = {
  PF_CPU_LONG("SparseCross", NULL, .compute = sparse_cross, .state_size = sizeof(cross_state),
              .attrs = PF_ATTRS(
                  PF_ATTR(cross_state, PF_ATTR_INT, num_buckets),
                  PF_ATTR(cross_state, PF_ATTR_INT, hash_key),
                  PF_ATTR(cross_state, PF_ATTR_TYPE, out_type),
                  PF_REF(pf_attr, "hashed_output", PF_ATTR_BOOL, offsetof(cross_state, hashed)))),
  PF_CPU_LONG("SparseCrossV2", NULL, .compute = sparse_cross_texts),
  PF_CPU_LONG("SparseCrossHashed", NULL, .compute = sparse_cross_hashed), NULL};
