/* proto.h - protobuf's wire format, written field by field, for Summary messages.
 *
 * Invariants
 *   1. Fields are written in the order of their numbers, and numbers that are zero left out, as
 *      protobuf's own writer does: equal messages are equal bytes.
 *   2. What is appended to fails as pf_bytes does; one check at the end is enough.
 * Threads: one owner.
 *
 *     pf_bytes value = {0}, summary = {0};
 *     pb_bytes(&value, 1, tag.data, tag.len);
 *     pb_message(&summary, 1, &value);
 */
#ifndef PF_CPU_PROTO_H
#define PF_CPU_PROTO_H
#include "base/bytes.h"

enum { PB_VARINT = 0, PB_64BIT = 1, PB_LENGTH = 2, PB_32BIT = 5 };

PF_LOCAL void pb_varint(pf_bytes *b, uint64_t v) {
  char text[10];
  int n = 0;
  for (; v > 127; v >>= 7) text[n++] = (char)(v | 128);
  text[n++] = (char)v;
  pf_bytes_add(b, text, n);
}
PF_LOCAL void pb_tag(pf_bytes *b, int field, int wire) {
  pb_varint(b, (uint64_t)field << 3 | (uint64_t)wire);
}
/* a string or message, also an empty one */
PF_LOCAL void pb_bytes(pf_bytes *b, int field, const char *data, int64_t n) {
  pb_tag(b, field, PB_LENGTH);
  pb_varint(b, (uint64_t)n);
  pf_bytes_add(b, data, n);
}
/* the message in `inner`, which is freed */
PF_LOCAL void pb_message(pf_bytes *b, int field, pf_bytes *inner) {
  int failed = inner->failed;
  if (!failed) pb_bytes(b, field, inner->data, inner->n);
  pf_bytes_free(inner);
  if (failed) {
    pf_bytes_free(b);
    b->failed = 1;
  }
}
PF_LOCAL void pb_text(pf_bytes *b, int field, const char *data, int64_t n) {
  if (n) pb_bytes(b, field, data, n);
}
PF_LOCAL void pb_int(pf_bytes *b, int field, int64_t v) {
  if (!v) return;
  pb_tag(b, field, PB_VARINT);
  pb_varint(b, (uint64_t)v);
}
/* always: one of several fields, where zero is a value, too */
PF_LOCAL void pb_float_always(pf_bytes *b, int field, float v) {
  pb_tag(b, field, PB_32BIT);
  pf_bytes_add(b, (const char *)&v, 4);
}
PF_LOCAL void pb_float(pf_bytes *b, int field, float v) {
  if (pf_float_bits(v)) pb_float_always(b, field, v);
}
PF_LOCAL void pb_double(pf_bytes *b, int field, double v) {
  if (!pf_double_bits(v)) return;
  pb_tag(b, field, PB_64BIT);
  pf_bytes_add(b, (const char *)&v, 8);
}

/* One field of a message: the next one from *at on, its number, and what a length announces.
 * 1: read; 0: the end; -1: these bytes are no message. */
typedef struct {
  int64_t number, wire;
  const char *data;
  int64_t n;
} pb_field;

PF_LOCAL int pb_read_varint(const char *s, int64_t n, int64_t *at, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && *at < n; shift += 7) {
    uint8_t byte = (uint8_t)s[(*at)++];
    *v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return 1;
  }
  return 0;
}
PF_LOCAL int pb_next(const char *s, int64_t n, int64_t *at, pb_field *f) {
  uint64_t key, size = 0;
  if (*at >= n) return 0;
  if (!pb_read_varint(s, n, at, &key)) return -1;
  f->number = (int64_t)(key >> 3), f->wire = (int64_t)(key & 7);
  int64_t start = *at;
  switch (f->wire) {
    case PB_VARINT:
      if (!pb_read_varint(s, n, at, &size)) return -1;
      size = 0;
      break;
    case PB_64BIT: size = 8; break;
    case PB_32BIT: size = 4; break;
    case PB_LENGTH:
      if (!pb_read_varint(s, n, at, &size)) return -1;
      start = *at;
      break;
    default: return -1;
  }
  if (f->number < 1 || size > (uint64_t)(n - *at)) return -1;
  f->data = s + start;
  *at += (int64_t)size;
  f->n = *at - start;
  return 1;
}

/* the bytes become the scalar string output 0; they are freed */
PF_LOCAL pf_status pb_done(pf_ctx *c, pf_bytes *b) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  pf_status st = PF_RESOURCE_EXHAUSTED;
  if (b->failed) st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a summary");
  else if (y) st = c->host->str_set(y, 0, (pf_str){b->data ? b->data : "", b->n});
  pf_bytes_free(b);
  return st;
}
/* a scalar string: the tag of a summary */
PF_LOCAL pf_status pb_tag_input(pf_ctx *c, int32_t in, const char *what, pf_str *out) {
  if (pf_numel(c->in[in]) != 1 || c->in[in]->ndim != 0)
    return PF_INVALID(c, "%s must be a scalar, got shape %s", what, PF_SHAPE(c->in[in]).s);
  return c->host->str_get(c->in[in], 0, out);
}
#endif
