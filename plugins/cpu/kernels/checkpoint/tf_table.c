/* tf_table.c - see tf_table.h.
 *
 * Formats: leveldb's table_format.md, snappy's format_description.txt.
 */
#include "checkpoint/tf_table.h"
#include "checkpoint/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned char MAGIC[8] = {0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb};

/* ---------------------------------------------------------------- protocol buffers */
uint64_t pb_varint(pb_reader *r) {
  uint64_t x = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (r->p >= r->end) break;
    unsigned char byte = *r->p++;
    x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return x;
  }
  r->bad = 1;
  return 0;
}

static uint64_t little(const unsigned char *p, int n) {
  uint64_t x = 0;
  for (int i = n; i-- > 0;) x = x << 8 | p[i];
  return x;
}

int pb_next(pb_reader *r, pb_field *f) {
  if (r->bad || r->p >= r->end) return 0;
  uint64_t tag = pb_varint(r);
  f->wire = (int32_t)(tag & 7);
  f->number = tag >> 3 < 1 << 29 ? (int32_t)(tag >> 3) : 0;
  f->bytes = (pf_str){NULL, 0};
  if (f->number == 0) r->bad = 1;
  int size = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
  if (f->wire == 0) {
    f->value = pb_varint(r);
  } else if (size && r->end - r->p >= size) {
    f->value = little(r->p, size);
    f->bytes = (pf_str){(const char *)r->p, size};
    r->p += size;
  } else if (f->wire == 2) {
    f->value = pb_varint(r);
    if (f->value > (uint64_t)(r->end - r->p)) return r->bad = 1, 0;
    f->bytes = (pf_str){(const char *)r->p, (int64_t)f->value};
    r->p += f->value;
  } else r->bad = 1;
  return !r->bad;
}

/* ---------------------------------------------------------------- snappy */
static int copy_back(pf_bytes *out, int64_t back, int64_t n, int64_t limit) {
  if (back < 1 || back > out->n || n > limit - out->n) return 0;
  char *to = out->data + out->n;
  const char *from = to - back;
  for (int64_t i = 0; i < n; i++) to[i] = from[i]; /* they may overlap: one after the other */
  out->n += n;
  return 1;
}

static int unpack_one(pb_reader *r, pf_bytes *out, int64_t limit) {
  unsigned tag = *r->p++, kind = tag & 3;
  int64_t n = (tag >> 2) + 1, left = r->end - r->p;
  if (kind == 0) {
    int more = n > 60 ? (int)(n - 60) : 0;
    if (left < more) return 0;
    if (more) n = (int64_t)little(r->p, more) + 1;
    r->p += more;
    if (n > left - more || n > limit - out->n) return 0;
    memcpy(out->data + out->n, r->p, (size_t)n);
    out->n += n;
    r->p += n;
    return 1;
  }
  int more = kind == 1 ? 1 : kind == 2 ? 2 : 4;
  if (left < more) return 0;
  int64_t back = (int64_t)little(r->p, more);
  r->p += more;
  if (kind == 1) return copy_back(out, back | (int64_t)(tag >> 5) << 8, (tag >> 2 & 7) + 4, limit);
  return copy_back(out, back, n, limit);
}

/* 0: malformed, or larger than snappy can make it or `limit` allows; out->failed: no memory. */
static int unpack(pf_str packed, int64_t limit, pf_bytes *out) {
  pb_reader r = pb_of(packed);
  uint64_t n = pb_varint(&r);
  if (r.bad || n > (uint64_t)limit || n / 32 > (uint64_t)packed.len) return 0;
  out->n = 0;
  if (!pf_bytes_reserve(out, (int64_t)n)) return 0;
  while (r.p < r.end)
    if (!unpack_one(&r, out, (int64_t)n)) return 0;
  return out->n == (int64_t)n;
}

/* ---------------------------------------------------------------- blocks */
static pf_status damaged(pf_ctx *c, const tt_table *t, const char *what, int64_t at) {
  return pf_failf(c, PF_DATA_LOSS, "%s is damaged: %s at byte %" PRId64, t->path, what, at);
}

static pf_status check_block(pf_ctx *c, tt_table *t, const pf_bytes *raw, int64_t n, int64_t at) {
  const unsigned char *end = (const unsigned char *)raw->data + n;
  uint32_t said = (uint32_t)little(end + 1, 4);
  uint32_t is = pf_crc32c_mask(pf_crc32c(0, raw->data, n + 1));
  if (is == said) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "%s is damaged: the block at byte %" PRId64 " has CRC %08x, expected %08x",
                  t->path, at, is, said);
}

