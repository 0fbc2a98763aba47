/* cache.c - CacheDataset: elements kept by the first reading that comes to its end.
 *
 *     COLLECTING -> READING [the input has ended, or another reading was first]
 *
 * A reading that finds no elements collects its own; the first to end leaves them in the dataset,
 * and in the file where one is named: written beside it and renamed, so that it is whole or not
 * there.
 *
 * Invariants
 *   1. What the dataset keeps never changes once it is there.
 *   2. A file is the saved state of its elements (state.h), behind a length and a checksum.
 *
 * Threads: as dataset.h; `lock` guards what the dataset keeps.
 */
#include "dataset/rows.h"
#include "dataset/state.h"
#include "checkpoint/crc32c.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

typedef struct { pf_list output_types; } cache_state;
typedef struct {
  dataset d;
  pthread_mutex_t lock;
  dataset *kept; /* rows.h; NULL: none yet */
  char *path;    /* "": memory alone */
} cache;
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  ds_row *rows; /* while collecting */
  int64_t n, held, at, asked;
  dataset *kept; /* while reading */
} cache_stage;
static cache *of(const cache_stage *s) { return (cache *)s->t.s.of; }

/* ---------------------------------------------------------------- the file */
static pf_status failed(ds_row *error, pf_status st, const cache *c, const char *what) {
  return ds_fail(error, st, "the cache file '%s' %s", c->path, what);
}
static pf_status write_file(const cache *c, const ds_row *rows, int64_t n, ds_row *error) {
  ds_writer w;
  size_t room = strlen(c->path) + 40;
  char *beside = malloc(room);
  if (!beside) return failed(error, PF_RESOURCE_EXHAUSTED, c, "cannot be written: no memory");
  snprintf(beside, room, "%s.%ld.partial", c->path, (long)getpid());
  ds_write_begin(&w, c->d.host);
  ds_put_int(&w, n);
  for (int64_t i = 0; i < n; i++) ds_put_row(&w, &rows[i]);
  uint32_t sum = w.failed ? 0 : pf_crc32c(0, w.bytes, w.n);
  FILE *f = w.failed ? NULL : fopen(beside, "wb");
  int ok = f && fwrite(w.bytes, 1, w.n, f) == w.n && fwrite(&sum, 1, 4, f) == 4 && !fflush(f) &&
           !fsync(fileno(f));
  if (f) ok = !fclose(f) && ok;
  if (ok) ok = !rename(beside, c->path);
  if (f && !ok) unlink(beside);
  free(beside);
  free(w.bytes);
  return ok ? PF_OK
            : failed(error, w.failed == 2 ? PF_UNIMPLEMENTED : PF_UNAVAILABLE, c,
                     w.failed == 2 ? "cannot hold elements that are resources"
                                   : "cannot be written");
}
static char *whole_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
  char *bytes = size >= 0 && !fseek(f, 0, SEEK_SET) ? malloc((size_t)size + 1) : NULL;
  if (bytes && fread(bytes, 1, (size_t)size, f) != (size_t)size) free(bytes), bytes = NULL;
  if (f) fclose(f);
  *n = (size_t)PF_MAX(size, 0);
  return bytes;
}
static pf_status rows_in(ds_reader *r, const dataset *d, ds_row **rows, int64_t *n) {
  PF_TRY(ds_get_range(r, 0, r->end - r->at, n));
  int64_t all = *n;
  *n = 0;
  if (!(*rows = calloc((size_t)PF_MAX(all, 1), sizeof **rows))) return PF_RESOURCE_EXHAUSTED;
  for (; *n < all; ++*n) PF_TRY(ds_get_row(r, d, &(*rows)[*n]));
  return PF_OK;
}
/* With the lock: what the file has, if it is there. */
static pf_status read_file(cache *c, ds_row *error) {
  size_t n_bytes;
  uint32_t sum;
  ds_reader r;
  ds_row *rows = NULL;
  int64_t n = 0;
  if (!c->path[0] || access(c->path, F_OK)) return PF_OK;
  char *bytes = whole_file(c->path, &n_bytes);
  if (!bytes) return failed(error, PF_UNAVAILABLE, c, "cannot be read");
  pf_status st = PF_DATA_LOSS;
  if (n_bytes > 4) {
    memcpy(&sum, bytes + n_bytes - 4, 4);
    if (sum == pf_crc32c(0, bytes, n_bytes - 4))
      st = ds_read_begin(&r, c->d.host, (pf_str){bytes, (int64_t)n_bytes - 4});
    if (!st) st = rows_in(&r, &c->d, &rows, &n);
  }
  if (!st) c->kept = ds_rows_new(&c->d, c->d.types, c->d.n_types, rows, n, -1);
  for (int64_t i = 0; i < n; i++) ds_row_clear(&rows[i]);
  free(rows);
  free(bytes);
  if (!st && !c->kept) st = PF_RESOURCE_EXHAUSTED;
  return st ? failed(error, st, c, "is damaged, or of another dataset: delete it") : PF_OK;
}

