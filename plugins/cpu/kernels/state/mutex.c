/* mutex.c - MutexV2, MutexLock, ConsumeMutexLock: a mutex between ops, for critical sections.
 *
 *     FREE -> HELD [MutexLock, or hand_over to the first waiter]
 *     HELD -> FREE [release: ConsumeMutexLock, or the last reference to the lock went]
 *
 * Invariants
 *   1. A lock is released once; a lock that nobody consumes is released when its tensor goes.
 *   2. Waiters get the mutex in the order they came; a cancelled one leaves the queue and fails.
 *   3. `done` is called without holding `guard`: it may run other nodes.
 * Threads: `guard` protects all fields of a mutex; references are atomic.
 */
#include <pthread.h>
#include <stdlib.h>
#include "base/common.h"

typedef struct waiter {
  struct waiter *next;
  pf_ctx *ctx;
  uint64_t ticket;
  struct mutex *m;
} waiter;
typedef struct mutex {
  pthread_mutex_t guard;
  int32_t refs, held;
  waiter *first, **last;
} mutex;
typedef struct {
  mutex *m;
  int32_t released;
} lock;

static void mutex_unref(void *obj) {
  mutex *m = obj;
  if (__atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_destroy(&m->guard);
  free(m);
}
static void mutex_tell(void *obj, pf_wait_state *to) {
  (void)obj;
  to->flags = PF_WAIT_HELD;
  snprintf(to->takes, sizeof to->takes, "lock");
}
static const pf_type mutex_type = {sizeof(pf_type), 0,    "pyflow.Mutex",
                                   mutex_unref,     NULL, mutex_tell};

static void release(lock *l);
static void lock_unref(void *obj) {
  lock *l = obj;
  release(l);
  mutex_unref(l->m);
  free(l);
}
static const pf_type lock_type = {sizeof(pf_type), 0, "pyflow.MutexLock", lock_unref, NULL, NULL};

/* output 0 of a call that has the mutex: a lock on it */
static pf_status give(pf_ctx *c, mutex *m) {
  lock *l = malloc(sizeof *l);
  if (!l) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a lock");
  *l = (lock){m, 0};
  __atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
  return c->host->resource_handle(c, 0, PF_SCOPE_CONTAINER, &lock_type, l);
}
/* the mutex is free: the first waiter that still waits gets it */
static void hand_over(mutex *m) {
  for (;;) {
    pthread_mutex_lock(&m->guard);
    waiter *w = m->first;
    if (!w) m->held = 0;
    else if (!(m->first = w->next)) m->last = &m->first;
    pthread_mutex_unlock(&m->guard);
    if (!w) return;
    pf_ctx *c = w->ctx;
    const pf_host *host = c->host;
    uint64_t ticket = w->ticket;
    free(w);
    int32_t waits = host->off_cancel(ticket);
    if (!waits) continue; /* its cancellation is under way and finds no waiter: see cancel */
    pf_status status = give(c, m);
    host->done(ticket, status);
    if (!status) return;
  }
}
static void release(lock *l) {
  if (!__atomic_exchange_n(&l->released, 1, __ATOMIC_ACQ_REL)) hand_over(l->m);
}
typedef struct {
  mutex *m;
  uint64_t ticket;
  const pf_host *host;
} cancellation;
static void cancel(void *arg) {
  cancellation *a = arg;
  pthread_mutex_lock(&a->m->guard);
  for (waiter **p = &a->m->first; *p; p = &(*p)->next)
    if ((*p)->ticket == a->ticket) {
      waiter *w = *p;
      if (!(*p = w->next)) a->m->last = p;
      free(w);
      break;
    }
  pthread_mutex_unlock(&a->m->guard);
  /* also when hand_over took it out: that one goes on to the next */
  a->host->done(a->ticket, PF_CANCELLED);
}

static pf_status make_mutex(pf_ctx *c, void *arg, void **obj) {
  mutex *m = malloc(sizeof *m);
  (void)arg;
  if (!m) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a mutex");
  *m = (mutex){.refs = 1};
  m->last = &m->first;
  pthread_mutex_init(&m->guard, NULL);
  *obj = m;
  return PF_OK;
}
typedef struct { pf_str container, shared_name; } mutex_state;
static pf_status mutex_op(pf_ctx *c, const void *state) {
  const mutex_state *s = state;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  return c->host->resource_output(c, 0, s->container, name, &mutex_type, make_mutex, NULL);
}
static pf_status lock_op(pf_ctx *c, const void *state) {
  void *obj;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &mutex_type, &obj));
  mutex *m = obj;
  pthread_mutex_lock(&m->guard);
  int32_t taken = !m->held;
  if (taken) m->held = 1;
  pthread_mutex_unlock(&m->guard);
  if (taken) {
    pf_status status = give(c, m);
    if (status) hand_over(m);
    return status;
  }
  waiter *w = malloc(sizeof *w);
  cancellation *a = c->host->scratch(c, sizeof *a, 8);
  if (!w || !a) {
    free(w);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to wait for a mutex");
  }
  uint64_t ticket;
  pf_ctx *later = c->host->defer(c, &ticket);
  *w = (waiter){NULL, later, ticket, m};
  *a = (cancellation){m, ticket, later->host};
  pf_status status = later->host->on_cancel(later, ticket, cancel, a);
  if (status) {
    free(w);
    later->host->done(ticket, PF_CANCELLED);
    return PF_PENDING;
  }
  pthread_mutex_lock(&m->guard);
  *m->last = w, m->last = &w->next;
  int32_t free_now = !m->held; /* released in between: nobody else would wake it */
  if (free_now) m->held = 1;
  pthread_mutex_unlock(&m->guard);
  if (free_now) hand_over(m);
  return PF_PENDING;
}
static pf_status consume_op(pf_ctx *c, const void *state) {
  void *obj;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &lock_type, &obj));
  release(obj);
  return PF_OK;
}

const pf_kernel *const mutex_kernels[] = {
  PF_CPU("MutexV2", NULL, .compute = mutex_op, .state_size = sizeof(mutex_state),
         .attrs = PF_ATTRS(PF_ATTR(mutex_state, PF_ATTR_STRING, container),
                           PF_ATTR(mutex_state, PF_ATTR_STRING, shared_name))),
  PF_CPU_FLAGS("MutexLock", NULL, PF_KERNEL_ASYNC | PF_KERNEL_TAKES, .compute = lock_op),
  PF_CPU_FLAGS("ConsumeMutexLock", NULL, 0, .compute = consume_op), NULL};
