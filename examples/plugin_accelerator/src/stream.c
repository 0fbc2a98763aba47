/* stream.c - streams, events, and the thread that tells the host what has happened.
 *
 * A stream is a thread and a queue: an operation runs after all that were pushed before it.  An
 * event is
 *
 *     RECORDED -> HAPPENED [run_record, on its stream]
 *
 * and counted by reference: the host's (until event_del), the record's and one of each wait in a
 * queue.
 *
 * Invariants
 *   1. Failure is sticky: the first one is kept in stream.status, kernels and copies behind it are
 *      skipped, every event recorded behind it carries it, and a stream that waits for such an
 *      event fails as well.  `fake_settle` ends it.  (Another step that uses the stream meanwhile
 *      fails too; forgetting the error sooner could hide it from the step it belongs to.)
 *   2. `when`'s functions run on the device's completion thread, in the order the events happened.
 * Threads: [any] pushes; stream.thread runs; the events' lock guards all events.
 */
#include "fake.h"
#include <errno.h>
#include <time.h>

struct fake_event {
  fake_device *dev;
  int32_t refs, happened, asked; /* asked: `when` has been called */
  pf_status status;
  int64_t ns;
  fake_completion *completion;
};
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_happened = PTHREAD_COND_INITIALIZER;

void *fake_op_new(uint64_t bytes, pf_status (*run)(fake_stream *, fake_op *)) {
  fake_op *op = calloc(1, bytes);
  if (op) op->run = run;
  return op;
}

