# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Calls of kernels: what one is lent, how it fails, and how it outlives compute.

A call lives on its worker's stack until its kernel defers: then a heap copy, registered under a TICKET (generation << 32 |
index + 1), goes on.  `done` takes the ticket out of the table, so a second or late `done` finds nothing.  The call ends when
both compute has returned and done was called: at the last of its references, which are compute's, done's, and those of
pf_ticket_hold.

    RUNNING -> DEFERRED   [pf_ticket_new]    a heap copy goes on, the one on the stack is left behind
    DEFERRED -> TAKEN     [take]             done was called, the kernel ended at once, or the host gave the call up
    TAKEN -> OVER         [pf_call_finish]   by whoever dropped the last reference

Invariant: whoever finds a call by its ticket HOLDS it while looking at it or at its step; `done` may come meanwhile, and then
the holder completes the call.  pf_ticket_peek is for `pf_host.pending` only, whose caller has to keep `done` out.

Threads: any.  `ticket_lock` guards the table; step.lock the list of a step's deferred calls.
"""
from step_h cimport *

# ---------------------------------------------------------------- calls
cdef public void pf_call_init(pf_call* c, pf_step* step, pf_worker* w) noexcept nogil:
    c.ctx.size = sizeof(pf_ctx)
    c.ctx.flags = 0
    c.ctx.host = pf_host_table()
    c.ctx.stream = NULL
    c.ctx.step = step.id if step != NULL else 0
    c.step = step
    c.plan = step.plan if step != NULL else NULL
    c.worker = w
    c.dirty = 0
    c.n_lent = 0
    c.lent_room = 6
    c.lent = c.lent_inline
    c.message = NULL
    c.info = NULL
    c.node = NULL
    c.constants = NULL              # init's own; elsewhere `constant` says so
    c.ctx.n_in = 0
    c.ctx.n_out = 0
    c.loop = NULL
    c.moved = NULL
    c.state = PF_CALL_RUNNING
    c.dead_out = 0
    c.cancel_fn = NULL

cdef public pf_status pf_call_lend(pf_call* c, int32_t kind, void* p) noexcept nogil:
    cdef pf_lent* grown
    cdef pf_lent refused
    if c.n_lent == c.lent_room:
        grown = <pf_lent*>malloc(sizeof(pf_lent) * c.lent_room * 2)
        if grown == NULL:
            refused.kind = kind
            refused.p = p
            give_up(c, &refused)
            return PF_RESOURCE_EXHAUSTED
        memcpy(grown, c.lent, sizeof(pf_lent) * c.n_lent)
        if c.lent != c.lent_inline:
            free(c.lent)
        c.lent = grown
        c.lent_room *= 2
    c.lent[c.n_lent].kind = kind
    c.lent[c.n_lent].p = p
    c.n_lent += 1
    c.dirty = 1
    return PF_OK

cdef void give_up(pf_call* c, const pf_lent* l) noexcept nogil:
    cdef int32_t kind = pf_lent_kind(l)
    if kind == PF_LENT_TENSOR:
        pf_tensor_unref(<pf_tensor*>l.p)
    elif kind == PF_LENT_OBJECT:
        pf_object_unref(<pf_object*>l.p)
    elif kind == PF_LENT_MEMORY:
        pf_mem_free(l.p)
    elif kind == PF_LENT_PAGES:
        pf_step_scratch_over(c, l.p, pf_lent_number(l))
    else:
        pthread_mutex_unlock(&(<pf_variable*>l.p).lock)

cdef public void pf_call_cleanup(pf_call* c) noexcept nogil:
    while c.n_lent:
        c.n_lent -= 1
        give_up(c, c.lent + c.n_lent)
    if c.lent != c.lent_inline:
        free(c.lent)
        c.lent = c.lent_inline
        c.lent_room = 6
    free(c.message)
    c.message = NULL
    c.dirty = 0

cdef int32_t add_shape(char* text, int32_t used, int32_t room, const DLTensor* t) noexcept nogil:
    cdef int32_t k
    used += snprintf(text + used, room - used, b"%s[", pf_type_name(pf_tensor_of(t).type))
    for k in range(min(t.ndim, 8)):
        used += snprintf(text + used, room - used, b",%jd" if k else b"%jd", <intmax_t>t.shape[k])
    return used + snprintf(text + used, room - used, b"]")

cdef void describe_inputs(pf_call* c, char* text, int32_t room) noexcept nogil:
    """What the failing call was given: " (inputs: float[2,3], float[4,5])"."""
    cdef int32_t used = 0, k
    text[0] = 0
    if c.slab == NULL or c.instr.n_in == 0 or c.info == NULL:
        return
    used = snprintf(text, room, b" (inputs:")
    for k in range(<int32_t>min(c.instr.n_in, <uint32_t>6)):
        if used > room - 200:
            break
        text[used] = c',' if k else c' '
        used += 1
        if k:
            text[used] = c' '
            used += 1
        if c.ins[k] == NULL:
            used += snprintf(text + used, room - used, b"none")
        elif pf_tensor_of(c.ins[k]).flags & PF_T_HANDLE:
            used += snprintf(text + used, room - used, b"handle")
        else:
            used = add_shape(text, used, room, c.ins[k])
    snprintf(text + used, room - used, b"%s", b", ...)" if c.instr.n_in > 6 else b")")

cdef public pf_status pf_call_fail(pf_call* c, pf_status st) noexcept nogil:
    cdef char text[5200]
    cdef char given[1024]
    cdef char by[160]
    cdef pf_error cause
    by[0] = 0
    if (c.step.leader.outlived and pf_is_deferred(c) and c.ended_by and c.step.rendezvous != NULL
            and pf_rendezvous_error(c.step.rendezvous, &cause)):
        pf_step_fail_as(c.step, &cause)     # why its tensor does not come
    describe_inputs(c, given, 1024)
    if c.node != NULL and c.node.foreign:
        snprintf(by, sizeof(by), b" (kernel of plugin '%.120s')", c.node.kernel.plugin_id)
    if c.message != NULL:
        st = <pf_status>c.code          # not what the kernel made of it: NULL from `var_get`, say, tells nobody why
        snprintf(text, 5200, b"%.4000s%s%s", c.message, by, given)
    else:
        snprintf(text, 5200, b"the kernel failed with status %d and no message%s%s", st, by, given)
    pf_step_fail(c.step, c.node, st, text)
    return st

# ---------------------------------------------------------------- calls without a step
cdef public pf_status pf_kernel_init(pf_plan* plan, const pf_node_info* node, const DLTensor* const* constants,
                                     uint8_t* dropped, pf_digest* const* digests, char* text,
                                     int32_t room) noexcept nogil:
    """Calls the init of the node's kernel, with the constants it may see; the status is the one it failed with first."""
    cdef pf_call call
    cdef pf_blame blame
    cdef pf_status st
    cdef const pf_kernel_entry* k = node.kernel
    text[0] = 0
    memset(&call, 0, sizeof(call))
    pf_call_init(&call, NULL, NULL)
    call.plan = plan
    call.node = node
    call.constants = constants
    call.dropped = dropped
    call.digests = digests
    call.info = node.call
    memcpy(&call.ctx.in_type, node.call, sizeof(pf_call_info))
    if k.foreign:
        pf_blame_enter(&blame, b"init of a kernel", k.plugin_id, node.name, node.op)
    st = k.kernel.init(&call.ctx, node.state)
    if k.foreign:
        pf_blame_leave(&blame)
    if st != PF_OK and st != PF_DECLINE and call.message != NULL:
        pf_copy_text(text, <size_t>room, call.message, <int64_t>strlen(call.message))
        st = <pf_status>call.code
    pf_call_cleanup(&call)
    return st

