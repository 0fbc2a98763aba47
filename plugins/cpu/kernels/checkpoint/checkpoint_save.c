/* checkpoint_save.c - SaveV2, Save and SaveSlices (of before TF 0.12), MergeV2Checkpoints,
 * ShardedFilename, ShardedFilespec.
 *
 * Invariants
 *   1. A data file is complete and synced before an index names it; the index's rename commits;
 *      only then do older files of the same prefix go.  A crash at any moment leaves the last
 *      committed checkpoint whole.
 *   2. An error removes what this call made.
 * Threads: the host's BLOCKING lane; writers of one prefix take turns.  Those of other processes do
 * not: a lock that a frozen one holds would stop who was started in its place.
 */
#include "checkpoint/checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

typedef ck_item item;
typedef struct { pf_str format; } save_state; /* "tensorflow": a bundle, see tf_save.c */
typedef struct {
  char prefix[CK_PATH], folder[CK_PATH], data[CK_PATH], temporary[CK_PATH];
  item *items;
  char *names;
  int64_t n, all, first; /* tensors, slices included; the input that is the first */
  ck_slice *places;      /* of the items that are slices */
  int64_t n_places;
  int bundle; /* in TensorFlow's format */
  pf_bytes head;
} saving;

/* ---------------------------------------------------------------- turns */
enum { TURNS = 64 };
static pthread_mutex_t turns[TURNS];
static void make_turns(void) {
  for (int i = 0; i < TURNS; i++) pthread_mutex_init(&turns[i], NULL);
}

/* The turn of who writes a prefix, taken. */
static pthread_mutex_t *take_turn(const char *prefix) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  uint32_t hash = 2166136261u; /* FNV-1a */
  pthread_once(&once, make_turns);
  for (; *prefix; prefix++) hash = (hash ^ (uint8_t)*prefix) * 16777619u;
  pthread_mutex_t *turn = &turns[hash % TURNS];
  pthread_mutex_lock(turn);
  return turn;
}

/* ---------------------------------------------------------------- what is to be saved */
pf_status ck_prefix(pf_ctx *c, const DLTensor *t, char *out) {
  pf_str s;
  if (t->ndim != 0) return PF_INVALID(c, "prefix must be a scalar, got shape %s", PF_SHAPE(t).s);
  PF_TRY(c->host->str_get(t, 0, &s));
  if (s.len == 0 || s.len > CK_PATH - 128)
    return PF_INVALID(c, "prefix must have 1 to %d bytes, got %" PRId64, CK_PATH - 128, s.len);
  if (memchr(s.data, 0, (size_t)s.len)) return PF_INVALID(c, "prefix must not contain a zero byte");
  memcpy(out, s.data, (size_t)s.len);
  out[s.len] = 0;
  if (!*ck_base(out))
    return PF_INVALID(c, "prefix '%s' names a folder, not a checkpoint in one", out);
  return PF_OK;
}

/* `first`: 3 where there are slices, else 2. */
static pf_status check_names(pf_ctx *c, int64_t n, int64_t first) {
  for (int32_t i = 1; i < first; i++)
    if (c->in[i]->ndim != 1 || c->in[i]->shape[0] != n)
      return PF_INVALID(c, "%s must be a vector of %" PRId64 " strings, got shape %s",
                        i == 1 ? "tensor_names" : "shape_and_slices", n, PF_SHAPE(c->in[i]).s);
  return PF_OK;
}

static pf_status string_bytes(pf_ctx *c, const DLTensor *t, int64_t *bytes) {
  int64_t n = pf_numel(t);
  *bytes = n * 8;
  for (int64_t i = 0; i < n; i++) {
    pf_str s;
    PF_TRY(c->host->str_get(t, i, &s));
    *bytes += s.len;
  }
  return PF_OK;
}

/* Larger elements first, then by name: everything is aligned to its element and nothing is
 * padded. */
