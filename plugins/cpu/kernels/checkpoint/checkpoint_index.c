/* checkpoint_index.c - the index of a checkpoint: JSON to memory and back.
 *
 * Invariants
 *   1. The reader accepts any JSON white space and unknown members, nests at most DEPTH deep, and
 *      reads no byte outside its text; numbers are non-negative integers below 2^63.
 *   2. Strings are decoded in place: a decoded string is never longer than its source.
 *   3. After ck_index_read, files and tensors are checked: bare file names, begin <= end, known
 *      types, unique names.
 * Threads: one owner per index.
 */
#include "checkpoint/checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 32, CRC_HEAD = 19 }; /* {"crc32":"xxxxxxxx" */

/* ---------------------------------------------------------------- type names */
static const struct {
  int32_t type;
  const char *name, *safe;
} TYPES[] = {
  {PF_FLOAT32, "float32", "F32"},
  {PF_FLOAT64, "float64", "F64"},
  {PF_FLOAT16, "float16", "F16"},
  {PF_BFLOAT16, "bfloat16", "BF16"},
  {PF_INT8, "int8", "I8"},
  {PF_INT16, "int16", "I16"},
  {PF_INT32, "int32", "I32"},
  {PF_INT64, "int64", "I64"},
  {PF_UINT8, "uint8", "U8"},
  {PF_UINT16, "uint16", "U16"},
  {PF_UINT32, "uint32", "U32"},
  {PF_UINT64, "uint64", "U64"},
  {PF_BOOL, "bool", "BOOL"},
  {PF_STRING, "string", "U8"},
  {PF_COMPLEX64, "complex64", "F32"},
  {PF_COMPLEX128, "complex128", "F64"},
  {PF_QINT8, "qint8", "I8"},
  {PF_QUINT8, "quint8", "U8"},
  {PF_QINT16, "qint16", "I16"},
  {PF_QUINT16, "quint16", "U16"},
  {PF_QINT32, "qint32", "I32"},
  {PF_FLOAT8_E5M2, "float8_e5m2", "F8_E5M2"},
  {PF_FLOAT8_E4M3FN, "float8_e4m3fn", "F8_E4M3"},
};

const char *ck_type_name(int32_t type) {
  for (int i = 0; i < PF_LEN(TYPES); i++)
    if (TYPES[i].type == type) return TYPES[i].name;
  return NULL;
}
const char *ck_safe_type(int32_t type) {
  for (int i = 0; i < PF_LEN(TYPES); i++)
    if (TYPES[i].type == type) return TYPES[i].safe;
  return NULL;
}
int32_t ck_type_of(const char *name, int64_t len) {
  for (int i = 0; i < PF_LEN(TYPES); i++)
    if ((int64_t)strlen(TYPES[i].name) == len && !memcmp(TYPES[i].name, name, (size_t)len))
      return TYPES[i].type;
  return 0;
}

int ck_utf8(const char *s, int64_t n) {
  for (int64_t i = 0; i < n;) {
    unsigned char ch = (unsigned char)s[i];
    int more = ch < 0x80 ? 0 : ch < 0xC2 ? -1 : ch < 0xE0 ? 1 : ch < 0xF0 ? 2 : ch < 0xF5 ? 3 : -1;
    if (more < 0 || ch == 0 || i + more >= n) return 0;
    for (int k = 1; k <= more; k++)
      if (((unsigned char)s[i + k] & 0xC0) != 0x80) return 0;
    unsigned char next = more ? (unsigned char)s[i + 1] : 0;
    if ((ch == 0xE0 && next < 0xA0) || (ch == 0xED && next >= 0xA0) ||
        (ch == 0xF0 && next < 0x90) || (ch == 0xF4 && next >= 0x90))
      return 0;
    i += 1 + more;
  }
  return 1;
}

void ck_add_json(pf_bytes *b, const char *s, int64_t n) {
  pf_bytes_add(b, "\"", 1);
  for (int64_t i = 0; i < n; i++) {
    unsigned char ch = (unsigned char)s[i];
    if (ch == '"' || ch == '\\') pf_bytes_add(b, "\\", 1);
    if (ch < 0x20) pf_bytes_printf(b, "\\u%04x", ch);
    else pf_bytes_add(b, s + i, 1);
  }
  pf_bytes_add(b, "\"", 1);
}

