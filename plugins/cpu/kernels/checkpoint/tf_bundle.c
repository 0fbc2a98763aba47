/* tf_bundle.c - see tf_bundle.h.
 *
 * Formats: tensor_bundle.proto, saved_tensor_slice.proto, tensor_slice.proto, tensor_shape.proto,
 * ordered_code.cc of TensorFlow.
 */
#include "checkpoint/tf_bundle.h"
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

static pf_status no_memory(pf_ctx *c, const char *prefix) {
  return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of checkpoint '%s'", prefix);
}
static pf_status malformed(tb_bundle *b, const char *key, const char *what) {
  int shown = key ? (int)PF_MIN((int64_t)strlen(key), 200) : 0;
  if (!key) return pf_failf(b->c, PF_DATA_LOSS, "checkpoint '%s': %s", b->prefix, what);
  return pf_failf(b->c, PF_DATA_LOSS, "checkpoint '%s', tensor '%.*s': %s", b->prefix, shown, key,
                  what);
}

/* ---------------------------------------------------------------- which format it is */
static int index_exists(const char *prefix, char *path) {
  struct stat st;
  int n = snprintf(path, CK_PATH, "%s.index", prefix);
  return n > 0 && n < CK_PATH && !stat(path, &st) && S_ISREG(st.st_mode);
}

tb_kind tb_kind_of(const char *prefix) {
  char path[CK_PATH];
  size_t n = strlen(prefix);
  if (index_exists(prefix, path)) return tt_is_table(path) ? TB_V2 : TB_NONE;
  if (n > 6 && !strcmp(prefix + n - 6, ".index")) return TB_NONE; /* V2's is a table, too */
  if (tt_is_table(prefix)) return TB_V1;
  if (!strpbrk(prefix, "?*[")) return TB_NONE;
  glob_t found;
  tb_kind kind = TB_NONE;
  if (!glob(prefix, 0, NULL, &found)) {
    kind = found.gl_pathc > 0 && tt_is_table(found.gl_pathv[0]) ? TB_V1 : TB_NONE;
    globfree(&found);
  }
  return kind;
}

/* ---------------------------------------------------------------- growing lists */
static int64_t *add_numbers(tb_bundle *b, int64_t n) {
  if (b->n_numbers + n > b->room_numbers) {
    int64_t room = b->room_numbers * 2 + n + 64;
    int64_t *more = realloc(b->numbers, (size_t)room * 8);
    if (!more) return NULL;
    b->numbers = more;
    b->room_numbers = room;
  }
  b->n_numbers += n;
  return b->numbers + b->n_numbers - n;
}

static tb_entry *add_entry(tb_bundle *b, pf_str key) {
  if (b->n == b->room) {
    int64_t room = b->room * 2 + 64;
    tb_entry *more = realloc(b->entries, (size_t)room * sizeof *more);
    if (!more) return NULL;
    b->entries = more;
    b->room = room;
  }
  if (b->keys.n > CK_INDEX_LIMIT) return NULL;
  tb_entry *e = &b->entries[b->n++];
  *e = (tb_entry){.key_at = b->keys.n, .key_len = key.len, .dims_at = b->n_numbers};
  pf_bytes_add(&b->keys, key.data, key.len);
  pf_bytes_add(&b->keys, "", 1);
  return b->keys.failed ? NULL : e;
}

/* ---------------------------------------------------------------- shapes and places */
/* The sizes of a TensorShapeProto go to b->numbers; -1: malformed, -2: no memory. */
static int32_t read_shape(tb_bundle *b, pf_str text) {
  pb_reader r = pb_of(text);
  pb_field f;
  int32_t ndim = 0;
  while (pb_next(&r, &f)) {
    if (f.number == 3 && f.value) return -1;
    if (f.number != 2 || f.wire != 2) continue;
    pb_reader d = pb_of(f.bytes);
    pb_field g;
    int64_t size = 0;
    while (pb_next(&d, &g))
      if (g.number == 1 && g.wire == 0) size = (int64_t)g.value;
    if (d.bad || size < 0 || ++ndim > PF_MAX_DIMS) return -1;
    int64_t *at = add_numbers(b, 1);
    if (!at) return -2;
    *at = size;
  }
  int64_t n;
  return r.bad || !pf_shape_numel(b->numbers + b->n_numbers - ndim, ndim, &n) ? -1 : ndim;
}

