/* sources.c - TensorDataset, TensorSliceDataset, RangeDataset: what elements come from.
 *
 * Slices give indices where the next stage takes them (next_index), and rows else; ds_slice_row
 * copies row i of the source's tensors into an element.
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "dataset/slices.h"

typedef struct { pf_list Toutput_types, output_types; } source_state;
typedef struct {
  dataset d;
  ds_row whole;
} tensor_dataset;
static void tensor_free(dataset *d) { ds_row_clear(&((tensor_dataset *)d)->whole); }

/* ---------------------------------------------------------------- one element */
typedef struct {
  ds_stage s;
  int64_t given;
} tensor_stage;
static pf_status tensor_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  tensor_stage *t = (tensor_stage *)s;
  (void)w;
  if (t->given) return DS_END;
  if (!ds_row_share(s->of->host, &((const tensor_dataset *)s->of)->whole, out))
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  t->given = 1;
  return DS_OK;
}
static void plain_close(ds_stage *s) { free(s); }
static void tensor_save(ds_stage *s, ds_writer *w) { ds_put_int(w, ((tensor_stage *)s)->given); }
static pf_status tensor_load(ds_stage *s, ds_reader *r) {
  return ds_get_range(r, 0, 1, &((tensor_stage *)s)->given);
}
static const ds_stage_kind TENSOR_STAGE = {
  .next = tensor_next, .close = plain_close, .save = tensor_save, .load = tensor_load};
static pf_status tensor_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = ds_stage_new(sizeof(tensor_stage), &TENSOR_STAGE, d, at, error);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static int64_t tensor_size(const dataset *d) {
  (void)d;
  return 1;
}
static const ds_kind TENSOR = {"Tensor", tensor_open, tensor_free, tensor_size};

static pf_status tensor_compute(pf_ctx *c, const void *state) {
  tensor_dataset *d =
      ds_new(c, sizeof *d, &TENSOR, NULL, 0, &((const source_state *)state)->Toutput_types);
  if (!d) return PF_RESOURCE_EXHAUSTED;
  return ds_out(c, d, ds_keep_inputs(c, 0, c->n_in, &d->whole));
}

/* ---------------------------------------------------------------- rows of tensors */
typedef struct {
  ds_stage s;
  int64_t at;
} slice_stage;
static pf_status slice_index(ds_stage *s, int64_t *index) {
  slice_stage *t = (slice_stage *)s;
  if (t->at >= ((const ds_slices *)s->of)->n) return DS_END;
  *index = t->at++;
  return DS_OK;
}
pf_status ds_next_of_index(ds_stage *s, ds_row *out, ds_waiter *w) {
  int64_t index;
  pf_status st = s->kind->next_index(s, &index);
  (void)w;
  return st ? st : ds_slice_row(ds_slices_of(s), index, out);
}
static void slice_save(ds_stage *s, ds_writer *w) { ds_put_int(w, ((slice_stage *)s)->at); }
static pf_status slice_load(ds_stage *s, ds_reader *r) {
  return ds_get_range(r, 0, ((const ds_slices *)s->of)->n, &((slice_stage *)s)->at);
}
static const ds_stage_kind SLICE_STAGE = {.next = ds_next_of_index,
                                          .next_index = slice_index,
                                          .close = plain_close,
                                          .save = slice_save,
                                          .load = slice_load};
static pf_status slice_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = ds_stage_new(sizeof(slice_stage), &SLICE_STAGE, d, at, error);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static void slices_free(dataset *d) { ds_row_clear(&((ds_slices *)d)->whole); }
static int64_t slices_size(const dataset *d) { return ((const ds_slices *)d)->n; }
static const ds_kind SLICES = {"TensorSlice", slice_open, slices_free, slices_size};

const ds_slices *ds_slices_of(const ds_stage *s) {
  const dataset *d = s->of;
  while (d->kind != &SLICES) d = d->in[0];
  return (const ds_slices *)d;
}
pf_status ds_copy_rows(const pf_host *h, int32_t type, const DLTensor *from, int64_t row,
                       DLTensor *to, int64_t at, int64_t n) {
  int64_t size = pf_type_size(type);
  if (size) {
    memcpy(PF_DATA(char, to) + at * size, PF_DATA(const char, from) + row * size,
           (size_t)(n * size));
    return PF_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    pf_str s;
    if (h->str_get(from, row + i, &s) || h->str_set(to, at + i, s)) return PF_RESOURCE_EXHAUSTED;
  }
  return PF_OK;
}
pf_status ds_slice_row(const ds_slices *d, int64_t index, ds_row *out) {
  const pf_host *h = d->d.host;
  if (!ds_row_room(out, d->whole.n)) goto none;
  for (int32_t i = 0; i < d->whole.n; i++) {
    const DLTensor *t = &d->whole.v[i]->dl_tensor;
    int64_t n = pf_product(t->shape, 1, t->ndim);
    out->v[i] = h->tensor_new(h, NULL, PF_MEM_HOST, d->d.types[i], t->shape + 1, t->ndim - 1);
    if (!out->v[i] || ds_copy_rows(h, d->d.types[i], t, index * n, &out->v[i]->dl_tensor, 0, n))
      goto none;
  }
  return DS_OK;
none:
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
}

