/* interleave.c - FlatMapDataset, InterleaveDataset, the parallel ones of all versions: the elements
 * of datasets that a function makes of elements.
 *
 * Up to cycle_length such datasets are OPEN; block_length elements are taken of each in turn. One
 * that has ended gives its place to the next element's. FlatMap is a cycle of one. The parallel one
 * reads ahead in each open dataset (prefetch.c), in the same order.
 *
 *     TAKE -> TAKEN [an element, or the end, of the open one]
 *     TAKE -> NEXT [no dataset is open here] -> MADE [the function's dataset] -> TAKE
 *
 * Invariants
 *   1. An open dataset keeps the arguments it was made of: a saved state has these, and it is made
 *      again of them, by the same call number, hence with the same random numbers.
 *   2. The order depends on nothing but the elements.
 *
 * Source: TF's InterleaveDataset.  Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "dataset/prefetch.h"

typedef struct {
  pf_list output_types;
  pf_str f;
} interleave_state;
typedef struct {
  dataset d;
  ds_function f;
  int64_t cycle, block;
  int32_t ahead;
} interleave;
typedef struct {
  ds_stage *stage;
  dataset *of;
  ds_row args;
  int64_t call;
} open_one;
enum { TAKE, TAKEN, NEXT, MADE };
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  open_one *open;
  ds_row args;
  int state;
  int64_t at, in_block, n_open, calls, over;
} interleave_stage;

static const interleave *of(const interleave_stage *s) { return (const interleave *)s->t.s.of; }

static void advance(interleave_stage *s) {
  s->in_block = 0;
  s->at = (s->at + 1) % of(s)->cycle;
}
static void shut(open_one *o) {
  ds_close(o->stage);
  ds_unref(o->of);
  ds_row_clear(&o->args);
  *o = (open_one){0};
}
/* The function's result is read from now on.  Takes it and the arguments. */
static pf_status begin(interleave_stage *s, open_one *o, ds_row *made, ds_row *args, int64_t call,
                       ds_row *error) {
  dataset *d = NULL;
  ds_place at = {s->t.s.root, ds_mix(s->t.s.path, (uint64_t)call)};
  pf_status st = ds_made(s->t.s.of->host, made, error, &d);
  ds_row_clear(made);
  if (!st && !ds_types_equal(d, s->t.s.of->types, s->t.s.of->n_types))
    st = ds_fail(error, PF_INVALID_ARGUMENT,
                 "the function made a dataset of other element types "
                 "than output_types");
  if (!st && of(s)->ahead) d = ds_prefetched(d, PF_MIN(of(s)->block, 16));
  if (!st && !d) st = ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory to read a dataset");
  *o = (open_one){NULL, d, *args, call};
  *args = (ds_row){0};
  if (!st) st = ds_open(d, at, error, &o->stage);
  if (st) shut(o);
  return st;
}

static pf_status interleave_run(ds_task *t) {
  interleave_stage *s = (interleave_stage *)t;
  for (;;) {
    open_one *o = &s->open[s->at];
    switch (s->state) {
      case TAKE:
        if (ds_interrupted(t->s.root)) return PF_CANCELLED;
        if (s->over && !s->n_open) return DS_END;
        if (!o->stage && s->over) {
          advance(s);
          continue;
        }
        s->state = o->stage ? TAKEN : NEXT;
        if (ds_pull(&s->slot, t, o->stage ? o->stage : s->in) == PF_PENDING) return PF_PENDING;
        continue;
      case TAKEN:
        s->state = TAKE;
        if (s->slot.st == DS_END) {
          shut(o);
          s->n_open--;
          advance(s);
          continue;
        }
        if (s->slot.st == DS_OK && ++s->in_block == of(s)->block) advance(s);
        *t->out = s->slot.row;
        return s->slot.st;
      case NEXT:
        s->state = TAKE;
        if (s->slot.st == DS_END) {
          s->over = 1;
          continue;
        }
        if (s->slot.st) return *t->out = s->slot.row, s->slot.st;
        s->args = s->slot.row;
        ds_row args;
        if (!ds_row_share(t->s.of->host, &s->args, &args)) {
          ds_row_clear(&s->args);
          return ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory for a call");
        }
        s->state = MADE;
        if (ds_call(&s->slot, t, &of(s)->f, &args, ds_mix(t->s.path, (uint64_t)s->calls)) ==
            PF_PENDING)
          return PF_PENDING;
        continue;
      default:
        s->state = TAKE;
        if (s->slot.st) {
          ds_row_clear(&s->args);
          *t->out = s->slot.row;
          return ds_not_the_end(t->out, s->slot.st, PF_INTERNAL);
        }
        PF_TRY(begin(s, o, &s->slot.row, &s->args, s->calls++, t->out));
        s->n_open++;
    }
  }
}

