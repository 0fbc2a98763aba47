/* Plans: a graph compiled, immutable.  Its nodes became instructions in flat arrays; instructions
 * are grouped in BLOCKS, the unit of scheduling; blocks belong to FRAMES (the root, and each while
 * loop that could not be run inline).
 */
#ifndef PF_PLAN_H
#define PF_PLAN_H
#include "host/host.h"

/* A slot of a dead value. */
static DLTensor *const PF_DEAD = (DLTensor *)(uintptr_t)1;
static inline int pf_alive(const DLTensor *t) { return (uintptr_t)t > 1; }

enum {
  PF_IN_LAST = (int)0x80000000u, /* last reader inside the only reading block: release or forward */
  /* last reader of this block; others read the slot too: count down slab->uses */
  PF_IN_SHARED = 1 << 30,
  PF_IN_DEREF = 1 << 29, /* a ref (variable handle) read as a value */
  PF_IN_NOFWD = 1 << 28, /* the instruction reads the same slot twice: not forwardable */
  PF_IN_SLOT = (1 << 28) - 1
};
/* pf_instr.kind */
enum {
  PF_I_CALL,
  PF_I_CALL0,
  PF_I_IDENTITY,
  PF_I_CONST,
  PF_I_RETVAL,
  PF_I_SWITCH,
  PF_I_MERGE,
  PF_I_NEXT,
  PF_I_EXIT,
  PF_I_LOOP,
  PF_I_FRAME
};
/* pf_instr.flags */
enum {
  PF_F_MAYBE_DEAD = 1,
  PF_F_DEREF = 2,
  PF_F_UNUSED_OUT = 4,
  PF_F_ASYNC = 8,
  PF_F_DEAD_OK = 16,
  PF_F_CTL_OUT = 32, /* slot out_slot + n_out carries this node's deadness to control successors */
  PF_F_LONG = 64,    /* may take long: signals and the deadline are looked at afterwards */
  PF_F_PLACED = 128  /* some outputs have places: aux, plan->places */
};
/* pf_instr.how */
enum {
  PF_X_IN_SLABS = 1, /* NEXT, EXIT: of a loop that runs in slabs */
  PF_X_UNREAD = 2,   /* EXIT: nobody reads it */
  PF_X_LATE = 4,     /* RETVAL: read when the step is over */
  PF_X_NAMES = 8     /* CALL: outputs that are an input's buffer name its variable */
};
typedef struct pf_instr {
  pf_status (*compute)(pf_ctx *, const void *);
  const void *state;
  const struct pf_call_info *info;
  const struct pf_node_info *about;
  uint32_t in_begin; /* plan->ins: n_in data inputs, then n_ctl control slots */
  uint32_t out_slot; /* outputs are contiguous */
  uint32_t n_in, n_out, n_ctl;
  /* CALL: its first place; RETVAL: index; CONST: constant; NEXT: loop variable; EXIT: outer
   * slot; LOOP, FRAME: frame */
  uint32_t aux;
  uint32_t node; /* plan->nodes */
  uint8_t kind, flags;
  uint16_t how; /* PF_X_* */
} pf_instr;
_Static_assert(sizeof(void *) != 8 || sizeof(pf_instr) == 64, "an instruction is one cache line");

/* copied into pf_ctx when it changes; equal ones are shared between nodes */
typedef struct pf_call_info {
  const int32_t *in_type, *out_type;
  int32_t n_in, n_out;
  const int32_t *in_start, *out_start;
  int32_t n_in_args, n_out_args;
  void *opened, *stream; /* the device */
} pf_call_info;
_Static_assert(sizeof(pf_call_info) ==
                   offsetof(pf_ctx, stream) + sizeof(void *) - offsetof(pf_ctx, in_type),
               "pf_call_info is pf_ctx from in_type to stream");

enum { PF_ON_HOST, PF_ON_DEVICE };
typedef struct pf_node_info {
  const pf_call_info *call;
  pf_str name, op, device;
  const uint8_t *dropped; /* inputs the kernel dropped at init; NULL: none */
  /* per input: the types (1 << type) a variable behind it may have; NULL: no ref, no resource */
  const uint32_t *holds;
  const pf_op_def *def;
  const pf_kernel_entry *kernel;
  pf_device_entry *dev;
  pf_device_entry *home;  /* dev, if it has memory of its own; NULL: host memory */
  const uint8_t *out_mem; /* home only: per output, PF_ON_DEVICE or PF_ON_HOST */
  /* waits: it leaves host-memory outputs to its stream: the call ends when that did them;
   * foreign: its kernel is another plugin's (foreign.pyx) */
  int32_t waits, foreign;
  /* foreign only: per output, the static shape the graph was built with; NULL: none is known */
  const pf_shape *promised;
  void *state;
  uint64_t seed, seed2;
  pf_str container, shared_name;
  int32_t frame, origin;
  /* validate_shape = false: what it assigns need not fit the variable's declared shape */
  int32_t any_shape;
  /* use_node_name_sharing: without a shared_name it is shared under the node's name */
  int32_t name_shared;
} pf_node_info;

