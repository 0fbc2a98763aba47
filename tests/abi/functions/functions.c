/* functions.c - the extension "pyflow.functions/1": functions of the graph called by kernels, at once and later, and by threads
 * of the plugin's own that keep one after its step, and its session.
 *
 *   functions.Call      defers, calls, and passes a cancellation on            functions.Keep   puts a function into a slot
 *   functions.CallHere  waits in compute; CallSlowly on the BLOCKING lane      functions.Hold   into a resource of the session
 *   functions.Gate      an asynchronous kernel that waits until the test lets it go
 * What the tests call from Python is at the end. */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 8, MOST = 40, PATIENCE_S = 60 };
typedef DLManagedTensorVersioned tensor;
typedef struct {
  pf_str f;
  int64_t stream, timeout_ms, slot;
  int32_t within, early, forgets;
  pf_fn *fn; /* `early`: found by init */
} options;
static const pf_host *host;
static const pf_functions_api *api;
static atomic_long calls_alive; /* flights and waits that are not freed yet */

static pf_fn_options fn_options(const options *o) {
  return (pf_fn_options){.size = sizeof(pf_fn_options), .timeout_ns = o->timeout_ms * 1000000, .stream = (uint64_t)o->stream};
}

/* ---------------------------------------------------------------- finding one */
static pf_status init(pf_ctx *c, void *state) {
  options *o = state;
  return o->early ? api->get(c, o->f, &o->fn) : PF_OK;
}
static void fini(void *state) { api->release(((options *)state)->fn); }

static pf_status find(pf_ctx *c, const options *o, pf_fn **fn) {
  const int32_t *types;
  char text[200];
  if (o->fn) {
    api->retain(*fn = o->fn);
  } else {
    pf_status st = api->get(c, o->f, fn);
    if (st) return st;
  }
  int32_t n = api->outputs(*fn, &types), k = 0;
  while (n == c->n_out && k < n && types[k] == c->out_type[k]) k++;
  if (n == c->n_out && k == n) return PF_OK;
  snprintf(text, sizeof text, "the function has %d results, and result %d is of another type than the node's %d outputs", n, k, c->n_out);
  api->release(*fn);
  return pf_fail(c, PF_INVALID_ARGUMENT, text);
}
static int retain_all(pf_ctx *c, tensor **args) {
  for (int k = 0; k < c->n_in; k++) {
    if ((args[k] = c->host->retain(c, k))) continue;
    while (k--) args[k]->deleter(args[k]);
    return 0;
  }
  return 1;
}

/* ---------------------------------------------------------------- a call that goes on without its thread
 * 3 references: compute's, the cancel callback's, `landed`'s. */
typedef struct {
  pthread_mutex_t lock;
  atomic_int refs;
  int off; /* lock */
  pf_ctx *c;
  uint64_t ticket;
  pf_fn *fn;
  pf_fn_call *call; /* lock */
} flight;
static void unref(flight *f, int n) {
  if (atomic_fetch_sub(&f->refs, n) > n) return;
  api->drop(f->call);
  api->release(f->fn);
  pthread_mutex_destroy(&f->lock);
  free(f);
  atomic_fetch_sub(&calls_alive, 1);
}
static void called_off(void *arg) {
  flight *f = arg;
  pthread_mutex_lock(&f->lock);
  f->off = 1;
  api->cancel(f->call);
  pthread_mutex_unlock(&f->lock);
  unref(f, 1);
}
static void landed(void *arg, pf_status st, pf_str message, tensor *const *take) {
  flight *f = arg;
  int never = host->off_cancel(f->ticket);
  if (st) host->fail(f->c, st, message.data, message.len);
  for (int k = 0; !st && k < f->c->n_out; k++) host->set_output(f->c, k, take[k]);
  host->done(f->ticket, st);
  unref(f, never ? 2 : 1);
}
static pf_status compute_call(pf_ctx *c, const void *state) {
  const options *o = state;
  pf_fn_options how = fn_options(o);
  pf_fn_call *call = NULL;
  tensor *args[MOST];
  pf_fn *fn;
  pf_status st = find(c, o, &fn);
  if (st) return st;
  flight *f = calloc(1, sizeof *f);
  f->fn = fn;
  pthread_mutex_init(&f->lock, NULL);
  atomic_fetch_add(&calls_alive, 1);
  if (c->n_in > MOST || !retain_all(c, args)) return atomic_store(&f->refs, 1), unref(f, 1), PF_RESOURCE_EXHAUSTED;
  int32_t n = c->n_in - (o->forgets != 0);
  f->c = c = c->host->defer(c, &f->ticket);
  atomic_store(&f->refs, 3);
  st = host->on_cancel(c, f->ticket, called_off, f);
  if (st) {
    for (int k = 0; k < c->n_in; k++) args[k]->deleter(args[k]);
    unref(f, 3);
    return st;
  }
  if (n < c->n_in) args[n]->deleter(args[n]), args[n] = NULL;
  st = api->call(fn, o->within ? c : NULL, &how, args, landed, f, &call);
  if (st) {
    pf_fail(c, st, "the call was refused");
    landed(f, st, (pf_str){"", 0}, NULL);
  }
  pthread_mutex_lock(&f->lock);
  f->call = call;
  if (f->off) api->cancel(call);
  pthread_mutex_unlock(&f->lock);
  unref(f, 1);
  return PF_PENDING;
}

