"""Part of calls.pyx: kernels that block their thread, and kernels that never end.

A synchronous PF_KERNEL_BLOCKING kernel is a deferred call whose compute runs on the BLOCKING lane.  A deferred call whose kernel
neither listens to cancellation nor calls `done` would keep its step, and whoever runs it, for ever: GRACE_NS after the step was
cancelled the host ends the call itself.  What the plugin may still hold, the ctx, its inputs and scratch memory, is left to it;
its outputs are taken away (n_out 0), and a `done` that comes after all is late: ignored.
"""

cdef void unlock_variables(pf_call* c) noexcept nogil:
    """Locks go back on the thread that took them; whatever else the call was lent stays until it ends."""
    cdef int32_t k, n = 0
    for k in range(c.n_lent):
        if c.lent[k].kind & 255 == 3:
            give_up(c, c.lent[k].kind, c.lent[k].p)
        else:
            c.lent[n] = c.lent[k]
            n += 1
    c.n_lent = n

cdef void run_slowly(void* arg) noexcept nogil:
    """On a thread of the lane.  The call is held: a kernel that found its ticket may have `done` called by anybody."""
    cdef pf_call* c = <pf_call*>arg
    run_held(c)
    pf_ticket_drop(c)

cdef void run_held(pf_call* c) noexcept nogil:
    cdef uint64_t ticket = c.ticket
    cdef pf_status st = PF_CANCELLED
    cdef int64_t start = pf_ticks() if c.step.trace != NULL else 0
    if not pf_a32_load(&c.step.cancelled):
        st = pf_foreign_run(c) if c.node.foreign else c.node.kernel.kernel.compute(&c.ctx, c.node.state)
    if pf_ticket_peek(ticket) != c:
        return                      # it called done itself
    if c.step.trace != NULL:
        pf_trace_ran(c, start)
    unlock_variables(c)
    if st == PF_PENDING:
        st = pf_fail(&c.ctx, PF_INTERNAL, b"the kernel returned PF_PENDING but is not declared PF_KERNEL_ASYNC")
    if pf_ticket_take(ticket) != NULL:
        pf_call_done(c, st)

cdef public pf_status pf_compute_slowly(pf_ctx* ctx, const void* state) noexcept nogil:
    """compute of a synchronous PF_KERNEL_BLOCKING kernel: no compute thread waits for a file."""
    cdef uint64_t ticket
    cdef pf_call* c = pf_ticket_new(<pf_call*>ctx, &ticket)
    if c == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a call on the BLOCKING lane")
    pf_a32_add(&c.refs, 1)
    if pf_pool_post(c.step.pool, PF_LANE_BLOCKING, run_slowly, c):
        run_slowly(c)
    return PF_PENDING

cdef public int32_t pf_checked_build() noexcept nogil:
    return PF_CHECKS

# ---------------------------------------------------------------- calls that never end
cdef bint deaf(pf_call* c) noexcept nogil:
    """Nobody will end it: compute is over, no callback was ever left, no stream and no lane's thread works for it."""
    return (not c.listens and pf_a32_load(&c.refs) == 1 and not pf_runs_slowly(c.node)
            and not (c.node.dev != NULL and c.node.dev.stream != NULL) and not pf_str_is(c.node.op, b"_Recv"))

cdef pf_call* successor(pf_call* c) noexcept nogil:
    """A call that completes in place of c, which keeps what the plugin may touch."""
    cdef uint32_t n = <uint32_t>c.ctx.n_in
    cdef pf_call* h = <pf_call*>malloc(sizeof(pf_call) + sizeof(void*) * (n + 1))
    cdef uint32_t k
    if h == NULL:
        return NULL
    unlock_variables(c)
    memcpy(h, c, sizeof(pf_call))
    h.ins = <DLTensor**>(h + 1)
    for k in range(n):
        h.ins[k] = c.ins[k]
        if pf_alive(c.ins[k]):
            pf_tensor_ref(pf_tensor_of(c.ins[k]))   # stays with the plugin
    h.ctx.ins = <const DLTensor**>h.ins
    h.message = NULL
    h.lent = h.lent_inline
    h.lent_room = 6
    h.n_lent = 0
    h.dirty = 0
    pf_a32_store(&h.refs, 1)
    c.ctx.n_out = 0
    c.slab = NULL
    return h

cdef pf_call* abandon_one(pf_step* s) noexcept nogil:
    """The next call to give up, out of the table and the list, its successor in its place; NULL: none left."""
    cdef pf_call* c
    cdef pf_call* h = NULL
    pthread_mutex_lock(&s.lock)
    c = s.deferred
    while c != NULL and not (deaf(c) and pf_ticket_take_idle(c.ticket) != NULL):
        c = c.next_cancel
    if c != NULL:
        h = successor(c)
        if h == NULL:
            h = c
        if h.prev_cancel != NULL:
            h.prev_cancel.next_cancel = h
        else:
            s.deferred = h
        if h.next_cancel != NULL:
            h.next_cancel.prev_cancel = h
        if s.told_up_to == c:
            s.told_up_to = h
    pthread_mutex_unlock(&s.lock)
    return h

cdef public void pf_abandon_calls(pf_step* s) noexcept nogil:
    """Of a step and those that run with it."""
    cdef pf_call* h
    cdef char text[500]
    while s != NULL:
        h = abandon_one(s)
        while h != NULL:
            snprintf(text, 500, b"the asynchronous kernel of node '%.*s' (%.*s of plugin '%.100s') did not end %d s after its step was "
                     b"cancelled, and does not listen to on_cancel: given up", <int>min(h.node.name.len, 150), h.node.name.data,
                     <int>min(h.node.op.len, 80), h.node.op.data, h.node.kernel.plugin_id, <int>(PF_GRACE_NS // 1000000000))
            pf_host_table().log(PF_LOG_WARNING, text, <int64_t>strlen(text))
            pf_call_done(h, PF_CANCELLED)
            h = abandon_one(s)
        s = s.peer
