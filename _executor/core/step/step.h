/* Steps: plans that run, on threads and devices.  Blocks and instructions (exec.pyx), loops
 * (frames.pyx), steps and their calls (step.pyx, calls.pyx, parts.pyx), what kernels ask the host
 * for (host.pyx), the pool of threads (pool.pyx).
 *
 * Invariants
 *   1. A slot holds NULL, PF_DEAD, or a DLTensor* that is the first-class part of a pf_tensor with
 *      one reference held by the slot (constant slots, filled from the plan, hold a lent pointer
 *      and are never released).
 *   2. Inside a block instructions run in order on one thread; every input was produced earlier in
 *      the block, by a block this one waits for, or before the slab started.
 *   3. Every block of a slab runs exactly once, live, dead or cancelled; blocks_left == 0 ends the
 *      slab.
 *   4. The consumer marked PF_IN_LAST releases the slot.  A slot read by several blocks counts them
 *      in `uses`.
 *   5. A cancelled step runs no more instructions; its blocks only propagate, its slots are swept
 *      at the end.
 */
#ifndef PF_STEP_H
#define PF_STEP_H
#include "plan/plan.h"
#include "values/clock.h"

typedef struct pf_trace pf_trace;

/* ---------------------------------------------------------------- step */
/* pf_item.pending: n > 0 predecessors are missing -> 0, ready -> RUNNING -> DONE; cancelled ones
 * are DONE without having run, arrivals of a loop's variables (PF_B_EVENT) without having been
 * ready. */
enum { PF_BLOCK_READY = 0, PF_BLOCK_RUNNING = -1, PF_BLOCK_DONE = -2 };
#define PF_JOB_BLOCK 0xffffffffu    /* pf_item.block of a pf_job */
/* one block of one slab */
typedef struct pf_item {
  pf_a32 pending;
  uint32_t block; /* absolute */
  uint32_t order;
  uint32_t ready; /* traced steps: when it became ready (pf_ready_stamp) */
  struct pf_slab *slab;
  struct pf_item *next; /* injector list */
  struct pf_call *call; /* a finished asynchronous call to be completed by whoever takes the item */
} pf_item;
static inline void pf_item_runs(pf_item *it) {
  pf_state_check(pf_a32_load_rlx(&it->pending) == PF_BLOCK_READY, "a block",
                 pf_a32_load_rlx(&it->pending), PF_BLOCK_RUNNING);
  pf_a32_store_rlx(&it->pending, PF_BLOCK_RUNNING);
}
static inline void pf_item_done(pf_item *it, int event) {
  int32_t was = pf_a32_load_rlx(&it->pending);
  pf_state_check(event ? was != PF_BLOCK_DONE : was == PF_BLOCK_READY || was == PF_BLOCK_RUNNING,
                 "a block", was, PF_BLOCK_DONE);
  pf_a32_store_rlx(&it->pending, PF_BLOCK_DONE);
}

/* pf_slab.status: frames.pyx has the diagram */
enum { PF_SLAB_FREE, PF_SLAB_ACTIVE, PF_SLAB_OVER };
/* one iteration of a frame, or the root */
typedef struct pf_slab {
  struct pf_step *step;
  const pf_frame_def *def;
  struct pf_frame *frame; /* NULL: root */
  int64_t iter, path;     /* path: unique over nested loops */
  pf_a32 blocks_left;
  int32_t status; /* frame lock; the root has none */
  pf_item *items;
  DLTensor **slots;
  pf_a32 *uses;
  /* frame lock: per loop variable, a token for the next iteration; NULL: none yet */
  DLTensor **next;
  uint8_t *arrived; /* frame lock: this slab's loop variables that have arrived */
} pf_slab;
static inline void pf_slab_go(pf_slab *s, int32_t from, int32_t to) {
  pf_state_check(s->status == from, "a loop's iteration", s->status, to);
  s->status = to;
}

/* one instance of a loop that runs in slabs */
typedef struct pf_frame {
  struct pf_step *step;
  const pf_frame_def *def;
  pf_slab *parent;
  pf_item *item; /* the FRAME block in the parent */
  pthread_mutex_t lock;
  int64_t oldest, newest; /* active iterations: oldest..newest */
  int64_t t_start;        /* traced steps */
  int32_t n_ring, pad;
  pf_slab *ring;
  struct pf_frame *next_free, *next_all;
} pf_frame;

struct pf_held_inputs;
/* how its kernels are looked at, one by one (inspect.pyx) */
typedef struct pf_inspect {
  int32_t numerics; /* floating-point outputs, and variables that changed, are checked */
  int32_t ordered;  /* one call after the other; asynchronous ones have a while to end */
  void *arg;
  /* before a kernel, nonzero: the step ends with CANCELLED; after it failed */
  int32_t (*before)(void *arg, struct pf_call *c, const pf_instr *ins,
                    const struct pf_held_inputs *held);
  void (*failed)(void *arg, struct pf_call *c, const pf_instr *ins,
                 const struct pf_held_inputs *held);
} pf_inspect;

