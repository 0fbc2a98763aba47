/* batch.c - BatchDataset(V2), PaddedBatchDataset(V2): rows of elements, straight into the batch.
 *
 * Where the input gives indices the rows are gathered from the source at once; else elements are
 * collected until there are enough, and copied then: their shapes must be equal, or are padded
 * (padded.c).  An error of the input takes those that were collected with it, as in TF.
 * Threads: as dataset.h; large gathers are cut over none, they run at memory's speed.
 */
#include "dataset/batch.h"
#include "dataset/slices.h"

typedef struct { pf_list output_types; } batch_state;
/* pad: without shapes in a plain batch */
typedef struct {
  dataset d;
  int64_t size;
  int32_t drop;
  ds_padding pad;
} batch;
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  int64_t n, asked, over;
  ds_row *rows;
  int64_t *indices;
} batch_stage;

static const batch *of(const batch_stage *s) { return (const batch *)s->t.s.of; }

/* ---------------------------------------------------------------- rows of one source */
static void gather(char *to, const char *from, const int64_t *indices, int64_t n, int64_t bytes) {
  enum { AHEAD = 4 };
  for (int64_t i = 0; i < n; i++) {
    if (i + AHEAD < n) __builtin_prefetch(from + indices[i + AHEAD] * bytes);
    memcpy(to + i * bytes, from + indices[i] * bytes, (size_t)bytes);
  }
}
static pf_status gathered(batch_stage *s, int64_t n, ds_row *out) {
  const ds_slices *source = ds_slices_of(s->in);
  const pf_host *h = source->d.host;
  if (!ds_row_room(out, source->whole.n)) goto none;
  for (int32_t k = 0; k < source->whole.n; k++) {
    const DLTensor *t = &source->whole.v[k]->dl_tensor;
    int32_t type = source->d.types[k];
    int64_t row = pf_product(t->shape, 1, t->ndim), size = pf_type_size(type);
    out->v[k] = ds_rows_tensor(h, type, n, t->shape + 1, t->ndim - 1);
    if (!out->v[k]) goto none;
    DLTensor *y = &out->v[k]->dl_tensor;
    if (size) gather(PF_DATA(char, y), PF_DATA(const char, t), s->indices, n, row * size);
    for (int64_t i = 0; !size && i < n; i++)
      if (ds_copy_rows(h, type, t, s->indices[i] * row, y, i * row, row)) goto none;
  }
  return DS_OK;
none:
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a batch of %" PRId64 " elements", n);
}
static pf_status batch_of_indices(ds_stage *t, ds_row *out, ds_waiter *w) {
  batch_stage *s = (batch_stage *)t;
  int64_t n = 0, most = of(s)->size;
  (void)w;
  while (n < most) {
    pf_status st = s->in->kind->next_index(s->in, &s->indices[n]);
    if (st == DS_END) break;
    if (st) return st;
    n++;
  }
  return !n || (n < most && of(s)->drop) ? DS_END : gathered(s, n, out);
}

/* ---------------------------------------------------------------- any elements */
static pf_status stacked(batch_stage *s, ds_row *out) {
  const pf_host *h = s->t.s.of->host;
  int32_t n_parts = s->rows[0].n;
  if (!ds_row_room(out, n_parts)) goto none;
  for (int32_t k = 0; k < n_parts; k++) {
    const DLTensor *first = &s->rows[0].v[k]->dl_tensor;
    int64_t row = pf_numel(first);
    out->v[k] = ds_rows_tensor(h, s->t.s.of->types[k], s->n, first->shape, first->ndim);
    if (!out->v[k]) goto none;
    for (int64_t i = 0; i < s->n; i++) {
      const DLTensor *t = &s->rows[i].v[k]->dl_tensor;
      if (!pf_same_shape(first, t))
        return ds_fail(out, PF_INVALID_ARGUMENT,
                       "Cannot batch tensors with different shapes in "
                       "component %d. First element had shape %s and element %" PRId64
                       " had shape %s.",
                       k, PF_SHAPE(first).s, i, PF_SHAPE(t).s);
      if (ds_copy_rows(h, s->t.s.of->types[k], t, 0, &out->v[k]->dl_tensor, i * row, row))
        goto none;
    }
  }
  return DS_OK;
none:
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for a batch of %" PRId64 " elements", s->n);
}
static void forget(batch_stage *s) {
  for (int64_t i = 0; i < s->n; i++) ds_row_clear(&s->rows[i]);
  s->n = 0;
}
static pf_status batch_run(ds_task *t) {
  batch_stage *s = (batch_stage *)t;
  while (!s->over && s->n < of(s)->size) {
    if (!s->asked) {
      s->asked = 1;
      if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
    }
    s->asked = 0;
    if (s->slot.st == DS_END) {
      s->over = 1;
    } else if (s->slot.st) {
      if (!ds_stopped(s->slot.st, &s->slot.row)) forget(s); /* they fail with it */
      *t->out = s->slot.row;
      return s->slot.st;
    } else {
      s->rows[s->n++] = s->slot.row;
    }
  }
  if (!s->n || (s->n < of(s)->size && of(s)->drop)) return forget(s), DS_END;
  pf_status st = of(s)->pad.shapes.v ? ds_stack_padded(t->s.of, &of(s)->pad, s->rows, s->n, t->out)
                                     : stacked(s, t->out);
  forget(s);
  return st;
}
static const ds_stage_kind BATCH_STAGE, BATCH_OF_INDICES;

