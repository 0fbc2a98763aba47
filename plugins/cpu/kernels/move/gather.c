/* gather.c - elements chosen or placed by index: Gather, GatherNd, ScatterNd, OneHot,
 * DynamicPartition, DynamicStitch, ReverseSequence, SparseToDense.  Every index is checked before
 * it is used. */
#include "base/machine.h"
#include "move/strided.h"
#include "move/transpose.h"

/* "[1,2]": position i of a tensor of this shape, for messages */
static pf_text position(const DLTensor *t, int32_t nd, int64_t i) {
  int64_t at[PF_MAX_DIMS];
  for (int32_t d = PF_MIN(nd, PF_MAX_DIMS) - 1; d >= 0; d--)
    at[d] = i % PF_MAX(t->shape[d], 1), i /= PF_MAX(t->shape[d], 1);
  return pf_shape_text(at, PF_MIN(nd, PF_MAX_DIMS));
}

/* ---------------------------------------------------------------- Gather */
typedef struct {
  const char *x;
  char *y;
  const pf_mover *move; /* of large results: stored past the caches */
  const DLTensor *index;
  int32_t type;               /* of index */
  int64_t outer, n, m, bytes; /* y[b, o, i] = x[b, o, index[b, i]]: runs of `bytes` */
} gather_task;
#define GATHER_RUN(T) \
  for (int64_t i = i0; i < i1; i++) \
    ((T *)y)[i] = ((const T *)x)[pf_index_at(t->index, t->type, b * t->m + i)];
static void stream_rows(const gather_task *t, const char *x, char *y, int64_t i0, int64_t i1,
                        int64_t b) {
  int wide = t->type == PF_INT64;
  const char *index = PF_DATA(const char, t->index) + (b * t->m + i0) * (wide ? 8 : 4);
  t->move->gather(x, t->bytes, index, wide, i1 - i0, y + i0 * t->bytes);
  t->move->fence();
}
static void gather_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const gather_task *t = (const gather_task *)arg;
  (void)worker;
  while (lo < hi) {
    int64_t row = lo / t->m, i0 = lo % t->m, i1 = PF_MIN(t->m, i0 + hi - lo), b = row / t->outer;
    const char *x = t->x + row * t->n * t->bytes;
    char *y = t->y + row * t->m * t->bytes;
    if (t->move) stream_rows(t, x, y, i0, i1, b);
    else if (t->bytes == 4) {
      GATHER_RUN(uint32_t)
    } else if (t->bytes == 8) {
      GATHER_RUN(uint64_t)
    } else
      for (int64_t i = i0; i < i1; i++)
        memcpy(y + i * t->bytes, x + pf_index_at(t->index, t->type, b * t->m + i) * t->bytes,
               (size_t)t->bytes);
    lo += i1 - i0;
  }
}
#define ALL_BELOW(T, U) \
  static int all_below_##T(const T *x, int64_t n, int64_t limit) { \
    T bad = 0; \
    for (int64_t i = 0; i < n; i++) bad |= (T)((U)x[i] >= (U)limit); \
    return !bad; \
  }
