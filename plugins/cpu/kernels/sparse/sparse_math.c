/* sparse_math.c - arithmetic on sparse tensors: SparseAdd(+Grad), SparseSparseMaximum/Minimum,
 * SparseTensorDenseAdd, SparseDenseCwiseAdd/Mul/Div, SparseReduceSum/Max(+Sparse), SparseSoftmax,
 * SparseTensorDenseMatMul, SparseMatMul.
 *
 * Invariants
 *   1. Two sparse operands are merged as if in order (sparse.h); out of order they give each place
 *      of both.
 *   2. Reductions add in the order of the values; an absent place counts as nothing, not as 0.
 * Threads: one per call.
 */
#include <complex.h>
#include <stdlib.h>
#include "sparse/sparse.h"

/* ---------------------------------------------------------------- two operands of one shape */
static pf_status pair(pf_ctx *c, int32_t loose, coo *a, coo *b) {
  PF_TRY(pf_coo_bounded(c, 0, 1, 2, "a", loose, a));
  PF_TRY(pf_coo_bounded(c, 3, 4, 5, "b", loose, b));
  if (a->rank != b->rank || pf_row_compare(a->dims, b->dims, a->rank))
    return PF_INVALID(c, "Operands' shapes do not match: %s and %s",
                      pf_shape_text(a->dims, a->rank).s, pf_shape_text(b->dims, b->rank).s);
  return PF_OK;
}
/* The next place of the merge: < 0 from a, > 0 from b, 0 from both. */
static int turn_of(const coo *a, const coo *b, int64_t i, int64_t j) {
  if (i >= a->n) return 1;
  if (j >= b->n) return -1;
  return pf_row_compare(a->at + i * a->rank, b->at + j * b->rank, a->rank);
}
static double size_of(const void *x, int32_t type) {
  switch (type) {
    case PF_FLOAT32: return fabsf(*(const float *)x);
    case PF_FLOAT64: return fabs(*(const double *)x);
    case PF_COMPLEX64: return cabsf(*(const float _Complex *)x);
    case PF_COMPLEX128: return cabs(*(const double _Complex *)x);
    case PF_FLOAT16: return fabsf(pf_from_half(*(const uint16_t *)x));
    case PF_BFLOAT16: return fabsf(pf_from_bf16(*(const uint16_t *)x));
    case PF_UINT64: return (double)*(const uint64_t *)x;
    case PF_UINT32: return *(const uint32_t *)x;
    default: break;
  }
  switch (pf_type_size(type)) {
    case 1: return type == PF_UINT8 ? *(const uint8_t *)x : abs(*(const int8_t *)x);
    case 2: return type == PF_UINT16 ? *(const uint16_t *)x : abs(*(const int16_t *)x);
    case 4: return fabs((double)*(const int32_t *)x);
    default: return fabs((double)*(const int64_t *)x);
  }
}
static pf_status sparse_add(pf_ctx *c, const void *state) {
  coo a, b;
  coo_out y;
  (void)state;
  PF_TRY(pair(c, PF_MAX_DIMS, &a, &b));
  if (c->in[6]->ndim != 0)
    return PF_INVALID(c, "The magnitude threshold must be a scalar: got shape %s",
                      PF_SHAPE(c->in[6]).s);
  double least = size_of(PF_DATA(void, c->in[6]), c->in_type[6]);
  int32_t type = a.type;
  int64_t es = pf_type_size(type), n = 0, most = a.n + b.n;
  char *sum = c->host->scratch(c, (uint64_t)(most * es) + 16, 64);
  PF_EXHAUSTED(sum);
  /* rows of a, or -1 - row of b */
  int64_t *from = c->host->scratch(c, (uint64_t)most * 8 + 16, 64);
  PF_EXHAUSTED(from);
  for (int64_t i = 0, j = 0; i < a.n || j < b.n;) {
    int turn = turn_of(&a, &b, i, j);
    char *s = sum + n * es;
    from[n] = turn <= 0 ? i : -1 - j;
    memset(s, 0, (size_t)es);
    if (turn <= 0) pf_add_element(type, s, 0, PF_DATA(void, a.values), i++);
    if (turn >= 0) pf_add_element(type, s, 0, PF_DATA(void, b.values), j++);
    /* what one operand alone has stays, as in TensorFlow */
    if (turn || least <= size_of(s, type)) n++;
  }
  PF_TRY(pf_coo_output(c, 0, 1, 2, n, a.dims, a.rank, &y));
  if (n) memcpy(PF_DATA(char, y.values), sum, (size_t)(n * es));
  for (int64_t r = 0; r < n && a.rank; r++)
    memcpy(y.at + r * a.rank,
           from[r] >= 0 ? a.at + from[r] * a.rank : b.at + (-1 - from[r]) * b.rank,
           sizeof(int64_t) * (size_t)a.rank);
  return PF_OK;
}
/* One operand's places, walked along with the sum's. */
typedef struct {
  const int64_t *at;
  int64_t i, n;
  char *dx;
} walked;
/* A place that is the sum's k-th takes its gradient; 0: it is before that, and is passed. */
static int walk(walked *w, const int64_t *sum, const char *dy, int32_t rank, int64_t es) {
  if (w->i >= w->n) return 1;
  const int d = pf_row_compare(w->at + w->i * rank, sum, rank);
  if (d == 0) memcpy(w->dx + w->i * es, dy, (size_t)es);
  w->i += d <= 0;
  return d >= 0;
}
static pf_status sparse_add_grad(pf_ctx *c, const void *state) {
  (void)state;
  if (c->in[0]->ndim != 1 || c->in[1]->ndim != 2 || c->in[2]->ndim != 2 || c->in[3]->ndim != 2)
    return PF_INVALID(c,
                      "backprop_val_grad must be a vector and the indices matrices, got %s, %s, "
                      "%s, %s",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(c->in[1]).s, PF_SHAPE(c->in[2]).s,
                      PF_SHAPE(c->in[3]).s);
  int64_t rank = c->in[1]->shape[1];
  if (rank != c->in[2]->shape[1] || rank != c->in[3]->shape[1] || rank > INT32_MAX)
    return PF_INVALID(c, "the ranks of the indices differ: %s, %s, %s", PF_SHAPE(c->in[1]).s,
                      PF_SHAPE(c->in[2]).s, PF_SHAPE(c->in[3]).s);
  if (c->in[0]->shape[0] != c->in[3]->shape[0])
    return PF_INVALID(c,
                      "# of elements of backprop_val_grad and of rows of sum_indices should be "
                      "equal: %" PRId64 " and %" PRId64,
                      c->in[0]->shape[0], c->in[3]->shape[0]);
  const int64_t es = pf_type_size(c->in_type[0]), m = c->in[3]->shape[0];
  walked w[2];
  for (int32_t o = 0; o < 2; o++) {
    const DLTensor *at = c->in[1 + o];
    DLTensor *dx = c->host->output(c, o, at->shape, 1);
    PF_EXHAUSTED(dx);
    w[o] = (walked){PF_DATA(const int64_t, at), 0, at->shape[0], PF_DATA(char, dx)};
    if (w[o].n) memset(w[o].dx, 0, (size_t)(w[o].n * es));
  }
  /* both at once: out of order the sum has the places as their merge came to them (sparse_add) */
  for (int64_t k = 0; k < m && (w[0].i < w[0].n || w[1].i < w[1].n);) {
    const int64_t *place = PF_DATA(const int64_t, c->in[3]) + k * rank;
    const char *dy = PF_DATA(const char, c->in[0]) + k * es;
    const int first = walk(&w[0], place, dy, (int32_t)rank, es);
    const int second = walk(&w[1], place, dy, (int32_t)rank, es);
    k += first && second;
  }
  return PF_OK;
}
static pf_status extremum(pf_ctx *c, int greatest) {
  coo a, b;
  coo_out y;
  int64_t n = 0, es;
  char zero[16] = {0};
  PF_TRY(pair(c, 0, &a, &b));
  es = pf_type_size(a.type);
  for (int64_t i = 0, j = 0; i < a.n || j < b.n; n++) {
    int turn = turn_of(&a, &b, i, j);
    i += turn <= 0, j += turn >= 0;
  }
  PF_TRY(pf_coo_output(c, 0, 1, -1, n, NULL, a.rank, &y));
  n = 0;
  for (int64_t i = 0, j = 0; i < a.n || j < b.n; n++) {
    int turn = turn_of(&a, &b, i, j);
    const char *x = turn <= 0 ? PF_DATA(const char, a.values) + i * es : zero;
    const char *z = turn >= 0 ? PF_DATA(const char, b.values) + j * es : zero;
    int first =
        greatest ? !pf_less_element(a.type, x, 0, z, 0) : !pf_less_element(a.type, z, 0, x, 0);
    memcpy(PF_DATA(char, y.values) + n * es, first ? x : z, (size_t)es);
    if (a.rank)
      memcpy(y.at + n * a.rank, turn <= 0 ? a.at + i * a.rank : b.at + j * b.rank,
             sizeof(int64_t) * (size_t)a.rank);
    i += turn <= 0, j += turn >= 0;
  }
  return PF_OK;
}
static pf_status maximum(pf_ctx *c, const void *state) {
  (void)state;
  return extremum(c, 1);
}
static pf_status minimum(pf_ctx *c, const void *state) {
  (void)state;
  return extremum(c, 0);
}

