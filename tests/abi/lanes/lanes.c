/* lanes.c - kernels that block their thread, and kernels that have to start in one order. */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { int64_t ms, number; int32_t fails; } options;

static pf_status scalar(pf_ctx *c, int64_t value) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(int64_t, y) = value;
  return PF_OK;
}

/* How many run at once, at most; scratch and parallel_for as a kernel may use them. */
static atomic_int inside, most;
static void add_up(void *arg, int64_t lo, int64_t hi, int32_t worker) { atomic_fetch_add((atomic_long *)arg, hi - lo); }
static pf_status nap(pf_ctx *c, const void *s) {
  const options *o = s;
  int now = atomic_fetch_add(&inside, 1) + 1, seen = most;
  while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {}
  usleep((useconds_t)o->ms * 1000);
  atomic_fetch_sub(&inside, 1);
  atomic_long *sum = c->host->scratch(c, sizeof *sum, 8);
  if (!sum) return PF_RESOURCE_EXHAUSTED;
  atomic_init(sum, 0);
  if (c->host->parallel_for(c, 1000, 10, add_up, sum)) return PF_CANCELLED;
  if (o->fails) return pf_fail(c, PF_DATA_LOSS, "the disk is gone");
  return scalar(c, *PF_DATA(int64_t, c->in[0]) + atomic_load(sum));
}
static pf_status most_at_once(pf_ctx *c, const void *s) { return scalar(c, atomic_exchange(&most, 0)); }
static pf_status who(pf_ctx *c, const void *s) { return scalar(c, (int64_t)(uintptr_t)pthread_self()); }

/* A variable's lock is taken and given back on the lane's thread. */
static pf_status bump(pf_ctx *c, const void *s) {
  pf_var v = {0, PF_VAR_UPDATE};
  pf_status st = c->host->var_lock(c, &v, 1);
  if (st) return st;
  DLTensor *t = c->host->var_get(c, 0);
  if (!t) return PF_RESOURCE_EXHAUSTED;
  float before = *PF_DATA(float, t);
  usleep(2000);
  *PF_DATA(float, t) = before + 1;
  return PF_OK;
}
static pf_status pending(pf_ctx *c, const void *s) { return PF_PENDING; }

/* Collectives note when they start; the asynchronous one ends later, the longer the earlier it started. */
enum { ROOM = 4096 };
static atomic_int n_started;
static int32_t started[ROOM];
static void note(const options *o) {
  int k = atomic_fetch_add(&n_started, 1);
  if (k < ROOM) started[k] = (int32_t)o->number;
}
static pf_status reduce(pf_ctx *c, const void *s) {
  note(s);
  usleep(200);
  return scalar(c, *PF_DATA(int64_t, c->in[0]));
}
typedef struct { const pf_host *host; uint64_t ticket; int64_t us; } job;
static void *later(void *arg) {
  job *j = arg;
  usleep((useconds_t)j->us);
  pf_ctx *c = j->host->pending(j->ticket);
  if (c) j->host->done(j->ticket, scalar(c, *PF_DATA(int64_t, c->in[0])));
  free(j);
  return NULL;
}
static pf_status reduce_later(pf_ctx *c, const void *s) {
  const options *o = s;
  job *j = malloc(sizeof *j);
  pthread_t t;
  note(o);
  j->us = o->ms * 1000;
  c = (j->host = c->host)->defer(c, &j->ticket);
  pthread_create(&t, NULL, later, j);
  pthread_detach(t);
  return PF_PENDING;
}
static pf_status order(pf_ctx *c, const void *s) { /* the numbers in the order of their starts, and a new beginning */
  int64_t n = atomic_exchange(&n_started, 0);
  DLTensor *y = c->host->output(c, 0, &n, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  for (int64_t k = 0; k < n; k++) PF_DATA(int64_t, y)[k] = started[k];
  return PF_OK;
}

#define OP(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_})
#define ATTR(name_, kind, field) PF_REF(pf_attr, name_, kind, (int32_t)offsetof(options, field))
#define KERNEL(op_, fn, flags_, ...)                                                                          \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = flags_, .op = op_, .device = "CPU", .compute = fn, \
                      .state_size = sizeof(options), .attrs = (const pf_attr *const[]){__VA_ARGS__, NULL}})
#define NUMBERED ATTR("ms", PF_ATTR_INT, ms), ATTR("number", PF_ATTR_INT, number)

static const pf_op *const ops[] = {
  OP("lanes.Nap", "x: int64 -> y: int64; ms: int = 50, fails: bool = false"), OP("lanes.Most", " -> n: int64"),
  OP("lanes.Who", "x: int64 -> thread: int64"), OP("lanes.Bump", "handle: resource -> "), OP("lanes.Pending", "x: int64 -> y: int64"),
  OP("lanes.Reduce", "x: int64 -> y: int64; number: int, ms: int = 0"),
  OP("lanes.ReduceLater", "x: int64 -> y: int64; number: int, ms: int = 2"), OP("lanes.Order", " -> numbers: int64"), NULL};
static const pf_kernel *const kernels[] = {
  KERNEL("lanes.Nap", nap, PF_KERNEL_BLOCKING, ATTR("ms", PF_ATTR_INT, ms), ATTR("fails", PF_ATTR_BOOL, fails)),
  KERNEL("lanes.Most", most_at_once, 0, NULL), KERNEL("lanes.Who", who, PF_KERNEL_BLOCKING, NULL),
  KERNEL("lanes.Bump", bump, PF_KERNEL_BLOCKING, NULL), KERNEL("lanes.Pending", pending, PF_KERNEL_BLOCKING, NULL),
  KERNEL("lanes.Reduce", reduce, PF_KERNEL_COLLECTIVE, NUMBERED),
  KERNEL("lanes.ReduceLater", reduce_later, PF_KERNEL_COLLECTIVE | PF_KERNEL_ASYNC, NUMBERED),
  KERNEL("lanes.Order", order, 0, NULL), NULL};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "test.lanes", .version = "1", .ops = ops, .kernels = kernels,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 0};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