typedef struct pf_step {
  pf_plan *plan;
  struct pf_pool *pool;
  pf_trace *trace;            /* NULL: not traced; the caller's */
  struct pf_inspect *inspect; /* NULL: not inspected; the caller's */
  int64_t id;
  pf_slab root;
  DLTensor **rets;          /* n_rets; taken by the caller */
  struct pf_extent *extent; /* memory of placed outputs; NULL: none */
  pf_a32 cancelled;
  pf_a32 done;
  /* other threads may work on this step; 0 -> 1 by the only one that does, before it publishes */
  pf_a32 shared;
  pf_a32 caller_waits;
  pthread_mutex_t lock; /* guards error, cancels, frames, posts */
  pthread_cond_t cond;  /* the caller sleeps here, with pool->lock */
  pf_error error;
  struct pf_call *deferred;   /* calls that await their done (lock) */
  struct pf_call *told_up_to; /* cancelling: the next of them to tell (lock) */
  struct pf_post *posts;      /* work for the caller's own thread (pool->lock) */
  pf_a32 n_posts;             /* written under the same lock, read without */
  pf_resource **owned;        /* step-scoped resources (lock) */
  int32_t n_owned, owned_room;
  pf_frame **free_frames; /* per frame definition (lock) */
  pf_frame *all_frames;
  pf_rendezvous *rendezvous;
  /* outlived: the rendezvous was given, it may be needed after the step; depth: of leaders, how
   * many steps lie around it */
  int32_t outlived, depth;
  pf_task *task; /* leaders: in whose table the step is, by `key`; NULL: in none */
  pf_step_key key;
  /* random nodes draw from (their seeds, stream), each from 0 on; 0: from their State's streams */
  uint64_t stream;
  pf_a64 *drawn; /* such a step: per node, how much */
  pf_a64 kernels;
  int64_t deadline_ns;              /* written before the step begins */
  int64_t next_poll_ns, give_up_ns; /* the caller's thread */
  /* cancelled from within a kernel: the status that callbacks are still to be told of */
  pf_a32 untold;
  uint32_t trace_step, pad_trace; /* this step's number in `trace` */
  int32_t (*poll)(void *arg);     /* caller's thread only; nonzero: cancel */
  void *poll_arg;
  pthread_t caller;   /* where `poll` is set */
  int64_t began_ns;   /* of a watched step */
  int32_t pins, pad2; /* with the two links: watch.pyx's lock */
  struct pf_step *next_running, *prev_running;
  int32_t drained, pad; /* the devices' streams were told to report (the last block's worker) */
  struct pf_step *next_free;
  /* parts.pyx: the partitions of one step run side by side; the first leads, and one caller
   * works for all */
  struct pf_step *leader; /* itself where the step is one plan */
  /* leaders: whose caller runs this step's items: itself, or of a step started within another
   * the outermost (start.pyx) */
  struct pf_step *home;
  struct pf_started *started; /* leaders without a caller of their own */
  struct pf_step *peer;       /* the next partition; NULL: the last */
  pf_a32 parts_left;          /* leader of several: partitions that are not over */
  pf_a32 crowded; /* its calls that wait until there is room for what they send (transport.pyx) */
  pf_a32 jobs, jobs_made; /* seeded pools: jobs of devices under way; so far */
} pf_step;