/* ----------------------------------------------------------- JSON reader: `bad` ends everything */
typedef struct {
  char *p, *end;
  int bad;
} reader;

static void skip_space(reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
}
static int peek(reader *r) {
  skip_space(r);
  return r->bad || r->p >= r->end ? -1 : (unsigned char)*r->p;
}
static int take(reader *r, char ch) {
  if (peek(r) != ch) return 0;
  r->p++;
  return 1;
}
static void expect(reader *r, char ch) {
  if (!take(r, ch)) r->bad = 1;
}

static uint32_t hex4(reader *r) {
  uint32_t x = 0;
  if (r->end - r->p < 4) return r->bad = 1, 0;
  for (int i = 0; i < 4; i++) {
    char ch = *r->p++;
    int d = ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
    if (ch >= 'A' && ch <= 'F') d = ch - 'A' + 10;
    if (d < 0) r->bad = 1;
    x = x << 4 | (uint32_t)(d & 15);
  }
  return x;
}
static char *put_utf8(char *to, uint32_t x) {
  if (x < 0x80) *to++ = (char)x;
  else if (x < 0x800) *to++ = (char)(0xC0 | x >> 6), *to++ = (char)(0x80 | (x & 63));
  else if (x < 0x10000)
    *to++ = (char)(0xE0 | x >> 12), *to++ = (char)(0x80 | (x >> 6 & 63)),
    *to++ = (char)(0x80 | (x & 63));
  else
    *to++ = (char)(0xF0 | x >> 18), *to++ = (char)(0x80 | (x >> 12 & 63)),
    *to++ = (char)(0x80 | (x >> 6 & 63)), *to++ = (char)(0x80 | (x & 63));
  return to;
}
static char *unescape(reader *r, char *to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  if (r->p >= r->end) return r->bad = 1, to;
  char ch = *r->p++;
  const char *at = ch ? strchr(from, ch) : NULL;
  if (at) {
    *to++ = into[at - from];
    return to;
  }
  if (ch != 'u') return r->bad = 1, to;
  uint32_t x = hex4(r);
  if (x >= 0xD800 && x < 0xDC00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u') {
    r->p += 2;
    uint32_t low = hex4(r);
    if (low < 0xDC00 || low > 0xDFFF) r->bad = 1;
    x = 0x10000 + ((x - 0xD800) << 10) + (low - 0xDC00);
  }
  if (x == 0 || (x >= 0xD800 && x < 0xE000)) r->bad = 1;
  return put_utf8(to, x);
}

/* A string, decoded in place and ended with NUL (over its closing quote, or before it). */
static char *read_string(reader *r, int64_t *len) {
  char *start, *to;
  *len = 0;
  expect(r, '"');
  if (r->bad) return NULL;
  start = to = r->p;
  for (;;) {
    if (r->bad || r->p >= r->end) return r->bad = 1, NULL;
    unsigned char ch = (unsigned char)*r->p++;
    if (ch == '"') break;
    if (ch == '\\') to = unescape(r, to);
    else if (ch < 0x20) r->bad = 1;
    else *to++ = (char)ch;
  }
  *to = 0;
  *len = to - start;
  if (!ck_utf8(start, *len)) r->bad = 1;
  return start;
}

static int64_t read_int(reader *r) {
  int64_t x = 0, digits = 0;
  peek(r);
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
    if (++digits > 18) return r->bad = 1, 0;
    x = x * 10 + (*r->p++ - '0');
  }
  if (!digits || (r->p < r->end && (*r->p == '.' || *r->p == 'e' || *r->p == 'E'))) r->bad = 1;
  return x;
}

