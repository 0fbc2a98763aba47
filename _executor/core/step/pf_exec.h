/* Plans and steps: the structures of plan.pyx (compile), exec.pyx (run), pool.pyx (threads), host.pyx (pf_host).
 *
 * A Plan is immutable.  Its nodes became instructions in flat arrays; instructions are grouped in BLOCKS, the unit of
 * scheduling; blocks belong to FRAMES (the root, and each while loop that could not be run inline).
 *
 * Invariants
 *   1. A slot holds NULL, PF_DEAD, or a DLTensor* that is the first-class part of a pf_tensor with one reference held by the
 *      slot (constant slots, filled from the plan, hold a lent pointer and are never released).
 *   2. Inside a block instructions run in order on one thread; every input was produced earlier in the block, by a
 *      block this one waits for, or before the slab started.
 *   3. Every block of a slab runs exactly once, live, dead or cancelled; blocks_left == 0 ends the slab.
 *   4. The consumer marked PF_IN_LAST releases the slot.  A slot read by several blocks counts them in `uses`.
 *   5. A cancelled step runs no more instructions; its blocks only propagate, its slots are swept at the end.
 */
#ifndef PF_EXEC_H
#define PF_EXEC_H

#ifndef PF_CHECKS
#define PF_CHECKS 0                 /* -Dchecks=true: invariants are verified after every step */
#endif
/* The checking build writes RED_BYTE behind every plain tensor and looks at it after each kernel. */
enum { PF_RED_ZONE = PF_CHECKS ? 64 : 0, PF_RED_BYTE = 0xA5 };
static inline int pf_red_zone_ok(const pf_tensor *t) {
  const unsigned char *p = (const unsigned char *)t->m.dl_tensor.data + t->nbytes;
  if (t->flags & PF_T_WATCHED)
    for (int k = 0; k < PF_RED_ZONE; k++)
      if (p[k] != PF_RED_BYTE) return 0;
  return 1;
}
#define PF_DEAD ((DLTensor *)(uintptr_t)1)
static inline int pf_alive(const DLTensor *t) { return (uintptr_t)t > 1; }

/* ---------------------------------------------------------------- plan */
enum {
  PF_IN_LAST = (int)0x80000000u,     /* last reader inside the only reading block: release or forward */
  PF_IN_SHARED = 1 << 30,   /* last reader of this block; others read the slot too: count down slab->uses */
  PF_IN_DEREF = 1 << 29,    /* a ref (variable handle) read as a value */
  PF_IN_NOFWD = 1 << 28,    /* the instruction reads the same slot twice: not forwardable */
  PF_IN_SLOT = (1 << 28) - 1
};
enum {                      /* pf_instr.kind */
  PF_I_CALL, PF_I_CALL0, PF_I_IDENTITY, PF_I_CONST, PF_I_RETVAL, PF_I_SWITCH, PF_I_MERGE, PF_I_NEXT, PF_I_EXIT,
  PF_I_LOOP, PF_I_FRAME, PF_I_NOOP
};
enum {                      /* pf_instr.flags */
  PF_F_MAYBE_DEAD = 1, PF_F_DEREF = 2, PF_F_UNUSED_OUT = 4, PF_F_ASYNC = 8, PF_F_DEAD_OK = 16,
  PF_F_CTL_OUT = 32,        /* slot out_slot + n_out carries this node's deadness to control successors */
  PF_F_LONG = 64,           /* may take long: signals and the deadline are looked at afterwards */
  PF_F_PLACED = 128         /* some outputs have places: aux, plan->places */
};
typedef struct pf_instr {
  pf_status (*compute)(pf_ctx *, const void *);
  const void *state;
  const struct pf_call_info *info;
  const struct pf_node_info *about;
  uint32_t in_begin;        /* plan->ins: n_in data inputs, then n_ctl control slots */
  uint32_t out_slot;        /* outputs are contiguous */
  uint32_t n_in, n_out, n_ctl;
  uint32_t aux;             /* CALL: its first place; RETVAL: index; CONST: constant; NEXT: loop variable; EXIT: outer slot; LOOP, FRAME: frame */
  uint32_t node;            /* plan->nodes */
  uint8_t kind, flags;
  uint16_t aux2;            /* NEXT, EXIT: 1 in slabs; EXIT: 2 nobody reads it; RETVAL: 1 read when the step is over;
                             * CALL: 1 outputs that are an input's buffer name its variable */
} pf_instr;
_Static_assert(sizeof(void *) != 8 || sizeof(pf_instr) == 64, "an instruction is one cache line");