static int by_layout(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->unit != y->unit) return x->unit > y->unit ? -1 : 1;
  return strcmp(x->name, y->name);
}
static int item_by_name(const void *a, const void *b) {
  return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static pf_status measure(pf_ctx *c, ck_item *it) {
  if (!ck_type_name(it->type))
    return pf_failf(c, PF_UNIMPLEMENTED, "tensor '%s' of type %s cannot be saved", it->name,
                    pf_type_name(it->type));
  it->unit = it->type == PF_STRING       ? 1
             : it->type == PF_COMPLEX64  ? 4
             : it->type == PF_COMPLEX128 ? 8
                                         : pf_type_size(it->type);
  if (it->type == PF_STRING) return string_bytes(c, it->t, &it->bytes);
  it->bytes = pf_numel(it->t) * pf_type_size(it->type);
  return PF_OK;
}

/* Names and tensors; slices are seen to later. */
static pf_status list_items(pf_ctx *c, saving *s) {
  int64_t total = 0, at = 0;
  pf_str name;
  for (int64_t i = 0; i < s->n; i++) {
    PF_TRY(c->host->str_get(c->in[1], i, &name));
    total += name.len + 1;
  }
  s->items = calloc((size_t)s->n + 1, sizeof *s->items);
  s->names = malloc((size_t)total + 1);
  if (!s->items || !s->names)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to lay out a checkpoint");
  for (int64_t i = 0; i < s->n; i++) {
    ck_item *it = &s->items[i];
    PF_TRY(c->host->str_get(c->in[1], i, &name));
    if (!ck_utf8(name.data, name.len))
      return PF_INVALID(c, "tensor_names[%" PRId64 "] is not valid UTF-8", i);
    it->name = memcpy(s->names + at, name.data, (size_t)name.len);
    s->names[at + name.len] = 0;
    at += name.len + 1;
    it->t = c->in[s->first + i];
    it->type = c->in_type[s->first + i];
    it->begin = i; /* its place among the inputs, until there is one in a file */
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- slices */
static pf_status slice_text(pf_ctx *c, const saving *s, const ck_item *it, pf_str *text) {
  *text = (pf_str){NULL, 0};
  return s->first == 3 ? c->host->str_get(c->in[2], it->begin, text) : PF_OK;
}

/* Where item `it` lies in the whole, whose sizes are those of `first`, the first of its name. */
static pf_status place_slice(pf_ctx *c, const saving *s, const ck_item *it, const ck_item *first,
                             ck_slice *place) {
  pf_str text;
  int64_t sizes[PF_MAX_DIMS];
  int32_t ndim = it->t->ndim;
  PF_TRY(slice_text(c, s, it, &text));
  int ok = ndim <= PF_MAX_DIMS && text.len && ck_slice_parse(text, ndim, place) &&
           it->type == first->type;
  for (int32_t d = 0; ok && d < ndim; d++) sizes[d] = place->place[2 * d + 1];
  ok = ok && pf_same_dims(sizes, ndim, it->t->shape, ndim);
  if (ok && it != first) ok = pf_same_dims(place->dims, ndim, first->part->dims, first->t->ndim);
  if (ok) return PF_OK;
  if (!text.len) return PF_INVALID(c, "tensor name '%s' is given twice", it->name);
  return PF_INVALID(c, "tensor '%s' of shape %s is no slice '%.*s'", it->name, PF_SHAPE(it->t).s,
                    (int)PF_MIN(text.len, 200), text.data);
}

/* The slices of one tensor, which they cover, become one item: the first. */
static pf_status join_slices(pf_ctx *c, ck_item *items, int64_t n) {
  ck_item *to = &items[0];
  const ck_slice *whole = to->part;
  int32_t ndim = to->t->ndim;
  ck_slice all;
  to->joined = c->host->tensor_new(c->host, NULL, PF_MEM_HOST, to->type, whole->dims, ndim);
  if (!to->joined) return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory to join '%s'", to->name);
  DLTensor *out = &to->joined->dl_tensor;
  ck_slice_all(whole->dims, ndim, &all);
  for (int64_t i = 0; i < n; i++) {
    const DLTensor *t = items[i].t;
    ck_source from = {PF_DATA(const char, t), NULL, t};
    const int64_t *place = items[i].part->place;
    if (pf_numel(t)) PF_TRY(ck_copy_common(c, to->type, ndim, out, all.place, &from, place, place));
  }
  to->t = out;
  to->part = NULL;
  return PF_OK;
}

static int slice_by_place(const void *a, const void *b) {
  const ck_item *x = a, *y = b;
  for (int32_t d = 0; d < 2 * x->t->ndim; d++)
    if (x->part->place[d] != y->part->place[d])
      return x->part->place[d] < y->part->place[d] ? -1 : 1;
  return 0;
}

static pf_status check_apart(pf_ctx *c, const ck_item *items, int64_t n) {
  int64_t common[2 * PF_MAX_DIMS];
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < i; k++)
      if (ck_overlap(items[i].t->ndim, items[i].part->place, items[k].part->place, common))
        return PF_INVALID(c, "two slices of tensor '%s' have elements in common", items[i].name);
    if (c->host->cancelled(c)) return PF_CANCELLED;
  }
  return PF_OK;
}

/* The items of one name, of which the first is a slice; *n: how many stay. */
static pf_status take_slices(pf_ctx *c, saving *s, ck_item *items, int64_t *n) {
  int64_t covered = 0, whole = 0;
  for (int64_t i = 0; i < *n; i++) {
    ck_slice *place = &s->places[s->n_places++];
    PF_TRY(place_slice(c, s, &items[i], &items[0], place));
    items[i].part = place;
    covered += pf_numel(items[i].t);
  }
  PF_TRY(check_apart(c, items, *n));
  pf_shape_numel(items[0].part->dims, items[0].t->ndim, &whole);
  if (covered != whole && !s->bundle)
    return PF_INVALID(c,
                      "the slices of tensor '%s' have %" PRId64 " elements, the whole has %" PRId64
                      ": all are saved at once, or none; tf.train.Saver(format="
                      "'tensorflow') saves some",
                      items[0].name, covered, whole);
  if (covered != whole) {
    qsort(items, (size_t)*n, sizeof *items, slice_by_place);
    return PF_OK;
  }
  PF_TRY(join_slices(c, items, *n));
  *n = 1;
  return PF_OK;
}

/* One item per name, or per slice where a tensor is not there as a whole; by ascending names. */
static pf_status join_items(pf_ctx *c, saving *s) {
  int64_t kept = 0, next;
  qsort(s->items, (size_t)s->n, sizeof *s->items, item_by_name);
  for (int64_t i = 0; i < s->n; i = next) {
    pf_str text;
    for (next = i + 1; next < s->n && !strcmp(s->items[next].name, s->items[i].name);) next++;
    int64_t n = next - i;
    PF_TRY(slice_text(c, s, &s->items[i], &text));
    if (!text.len && n > 1)
      return PF_INVALID(c, "tensor name '%s' is given twice", s->items[i].name);
    memmove(&s->items[kept], &s->items[i], (size_t)n * sizeof *s->items);
    if (text.len) {
      if (!s->places) s->places = malloc((size_t)s->n * sizeof *s->places);
      if (!s->places) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for slices");
      PF_TRY(take_slices(c, s, &s->items[kept], &n));
    }
    kept += n;
  }
  s->n = kept;
  return PF_OK;
}

static pf_status take_items(pf_ctx *c, saving *s) {
  PF_TRY(list_items(c, s));
  PF_TRY(join_items(c, s));
  for (int64_t i = 0; i < s->n; i++) PF_TRY(measure(c, &s->items[i]));
  return PF_OK;
}

/* ---------------------------------------------------------------- the safetensors file */
static void add_entry(pf_bytes *b, const item *it) {
  pf_bytes_add(b, ",", 1);
  ck_add_json(b, it->name, (int64_t)strlen(it->name));
  pf_bytes_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", ck_safe_type(it->type));
  if (it->type == PF_STRING) {
    pf_bytes_printf(b, "%" PRId64, it->bytes);
  } else {
    for (int32_t d = 0; d < it->t->ndim; d++)
      pf_bytes_printf(b, d ? ",%" PRId64 : "%" PRId64, it->t->shape[d]);
    if (it->type == PF_COMPLEX64 || it->type == PF_COMPLEX128)
      pf_bytes_text(b, it->t->ndim ? ",2" : "2");
  }
  pf_bytes_printf(b, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", it->begin,
                  it->begin + it->bytes);
}

static void put_u64(char *p, uint64_t x) {
  for (int i = 0; i < 8; i++) p[i] = (char)(x >> (8 * i));
}

static pf_status make_header(pf_ctx *c, saving *s) {
  pf_bytes *b = &s->head;
  pf_bytes_add(b, "\0\0\0\0\0\0\0\0", 8);
  pf_bytes_text(b, "{\"__metadata__\":{\"format\":\"" CK_FORMAT "\"}");
  for (int64_t i = 0; i < s->n; i++) add_entry(b, &s->items[i]);
  pf_bytes_add(b, "}", 1);
  while (!b->failed && b->n % 64) pf_bytes_add(b, " ", 1);
  if (b->failed)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the header of a checkpoint");
  put_u64(b->data, (uint64_t)b->n - 8);
  return PF_OK;
}

/* In pieces that stay in cache between the CRC and the write. */
static pf_status write_counted(pf_ctx *c, int fd, const char *path, const char *data, int64_t n,
                               uint32_t *crc) {
  for (int64_t at = 0; at < n; at += 1 << 20) {
    int64_t m = PF_MIN(1 << 20, n - at);
    *crc = ck_crc(*crc, data + at, m);
    PF_TRY(ck_write_all(c, fd, path, data + at, m));
  }
  return PF_OK;
}

static pf_status write_strings(pf_ctx *c, int fd, const char *path, item *it) {
  pf_bytes b = {0};
  int64_t n = pf_numel(it->t);
  pf_str s;
  pf_status r = PF_OK;
  for (int64_t i = 0; i < n && r == PF_OK; i++) {
    char len[8];
    r = c->host->str_get(it->t, i, &s);
    put_u64(len, (uint64_t)s.len);
    pf_bytes_add(&b, len, 8);
  }
  for (int64_t i = 0; i < n && r == PF_OK; i++) {
    r = c->host->str_get(it->t, i, &s);
    pf_bytes_add(&b, s.data, s.len);
  }
  if (r == PF_OK && b.failed) r = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to save strings");
  if (r == PF_OK) r = write_counted(c, fd, path, b.data, b.n, &it->crc);
  pf_bytes_free(&b);
  return r;
}

static pf_status write_data(pf_ctx *c, saving *s) {
  int fd = -1;
  PF_TRY(ck_create(c, s->data, s->temporary, &fd));
  pf_status r = ck_write_all(c, fd, s->temporary, s->head.data, s->head.n);
  for (int64_t i = 0; i < s->n && r == PF_OK; i++) {
    item *it = &s->items[i];
    if (it->type == PF_STRING) r = write_strings(c, fd, s->temporary, it);
    else r = write_counted(c, fd, s->temporary, PF_DATA(const char, it->t), it->bytes, &it->crc);
  }
  if (r == PF_OK) return ck_commit(c, fd, s->temporary, s->data);
  close(fd);
  unlink(s->temporary);
  return r;
}

/* A data file name that no file has: generation 0, 1, ... */
static pf_status pick_data(pf_ctx *c, const char *prefix, int shard, int shards, char *out) {
  struct stat st;
  for (int64_t g = 0; g < 1000000; g++) {
    int n = g == 0
                ? snprintf(out, CK_PATH, "%s.data-%05d-of-%05d.safetensors", prefix, shard, shards)
                : snprintf(out, CK_PATH, "%s.data-%05d-of-%05d.g%" PRId64 ".safetensors", prefix,
                           shard, shards, g);
    if (n >= CK_PATH) return PF_INVALID(c, "path is too long: %s", prefix);
    if (lstat(out, &st)) return errno == ENOENT ? PF_OK : ck_errno(c, "save to", out);
  }
  return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no free data file name for %s", prefix);
}

/* -------------------------------------------------------- the index, and what it makes obsolete */
static int starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }
static int ends(const char *s, const char *with) {
  size_t n = strlen(s), m = strlen(with);
  return n >= m && !strcmp(s + n - m, with);
}