enum {
  PF_B_EXPENSIVE = 1,
  PF_B_ASYNC = 2,
  PF_B_URGENT = 4,
  PF_B_EVENT = 8 /* a loop variable's arrival: no instructions */
};
typedef struct pf_block {
  uint32_t begin, end;           /* instructions */
  int32_t pending;               /* predecessors in the same frame */
  uint32_t succ_begin, succ_end; /* plan->succs: block indices relative to the frame */
  uint32_t order;                /* construction order: lower runs first */
  uint32_t flags;
  /* 1 + a block that waits until this one's compute has returned (collectives); 0: none */
  uint32_t next_start;
} pf_block;

typedef struct {
  uint32_t enter_slot, merge_slot, next_slot, index_slot; /* index_slot: value_index, or ~0 */
  int32_t event, take; /* event: block of its arrival (slabs); take: nobody else reads enter_slot */
} pf_loop_var;
typedef struct { uint32_t outer, inner; } pf_slot_pair;
typedef struct pf_frame_def {
  int32_t parent, inlined, parallel, n_vars, n_consts, n_exits;
  pf_str name;
  pf_loop_var *vars;
  /* constant Enters of a frame that runs in slabs: outer slot -> inner slot */
  pf_slot_pair *consts;
  uint32_t *exits;               /* outer slots */
  uint32_t body_begin, body_end; /* inlined: instructions */
  uint32_t block_begin, n_blocks, n_slots, n_uses;
  uint32_t *roots;
  uint32_t n_roots, slot_base; /* slot_base: where its slots lie in slot_use */
  uint32_t *use_counts;        /* initial uses, n_uses */
} pf_frame_def;

#define PF_SLOT_UNUSED 0xffffffffu  /* nobody reads it */
#define PF_SLOT_LENT 0xfffffffeu    /* holds a pointer the slot does not own */
typedef struct {
  uint32_t slot;
  int32_t pad;
  DLTensor *tensor;
} pf_const_slot;

/* Where the planner put an output: a hint, for a step's memory alone decides who may write where
 * (step/extents.h). */
enum {
  PF_PAGE = 4096,
  PF_PLACE_BYTES = 65536, /* smaller outputs stay on the heap: their blocks are cached per thread */
  PF_SCRATCH_BYTES = 65536,  /* scratch memory from here on goes into gaps */
  PF_EXTENT_BYTES = 1 << 20, /* plans that need less have no extent */
  PF_CACHED_EXTENTS = 8,
  /* the largest buffers of a plan are placed; the rest use gaps and the heap */
  PF_MAX_PLACED = 4000
};
static inline int64_t pf_pages_of(int64_t bytes) { return (bytes + PF_PAGE - 1) / PF_PAGE; }
enum { PF_PUT_HEAP, PF_PUT_PLACE, PF_PUT_REUSE, PF_PUT_ALIAS };
typedef struct pf_place {
  int64_t offset, bytes; /* bytes: 0 if not known while planning */
  int32_t how, input;    /* REUSE, ALIAS: of this input */
  /* its buffer's number, or -1: alive from the instruction `first` to `last` */
  int32_t buffer, first, last;
} pf_place;

typedef struct pf_shared_use {
  struct pf_shared_use *next;
  pf_shared *object;
} pf_shared_use;