static void skip_value(reader *r, int depth) {
  int64_t len;
  int ch = peek(r);
  if (depth > DEPTH) r->bad = 1;
  if (r->bad) return;
  if (ch == '"') {
    read_string(r, &len);
  } else if (ch == '{' || ch == '[') {
    char close = ch == '{' ? '}' : ']';
    r->p++;
    if (take(r, close)) return;
    do {
      if (ch == '{') read_string(r, &len), expect(r, ':');
      skip_value(r, depth + 1);
    } while (!r->bad && take(r, ','));
    expect(r, close);
  } else {
    char *start = r->p;
    while (r->p < r->end &&
           (strchr("+-.", *r->p)
                ? *r->p != 0
                : (*r->p >= '0' && *r->p <= '9') || (*r->p >= 'a' && *r->p <= 'z') || *r->p == 'E'))
      r->p++;
    if (r->p == start) r->bad = 1;
  }
}

/* Members of an object or elements of an array: `each` reads one value. */
typedef void (*each_fn)(reader *r, ck_index *x, void *arg, char *key, int64_t len);
static void read_object(reader *r, ck_index *x, void *arg, each_fn each) {
  expect(r, '{');
  if (r->bad || take(r, '}')) return;
  do {
    int64_t len;
    char *key = read_string(r, &len);
    expect(r, ':');
    if (!r->bad) each(r, x, arg, key, len);
  } while (!r->bad && take(r, ','));
  expect(r, '}');
}

static void *grown(void *items, int64_t n, int64_t *room, size_t size) {
  if (n < *room) return items;
  int64_t more = *room * 2 + 16;
  void *p = realloc(items, size * (size_t)more);
  if (p) *room = more;
  return p;
}
#define GROW(list, n, room) \
  do { \
    void *p_ = grown(list, n, &(room), sizeof *(list)); \
    if (!p_) { \
      r->bad = 2; \
      return; \
    } \
    list = p_; \
  } while (0)

static int is(const char *key, int64_t len, const char *want) {
  return (int64_t)strlen(want) == len && !memcmp(key, want, (size_t)len);
}

static void file_member(reader *r, ck_index *x, void *arg, char *key, int64_t len) {
  ck_file *f = arg;
  int64_t n;
  (void)x;
  if (is(key, len, "name")) f->name = read_string(r, &n);
  else if (is(key, len, "size")) f->size = read_int(r);
  else skip_value(r, 0);
}
static void read_files(reader *r, ck_index *x) {
  expect(r, '[');
  if (r->bad || take(r, ']')) return;
  do {
    ck_file f = {NULL, -1};
    read_object(r, x, &f, file_member);
    if (r->bad) return;
    if (!f.name || f.size < 0 || !f.name[0] || strchr(f.name, '/') || !strcmp(f.name, "..") ||
        !strcmp(f.name, ".")) {
      r->bad = 1;
      return;
    }
    GROW(x->files, x->n_files, x->room_files);
    x->files[x->n_files++] = f;
  } while (!r->bad && take(r, ','));
  expect(r, ']');
}

static void read_dims(reader *r, ck_index *x, ck_tensor *t) {
  t->dims_at = x->n_dims;
  t->ndim = 0;
  expect(r, '[');
  if (r->bad || take(r, ']')) return;
  do {
    int64_t d = read_int(r);
    GROW(x->dims, x->n_dims, x->room_dims);
    x->dims[x->n_dims++] = d;
    if (++t->ndim > PF_MAX_DIMS) r->bad = 1;
  } while (!r->bad && take(r, ','));
  expect(r, ']');
}

static int read_crc(reader *r, uint32_t *crc) {
  int64_t n;
  char *s = read_string(r, &n), *end;
  if (r->bad || n != 8) return 0;
  for (int i = 0; i < 8; i++)
    if (!strchr("0123456789abcdef", s[i])) return 0;
  *crc = (uint32_t)strtoul(s, &end, 16);
  return 1;
}

