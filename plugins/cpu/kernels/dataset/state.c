/* state.c - writing and reading an iterator's state: state.h.
 *
 * Threads: a writer or reader is one thread's.
 */
#include "dataset/rows.h"
#include "dataset/state.h"

enum { DEPTH = 16, MOST_TYPES = 256 }; /* of windows in windows; components */

/* ---------------------------------------------------------------- writing */
/* A window: other datasets have no elements that could be written. */
static void put_window(ds_writer *w, const ds_tensor *m) {
  void *obj;
  int64_t n;
  const ds_row *rows = w->host->handle_get(m, &PF_DATASET, &obj) ? NULL : ds_rows_of(obj, &n);
  if (!rows) {
    w->failed = 2;
    return;
  }
  const dataset *d = obj;
  ds_put_number(w, PF_VARIANT);
  ds_put_number(w, d->n_types);
  for (int32_t i = 0; i < d->n_types; i++) ds_put_number(w, d->types[i]);
  ds_put_number(w, n);
  for (int64_t i = 0; i < n; i++) ds_put_row(w, &rows[i]);
}
static void put_tensor(ds_writer *w, const ds_tensor *m) {
  const DLTensor *t = &m->dl_tensor;
  int32_t type = w->host->type_of(m);
  int64_t n = pf_numel(t), size = pf_type_size(type);
  if (type == PF_VARIANT) {
    put_window(w, m);
    return;
  }
  if (!size && type != PF_STRING) {
    w->failed = 2;
    return;
  }
  ds_put_number(w, type);
  ds_put_number(w, t->ndim);
  for (int32_t i = 0; i < t->ndim; i++) ds_put_number(w, t->shape[i]);
  if (size) ds_put_bytes(w, PF_DATA(const char, t), (size_t)(n * size));
  for (int64_t i = 0; !size && i < n; i++) {
    pf_str s = {0};
    if (w->host->str_get(t, i, &s)) w->failed = 1;
    ds_put_text(w, s.data, s.len);
  }
}
void ds_put_row(ds_writer *w, const ds_row *r) {
  ds_put_bytes(w, "r", 1);
  ds_put_number(w, r->n);
  for (int32_t i = 0; i < r->n; i++) put_tensor(w, r->v[i]);
}
void ds_put_stage(ds_writer *w, ds_stage *s) {
  const char *name = s->of->kind->name;
  ds_put_bytes(w, "s", 1);
  ds_put_text(w, name, (int64_t)strlen(name));
  ds_put_number(w, (int64_t)s->path);
  s->kind->save(s, w);
}

