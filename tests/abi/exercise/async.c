/* async.c - tickets: defer, done, pending, cancellation, after, post; dead tokens. */
#include "exercise.h"

typedef struct { const pf_host *host; uint64_t ticket; int32_t ms; } job;

static job *new_job(const pf_host *host, uint64_t ticket, int32_t ms) {
  job *j = malloc(sizeof *j);
  *j = (job){host, ticket, ms};
  return j;
}
static void start_thread(void *(*fn)(void *), job *j) {
  pthread_t id;
  pthread_create(&id, NULL, fn, j);
  pthread_detach(id);
}

/* Output requested after PENDING, from a thread of the plugin's own; a second `done` is ignored. */
static void *later_thread(void *arg) {
  job *j = arg;
  usleep((useconds_t)j->ms * 1000);
  pf_ctx *c = j->host->pending(j->ticket);
  pf_status st = c ? scalar_float(c, 0, *PF_DATA(float, c->in[0]) + 1) : PF_INTERNAL;
  j->host->done(j->ticket, st);
  j->host->done(j->ticket, PF_INTERNAL);
  if (j->host->pending(j->ticket)) j->host->log(PF_LOG_ERROR, "pending after done", 18);
  free(j);
  return NULL;
}
typedef struct { int64_t ms; } delay;
static pf_status later(pf_ctx *c, const void *s) {
  uint64_t ticket;
  c = c->host->defer(c, &ticket);
  start_thread(later_thread, new_job(c->host, ticket, (int32_t)((const delay *)s)->ms));
  return PF_PENDING;
}

/* done before compute returns */
static pf_status done_first(pf_ctx *c, const void *s) {
  uint64_t ticket;
  const pf_host *host = c->host;
  c = host->defer(c, &ticket);
  pf_status st = scalar_float(c, 0, *PF_DATA(float, c->in[0]) + 2);
  host->done(ticket, st);
  return PF_PENDING;
}

static pf_status fail_later_status(pf_ctx *c) { return pf_fail(c, PF_UNAVAILABLE, "failed after a while"); }
static void *fail_thread(void *arg) {
  job *j = arg;
  usleep(2000);
  pf_ctx *c = j->host->pending(j->ticket);
  j->host->done(j->ticket, c ? fail_later_status(c) : PF_UNAVAILABLE);
  free(j);
  return NULL;
}
static pf_status fail_later(pf_ctx *c, const void *s) {
  uint64_t ticket;
  c = c->host->defer(c, &ticket);
  start_thread(fail_thread, new_job(c->host, ticket, 0));
  return PF_PENDING;
}

/* Waits for ever, unless the step is cancelled. */
static atomic_int cancelled_calls;
static void on_cancel(void *arg) {
  job *j = arg;
  atomic_fetch_add(&cancelled_calls, 1);
  j->host->done(j->ticket, PF_CANCELLED);
  free(j);
}
static pf_status wait_for_cancel(pf_ctx *c, const void *s) {
  uint64_t ticket;
  const pf_host *host = c->host;
  c = host->defer(c, &ticket);
  job *j = new_job(host, ticket, 0);
  if (host->on_cancel(c, ticket, on_cancel, j) != PF_OK) {
    atomic_fetch_add(&cancelled_calls, 1);
    free(j);
    host->done(ticket, PF_CANCELLED);
  }
  return PF_PENDING;
}
static pf_status cancelled_count(pf_ctx *c, const void *s) { return scalar_int(c, 0, cancelled_calls); }

/* Registers a callback and takes it back: 1 says that it will never be called. */
static void never(void *arg) { abort(); }
static pf_status change_of_mind(pf_ctx *c, const void *s) {
  uint64_t ticket;
  const pf_host *host = c->host;
  c = host->defer(c, &ticket);
  pf_status st = host->on_cancel(c, ticket, never, NULL);
  int32_t taken_back = host->off_cancel(ticket);
  if (!st) st = scalar_int(c, 0, taken_back + 10 * host->cancelled(c));
  host->done(ticket, st);
  return PF_PENDING;
}

/* after: at once on a host device, or once the stream is done */
static pf_status and_then(pf_ctx *c, void *arg) { return scalar_float(c, 0, *PF_DATA(float, c->in[0]) + *(float *)arg); }
static pf_status after(pf_ctx *c, const void *s) {
  static float four = 4;
  return c->host->after(c, and_then, &four);
}