/* Reads, checks and unpacks one block into t->block. */
static pf_status load(pf_ctx *c, tt_table *t, int64_t at, int64_t n) {
  pf_bytes *raw = &t->block, packed;
  t->loaded = -1;
  if (at < 0 || n < 4 || n > t->block_limit || at > t->size - TT_FOOTER - TT_TRAILER - n)
    return damaged(c, t, "a block lies outside the file, or has no size,", at);
  raw->n = 0;
  if (!pf_bytes_reserve(raw, n + TT_TRAILER)) {
    raw->failed = 0;
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for a block of %" PRId64 " bytes of %s", n,
                    t->path);
  }
  PF_TRY(ck_read_at(c, t->fd, t->path, raw->data, n + TT_TRAILER, at));
  PF_TRY(check_block(c, t, raw, n, at));
  int kind = raw->data[n];
  raw->n = n;
  if (kind == 0) return PF_OK;
  if (kind != 1) return damaged(c, t, "a block of unknown compression", at);
  packed = *raw;
  *raw = (pf_bytes){0};
  int ok = unpack((pf_str){packed.data, n}, t->block_limit, raw);
  pf_bytes_free(&packed);
  if (raw->failed) {
    raw->failed = 0;
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory to unpack a block of %s", t->path);
  }
  return ok ? PF_OK : damaged(c, t, "a block that is no snappy data", at);
}

typedef struct {
  pb_reader r;
  pf_bytes key;
  pf_str value;
  const char *wrong;
} cursor;

static cursor entries_of(const pf_bytes *block) {
  cursor x = {.wrong = NULL};
  const unsigned char *data = (const unsigned char *)block->data;
  uint64_t restarts = block->n < 4 ? UINT32_MAX : little(data + block->n - 4, 4);
  if (block->n < 4 || restarts > (uint64_t)(block->n - 4) / 4) {
    x.wrong = "a block whose restarts do not fit";
    return x;
  }
  x.r = (pb_reader){data, data + block->n - 4 - 4 * (int64_t)restarts, 0};
  return x;
}

/* 1: key and value are the next entry's; 0: the end, or `wrong` says why not. */
static int step(cursor *x) {
  if (x->wrong || x->r.p >= x->r.end) return 0;
  uint64_t shared = pb_varint(&x->r), own = pb_varint(&x->r), n = pb_varint(&x->r);
  uint64_t left = (uint64_t)(x->r.end - x->r.p);
  if (x->r.bad || own > left || n > left - own || shared > (uint64_t)x->key.n ||
      shared + own > TT_KEY_LIMIT) {
    x->wrong = "an entry that does not fit its block";
    return 0;
  }
  int cmp = 1;
  if (x->key.data) {
    int64_t rest = x->key.n - (int64_t)shared;
    cmp = memcmp(x->r.p, x->key.data + shared, (size_t)PF_MIN((int64_t)own, rest));
    if (!cmp) cmp = (int64_t)own > rest ? 1 : -1;
  }
  if (cmp <= 0) return x->wrong = "a key that is not above the one before it", 0;
  x->key.n = (int64_t)shared;
  pf_bytes_add(&x->key, (const char *)x->r.p, (int64_t)own);
  if (x->key.failed) return x->wrong = "no memory for a key", 0;
  x->value = (pf_str){(const char *)x->r.p + own, (int64_t)n};
  x->r.p += own + n;
  return 1;
}
static pf_str key_of(const cursor *x) { return (pf_str){x->key.data ? x->key.data : "", x->key.n}; }

/* ---------------------------------------------------------------- the table */
int tt_is_table(const char *path) {
  unsigned char tail[8];
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC), ok = 0;
  if (fd < 0) return 0;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= TT_FOOTER)
    ok = pread(fd, tail, 8, (off_t)(st.st_size - 8)) == 8 && !memcmp(tail, MAGIC, 8);
  close(fd);
  return ok;
}

static pf_status add_handle(pf_ctx *c, tt_table *t, pf_str key, pf_str value) {
  pb_reader r = pb_of(value);
  uint64_t at = pb_varint(&r), n = pb_varint(&r);
  if (r.bad || at > INT64_MAX || n > INT64_MAX) return damaged(c, t, "its index", t->size);
  if (t->n_blocks == t->room) {
    int64_t room = t->room * 2 + 16;
    tt_handle *more = realloc(t->blocks, (size_t)room * sizeof *more);
    if (!more) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of %s", t->path);
    t->blocks = more;
    t->room = room;
  }
  if (t->keys.n + key.len > CK_INDEX_LIMIT) return damaged(c, t, "its index is too large", t->size);
  t->blocks[t->n_blocks++] = (tt_handle){(int64_t)at, (int64_t)n, t->keys.n, key.len};
  pf_bytes_add(&t->keys, key.data, key.len);
  return t->keys.failed
             ? pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of %s", t->path)
             : PF_OK;
}