typedef struct pf_call_info {       /* copied into pf_ctx when it changes; equal ones are shared between nodes */
  const int32_t *in_type, *out_type;
  int32_t n_in, n_out;
  const int32_t *in_start, *out_start;
  int32_t n_in_args, n_out_args;
  void *opened, *stream;    /* the device */
} pf_call_info;
_Static_assert(sizeof(pf_call_info) == offsetof(pf_ctx, stream) + sizeof(void *) - offsetof(pf_ctx, in_type),
               "pf_call_info is pf_ctx from in_type to stream");

typedef struct pf_node_info {
  const pf_call_info *call;
  pf_str name, op, device;
  const uint8_t *dropped;   /* inputs the kernel dropped at init; NULL: none */
  const uint32_t *holds;    /* per input: the types (1 << type) a variable behind it may have; NULL: no ref, no resource */
  const pf_op_def *def;
  const pf_kernel_entry *kernel;
  pf_device_entry *dev;
  pf_device_entry *home;    /* dev, if it has memory of its own; NULL: host memory */
  const uint8_t *out_mem;   /* home only: per output, 1 in the device's memory, 0 on the host */
  int32_t waits, foreign;   /* waits: it leaves host-memory outputs to its stream: the call ends when that did them; foreign: its
                             * kernel is another plugin's (foreign.pyx) */
  const pf_shape *promised; /* foreign only: per output, the static shape the graph was built with; NULL: none is known */
  void *state;
  uint64_t seed, seed2;
  pf_str container, shared_name;
  int32_t frame, origin;
  int32_t any_shape, pad2;  /* validate_shape = false: what it assigns need not fit the variable's declared shape */
} pf_node_info;

enum { PF_B_EXPENSIVE = 1, PF_B_ASYNC = 2, PF_B_URGENT = 4, PF_B_EVENT = 8 /* a loop variable's arrival: no instructions */ };
typedef struct pf_block {
  uint32_t begin, end;      /* instructions */
  int32_t pending;          /* predecessors in the same frame */
  uint32_t succ_begin, succ_end;    /* plan->succs: block indices relative to the frame */
  uint32_t order;           /* construction order: lower runs first */
  uint32_t flags;
  uint32_t next_start;      /* 1 + a block that waits until this one's compute has returned (collectives); 0: none */
} pf_block;

typedef struct {
  uint32_t enter_slot, merge_slot, next_slot, index_slot;  /* index_slot: value_index, or ~0 */
  int32_t event, take;      /* event: block of its arrival (slabs); take: nobody else reads enter_slot */
} pf_loop_var;
typedef struct { uint32_t outer, inner; } pf_slot_pair;
typedef struct pf_frame_def {
  int32_t parent, inlined, parallel, n_vars, n_consts, n_exits;
  pf_str name;
  pf_loop_var *vars;
  pf_slot_pair *consts;     /* constant Enters of a frame that runs in slabs: outer slot -> inner slot */
  uint32_t *exits;          /* outer slots */
  uint32_t body_begin, body_end;    /* inlined: instructions */
  uint32_t block_begin, n_blocks, n_slots, n_uses;
  uint32_t *roots; uint32_t n_roots, slot_base;      /* slot_base: where its slots lie in slot_use */
  uint32_t *use_counts;     /* initial uses, n_uses */
} pf_frame_def;

#define PF_SLOT_UNUSED 0xffffffffu  /* nobody reads it */
#define PF_SLOT_LENT 0xfffffffeu    /* holds a pointer the slot does not own */
typedef struct { uint32_t slot; int32_t pad; DLTensor *tensor; } pf_const_slot;

struct pf_place;
struct pf_extent;
typedef struct pf_plan {
  pf_a32 refs;
  pf_a32 lock;              /* guards free_steps */
  pf_graph *graph;
  pf_arena arena;
  pf_state *state;
  struct pf_pool *pool;
  uint32_t n_nodes, n_instrs, n_blocks, n_frames, n_ins, n_consts, n_args, n_rets, max_in, n_const_tensors;
  pf_node_info *nodes;
  pf_instr *instrs;
  pf_block *blocks;
  pf_frame_def *frames;     /* frames[0]: the root */
  uint32_t *ins, *succs;
  uint32_t *slot_use;       /* frames' slots laid end to end: index into uses + 1; 0: one reading block; or the two below */
  pf_const_slot *consts;    /* root slots filled before every step */
  pf_tensor **const_tensors;
  uint32_t *arg_slot;       /* n_args; ~0: the argument is not used */
  int32_t *arg_type;
  pf_shape *arg_shape;
  pf_str *arg_name;
  int32_t *ret_type;
  int32_t n_groups, n_grouped;      /* compiled groups, and the nodes in them */
  struct pf_place *places;  /* what was decided for each output (pf_buffers.h) */
  int64_t planned_bytes, planned_sum, planned_least;    /* the extent; all its buffers; the most alive at once */
  struct pf_step *free_steps;
  pf_a64 steps_run, kernels_run;
  int32_t solo, has_async, n_frames_in_slabs, n_devices, watched;
  int32_t late_rets;        /* some fetches are read when the step is over (reads.pyx) */
  pf_device_entry **devices;        /* those with memory or streams of their own */
} pf_plan;