static void batch_close(ds_stage *t) {
  batch_stage *s = (batch_stage *)t;
  if (s->rows) forget(s);
  free(s->rows);
  free(s->indices);
  ds_close(s->in);
  free(s);
}
static void batch_save(ds_stage *t, ds_writer *w) { /* elements are here if it was stopped */
  batch_stage *s = (batch_stage *)t;
  ds_put_int(w, s->over);
  ds_put_int(w, s->n);
  for (int64_t i = 0; i < s->n; i++) ds_put_row(w, &s->rows[i]);
  ds_put_stage(w, s->in);
}
static pf_status batch_load(ds_stage *t, ds_reader *r) {
  batch_stage *s = (batch_stage *)t;
  int64_t n;
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  PF_TRY(ds_get_range(r, 0, s->rows ? of(s)->size : 0, &n));
  for (; s->n < n; s->n++) PF_TRY(ds_get_row(r, t->of->in[0], &s->rows[s->n]));
  return ds_get_stage(r, s->in);
}
static const ds_stage_kind BATCH_STAGE = {
  .next = ds_task_next, .close = batch_close, .save = batch_save, .load = batch_load};
static const ds_stage_kind BATCH_OF_INDICES = {
  .next = batch_of_indices, .close = batch_close, .save = batch_save, .load = batch_load};
static pf_status batch_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  batch_stage *s = ds_stage_new(sizeof *s, &BATCH_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = batch_run;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (!st) {
    size_t n = (size_t)of(s)->size;
    if (s->in->kind->next_index && !of(s)->pad.shapes.v)
      s->t.s.kind = &BATCH_OF_INDICES, s->indices = malloc(n * sizeof *s->indices);
    else s->rows = calloc(n, sizeof *s->rows);
    if (!s->indices && !s->rows)
      st = ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for a batch of %zu elements", n);
  }
  if (st) return batch_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static int64_t batch_size(const dataset *d) {
  const batch *b = (const batch *)d;
  int64_t n = ds_size(d->in[0]);
  return n < 0 ? n : n / b->size + (!b->drop && n % b->size != 0);
}
static const ds_kind BATCH = {"Batch", batch_open, NULL, batch_size};
static void padded_free(dataset *d) {
  ds_row_clear(&((batch *)d)->pad.shapes);
  ds_row_clear(&((batch *)d)->pad.values);
}
static const ds_kind PADDED = {"PaddedBatch", batch_open, padded_free, batch_size};

pf_status ds_can_batch(pf_ctx *c, int64_t size, const dataset *d) {
  if (size < 1 || size > INT32_MAX)
    return PF_INVALID(c, "Batch size must be greater than zero, and at most 2^31 - 1.");
  for (int32_t i = 0; i < d->n_types; i++)
    if (!pf_type_size(d->types[i]) && d->types[i] != PF_STRING)
      return PF_INVALID(c, "component %d is %s, of which there are no batches", i,
                        pf_type_name(d->types[i]));
  return PF_OK;
}
dataset *ds_batched(dataset *in, int64_t size, int32_t drop) {
  batch *d = ds_over(sizeof *d, &BATCH, in);
  if (!d) return NULL;
  d->size = size;
  d->drop = drop;
  return &d->d;
}
static pf_status sizes_in(pf_ctx *c, batch *d, int32_t drop) {
  PF_TRY(ds_same_types(c, &d->d));
  PF_TRY(ds_scalar_in(c, 1, "batch_size", &d->size));
  if (drop) PF_TRY(ds_bool_in(c, drop, "drop_remainder", &d->drop));
  return ds_can_batch(c, d->size, &d->d);
}
static pf_status batch_compute(pf_ctx *c, const void *state) {
  batch *d = ds_new(c, sizeof *d, &BATCH, NULL, 1, &((const batch_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  return ds_out(c, d, sizes_in(c, d, c->n_in > 2 ? 2 : 0));
}
/* drop: where drop_remainder comes in; 0: nowhere */
static pf_status padded(pf_ctx *c, const void *state, int32_t drop) {
  batch *d = ds_new(c, sizeof *d, &PADDED, NULL, 1, &((const batch_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = sizes_in(c, d, drop);
  return ds_out(c, d, st ? st : ds_padding_in(c, &d->d, 2, &d->pad));
}
static pf_status padded_compute(pf_ctx *c, const void *s) { return padded(c, s, 0); }
static pf_status padded_v2_compute(pf_ctx *c, const void *s) { return padded(c, s, c->n_in - 1); }
#define BATCHES(op_, compute_, types_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(batch_state), \
         .attrs = PF_ATTRS(PF_REF(pf_attr, types_, PF_ATTR_TYPE | PF_ATTR_LIST, \
                                  (int32_t)offsetof(batch_state, output_types))))
extern const pf_kernel *const batch_kernels[];
const pf_kernel *const batch_kernels[] = {
  BATCHES("BatchDataset", batch_compute, "output_types"),
  BATCHES("BatchDatasetV2", batch_compute, "output_types"),
  BATCHES("PaddedBatchDataset", padded_compute, "Toutput_types"),
  BATCHES("PaddedBatchDatasetV2", padded_v2_compute, "Toutput_types"), NULL};
