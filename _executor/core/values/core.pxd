# cython: language_level=3
"""The core's C headers as Cython sees them: pyflow/tensor.h, pyflow/kernel.h, pf_atomic.h and the
types and inline functions of pf_core.h.

The functions that one core module defines and the others call are declared beside this file, one
small .pxd per defining module (tensor_api, proto_api, sig_api, registry_api, state_api,
rendezvous_api): a module must not cimport the declarations of what it defines itself.

    from core cimport pf_tensor, pf_status, PF_OK
    from tensor_api cimport pf_tensor_new

Fields named `in` in C are `ins` here (pf_ctx.ins, pf_var.ins, pf_op_def.ins).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdint cimport uintptr_t, intmax_t, uintmax_t
from libc.stdlib cimport malloc, calloc, realloc, free, abort, getenv, strtod, strtoll, qsort
from libc.string cimport memcpy, memmove, memset, memcmp, strlen, strcmp, strncmp, strchr
from libc.string cimport strstr, strdup
from libc.stdio cimport snprintf, FILE, fprintf, stderr, fputs, fflush, fopen, fread, fclose
from libc.errno cimport errno

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_attr_t:
        pass
    ctypedef struct pthread_key_t:
        pass
    int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*) noexcept nogil,
                       void*) noexcept
    int pthread_join(pthread_t, void**) noexcept
    int pthread_detach(pthread_t) noexcept
    pthread_t pthread_self() noexcept
    int pthread_equal(pthread_t, pthread_t) noexcept
    int pthread_mutex_init(pthread_mutex_t*, const void*) noexcept
    int pthread_mutex_destroy(pthread_mutex_t*) noexcept
    int pthread_mutex_lock(pthread_mutex_t*) noexcept
    int pthread_mutex_trylock(pthread_mutex_t*) noexcept
    int pthread_mutex_unlock(pthread_mutex_t*) noexcept
    int pthread_cond_init(pthread_cond_t*, const void*) noexcept
    int pthread_cond_destroy(pthread_cond_t*) noexcept
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*) noexcept
    int pthread_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const timespec*) noexcept
    int pthread_cond_signal(pthread_cond_t*) noexcept
    int pthread_cond_broadcast(pthread_cond_t*) noexcept
    int pthread_atfork(void (*)() noexcept nogil, void (*)() noexcept nogil,
                       void (*)() noexcept nogil) noexcept
    int pthread_attr_init(pthread_attr_t*) noexcept
    int pthread_attr_destroy(pthread_attr_t*) noexcept
    int pthread_attr_getstacksize(const pthread_attr_t*, size_t*) noexcept
    int pthread_attr_setstacksize(pthread_attr_t*, size_t) noexcept

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int, timespec*) noexcept
    int nanosleep(const timespec*, timespec*) noexcept
    enum:
        CLOCK_REALTIME
        CLOCK_MONOTONIC

cdef extern from "<unistd.h>" nogil:
    long sysconf(int) noexcept
    int usleep(unsigned int) noexcept

# ---------------------------------------------------------------- pf_atomic.h
cdef extern from "pf_atomic.h" nogil:
    ctypedef struct pf_a32:
        pass
    ctypedef struct pf_a64:
        pass
    ctypedef struct pf_aptr:
        pass
    int32_t pf_a32_load(pf_a32*) noexcept
    int32_t pf_a32_load_rlx(pf_a32*) noexcept
    void pf_a32_store(pf_a32*, int32_t) noexcept
    void pf_a32_store_rlx(pf_a32*, int32_t) noexcept
    int32_t pf_a32_add(pf_a32*, int32_t) noexcept
    int32_t pf_a32_add_rlx(pf_a32*, int32_t) noexcept
    int32_t pf_a32_add_sc(pf_a32*, int32_t) noexcept
    int32_t pf_a32_xchg(pf_a32*, int32_t) noexcept
    bint pf_a32_cas(pf_a32*, int32_t, int32_t) noexcept
    bint pf_a32_dec_last(pf_a32*) noexcept
    int64_t pf_a64_load(pf_a64*) noexcept
    int64_t pf_a64_load_rlx(const pf_a64*) noexcept
    void pf_a64_store(pf_a64*, int64_t) noexcept
    void pf_a64_store_rlx(pf_a64*, int64_t) noexcept
    int64_t pf_a64_add(pf_a64*, int64_t) noexcept
    int64_t pf_a64_add_rlx(pf_a64*, int64_t) noexcept
    bint pf_a64_cas(pf_a64*, int64_t, int64_t) noexcept
    void* pf_aptr_load(pf_aptr*) noexcept
    void pf_aptr_store(pf_aptr*, void*) noexcept
    void* pf_aptr_xchg(pf_aptr*, void*) noexcept
    bint pf_aptr_cas(pf_aptr*, void*, void*) noexcept
    void pf_fence() noexcept
    void pf_cpu_relax() noexcept
    void pf_spin_lock(pf_a32*) noexcept
    void pf_spin_unlock(pf_a32*) noexcept

# ---------------------------------------------------------------- pyflow/tensor.h
cdef extern from "pyflow/tensor.h" nogil:
    enum:
        kDLCPU, kDLCUDA, kDLCUDAHost, kDLOpenCL, kDLVulkan, kDLMetal, kDLROCM, kDLROCMHost
        kDLExtDev, kDLCUDAManaged
    enum:
        kDLInt, kDLUInt, kDLFloat, kDLOpaqueHandle, kDLBfloat, kDLComplex, kDLBool
    ctypedef struct DLDevice:
        int32_t device_type, device_id
    ctypedef struct DLDataType:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DLPackVersion:
        uint32_t major, minor
    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void* manager_ctx
        void (*deleter)(DLManagedTensorVersioned*) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor

# ---------------------------------------------------------------- pyflow/kernel.h
cdef extern from "pyflow/kernel.h" nogil:
    ctypedef int32_t pf_status
    enum:
        PF_ABI_MAJOR, PF_ABI_MINOR
    enum:
        PF_OK, PF_CANCELLED, PF_UNKNOWN, PF_INVALID_ARGUMENT, PF_DEADLINE_EXCEEDED, PF_NOT_FOUND
        PF_ALREADY_EXISTS, PF_PERMISSION_DENIED, PF_RESOURCE_EXHAUSTED, PF_FAILED_PRECONDITION
        PF_ABORTED
        PF_OUT_OF_RANGE, PF_UNIMPLEMENTED, PF_INTERNAL, PF_UNAVAILABLE, PF_DATA_LOSS
        PF_UNAUTHENTICATED
        PF_PENDING, PF_DECLINE
    enum:
        PF_INVALID_TYPE, PF_FLOAT32, PF_FLOAT64, PF_INT32, PF_UINT8, PF_INT16, PF_INT8, PF_STRING
        PF_COMPLEX64
        PF_INT64, PF_BOOL, PF_QINT8, PF_QUINT8, PF_QINT32, PF_BFLOAT16, PF_QINT16, PF_QUINT16
        PF_UINT16
        PF_COMPLEX128, PF_FLOAT16, PF_RESOURCE, PF_VARIANT, PF_UINT32, PF_UINT64, PF_FLOAT8_E5M2
        PF_FLOAT8_E4M3FN, PF_INT4, PF_UINT4
    ctypedef struct pf_str:
        const char* data
        int64_t len
    ctypedef struct pf_ctx
    ctypedef struct pf_host
    ctypedef struct pf_device
    ctypedef struct pf_infer:
        uint32_t size, flags
        const pf_host* host
    ctypedef struct pf_group

    enum:
        PF_ATTR_INT, PF_ATTR_FLOAT, PF_ATTR_BOOL, PF_ATTR_STRING, PF_ATTR_TYPE, PF_ATTR_SHAPE
        PF_ATTR_TENSOR
        PF_ATTR_FUNC, PF_ATTR_LIST
    ctypedef struct pf_shape:
        const int64_t* dims
        int32_t ndim, pad
    ctypedef struct pf_const:
        const DLTensor* tensor
        int32_t type, pad
    ctypedef struct pf_list:
        const void* items
        int64_t n
    ctypedef struct pf_attr:
        uint32_t size, flags
        const char* name
        int32_t kind, offset
    enum:
        PF_ATTR_OPTIONAL
    enum:
        PF_MEM_DEVICE, PF_MEM_HOST, PF_MEM_PINNED, PF_MEM_REGISTERED, PF_MEM_ANY, PF_ARG_WRITTEN, PF_ARG_ANY_TYPE, PF_ARG_TYPE_SHIFT
    ctypedef struct pf_arg:
        uint32_t size, flags
        const char* name
        int32_t mem, reuse

    ctypedef struct pf_op:
        uint32_t size, flags
        const char* name
        const char* sig
        pf_status (*infer)(pf_infer*) noexcept nogil
        uint32_t min_minor, pad
        const char* doc
    enum:
        PF_OP_STATEFUL, PF_OP_COMMUTATIVE, PF_OP_ALLOWS_UNINITIALIZED
    ctypedef struct pf_kernel:
        uint32_t size, flags
        const char* op
        const char* where
        const char* device
        int32_t priority
        uint32_t min_minor
        const pf_attr* const* attrs
        const pf_arg* const* args
        uint64_t state_size
        pf_status (*init)(pf_ctx*, void*) noexcept nogil
        void (*fini)(void*) noexcept nogil
        pf_status (*compute)(pf_ctx*, const void*) noexcept nogil
        pf_status (*cost)(pf_infer*, double*, double*) noexcept nogil
        const char* needs
    enum:
        PF_KERNEL_EXPENSIVE, PF_KERNEL_DETERMINISTIC, PF_KERNEL_ASYNC, PF_KERNEL_BLOCKING
        PF_KERNEL_URGENT, PF_KERNEL_BRIEF
        PF_KERNEL_STRIDED, PF_KERNEL_DEAD, PF_KERNEL_COLLECTIVE, PF_FLAG_CRITICAL_MASK
    ctypedef struct pf_plugin:
        uint32_t size, flags
        const char* id
        const char* version
        const pf_op* const* ops
        const pf_kernel* const* kernels
        const pf_device* const* devices
        pf_status (*start)(const pf_host*) noexcept nogil
        void (*stop)(const pf_host*) noexcept nogil
        const void* (*extension)(const char*) noexcept nogil
        uint32_t abi_major, abi_minor, min_minor, pad

    ctypedef struct pf_ctx:
        uint32_t size, flags
        const pf_host* host
        const DLTensor** ins "in"
        DLTensor** out
        const int32_t* in_type
        const int32_t* out_type
        int32_t n_in, n_out
        const int32_t* in_start
        const int32_t* out_start
        int32_t n_in_args, n_out_args
        void* dev
        void* stream
        int64_t step
        uint64_t reserved[2]

    ctypedef struct pf_type:
        uint32_t size, flags
        const char* id
        void (*unref)(void*) noexcept nogil
        void (*abort)(void*, pf_status) noexcept nogil
    enum:
        PF_SCOPE_CONTAINER, PF_SCOPE_STEP
    enum:
        PF_VAR_READ, PF_VAR_UPDATE, PF_VAR_REPLACE
    ctypedef struct pf_var:
        int32_t ins "in"
        int32_t mode
    enum:
        PF_LANE_CPU, PF_LANE_BLOCKING
    enum:
        PF_LOG_DEBUG, PF_LOG_INFO, PF_LOG_WARNING, PF_LOG_ERROR

    ctypedef pf_status (*pf_make_fn)(pf_ctx*, void*, void**) noexcept nogil
    ctypedef struct pf_host:
        uint32_t size, minor
        const char* name
        pf_status (*fail)(pf_ctx*, pf_status, const char*, int64_t) noexcept nogil
        void (*log)(int32_t, const char*, int64_t) noexcept nogil
        DLTensor* (*output)(pf_ctx*, int32_t, const int64_t*, int32_t) noexcept nogil
        pf_status (*set_output)(pf_ctx*, int32_t, DLManagedTensorVersioned*) noexcept nogil
        DLTensor* (*forward)(pf_ctx*, int32_t, int32_t, const int64_t*, int32_t) noexcept nogil
        pf_status (*alias)(pf_ctx*, int32_t, int32_t, const int64_t*, int32_t) noexcept nogil
        void* (*scratch)(pf_ctx*, uint64_t, uint64_t) noexcept nogil
        pf_ctx* (*defer)(pf_ctx*, uint64_t*) noexcept nogil
        void (*done)(uint64_t, pf_status) noexcept nogil
        pf_ctx* (*pending)(uint64_t) noexcept nogil
        int32_t (*cancelled)(pf_ctx*) noexcept nogil
        pf_status (*on_cancel)(pf_ctx*, uint64_t, void (*)(void*) noexcept nogil,
                               void*) noexcept nogil
        int32_t (*off_cancel)(uint64_t) noexcept nogil
        pf_status (*after)(pf_ctx*, pf_status (*)(pf_ctx*, void*) noexcept nogil,
                           void*) noexcept nogil
        pf_status (*parallel_for)(pf_ctx*, int64_t, int64_t,
                                  void (*)(void*, int64_t, int64_t, int32_t) noexcept nogil,
                                  void*) noexcept nogil
        int32_t (*workers)(pf_ctx*) noexcept nogil
        pf_status (*post)(const pf_host*, int32_t, void (*)(void*) noexcept nogil,
                          void*) noexcept nogil
        DLManagedTensorVersioned* (*tensor_new)(const pf_host*, void*, int32_t, int32_t,
                                                const int64_t*,
                                                int32_t) noexcept nogil
        DLManagedTensorVersioned* (*retain)(pf_ctx*, int32_t) noexcept nogil
        int32_t (*type_of)(const DLManagedTensorVersioned*) noexcept nogil
        pf_status (*str_get)(const DLTensor*, int64_t, pf_str*) noexcept nogil
        pf_status (*str_set)(DLTensor*, int64_t, pf_str) noexcept nogil
        pf_status (*var_lock)(pf_ctx*, const pf_var*, int32_t) noexcept nogil
        DLTensor* (*var_get)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*var_swap)(pf_ctx*, int32_t, DLManagedTensorVersioned*) noexcept nogil
        pf_status (*var_assign)(pf_ctx*, int32_t, int32_t) noexcept nogil
        pf_status (*var_read)(pf_ctx*, int32_t, int32_t) noexcept nogil
        int32_t (*var_initialized)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*var_handle)(pf_ctx*, int32_t, pf_str, pf_str, int32_t, pf_shape) noexcept nogil
        pf_status (*resource)(pf_ctx*, int32_t, pf_str, pf_str, const pf_type*, pf_make_fn, void*,
                              void**) noexcept nogil
        pf_status (*resource_handle)(pf_ctx*, int32_t, int32_t, const pf_type*,
                                     void*) noexcept nogil
        pf_status (*resource_get)(pf_ctx*, int32_t, const pf_type*, void**) noexcept nogil
        pf_status (*resource_delete)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*rng)(pf_ctx*, uint64_t, uint64_t*, uint64_t*) noexcept nogil
        int32_t (*is_dead)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*set_dead)(pf_ctx*, int32_t) noexcept nogil
        const DLTensor* (*constant)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*drop_constant)(pf_ctx*, int32_t) noexcept nogil
        pf_str (*node_name)(pf_ctx*) noexcept nogil
        int64_t (*frame_iter)(pf_ctx*, pf_str*) noexcept nogil
        int32_t (*infer_n)(pf_infer*, int32_t) noexcept nogil
        pf_status (*infer_dims)(pf_infer*, int32_t, const int64_t**, int32_t*) noexcept nogil
        int32_t (*infer_type)(pf_infer*, int32_t) noexcept nogil
        const DLTensor* (*infer_constant)(pf_infer*, int32_t) noexcept nogil
        pf_status (*infer_attr)(pf_infer*, const char*, int32_t, void*) noexcept nogil
        pf_status (*infer_set)(pf_infer*, int32_t, const int64_t*, int32_t) noexcept nogil
        pf_status (*infer_fail)(pf_infer*, const char*, int64_t) noexcept nogil
        const void* (*extension)(const char*) noexcept nogil
        pf_status (*post_caller)(pf_ctx*, void (*)(void*) noexcept nogil, void*) noexcept nogil
        pf_status (*resource_output)(pf_ctx*, int32_t, pf_str, pf_str, const pf_type*, pf_make_fn,
                                     void*) noexcept nogil
        int32_t (*can_forward)(pf_ctx*, int32_t) noexcept nogil
        pf_status (*bring_output)(pf_ctx*, int32_t, DLManagedTensorVersioned*) noexcept nogil
        const void* (*native)(pf_ctx*, const char*) noexcept nogil

    ctypedef struct pf_device:
        uint32_t size, flags
        const char* type
        int32_t dl_type, priority
        void* self
        int32_t (*count)(void*) noexcept nogil
        pf_status (*open)(const pf_host*, void*, int32_t, void**, char*, int32_t) noexcept nogil
        void (*close)(void*) noexcept nogil
        void* (*alloc)(void*, uint64_t, uint64_t, int32_t, void*) noexcept nogil
        void (*free)(void*, void*, uint64_t, int32_t, void*) noexcept nogil
        pf_status (*stream_new)(void*, void**) noexcept nogil
        void (*stream_del)(void*, void*) noexcept nogil
        pf_status (*event_record)(void*, void*, void**) noexcept nogil
        pf_status (*event_wait)(void*, void*, void*) noexcept nogil
        void (*event_del)(void*, void*) noexcept nogil
        pf_status (*when)(void*, void*, void (*)(void*, pf_status) noexcept nogil,
                          void*) noexcept nogil
        pf_status (*copy)(void*, void*, const DLTensor*, DLTensor*) noexcept nogil
        pf_status (*peer_copy)(void*, void*, void*, const DLTensor*, DLTensor*) noexcept nogil
        int32_t (*can_peer)(void*, const char*, void*) noexcept nogil
        pf_status (*info)(void*, const char*, char*, int32_t) noexcept nogil
        const void* (*native)(void*, void*, const char*) noexcept nogil
        pf_status (*event_time)(void*, void*, int64_t*) noexcept nogil
        void (*trim)(void*) noexcept nogil

    ctypedef struct pf_transport:
        uint32_t size, flags
        pf_status (*send)(pf_ctx*, pf_str, DLManagedTensorVersioned*, int32_t) noexcept nogil
        pf_status (*recv)(pf_ctx*, pf_str,
                          void (*)(void*, pf_status, DLManagedTensorVersioned*,
                                   int32_t) noexcept nogil,
                          void*) noexcept nogil
        pf_status (*abort)(pf_ctx*, pf_status, const char*, int64_t) noexcept nogil
        uint64_t (*incarnation)(pf_ctx*) noexcept nogil
        pf_status (*inject)(const pf_host*, int64_t, uint64_t, pf_str, DLManagedTensorVersioned*,
                            int32_t) noexcept nogil
    ctypedef struct pf_group_api:
        uint32_t size, flags
        int32_t (*n_nodes)(const pf_group*) noexcept nogil
        pf_str (*op)(const pf_group*, int32_t) noexcept nogil
        pf_str (*name)(const pf_group*, int32_t) noexcept nogil
        int32_t (*n_inputs)(const pf_group*, int32_t) noexcept nogil
        int32_t (*input)(const pf_group*, int32_t, int32_t, int32_t*) noexcept nogil
        int32_t (*type)(const pf_group*, int32_t, int32_t) noexcept nogil
        pf_status (*dims)(const pf_group*, int32_t, int32_t, const int64_t**,
                          int32_t*) noexcept nogil
        const DLTensor* (*constant)(const pf_group*, int32_t) noexcept nogil
        pf_status (*attr)(const pf_group*, int32_t, const char*, int32_t, void*) noexcept nogil
        int32_t (*n_results)(const pf_group*) noexcept nogil
        int32_t (*result)(const pf_group*, int32_t, int32_t*) noexcept nogil
        int32_t (*n_group_inputs)(const pf_group*) noexcept nogil
        int32_t (*n_outputs)(const pf_group*, int32_t) noexcept nogil
        pf_status (*fail)(const pf_group*, pf_status, const char*, int64_t) noexcept nogil
    ctypedef struct pf_compiler:
        uint32_t size, flags
        const char* device
        int32_t (*supports)(const pf_group_api*, const pf_group*, int32_t) noexcept nogil
        pf_status (*compile)(const pf_host*, const pf_group_api*, const pf_group*,
                             void**) noexcept nogil
        pf_status (*run)(pf_ctx*, const void*) noexcept nogil
        void (*release)(void*) noexcept nogil
    int64_t pf_numel(const DLTensor*) noexcept
    pf_status pf_fail(pf_ctx*, pf_status, const char*) noexcept
    DLTensor* pf_output_like(pf_ctx*, int32_t, const DLTensor*) noexcept

# ---------------------------------------------------------------- pf_core.h
cdef extern from "pf_core.h" nogil:
    ctypedef struct pf_error:
        pf_status code
        char node[512]
        char op[96]
        char device[96]
        char message[4096]
    DLTensor** pf_ctx_out(pf_ctx*) noexcept
    pf_status pf_error_set(pf_error*, pf_status, const char*, ...) noexcept
    void pf_copy_text(char*, size_t, const char*, int64_t) noexcept
    pf_str pf_str_of(const char*) noexcept
    bint pf_str_eq(pf_str, pf_str) noexcept
    bint pf_str_is(pf_str, const char*) noexcept
    uint64_t pf_str_hash(pf_str) noexcept
    ctypedef struct pf_arena:
        uint64_t total, cap
    void* pf_arena_alloc(pf_arena*, uint64_t) noexcept
    void pf_arena_free(pf_arena*) noexcept
    pf_str pf_arena_str(pf_arena*, pf_str) noexcept

    # tensors
    enum:
        PF_RED_ZONE, PF_RED_BYTE
    enum:
        PF_MAX_NDIM, PF_INLINE_DIMS
    enum:
        PF_T_BORROWED, PF_T_HANDLE, PF_T_VIEW, PF_T_FOREIGN, PF_T_PLACED, PF_T_WATCHED, PF_T_NAMED
    ctypedef struct pf_tensor:
        DLManagedTensorVersioned m
        pf_a32 refs
        int32_t type
        uint32_t flags, klass
        int64_t nbytes
        void (*release)(pf_tensor*) noexcept nogil
        void* owner
        void* device
        int64_t dims[8]
    pf_tensor* pf_tensor_of(const DLTensor*) noexcept
    DLTensor* pf_dl(pf_tensor*) noexcept
    void pf_tensor_ref(pf_tensor*) noexcept
    void pf_tensor_unref(pf_tensor*) noexcept
    bint pf_tensor_unique(pf_tensor*) noexcept
    void pf_dl_unref(DLTensor*) noexcept
    ctypedef struct pf_mem_stats:
        int64_t in_use, peak, cached, allocs, cap

    # graphs
    ctypedef struct pf_attr_value:
        int32_t kind, type
        int64_t i
        double f
        pf_str s
        pf_shape shape
        pf_tensor* tensor
        pf_list list
    ctypedef struct pf_node_attr:
        pf_str name
        pf_attr_value value
    ctypedef struct pf_input:
        int32_t node, output
    ctypedef struct pf_node:
        pf_str name, op, device
        int32_t n_in, n_ctl
        pf_input* inputs
        int32_t n_attrs
        pf_node_attr* attrs
    ctypedef struct pf_graph:
        pf_arena arena
        int32_t n_nodes, producer, min_consumer
        pf_node* nodes
        int32_t n_tensors, tensors_room
        pf_tensor** tensors

    # signatures
    ctypedef struct pf_op_sig:
        const char* name
        const char* sig
        int32_t flags
    const pf_op_sig* pf_op_table
    ctypedef struct pf_arg_def:
        pf_str name
        int32_t type, is_ref, type_attr, number_attr, list_attr
    ctypedef struct pf_attr_def:
        pf_str name
        int32_t kind, has_default, has_min, n_allowed
        int64_t min
        const int32_t* allowed_types
        const pf_str* allowed_strings
        pf_attr_value value
    ctypedef struct pf_op_def:
        pf_str name, sig
        int32_t flags, n_in, n_out, n_attrs
        pf_arg_def* ins "in"
        pf_arg_def* out
        pf_attr_def* attrs
        pf_status (*infer)(pf_infer*) noexcept nogil
        const char* doc
        const char* plugin
    ctypedef struct pf_signature:
        int32_t n_in, n_out, n_in_args, n_out_args
        int32_t* in_type
        int32_t* out_type
        int32_t* in_start
        int32_t* out_start
        uint8_t* in_ref
        uint8_t* out_ref

    # plugins, kernels, devices
    ctypedef struct pf_kernel_entry:
        const pf_kernel* kernel
        const char* plugin_id
        const char* origin
        pf_kernel_entry* next
        void* where
        int32_t foreign
    ctypedef struct pf_device_entry:
        const pf_device* vtable
        void* dev
        int32_t ordinal, own_memory
        char name[64]
        char type[24]
        void* stream
        void* ins "in"
        void* out
        pf_a32 ready
        pf_a64 in_use, peak, limit, allocs
        int32_t fork_gen
        char problem[256]
    const char* pf_device_name(const void*, const char*) noexcept nogil
    ctypedef struct pf_compiler_entry:
        pf_compiler compiler
        const char* plugin_id
    ctypedef void (*pf_problem_fn)(void*, const char*) noexcept nogil

    # state
    enum:
        PF_OBJ_VARIABLE, PF_OBJ_RESOURCE
    ctypedef struct pf_object:
        pf_a32 refs
        int32_t kind
        void (*destroy)(pf_object*) noexcept nogil
        char* container
        char* name
    void pf_object_ref(pf_object*) noexcept
    void pf_object_unref(pf_object*) noexcept
    ctypedef struct pf_variable:
        pf_object base
        uint64_t id
        pthread_mutex_t lock
        pf_tensor* value
        int32_t type, ndim
        int64_t* dims
        int32_t planned
    ctypedef struct pf_resource:
        pf_object base
        pf_type type
        void* obj
        int32_t scope
    ctypedef struct pf_state:
        pass
    ctypedef struct pf_rendezvous:
        pass
    ctypedef void (*pf_recv_fn)(void*, pf_status, pf_tensor*, int32_t) noexcept nogil
