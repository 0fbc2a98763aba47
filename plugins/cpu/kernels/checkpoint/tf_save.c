/* tf_save.c - SaveV2 in TensorFlow's format (a bundle of one shard), where the node's attribute
 * `_format` asks for it.
 *
 * Invariants
 *   1. Both files are complete and synced before either has its name; an index that is there is
 *      removed first, so that no moment shows an old index with new bytes.  What a crash then
 *      leaves is no checkpoint: prefixes with a step's number keep the ones before.
 *   2. Equal tensors give equal bytes.
 * Threads: the host's BLOCKING lane; two writers of one prefix at once are not supported.
 */
#include "checkpoint/crc32c.h"
#include "checkpoint/tf_bundle.h"
#include <unistd.h>

enum { BLOCK = 4096, STEP = 1 << 20 };

/* ---------------------------------------------------------------- protocol buffers */
static void put_varint(pf_bytes *b, uint64_t x) {
  char text[10];
  int n = 0;
  for (; x > 127; x >>= 7) text[n++] = (char)(x | 128);
  text[n++] = (char)x;
  pf_bytes_add(b, text, n);
}
static void put_number(pf_bytes *b, int field, uint64_t x) {
  if (!x) return;
  put_varint(b, (uint64_t)field << 3);
  put_varint(b, x);
}
static void put_fixed32(pf_bytes *b, uint32_t x) {
  char text[4] = {(char)x, (char)(x >> 8), (char)(x >> 16), (char)(x >> 24)};
  pf_bytes_add(b, text, 4);
}
static void put_bytes(pf_bytes *b, int field, const pf_bytes *value) {
  put_varint(b, (uint64_t)field << 3 | 2);
  put_varint(b, (uint64_t)value->n);
  pf_bytes_add(b, value->data, value->n);
}

/* ---------------------------------------------------------------- tables */
typedef struct { pf_bytes out, block, last, index, index_last; } table;

static void put_entry(pf_bytes *block, pf_bytes *last, pf_str key, pf_str value) {
  int64_t shared = 0;
  while (block->n && shared < PF_MIN(last->n, key.len) && last->data[shared] == key.data[shared])
    shared++;
  put_varint(block, (uint64_t)shared);
  put_varint(block, (uint64_t)(key.len - shared));
  put_varint(block, (uint64_t)value.len);
  pf_bytes_add(block, key.data + shared, key.len - shared);
  pf_bytes_add(block, value.data, value.len);
  last->n = 0;
  pf_bytes_add(last, key.data, key.len);
}

/* The block, one restart at its beginning, its trailer; *handle: where it is. */
static void end_block(pf_bytes *out, pf_bytes *block, pf_bytes *handle) {
  put_fixed32(block, 0);
  put_fixed32(block, 1);
  handle->n = 0;
  put_varint(handle, (uint64_t)out->n);
  put_varint(handle, (uint64_t)block->n);
  pf_bytes_add(block, "\0", 1);
  uint32_t crc = block->failed ? 0 : pf_crc32c(0, block->data, block->n);
  put_fixed32(block, pf_crc32c_mask(crc));
  pf_bytes_add(out, block->data, block->n);
  block->n = 0;
}

static void flush(table *t) {
  pf_bytes handle = {0};
  if (!t->block.n) return;
  end_block(&t->out, &t->block, &handle);
  put_entry(&t->index, &t->index_last, (pf_str){t->last.data, t->last.n},
            (pf_str){handle.data, handle.n});
  t->out.failed |= handle.failed | t->index.failed | t->last.failed;
  pf_bytes_free(&handle);
}

static void table_add(table *t, pf_str key, const pf_bytes *value) {
  put_entry(&t->block, &t->last, key, (pf_str){value->data, value->n});
  t->out.failed |= value->failed | t->block.failed;
  if (t->block.n >= BLOCK) flush(t);
}

