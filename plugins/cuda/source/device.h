/* device.h - one GPU as the host sees it: its streams, events, memory pools and library handles.
 *
 * Objects
 *   gpu_device   what pf_device.open returns (pf_ctx.dev)
 *   gpu_stream   what stream_new returns (pf_ctx.stream); wraps a non-blocking cudaStream_t
 *   gpu_event    what event_record returns; reference counted, because a waiter may outlive
 *                event_del
 *
 * Invariants
 *   1. Every entry selects its device first (select_device): callers are arbitrary threads.
 *   2. A stream has its own cuBLAS and cuDNN handles, used under stream->lock: two threads that
 *      enqueue on one stream take turns, two streams never share a workspace.
 *   3. Device memory comes from the plugin's own pool: other users of CUDA in the process are not
 *      disturbed.
 *   4. No global state but the list of open devices and the libraries' function tables, both under
 *      locks. Lock order: the list of devices; stream->lock; device->lock; stream->queue_lock.  No
 *      lock is held in a callback.
 */
#ifndef PF_CUDA_DEVICE_H
#define PF_CUDA_DEVICE_H
#include <pthread.h>
#include "common.h"

struct gpu_device;
struct gpu_stream;

typedef struct gpu_event {
  gpu_stream *stream;
  cudaEvent_t cuda;
  int refs;        /* atomic: the host's one, and one per waiter */
  gpu_event *next; /* of the device's free list */
} gpu_event;

typedef struct waiter {
  gpu_event *event;
  void (*fn)(void *, pf_status);
  void *arg;
  waiter *next;
} waiter;

struct gpu_stream {
  gpu_device *dev;
  cudaStream_t cuda;
  pthread_mutex_t lock;       /* the two handles */
  void *cublas, *cudnn;       /* made on first use (libraries.cu) */
  pthread_mutex_t queue_lock; /* the waiters */
  pthread_cond_t queue_filled;
  waiter *first, *last;
  int running, stop; /* the completion thread */
  pthread_t thread;
  cudaStream_t side; /* copies out through staging: the DMA's own stream, made on first use */
  cudaEvent_t side_start;
};

enum { PINNED_CLASSES = 40 }; /* powers of two */
typedef struct pinned_block {
  void *data;
  int size_class;
  cudaEvent_t last_use; /* NULL: nobody uses it any more */
  pinned_block *next;
} pinned_block;

struct gpu_device {
  int ordinal;
  const pf_host *host;
  cudaMemPool_t pool;   /* NULL: this GPU has no stream-ordered allocation */
  cudaStream_t own;     /* for calls that name no stream */
  cudaEvent_t base;     /* event times are counted from it ... */
  int64_t base_ns;      /* ... and it happened then (CLOCK_MONOTONIC) */
  pthread_mutex_t lock; /* everything below */
  gpu_event *spare_events;
  pinned_block *pinned[PINNED_CLASSES];
  uint64_t peers;                     /* bit i: this device's memory may be read by device i */
  int sm_count, major, minor, warned; /* warned: bits of warnings given once */
  gpu_device *next;                   /* open devices */
};

/* device.cu */
extern const pf_device gpu_table;
const char *gpu_absent_reason(void); /* why there is no device, for people; "" when there is one */
int gpu_count(void);
bool gpu_is_open(const void *dev);
pf_status gpu_info(void *dev, const char *key, char *text, int32_t len);

/* memory.cu */
void *gpu_alloc(void *dev, uint64_t bytes, uint64_t align, int32_t mem, void *stream);
void gpu_free(void *dev, void *p, uint64_t bytes, int32_t mem, void *stream);
void gpu_trim(void *dev);
void *pinned_take(gpu_device *d, uint64_t bytes);
void pinned_give(gpu_device *d, void *p, uint64_t bytes,
                 cudaStream_t after); /* after NULL: at once */
void pinned_drain(gpu_device *d);

/* streams.cu */
pf_status gpu_stream_new(void *dev, void **stream);
void gpu_stream_del(void *dev, void *stream);
pf_status gpu_event_record(void *dev, void *stream, void **event);
pf_status gpu_event_wait(void *dev, void *stream, void *event);
void gpu_event_del(void *dev, void *event);
pf_status gpu_when(void *dev, void *event, void (*fn)(void *, pf_status), void *arg);
pf_status gpu_event_time(void *dev, void *event, int64_t *ns);
pf_status gpu_calibrate(gpu_device *d);
int64_t monotonic_ns(void);

/* copies.cu */
pf_status gpu_copy(void *dev, void *stream, const DLTensor *src, DLTensor *dst);
pf_status gpu_peer_copy(void *src_dev, void *dst_dev, void *stream, const DLTensor *src,
                        DLTensor *dst);
int32_t gpu_can_peer(void *dev, const char *type, void *other);

/* libraries.cu */
const void *gpu_native(void *dev, void *stream, const char *what);
void libraries_drop(gpu_stream *s);

/* ---------------------------------------------------------------- small things */
pf_status status_of(cudaError_t e); /* the nearest absl code */
pf_status log_error(const gpu_device *d, cudaError_t e,
                    const char *what); /* logs unless e is cudaSuccess */
static inline cudaError_t select_device(const gpu_device *d) { return cudaSetDevice(d->ordinal); }
static inline gpu_device *device_of(const pf_ctx *c) { return (gpu_device *)c->dev; }
static inline gpu_stream *stream_of(const pf_ctx *c) { return (gpu_stream *)c->stream; }
static inline pf_status check_cuda(pf_ctx *c, cudaError_t e, const char *what) {
  if (e == cudaSuccess) return PF_OK;
  return failf(c, status_of(e), "CUDA error %s (%s) in %s", cudaGetErrorName(e),
               cudaGetErrorString(e), what);
}
#endif