/* pf_lent.kind, with a number above: of pages, or a lock's PF_VAR_* */
enum {
  PF_LENT_TENSOR,
  PF_LENT_OBJECT,
  PF_LENT_MEMORY,
  PF_LENT_LOCK,  /* a variable's */
  PF_LENT_PAGES, /* scratch pages of the step's extent */
  PF_LENT_KINDS = 255
};
typedef struct pf_lent {
  int32_t kind, pad;
  void *p;
} pf_lent;
static inline int32_t pf_lent_kind(const pf_lent *l) { return l->kind & PF_LENT_KINDS; }
static inline int32_t pf_lent_number(const pf_lent *l) { return l->kind >> 8; }
static inline int32_t pf_lent_of(int32_t kind, int32_t number) { return kind | number << 8; }
/* What the node's kernel does at the resource that it asks for: PF_ROLE_*; 0: neither. */
static inline int32_t pf_role_of(const pf_node_info *n) {
  uint32_t flags = n->kernel ? n->kernel->kernel->flags : 0;
  return flags & PF_KERNEL_TAKES ? PF_ROLE_TAKES : flags & PF_KERNEL_PUTS ? PF_ROLE_PUTS : 0;
}
/* pf_call.state; calls.pyx has the diagram */
enum { PF_CALL_RUNNING, PF_CALL_DEFERRED, PF_CALL_TAKEN, PF_CALL_OVER };
/* a pf_ctx and what the host keeps with it */
typedef struct pf_call {
  pf_ctx ctx;
  pf_step *step;
  pf_slab *slab;
  pf_plan *plan;
  const pf_instr *instr;
  const pf_node_info *node;
  const pf_call_info *info; /* what ctx holds now */
  pf_item *item;
  struct pf_worker *worker;
  DLTensor **in;                      /* what ctx.in points to */
  int32_t dirty;                      /* something lent or a message kept: see lent */
  int32_t n_lent, lent_room, listens; /* listens: on_cancel was called */
  /* others than its kernel: PF_ROLE_RECEIVES, PF_ROLE_CALLS or PF_ROLE_SENDS; else 0 */
  int32_t ended_by;
  pf_lent *lent;
  pf_lent lent_inline[6];
  char *message;
  int32_t code, pad_code;   /* the status that came with `message`: it is what failed first */
  int64_t iter;             /* iteration path of the loops around this call */
  const pf_frame_def *loop; /* the innermost one that runs inline */
  /* the last that a kernel with a role asked for, kept by what it was lent; `at_of`: whose
   * node's call */
  pf_resource *at;
  const pf_node_info *at_of;
  /* asynchronous */
  struct pf_call *moved;   /* stack call: where defer moved it */
  int32_t state, dead_out; /* state: PF_CALL_* */
  pf_a32 refs;             /* compute's return and done */
  pf_status status;
  uint64_t ticket;
  int64_t since_ns;          /* when it deferred */
  void (*cancel_fn)(void *); /* step->lock */
  void *cancel_arg;
  struct pf_call *next_cancel, *prev_cancel;
  /* init only */
  const DLTensor *const *constants;
  uint8_t *dropped;
  pf_digest *const *digests; /* of the constants; zero: not known yet */
  /* traced steps only (trace.pyx) */
  int64_t t_ready, t_start, t_done, turn;
  pf_trace_mark *mark;
  int32_t recorded;
  struct pf_held_inputs *held; /* inspected steps only (inspect.pyx) */
  int32_t awaited;             /* likewise: nobody waits for it any longer */
} pf_call;
static inline int pf_is_deferred(const pf_call *c) { return c->state != PF_CALL_RUNNING; }
static inline void pf_call_go(pf_call *c, int32_t from, int32_t to) {
  pf_state_check(c->state == from, "a call", c->state, to);
  c->state = to;
}

/* Work a device does meanwhile: a copy, or a wait for a stream.  While it lasts it counts as a
 * block of the root slab; its end comes on the device's thread, which only injects it; a worker
 * then gives back what it kept and calls `then`. */
enum { PF_JOB_PENDING, PF_JOB_INJECTED, PF_JOB_OVER }; /* pf_job.state; jobs.pyx has the diagram */
typedef struct pf_job {
  pf_item item;                /* first: what the pool sees */
  pf_device_entry *dev, *peer; /* events[1] is peer's, or dev's if that is NULL */
  void *events[2];
  pf_tensor *keep[2];
  pf_status status;
  int32_t i, state;
  pf_call *call;
  uint64_t ticket;
  void (*then)(struct pf_job *job, pf_status s);
  pf_status (*fn)(pf_ctx *, void *);
  void *arg;
} pf_job;
static inline void pf_job_go(pf_job *job, int32_t from, int32_t to) {
  pf_state_check(job->state == from, "a job", job->state, to);
  job->state = to;
}

/* How a step is run.  All zero is how it is run usually. */
typedef struct {
  int64_t timeout_ns; /* 0: none */
  /* called on the thread of who waits now and then; nonzero cancels with PF_CANCELLED */
  int32_t (*poll)(void *arg);
  void *poll_arg;
  pf_rendezvous *rendezvous;  /* NULL: a private one when needed, or that of `key` */
  pf_trace *trace;            /* NULL, or where the step's records go */
  struct pf_inspect *inspect; /* NULL, or how its kernels are looked at */
  uint64_t stream;            /* of its random numbers; 0: the State's */
  /* of steps that the caller runs: */
  pf_step **running; /* NULL, or set while the step runs (under running_lock), for pf_step_cancel */
  pthread_mutex_t *running_lock;
  int64_t *kernels; /* NULL, or receives the number of kernels executed */
  /* of steps that are begun: */
  /* NULL, or the step is one of this task's, by `key`; it has to live until `done` */
  pf_task *task;
  pf_step_key key;
  struct pf_step *within; /* NULL, or the step that waits for this one: its caller works for both */
  /* 1: what is ready at once runs on the starter's thread; only where plan/cost.pyx bounds it */
  int32_t here;
  /* 1: no thread is woken: who started it goes on with pf_started_help or pf_started_wake */
  int32_t quiet;
} pf_run_options;
/* What is asked for of a step and its peers, before any of their blocks runs (step.pyx). */
void pf_step_given(pf_step *leader, const pf_run_options *options);
void pf_step_announce(const pf_run_options *options, pf_step *s); /* NULL: it is over */
/* Runs one step on the calling thread and the pool.  Takes args (also on failure).  rets: n_rets
 * new references, valid on OK. */