ALL_BELOW(int32_t, uint32_t)
ALL_BELOW(int64_t, uint64_t)
static pf_status check_indices(pf_ctx *c, int32_t in, int64_t limit) {
  const DLTensor *t = c->in[in];
  int64_t n = pf_numel(t);
  int32_t type = c->in_type[in];
  if (type == PF_INT32 && all_below_int32_t(PF_DATA(int32_t, t), n, PF_MIN(limit, INT32_MAX)))
    return PF_OK;
  if (type == PF_INT64 && all_below_int64_t(PF_DATA(int64_t, t), n, limit)) return PF_OK;
  for (int64_t i = 0; i < n; i++) {
    int64_t v = pf_in_index(c, in, i);
    if (v < 0 || v >= limit)
      return PF_INVALID(c, "indices%s = %" PRId64 " is not in [0, %" PRId64 ")",
                        t->ndim ? position(t, t->ndim, i).s : "", v, limit);
  }
  return PF_OK;
}
static pf_status gather_along(pf_ctx *c, int32_t axis, int32_t batch_dims) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t shape[3 * PF_MAX_DIMS], esize = pf_type_size(c->in_type[0]);
  int32_t nd = 0;
  for (int32_t i = 0; i < axis; i++) shape[nd++] = x->shape[i];
  for (int32_t i = batch_dims; i < index->ndim; i++) shape[nd++] = index->shape[i];
  for (int32_t i = axis + 1; i < x->ndim; i++) shape[nd++] = x->shape[i];
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK; /* no index is used: none is wrong, as in TF */
  PF_TRY(check_indices(c, 1, x->shape[axis]));
  int64_t inner = pf_product(x->shape, axis + 1, x->ndim),
          batch = pf_product(x->shape, 0, batch_dims);
  gather_task t = {.x = PF_DATA(const char, x),
                   .y = PF_DATA(char, y),
                   .index = index,
                   .type = c->in_type[1],
                   .outer = pf_product(x->shape, batch_dims, axis),
                   .n = x->shape[axis],
                   .m = pf_product(index->shape, batch_dims, index->ndim),
                   .bytes = inner * esize};
  if (t.bytes >= 32 && pf_numel(y) * esize >= PF_STREAM_BYTES &&
      (t.type == PF_INT32 || t.type == PF_INT64))
    t.move = pf_movers();
  if (esize) return pf_parallel(c, batch * t.outer * t.m, pf_grain(inner), gather_range, &t);
  for (int64_t row = 0; row < batch * t.outer; row++)
    for (int64_t i = 0; i < t.m; i++)
      PF_TRY(pf_copy_run(c, y, (row * t.m + i) * inner, x,
                         (row * t.n + pf_in_index(c, 1, row / t.outer * t.m + i)) * inner, inner,
                         0));
  return PF_OK;
}
static pf_status gather(pf_ctx *c, const void *state) {
  (void)state;
  PF_TRY(pf_check_rank(c, c->in[0], "params"));
  PF_TRY(pf_check_rank(c, c->in[1], "indices"));
  if (c->in[0]->ndim < 1) return PF_INVALID(c, "params must be at least 1 dimensional");
  return gather_along(c, 0, 0);
}
typedef struct { int64_t batch_dims; } gather_state;
static pf_status gather_v2(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t axis, batch = ((const gather_state *)state)->batch_dims;
  PF_TRY(pf_check_rank(c, x, "params"));
  PF_TRY(pf_check_rank(c, index, "indices"));
  PF_TRY(pf_in_scalar(c, 2, "axis", &axis));
  if (axis < -x->ndim || axis >= x->ndim)
    return PF_INVALID(c, "Expected axis in the range [%d, %d), but got %" PRId64, -x->ndim, x->ndim,
                      axis);
  if (axis < 0) axis += x->ndim;
  if (batch < -index->ndim || batch > index->ndim)
    return PF_INVALID(c, "Expected batch_dims in the range [%d, %d], but got %" PRId64,
                      -index->ndim, index->ndim, batch);
  if (batch < 0) batch += index->ndim;
  if (batch > axis)
    return PF_INVALID(c,
                      "batch_dims (%" PRId64 ") must be less than or equal to axis (%" PRId64 ").",
                      batch, axis);
  for (int64_t i = 0; i < batch; i++)
    if (x->shape[i] != index->shape[i])
      return PF_INVALID(c,
                        "params.shape[%" PRId64 "]: %" PRId64
                        " should be equal to indices.shape[%" PRId64 "]: %" PRId64,
                        i, x->shape[i], i, index->shape[i]);
  return gather_along(c, (int32_t)axis, (int32_t)batch);
}

/* ---------------------------------------------------------------- GatherNd, ScatterNd */
/* flat element of row i of `in` (index vectors of length k) in `shape`; -1 when it is outside */
static int64_t flat_index(pf_ctx *c, int32_t in, int64_t i, int64_t k, const int64_t *shape) {
  int64_t at = 0;
  for (int64_t d = 0; d < k; d++) {
    int64_t v = pf_in_index(c, in, i * k + d);
    if (v < 0 || v >= shape[d]) return -1;
    at = at * shape[d] + v;
  }
  return at;
}
static pf_status bad_vector(pf_ctx *c, int32_t in, int64_t i, int64_t k, const char *what,
                            const int64_t *shape, int32_t nd) {
  int64_t v[PF_MAX_DIMS];
  for (int64_t d = 0; d < k; d++) v[d] = pf_in_index(c, in, i * k + d);
  return PF_INVALID(c, "indices%s = %s does not index into %s %s",
                    position(c->in[in], c->in[in]->ndim - 1, i).s, pf_shape_text(v, (int32_t)k).s,
                    what, pf_shape_text(shape, nd).s);
}
/* flat elements of rows [i, i + n) of `index`; how many come before the first that is outside */
#define FLAT(T) \
  for (int64_t j = 0; j < n; j++) { \
    const T *v = PF_DATA(const T, index) + (i + j) * k; \
    int64_t flat = 0; \
    for (int64_t d = 0; d < k; d++) { \
      if ((uint64_t)v[d] >= (uint64_t)shape[d]) return j; \
      flat = flat * shape[d] + v[d]; \
    } \
    at[j] = flat; \
  }
