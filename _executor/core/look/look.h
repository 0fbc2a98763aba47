/* Looking at steps: traces (trace.pyx) and inspection (inspect.pyx), both on request; the hooks
 * stand in upcalls.h.
 *
 * Traces: what ran when, on which thread, as 64-byte records in chunks that one thread writes.
 *
 * Invariants
 *   1. A step with trace == NULL makes no call into trace.pyx: the choice is made once per block.
 *   2. A chunk is written by the thread of its lane alone, and followed by another only when it is
 *      full. It is read when the steps of its trace are over, so a record needs no lock and no
 *      atomic.
 *   3. A trace holds at most `max_chunks` chunks; what does not fit is counted in `dropped`.
 *   4. A kernel that ran has exactly one record of kind KERNEL or ASYNC, followed by n_out OUTPUT
 *      records (and one MORE record behind each output of more than 5 dimensions); see the levels.
 *
 * Times are ticks of pf_ticks(); pf_trace_clock gives pairs (ticks, CLOCK_MONOTONIC) to turn them
 * into nanoseconds by interpolation.
 */
#ifndef PF_LOOK_H
#define PF_LOOK_H
#include "step/step.h"

/* pf_record.flags */
enum {
  PF_TR_FAILED = 1,
  /* KERNEL, LAUNCH: `back` is what the node's device has in use of its own memory, bytes */
  PF_TR_OWN_MEMORY = 2
};
/* pf_trace.level */
enum {
  PF_TRACE_BLOCKS = 1, /* a record per block */
  PF_TRACE_KERNELS,    /* ... per kernel, and per output of what is more than routing */
  PF_TRACE_FULL        /* ... and per output of everything */
};

typedef struct pf_record {
  int64_t ready, start, end, back;
  int64_t path; /* one number for the iterations of all loops around it (frames.pyx, path_of) */
  /* the host allocator's live blocks at the end, in 64 bytes; the innermost loop's iteration */
  uint32_t in_use, turn;
  uint32_t instr, step; /* instruction of the step's plan; index into pf_trace.steps */
  uint16_t lane;
  uint8_t kind, flags;
  uint16_t frame, n_out; /* BLOCK: n_out is its number of instructions */
} pf_record;

typedef struct pf_record_out {
  int64_t bytes, dims[5];
  int32_t slot, type;
  uint16_t lane;
  uint8_t kind, ndim;
  uint32_t memory; /* DLPack device type of the data */
} pf_record_out;
_Static_assert(sizeof(pf_record) == 64 && sizeof(pf_record_out) == 64, "a record is a cache line");
_Static_assert(offsetof(pf_record, kind) == offsetof(pf_record_out, kind), "kind tells them apart");

enum { PF_CHUNK_RECORDS = 255, PF_CHUNK_CACHE = 64, PF_MAX_TRACE_LANES = 4096 };
typedef struct pf_trace_chunk {
  struct pf_trace_chunk *next; /* newest first */
  int32_t n, lane;
  char pad[48];
  pf_record records[PF_CHUNK_RECORDS];
} pf_trace_chunk;

typedef struct pf_trace_step {
  /* alive while its runner keeps it; later readers know it by number only */
  const struct pf_plan *plan;
  int64_t id, start, end;
  int32_t lane, status;
} pf_trace_step;

/* Work enqueued on a device's stream, between two events; their times are asked for when the
 * step is over. */
typedef struct pf_trace_mark {
  struct pf_trace_mark *next;
  struct pf_step *owner;
  pf_device_entry *dev;
  void *stream, *begin, *end;
  pf_record record;
} pf_trace_mark;

typedef struct pf_trace {
  uint64_t id; /* never reused: threads remember their chunk by it */
  int32_t level, max_chunks;
  pf_a32 lock; /* guards chunks, n_chunks, steps */
  int32_t n_chunks, n_steps, steps_room;
  pf_trace_chunk *chunks;
  pf_trace_step *steps;
  pf_trace_mark *marks; /* lock */
  pf_a64 dropped;
} pf_trace;

typedef struct pf_trace_lane {
  int64_t thread;
  char name[16];
} pf_trace_lane;

pf_trace *pf_trace_new(int32_t level, int64_t max_records);
void pf_trace_free(pf_trace *t);
int32_t pf_trace_lanes(pf_trace_lane *out, int32_t room); /* lanes so far; fills at most `room` */
void pf_trace_clock(int64_t *ticks, int64_t *ns);

