# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Kernels every device needs and that only route: IdentityN, variable reads, unfed placeholders."""
from builtin_h cimport *

cdef public pf_status pf_k_identity_n(pf_ctx* c, const void* state) noexcept nogil:
    cdef int32_t k
    cdef pf_status st
    for k in range(c.n_in):
        st = c.host.alias(c, k, k, NULL, 0)
        if st:
            return st
    return PF_OK

cdef public pf_status pf_k_copy(pf_ctx* c, const void* state) noexcept nogil:
    """Ends here, or with the copy."""
    cdef uint64_t ticket
    cdef DLManagedTensorVersioned* value = c.host.retain(c, 0)
    cdef pf_ctx* kept
    if value == NULL:
        return PF_RESOURCE_EXHAUSTED
    kept = c.host.defer(c, &ticket)
    if kept == NULL:
        value.deleter(value)
        return PF_RESOURCE_EXHAUSTED
    return c.host.bring_output(kept, 0, value)

cdef pf_status stream_reached(pf_ctx* c, void* arg) noexcept nogil:
    return PF_OK

cdef public pf_status pf_k_await_stream(pf_ctx* c, const void* state) noexcept nogil:
    cdef uint64_t ticket
    cdef pf_ctx* kept = c.host.defer(c, &ticket)
    return c.host.after(kept, stream_reached, NULL) if kept != NULL else PF_RESOURCE_EXHAUSTED

cdef public pf_status pf_k_read_variable(pf_ctx* c, const void* state) noexcept nogil:
    return c.host.var_read(c, 0, 0)

cdef public pf_status pf_k_is_initialized(pf_ctx* c, const void* state) noexcept nogil:
    cdef DLTensor* out = c.host.output(c, 0, NULL, 0)
    if out == NULL:
        return PF_RESOURCE_EXHAUSTED
    (<uint8_t*>out.data)[0] = <uint8_t>c.host.var_initialized(c, 0)
    return PF_OK

cdef public pf_status pf_k_placeholder(pf_ctx* c, const void* state) noexcept nogil:
    cdef const pf_placeholder_state* s = <const pf_placeholder_state*>state
    cdef pf_str name = c.host.node_name(c)
    cdef char text[700]
    cdef int32_t used, k
    used = snprintf(text, 700, b"You must feed a value for placeholder tensor '%.*s' with dtype %s", <int>min(name.len, 300),
                    name.data, pf_type_name(s.dtype))
    if s.shape.ndim > 0:
        used += snprintf(text + used, 700 - used, b" and shape [")
        for k in range(min(s.shape.ndim, 12)):
            if s.shape.dims[k] < 0:
                used += snprintf(text + used, 700 - used, b"%s?", b"," if k else b"")
            else:
                used += snprintf(text + used, 700 - used, b"%s%lld", b"," if k else b"", <long long>s.shape.dims[k])
        snprintf(text + used, 700 - used, b"]")
    return pf_fail(c, PF_INVALID_ARGUMENT, text)

cdef public const pf_plugin* pf_core_plugin() noexcept nogil:
    return &pf_builtin_plugin