typedef struct {
  int32_t threads;          /* 1: expensive nodes join blocks, every synchronous loop runs inline */
  int32_t no_inline;        /* loops always run in slabs (tests) */
  int32_t no_blocks;        /* every node its own block (tests) */
  int32_t groups;           /* 0: plugins may compile groups of nodes; 1: only into deterministic kernels; 2: none */
  int32_t ordered;          /* strictly in construction order, an iteration after the other (debugging) */
} pf_plan_options;
typedef struct { pf_str name; pf_tensor *tensor; } pf_named_tensor;

/* Takes the graph (also on failure); refs state and pool.  `consts` give the values of Const nodes by name. */
pf_status pf_plan_compile(pf_graph *take, const pf_named_tensor *consts, int32_t n_consts, pf_state *state,
                          struct pf_pool *pool, const pf_plan_options *options, pf_plan **out, pf_error *err);
void pf_plan_ref(pf_plan *p);
void pf_plan_unref(pf_plan *p);

/* ---------------------------------------------------------------- step */
enum { PF_BLOCK_RUNNING = -1, PF_BLOCK_DONE = -2 };     /* pf_item.pending, once it was 0; for reports only */
#define PF_JOB_BLOCK 0xffffffffu    /* pf_item.block of a pf_job */
typedef struct pf_item {            /* one block of one slab */
  pf_a32 pending;
  uint32_t block;                   /* absolute */
  uint32_t order;
  uint32_t ready;                   /* traced steps: when it became ready (pf_ready_stamp) */
  struct pf_slab *slab;
  struct pf_item *next;             /* injector list */
  struct pf_call *call;             /* a finished asynchronous call to be completed by whoever takes the item */
} pf_item;

typedef struct pf_slab {            /* one iteration of a frame, or the root */
  struct pf_step *step;
  const pf_frame_def *def;
  struct pf_frame *frame;           /* NULL: root */
  int64_t iter, path;               /* path: unique over nested loops */
  pf_a32 blocks_left;
  int32_t status;                   /* frame lock: 0 free, 1 active, 2 all blocks ran */
  pf_item *items;
  DLTensor **slots;
  pf_a32 *uses;
  DLTensor **next;                  /* frame lock: per loop variable, a token for the next iteration; NULL: none yet */
  uint8_t *arrived;                 /* frame lock: this slab's loop variables that have arrived */
} pf_slab;

typedef struct pf_frame {           /* one instance of a loop that runs in slabs */
  struct pf_step *step;
  const pf_frame_def *def;
  pf_slab *parent;
  pf_item *item;                    /* the FRAME block in the parent */
  pthread_mutex_t lock;
  int64_t oldest, newest;           /* active iterations: oldest..newest */
  int64_t t_start;                  /* traced steps */
  int32_t n_ring, pad;
  pf_slab *ring;
  struct pf_frame *next_free, *next_all;
} pf_frame;

typedef struct pf_step {
  pf_plan *plan;
  struct pf_pool *pool;
  struct pf_trace *trace;           /* NULL: not traced; the caller's */
  struct pf_inspect *inspect;       /* NULL: not inspected (pf_inspect.h); the caller's */
  int64_t id;
  pf_slab root;
  DLTensor **rets;                  /* n_rets; taken by the caller */
  struct pf_extent *extent;         /* memory of placed outputs; NULL: none */
  pf_a32 cancelled;
  pf_a32 done;
  pf_a32 shared;                    /* other threads may work on this step; 0 -> 1 by the only one that does, before it publishes */
  pf_a32 caller_waits;
  pthread_mutex_t lock;             /* guards error, cancels, frames, posts */
  pthread_cond_t cond;              /* the caller sleeps here, with pool->lock */
  pf_error error;
  struct pf_call *deferred;         /* calls that await their done (lock) */
  struct pf_call *told_up_to;       /* cancelling: the next of them to tell (lock) */
  struct pf_post *posts;            /* work for the caller's own thread (pool->lock) */
  pf_a32 n_posts;                   /* written under the same lock, read without */
  pf_resource **owned;              /* step-scoped resources (lock) */
  int32_t n_owned, owned_room;
  pf_frame **free_frames;           /* per frame definition (lock) */
  pf_frame *all_frames;
  pf_rendezvous *rendezvous;
  pf_a64 kernels;
  int64_t deadline_ns;              /* written before the step begins */
  int64_t next_poll_ns, give_up_ns; /* the caller's thread */
  pf_a32 untold;                    /* cancelled from within a kernel: the status that callbacks are still to be told of */
  uint32_t trace_step, pad_trace;   /* this step's number in `trace` */
  int32_t (*poll)(void *arg);       /* caller's thread only; nonzero: cancel */
  void *poll_arg;
  pthread_t caller;                 /* where `poll` is set */
  int64_t began_ns;                 /* of a watched step */
  int32_t pins, pad2;               /* with the two links: watch.pyx's lock */
  struct pf_step *next_running, *prev_running;
  int32_t drained, pad;             /* the devices' streams were told to report (the last block's worker) */
  struct pf_step *next_free;
  /* parts.pyx: the partitions of one step run side by side; the first leads, and one caller works for all */
  struct pf_step *leader;           /* itself where the step is one plan */
  struct pf_step *home;             /* leaders: whose caller runs this step's items: itself, or of a step started within another
                                     * the outermost (start.pyx) */
  struct pf_started *started;       /* leaders without a caller of their own */
  struct pf_step *peer;             /* the next partition; NULL: the last */
  pf_a32 parts_left;                /* leader of several: partitions that are not over */
  pf_a32 jobs, jobs_made;           /* seeded pools: jobs of devices under way; so far */
} pf_step;

