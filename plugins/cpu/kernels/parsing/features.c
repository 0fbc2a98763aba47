/* features.c - features.h: keys to tensors. */
#include "parsing/features.h"

/* ---------------------------------------------------------------- what is parsed */
pf_status ex_batch_make(ex_batch *b, pf_ctx *c, int32_t names_in, int32_t scalar, int32_t vector) {
  const DLTensor *s = c->in[0], *names = names_in < 0 ? NULL : c->in[names_in];
  *b =
      (ex_batch){.c = c, .serialized = s, .n = pf_numel(s), .single = s->ndim == 0, .no_splits = 1};
  if (s->ndim > 1 || (s->ndim ? !vector : !scalar))
    return PF_INVALID(c, "Expected serialized to be a %s, got shape: %s",
                      scalar && vector ? "scalar or vector"
                      : scalar         ? "scalar"
                                       : "vector",
                      PF_SHAPE(s).s);
  if (names && pf_numel(names)) {
    if (!pf_same_shape(names, s) && !(b->single && pf_numel(names) == 1))
      return PF_INVALID(c,
                        "Expected names have the same shape as serialized: name.shape=%s, "
                        "serialized.shape=%s",
                        PF_SHAPE(names).s, PF_SHAPE(s).s);
    b->names = names;
  }
  b->wrong = calloc((size_t)PF_MAX(b->n, 1), sizeof *b->wrong);
  return b->wrong ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to parse examples");
}
void ex_batch_free(ex_batch *b) { free(b->wrong); }
pf_str ex_name(const ex_batch *b, int64_t example) {
  pf_str name = {"<unknown>", 9};
  if (b->names) b->c->host->str_get(b->names, example, &name);
  return name;
}
pf_status ex_each(const ex_batch *b, int64_t grain, pf_range fn, void *arg) {
  return pf_parallel(b->c, b->n, grain, fn, arg);
}
const ex_wrong *ex_first_wrong(const ex_batch *b, int64_t *example) {
  for (int64_t i = 0; i < b->n; i++)
    if (b->wrong[i].why) return *example = i, &b->wrong[i];
  return NULL;
}
int ex_add(int64_t *sum, int64_t more) { return !__builtin_add_overflow(*sum, more, sum); }
void ex_put_split(DLTensor *t, int32_t type, int64_t i, int64_t v) {
  if (type == PF_INT32) PF_DATA(int32_t, t)[i] = (int32_t)v;
  else PF_DATA(int64_t, t)[i] = v;
}
DLTensor *ex_sparse_shape(pf_ctx *c, int32_t out, const int64_t *dims, int32_t rank) {
  int64_t n = rank;
  DLTensor *y = c->host->output(c, out, &n, 1);
  if (y) memcpy(PF_DATA(int64_t, y), dims, (size_t)rank * 8);
  return y;
}