pf_status pf_step_run(pf_plan *plan, pf_tensor **take_args, pf_tensor **rets,
                      const pf_run_options *options, pf_error *err);
/* Runs the n plans of one step side by side: one rendezvous, one error, one deadline.  args and
 * rets: plan after plan. */
pf_status pf_parts_run(pf_plan **plans, int32_t n, pf_tensor **take_args, pf_tensor **rets,
                       const pf_run_options *options, pf_error *err);

/* Steps without a caller's thread (start.pyx) */
typedef void (*pf_started_fn)(void *arg, pf_status s, const pf_error *err, pf_tensor **take_rets);
/* whoever may want to cancel one; outlives the step */
typedef struct pf_started {
  pf_a32 refs, asked; /* asked: it is in the keeper's queue, or was */
  /* over: `done` has returned; nudge: 1 + a descriptor to write to, of who helps and sleeps */
  pf_a32 over, nudge;
  pf_step *step; /* watch.pyx's lock; NULL: it is over */
  pf_started_fn done;
  void *arg;
  pf_member member; /* where the step is in a task's table */
  pf_status why;
  const char *message;
  struct pf_started *next; /* from here on the keeper's, with its lock */
  pf_error *cause;         /* NULL: cancelled, for `why` */
  int32_t queued;
  struct pf_started *below, *beside, *before;
  int64_t when_ns;
  pf_a32 waits; /* it is among those with a time */
} pf_started;
/* Begins a step of n plans (one pool) and returns.  Takes args, also on failure.  `done` is
 * called once, by a thread of the pool or before this returns, when every partition is over: on
 * PF_OK it takes the plans' results, plan after plan; else `err` says why.  The plans and their
 * pool have to live until then.  *out (NULL: not wanted): a new reference, or NULL where the
 * step is over already.  Failure (`done` is not called): out of memory. */
pf_status pf_step_start(pf_plan **plans, int32_t n, pf_tensor **take_args,
                        const pf_run_options *options, pf_started_fn done, void *arg,
                        pf_started **out, pf_error *err);
/* help.pyx: who waits for such a step works for it, and for steps within it, on this thread.
 * Where there is nothing to do, `idle` waits: until `enough(self)`, something can be read of
 * `nudge`, or the time; 0: it cannot now, the host waits by itself, as it does without `how`.
 * `leave`: the helper goes, whatever there is to do.  1: it is over. */
typedef struct {
  int32_t nudge, pad;
  int64_t until_ns;
  int32_t (*enough)(void *self);
  void *self;
} pf_lull;
typedef struct {
  int32_t (*leave)(void *arg);
  int32_t (*idle)(void *arg, const pf_lull *lull);
  void *arg;
} pf_helper;
int32_t pf_started_help(pf_started *h, const pf_helper *how, int64_t until_ns);
void pf_started_wake(pf_started *h);  /* a quiet one: the pool's threads take it */
void pf_started_nudge(pf_started *h); /* there is something for who helps */
/* 1: this thread, which receives for the item's step, will run it */
int32_t pf_help_take(struct pf_item *item);
/* its roots and what is ready at once, on this thread; the rest in the pool */
void pf_step_here(pf_step *leader);
/* what this thread is from now on; what it was */
struct pf_worker *pf_pool_be(struct pf_worker *w);
/* 1: it may run at once on this thread, by pf_step_run; then pf_start_leave */
int32_t pf_start_enter(pf_plan *plan);
void pf_start_leave(void);
/* soon, by the keeper; any thread, under any lock */
void pf_started_cancel(pf_started *h, pf_status why, const char *message);
/* likewise: a cause is heard after a derived one */
void pf_started_fail(pf_started *h, const pf_error *why);
void pf_started_unref(pf_started *h);
void pf_started_over(pf_step *leader); /* the last block of such a step is done */
/* keeper.pyx: then, or earlier if that was asked for */
void pf_keeper_poll_at(pf_started *h, int64_t when_ns);
void pf_keeper_forget(pf_started *h);
void pf_keeper_stop(void); /* the host ends */
/* parts.pyx, for both ways to run a step */
pf_step *pf_parts_link(pf_plan **plans, int32_t n, pf_tensor **take_args);
int32_t pf_parts_share_rendezvous(pf_step *leader);
/* how many have anything to run: what is left of the step */
int32_t pf_parts_busy(pf_step *leader);
void pf_parts_read_late(pf_step *leader);
/* results; each goes back to its plan */
void pf_parts_part(pf_step *leader, pf_status s, pf_tensor **rets);
void pf_step_begin_root(pf_step *s, struct pf_worker *w);
/* its random numbers, from now on; no memory fails the step */
void pf_step_draw_from(pf_step *s, uint64_t stream);

