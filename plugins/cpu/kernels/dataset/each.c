/* each.c - IgnoreErrorsDataset, UnbatchDataset, DirectedInterleaveDataset: small loops over inputs.
 *
 * Source: TF's kernels of these names.  Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "dataset/slices.h"

typedef struct {
  pf_list output_types;
  int32_t stop_on_empty_dataset;
} each_state;
typedef struct {
  dataset d;
  int32_t stop;
} directed; /* stop: at the first input that ends */
typedef struct {
  ds_task t;
  ds_stage **in;
  ds_pull_slot slot;
  ds_row whole;              /* unbatch: whose rows are given */
  int64_t asked, at, chosen; /* at: unbatch's row; directed: 1: an input is asked */
  int32_t n_in;
  char *over; /* per input */
} each_stage;

static void each_close(ds_stage *t) {
  each_stage *s = (each_stage *)t;
  for (int32_t i = 0; i < s->n_in; i++) ds_close(s->in[i]);
  ds_row_clear(&s->whole);
  free(s->over);
  free(s->in);
  free(s);
}
static void each_save(ds_stage *t, ds_writer *w) {
  each_stage *s = (each_stage *)t;
  ds_put_int(w, s->at);
  ds_put_int(w, s->chosen);
  ds_put_int(w, s->whole.n);
  if (s->whole.n) ds_put_row(w, &s->whole);
  for (int32_t i = 0; i < s->n_in; i++) {
    ds_put_int(w, s->over[i]);
    ds_put_stage(w, s->in[i]);
  }
}
static pf_status each_load(ds_stage *t, ds_reader *r) {
  each_stage *s = (each_stage *)t;
  int64_t held, over;
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->at));
  PF_TRY(ds_get_range(r, 0, s->n_in - 1, &s->chosen));
  PF_TRY(ds_get_range(r, 0, t->of->in[0]->n_types, &held));
  if (held) PF_TRY(ds_get_row(r, t->of->in[0], &s->whole));
  for (int32_t i = 0; i < s->n_in; i++) {
    PF_TRY(ds_get_range(r, 0, 1, &over));
    s->over[i] = (char)over;
    PF_TRY(ds_get_stage(r, s->in[i]));
  }
  return PF_OK;
}
static const ds_stage_kind EACH_STAGE = {
  .next = ds_task_next, .close = each_close, .save = each_save, .load = each_load};