/* ---------------------------------------------------------------- a sparse and a dense operand */
static pf_status tensor_dense_add(pf_ctx *c, const void *state) {
  const DLTensor *at = c->in[0], *values = c->in[1], *dims = c->in[2], *b = c->in[3];
  int64_t step[PF_MAX_DIMS], size[PF_MAX_DIMS];
  int32_t type = c->in_type[1], rank;
  (void)state;
  if (at->ndim != 2 || values->ndim != 1 || dims->ndim != 1 || at->shape[0] != values->shape[0] ||
      at->shape[1] != dims->shape[0])
    return PF_INVALID(c, "a is no sparse tensor: indices %s, values %s, shape %s", PF_SHAPE(at).s,
                      PF_SHAPE(values).s, PF_SHAPE(dims).s);
  PF_TRY(pf_in_vector(c, 2, "a_shape", size, &rank));
  if (!pf_same_dims(size, rank, b->shape, b->ndim))
    return PF_INVALID(c, "the shapes of a %s and b %s differ", pf_shape_text(size, rank).s,
                      PF_SHAPE(b).s);
  DLTensor *y = c->host->output(c, 0, b->shape, b->ndim);
  PF_EXHAUSTED(y);
  int64_t bytes = pf_numel(b) * pf_type_size(type);
  if (bytes) memcpy(PF_DATA(char, y), PF_DATA(const char, b), (size_t)bytes);
  pf_row_major(b->shape, rank, step);
  for (int64_t i = 0; i < at->shape[0]; i++) {
    int64_t flat = 0;
    for (int32_t k = 0; k < rank; k++) {
      int64_t x = pf_in_index(c, 0, i * rank + k);
      if (x < 0 || x >= size[k])
        return PF_INVALID(c,
                          "a_indices[%" PRId64 ", %d] = %" PRId64 " is out of bounds: need 0 <= "
                          "index < %" PRId64,
                          i, k, x, size[k]);
      flat += x * step[k];
    }
    pf_add_element(type, PF_DATA(void, y), flat, PF_DATA(void, values), i);
  }
  return PF_OK;
}
enum { ADD, MUL, DIV };
#define CWISE_FLOAT(TYPE, T, TAG) case TYPE: { \
    T a = ((const T *)x)[i], b = ((const T *)d)[j]; \
    ((T *)y)[i] = op == ADD ? a + b : op == MUL ? a * b : a / b; \
    return 1; }