/* ---------------------------------------------------------------- a call that its thread waits for */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t over;
  int is_over, n;
  pf_status st;
  char text[400];
  tensor *take[MOST];
} waited;
static void wake(void *arg, pf_status st, pf_str message, tensor *const *take) {
  waited *w = arg;
  pthread_mutex_lock(&w->lock);
  w->st = st;
  snprintf(w->text, sizeof w->text, "%.*s", (int)message.len, message.data);
  for (int k = 0; !st && k < w->n; k++) w->take[k] = take[k];
  w->is_over = 1;
  pthread_cond_signal(&w->over);
  pthread_mutex_unlock(&w->lock);
}
static pf_status compute_here(pf_ctx *c, const void *state) {
  const options *o = state;
  pf_fn_options how = fn_options(o);
  pf_fn_call *call = NULL;
  tensor *args[MOST];
  pf_fn *fn;
  waited w = {.n = c->n_out};
  pf_status st = find(c, o, &fn);
  if (st) return st;
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.over, NULL);
  if (!retain_all(c, args)) return PF_RESOURCE_EXHAUSTED;
  st = api->call(fn, NULL, &how, args, wake, &w, &call);
  api->release(fn); /* the call keeps what it needs */
  if (st) return pf_fail(c, st, "the call was refused");
  pthread_mutex_lock(&w.lock);
  while (!w.is_over) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    pthread_cond_timedwait(&w.over, &w.lock, &until);
    if (!w.is_over && c->host->cancelled(c)) api->cancel(call);
  }
  pthread_mutex_unlock(&w.lock);
  api->drop(call);
  if (w.st) return c->host->fail(c, w.st, w.text, (int64_t)strlen(w.text));
  for (int k = 0; k < c->n_out; k++) c->host->set_output(c, k, w.take[k]);
  return PF_OK;
}

/* ---------------------------------------------------------------- functions that are kept */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static pf_fn *slots[SLOTS];
static void put(int slot, pf_fn *fn) {
  pthread_mutex_lock(&slots_lock);
  pf_fn *old = slots[slot];
  slots[slot] = fn;
  pthread_mutex_unlock(&slots_lock);
  api->release(old);
}
static pf_status keep(pf_ctx *c, const void *state) {
  const options *o = state;
  pf_fn *fn;
  if (o->fn) {
    api->retain(fn = o->fn);
  } else {
    pf_status st = api->get(c, o->f, &fn);
    if (st) return st;
  }
  put((int)o->slot, fn);
  return PF_OK;
}
static void let_go(void *obj) { api->release(obj); }
static const pf_type held = {.size = sizeof held, .id = "test.functions.held", .unref = let_go};
static pf_status make_held(pf_ctx *c, void *arg, void **obj) { return api->get(c, ((const options *)arg)->f, (pf_fn **)obj); }
static pf_status hold(pf_ctx *c, const void *state) {
  void *obj;
  return c->host->resource(c, PF_SCOPE_CONTAINER, (pf_str){"", 0}, (pf_str){"held", 4}, &held, make_held, (void *)(uintptr_t)state, &obj);
}

