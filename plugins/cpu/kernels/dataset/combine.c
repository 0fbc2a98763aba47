/* combine.c - ZipDataset, ConcatenateDataset: several datasets as one.
 *
 * Zip asks its inputs one after the other; the first that ends ends it. Concatenate reads its
 * second input when the first has ended.
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"

typedef struct {
  pf_list output_types;
  int64_t N;
} combine_state;
typedef struct {
  ds_task t;
  ds_stage **in;
  ds_pull_slot slot;
  ds_row got; /* zip: components so far */
  int32_t n_in, asked;
  int64_t at, over;
} combine_stage;

static void combine_close(ds_stage *t) {
  combine_stage *s = (combine_stage *)t;
  for (int32_t i = 0; i < s->n_in; i++) ds_close(s->in[i]);
  ds_row_clear(&s->got);
  free(s->in);
  free(s);
}
static void combine_save(ds_stage *t, ds_writer *w) {
  combine_stage *s = (combine_stage *)t;
  ds_put_int(w, s->at);
  ds_put_int(w, s->over);
  for (int32_t i = 0; i < s->n_in; i++) ds_put_stage(w, s->in[i]);
}
static pf_status combine_load(ds_stage *t, ds_reader *r) {
  combine_stage *s = (combine_stage *)t;
  PF_TRY(ds_get_range(r, 0, s->n_in - 1, &s->at));
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  for (int32_t i = 0; i < s->n_in; i++) PF_TRY(ds_get_stage(r, s->in[i]));
  return PF_OK;
}
static const ds_stage_kind COMBINE_STAGE = {
  .next = ds_task_next, .close = combine_close, .save = combine_save, .load = combine_load};
static pf_status combine_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out,
                              pf_status (*run)(ds_task *)) {
  combine_stage *s = ds_stage_new(sizeof *s, &COMBINE_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = run;
  s->in = calloc((size_t)d->n_in, sizeof *s->in);
  pf_status st = s->in ? PF_OK : ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory to zip");
  for (; !st && s->n_in < d->n_in; s->n_in++) {
    ds_place own = {at.root, ds_mix(at.path, (uint64_t)s->n_in)};
    if ((st = ds_open(d->in[s->n_in], own, error, &s->in[s->n_in]))) break;
  }
  if (st) return combine_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static pf_status answer(combine_stage *s) {
  if (!s->asked) {
    s->asked = 1;
    if (ds_pull(&s->slot, &s->t, s->in[s->at]) == PF_PENDING) return PF_PENDING;
  }
  s->asked = 0;
  return s->slot.st;
}

/* ---------------------------------------------------------------- zip */
static pf_status zip_run(ds_task *t) {
  combine_stage *s = (combine_stage *)t;
  if (s->over) return DS_END;
  if (!s->got.v && !ds_row_room(&s->got, t->s.of->n_types))
    return ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory to zip");
  while (s->at < s->n_in) {
    pf_status st = answer(s);
    if (st == PF_PENDING) return st;
    int32_t first = 0;
    for (int64_t i = 0; i < s->at; i++) first += t->s.of->in[i]->n_types;
    if (st) { /* what the others gave is lost with it, as in TF */
      s->over = st == DS_END;
      s->at = 0;
      ds_row_clear(&s->got);
      *t->out = s->slot.row;
      return st;
    }
    memcpy(s->got.v + first, s->slot.row.v, sizeof *s->got.v * (size_t)s->slot.row.n);
    s->slot.row.n = 0;
    ds_row_clear(&s->slot.row);
    s->at++;
  }
  s->at = 0;
  *t->out = s->got;
  s->got = (ds_row){0};
  return DS_OK;
}
static pf_status zip_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return combine_open(d, at, error, out, zip_run);
}
static int64_t zip_size(const dataset *d) {
  int64_t least = -2;
  for (int32_t i = 0; i < d->n_in; i++) {
    int64_t n = ds_size(d->in[i]);
    if (n == -1) return -1;
    if (n >= 0) least = least < 0 ? n : PF_MIN(least, n);
  }
  return least;
}
static const ds_kind ZIP = {"Zip", zip_open, NULL, zip_size};
static pf_status zip_compute(pf_ctx *c, const void *state) {
  const combine_state *st = state;
  dataset *d = ds_new(c, sizeof *d, &ZIP, NULL, c->n_in, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  int64_t n = 0, same = 1;
  for (int32_t i = 0; i < d->n_in; n += d->in[i++]->n_types)
    same = same && n + d->in[i]->n_types <= d->n_types &&
           ds_types_equal(d->in[i], d->types + n, d->in[i]->n_types);
  return ds_out(
      c, d,
      same && n == d->n_types
          ? PF_OK
          : PF_INVALID(c,
                       "output_types of the node are not those of the %d datasets side by "
                       "side",
                       d->n_in));
}

/* ---------------------------------------------------------------- one behind the other */
static pf_status concatenate_run(ds_task *t) {
  combine_stage *s = (combine_stage *)t;
  for (;;) {
    pf_status st = answer(s);
    if (st == PF_PENDING) return st;
    if (st == DS_END && s->at + 1 < s->n_in) {
      s->at++;
      continue;
    }
    *t->out = s->slot.row;
    return st;
  }
}
static pf_status concatenate_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return combine_open(d, at, error, out, concatenate_run);
}
static int64_t concatenate_size(const dataset *d) {
  int64_t a = ds_size(d->in[0]), b = ds_size(d->in[1]), n;
  if (a == -2 || b == -2) return -2;
  if (a < 0 || b < 0) return -1;
  return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}
static const ds_kind CONCATENATE = {"Concatenate", concatenate_open, NULL, concatenate_size};
static pf_status concatenate_compute(pf_ctx *c, const void *state) {
  dataset *d =
      ds_new(c, sizeof *d, &CONCATENATE, NULL, 2, &((const combine_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_same_types(c, d);
  if (!st && !ds_types_equal(d->in[1], d->types, d->n_types))
    st = PF_INVALID(c, "datasets to concatenate have elements of different types");
  return ds_out(c, d, st);
}
#define COMBINES(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(combine_state), \
         .attrs = PF_ATTRS(PF_ATTR(combine_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types)))
extern const pf_kernel *const combine_kernels[];
const pf_kernel *const combine_kernels[] = {
  COMBINES("ZipDataset", zip_compute), COMBINES("ConcatenateDataset", concatenate_compute), NULL};