#define CWISE_INT(TYPE, T, TAG) case TYPE: { \
    T a = ((const T *)x)[i], b = ((const T *)d)[j]; \
    uint64_t u = (uint64_t)a, v = (uint64_t)b; \
    if (op == DIV && b == 0) return 0; \
    ((T *)y)[i] = (T)(op == ADD ? u + v : op == MUL ? u * v : (T)-1 < (T)1 && b == (T)-1 ? 0 - u \
                                                                 : (uint64_t)(a / b)); \
    return 1; }
static int combine(int op, int32_t type, void *y, const void *x, int64_t i, const void *d,
                   int64_t j) {
  switch (type) {
    PF_EACH_FLOAT(CWISE_FLOAT)
    CWISE_FLOAT(PF_COMPLEX64, float _Complex, )
    CWISE_FLOAT(PF_COMPLEX128, double _Complex, )
    PF_EACH_INT(CWISE_INT)
    default: break;
  }
  float a, b, r;
  pf_half_to_float(type, (const uint16_t *)x + i, &a, 1);
  pf_half_to_float(type, (const uint16_t *)d + j, &b, 1);
  r = op == ADD ? a + b : op == MUL ? a * b : a / b;
  pf_float_to_half(type, &r, (uint16_t *)y + i, 1);
  return 1;
}
static pf_status cwise(pf_ctx *c, int op) {
  const DLTensor *d = c->in[3];
  int64_t step[PF_MAX_DIMS];
  coo s;
  PF_TRY(pf_coo_input(c, 0, 1, 2, "sp", &s));
  if (d->ndim > s.rank)
    return PF_INVALID(c, "the dense operand %s has more dimensions than the sparse one %s",
                      PF_SHAPE(d).s, pf_shape_text(s.dims, s.rank).s);
  pf_row_major(d->shape, d->ndim, step);
  int32_t extra = s.rank - d->ndim;
  for (int32_t k = 0; k < d->ndim; k++) {
    if (d->shape[k] != 1 && d->shape[k] != s.dims[k + extra])
      return PF_INVALID(c,
                        "SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                        "incompatible shapes: [%s] vs. [%s]",
                        pf_shape_text(s.dims, s.rank).s, PF_SHAPE(d).s);
    if (d->shape[k] == 1) step[k] = 0;
  }
  DLTensor *y = c->host->output(c, 0, &s.n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < s.n; i++) {
    int64_t at = 0;
    for (int32_t k = 0; k < d->ndim; k++) at += s.at[i * s.rank + k + extra] * step[k];
    if (!combine(op, s.type, PF_DATA(void, y), PF_DATA(void, s.values), i, PF_DATA(void, d), at))
      return PF_INVALID(c, "Integer division by zero");
  }
  return PF_OK;
}
static pf_status cwise_add(pf_ctx *c, const void *state) {
  (void)state;
  return cwise(c, ADD);
}
static pf_status cwise_mul(pf_ctx *c, const void *state) {
  (void)state;
  return cwise(c, MUL);
}
static pf_status cwise_div(pf_ctx *c, const void *state) {
  (void)state;
  return cwise(c, DIV);
}