/* ---------------------------------------------------------------- gates: 2 references, the list's or opener's and the callback's */
typedef struct gate { struct gate *next; uint64_t ticket; int listed; atomic_int refs; } gate;
static pthread_mutex_t gates_lock = PTHREAD_MUTEX_INITIALIZER;
static gate *gates;
static int take_gate(gate *g) { /* lock held */
  gate **at = &gates;
  while (*at && *at != g) at = &(*at)->next;
  if (!*at) return 0;
  *at = g->next;
  return 1;
}
static void gate_unref(gate *g, int n) { if (atomic_fetch_sub(&g->refs, n) == n) free(g); }
static void gate_off(void *arg) {
  gate *g = arg;
  pthread_mutex_lock(&gates_lock);
  int mine = take_gate(g);
  pthread_mutex_unlock(&gates_lock);
  if (mine) host->done(g->ticket, PF_CANCELLED);
  gate_unref(g, mine ? 2 : 1);
}
static pf_status compute_gate(pf_ctx *c, const void *state) {
  gate *g = calloc(1, sizeof *g);
  c = c->host->defer(c, &g->ticket);
  atomic_store(&g->refs, 2);
  pf_status st = host->alias(c, 0, 0, NULL, 0);
  pthread_mutex_lock(&gates_lock);
  if (!st) st = host->on_cancel(c, g->ticket, gate_off, g);
  if (!st) g->next = gates, gates = g;
  pthread_mutex_unlock(&gates_lock);
  if (st) free(g);
  return st ? st : PF_PENDING;
}

/* ---------------------------------------------------------------- for the tests */
PF_EXPORT int gates_waiting(void) {
  int n = 0;
  pthread_mutex_lock(&gates_lock);
  for (gate *g = gates; g; g = g->next) n++;
  pthread_mutex_unlock(&gates_lock);
  return n;
}
PF_EXPORT void open_gates(void) {
  pthread_mutex_lock(&gates_lock);
  gate *all = gates;
  gates = NULL;
  pthread_mutex_unlock(&gates_lock);
  while (all) {
    gate *g = all;
    all = g->next;
    int never = host->off_cancel(g->ticket);
    host->done(g->ticket, PF_OK);
    gate_unref(g, never ? 2 : 1);
  }
}
PF_EXPORT void forget(int slot) { put(slot, NULL); }
PF_EXPORT long alive(void) { return atomic_load(&calls_alive); }

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t over;
  int64_t left, by_status[18], late; /* late: `done` came after the call had ended */
  char text[400];               /* of one that failed */
} tally;
typedef struct { tally *t; float *value; int32_t n_out, ended; pf_fn_call *call; } one;
static void count(void *arg, pf_status st, pf_str message, tensor *const *take) {
  one *o = arg;
  for (int k = 0; !st && k < o->n_out; k++) {
    if (k == 0 && host->type_of(take[0]) == PF_FLOAT32) *o->value = *PF_DATA(float, &take[0]->dl_tensor);
    take[k]->deleter(take[k]);
  }
  pthread_mutex_lock(&o->t->lock);
  if (st) snprintf(o->t->text, sizeof o->t->text, "%.*s", (int)message.len, message.data);
  o->t->late += o->ended++;
  o->t->by_status[st]++;
  if (--o->t->left == 0) pthread_cond_signal(&o->t->over);
  pthread_mutex_unlock(&o->t->lock);
}

typedef struct {
  pf_fn *fn;
  tally t;
  one *ones;
  const int32_t *types; /* of the arguments given, which may be wrong; 0: none */
  int32_t n_args, how;
  int64_t from, to;
  pf_fn_options options;
} work;
enum { CANCEL_NONE, CANCEL_AT_ONCE, CANCEL_LATER, CANCEL_AFTER };
static void *call_many(void *arg) {
  work *w = arg;
  tensor *args[MOST];
  for (int64_t i = w->from; i < w->to; i++) {
    for (int k = 0; k < w->n_args; k++) {
      args[k] = w->types[k] ? host->tensor_new(host, NULL, PF_MEM_HOST, w->types[k], NULL, 0) : NULL;
      if (w->types[k] == PF_FLOAT32) *PF_DATA(float, &args[k]->dl_tensor) = (float)i;
    }
    pf_status st = api->call(w->fn, NULL, &w->options, args, count, w->ones + i, w->how ? &w->ones[i].call : NULL);
    if (st) count(w->ones + i, st, (pf_str){"refused", 7}, NULL);
    else if (w->how == CANCEL_AT_ONCE) api->cancel(w->ones[i].call);
  }
  return NULL;
}
/* n calls of the function in `slot` under way at once, begun by `threads` threads; the i-th with i for its float arguments.
 * by_status[0..17], values[n], text[400].  -1: they do not end. */
