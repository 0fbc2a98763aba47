/* sparse_serial.c - SerializeSparse, SerializeManySparse, DeserializeSparse, DeserializeManySparse:
 * sparse tensors as three serialized TensorProtos each, TensorFlow's wire format.
 *
 * Invariants: those of tensor_message.h.
 * Threads: one per call.
 */
#include "parsing/tensor_message.h"
#include "sparse/sparse.h"

/* strings at..at+2 of y: rows [lo, hi) of s without their first `skip` numbers, in a shape
 * without them */
static pf_status put_sparse(pf_ctx *c, DLTensor *y, int64_t at, const coo *s, int64_t lo,
                            int64_t hi, int32_t skip) {
  int32_t rank = s->rank - skip;
  int64_t n = hi - lo, dims[2] = {n, rank}, width = rank;
  int64_t *rows = c->host->scratch(c, (uint64_t)(n * rank) * 8 + 8, 8);
  PF_EXHAUSTED(rows);
  for (int64_t i = 0; i < n && rank; i++)
    memcpy(rows + i * rank, s->at + (lo + i) * s->rank + skip, sizeof(int64_t) * (size_t)rank);
  for (int32_t part = 0; part < 3; part++) {
    pf_bytes b = {0};
    pf_status status;
    if (part == 0) status = put_tensor(c, &b, PF_INT64, dims, 2, rows, NULL, 0, n * rank);
    else if (part == 1)
      status =
          put_tensor(c, &b, s->type, dims, 1,
                     PF_DATA(const char, s->values) + lo * pf_type_size(s->type), s->values, lo, n);
    else status = put_tensor(c, &b, PF_INT64, &width, 1, s->dims + skip, NULL, 0, rank);
    if (!status && b.failed) status = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a string");
    if (!status) status = c->host->str_set(y, at + part, (pf_str){b.data, b.n});
    pf_bytes_free(&b);
    if (status) return status;
  }
  return PF_OK;
}
static pf_status serialize(pf_ctx *c, const void *state) {
  coo s;
  int64_t three = 3;
  (void)state;
  PF_TRY(pf_coo_input(c, 0, 1, 2, "input", &s));
  DLTensor *y = c->host->output(c, 0, &three, 1);
  PF_EXHAUSTED(y);
  return put_sparse(c, y, 0, &s, 0, s.n, 0);
}
static pf_status serialize_many(pf_ctx *c, const void *state) {
  coo s;
  (void)state;
  PF_TRY(pf_coo_input(c, 0, 1, 2, "input", &s));
  if (s.rank < 2)
    return PF_INVALID(c, "Rank of input SparseTensor should be > 1, but saw rank: %d", s.rank);
  int64_t shape[2] = {s.dims[0], 3};
  int64_t wrong;
  if (!pf_coo_rises(&s, &wrong))
    return PF_INVALID(
        c, "indices are out of order or repeated at row %" PRId64 "; use SparseReorder first",
        wrong);
  DLTensor *y = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(y);
  for (int64_t r = 0, lo = 0, hi; r < shape[0]; r++, lo = hi) {
    for (hi = lo; hi < s.n && s.at[hi * s.rank] == r; hi++) {}
    PF_TRY(put_sparse(c, y, r * 3, &s, lo, hi, 1));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- reading */
typedef struct { int32_t dtype; } dtype_state;
/* `count` triples of strings; they differ in a leading dimension of `batch_rank` sizes */
static pf_status deserialize_all(pf_ctx *c, int32_t dtype, int64_t count, const int64_t *batch,
                                 int32_t batch_rank) {
  int64_t n = 0, dims[PF_MAX_DIMS] = {0}, at = 0;
  int32_t rank = -1;
  coo_out y = {0};
  for (int32_t pass = 0; pass < 2; pass++) {
    for (int64_t i = 0; i < count; i++) {
      proto t[3];
      for (int32_t k = 0; k < 3; k++) {
        pf_str s;
        PF_TRY(c->host->str_get(c->in[0], 3 * i + k, &s));
        if (!read_proto(s, &t[k]))
          return PF_INVALID(c, "Could not parse serialized_sparse[%" PRId64 ", %d]", i, k);
      }
      if (t[0].type != PF_INT64 || t[2].type != PF_INT64 || t[0].rank != 2 || t[1].rank != 1 ||
          t[2].rank != 1 || t[0].dims[0] != t[1].dims[0] || t[0].dims[1] != t[2].dims[0])
        return PF_INVALID(c, "serialized_sparse[%" PRId64 "] is no sparse tensor", i);
      if (t[1].type != dtype)
        return PF_INVALID(c,
                          "Requested SparseTensor of type %s but serialized_sparse[%" PRId64
                          "].values.dtype() == %s",
                          pf_type_name(dtype), i, pf_type_name(t[1].type));
      if (rank < 0) rank = (int32_t)PF_MIN(t[2].dims[0], PF_MAX_DIMS + 1);
      if (t[2].dims[0] != rank || rank + batch_rank > PF_MAX_DIMS)
        return PF_INVALID(
            c,
            "Inconsistent rank across SparseTensors: rank prior to SparseTensor[%" PRId64
            "] was %d but rank of it is %" PRId64,
            i, rank, t[2].dims[0]);
      if (!pass) {
        int64_t sizes[PF_MAX_DIMS];
        if (!read_values(c, &t[2], NULL, (char *)sizes, 0))
          return PF_INVALID(c, "Could not parse serialized_sparse[%" PRId64 ", 2]", i);
        for (int32_t k = 0; k < rank; k++) {
          if (sizes[k] < 0)
            return PF_INVALID(c, "serialized_sparse[%" PRId64 "] has a negative size", i);
          dims[k] = PF_MAX(dims[k], sizes[k]);
        }
        if (!believable(&t[1]))
          return PF_INVALID(c, "serialized_sparse[%" PRId64 ", 1] says %" PRId64 " values", i,
                            t[1].n);
        if (__builtin_add_overflow(n, t[1].n, &n)) return PF_INVALID(c, "too many values");
        continue;
      }
      int64_t width = rank + batch_rank, left = i, m = t[1].n;
      int64_t *rows = c->host->scratch(c, (uint64_t)(m * rank) * 8 + 8, 8);
      PF_EXHAUSTED(rows);
      if (!read_values(c, &t[0], NULL, (char *)rows, 0) ||
          !read_values(c, &t[1], y.values, PF_DATA(char, y.values), at))
        return PF_INVALID(c, "Could not parse serialized_sparse[%" PRId64 "]", i);
      int64_t lead[PF_MAX_DIMS];
      for (int32_t k = batch_rank - 1; k >= 0; k--) lead[k] = left % batch[k], left /= batch[k];
      for (int64_t r = 0; r < m; r++, at++) {
        for (int32_t k = 0; k < batch_rank; k++) y.at[at * width + k] = lead[k];
        for (int32_t k = 0; k < rank; k++) y.at[at * width + batch_rank + k] = rows[r * rank + k];
      }
    }
    if (pass) break;
    int64_t all[PF_MAX_DIMS], bytes;
    rank = PF_MAX(rank, 0);
    if (!pf_mul(n, 8 * (rank + 2), &bytes)) return PF_INVALID(c, "too many values");
    for (int32_t k = 0; k < batch_rank; k++) all[k] = batch[k];
    for (int32_t k = 0; k < rank; k++) all[batch_rank + k] = dims[k];
    PF_TRY(pf_coo_output(c, 0, 1, 2, n, all, rank + batch_rank, &y));
  }
  return PF_OK;
}
static pf_status deserialize_many(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  if (x->ndim != 2 || x->shape[1] != 3)
    return PF_INVALID(c, "Serialized sparse should have shape [N, 3], got %s", PF_SHAPE(x).s);
  if (x->shape[0] < 1)
    return PF_INVALID(c, "Must have at least 1 serialized SparseTensor, but has 0");
  return deserialize_all(c, ((const dtype_state *)state)->dtype, x->shape[0], x->shape, 1);
}
static pf_status deserialize(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  if (x->ndim < 1 || x->ndim > PF_MAX_DIMS || x->shape[x->ndim - 1] != 3)
    return PF_INVALID(c, "Serialized sparse should have shape [..., 3], got %s", PF_SHAPE(x).s);
  int64_t count = pf_product(x->shape, 0, x->ndim - 1);
  if (count < 1) return PF_INVALID(c, "Must have at least 1 serialized SparseTensor, but has 0");
  return deserialize_all(c, ((const dtype_state *)state)->dtype, count, x->shape, x->ndim - 1);
}

#define DTYPE .state_size = sizeof(dtype_state), \
              .attrs = PF_ATTRS(PF_ATTR(dtype_state, PF_ATTR_TYPE, dtype))
const pf_kernel *const sparse_serial_kernels[] = {
  PF_CPU("SerializeSparse", "out_type=string", .compute = serialize),
  PF_CPU("SerializeManySparse", "out_type=string", .compute = serialize_many),
  PF_CPU("DeserializeSparse", "Tserialized=string", .compute = deserialize, DTYPE),
  PF_CPU("DeserializeManySparse", NULL, .compute = deserialize_many, DTYPE), NULL};
