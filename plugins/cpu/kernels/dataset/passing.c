/* passing.c - TakeDataset, SkipDataset, ShardDataset, RepeatDataset: which elements go on.
 *
 * Each is a task of one loop; where the input gives indices so do they, by the same rules.
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "dataset/slices.h"

typedef struct { pf_list output_types; } passing_state;
typedef struct {
  dataset d;
  int64_t count, index;
} passing; /* count -1: all, or for ever */
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  ds_stage_kind kind;  /* the dataset's, with next_index where the input has it */
  int64_t seen, asked; /* elements, or rounds; asked: the slot holds an answer */
} passing_stage;

static const passing *of(const passing_stage *s) { return (const passing *)s->t.s.of; }
static void passing_close(ds_stage *s) {
  ds_close(((passing_stage *)s)->in);
  free(s);
}
static void passing_save(ds_stage *s, ds_writer *w) {
  ds_put_int(w, ((passing_stage *)s)->seen);
  ds_put_stage(w, ((passing_stage *)s)->in);
}
static pf_status passing_load(ds_stage *s, ds_reader *r) {
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &((passing_stage *)s)->seen));
  return ds_get_stage(r, ((passing_stage *)s)->in);
}
static pf_status passing_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out,
                              pf_status (*run)(ds_task *),
                              pf_status (*next_index)(ds_stage *, int64_t *)) {
  passing_stage *s = ds_stage_new(sizeof *s, NULL, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (st) return free(s), st;
  s->kind = (ds_stage_kind){
    .next = ds_task_next, .close = passing_close, .save = passing_save, .load = passing_load};
  if (s->in->kind->next_index) s->kind.next_index = next_index, s->kind.next = ds_next_of_index;
  s->t.s.kind = &s->kind;
  s->t.run = run;
  *out = &s->t.s;
  return PF_OK;
}
/* The answer of the input: a new one, or that of the request which has just landed. */
static pf_status answer(passing_stage *s) {
  if (!s->asked) {
    s->asked = 1;
    if (ds_pull(&s->slot, &s->t, s->in) == PF_PENDING) return PF_PENDING;
  }
  s->asked = 0;
  return s->slot.st;
}
static pf_status hand_on(passing_stage *s, pf_status st) {
  *s->t.out = s->slot.row;
  return st;
}
static int64_t smaller(int64_t size, int64_t count) {
  return size == -1 || count < 0 ? size : size == -2 ? count : PF_MIN(size, count);
}

/* ---------------------------------------------------------------- take */
static pf_status take_run(ds_task *t) {
  passing_stage *s = (passing_stage *)t;
  if (!s->asked && of(s)->count >= 0 && s->seen >= of(s)->count) return DS_END;
  pf_status st = answer(s);
  if (st == DS_OK) s->seen++;
  return st == PF_PENDING ? st : hand_on(s, st);
}
static pf_status take_index(ds_stage *t, int64_t *index) {
  passing_stage *s = (passing_stage *)t;
  if (of(s)->count >= 0 && s->seen >= of(s)->count) return DS_END;
  pf_status st = s->in->kind->next_index(s->in, index);
  if (st == DS_OK) s->seen++;
  return st;
}
static pf_status take_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return passing_open(d, at, error, out, take_run, take_index);
}
static int64_t take_size(const dataset *d) {
  return smaller(ds_size(d->in[0]), ((const passing *)d)->count);
}
static const ds_kind TAKE = {"Take", take_open, NULL, take_size};