static int kept(const ck_index *x, const char *name) {
  for (int64_t i = 0; i < x->n_files; i++)
    if (!strcmp(x->files[i].name, name)) return 1;
  return 0;
}

/* "00000-of-00001", which ends a data file of TensorFlow's. */
static int is_shard(const char *s) {
  int a = 0, b = 0, n = 0;
  return sscanf(s, "%5d-of-%5d%n", &a, &b, &n) == 2 && !s[n];
}

/* Data files of older generations and temporary files of writers that died. */
static void remove_obsolete(const char *prefix, const ck_index *x) {
  char folder[CK_PATH], path[2 * CK_PATH], data[CK_PATH], index[CK_PATH];
  ck_folder(prefix, folder);
  snprintf(data, sizeof data, "%s.data-", ck_base(prefix));
  snprintf(index, sizeof index, "%s.index.tmp-", ck_base(prefix));
  DIR *d = opendir(folder);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    int old =
        starts(e->d_name, data) && (ends(e->d_name, ".safetensors") || strstr(e->d_name, ".tmp-") ||
                                    is_shard(e->d_name + strlen(data)));
    if ((!old && !starts(e->d_name, index)) || kept(x, e->d_name)) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    unlink(path);
  }
  closedir(d);
}

static pf_status commit(pf_ctx *c, saving *s) {
  int64_t n_dims = 0, k = 0;
  ck_file file = {.name = ck_base(s->data), .size = s->head.n};
  for (int64_t i = 0; i < s->n; i++) n_dims += s->items[i].t->ndim, file.size += s->items[i].bytes;
  ck_index x = {.files = &file, .n_files = 1, .n_tensors = s->n};
  x.tensors = calloc((size_t)s->n + 1, sizeof *x.tensors);
  x.dims = malloc(sizeof(int64_t) * (size_t)(n_dims + 1));
  pf_status r = x.tensors && x.dims
                    ? PF_OK
                    : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the index of a checkpoint");
  for (int64_t i = 0; i < s->n && r == PF_OK; i++) {
    const item *it = &s->items[i];
    x.tensors[i] = (ck_tensor){.name = it->name,
                               .type = it->type,
                               .ndim = it->t->ndim,
                               .crc = it->crc,
                               .dims_at = k,
                               .begin = it->begin,
                               .end = it->begin + it->bytes};
    for (int32_t d = 0; d < it->t->ndim; d++) x.dims[k++] = it->t->shape[d];
  }
  if (r == PF_OK) r = ck_index_write(c, s->prefix, &x);
  if (r == PF_OK) remove_obsolete(s->prefix, &x);
  free(x.tensors);
  free(x.dims);
  return r;
}

