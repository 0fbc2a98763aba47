/* copies.cu - copies to, from, within and between GPUs, in stream order.
 *
 *   host memory        to the device                              from the device
 *   pinned             one cudaMemcpyAsync                        one cudaMemcpyAsync
 *   pageable, small    one cudaMemcpyAsync (the driver stages)    staged
 *   pageable, large    staged by this thread, CHUNK at a time     staged: DMA and memcpy of
 *                                                                 different chunks overlap
 *
 * Out to pageable memory the driver would make the calling thread wait for everything enqueued
 * before; so such copies always go through pinned chunks.  The DMA runs on the stream's side
 * stream, the memcpy as a host function of the stream itself: whatever is recorded on the stream
 * afterwards happens after the last byte has arrived, which is what the host is promised.  A host
 * function calls nothing of CUDA.  After an error of the context host functions are not called; the
 * event behind them then carries the error.
 */
#include "device.h"

enum { CHUNK = 4 << 20, SMALL = 64 << 10 };

static int64_t bytes_of(const DLTensor *t) {
  return (pf_numel(t) * t->dtype.bits * t->dtype.lanes + 7) / 8;
}
static bool is_pinned(const void *p) {
  cudaPointerAttributes a;
  if (cudaPointerGetAttributes(&a, p) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return a.type == cudaMemoryTypeHost || a.type == cudaMemoryTypeManaged;
}

/* ---------------------------------------------------------------- into the device */
static cudaError_t stage_in(gpu_device *d, gpu_stream *s, char *dst, const char *src,
                            int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += CHUNK) {
    size_t n = (size_t)least((int64_t)CHUNK, bytes - at);
    void *chunk = pinned_take(d, CHUNK);
    if (!chunk)
      return cudaMemcpyAsync(dst + at, src + at, (size_t)(bytes - at), cudaMemcpyHostToDevice,
                             s->cuda);
    memcpy(chunk, src + at, n);
    cudaError_t e = cudaMemcpyAsync(dst + at, chunk, n, cudaMemcpyHostToDevice, s->cuda);
    pinned_give(d, chunk, CHUNK, s->cuda);
    if (e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

/* ---------------------------------------------------------------- out of the device */
typedef struct {
  char *to;
  const char *from;
  size_t n;
} carry;
static void CUDART_CB carry_chunk(void *arg) {
  carry *k = (carry *)arg;
  memcpy(k->to, k->from, k->n);
  free(k);
}
static cudaError_t open_side(gpu_stream *s) {
  cudaError_t e = cudaSuccess;
  pthread_mutex_lock(&s->lock);
  if (!s->side) {
    e = cudaStreamCreateWithFlags(&s->side, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&s->side_start, cudaEventDisableTiming);
  }
  pthread_mutex_unlock(&s->lock);
  return e;
}
/* one chunk: DMA on the side stream into `pinned`, then the memcpy on the stream */
static cudaError_t carry_out(gpu_stream *s, char *dst, const char *src, size_t n, char *pinned,
                             cudaEvent_t arrived) {
  cudaError_t e = cudaMemcpyAsync(pinned, src, n, cudaMemcpyDeviceToHost, s->side);
  if (e == cudaSuccess) e = cudaEventRecord(arrived, s->side);
  if (e == cudaSuccess) e = cudaStreamWaitEvent(s->cuda, arrived, 0);
  carry *k = e == cudaSuccess ? (carry *)malloc(sizeof *k) : NULL;
  if (!k) return e == cudaSuccess ? cudaErrorMemoryAllocation : e;
  *k = carry{dst, pinned, n};
  e = cudaLaunchHostFunc(s->cuda, carry_chunk, k);
  if (e != cudaSuccess) free(k);
  return e;
}
static cudaError_t stage_out(gpu_device *d, gpu_stream *s, char *dst, const char *src,
                             int64_t bytes) {
  int64_t unit = least((int64_t)CHUNK, bytes);
  cudaEvent_t step = NULL;
  cudaError_t e = open_side(s);
  if (e == cudaSuccess) e = cudaEventCreateWithFlags(&step, cudaEventDisableTiming);
  if (e != cudaSuccess) return e;
  pthread_mutex_lock(&s->lock); /* two copies out of one stream take turns with the side stream */
  e = cudaEventRecord(s->side_start, s->cuda);
  if (e == cudaSuccess) e = cudaStreamWaitEvent(s->side, s->side_start, 0);
  for (int64_t at = 0; at < bytes && e == cudaSuccess; at += CHUNK) {
    char *chunk = (char *)pinned_take(d, (uint64_t)unit);
    if (!chunk) { /* no pinned memory left: let the driver stage, and wait */
      e = cudaMemcpyAsync(dst + at, src + at, (size_t)(bytes - at), cudaMemcpyDeviceToHost,
                          s->cuda);
      break;
    }
    e = carry_out(s, dst + at, src + at, (size_t)least((int64_t)CHUNK, bytes - at), chunk, step);
    pinned_give(d, chunk, (uint64_t)unit, s->cuda);
  }
  pthread_mutex_unlock(&s->lock);
  cudaEventDestroy(step); /* CUDA keeps it until it has happened */
  return e;
}

/* ---------------------------------------------------------------- entries */
pf_status gpu_copy(void *dev, void *stream, const DLTensor *src, DLTensor *dst) {
  gpu_device *d = (gpu_device *)dev;
  gpu_stream *s = (gpu_stream *)stream;
  int64_t bytes = bytes_of(src);
  bool from_host = on_host(src), to_host = on_host(dst);
  const char *from = PF_DATA(const char, src);
  char *to = PF_DATA(char, dst);
  cudaError_t e = select_device(d);
  if (e != cudaSuccess) return log_error(d, e, "cudaSetDevice");
  if (bytes != bytes_of(dst) || (from_host && to_host)) return PF_INVALID_ARGUMENT;
  if (bytes == 0) return PF_OK;
  if (!from_host && !to_host)
    e = cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, s->cuda);
  else if (from_host && (bytes <= SMALL || is_pinned(from)))
    e = cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyHostToDevice, s->cuda);
  else if (from_host) e = stage_in(d, s, to, from, bytes);
  else if (is_pinned(to))
    e = cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, s->cuda);
  else e = stage_out(d, s, to, from, bytes);
  if (e == cudaSuccess) return PF_OK;
  (void)cudaGetLastError();
  return log_error(d, e, "copying a tensor");
}