static pf_status each_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out,
                           pf_status (*run)(ds_task *)) {
  each_stage *s = ds_stage_new(sizeof *s, &EACH_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = run;
  s->in = calloc((size_t)d->n_in, sizeof *s->in);
  s->over = calloc((size_t)d->n_in, 1);
  pf_status st =
      s->in && s->over ? PF_OK : ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for a stage");
  for (; !st && s->n_in < d->n_in; s->n_in++) {
    ds_place own = {at.root, s->n_in ? ds_mix(at.path, (uint64_t)s->n_in) : at.path};
    if ((st = ds_open(d->in[s->n_in], own, error, &s->in[s->n_in]))) break;
  }
  if (st) return each_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static pf_status answer(each_stage *s, int64_t i) {
  if (!s->asked) {
    if (ds_interrupted(s->t.s.root)) {
      s->slot.row = (ds_row){0};
      return s->slot.st = PF_CANCELLED;
    }
    s->asked = 1;
    if (ds_pull(&s->slot, &s->t, s->in[i]) == PF_PENDING) return PF_PENDING;
  }
  s->asked = 0;
  return s->slot.st;
}

/* ---------------------------------------------------------------- ignore errors */
static pf_status ignore_run(ds_task *t) {
  each_stage *s = (each_stage *)t;
  for (;;) {
    pf_status st = answer(s, 0);
    if (st == PF_PENDING) return st;
    if (st == DS_OK || st == DS_END || ds_stopped(st, &s->slot.row))
      return *t->out = s->slot.row, st;
    ds_row_clear(&s->slot.row);
  }
}
static pf_status ignore_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return each_open(d, at, error, out, ignore_run);
}
static const ds_kind IGNORE = {"IgnoreErrors", ignore_open, NULL, NULL};
static pf_status ignore_compute(pf_ctx *c, const void *state) {
  dataset *d = ds_new(c, sizeof *d, &IGNORE, NULL, 1, &((const each_state *)state)->output_types);
  return d ? ds_out(c, d, ds_same_types(c, d)) : PF_INVALID_ARGUMENT;
}

/* ---------------------------------------------------------------- unbatch */
static int64_t height(const ds_row *whole) {
  const DLTensor *t = &whole->v[0]->dl_tensor;
  return t->ndim ? t->shape[0] : -1;
}
static pf_status row_of(each_stage *s, ds_row *out) {
  const dataset *d = s->t.s.of;
  if (!ds_row_room(out, s->whole.n)) goto none;
  for (int32_t k = 0; k < s->whole.n; k++) {
    const DLTensor *t = &s->whole.v[k]->dl_tensor;
    int64_t n = pf_product(t->shape, 1, t->ndim);
    out->v[k] =
        d->host->tensor_new(d->host, NULL, PF_MEM_HOST, d->types[k], t->shape + 1, t->ndim - 1);
    if (!out->v[k] || ds_copy_rows(d->host, d->types[k], t, s->at * n, &out->v[k]->dl_tensor, 0, n))
      goto none;
  }
  s->at++;
  return DS_OK;
none:
  return ds_fail(out, PF_RESOURCE_EXHAUSTED, "no memory for an element");
}
static pf_status unbatch_run(ds_task *t) {
  each_stage *s = (each_stage *)t;
  for (;;) {
    if (s->whole.n && s->at < height(&s->whole)) return row_of(s, t->out);
    ds_row_clear(&s->whole);
    pf_status st = answer(s, 0);
    if (st) return st == PF_PENDING ? st : (*t->out = s->slot.row, st);
    s->whole = s->slot.row;
    s->at = 0;
    for (int32_t k = 0; k < s->whole.n; k++) {
      const DLTensor *x = &s->whole.v[k]->dl_tensor;
      if (x->ndim && x->shape[0] == height(&s->whole)) continue;
      ds_fail(
          t->out, PF_INVALID_ARGUMENT,
          x->ndim
              ? "Input shape mismatch: components of different sizes in dimension 0 (component %d)"
              : "Cannot unstack a scalar: component %d of the batch has no dimension 0",
          k);
      return ds_row_clear(&s->whole), PF_INVALID_ARGUMENT;
    }
  }
}
static pf_status unbatch_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return each_open(d, at, error, out, unbatch_run);
}
static const ds_kind UNBATCH = {"Unbatch", unbatch_open, NULL, NULL};
static pf_status unbatch_compute(pf_ctx *c, const void *state) {
  dataset *d = ds_new(c, sizeof *d, &UNBATCH, NULL, 1, &((const each_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_same_types(c, d);
  for (int32_t k = 0; !st && k < d->n_types; k++)
    if (!pf_type_size(d->types[k]) && d->types[k] != PF_STRING)
      st = PF_INVALID(c, "component %d is %s, which has no rows", k, pf_type_name(d->types[k]));
  return ds_out(c, d, st);
}

/* ---------------------------------------------------------------- inputs that another chooses */
static pf_status directed_run(ds_task *t) {
  each_stage *s = (each_stage *)t;
  for (;;) {
    pf_status st = answer(s, s->at ? s->chosen + 1 : 0);
    if (st == PF_PENDING) return st;
    if (s->at) {
      s->at = 0;
      if (st != DS_END) return *t->out = s->slot.row, st;
      s->over[s->chosen + 1] = 1;
      if (((const directed *)t->s.of)->stop || !memchr(s->over + 1, 0, (size_t)s->n_in - 1))
        return DS_END;
      continue;
    }
    if (st) return *t->out = s->slot.row, st;
    const DLTensor *word = &s->slot.row.v[0]->dl_tensor;
    int64_t which = pf_numel(word) == 1 ? PF_DATA(const int64_t, word)[0] : -1;
    ds_row_clear(&s->slot.row);
    if (which < 0 || which >= s->n_in - 1)
      return ds_fail(t->out, PF_INVALID_ARGUMENT, "Selector index out of range: %" PRId64 " >= %d",
                     which, s->n_in - 1);
    s->chosen = which;
    if (s->over[which + 1] && ((const directed *)t->s.of)->stop) return DS_END;
    s->at = !s->over[which + 1];
  }
}
static pf_status directed_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return each_open(d, at, error, out, directed_run);
}
static const ds_kind DIRECTED = {"DirectedInterleave", directed_open, NULL, NULL};
static pf_status directed_compute(pf_ctx *c, const void *state) {
  const each_state *k = state;
  directed *whole = ds_new(c, sizeof *whole, &DIRECTED, NULL, c->n_in, &k->output_types);
  static const int32_t index = PF_INT64;
  if (!whole) return PF_INVALID_ARGUMENT;
  whole->stop = k->stop_on_empty_dataset;
  dataset *d = &whole->d;
  pf_status st = ds_types_equal(d->in[0], &index, 1)
                     ? PF_OK
                     : PF_INVALID(c, "the selecting dataset must give scalars of int64");
  for (int32_t i = 1; !st && i < d->n_in; i++)
    if (!ds_types_equal(d->in[i], d->types, d->n_types))
      st = PF_INVALID(c, "dataset %d has other element types than output_types", i - 1);
  return ds_out(c, d, st);
}
#define EACH(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(each_state), \
         .attrs = PF_ATTRS(PF_ATTR(each_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types)))
#define DIRECTED(op_, ...) \
  PF_CPU(op_, NULL, .compute = directed_compute, .state_size = sizeof(each_state), \
         .attrs = PF_ATTRS(PF_ATTR(each_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           ##__VA_ARGS__))
extern const pf_kernel *const each_kernels[];
const pf_kernel *const each_kernels[] = {
  EACH("IgnoreErrorsDataset", ignore_compute),
  EACH("UnbatchDataset", unbatch_compute),
  EACH("ExperimentalIgnoreErrorsDataset", ignore_compute),
  EACH("ExperimentalUnbatchDataset", unbatch_compute),
  DIRECTED("DirectedInterleaveDataset", PF_ATTR(each_state, PF_ATTR_BOOL, stop_on_empty_dataset)),
  DIRECTED("ExperimentalDirectedInterleaveDataset"),
  NULL};
