/* shuffle.c - ShuffleDataset, ShuffleAndRepeatDataset: a buffer of elements, each answer drawn from
 * it at random.
 *
 * Invariants
 *   1. The buffer is filled first; then each answer's place is taken by the next element, and by
 *      the buffer's last one when there is none: an element leaves by one draw.
 *   2. Draw k of an iterator is a function of k, the seeds and, where each iteration is shuffled
 *      anew, the stage's path: to restore k is to restore the order.
 *   3. Where the input gives indices the buffer holds indices.
 *
 * Source: TF's ShuffleDataset for the buffer (the order is not TF's: docs/differences.md); Steele,
 * Lea and Flood 2014 for the numbers (ds_mix).
 * Threads: as dataset.h.
 */
#include "dataset/dataset.h"
#include "dataset/slices.h"

typedef struct {
  pf_list output_types;
  int32_t reshuffle_each_iteration;
} shuffle_state;
typedef struct {
  dataset d;
  int64_t room;
  uint64_t seed;
  int32_t again;
} shuffle;
typedef struct {
  ds_task t;
  ds_stage *in;
  ds_pull_slot slot;
  ds_stage_kind kind;
  uint64_t key;
  int64_t drawn, n, held; /* draws; in the buffer; it has room for */
  ds_row *rows;           /* one of both */
  int64_t *indices;
  int64_t over, asked; /* the input has ended; the slot holds an answer */
} shuffle_stage;

static const shuffle *of(const shuffle_stage *s) { return (const shuffle *)s->t.s.of; }

/* a number below n, each as likely as another */
static int64_t draw(shuffle_stage *s, int64_t n) {
  uint64_t most = UINT64_MAX - UINT64_MAX % (uint64_t)n, x;
  do x = ds_mix(s->key, (uint64_t)++s->drawn);
  while (x >= most);
  return (int64_t)(x % (uint64_t)n);
}
static int room_for_one(shuffle_stage *s) {
  if (s->n < s->held) return 1;
  int64_t held = PF_MIN(PF_MAX(s->held * 2, 256), of(s)->room);
  int indices = s->kind.next_index != NULL;
  void *more = indices ? realloc(s->indices, sizeof *s->indices * (size_t)held)
                       : realloc(s->rows, sizeof *s->rows * (size_t)held);
  if (!more) return 0;
  if (indices) s->indices = more;
  else s->rows = more;
  s->held = held;
  return 1;
}

static pf_status shuffle_run(ds_task *t) {
  shuffle_stage *s = (shuffle_stage *)t;
  while (!s->over && s->n < of(s)->room) {
    if (!s->asked) {
      if (ds_interrupted(t->s.root)) return PF_CANCELLED;
      s->asked = 1;
      if (ds_pull(&s->slot, t, s->in) == PF_PENDING) return PF_PENDING;
    }
    s->asked = 0;
    if (s->slot.st == DS_END) {
      s->over = 1;
    } else if (s->slot.st) {
      *t->out = s->slot.row;
      return s->slot.st;
    } else if (!room_for_one(s)) {
      ds_row_clear(&s->slot.row);
      return ds_fail(t->out, PF_RESOURCE_EXHAUSTED, "no memory for a shuffle's buffer");
    } else {
      s->rows[s->n++] = s->slot.row;
    }
  }
  if (!s->n) return DS_END;
  int64_t i = draw(s, s->n);
  *t->out = s->rows[i];
  s->rows[i] = s->rows[--s->n];
  return DS_OK;
}
static pf_status shuffle_index(ds_stage *t, int64_t *index) {
  shuffle_stage *s = (shuffle_stage *)t;
  while (!s->over && s->n < of(s)->room) {
    int64_t next;
    if (!room_for_one(s)) return PF_RESOURCE_EXHAUSTED;
    pf_status st = s->in->kind->next_index(s->in, &next);
    if (st == DS_OK) s->indices[s->n++] = next;
    else if (st == DS_END) s->over = 1;
    else return st;
  }
  if (!s->n) return DS_END;
  int64_t i = draw(s, s->n);
  *index = s->indices[i];
  s->indices[i] = s->indices[--s->n];
  return DS_OK;
}

