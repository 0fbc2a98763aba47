# cython: language_level=3
"""What rendezvous.pyx defines (pf_core.h, "state", the rendezvous)."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    pf_rendezvous* pf_rendezvous_new() noexcept
    void pf_rendezvous_ref(pf_rendezvous* r) noexcept
    void pf_rendezvous_unref(pf_rendezvous* r) noexcept
    pf_status pf_rendezvous_send(pf_rendezvous* r, pf_str key, pf_tensor* take, int32_t dead,
                                 pf_error* err) noexcept
    pf_status pf_rendezvous_recv(pf_rendezvous* r, pf_str key, pf_recv_fn fn, void* arg) noexcept
    void pf_rendezvous_abort(pf_rendezvous* r, pf_status why) noexcept
