/* tf_restore.c - RestoreV2, Restore, RestoreSlice of TensorFlow's checkpoints; _CheckpointEntries.
 *
 * A tensor is read into its output in one go where it is stored whole and asked for whole; else
 * each stored part that overlaps the slice asked for is read and copied.
 *
 * Invariants
 *   1. Memory for an output is taken only after the files are seen to be long enough for it.
 *   2. What a wrong CRC covers is never given out; nor is memory that no part has written.
 * Threads: the host's BLOCKING lane.
 */
#include "checkpoint/crc32c.h"
#include "checkpoint/tf_bundle.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP = 1 << 20 }; /* read and checksummed while it is in the cache */

typedef struct {
  char *data;
  pf_str *strings;
  char *owned;
} piece;

/* ---------------------------------------------------------------- the slice that is asked for */
static pf_status region_of(pf_ctx *c, const tb_bundle *b, const tb_entry *e, int64_t i,
                           ck_slice *r) {
  pf_str text = {NULL, 0};
  const int64_t *dims = tb_dims(b, e);
  ck_slice_all(dims, e->ndim, r);
  if (c->n_in > 2) PF_TRY(c->host->str_get(c->in[2], i, &text));
  if (!text.len ||
      (ck_slice_parse(text, e->ndim, r) && pf_same_dims(r->dims, e->ndim, dims, e->ndim)))
    return PF_OK;
  return PF_INVALID(c,
                    "shape_and_slices[%" PRId64 "] is '%.*s': no slice of tensor '%s' of shape "
                    "%s in checkpoint '%s'",
                    i, (int)PF_MIN(text.len, 200), text.data, e->key,
                    pf_shape_text(dims, e->ndim).s, b->prefix);
}

/* ---------------------------------------------------------------- bytes of a bundle's shards */
static void shard_path(const tb_bundle *b, int32_t shard, char *path) {
  if (snprintf(path, CK_PATH, "%s.data-%05d-of-%05d", b->prefix, shard, b->shards) >= CK_PATH)
    path[0] = 0; /* not with a checked prefix: ck_prefix */
}

static pf_status open_shard(pf_ctx *c, tb_bundle *b, int32_t shard, char *path) {
  struct stat st;
  shard_path(b, shard, path);
  if (b->fd[shard] >= 0) return PF_OK;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ck_errno(c, "open", path);
  b->fd[shard] = fd;
  if (fstat(fd, &st)) return ck_errno(c, "stat", path);
  if (!S_ISREG(st.st_mode)) return pf_failf(c, PF_DATA_LOSS, "%s is not a file", path);
  b->length[shard] = (int64_t)st.st_size;
  return PF_OK;
}

static pf_status open_for(pf_ctx *c, tb_bundle *b, const tb_entry *e, char *path) {
  PF_TRY(open_shard(c, b, e->shard, path));
  if (e->bytes <= b->length[e->shard] && e->begin <= b->length[e->shard] - e->bytes) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "tensor '%s' is bytes %" PRId64 " to %" PRId64 " of %s, which "
                  "has only %" PRId64,
                  tb_is_part(b, e) ? "(a part)" : e->key, e->begin, e->begin + e->bytes, path,
                  b->length[e->shard]);
}

static pf_status wrong_crc(pf_ctx *c, const char *key, const char *path, uint32_t is,
                           uint32_t said) {
  return pf_failf(c, PF_DATA_LOSS, "tensor '%s' in '%s' is damaged: CRC %08x, expected %08x", key,
                  path, is, said);
}

static pf_status read_plain(pf_ctx *c, tb_bundle *b, const tb_entry *e, const char *key, char *to) {
  char path[CK_PATH];
  uint32_t crc = 0;
  PF_TRY(open_for(c, b, e, path));
  for (int64_t done = 0; done < e->bytes; done += STEP) {
    int64_t n = PF_MIN(STEP, e->bytes - done);
    PF_TRY(ck_read_at(c, b->fd[e->shard], path, to + done, n, e->begin + done));
    crc = pf_crc32c(crc, to + done, n);
    if (c->host->cancelled(c)) return PF_CANCELLED;
  }
  crc = pf_crc32c_mask(crc);
  return crc == e->crc ? PF_OK : wrong_crc(c, key, path, crc, e->crc);
}