/* between step.pyx and parts.pyx; NULL: out of memory */
pf_step *pf_step_take(pf_plan *plan, pf_tensor **take_args);
void pf_step_work(pf_step *leader, struct pf_worker *w); /* until every partition is over */
/* a plan of one synchronous block, on this thread; then pf_started_over */
void pf_step_alone(pf_step *s);
void pf_step_read_late(pf_step *s); /* fetches of variables that the step updated */
/* results and leftovers; s is the plan's again */
void pf_step_finish(pf_step *s, pf_status st, pf_tensor **rets);
void pf_step_cancel(pf_step *s, pf_status why, const char *message);
void pf_step_fail_as(pf_step *s, const pf_error *why);
void pf_step_fail(pf_step *s, const pf_node_info *node, pf_status code, const char *message);
__attribute__((format(printf, 4, 5))) static inline void
pf_step_failf(pf_step *s, const pf_node_info *node, pf_status code, const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  pf_step_fail(s, node, code, text);
}

/* between devices and steps (jobs.pyx) */
/* `take` goes where output i of call c belongs.  OK: there already, or in stream order; PENDING:
 * done(ticket) follows. */
pf_status pf_bring_output(pf_call *c, int32_t i, pf_tensor *take);
/* Continues with fn on a worker when the call's stream did its work so far, then ends the call;
 * c is deferred already. */
pf_status pf_after_stream(pf_call *c, pf_status (*fn)(pf_ctx *, void *), void *arg);
/* a finished job, on a worker; it may end the step */
void pf_job_run(struct pf_worker *w, pf_job *job);
void pf_step_check_devices(pf_step *s);
int32_t pf_step_drain(pf_step *s); /* 1: devices still work; the last job ends the step */

/* steps that can last (watch.pyx) */
/* the host ends: no watched step runs any more, now and later; 0: one does not end */
int32_t pf_watch_stop(int64_t patience_ns);
void pf_watch_begin(pf_step *s);
void pf_watch_end(pf_step *s);
pf_step *pf_watch_pin(pf_step **where); /* what is there, pinned; NULL: nothing is */
void pf_watch_unpin(pf_step *s);
int32_t pf_watch_cancel(pf_state *state, pf_status why, const char *message);
int64_t pf_watch_report(char *text, int64_t room);
void pf_watch_glance(pf_task *task, pf_glance *g); /* the task's watched steps */
/* waiting.pyx: of one, watch.pyx's lock held */
void pf_step_glance(pf_step *leader, pf_step_key key, pf_glance *g);

/* extents.pyx */
/* itself, or a copy on the heap if it lies in an extent; NULL */
pf_tensor *pf_tensor_settled(pf_tensor *take);
void pf_step_extent(pf_step *s); /* when the step begins, and when it is over */
void pf_step_extent_over(pf_step *s);
/* NULL: the heap shall serve */
pf_tensor *pf_step_output(pf_call *c, int32_t i, const int64_t *shape, int32_t ndim);
void *pf_step_scratch(pf_call *c, uint64_t bytes, int64_t *pages); /* NULL: the heap shall serve */
void pf_step_scratch_over(pf_call *c, void *p, int64_t pages);

/* between exec.pyx (instructions, blocks), frames.pyx (loops), step.pyx (steps, calls) and
 * host.pyx */