static int64_t flat_indices(int32_t type, const DLTensor *index, int64_t i, int64_t n, int64_t k,
                            const int64_t *shape, int64_t *at) {
  if (type == PF_INT32) {
    FLAT(int32_t)
  } else if (type == PF_INT64) {
    FLAT(int64_t)
  } else {
    FLAT(int16_t)
  }
  return n;
}
#define TAKE(T) \
  for (int64_t j = 0; j < n; j++) PF_DATA(T, y)[i + j] = PF_DATA(const T, x)[at[j]]; \
  break;
/* y[i + j] = x[at[j]], runs of `run` elements */
static pf_status take_runs(pf_ctx *c, DLTensor *y, int64_t i, const DLTensor *x, const int64_t *at,
                           int64_t n, int64_t run, int64_t esize) {
  switch (run == 1 ? esize : 0) {
    case 1: TAKE(uint8_t)
    case 4: TAKE(uint32_t)
    case 8: TAKE(uint64_t)
    default:
      for (int64_t j = 0; j < n; j++)
        PF_TRY(pf_copy_run(c, y, (i + j) * run, x, at[j] * run, run, esize));
  }
  return PF_OK;
}
enum { RUNS = 1024 };
static pf_status gather_nd(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t shape[2 * PF_MAX_DIMS], esize = pf_type_size(c->in_type[0]);
  int32_t nd = 0;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "params"));
  PF_TRY(pf_check_rank(c, index, "indices"));
  if (x->ndim < 1) return PF_INVALID(c, "params must be at least a vector");
  if (index->ndim < 1) return PF_INVALID(c, "indices must be at least a vector");
  int64_t k = index->shape[index->ndim - 1];
  if (k > x->ndim)
    return PF_INVALID(
        c, "index innermost dimension length must be <= params rank; saw: %" PRId64 " vs. %d", k,
        x->ndim);
  for (int32_t i = 0; i < index->ndim - 1; i++) shape[nd++] = index->shape[i];
  for (int32_t i = (int32_t)k; i < x->ndim; i++) shape[nd++] = x->shape[i];
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  int64_t m = pf_product(index->shape, 0, index->ndim - 1),
          run = pf_product(x->shape, (int32_t)k, x->ndim);
  int64_t at[RUNS];
  for (int64_t i = 0, n; i < m; i += n) {
    n = PF_MIN(RUNS, m - i);
    int64_t good = flat_indices(c->in_type[1], index, i, n, k, x->shape, at);
    if (good < n) return bad_vector(c, 1, i + good, k, "param shape", x->shape, x->ndim);
    PF_TRY(take_runs(c, y, i, x, at, n, run, esize));
  }
  return PF_OK;
}

#define ADD_RUN(TYPE, T) \
  case TYPE: \
    for (int64_t j = 0; j < n; j++) ((T *)y)[j] = (T)(((T *)y)[j] + ((const T *)x)[j]); \
    break;
