/* streams.cu - streams, events, and the threads that tell the host an event has happened.
 *
 * Why a thread per stream and not cudaLaunchHostFunc: after an error of the context the driver
 * never calls host functions, so a step would hang on the very error it should report; a thread in
 * cudaEventSynchronize gets the error and passes it on.  A host function also holds up its stream
 * while it runs.  Events of one stream happen in order, so a queue per stream loses nothing; one
 * queue for all streams would let a long kernel delay the news of a finished copy.
 *
 *     when -> queued -> [completion thread] spin for SPIN_NS, then sleep in the driver
 *          -> fn(arg, status)
 *
 * Invariants
 *   1. fn is called exactly once per `when` that returned PF_OK, also after errors and while the
 *      stream is being deleted.
 *   2. fn is called without any lock of this plugin held.
 *   3. An event's timing is always on: event_time works for every event, and recording it costs
 *      about a microsecond.
 */
#include "device.h"
#include <sched.h>
#include <time.h>

enum { SPIN_NS = 30000, REBASE_MS = 2000, TIGHT_NS = 20000 };

int64_t monotonic_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---------------------------------------------------------------- events */
static gpu_event *event_new(gpu_device *d) {
  pthread_mutex_lock(&d->lock);
  gpu_event *e = d->spare_events;
  if (e) d->spare_events = e->next;
  pthread_mutex_unlock(&d->lock);
  if (!e) {
    e = (gpu_event *)calloc(1, sizeof *e);
    if (e && cudaEventCreateWithFlags(&e->cuda, cudaEventBlockingSync) != cudaSuccess) {
      free(e);
      e = NULL;
    }
  }
  if (e) e->refs = 1;
  return e;
}
static void event_drop(gpu_device *d, gpu_event *e) {
  if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL)) return;
  pthread_mutex_lock(&d->lock);
  e->next = d->spare_events;
  d->spare_events = e;
  pthread_mutex_unlock(&d->lock);
}

pf_status gpu_event_record(void *dev, void *stream, void **event) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  cudaError_t e = select_device(d);
  if (e != cudaSuccess) return log_error(d, e, "cudaSetDevice");
  gpu_event *ev = event_new(d);
  if (!ev) return log_error(d, cudaErrorMemoryAllocation, "cudaEventCreate");
  ev->stream = s;
  e = cudaEventRecord(ev->cuda, s->cuda);
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    event_drop(d, ev);
    return log_error(d, e, "cudaEventRecord");
  }
  *event = ev;
  return PF_OK;
}
pf_status gpu_event_wait(void *dev, void *stream, void *event) {
  gpu_device *d = (gpu_device *)dev;
  select_device(d);
  return log_error(d,
                   cudaStreamWaitEvent(((gpu_stream *)stream)->cuda, ((gpu_event *)event)->cuda, 0),
                   "cudaStreamWaitEvent");
}
void gpu_event_del(void *dev, void *event) { event_drop((gpu_device *)dev, (gpu_event *)event); }

/* ---------------------------------------------------------------- when */
static pf_status await(gpu_device *d, cudaEvent_t event) {
  int64_t until = monotonic_ns() + SPIN_NS;
  cudaError_t e;
  while ((e = cudaEventQuery(event)) == cudaErrorNotReady && monotonic_ns() < until) sched_yield();
  if (e == cudaErrorNotReady) e = cudaEventSynchronize(event);
  if (e == cudaSuccess) return PF_OK;
  (void)cudaGetLastError();
  return log_error(d, e, "work enqueued before");
}
static void *completion_thread(void *arg) {
  gpu_stream *s = (gpu_stream *)arg;
  select_device(s->dev);
  pthread_mutex_lock(&s->queue_lock);
  for (;;) {
    while (!s->first && !s->stop) pthread_cond_wait(&s->queue_filled, &s->queue_lock);
    waiter *w = s->first;
    if (!w) break; /* stopped and empty */
    s->first = w->next;
    if (!s->first) s->last = NULL;
    pthread_mutex_unlock(&s->queue_lock);
    pf_status status = await(s->dev, w->event->cuda);
    gpu_event *e = w->event;
    void (*fn)(void *, pf_status) = w->fn;
    void *fn_arg = w->arg;
    free(w);
    event_drop(s->dev, e);
    fn(fn_arg, status);
    pthread_mutex_lock(&s->queue_lock);
  }
  pthread_mutex_unlock(&s->queue_lock);
  return NULL;
}
pf_status gpu_when(void *dev, void *event, void (*fn)(void *, pf_status), void *arg) {
  gpu_device *d = (gpu_device *)dev;
  gpu_event *e = (gpu_event *)event;
  gpu_stream *s = e->stream;
  waiter *w = (waiter *)calloc(1, sizeof *w);
  if (!w) return log_error(d, cudaErrorMemoryAllocation, "when");
  *w = waiter{e, fn, arg, NULL};
  pthread_mutex_lock(&s->queue_lock);
  if (!s->running && pthread_create(&s->thread, NULL, completion_thread, s)) {
    pthread_mutex_unlock(&s->queue_lock);
    free(w);
    return PF_RESOURCE_EXHAUSTED;
  }
  s->running = 1;
  __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
  if (s->last) s->last->next = w;
  else s->first = w;
  s->last = w;
  pthread_cond_signal(&s->queue_filled);
  pthread_mutex_unlock(&s->queue_lock);
  return PF_OK;
}