static pf_status save_own(pf_ctx *c, saving *s) {
  qsort(s->items, (size_t)s->n, sizeof *s->items, by_layout);
  int64_t at = 0;
  for (int64_t i = 0; i < s->n; i++) s->items[i].begin = at, at += s->items[i].bytes;
  PF_TRY(make_header(c, s));
  PF_TRY(pick_data(c, s->prefix, 0, 1, s->data));
  PF_TRY(write_data(c, s));
  pf_status r = ck_sync_folder(c, s->prefix);
  if (r == PF_OK) r = commit(c, s);
  if (r != PF_OK) unlink(s->data);
  return r;
}

/* TensorFlow's: its data file's name is always the same. */
static pf_status save_bundle(pf_ctx *c, saving *s) {
  ck_file file = {.name = s->data};
  ck_index kept = {.files = &file, .n_files = 1};
  PF_TRY(tb_save(c, s->prefix, s->items, s->n));
  snprintf(s->data, sizeof s->data, "%s.data-00000-of-00001", ck_base(s->prefix));
  remove_obsolete(s->prefix, &kept);
  return PF_OK;
}

/* One that is missing is made, as TensorFlow does; two levels are the caller's mistake. */
static void make_folder(const char *prefix) {
  char folder[CK_PATH];
  ck_folder(prefix, folder);
  mkdir(folder, 0777); /* open() tells what fails */
}