/* lengths as varints, their masked CRC, the bytes; the entry's CRC is of the lengths as 32-bit
 * (or, if they need it, 64-bit) numbers, that CRC and the bytes. */
static pf_status read_strings(pf_ctx *c, tb_bundle *b, const tb_entry *e, const char *key,
                              int64_t n, piece *p) {
  char path[CK_PATH];
  PF_TRY(open_for(c, b, e, path));
  if (n > e->bytes)
    return pf_failf(c, PF_DATA_LOSS, "string tensor '%s' in '%s' is too short for its shape", key,
                    path);
  p->owned = malloc((size_t)e->bytes + 1);
  p->strings = malloc(sizeof *p->strings * (size_t)(n + 1));
  if (!p->owned || !p->strings)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for tensor '%s'", key);
  PF_TRY(ck_read_at(c, b->fd[e->shard], path, p->owned, e->bytes, e->begin));
  pb_reader r = pb_of((pf_str){p->owned, e->bytes});
  uint32_t crc = 0, said = 0;
  uint64_t total = 0;
  for (int64_t i = 0; i < n && !r.bad; i++) {
    uint64_t len = pb_varint(&r);
    uint32_t small = (uint32_t)len;
    crc = len <= UINT32_MAX ? pf_crc32c(crc, &small, 4) : pf_crc32c(crc, &len, 8);
    if (len > (uint64_t)e->bytes - total) r.bad = 1;
    else total += len;
    p->strings[i].len = (int64_t)len;
  }
  if (r.bad || (uint64_t)(r.end - r.p) != total + 4)
    return pf_failf(c, PF_DATA_LOSS, "strings of tensor '%s' in '%s' do not add up", key, path);
  memcpy(&said, r.p, 4);
  if (pf_crc32c_mask(crc) != said) return wrong_crc(c, key, path, pf_crc32c_mask(crc), said);
  crc = pf_crc32c_mask(pf_crc32c(crc, r.p, r.end - r.p));
  if (crc != e->crc) return wrong_crc(c, key, path, crc, e->crc);
  const char *at = (const char *)r.p + 4;
  for (int64_t i = 0; i < n; i++) p->strings[i].data = at, at += p->strings[i].len;
  return PF_OK;
}

/* ---------------------------------------------------------------- TensorProtos of V1's tables */
typedef struct { int32_t field, wire, unit; } value_form;
/* Where a TensorProto has the elements of a type, and how: wire 0 varints, 1 and 5 fixed. */
static value_form form_of(int32_t type) {
  switch (type) {
    case PF_FLOAT32: return (value_form){5, 5, 4};
    case PF_FLOAT64: return (value_form){6, 1, 8};
    case PF_COMPLEX64: return (value_form){9, 5, 4};
    case PF_INT64: return (value_form){10, 0, 8};
    case PF_BOOL: return (value_form){11, 0, 1};
    case PF_COMPLEX128: return (value_form){12, 1, 8};
    case PF_FLOAT16:
    case PF_BFLOAT16: return (value_form){13, 0, 2};
    case PF_UINT32: return (value_form){16, 0, 4};
    case PF_UINT64: return (value_form){17, 0, 8};
    default: return (value_form){7, 0, (int32_t)pf_type_size(type)};
  }
}

/* The values of one field -> `to`, of which `room` bytes are left; how many it wrote, -1: wrong. */
static int64_t put_values(const pb_field *f, value_form form, char *to, int64_t room) {
  pb_reader r = pb_of(f->bytes);
  int64_t n = 0;
  if (f->wire == 2 && form.wire) {
    if (f->bytes.len % form.unit || f->bytes.len > room) return -1;
    if (f->bytes.len) memcpy(to, f->bytes.data, (size_t)f->bytes.len);
    return f->bytes.len;
  }
  if (f->wire != 2 && f->wire != form.wire) return -1;
  while (f->wire == 2 ? r.p < r.end && !r.bad : n == 0) {
    uint64_t x = f->wire == 2 ? pb_varint(&r) : f->value;
    if (n + form.unit > room) return -1;
    if (form.field == 11) x = x != 0;
    memcpy(to + n, &x, (size_t)form.unit); /* little-endian: its low bytes */
    n += form.unit;
  }
  return r.bad ? -1 : n;
}