/* One TensorSliceProto -> a part of entry `at`.  0: malformed, -1: no memory, 1: it is there. */
static int read_part(tb_bundle *b, int64_t at, pf_str text, int64_t file) {
  pb_reader r = pb_of(text);
  pb_field f;
  int32_t ndim = b->entries[at].ndim, k = 0;
  int64_t *to = add_numbers(b, TB_PLACE + 2 * ndim);
  if (!to) return -1;
  const int64_t *dims = tb_dims(b, &b->entries[at]);
  to[0] = file;
  to[1] = 0;
  while (pb_next(&r, &f)) {
    if (f.number != 1 || f.wire != 2) continue;
    pb_reader d = pb_of(f.bytes);
    pb_field g;
    int64_t start = 0, size = -1;
    while (pb_next(&d, &g)) {
      if (g.number == 1 && g.wire == 0) start = (int64_t)g.value;
      if (g.number == 2 && g.wire == 0) size = (int64_t)g.value;
    }
    if (d.bad || k == ndim) return 0;
    if (size == -1) to[1] |= (int64_t)1 << k, size = start ? -2 : dims[k];
    if (start < 0 || size < 0 || start > dims[k] || size > dims[k] - start) return 0;
    to[TB_PLACE + 2 * k] = start;
    to[TB_PLACE + 2 * k + 1] = size;
    k++;
  }
  return !r.bad && k == ndim;
}

/* ---------------------------------------------------------------- keys of parts */
static void ordered_number(pf_bytes *out, uint64_t x) {
  unsigned char text[9];
  int n = 0;
  for (uint64_t y = x; y; y >>= 8) n++;
  text[0] = (unsigned char)n;
  for (int i = 0; i < n; i++) text[1 + i] = (unsigned char)(x >> 8 * (n - 1 - i));
  pf_bytes_add(out, (char *)text, n + 1);
}
static void ordered_text(pf_bytes *out, const char *s, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (s[i] == 0) pf_bytes_add(out, "\0\xff", 2);
    else if (s[i] == (char)0xff) pf_bytes_add(out, "\xff\0", 2);
    else pf_bytes_add(out, s + i, 1);
  }
  pf_bytes_add(out, "\0\1", 2);
}
/* -1 and natural numbers: the length in bits of the first byte, then big-endian. */
static void ordered_signed(pf_bytes *out, int64_t x) {
  static const unsigned char head[10][2] = {{0x80, 0}, {0x80, 0},   {0xc0, 0}, {0xe0, 0},
                                            {0xf0, 0}, {0xf8, 0},   {0xfc, 0}, {0xfe, 0},
                                            {0xff, 0}, {0xff, 0x80}};
  unsigned char text[10];
  int n = 1;
  if (x < 0) {
    pf_bytes_add(out, "\x7f", 1);
    return;
  }
  while (n < 10 && 7 * n - 1 < 63 && x >> (7 * n - 1)) n++;
  for (int i = 0; i < n; i++) text[n - 1 - i] = i < 8 ? (unsigned char)(x >> 8 * i) : 0;
  text[0] |= head[n][0];
  if (n > 1) text[1] |= head[n][1];
  pf_bytes_add(out, (char *)text, n);
}
void tb_part_key(pf_bytes *out, const tb_entry *e, const int64_t *part) {
  out->n = 0;
  ordered_number(out, 0);
  ordered_text(out, e->key, e->key_len);
  ordered_number(out, (uint64_t)e->ndim);
  for (int32_t d = 0; d < e->ndim; d++) {
    ordered_signed(out, part[TB_PLACE + 2 * d]);
    ordered_signed(out, part[1] >> d & 1 ? -1 : part[TB_PLACE + 2 * d + 1]);
  }
}

