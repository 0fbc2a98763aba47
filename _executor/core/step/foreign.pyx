# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Kernels of plugins that are not our own: called with blame (blame.pyx), their outputs compared.

Such a kernel is called through pf_foreign_compute.  Its outputs are compared with the static shapes that the graph was
built with (`_output_shapes`): readers were planned with them.

Invariant: our own plugins' kernels pass by all this, and pay nothing for it.
"""
from step_h cimport *

# ---------------------------------------------------------------- kernels
cdef public pf_status pf_foreign_run(pf_call* c) noexcept nogil:
    """compute of c's node, with blame.  c itself may be over when it returns."""
    cdef pf_blame b
    cdef const pf_node_info* n = c.node
    cdef pf_status st
    pf_blame_enter(&b, b"the kernel", n.kernel.plugin_id, n.name, n.op)
    st = n.kernel.kernel.compute(&c.ctx, n.state)
    pf_blame_leave(&b)
    return st

cdef public pf_status pf_foreign_compute(pf_ctx* ctx, const void* state) noexcept nogil:
    """In an instruction's `compute`."""
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_status st
    c.node = c.instr.about              # not every instruction's call has it
    st = pf_foreign_run(c)
    if c.moved == NULL:
        pf_call_late(c)
        if st == PF_PENDING and not c.instr.flags & PF_F_ASYNC:
            return pf_fail(ctx, PF_INTERNAL, b"the kernel returned PF_PENDING but is not declared PF_KERNEL_ASYNC")
        if st == PF_OK and c.node.promised != NULL:
            return pf_compare_outputs(c)
    return st

# ---------------------------------------------------------------- promised shapes
cdef bint keeps(const pf_shape* s, const DLTensor* t) noexcept nogil:
    cdef int32_t k
    if s.ndim < 0:
        return True
    if s.ndim != t.ndim:
        return False
    for k in range(s.ndim):
        if s.dims[k] >= 0 and s.dims[k] != t.shape[k]:
            return False
    return True

cdef void write_dims(char* text, int32_t room, const int64_t* dims, int32_t ndim) noexcept nogil:
    cdef int32_t used = snprintf(text, room, b"["), k
    for k in range(ndim):
        if used > room - 40:
            break
        if k:
            used += snprintf(text + used, room - used, b",")
        if dims[k] < 0:
            used += snprintf(text + used, room - used, b"?")
        else:
            used += snprintf(text + used, room - used, b"%jd", <intmax_t>dims[k])
    snprintf(text + used, room - used, b"]")

cdef public pf_status pf_compare_outputs(pf_call* c) noexcept nogil:
    """After a kernel that succeeded: what it delivered is what its readers were told."""
    cdef const DLTensor* t
    cdef char want[300]
    cdef char got[300]
    cdef int32_t k
    for k in range(c.ctx.n_out):
        t = c.ctx.out[k]
        if not pf_alive(t) or pf_tensor_of(t).flags & PF_T_HANDLE or keeps(c.node.promised + k, t):
            continue
        write_dims(want, sizeof(want), c.node.promised[k].dims, c.node.promised[k].ndim)
        write_dims(got, sizeof(got), t.shape, t.ndim)
        return pf_failf(&c.ctx, PF_INTERNAL, b"the kernel delivered output %d of shape %s, where the graph was "
                        b"built with %s (by the op's shape function, or set_shape)", k, got, want)
    return PF_OK
