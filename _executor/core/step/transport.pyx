# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Pyflow.transport/1 and /2, by which kernels that carry tensors between processes reach the rendezvous of their step, and
progress threads that of any step.

    a kernel         --send, recv--> the rendezvous of its step
    progress thread  --inject (/1)---------> that of a running step, by the number that this process gave it
                     --put, take, fail (/2)-> that of a step of a task, by its key, begun or not (step_table.pyx)

A local step, which no task's table knows, has the key {0, its number} in the process's own task.
"""
from outputs_h cimport *

ctypedef void (*managed_fn)(void*, pf_status, DLManagedTensorVersioned*, int32_t) noexcept nogil
cdef struct Receiver:
    managed_fn fn
    void* arg

cdef bint is_key(pf_str key) noexcept nogil:
    return key.len >= 0 and (key.data != NULL or key.len == 0)

cdef pf_rendezvous* rendezvous_of(pf_ctx* ctx) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    return pf_step_rendezvous(c.step) if c.step != NULL else NULL

cdef void learn(pf_ctx* ctx, pf_rendezvous* r) noexcept nogil:
    """Of a rendezvous that refused, because the step failed elsewhere: the step knows why before its kernel complains."""
    cdef pf_error why
    if (<pf_call*>ctx).step.leader.outlived and pf_rendezvous_error(r, &why):
        pf_step_fail_as((<pf_call*>ctx).step, &why)

# ---------------------------------------------------------------- kernels: /1, and what /2 shares with it
cdef pf_status t_send(pf_ctx* ctx, pf_str key, DLManagedTensorVersioned* steal, int32_t dead) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    cdef pf_rendezvous* r
    cdef pf_error err
    if ctx == NULL:
        pf_tensor_unref(t)
        return PF_INVALID_ARGUMENT
    r = rendezvous_of(ctx)
    if r == NULL or not is_key(key) or (t == NULL and not dead):
        pf_tensor_unref(t)
        if r == NULL:
            return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"no rendezvous")
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"send of no tensor that is not dead either, or under no key")
    pf_error_clear(&err)
    if pf_rendezvous_send(r, key, t, dead, &err):
        learn(ctx, r)
        return pf_fail(ctx, err.code, err.message)
    return PF_OK

cdef void received(void* arg, pf_status st, pf_tensor* take, int32_t dead) noexcept nogil:
    cdef Receiver* r = <Receiver*>arg
    r.fn(r.arg, st, &take.m if take != NULL else NULL, dead)
    free(r)

cdef pf_status receive(pf_ctx* ctx, pf_str key, const pf_reader* reader, managed_fn fn, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_rendezvous* rv = rendezvous_of(ctx)
    cdef Receiver* r
    cdef pf_status st
    if fn == NULL or not is_key(key):
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"recv without a function, or under no key")
    r = <Receiver*>malloc(sizeof(Receiver))
    if rv == NULL or r == NULL:
        free(r)
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"no rendezvous")
    r.fn = fn
    r.arg = arg
    c.ended_by = PF_ROLE_RECEIVES
    st = pf_rendezvous_recv(rv, key, reader, received, r)
    if st:
        free(r)
        learn(ctx, rv)
        if st == PF_ALREADY_EXISTS:
            return pf_failf(ctx, st, b"somebody waits for key '%.*s' of this step already", <int>min(key.len, <int64_t>400), key.data)
        return pf_fail(ctx, st, b"the step was aborted while it waited for a tensor")
    return PF_OK

cdef pf_status t_recv(pf_ctx* ctx, pf_str key, managed_fn fn, void* arg) noexcept nogil:
    return receive(ctx, key, NULL, fn, arg) if ctx != NULL else PF_INVALID_ARGUMENT

cdef void blamed(pf_call* c, const char* msg, int64_t n, char* text, int64_t room) noexcept nogil:
    """What a kernel says, with its plugin's name."""
    if msg == NULL or n <= 0:
        msg = b"the step was aborted"
        n = <int64_t>strlen(msg)
    if c.node != NULL and c.node.foreign:
        snprintf(text, room, b"%.*s (kernel of plugin '%.120s')", <int>min(n, <int64_t>800), msg, c.node.kernel.plugin_id)
    else:
        pf_copy_text(text, room, msg, n)

cdef pf_status t_abort(pf_ctx* ctx, pf_status st, const char* msg, int64_t n) noexcept nogil:
    return t2_abort(ctx, st, 0, msg, n)