typedef struct pf_plan {
  pf_a32 refs;
  pf_a32 lock; /* guards free_steps */
  pf_graph *graph;
  pf_arena arena;
  pf_state *state;
  struct pf_pool *pool;
  uint32_t n_nodes, n_instrs, n_blocks, n_frames, n_ins, n_consts, n_args, n_rets, max_in,
      n_const_tensors;
  pf_node_info *nodes;
  pf_instr *instrs;
  pf_block *blocks;
  pf_frame_def *frames; /* frames[0]: the root */
  uint32_t *ins, *succs;
  /* frames' slots laid end to end: index into uses + 1; 0: one reading block; or the two below */
  uint32_t *slot_use;
  pf_const_slot *consts; /* root slots filled before every step */
  pf_tensor **const_tensors;
  pf_shared_use *shared; /* what its kernels took of constants, until they are done */
  uint32_t *arg_slot;    /* n_args; ~0: the argument is not used */
  int32_t *arg_type;
  pf_shape *arg_shape;
  pf_str *arg_name;
  int32_t *ret_type;
  pf_str *ret_name;            /* of the nodes that give the results */
  int32_t n_groups, n_grouped; /* compiled groups, and the nodes in them */
  struct pf_place *places;     /* what was decided for each output */
  /* the extent; all its buffers; the most alive at once */
  int64_t planned_bytes, planned_sum, planned_least;
  struct pf_step *free_steps;
  pf_a64 steps_run, kernels_run;
  int32_t solo, has_async, n_frames_in_slabs, n_devices, watched;
  int32_t has_variables;      /* a step may wait for one */
  int32_t late_rets;          /* some fetches are read when the step is over (reads.pyx) */
  pf_device_entry **devices;  /* those with memory or streams of their own */
  struct pf_library *library; /* what its nodes may call; NULL: nothing */
  /* 1: the body of a function, whose plan the library owns; it holds no reference to it */
  int32_t of_library;
  /* 1: some kernel's cost is not known, but follows from shapes that are */
  int32_t cost_is_measured;
  /* about, at most, of a step: PF_COST_UNKNOWN where something in it may take any time
   * (cost.pyx) */
  int64_t cost_ns;
} pf_plan;
enum { PF_COST_UNKNOWN = -1 };
/* Of plans that are one step. */
static inline int64_t pf_plans_cost(pf_plan *const *plans, int32_t n, int32_t *is_measured) {
  int64_t total = 0;
  for (int32_t k = 0; k < n && total >= 0; k++) {
    total = plans[k]->cost_ns < 0 ? PF_COST_UNKNOWN : total + plans[k]->cost_ns;
    *is_measured |= plans[k]->cost_is_measured;
  }
  return total;
}

enum { PF_GROUPS_ANY, PF_GROUPS_DETERMINISTIC, PF_GROUPS_NONE };
typedef struct {
  int32_t threads;   /* 1: expensive nodes join blocks, every synchronous loop runs inline */
  int32_t no_inline; /* loops always run in slabs (tests) */
  int32_t no_blocks; /* every node its own block (tests) */
  int32_t groups;    /* PF_GROUPS_*: what plugins may compile groups of nodes into */
  int32_t ordered;   /* strictly in construction order, an iteration after the other (debugging) */
  /* the graph is the body of a function of this one; NULL: it brings its own */
  struct pf_library *library;
} pf_plan_options;
typedef struct {
  pf_str name;
  pf_tensor *tensor;
} pf_named_tensor;

/* Takes the graph (also on failure); refs state and pool.  `consts` give the values of Const
 * nodes by name; those whose entry is NULL afterwards it took: they go as soon as no kernel
 * needs them. */
pf_status pf_plan_compile(pf_graph *take, pf_named_tensor *consts, int32_t n_consts,
                          pf_state *state, struct pf_pool *pool, const pf_plan_options *options,
                          pf_plan **out, pf_error *err);
/* The functions of a graph, each compiled when it is first called, once for all that may call it
 * (library.pyx). */
typedef struct pf_library pf_library;
pf_library *pf_library_new(pf_functions *functions, pf_state *state, struct pf_pool *pool,
                           const pf_plan_options *options);
void pf_library_ref(pf_library *l);
void pf_library_unref(pf_library *l);
/* *out lives as long as the library */
pf_status pf_library_find(pf_library *l, pf_str name, pf_plan **out, pf_error *err);
/* the same, where a kernel's init asks; */
pf_status pf_library_promise(pf_library *l, pf_str name, pf_plan **out, pf_error *err);
/* *out NULL on PF_OK: it is known when it is called */
int32_t pf_library_size(const pf_library *l);
/* of function k; NULL: nobody has called it yet */
pf_plan *pf_library_compiled(const pf_library *l, int32_t k, pf_str *name);
const pf_function *pf_library_function(const pf_library *l, pf_str name); /* NULL: no such */
void pf_plan_unref(pf_plan *p);
/* A synchronous PF_KERNEL_BLOCKING kernel of a host device: its compute runs on the BLOCKING
 * lane. */
static inline int pf_runs_slowly(const pf_node_info *i) {
  return (i->kernel->kernel->flags & (PF_KERNEL_BLOCKING | PF_KERNEL_ASYNC)) ==
             PF_KERNEL_BLOCKING &&
         !(i->dev && i->dev->stream);
}
#endif
