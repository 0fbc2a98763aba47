/* Traces: what ran when, on which thread, as 64-byte records in chunks that one thread writes.
 *
 * Invariants
 *   1. A step with trace == NULL makes no call into trace.pyx: the choice is made once per block.
 *   2. A chunk is written by the thread of its lane alone, and followed by another only when it is full.
 *      It is read when the steps of its trace are over, so a record needs no lock and no atomic.
 *   3. A trace holds at most `max_chunks` chunks; what does not fit is counted in `dropped`.
 *   4. A kernel that ran has exactly one record of kind KERNEL or ASYNC, followed by n_out OUTPUT
 *      records (and one MORE record behind each output of more than 5 dimensions); see the levels.
 *
 * Times are ticks of pf_ticks(); pf_trace_clock gives pairs (ticks, CLOCK_MONOTONIC) to turn them
 * into nanoseconds by interpolation.
 */
#ifndef PF_TRACE_H
#define PF_TRACE_H
#include "pf_core.h"
#include <time.h>

enum {                      /* pf_record.kind */
  PF_TR_KERNEL = 1,         /* one instruction, ready..start..end */
  PF_TR_ASYNC,              /* an asynchronous kernel: start of compute, `back` done, end completed */
  PF_TR_LAUNCH,             /* the compute call of an asynchronous or blocking kernel, on its thread */
  PF_TR_CHUNK,              /* a range of a kernel's parallel_for */
  PF_TR_LOOP,               /* a while loop from its first to its last iteration */
  PF_TR_BLOCK,              /* n_out instructions from `instr` on */
  PF_TR_POST,               /* work a kernel posted to the caller's thread */
  PF_TR_STEP,               /* a whole step, on its caller */
  PF_TR_STREAM,             /* work on a device's stream: start..end by its events, in ns; back: device, n_out: stream */
  PF_TR_OUTPUT, PF_TR_MORE  /* pf_record_out */
};
enum {                      /* pf_record.flags */
  PF_TR_FAILED = 1,
  PF_TR_OWN_MEMORY = 2      /* KERNEL, LAUNCH: `back` is what the node's device has in use of its own memory, bytes */
};
enum { PF_STREAM_COMPUTE, PF_STREAM_IN, PF_STREAM_OUT };
enum {                      /* pf_trace.level */
  PF_TRACE_BLOCKS = 1,      /* a record per block */
  PF_TRACE_KERNELS,         /* ... per kernel, and per output of what is more than routing */
  PF_TRACE_FULL             /* ... and per output of everything */
};

typedef struct pf_record {
  int64_t ready, start, end, back;
  int64_t path;             /* one number for the iterations of all loops around it (frames.pyx, path_of) */
  uint32_t in_use, turn;    /* the host allocator's live blocks at the end, in 64 bytes; the innermost loop's iteration */
  uint32_t instr, step;     /* instruction of the step's plan; index into pf_trace.steps */
  uint16_t lane;
  uint8_t kind, flags;
  uint16_t frame, n_out;    /* BLOCK: n_out is its number of instructions */
} pf_record;

typedef struct pf_record_out {
  int64_t bytes, dims[5];
  int32_t slot, type;
  uint16_t lane;
  uint8_t kind, ndim;
  uint32_t memory;          /* DLPack device type of the data */
} pf_record_out;
_Static_assert(sizeof(pf_record) == 64 && sizeof(pf_record_out) == 64, "a record is a cache line");
_Static_assert(offsetof(pf_record, kind) == offsetof(pf_record_out, kind), "kind tells them apart");

enum { PF_CHUNK_RECORDS = 255, PF_CHUNK_CACHE = 64, PF_MAX_TRACE_LANES = 4096 };
typedef struct pf_trace_chunk {
  struct pf_trace_chunk *next;    /* newest first */
  int32_t n, lane;
  char pad[48];
  pf_record records[PF_CHUNK_RECORDS];
} pf_trace_chunk;

typedef struct pf_trace_step {
  const struct pf_plan *plan;       /* alive while its runner keeps it; later readers know it by number only */
  int64_t id, start, end;
  int32_t lane, status;
} pf_trace_step;

