/* The workspace of pf_plan_compile, shared by plan.pyx (nodes), loops.pyx (frames), kernels.pyx,
 * transfers.pyx (memories), blocks.pyx (order, blocks) and emit.pyx (slots, instructions, last
 * readers).  Freed when the plan stands. */
#ifndef PF_COMPILE_H
#define PF_COMPILE_H
#include "plan/plan.h"

enum {
  PF_N_MAYBE_DEAD = 1,
  PF_N_ASYNC = 2,
  PF_N_EXPENSIVE = 4,
  PF_N_URGENT = 8,
  PF_N_LOOP_MERGE = 16,
  PF_N_CONST_ENTER = 32,
  /* its outputs are in the slots before the step starts: no instruction */
  PF_N_PREFILLED = 64,
  PF_N_BRIEF = 128 /* an EXPENSIVE kernel, but not for the shapes known */
};

enum { PF_INFO_BUCKETS = 1024, PF_FRAME_BUCKETS = 1024 };
typedef struct pf_comp_frame {
  pf_str name;
  int32_t parent, parallel, inlined, home; /* home: the frame whose slab holds this frame's slots */
  int32_t async, expensive, key, waits;
  int32_t height; /* loops inlined in one another inside this one */
  int32_t n_nodes, n_enters, n_exits, n_vars;
  int32_t *items, n_items;                  /* order: node, or n + frame */
  int32_t *enters, *exits, *merges, *nexts; /* nodes */
  int32_t block;                            /* the FRAME's block in its parent; -1 */
  int32_t same_hash;                        /* the next frame of its bucket; 0: none */
  uint32_t n_slots;
} pf_comp_frame;

typedef struct pf_comp_block {
  int32_t frame, flags, n_preds, n_items, order;
  int32_t *preds;      /* sorted block numbers */
  int32_t first, last; /* its items, chained by pf_comp.chain */
  uint64_t key;
  int32_t same_key; /* next block in the hash chain */
} pf_comp_block;

typedef struct pf_comp {
  pf_graph *g;
  pf_plan *plan;
  pf_plan_options opt;
  pf_error *err;
  pf_arena work;
  int32_t n;
  const pf_op_def **def;
  pf_signature *sig;
  pf_call_info **infos; /* by hash of the types: the last one made */
  const pf_kernel_entry **kernel;
  void **state;
  DLTensor **value;  /* prefilled: constants and handles */
  pf_digest *digest; /* of constants that kernels share things made of; zero: not known */
  /* of constants: where plan->const_tensors has it; inputs that read it and were not dropped */
  int32_t *held_at, *kept_by;
  uint8_t *cls, *flags; /* cls: PF_C_* of its op */
  int32_t *mem_at;      /* plans with devices: node -> its outputs in mem */
  uint8_t *mem;         /* per output: 1 in the device's memory */
  /* reads.pyx; `late` is NULL in plans that update no variable by reference */
  int32_t *in_at; /* node -> its first input in `late` */
  uint8_t *late;  /* per input: it reads a variable when its node runs */
  /* per node: its output is a reference, unread; it may name a variable's value */
  uint8_t *carries, *passes;
  int32_t again, settled; /* again: the graph got copies: compile it anew; settled: it never will */
  int32_t *frame, *out_frame, *topo;
  /* collective -> the one that starts after it did; -1; NULL: fewer than one */
  int32_t *next_start;
  /* consumers: node, and the output it reads (-1: control) */
  int32_t *out_begin, *out_node, *out_port;
  int32_t n_frames, frames_room;
  pf_comp_frame *frames;
  int32_t *frame_buckets;            /* parent and name -> frame; 0: none */
  int32_t *first_node, *next_node;   /* frame -> its nodes, chained; -1 */
  int32_t *first_child, *next_child; /* frame -> its child frames, chained; -1 */
  int32_t *waits, *fwaits, *ready;   /* of pf_comp_order, for one frame after the other */
  /* blocks */
  int32_t n_blocks, blocks_room;
  pf_comp_block *blocks;
  int32_t *block; /* node -> block; -1 */
  int32_t *chain; /* item -> next item of its block */
  int32_t *buckets, n_buckets;
  /* emission */
  uint32_t *slot, *inner_slot, *ctl_slot;
  uint32_t n_instrs, instrs_room, n_ins, ins_room;
  pf_instr *instrs;
  int32_t *instr_block; /* instruction -> block, for last readers; -1 inside inlined bodies */
  uint32_t *ins;
} pf_comp;

/* A candidate group while its compiler looks at it (groups.pyx).  Local numbers; `whole`: the
 * graph's own. */
struct pf_group {
  pf_comp *c;
  int32_t whole, n, n_in, n_out;
  int32_t *nodes;    /* local -> graph: the constants it reads, and its nodes, producers first */
  int32_t *in_begin; /* local -> edges */
  pf_input *edges;   /* local node and output, or -1 and the group's input */
  pf_input *ins;     /* what comes in: graph node and output */
  pf_input *outs;    /* results: local node and output */
  char *message;     /* by `fail` */
};

