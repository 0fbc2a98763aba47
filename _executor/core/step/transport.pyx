# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Pyflow.transport/1, by which kernels that carry tensors between processes reach the rendezvous of
their step, and progress threads that of any running step.
"""
from outputs_h cimport *

ctypedef void (*managed_fn)(void*, pf_status, DLManagedTensorVersioned*, int32_t) noexcept nogil
cdef struct Receiver:
    managed_fn fn
    void* arg

cdef pf_status t_send(pf_ctx* ctx, pf_str key, DLManagedTensorVersioned* steal, int32_t dead) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_rendezvous* r = pf_step_rendezvous(c.step) if c != NULL and c.step != NULL else NULL
    cdef pf_tensor* t = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    cdef pf_error err
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    err.code = PF_OK
    if r == NULL or key.len < 0 or (key.data == NULL and key.len) or (t == NULL and not dead):
        pf_tensor_unref(t)
        if r == NULL:
            return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"no rendezvous")
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"send of no tensor that is not dead either, or under no key")
    if pf_rendezvous_send(r, key, t, dead, &err):
        return pf_fail(ctx, err.code, err.message)
    return PF_OK

cdef void received(void* arg, pf_status st, pf_tensor* take, int32_t dead) noexcept nogil:
    cdef Receiver* r = <Receiver*>arg
    r.fn(r.arg, st, &take.m if take != NULL else NULL, dead)
    free(r)

cdef pf_status t_recv(pf_ctx* ctx, pf_str key, managed_fn fn, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_rendezvous* rv = pf_step_rendezvous(c.step) if c != NULL and c.step != NULL else NULL
    cdef Receiver* r
    cdef pf_status st
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if fn == NULL or key.len < 0 or (key.data == NULL and key.len):
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"recv without a function, or under no key")
    r = <Receiver*>malloc(sizeof(Receiver))
    if rv == NULL or r == NULL:
        free(r)
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"no rendezvous")
    r.fn = fn
    r.arg = arg
    c.receives = 1
    st = pf_rendezvous_recv(rv, key, received, r)
    if st:
        free(r)
        return pf_fail(ctx, st, b"the step was aborted while it waited for a tensor")
    return PF_OK

cdef pf_status t_abort(pf_ctx* ctx, pf_status st, const char* msg, int64_t n) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef char text[1024]
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if msg == NULL or n <= 0:
        msg = b"the step was aborted"
        n = <int64_t>strlen(msg)
    if c.node != NULL and c.node.foreign:
        snprintf(text, 1024, b"%.*s (kernel of plugin '%.120s')", <int>min(n, <int64_t>800), msg, c.node.kernel.plugin_id)
    else:
        pf_copy_text(text, 1024, msg, n)
    if c.step == NULL:
        return PF_FAILED_PRECONDITION
    pf_step_fail(c.step, c.node, st if st > 0 else PF_ABORTED, text)
    return PF_OK

cdef pf_a64 own_incarnation

cdef uint64_t t_incarnation(pf_ctx* ctx) noexcept nogil:
    if pf_a64_load(&own_incarnation) == 0:
        pf_a64_cas(&own_incarnation, 0, (pf_now_ns() & <int64_t>0x7fffffffffffffff) | 1)
    return <uint64_t>pf_a64_load(&own_incarnation)

cdef pf_status t_inject(const pf_host* host, int64_t step, uint64_t incarnation, pf_str key,
                        DLManagedTensorVersioned* steal, int32_t dead) noexcept nogil:
    """From a progress thread."""
    cdef pf_tensor* t = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    cdef pf_rendezvous* r
    cdef pf_status st = PF_OK
    cdef pf_error err
    if key.len < 0 or (key.data == NULL and key.len) or (t == NULL and not dead):
        st = PF_INVALID_ARGUMENT
    elif incarnation != t_incarnation(NULL):
        st = PF_ABORTED
    if st:
        pf_tensor_unref(t)
        return st
    r = pf_running_rendezvous(step, &st)
    if r == NULL:
        pf_tensor_unref(t)
        return st
    err.code = PF_OK
    st = pf_rendezvous_send(r, key, t, dead, &err)
    pf_rendezvous_unref(r)
    return st

cdef pf_transport transport

cdef public const pf_transport* pf_transport_table() noexcept nogil:
    transport.size = sizeof(pf_transport)
    transport.send = t_send
    transport.recv = t_recv
    transport.abort = t_abort
    transport.incarnation = t_incarnation
    transport.inject = t_inject
    return &transport