static pf_status add_run(pf_ctx *c, int32_t type, void *y, const void *x, int64_t n) {
  switch (type) {
    ADD_RUN(PF_FLOAT32, float)
    ADD_RUN(PF_FLOAT64, double)
    ADD_RUN(PF_COMPLEX64, float _Complex)
    ADD_RUN(PF_COMPLEX128, double _Complex)
    ADD_RUN(PF_INT8, uint8_t)
    ADD_RUN(PF_UINT8, uint8_t)
    ADD_RUN(PF_INT16, uint16_t)
    ADD_RUN(PF_UINT16, uint16_t)
    ADD_RUN(PF_INT32, uint32_t)
    ADD_RUN(PF_UINT32, uint32_t)
    ADD_RUN(PF_INT64, uint64_t)
    ADD_RUN(PF_UINT64, uint64_t)
    case PF_BOOL:
      for (int64_t j = 0; j < n; j++) ((uint8_t *)y)[j] |= ((const uint8_t *)x)[j];
      break;
    case PF_FLOAT16:
    case PF_BFLOAT16:
      for (int64_t j = 0; j < n; j++) {
        float a, b;
        pf_half_to_float(type, (uint16_t *)y + j, &a, 1);
        pf_half_to_float(type, (const uint16_t *)x + j, &b, 1);
        a += b;
        pf_float_to_half(type, &a, (uint16_t *)y + j, 1);
      }
      break;
    default:
      return pf_failf(c, PF_UNIMPLEMENTED, "ScatterNd is not defined for %s", pf_type_name(type));
  }
  return PF_OK;
}
static pf_status scatter_nd(pf_ctx *c, const void *state) {
  const DLTensor *index = c->in[0], *updates = c->in[1];
  int64_t shape[PF_MAX_DIMS], esize = pf_type_size(c->in_type[1]);
  int32_t nd;
  (void)state;
  PF_TRY(pf_in_vector(c, 2, "shape", shape, &nd));
  PF_TRY(pf_check_rank(c, index, "indices"));
  for (int32_t i = 0; i < nd; i++)
    if (shape[i] < 0)
      return PF_INVALID(c, "Dimension %d of shape must be >= 0, got %" PRId64, i, shape[i]);
  if (index->ndim < 1)
    return PF_INVALID(c, "Indices shape must have rank at least one. Found: %s", PF_SHAPE(index).s);
  int32_t outer = index->ndim - 1;
  int64_t k = index->shape[outer];
  if (k > nd || updates->ndim != outer + nd - k ||
      !pf_same_dims(index->shape, outer, updates->shape, outer) ||
      !pf_same_dims(shape + k, nd - (int32_t)k, updates->shape + outer, updates->ndim - outer))
    return PF_INVALID(c,
                      "Must have updates.shape = indices.shape[:-1] + shape[indices.shape[-1]:], "
                      "got updates.shape %s, "
                      "indices.shape %s, shape %s",
                      PF_SHAPE(updates).s, PF_SHAPE(index).s, pf_shape_text(shape, nd).s);
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (!esize)
    return pf_failf(c, PF_UNIMPLEMENTED, "ScatterNd is not defined for %s",
                    pf_type_name(c->in_type[1]));
  PF_TRY(pf_zero(c, y, 0, pf_numel(y), esize));
  int64_t m = pf_product(index->shape, 0, outer), run = pf_product(shape, (int32_t)k, nd);
  for (int64_t i = 0; i < m; i++) {
    int64_t at = flat_index(c, 0, i, k, shape);
    if (at < 0) return bad_vector(c, 0, i, k, "shape", shape, nd);
    if (run)
      PF_TRY(add_run(c, c->in_type[1], PF_DATA(char, y) + at * run * esize,
                     PF_DATA(const char, updates) + i * run * esize, run));
  }
  return PF_OK;
}

