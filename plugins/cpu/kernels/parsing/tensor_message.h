/* tensor_message.h - TensorFlow's TensorProto, written and read.
 *
 * Invariants
 *   1. Written: dtype (1), tensor_shape (2) and tensor_content (4), or string_val (8).
 *   2. Read: bytes are untrusted; every length is checked against what is left, every size by
 *      pf_mul, and the content must be exactly as long as the shape says.  Packed and repeated
 *      *_val fields that other writers use are read for the types that have one.
 * Threads: one owner.
 *
 *     proto t;  if (!read_proto(bytes, &t) || !believable(&t)) ...;  read_values(c, &t, y, data, 0)
 */
#ifndef PF_CPU_TENSOR_MESSAGE_H
#define PF_CPU_TENSOR_MESSAGE_H
#include "base/bytes.h"

/* ---------------------------------------------------------------- writing */
PF_LOCAL void put_varint(pf_bytes *b, uint64_t v) {
  char t[10];
  int n = 0;
  for (; v >= 128; v >>= 7) t[n++] = (char)(v | 128);
  t[n++] = (char)v;
  pf_bytes_add(b, t, n);
}
PF_LOCAL void put_shape(pf_bytes *b, const int64_t *dims, int32_t rank) {
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
PF_LOCAL pf_status put_tensor(pf_ctx *c, pf_bytes *b, int32_t type, const int64_t *dims,
                              int32_t rank, const void *data, const DLTensor *x, int64_t from,
                              int64_t n) {
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

/* ---------------------------------------------------------------- reading */
typedef struct {
  const uint8_t *p, *end;
  int bad;
} reader;
PF_LOCAL uint64_t get_varint(reader *r) {
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
PF_LOCAL reader get_bytes(reader *r) {
  uint64_t n = get_varint(r);
  reader inner = {r->p, r->p, 0};
  if (r->bad || n > (uint64_t)(r->end - r->p)) r->bad = 1;
  else inner.end = r->p += n;
  return inner;
}
PF_LOCAL void skip_field(reader *r, int wire) {
  if (wire == 0) (void)get_varint(r);
  else if (wire == 2) (void)get_bytes(r);
  else if ((wire == 1 && r->end - r->p >= 8) || (wire == 5 && r->end - r->p >= 4))
    r->p += wire == 1 ? 8 : 4;
  else r->bad = 1;
}
typedef struct {
  int32_t type, rank;
  int64_t dims[PF_MAX_DIMS], n, values; /* elements by the shape; *_val entries found */
  reader content, all;                  /* `all`: the whole message, read again for *_val */
  int has_content;
} proto;
PF_LOCAL void read_shape(reader r, proto *t) {
  while (r.p < r.end && !t->all.bad) {
    uint64_t key = get_varint(&r);
    if (key != (2 << 3 | 2)) {
      skip_field(&r, (int)(key & 7));
      t->all.bad |= r.bad || key == 3 << 3; /* unknown_rank */
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
PF_LOCAL int value_field(int32_t type) {
  switch (type) {
    case PF_FLOAT32: return 5;
    case PF_FLOAT64: return 6;
    case PF_STRING: return 8;
    case PF_INT64: return 10;
    case PF_BOOL: return 11;
    case PF_INT32:
    case PF_INT16:
    case PF_INT8:
    case PF_UINT8:
    case PF_UINT16: return 7;
    default: return -1;
  }
}
PF_LOCAL int read_proto(pf_str s, proto *t) {
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
PF_LOCAL int put_number(char *y, int32_t type, int64_t i, reader *r, int wire) {
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
/* the n elements of t into y, from element `at` on; a last *_val fills the rest */
PF_LOCAL int read_values(pf_ctx *c, const proto *t, DLTensor *tensor, char *y, int64_t at) {
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
    if ((int64_t)(key >> 3) != wanted) {
      skip_field(&r, wire);
      continue;
    }
    if (t->type == PF_STRING) {
      reader s = get_bytes(&r);
      if (r.bad || found >= t->n) return 0;
      pf_str text = {(const char *)s.p, s.end - s.p};
      if (c->host->str_set(tensor, at + found++, text)) return 0;
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
  for (; found < t->n; found++)
    memcpy(y + (at + found) * es, y + (at + found - 1) * es, (size_t)es);
  return 1;
}
/* 0: a few bytes that say they are very many elements, as values that repeat the last one can */
PF_LOCAL int believable(const proto *t) {
  return t->has_content || t->n <= (t->all.end - t->all.p + 64) * 1024;
}
#endif
