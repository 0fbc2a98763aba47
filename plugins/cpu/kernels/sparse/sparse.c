/* sparse.c - sparse tensors as lists of places: SparseReorder, SparseReshape, SparseSplit,
 * SparseConcat, SparseSlice(+Grad), SparseFillEmptyRows(+Grad).
 *
 * Invariants
 *   1. Values are only moved, so every element type works, strings included.
 *   2. Places are compared and moved, never used as addresses, but a row's number to fill empty
 *      rows.
 * Threads: one per call.
 */
#include "sparse/sparse.h"

static pf_status copy_value(pf_ctx *c, DLTensor *y, int64_t to, const DLTensor *x, int64_t from,
                            int32_t type) {
  return pf_copy_run(c, y, to, x, from, 1, pf_type_size(type));
}
#define ROW_BYTES(rank) (sizeof(int64_t) * (size_t)(rank))
static void copy_row(int64_t *to, const int64_t *from, int32_t rank) {
  if (rank) memcpy(to, from, ROW_BYTES(rank));
}

/* ---------------------------------------------------------------- SparseReorder */
static pf_status reorder(pf_ctx *c, const void *state) {
  coo s;
  coo_out y;
  int64_t *order, all;
  (void)state;
  PF_TRY(pf_coo_anywhere(c, 0, 1, 2, "input", &s));
  PF_TRY(pf_coo_numel(c, s.dims, s.rank, &all));
  PF_TRY(pf_coo_order(c, &s, &order));
  PF_TRY(pf_coo_output(c, 0, 1, -1, s.n, NULL, s.rank, &y));
  for (int64_t i = 0; i < s.n; i++)
    for (int32_t k = 0; k < s.rank; k++) y.at[i * s.rank + k] = s.at[order[i] * s.rank + k];
  if (pf_type_size(s.type) == 4)
    for (int64_t i = 0; i < s.n; i++)
      PF_DATA(uint32_t, y.values)[i] = PF_DATA(const uint32_t, s.values)[order[i]];
  else
    for (int64_t i = 0; i < s.n; i++)
      PF_TRY(copy_value(c, y.values, i, s.values, order[i], s.type));
  return PF_OK;
}