static void shuffle_close(ds_stage *t) {
  shuffle_stage *s = (shuffle_stage *)t;
  for (int64_t i = 0; s->rows && i < s->n; i++) ds_row_clear(&s->rows[i]);
  free(s->rows);
  free(s->indices);
  ds_close(s->in);
  free(s);
}
static void shuffle_save(ds_stage *t, ds_writer *w) {
  shuffle_stage *s = (shuffle_stage *)t;
  ds_put_int(w, s->drawn);
  ds_put_int(w, s->over);
  ds_put_int(w, s->n);
  for (int64_t i = 0; i < s->n; i++)
    if (s->kind.next_index) ds_put_int(w, s->indices[i]);
    else ds_put_row(w, &s->rows[i]);
  ds_put_stage(w, s->in);
}
static pf_status shuffle_load(ds_stage *t, ds_reader *r) {
  shuffle_stage *s = (shuffle_stage *)t;
  int64_t n, rows = s->kind.next_index ? ds_slices_of(t)->n : 0;
  PF_TRY(ds_get_range(r, 0, INT64_MAX, &s->drawn));
  PF_TRY(ds_get_range(r, 0, 1, &s->over));
  PF_TRY(ds_get_range(r, 0, of(s)->room, &n));
  for (; s->n < n; s->n++) {
    if (!room_for_one(s)) return PF_RESOURCE_EXHAUSTED;
    if (s->kind.next_index) PF_TRY(ds_get_range(r, 0, rows - 1, &s->indices[s->n]));
    else PF_TRY(ds_get_row(r, t->of->in[0], &s->rows[s->n]));
  }
  return ds_get_stage(r, s->in);
}
static pf_status shuffle_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  shuffle_stage *s = ds_stage_new(sizeof *s, NULL, d, at, error);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  pf_status st = ds_open(d->in[0], at, error, &s->in);
  if (st) return free(s), st;
  s->kind = (ds_stage_kind){
    .next = ds_task_next, .close = shuffle_close, .save = shuffle_save, .load = shuffle_load};
  if (s->in->kind->next_index) s->kind.next_index = shuffle_index, s->kind.next = ds_next_of_index;
  s->t.s.kind = &s->kind;
  s->t.run = shuffle_run;
  s->key = ds_mix(of(s)->seed, of(s)->again ? at.path : 0);
  *out = &s->t.s;
  return PF_OK;
}
static int64_t shuffle_size(const dataset *d) { return ds_size(d->in[0]); }
static const ds_kind SHUFFLE = {"Shuffle", shuffle_open, NULL, shuffle_size};

static pf_status shuffle_new(pf_ctx *c, const shuffle_state *st, dataset **out) {
  int64_t seed, seed2;
  shuffle *d = ds_new(c, sizeof *d, &SHUFFLE, NULL, 1, &st->output_types);
  *out = (dataset *)d;
  if (!d) return PF_INVALID_ARGUMENT;
  d->again = st->reshuffle_each_iteration;
  pf_status r = ds_same_types(c, &d->d);
  if (!r) r = ds_scalar_in(c, 1, "buffer_size", &d->room);
  if (!r) r = ds_scalar_in(c, 2, "seed", &seed);
  if (!r) r = ds_scalar_in(c, 3, "seed2", &seed2);
  if (!r && d->room < 1) r = PF_INVALID(c, "buffer_size must be greater than zero.");
  if (!r && !seed && !seed2) { /* no seeds: the session's */
    uint64_t key[2], counter[2];
    r = c->host->rng(c, 1, key, counter);
    if (!r) d->seed = ds_mix(key[0] ^ key[1], counter[0]);
  } else if (!r) {
    d->seed = ds_mix((uint64_t)seed, (uint64_t)seed2);
  }
  return r;
}
static pf_status shuffle_compute(pf_ctx *c, const void *state) {
  dataset *d;
  pf_status st = shuffle_new(c, state, &d);
  return ds_out(c, d, st);
}
/* ShuffleAndRepeatDataset: rounds of the shuffled elements. */
static pf_status shuffle_and_repeat_compute(pf_ctx *c, const void *state) {
  dataset *d;
  int64_t count;
  pf_status st = shuffle_new(c, state, &d);
  if (!st) st = ds_scalar_in(c, 4, "count", &count);
  if (!st && !(d = ds_repeated(d, count)))
    st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset");
  return ds_out(c, d, st);
}
#define SHUFFLES(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(shuffle_state), \
         .attrs = PF_ATTRS(PF_ATTR(shuffle_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           PF_ATTR(shuffle_state, PF_ATTR_BOOL, reshuffle_each_iteration)))
extern const pf_kernel *const shuffle_kernels[];
const pf_kernel *const shuffle_kernels[] = {
  SHUFFLES("ShuffleDataset", shuffle_compute),
  SHUFFLES("ShuffleAndRepeatDataset", shuffle_and_repeat_compute), NULL};
