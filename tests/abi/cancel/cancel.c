/* cancel.c - kernels that ask whether they are cancelled, from every kind of thread; calls whose `done` comes while the host
 * looks at them; tensors injected early; a plugin that counts its ends.  See test_cancel.py. */
#include <pyflow/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define H (c->host)
typedef struct { int64_t ms; } state;

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static pf_status give(pf_ctx *c, float value) {
  DLTensor *y = H->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = value;
  return PF_OK;
}
static int32_t spin(pf_ctx *c, int64_t ms) { /* 1: it was cancelled; 0: ms milliseconds are over */
  for (int64_t end = now_ms() + ms; now_ms() < end; usleep(500))
    if (H->cancelled(c)) return 1;
  return 0;
}

/* ---------------------------------------------------------------- who asks: compute, a helper of parallel_for, a thread of its own */
static pf_status spins(pf_ctx *c, const void *s) { return spin(c, ((const state *)s)->ms) ? PF_CANCELLED : give(c, 1); }

typedef struct { pf_ctx *c; int64_t ms; atomic_int cancelled; } loop;
static void spin_in_loop(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  loop *l = arg;
  if (spin(l->c, l->ms)) atomic_store(&l->cancelled, 1);
}
static pf_status spins_in_a_loop(pf_ctx *c, const void *s) {
  loop l = {c, ((const state *)s)->ms, 0};
  pf_status st = H->parallel_for(c, 4, 1, spin_in_loop, &l);
  return st || atomic_load(&l.cancelled) ? PF_CANCELLED : give(c, 1);
}
typedef struct { const pf_host *host; uint64_t ticket; int64_t ms; } job;
static void *spin_on_thread(void *arg) {
  job *j = arg;
  pf_ctx *c = j->host->pending(j->ticket);
  j->host->done(j->ticket, c && spin(c, j->ms) ? PF_CANCELLED : give(c, 1));
  free(j);
  return NULL;
}
static pf_status spins_on_a_thread(pf_ctx *c, const void *s) {
  job *j = malloc(sizeof *j);
  pthread_t id;
  *j = (job){H, 0, ((const state *)s)->ms};
  H->defer(c, &j->ticket);
  pthread_create(&id, NULL, spin_on_thread, j);
  pthread_detach(id);
  return PF_PENDING;
}
static pf_status naps(pf_ctx *c, const void *s) { /* asks nobody */
  usleep((useconds_t)((const state *)s)->ms * 1000);
  return give(c, 1);
}