/* ---------------------------------------------------------------- SparseReshape */
/* one size may be -1; the product must be `all` */
static pf_status resolve(pf_ctx *c, int64_t *dims, int32_t rank, int64_t all) {
  int32_t open = -1;
  int64_t known = 1;
  for (int32_t k = 0; k < rank; k++) {
    if (dims[k] == -1) {
      if (open >= 0)
        return PF_INVALID(c, "only one output dimension may be -1, not both %d and %d", open, k);
      open = k;
    } else if (dims[k] < 0) {
      return PF_INVALID(c, "size %d must be non-negative, not %" PRId64, k, dims[k]);
    } else if (!pf_mul(known, dims[k], &known)) {
      return PF_INVALID(c, "new_shape has too many elements");
    }
  }
  if (open >= 0) {
    if (known == 0)
      return PF_INVALID(c, "reshape cannot infer the missing input size for an empty tensor unless "
                           "all specified input sizes are non-zero");
    if (all % known)
      return PF_INVALID(c,
                        "Input to reshape is a SparseTensor with %" PRId64
                        " dense values, but the requested shape requires a multiple of %" PRId64,
                        all, known);
    dims[open] = all / known, known = all;
  }
  if (known != all)
    return PF_INVALID(c,
                      "Input to reshape is a tensor with %" PRId64
                      " dense values, but the requested shape has %" PRId64,
                      all, known);
  return PF_OK;
}
static pf_status reshape(pf_ctx *c, const void *state) {
  coo s;
  int64_t dims[PF_MAX_DIMS], in_step[PF_MAX_DIMS], out_step[PF_MAX_DIMS], all = 0, rows[2], width;
  int32_t rank;
  (void)state;
  PF_TRY(pf_coo_anywhere(c, 0, -1, 1, "input", &s));
  if (c->in[2]->ndim != 1)
    return PF_INVALID(c, "Target shape should be a vector but received shape %s",
                      PF_SHAPE(c->in[2]).s);
  PF_TRY(pf_in_vector(c, 2, "new_shape", dims, &rank));
  PF_TRY(pf_coo_numel(c, s.dims, s.rank, &all));
  PF_TRY(resolve(c, dims, rank, all));
  rows[0] = s.n, rows[1] = width = rank;
  DLTensor *y = pf_output_checked(c, 0, rows, 2), *shape;
  PF_EXHAUSTED(y);
  shape = c->host->output(c, 1, &width, 1);
  PF_EXHAUSTED(shape);
  copy_row(PF_DATA(int64_t, shape), dims, rank);
  pf_row_major(s.dims, s.rank, in_step);
  pf_row_major(dims, rank, out_step);
  for (int64_t i = 0; i < s.n; i++) {
    uint64_t sum = 0;
    for (int32_t k = 0; k < s.rank; k++)
      sum += (uint64_t)s.at[i * s.rank + k] * (uint64_t)in_step[k];
    int64_t flat = (int64_t)sum;
    for (int32_t k = 0; k < rank; k++) {
      int64_t step = PF_MAX(out_step[k], 1);
      PF_DATA(int64_t, y)[i * rank + k] = flat / step;
      flat %= step;
    }
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- SparseSlice, SparseSplit */
/* output numbers oi, ov, os: what lies in the box [lo, hi), moved to the origin */
static pf_status cut(pf_ctx *c, const coo *s, const int64_t *lo, const int64_t *hi, int32_t oi,
                     int32_t ov, int32_t os) {
  int64_t n = 0, dims[PF_MAX_DIMS];
  coo_out y = {0};
  for (int32_t k = 0; k < s->rank; k++) dims[k] = hi[k] - lo[k];
  for (int32_t pass = 0; pass < 2; pass++) {
    int64_t found = 0;
    for (int64_t i = 0; i < s->n; i++) {
      const int64_t *row = s->at + i * s->rank;
      int inside = 1;
      for (int32_t k = 0; inside && k < s->rank; k++) inside = row[k] >= lo[k] && row[k] < hi[k];
      if (!inside) continue;
      if (pass) {
        for (int32_t k = 0; k < s->rank; k++) y.at[found * s->rank + k] = row[k] - lo[k];
        PF_TRY(copy_value(c, y.values, found, s->values, i, s->type));
      }
      found++;
    }
    n = found;
    if (!pass) PF_TRY(pf_coo_output(c, oi, ov, os, n, dims, s->rank, &y));
  }
  return PF_OK;
}
static pf_status slice(pf_ctx *c, const void *state) {
  coo s;
  int64_t lo[PF_MAX_DIMS], hi[PF_MAX_DIMS];
  int32_t nl, nh;
  (void)state;
  PF_TRY(pf_coo_anywhere(c, 0, 1, 2, "input", &s));
  if (c->in[3]->ndim != 1 || c->in[4]->ndim != 1)
    return PF_INVALID(c, "start and size must be vectors, got shapes %s and %s",
                      PF_SHAPE(c->in[3]).s, PF_SHAPE(c->in[4]).s);
  PF_TRY(pf_in_vector(c, 3, "start", lo, &nl));
  PF_TRY(pf_in_vector(c, 4, "size", hi, &nh));
  if (nl != s.rank || nh != s.rank)
    return PF_INVALID(c, "start and size must have %d elements, one per dimension, got %d and %d",
                      s.rank, nl, nh);
  for (int32_t k = 0; k < s.rank; k++) {
    if (lo[k] < 0 || hi[k] < 0)
      return PF_INVALID(c,
                        "start and size must be non-negative, got %" PRId64 " and %" PRId64
                        " for dimension %d",
                        lo[k], hi[k], k);
    lo[k] = PF_MIN(lo[k], s.dims[k]);
    hi[k] = lo[k] + PF_MIN(hi[k], s.dims[k] - lo[k]);
  }
  return cut(c, &s, lo, hi, 0, 1, 2);
}
static pf_status slice_grad(pf_ctx *c, const void *state) {
  const DLTensor *dy = c->in[0], *in = c->in[1], *start = c->in[2], *out = c->in[3];
  int32_t type = c->in_type[0];
  (void)state;
  if (dy->ndim != 1 || in->ndim != 2 || start->ndim != 1 || out->ndim != 2)
    return PF_INVALID(c,
                      "gradients and start must be vectors, indices matrices; got %s, %s, %s, %s",
                      PF_SHAPE(dy).s, PF_SHAPE(in).s, PF_SHAPE(start).s, PF_SHAPE(out).s);
  int64_t rank = in->shape[1], n = in->shape[0], m = out->shape[0], next = 0, es;
  if (out->shape[1] != rank || start->shape[0] != rank || dy->shape[0] != m)
    return PF_INVALID(c,
                      "the ranks of the indices %s and %s and of start %s, or the number of "
                      "gradients %s, do not fit",
                      PF_SHAPE(in).s, PF_SHAPE(out).s, PF_SHAPE(start).s, PF_SHAPE(dy).s);
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  es = pf_type_size(type);
  if (n) memset(PF_DATA(char, y), 0, (size_t)(n * es));
  const int64_t *a = PF_DATA(const int64_t, in), *b = PF_DATA(const int64_t, out);
  for (int64_t i = 0; i < n && next < m; i++) {
    int same = 1;
    for (int64_t k = 0; same && k < rank; k++) {
      int64_t moved;
      same = !__builtin_sub_overflow(a[i * rank + k], PF_DATA(const int64_t, start)[k], &moved) &&
             moved == b[next * rank + k];
    }
    if (!same) continue;
    memcpy(PF_DATA(char, y) + i * es, PF_DATA(const char, dy) + next * es, (size_t)es);
    next++;
  }
  if (next < m)
    return PF_INVALID(c, "only %" PRId64 " of %" PRId64 " gradients belong to a place of the input",
                      next, m);
  return PF_OK;
}
typedef struct { int64_t num_split; } split_state;
static pf_status split(pf_ctx *c, const void *state) {
  int64_t parts = ((const split_state *)state)->num_split, axis, lo[PF_MAX_DIMS], hi[PF_MAX_DIMS];
  coo s;
  PF_TRY(pf_in_scalar(c, 0, "split_dim", &axis));
  PF_TRY(pf_coo_input(c, 1, 2, 3, "input", &s));
  if (axis < 0 || axis >= s.rank)
    return PF_INVALID(c, "Input split_dim should be between 0 and rank (%d), got %" PRId64, s.rank,
                      axis);
  if (parts < 1 || parts > s.dims[axis])
    return PF_INVALID(
        c,
        "Input num_split should be between 1 and the splitting dimension size (%" PRId64
        "), got %" PRId64,
        s.dims[axis], parts);
  int64_t size = s.dims[axis] / parts, more = s.dims[axis] % parts, at = 0;
  for (int32_t k = 0; k < s.rank; k++) lo[k] = 0, hi[k] = s.dims[k];
  for (int64_t i = 0; i < parts; i++) {
    lo[axis] = at, hi[axis] = at += size + (i < more);
    PF_TRY(cut(c, &s, lo, hi, c->out_start[0] + (int32_t)i, c->out_start[1] + (int32_t)i,
               c->out_start[2] + (int32_t)i));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- SparseConcat */
typedef struct { int64_t concat_dim; } concat_state;
static pf_status concat(pf_ctx *c, const void *state) {
  int32_t parts = c->in_start[1] - c->in_start[0], axis = 0;
  int64_t n = 0, dims[PF_MAX_DIMS];
  coo *s = c->host->scratch(c, sizeof(coo) * (uint64_t)parts + 8, 64);
  PF_EXHAUSTED(s);
  for (int32_t i = 0; i < parts; i++) {
    PF_TRY(pf_coo_anywhere(c, c->in_start[0] + i, c->in_start[1] + i, c->in_start[2] + i, "input",
                           &s[i]));
    if (s[i].rank != s[0].rank)
      return PF_INVALID(c,
                        "Ranks of all input tensors must match: expected %d but got %d at "
                        "position %d",
                        s[0].rank, s[i].rank, i);
    if (i == 0) {
      PF_TRY(pf_axis(c, ((const concat_state *)state)->concat_dim, s[0].rank, "concat_dim", &axis));
      copy_row(dims, s[0].dims, s[0].rank);
    }
    for (int32_t k = 0; i && k < s[0].rank; k++) {
      if (k != axis && dims[k] != s[i].dims[k])
        return PF_INVALID(c,
                          "Input shapes must match: expected %" PRId64 " for dimension %d but "
                          "got %" PRId64 " at position %d",
                          dims[k], k, s[i].dims[k], i);
      if (k == axis && __builtin_add_overflow(dims[k], s[i].dims[k], &dims[k]))
        return PF_INVALID(c, "the concatenated dimension %d overflows", k);
    }
    n += s[i].n;
  }
  coo_out y;
  int32_t rank = s[0].rank;
  PF_TRY(pf_coo_output(c, 0, 1, 2, n, dims, rank, &y));
  int64_t *rows = c->host->scratch(c, (uint64_t)(n * (rank + 2)) * 8 + 16, 64);
  PF_EXHAUSTED(rows);
  int64_t *order = rows + n * rank, at = 0, offset = 0;
  for (int32_t i = 0; i < parts; offset += s[i++].dims[axis])
    for (int64_t r = 0; r < s[i].n; r++, at++) {
      copy_row(rows + at * rank, s[i].at + r * rank, rank);
      int64_t *moved = &rows[at * rank + axis];
      *moved = (int64_t)((uint64_t)*moved + (uint64_t)offset);
    }
  pf_row_order(rows, n, rank, rank, order, order + n);
  for (int64_t r = 0; r < n; r++) {
    int64_t from = order[r], i = 0;
    copy_row(y.at + r * rank, rows + from * rank, rank);
    while (from >= s[i].n) from -= s[i++].n;
    PF_TRY(copy_value(c, y.values, r, s[i].values, from, s[i].type));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- SparseFillEmptyRows */
static pf_status fill_empty_rows(pf_ctx *c, const void *state) {
  coo s;
  coo_out y;
  int64_t empty = 0;
  (void)state;
  const int64_t rank = c->in[2]->ndim == 1 ? c->in[2]->shape[0] : 1;
  if (rank < 1) return PF_INVALID(c, "Dense shape cannot be empty");
  PF_TRY(pf_coo_bounded(c, 0, 1, 2, "input", (int32_t)PF_MIN(rank - 1, PF_MAX_DIMS), &s));
  if (c->in[3]->ndim != 0)
    return PF_INVALID(c, "default_value must be a scalar, saw shape %s", PF_SHAPE(c->in[3]).s);
  int64_t rows = s.dims[0], bytes;
  DLTensor *flags = pf_output_checked(c, 2, &rows, 1), *back;
  PF_EXHAUSTED(flags);
  back = c->host->output(c, 3, &s.n, 1);
  PF_EXHAUSTED(back);
  if (!pf_mul(rows, 8, &bytes)) return PF_INVALID(c, "too many rows: %" PRId64, rows);
  int64_t *next = c->host->scratch(c, (uint64_t)bytes + 8, 64); /* where a row's next value goes */
  PF_EXHAUSTED(next);
  uint8_t *flag = PF_DATA(uint8_t, flags);
  for (int64_t r = 0; r < rows; r++) next[r] = 0;
  for (int64_t i = 0; i < s.n; i++) next[s.at[i * s.rank]]++;
  for (int64_t r = 0, at = 0; r < rows; r++) {
    int64_t count = next[r];
    flag[r] = count == 0, empty += count == 0;
    next[r] = at, at += count ? count : 1;
  }
  PF_TRY(pf_coo_output(c, 0, 1, -1, s.n + empty, NULL, s.rank, &y));
  for (int64_t i = 0; i < s.n; i++) {
    int64_t to = next[s.at[i * s.rank]]++;
    copy_row(y.at + to * s.rank, s.at + i * s.rank, s.rank);
    PF_TRY(copy_value(c, y.values, to, s.values, i, s.type));
    PF_DATA(int64_t, back)[i] = to;
  }
  for (int64_t r = 0; r < rows; r++) {
    if (!flag[r]) continue;
    for (int32_t k = 0; k < s.rank; k++) y.at[next[r] * s.rank + k] = k ? 0 : r;
    PF_TRY(copy_value(c, y.values, next[r], c->in[3], 0, s.type));
  }
  return PF_OK;
}
static pf_status fill_empty_rows_grad(pf_ctx *c, const void *state) {
  const DLTensor *map = c->in[0], *dy = c->in[1];
  int32_t type = c->in_type[1];
  int64_t es = pf_type_size(type);
  (void)state;
  if (map->ndim != 1 || dy->ndim != 1)
    return PF_INVALID(c, "reverse_index_map and grad_values must be vectors, got %s and %s",
                      PF_SHAPE(map).s, PF_SHAPE(dy).s);
  int64_t n = map->shape[0], m = dy->shape[0];
  DLTensor *dx = c->host->output(c, 0, &n, 1), *rest;
  PF_EXHAUSTED(dx);
  rest = c->host->output(c, 1, NULL, 0);
  PF_EXHAUSTED(rest);
  uint8_t *seen = c->host->scratch(c, (uint64_t)m + 8, 8);
  PF_EXHAUSTED(seen);
  memset(seen, 0, (size_t)m);
  memset(PF_DATA(char, rest), 0, (size_t)es);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = PF_DATA(const int64_t, map)[i];
    if (from < 0 || from >= m)
      return PF_INVALID(c, "Elements in reverse index must be in [0, %" PRId64 ") but got %" PRId64,
                        m, from);
    memcpy(PF_DATA(char, dx) + i * es, PF_DATA(const char, dy) + from * es, (size_t)es);
    seen[from] = 1;
  }
  for (int64_t i = 0; i < m; i++)
    if (!seen[i]) pf_add_element(type, PF_DATA(void, rest), 0, PF_DATA(void, dy), i);
  return PF_OK;
}

const pf_kernel *const sparse_kernels[] = {
  PF_CPU("SparseReorder", NULL, .compute = reorder),
  PF_CPU("SparseReshape", NULL, .compute = reshape),
  PF_CPU("SparseSlice", NULL, .compute = slice),
  PF_CPU("SparseSliceGrad", "T=" PF_NUMBERS, .compute = slice_grad),
  PF_CPU("SparseSplit", NULL, .compute = split, .state_size = sizeof(split_state),
         .attrs = PF_ATTRS(PF_ATTR(split_state, PF_ATTR_INT, num_split))),
  PF_CPU("SparseConcat", NULL, .compute = concat, .state_size = sizeof(concat_state),
         .attrs = PF_ATTRS(PF_ATTR(concat_state, PF_ATTR_INT, concat_dim))),
  PF_CPU("SparseFillEmptyRows", NULL, .compute = fill_empty_rows),
  PF_CPU("SparseFillEmptyRowsGrad", "T=" PF_NUMBERS, .compute = fill_empty_rows_grad),
  NULL};