enum { PF_RUN_OK = 0, PF_RUN_STOP = 1, PF_RUN_PENDING = 2 };
int32_t pf_run_range(pf_call *c, uint32_t begin, uint32_t end);
int32_t pf_run_block(struct pf_worker *w, pf_item *item);
int32_t pf_run_loop(pf_call *c, const pf_instr *ins); /* an inlined loop, whole */
int32_t pf_start_frame(pf_call *c, const pf_instr *ins);
void pf_frame_next(struct pf_worker *w, pf_slab *s, uint32_t var, DLTensor *take);
void pf_frame_slab_over(struct pf_worker *w, pf_slab *s);
void pf_block_done(struct pf_worker *w, pf_slab *s, uint32_t block);
/* 1: the slab is over */
int32_t pf_block_count_down(struct pf_worker *w, pf_slab *s, uint32_t block);
void pf_make_ready(struct pf_worker *w, pf_item *item);
/* what is ready for w alone may run elsewhere, before something long */
void pf_share_ready(struct pf_worker *w);
void pf_release_inputs(pf_slab *s, const pf_instr *ins);
/* moved if this is the last read, else one more reference */
DLTensor *pf_take_input(pf_slab *s, uint32_t entry);
pf_status pf_slab_allocate(pf_slab *s, pf_plan *plan, const pf_frame_def *def);
void pf_slab_reset(pf_slab *s);                /* counts and block counters; slots stay */
void pf_slab_sweep(pf_slab *s, pf_plan *plan); /* releases what an aborted step left */
void pf_slab_release(pf_slab *s);
void pf_frame_free(pf_frame *f);
int32_t pf_step_poll(pf_step *s); /* the caller's thread: signals and deadline; 1: cancelled */
/* by the keeper (a step without a caller); when again, 0: it need not */
int64_t pf_step_poll_kept(pf_step *s);
int32_t pf_call_looks(pf_call *c); /* any thread, from within c's kernel: the same; 1: cancelled */
void pf_call_late(pf_call *c); /* c's kernel is back: fails the step if its deadline has passed */
pf_status pf_call_fail(pf_call *c, pf_status s); /* reports a kernel's failure to the step */
/* compute of an asynchronous kernel came back */
int32_t pf_async_returned(pf_call *c, pf_status s);
void pf_call_forget(pf_call *c); /* leaves the step's list of deferred calls */
/* completes a deferred call and frees it */
int32_t pf_call_finish(struct pf_worker *w, pf_call *c);
/* *t is where c's node reads it; else given back */
pf_status pf_same_memory(pf_call *c, pf_variable *v, pf_tensor **t);
/* what a variable's handle names now, a new reference; NULL: nothing */
pf_tensor *pf_value_of(pf_tensor *handle);
/* the variable's value, a new reference */
pf_status pf_deref(pf_call *c, DLTensor *handle, pf_tensor **out);

void pf_call_init(pf_call *c, pf_step *step, struct pf_worker *w);
void pf_call_cleanup(pf_call *c); /* unlock, release what was lent, free the message */
/* what a kernel that does not listen to cancellation has to call done */
static const int64_t PF_GRACE_NS = 3000000000;
void pf_abandon_calls(pf_step *s); /* ends calls of kernels that never do */
pf_status pf_call_lend(pf_call *c, int32_t kind, void *p);
pf_call *pf_ticket_new(pf_call *c, uint64_t *ticket); /* registers a deferred copy of c */
int32_t pf_checked_build(void);                       /* PF_CHECKS of the core */
pf_call *pf_ticket_take(uint64_t ticket);             /* removes it; NULL: late or unknown */
/* only where nobody but `done` keeps it from completing */
pf_call *pf_ticket_take_idle(uint64_t ticket);
/* one more reference: the call, and its step, stay until pf_ticket_drop */
pf_call *pf_ticket_hold(uint64_t ticket);
void pf_ticket_drop(pf_call *c); /* whoever drops the last reference completes the call */
/* without a reference: for who keeps `done` out by other means */
pf_call *pf_ticket_peek(uint64_t ticket);
/* tests of -Dchecks: called where a reader gave up its use of a tensor it passes on */
void pf_after_giving_up_use(void (*fn)(void));
static inline void pf_gave_up_use(void (*fn)(void)) {
  if (PF_CHECKS && fn) fn();
}
/* tests: called wherever a call was found by its ticket; NULL: not */
void pf_between_ticket_and_use(void (*fn)(uint64_t));
/* the second of {compute returned, done} completes the call */
void pf_call_done(pf_call *c, pf_status s);
void pf_step_own(pf_step *s, pf_resource *take); /* freed when the step ends */
/* new reference, by step id, while it runs; NULL: why */
pf_rendezvous *pf_running_rendezvous(int64_t step, pf_task **task, pf_status *why);
int64_t pf_last_step(void);                    /* the highest step id given out so far */
pf_task *pf_step_task(pf_step *s);             /* whose step it is; not counted */
pf_rendezvous *pf_step_rendezvous(pf_step *s); /* made on first use; NULL: out of memory */
void pf_files_set(const pf_files *files);      /* who serves "pyflow.files/1"; NULL: nobody */
/* where plugins' messages go; NULL: stderr */
void pf_set_log(void (*fn)(int32_t level, const char *msg, int64_t n));
/* Identity-like kernels that need no instruction of their own */
extern const pf_plugin *pf_core_plugin(void);

/* --------------------------------------------------------- other plugins' kernels (foreign.pyx) */
pf_status pf_foreign_run(pf_call *c);
pf_status pf_compare_outputs(pf_call *c); /* of a node with `promised` */