PF_EXPORT int calls(int slot, int threads, int64_t n, const int32_t *types, int32_t n_args, int64_t stream, int64_t timeout_ns, int how,
                    int64_t *by_status, float *values, char *text) {
  pthread_t ids[16];
  work *w = calloc(16, sizeof *w);
  one *ones = calloc((size_t)n, sizeof *ones);
  tally *t = &w->t;
  int status = 0;
  pthread_mutex_lock(&slots_lock);
  pf_fn *fn = slots[slot];
  api->retain(fn);
  pthread_mutex_unlock(&slots_lock);
  const int32_t n_out = api->outputs(fn, NULL);
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->over, NULL);
  t->left = n;
  for (int64_t i = 0; i < n; i++) ones[i] = (one){.t = t, .value = values + i, .n_out = n_out};
  for (int k = 0; k < threads; k++) {
    w[k].fn = fn;
    w[k].ones = ones;
    w[k].types = types;
    w[k].n_args = n_args;
    w[k].how = how;
    w[k].from = n * k / threads;
    w[k].to = n * (k + 1) / threads;
    w[k].options = (pf_fn_options){.size = sizeof(pf_fn_options), .timeout_ns = timeout_ns, .stream = (uint64_t)stream};
    pthread_create(ids + k, NULL, call_many, w + k);
  }
  for (int k = 0; k < threads; k++) pthread_join(ids[k], NULL);
  if (how == CANCEL_LATER) {
    while (gates_waiting() < 1 && t->left) sched_yield();
    for (int64_t i = 0; i < n; i++) api->cancel(ones[i].call);
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  pthread_mutex_lock(&t->lock);
  while (t->left > 0 && !status) status = pthread_cond_timedwait(&t->over, &t->lock, &until);
  status = t->left > 0 ? -1 : (int)t->late;
  pthread_mutex_unlock(&t->lock);
  for (int64_t i = 0; how && i < n; i++) {
    if (how == CANCEL_AFTER) api->cancel(ones[i].call);
    api->drop(ones[i].call);
  }
  memcpy(by_status, t->by_status, sizeof t->by_status);
  memcpy(text, t->text, sizeof t->text);
  if (status < 0) return status; /* those that are under way may still look at what is theirs */
  api->release(fn);
  free(ones);
  free(w);
  return status;
}
PF_EXPORT int arguments(int slot, int32_t *types) {
  const int32_t *found;
  int n = api->inputs(slots[slot], &found);
  memcpy(types, found, sizeof *found * (size_t)n);
  return n;
}
/* What a program that makes mistakes is told: NULL where something is needed; a bit for each answer that is as it should be. */
PF_EXPORT int mistakes(void) {
  pf_fn *fn = (pf_fn *)&fn;
  pf_fn_call *call = (pf_fn_call *)&call;
  int right = api->get(NULL, (pf_str){"f", 1}, &fn) == PF_INVALID_ARGUMENT;
  right |= (api->call(NULL, NULL, NULL, NULL, count, NULL, &call) == PF_INVALID_ARGUMENT && !call) << 1;
  right |= (slots[0] && api->call(slots[0], NULL, NULL, NULL, NULL, NULL, &call) == PF_INVALID_ARGUMENT) << 2;
  right |= (api->inputs(NULL, NULL) == 0 && api->outputs(NULL, NULL) == 0) << 3;
  api->retain(NULL);
  api->release(NULL);
  api->cancel(NULL);
  api->drop(NULL);
  return right;
}

/* ---------------------------------------------------------------- tensors and handles outside a call
 * functions.Handles gives its inputs back as shares of them, and a variant that counts how often it is there. */