/* ---------------------------------------------------------------- V2 */
static pf_status read_header(tb_bundle *b, pf_str value) {
  pb_reader r = pb_of(value);
  pb_field f;
  uint64_t endian = 0, shards = 0, needed = 0;
  while (pb_next(&r, &f)) {
    if (f.number == 1 && f.wire == 0) shards = f.value;
    if (f.number == 2 && f.wire == 0) endian = f.value;
    if (f.number != 3 || f.wire != 2) continue;
    pb_reader v = pb_of(f.bytes);
    pb_field g;
    while (pb_next(&v, &g))
      if (g.number == 2 && g.wire == 0) needed = g.value;
  }
  if (r.bad || shards < 1 || shards > TB_FILES)
    return malformed(b, NULL, "its index has a header that is none");
  if (endian)
    return malformed(b, NULL, "it was written on a big-endian machine, which is not read");
  if (needed > 1)
    return malformed(b, NULL, "its index needs a newer reader of TensorFlow's bundles");
  b->shards = (int32_t)shards;
  return PF_OK;
}

static pf_status read_entry(tb_bundle *b, int64_t at, pf_str value) {
  pb_reader r = pb_of(value);
  pb_field f;
  uint64_t shard = 0, begin = 0, bytes = 0, type = 0;
  pf_str shape = {NULL, 0};
  tb_entry *e = &b->entries[at];
  while (pb_next(&r, &f)) {
    if (f.number == 1 && f.wire == 0) type = f.value;
    if (f.number == 2 && f.wire == 2) shape = f.bytes;
    if (f.number == 3 && f.wire == 0) shard = f.value;
    if (f.number == 4 && f.wire == 0) begin = f.value;
    if (f.number == 5 && f.wire == 0) bytes = f.value;
    if (f.number == 6 && f.wire == 5) e->crc = (uint32_t)f.value;
  }
  if (r.bad || type < 1 || type > 200 || shard >= (uint64_t)b->shards || begin > INT64_MAX / 2 ||
      bytes > INT64_MAX / 2)
    return malformed(b, tb_key(b, e), "its entry in the index is malformed");
  int32_t ndim = read_shape(b, shape);
  if (ndim == -2) return no_memory(b->c, b->prefix);
  if (ndim < 0) return malformed(b, tb_key(b, e), "its shape is malformed or too large");
  e->type = (int32_t)(type > 100 ? type - 100 : type);
  e->ndim = ndim;
  e->shard = (int32_t)shard;
  e->begin = (int64_t)begin;
  e->bytes = (int64_t)bytes;
  e->parts_at = b->n_numbers;
  for (r = pb_of(value); pb_next(&r, &f);) {
    if (f.number != 7 || f.wire != 2) continue;
    int ok = read_part(b, at, f.bytes, 0);
    if (ok < 0) return no_memory(b->c, b->prefix);
    if (!ok) return malformed(b, tb_key(b, e), "a slice that lies outside its shape");
    b->entries[at].n_parts++;
  }
  return PF_OK;
}

/* What a tensor stored whole must have in bytes. */
static pf_status check_size(tb_bundle *b, const tb_entry *e) {
  int64_t n = 0, need = 0, unit = pf_type_size(e->type);
  char text[200];
  if (e->n_parts || !unit) return PF_OK;
  pf_shape_numel(tb_dims(b, e), e->ndim, &n);
  if (pf_mul(n, unit, &need) && need == e->bytes) return PF_OK;
  snprintf(text, sizeof text, "%s of shape %.100s needs %" PRId64 " bytes, the index says %" PRId64,
           pf_type_name(e->type), pf_shape_text(tb_dims(b, e), e->ndim).s, need, e->bytes);
  return malformed(b, tb_is_part(b, e) ? NULL : tb_key(b, e), text);
}

static pf_status take_v2(void *arg, pf_str key, pf_str value) {
  tb_bundle *b = arg;
  if (!b->shards) {
    if (key.len) return malformed(b, NULL, "its index has no header");
    return read_header(b, value);
  }
  if (key.data[0] && memchr(key.data, 0, (size_t)key.len))
    return malformed(b, NULL, "a name with a zero byte in it");
  int64_t at = b->n;
  if (!add_entry(b, key)) return no_memory(b->c, b->prefix);
  PF_TRY(read_entry(b, at, value));
  return check_size(b, &b->entries[at]);
}

