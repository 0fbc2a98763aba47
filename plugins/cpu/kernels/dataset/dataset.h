/* dataset.h - datasets, and iterators over them, without a thread per stage.
 *
 * A DATASET is an immutable, counted object behind a variant scalar: its kind, the datasets it is
 * made from, numbers and tensors.  An ITERATOR is a chain of STAGES, one per dataset, each opened
 * from its dataset's kind.  Who wants an element asks the last stage, which asks those before it.
 *
 *     next(stage, row, waiter) -> DS_OK       row holds an element
 *                              -> DS_END      there is none any more
 *                              -> PF_PENDING  waiter->fn(waiter, status) follows, perhaps before
 *                                             next has returned, on any thread
 *                              -> another     it failed; row->error says why (may be NULL)
 *
 * A stage that is a loop over what may be pending is a DS_TASK: `run` goes as far as it can and
 * keeps in the task where it stands; PF_PENDING means that it will be run again.  ds_pull and
 * ds_call ask a stage or a function, and see to it that of the one who asked and the one who
 * answers the second goes on: chains that answer at once are plain calls.
 *
 * Invariants
 *   1. One request is under way at a stage at a time; who asked does not touch the row meanwhile.
 *   2. An element's components have the dataset's types; a row owns its tensors.
 *   3. A stage outlives its requests: the iterator is closed only when none is under way.
 *   4. A stage's state between requests can be saved, and loaded into a new stage of an equal
 *      dataset, which then goes on in the same way.
 *   5. Loops that may go on for ever without pending ask ds_interrupted.
 *
 * Threads: any; a stage is used by one at a time, and what background stages share has its lock.
 */
#ifndef PF_CPU_DATASET_H
#define PF_CPU_DATASET_H
#include "base/common.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef DLManagedTensorVersioned ds_tensor;
enum { DS_OK = PF_OK, DS_END = -100, DS_MAX_DEPTH = 200 };

/* ---------------------------------------------------------------- elements */
typedef struct {
  ds_tensor **v;
  int32_t n;
  char *error;
} ds_row;
int ds_row_room(ds_row *r, int32_t n); /* n empty components; 0: no memory */
void ds_row_clear(ds_row *r);
int ds_row_share(const pf_host *h, const ds_row *from, ds_row *to); /* 0: no memory */
pf_status ds_fail(ds_row *r, pf_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline void ds_drop(ds_tensor *t) {
  if (t) t->deleter(t);
}
/* A function's failure as its stage's: OUT_OF_RANGE, StopIteration of a py_func, is `instead`,
 * or who reads would take it for the end.  Returns the status */
pf_status ds_not_the_end(ds_row *r, pf_status st, pf_status instead);
ds_tensor *ds_scalar_int64(const pf_host *h, int64_t value);

/* ---------------------------------------------------------------- datasets */
typedef struct dataset dataset;
typedef struct ds_stage ds_stage;
typedef struct ds_root ds_root;
/* Where a stage stands: its iterator, and a number that follows from the way there (which round of
 * a repeat, which element of a flat_map): what is random draws from streams of its own by it. */
typedef struct {
  ds_root *root;
  uint64_t path;
} ds_place;
typedef struct ds_waiter { void (*fn)(struct ds_waiter *, pf_status); } ds_waiter;

typedef struct {
  const char *name; /* "Batch": for messages and in saved states */
  pf_status (*open)(const dataset *, ds_place, ds_row *error, ds_stage **out);
  void (*free)(dataset *);          /* what it holds beside the common part; may be NULL */
  int64_t (*size)(const dataset *); /* of elements; -1: unknown, -2: infinite; may be NULL */
} ds_kind;

/* a function of the graph and what it captured */
typedef struct {
  struct pf_fn *fn;
  int32_t n_captured;
  ds_tensor **captured;
} ds_function;

struct dataset {
  atomic_int refs;
  const ds_kind *kind;
  const pf_host *host;
  char *label; /* its node's name */
  dataset **in;
  int32_t n_in, n_types;
  int32_t *types;
};
extern const pf_type PF_DATASET;

/* `size` bytes that begin with a dataset; its inputs are the first n_in inputs of the call.  NULL:
 * a failure was told */
void *ds_new(pf_ctx *c, size_t size, const ds_kind *kind, const int32_t *in, int32_t n_in,
             const pf_list *types);
/* The same outside a call, of `like`'s host, label and, unless others are given, types; it has no
 * inputs yet.  NULL: no memory */
void *ds_bare(size_t size, const ds_kind *kind, const dataset *like, const int32_t *types,
              int32_t n_types);
/* The same over `in`, whose reference it takes; its types and label. */
void *ds_over(size_t size, const ds_kind *kind, dataset *in);
pf_status ds_out(pf_ctx *c, void *dataset, pf_status st); /* output 0, or frees it if st */
pf_status ds_input(pf_ctx *c, int32_t i, dataset **lent);
dataset *ds_repeated(dataset *in, int64_t count); /* takes `in`; NULL: no memory */
int ds_types_equal(const dataset *d, const int32_t *types, int32_t n);
pf_status ds_same_types(pf_ctx *c, const dataset *d); /* as its first input's */
void ds_ref(dataset *d);
void ds_unref(void *d);
int64_t ds_size(const dataset *d);
/* Inputs first .. first + n - 1, retained */
pf_status ds_keep_inputs(pf_ctx *c, int32_t first, int32_t n, ds_row *out);
pf_status ds_scalar_in(pf_ctx *c, int32_t i, const char *name, int64_t *out);
pf_status ds_bool_in(pf_ctx *c, int32_t i, const char *name, int32_t *out);

/* ---------------------------------------------------------------- stages */
typedef struct ds_writer ds_writer;
typedef struct ds_reader ds_reader;
typedef struct {
  pf_status (*next)(ds_stage *, ds_row *, ds_waiter *);
  pf_status (*next_index)(ds_stage *, int64_t *); /* NULL: no rows of one source */
  void (*close)(ds_stage *);                      /* frees the stage and those before it */
  void (*save)(ds_stage *, ds_writer *);
  pf_status (*load)(ds_stage *, ds_reader *);
} ds_stage_kind;
struct ds_stage {
  const ds_stage_kind *kind;
  const dataset *of;
  ds_root *root;
  uint64_t path;
};
pf_status ds_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out);
void ds_close(ds_stage *s); /* NULL is allowed */
/* `size` bytes that begin with a ds_stage; NULL: no memory, told in *error */
void *ds_stage_new(size_t size, const ds_stage_kind *kind, const dataset *of, ds_place at,
                   ds_row *error);