static pf_status save_steps(pf_ctx *c, saving *s, pf_str format) {
  PF_TRY(ck_prefix(c, c->in[0], s->prefix));
  make_folder(s->prefix);
  PF_TRY(check_names(c, s->n, s->first));
  s->bundle = format.len == 10 && !memcmp(format.data, "tensorflow", 10);
  if (format.len && !s->bundle)
    return PF_INVALID(c, "attribute _format is '%.*s'; expected 'tensorflow', or none for pyflow's",
                      (int)PF_MIN(format.len, 50), format.data);
  PF_TRY(take_items(c, s));
  pthread_mutex_t *turn = take_turn(s->prefix);
  pf_status r = s->bundle ? save_bundle(c, s) : save_own(c, s);
  pthread_mutex_unlock(turn);
  return r;
}

static pf_status save(pf_ctx *c, const void *state) {
  const save_state *asked = state;
  saving s = {.first = c->in_start[c->n_in_args - 1]};
  s.n = s.all = c->n_in - s.first;
  pf_status r = save_steps(c, &s, asked->format);
  pf_bytes_free(&s.head);
  for (int64_t i = 0; s.items && i < s.all; i++)
    if (s.items[i].joined) s.items[i].joined->deleter(s.items[i].joined);
  free(s.items);
  free(s.places);
  free(s.names);
  return r;
}

/* ---------------------------------------------------------------- MergeV2Checkpoints */
typedef struct {
  ck_index *shards, all;
  int64_t n;
  char (*moved)[CK_PATH], (*from)[CK_PATH];
  int64_t n_moved;
} merging;