cdef uint64_t t_incarnation(pf_ctx* ctx) noexcept nogil:
    return pf_task_incarnation(pf_step_task((<pf_call*>ctx).step) if ctx != NULL and (<pf_call*>ctx).step != NULL else pf_task_own())

cdef pf_status t_inject(const pf_host* host, int64_t step, uint64_t incarnation, pf_str key,
                        DLManagedTensorVersioned* steal, int32_t dead) noexcept nogil:
    """From a progress thread."""
    cdef pf_tensor* t = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    cdef pf_rendezvous* r
    cdef pf_task* task = NULL
    cdef pf_status st = PF_OK
    cdef pf_error err
    if not is_key(key) or (t == NULL and not dead):
        pf_tensor_unref(t)
        return PF_INVALID_ARGUMENT
    r = pf_running_rendezvous(step, &task, &st)
    if incarnation != pf_task_incarnation(task if task != NULL else pf_task_own()):
        st = PF_ABORTED
    if r == NULL or st:
        pf_rendezvous_unref(r)
        pf_task_unref(task)
        pf_tensor_unref(t)
        return st
    pf_error_clear(&err)
    st = pf_rendezvous_send(r, key, t, dead, &err)
    pf_rendezvous_unref(r)
    pf_task_unref(task)
    return st

