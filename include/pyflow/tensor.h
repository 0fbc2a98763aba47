/* pyflow/tensor.h - the tensor structures of DLPack 1.x, declared from its published layout.
 *
 * Purpose: a kernel plugin needs no other header than kernel.h and this one.  A test compares these
 * layouts with the ones NumPy and torch use.  If <dlpack/dlpack.h> is included first, its own
 * declarations are used instead (define PF_HAVE_DLPACK).
 *
 * Facts a kernel may rely on for every tensor the host hands it:
 *   - `strides` is NULL: compact row-major, unless the kernel declared PF_KERNEL_STRIDED;
 *   - `byte_offset` is 0; `data` is aligned to 64 bytes where the host allocated it, and at least
 *     to the element's own size (16 at most) where it is a caller's memory fed without a copy: use
 *     unaligned vector loads for inputs (they cost nothing on aligned data); `data` may be NULL
 *     when a dimension is 0;
 *   - `shape` holds `ndim` non-negative sizes whose product, times the element size, fits int64.
 */
#ifndef PYFLOW_TENSOR_H
#define PYFLOW_TENSOR_H
#include <stdint.h>
#ifndef PF_HAVE_DLPACK
#ifdef __cplusplus
extern "C" {
#endif
/*PF:BEGIN*/
enum {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13
};
enum {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};
typedef struct {
  int32_t device_type;
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
/*PF:END*/
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#ifdef __cplusplus
}
#endif
#endif
#endif