/* ---------------------------------------------------------------- reductions */
typedef struct { int32_t keep_dims; } reduce_state;
typedef struct {
  coo s;
  int32_t kept[PF_MAX_DIMS], out_rank;
  int64_t dims[PF_MAX_DIMS];
} reduction;
static pf_status begin_reduction(pf_ctx *c, int keep, reduction *r) {
  int64_t axes[PF_MAX_DIMS];
  int32_t n, axis;
  PF_TRY(pf_coo_anywhere(c, 0, 1, 2, "input", &r->s));
  PF_TRY(pf_in_vector(c, 3, "reduction_axes", axes, &n));
  for (int32_t k = 0; k < r->s.rank; k++) r->kept[k] = 1;
  for (int32_t i = 0; i < n; i++) {
    PF_TRY(pf_axis(c, axes[i], r->s.rank, "reduction axis", &axis));
    r->kept[axis] = 0;
  }
  r->out_rank = 0;
  for (int32_t k = 0; k < r->s.rank; k++)
    if (r->kept[k] || keep) r->dims[r->out_rank++] = r->kept[k] ? r->s.dims[k] : 1;
  return PF_OK;
}
static void reduce_element(int sum, int first, int32_t type, char *y, int64_t i, const char *x,
                           int64_t j) {
  int64_t es = pf_type_size(type);
  if (first) memcpy(y + i * es, x + j * es, (size_t)es);
  else if (sum) pf_add_element(type, y, i, x, j);
  else if (pf_less_element(type, y, i, x, j)) memcpy(y + i * es, x + j * es, (size_t)es);
}
static pf_status reduce_dense(pf_ctx *c, const void *state, int sum) {
  reduction r;
  int64_t step[PF_MAX_DIMS], n = 1;
  PF_TRY(begin_reduction(c, ((const reduce_state *)state)->keep_dims, &r));
  DLTensor *y = pf_output_checked(c, 0, r.dims, r.out_rank);
  PF_EXHAUSTED(y);
  int64_t m = pf_numel(y), es = pf_type_size(r.s.type);
  uint8_t *seen = c->host->scratch(c, (uint64_t)m + 8, 8);
  PF_EXHAUSTED(seen);
  memset(seen, 0, (size_t)m);
  if (m) memset(PF_DATA(char, y), 0, (size_t)(m * es));
  for (int32_t k = r.s.rank - 1; k >= 0; k--)
    step[k] = r.kept[k] ? n : 0, n *= r.kept[k] ? r.s.dims[k] : 1;
  for (int64_t i = 0; i < r.s.n; i++) {
    int64_t at = 0;
    for (int32_t k = 0; k < r.s.rank; k++) {
      const int64_t x = r.s.at[i * r.s.rank + k];
      if (r.kept[k] && (x < 0 || x >= r.s.dims[k]))
        return PF_INVALID(c,
                          "input indices[%" PRId64 ", %d] = %" PRId64
                          " is out of bounds: need 0 <= index < %" PRId64,
                          i, k, x, r.s.dims[k]);
      if (r.kept[k]) at += x * step[k];
    }
    reduce_element(sum, !seen[at], r.s.type, PF_DATA(char, y), at, PF_DATA(const char, r.s.values),
                   i);
    seen[at] = 1;
  }
  return PF_OK;
}
static pf_status reduce_sparse(pf_ctx *c, const void *state, int sum) {
  reduction r;
  coo_out y;
  int32_t keep = ((const reduce_state *)state)->keep_dims;
  PF_TRY(begin_reduction(c, keep, &r));
  int64_t n = r.s.n, groups = 0, w = r.out_rank;
  int64_t *rows = c->host->scratch(c, (uint64_t)(n * (w + 2)) * 8 + 16, 64), *order = rows + n * w;
  PF_EXHAUSTED(rows);
  for (int64_t i = 0; i < n; i++)
    for (int32_t k = 0, at = 0; k < r.s.rank; k++)
      if (r.kept[k] || keep) rows[i * w + at++] = r.kept[k] ? r.s.at[i * r.s.rank + k] : 0;
  pf_row_order(rows, n, (int32_t)w, (int32_t)w, order, order + n);
#define NEW_GROUP(i) \
  ((i) == 0 || pf_row_compare(rows + order[(i) - 1] * w, rows + order[i] * w, (int32_t)w))
  for (int64_t i = 0; i < n; i++) groups += NEW_GROUP(i);
  PF_TRY(pf_coo_output(c, 0, 1, 2, groups, r.dims, (int32_t)w, &y));
  for (int64_t i = 0, g = -1; i < n; i++) {
    int first = NEW_GROUP(i);
    g += first;
    if (first && w) memcpy(y.at + g * w, rows + order[i] * w, sizeof(int64_t) * (size_t)w);
    reduce_element(sum, first, r.s.type, PF_DATA(char, y.values), g,
                   PF_DATA(const char, r.s.values), order[i]);
  }
  return PF_OK;
}
static pf_status reduce_sum(pf_ctx *c, const void *s) { return reduce_dense(c, s, 1); }
static pf_status reduce_max(pf_ctx *c, const void *s) { return reduce_dense(c, s, 0); }
static pf_status reduce_sum_sparse(pf_ctx *c, const void *s) { return reduce_sparse(c, s, 1); }
static pf_status reduce_max_sparse(pf_ctx *c, const void *s) { return reduce_sparse(c, s, 0); }