static pf_status slice_compute(pf_ctx *c, const void *state) {
  ds_slices *d =
      ds_new(c, sizeof *d, &SLICES, NULL, 0, &((const source_state *)state)->Toutput_types);
  if (!d) return PF_RESOURCE_EXHAUSTED;
  pf_status st = ds_keep_inputs(c, 0, c->n_in, &d->whole);
  for (int32_t i = 0; !st && i < c->n_in; i++) {
    const DLTensor *t = c->in[i];
    if (t->ndim < 1) st = PF_INVALID(c, "component %d is a scalar: it has no slices", i);
    else if (i && t->shape[0] != d->n)
      st = PF_INVALID(c, "component %d has %" PRId64 " slices, component 0 has %" PRId64, i,
                      t->shape[0], d->n);
    else d->n = t->shape[0];
  }
  return ds_out(c, d, st);
}

/* ---------------------------------------------------------------- numbers */
typedef struct {
  dataset d;
  int64_t start, stop, step;
} range_dataset;
typedef struct {
  ds_stage s;
  int64_t given;
} range_stage;
static int64_t range_size(const dataset *d) {
  const range_dataset *r = (const range_dataset *)d;
  if (r->step > 0 ? r->start >= r->stop : r->start <= r->stop) return 0;
  uint64_t span =
      r->step > 0 ? (uint64_t)r->stop - (uint64_t)r->start : (uint64_t)r->start - (uint64_t)r->stop;
  uint64_t step = r->step > 0 ? (uint64_t)r->step : 0 - (uint64_t)r->step;
  uint64_t n = (span - 1) / step + 1;
  return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}
static pf_status range_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  range_stage *t = (range_stage *)s;
  const range_dataset *d = (const range_dataset *)s->of;
  (void)w;
  if (t->given >= range_size(s->of)) return DS_END;
  int64_t value = (int64_t)((uint64_t)d->start + (uint64_t)t->given * (uint64_t)d->step);
  if (!ds_row_room(out, 1) || !(out->v[0] = ds_scalar_int64(d->d.host, value)))
    return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
  t->given++;
  return DS_OK;
}
static void range_save(ds_stage *s, ds_writer *w) { ds_put_int(w, ((range_stage *)s)->given); }
static pf_status range_load(ds_stage *s, ds_reader *r) {
  return ds_get_range(r, 0, range_size(s->of), &((range_stage *)s)->given);
}
static const ds_stage_kind RANGE_STAGE = {
  .next = range_next, .close = plain_close, .save = range_save, .load = range_load};
static pf_status range_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = ds_stage_new(sizeof(range_stage), &RANGE_STAGE, d, at, error);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static const ds_kind RANGE = {"Range", range_open, NULL, range_size};
static pf_status range_compute(pf_ctx *c, const void *state) {
  range_dataset *d =
      ds_new(c, sizeof *d, &RANGE, NULL, 0, &((const source_state *)state)->output_types);
  if (!d) return PF_RESOURCE_EXHAUSTED;
  pf_status st = ds_scalar_in(c, 0, "start", &d->start);
  if (!st) st = ds_scalar_in(c, 1, "stop", &d->stop);
  if (!st) st = ds_scalar_in(c, 2, "step", &d->step);
  if (!st && !d->step) st = PF_INVALID(c, "step must be a non-zero integer.");
  return ds_out(c, d, st);
}

#define SOURCE(op_, compute_, attr_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(source_state), \
         .attrs = PF_ATTRS(PF_ATTR(source_state, PF_ATTR_TYPE | PF_ATTR_LIST, attr_)))
extern const pf_kernel *const sources_kernels[];
const pf_kernel *const sources_kernels[] = {
  SOURCE("TensorDataset", tensor_compute, Toutput_types),
  SOURCE("TensorSliceDataset", slice_compute, Toutput_types),
  SOURCE("RangeDataset", range_compute, output_types), NULL};