static pf_status read_index(pf_ctx *c, tt_table *t) {
  unsigned char footer[TT_FOOTER];
  PF_TRY(ck_read_at(c, t->fd, t->path, footer, TT_FOOTER, t->size - TT_FOOTER));
  if (memcmp(footer + TT_FOOTER - 8, MAGIC, 8))
    return pf_failf(c, PF_DATA_LOSS, "%s is no table of TensorFlow's: its last bytes are others",
                    t->path);
  pb_reader r = {footer, footer + TT_FOOTER - 8, 0};
  pb_varint(&r), pb_varint(&r); /* the meta index, which is empty */
  uint64_t at = pb_varint(&r), n = pb_varint(&r);
  if (r.bad || at > INT64_MAX || n > INT64_MAX)
    return damaged(c, t, "its footer", t->size - TT_FOOTER);
  PF_TRY(load(c, t, (int64_t)at, (int64_t)n));
  cursor x = entries_of(&t->block);
  pf_status status = PF_OK;
  while (status == PF_OK && step(&x)) status = add_handle(c, t, key_of(&x), x.value);
  if (status == PF_OK && x.wrong) status = damaged(c, t, x.wrong, (int64_t)at);
  pf_bytes_free(&x.key);
  return status;
}

pf_status tt_open(pf_ctx *c, const char *path, int64_t block_limit, tt_table *t) {
  struct stat st;
  *t = (tt_table){.fd = open(path, O_RDONLY | O_CLOEXEC), .block_limit = block_limit, .loaded = -1};
  snprintf(t->path, sizeof t->path, "%s", path);
  if (t->fd < 0) return ck_errno(c, "open", path);
  if (fstat(t->fd, &st)) return ck_errno(c, "stat", path);
  if (!S_ISREG(st.st_mode) || st.st_size < TT_FOOTER)
    return pf_failf(c, PF_DATA_LOSS, "%s is no table of TensorFlow's: %lld bytes", path,
                    (long long)st.st_size);
  t->size = (int64_t)st.st_size;
  return read_index(c, t);
}

void tt_close(tt_table *t) {
  if (t->path[0] && t->fd >= 0) close(t->fd);
  free(t->blocks);
  pf_bytes_free(&t->keys);
  pf_bytes_free(&t->block);
  *t = (tt_table){.fd = -1};
}

pf_status tt_scan(pf_ctx *c, tt_table *t, tt_each each, void *arg) {
  pf_status status = PF_OK;
  cursor x = {.wrong = NULL};
  for (int64_t i = 0; i < t->n_blocks && status == PF_OK; i++) {
    status = load(c, t, t->blocks[i].at, t->blocks[i].bytes);
    if (status != PF_OK) break;
    pf_bytes key = x.key; /* keys ascend across blocks, too */
    x = entries_of(&t->block);
    x.key = key;
    pb_reader first = x.r;
    if (!x.wrong && pb_varint(&first) && !first.bad) x.wrong = "a block that begins within a key";
    while (status == PF_OK && step(&x)) status = each(arg, key_of(&x), x.value);
    if (status == PF_OK && x.wrong) status = damaged(c, t, x.wrong, t->blocks[i].at);
  }
  pf_bytes_free(&x.key);
  return status;
}

static int order(pf_str a, pf_str b) {
  int cmp = memcmp(a.data, b.data, (size_t)PF_MIN(a.len, b.len));
  return cmp ? cmp : a.len < b.len ? -1 : a.len > b.len;
}

pf_status tt_find(pf_ctx *c, tt_table *t, pf_str key, pf_str *value) {
  int64_t lo = 0, hi = t->n_blocks;
  *value = (pf_str){NULL, 0};
  while (lo < hi) { /* the first block that ends at or after it */
    int64_t mid = lo + (hi - lo) / 2;
    const tt_handle *h = &t->blocks[mid];
    if (order((pf_str){t->keys.data + h->key_at, h->key_len}, key) < 0) lo = mid + 1;
    else hi = mid;
  }
  if (lo == t->n_blocks) return PF_OK;
  if (t->loaded != lo) {
    PF_TRY(load(c, t, t->blocks[lo].at, t->blocks[lo].bytes));
    t->loaded = lo;
  }
  cursor x = entries_of(&t->block);
  while (!value->data && step(&x))
    if (!order(key_of(&x), key)) *value = x.value;
  pf_status status = x.wrong ? damaged(c, t, x.wrong, t->blocks[lo].at) : PF_OK;
  pf_bytes_free(&x.key);
  return status;
}