/* ---------------------------------------------------------------- skip */
static pf_status skip_run(ds_task *t) {
  passing_stage *s = (passing_stage *)t;
  for (;;) {
    if (ds_interrupted(t->s.root) && !s->asked) return PF_CANCELLED;
    pf_status st = answer(s);
    if (st != DS_OK) return st == PF_PENDING ? st : hand_on(s, st);
    if (of(s)->count >= 0 && s->seen >= of(s)->count) return hand_on(s, DS_OK);
    s->seen++;
    ds_row_clear(&s->slot.row);
  }
}
static pf_status skip_index(ds_stage *t, int64_t *index) {
  passing_stage *s = (passing_stage *)t;
  for (;;) {
    pf_status st = s->in->kind->next_index(s->in, index);
    if (st || (of(s)->count >= 0 && s->seen >= of(s)->count)) return st;
    s->seen++;
  }
}
static pf_status skip_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return passing_open(d, at, error, out, skip_run, skip_index);
}
static int64_t skip_size(const dataset *d) {
  int64_t n = ds_size(d->in[0]), count = ((const passing *)d)->count;
  return count < 0 ? 0 : n < 0 ? n : PF_MAX(n - count, 0);
}
static const ds_kind SKIP = {"Skip", skip_open, NULL, skip_size};

/* ---------------------------------------------------------------- shard */
static pf_status shard_run(ds_task *t) {
  passing_stage *s = (passing_stage *)t;
  for (;;) {
    pf_status st = answer(s);
    if (st != DS_OK) return st == PF_PENDING ? st : hand_on(s, st);
    if (s->seen++ % of(s)->count == of(s)->index) return hand_on(s, DS_OK);
    ds_row_clear(&s->slot.row);
  }
}
static pf_status shard_index(ds_stage *t, int64_t *index) {
  passing_stage *s = (passing_stage *)t;
  for (;;) {
    pf_status st = s->in->kind->next_index(s->in, index);
    if (st || s->seen++ % of(s)->count == of(s)->index) return st;
  }
}
static pf_status shard_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  return passing_open(d, at, error, out, shard_run, shard_index);
}
static int64_t shard_size(const dataset *d) {
  const passing *p = (const passing *)d;
  int64_t n = ds_size(d->in[0]);
  return n < 0 ? n : n / p->count + (n % p->count > p->index);
}
static const ds_kind SHARD = {"Shard", shard_open, NULL, shard_size};

/* ---------------------------------------------------------------- repeat
 * seen: rounds that are over; `fresh`: the round has given nothing yet, so an input that ends then
 * is empty, and so are all rounds. */
