# cython: language_level=3
"""What inspect.pyx defines (pf_inspect.h): for exec, frames, step, parts and api."""
from core cimport *
from exec_api cimport *

cdef extern from "pf_inspect.h" nogil:
    ctypedef struct pf_finite:
        int64_t nan, inf, first
    int32_t pf_run_range_inspected(pf_call*, uint32_t begin, uint32_t end) noexcept
    int32_t pf_inspect_completed(pf_call*, int32_t r) noexcept
    pf_status pf_inspect_feeds(pf_step*) noexcept
    pf_tensor* pf_inspect_on_host(pf_tensor*) noexcept
    int32_t pf_float_layout(int32_t type, uint64_t* mask) noexcept
    int64_t pf_count_bad(const void* data, int64_t bytes, int32_t type) noexcept
    pf_finite pf_describe_bad(const void* data, int64_t bytes, int32_t type) noexcept
    int32_t pf_value_range(const void* data, int64_t bytes, int32_t type, double* low, double* high) noexcept