/* One index over all shards; names of files are where their bytes will be. */
static pf_status join_indexes(pf_ctx *c, merging *m, const char *prefix) {
  ck_index *all = &m->all;
  int64_t files = 0, tensors = 0, dims = 0;
  for (int64_t i = 0; i < m->n; i++)
    files += m->shards[i].n_files, tensors += m->shards[i].n_tensors, dims += m->shards[i].n_dims;
  all->files = calloc((size_t)files + 1, sizeof *all->files);
  all->tensors = calloc((size_t)tensors + 1, sizeof *all->tensors);
  all->dims = calloc((size_t)dims + 1, sizeof *all->dims);
  m->moved = calloc((size_t)files + 1, CK_PATH);
  m->from = calloc((size_t)files + 1, CK_PATH);
  if (!all->files || !all->tensors || !all->dims || !m->moved || !m->from)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to merge checkpoints");
  for (int64_t i = 0; i < m->n; i++) {
    const ck_index *x = &m->shards[i];
    for (int64_t t = 0; t < x->n_tensors; t++) {
      ck_tensor k = x->tensors[t];
      k.file += (int32_t)all->n_files;
      k.dims_at += all->n_dims;
      all->tensors[all->n_tensors++] = k;
    }
    if (x->n_dims) memcpy(all->dims + all->n_dims, x->dims, sizeof(int64_t) * (size_t)x->n_dims);
    all->n_dims += x->n_dims;
    for (int64_t f = 0; f < x->n_files; f++) {
      PF_TRY(pick_data(c, prefix, (int)all->n_files, (int)files, m->moved[all->n_files]));
      all->files[all->n_files] = (ck_file){ck_base(m->moved[all->n_files]), x->files[f].size};
      all->n_files++;
    }
  }
  return PF_OK;
}

static int tensor_by_name(const void *a, const void *b) {
  return strcmp(((const ck_tensor *)a)->name, ((const ck_tensor *)b)->name);
}

static pf_status merge_steps(pf_ctx *c, merging *m, const char *prefix, int delete_old) {
  char part[CK_PATH], folder[CK_PATH], path[2 * CK_PATH];
  pf_str s;
  int64_t k = 0;
  for (int64_t i = 0; i < m->n; i++) {
    PF_TRY(c->host->str_get(c->in[0], i, &s));
    if (s.len < 1 || s.len > CK_PATH - 128 || memchr(s.data, 0, (size_t)s.len))
      return PF_INVALID(c, "checkpoint_prefixes[%" PRId64 "] is not a path", i);
    memcpy(part, s.data, (size_t)s.len);
    part[s.len] = 0;
    PF_TRY(ck_index_read(c, part, &m->shards[i]));
  }
  PF_TRY(join_indexes(c, m, prefix));
  qsort(m->all.tensors, (size_t)m->all.n_tensors, sizeof *m->all.tensors, tensor_by_name);
  for (int64_t i = 1; i < m->all.n_tensors; i++)
    if (!strcmp(m->all.tensors[i - 1].name, m->all.tensors[i].name))
      return PF_INVALID(c, "tensor '%s' is in two of the checkpoints", m->all.tensors[i].name);
  for (int64_t i = 0; i < m->n;
       i++) { /* hard links first: the shards stay whole until the commit */
    PF_TRY(c->host->str_get(c->in[0], i, &s));
    memcpy(part, s.data, (size_t)s.len);
    part[s.len] = 0;
    ck_folder(part, folder);
    for (int64_t f = 0; f < m->shards[i].n_files; f++, k++) {
      snprintf(path, sizeof path, "%s/%s", folder, m->shards[i].files[f].name);
      if (strlen(path) >= CK_PATH) return PF_INVALID(c, "path is too long: %s", path);
      strcpy(m->from[k], path);
      if (link(path, m->moved[k]) && rename(path, m->moved[k])) return ck_errno(c, "move", path);
      m->n_moved = k + 1;
    }
  }
  PF_TRY(ck_sync_folder(c, prefix));
  PF_TRY(ck_index_write(c, prefix, &m->all));
  m->n_moved = 0;
  if (!delete_old) return PF_OK;
  for (int64_t i = 0; i < m->n; i++) {
    PF_TRY(c->host->str_get(c->in[0], i, &s));
    snprintf(path, sizeof path, "%.*s.index", (int)s.len, s.data);
    if (s.len != (int64_t)strlen(prefix) || memcmp(s.data, prefix, (size_t)s.len)) unlink(path);
    snprintf(part, sizeof part, "%.*s", (int)s.len, s.data);
    ck_folder(part, folder);
    for (int64_t f = 0; f < k; f++) unlink(m->from[f]);
    if (strcmp(folder, ".")) rmdir(folder); /* only if it is empty by now */
  }
  remove_obsolete(prefix, &m->all);
  return PF_OK;
}