/* ---------------------------------------------------------------- SparseSoftmax */
static double value_at(const DLTensor *t, int32_t type, int64_t i) {
  if (type == PF_FLOAT64) return PF_DATA(const double, t)[i];
  if (type == PF_FLOAT32) return PF_DATA(const float, t)[i];
  return pf_from_half(PF_DATA(const uint16_t, t)[i]);
}
/* The values come in the order of their places, as TensorFlow's. */
static pf_status softmax(pf_ctx *c, const void *state) {
  coo s;
  int64_t *order;
  (void)state;
  PF_TRY(pf_coo_anywhere(c, 0, 1, 2, "sp", &s));
  if (s.rank < 2) return PF_INVALID(c, "Input should have rank >= 2, got %d", s.rank);
  PF_TRY(pf_coo_order(c, &s, &order));
  DLTensor *y = c->host->output(c, 0, &s.n, 1);
  PF_EXHAUSTED(y);
#define VALUE(i) value_at(s.values, s.type, order[i])
  for (int64_t lo = 0, hi; lo < s.n; lo = hi) {
    double top = -INFINITY, sum = 0;
    for (hi = lo; hi < s.n &&
                  !pf_row_compare(s.at + order[lo] * s.rank, s.at + order[hi] * s.rank, s.rank - 1);
         hi++)
      top = PF_MAX(top, VALUE(hi));
    for (int64_t i = lo; i < hi; i++) sum += exp(VALUE(i) - top);
    for (int64_t i = lo; i < hi; i++) {
      double v = exp(VALUE(i) - top) / sum;
      if (s.type == PF_FLOAT64) PF_DATA(double, y)[i] = v;
      else if (s.type == PF_FLOAT32) PF_DATA(float, y)[i] = (float)v;
      else PF_DATA(uint16_t, y)[i] = pf_to_half((float)v);
    }
  }
#undef VALUE
  return PF_OK;
}