/* ---------------------------------------------------------------- readings */
static int look(cache_stage *s, pf_status *st, ds_row *error) {
  cache *c = of(s);
  pthread_mutex_lock(&c->lock);
  *st = c->kept ? PF_OK : read_file(c, error);
  if (c->kept) ds_ref(s->kept = c->kept);
  pthread_mutex_unlock(&c->lock);
  return s->kept != NULL;
}
static void forget(cache_stage *s) {
  for (int64_t i = 0; i < s->n; i++) ds_row_clear(&s->rows[i]);
  free(s->rows);
  s->rows = NULL;
  s->n = s->held = 0;
}
/* The input has ended: what was collected is kept, unless another reading was first. */
static pf_status publish(cache_stage *s, ds_row *error) {
  cache *c = of(s);
  pf_status st = PF_OK;
  pthread_mutex_lock(&c->lock);
  if (!c->kept) {
    if (c->path[0]) st = write_file(c, s->rows, s->n, error);
    if (!st) c->kept = ds_rows_new(&c->d, c->d.types, c->d.n_types, s->rows, s->n, -1);
  }
  pthread_mutex_unlock(&c->lock);
  return st;
}
static int keep(cache_stage *s, const ds_row *row) {
  if (s->n == s->held) {
    int64_t held = PF_MAX(64, s->held * 2);
    ds_row *more = realloc(s->rows, sizeof *more * (size_t)held);
    if (!more) return 0;
    s->rows = more;
    s->held = held;
  }
  if (!ds_row_share(s->t.s.of->host, row, &s->rows[s->n])) return 0;
  s->n++;
  return 1;
}
static pf_status cache_run(ds_task *t) {
  cache_stage *s = (cache_stage *)t;
  if (s->kept) {
    int64_t n;
    const ds_row *rows = ds_rows_of(s->kept, &n);
    if (s->at >= n) return DS_END;
    return ds_row_share(t->s.of->host, &rows[s->at++], t->out)
               ? DS_OK
               : ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  }
  if (!s->asked) {
    s->asked = 1;
    if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
  }
  s->asked = 0;
  if (s->slot.st == DS_END) {
    pf_status st = publish(s, t->out);
    return st ? st : DS_END;
  }
  if (!s->slot.st && !keep(s, &s->slot.row)) {
    ds_row_clear(&s->slot.row);
    return ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory for a cache");
  }
  return *t->out = s->slot.row, s->slot.st;
}
static void cache_close(ds_stage *t) {
  cache_stage *s = (cache_stage *)t;
  forget(s);
  ds_unref(s->kept);
  ds_close(s->in);
  free(s);
}
static void cache_save(ds_stage *t, ds_writer *w) {
  cache_stage *s = (cache_stage *)t;
  int64_t n = s->n;
  const ds_row *rows = s->kept ? ds_rows_of(s->kept, &n) : s->rows;
  ds_put_int(w, s->kept != NULL);
  ds_put_int(w, s->at);
  ds_put_int(w, n);
  for (int64_t i = 0; i < n; i++) ds_put_row(w, &rows[i]);
  if (!s->kept) ds_put_stage(w, s->in);
}
static pf_status cache_load(ds_stage *t, ds_reader *r) {
  cache_stage *s = (cache_stage *)t;
  int64_t complete;
  ds_unref(s->kept);
  s->kept = NULL;
  PF_TRY(ds_get_range(r, 0, 1, &complete));
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->at));
  forget(s);
  PF_TRY(rows_in(r, t->of, &s->rows, &s->n));
  s->held = s->n;
  if (complete) {
    cache *c = of(s);
    s->kept = ds_rows_new(t->of, t->of->types, t->of->n_types, s->rows, s->n, -1);
    forget(s);
    if (!s->kept) return PF_RESOURCE_EXHAUSTED;
    pthread_mutex_lock(&c->lock);
    if (!c->kept) ds_ref(c->kept = s->kept);
    pthread_mutex_unlock(&c->lock);
    return PF_OK;
  }
  ds_row error = {0};
  pf_status st = s->in ? PF_OK : ds_open(t->of->in[0], ds_place_of(t), &error, &s->in);
  return st ? ds_load_failed(r, st, &error) : ds_get_stage(r, s->in);
}
static const ds_stage_kind CACHE_STAGE = {
  .next = ds_task_next, .close = cache_close, .save = cache_save, .load = cache_load};
static pf_status cache_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  cache_stage *s = ds_stage_new(sizeof *s, &CACHE_STAGE, d, at, error);
  pf_status st;
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = cache_run;
  if (!look(s, &st, error) && !st) st = ds_open(d->in[0], at, error, &s->in);
  if (st) return cache_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static void cache_free(dataset *d) {
  cache *c = (cache *)d;
  ds_unref(c->kept);
  free(c->path);
  pthread_mutex_destroy(&c->lock);
}
static int64_t cache_size(const dataset *d) { return ds_size(d->in[0]); }
static const ds_kind CACHE = {"Cache", cache_open, cache_free, cache_size};
static pf_status cache_compute(pf_ctx *c, const void *state) {
  pf_str path;
  cache *d = ds_new(c, sizeof *d, &CACHE, NULL, 1, &((const cache_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pthread_mutex_init(&d->lock, NULL);
  pf_status st = ds_same_types(c, &d->d);
  if (!st && pf_numel(c->in[1]) != 1) st = PF_INVALID(c, "filename must be a scalar");
  if (!st) st = c->host->str_get(c->in[1], 0, &path);
  if (!st && !(d->path = strndup(path.data ? path.data : "", (size_t)path.len)))
    st = PF_RESOURCE_EXHAUSTED;
  return ds_out(c, d, st);
}
extern const pf_kernel *const cache_kernels[];
const pf_kernel *const cache_kernels[] = {
  PF_CPU("CacheDataset", NULL, .compute = cache_compute, .state_size = sizeof(cache_state),
         .attrs = PF_ATTRS(PF_ATTR(cache_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types))),
  NULL};
