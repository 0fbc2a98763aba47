/* device.cu - the pf_device table of type "GPU": counting, opening, describing devices.
 *
 * A machine without a driver has no devices and that is no error: `count` is 0 and
 * gpu_absent_reason says why, in words.
 */
#include "device.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_device *open_devices;
static char absent[256];

pf_status status_of(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return PF_OK;
    case cudaErrorMemoryAllocation: return PF_RESOURCE_EXHAUSTED;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDevice: return PF_INTERNAL;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable: return PF_UNAVAILABLE;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorNotSupported: return PF_UNIMPLEMENTED;
    default: return PF_INTERNAL;
  }
}

pf_status log_error(const gpu_device *d, cudaError_t e, const char *what) {
  char text[512];
  if (e == cudaSuccess) return PF_OK;
  int n = snprintf(text, sizeof text, "GPU:%d: CUDA error %s (%s) in %s", d->ordinal,
                   cudaGetErrorName(e), cudaGetErrorString(e), what);
  if (d->host) d->host->log(PF_LOG_ERROR, text, least(n, (int)sizeof text - 1));
  return status_of(e);
}

/* ---------------------------------------------------------------- counting */
static int find_devices(void) {
  int n = 0;
  cudaError_t e = cudaGetDeviceCount(&n);
  absent[0] = 0;
  if (e == cudaSuccess && n > 0) return n;
  (void)cudaGetLastError(); /* this error is answered */
  if (e == cudaErrorInsufficientDriver) {
    int version = 0;
    cudaDriverGetVersion(&version);
    if (version)
      snprintf(absent, sizeof absent,
               "the NVIDIA driver (CUDA %d.%d) is older than this plugin's runtime (CUDA %d.%d)",
               version / 1000, version % 1000 / 10, CUDART_VERSION / 1000,
               CUDART_VERSION % 1000 / 10);
    else snprintf(absent, sizeof absent, "no NVIDIA driver (libcuda.so.1 cannot be opened)");
  } else if (e == cudaSuccess || e == cudaErrorNoDevice) {
    snprintf(absent, sizeof absent, "the NVIDIA driver sees no GPU");
  } else {
    snprintf(absent, sizeof absent, "the NVIDIA driver does not start: %s (%s)",
             cudaGetErrorName(e), cudaGetErrorString(e));
  }
  return 0;
}
int gpu_count(void) {
  pthread_mutex_lock(&devices_lock);
  int n = find_devices();
  pthread_mutex_unlock(&devices_lock);
  return n;
}
const char *gpu_absent_reason(void) { return absent; }
static int32_t count(void *self) {
  (void)self;
  return gpu_count();
}
bool gpu_is_open(const void *dev) {
  bool found = false;
  pthread_mutex_lock(&devices_lock);
  for (gpu_device *d = open_devices; d; d = d->next) found = found || d == dev;
  pthread_mutex_unlock(&devices_lock);
  return found;
}

/* ---------------------------------------------------------------- opening */
static cudaError_t make_pool(gpu_device *d) {
  int pools = 0;
  cudaError_t e = cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, d->ordinal);
  if (e != cudaSuccess || !pools) return e;
  cudaMemPoolProps props;
  memset(&props, 0, sizeof props);
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = d->ordinal;
  e = cudaMemPoolCreate(&d->pool, &props);
  if (e != cudaSuccess) return e;
  uint64_t keep = UINT64_MAX; /* freed memory stays with the pool until it is trimmed (memory.cu) */
  return cudaMemPoolSetAttribute(d->pool, cudaMemPoolAttrReleaseThreshold, &keep);
}

static cudaError_t open_device(gpu_device *d, const char **step) {
  cudaError_t e;
  *step = "cudaSetDevice";
  if ((e = cudaSetDevice(d->ordinal)) != cudaSuccess) return e;
  *step = "creating the device's context";
  if ((e = cudaFree(NULL)) != cudaSuccess) return e;
  *step = "cudaMemPoolCreate";
  if ((e = make_pool(d)) != cudaSuccess) return e;
  *step = "cudaStreamCreate";
  if ((e = cudaStreamCreateWithFlags(&d->own, cudaStreamNonBlocking)) != cudaSuccess) return e;
  *step = "cudaDeviceGetAttribute";
  if ((e = cudaDeviceGetAttribute(&d->sm_count, cudaDevAttrMultiProcessorCount, d->ordinal)) !=
      cudaSuccess)
    return e;
  if ((e = cudaDeviceGetAttribute(&d->major, cudaDevAttrComputeCapabilityMajor, d->ordinal)) !=
      cudaSuccess)
    return e;
  if ((e = cudaDeviceGetAttribute(&d->minor, cudaDevAttrComputeCapabilityMinor, d->ordinal)) !=
      cudaSuccess)
    return e;
  *step = "cudaEventCreate";
  if ((e = cudaEventCreate(&d->base)) != cudaSuccess) return e;
  return gpu_calibrate(d) ? cudaErrorUnknown : cudaSuccess;
}