typedef struct pf_lent { int32_t kind, pad; void *p; } pf_lent;   /* 0 tensor, 1 object, 2 scratch memory, 3 locked variable,
                                                                   * 4 scratch pages of the step's extent (kind >> 8) */
typedef struct pf_call {            /* a pf_ctx and what the host keeps with it */
  pf_ctx ctx;
  pf_step *step;
  pf_slab *slab;
  pf_plan *plan;
  const pf_instr *instr;
  const pf_node_info *node;
  const pf_call_info *info;         /* what ctx holds now */
  pf_item *item;
  struct pf_worker *worker;
  DLTensor **in;                    /* what ctx.in points to */
  int32_t dirty;                    /* something lent or a message kept: see lent */
  int32_t n_lent, lent_room, listens;  /* listens: on_cancel was called */
  pf_lent *lent;
  pf_lent lent_inline[6];
  char *message;
  int32_t code, pad_code;           /* the status that came with `message`: it is what failed first */
  int64_t iter;                     /* iteration path of the loops around this call */
  const pf_frame_def *loop;         /* the innermost one that runs inline */
  /* asynchronous */
  struct pf_call *moved;            /* stack call: where defer moved it */
  int32_t deferred, dead_out;
  pf_a32 refs;                      /* compute's return and done */
  pf_status status;
  uint64_t ticket;
  void (*cancel_fn)(void *);        /* step->lock */
  void *cancel_arg;
  struct pf_call *next_cancel, *prev_cancel;
  /* init only */
  const DLTensor *const *constants;
  uint8_t *dropped;
  /* traced steps only (trace.pyx) */
  int64_t t_ready, t_start, t_done, turn;
  struct pf_trace_mark *mark;
  int32_t recorded;
  struct pf_held_inputs *held;      /* inspected steps only (inspect.pyx) */
  int32_t awaited;                  /* likewise: nobody waits for it any longer */
} pf_call;

/* Work a device does meanwhile: a copy, or a wait for a stream.  While it lasts it counts as a block of the root slab; its end
 * comes on the device's thread, which only injects it; a worker then gives back what it kept and calls `then`. */
typedef struct pf_job {
  pf_item item;                     /* first: what the pool sees */
  pf_device_entry *dev, *peer;      /* events[1] is peer's, or dev's if that is NULL */
  void *events[2];
  pf_tensor *keep[2];
  pf_status status;
  int32_t i;
  pf_call *call;
  uint64_t ticket;
  void (*then)(struct pf_job *job, pf_status s);
  pf_status (*fn)(pf_ctx *, void *);
  void *arg;
} pf_job;

/* Runs one step on the calling thread and the pool.  Takes args (also on failure).  rets: n_rets new references, valid on OK. */
typedef struct {
  int64_t timeout_ns;               /* 0: none */
  int32_t (*poll)(void *arg);       /* called on the caller's thread now and then; nonzero cancels with PF_CANCELLED */
  void *poll_arg;
  pf_rendezvous *rendezvous;        /* NULL: a private one when needed */
  pf_step **running;                /* NULL, or set while the step runs (under running_lock), for pf_step_cancel */
  pthread_mutex_t *running_lock;
  int64_t *kernels;                 /* NULL, or receives the number of kernels executed */
  struct pf_trace *trace;           /* NULL, or where the step's records go (pf_trace.h) */
  struct pf_inspect *inspect;       /* NULL, or how its kernels are looked at (pf_inspect.h) */
} pf_run_options;
pf_status pf_step_run(pf_plan *plan, pf_tensor **take_args, pf_tensor **rets, const pf_run_options *options, pf_error *err);
/* Runs the n plans of one step side by side: one rendezvous, one error, one deadline.  args and rets: plan after plan. */
pf_status pf_parts_run(pf_plan **plans, int32_t n, pf_tensor **take_args, pf_tensor **rets, const pf_run_options *options,
                       pf_error *err);