static void tensor_member(reader *r, ck_index *x, void *arg, char *key, int64_t len) {
  ck_tensor *t = arg;
  int64_t n;
  if (is(key, len, "file")) {
    n = read_int(r);
    t->file = n < INT32_MAX ? (int32_t)n : -1;
  } else if (is(key, len, "shape")) read_dims(r, x, t);
  else if (is(key, len, "begin")) t->begin = read_int(r);
  else if (is(key, len, "end")) t->end = read_int(r);
  else if (is(key, len, "crc32")) r->bad |= !read_crc(r, &t->crc);
  else if (is(key, len, "dtype")) {
    char *name = read_string(r, &n);
    t->type = r->bad ? 0 : ck_type_of(name, n);
  } else skip_value(r, 0);
}
static void one_tensor(reader *r, ck_index *x, void *arg, char *key, int64_t len) {
  ck_tensor t = {.name = key, .ndim = -1, .begin = -1, .end = -1, .file = -1};
  (void)arg;
  (void)len;
  read_object(r, x, &t, tensor_member);
  if (r->bad) return;
  if (!t.type || t.ndim < 0 || t.begin < 0 || t.end < t.begin || t.file < 0) {
    r->bad = 1;
    return;
  }
  GROW(x->tensors, x->n_tensors, x->room_tensors);
  x->tensors[x->n_tensors++] = t;
}

typedef struct { int format; } top;
static void top_member(reader *r, ck_index *x, void *arg, char *key, int64_t len) {
  int64_t n;
  if (is(key, len, "format")) {
    char *s = read_string(r, &n);
    if (!r->bad) ((top *)arg)->format = is(s, n, CK_FORMAT);
  } else if (is(key, len, "files")) read_files(r, x);
  else if (is(key, len, "tensors")) read_object(r, x, NULL, one_tensor);
  else skip_value(r, 0);
}

/* ---------------------------------------------------------------- read, find, free */
static int by_name(const void *a, const void *b) {
  return strcmp(((const ck_tensor *)a)->name, ((const ck_tensor *)b)->name);
}
static int check_index(const ck_index *x) {
  for (int64_t i = 0; i < x->n_tensors; i++) {
    if (x->tensors[i].file >= x->n_files) return 0;
    if (i && !strcmp(x->tensors[i - 1].name, x->tensors[i].name)) return 0;
  }
  return 1;
}

static pf_status load_text(pf_ctx *c, const char *prefix, const char *path, char **text,
                           int64_t *n) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT)
    return pf_failf(c, PF_NOT_FOUND, "no checkpoint at '%s': %s does not exist", prefix, path);
  if (fd < 0) return ck_errno(c, "open", path);
  pf_status r = fstat(fd, &st) ? ck_errno(c, "stat", path) : PF_OK;
  if (r == PF_OK && !S_ISREG(st.st_mode)) r = PF_INVALID(c, "%s is not a file", path);
  *n = r == PF_OK ? (int64_t)st.st_size : 0;
  if (r == PF_OK && *n > CK_INDEX_LIMIT)
    r = pf_failf(c, PF_DATA_LOSS, "%s is too large: %" PRId64 " bytes", path, *n);
  *text = r == PF_OK ? malloc((size_t)*n + 1) : NULL;
  if (r == PF_OK && !*text) r = pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for %s", path);
  if (r == PF_OK) r = ck_read_at(c, fd, path, *text, *n, 0);
  if (*text) (*text)[*n] = 0;
  close(fd);
  return r;
}

pf_status ck_index_read(pf_ctx *c, const char *prefix, ck_index *x) {
  char path[CK_PATH];
  int64_t n = 0;
  *x = (ck_index){0};
  if (snprintf(path, sizeof path, "%s.index", prefix) >= (int)sizeof path)
    return PF_INVALID(c, "path is too long: %s", prefix);
  PF_TRY(load_text(c, prefix, path, &x->text, &n));
  uint32_t said = 0, is_crc;
  char digits[9] = {0}, *end = digits;
  if (n >= CRC_HEAD && !memcmp(x->text, "{\"crc32\":\"", 10) && x->text[18] == '"') {
    memcpy(digits, x->text + 10, 8);
    said = (uint32_t)strtoul(digits, &end, 16);
  }
  if (end != digits + 8)
    return pf_failf(c, PF_DATA_LOSS, "%s is not the index of a pyflow checkpoint, or is damaged",
                    path);
  is_crc = ck_crc(0, x->text + CRC_HEAD, n - CRC_HEAD);
  if (is_crc != said)
    return pf_failf(c, PF_DATA_LOSS, "%s is damaged: its CRC is %08x, expected %08x", path, is_crc,
                    said);
  reader r = {x->text, x->text + n, 0};
  top t = {0};
  read_object(&r, x, &t, top_member);
  if (!r.bad && peek(&r) != -1) r.bad = 1;
  if (r.bad == 2) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for %s", path);
  if (r.bad)
    return pf_failf(c, PF_DATA_LOSS, "%s is not a valid index (at byte %" PRId64 ")", path,
                    (int64_t)(r.p - x->text));
  if (!t.format) return pf_failf(c, PF_DATA_LOSS, "%s is not of format " CK_FORMAT, path);
  if (x->n_tensors) qsort(x->tensors, (size_t)x->n_tensors, sizeof *x->tensors, by_name);
  if (!check_index(x))
    return pf_failf(c, PF_DATA_LOSS, "%s names a tensor twice or a file that it does not list",
                    path);
  return PF_OK;
}