static int decode_plain(pf_str text, int32_t type, int64_t bytes, char *to) {
  pb_reader r = pb_of(text);
  pb_field f;
  value_form form = form_of(type);
  int64_t n = 0;
  while (pb_next(&r, &f)) {
    if (f.number == 4 && f.wire == 2 && f.bytes.len) {
      if (f.bytes.len != bytes) return 0;
      memcpy(to, f.bytes.data, (size_t)bytes);
      n = bytes;
    } else if (f.number == form.field) {
      int64_t more = put_values(&f, form, to + n, bytes - n);
      if (more < 0) return 0;
      n += more;
    }
  }
  return !r.bad && n == bytes;
}

static int decode_strings(pf_str text, int64_t n, piece *p) {
  pb_reader r = pb_of(text);
  pb_field f;
  int64_t i = 0;
  while (pb_next(&r, &f)) {
    if (f.number != 8 || f.wire != 2) continue;
    if (i == n) return 0;
    p->strings[i++] = f.bytes;
  }
  return !r.bad && i == n;
}

static pf_str field_of(pf_str text, int32_t number) {
  pb_reader r = pb_of(text);
  pb_field f;
  pf_str found = {NULL, 0};
  while (pb_next(&r, &f))
    if (f.number == number && f.wire == 2) found = f.bytes;
  return r.bad ? (pf_str){NULL, 0} : found;
}

static pf_status read_v1(pf_ctx *c, tb_bundle *b, const tb_entry *e, const int64_t *part, int64_t n,
                         piece *p) {
  tt_table *t = &b->tables[part[0]];
  pf_bytes key = {0};
  pf_str value = {NULL, 0};
  int64_t bytes = n * pf_type_size(e->type);
  tb_part_key(&key, e, part);
  pf_status r = key.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a key")
                           : tt_find(c, t, (pf_str){key.data, key.n}, &value);
  pf_bytes_free(&key);
  PF_TRY(r);
  pf_str proto = field_of(field_of(value, 2), 3);
  int ok = n <= proto.len;
  if (ok && e->type == PF_STRING) {
    p->strings = malloc(sizeof *p->strings * (size_t)(n + 1));
    if (!p->strings) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for '%s'", e->key);
    ok = decode_strings(proto, n, p);
  } else if (ok) {
    if (!p->data) p->data = p->owned = malloc((size_t)bytes + 1);
    if (!p->data) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for '%s'", e->key);
    ok = decode_plain(proto, e->type, bytes, p->data);
  }
  if (ok) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "tensor '%s' in '%s' is damaged: it does not have the %" PRId64
                  " values of its slice",
                  e->key, t->path, n);
}

/* ---------------------------------------------------------------- parts */
static pf_status find_part(pf_ctx *c, tb_bundle *b, const tb_entry *e, const int64_t *part,
                           const tb_entry **found) {
  pf_bytes key = {0};
  tb_part_key(&key, e, part);
  const tb_entry *p = key.failed ? NULL : tb_find(b, key.data, key.n);
  pf_bytes_free(&key);
  int ok = p && p->type == e->type && p->ndim == e->ndim && !p->n_parts;
  for (int32_t d = 0; ok && d < e->ndim; d++) ok = tb_dims(b, p)[d] == part[TB_PLACE + 2 * d + 1];
  *found = p;
  if (ok) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "checkpoint '%s', tensor '%s': one of its slices is missing, or "
                  "of another type or shape",
                  b->prefix, e->key);
}