/* post: both lanes */
static void posted_blocking(void *arg) { later_thread(arg); }
static void posted_cpu(void *arg) {
  job *j = arg;
  if (j->host->post(j->host, PF_LANE_BLOCKING, posted_blocking, j)) j->host->done(j->ticket, PF_INTERNAL);
}
static pf_status post(pf_ctx *c, const void *s) {
  uint64_t ticket;
  c = c->host->defer(c, &ticket);
  job *j = new_job(c->host, ticket, 1);
  return c->host->post(c->host, PF_LANE_CPU, posted_cpu, j) ? pf_fail(c, PF_INTERNAL, "post failed") : PF_PENDING;
}

/* post_caller: the thread that called run does it */
static void at_caller(void *arg) {
  job *j = arg;
  pf_ctx *c = j->host->pending(j->ticket);
  j->host->done(j->ticket, c ? scalar_int(c, 0, (int64_t)(uintptr_t)pthread_self()) : PF_INTERNAL);
  free(j);
}
static pf_status caller(pf_ctx *c, const void *s) {
  uint64_t ticket;
  c = c->host->defer(c, &ticket);
  job *j = new_job(c->host, ticket, 0);
  pf_status st = c->host->post_caller(c, at_caller, j);
  return st ? pf_fail(c, st, "no caller to run on") : PF_PENDING;
}

/* dead tokens */
static pf_status was_dead(pf_ctx *c, const void *s) {
  return scalar_int(c, 0, c->host->is_dead(c, 0) + 2 * (c->in[0] == NULL));
}
static pf_status die(pf_ctx *c, const void *s) { /* a Switch of its own: one of two outputs is dead */
  int32_t p = *PF_DATA(unsigned char, c->in[1]) != 0;
  pf_status st = c->host->set_dead(c, 1 - p);
  return st ? st : c->host->alias(c, 0, p, c->in[0]->shape, c->in[0]->ndim);
}
static pf_status die_wholly(pf_ctx *c, const void *s) { return c->host->set_dead(c, -1); }

const pf_op *const async_ops[] = {
  OP("exercise.Later", "x: float -> y: float; ms: int = 2"),
  OP("exercise.DoneFirst", "x: float -> y: float"),
  OP("exercise.FailLater", "x: float -> y: float"),
  OP("exercise.WaitForCancel", "x: float -> y: float", .flags = PF_OP_STATEFUL),
  OP("exercise.CancelledCount", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.ChangeOfMind", " -> n: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.After", "x: float -> y: float"),
  OP("exercise.Post", "x: float -> y: float"),
  OP("exercise.Caller", " -> thread: int64", .flags = PF_OP_STATEFUL),
  OP("exercise.WasDead", "x: float -> y: int64"),
  OP("exercise.Fork", "x: float, p: bool -> no: float, yes: float"),
  OP("exercise.Die", "x: float -> y: float"),
  0 };

#define ASYNC .flags = PF_KERNEL_ASYNC
const pf_kernel *const async_kernels[] = {
  KERNEL("exercise.Later", later, ASYNC, .state_size = sizeof(delay), .attrs = TABLE(pf_attr, PF_ATTR(delay, PF_ATTR_INT, ms))),
  KERNEL("exercise.DoneFirst", done_first, ASYNC),
  KERNEL("exercise.FailLater", fail_later, ASYNC),
  KERNEL("exercise.WaitForCancel", wait_for_cancel, ASYNC),
  KERNEL("exercise.CancelledCount", cancelled_count),
  KERNEL("exercise.ChangeOfMind", change_of_mind, ASYNC),
  KERNEL("exercise.After", after, ASYNC),
  KERNEL("exercise.Post", post, ASYNC),
  KERNEL("exercise.Caller", caller, ASYNC),
  KERNEL("exercise.WasDead", was_dead, .flags = PF_KERNEL_DEAD),
  KERNEL("exercise.Fork", die, .flags = PF_KERNEL_DEAD),
  KERNEL("exercise.Die", die_wholly, .flags = PF_KERNEL_DEAD),
  0 };