/* ---------------------------------------------------------------- matrix products */
typedef struct { int32_t adjoint_a, adjoint_b; } product_state;
#define PRODUCT(TYPE, T, CONJ) case TYPE: \
  for (int64_t i = 0; i < nnz; i++) { \
    T v = PF_DATA(const T, values)[i]; \
    T *row = PF_DATA(T, y) + places[2 * i] * n; \
    const T *d = PF_DATA(const T, b); \
    int64_t k = places[2 * i + 1]; \
    if (s->adjoint_a) v = (T)CONJ(v); \
    if (s->adjoint_b) for (int64_t j = 0; j < n; j++) row[j] += v * (T)CONJ(d[j * inner + k]); \
    else for (int64_t j = 0; j < n; j++) row[j] += v * d[k * n + j]; \
  } \
  break;
/* Halves are added up as float and rounded once. */
static pf_status half_product(pf_ctx *c, const product_state *s, const int64_t *places, int64_t nnz,
                              int64_t inner, int64_t n, DLTensor *y) {
  const int32_t type = c->in_type[1];
  const uint16_t *values = PF_DATA(const uint16_t, c->in[1]),
                 *d = PF_DATA(const uint16_t, c->in[3]);
  float *sum = c->host->scratch(c, (uint64_t)pf_numel(y) * 4 + 4, 64);
  if (!sum) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for sums in float");
  memset(sum, 0, (size_t)pf_numel(y) * 4);
  for (int64_t i = 0; i < nnz; i++) {
    const int64_t k = places[2 * i + 1];
    float v, x, *row = sum + places[2 * i] * n;
    pf_half_to_float(type, values + i, &v, 1);
    for (int64_t j = 0; j < n; j++) {
      pf_half_to_float(type, d + (s->adjoint_b ? j * inner + k : k * n + j), &x, 1);
      row[j] += v * x;
    }
  }
  pf_float_to_half(type, sum, PF_DATA(void, y), pf_numel(y));
  return PF_OK;
}