static pf_status open_v2(pf_ctx *c, tb_bundle *b) {
  char path[CK_PATH];
  tt_table t = {.fd = -1};
  if (!index_exists(b->prefix, path))
    return pf_failf(c, PF_NOT_FOUND, "no checkpoint at '%s': %s does not exist", b->prefix, path);
  pf_status r = tt_open(c, path, CK_INDEX_LIMIT, &t);
  if (r == PF_OK) r = tt_scan(c, &t, take_v2, b);
  tt_close(&t);
  PF_TRY(r);
  if (!b->shards) return malformed(b, NULL, "its index is empty");
  b->fd = malloc(sizeof *b->fd * (size_t)b->shards);
  b->length = calloc((size_t)b->shards, sizeof *b->length);
  if (!b->fd || !b->length) return no_memory(c, b->prefix);
  for (int32_t i = 0; i < b->shards; i++) b->fd[i] = -1;
  return PF_OK;
}

/* ---------------------------------------------------------------- V1 */
typedef struct {
  pf_str name, shape;
  uint64_t type;
} slice_meta;

static pf_status read_meta(tb_bundle *b, pf_str text, slice_meta *m) {
  pb_reader r = pb_of(text);
  pb_field f;
  *m = (slice_meta){{"", 0}, {NULL, 0}, 0};
  while (pb_next(&r, &f)) {
    if (f.number == 1 && f.wire == 2) m->name = f.bytes;
    if (f.number == 2 && f.wire == 2) m->shape = f.bytes;
    if (f.number == 3 && f.wire == 0) m->type = f.value;
  }
  if (r.bad || !m->name.len || memchr(m->name.data, 0, (size_t)m->name.len) || m->type < 1 ||
      m->type > 200)
    return malformed(b, NULL, "its list of tensors is malformed");
  return PF_OK;
}

/* One tensor of one file.  Those of the same name in several files are joined by `join`. */
static pf_status take_meta(tb_bundle *b, pf_str text, int64_t file) {
  slice_meta m;
  pb_reader r = pb_of(text);
  pb_field f;
  int64_t at = b->n;
  PF_TRY(read_meta(b, text, &m));
  tb_entry *e = add_entry(b, m.name);
  if (!e) return no_memory(b->c, b->prefix);
  int32_t ndim = read_shape(b, m.shape);
  e->ndim = ndim;
  if (ndim == -2) return no_memory(b->c, b->prefix);
  if (ndim < 0) return malformed(b, tb_key(b, e), "its shape is malformed or too large");
  e->type = (int32_t)(m.type > 100 ? m.type - 100 : m.type);
  e->parts_at = b->n_numbers;
  while (pb_next(&r, &f)) {
    if (f.number != 4 || f.wire != 2) continue;
    int ok = read_part(b, at, f.bytes, file);
    if (ok < 0) return no_memory(b->c, b->prefix);
    if (!ok) return malformed(b, tb_key(b, e), "a slice that lies outside its shape");
    b->entries[at].n_parts++;
  }
  return PF_OK;
}

static pf_status take_file(pf_ctx *c, tb_bundle *b, const char *path, int64_t file) {
  tt_table *t = &b->tables[file];
  pf_str all, value;
  b->n_tables = file + 1;
  PF_TRY(tt_open(c, path, (int64_t)1 << 33, t));
  PF_TRY(tt_find(c, t, (pf_str){"", 0}, &value));
  if (!value.data)
    return pf_failf(c, PF_DATA_LOSS, "%s is no checkpoint: it does not list its tensors", path);
  pb_reader r = pb_of(value);
  pb_field f;
  all = (pf_str){NULL, 0};
  while (pb_next(&r, &f))
    if (f.number == 1 && f.wire == 2) all = f.bytes;
  if (r.bad || !all.data) return malformed(b, NULL, "its list of tensors is malformed");
  for (r = pb_of(all); pb_next(&r, &f);)
    if (f.number == 1 && f.wire == 2) PF_TRY(take_meta(b, f.bytes, file));
  return r.bad ? malformed(b, NULL, "its list of tensors is malformed") : PF_OK;
}

static int same_tensor(const tb_bundle *b, const tb_entry *x, const tb_entry *y) {
  return x->type == y->type && pf_same_dims(tb_dims(b, x), x->ndim, tb_dims(b, y), y->ndim);
}