# ---------------------------------------------------------------- kernels: /2
cdef pf_status t2_recv(pf_ctx* ctx, int32_t output, pf_str key, managed_fn fn, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_reader reader
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if output >= ctx.n_out:
        return pf_failf(ctx, PF_INVALID_ARGUMENT, b"recv for output %d of %d", output, ctx.n_out)
    memset(&reader, 0, sizeof(reader))
    if output >= 0 and c.node.home != NULL and c.node.out_mem != NULL and c.node.out_mem[output] == PF_ON_DEVICE:
        reader.home = c.node.home
        reader.mem = PF_MEM_PINNED      # from where its copy to the device is quickest
    return receive(ctx, key, &reader, fn, arg)

cdef void fail_derived(pf_call* c, pf_error* why) noexcept nogil:
    """The step fails in this node because it, or another one, failed elsewhere."""
    why.derived = 1
    if c.node != NULL:
        pf_copy_text(why.node, sizeof(why.node), c.node.name.data, c.node.name.len)
        pf_copy_text(why.op, sizeof(why.op), c.node.op.data, c.node.op.len)
        pf_copy_text(why.device, sizeof(why.device), c.node.device.data, c.node.device.len)
    pf_step_fail_as(c.step, why)

cdef pf_status t2_abort(pf_ctx* ctx, pf_status st, int32_t flags, const char* msg, int64_t n) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_error why
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if c.step == NULL:
        return PF_FAILED_PRECONDITION
    pf_error_clear(&why)
    why.code = st if st > 0 else PF_ABORTED
    blamed(c, msg, n, why.message, 1024)
    if not flags & PF_ERROR_DERIVED:
        pf_step_fail(c.step, c.node, why.code, why.message)
        return PF_OK
    fail_derived(c, &why)
    return PF_OK

cdef pf_status t2_key(pf_ctx* ctx, pf_step_key* out) noexcept nogil:
    cdef pf_step* s = (<pf_call*>ctx).step if ctx != NULL else NULL
    if s == NULL or out == NULL:
        return PF_INVALID_ARGUMENT
    s = s.leader
    if s.task != NULL:
        out[0] = s.key
    else:
        out.session = 0
        out.step = <uint64_t>s.id
    return PF_OK

cdef int64_t t2_deadline(pf_ctx* ctx) noexcept nogil:
    cdef pf_step* s = (<pf_call*>ctx).step if ctx != NULL else NULL
    if s == NULL or s.leader.home.deadline_ns == 0:
        return -1
    return max(s.leader.home.deadline_ns - pf_now_ns(), <int64_t>0)

cdef pf_task* t2_task(pf_ctx* ctx) noexcept nogil:
    cdef pf_step* s = (<pf_call*>ctx).step if ctx != NULL else NULL
    cdef pf_task* t = pf_step_task(s) if s != NULL else pf_task_own()
    pf_task_ref(t)
    return t

cdef struct Posting:                # a call that ends once its tensor is on its way; references: of `posted`, of the cancel callback
    pf_a32 refs
    uint64_t ticket

cdef void drop_posting(Posting* g) noexcept nogil:
    if pf_a32_dec_last(&g.refs):
        free(g)

cdef void end_posting(Posting* g, pf_status st) noexcept nogil:
    cdef pf_call* c = pf_ticket_take(g.ticket)
    if c != NULL:
        pf_a32_add(&c.step.crowded, -1)     # before its iteration ends, which looks at this
        pf_call_done(c, st)

cdef void posting_cancelled(void* arg) noexcept nogil:
    """The tensor stays announced until the step is cleaned up there; nobody waits for that."""
    end_posting(<Posting*>arg, PF_CANCELLED)
    drop_posting(<Posting*>arg)

cdef void posted(void* arg, pf_status st) noexcept nogil:
    cdef Posting* g = <Posting*>arg
    cdef pf_call* c
    if pf_host_table().off_cancel(g.ticket):
        drop_posting(g)
    c = pf_ticket_hold(g.ticket) if st else NULL
    if c != NULL:
        pf_fail(&c.ctx, st, b"the connection was lost before a tensor was sent")
    end_posting(g, st)
    if c != NULL:
        pf_ticket_drop(c)
    drop_posting(g)

cdef void* begin_posting(void* ctx) noexcept nogil:
    """Defers the call; NULL: out of memory, or it is over: cancelled."""
    cdef Posting* g = <Posting*>calloc(1, sizeof(Posting))
    cdef pf_call* h = pf_ticket_new(<pf_call*>ctx, &g.ticket) if g != NULL else NULL
    if h == NULL:
        free(g)
        return NULL
    h.ended_by = PF_ROLE_SENDS      # who takes the tensor ends it
    pf_a32_add(&h.step.crowded, 1)
    pf_a32_store(&g.refs, 2)
    if pf_host_table().on_cancel(&h.ctx, g.ticket, posting_cancelled, g):
        end_posting(g, PF_CANCELLED)
        free(g)
        return NULL
    return g

cdef pf_status t2_post(pf_ctx* ctx, pf_str task, pf_str key, DLManagedTensorVersioned* steal, int32_t dead) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_pend pend
    cdef bint may_pend
    cdef pf_status st
    cdef pf_step* s
    cdef pf_error err
    if ctx == NULL or (<pf_call*>ctx).step == NULL or not is_key(task) or not is_key(key) or (t == NULL and not dead):
        pf_tensor_unref(t)
        return PF_INVALID_ARGUMENT
    s = (<pf_call*>ctx).step.leader
    if s.task == NULL:
        pf_tensor_unref(t)
        return pf_failf(ctx, PF_FAILED_PRECONDITION, b"this step belongs to no server, so nothing leads from it to %.*s",
                        <int>min(task.len, <int64_t>120), task.data)
    pf_error_clear(&err)
    pend.begin = begin_posting
    pend.sent = posted
    pend.ctx = ctx
    may_pend = c.slab != NULL and c.instr.flags & PF_F_ASYNC and not pf_is_deferred(c) and c.moved == NULL
    st = pf_task_post(s.task, task, s.key, key, t, dead, &pend if may_pend else NULL, &err)
    if st == PF_OK or st == PF_PENDING or (may_pend and c.moved != NULL):
        return PF_PENDING if st else PF_OK
    if err.derived:
        fail_derived(c, &err)
    return pf_fail(ctx, err.code, err.message)

# ---------------------------------------------------------------- progress threads: /2
cdef pf_status refused(pf_task* t, uint64_t incarnation, pf_str key) noexcept nogil:
    if t == NULL or not is_key(key):
        return PF_INVALID_ARGUMENT
    return PF_ABORTED if incarnation != pf_task_incarnation(t) else PF_OK

cdef bint is_local(const pf_task* t, pf_step_key key) noexcept nogil:
    return t == pf_task_own() and key.session == 0

cdef pf_status t2_put(pf_task* t, pf_step_key step, uint64_t incarnation, pf_str key, DLManagedTensorVersioned* steal,
                      int32_t dead) noexcept nogil:
    cdef pf_tensor* value
    cdef pf_status st = refused(t, incarnation, key)
    cdef pf_error err
    if st == PF_OK and is_local(t, step):
        return t_inject(pf_host_table(), <int64_t>step.step, incarnation, key, steal, dead)
    value = pf_tensor_adopt(steal, 0) if steal != NULL else NULL
    if st == PF_OK and value == NULL and not dead:
        st = PF_INVALID_ARGUMENT
    if st:
        pf_tensor_unref(value)
        return st
    pf_error_clear(&err)
    return pf_task_put(t, step, key, value, dead, &err)

cdef pf_status t2_take(pf_task* t, pf_step_key step, uint64_t incarnation, pf_str key, managed_fn fn, void* arg) noexcept nogil:
    cdef pf_rendezvous* local
    cdef Receiver* r
    cdef pf_status st = refused(t, incarnation, key)
    cdef pf_error err
    if st == PF_OK and fn == NULL:
        st = PF_INVALID_ARGUMENT
    if st:
        return st
    r = <Receiver*>malloc(sizeof(Receiver))
    if r == NULL:
        return PF_RESOURCE_EXHAUSTED
    r.fn = fn
    r.arg = arg
    pf_error_clear(&err)
    if is_local(t, step):
        local = pf_running_rendezvous(<int64_t>step.step, NULL, &st)
        if local != NULL:
            st = pf_rendezvous_recv(local, key, NULL, received, r)
            pf_rendezvous_unref(local)
    else:
        st = pf_task_take(t, step, key, NULL, received, r, &err)
    if st:
        free(r)
    return st

cdef DLManagedTensorVersioned* t2_room(pf_task* t, pf_step_key step, pf_str key, int32_t type, const int64_t* shape,
                                       int32_t ndim) noexcept nogil:
    cdef pf_reader reader
    cdef pf_tensor* value = NULL
    cdef int32_t k
    if t == NULL or not is_key(key) or ndim < 0 or ndim > PF_MAX_NDIM or (shape == NULL and ndim) or pf_type_size(type) == 0:
        return NULL
    if type == PF_STRING or type == PF_RESOURCE or type == PF_VARIANT:
        return NULL
    for k in range(ndim):
        if shape[k] < 0:
            return NULL
    if not is_local(t, step) and pf_task_reader(t, step, key, &reader):
        value = pf_device_tensor(reader.home, reader.mem, reader.home.out, type, shape, ndim)
    if value == NULL:
        value = pf_tensor_new(type, shape, ndim)
    return &value.m if value != NULL else NULL

cdef pf_status t2_fail(pf_task* t, pf_step_key step, uint64_t incarnation, pf_status st, int32_t flags, pf_str task,
                       pf_str message) noexcept nogil:
    cdef pf_error why
    cdef pf_status bad = refused(t, incarnation, message)
    if bad == PF_OK and (not is_key(task) or is_local(t, step)):
        bad = PF_INVALID_ARGUMENT
    if bad:
        return bad
    pf_error_clear(&why)
    why.code = st if st > 0 else PF_ABORTED
    why.derived = flags & PF_ERROR_DERIVED != 0
    pf_copy_text(why.task, sizeof(why.task), task.data, task.len)
    pf_copy_text(why.message, sizeof(why.message), message.data, message.len)
    return pf_task_fail(t, step, &why)

cdef pf_status t2_error(pf_task* t, pf_step_key step, int32_t* flags, char* text, int64_t room) noexcept nogil:
    cdef pf_error why
    if t == NULL or not pf_task_error(t, step, &why):
        return PF_OK
    if flags != NULL:
        flags[0] = PF_ERROR_DERIVED if why.derived else 0
    if text != NULL and room > 0:
        pf_copy_text(text, <size_t>room, why.message, <int64_t>strlen(why.message))
    return why.code

# ---------------------------------------------------------------- tables
cdef pf_transport transport
cdef pf_transport2 transport2

cdef public const pf_transport* pf_transport_table() noexcept nogil:
    transport.size = sizeof(pf_transport)
    transport.send = t_send
    transport.recv = t_recv
    transport.abort = t_abort
    transport.incarnation = t_incarnation
    transport.inject = t_inject
    return &transport

cdef public const pf_transport2* pf_transport2_table() noexcept nogil:
    transport2.size = sizeof(pf_transport2)
    transport2.send = t_send
    transport2.recv = t2_recv
    transport2.abort = t2_abort
    transport2.key = t2_key
    transport2.deadline = t2_deadline
    transport2.task = t2_task
    transport2.retain = pf_task_ref
    transport2.release = pf_task_unref
    transport2.incarnation = pf_task_incarnation
    transport2.put = t2_put
    transport2.take = t2_take
    transport2.room = t2_room
    transport2.fail = t2_fail
    transport2.error = t2_error
    transport2.post = t2_post
    return &transport2