/* A kernel asks while it holds a lock that the other's callback takes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void take_lock(void *arg) {
  job *j = arg;
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  j->host->done(j->ticket, PF_CANCELLED);
  free(j);
}
static pf_status listens(pf_ctx *c, const void *s) {
  job *j = malloc(sizeof *j);
  *j = (job){H, 0, 0};
  c = H->defer(c, &j->ticket);
  if (H->on_cancel(c, j->ticket, take_lock, j)) {
    uint64_t ticket = j->ticket;
    free(j);
    H->done(ticket, PF_CANCELLED);
  }
  return PF_PENDING;
}
static pf_status spins_locked(pf_ctx *c, const void *s) {
  pthread_mutex_lock(&lock);
  pf_status st = spins(c, s);
  pthread_mutex_unlock(&lock);
  return st;
}
static pf_status millions(pf_ctx *c, const void *s) { /* what asking costs, in nanoseconds */
  enum { N = 2000000 };
  struct timespec a, b;
  int32_t any = 0;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int k = 0; k < N; k++) any |= H->cancelled(c);
  clock_gettime(CLOCK_MONOTONIC, &b);
  return any ? PF_CANCELLED : give(c, (float)((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / N);
}

/* ---------------------------------------------------------------- done in the middle of a look
 * between(ticket) is called by the host when it has found a call by its ticket: here `done` comes, and the host waits.  The
 * step must not be over before the host looked. */
enum { WITH_DONE = 1, WITHOUT = 2 };
static const pf_host *host;
static atomic_int armed, looked;
static void *done_now(void *arg) {
  host->done((uint64_t)(uintptr_t)arg, PF_OK);
  return NULL;
}
PF_EXPORT void between(uint64_t ticket) {
  pthread_t id;
  int how = atomic_exchange(&armed, 0);
  if (!how) return;
  if (how == WITH_DONE) {
    pthread_create(&id, NULL, done_now, (void *)(uintptr_t)ticket);
    pthread_join(id, NULL);
  }
  usleep(60000);
  atomic_store(&looked, 1);
}
PF_EXPORT int host_has_looked(void) { return atomic_exchange(&looked, 0); }
static void nothing(void *arg) {}
static void *listen_now(void *arg) {
  host->on_cancel(NULL, (uint64_t)(uintptr_t)arg, nothing, NULL);
  return NULL;
}
static void *unlisten_now(void *arg) {
  host->off_cancel((uint64_t)(uintptr_t)arg);
  return NULL;
}
static pf_status raced(pf_ctx *c, void *(*by)(void *)) {
  uint64_t ticket;
  pthread_t id;
  host = H;
  c = H->defer(c, &ticket);
  pf_status st = give(c, 1);
  if (st) return st;
  atomic_store(&armed, WITH_DONE);
  pthread_create(&id, NULL, by, (void *)(uintptr_t)ticket);
  pthread_detach(id);
  return PF_PENDING;
}
static pf_status races_on_cancel(pf_ctx *c, const void *s) { return raced(c, listen_now); }
static pf_status races_off_cancel(pf_ctx *c, const void *s) { return raced(c, unlisten_now); }
static pf_status races_and_returns(pf_ctx *c, const void *s) { /* compute ends the call, by its status, during the look */
  uint64_t ticket;
  pthread_t id;
  host = H;
  c = H->defer(c, &ticket);
  pf_status st = give(c, 1);
  atomic_store(&armed, WITHOUT);
  pthread_create(&id, NULL, listen_now, (void *)(uintptr_t)ticket);
  pthread_detach(id);
  while (atomic_load(&armed)) {}
  return st;
}
static pf_status lane_done(pf_ctx *c, const void *s) { /* a BLOCKING kernel that is no asynchronous one finds its ticket anyway */
  uint64_t ticket;
  pthread_t id;
  host = H;
  if (!H->defer(c, &ticket)) return PF_INTERNAL;
  pf_status st = give(c, 1);
  pthread_create(&id, NULL, done_now, (void *)(uintptr_t)ticket);
  pthread_detach(id);
  return st;
}

/* ---------------------------------------------------------------- tensors that come early */
typedef struct { const pf_host *host; int64_t step; uint64_t incarnation; pf_status st; } message;
static const pf_str KEY = {"early", 5};
static void *inject(void *arg) {
  message *m = arg;
  const pf_transport *t = m->host->extension("pyflow.transport/1");
  DLManagedTensorVersioned *tensor = m->host->tensor_new(m->host, NULL, PF_MEM_HOST, PF_FLOAT32, NULL, 0);
  *PF_DATA(float, &tensor->dl_tensor) = 7;
  m->st = t->inject(m->host, m->step, m->incarnation, KEY, tensor, 0);
  return NULL;
}
static void arrived(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  *(int *)arg = st == PF_OK && take;
  if (take) take->deleter(take);
}
static pf_status early(pf_ctx *c, const void *s) { /* the step's first word in the rendezvous comes from outside */
  const pf_transport *t = H->extension("pyflow.transport/1");
  message m = {H, c->step, t->incarnation(c), 0};
  pthread_t id;
  pthread_create(&id, NULL, inject, &m);
  pthread_join(id, NULL);
  if (m.st) return pf_fail(c, m.st, "the early tensor was refused");
  int there = 0;
  pf_status st = t->recv(c, KEY, arrived, &there);
  return st ? st : there ? give(c, 7) : pf_fail(c, PF_DATA_LOSS, "the early tensor is gone");
}
static void meet(void *arg, pf_status st, DLManagedTensorVersioned *take, int32_t dead) {
  job *j = arg;
  pf_ctx *c = j->host->pending(j->ticket);
  if (c && st == PF_OK) st = j->host->set_output(c, 0, take);
  else if (take) take->deleter(take);
  j->host->done(j->ticket, st);
  free(j);
}
static pf_status together(pf_ctx *c, const void *s) { /* both first words at once */
  const pf_transport *t = H->extension("pyflow.transport/1");
  job *j = malloc(sizeof *j);
  message m = {H, c->step, t->incarnation(c), 0};
  pthread_t id;
  *j = (job){H, 0, 0};
  c = H->defer(c, &j->ticket);
  uint64_t ticket = j->ticket;
  pthread_create(&id, NULL, inject, &m);
  pf_status st = t->recv(c, KEY, meet, j);
  pthread_join(id, NULL);
  if (st) { free(j); return st; }
  if (m.st) m.host->done(ticket, PF_DATA_LOSS);
  return PF_PENDING;
}
static atomic_llong last_step;
static pf_status notes_step(pf_ctx *c, const void *s) {
  atomic_store(&last_step, c->step);
  return give(c, 1);
}
static pf_status afterwards(pf_ctx *c, const void *s) { /* what inject says of a step that is over */
  const pf_transport *t = H->extension("pyflow.transport/1");
  message m = {H, atomic_load(&last_step), t->incarnation(c), 0};
  inject(&m);
  return give(c, (float)m.st);
}

/* ---------------------------------------------------------------- native, pf_infer.host, the end */
static int handle;
static const void *native(void *dev, void *stream, const char *what) { return strcmp(what, "ended.handle") ? NULL : &handle; }
static pf_status asks_native(pf_ctx *c, const void *s) {
  return give(c, (float)((H->native(c, "ended.handle") == &handle) + 2 * (H->native(c, "other") == NULL) + 4 * (H->native(c, NULL) == NULL)));
}
static pf_status infer(pf_infer *f) {
  const int64_t dims[1] = {f->size == sizeof *f ? f->host->infer_n(f, 0) : -1};
  return f->host->infer_set(f, 0, dims, 1);
}
static pf_status as_long_as_inputs(pf_ctx *c, const void *s) {
  const int64_t one = 1;
  DLTensor *y = H->output(c, 0, &one, 1);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(float, y) = 1;
  return PF_OK;
}
static void say(const char *what) {
  if (!getenv("PYFLOW_TEST_ENDS")) return;
  if (write(1, what, strlen(what)) < 0) abort();
}
static int32_t one(void *self) { return 1; }
static pf_status opens(const pf_host *h, void *self, int32_t ordinal, void **dev, char *err, int32_t len) {
  *dev = &handle;
  say("open ");
  return PF_OK;
}
static void closes(void *dev) { say(dev == &handle ? "close " : "close of nothing "); }
static pf_status start(const pf_host *h) { return say("start "), PF_OK; }
static void stop(const pf_host *h) { say("stop "); }
static void fini(void *s) { say("fini "); }

/* ---------------------------------------------------------------- tables */
#define OP_(name_, sig_, ...) (&(const pf_op){.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = name_, .sig = sig_, __VA_ARGS__})
#define KERNEL(op_, fn, flags_, ...) \
  (&(const pf_kernel){.size = sizeof(pf_kernel), .flags = (flags_), .op = op_, .device = "CPU", .compute = fn, .attrs = attrs, \
                      .state_size = sizeof(state), __VA_ARGS__})
#define SPIN "x: float -> y: float; ms: int = 3000"
static const pf_attr *const attrs[] = {PF_REF(pf_attr, "ms", PF_ATTR_INT, (int32_t)offsetof(state, ms)), 0};
static const pf_op *const ops[] = {
  OP_("cancel.Spin", SPIN, 0), OP_("cancel.Expensive", SPIN, 0), OP_("cancel.Lane", SPIN, 0), OP_("cancel.Brief", SPIN, 0),
  OP_("cancel.Loop", SPIN, 0), OP_("cancel.Thread", SPIN, 0), OP_("cancel.Nap", SPIN, 0), OP_("cancel.Listen", SPIN, 0),
  OP_("cancel.Locked", SPIN, 0), OP_("cancel.Cost", SPIN, 0), OP_("cancel.OnCancel", SPIN, 0), OP_("cancel.OffCancel", SPIN, 0),
  OP_("cancel.Returns", SPIN, 0), OP_("cancel.LaneDone", SPIN, 0), OP_("cancel.Early", SPIN, 0), OP_("cancel.Together", SPIN, 0),
  OP_("cancel.Step", SPIN, 0), OP_("cancel.Afterwards", SPIN, 0), OP_("cancel.Native", SPIN, 0),
  OP_("cancel.Length", SPIN, .infer = infer), 0};
static const pf_kernel *const kernels[] = {
  KERNEL("cancel.Spin", spins, 0, 0), KERNEL("cancel.Expensive", spins, PF_KERNEL_EXPENSIVE, 0),
  KERNEL("cancel.Lane", spins, PF_KERNEL_BLOCKING, 0), KERNEL("cancel.Brief", spins, PF_KERNEL_BRIEF, 0),
  KERNEL("cancel.Loop", spins_in_a_loop, 0, 0), KERNEL("cancel.Thread", spins_on_a_thread, PF_KERNEL_ASYNC, 0),
  KERNEL("cancel.Nap", naps, 0, 0), KERNEL("cancel.Listen", listens, PF_KERNEL_ASYNC, 0), KERNEL("cancel.Locked", spins_locked, 0, 0),
  KERNEL("cancel.Cost", millions, 0, 0), KERNEL("cancel.OnCancel", races_on_cancel, PF_KERNEL_ASYNC, 0),
  KERNEL("cancel.OffCancel", races_off_cancel, PF_KERNEL_ASYNC, 0), KERNEL("cancel.Returns", races_and_returns, PF_KERNEL_ASYNC, 0),
  KERNEL("cancel.LaneDone", lane_done, PF_KERNEL_BLOCKING, 0), KERNEL("cancel.Early", early, 0, 0),
  KERNEL("cancel.Together", together, PF_KERNEL_ASYNC, 0), KERNEL("cancel.Step", notes_step, 0, 0),
  KERNEL("cancel.Afterwards", afterwards, 0, 0), KERNEL("cancel.Length", as_long_as_inputs, 0, .fini = fini),
  &(const pf_kernel){.size = sizeof(pf_kernel), .op = "cancel.Native", .device = "ENDED", .compute = asks_native}, 0};
static const pf_device ended = {.size = sizeof(pf_device), .type = "ENDED", .count = one, .open = opens, .close = closes, .native = native};
static const pf_device *const devices[] = {&ended, 0};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "com.example.cancel", .version = "1", .ops = ops, .kernels = kernels,
                                 .devices = devices, .start = start, .stop = stop, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR,
                                 .min_minor = 1};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { return &plugin; }
