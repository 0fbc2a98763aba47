# cython: language_level=3
"""pf_trace.h as Cython sees it: records, chunks, traces, the clock."""
from core cimport *

cdef extern from "pf_trace.h" nogil:
    enum:
        PF_TR_KERNEL, PF_TR_ASYNC, PF_TR_LAUNCH, PF_TR_CHUNK, PF_TR_LOOP, PF_TR_BLOCK, PF_TR_POST
        PF_TR_STEP, PF_TR_STREAM, PF_TR_OUTPUT, PF_TR_MORE
    enum:
        PF_TR_FAILED, PF_TR_OWN_MEMORY
    enum:
        PF_STREAM_COMPUTE, PF_STREAM_IN, PF_STREAM_OUT
    enum:
        PF_TRACE_BLOCKS, PF_TRACE_KERNELS, PF_TRACE_FULL
    enum:
        PF_CHUNK_RECORDS, PF_CHUNK_CACHE, PF_MAX_TRACE_LANES
    ctypedef struct pf_record:
        int64_t ready, start, end, back, path
        uint32_t in_use, turn, instr, step
        uint16_t lane
        uint8_t kind, flags
        uint16_t frame, n_out
    ctypedef struct pf_record_out:
        int64_t bytes
        int64_t dims[5]
        int32_t slot, type
        uint16_t lane
        uint8_t kind, ndim
        uint32_t memory
    ctypedef struct pf_trace_chunk:
        pf_trace_chunk* next
        int32_t n, lane
        pf_record records[255]
    ctypedef struct pf_trace_step:
        const void* plan
        int64_t id, start, end
        int32_t lane, status
    ctypedef struct pf_trace_mark:
        pf_trace_mark* next
        void* owner
        pf_device_entry* dev
        void* stream
        void* begin
        void* end
        pf_record record
    ctypedef struct pf_trace:
        uint64_t id
        int32_t level, max_chunks
        pf_a32 lock
        int32_t n_chunks, n_steps, steps_room
        pf_trace_chunk* chunks
        pf_trace_step* steps
        pf_trace_mark* marks
        pf_a64 dropped
    ctypedef struct pf_trace_lane:
        int64_t thread
        char name[16]
    int64_t pf_ticks() noexcept
    uint32_t pf_ready_stamp() noexcept
    int64_t pf_ready_tick(uint32_t stamp, int64_t now) noexcept
