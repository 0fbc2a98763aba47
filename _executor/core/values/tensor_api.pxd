# cython: language_level=3
"""What tensor.pyx and strings.pyx define (pf_core.h, "tensors")."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    int64_t pf_type_size(int32_t type) noexcept
    DLDataType pf_type_dl(int32_t type) noexcept
    int32_t pf_reads_as(int32_t a, int32_t b) noexcept
    const char* pf_type_name(int32_t type) noexcept
    int32_t pf_type_from_name(pf_str name) noexcept
    pf_status pf_checked_bytes(int32_t type, const int64_t* shape, int32_t ndim,
                               int64_t* bytes) noexcept
    pf_tensor* pf_tensor_new(int32_t type, const int64_t* shape, int32_t ndim) noexcept
    pf_tensor* pf_tensor_wrap(int32_t type, const int64_t* shape, int32_t ndim, void* data,
                              uint32_t flags,
                              void (*release_owner)(void*) noexcept nogil, void* owner) noexcept
    pf_tensor* pf_tensor_adopt(DLManagedTensorVersioned* steal, int32_t type) noexcept
    pf_tensor* pf_tensor_view_as(pf_tensor* src, int32_t type, const int64_t* shape, int32_t ndim) noexcept
    pf_tensor* pf_tensor_view(pf_tensor* src, const int64_t* shape, int32_t ndim) noexcept
    pf_tensor* pf_tensor_copy(const pf_tensor* src) noexcept
    pf_tensor* pf_tensor_named(pf_object* take, pf_tensor* snapshot) noexcept
    pf_tensor* pf_tensor_handle(pf_object* take) noexcept
    pf_status pf_tensor_str_get(const DLTensor* t, int64_t i, pf_str* out) noexcept
    pf_status pf_tensor_str_set(DLTensor* t, int64_t i, pf_str value) noexcept
    void pf_strings_start(pf_tensor* t) noexcept
    void pf_strings_free(pf_tensor* t) noexcept
    pf_status pf_strings_own(pf_tensor* t) noexcept
    void* pf_mem_alloc(uint64_t bytes) noexcept
    void pf_mem_free(void* p) noexcept
    void pf_mem_get_stats(pf_mem_stats* out) noexcept
    int64_t pf_mem_in_use() noexcept
    void pf_mem_reset_peak() noexcept
    void pf_mem_set_cap(int64_t bytes) noexcept
    void pf_mem_trim() noexcept
    pf_tensor* pf_tensor_settled(pf_tensor*) noexcept
    void pf_extents_trim() noexcept
    int64_t pf_extents_cached() noexcept