/* TensorScatterUpdate: a copy of input 0 with rows replaced */
static pf_status tensor_scatter_update(pf_ctx *c, const void *state) {
  (void)state;
  const DLTensor *x = c->in[0], *index = c->in[1], *updates = c->in[2];
  int32_t type = c->in_type[0], outer = index->ndim - 1;
  int64_t esize = pf_type_size(type);
  PF_TRY(pf_check_rank(c, x, "tensor"));
  PF_TRY(pf_check_rank(c, index, "indices"));
  if (outer < 0)
    return PF_INVALID(c, "Indices shape must have rank at least one. Found: %s", PF_SHAPE(index).s);
  int64_t k = index->shape[outer];
  if (k > x->ndim || updates->ndim != outer + x->ndim - k ||
      !pf_same_dims(index->shape, outer, updates->shape, outer) ||
      !pf_same_dims(x->shape + k, x->ndim - (int32_t)k, updates->shape + outer,
                    updates->ndim - outer))
    return PF_INVALID(c,
                      "Must have updates.shape = indices.shape[:-1] + "
                      "tensor.shape[indices.shape[-1]:], got updates.shape "
                      "%s, indices.shape %s, tensor.shape %s",
                      PF_SHAPE(updates).s, PF_SHAPE(index).s, PF_SHAPE(x).s);
  DLTensor *y = esize ? c->host->forward(c, 0, 0, x->shape, x->ndim) : pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  if (y->data != x->data) PF_TRY(pf_copy_run(c, y, 0, x, 0, pf_numel(x), esize));
  int64_t m = pf_product(index->shape, 0, outer), run = pf_product(x->shape, (int32_t)k, x->ndim);
  for (int64_t i = 0; i < m; i++) {
    int64_t at = flat_index(c, 1, i, k, x->shape);
    if (at < 0) return bad_vector(c, 1, i, k, "shape", x->shape, x->ndim);
    PF_TRY(pf_copy_run(c, y, at * run, updates, i * run, run, esize));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- OneHot */
typedef struct { int64_t axis; } axis_state;
static pf_status one_hot(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis = ((const axis_state *)state)->axis, depth, shape[PF_MAX_DIMS + 1];
  int64_t esize = pf_type_size(c->in_type[2]);
  PF_TRY(pf_check_rank(c, x, "indices"));
  PF_TRY(pf_in_scalar(c, 1, "depth", &depth));
  if (axis < -1 || axis > x->ndim)
    return PF_INVALID(c, "Expected axis to be -1 or between [0, %d).  But received: %" PRId64,
                      x->ndim + 1, axis);
  if (depth < 0) return PF_INVALID(c, "depth must be non-negative, got: %" PRId64, depth);
  for (int32_t i = 2; i < 4; i++)
    if (pf_numel(c->in[i]) != 1)
      return PF_INVALID(c, "%s must be a scalar, but got: %s", i == 2 ? "on_value" : "off_value",
                        PF_SHAPE(c->in[i]).s);
  int32_t a = (int32_t)(axis < 0 ? x->ndim : axis);
  for (int32_t i = 0; i <= x->ndim; i++)
    shape[i] = i < a ? x->shape[i] : i == a ? depth : x->shape[i - 1];
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim + 1);
  PF_EXHAUSTED(y);
  PF_TRY(pf_fill(c, y, 0, pf_numel(y), c->in[3], 0, esize));
  int64_t outer = pf_product(x->shape, 0, a), inner = pf_product(x->shape, a, x->ndim);
  const uint32_t *on = esize == 4 ? PF_DATA(const uint32_t, c->in[2]) : NULL;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t v = pf_in_index(c, 0, o * inner + i);
      if (v < 0 || v >= depth) continue;
      if (on) PF_DATA(uint32_t, y)[(o * depth + v) * inner + i] = *on;
      else PF_TRY(pf_copy_run(c, y, (o * depth + v) * inner + i, c->in[2], 0, 1, esize));
    }
  return PF_OK;
}

