/* memory.cu - device memory in stream order, and a cache of pinned host memory.
 *
 * Device memory: cudaMallocFromPoolAsync on the caller's stream; a freed block can be used by later
 * work of any stream, in the driver's order.  The pool keeps what was freed (release threshold:
 * everything) and is trimmed once before an allocation is given up.  Pinned memory: blocks of a
 * power of two, at least 4 KiB, kept for ever; a block given back behind a stream is taken again
 * only when that stream has passed (an event per block).
 */
#include "device.h"

/* ---------------------------------------------------------------- pinned */
static int class_of(uint64_t bytes) {
  int k = 12;
  while (k < PINNED_CLASSES - 1 && ((uint64_t)1 << k) < bytes) k++;
  return k;
}

void *pinned_take(gpu_device *d, uint64_t bytes) {
  int k = class_of(bytes);
  void *data = NULL;
  if (bytes > (uint64_t)1 << k) return NULL;
  pthread_mutex_lock(&d->lock);
  for (pinned_block **at = &d->pinned[k]; *at; at = &(*at)->next) {
    pinned_block *b = *at;
    if (b->last_use && cudaEventQuery(b->last_use) == cudaErrorNotReady) continue;
    if (b->last_use) cudaEventDestroy(b->last_use);
    *at = b->next;
    data = b->data;
    free(b);
    break;
  }
  pthread_mutex_unlock(&d->lock);
  if (!data && cudaHostAlloc(&data, (size_t)1 << k, cudaHostAllocPortable) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  return data;
}

void pinned_give(gpu_device *d, void *p, uint64_t bytes, cudaStream_t after) {
  pinned_block *b = (pinned_block *)calloc(1, sizeof *b);
  if (b && after) {
    cudaError_t e = cudaEventCreateWithFlags(&b->last_use, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaEventRecord(b->last_use, after);
    if (e != cudaSuccess) { /* a broken context: the block is lost, not reused too early */
      free(b);
      b = NULL;
    }
  } else if (!b && after) {
    cudaStreamSynchronize(after);
  }
  if (!b) {
    if (!after) cudaFreeHost(p);
    return;
  }
  b->data = p, b->size_class = class_of(bytes);
  pthread_mutex_lock(&d->lock);
  b->next = d->pinned[b->size_class];
  d->pinned[b->size_class] = b;
  pthread_mutex_unlock(&d->lock);
}

void pinned_drain(gpu_device *d) {
  for (int k = 0; k < PINNED_CLASSES; k++)
    while (d->pinned[k]) {
      pinned_block *b = d->pinned[k];
      d->pinned[k] = b->next;
      if (b->last_use) {
        cudaEventSynchronize(b->last_use);
        cudaEventDestroy(b->last_use);
      }
      cudaFreeHost(b->data);
      free(b);
    }
}

/* ---------------------------------------------------------------- device */
static cudaError_t take(gpu_device *d, void **p, size_t bytes, cudaStream_t stream) {
  if (!d->pool) return cudaMalloc(p, bytes);
  cudaError_t e = cudaMallocFromPoolAsync(p, bytes, d->pool, stream ? stream : d->own);
  if (e == cudaSuccess && !stream)
    e = cudaStreamSynchronize(d->own); /* usable by every stream at once */
  return e;
}

void *gpu_alloc(void *dev, uint64_t bytes, uint64_t align, int32_t mem, void *stream) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  void *p = NULL;
  if (select_device(d) != cudaSuccess || align > 256) return NULL;
  if (mem == PF_MEM_PINNED || mem == PF_MEM_REGISTERED) return pinned_take(d, bytes);
  if (mem != PF_MEM_DEVICE) return NULL;
  cudaError_t e = take(d, &p, bytes ? bytes : 1, s ? s->cuda : NULL);
  if (e == cudaErrorMemoryAllocation &&
      d->pool) { /* other processes, or fragments: give back and try once more */
    (void)cudaGetLastError();
    cudaMemPoolTrimTo(d->pool, 0);
    e = take(d, &p, bytes ? bytes : 1, s ? s->cuda : NULL);
  }
  if (e == cudaSuccess) return p;
  (void)cudaGetLastError();
  if (e != cudaErrorMemoryAllocation) log_error(d, e, "cudaMallocFromPoolAsync");
  return NULL;
}

void gpu_free(void *dev, void *p, uint64_t bytes, int32_t mem, void *stream) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  if (!p) return;
  select_device(d);
  if (mem == PF_MEM_PINNED || mem == PF_MEM_REGISTERED) {
    pinned_give(d, p, bytes, s ? s->cuda : NULL);
    return;
  }
  cudaError_t e;
  if (d->pool) e = cudaFreeAsync(p, s ? s->cuda : d->own);
  else {
    if (s) cudaStreamSynchronize(s->cuda);
    e = cudaFree(p);
  }
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    log_error(d, e, "cudaFreeAsync");
  }
}

void gpu_trim(void *dev) {
  gpu_device *d = (gpu_device *)dev;
  select_device(d);
  cudaStreamSynchronize(d->own);
  if (d->pool) cudaMemPoolTrimTo(d->pool, 0);
}
