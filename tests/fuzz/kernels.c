/* Kernels that make random programs interesting; every op passes its input on, if it ends well.
 *
 *   fuzz.Later   asynchronous; `done` comes from another thread, `us` microseconds later
 *   fuzz.FailIf  fails if any element of x exceeds `above`; with `late`, as fuzz.Later does
 *   fuzz.Never   asynchronous; ends when its step is cancelled, at once
 *   fuzz.Crash   ends the process by SIGSEGV if any element of x exceeds 0
 *   fuzz.Note    appends `id` to a list that fuzz_notes gives out: the order of execution
 *
 * Threads: one timer thread, started by `start` and joined by `stop`; `lock` guards the queue, the
 * notes and the list of calls that wait for ever.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pyflow/kernel.h>

enum { NOTES = 1 << 16 };
typedef struct { int64_t us, id; double above; int32_t late; } state;
typedef struct entry { struct entry *next; uint64_t ticket; int64_t due; pf_status status; } entry;

static const pf_host *H;
static pthread_t timer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more;
static entry *queue; /* by due time */
static int stopping;
static int64_t notes[NOTES], n_notes;

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static void wait_until(int64_t us) {
  struct timespec t = {us / 1000000, us % 1000000 * 1000};
  pthread_cond_timedwait(&more, &lock, &t);
}
static void *timer_main(void *arg) {
  (void)arg;
  pthread_mutex_lock(&lock);
  while (!stopping) {
    entry *e = queue;
    if (!e) pthread_cond_wait(&more, &lock);
    else if (e->due > now_us()) wait_until(e->due);
    else {
      queue = e->next;
      pthread_mutex_unlock(&lock);
      H->done(e->ticket, e->status);
      free(e);
      pthread_mutex_lock(&lock);
    }
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}
static pf_status later(pf_ctx *c, int64_t us, pf_status status) {
  entry *e = malloc(sizeof *e), **at = &queue;
  pf_ctx *kept = e ? c->host->defer(c, &e->ticket) : NULL;
  if (!kept) {
    free(e);
    return PF_RESOURCE_EXHAUSTED;
  }
  e->status = status;
  e->due = now_us() + us;
  pthread_mutex_lock(&lock);
  while (*at && (*at)->due <= e->due) at = &(*at)->next;
  e->next = *at;
  *at = e;
  pthread_cond_signal(&more);
  pthread_mutex_unlock(&lock);
  return PF_PENDING;
}

static pf_status pass(pf_ctx *c) { return c->host->alias(c, 0, 0, 0, 0); }
static pf_status later_compute(pf_ctx *c, const void *s) {
  pf_status r = pass(c);
  return r ? r : later(c, ((const state *)s)->us, PF_OK);
}
static int exceeds(const DLTensor *x, double above) {
  int64_t n = pf_numel(x);
  for (int64_t i = 0; i < n; i++)
    if ((x->dtype.bits == 64 ? PF_DATA(const double, x)[i] : PF_DATA(const float, x)[i]) > above)
      return 1;
  return 0;
}
static pf_status fail_if_compute(pf_ctx *c, const void *p) {
  const state *s = p;
  pf_status r = exceeds(c->in[0], s->above)
      ? pf_fail(c, PF_DATA_LOSS, "failed on purpose") : pass(c);
  return s->late ? later(c, s->us, r) : r;
}
static pf_status crash_compute(pf_ctx *c, const void *s) {
  int *volatile nowhere = NULL;
  (void)s;
  return exceeds(c->in[0], 0) ? *nowhere : pass(c);
}
static pf_status note_compute(pf_ctx *c, const void *s) {
  pthread_mutex_lock(&lock);
  if (n_notes < NOTES) notes[n_notes++] = ((const state *)s)->id;
  pthread_mutex_unlock(&lock);
  return pass(c);
}
/* how many notes there were since the last call; the first `room` of them */
PF_EXPORT int64_t fuzz_notes(int64_t *out, int64_t room) {
  pthread_mutex_lock(&lock);
  int64_t n = n_notes;
  memcpy(out, notes, (size_t)(n < room ? n : room) * sizeof *notes);
  n_notes = 0;
  pthread_mutex_unlock(&lock);
  return n;
}
static void give_up(void *arg) {
  uint64_t ticket = *(uint64_t *)arg;
  free(arg);
  H->done(ticket, PF_CANCELLED);
}
static pf_status never_compute(pf_ctx *c, const void *s) {
  (void)s;
  uint64_t *ticket = malloc(sizeof *ticket);
  pf_ctx *kept = ticket ? c->host->defer(c, ticket) : NULL;
  if (!kept) {
    free(ticket);
    return PF_RESOURCE_EXHAUSTED;
  }
  if (c->host->on_cancel(kept, *ticket, give_up, ticket) != PF_OK) give_up(ticket);
  return PF_PENDING;
}

static pf_status same_shape(pf_infer *f) {
  const int64_t *dims;
  int32_t ndim;
  pf_status s = H->infer_dims(f, 0, &dims, &ndim);
  return s ? s : H->infer_set(f, 0, dims, ndim);
}
static const pf_attr *const us_attrs[] = {PF_ATTR(state, PF_ATTR_INT, us), NULL};
static const pf_attr *const id_attrs[] = {PF_ATTR(state, PF_ATTR_INT, id), NULL};
static const pf_attr *const if_attrs[] = {PF_ATTR(state, PF_ATTR_INT, us),
  PF_ATTR(state, PF_ATTR_FLOAT, above), PF_ATTR(state, PF_ATTR_BOOL, late), NULL};
static const pf_attr *const no_attrs[] = {NULL};
#define K(ID, NAME, SIG, ATTRS, FLAGS) \
  static const pf_op ID##_op = {.size = sizeof(pf_op), .flags = PF_OP_STATEFUL, .name = NAME, \
    .sig = "x: T -> y: T; " SIG "T: type", .infer = same_shape}; \
  static const pf_kernel ID##_kernel = {.size = sizeof(pf_kernel), .flags = FLAGS, .op = NAME, \
    .device = "CPU", .attrs = ATTRS, .state_size = sizeof(state), .compute = ID##_compute}