/* -------------------------------------------------------------- DynamicPartition, DynamicStitch */
static pf_status dynamic_partition(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *part = c->in[1];
  int32_t n = c->n_out, nd = x->ndim - part->ndim + 1;
  int64_t shape[PF_MAX_DIMS + 1], m = pf_numel(part), esize = pf_type_size(c->in_type[0]);
  (void)state;
  PF_TRY(pf_check_rank(c, x, "data"));
  if (nd < 1 || !pf_same_dims(x->shape, part->ndim, part->shape, part->ndim))
    return PF_INVALID(
        c,
        "data.shape must start with partitions.shape, got data.shape = %s, partitions.shape = %s",
        PF_SHAPE(x).s, PF_SHAPE(part).s);
  int64_t *count = (int64_t *)c->host->scratch(c, (uint64_t)n * 8 + 8, 8),
          run = pf_product(x->shape, part->ndim, x->ndim);
  PF_EXHAUSTED(count);
  memset(count, 0, (size_t)n * 8);
  for (int64_t i = 0; i < m; i++) {
    int64_t p = pf_in_index(c, 1, i);
    if (p < 0 || p >= n)
      return PF_INVALID(c, "partitions%s = %" PRId64 " is not in [0, %d)",
                        part->ndim ? position(part, part->ndim, i).s : "", p, n);
    count[p]++;
  }
  for (int32_t i = 1; i < nd; i++) shape[i] = x->shape[part->ndim + i - 1];
  for (int32_t k = 0; k < n; k++) {
    shape[0] = count[k], count[k] = 0;
    PF_EXHAUSTED(pf_output_checked(c, k, shape, nd));
  }
  for (int64_t i = 0; i < m; i++) {
    int64_t p = pf_in_index(c, 1, i);
    PF_TRY(pf_copy_run(c, c->out[p], count[p]++ * run, x, i * run, run, esize));
  }
  return PF_OK;
}
static pf_status dynamic_stitch(pf_ctx *c, const void *state) {
  int32_t n = c->n_in / 2, nd = 0;
  int64_t shape[PF_MAX_DIMS + 1], rows = 0, esize = pf_type_size(c->in_type[n]);
  (void)state;
  for (int32_t k = 0; k < n; k++) {
    const DLTensor *index = c->in[k], *x = c->in[n + k];
    PF_TRY(pf_check_rank(c, x, "data"));
    if (x->ndim < index->ndim || !pf_same_dims(index->shape, index->ndim, x->shape, index->ndim))
      return PF_INVALID(c, "data[%d].shape = %s does not start with indices[%d].shape = %s", k,
                        PF_SHAPE(x).s, k, PF_SHAPE(index).s);
    int32_t rest = x->ndim - index->ndim;
    if (k == 0) {
      nd = rest;
      for (int32_t i = 0; i < rest; i++) shape[1 + i] = x->shape[index->ndim + i];
    } else if (!pf_same_dims(shape + 1, nd, x->shape + index->ndim, rest)) {
      return PF_INVALID(c,
                        "Need data[0].shape[%d:] = data[%d].shape[%d:], got data[0].shape = %s, "
                        "data[%d].shape = %s",
                        c->in[0]->ndim, k, index->ndim, PF_SHAPE(c->in[n]).s, k, PF_SHAPE(x).s);
    }
    for (int64_t i = 0, m = pf_numel(index); i < m; i++) {
      int64_t v = pf_in_index(c, k, i);
      if (v < 0) return PF_INVALID(c, "indices[%d] contains the negative index %" PRId64, k, v);
      rows = PF_MAX(rows, v + 1);
    }
  }
  shape[0] = rows;
  DLTensor *y = pf_output_checked(c, 0, shape, nd + 1);
  PF_EXHAUSTED(y);
  int64_t run = pf_product(shape, 1, nd + 1);
  PF_TRY(pf_zero(c, y, 0, rows * run, esize)); /* rows no index names */
  for (int32_t k = 0; k < n; k++)
    for (int64_t i = 0, m = pf_numel(c->in[k]); i < m; i++)
      PF_TRY(pf_copy_run(c, y, pf_in_index(c, k, i) * run, c->in[n + k], i * run, run, esize));
  return PF_OK;
}