/* The parts of one tensor in several files, under one entry. */
static pf_status join(tb_bundle *b) {
  int64_t kept = 0;
  for (int64_t i = 0; i < b->n; i++) {
    tb_entry *e = &b->entries[i], *last = kept ? &b->entries[kept - 1] : NULL;
    if (!last || strcmp(tb_key(b, last), tb_key(b, e))) {
      b->entries[kept++] = *e;
      continue;
    }
    if (!same_tensor(b, last, e))
      return malformed(b, tb_key(b, e), "its files disagree about its type or shape");
    int64_t unit = TB_PLACE + 2 * e->ndim, n = (int64_t)last->n_parts + e->n_parts;
    int64_t *to = n < INT32_MAX ? add_numbers(b, n * unit) : NULL;
    if (!to) return no_memory(b->c, b->prefix);
    memcpy(to, b->numbers + last->parts_at, (size_t)(last->n_parts * unit) * 8);
    memcpy(to + last->n_parts * unit, b->numbers + e->parts_at, (size_t)(e->n_parts * unit) * 8);
    last->parts_at = to - b->numbers;
    last->n_parts = (int32_t)n;
  }
  b->n = kept;
  return PF_OK;
}

static int by_key(const void *x, const void *y) {
  const tb_entry *a = x, *b = y;
  int cmp = strcmp(a->key, b->key);
  return cmp ? cmp : a->key_at < b->key_at ? -1 : a->key_at > b->key_at;
}

static pf_status open_files(pf_ctx *c, tb_bundle *b) {
  glob_t found = {0};
  struct stat st;
  int one = !stat(b->prefix, &st);
  if (!one && glob(b->prefix, 0, NULL, &found)) found.gl_pathc = 0;
  int64_t n = one ? 1 : (int64_t)found.gl_pathc;
  pf_status r = PF_OK;
  if (n < 1 || n > TB_FILES) r = malformed(b, NULL, "too few or too many files");
  if (r == PF_OK) b->tables = calloc((size_t)n, sizeof *b->tables);
  if (r == PF_OK && !b->tables) r = no_memory(c, b->prefix);
  for (int64_t i = 0; i < n && r == PF_OK; i++)
    r = take_file(c, b, one ? b->prefix : found.gl_pathv[i], i);
  if (!one) globfree(&found);
  return r;
}

/* ---------------------------------------------------------------- the checkpoint */
static void set_keys(tb_bundle *b) {
  for (int64_t i = 0; i < b->n; i++) b->entries[i].key = b->keys.data + b->entries[i].key_at;
}

pf_status tb_open(pf_ctx *c, const char *prefix, tb_bundle *b) {
  *b = (tb_bundle){.kind = tb_kind_of(prefix), .c = c};
  snprintf(b->prefix, sizeof b->prefix, "%s", prefix);
  if (b->kind != TB_V1) {
    PF_TRY(open_v2(c, b));
    set_keys(b);
    return PF_OK;
  }
  PF_TRY(open_files(c, b));
  set_keys(b);
  if (b->n) qsort(b->entries, (size_t)b->n, sizeof *b->entries, by_key);
  return join(b);
}

void tb_close(tb_bundle *b) {
  for (int64_t i = 0; b->tables && i < b->n_tables; i++) tt_close(&b->tables[i]);
  for (int32_t i = 0; b->fd && i < b->shards; i++)
    if (b->fd[i] >= 0) close(b->fd[i]);
  free(b->tables);
  free(b->fd);
  free(b->length);
  free(b->entries);
  free(b->numbers);
  pf_bytes_free(&b->keys);
  *b = (tb_bundle){.kind = TB_NONE};
}

const tb_entry *tb_find(const tb_bundle *b, const char *key, int64_t len) {
  int64_t lo = 0, hi = b->n;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    const tb_entry *e = &b->entries[mid];
    int cmp = memcmp(e->key, key, (size_t)PF_MIN(e->key_len, len));
    if (!cmp && e->key_len == len) return e;
    if (cmp < 0 || (!cmp && e->key_len < len)) lo = mid + 1;
    else hi = mid;
  }
  return NULL;
}

int64_t tb_entry_bytes(const tb_bundle *b, const tb_entry *e) {
  int64_t n = 0, unit = pf_type_size(e->type);
  if (!e->n_parts) return e->bytes;
  pf_shape_numel(tb_dims(b, e), e->ndim, &n);
  return n * unit;
}