/* Steps without a caller's thread (start.pyx) */
typedef void (*pf_started_fn)(void *arg, pf_status s, const pf_error *err, pf_tensor **take_rets);
typedef struct pf_started {         /* whoever may want to cancel one; outlives the step */
  pf_a32 refs, asked;               /* asked: it is in the keeper's queue, or was */
  pf_step *step;                    /* watch.pyx's lock; NULL: it is over */
  pf_started_fn done;
  void *arg;
  pf_status why;
  const char *message;
  struct pf_started *next;
} pf_started;
typedef struct {
  int64_t timeout_ns;               /* 0: none */
  pf_rendezvous *rendezvous;        /* NULL: a private one when needed */
  struct pf_trace *trace;
  struct pf_step *within;           /* NULL, or the step that waits for this one: its caller works for both */
} pf_start_options;
/* Begins a step of n plans (one pool) and returns.  Takes args, also on failure.  `done` is called once, by a thread of the
 * pool or before this returns, when every partition is over: on PF_OK it takes the plans' results, plan after plan; else `err`
 * says why.  The plans and their pool have to live until then.  *out (NULL: not wanted): a new reference, or NULL where the
 * step is over already.  Failure (`done` is not called): out of memory. */
pf_status pf_step_start(pf_plan **plans, int32_t n, pf_tensor **take_args, const pf_start_options *options, pf_started_fn done,
                        void *arg, pf_started **out, pf_error *err);
void pf_started_cancel(pf_started *h, pf_status why, const char *message);  /* soon, by the keeper; any thread, under any lock */
void pf_started_unref(pf_started *h);
void pf_started_over(pf_step *leader);              /* the last block of such a step is done */
void pf_keeper_look(void);                          /* a step without a caller has something to be told of, or a deadline */
void pf_keeper_stop(void);                          /* the host ends */
/* parts.pyx, for both ways to run a step */
pf_step *pf_parts_link(pf_plan **plans, int32_t n, pf_tensor **take_args);
int32_t pf_parts_share_rendezvous(pf_step *leader);
void pf_parts_read_late(pf_step *leader);
void pf_parts_part(pf_step *leader, pf_status s, pf_tensor **rets); /* results; each goes back to its plan */
void pf_step_begin_root(pf_step *s, struct pf_worker *w);

pf_step *pf_step_take(pf_plan *plan, pf_tensor **take_args);    /* between step.pyx and parts.pyx; NULL: out of memory */
void pf_step_work(pf_step *leader, struct pf_worker *w);        /* until every partition is over */
void pf_step_read_late(pf_step *s);                 /* fetches of variables that the step updated */
void pf_step_finish(pf_step *s, pf_status st, pf_tensor **rets);    /* results and leftovers; s is the plan's again */
void pf_step_free(pf_step *s);
void pf_step_cancel(pf_step *s, pf_status why, const char *message);
void pf_step_fail(pf_step *s, const pf_node_info *node, pf_status code, const char *message);

/* steps that can last (watch.pyx) */
int32_t pf_watch_stop(int64_t patience_ns); /* the host ends: no watched step runs any more, now and later; 0: one does not end */
void pf_watch_begin(pf_step *s);
void pf_watch_end(pf_step *s);
pf_step *pf_watch_pin(pf_step **where);             /* what is there, pinned; NULL: nothing is */
void pf_watch_unpin(pf_step *s);
int64_t pf_watch_keep(void);                        /* polls steps without a caller; when to look again, 0: nobody needs it */
int32_t pf_watch_cancel(pf_state *state, pf_status why, const char *message);
int64_t pf_watch_report(char *text, int64_t room);

/* buffers.pyx */
void pf_step_extent(pf_step *s);                    /* when the step begins, and when it is over */
void pf_step_extent_over(pf_step *s);
pf_tensor *pf_step_output(pf_call *c, int32_t i, const int64_t *shape, int32_t ndim);   /* NULL: the heap shall serve */
void *pf_step_scratch(pf_call *c, uint64_t bytes, int64_t *pages);                      /* NULL: the heap shall serve */
void pf_step_scratch_over(pf_call *c, void *p, int64_t pages);