/* The values of part k, n of them; p->data given: they go there. */
static pf_status read_piece(pf_ctx *c, tb_bundle *b, const tb_entry *e, const int64_t *part,
                            int64_t n, piece *p) {
  const tb_entry *whole = e;
  if (b->kind == TB_V1) return read_v1(c, b, e, part, n, p);
  if (e->n_parts) PF_TRY(find_part(c, b, e, part, &whole));
  if (e->type == PF_STRING) return read_strings(c, b, whole, e->key, n, p);
  char path[CK_PATH];
  PF_TRY(open_for(c, b, whole, path));
  if (!p->data) p->data = p->owned = malloc((size_t)whole->bytes + 1);
  if (!p->data) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for tensor '%s'", e->key);
  return read_plain(c, b, whole, e->key, p->data);
}

static pf_status restore_part(pf_ctx *c, tb_bundle *b, const tb_entry *e, const int64_t *part,
                              const ck_slice *asked, DLTensor *out, int64_t *written) {
  int64_t common[2 * PF_MAX_DIMS], n = 1;
  int64_t shared = ck_overlap(e->ndim, part + TB_PLACE, asked->place, common);
  piece p = {NULL, NULL, NULL};
  if (!shared) return PF_OK;
  for (int32_t d = 0; d < e->ndim; d++) n *= part[TB_PLACE + 2 * d + 1];
  int same = !memcmp(part + TB_PLACE, asked->place, 16 * (size_t)e->ndim);
  if (same && e->type != PF_STRING) p.data = PF_DATA(char, out);
  pf_status r = read_piece(c, b, e, part, n, &p);
  ck_source from = {p.data, p.strings, NULL};
  if (r == PF_OK && p.data != PF_DATA(char, out))
    r = ck_copy_common(c, e->type, e->ndim, out, asked->place, &from, part + TB_PLACE, common);
  free(p.owned);
  free(p.strings);
  *written += shared;
  return r;
}

/* The files hold at least a byte for each element. */
static pf_status check_room(pf_ctx *c, tb_bundle *b, const tb_entry *e, int64_t n) {
  int64_t held = 0;
  char path[CK_PATH];
  for (int64_t i = 0; i < b->n_tables; i++) held += b->tables[i].size;
  if (b->kind == TB_V2 && !e->n_parts) {
    PF_TRY(open_for(c, b, e, path));
    held = e->bytes;
  }
  for (int32_t i = 0; i < b->shards && e->n_parts; i++) {
    PF_TRY(open_shard(c, b, i, path));
    held += b->length[i];
  }
  if (b->kind == TB_V1 && held < INT64_MAX / 32) held *= 32; /* they may be packed */
  if (n <= held) return PF_OK;
  return pf_failf(c, PF_DATA_LOSS,
                  "checkpoint '%s', tensor '%s' of shape %s is larger than its "
                  "files",
                  b->prefix, e->key, pf_shape_text(tb_dims(b, e), e->ndim).s);
}

static pf_status restore_one(pf_ctx *c, tb_bundle *b, const tb_entry *e, int64_t i) {
  ck_slice asked;
  int64_t dims[PF_MAX_DIMS], n = 1, written = 0;
  PF_TRY(region_of(c, b, e, i, &asked));
  for (int32_t d = 0; d < e->ndim; d++) dims[d] = asked.place[2 * d + 1], n *= dims[d];
  PF_TRY(check_room(c, b, e, n));
  DLTensor *out = c->host->output(c, (int32_t)i, dims, e->ndim);
  PF_EXHAUSTED(out);
  if (!e->n_parts) {
    int64_t part[TB_PLACE + 2 * PF_MAX_DIMS] = {0};
    for (int32_t d = 0; d < e->ndim; d++) part[TB_PLACE + 2 * d + 1] = tb_dims(b, e)[d];
    return n ? restore_part(c, b, e, part, &asked, out, &written) : PF_OK;
  }
  if (e->type != PF_STRING && e->n_parts > 1)
    memset(PF_DATA(char, out), 0, (size_t)(n * pf_type_size(e->type)));
  for (int32_t k = 0; k < e->n_parts; k++)
    PF_TRY(restore_part(c, b, e, tb_part(b, e, k), &asked, out, &written));
  if (written >= n) return PF_OK;
  return PF_INVALID(c,
                    "checkpoint '%s', tensor '%s': its slices have only %" PRId64 " of the %" PRId64
                    " elements asked for",
                    b->prefix, e->key, written, n);
}