#define SAME(x) (x)
static pf_status dense_matmul(pf_ctx *c, const void *state) {
  const product_state *s = (const product_state *)state;
  const DLTensor *at = c->in[0], *values = c->in[1], *dims = c->in[2], *b = c->in[3];
  if (at->ndim != 2 || values->ndim != 1 || dims->ndim != 1 || dims->shape[0] != 2 ||
      at->shape[1] != 2 || at->shape[0] != values->shape[0])
    return PF_INVALID(c, "a is no sparse matrix: indices %s, values %s, shape %s", PF_SHAPE(at).s,
                      PF_SHAPE(values).s, PF_SHAPE(dims).s);
  if (b->ndim != 2) return PF_INVALID(c, "b must be a matrix, got shape %s", PF_SHAPE(b).s);
  int64_t rows = pf_in_index(c, 2, s->adjoint_a ? 1 : 0), inner = pf_in_index(c, 2, !s->adjoint_a);
  int64_t nnz = at->shape[0], n = b->shape[s->adjoint_b ? 0 : 1], shape[2] = {rows, n};
  if (inner != b->shape[s->adjoint_b ? 1 : 0])
    return PF_INVALID(c,
                      "Cannot multiply A and B because inner dimension does not match: %" PRId64
                      " vs. %" PRId64 ". Did you forget a transpose? b has shape %s",
                      inner, b->shape[s->adjoint_b ? 1 : 0], PF_SHAPE(b).s);
  DLTensor *y = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(y);
  int64_t *places = c->host->scratch(c, (uint64_t)nnz * 16 + 16, 64);
  PF_EXHAUSTED(places);
  for (int64_t i = 0; i < nnz; i++) {
    int64_t r = pf_in_index(c, 0, 2 * i + !!s->adjoint_a),
            k = pf_in_index(c, 0, 2 * i + !s->adjoint_a);
    if (r < 0 || r >= rows || k < 0 || k >= inner)
      return PF_INVALID(c,
                        "a_indices[%" PRId64 "] = [%" PRId64 ", %" PRId64
                        "] is out of bounds for the shape [%" PRId64 ", %" PRId64 "]",
                        i, pf_in_index(c, 0, 2 * i), pf_in_index(c, 0, 2 * i + 1),
                        pf_in_index(c, 2, 0), pf_in_index(c, 2, 1));
    places[2 * i] = r, places[2 * i + 1] = k;
  }
  if (pf_is_half(c->in_type[1])) return half_product(c, s, places, nnz, inner, n, y);
  int64_t bytes = pf_numel(y) * pf_type_size(c->in_type[1]);
  if (bytes) memset(PF_DATA(char, y), 0, (size_t)bytes);
  switch (c->in_type[1]) {
    PRODUCT(PF_FLOAT32, float, SAME)
    PRODUCT(PF_FLOAT64, double, SAME)
    PRODUCT(PF_INT32, uint32_t, SAME)
    PRODUCT(PF_COMPLEX64, float _Complex, conjf)
    PRODUCT(PF_COMPLEX128, double _Complex, conj)
  }
  return PF_OK;
}
typedef struct { int32_t transpose_a, transpose_b; } matmul_state;
static float float_at(const DLTensor *t, int32_t type, int64_t i) {
  return type == PF_FLOAT32 ? PF_DATA(const float, t)[i]
                            : pf_from_bf16(PF_DATA(const uint16_t, t)[i]);
}
static pf_status sparse_matmul(pf_ctx *c, const void *state) {
  const matmul_state *s = (const matmul_state *)state;
  const DLTensor *a = c->in[0], *b = c->in[1];
  if (a->ndim != 2 || b->ndim != 2)
    return PF_INVALID(c, "a and b must be matrices, got shapes %s and %s", PF_SHAPE(a).s,
                      PF_SHAPE(b).s);
  int64_t m = a->shape[s->transpose_a ? 1 : 0], k = a->shape[s->transpose_a ? 0 : 1];
  int64_t n = b->shape[s->transpose_b ? 0 : 1], shape[2] = {m, n};
  if (b->shape[s->transpose_b ? 1 : 0] != k)
    return PF_INVALID(c, "Matrix size incompatible: a: %s, b: %s", PF_SHAPE(a).s, PF_SHAPE(b).s);
  DLTensor *y = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(y);
  if (m > 0 && n > 0) memset(PF_DATA(char, y), 0, (size_t)(m * n) * 4);
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++) {
      float v = float_at(a, c->in_type[0], s->transpose_a ? l * m + i : i * k + l);
      float *row = PF_DATA(float, y) + i * n;
      if (v == 0) continue; /* what makes it worth calling for sparse matrices */
      for (int64_t j = 0; j < n; j++)
        row[j] += v * float_at(b, c->in_type[1], s->transpose_b ? j * k + l : l * n + j);
    }
  return PF_OK;
}