/* between exec.pyx (instructions, blocks), frames.pyx (loops), step.pyx (steps, calls) and host.pyx */
enum { PF_RUN_OK = 0, PF_RUN_STOP = 1, PF_RUN_PENDING = 2 };
int32_t pf_run_range(pf_call *c, uint32_t begin, uint32_t end);
int32_t pf_run_block(struct pf_worker *w, pf_item *item);
int32_t pf_run_loop(pf_call *c, const pf_instr *ins);           /* an inlined loop, whole */
int32_t pf_start_frame(pf_call *c, const pf_instr *ins);
void pf_frame_next(struct pf_worker *w, pf_slab *s, uint32_t var, DLTensor *take);
void pf_frame_slab_over(struct pf_worker *w, pf_slab *s);
void pf_block_done(struct pf_worker *w, pf_slab *s, uint32_t block);
int32_t pf_block_count_down(struct pf_worker *w, pf_slab *s, uint32_t block); /* 1: the slab is over */
void pf_make_ready(struct pf_worker *w, pf_item *item);
void pf_share_ready(struct pf_worker *w); /* what is ready for w alone may run elsewhere, before something long */
void pf_release_inputs(pf_slab *s, const pf_instr *ins);
DLTensor *pf_take_input(pf_slab *s, uint32_t entry);            /* moved if this is the last read, else one more reference */
pf_status pf_slab_allocate(pf_slab *s, pf_plan *plan, const pf_frame_def *def);
void pf_slab_reset(pf_slab *s);                                 /* counts and block counters; slots stay */
void pf_slab_sweep(pf_slab *s, pf_plan *plan);                  /* releases what an aborted step left */
void pf_slab_release(pf_slab *s);
void pf_frame_free(pf_frame *f);
int32_t pf_step_poll(pf_step *s);                               /* the caller's thread: signals and deadline; 1: cancelled */
int32_t pf_call_looks(pf_call *c);                              /* any thread, from within c's kernel: the same; 1: cancelled */
void pf_call_late(pf_call *c);                                  /* c's kernel is back: fails the step if its deadline has passed */
pf_status pf_call_fail(pf_call *c, pf_status s);                /* reports a kernel's failure to the step */
int32_t pf_async_returned(pf_call *c, pf_status s);             /* compute of an asynchronous kernel came back */
void pf_call_forget(pf_call *c);                                /* leaves the step's list of deferred calls */
int32_t pf_call_finish(struct pf_worker *w, pf_call *c);        /* completes a deferred call and frees it */
pf_status pf_same_memory(pf_call *c, pf_variable *v, pf_tensor **t); /* *t is where c's node reads it; else given back */
pf_tensor *pf_value_of(pf_tensor *handle);          /* what a variable's handle names now, a new reference; NULL: nothing */
pf_status pf_deref(pf_call *c, DLTensor *handle, pf_tensor **out); /* the variable's value, a new reference */

void pf_call_init(pf_call *c, pf_step *step, struct pf_worker *w);
void pf_call_cleanup(pf_call *c);                   /* unlock, release what was lent, free the message */
static const int64_t PF_GRACE_NS = 3000000000;      /* what a kernel that does not listen to cancellation has to call done */
void pf_abandon_calls(pf_step *s);                  /* ends calls of kernels that never do */
pf_status pf_call_lend(pf_call *c, int32_t kind, void *p);
pf_call *pf_ticket_new(pf_call *c, uint64_t *ticket);   /* registers a deferred copy of c */
/* A synchronous PF_KERNEL_BLOCKING kernel of a host device: its compute runs on the BLOCKING lane. */
static inline int pf_runs_slowly(const pf_node_info *i) {
  return (i->kernel->kernel->flags & (PF_KERNEL_BLOCKING | PF_KERNEL_ASYNC)) == PF_KERNEL_BLOCKING &&
         !(i->dev && i->dev->stream);
}
pf_status pf_compute_slowly(pf_ctx *ctx, const void *state);
int32_t pf_checked_build(void);                     /* PF_CHECKS of the core */
pf_call *pf_ticket_take(uint64_t ticket);           /* removes it; NULL: late or unknown */
pf_call *pf_ticket_take_idle(uint64_t ticket);      /* only where nobody but `done` keeps it from completing */
pf_call *pf_ticket_hold(uint64_t ticket);           /* one more reference: the call, and its step, stay until pf_ticket_drop */
void pf_ticket_drop(pf_call *c);                    /* whoever drops the last reference completes the call */
pf_call *pf_ticket_peek(uint64_t ticket);           /* without a reference: for who keeps `done` out by other means */
void pf_between_ticket_and_use(void (*fn)(uint64_t)); /* tests: called wherever a call was found by its ticket; NULL: not */
void pf_call_done(pf_call *c, pf_status s);         /* the second of {compute returned, done} completes the call */
void pf_step_own(pf_step *s, pf_resource *take);    /* freed when the step ends */
pf_rendezvous *pf_running_rendezvous(int64_t step, pf_status *why); /* new reference, by step id, while it runs; NULL: why */
int64_t pf_last_step(void);                         /* the highest step id given out so far */
pf_rendezvous *pf_step_rendezvous(pf_step *s);      /* made on first use; NULL: out of memory */
const pf_host *pf_host_table(void);
void pf_set_log(void (*fn)(int32_t level, const char *msg, int64_t n)); /* where plugins' messages go; NULL: stderr */
extern const pf_plugin *pf_core_plugin(void);       /* Identity-like kernels that need no instruction of their own */

