# cython: language_level=3
"""What state.pyx defines (pf_core.h, "state", without the rendezvous)."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    pf_state* pf_state_new(const char* name) noexcept
    void pf_state_ref(pf_state* s) noexcept
    void pf_state_unref(pf_state* s) noexcept
    void pf_state_close(pf_state* s, pf_status why) noexcept
    void pf_state_end(pf_state* s) noexcept
    int32_t pf_state_ended(pf_state* s) noexcept
    void pf_containers_reset(const char** names, int32_t n) noexcept
    pf_status pf_state_variable(pf_state* s, pf_str container, pf_str name, int32_t type,
                                pf_shape shape,
                                pf_variable** out, pf_error* err) noexcept
    pf_status pf_state_resource(pf_state* s, pf_str container, pf_str name, const pf_type* type,
                                pf_make_fn make,
                                pf_ctx* ctx, void* arg, pf_resource** out, pf_error* err) noexcept
    pf_status pf_state_delete(pf_state* s, pf_object* o) noexcept
    pf_resource* pf_resource_new(const pf_type* type, void* steal, int32_t scope, pf_str container,
                                 pf_str name) noexcept
    pf_tensor* pf_variable_read(pf_variable* v) noexcept
    pf_tensor* pf_variable_writable(pf_variable* v) noexcept
    pf_status pf_variable_set(pf_variable* v, pf_tensor* take, int32_t any_shape, pf_error* err) noexcept
    void pf_state_rng(pf_state* s, pf_str name, uint64_t seed, uint64_t seed2, uint64_t n,
                      uint64_t* key,
                      uint64_t* counter) noexcept
