/* generator.c - GeneratorDataset: elements that a function gives, as from_generator's py_func.
 *
 *     NEW -> MADE [init_func's state] -> next_func of the state, until it fails with OUT_OF_RANGE
 *
 * Closing calls finalize_func, and waits for nothing.  A generator cannot be saved: what is saved
 * is how many elements it has given, and a new one is read over so many.
 * Source: TF's GeneratorDataset.  Threads: as dataset.h; py_func runs on the host's Python lane.
 */
#include "dataset/dataset.h"

typedef struct {
  pf_list output_types, Tinit_func_args, Tnext_func_args, Tfinalize_func_args;
  pf_str init_func, next_func, finalize_func;
} generator_state;
typedef struct {
  dataset d;
  ds_function init, next, finalize;
} generator;
enum { NEW, MAKING, READY, ASKED };
typedef struct {
  ds_task t;
  ds_pull_slot slot;
  ds_row state;
  int at, over;
  int64_t given, behind, calls; /* behind: elements to read over first */
} generator_stage;
static const generator *of(const generator_stage *s) { return (const generator *)s->t.s.of; }

static pf_status call(generator_stage *s, const ds_function *f) {
  ds_row args = {0};
  if (f != &of(s)->init && !ds_row_share(s->t.s.of->host, &s->state, &args))
    return s->slot.st = ds_fail(&s->slot.row, PF_RESOURCE_EXHAUSTED, "no memory for a call");
  return ds_call(&s->slot, &s->t, f, &args, ds_mix(s->t.s.path, (uint64_t)s->calls++));
}
/* What the call that was under way gave; PF_OK: nothing to say yet. */
static int took(generator_stage *s, pf_status *st) {
  int making = s->at == MAKING;
  s->at = making ? NEW : READY;
  *st = s->slot.st;
  if (s->slot.st == PF_OUT_OF_RANGE && !making) {
    ds_row_clear(&s->slot.row);
    s->over = 1;
    *st = DS_END;
  } else if (s->slot.st) {
    *s->t.out = s->slot.row;
  } else if (making) {
    s->state = s->slot.row;
    s->at = READY;
    return 0;
  } else if (s->behind) {
    s->behind--;
    s->given++;
    ds_row_clear(&s->slot.row);
    return 0;
  } else {
    s->given++;
    *s->t.out = s->slot.row;
  }
  return 1;
}
static pf_status generator_run(ds_task *t) {
  generator_stage *s = (generator_stage *)t;
  pf_status st;
  if (s->over) return DS_END;
  for (;;) {
    if (s->at == NEW || s->at == READY) {
      if (ds_interrupted(t->s.root)) return PF_CANCELLED;
      const ds_function *f = s->at == NEW ? &of(s)->init : &of(s)->next;
      s->at = s->at == NEW ? MAKING : ASKED;
      if (call(s, f) == PF_PENDING) return PF_PENDING;
    }
    if (took(s, &st)) return st;
  }
}
typedef struct {
  ds_flight f;
  dataset *d;
} last_call;
static void finalized(ds_flight *f) {
  last_call *last = (last_call *)f;
  ds_row_clear(&f->row);
  ds_unref(last->d);
  free(last);
}
static void generator_close(ds_stage *t) {
  generator_stage *s = (generator_stage *)t;
  last_call *last = s->state.v ? calloc(1, sizeof *last) : NULL;
  if (last) {
    last->f.done = finalized;
    ds_ref(last->d = (dataset *)t->of);
    ds_fly(&last->f, t->of->host, &of(s)->finalize, &s->state, 0);
  }
  ds_row_clear(&s->state);
  free(s);
}
static void generator_save(ds_stage *t, ds_writer *w) {
  ds_put_int(w, ((generator_stage *)t)->given + ((generator_stage *)t)->behind);
  ds_put_int(w, ((generator_stage *)t)->over);
}
static pf_status generator_load(ds_stage *t, ds_reader *r) {
  int64_t over;
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &((generator_stage *)t)->behind));
  PF_TRY(ds_get_range(r, 0, 1, &over));
  ((generator_stage *)t)->over = (int)over;
  return PF_OK;
}
static const ds_stage_kind GENERATOR_STAGE = {
  .next = ds_task_next, .close = generator_close, .save = generator_save, .load = generator_load};
static pf_status generator_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  generator_stage *s = ds_stage_new(sizeof *s, &GENERATOR_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = generator_run;
  *out = &s->t.s;
  return PF_OK;
}
static void generator_free(dataset *d) {
  ds_function_clear(&((generator *)d)->init);
  ds_function_clear(&((generator *)d)->next);
  ds_function_clear(&((generator *)d)->finalize);
}
static const ds_kind GENERATOR = {"Generator", generator_open, generator_free, NULL};
static pf_status generator_compute(pf_ctx *c, const void *state) {
  const generator_state *st = state;
  generator *d = ds_new(c, sizeof *d, &GENERATOR, NULL, 0, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  int32_t init = (int32_t)st->Tinit_func_args.n, next = (int32_t)st->Tnext_func_args.n,
          last = (int32_t)st->Tfinalize_func_args.n;
  pf_status r = ds_function_get(c, st->init_func, 0, init, &d->init);
  if (!r) r = ds_function_get(c, st->next_func, init, next, &d->next);
  if (!r) r = ds_function_gives(c, &d->next, d->d.types, d->d.n_types);
  if (!r) r = ds_function_get(c, st->finalize_func, init + next, last, &d->finalize);
  return ds_out(c, d, r);
}
#define TYPES(field_) PF_ATTR(generator_state, PF_ATTR_TYPE | PF_ATTR_LIST, field_)
#define FUNC(field_) PF_ATTR(generator_state, PF_ATTR_FUNC, field_)
extern const pf_kernel *const generator_kernels[];
const pf_kernel *const generator_kernels[] = {
  PF_CPU("GeneratorDataset", NULL, .compute = generator_compute,
         .state_size = sizeof(generator_state),
         .attrs = PF_ATTRS(TYPES(output_types), TYPES(Tinit_func_args), TYPES(Tnext_func_args),
                           TYPES(Tfinalize_func_args), FUNC(init_func), FUNC(next_func),
                           FUNC(finalize_func))),
  NULL};
