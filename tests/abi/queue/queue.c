/* queue.c - a FIFO queue whose blocked calls hold no thread.  Nothing but pyflow/kernel.h, threads and the C library.
 *
 * Invariants
 *   1. A blocked call is a WAITER in one of the queue's two lists.  Who takes it out of the list, under the queue's lock, calls
 *      `done`: an arriving element, a departing one, close, abort, or the cancel callback.
 *   2. `done`, `fail` and `set_output` are called without the lock; `on_cancel` with it (the host holds no lock when it calls us).
 *   3. A waiter has two references, the list's and the cancel callback's; the second goes when off_cancel says the callback will
 *      never run, or at its end.  A waiter keeps its queue.
 */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef DLManagedTensorVersioned tensor;
typedef struct item { struct item *next; tensor *value; } item;
typedef struct queue queue;
typedef struct waiter {
  struct waiter *next, *prev;
  queue *q;
  const pf_host *host;
  uint64_t ticket;
  tensor *value;                /* of a blocked Enqueue */
  int64_t turn;
  int32_t listed;               /* in a list (queue's lock) */
  atomic_int refs;
} waiter;
typedef struct { waiter *first, *last; } list;
struct queue {
  atomic_int refs;
  pthread_mutex_t lock;
  item *first, *last;
  int64_t n, capacity, turns;
  int32_t closed, why;          /* why: the status of an abort */
  list getters, putters;
};

static void drop(tensor *t) { if (t) t->deleter(t); }

static void queue_unref(void *obj) {
  queue *q = obj;
  if (atomic_fetch_sub(&q->refs, 1) > 1) return;
  while (q->first) {
    item *i = q->first;
    q->first = i->next;
    drop(i->value);
    free(i);
  }
  pthread_mutex_destroy(&q->lock);
  free(q);
}

/* ---------------------------------------------------------------- waiters */
static void waiter_unref(waiter *w, int n) {
  if (atomic_fetch_sub(&w->refs, n) > n) return;
  drop(w->value);
  queue_unref(w->q);
  free(w);
}
static void append(list *l, waiter *w) {
  w->prev = l->last;
  w->next = NULL;
  *(l->last ? &l->last->next : &l->first) = w;
  l->last = w;
  w->listed = 1;
}
static void take_out(list *l, waiter *w) {
  *(w->prev ? &w->prev->next : &l->first) = w->next;
  *(w->next ? &w->next->prev : &l->last) = w->prev;
  w->listed = 0;
}
static waiter *pop(list *l) {
  waiter *w = l->first;
  if (w) take_out(l, w);
  return w;
}

static pf_status closed_message(pf_ctx *c, pf_status st) {
  return pf_fail(c, st, st == PF_OUT_OF_RANGE ? "the queue is closed and has insufficient elements (requested 1, current size 0)"
                                              : "the queue is closed");
}

/* Ends a call that was taken out of its list: with an element (taken), or with a status. */
static void finish(waiter *w, pf_status st, tensor *value) {
  const pf_host *host = w->host;
  uint64_t ticket = w->ticket;
  pf_ctx *c = host->pending(ticket);
  int never = host->off_cancel(ticket);
  if (value) {
    DLTensor *turn = host->output(c, 1, NULL, 0);
    if (turn) *PF_DATA(int64_t, turn) = w->turn;
    st = host->set_output(c, 0, value);
    if (!turn) st = PF_RESOURCE_EXHAUSTED;
  } else if (st) {
    closed_message(c, st);
  }
  host->done(ticket, st);
  waiter_unref(w, never ? 2 : 1);
}

static void cancelled(void *arg) {
  waiter *w = arg;
  queue *q = w->q;
  pthread_mutex_lock(&q->lock);
  int mine = w->listed;
  if (mine) take_out(w->value ? &q->putters : &q->getters, w);
  pthread_mutex_unlock(&q->lock);
  if (mine) w->host->done(w->ticket, PF_CANCELLED);
  waiter_unref(w, mine ? 2 : 1);
}