/* what all stages of one iterator share */
struct ds_root {
  const pf_host *host;
  atomic_int interrupted; /* stop soon: nobody waits, or the iterator ends */
  atomic_int paused;      /* background stages begin nothing new: a save is on */
  atomic_int busy;        /* what background stages have under way */
  pthread_mutex_t lock;
  pthread_cond_t idle; /* busy has become 0 */
};
uint64_t ds_mix(uint64_t a, uint64_t b); /* of two numbers one, never 0 */
static inline ds_place ds_place_of(const ds_stage *s) { return (ds_place){s->root, s->path}; }
/* An interrupted stage's answer, between elements: none, and not the dataset's failure. */
static inline int ds_stopped(pf_status st, const ds_row *row) {
  return st == PF_CANCELLED && !row->error;
}
int ds_asker_gone(const ds_root *r); /* the call on whose stack this runs is cancelled */
static inline int ds_interrupted(const ds_root *r) {
  return atomic_load_explicit(&r->interrupted, memory_order_relaxed) || ds_asker_gone(r);
}

/* ---------------------------------------------------------------- asking */
typedef struct ds_task ds_task;
/* the head of a stage that runs as a loop */
struct ds_task {
  ds_stage s;
  ds_row *out;
  ds_waiter *waiter;
  pf_status (*run)(ds_task *);
};
pf_status ds_task_next(ds_stage *s, ds_row *out, ds_waiter *w); /* its `next` */

typedef struct {
  ds_waiter w;
  atomic_int met;
  pf_status st; /* the answer */
  ds_row row;
  ds_task *task;
} ds_pull_slot;
/* Asks; the answer, also in slot->st and slot->row, or PF_PENDING: task->run comes again, then */
pf_status ds_pull(ds_pull_slot *slot, ds_task *task, ds_stage *from);

/* The answer of a function, in slot->st and slot->row.  Takes `args` (its components; captured ones
 * are added).  stream: of its random numbers, 0: the session's. */
pf_status ds_call(ds_pull_slot *slot, ds_task *task, const ds_function *f, ds_row *args,
                  uint64_t stream);
/* The same for who is no task: done(arg, status, row) once, perhaps at once. */
typedef struct ds_flight ds_flight;
struct ds_flight {
  void (*done)(ds_flight *);
  pf_status st;
  ds_row row;
};
void ds_fly(ds_flight *flight, const pf_host *h, const ds_function *f, ds_row *args,
            uint64_t stream);
/* The results of a call that is waited for: on a thread that may block. Takes `args`. */
pf_status ds_call_and_wait(const pf_host *h, const ds_function *f, ds_row *args, uint64_t stream,
                           ds_row *results);
/* A variant that refers to the dataset, whose reference it takes; NULL: no memory */
ds_tensor *ds_variant(dataset *d);
/* The dataset that a function made: its only result.  New reference. */
pf_status ds_made(const pf_host *h, const ds_row *results, ds_row *error, dataset **out);
pf_status ds_function_get(pf_ctx *c, pf_str name, int32_t first_captured, int32_t n,
                          ds_function *out);
/* PF_INVALID_ARGUMENT unless its results have these types */
pf_status ds_function_gives(pf_ctx *c, const ds_function *f, const int32_t *types, int32_t n);
void ds_function_clear(ds_function *f);

/* ---------------------------------------------------------------- saved states: state.c */
void ds_put_int(ds_writer *w, int64_t v);
void ds_put_row(ds_writer *w, const ds_row *r);
void ds_put_stage(ds_writer *w, ds_stage *s);
pf_status ds_get_int(ds_reader *r, int64_t *v);
pf_status ds_get_range(ds_reader *r, int64_t least, int64_t most, int64_t *v);
pf_status ds_get_row(ds_reader *r, const dataset *of, ds_row *row);
pf_status ds_get_stage(ds_reader *r, ds_stage *s);
/* Keeps why; takes `error`.  Returns st */
pf_status ds_load_failed(ds_reader *r, pf_status st, ds_row *error);
#endif