static void interleave_close(ds_stage *t) {
  interleave_stage *s = (interleave_stage *)t;
  for (int64_t i = 0; s->open && i < of(s)->cycle; i++) shut(&s->open[i]);
  free(s->open);
  ds_close(s->in);
  free(s);
}
static void interleave_save(ds_stage *t, ds_writer *w) {
  interleave_stage *s = (interleave_stage *)t;
  ds_put_int(w, s->at);
  ds_put_int(w, s->in_block);
  ds_put_int(w, s->calls);
  ds_put_int(w, s->over);
  for (int64_t i = 0; i < of(s)->cycle; i++) {
    open_one *o = &s->open[i];
    ds_put_int(w, o->stage ? o->call : -1);
    if (!o->stage) continue;
    ds_put_row(w, &o->args);
    ds_put_stage(w, o->stage);
  }
  ds_put_stage(w, s->in);
}
/* The dataset is made again, and its reading goes on where it was. */
static pf_status load_open(interleave_stage *s, ds_reader *r, open_one *o, int64_t call) {
  const dataset *d = s->t.s.of;
  ds_row args = {0}, copy, made, error = {0};
  PF_TRY(ds_get_row(r, d->in[0], &args));
  if (!ds_row_share(d->host, &args, &copy)) return ds_row_clear(&args), PF_RESOURCE_EXHAUSTED;
  pf_status st =
      ds_call_and_wait(d->host, &of(s)->f, &copy, ds_mix(s->t.s.path, (uint64_t)call), &made);
  if (!st) st = begin(s, o, &made, &args, call, &error);
  else error = made;
  ds_row_clear(&args);
  if (st) return ds_load_failed(r, st, &error);
  s->n_open++;
  return ds_get_stage(r, o->stage);
}
static pf_status interleave_load(ds_stage *t, ds_reader *r) {
  interleave_stage *s = (interleave_stage *)t;
  PF_TRY(ds_get_range(r, 0, of(s)->cycle - 1, &s->at));
  PF_TRY(ds_get_range(r, 0, of(s)->block - 1, &s->in_block));
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->calls));
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  for (int64_t i = 0; i < of(s)->cycle; i++) {
    int64_t call;
    PF_TRY(ds_get_range(r, -1, INT64_MAX, &call));
    if (call >= 0) PF_TRY(load_open(s, r, &s->open[i], call));
  }
  return ds_get_stage(r, s->in);
}
static const ds_stage_kind INTERLEAVE_STAGE = {.next = ds_task_next,
                                               .close = interleave_close,
                                               .save = interleave_save,
                                               .load = interleave_load};
static pf_status interleave_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  interleave_stage *s = ds_stage_new(sizeof *s, &INTERLEAVE_STAGE, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->t.run = interleave_run;
  s->open = calloc((size_t)of(s)->cycle, sizeof *s->open);
  pf_status st = s->open ? ds_open(d->in[0], at, error, &s->in)
                         : ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory to interleave");
  if (st) return interleave_close(&s->t.s), st;
  *out = &s->t.s;
  return PF_OK;
}
static void interleave_free(dataset *d) { ds_function_clear(&((interleave *)d)->f); }
static const ds_kind INTERLEAVE = {"Interleave", interleave_open, interleave_free, NULL};

/* n_numbers: cycle_length, block_length and what parallel ones have beside them end the inputs */
static pf_status made(pf_ctx *c, const void *state, int32_t n_numbers) {
  const interleave_state *st = state;
  int32_t first = c->n_in - n_numbers;
  interleave *d = ds_new(c, sizeof *d, &INTERLEAVE, NULL, 1, &st->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  d->cycle = d->block = 1;
  d->ahead = n_numbers > 2;
  pf_status r = PF_OK;
  if (n_numbers) r = ds_scalar_in(c, first, "cycle_length", &d->cycle);
  if (!r && n_numbers) r = ds_scalar_in(c, first + 1, "block_length", &d->block);
  if (d->cycle == -1) d->cycle = c->host->workers(c);
  if (!r && (d->cycle < 1 || d->cycle > 1 << 20))
    r = PF_INVALID(c, "cycle_length must be greater than zero.");
  if (!r && d->block < 1) r = PF_INVALID(c, "block_length must be greater than zero.");
  if (!r) r = ds_function_get(c, st->f, 1, first - 1, &d->f);
  return ds_out(c, d, r);
}
static pf_status flat_map_compute(pf_ctx *c, const void *s) { return made(c, s, 0); }
static pf_status interleave_compute(pf_ctx *c, const void *s) { return made(c, s, 2); }
static pf_status parallel_compute(pf_ctx *c, const void *s) { return made(c, s, 3); }
static pf_status buffered_compute(pf_ctx *c, const void *s) { return made(c, s, 4); }
static pf_status five_compute(pf_ctx *c, const void *s) { return made(c, s, 5); }
#define INTERLEAVES(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(interleave_state), \
         .attrs = PF_ATTRS(PF_ATTR(interleave_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           PF_ATTR(interleave_state, PF_ATTR_FUNC, f)))
extern const pf_kernel *const interleave_kernels[];
const pf_kernel *const interleave_kernels[] = {
  INTERLEAVES("FlatMapDataset", flat_map_compute),
  INTERLEAVES("InterleaveDataset", interleave_compute),
  INTERLEAVES("ParallelInterleaveDatasetV2", parallel_compute),
  INTERLEAVES("ParallelInterleaveDatasetV3", parallel_compute),
  INTERLEAVES("ParallelInterleaveDatasetV4", five_compute),
  INTERLEAVES("LegacyParallelInterleaveDatasetV2", buffered_compute),
  INTERLEAVES("ParallelInterleaveDataset", five_compute),
  INTERLEAVES("ExperimentalParallelInterleaveDataset", five_compute),
  NULL};