typedef struct {
  passing_stage p;
  int64_t fresh;
} repeat_stage;
/* The input of round `seen`; of the last one where that is over. */
static pf_status open_round(repeat_stage *s, ds_row *error) {
  passing_stage *p = &s->p;
  ds_stage *fresh;
  ds_place at = ds_place_of(&p->t.s);
  int64_t last = of(p)->count - 1, round = last >= 0 ? PF_MIN(p->seen, last) : p->seen;
  if (round) at.path = ds_mix(at.path, (uint64_t)round);
  PF_TRY(ds_open(p->t.s.of->in[0], at, error, &fresh));
  ds_close(p->in);
  p->in = fresh;
  return DS_OK;
}
static void repeat_save(ds_stage *s, ds_writer *w) {
  ds_put_int(w, ((repeat_stage *)s)->fresh);
  passing_save(s, w);
}
static pf_status repeat_load(ds_stage *s, ds_reader *r) {
  repeat_stage *t = (repeat_stage *)s;
  ds_row error = {0};
  PF_TRY(ds_get_range(r, 0, 1, &t->fresh));
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &t->p.seen));
  pf_status st = open_round(t, &error);
  return st ? ds_load_failed(r, st, &error) : ds_get_stage(r, t->p.in);
}
/* DS_OK: another round has begun */
static pf_status another_round(repeat_stage *s, ds_row *error) {
  if (s->fresh) return DS_END;
  s->p.seen++;
  if (of(&s->p)->count >= 0 && s->p.seen >= of(&s->p)->count) return DS_END;
  s->fresh = 1;
  return open_round(s, error);
}
static pf_status repeat_run(ds_task *t) {
  repeat_stage *s = (repeat_stage *)t;
  if (!s->p.asked && of(&s->p)->count >= 0 && s->p.seen >= of(&s->p)->count) return DS_END;
  for (;;) {
    pf_status st = answer(&s->p);
    if (st == DS_OK) s->fresh = 0;
    if (st != DS_END) return st == PF_PENDING ? st : hand_on(&s->p, st);
    st = another_round(s, t->out);
    if (st) return st;
  }
}
static pf_status repeat_index(ds_stage *t, int64_t *index) {
  repeat_stage *s = (repeat_stage *)t;
  ds_row error = {0};
  if (of(&s->p)->count >= 0 && s->p.seen >= of(&s->p)->count) return DS_END;
  for (;;) {
    pf_status st = s->p.in->kind->next_index(s->p.in, index);
    if (st == DS_OK) s->fresh = 0;
    if (st != DS_END) return st;
    st = another_round(s, &error);
    ds_row_clear(&error);
    if (st) return st;
  }
}
static pf_status repeat_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  passing_stage *p;
  PF_TRY(passing_open(d, at, error, (ds_stage **)&p, repeat_run, repeat_index));
  repeat_stage *s = realloc(p, sizeof *s);
  if (!s) return passing_close(&p->t.s), ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory");
  s->fresh = 1;
  s->p.kind.save = repeat_save;
  s->p.kind.load = repeat_load;
  s->p.t.s.kind = &s->p.kind;
  *out = &s->p.t.s;
  return PF_OK;
}
static int64_t repeat_size(const dataset *d) {
  int64_t n = ds_size(d->in[0]), count = ((const passing *)d)->count, all;
  if (n == 0 || count == 0) return 0;
  if (n == -1) return -1;
  if (count < 0 || n == -2) return -2;
  return pf_mul(n, count, &all) ? all : INT64_MAX;
}
static const ds_kind REPEAT = {"Repeat", repeat_open, NULL, repeat_size};

dataset *ds_repeated(dataset *in, int64_t count) {
  passing *d = ds_over(sizeof *d, &REPEAT, in);
  if (d) d->count = count;
  return d ? &d->d : NULL;
}

/* ---------------------------------------------------------------- the ops */
static pf_status counted(pf_ctx *c, const void *state, const ds_kind *kind) {
  passing *d = ds_new(c, sizeof *d, kind, NULL, 1, &((const passing_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_same_types(c, &d->d);
  return ds_out(c, d, st ? st : ds_scalar_in(c, 1, "count", &d->count));
}
static pf_status take_compute(pf_ctx *c, const void *s) { return counted(c, s, &TAKE); }
static pf_status skip_compute(pf_ctx *c, const void *s) { return counted(c, s, &SKIP); }
static pf_status repeat_compute(pf_ctx *c, const void *s) { return counted(c, s, &REPEAT); }
static pf_status shard_compute(pf_ctx *c, const void *state) {
  passing *d = ds_new(c, sizeof *d, &SHARD, NULL, 1, &((const passing_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_same_types(c, &d->d);
  if (!st) st = ds_scalar_in(c, 1, "num_shards", &d->count);
  if (!st) st = ds_scalar_in(c, 2, "index", &d->index);
  if (!st && d->count < 1)
    st = PF_INVALID(c,
                    "Number of shards must be greater than zero (currently num_shards = "
                    "%" PRId64 ").",
                    d->count);
  if (!st && (d->index < 0 || d->index >= d->count))
    st = PF_INVALID(c, "Index must be between 0 and %" PRId64 " (currently index = %" PRId64 ").",
                    d->count - 1, d->index);
  return ds_out(c, d, st);
}
#define PASSING(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(passing_state), \
         .attrs = PF_ATTRS(PF_ATTR(passing_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types)))
extern const pf_kernel *const passing_kernels[];
const pf_kernel *const passing_kernels[] = {
  PASSING("TakeDataset", take_compute), PASSING("SkipDataset", skip_compute),
  PASSING("RepeatDataset", repeat_compute), PASSING("ShardDataset", shard_compute), NULL};