#define REDUCE(op, types, f) \
  PF_CPU(op, "T=" types, .compute = f, .state_size = sizeof(reduce_state), \
         .attrs = PF_ATTRS(PF_ATTR(reduce_state, PF_ATTR_BOOL, keep_dims)))
const pf_kernel *const sparse_math_kernels[] = {
  PF_CPU("SparseAdd", "T=" PF_NUMBERS, .compute = sparse_add),
  PF_CPU("SparseAddGrad", "T=" PF_NUMBERS, .compute = sparse_add_grad),
  PF_CPU("SparseSparseMaximum", "T=" PF_REAL, .compute = maximum),
  PF_CPU("SparseSparseMinimum", "T=" PF_REAL, .compute = minimum),
  PF_CPU("SparseTensorDenseAdd", "T=" PF_NUMBERS, .compute = tensor_dense_add),
  PF_CPU("SparseDenseCwiseAdd", "T=" PF_NUMBERS, .compute = cwise_add),
  PF_CPU("SparseDenseCwiseMul", "T=" PF_NUMBERS, .compute = cwise_mul),
  PF_CPU("SparseDenseCwiseDiv", "T=" PF_NUMBERS, .compute = cwise_div),
  REDUCE("SparseReduceSum", PF_NUMBERS, reduce_sum),
  REDUCE("SparseReduceMax", PF_REAL, reduce_max),
  REDUCE("SparseReduceSumSparse", PF_NUMBERS, reduce_sum_sparse),
  REDUCE("SparseReduceMaxSparse", PF_REAL, reduce_max_sparse),
  PF_CPU("SparseSoftmax", "T=float|double|half", .compute = softmax),
  PF_CPU_LONG("SparseTensorDenseMatMul", "T=" PF_FLOATS "|int32|complex64|complex128",
              .compute = dense_matmul, .state_size = sizeof(product_state),
              .attrs = PF_ATTRS(PF_ATTR(product_state, PF_ATTR_BOOL, adjoint_a),
                                PF_ATTR(product_state, PF_ATTR_BOOL, adjoint_b))),
  PF_CPU_LONG("SparseMatMul", NULL, .compute = sparse_matmul, .state_size = sizeof(matmul_state),
              .attrs = PF_ATTRS(PF_ATTR(matmul_state, PF_ATTR_BOOL, transpose_a),
                                PF_ATTR(matmul_state, PF_ATTR_BOOL, transpose_b))),
  NULL};