/* ---------------------------------------------------------------- reading */
static pf_status get_strings(ds_reader *r, DLTensor *t, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t len;
    PF_TRY(ds_get_number(r, &len));
    if (len < 0 || len > r->end - r->at) return ds_bad(r, "the saved state ends in a string");
    if (r->host->str_set(t, i, (pf_str){r->at, len})) return PF_RESOURCE_EXHAUSTED;
    r->at += len;
  }
  return PF_OK;
}
static pf_status get_tensor(ds_reader *r, const dataset *like, int32_t type, ds_tensor **out);
static pf_status get_typed(ds_reader *r, const dataset *like, const int32_t *types, int64_t n,
                           ds_row *row) {
  int64_t given;
  PF_TRY(ds_get_tag(r, 'r'));
  PF_TRY(ds_get_number(r, &given));
  if (given != n) return ds_bad(r, "an element of %" PRId64 " components, not %" PRId64, given, n);
  if (!ds_row_room(row, (int32_t)n)) return PF_RESOURCE_EXHAUSTED;
  pf_status st = PF_OK;
  for (int32_t i = 0; !st && i < n; i++) st = get_tensor(r, like, types[i], &row->v[i]);
  if (st) ds_row_clear(row);
  return st;
}
static pf_status get_types(ds_reader *r, int64_t n, int32_t *types) {
  for (int64_t i = 0; i < n; i++) {
    int64_t type;
    PF_TRY(ds_get_number(r, &type));
    types[i] = (int32_t)type;
    if (type < 0 || type > 1000 ||
        (!pf_type_size(types[i]) && type != PF_STRING && type != PF_VARIANT))
      return ds_bad(r, "an element type %" PRId64, type);
  }
  return PF_OK;
}
static pf_status get_window(ds_reader *r, const dataset *like, ds_tensor **out) {
  int64_t n_types, n, given = 0;
  int32_t types[MOST_TYPES];
  ds_row *rows = NULL;
  PF_TRY(ds_get_number(r, &n_types));
  if (n_types < 1 || n_types > MOST_TYPES)
    return ds_bad(r, "a window of %" PRId64 " components", n_types);
  PF_TRY(get_types(r, n_types, types));
  PF_TRY(ds_get_number(r, &n));
  if (n < 0 || n > r->end - r->at) return ds_bad(r, "a window larger than the saved state");
  if (++r->depth > DEPTH) return ds_bad(r, "windows lie too deep in windows");
  if (!(rows = calloc((size_t)PF_MAX(n, 1), sizeof *rows))) return PF_RESOURCE_EXHAUSTED;
  pf_status st = PF_OK;
  for (; !st && given < n; given++) st = get_typed(r, like, types, n_types, &rows[given]);
  dataset *made = st ? NULL : ds_rows_new(like, types, (int32_t)n_types, rows, n, -1);
  if (!st && (!made || !(*out = ds_variant(made)))) st = PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < given; i++) ds_row_clear(&rows[i]);
  free(rows);
  r->depth--;
  return st;
}
static pf_status get_tensor(ds_reader *r, const dataset *like, int32_t type, ds_tensor **out) {
  int64_t given, ndim, shape[PF_MAX_DIMS], n, bytes, left = r->end - r->at;
  PF_TRY(ds_get_number(r, &given));
  if (given != type) return ds_bad(r, "an element of another type than the pipeline's");
  if (type == PF_VARIANT) return get_window(r, like, out);
  PF_TRY(ds_get_number(r, &ndim));
  if (ndim < 0 || ndim > PF_MAX_DIMS) return ds_bad(r, "an element of rank %" PRId64, ndim);
  for (int32_t i = 0; i < ndim; i++) {
    PF_TRY(ds_get_number(r, &shape[i]));
    if (shape[i] < 0) return ds_bad(r, "an element of a negative size");
  }
  int64_t size = type == PF_STRING ? 8 : pf_type_size(type);
  if (!size || !pf_shape_numel(shape, (int32_t)ndim, &n) || !pf_mul(n, size, &bytes) ||
      bytes > left)
    return ds_bad(r, "an element larger than the saved state");
  *out = r->host->tensor_new(r->host, NULL, PF_MEM_HOST, type, shape, (int32_t)ndim);
  if (!*out) return PF_RESOURCE_EXHAUSTED;
  DLTensor *t = &(*out)->dl_tensor;
  return type == PF_STRING ? get_strings(r, t, n)
                           : ds_get_bytes(r, PF_DATA(char, t), (size_t)bytes);
}
pf_status ds_get_row(ds_reader *r, const dataset *of, ds_row *row) {
  return get_typed(r, of, of->types, of->n_types, row);
}
pf_status ds_load_failed(ds_reader *r, pf_status st, ds_row *error) {
  if (error->error) ds_bad(r, "%s", error->error);
  ds_row_clear(error);
  return st;
}
pf_status ds_get_stage(ds_reader *r, ds_stage *s) {
  const char *name = s->of->kind->name;
  int64_t len, path;
  PF_TRY(ds_get_tag(r, 's'));
  PF_TRY(ds_get_number(r, &len));
  if (len != (int64_t)strlen(name) || len > r->end - r->at || memcmp(r->at, name, (size_t)len))
    return ds_bad(r, "the saved state is of another pipeline: this one has %s there", name);
  r->at += len;
  PF_TRY(ds_get_number(r, &path));
  if ((uint64_t)path != s->path) return ds_bad(r, "the saved state's %s stands elsewhere", name);
  return s->kind->load(s, r);
}