/* ---------------------------------------------------------------- what is asked for */
static int32_t n_out(const pf_ctx *c, int32_t arg) {
  return arg < 0 ? 0 : c->out_start[arg + 1] - c->out_start[arg];
}
static pf_status key_at(pf_ctx *c, const ex_keys *from, int32_t n, int32_t k, const char *what,
                        pf_str *key) {
  if (from->attr) {
    if (from->attr->n != n)
      return PF_INVALID(c, "%s has %" PRId64 " keys, its outputs are %d", what, from->attr->n, n);
    *key = ((const pf_str *)from->attr->items)[k];
    return PF_OK;
  }
  int32_t first = c->in_start[from->in], count = c->in_start[from->in + 1] - first;
  const DLTensor *t = from->vector ? c->in[first] : k < count ? c->in[first + k] : NULL;
  if (!t || pf_numel(t) != (from->vector ? n : 1))
    return PF_INVALID(c, "Expected len(%s) == %d but got: %" PRId64, what, n,
                      from->vector ? pf_numel(t) : (int64_t)count);
  return c->host->str_get(t, from->vector ? k : 0, key);
}
/* The shape's sizes: all known, but for the first of a dense feature of any number of blocks */
static pf_status set_shape(pf_ctx *c, ex_wanted *w, pf_shape shape, int32_t k) {
  w->shape = shape;
  w->stride = 1;
  if (shape.ndim < 0 || shape.ndim >= PF_MAX_DIMS)
    return PF_INVALID(c, "dense_shapes[%d] must have a known rank below %d", k, PF_MAX_DIMS);
  w->variable = shape.ndim > 0 && shape.dims[0] < 0;
  for (int32_t d = w->variable; d < shape.ndim; d++)
    if (shape.dims[d] < 0 || !pf_mul(w->stride, shape.dims[d], &w->stride))
      return PF_INVALID(c, "dense_shapes[%d] must be defined but for its first size", k);
  return PF_OK;
}
static pf_text shape_text(const pf_shape *s) {
  pf_text t = pf_shape_text(s->dims, s->ndim);
  char *minus = strstr(t.s, "-1");
  if (minus == t.s + 1) memmove(minus, minus + 1, strlen(minus)), *minus = '?';
  return t;
}
static pf_status set_default(pf_ctx *c, ex_wanted *w, int32_t in, int32_t k) {
  const DLTensor *t = c->in[in];
  pf_shape *s = &w->shape;
  if (c->in_type[in] != w->type)
    return PF_INVALID(c, "dense_defaults[%d].dtype() == %s != dense_types_[%d] == %s", k,
                      pf_type_name(c->in_type[in]), k, pf_type_name(w->type));
  w->standard = pf_numel(t) || (!w->stride && t->ndim == s->ndim) ? t : NULL;
  if (w->variable && pf_numel(t) != 1)
    return PF_INVALID(c,
                      "dense_shape[%d] is a variable length shape: %s, therefore def_value[%d] "
                      "must contain a single element (the padding element).  But its shape is: %s",
                      k, shape_text(s).s, k, PF_SHAPE(t).s);
  if (!w->variable && w->standard && !pf_same_dims(t->shape, t->ndim, s->dims, s->ndim))
    return PF_INVALID(c,
                      "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == "
                      "%s",
                      k, PF_SHAPE(t).s, k, shape_text(s).s);
  return PF_OK;
}
static pf_status add_role(ex_features *f, pf_ctx *c, const ex_asked *asked, int32_t role) {
  static const char *const what[] = {"sparse_keys", "dense_keys", "ragged_keys"};
  int32_t first = role == EX_SPARSE  ? asked->out_sparse
                  : role == EX_DENSE ? asked->out_dense
                                     : asked->out_ragged,
          values = first + (role == EX_SPARSE), n = n_out(c, first);
  const ex_keys *keys = role == EX_SPARSE  ? &asked->sparse
                        : role == EX_DENSE ? &asked->dense
                                           : &asked->ragged;
  if (role == EX_DENSE && n && asked->shapes->n != n)
    return PF_INVALID(c, "Expected len(dense_keys) == len(dense_shapes) but got: %d vs. %" PRId64,
                      n, asked->shapes->n);
  for (int32_t k = 0; k < n; k++) {
    ex_wanted *w = &f->want[f->n];
    PF_TRY(key_at(c, keys, n, k, what[role], &f->keys[f->n++]));
    *w = (ex_wanted){.role = role, .out = c->out_start[values] + k};
    w->type = c->out_type[w->out];
    if (role == EX_SPARSE)
      w->second = c->out_start[first] + k, w->third = c->out_start[first + 2] + k;
    if (role == EX_RAGGED) w->second = c->out_start[first + 1] + k;
    if (role != EX_DENSE) continue;
    PF_TRY(set_shape(c, w, ((const pf_shape *)asked->shapes->items)[k], k));
    if (asked->defaults < 0) continue;
    int32_t in = c->in_start[asked->defaults], count = c->in_start[asked->defaults + 1] - in;
    if (count != n)
      return PF_INVALID(c, "Expected len(dense_defaults) == len(dense_keys) but got: %d vs. %d",
                        count, n);
    PF_TRY(set_default(c, w, in + k, k));
  }
  return PF_OK;
}
pf_status ex_features_make(ex_features *f, const ex_batch *b, const ex_asked *asked) {
  pf_ctx *c = b->c;
  int64_t n = (int64_t)n_out(c, asked->out_sparse) + n_out(c, asked->out_dense) +
              n_out(c, asked->out_ragged),
          all;
  *f = (ex_features){0};
  f->keys = calloc((size_t)n + 1, sizeof *f->keys);
  f->want = calloc((size_t)n + 1, sizeof *f->want);
  if (!f->keys || !f->want) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for keys");
  for (int32_t role = EX_SPARSE; role <= EX_RAGGED; role++) PF_TRY(add_role(f, c, asked, role));
  int made = ex_table_make(&f->table, f->keys, f->n);
  if (made < 0)
    return PF_INVALID(c, "the feature '%.*s' is asked for twice",
                      (int)PF_MIN(f->keys[-1 - made].len, 200), f->keys[-1 - made].data);
  if (made && pf_mul(b->n, n, &all) && all < INT64_MAX / 64)
    f->found = calloc((size_t)all + 1, sizeof *f->found);
  return f->found ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to parse examples");
}
void ex_features_free(ex_features *f) {
  ex_table_free(&f->table);
  free(f->keys);
  free(f->want);
  free(f->found);
}
ex_feature *ex_found(const ex_features *f, int64_t example) { return f->found + example * f->n; }

/* ---------------------------------------------------------------- one example */
static int32_t wrong_in(const ex_wanted *w, ex_feature *f) {
  if (f->there && !ex_feature_open(f)) return EX_NO_FEATURE;
  if (f->kind && ex_type(f->kind) != w->type) return EX_TYPE;
  if (w->role != EX_DENSE) return EX_FINE;
  if (!f->kind) {
    f->there = 0;
    return w->variable || w->standard ? EX_FINE : EX_MISSING;
  }
  if (!w->variable) return f->count == w->stride ? EX_FINE : EX_COUNT;
  return w->stride ? (f->count % w->stride ? EX_STRIDE : EX_FINE) : f->count ? EX_STRIDE : EX_FINE;
}
void ex_check(const ex_features *f, int64_t example, ex_wrong *wrong) {
  ex_feature *found = ex_found(f, example);
  for (int32_t k = 0; k < f->n; k++) {
    int32_t why = wrong_in(&f->want[k], &found[k]);
    if (why && !wrong->why)
      *wrong = (ex_wrong){.why = why, .key = k, .kind = found[k].kind, .saw = found[k].count};
  }
}

