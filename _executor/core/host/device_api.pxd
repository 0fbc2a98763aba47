# cython: language_level=3
"""What device.pyx defines (pf_core.h, "memory and streams of devices")."""
from core cimport *
from exec_api cimport *

cdef extern from "pf_core.h" nogil:
    pf_tensor* pf_device_tensor(pf_device_entry*, int32_t, void*, int32_t, const int64_t*, int32_t) noexcept
    pf_tensor* pf_device_duplicate(const pf_tensor*) noexcept
    pf_status pf_device_upload(pf_device_entry*, pf_tensor*, pf_tensor**) noexcept
    int32_t pf_fork_generation() noexcept
    int32_t pf_device_lost(const pf_device_entry*) noexcept
    int32_t pf_device_peers(pf_device_entry*, pf_device_entry*) noexcept
    pf_status pf_device_wait(pf_device_entry*) noexcept
    pf_status pf_bring_output(pf_call*, int32_t, pf_tensor*) noexcept
    pf_status pf_after_stream(pf_call*, pf_status (*)(pf_ctx*, void*) noexcept nogil, void*) noexcept
    void pf_job_run(pf_worker*, pf_job*) noexcept
    void pf_step_check_devices(pf_step*) noexcept
    int32_t pf_step_drain(pf_step*) noexcept