struct pf_step;
/* Work enqueued on a device's stream, between two events; their times are asked for when the step is over. */
typedef struct pf_trace_mark {
  struct pf_trace_mark *next;
  struct pf_step *owner;
  pf_device_entry *dev;
  void *stream, *begin, *end;
  pf_record record;
} pf_trace_mark;

typedef struct pf_trace {
  uint64_t id;              /* never reused: threads remember their chunk by it */
  int32_t level, max_chunks;
  pf_a32 lock;              /* guards chunks, n_chunks, steps */
  int32_t n_chunks, n_steps, steps_room;
  pf_trace_chunk *chunks;
  pf_trace_step *steps;
  pf_trace_mark *marks;     /* lock */
  pf_a64 dropped;
} pf_trace;

typedef struct pf_trace_lane { int64_t thread; char name[16]; } pf_trace_lane;

struct pf_call;
struct pf_step;
struct pf_frame;
struct pf_plan;
pf_trace *pf_trace_new(int32_t level, int64_t max_records);
void pf_trace_free(pf_trace *t);
int32_t pf_trace_lanes(pf_trace_lane *out, int32_t room);  /* lanes so far; fills at most `room` */
void pf_trace_clock(int64_t *ticks, int64_t *ns);

/* hooks of exec.pyx, frames.pyx, step.pyx and host.pyx; only for steps with a trace */
int32_t pf_run_range_traced(struct pf_call *c, uint32_t begin, uint32_t end, uint32_t stamp);
void pf_trace_step_begin(struct pf_step *s);
void pf_trace_step_end(struct pf_step *s, pf_status st);
void pf_trace_launched(struct pf_call *c);                  /* before the call may be completed by others */
void pf_trace_completed(struct pf_call *c);                 /* an asynchronous call, its outputs in their slots */
void pf_trace_ran(struct pf_call *c, int64_t start);        /* compute of a blocking kernel, on its lane's thread */
void pf_trace_span(struct pf_step *s, int32_t kind, uint32_t instr, const void *frame_def, int64_t path,
                   int64_t start);
pf_status pf_trace_for(struct pf_call *c, int64_t n, int64_t grain,
                       void (*fn)(void *, int64_t, int64_t, int32_t), void *arg);
/* Around work that call c enqueues on a stream of a device; NULL where the device cannot tell times. */
pf_trace_mark *pf_trace_enqueue(struct pf_call *c, pf_device_entry *d, int32_t stream);
void pf_trace_enqueued(struct pf_call *c, pf_trace_mark *mark);

/* ---------------------------------------------------------------- clock */
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
enum { PF_READY_SHIFT = 6 };        /* pf_item.ready: 25 ns steps, 100 s range at 2.6 GHz */
extern int32_t pf_ticks_from_tsc;   /* 1: the time stamp counter runs at one rate and never stops */
static inline int pf_tsc_is_invariant(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000007u) return 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1);
}
static inline int64_t pf_cpu_ticks(void) {
  uint32_t lo, hi;
  __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
  return (int64_t)((uint64_t)hi << 32 | lo);
}
#elif defined(__aarch64__)
enum { PF_READY_SHIFT = 0 };        /* 25 MHz to 1 GHz */
extern int32_t pf_ticks_from_tsc;
static inline int pf_tsc_is_invariant(void) { return 1; }
static inline int64_t pf_cpu_ticks(void) {
  int64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
}
#else
enum { PF_READY_SHIFT = 6 };
extern int32_t pf_ticks_from_tsc;
static inline int pf_tsc_is_invariant(void) { return 0; }
static inline int64_t pf_cpu_ticks(void) { return 0; }
#endif
static inline int64_t pf_ticks(void) {
  if (pf_ticks_from_tsc) return pf_cpu_ticks();
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec;
}
static inline uint32_t pf_ready_stamp(void) { return (uint32_t)(pf_ticks() >> PF_READY_SHIFT); }
/* The tick at which `stamp` was taken, not after `now`. */
static inline int64_t pf_ready_tick(uint32_t stamp, int64_t now) {
  int64_t ago = (int64_t)(uint32_t)((uint32_t)(now >> PF_READY_SHIFT) - stamp) << PF_READY_SHIFT;
  return now - ago;
}

#endif
