# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Tensors that a session keeps between steps under a name: what GetSessionHandle made.

Each is a resource of the session's own container whose object is the tensor; so closing the session
frees what was never deleted.

Invariants
1. A kept tensor owns its memory: it is neither lent by a caller nor part of a step's extent.
2. Its value never changes: whoever wants to write to its buffer finds it shared.

Threads: any; no lock of its own.

    pf_state_keep(s, tensor, name, &err);  t = pf_state_kept(s, name);  pf_state_forget(s, name);
"""
from host_h cimport *

cdef extern from *:
    """
    static void pf_kept_unref(void *tensor) { pf_tensor_unref((pf_tensor *)tensor); }
    static const pf_type pf_kept_type = {.size = sizeof(pf_type), .id = "session tensor", .unref = pf_kept_unref};
    """
    const pf_type pf_kept_type


cdef pf_status take_it(pf_ctx* ctx, void* place, void** obj) noexcept nogil:
    cdef pf_tensor** take = <pf_tensor**>place
    obj[0] = take[0]
    take[0] = NULL
    return PF_OK


cdef public const pf_type* pf_kept_tensor_type() noexcept nogil:
    return &pf_kept_type


cdef public pf_status pf_state_keep(pf_state* s, pf_tensor* take, pf_str name,
                                    pf_error* err) noexcept nogil:
    """Keeps the tensor under a name that is not used yet; takes the reference in any case."""
    cdef pf_resource* r = NULL
    cdef pf_status st = pf_state_resource(s, pf_str_of(b""), name, True, &pf_kept_type, take_it, NULL,
                                          &take, &r, err)
    pf_tensor_unref(take)               # where it was not taken
    if r != NULL:
        pf_object_unref(&r.base)
    return st


cdef pf_resource* find_kept(pf_state* s, pf_str name) noexcept nogil:
    """With a reference; NULL: there is none."""
    cdef pf_resource* r = NULL
    cdef pf_error err
    err.code = PF_OK
    pf_state_resource(s, pf_str_of(b""), name, True, &pf_kept_type, NULL, NULL, NULL, &r, &err)
    return r


cdef public pf_tensor* pf_state_kept(pf_state* s, pf_str name) noexcept nogil:
    cdef pf_resource* r = find_kept(s, name)
    cdef pf_tensor* t
    if r == NULL:
        return NULL
    t = <pf_tensor*>r.obj
    pf_tensor_ref(t)
    pf_object_unref(&r.base)
    return t


cdef public pf_status pf_state_forget(pf_state* s, pf_str name) noexcept nogil:
    cdef pf_resource* r = find_kept(s, name)
    cdef pf_status st
    if r == NULL:
        return PF_NOT_FOUND
    st = pf_state_delete(s, &r.base)
    pf_object_unref(&r.base)
    return st
