# cython: language_level=3
"""What watch.pyx defines (pf_exec.h, "steps that can last")."""
from core cimport *
from exec_api cimport *

cdef extern from "pf_core.h" nogil:
    int32_t pf_watch_stop(int64_t) noexcept
    void pf_watch_begin(pf_step*) noexcept
    void pf_watch_end(pf_step*) noexcept
    pf_step* pf_watch_pin(pf_step**) noexcept
    void pf_watch_unpin(pf_step*) noexcept
    int64_t pf_watch_keep() noexcept
    int32_t pf_watch_cancel(pf_state*, pf_status, const char*) noexcept
    int64_t pf_watch_report(char*, int64_t) noexcept