/* The call waits in `l`.  With the queue's lock; PF_PENDING, or why it cannot wait. */
static pf_status wait_in(pf_ctx *c, queue *q, list *l, tensor *value) {
  waiter *w = calloc(1, sizeof *w);
  if (!w) return drop(value), PF_RESOURCE_EXHAUSTED;
  *w = (waiter){.q = q, .host = c->host, .value = value, .turn = value ? 0 : q->turns++, .refs = 2};
  atomic_fetch_add(&q->refs, 1);
  pf_ctx *kept = c->host->defer(c, &w->ticket);
  pf_status st = kept ? PF_OK : PF_RESOURCE_EXHAUSTED;
  if (!st) {
    append(l, w);
    st = c->host->on_cancel(kept, w->ticket, cancelled, w);
    if (st) take_out(l, w);
  }
  if (!st) return PF_PENDING;
  w->q = NULL; /* the caller still holds the lock: its own reference keeps the queue */
  atomic_fetch_sub(&q->refs, 1);
  drop(w->value);
  free(w);
  return st;
}

/* ---------------------------------------------------------------- elements */
static int put(queue *q, tensor *value) {
  item *i = malloc(sizeof *i);
  if (!i) return 0;
  *i = (item){NULL, value};
  *(q->last ? &q->last->next : &q->first) = i;
  q->last = i;
  q->n++;
  return 1;
}
static tensor *get(queue *q) {
  item *i = q->first;
  if (!i) return NULL;
  tensor *t = i->value;
  q->first = i->next;
  if (!q->first) q->last = NULL;
  q->n--;
  free(i);
  return t;
}

static void wake(list l, pf_status st) {
  for (waiter *w = l.first, *next; w; w = next) {
    next = w->next;
    finish(w, st, NULL);
  }
}
static list all_of(list *l) {
  list taken = *l;
  for (waiter *w = l->first; w; w = w->next) w->listed = 0;
  *l = (list){NULL, NULL};
  return taken;
}

static void queue_abort(void *obj, pf_status why) {
  queue *q = obj;
  pthread_mutex_lock(&q->lock);
  q->closed = 1;
  q->why = why;
  list getters = all_of(&q->getters), putters = all_of(&q->putters);
  pthread_mutex_unlock(&q->lock);
  wake(getters, why);
  wake(putters, why);
}

/* ---------------------------------------------------------------- kernels */
static void queue_tell(void *obj, pf_wait_state *to) {
  queue *q = obj;
  pthread_mutex_lock(&q->lock);
  snprintf(to->takes, sizeof to->takes, "acme's queue without elements");
  snprintf(to->puts, sizeof to->puts, "acme's queue with %lld elements", (long long)q->n);
  pthread_mutex_unlock(&q->lock);
}
static const pf_type queue_type = {sizeof(pf_type), 0, "acme.FIFOQueue", queue_unref, queue_abort, queue_tell};
typedef struct { int64_t capacity; int32_t cancel; pf_str container, name; } options;

static pf_status make(pf_ctx *c, void *arg, void **obj) {
  queue *q = calloc(1, sizeof *q);
  if (!q) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a queue");
  q->refs = 1;
  q->capacity = *(int64_t *)arg;
  pthread_mutex_init(&q->lock, NULL);
  *obj = q;
  return PF_OK;
}
static pf_status fifo_queue(pf_ctx *c, const void *s) {
  const options *o = s;
  int64_t capacity = o->capacity;
  return c->host->resource_output(c, 0, o->container, o->name, &queue_type, make, &capacity);
}

static pf_status enqueue(pf_ctx *c, const void *s) {
  queue *q;
  pf_status st = c->host->resource_get(c, 0, &queue_type, (void **)&q);
  if (st) return st;
  tensor *value = c->host->retain(c, 1);
  if (!value) return PF_RESOURCE_EXHAUSTED;
  waiter *getter = NULL;
  pthread_mutex_lock(&q->lock);
  if (q->closed) st = q->why ? q->why : PF_CANCELLED;
  else if (!(getter = pop(&q->getters))) {
    if (q->capacity < 0 || q->n < q->capacity) st = put(q, value) ? PF_OK : PF_RESOURCE_EXHAUSTED;
    else st = wait_in(c, q, &q->putters, value), value = NULL;
  }
  pthread_mutex_unlock(&q->lock);
  if (getter) finish(getter, PF_OK, value);
  else if (st && value) drop(value);
  return st == PF_CANCELLED || st == PF_ABORTED ? closed_message(c, st) : st;
}

