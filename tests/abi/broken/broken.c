/* broken.c - a plugin with one fault, chosen by -DFAULT=NAME: what a host must refuse, report or contain.  See test_broken.py. */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NONE, NO_SYMBOL, WRONG_MAJOR, NEEDS_NEWER, DUPLICATE, NO_SCHEMA, CRITICAL_FLAG, CRASH_AT_LOAD, CRASH_IN_ENTRY,
       START_FAILS, CRASH_IN_START, NO_TABLES, HANGS_AT_LOAD };
#ifndef FAULT
#define FAULT NONE
#endif
#ifndef ID
#define ID "test.broken"
#endif
#ifndef OP
#define OP "broken.Twice"
#endif

typedef struct { const pf_host *host; uint64_t ticket; atomic_int arrived, left; } job;

/* ---------------------------------------------------------------- kernels that break the rules while running */
static pf_status scalar(pf_ctx *c, float value) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = value;
  return PF_OK;
}
static pf_status twice(pf_ctx *c, const void *s) { return scalar(c, 2 * *PF_DATA(float, c->in[0])); }

static pf_status never(pf_ctx *c, const void *s) { /* PENDING, and nobody will ever call done */
  uint64_t ticket;
  c->host->defer(c, &ticket);
  return PF_PENDING;
}
static pf_status done_twice(pf_ctx *c, const void *s) {
  uint64_t ticket;
  const pf_host *host = c->host;
  c = host->defer(c, &ticket);
  pf_status st = scalar(c, 3);
  host->done(ticket, st);
  host->done(ticket, PF_INTERNAL);
  return PF_PENDING;
}
static pf_status done_after_error(pf_ctx *c, const void *s) {
  uint64_t ticket;
  const pf_host *host = c->host;
  c = host->defer(c, &ticket);
  pf_status st = pf_fail(c, PF_UNAVAILABLE, "broken on purpose");
  host->done(ticket, st);
  host->done(ticket, PF_OK);
  return st;
}
static pf_status pending_without_defer(pf_ctx *c, const void *s) { return PF_PENDING; }
static pf_status forgets_output(pf_ctx *c, const void *s) { return PF_OK; }
static pf_status strange_output(pf_ctx *c, const void *s) { return c->host->output(c, 7, NULL, 0) ? PF_OK : PF_INTERNAL; }
static pf_status late_done(pf_ctx *c, const void *s);

static void *racing_done(void *arg) { /* two of these meet, then both say done */
  job *j = arg;
  atomic_fetch_add(&j->arrived, 1);
  while (atomic_load(&j->arrived) < 2) {}
  j->host->done(j->ticket, PF_OK);
  if (atomic_fetch_add(&j->left, 1) == 1) free(j);
  return NULL;
}
static pf_status done_by_two_threads(pf_ctx *c, const void *s) {
  job *j = calloc(1, sizeof *j);
  pthread_t t;
  c = (j->host = c->host)->defer(c, &j->ticket);
  if (scalar(c, 4)) return PF_RESOURCE_EXHAUSTED;
  for (int k = 0; k < 2; k++) {
    pthread_create(&t, NULL, racing_done, j);
    pthread_detach(t);
  }
  return PF_PENDING;
}
static void *done_late(void *arg) { /* when the step that it belonged to is over */
  job *j = arg;
  usleep(150000);
  j->host->done(j->ticket, PF_OK);
  free(j);
  return NULL;
}
static void on_cancel(void *arg) {
  job *j = arg;
  j->host->done(j->ticket, PF_CANCELLED);
}
static pf_status late_done(pf_ctx *c, const void *s) {
  job *j = malloc(sizeof *j);
  pthread_t t;
  c = (j->host = c->host)->defer(c, &j->ticket);
  if (c->host->on_cancel(c, j->ticket, on_cancel, j)) return PF_CANCELLED;
  pthread_create(&t, NULL, done_late, j);
  pthread_detach(t);
  return PF_PENDING;
}
static pf_status writes_past_its_output(pf_ctx *c, const void *s) { /* one float too many */
  int64_t n = pf_numel(c->in[0]);
  DLTensor *y = c->host->output(c, 0, &n, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i <= n; i++) PF_DATA(float, y)[i] = (float)i;
  return PF_OK;
}

/* ---------------------------------------------------------------- tables */
#define OP_(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_})
#define KERNEL(op_, fn, flags_) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (uint32_t)(flags_), .op = op_, .device = "CPU", .compute = fn})
#define X "x: float -> y: float"

static const pf_op *const ops[] = {
#ifdef RUNNING
  OP_("broken.Never", X), OP_("broken.DoneTwice", X), OP_("broken.DoneAfterError", X), OP_("broken.PendingWithoutDefer", X),
  OP_("broken.ForgetsOutput", X), OP_("broken.StrangeOutput", X), OP_("broken.DoneByTwoThreads", X), OP_("broken.LateDone", X),
  OP_("broken.WritesPastItsOutput", X),
#endif
  OP_(OP, X), NULL};

static const pf_kernel *const kernels[] = {
#ifdef RUNNING
  KERNEL("broken.Never", never, PF_KERNEL_ASYNC), KERNEL("broken.DoneTwice", done_twice, PF_KERNEL_ASYNC),
  KERNEL("broken.DoneAfterError", done_after_error, PF_KERNEL_ASYNC),
  KERNEL("broken.PendingWithoutDefer", pending_without_defer, PF_KERNEL_ASYNC),
  KERNEL("broken.ForgetsOutput", forgets_output, 0), KERNEL("broken.StrangeOutput", strange_output, 0),
  KERNEL("broken.DoneByTwoThreads", done_by_two_threads, PF_KERNEL_ASYNC),
  KERNEL("broken.LateDone", late_done, PF_KERNEL_ASYNC), KERNEL("broken.WritesPastItsOutput", writes_past_its_output, 0),
#endif
#if FAULT == 4 /* DUPLICATE */
  KERNEL(OP, twice, 0),
#elif FAULT == 5 /* NO_SCHEMA */
  KERNEL("broken.Unheard", twice, 0),
#elif FAULT == 6 /* CRITICAL_FLAG */
  KERNEL(OP, twice, 1u << 30),
#endif
  KERNEL(OP, twice, 0), NULL};

static pf_status start(const pf_host *host) {
  if (FAULT == START_FAILS) return PF_UNAVAILABLE;
  if (FAULT == CRASH_IN_START) abort();
  return PF_OK;
}

static const pf_plugin plugin = {
  .size = sizeof plugin, .id = ID, .version = "1", .ops = ops, .kernels = kernels, .start = start,
  .abi_major = FAULT == WRONG_MAJOR ? PF_ABI_MAJOR + 7 : PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR,
  .min_minor = FAULT == NEEDS_NEWER ? 99 : 0};

__attribute__((constructor)) static void at_load(void) {
  if (FAULT == CRASH_AT_LOAD) *(volatile int *)8 = 1;
  if (FAULT == HANGS_AT_LOAD) for (;;) pause();
}
#if FAULT == 1 /* NO_SYMBOL */
PF_EXPORT const pf_plugin *another_entry(const pf_host *host) { return &plugin; }
#else
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) {
  if (FAULT == CRASH_IN_ENTRY) abort();
  return FAULT == NO_TABLES ? NULL : &plugin;
}
#endif
