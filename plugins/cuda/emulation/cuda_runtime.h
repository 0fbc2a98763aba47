/* emulation/cuda_runtime.h - the part of the CUDA runtime this plugin uses, on the CPU: for tests
 * without a GPU.
 *
 * Device memory is malloc'ed and (its first MiB) filled with a pattern, so that reading what
 * nothing wrote shows. Streams run at once: an enqueued operation is over when the call returns.
 * CUDA_EMULATED_DEVICES says how many devices there are (1).
 */
#ifndef PF_EMULATED_CUDA_RUNTIME_H
#define PF_EMULATED_CUDA_RUNTIME_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999
};
enum cudaDeviceAttr {
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMemoryPoolsSupported = 115
};
enum {
  cudaMemAllocationTypePinned = 1,
  cudaMemLocationTypeDevice = 1,
  cudaMemAccessFlagsProtReadWrite = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
  cudaStreamNonBlocking = 1,
  cudaEventBlockingSync = 1,
  cudaEventDisableTiming = 2,
  cudaHostAllocPortable = 1,
  cudaEnableDefault = 0
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1
};
typedef struct { int type, id; } cudaMemLocation;
typedef struct {
  int allocType;
  cudaMemLocation location;
} cudaMemPoolProps;
typedef struct {
  cudaMemLocation location;
  int flags;
} cudaMemAccessDesc;
typedef struct { char name[256]; } cudaDeviceProp;
typedef struct { cudaMemoryType type; } cudaPointerAttributes;
typedef struct emulated_event { int64_t ns; } *cudaEvent_t;
typedef struct emulated_stream { int number; } *cudaStream_t;
typedef struct emulated_pool { int number; } *cudaMemPool_t;
#define CUDART_CB
#define CUDART_VERSION 13000

inline int64_t emulated_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
inline const char *cudaGetErrorName(cudaError_t e) {
  return e ? "cudaErrorEmulated" : "cudaSuccess";
}
inline const char *cudaGetErrorString(cudaError_t e) {
  return e ? "an error of the emulation" : "no error";
}
inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int *v) { return *v = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int *n) {
  const char *text = getenv("CUDA_EMULATED_DEVICES");
  *n = text ? atoi(text) : 1;
  return *n ? cudaSuccess : cudaErrorNoDevice;
}
inline cudaError_t cudaSetDevice(int d) {
  int n;
  cudaGetDeviceCount(&n);
  return d < n ? cudaSuccess : cudaErrorInvalidDevice;
}
inline cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr a, int) {
  *v = a == cudaDevAttrMemoryPoolsSupported || a == cudaDevAttrMultiProcessorCount ? 1
       : a == cudaDevAttrComputeCapabilityMajor                                    ? 9
                                                                                   : 0;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
  strcpy(p->name, "emulated GPU");
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = *total = (size_t)4 << 30;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) { return *can = 1, cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

/* ---------------------------------------------------------------- memory */
inline cudaError_t cudaMalloc(void **p, size_t n) {
  if (posix_memalign(p, 256, n ? n : 1)) return cudaErrorMemoryAllocation;
  memset(*p, 0xA5, n < (size_t)1 << 20 ? n : (size_t)1 << 20);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void *p) {
  free(p);
  return cudaSuccess;
}
inline cudaError_t cudaHostAlloc(void **p, size_t n, unsigned) { return cudaMalloc(p, n); }
inline cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t *p, const cudaMemPoolProps *) {
  *p = (cudaMemPool_t)calloc(1, sizeof **p);
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t p) {
  free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, int, void *) { return cudaSuccess; }
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc *, size_t) {
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
inline cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t, cudaStream_t) {
  return cudaMalloc(p, n);
}
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t) { return cudaFree(p); }
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *) {
  a->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind,
                                   cudaStream_t) {
  memmove(to, from, n);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t n,
                                       cudaStream_t) {
  memmove(to, from, n);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void *to, int v, size_t n, cudaStream_t) {
  memset(to, v, n);
  return cudaSuccess;
}

/* ---------------------------------------------------------------- streams and events */
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) {
  *s = (cudaStream_t)calloc(1, sizeof **s);
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
  free(s);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*fn)(void *), void *arg) {
  fn(arg);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) {
  *e = (cudaEvent_t)calloc(1, sizeof **e);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *e) { return cudaEventCreateWithFlags(e, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
  free(e);
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  e->ns = emulated_now();
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b) {
  *ms = (float)((double)(b->ns - a->ns) / 1e6);
  return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **, unsigned,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult *found) {
  return *found = cudaDriverEntryPointSymbolNotFound, cudaSuccess;
}
#endif
