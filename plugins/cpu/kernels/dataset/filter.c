/* filter.c - FilterDataset, TakeWhileDataset: the elements for which a function is true, all or
 * those before the first for which it is not.
 *
 *     ASK -> JUDGE [an element came] -> ASK [false] | given [true]
 *
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"

typedef struct {
  pf_list output_types;
  pf_str predicate;
} filter_state;
typedef struct {
  dataset d;
  ds_function f;
  int ends;
} filter;
enum { ASK, ASKED, JUDGED };
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot, verdict;
  int at;
  int64_t seen, over; /* elements: each has random numbers of its own */
} filter_stage;

static const filter *of(const filter_stage *s) { return (const filter *)s->t.s.of; }

/* The predicate's word on the element in the slot. */
static pf_status judge(filter_stage *s) {
  ds_row args;
  if (!ds_row_share(s->t.s.of->host, &s->slot.row, &args))
    return s->verdict.st = ds_fail(&s->verdict.row, PF_RESOURCE_EXHAUSTED, "no memory for a call");
  return ds_call(&s->verdict, &s->t, &of(s)->f, &args, ds_mix(s->t.s.path, (uint64_t)s->seen++));
}
static pf_status filter_run(ds_task *t) {
  filter_stage *s = (filter_stage *)t;
  if (s->over) return DS_END;
  for (;;) {
    if (s->at == ASK) {
      if (ds_interrupted(t->s.root)) return PF_CANCELLED;
      s->at = ASKED;
      if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
    }
    if (s->at == ASKED) {
      if (s->slot.st) return s->at = ASK, *t->out = s->slot.row, s->slot.st;
      s->at = JUDGED;
      if (judge(s) == PF_PENDING) return PF_PENDING;
    }
    s->at = ASK;
    if (s->verdict.st) {
      ds_row_clear(&s->slot.row);
      *t->out = s->verdict.row;
      return ds_not_the_end(t->out, s->verdict.st, PF_INTERNAL);
    }
    const DLTensor *word = &s->verdict.row.v[0]->dl_tensor;
    int yes = pf_numel(word) == 1 && PF_DATA(const uint8_t, word)[0], scalar = pf_numel(word) == 1;
    ds_row_clear(&s->verdict.row);
    if (yes) return *t->out = s->slot.row, DS_OK;
    ds_row_clear(&s->slot.row);
    if (!scalar)
      return ds_fail(t->out, PF_INVALID_ARGUMENT, "the predicate of a filter must give a scalar");
    if (of(s)->ends) return s->over = 1, DS_END;
  }
}
static void filter_close(ds_stage *t) {
  ds_close(((filter_stage *)t)->in);
  free(t);
}
static void filter_save(ds_stage *t, ds_writer *w) {
  ds_put_int(w, ((filter_stage *)t)->seen);
  ds_put_int(w, ((filter_stage *)t)->over);
  ds_put_stage(w, ((filter_stage *)t)->in);
}
static pf_status filter_load(ds_stage *t, ds_reader *r) {
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &((filter_stage *)t)->seen));
  PF_TRY(ds_get_range(r, 0, 1, &((filter_stage *)t)->over));
  return ds_get_stage(r, ((filter_stage *)t)->in);
}
static const ds_stage_kind FILTER_STAGE = {
  .next = ds_task_next, .close = filter_close, .save = filter_save, .load = filter_load};
static pf_status filter_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  filter_stage *s = ds_stage_new(sizeof *s, &FILTER_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = filter_run;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (st) return free(s), st;
  *out = &s->t.s;
  return PF_OK;
}
static void filter_free(dataset *d) { ds_function_clear(&((filter *)d)->f); }
static const ds_kind FILTER = {"Filter", filter_open, filter_free, NULL};
static pf_status made(pf_ctx *c, const void *state, int ends) {
  const filter_state *st = state;
  filter *d = ds_new(c, sizeof *d, &FILTER, NULL, 1, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  d->ends = ends;
  static const int32_t verdict = PF_BOOL;
  pf_status r = ds_same_types(c, &d->d);
  if (!r) r = ds_function_get(c, st->predicate, 1, c->n_in - 1, &d->f);
  return ds_out(c, d, r ? r : ds_function_gives(c, &d->f, &verdict, 1));
}
static pf_status filter_compute(pf_ctx *c, const void *state) { return made(c, state, 0); }
static pf_status take_while_compute(pf_ctx *c, const void *state) { return made(c, state, 1); }
#define FILTERS(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(filter_state), \
         .attrs = PF_ATTRS(PF_ATTR(filter_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           PF_ATTR(filter_state, PF_ATTR_FUNC, predicate)))
extern const pf_kernel *const filter_kernels[];
const pf_kernel *const filter_kernels[] = {
  FILTERS("FilterDataset", filter_compute), FILTERS("TakeWhileDataset", take_while_compute),
  FILTERS("ExperimentalTakeWhileDataset", take_while_compute), NULL};