cdef public char* pf_call_take_message(pf_ctx** ctx, pf_status* code) noexcept nogil:
    """For who tells more of a failure than the kernel did."""
    cdef pf_call* c = <pf_call*>ctx[0]
    cdef char* said
    if c.moved != NULL:
        c = c.moved
    ctx[0] = &c.ctx
    said = c.message
    c.message = NULL
    if said != NULL:
        code[0] = <pf_status>c.code
    return said

# ---------------------------------------------------------------- tickets
cdef pf_a32 ticket_lock
cdef pf_call** ticket_calls
cdef uint32_t* ticket_gens
cdef int32_t* ticket_free
cdef int32_t ticket_room
cdef int32_t ticket_n_free

cdef bint more_tickets() noexcept nogil:
    """Lock held."""
    global ticket_calls, ticket_gens, ticket_free, ticket_room, ticket_n_free
    cdef int32_t room = ticket_room * 2 if ticket_room else 256
    cdef int32_t k
    cdef pf_call** calls = <pf_call**>realloc(ticket_calls, sizeof(void*) * room)
    if calls == NULL:
        return False
    ticket_calls = calls
    cdef uint32_t* gens = <uint32_t*>realloc(ticket_gens, sizeof(uint32_t) * room)
    if gens == NULL:
        return False
    ticket_gens = gens
    cdef int32_t* frees = <int32_t*>realloc(ticket_free, sizeof(int32_t) * room)
    if frees == NULL:
        return False
    ticket_free = frees
    for k in range(ticket_room, room):
        ticket_gens[k] = 1
        ticket_calls[k] = NULL
        ticket_free[ticket_n_free] = k
        ticket_n_free += 1
    ticket_room = room
    return True