static void close_device(void *dev) {
  gpu_device *d = (gpu_device *)dev;
  pthread_mutex_lock(&devices_lock);
  for (gpu_device **at = &open_devices; *at; at = &(*at)->next)
    if (*at == d) {
      *at = d->next;
      break;
    }
  pthread_mutex_unlock(&devices_lock);
  select_device(d);
  while (d->spare_events) {
    gpu_event *e = d->spare_events;
    d->spare_events = e->next;
    cudaEventDestroy(e->cuda);
    free(e);
  }
  pinned_drain(d);
  if (d->base) cudaEventDestroy(d->base);
  if (d->own) {
    cudaStreamSynchronize(d->own);
    cudaStreamDestroy(d->own);
  }
  if (d->pool) cudaMemPoolDestroy(d->pool);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static pf_status open_(const pf_host *host, void *self, int32_t ordinal, void **dev, char *err,
                       int32_t err_len) {
  const char *step = "";
  (void)self;
  gpu_device *d = (gpu_device *)calloc(1, sizeof *d);
  if (!d) return PF_RESOURCE_EXHAUSTED;
  d->ordinal = ordinal, d->host = host;
  pthread_mutex_init(&d->lock, NULL);
  cudaError_t e = open_device(d, &step);
  if (e != cudaSuccess) {
    if (err && err_len > 0)
      snprintf(err, (size_t)err_len, "GPU %d cannot be opened: %s (%s) in %s", ordinal,
               cudaGetErrorName(e), cudaGetErrorString(e), step);
    (void)cudaGetLastError();
    close_device(d);
    return status_of(e);
  }
  pthread_mutex_lock(&devices_lock);
  d->next = open_devices;
  open_devices = d;
  pthread_mutex_unlock(&devices_lock);
  *dev = d;
  return PF_OK;
}

/* ---------------------------------------------------------------- describing */
static double attribute(const gpu_device *d, cudaDeviceAttr what) {
  int v = 0;
  return cudaDeviceGetAttribute(&v, what, d->ordinal) == cudaSuccess ? v : 0;
}
/* float32 multiply-adds per clock of one multiprocessor (CUDA programming guide, "Arithmetic
 * instructions") */
static double lanes_of(const gpu_device *d) {
  return d->major == 7 || (d->major == 8 && d->minor == 0) || d->major < 5 ? 64 : 128;
}
static pf_status number(char *text, int32_t len, double v) {
  if (v <= 0) return PF_NOT_FOUND;
  snprintf(text, (size_t)len, "%.0f", v);
  return PF_OK;
}

pf_status gpu_info(void *dev, const char *key, char *text, int32_t len) {
  gpu_device *d = (gpu_device *)dev;
  if (len < 1) return PF_INVALID_ARGUMENT;
  if (!d) { /* about the type, not one device */
    if (strcmp(key, "absent") || !absent[0]) return PF_NOT_FOUND;
    snprintf(text, (size_t)len, "%s", absent);
    return PF_OK;
  }
  select_device(d);
  if (!strcmp(key, "name")) {
    cudaDeviceProp props;
    cudaError_t e = cudaGetDeviceProperties(&props, d->ordinal);
    if (e != cudaSuccess) return log_error(d, e, "cudaGetDeviceProperties");
    snprintf(text, (size_t)len, "%s", props.name);
    return PF_OK;
  }
  if (!strcmp(key, "memory")) {
    size_t free_bytes = 0, total = 0;
    cudaError_t e = cudaMemGetInfo(&free_bytes, &total);
    return e != cudaSuccess ? log_error(d, e, "cudaMemGetInfo") : number(text, len, (double)total);
  }
  if (!strcmp(key, "flops"))
    return number(text, len, 2e3 * lanes_of(d) * d->sm_count * attribute(d, cudaDevAttrClockRate));
  if (!strcmp(key, "bandwidth")) /* kHz, bits, two transfers per clock */
    return number(text, len,
                  2e3 * attribute(d, cudaDevAttrMemoryClockRate) *
                      attribute(d, cudaDevAttrGlobalMemoryBusWidth) / 8);
  if (!strcmp(key, "latency")) {
    snprintf(text, (size_t)len, "0.000005");
    return PF_OK;
  }
  return PF_NOT_FOUND;
}

const pf_device gpu_table = {.size = sizeof(pf_device),
                             .flags = 0,
                             .type = "GPU",
                             .dl_type = kDLCUDA,
                             .priority = 100,
                             .self = NULL,
                             .count = count,
                             .open = open_,
                             .close = close_device,
                             .alloc = gpu_alloc,
                             .free = gpu_free,
                             .stream_new = gpu_stream_new,
                             .stream_del = gpu_stream_del,
                             .event_record = gpu_event_record,
                             .event_wait = gpu_event_wait,
                             .event_del = gpu_event_del,
                             .when = gpu_when,
                             .copy = gpu_copy,
                             .peer_copy = gpu_peer_copy,
                             .can_peer = gpu_can_peer,
                             .info = gpu_info,
                             .native = gpu_native,
                             .event_time = gpu_event_time,
                             .trim = gpu_trim};