/* ---------------------------------------------------------------- pool */
enum { PF_MAX_LANES = 96 };
typedef struct pf_heap {
  pf_item **items;
  int32_t n, room;
} pf_heap; /* least order first */
/* stealable items of one thread */
typedef struct pf_lane {
  pf_a32 lock;
  pf_a32 n;
  pf_heap heap;
  char pad[64];
} pf_lane;
typedef struct pf_post {
  struct pf_post *next;
  void (*fn)(void *);
  void *arg;
} pf_post;
/* one parallel_for in progress */
typedef struct pf_loop {
  void (*fn)(void *arg, int64_t lo, int64_t hi, int32_t worker);
  void *arg;
  int64_t n, chunk;
  pf_a64 next;
  pf_a32 inside; /* helpers working on it */
  pf_a32 joined; /* worker indices given out */
  int32_t whole; /* runs to its end though the step is cancelled */
  int32_t polls; /* its step's caller, where it joins, looks at signals and the deadline */
  pf_step *step;
  /* of the thread that runs the kernel, if that is another plugin's: its helpers' too */
  pf_blame *blame;
  struct pf_loop *next_loop;
} pf_loop;
typedef struct pf_worker {
  struct pf_pool *pool;
  pf_lane *lane;
  pf_step *step; /* callers: the only step this thread works on; NULL: a pool thread */
  pf_heap ready; /* private */
  int32_t id;
  uint32_t turns; /* items taken so far: see pf_pool_longest_waiting */
  int64_t kernels;
  struct pf_worker *outer; /* callers, helpers: what this thread was before (pf_pool_here) */
  const pf_step *helps;    /* helpers (step NULL): the step that this thread works on ... */
  int64_t helps_id;        /* ... as long as it has this id */
  /* helpers: what ends an asynchronous call of the step on this thread is for it to go on with */
  int32_t receives, pad_receives;
  uint64_t schedule; /* callers: state of the seeded order (schedule.pyx); 0: construction order */
  pthread_t thread;
} pf_worker;
typedef struct pf_pool {
  pf_a32 refs;
  int32_t n; /* threads, the caller's included */
  int32_t fork_gen;
  pf_a32 started; /* written under lock */
  pthread_mutex_t lock;
  pthread_cond_t cond;
  pf_lane *lanes; /* PF_MAX_LANES; workers own 1..n-1, callers take a free one */
  pf_a32 *lane_taken;
  pf_worker *workers;
  /* lock: a pool of one thread has a thread of its own, for steps without a caller */
  int32_t steward, pad_steward;
  pf_item *inject; /* lock: completed asynchronous items */
  pf_a32 n_inject;
  pf_loop *loops;              /* lock */
  pf_a32 n_loops;              /* with chunks left */
  pf_post *posts, *posts_tail; /* lock */
  pf_a32 n_posts;
  pf_post *slow, *slow_tail; /* lock: the BLOCKING lane */
  pthread_cond_t slow_cond;
  int32_t slow_threads, slow_idle, slow_queued, slow_watched;
  uint32_t slow_done, pad_slow; /* posts of it that are over */
  pf_a32 idle;                  /* pool threads asleep */
  pf_a32 lanes_used;            /* lanes from here on were never taken */
  int64_t spin_ns;              /* how long who finds nothing looks before it sleeps, at most */
  pf_a32 waiting_callers;
  pf_a32 stop;
  /* PYFLOW_SCHEDULE: one thread, which takes what is ready in an order drawn from `seed` */
  int32_t seeded;
  uint64_t seed;
  pf_a64 seeded_steps;
} pf_pool;
pf_pool *pf_pool_new(int32_t threads);
/* starts threads on first use and after fork; gives a lane */
void pf_pool_begin(pf_pool *p, pf_worker *caller, pf_step *s);
void pf_pool_end(pf_worker *caller);
/* its threads run; alone: for a step that no caller works for */
void pf_pool_open(pf_pool *p, int32_t alone);
pf_worker *pf_pool_here(void); /* what this thread is now; NULL: none of a pool's */
void pf_pool_publish(pf_worker *w, pf_item *item); /* stealable from now on; wakes somebody */
void pf_pool_inject(pf_pool *p, pf_item *item);    /* from a foreign thread */
void pf_pool_lay(pf_pool *p, pf_item *item);       /* the same, but nobody is woken ... */
void pf_pool_wake(pf_pool *p);                     /* ... before this */
/* something that w may work on was injected */
int32_t pf_pool_has_for(pf_pool *p, const pf_worker *w);
void pf_pool_wake_caller(pf_step *s); /* from a kernel of the step: s has something to be told of */
/* an injected pf_job that only gives back and ends a call; NULL */
pf_item *pf_pool_take_job(pf_pool *p);
/* between pool.pyx, parallel.pyx (loops) and schedule.pyx (seeded orders) */
void pf_pool_tell_caller(pf_pool *p, pf_step *s);   /* lock held */
pf_item *pf_pool_take_injected(const pf_worker *w); /* that w may work on; NULL */
/* one with chunks left; lock held; NULL */
pf_loop *pf_pool_open_loop(pf_pool *p, pf_worker *caller);
/* helps with a loop; 0: there is none.  caller: NULL for pool threads */
int pf_pool_join(pf_pool *p, pf_worker *caller);
uint64_t pf_schedule_begin(pf_pool *p); /* the state of the next step's order */
/* seeded pools: the next item; NULL: nothing is ready or under way */
pf_item *pf_schedule_next(pf_worker *w);
pf_item *pf_pool_longest_waiting(pf_worker *w); /* before any other look for work; mostly NULL */
pf_item *pf_pool_find(pf_worker *w); /* own lane, injector, other lanes; callers: own step's only */
/* callers: until an item, a post, the end of the step, or the time; meanwhile it helps with the
 * step's loops */