K(later, "fuzz.Later", "us: int = 50, ", us_attrs, PF_KERNEL_ASYNC);
K(fail_if, "fuzz.FailIf", "us: int = 50, above: float = 0.0, late: bool = false, ", if_attrs,
  PF_KERNEL_ASYNC);
K(never, "fuzz.Never", "", no_attrs, PF_KERNEL_ASYNC);
K(crash, "fuzz.Crash", "", no_attrs, PF_KERNEL_DETERMINISTIC);
K(note, "fuzz.Note", "id: int = 0, ", id_attrs, 0);

static pf_status start(const pf_host *h) {
  pthread_condattr_t a;
  (void)h;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_cond_init(&more, &a);
  pthread_condattr_destroy(&a);
  return pthread_create(&timer, NULL, timer_main, NULL) ? PF_RESOURCE_EXHAUSTED : PF_OK;
}
static void stop(const pf_host *h) {
  (void)h;
  pthread_mutex_lock(&lock);
  stopping = 1;
  pthread_cond_signal(&more);
  pthread_mutex_unlock(&lock);
  pthread_join(timer, NULL);
  while (queue) {
    entry *e = queue;
    queue = e->next;
    free(e);
  }
}
static const pf_op *const ops[] = {&later_op, &fail_if_op, &never_op, &crash_op, &note_op,
  NULL};
static const pf_kernel *const kernels[] = {&later_kernel, &fail_if_kernel, &never_kernel,
  &crash_kernel, &note_kernel, NULL};
static const pf_plugin plugin = {.size = sizeof plugin, .id = "pyflow.test.fuzz", .version = "1",
  .ops = ops, .kernels = kernels, .start = start, .stop = stop, .abi_major = PF_ABI_MAJOR,
  .abi_minor = PF_ABI_MINOR};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) { H = h; return &plugin; }
