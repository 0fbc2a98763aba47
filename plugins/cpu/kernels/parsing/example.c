/* example.c - tf.Example's wire format: example.h. */
#include "parsing/example.h"

/* ---------------------------------------------------------------- keys */
static uint32_t hash_of(pf_str s) {
  uint32_t h = 2166136261u; /* FNV-1a */
  for (int64_t i = 0; i < s.len; i++) h = (h ^ (uint8_t)s.data[i]) * 16777619u;
  return h ^ h >> 15;
}
static int same(pf_str a, pf_str b) {
  return a.len == b.len && (!a.len || !memcmp(a.data, b.data, (size_t)a.len));
}
/* the slot of a key, or the free one where it would stand */
static int32_t *slot_of(const ex_table *t, pf_str key) {
  uint32_t i = hash_of(key) & (uint32_t)t->mask;
  while (t->slot[i] && !same(t->keys[t->slot[i] - 1], key)) i = (i + 1) & (uint32_t)t->mask;
  return &t->slot[i];
}
int ex_table_make(ex_table *t, const pf_str *keys, int32_t n) {
  int32_t room = 4;
  *t = (ex_table){.keys = keys, .n = n};
  if (n > 1 << 28) return 0;
  while (room < 2 * n) room *= 2;
  t->slot = calloc((size_t)room, sizeof *t->slot);
  t->mask = room - 1;
  if (!t->slot) return 0;
  for (int32_t k = 0; k < n; k++) {
    int32_t *slot = slot_of(t, keys[k]);
    if (*slot) return -1 - k;
    *slot = k + 1;
  }
  return 1;
}
void ex_table_free(ex_table *t) { free(t->slot); }

/* ---------------------------------------------------------------- messages */
/* The entries of a map, a message whose field 1 they are. */
static int read_map(const ex_table *t, pf_str map, ex_feature *found) {
  pb_field entry, part;
  int64_t at = 0;
  int more;
  while ((more = pb_next(map.data, map.len, &at, &entry)) > 0) {
    if (entry.number != 1 || entry.wire != PB_LENGTH) continue;
    pf_str key = {"", 0}, value = {"", 0};
    int64_t in = 0;
    int inner;
    while ((inner = pb_next(entry.data, entry.n, &in, &part)) > 0)
      if (part.wire == PB_LENGTH && part.number <= 2)
        *(part.number == 1 ? &key : &value) = (pf_str){part.data, part.n};
    if (inner < 0) return 0;
    int32_t slot = t->n ? *slot_of(t, key) : 0;
    if (slot) found[slot - 1] = (ex_feature){.bytes = value, .there = 1};
  }
  return more == 0;
}
int ex_read_sequence(const ex_table *context, const ex_table *lists, pf_str message,
                     ex_feature *in_context, ex_feature *in_lists) {
  pb_field f;
  int64_t at = 0;
  int more;
  while ((more = pb_next(message.data, message.len, &at, &f)) > 0) {
    if (f.wire != PB_LENGTH || f.number > 2) continue;
    pf_str map = {f.data, f.n};
    if (f.number == 1 && !read_map(context, map, in_context)) return 0;
    if (f.number == 2 && lists && !read_map(lists, map, in_lists)) return 0;
  }
  return more == 0;
}
int ex_read_example(const ex_table *t, pf_str message, ex_feature *found) {
  return ex_read_sequence(t, NULL, message, found, NULL);
}
int ex_next_step(pf_str list, int64_t *at, ex_feature *f) {
  pb_field field;
  int more;
  while ((more = pb_next(list.data, list.len, at, &field)) > 0)
    if (field.number == 1 && field.wire == PB_LENGTH) {
      *f = (ex_feature){.bytes = {field.data, field.n}, .there = 1};
      return ex_feature_open(f) ? 1 : -1;
    }
  return more;
}

/* ---------------------------------------------------------------- values */
/* How many numbers a packed run of varints holds; -1: the last one is cut off, or one too long. */
static int64_t varints(const char *s, int64_t n) {
  int64_t count = 0, length = 0;
  for (int64_t i = 0; i < n; i++) {
    if (++length > 10) return -1;
    if (!((uint8_t)s[i] & 128)) count++, length = 0;
  }
  return length ? -1 : count;
}
/* The values of one list, a message; how many, or -1. */
static int64_t count_list(int32_t kind, pf_str list) {
  pb_field f;
  int64_t at = 0, count = 0, more;
  int state;
  while ((state = pb_next(list.data, list.len, &at, &f)) > 0) {
    if (f.number != 1) continue;
    more = 0;
    if (kind == EX_BYTES) more = f.wire == PB_LENGTH;
    else if (kind == EX_FLOATS)
      more = f.wire == PB_32BIT ? 1 : f.wire != PB_LENGTH ? 0 : f.n % 4 ? -1 : f.n / 4;
    else more = f.wire == PB_VARINT ? 1 : f.wire == PB_LENGTH ? varints(f.data, f.n) : 0;
    if (more < 0) return -1;
    count += more;
  }
  return state ? -1 : count;
}
int ex_feature_open(ex_feature *f) {
  pb_field field;
  int64_t at = 0, from = 0, before = 0, count;
  int more;
  f->kind = EX_NONE;
  f->count = 0;
  while ((more = pb_next(f->bytes.data, f->bytes.len, &at, &field)) > 0) {
    if (field.wire == PB_LENGTH && field.number <= EX_INTS) {
      if (f->kind != field.number) f->kind = (int32_t)field.number, f->count = 0, from = before;
      if ((count = count_list(f->kind, (pf_str){field.data, field.n})) < 0) return 0;
      f->count += count;
    }
    before = at;
  }
  f->bytes = (pf_str){f->bytes.data + from, f->bytes.len - from};
  return more == 0;
}

static float float_at(const char *s) { /* little endian, as messages are */
  const uint8_t *b = (const uint8_t *)s;
  return pf_bits_float((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                       (uint32_t)b[3] << 24);
}
static pf_status put_field(const pf_host *host, int32_t kind, const pb_field *f, DLTensor *y,
                           int64_t *at) {
  if (kind == EX_BYTES)
    return f->wire == PB_LENGTH ? host->str_set(y, (*at)++, (pf_str){f->data, f->n}) : PF_OK;
  if (kind == EX_FLOATS) {
    if (f->wire != PB_32BIT && f->wire != PB_LENGTH) return PF_OK;
    for (int64_t i = 0; i < f->n; i += 4) PF_DATA(float, y)[(*at)++] = float_at(f->data + i);
    return PF_OK;
  }
  if (f->wire != PB_VARINT && f->wire != PB_LENGTH) return PF_OK;
  for (int64_t i = 0; i < f->n;) {
    uint64_t v = (uint8_t)f->data[i];
    if (v < 128) i++;
    else if (!pb_read_varint(f->data, f->n, &i, &v)) return PF_INVALID_ARGUMENT;
    PF_DATA(int64_t, y)[(*at)++] = (int64_t)v;
  }
  return PF_OK;
}
pf_status ex_values(const pf_host *host, const ex_feature *f, DLTensor *y, int64_t at) {
  pb_field list, field;
  int64_t in_feature = 0;
  while (f->kind && pb_next(f->bytes.data, f->bytes.len, &in_feature, &list) > 0) {
    if (list.number != f->kind || list.wire != PB_LENGTH) continue;
    for (int64_t in = 0; pb_next(list.data, list.n, &in, &field) > 0;)
      if (field.number == 1) PF_TRY(put_field(host, f->kind, &field, y, &at));
  }
  return PF_OK;
}