/* ---------------------------------------------------------------- streams */
pf_status gpu_stream_new(void *dev, void **stream) {
  gpu_device *d = (gpu_device *)dev;
  cudaError_t e = select_device(d);
  gpu_stream *s = (gpu_stream *)calloc(1, sizeof *s);
  if (!s) return PF_RESOURCE_EXHAUSTED;
  if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&s->cuda, cudaStreamNonBlocking);
  if (e != cudaSuccess) {
    free(s);
    (void)cudaGetLastError();
    return log_error(d, e, "cudaStreamCreateWithFlags");
  }
  s->dev = d;
  pthread_mutex_init(&s->lock, NULL);
  pthread_mutex_init(&s->queue_lock, NULL);
  pthread_cond_init(&s->queue_filled, NULL);
  *stream = s;
  return PF_OK;
}
void gpu_stream_del(void *dev, void *stream) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  select_device(d);
  pthread_mutex_lock(&s->queue_lock);
  s->stop = 1;
  pthread_cond_signal(&s->queue_filled);
  pthread_mutex_unlock(&s->queue_lock);
  if (s->running) pthread_join(s->thread, NULL);
  cudaStreamSynchronize(s->cuda);
  libraries_drop(s);
  if (s->side) {
    cudaStreamSynchronize(s->side);
    cudaStreamDestroy(s->side);
    cudaEventDestroy(s->side_start);
  }
  cudaStreamDestroy(s->cuda);
  pthread_mutex_destroy(&s->lock);
  pthread_mutex_destroy(&s->queue_lock);
  pthread_cond_destroy(&s->queue_filled);
  free(s);
}

/* ---------------------------------------------------------------- time
 * A GPU clock is read as milliseconds in a float between two events: good to 0.1 us only near its
 * base.  So the base is renewed every REBASE_MS, and placed on the host's clock anew, up to eight
 * times until the two readings around it are TIGHT_NS apart. */
pf_status gpu_calibrate(gpu_device *d) {
  int64_t width = INT64_MAX, at = 0;
  for (int i = 0; i < 8 && width > TIGHT_NS; i++) {
    int64_t before = monotonic_ns();
    cudaError_t e = cudaEventRecord(d->base, d->own);
    if (e == cudaSuccess) e = cudaEventSynchronize(d->base);
    if (e != cudaSuccess) return log_error(d, e, "placing the device's clock");
    width = monotonic_ns() - before;
    at = before + width / 2;
  }
  d->base_ns = at;
  return PF_OK;
}
pf_status gpu_event_time(void *dev, void *event, int64_t *ns) {
  gpu_device *d = (gpu_device *)dev;
  float ms = 0;
  select_device(d);
  pthread_mutex_lock(&d->lock);
  cudaError_t e = cudaEventElapsedTime(&ms, d->base, ((gpu_event *)event)->cuda);
  if (e == cudaSuccess && ms > (float)REBASE_MS) {
    int64_t old = d->base_ns;
    pf_status s = gpu_calibrate(d);
    e = s ? cudaErrorUnknown : cudaEventElapsedTime(&ms, d->base, ((gpu_event *)event)->cuda);
    if (s) d->base_ns = old;
  }
  *ns = d->base_ns + (int64_t)((double)ms * 1e6);
  pthread_mutex_unlock(&d->lock);
  return e == cudaSuccess ? PF_OK : PF_UNAVAILABLE;
}