/* ================================================================ inspection (inspect.pyx) */
/* Inspection: steps whose kernels are looked at one by one, on request:
 * Session(check_numerics=True), Session(debug=True).
 *
 * Invariants
 *   1. A step with inspect == NULL makes no call into inspect.pyx: the choice is made once per
 *      block and once per loop.
 *   2. While an inspected call runs, every input is HELD: no kernel works in place on it, no
 *      variable it names is updated in place.  So what a kernel got can be shown after it ran.
 *   3. An inspected step has no extent: its tensors may outlive it.
 */
/* of a call in progress */
typedef struct pf_held_input {
  pf_tensor *given; /* what the kernel gets, one reference; NULL: dead, or dropped */
  /* given; of a variable's handle: its value before the call, one reference, or NULL */
  pf_tensor *value;
} pf_held_input;
typedef struct pf_held_inputs {
  uint32_t n, pad;
  pf_held_input in[];
} pf_held_inputs;

/* A new reference to t, or to its copy in host memory; NULL: no memory, or the device failed. */
pf_tensor *pf_inspect_on_host(pf_tensor *t);

/* ---------------------------------------------------------------- counting */
typedef struct pf_finite { int64_t nan, inf, first; } pf_finite; /* first: index of one; -1 */

/* The exponent of a value that is not finite has all bits set; so this many of n values are not. */
static inline int64_t pf_count_bad16(const uint16_t *p, int64_t n, uint16_t mask) {
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad += (p[i] & mask) == mask;
  return bad;
}
static inline int64_t pf_count_bad32(const uint32_t *p, int64_t n) {
  int64_t bad = 0;
  for (int64_t at = 0; at < n; at += 1 << 20) {
    uint32_t some = 0;
    int64_t end = n - at < 1 << 20 ? n : at + (1 << 20);
    for (int64_t i = at; i < end; i++) some += (p[i] & 0x7f800000u) == 0x7f800000u;
    bad += some;
  }
  return bad;
}
static inline int64_t pf_count_bad64(const uint64_t *p, int64_t n) {
  const uint64_t mask = 0x7ff0000000000000ull;
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad += (p[i] & mask) == mask;
  return bad;
}
/* {type, bytes of one real value, mask of its exponent}; bytes 0: not a floating-point type. */
static inline int pf_float_layout(int32_t type, uint64_t *mask) {
  switch (type) {
    case PF_FLOAT32:
    case PF_COMPLEX64: *mask = 0x7f800000u; return 4;
    case PF_FLOAT64:
    case PF_COMPLEX128: *mask = 0x7ff0000000000000ull; return 8;
    case PF_FLOAT16: *mask = 0x7c00u; return 2;
    case PF_BFLOAT16: *mask = 0x7f80u; return 2;
    default: *mask = 0; return 0;
  }
}
static inline int64_t pf_count_bad(const void *data, int64_t bytes, int32_t type) {
  uint64_t mask;
  switch (pf_float_layout(type, &mask)) {
    case 2: return pf_count_bad16((const uint16_t *)data, bytes / 2, (uint16_t)mask);
    case 4: return pf_count_bad32((const uint32_t *)data, bytes / 4);
    case 8: return pf_count_bad64((const uint64_t *)data, bytes / 8);
    default: return 0;
  }
}
static inline uint64_t pf_float_bits(const void *data, int64_t i, int size) {
  if (size == 2) return ((const uint16_t *)data)[i];
  return size == 4 ? ((const uint32_t *)data)[i] : ((const uint64_t *)data)[i];
}
/* How many of each; only for tensors that pf_count_bad found something in. */
static inline pf_finite pf_describe_bad(const void *data, int64_t bytes, int32_t type) {
  uint64_t mask, sign;
  int size = pf_float_layout(type, &mask);
  pf_finite f = {0, 0, -1};
  if (!size) return f;
  sign = (uint64_t)1 << (size * 8 - 1);
  for (int64_t i = 0; i < bytes / size; i++) {
    uint64_t x = pf_float_bits(data, i, size);
    if ((x & mask) != mask) continue;
    if (f.first < 0) f.first = i;
    if (x & ~mask & ~sign) f.nan++;
    else f.inf++;
  }
  if (f.first >= 0 && (type == PF_COMPLEX64 || type == PF_COMPLEX128)) f.first /= 2;
  return f;
}
/* Least and largest value of a float or double tensor without NaN; 0: not such a tensor. */
static inline int pf_value_range(const void *data, int64_t bytes, int32_t type, double *low,
                                 double *high) {
  int64_t n = type == PF_FLOAT32 ? bytes / 4 : type == PF_FLOAT64 ? bytes / 8 : 0;
  if (!n) return 0;
  for (int64_t i = 0; i < n; i++) {
    double x = type == PF_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
    if (i == 0 || x < *low) *low = x;
    if (i == 0 || x > *high) *high = x;
  }
  return 1;
}
#endif