cdef public pf_call* pf_ticket_new(pf_call* c, uint64_t* ticket) noexcept nogil:
    """A heap copy of a stack call, registered; the stack call hands over what it was lent."""
    global ticket_n_free
    cdef uint32_t n = <uint32_t>c.ctx.n_in
    cdef pf_call* h = <pf_call*>malloc(sizeof(pf_call) + sizeof(void*) * (n + 1))
    cdef int32_t k
    if h == NULL:
        return NULL
    memcpy(h, c, sizeof(pf_call))
    h.ins = <DLTensor**>(h + 1)
    if n:
        memcpy(h.ins, c.ins, sizeof(void*) * n)
    h.ctx.ins = <const DLTensor**>h.ins
    if c.lent == c.lent_inline:
        h.lent = h.lent_inline
    c.lent = c.lent_inline
    c.lent_room = 6
    c.n_lent = 0
    c.message = NULL
    c.dirty = 0
    h.state = PF_CALL_DEFERRED
    h.since_ns = pf_now_ns()
    h.listens = 0
    h.ended_by = 0
    h.moved = NULL
    h.status = PF_OK
    h.cancel_fn = NULL
    pf_a32_store(&h.refs, 2)
    pf_spin_lock(&ticket_lock)
    if ticket_n_free == 0 and not more_tickets():
        pf_spin_unlock(&ticket_lock)
        pf_call_cleanup(h)
        free(h)
        return NULL
    ticket_n_free -= 1
    k = ticket_free[ticket_n_free]
    ticket_calls[k] = h
    h.ticket = (<uint64_t>ticket_gens[k] << 32) | <uint64_t>(k + 1)
    pf_spin_unlock(&ticket_lock)
    ticket[0] = h.ticket
    c.moved = h
    if c.step.pool.n > 1:
        pf_share(c.step)
    pthread_mutex_lock(&c.step.lock)
    h.prev_cancel = NULL
    h.next_cancel = c.step.deferred
    if c.step.deferred != NULL:
        c.step.deferred.prev_cancel = h
    c.step.deferred = h
    pthread_mutex_unlock(&c.step.lock)
    return h

cdef public pf_call* pf_ticket_peek(uint64_t ticket) noexcept nogil:
    cdef int64_t k = <int64_t>(ticket & <uint64_t>0xffffffff) - 1
    cdef pf_call* c = NULL
    pf_spin_lock(&ticket_lock)
    if 0 <= k < ticket_room and ticket_gens[k] == <uint32_t>(ticket >> 32):
        c = ticket_calls[k]
    pf_spin_unlock(&ticket_lock)
    return c

cdef void (*between)(uint64_t) noexcept nogil

cdef public void pf_between_ticket_and_use(void (*fn)(uint64_t) noexcept nogil) noexcept nogil:
    global between
    between = fn