pf_status gpu_peer_copy(void *src_dev, void *dst_dev, void *stream, const DLTensor *src,
                        DLTensor *dst) {
  gpu_device *a = (gpu_device *)src_dev, *b = (gpu_device *)dst_dev;
  int64_t bytes = bytes_of(src);
  select_device(b);
  if (bytes != bytes_of(dst)) return PF_INVALID_ARGUMENT;
  if (bytes == 0) return PF_OK;
  cudaError_t e = cudaMemcpyPeerAsync(PF_DATA(char, dst), b->ordinal, PF_DATA(const char, src),
                                      a->ordinal, (size_t)bytes, ((gpu_stream *)stream)->cuda);
  if (e == cudaSuccess) return PF_OK;
  (void)cudaGetLastError();
  return log_error(b, e, "cudaMemcpyPeerAsync");
}

/* lets device `reader` use the memory of d: the context's, and the pool's, which has its own
 * permissions */
static bool open_to(gpu_device *d, gpu_device *reader) {
  int can = 0;
  if (reader->ordinal < 64 && d->peers >> reader->ordinal & 1) return true;
  if (cudaDeviceCanAccessPeer(&can, reader->ordinal, d->ordinal) != cudaSuccess || !can)
    return false;
  select_device(reader);
  cudaError_t e = cudaDeviceEnablePeerAccess(d->ordinal, 0);
  if (e != cudaSuccess && e != cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return false;
  }
  (void)cudaGetLastError();
  if (d->pool) {
    cudaMemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = reader->ordinal;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    if (cudaMemPoolSetAccess(d->pool, &access, 1) != cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
  }
  if (reader->ordinal < 64)
    __atomic_fetch_or(&d->peers, (uint64_t)1 << reader->ordinal, __ATOMIC_RELAXED);
  return true;
}
/* may `other` copy from here?  Both directions are opened: the copy is the destination's work, the
 * memory the source's */
int32_t gpu_can_peer(void *dev, const char *type, void *other) {
  gpu_device *d = (gpu_device *)dev, *o = (gpu_device *)other;
  if (strcmp(type, "GPU") || !gpu_is_open(other)) return 0;
  if (d->ordinal == o->ordinal) return 1;
  return open_to(d, o) && open_to(o, d);
}
