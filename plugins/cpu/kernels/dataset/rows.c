/* rows.c - datasets of elements that are there: rows.h.
 *
 * Threads: as dataset.h.
 */
#include "dataset/rows.h"

typedef struct {
  dataset d;
  int64_t n;
  ds_row *rows;
} rows;
typedef struct {
  ds_stage s;
  int64_t at;
} rows_stage;

static pf_status rows_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  rows_stage *t = (rows_stage *)s;
  const rows *d = (const rows *)s->of;
  (void)w;
  if (t->at >= d->n) return DS_END;
  if (!ds_row_share(d->d.host, &d->rows[t->at], out))
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  t->at++;
  return DS_OK;
}
static void rows_close(ds_stage *s) { free(s); }
static void rows_save(ds_stage *s, ds_writer *w) { ds_put_int(w, ((rows_stage *)s)->at); }
static pf_status rows_load(ds_stage *s, ds_reader *r) {
  return ds_get_range(r, 0, ((const rows *)s->of)->n, &((rows_stage *)s)->at);
}
static const ds_stage_kind ROWS_STAGE = {
  .next = rows_next, .close = rows_close, .save = rows_save, .load = rows_load};
static pf_status rows_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = ds_stage_new(sizeof(rows_stage), &ROWS_STAGE, d, at, error);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static void rows_free(dataset *d) {
  rows *r = (rows *)d;
  for (int64_t i = 0; r->rows && i < r->n; i++) ds_row_clear(&r->rows[i]);
  free(r->rows);
}
static int64_t rows_size(const dataset *d) { return ((const rows *)d)->n; }
static const ds_kind ROWS = {"Rows", rows_open, rows_free, rows_size};

static int share_one(const pf_host *h, const ds_row *from, int32_t k, ds_row *to) {
  if (k < 0) return ds_row_share(h, from, to);
  return ds_row_room(to, 1) && (to->v[0] = h->tensor_ref(from->v[k])) != NULL;
}
dataset *ds_rows_new(const dataset *like, const int32_t *types, int32_t n_types, const ds_row *from,
                     int64_t n, int32_t k) {
  rows *d = ds_bare(sizeof *d, &ROWS, like, k < 0 ? types : types + k, k < 0 ? n_types : 1);
  if (!d) return NULL;
  d->rows = calloc((size_t)PF_MAX(n, 1), sizeof *d->rows);
  for (int64_t i = 0; d->rows && i < n; i++) {
    d->n = i + 1;
    if (!share_one(like->host, &from[i], k, &d->rows[i])) return ds_unref(d), NULL;
  }
  if (!d->rows) return ds_unref(d), NULL;
  return &d->d;
}
const ds_row *ds_rows_of(const dataset *d, int64_t *n) {
  if (d->kind != &ROWS) return NULL;
  *n = ((const rows *)d)->n;
  return ((const rows *)d)->rows;
}