/* ---------------------------------------------------------------- other plugins' functions (foreign.pyx) */
typedef struct pf_blame {           /* what a thread runs of a plugin's; on its stack */
  const char *what, *plugin;
  pf_str node, op;
  struct pf_blame *outer;
} pf_blame;
int32_t pf_is_own(const char *plugin_id);
void pf_blame_watch(void);          /* fatal signals, and exit(), name the function that a thread was in */
void pf_blame_enter(pf_blame *b, const char *what, const char *plugin, pf_str node, pf_str op);
void pf_blame_leave(pf_blame *b);
pf_blame *pf_blame_swap(pf_blame *b);   /* this thread's from now on; what it was */
pf_blame *pf_blame_now(void);
pf_status pf_foreign_run(pf_call *c);
pf_status pf_foreign_compute(pf_ctx *ctx, const void *state);
const pf_shape *pf_promised(const pf_node *nd, int32_t n_out);
pf_status pf_compare_outputs(pf_call *c);   /* of a node with `promised` */

/* ---------------------------------------------------------------- pool */
enum { PF_MAX_LANES = 96 };
typedef struct pf_heap { pf_item **items; int32_t n, room; } pf_heap;   /* least order first */
typedef struct pf_lane {            /* stealable items of one thread */
  pf_a32 lock;
  pf_a32 n;
  pf_heap heap;
  char pad[64];
} pf_lane;
typedef struct pf_post { struct pf_post *next; void (*fn)(void *); void *arg; } pf_post;
typedef struct pf_loop {            /* one parallel_for in progress */
  void (*fn)(void *arg, int64_t lo, int64_t hi, int32_t worker);
  void *arg;
  int64_t n, chunk;
  pf_a64 next;
  pf_a32 inside;                    /* helpers working on it */
  pf_a32 joined;                    /* worker indices given out */
  int32_t whole;                    /* runs to its end though the step is cancelled */
  int32_t polls;                    /* its step's caller, where it joins, looks at signals and the deadline */
  pf_step *step;
  pf_blame *blame;                  /* of the thread that runs the kernel, if that is another plugin's: its helpers' too */
  struct pf_loop *next_loop;
} pf_loop;
typedef struct pf_worker {
  struct pf_pool *pool;
  pf_lane *lane;
  pf_step *step;                    /* callers: the only step this thread works on; NULL: a pool thread */
  pf_heap ready;                    /* private */
  int32_t id, pad;
  int64_t kernels;
  struct pf_worker *outer;          /* callers: what this thread was before (pf_pool_here) */
  uint64_t schedule;                /* callers: state of the seeded order (schedule.pxi); 0: construction order */
  pthread_t thread;
} pf_worker;
typedef struct pf_pool {
  pf_a32 refs;
  int32_t n;                        /* threads, the caller's included */
  int32_t fork_gen;
  pf_a32 started;                   /* written under lock */
  pthread_mutex_t lock;
  pthread_cond_t cond;
  pf_lane *lanes;                   /* PF_MAX_LANES; workers own 1..n-1, callers take a free one */
  pf_a32 *lane_taken;
  pf_worker *workers;
  int32_t steward, pad_steward;     /* lock: a pool of one thread has a thread of its own, for steps without a caller */
  pf_item *inject;                  /* lock: completed asynchronous items */
  pf_a32 n_inject;
  pf_loop *loops;                   /* lock */
  pf_a32 n_loops;                   /* with chunks left */
  pf_post *posts, *posts_tail;      /* lock */
  pf_a32 n_posts;
  pf_post *slow, *slow_tail;        /* lock: the BLOCKING lane */
  pthread_cond_t slow_cond;
  int32_t slow_threads, slow_idle, slow_queued, pad;
  pf_a32 idle;                      /* pool threads asleep */
  pf_a32 lanes_used;                /* lanes from here on were never taken */
  int64_t spin_ns;                  /* how long who finds nothing looks before it sleeps, at most */
  pf_a32 waiting_callers;
  pf_a32 stop;
  int32_t seeded;                   /* PYFLOW_SCHEDULE: one thread, which takes what is ready in an order drawn from `seed` */
  uint64_t seed;
  pf_a64 seeded_steps;
} pf_pool;
pf_pool *pf_pool_new(int32_t threads);
void pf_pool_ref(pf_pool *p);
void pf_pool_unref(pf_pool *p);
void pf_pool_begin(pf_pool *p, pf_worker *caller, pf_step *s);  /* starts threads on first use and after fork; gives a lane */
void pf_pool_end(pf_worker *caller);
void pf_pool_open(pf_pool *p, int32_t alone);           /* its threads run; alone: for a step that no caller works for */
pf_worker *pf_pool_here(void);                          /* what this thread is now; NULL: none of a pool's */
void pf_pool_publish(pf_worker *w, pf_item *item);      /* stealable from now on; wakes somebody */
void pf_pool_inject(pf_pool *p, pf_item *item);         /* from a foreign thread */
void pf_pool_wake_caller(pf_step *s);                   /* from a kernel of the step: s has something to be told of */
pf_item *pf_pool_take_job(pf_pool *p);                  /* an injected pf_job that only gives back and ends a call; NULL */
pf_item *pf_schedule_next(pf_worker *w);                /* seeded pools: the next item; NULL: nothing is ready or under way */
pf_item *pf_pool_find(pf_worker *w);                    /* own lane, injector, other lanes; callers: own step's only */
void pf_pool_wait(pf_worker *caller, int64_t until_ns); /* callers: until an item, a post, the end of the step, or the time;
                                                         * meanwhile it helps with the step's loops */