static pf_status restore_all(pf_ctx *c, tb_bundle *b, const tb_entry **want, int32_t *types,
                             int64_t n) {
  const char *first[3] = {"", "", ""};
  int64_t count = 0;
  for (int64_t i = 0; i < b->n; i++)
    if (!tb_is_part(b, &b->entries[i]) && count++ < 3) first[count - 1] = b->entries[i].key;
  for (int64_t i = 0; i < n; i++) {
    pf_str name;
    PF_TRY(c->host->str_get(c->in[1], i, &name));
    want[i] = name.len && name.data[0] ? tb_find(b, name.data, name.len) : NULL;
    types[i] = want[i] ? want[i]->type : 0;
  }
  PF_TRY(ck_check_asked(c, b->prefix, types, n, count, first));
  for (int64_t i = 0; i < n; i++) {
    if (want[i]->type != PF_STRING && !pf_type_size(want[i]->type))
      return pf_failf(c, PF_UNIMPLEMENTED,
                      "tensor '%s' of checkpoint '%s' is of type %s, which "
                      "cannot be restored",
                      want[i]->key, b->prefix, pf_type_name(want[i]->type));
    PF_TRY(restore_one(c, b, want[i], i));
  }
  return PF_OK;
}

pf_status tb_restore(pf_ctx *c, const char *prefix, int64_t n) {
  tb_bundle b;
  const tb_entry **want = calloc((size_t)n + 1, sizeof *want);
  int32_t *types = calloc((size_t)n + 1, sizeof *types);
  pf_status r = want && types ? tb_open(c, prefix, &b)
                              : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to restore");
  if (r == PF_OK) r = restore_all(c, &b, want, types, n);
  if (want && types) tb_close(&b);
  free(want);
  free(types);
  return r;
}

/* ---------------------------------------------------------------- _CheckpointEntries */
static pf_status put_entries(pf_ctx *c, const tb_bundle *b) {
  int64_t n = 0, sizes = 0, i = 0, at = 0;
  for (int64_t k = 0; k < b->n; k++)
    if (!tb_is_part(b, &b->entries[k])) n++, sizes += b->entries[k].ndim;
  DLTensor *names = c->host->output(c, 0, &n, 1), *types = c->host->output(c, 1, &n, 1);
  DLTensor *ranks = c->host->output(c, 2, &n, 1), *dims = c->host->output(c, 3, &sizes, 1);
  DLTensor *bytes = c->host->output(c, 4, &n, 1);
  if (!names || !types || !ranks || !dims || !bytes) return PF_RESOURCE_EXHAUSTED;
  for (int64_t k = 0; k < b->n; k++) {
    const tb_entry *e = &b->entries[k];
    if (tb_is_part(b, e)) continue;
    PF_TRY(c->host->str_set(names, i, (pf_str){e->key, e->key_len}));
    PF_DATA(int32_t, types)[i] = e->type;
    PF_DATA(int32_t, ranks)[i] = e->ndim;
    PF_DATA(int64_t, bytes)[i++] = tb_entry_bytes(b, e);
    for (int32_t d = 0; d < e->ndim; d++) PF_DATA(int64_t, dims)[at++] = tb_dims(b, e)[d];
  }
  return PF_OK;
}

static pf_status list_entries(pf_ctx *c, const void *state) {
  char prefix[CK_PATH];
  tb_bundle b;
  (void)state;
  PF_TRY(ck_prefix(c, c->in[0], prefix));
  pf_status r = tb_open(c, prefix, &b);
  if (r == PF_OK) r = put_entries(c, &b);
  tb_close(&b);
  return r;
}

const pf_kernel *const tf_restore_kernels[] = {
  PF_CPU_FLAGS("_CheckpointEntries", NULL, PF_KERNEL_DETERMINISTIC | PF_KERNEL_BLOCKING,
               .compute = list_entries),
  NULL};
