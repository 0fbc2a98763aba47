/* What a lower floor calls of a higher one.  Everything else is called downwards;
 * tests/abi/test_floors.py knows no other exception.  The callee's type may be unknown to the
 * caller: it passes on what it was given.
 */
#ifndef PF_UPCALLS_H
#define PF_UPCALLS_H
#include "values/values.h"

typedef struct pf_call pf_call;
typedef struct pf_device_entry pf_device_entry;
typedef struct pf_node_info pf_node_info;
typedef struct pf_plan pf_plan;
typedef struct pf_pool pf_pool;
typedef struct pf_step pf_step;
typedef struct pf_trace_mark pf_trace_mark;

/* values -> host.  A tensor's copy lies where the tensor lies: a device makes it. */
pf_tensor *pf_device_duplicate(const pf_tensor *src); /* on its own device, in stream order; NULL */
/* values -> step.  The cap and the figures of memory cover what running steps left cached. */
void pf_extents_trim(void);      /* gives cached extents back to the system */
int64_t pf_extents_cached(void); /* their bytes */

/* host -> step.  Plugins are started, and shape functions called, with the table of what kernels
 * may ask for; most of that concerns the step they run in. */
const pf_host *pf_host_table(void);

/* plan -> step.  A plan owns its idle steps and its pool's reference, */
void pf_idle_steps_free(pf_step *first);
void pf_pool_ref(pf_pool *p);
void pf_pool_unref(pf_pool *p);
int32_t pf_pool_threads(const pf_pool *p); /* the caller's included */
/* its instructions name functions that run them, */
pf_status pf_compute_slowly(pf_ctx *ctx, const void *state);
pf_status pf_foreign_compute(pf_ctx *ctx, const void *state);
/* text: what it said, "" if nothing */
/* and a kernel is initialised, and a group's program fails, within a call of the host's. */
pf_status pf_kernel_init(pf_plan *plan, const pf_node_info *node, const DLTensor *const *constants,
                         uint8_t *dropped, pf_digest *const *digests, char *text, int32_t room);
/* malloc'ed, or NULL; *ctx: where the call goes on */
char *pf_call_take_message(pf_ctx **ctx, pf_status *code);

/* step -> look.  A traced or inspected step takes the instrumented copy of a loop, chosen once
 * per block or loop; the hooks are called for such steps only. */
/* pf_record.kind */
enum {
  PF_TR_KERNEL = 1, /* one instruction, ready..start..end */
  PF_TR_ASYNC,      /* an asynchronous kernel: start of compute, `back` done, end completed */
  PF_TR_LAUNCH,     /* the compute call of an asynchronous or blocking kernel, on its thread */
  PF_TR_CHUNK,      /* a range of a kernel's parallel_for */
  PF_TR_LOOP,       /* a while loop from its first to its last iteration */
  PF_TR_BLOCK,      /* n_out instructions from `instr` on */
  PF_TR_POST,       /* work a kernel posted to the caller's thread */
  PF_TR_STEP,       /* a whole step, on its caller */
  /* work on a device's stream: start..end by its events, in ns; back: device, n_out: stream */
  PF_TR_STREAM,
  PF_TR_OUTPUT,
  PF_TR_MORE /* pf_record_out */
};
enum { PF_STREAM_COMPUTE, PF_STREAM_IN, PF_STREAM_OUT };
int32_t pf_run_range_traced(pf_call *c, uint32_t begin, uint32_t end, uint32_t stamp);
void pf_trace_step_begin(pf_step *s);
void pf_trace_step_end(pf_step *s, pf_status st);
void pf_trace_launched(pf_call *c);  /* before the call may be completed by others */
void pf_trace_completed(pf_call *c); /* an asynchronous call, its outputs in their slots */
/* compute of a blocking kernel, on its lane's thread */
void pf_trace_ran(pf_call *c, int64_t start);
void pf_trace_span(pf_step *s, int32_t kind, uint32_t instr, const void *frame_def, int64_t path,
                   int64_t start);
pf_status pf_trace_for(pf_call *c, int64_t n, int64_t grain,
                       void (*fn)(void *, int64_t, int64_t, int32_t), void *arg);
/* Around work that call c enqueues on a stream of a device; NULL where the device cannot tell
 * times. */
pf_trace_mark *pf_trace_enqueue(pf_call *c, pf_device_entry *d, int32_t stream);
void pf_trace_enqueued(pf_call *c, pf_trace_mark *mark);
int32_t pf_run_range_inspected(pf_call *c, uint32_t begin, uint32_t end);
/* After an asynchronous call, its outputs in their slots; r, or PF_RUN_STOP. */
int32_t pf_inspect_completed(pf_call *c, int32_t r);
pf_status pf_inspect_feeds(pf_step *s); /* NaN in what was fed: the step fails */
#endif