void pf_pool_wait(pf_worker *caller, int64_t until_ns);
void pf_pool_step_over(pf_step *s); /* the step is done: wakes its caller */
/* how: pf_for_how */
pf_status pf_pool_for(pf_pool *p, pf_step *s, int32_t how, int64_t n, int64_t grain,
                      void (*fn)(void *, int64_t, int64_t, int32_t), void *arg);
pf_status pf_pool_post(pf_pool *p, int32_t lane, void (*fn)(void *), void *arg);
void pf_pool_post_caller(pf_step *s, pf_post *take);
pf_pool *pf_default_pool(void);
/* exec.pyx: one block and whatever became ready privately */
void pf_run_item(pf_worker *w, pf_item *item);

/* How a call's parallel_for runs.  POLLS: on the thread that called run, it looks at signals and
 * the deadline; not with a variable locked, for signal handlers are Python and may run steps.
 * UNLOCKED: so does that thread where it joins a loop that runs elsewhere.  WHOLE: it updates a
 * variable, and does not stop halfway.  BLAMED: another plugin's, helpers say so too. */
enum { PF_FOR_POLLS = 1, PF_FOR_WHOLE = 2, PF_FOR_UNLOCKED = 4, PF_FOR_BLAMED = 8 };
static inline int32_t pf_for_how(const pf_call *c) {
  int32_t how = pf_is_deferred(c) ? 0 : PF_FOR_UNLOCKED;
  if (how && c->worker && (c->worker->step || c->worker->helps)) how |= PF_FOR_POLLS;
  for (int32_t k = 0; k < c->n_lent; k++)
    if (pf_lent_kind(c->lent + k) == PF_LENT_LOCK)
      how = pf_lent_number(c->lent + k) != PF_VAR_READ ? PF_FOR_WHOLE : how & PF_FOR_WHOLE;
  return c->node && c->node->foreign ? how | PF_FOR_BLAMED : how;
}
/* The last reader of a value clears its slot while a control reader elsewhere looks whether it
 * is dead. */
static inline DLTensor *pf_slot_peek(DLTensor **slot) {
  return __atomic_load_n(slot, __ATOMIC_RELAXED);
}
static inline void pf_slot_clear(DLTensor **slot) {
  __atomic_store_n(slot, (DLTensor *)0, __ATOMIC_RELAXED);
}
static inline void pf_share(pf_step *s) {
  if (!pf_a32_load_rlx(&s->shared)) pf_a32_store_rlx(&s->shared, 1);
}
static inline int pf_heap_push(pf_heap *h, pf_item *it) {
  if (h->n == h->room) {
    int32_t room = h->room ? h->room * 2 : 64;
    pf_item **p = (pf_item **)realloc(h->items, sizeof(*p) * (size_t)room);
    if (!p) return 0;
    h->items = p;
    h->room = room;
  }
  int32_t i = h->n++;
  while (i > 0) {
    int32_t up = (i - 1) / 2;
    if (h->items[up]->order <= it->order) break;
    h->items[i] = h->items[up];
    i = up;
  }
  h->items[i] = it;
  return 1;
}
static inline pf_item *pf_heap_take(pf_heap *h, int32_t i) { /* removes position i */
  pf_item *out = h->items[i], *last = h->items[--h->n];
  if (i == h->n) return out;
  while (i > 0 && h->items[(i - 1) / 2]->order > last->order) {
    h->items[i] = h->items[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  for (;;) {
    int32_t k = 2 * i + 1;
    if (k >= h->n) break;
    if (k + 1 < h->n && h->items[k + 1]->order < h->items[k]->order) k++;
    if (h->items[k]->order >= last->order) break;
    h->items[i] = h->items[k];
    i = k;
  }
  h->items[i] = last;
  return out;
}
#endif