/* loops.pyx */
pf_status pf_comp_frames(pf_comp *c); /* which frame each node belongs to */
pf_status pf_comp_loops(pf_comp *c);
/* kernels.pyx */
/* constants, variables, kernels */
pf_status pf_comp_values(pf_comp *c, pf_named_tensor *consts, int32_t n_consts);
pf_status pf_comp_own_value(pf_comp *c, int32_t node, pf_tensor *take);
pf_status pf_comp_collectives(pf_comp *c);
void pf_device_of_name(pf_str device, char *kind, int32_t *ordinal); /* kind: room for 24 */
/* transfers.pyx */
pf_status pf_comp_transfers(pf_comp *c);
pf_status pf_comp_note_device(pf_comp *c, pf_device_entry *d);
/* blocks.pyx */
pf_status pf_comp_order(pf_comp *c, int32_t frame);
pf_status pf_comp_blocks(pf_comp *c);
/* reads.pyx */
pf_status pf_comp_reads(pf_comp *c);
void pf_comp_read_source(pf_comp *c, int32_t node, int32_t input, pf_input *from);
int32_t pf_comp_reads_ref(pf_comp *c, int32_t node, int32_t input, const pf_input *from);
int32_t pf_comp_gives_names(pf_comp *c, int32_t node);
int32_t pf_comp_is_late(pf_comp *c, int32_t node, int32_t input);
/* emit.pyx */
pf_status pf_comp_emit(pf_comp *c);
/* buffers.pyx */
pf_status pf_comp_places(pf_comp *c);
int64_t pf_comp_bytes(pf_comp *c, int32_t node, int32_t port);
/* of a variable's reference: its value's; -1: not known */
int64_t pf_comp_static_bytes(pf_comp *c, int32_t node, int32_t port);
int32_t pf_comp_frees(pf_comp *c, int32_t node);
/* groups.pyx: lets plugins' compilers replace groups of nodes by one instruction each */
pf_status pf_comp_group(pf_comp *c);
/* cost.pyx */
void pf_comp_cost(pf_comp *c);
/* plan.pyx */
/* what its kernel says of input or output k; NULL */
const pf_arg *pf_comp_arg(pf_comp *c, int32_t node, int32_t output, int32_t k);
/* the input whose buffer output k always is; -1 */
int32_t pf_comp_aliased(pf_comp *c, int32_t node, int32_t k);
pf_status pf_comp_consumers(pf_comp *c); /* lists every node's readers, anew */
pf_status pf_comp_fail(pf_comp *c, int32_t node, pf_status code, const char *what);
__attribute__((format(printf, 4, 5))) static inline pf_status
pf_comp_failf(pf_comp *c, int32_t node, pf_status code, const char *fmt, ...) {
  PF_FORMATTED(text, fmt);
  return pf_comp_fail(c, node, code, text);
}

/* Zeroed memory of the compilation (grab) or of the plan (keep), one entry more than asked for;
 * NULL: the error is set. */
static inline void *pf_comp_from(pf_comp *c, pf_arena *a, int64_t count, size_t size) {
  void *p = pf_arena_alloc(a, (uint64_t)(count + 1) * size);
  if (!p)
    pf_error_set(c->err, PF_RESOURCE_EXHAUSTED, "out of memory while compiling a graph of %d nodes",
                 c->n);
  return p;
}
static inline void *pf_comp_grab(pf_comp *c, int64_t count, size_t size) {
  return pf_comp_from(c, &c->work, count, size);
}
static inline void *pf_comp_keep(pf_comp *c, int64_t count, size_t size) {
  return pf_comp_from(c, &c->plan->arena, count, size);
}

/* heaps, least first: of int32 (ints) and of int64 (longs); `wide` is known where they are
 * called */
static inline int64_t pf_heap_at(const void *h, int32_t i, int wide) {
  return wide ? ((const int64_t *)h)[i] : ((const int32_t *)h)[i];
}
static inline void pf_heap_set(void *h, int32_t i, int64_t x, int wide) {
  if (wide) ((int64_t *)h)[i] = x;
  else ((int32_t *)h)[i] = (int32_t)x;
}
static inline void pf_numbers_push(void *h, int32_t *n, int64_t x, int wide) {
  int32_t i = (*n)++;
  while (i > 0 && pf_heap_at(h, (i - 1) / 2, wide) > x) {
    pf_heap_set(h, i, pf_heap_at(h, (i - 1) / 2, wide), wide);
    i = (i - 1) / 2;
  }
  pf_heap_set(h, i, x, wide);
}
static inline int64_t pf_numbers_pop(void *h, int32_t *n, int wide) {
  int64_t out = pf_heap_at(h, 0, wide), last = pf_heap_at(h, --(*n), wide);
  int32_t i = 0;
  for (;;) {
    int32_t k = 2 * i + 1;
    if (k >= *n) break;
    if (k + 1 < *n && pf_heap_at(h, k + 1, wide) < pf_heap_at(h, k, wide)) k++;
    if (pf_heap_at(h, k, wide) >= last) break;
    pf_heap_set(h, i, pf_heap_at(h, k, wide), wide);
    i = k;
  }
  if (*n) pf_heap_set(h, i, last, wide);
  return out;
}
static inline void pf_ints_push(int32_t *h, int32_t *n, int32_t x) { pf_numbers_push(h, n, x, 0); }
static inline int32_t pf_ints_pop(int32_t *h, int32_t *n) {
  return (int32_t)pf_numbers_pop(h, n, 0);
}
static inline void pf_longs_push(int64_t *h, int32_t *n, int64_t x) { pf_numbers_push(h, n, x, 1); }
static inline int64_t pf_longs_pop(int64_t *h, int32_t *n) { return pf_numbers_pop(h, n, 1); }
#endif