static atomic_int boxes;
static void box_unref(void *obj) {
  atomic_fetch_sub(&boxes, 1);
  free(obj);
}
static const pf_type BOX = {.size = sizeof(pf_type), .id = "test.Box", .unref = box_unref};
static const pf_type OTHER = {.size = sizeof(pf_type), .id = "test.Other", .unref = box_unref};
static pf_status handles(pf_ctx *c, const void *state) {
  void *obj = NULL, *same = malloc(8);
  (void)state;
  atomic_fetch_add(&boxes, 1);
  tensor *handle = host->handle_new(host, PF_VARIANT, &BOX, same), *again = handle ? host->tensor_ref(handle) : NULL;
  if (!handle || !again) return PF_RESOURCE_EXHAUSTED;
  int right = host->handle_get(again, &BOX, &obj) == PF_OK && obj == same;
  right &= host->handle_get(handle, &OTHER, &obj) == PF_INVALID_ARGUMENT && host->type_of(again) == PF_VARIANT;
  right &= !host->handle_new(host, PF_FLOAT32, &BOX, NULL) && !host->tensor_ref(NULL);
  handle->deleter(handle);
  right &= atomic_load(&boxes) >= 1 && host->handle_get(again, &BOX, &obj) == PF_OK && obj == same;
  pf_status st = right ? host->set_output(c, c->n_out - 1, again) : PF_INTERNAL;
  for (int k = 0; !st && k < c->n_in; k++) {
    tensor *kept = host->retain(c, k), *shared = kept ? host->tensor_ref(kept) : NULL;
    if (kept && host->handle_get(kept, &BOX, &obj) == PF_OK && host->type_of(kept) != PF_VARIANT) st = PF_INTERNAL;
    if (kept) kept->deleter(kept);
    if (!st) st = shared ? host->set_output(c, k, shared) : PF_RESOURCE_EXHAUSTED;
  }
  return st;
}
PF_EXPORT int boxes_alive(void) { return atomic_load(&boxes); }

/* ---------------------------------------------------------------- tables */
#define SIG "args: T -> results: U; f: func, T: list(type) >= 0, U: list(type) >= 0, within: bool = true, early: bool = false, " \
            "forgets: bool = false, stream: int = 0, timeout_ms: int = 0"
#define OP(name_, sig_) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_})
#define ATTR(kind_, field) (&(const pf_attr){.size = sizeof(pf_attr), .flags = PF_ATTR_OPTIONAL, .name = #field, .kind = kind_, \
                                            .offset = (int32_t)offsetof(options, field)})
#define KERNEL(op_, fn_, flags_) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (flags_), .op = op_, .device = "CPU", .compute = fn_, .init = init, \
                      .fini = fini, .attrs = attrs, .state_size = sizeof(options)})
static const pf_attr *const attrs[] = {
  ATTR(PF_ATTR_FUNC, f), ATTR(PF_ATTR_INT, stream), ATTR(PF_ATTR_INT, timeout_ms), ATTR(PF_ATTR_INT, slot),
  ATTR(PF_ATTR_BOOL, within), ATTR(PF_ATTR_BOOL, early), ATTR(PF_ATTR_BOOL, forgets), NULL};
static const pf_op *const ops[] = {
  OP("functions.Call", SIG), OP("functions.CallHere", SIG), OP("functions.CallSlowly", SIG),
  OP("functions.Keep", " -> ; f: func, slot: int = 0, early: bool = false"), OP("functions.Hold", " -> ; f: func"),
  OP("functions.Gate", "x: float -> y: float"),
  OP("functions.Handles", "args: T -> results: T, handle: variant; T: list(type) >= 0"), NULL};
static const pf_kernel *const kernels[] = {
  KERNEL("functions.Call", compute_call, PF_KERNEL_ASYNC), KERNEL("functions.CallHere", compute_here, 0),
  KERNEL("functions.CallSlowly", compute_here, PF_KERNEL_BLOCKING), KERNEL("functions.Keep", keep, 0),
  KERNEL("functions.Hold", hold, 0), KERNEL("functions.Gate", compute_gate, PF_KERNEL_ASYNC),
  (&(const pf_kernel){.size = sizeof(pf_kernel), .op = "functions.Handles", .device = "CPU", .compute = handles}), NULL};
static pf_status start(const pf_host *h) {
  host = h;
  api = h->extension("pyflow.functions/1");
  return api ? PF_OK : PF_UNIMPLEMENTED;
}
static const pf_plugin plugin = {.size = sizeof plugin, .id = "test.functions", .version = "1", .ops = ops, .kernels = kernels,
                                 .start = start, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR, .min_minor = 1};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { return &plugin; }
