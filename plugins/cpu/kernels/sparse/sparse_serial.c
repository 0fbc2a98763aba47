/* sparse_serial.c - SerializeSparse, SerializeManySparse, DeserializeSparse, DeserializeManySparse: sparse
 * tensors as three serialized TensorProtos each, TensorFlow's wire format.
 *
 * Invariants
 *   1. Written: dtype (1), tensor_shape (2) and tensor_content (4), or string_val (8).
 *   2. Read: bytes are untrusted; every length is checked against what is left, every size by pf_mul, and
 *      the content must be exactly as long as the shape says.  Packed and repeated *_val fields that other
 *      writers use are read for int64 and for the value type.
 * Threads: one per call.
 */
#include "base/bytes.h"
#include "sparse/sparse.h"

/* ---------------------------------------------------------------- writing */
static void put_varint(pf_bytes *b, uint64_t v) {
  char t[10];
  int n = 0;
  for (; v >= 128; v >>= 7) t[n++] = (char)(v | 128);
  t[n++] = (char)v;
  pf_bytes_add(b, t, n);
}
static void put_shape(pf_bytes *b, const int64_t *dims, int32_t rank) {
  pf_bytes inner = {0};
  for (int32_t k = 0; k < rank; k++) {
    pf_bytes dim = {0};
    if (dims[k]) {
      put_varint(&dim, 1 << 3);
      put_varint(&dim, (uint64_t)dims[k]);
    }
    put_varint(&inner, 2 << 3 | 2);
    put_varint(&inner, (uint64_t)dim.n);
    pf_bytes_add(&inner, dim.data ? dim.data : "", dim.n);
    b->failed |= dim.failed;
    pf_bytes_free(&dim);
  }
  put_varint(b, 2 << 3 | 2);
  put_varint(b, (uint64_t)inner.n);
  pf_bytes_add(b, inner.data ? inner.data : "", inner.n);
  b->failed |= inner.failed;
  pf_bytes_free(&inner);
}
/* a TensorProto of elements [from, from + n) of x (strings) or of the bytes at `data` */
static pf_status put_tensor(pf_ctx *c, pf_bytes *b, int32_t type, const int64_t *dims, int32_t rank,
                            const void *data, const DLTensor *x, int64_t from, int64_t n) {
  put_varint(b, 1 << 3);
  put_varint(b, (uint64_t)type);
  put_shape(b, dims, rank);
  if (type != PF_STRING) {
    int64_t bytes = n * pf_type_size(type);
    if (bytes) {
      put_varint(b, 4 << 3 | 2);
      put_varint(b, (uint64_t)bytes);
      pf_bytes_add(b, (const char *)data, bytes);
    }
    return PF_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(x, from + i, &s));
    put_varint(b, 8 << 3 | 2);
    put_varint(b, (uint64_t)s.len);
    pf_bytes_add(b, s.data, s.len);
  }
  return PF_OK;
}
/* strings at..at+2 of y: rows [lo, hi) of s without their first `skip` numbers, in a shape without them */
static pf_status put_sparse(pf_ctx *c, DLTensor *y, int64_t at, const coo *s, int64_t lo, int64_t hi,
                            int32_t skip) {
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
      status = put_tensor(c, &b, s->type, dims, 1,
                          PF_DATA(const char, s->values) + lo * pf_type_size(s->type), s->values, lo,
                          n);
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
  for (int64_t i = 1; i < s.n; i++)
    if (s.at[i * s.rank] < s.at[(i - 1) * s.rank])
      return PF_INVALID(c, "indices are out of order at row %" PRId64 "; use SparseReorder first", i);
  DLTensor *y = pf_output_checked(c, 0, shape, 2);
  PF_EXHAUSTED(y);
  for (int64_t r = 0, lo = 0, hi; r < shape[0]; r++, lo = hi) {
    for (hi = lo; hi < s.n && s.at[hi * s.rank] == r; hi++) {}
    PF_TRY(put_sparse(c, y, r * 3, &s, lo, hi, 1));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- reading */
typedef struct { const uint8_t *p, *end; int bad; } reader;
static uint64_t get_varint(reader *r) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (r->p >= r->end) break;
    uint8_t x = *r->p++;
    v |= (uint64_t)(x & 127) << shift;
    if (x < 128) return v;
  }
  r->bad = 1;
  return 0;
}
static reader get_bytes(reader *r) {
  uint64_t n = get_varint(r);
  reader inner = {r->p, r->p, 0};
  if (r->bad || n > (uint64_t)(r->end - r->p)) r->bad = 1;
  else inner.end = r->p += n;
  return inner;
}
static void skip_field(reader *r, int wire) {
  if (wire == 0) (void)get_varint(r);
  else if (wire == 2) (void)get_bytes(r);
  else if ((wire == 1 && r->end - r->p >= 8) || (wire == 5 && r->end - r->p >= 4))
    r->p += wire == 1 ? 8 : 4;
  else r->bad = 1;
}
typedef struct {
  int32_t type, rank;
  int64_t dims[PF_MAX_DIMS], n, values;   /* elements by the shape; *_val entries found */
  reader content, all;                    /* `all`: the whole message, read again for *_val */
  int has_content;
} proto;
static void read_shape(reader r, proto *t) {
  while (r.p < r.end && !t->all.bad) {
    uint64_t key = get_varint(&r);
    if (key != (2 << 3 | 2)) {
      skip_field(&r, (int)(key & 7));
      t->all.bad |= r.bad || key == 3 << 3;          /* unknown_rank */
      continue;
    }
    reader dim = get_bytes(&r);
    int64_t size = 0;
    while (dim.p < dim.end && !dim.bad) {
      key = get_varint(&dim);
      if (key == 1 << 3) size = (int64_t)get_varint(&dim);
      else skip_field(&dim, (int)(key & 7));
    }
    t->all.bad |= r.bad || dim.bad || size < 0 || t->rank >= PF_MAX_DIMS;
    if (!t->all.bad) t->dims[t->rank++] = size;
  }
}
/* the number of the field that carries values of a type one by one */
static int value_field(int32_t type) {
  switch (type) {
    case PF_FLOAT32: return 5;
    case PF_FLOAT64: return 6;
    case PF_STRING: return 8;
    case PF_INT64: return 10;
    case PF_BOOL: return 11;
    case PF_INT32: case PF_INT16: case PF_INT8: case PF_UINT8: case PF_UINT16: return 7;
    default: return -1;
  }
}
static int read_proto(pf_str s, proto *t) {
  reader r = {(const uint8_t *)s.data, (const uint8_t *)s.data + s.len, 0};
  *t = (proto){.all = r};
  while (r.p < r.end && !r.bad && !t->all.bad) {
    uint64_t key = get_varint(&r);
    if (key == 1 << 3) t->type = (int32_t)get_varint(&r);
    else if (key == (2 << 3 | 2)) read_shape(get_bytes(&r), t);
    else if (key == (4 << 3 | 2)) t->content = get_bytes(&r), t->has_content = 1;
    else skip_field(&r, (int)(key & 7));
  }
  return !r.bad && !t->all.bad && pf_shape_numel(t->dims, t->rank, &t->n);
}
static int put_number(char *y, int32_t type, int64_t i, reader *r, int wire) {
  if (wire == 5 || wire == 1) {
    int64_t size = wire == 5 ? 4 : 8;
    if (r->end - r->p < size || size != pf_type_size(type)) return 0;
    memcpy(y + i * size, r->p, (size_t)size);
    r->p += size;
    return 1;
  }
  uint64_t v = get_varint(r);
  switch (pf_type_size(type)) {
    case 1: ((uint8_t *)y)[i] = type == PF_BOOL ? v != 0 : (uint8_t)v; break;
    case 2: ((uint16_t *)y)[i] = (uint16_t)v; break;
    case 4: ((uint32_t *)y)[i] = (uint32_t)v; break;
    default: ((uint64_t *)y)[i] = v;
  }
  return !r->bad;
}
/* the n elements of t into y, from element `at` on; a last *_val fills the rest, as protobuf allows */
static int read_values(pf_ctx *c, const proto *t, DLTensor *tensor, char *y, int64_t at) {
  int64_t es = pf_type_size(t->type), found = 0;
  if (t->has_content) {
    if (!es || t->content.end - t->content.p != t->n * es) return 0;
    if (t->n) memcpy(y + at * es, t->content.p, (size_t)(t->n * es));
    return 1;
  }
  reader r = t->all;
  int wanted = value_field(t->type);
  while (r.p < r.end && !r.bad) {
    uint64_t key = get_varint(&r);
    int wire = (int)(key & 7), own = t->type == PF_FLOAT32 ? 5 : t->type == PF_FLOAT64 ? 1 : 0;
    if ((int64_t)(key >> 3) != wanted) { skip_field(&r, wire); continue; }
    if (t->type == PF_STRING) {
      reader s = get_bytes(&r);
      if (r.bad || found >= t->n) return 0;
      if (c->host->str_set(tensor, at + found++, (pf_str){(const char *)s.p, s.end - s.p})) return 0;
      continue;
    }
    reader list = r;
    if (wire == 2) list = get_bytes(&r);
    do {
      if (wire == 2 && list.p >= list.end) break;
      if (found >= t->n || !put_number(y, t->type, at + found++, &list, own)) return 0;
    } while (wire == 2);
    if (wire != 2) r.p = list.p, r.bad |= list.bad;
  }
  if (r.bad || (found == 0 && t->n > 0) || (t->type == PF_STRING && found < t->n)) return 0;
  for (; found < t->n; found++) memcpy(y + (at + found) * es, y + (at + found - 1) * es, (size_t)es);
  return 1;
}

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
        return PF_INVALID(c, "Requested SparseTensor of type %s but serialized_sparse[%" PRId64
                             "].values.dtype() == %s",
                          pf_type_name(dtype), i, pf_type_name(t[1].type));
      if (rank < 0) rank = (int32_t)PF_MIN(t[2].dims[0], PF_MAX_DIMS + 1);
      if (t[2].dims[0] != rank || rank + batch_rank > PF_MAX_DIMS)
        return PF_INVALID(c, "Inconsistent rank across SparseTensors: rank prior to SparseTensor[%"
                          PRId64 "] was %d but rank of it is %" PRId64,
                          i, rank, t[2].dims[0]);
      if (!pass) {
        int64_t sizes[PF_MAX_DIMS];
        if (!read_values(c, &t[2], NULL, (char *)sizes, 0))
          return PF_INVALID(c, "Could not parse serialized_sparse[%" PRId64 ", 2]", i);
        for (int32_t k = 0; k < rank; k++) {
          if (sizes[k] < 0) return PF_INVALID(c, "serialized_sparse[%" PRId64 "] has a negative size", i);
          dims[k] = PF_MAX(dims[k], sizes[k]);
        }
        if (!t[1].has_content && t[1].n > (t[1].all.end - t[1].all.p) * 1024)
          return PF_INVALID(c, "serialized_sparse[%" PRId64 ", 1] says %" PRId64 " values", i, t[1].n);
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
  if (x->shape[0] < 1) return PF_INVALID(c, "Must have at least 1 serialized SparseTensor, but has 0");
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
  PF_CPU("DeserializeManySparse", NULL, .compute = deserialize_many, DTYPE),
  NULL};