void ck_index_free(ck_index *x) {
  free(x->text);
  free(x->files);
  free(x->tensors);
  free(x->dims);
  *x = (ck_index){0};
}

const ck_tensor *ck_index_find(const ck_index *x, const char *name, int64_t len) {
  int64_t lo = 0, hi = x->n_tensors;
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    const char *have = x->tensors[mid].name;
    int64_t have_len = (int64_t)strlen(have);
    int order = memcmp(have, name, (size_t)PF_MIN(have_len, len));
    if (!order) order = have_len < len ? -1 : have_len > len;
    if (!order) return &x->tensors[mid];
    if (order < 0) lo = mid + 1;
    else hi = mid;
  }
  return NULL;
}

/* ---------------------------------------------------------------- write */
static void add_tensor(pf_bytes *b, const ck_index *x, const ck_tensor *t) {
  ck_add_json(b, t->name, (int64_t)strlen(t->name));
  pf_bytes_printf(b, ":{\"file\":%d,\"dtype\":\"%s\",\"shape\":[", t->file, ck_type_name(t->type));
  for (int32_t d = 0; d < t->ndim; d++)
    pf_bytes_printf(b, d ? ",%" PRId64 : "%" PRId64, x->dims[t->dims_at + d]);
  pf_bytes_printf(b, "],\"begin\":%" PRId64 ",\"end\":%" PRId64 ",\"crc32\":\"%08x\"}", t->begin,
                  t->end, t->crc);
}

pf_status ck_index_write(pf_ctx *c, const char *prefix, ck_index *x) {
  char path[CK_PATH], temporary[CK_PATH], head[32];
  pf_bytes b = {0};
  int fd = -1;
  if (snprintf(path, sizeof path, "%s.index", prefix) >= (int)sizeof path)
    return PF_INVALID(c, "path is too long: %s", prefix);
  if (x->n_tensors) qsort(x->tensors, (size_t)x->n_tensors, sizeof *x->tensors, by_name);
  pf_bytes_text(&b, "{\"crc32\":\"00000000\",\"format\":\"" CK_FORMAT "\",\"files\":[");
  for (int64_t i = 0; i < x->n_files; i++) {
    pf_bytes_text(&b, i ? ",{\"name\":" : "{\"name\":");
    ck_add_json(&b, x->files[i].name, (int64_t)strlen(x->files[i].name));
    pf_bytes_printf(&b, ",\"size\":%" PRId64 "}", x->files[i].size);
  }
  pf_bytes_text(&b, "],\"tensors\":{");
  for (int64_t i = 0; i < x->n_tensors; i++) {
    if (i) pf_bytes_text(&b, ",");
    add_tensor(&b, x, &x->tensors[i]);
  }
  pf_bytes_text(&b, "}}\n");
  if (b.failed) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of a checkpoint");
  snprintf(head, sizeof head, "%08x", ck_crc(0, b.data + CRC_HEAD, b.n - CRC_HEAD));
  memcpy(b.data + 10, head, 8);
  pf_status r = ck_create(c, path, temporary, &fd);
  if (r == PF_OK) {
    r = ck_write_all(c, fd, temporary, b.data, b.n);
    if (r == PF_OK) r = ck_commit(c, fd, temporary, path);
    else close(fd), unlink(temporary);
  }
  pf_bytes_free(&b);
  return r == PF_OK ? ck_sync_folder(c, prefix) : r;
}