static pf_status dequeue(pf_ctx *c, const void *s) {
  queue *q;
  pf_status st = c->host->resource_get(c, 0, &queue_type, (void **)&q);
  if (st) return st;
  waiter *putter = NULL;
  int64_t turn = 0;
  pthread_mutex_lock(&q->lock);
  tensor *value = get(q);
  if (value) {
    turn = q->turns++;
    if ((putter = pop(&q->putters))) {
      put(q, putter->value);
      putter->value = NULL;
    }
  } else if (q->closed) {
    st = q->why ? q->why : PF_OUT_OF_RANGE;
  } else {
    st = wait_in(c, q, &q->getters, NULL);
  }
  pthread_mutex_unlock(&q->lock);
  if (putter) finish(putter, PF_OK, NULL);
  if (!value) return st == PF_OUT_OF_RANGE || st == PF_CANCELLED || st == PF_ABORTED ? closed_message(c, st) : st;
  DLTensor *t = c->host->output(c, 1, NULL, 0);
  if (!t) return drop(value), PF_RESOURCE_EXHAUSTED;
  *PF_DATA(int64_t, t) = turn;
  return c->host->set_output(c, 0, value);
}

static pf_status close_queue(pf_ctx *c, const void *s) {
  const options *o = s;
  queue *q;
  pf_status st = c->host->resource_get(c, 0, &queue_type, (void **)&q);
  if (st) return st;
  list putters = {NULL, NULL};
  pthread_mutex_lock(&q->lock);
  q->closed = 1;
  list getters = all_of(&q->getters);
  if (o->cancel) putters = all_of(&q->putters);
  pthread_mutex_unlock(&q->lock);
  wake(getters, PF_OUT_OF_RANGE);
  wake(putters, PF_CANCELLED);
  return PF_OK;
}

static pf_status size(pf_ctx *c, const void *s) { /* elements, blocked Dequeues, blocked Enqueues */
  queue *q;
  pf_status st = c->host->resource_get(c, 0, &queue_type, (void **)&q);
  if (st) return st;
  int64_t three = 3;
  DLTensor *y = c->host->output(c, 0, &three, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  int64_t *to = PF_DATA(int64_t, y);
  to[1] = to[2] = 0;
  pthread_mutex_lock(&q->lock);
  to[0] = q->n;
  for (waiter *w = q->getters.first; w; w = w->next) to[1]++;
  for (waiter *w = q->putters.first; w; w = w->next) to[2]++;
  pthread_mutex_unlock(&q->lock);
  return PF_OK;
}

/* ---------------------------------------------------------------- tables */
#define TABLE(kind, ...) ((const kind *const[]){__VA_ARGS__, NULL})
#define OP(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_})
#define KERNEL(op_, fn, flags_, ...)                                                                          \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = flags_, .op = op_, .device = "CPU", .compute = fn, \
                      .state_size = sizeof(options), .attrs = TABLE(pf_attr, __VA_ARGS__)})
#define ATTR(name_, kind, field) PF_REF(pf_attr, name_, kind, (int32_t)offsetof(options, field))

static const pf_op *const ops[] = {
  OP("acme.FIFOQueue", " -> handle: resource; capacity: int = -1, container: string = \"\", shared_name: string = \"\""),
  OP("acme.Enqueue", "handle: resource, value: T -> ; T: type"),
  OP("acme.Dequeue", "handle: resource -> value: T, turn: int64; T: type"),
  OP("acme.Close", "handle: resource -> ; cancel_pending_enqueues: bool = false"),
  OP("acme.Size", "handle: resource -> size: int64"), NULL};
static const pf_kernel *const kernels[] = {
  KERNEL("acme.FIFOQueue", fifo_queue, 0, ATTR("capacity", PF_ATTR_INT, capacity),
         ATTR("container", PF_ATTR_STRING, container), ATTR("shared_name", PF_ATTR_STRING, name)),
  KERNEL("acme.Enqueue", enqueue, PF_KERNEL_ASYNC | PF_KERNEL_PUTS, NULL),
  KERNEL("acme.Dequeue", dequeue, PF_KERNEL_ASYNC | PF_KERNEL_TAKES, NULL),
  KERNEL("acme.Close", close_queue, 0, ATTR("cancel_pending_enqueues", PF_ATTR_BOOL, cancel)),
  KERNEL("acme.Size", size, 0, NULL), NULL};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.acme.queue", .version = "1", .ops = ops, .kernels = kernels,
                                 .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 0};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *host) { return &plugin; }
