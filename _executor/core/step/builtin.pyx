# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Kernels every device needs and that only route: IdentityN, variable reads, unfed placeholders, tensors a session keeps."""
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

# ---------------------------------------------------------------- tensors that a session keeps (kept.pyx)
cdef char* handle_text(pf_call* c, int32_t* length) noexcept nogil:
    """"node;number;device", to be freed."""
    cdef pf_str node = c.node.name
    cdef pf_str device = c.node.device
    cdef int64_t room = node.len + device.len + 32
    cdef char* text = <char*>malloc(<size_t>room)
    if text != NULL:
        length[0] = snprintf(text, <size_t>room, b"%.*s;%llu;%.*s", <int>node.len, node.data,
                             <unsigned long long>pf_state_next_number(c.plan.state), <int>device.len, device.data)
    return text

cdef pf_status no_memory(pf_ctx* c) noexcept nogil:
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, b"out of memory for a session handle")

cdef pf_status tell(pf_ctx* c, const char* before, pf_str handle, const char* after) noexcept nogil:
    cdef char text[600]
    snprintf(text, 600, b"%s'%.*s'%s", before, <int>min(handle.len, 400), handle.data, after)
    return pf_fail(c, PF_INVALID_ARGUMENT, text)

cdef pf_status put_text(pf_ctx* c, const char* text, int32_t length) noexcept nogil:
    cdef DLTensor* out = c.host.output(c, 0, NULL, 0)
    cdef pf_str s
    s.data = text
    s.len = length
    return c.host.str_set(out, 0, s) if out != NULL else PF_RESOURCE_EXHAUSTED

cdef public pf_status pf_k_session_handle(pf_ctx* c, const void* state) noexcept nogil:
    cdef pf_call* call = <pf_call*>c
    cdef DLManagedTensorVersioned* value = c.host.retain(c, 0)
    cdef int32_t length = 0
    cdef char* text
    cdef pf_str name
    cdef pf_error err
    cdef pf_status st
    if value == NULL:
        return PF_RESOURCE_EXHAUSTED
    text = handle_text(call, &length)
    if text == NULL:
        value.deleter(value)
        return no_memory(c)
    name.data = text
    name.len = length
    err.code = PF_OK
    if pf_state_keep(call.plan.state, pf_tensor_of(&value.dl_tensor), name, &err):
        st = pf_fail(c, err.code, err.message)
    else:
        st = put_text(c, text, length)
        if st:
            pf_state_forget(call.plan.state, name)
    free(text)
    return st

cdef pf_status retain_input(pf_ctx* c, void* arg, void** obj) noexcept nogil:
    cdef DLManagedTensorVersioned* value = c.host.retain(c, 0)
    if value == NULL:
        return PF_RESOURCE_EXHAUSTED
    obj[0] = pf_tensor_of(&value.dl_tensor)
    return PF_OK

cdef public pf_status pf_k_session_resource(pf_ctx* c, const void* state) noexcept nogil:
    """The handle as a resource, which names the same kept tensor."""
    cdef int32_t length = 0
    cdef char* text = handle_text(<pf_call*>c, &length)
    cdef pf_str name
    cdef pf_status st
    if text == NULL:
        return no_memory(c)
    name.data = text
    name.len = length
    st = c.host.resource_output(c, 0, pf_str_of(b""), name, pf_kept_tensor_type(), retain_input, NULL)
    free(text)
    return st

cdef public pf_status pf_k_session_tensor(pf_ctx* c, const void* state) noexcept nogil:
    """Ends here, or with the copy from another device."""
    cdef pf_str name
    cdef pf_tensor* t
    cdef uint64_t ticket
    cdef pf_ctx* kept
    cdef char text[200]
    c.host.str_get(c.ins[0], 0, &name)
    t = pf_state_kept((<pf_call*>c).plan.state, name)
    if t == NULL:
        return tell(c, b"The tensor with handle ", name, b" is not in the session store.")
    if t.type != c.out_type[0]:
        snprintf(text, 200, b"Output 0 of type %s does not match declared output type %s", pf_type_name(t.type),
                 pf_type_name(c.out_type[0]))
        pf_tensor_unref(t)
        return pf_fail(c, PF_INTERNAL, text)
    kept = c.host.defer(c, &ticket)
    if kept == NULL:
        pf_tensor_unref(t)
        return PF_RESOURCE_EXHAUSTED
    return c.host.bring_output(kept, 0, &t.m)

cdef public pf_status pf_k_delete_session_tensor(pf_ctx* c, const void* state) noexcept nogil:
    cdef pf_str name
    c.host.str_get(c.ins[0], 0, &name)
    if pf_state_forget((<pf_call*>c).plan.state, name):
        return tell(c, b"Failed to delete a tensor with handle ", name, b" in the session store.")
    return PF_OK

cdef public const pf_plugin* pf_core_plugin() noexcept nogil:
    return &pf_builtin_plugin