static void table_end(table *t) {
  static const char magic[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
  pf_bytes meta = {0}, meta_at = {0}, index_at = {0};
  flush(t);
  end_block(&t->out, &meta, &meta_at);
  end_block(&t->out, &t->index, &index_at);
  t->out.failed |= meta.failed | meta_at.failed | index_at.failed | t->index.failed;
  int64_t begin = t->out.n;
  pf_bytes_add(&t->out, meta_at.data, meta_at.n);
  pf_bytes_add(&t->out, index_at.data, index_at.n);
  while (!t->out.failed && t->out.n < begin + TT_FOOTER - 8) pf_bytes_add(&t->out, "", 1);
  pf_bytes_add(&t->out, magic, 8);
  pf_bytes_free(&meta);
  pf_bytes_free(&meta_at);
  pf_bytes_free(&index_at);
}

/* ---------------------------------------------------------------- bytes of the tensors */
static pf_status write_plain(pf_ctx *c, int fd, const char *path, const char *data, int64_t n,
                             uint32_t *crc) {
  for (int64_t at = 0; at < n; at += STEP) {
    int64_t m = PF_MIN(STEP, n - at);
    *crc = pf_crc32c(*crc, data + at, m);
    PF_TRY(ck_write_all(c, fd, path, data + at, m));
  }
  return PF_OK;
}

static pf_status write_strings(pf_ctx *c, int fd, const char *path, ck_item *it) {
  pf_bytes b = {0};
  int64_t n = pf_numel(it->t), head;
  pf_status r = PF_OK;
  pf_str s;
  for (int64_t i = 0; i < n && r == PF_OK; i++) {
    r = c->host->str_get(it->t, i, &s);
    uint32_t small = (uint32_t)s.len;
    put_varint(&b, (uint64_t)s.len);
    it->crc = s.len <= UINT32_MAX ? pf_crc32c(it->crc, &small, 4) : pf_crc32c(it->crc, &s.len, 8);
  }
  head = b.n;
  put_fixed32(&b, pf_crc32c_mask(it->crc));
  for (int64_t i = 0; i < n && r == PF_OK; i++) {
    r = c->host->str_get(it->t, i, &s);
    pf_bytes_add(&b, s.data, s.len);
  }
  if (r == PF_OK && b.failed) r = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to save strings");
  if (r == PF_OK) {
    it->crc = pf_crc32c(it->crc, b.data + head, b.n - head);
    it->bytes = b.n;
    r = ck_write_all(c, fd, path, b.data, b.n);
  }
  pf_bytes_free(&b);
  return r;
}

static pf_status write_data(pf_ctx *c, int fd, const char *path, ck_item *items, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 0; i < n; i++) {
    ck_item *it = &items[i];
    it->begin = at;
    if (it->type == PF_STRING) PF_TRY(write_strings(c, fd, path, it));
    else PF_TRY(write_plain(c, fd, path, PF_DATA(const char, it->t), it->bytes, &it->crc));
    at += it->bytes;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- the index */
static void put_shape(pf_bytes *value, const int64_t *sizes, int32_t ndim) {
  pf_bytes shape = {0}, dim = {0};
  for (int32_t d = 0; d < ndim; d++) {
    dim.n = 0;
    put_number(&dim, 1, (uint64_t)sizes[d]);
    put_bytes(&shape, 2, &dim);
  }
  put_bytes(value, 2, &shape);
  value->failed |= shape.failed | dim.failed;
  pf_bytes_free(&shape);
  pf_bytes_free(&dim);
}

static void make_value(pf_bytes *value, const ck_item *it) {
  value->n = 0;
  put_number(value, 1, (uint64_t)it->type);
  put_shape(value, it->t->shape, it->t->ndim);
  put_number(value, 4, (uint64_t)it->begin);
  put_number(value, 5, (uint64_t)it->bytes);
  put_varint(value, 6 << 3 | 5);
  put_fixed32(value, pf_crc32c_mask(it->crc));
}

/* Of a tensor of which slices are there: the whole's shape, and their places. */
static void make_list(pf_bytes *value, const ck_item *items, int64_t n) {
  pf_bytes slice = {0}, extent = {0};
  int32_t ndim = items->t->ndim;
  value->n = 0;
  put_number(value, 1, (uint64_t)items->type);
  put_shape(value, items->part->dims, ndim);
  for (int64_t i = 0; i < n; i++) {
    slice.n = 0;
    for (int32_t d = 0; d < ndim; d++) {
      extent.n = 0;
      put_number(&extent, 1, (uint64_t)items[i].part->place[2 * d]);
      put_varint(&extent, 2 << 3); /* without a length it would be the whole dimension */
      put_varint(&extent, (uint64_t)items[i].part->place[2 * d + 1]);
      put_bytes(&slice, 1, &extent);
    }
    put_bytes(value, 7, &slice);
  }
  value->failed |= slice.failed | extent.failed;
  pf_bytes_free(&slice);
  pf_bytes_free(&extent);
}

static void add_slice(table *t, const ck_item *it, pf_bytes *value) {
  int64_t part[TB_PLACE + 2 * PF_MAX_DIMS] = {0};
  tb_entry e = {.key = it->name, .key_len = (int64_t)strlen(it->name), .ndim = it->t->ndim};
  pf_bytes key = {0};
  memcpy(part + TB_PLACE, it->part->place, 16 * (size_t)e.ndim);
  tb_part_key(&key, &e, part);
  make_value(value, it);
  table_add(t, (pf_str){key.data, key.n}, value);
  t->out.failed |= key.failed;
  pf_bytes_free(&key);
}

/* Keys ascend: slices' begin with a zero byte. */
static pf_status make_index(pf_ctx *c, const ck_item *items, int64_t n, pf_bytes *out) {
  table t = {.out = {0}};
  pf_bytes value = {0}, version = {0};
  put_number(&version, 1, 1);
  put_number(&value, 1, 1);
  put_bytes(&value, 3, &version);
  table_add(&t, (pf_str){"", 0}, &value);
  for (int64_t i = 0; i < n; i++)
    if (items[i].part) add_slice(&t, &items[i], &value);
  for (int64_t i = 0, next; i < n; i = next) {
    for (next = i + 1; next < n && items[i].part && !strcmp(items[next].name, items[i].name);)
      next++;
    if (items[i].part) make_list(&value, &items[i], next - i);
    else make_value(&value, &items[i]);
    table_add(&t, (pf_str){items[i].name, (int64_t)strlen(items[i].name)}, &value);
  }
  table_end(&t);
  pf_bytes_free(&value);
  pf_bytes_free(&version);
  pf_bytes_free(&t.block);
  pf_bytes_free(&t.last);
  pf_bytes_free(&t.index);
  pf_bytes_free(&t.index_last);
  *out = t.out;
  return out->failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of a checkpoint")
                     : PF_OK;
}

/* ---------------------------------------------------------------- files */
typedef struct {
  char path[CK_PATH], temporary[CK_PATH];
  int fd;
} writing;

static pf_status begin(pf_ctx *c, writing *w, const char *prefix, const char *ending) {
  if (snprintf(w->path, CK_PATH, "%s%s", prefix, ending) >= CK_PATH)
    return PF_INVALID(c, "path is too long: %s", prefix);
  return ck_create(c, w->path, w->temporary, &w->fd);
}
static void drop(writing *w) {
  if (w->fd < 0) return;
  close(w->fd);
  unlink(w->temporary);
}
static pf_status commit(pf_ctx *c, writing *w) {
  int fd = w->fd;
  w->fd = -1;
  return ck_commit(c, fd, w->temporary, w->path);
}

pf_status tb_save(pf_ctx *c, const char *prefix, ck_item *items, int64_t n) {
  writing data = {.fd = -1}, index = {.fd = -1};
  pf_bytes text = {0};
  pf_status r = begin(c, &data, prefix, ".data-00000-of-00001");
  if (r == PF_OK) r = write_data(c, data.fd, data.temporary, items, n);
  if (r == PF_OK) r = make_index(c, items, n, &text);
  if (r == PF_OK) r = begin(c, &index, prefix, ".index");
  if (r == PF_OK) r = ck_write_all(c, index.fd, index.temporary, text.data, text.n);
  if (r == PF_OK && fsync(data.fd)) r = ck_errno(c, "fsync", data.temporary);
  if (r == PF_OK) unlink(index.path);
  if (r == PF_OK) r = commit(c, &data);
  if (r == PF_OK) r = commit(c, &index);
  if (r == PF_OK) r = ck_sync_folder(c, prefix);
  drop(&data);
  drop(&index);
  pf_bytes_free(&text);
  return r;
}