void fake_push(fake_stream *s, fake_op *op) {
  pthread_mutex_lock(&s->lock);
  if (s->tail) s->tail->next = op;
  else s->head = op;
  s->tail = op;
  s->pushed++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

/* ---------------------------------------------------------------- the stream's thread */
static uint64_t draw(fake_stream *s) { /* splitmix64 */
  uint64_t x = s->random += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static void sleep_until(double when) {
  struct timespec t = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void delay(fake_stream *s) {
  double most = atomic_load(&s->dev->knobs.delay_us);
  if (most >= 1) sleep_until(fake_now() + 1e-6 * (double)(draw(s) % ((uint64_t)most + 1)));
}

/* In real time an operation begins when the one before it has ended, and lasts `seconds`. */
static void pace(fake_stream *s, const fake_op *op, double begun) {
  if (atomic_load(&s->dev->knobs.real_time) == 0) return;
  s->clock = (begun > s->clock ? begun : s->clock) + op->seconds;
  if (op->seconds > 0) sleep_until(s->clock);
}

static pf_status status_of(fake_stream *s) {
  pthread_mutex_lock(&s->lock);
  pf_status status = s->status;
  pthread_mutex_unlock(&s->lock);
  return status;
}

static void run_op(fake_stream *s, fake_op *op) {
  pf_status failed = PF_OK;
  delay(s);
  if (op->always || status_of(s) == PF_OK) {
    double begun = fake_now();
    failed = op->run(s, op);
    pace(s, op, begun);
  }
  free(op);
  atomic_fetch_add(&s->dev->counters.operations, 1);
  pthread_mutex_lock(&s->lock);
  if (failed && s->status == PF_OK) s->status = failed;
  s->finished++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static fake_op *next_op(fake_stream *s) { /* NULL: the stream ends */
  pthread_mutex_lock(&s->lock);
  while (!s->head && !s->stopping) pthread_cond_wait(&s->changed, &s->lock);
  fake_op *op = s->head;
  if (op && !(s->head = op->next)) s->tail = NULL;
  pthread_mutex_unlock(&s->lock);
  return op;
}

static void *run_stream(void *arg) {
  fake_stream *s = arg;
  for (fake_op *op; (op = next_op(s));) run_op(s, op);
  return NULL;
}

pf_status fake_stream_new(void *d, void **stream) {
  fake_device *dev = d;
  fake_stream *s = calloc(1, sizeof *s);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  s->dev = dev;
  s->random = (uint64_t)atomic_load(&dev->knobs.seed) * 1000 + (uint64_t)dev->ordinal * 100 +
              (uint64_t)atomic_load(&dev->counters.streams);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (pthread_create(&s->thread, NULL, run_stream, s)) {
    free(s);
    return PF_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_lock(&dev->streams_lock);
  s->next = dev->streams;
  dev->streams = s;
  pthread_mutex_unlock(&dev->streams_lock);
  atomic_fetch_add(&dev->counters.streams, 1);
  *stream = s;
  return PF_OK;
}

void fake_stream_del(void *d, void *stream) {
  fake_device *dev = d;
  fake_stream *s = stream, **link;
  pthread_mutex_lock(&dev->streams_lock);
  for (link = &dev->streams; *link && *link != s; link = &(*link)->next) {}
  if (*link) *link = s->next;
  pthread_mutex_unlock(&dev->streams_lock);
  pthread_mutex_lock(&s->lock);
  s->stopping = 1; /* what is queued still runs */
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s);
  atomic_fetch_sub(&dev->counters.streams, 1);
}

int32_t fake_settle(fake_device *dev) {
  int32_t failed = 0;
  pthread_mutex_lock(&dev->streams_lock);
  for (fake_stream *s = dev->streams; s; s = s->next) {
    pthread_mutex_lock(&s->lock);
    while (s->finished < s->pushed) pthread_cond_wait(&s->changed, &s->lock);
    failed += s->status != PF_OK;
    s->status = PF_OK;
    pthread_mutex_unlock(&s->lock);
  }
  pthread_mutex_unlock(&dev->streams_lock);
  return failed;
}

/* ---------------------------------------------------------------- events */
typedef struct {
  fake_op op;
  fake_event *event;
} event_op;

static void unref(fake_event *e) {
  pthread_mutex_lock(&events_lock);
  int32_t last = --e->refs == 0;
  pthread_mutex_unlock(&events_lock);
  if (!last) return;
  atomic_fetch_sub(&e->dev->counters.events, 1);
  free(e);
}

static void post_completion(fake_device *dev, fake_completion *c, pf_status status) {
  c->status = status;
  pthread_mutex_lock(&dev->lock);
  *dev->last_completion = c;
  dev->last_completion = &c->next;
  pthread_cond_signal(&dev->completed);
  pthread_mutex_unlock(&dev->lock);
}

static pf_status run_record(fake_stream *s, fake_op *op) {
  fake_event *e = ((event_op *)op)->event;
  pf_status status = status_of(s);
  if (fake_take_failure(s->dev, &s->dev->knobs.fail_event))
    status = (pf_status)atomic_load(&s->dev->knobs.fail_status);
  pthread_mutex_lock(&events_lock);
  e->happened = 1;
  e->status = status;
  e->ns = (int64_t)(fake_now() * 1e9);
  fake_completion *c = e->completion;
  e->completion = NULL;
  pthread_cond_broadcast(&event_happened);
  pthread_mutex_unlock(&events_lock);
  if (c) post_completion(e->dev, c, status);
  unref(e);
  return PF_OK;
}

pf_status fake_event_record(void *d, void *stream, void **event) {
  fake_device *dev = d;
  fake_stream *s = stream;
  fake_event *e = calloc(1, sizeof *e);
  event_op *op = fake_op_new(sizeof *op, run_record);
  if (!e || !op) {
    free(e);
    free(op);
    return PF_RESOURCE_EXHAUSTED;
  }
  if (s->dev != dev) fake_violation(dev, "event_record on a stream of FAKE:%d", s->dev->ordinal);
  *e = (fake_event){.dev = dev, .refs = 2};
  atomic_fetch_add(&dev->counters.events, 1);
  op->event = e;
  op->op.always = 1;
  fake_push(s, &op->op);
  *event = e;
  return PF_OK;
}

static pf_status run_wait(fake_stream *s, fake_op *op) {
  fake_event *e = ((event_op *)op)->event;
  (void)s;
  pthread_mutex_lock(&events_lock);
  while (!e->happened) pthread_cond_wait(&event_happened, &events_lock);
  pf_status status = e->status;
  pthread_mutex_unlock(&events_lock);
  unref(e);
  return status;
}

pf_status fake_event_wait(void *dev, void *stream, void *event) {
  fake_event *e = event;
  event_op *op = fake_op_new(sizeof *op, run_wait);
  (void)dev; /* the event may be another device's */
  if (!op) return PF_RESOURCE_EXHAUSTED;
  pthread_mutex_lock(&events_lock);
  e->refs++;
  pthread_mutex_unlock(&events_lock);
  op->event = e;
  op->op.always = 1;
  fake_push(stream, &op->op);
  return PF_OK;
}

void fake_event_del(void *dev, void *event) {
  (void)dev;
  unref(event);
}

pf_status fake_when(void *d, void *event, void (*fn)(void *, pf_status), void *arg) {
  fake_event *e = event;
  fake_completion *c = calloc(1, sizeof *c);
  (void)d;
  if (!c) return PF_RESOURCE_EXHAUSTED;
  *c = (fake_completion){.fn = fn, .arg = arg};
  pthread_mutex_lock(&events_lock);
  int32_t again = e->asked++, now = e->happened;
  pf_status status = e->status;
  if (!now) e->completion = c;
  pthread_mutex_unlock(&events_lock);
  if (again) fake_violation(e->dev, "`when` called twice for one event");
  if (now) post_completion(e->dev, c, status);
  return PF_OK;
}

pf_status fake_event_time(void *d, void *event, int64_t *ns) {
  fake_event *e = event;
  (void)d;
  pthread_mutex_lock(&events_lock);
  int32_t happened = e->happened;
  *ns = e->ns;
  pthread_mutex_unlock(&events_lock);
  return happened ? PF_OK : PF_FAILED_PRECONDITION;
}

/* ---------------------------------------------------------------- the completion thread */
void *fake_complete(void *arg) {
  fake_device *dev = arg;
  pthread_mutex_lock(&dev->lock);
  for (;;) {
    while (!dev->completions && !dev->closing) pthread_cond_wait(&dev->completed, &dev->lock);
    fake_completion *c = dev->completions;
    if (!c) break;
    dev->completions = c->next;
    if (!c->next) dev->last_completion = &dev->completions;
    pthread_mutex_unlock(&dev->lock);
    c->fn(c->arg, c->status);
    free(c);
    pthread_mutex_lock(&dev->lock);
  }
  pthread_mutex_unlock(&dev->lock);
  return NULL;
}