cdef public pf_call* pf_ticket_hold(uint64_t ticket) noexcept nogil:
    cdef int64_t k = <int64_t>(ticket & <uint64_t>0xffffffff) - 1
    cdef pf_call* c = NULL
    pf_spin_lock(&ticket_lock)
    if 0 <= k < ticket_room and ticket_gens[k] == <uint32_t>(ticket >> 32):
        c = ticket_calls[k]
        if c != NULL:
            pf_a32_add(&c.refs, 1)      # in the table, so done's own reference is still there
    pf_spin_unlock(&ticket_lock)
    if c != NULL and between != NULL:
        between(ticket)
    return c

cdef public void pf_ticket_drop(pf_call* c) noexcept nogil:
    if pf_a32_add(&c.refs, -1) == 1:
        c.item.call = c
        if not pf_help_take(c.item):
            pf_pool_inject(c.step.pool, c.item)

cdef pf_call* take(uint64_t ticket, bint idle) noexcept nogil:
    global ticket_n_free
    cdef int64_t k = <int64_t>(ticket & <uint64_t>0xffffffff) - 1
    cdef pf_call* c = NULL
    pf_spin_lock(&ticket_lock)
    if 0 <= k < ticket_room and ticket_gens[k] == <uint32_t>(ticket >> 32):
        c = ticket_calls[k]
        if c != NULL and idle and pf_a32_load(&c.refs) != 1:
            c = NULL
        if c != NULL:
            pf_call_go(c, PF_CALL_DEFERRED, PF_CALL_TAKEN)
            ticket_calls[k] = NULL
            ticket_gens[k] = max(<uint32_t>1, ticket_gens[k] + 1)
            ticket_free[ticket_n_free] = <int32_t>k
            ticket_n_free += 1
    pf_spin_unlock(&ticket_lock)
    return c

cdef public pf_call* pf_ticket_take(uint64_t ticket) noexcept nogil:
    return take(ticket, False)

cdef public pf_call* pf_ticket_take_idle(uint64_t ticket) noexcept nogil:
    return take(ticket, True)

cdef public void pf_call_done(pf_call* c, pf_status st) noexcept nogil:
    """By `done`, on any thread: whoever comes last of {compute's return, done, holders} completes; here, a worker does."""
    c.status = st
    if c.step.trace != NULL:
        c.t_done = pf_ticks()
    pf_ticket_drop(c)

cdef public void pf_call_forget(pf_call* c) noexcept nogil:
    cdef pf_step* s = c.step
    pthread_mutex_lock(&s.lock)
    if s.told_up_to == c:
        s.told_up_to = c.next_cancel
    if c.prev_cancel != NULL:
        c.prev_cancel.next_cancel = c.next_cancel
    else:
        s.deferred = c.next_cancel
    if c.next_cancel != NULL:
        c.next_cancel.prev_cancel = c.prev_cancel
    pthread_mutex_unlock(&s.lock)

# ---------------------------------------------------------------- kernels that block their thread
# Kernels that block their thread, and kernels that never end.
#
# A synchronous PF_KERNEL_BLOCKING kernel is a deferred call whose compute runs on the BLOCKING lane.  A deferred call whose kernel
# neither listens to cancellation nor calls `done` would keep its step, and whoever runs it, for ever: GRACE_NS after the step was
# cancelled the host ends the call itself.  What the plugin may still hold, the ctx, its inputs and scratch memory, is left to it;
# its outputs are taken away (n_out 0), and a `done` that comes after all is late: ignored.
cdef void unlock_variables(pf_call* c) noexcept nogil:
    """Locks go back on the thread that took them; whatever else the call was lent stays until it ends."""
    cdef int32_t k, n = 0
    for k in range(c.n_lent):
        if pf_lent_kind(c.lent + k) == PF_LENT_LOCK:
            give_up(c, c.lent + k)
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
    """Nobody will end it: compute is over, no callback was ever left, no stream, no rendezvous and no lane's thread works for
    it."""
    return (not c.listens and not c.ended_by and pf_a32_load(&c.refs) == 1 and not pf_runs_slowly(c.node)
            and not (c.node.dev != NULL and c.node.dev.stream != NULL))

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