/* ---------------------------------------------------------------- outputs */
static pf_status dense_output(pf_ctx *c, const ex_batch *b, ex_wanted *w) {
  int64_t dims[PF_MAX_DIMS + 1];
  int32_t rank = 0;
  if (!b->single) dims[rank++] = b->n;
  for (int32_t d = 0; d < w->shape.ndim; d++)
    dims[rank++] = d || !w->variable ? w->shape.dims[d] : w->stride ? w->most / w->stride : 0;
  DLTensor *y = pf_output_checked(c, w->out, dims, rank);
  PF_EXHAUSTED(y);
  return PF_OK;
}
static pf_status sparse_outputs(pf_ctx *c, const ex_batch *b, const ex_wanted *w) {
  int64_t at[2] = {w->total, b->single ? 1 : 2}, dims[2] = {b->n, w->most};
  PF_EXHAUSTED(pf_output_checked(c, w->second, at, 2));
  PF_EXHAUSTED(pf_output_checked(c, w->out, &w->total, 1));
  PF_EXHAUSTED(ex_sparse_shape(c, w->third, dims + b->single, 2 - b->single));
  return PF_OK;
}
static pf_status ragged_outputs(const ex_features *f, pf_ctx *c, const ex_batch *b, int32_t k) {
  const ex_wanted *w = &f->want[k];
  int64_t rows = b->single ? 0 : b->n + 1; /* a single example's values are one row */
  int32_t type = c->out_type[w->second];
  PF_EXHAUSTED(pf_output_checked(c, w->out, &w->total, 1));
  DLTensor *splits = c->host->output(c, w->second, &rows, b->single ? b->no_splits : 1);
  PF_EXHAUSTED(splits);
  if (b->single && !b->no_splits) ex_put_split(splits, type, 0, 0);
  if (type == PF_INT32 && w->total > INT32_MAX)
    return PF_INVALID(c, "%" PRId64 " values need row splits of int64", w->total);
  for (int64_t i = 0; i < b->n && rows; i++) ex_put_split(splits, type, i, ex_found(f, i)[k].at);
  if (rows) ex_put_split(splits, type, b->n, w->total);
  return PF_OK;
}
pf_status ex_outputs(ex_features *f, const ex_batch *b) {
  pf_ctx *c = b->c;
  for (int32_t k = 0; k < f->n; k++) {
    ex_wanted *w = &f->want[k];
    for (int64_t i = 0; i < b->n; i++) {
      ex_feature *found = &ex_found(f, i)[k];
      found->at = w->total;
      w->most = PF_MAX(w->most, found->count);
      if (!ex_add(&w->total, found->count))
        return pf_fail(c, PF_RESOURCE_EXHAUSTED, "too many values");
    }
    PF_TRY(w->role == EX_DENSE    ? dense_output(c, b, w)
           : w->role == EX_SPARSE ? sparse_outputs(c, b, w)
                                  : ragged_outputs(f, c, b, k));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- values */
static pf_status fill_dense(pf_ctx *c, const ex_batch *b, const ex_wanted *w, const ex_feature *f,
                            int64_t example) {
  int64_t size = pf_type_size(w->type), room = w->variable ? w->most : w->stride,
          at = b->single ? 0 : example * room;
  DLTensor *y = c->out[w->out];
  if (f->there) PF_TRY(ex_values(c->host, f, y, at));
  else if (!w->variable) return pf_copy_run(c, y, at, w->standard, 0, room, size);
  for (int64_t i = f->there ? f->count : 0; i < room; i++)
    PF_TRY(pf_copy_run(c, y, at + i, w->standard, 0, 1, size));
  return PF_OK;
}
static void fill_indices(const ex_batch *b, const ex_feature *f, DLTensor *t, int64_t example) {
  int64_t *at = PF_DATA(int64_t, t) + f->at * (b->single ? 1 : 2);
  for (int64_t i = 0; i < f->count; i++) {
    if (!b->single) *at++ = example;
    *at++ = i;
  }
}
pf_status ex_fill(const ex_features *f, const ex_batch *b, int64_t example) {
  pf_ctx *c = b->c;
  const ex_feature *found = ex_found(f, example);
  for (int32_t k = 0; k < f->n; k++) {
    const ex_wanted *w = &f->want[k];
    if (w->role == EX_DENSE) {
      PF_TRY(fill_dense(c, b, w, &found[k], example));
      continue;
    }
    PF_TRY(ex_values(c->host, &found[k], c->out[w->out], found[k].at));
    if (w->role == EX_SPARSE) fill_indices(b, &found[k], c->out[w->second], example);
  }
  return PF_OK;
}