/* --------------------------------------------------------------- ReverseSequence, SparseToDense */
typedef struct { int64_t seq_dim, batch_dim; } sequence_state;
static pf_status reverse_sequence(pf_ctx *c, const void *state) {
  const sequence_state *s = (const sequence_state *)state;
  const DLTensor *x = c->in[0], *lengths = c->in[1];
  PF_TRY(pf_check_rank(c, x, "input"));
  if (lengths->ndim != 1) return PF_INVALID(c, "seq_lengths must be 1-dim, not %d", lengths->ndim);
  if (s->seq_dim < 0 || s->seq_dim >= x->ndim || s->batch_dim < 0 || s->batch_dim >= x->ndim ||
      s->seq_dim == s->batch_dim)
    return PF_INVALID(c,
                      "seq_dim %" PRId64 " and batch_dim %" PRId64
                      " must differ and be less than input rank %d",
                      s->seq_dim, s->batch_dim, x->ndim);
  int64_t batch = x->shape[s->batch_dim], len = x->shape[s->seq_dim];
  if (lengths->shape[0] != batch)
    return PF_INVALID(
        c, "Length of seq_lengths != input.dims(%" PRId64 "), (%" PRId64 " vs. %" PRId64 ")",
        s->batch_dim, lengths->shape[0], batch);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  for (int64_t b = 0; b < batch; b++) {
    int64_t n = pf_in_index(c, 1, b);
    if (n < 0 || n > len)
      return PF_INVALID(c, "seq_lengths(%" PRId64 ") = %" PRId64 " is not in [0, %" PRId64 "]", b,
                        n, len);
    pf_box head = pf_box_of(pf_type_size(c->in_type[0]), x->shape, x->ndim);
    int64_t step = head.dst_stride[s->seq_dim];
    head.dst_at = head.src_at = b * head.dst_stride[s->batch_dim];
    head.shape[s->batch_dim] = 1;
    pf_box tail = head;
    head.shape[s->seq_dim] = n, head.src_at += (n - 1) * step, head.src_stride[s->seq_dim] = -step;
    tail.shape[s->seq_dim] = len - n, tail.src_at += n * step, tail.dst_at += n * step;
    PF_TRY(pf_box_copy(c, &head, y, x));
    PF_TRY(pf_box_copy(c, &tail, y, x));
  }
  return PF_OK;
}
typedef struct { int32_t validate_indices; } sparse_state;
static pf_status sparse_to_dense(pf_ctx *c, const void *state) {
  const DLTensor *index = c->in[0], *values = c->in[2];
  int64_t shape[PF_MAX_DIMS], esize = pf_type_size(c->in_type[2]), before = -1;
  int32_t nd, each = values->ndim == 1;
  PF_TRY(pf_in_vector(c, 1, "output_shape", shape, &nd));
  if (index->ndim > 2)
    return PF_INVALID(c, "sparse_indices should be a scalar, vector, or matrix, got shape %s",
                      PF_SHAPE(index).s);
  int64_t m = index->ndim > 0 ? index->shape[0] : 1, k = index->ndim > 1 ? index->shape[1] : 1;
  if (k != nd)
    return PF_INVALID(c, "output_shape has incorrect number of elements: %d should be: %" PRId64,
                      nd, k);
  if (values->ndim > 1 || (each && values->shape[0] != m))
    return PF_INVALID(c, "sparse_values has incorrect shape %s, should be [] or [%" PRId64 "]",
                      PF_SHAPE(values).s, m);
  if (pf_numel(c->in[3]) != 1) return PF_INVALID(c, "default_value should be a scalar.");
  DLTensor *y = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  PF_TRY(pf_fill(c, y, 0, pf_numel(y), c->in[3], 0, esize));
  for (int64_t i = 0; i < m; i++) {
    int64_t at = flat_index(c, 0, i, k, shape);
    if (at < 0)
      return PF_INVALID(c, "indices[%" PRId64 "] is out of bounds: need 0 <= index < %s", i,
                        pf_shape_text(shape, nd).s);
    if (((const sparse_state *)state)->validate_indices && at <= before)
      return PF_INVALID(c, "indices[%" PRId64 "] is %s", i,
                        at == before ? "repeated" : "out of order");
    before = at;
    PF_TRY(pf_copy_run(c, y, at, values, each ? i : 0, 1, esize));
  }
  return PF_OK;
}

const pf_kernel *const gather_kernels[] = {
  PF_CPU("Gather", NULL, .compute = gather),
  PF_CPU("GatherV2", NULL, .state_size = sizeof(gather_state), .compute = gather_v2,
         .attrs = PF_ATTRS(PF_ATTR(gather_state, PF_ATTR_INT, batch_dims))),
  PF_CPU("GatherNd", NULL, .compute = gather_nd),
  PF_CPU("ScatterNd", NULL, .compute = scatter_nd),
  PF_CPU("TensorScatterUpdate", NULL, .compute = tensor_scatter_update),
  PF_CPU("OneHot", NULL, .state_size = sizeof(axis_state), .compute = one_hot,
         .attrs = PF_ATTRS(PF_ATTR(axis_state, PF_ATTR_INT, axis))),
  PF_CPU("DynamicPartition", NULL, .compute = dynamic_partition),
  PF_CPU("DynamicStitch", NULL, .compute = dynamic_stitch),
  PF_CPU("ParallelDynamicStitch", NULL, .compute = dynamic_stitch),
  PF_CPU("ReverseSequence", NULL, .state_size = sizeof(sequence_state), .compute = reverse_sequence,
         .attrs = PF_ATTRS(PF_ATTR(sequence_state, PF_ATTR_INT, seq_dim),
                           PF_ATTR(sequence_state, PF_ATTR_INT, batch_dim))),
  PF_CPU("SparseToDense", NULL, .state_size = sizeof(sparse_state), .compute = sparse_to_dense,
         .attrs = PF_ATTRS(PF_ATTR(sparse_state, PF_ATTR_BOOL, validate_indices))),
  NULL};
