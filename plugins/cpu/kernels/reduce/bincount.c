/* bincount.c - Bucketize and DenseBincount: values put into buckets, values counted.
 *
 * Invariants: boundaries are sorted (checked when the kernel is made); a value is checked before it
 * is used as an index.  Counting is serial, so sums do not depend on threads.
 * Threads: compute is concurrent; Bucketize splits over elements.
 */
#include "base/common.h"

/* ---------------------------------------------------------------- Bucketize */
typedef struct { pf_list boundaries; } bucket_state;
typedef struct {
  const double *at;
  int64_t n;
  const void *x;
  int32_t *y;
} bucketing;

static pf_status bucketize_init(pf_ctx *c, void *state) {
  const pf_list *b = &((bucket_state *)state)->boundaries;
  const double *at = b->items;
  for (int64_t i = 1; i < b->n; i++)
    if (!(at[i - 1] <= at[i])) return PF_INVALID(c, "Expected sorted boundaries");
  return PF_OK;
}
/* The first boundary above v; all of them for NaN.  Comparisons are in float, as TensorFlow's are
 * for every type but double. */
#define BUCKETS(num, T, tag) \
  static void buckets_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    const bucketing *b = arg; \
    (void)worker; \
    for (int64_t i = lo; i < hi; i++) { \
      double v = sizeof(T) == 8 && (T)0.5 != 0 ? (double)((const T *)b->x)[i] \
                                               : (double)(float)((const T *)b->x)[i]; \
      int64_t low = 0, high = b->n; \
      while (low < high) { \
        int64_t middle = low + (high - low) / 2; \
        if (v < b->at[middle]) high = middle; \
        else low = middle + 1; \
      } \
      b->y[i] = (int32_t)low; \
    } \
  }
BUCKETS(PF_INT32, int32_t, i32)
BUCKETS(PF_INT64, int64_t, i64)
PF_EACH_FLOAT(BUCKETS)

static pf_status bucketize(pf_ctx *c, const void *state) {
  const pf_list *b = &((const bucket_state *)state)->boundaries;
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  bucketing job = {b->items, b->n, PF_DATA(const void, c->in[0]), PF_DATA(int32_t, y)};
  pf_range fn = c->in_type[0] == PF_INT32     ? buckets_i32
                : c->in_type[0] == PF_INT64   ? buckets_i64
                : c->in_type[0] == PF_FLOAT32 ? buckets_f32
                                              : buckets_f64;
  return pf_parallel(c, pf_numel(y), PF_GRAIN / 4, fn, &job);
}

/* ---------------------------------------------------------------- DenseBincount */
typedef struct { int32_t binary_output; } count_state;

/* sums are made in U: integers wrap around */
#define COUNT_IN(num, T, tag, U) \
  case num: { \
    T *bins = PF_DATA(T, y) + row * size; \
    if (binary) bins[v] = 1; \
    else bins[v] = (T)((U)bins[v] + (U)(weights ? weights_##tag[i] : 1)); \
    break; \
  }
#define COUNT(num, T, tag) COUNT_IN(num, T, tag, T)
static pf_status dense_bincount(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *w = c->in[2];
  int32_t binary = ((const count_state *)state)->binary_output;
  int64_t size, n = pf_numel(x), weights = pf_numel(w);
  if (x->ndim > 2) return PF_INVALID(c, "Shape must be at most rank 2 but is rank %d", x->ndim);
  PF_TRY(pf_in_scalar(c, 1, "size", &size));
  if (size < 0) return PF_INVALID(c, "size (%" PRId64 ") must be non-negative", size);
  if (weights && !pf_same_shape(x, w))
    return PF_INVALID(c,
                      "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in "
                      "which case it acts as all weights equal to 1. Received %s",
                      PF_SHAPE(w).s);
  int64_t dims[2] = {x->ndim == 2 ? x->shape[0] : size, size}, per = x->ndim == 2 ? x->shape[1] : n;
  DLTensor *y = pf_output_checked(c, 0, dims, x->ndim == 2 ? 2 : 1);
  PF_EXHAUSTED(y);
  int64_t bytes = pf_numel(y) * pf_type_size(c->out_type[0]);
  if (bytes) memset(PF_DATA(void, y), 0, (size_t)bytes);
  const int32_t *weights_i32 = PF_DATA(const int32_t, w);
  const int64_t *weights_i64 = PF_DATA(const int64_t, w);
  const float *weights_f32 = PF_DATA(const float, w);
  const double *weights_f64 = PF_DATA(const double, w);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = pf_in_index(c, 0, i), row = x->ndim == 2 ? i / per : 0;
    if (v < 0) return PF_INVALID(c, "Input arr must be non-negative! Found %" PRId64, v);
    if (v >= size) continue;
    switch (c->out_type[0]) {
      COUNT_IN(PF_INT32, int32_t, i32, uint32_t)
      COUNT_IN(PF_INT64, int64_t, i64, uint64_t)
      PF_EACH_FLOAT(COUNT)
    }
  }
  return PF_OK;
}

const pf_kernel *const bincount_kernels[] = {
  PF_CPU("Bucketize", "T=int32|int64|float|double", .state_size = sizeof(bucket_state),
         .attrs = PF_ATTRS(PF_REF(pf_attr, "boundaries", PF_ATTR_LIST | PF_ATTR_FLOAT,
                                  offsetof(bucket_state, boundaries))),
         .init = bucketize_init, .compute = bucketize),
  PF_CPU("DenseBincount", "T=int32|int64|float|double", .state_size = sizeof(count_state),
         .attrs = PF_ATTRS(PF_ATTR(count_state, PF_ATTR_BOOL, binary_output)),
         .compute = dense_bincount),
  NULL};
