# cython: language_level=3
"""What trace.pyx defines (pf_trace.h): for exec, frames, step, host and api."""
from core cimport *
from exec_api cimport *

cdef extern from "pf_trace.h" nogil:
    pf_trace* pf_trace_new(int32_t level, int64_t max_records) noexcept
    void pf_trace_free(pf_trace*) noexcept
    int32_t pf_trace_lanes(pf_trace_lane* out, int32_t room) noexcept
    void pf_trace_clock(int64_t* ticks, int64_t* ns) noexcept
    int32_t pf_run_range_traced(pf_call*, uint32_t, uint32_t, uint32_t stamp) noexcept
    void pf_trace_step_begin(pf_step*) noexcept
    void pf_trace_step_end(pf_step*, pf_status) noexcept
    void pf_trace_launched(pf_call*) noexcept
    void pf_trace_completed(pf_call*) noexcept
    void pf_trace_ran(pf_call*, int64_t start) noexcept
    void pf_trace_span(pf_step*, int32_t kind, uint32_t instr, const void* frame_def, int64_t path,
                       int64_t start) noexcept
    pf_status pf_trace_for(pf_call*, int64_t n, int64_t grain, pf_range_fn, void*) noexcept
    pf_trace_mark* pf_trace_enqueue(pf_call*, pf_device_entry*, int32_t stream) noexcept
    void pf_trace_enqueued(pf_call*, pf_trace_mark*) noexcept