void pf_pool_step_over(pf_step *s);                     /* the step is done: wakes its caller */
pf_status pf_pool_for(pf_pool *p, pf_step *s, int32_t how, int64_t n, int64_t grain,
                      void (*fn)(void *, int64_t, int64_t, int32_t), void *arg); /* how: pf_for_how */
pf_status pf_pool_post(pf_pool *p, int32_t lane, void (*fn)(void *), void *arg);
void pf_pool_post_caller(pf_step *s, pf_post *take);
pf_pool *pf_default_pool(void);
void pf_run_item(pf_worker *w, pf_item *item);          /* exec.pyx: one block and whatever became ready privately */

/* How a call's parallel_for runs.  POLLS: on the thread that called run, it looks at signals and the deadline; not with a
 * variable locked, for signal handlers are Python and may run steps.  UNLOCKED: so does that thread where it joins a loop
 * that runs elsewhere.  WHOLE: it updates a variable, and does not stop halfway.  BLAMED: another plugin's, helpers say so too. */
enum { PF_FOR_POLLS = 1, PF_FOR_WHOLE = 2, PF_FOR_UNLOCKED = 4, PF_FOR_BLAMED = 8 };
static inline int32_t pf_for_how(const pf_call *c) {
  int32_t how = c->deferred ? 0 : PF_FOR_UNLOCKED;
  if (how && c->worker && c->worker->step) how |= PF_FOR_POLLS;
  for (int32_t k = 0; k < c->n_lent; k++)
    if ((c->lent[k].kind & 255) == 3) how = c->lent[k].kind >> 8 ? PF_FOR_WHOLE : how & PF_FOR_WHOLE;
  return c->node && c->node->foreign ? how | PF_FOR_BLAMED : how;
}
static inline void pf_cond_init(pthread_cond_t *c) {            /* waits by CLOCK_MONOTONIC */
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(c, &a);
  pthread_condattr_destroy(&a);
}
static inline void pf_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t ns) {
  struct timespec ts;
  ts.tv_sec = ns / 1000000000ll;
  ts.tv_nsec = ns % 1000000000ll;
  pthread_cond_timedwait(c, m, &ts);
}
/* The last reader of a value clears its slot while a control reader elsewhere looks whether it is dead. */
static inline DLTensor *pf_slot_peek(DLTensor **slot) { return __atomic_load_n(slot, __ATOMIC_RELAXED); }
static inline void pf_slot_clear(DLTensor **slot) { __atomic_store_n(slot, (DLTensor *)0, __ATOMIC_RELAXED); }
static inline void pf_share(pf_step *s) {
  if (!pf_a32_load_rlx(&s->shared)) pf_a32_store_rlx(&s->shared, 1);
}
static inline int64_t pf_now_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
}
static inline int64_t pf_coarse_ns(void) {          /* the same clock at the last tick: a quarter of the time */
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec ts;
  if (!clock_gettime(CLOCK_MONOTONIC_COARSE, &ts)) return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
#endif
  return pf_now_ns();
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
static inline pf_item *pf_heap_take(pf_heap *h, int32_t i) {  /* removes position i */
  pf_item *out = h->items[i], *last = h->items[--h->n];
  if (i == h->n) return out;
  while (i > 0 && h->items[(i - 1) / 2]->order > last->order) { h->items[i] = h->items[(i - 1) / 2]; i = (i - 1) / 2; }
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