typedef struct { int32_t delete_old_dirs; } merge_state;
static pf_status merge(pf_ctx *c, const void *state) {
  const merge_state *s = state;
  if (c->in[0]->ndim != 1)
    return PF_INVALID(c, "checkpoint_prefixes must be a vector, got shape %s",
                      PF_SHAPE(c->in[0]).s);
  char prefix[CK_PATH];
  PF_TRY(ck_prefix(c, c->in[1], prefix));
  merging m = {.n = c->in[0]->shape[0]};
  m.shards = calloc((size_t)m.n + 1, sizeof *m.shards);
  pthread_mutex_t *turn = take_turn(prefix);
  pf_status r = m.shards ? merge_steps(c, &m, prefix, s->delete_old_dirs)
                         : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to merge");
  for (int64_t i = 0; i < m.n_moved; i++) { /* it failed: back to how it was */
    struct stat st;
    if (lstat(m.from[i], &st)) rename(m.moved[i], m.from[i]);
    else unlink(m.moved[i]);
  }
  pthread_mutex_unlock(turn);
  for (int64_t i = 0; i < m.n && m.shards; i++) ck_index_free(&m.shards[i]);
  free(m.shards);
  free(m.all.files);
  free(m.all.tensors);
  free(m.all.dims);
  free(m.moved);
  free(m.from);
  return r;
}

/* ---------------------------------------------------------------- names of shards */
static pf_status sharded(pf_ctx *c, const char *shard, int64_t shards) {
  pf_str base;
  pf_bytes b = {0};
  if (c->in[0]->ndim != 0)
    return PF_INVALID(c, "basename must be a scalar, got shape %s", PF_SHAPE(c->in[0]).s);
  PF_TRY(c->host->str_get(c->in[0], 0, &base));
  DLTensor *out = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(out);
  pf_bytes_add(&b, base.data, base.len);
  pf_bytes_printf(&b, "-%s-of-%05" PRId64, shard, shards);
  pf_status r = b.failed ? pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a name")
                         : c->host->str_set(out, 0, (pf_str){b.data, b.n});
  pf_bytes_free(&b);
  return r;
}
static pf_status sharded_filename(pf_ctx *c, const void *state) {
  int64_t shard, shards;
  char text[32];
  (void)state;
  PF_TRY(pf_in_scalar(c, 1, "shard", &shard));
  PF_TRY(pf_in_scalar(c, 2, "num_shards", &shards));
  snprintf(text, sizeof text, "%05" PRId64, shard);
  return sharded(c, text, shards);
}
static pf_status sharded_filespec(pf_ctx *c, const void *state) {
  int64_t shards;
  (void)state;
  PF_TRY(pf_in_scalar(c, 1, "num_shards", &shards));
  return sharded(c, "?????", shards);
}

enum { FLAGS = PF_KERNEL_DETERMINISTIC | PF_KERNEL_BLOCKING | PF_KERNEL_EXPENSIVE };
#define SAVES(op_) \
  PF_CPU_FLAGS(op_, NULL, FLAGS, \
               .attrs = PF_ATTRS(&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, "_format", \
                                                  PF_ATTR_STRING, offsetof(save_state, format)}), \
               .state_size = sizeof(save_state), .compute = save)
const pf_kernel *const checkpoint_save_kernels[] = {
  SAVES("SaveV2"),
  SAVES("Save"),
  SAVES("SaveSlices"),
  PF_CPU_FLAGS("MergeV2Checkpoints", NULL, FLAGS,
               .attrs = PF_ATTRS(PF_ATTR(merge_state, PF_ATTR_BOOL, delete_old_dirs)),
               .state_size = sizeof(merge_state), .compute = merge),
  PF_CPU("ShardedFilename", NULL, .compute = sharded_filename),
  PF_CPU("ShardedFilespec", NULL, .compute = sharded_filespec),
  NULL};
