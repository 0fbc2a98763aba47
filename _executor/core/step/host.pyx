# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""pf_host: what kernels may call.  Documented, function by function, in pyflow/kernel.h.

A pf_ctx is the first member of a pf_call.  What a call is lent (snapshots, scratch memory, locks) is kept in its list and
given back by pf_call_cleanup when the call ends.  Wrong arguments of a kernel (an output that does not exist, a read of a
non-variable) are reported as PF_INTERNAL with the node's name, never by crashing.
"""
from outputs_h cimport *

cdef enum:                      # of the table: EMPTY -> FILLING [the first who asks] -> READY
    TABLE_EMPTY, TABLE_FILLING, TABLE_READY

cdef pf_host table

# ---------------------------------------------------------------- errors and logging
cdef pf_status h_fail(pf_ctx* ctx, pf_status st, const char* msg, int64_t n) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_status code = st if st > 0 else PF_INTERNAL
    if c == NULL:
        return code
    if c.message == NULL and msg != NULL and n > 0:
        n = min(n, <int64_t>4000)
        c.message = <char*>malloc(<size_t>n + 1)
        if c.message != NULL:
            memcpy(c.message, msg, <size_t>n)
            c.message[n] = 0
            c.code = code
    c.dirty = 1
    return code

cdef extern from *:
    """
    static void pf_log_to_stderr(int32_t level, const char *msg, int64_t n) {
      fprintf(stderr, "pyflow: %s: %.*s\\n", level >= 40 ? "error" : level >= 30 ? "warning" : level >= 20 ? "info" : "debug",
              (int)(n > 4000 ? 4000 : n), msg);
    }
    """
    void pf_log_to_stderr(int32_t, const char*, int64_t) noexcept nogil

cdef void (*log_hook)(int32_t, const char*, int64_t) noexcept nogil

cdef void h_log(int32_t level, const char* msg, int64_t n) noexcept nogil:
    if msg == NULL or n < 0:
        return
    if log_hook != NULL:
        log_hook(level, msg, n)
    elif level >= PF_LOG_WARNING:
        pf_log_to_stderr(level, msg, n)

cdef public void pf_set_log(void (*fn)(int32_t, const char*, int64_t) noexcept nogil) noexcept nogil:
    global log_hook
    log_hook = fn

# ---------------------------------------------------------------- inputs and outputs
cdef public int pf_no_output(pf_call* c, int32_t i) noexcept nogil:
    if 0 <= i < c.ctx.n_out and c.slab != NULL:
        return False
    pf_failf(&c.ctx, PF_INTERNAL, b"the kernel asked for output %d of %d%s", i, c.ctx.n_out,
             b"" if c.slab != NULL else b" outside of compute")
    return True

cdef inline pf_device_entry* out_device(pf_call* c, int32_t i) noexcept nogil:
    """Whose memory output i belongs in; NULL: the host's."""
    if c.node.home == NULL or c.node.out_mem == NULL or c.node.out_mem[i] != PF_ON_DEVICE:
        return NULL
    return c.node.home

cdef pf_tensor* device_output(pf_call* c, int32_t i, const int64_t* shape, int32_t ndim) noexcept nogil:
    """Jobs of the device that are over may hold the memory that is missing: their ends are taken care of first."""
    cdef pf_device_entry* d = out_device(c, i)
    cdef pf_tensor* t = pf_device_tensor(d, PF_MEM_DEVICE, d.stream, c.ctx.out_type[i], shape, ndim)
    cdef pf_item* item
    if t != NULL:
        return t
    item = pf_pool_take_job(c.step.pool)
    while item != NULL:
        pf_job_run(c.worker, <pf_job*>item)
        item = pf_pool_take_job(c.step.pool)
    return pf_device_tensor(d, PF_MEM_DEVICE, d.stream, c.ctx.out_type[i], shape, ndim)

cdef bint is_reference(pf_call* c, int32_t o) noexcept nogil:
    """Output o is a Ref in the op's signature."""
    cdef const pf_op_def* op = c.node.def_
    cdef int32_t a
    for a in range(op.n_out):
        if c.ctx.out_start[a] <= o < c.ctx.out_start[a + 1]:
            return op.out[a].is_ref
    return False

cdef public int pf_handle_fits(pf_call* c, int32_t o, const pf_object* object) noexcept nogil:
    """Output o may be a handle of the object; else the error is told: who reads it would take the object for elements."""
    cdef int32_t type = c.ctx.out_type[o]
    if type == PF_RESOURCE or type == PF_VARIANT:
        return True
    if object.kind == PF_OBJ_VARIABLE and (<const pf_variable*>object).type == type and is_reference(c, o):
        return True
    if object.kind == PF_OBJ_RESOURCE and type == PF_STRING and is_reference(c, o):
        return True                 # TF's first queues, readers and accumulators
    pf_failf(&c.ctx, PF_INTERNAL, b"output %d is %s in the op's signature, and no handle can be there", o,
             pf_type_name(type))
    return False

cdef bint no_shape(pf_ctx* ctx, const int64_t* shape, int32_t ndim) noexcept nogil:
    """The kernel's mistake, told as one."""
    cdef int32_t k
    if 0 <= ndim <= PF_MAX_NDIM and (ndim == 0 or shape != NULL):
        for k in range(ndim):
            if shape[k] < 0:
                pf_failf(ctx, PF_INTERNAL, b"the kernel gave an output a size of %lld in dimension %d",
                         <long long>shape[k], k)
                return True
        return False
    pf_failf(ctx, PF_INTERNAL, b"the kernel gave an output %d dimensions%s", ndim,
             b" at no address" if shape == NULL else b"")
    return True

cdef DLTensor* h_output(pf_ctx* ctx, int32_t i, const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    cdef char text[300]
    if ctx == NULL:
        return NULL
    if (<uint32_t>i >= <uint32_t>ctx.n_out or c.slab == NULL) and pf_no_output(c, i):
        return NULL
    if (shape == NULL and ndim) or <uint32_t>ndim > <uint32_t>PF_MAX_NDIM:
        no_shape(ctx, shape, ndim)
        return NULL
    if ctx.dev != NULL and out_device(c, i) != NULL:
        t = device_output(c, i, shape, ndim)
    else:
        t = pf_step_output(c, i, shape, ndim) if c.instr.flags & PF_F_PLACED else NULL
        if t == NULL:
            t = pf_tensor_new(ctx.out_type[i], shape, ndim)
    if t == NULL:
        if no_shape(ctx, shape, ndim):
            return NULL
        describe_failed(text, ctx.out_type[i], shape, ndim, out_device(c, i) if ctx.dev != NULL else NULL)
        pf_fail(ctx, PF_RESOURCE_EXHAUSTED, text)
        return NULL
    if ctx.out[i] == NULL:
        pf_ctx_out(ctx)[i] = pf_dl(t)
    else:
        pf_put_output(c, i, t)
    return pf_dl(t)

cdef void describe_failed(char* text, int32_t type, const int64_t* shape, int32_t ndim,
                          const pf_device_entry* d) noexcept nogil:
    cdef int32_t used, k
    used = snprintf(text, 300, b"OOM when allocating tensor with shape [")
    for k in range(min(ndim, 10)):
        used += snprintf(text + used, 300 - used, b"%s%lld", b"," if k else b"", <long long>shape[k])
    snprintf(text + used, 300 - used, b"] and type %s%s%s", pf_type_name(type), b" on " if d != NULL else b"",
             pf_device_name(d, b""))

cdef pf_status not_adopted(pf_ctx* ctx, int32_t i, int32_t type) noexcept nogil:
    cdef int32_t wanted = ctx.out_type[i] if 0 <= i < ctx.n_out else 0
    if type and wanted and type != wanted:
        return pf_failf(ctx, PF_INTERNAL, b"a tensor given for output %d is not of type %s, but of %s", i,
                        pf_type_name(wanted), pf_type_name(type))
    return pf_failf(ctx, PF_INTERNAL, b"a tensor given for output %d is not of type %s, not usable (element size, "
                    b"shape, DLPack's version), or there is no memory to take it", i, pf_type_name(wanted))

cdef bint is_given(pf_ctx* ctx, const pf_tensor* t) noexcept nogil:
    """Every reference to t is an output's already: a kernel gives one with each call."""
    cdef int32_t k, given = 0
    for k in range(ctx.n_out):
        given += ctx.out[k] == &t.m.dl_tensor
    return given and given >= pf_a32_load(<pf_a32*>&t.refs)

cdef pf_tensor* adopt(pf_ctx* ctx, int32_t i, DLManagedTensorVersioned* steal, const char* call) noexcept nogil:
    """The tensor that a kernel gives for output i; NULL: it is refused, and the error is told."""
    cdef pf_tensor* t = pf_managed_own(steal)
    cdef int32_t type
    if t != NULL and is_given(ctx, t):
        pf_failf(ctx, PF_INTERNAL, b"%s of output %d with a tensor that is an output already", call, i)
        return NULL
    if t != NULL and not pf_tensor_sound(t):
        pf_tensor_mend(t)
        pf_tensor_unref(t)
        pf_failf(ctx, PF_INTERNAL, b"%s of output %d with a tensor whose data, type, byte_offset, shape or strides "
                 b"were written over: they are the host's", call, i)
        return NULL
    type = pf_managed_type(steal)
    t = pf_tensor_adopt(steal, ctx.out_type[i] if 0 <= i < ctx.n_out else 0)
    if t == NULL:
        not_adopted(ctx, i, type)
    return t

cdef pf_status h_set_output(pf_ctx* ctx, int32_t i, DLManagedTensorVersioned* steal) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if steal == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"set_output of no tensor")
    t = adopt(ctx, i, steal, b"set_output")
    if t == NULL:
        return PF_INTERNAL
    if pf_no_output(c, i):
        pf_tensor_unref(t)
        return PF_INTERNAL
    if t.device == NULL and t.m.dl_tensor.device.device_type != kDLCPU and c.node.home != NULL:
        t.device = c.node.home      # a plugin's own tensor on its device
    if (t.device != NULL or ctx.dev != NULL) and t.device != <void*>out_device(c, i) and t.nbytes:
        pf_tensor_unref(t)
        return pf_fail(ctx, PF_INTERNAL, b"set_output of a tensor in another memory than the output's: see bring_output")
    pf_put_output(c, i, t)
    return PF_OK

cdef pf_status h_bring_output(pf_ctx* ctx, int32_t i, DLManagedTensorVersioned* steal) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if steal == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"bring_output of no tensor")
    t = adopt(ctx, i, steal, b"bring_output")
    if t == NULL:
        return PF_INTERNAL
    if pf_no_output(c, i) or not pf_is_deferred(c):
        pf_tensor_unref(t)
        return pf_fail(ctx, PF_INTERNAL, b"bring_output of no output, or before defer")
    return pf_bring_output(c, i, t)

cdef inline void take_over(pf_call* c, int32_t i, int32_t o) noexcept nogil:
    """Output o is input i from now on."""
    cdef uint32_t e = c.plan.ins[c.instr.in_begin + <uint32_t>i]
    cdef pf_tensor* t = pf_tensor_of(c.ins[i])
    pf_slot_clear(&c.slab.slots[e & <uint32_t>PF_IN_SLOT])
    if t.type != c.ctx.out_type[o]:
        t.type = c.ctx.out_type[o]
        t.m.dl_tensor.dtype = pf_type_dl(t.type)
    pf_put_output(c, o, t)

cdef inline bint same_shape(const DLTensor* t, const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef int32_t k
    if t.ndim != ndim or (shape == NULL and ndim):
        return False
    for k in range(ndim):
        if t.shape[k] != shape[k]:
            return False
    return True

cdef inline bint stores_as(int32_t a, int32_t b) noexcept nogil:
    """The memory of elements of type a can hold as many of type b."""
    return a != PF_STRING and (a == b or (pf_type_size(a) == pf_type_size(b) and pf_reads_as(a, b)))

cdef DLTensor* h_forward(pf_ctx* ctx, int32_t i, int32_t o, const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    if ctx == NULL:
        return NULL
    if 0 <= o < ctx.n_out and pf_owned_alone(c, i) and same_shape(c.ins[i], shape, ndim):
        t = pf_tensor_of(c.ins[i])
        if ctx.dev != NULL and t.device != <void*>out_device(c, o):
            return h_output(ctx, o, shape, ndim)
        if stores_as(t.type, ctx.out_type[o]):
            take_over(c, i, o)
            return ctx.out[o]
    return h_output(ctx, o, shape, ndim)

cdef int32_t h_can_forward(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_tensor* t
    if ctx == NULL:
        return 0
    if not pf_last_reader(<pf_call*>ctx, i):
        return 0
    t = pf_tensor_of((<pf_call*>ctx).ins[i])
    if t.flags & PF_T_HANDLE:           # an object that nobody else has a handle of, or a name for
        return not t.flags & PF_T_VIEW and pf_a32_load(&(<pf_object*>t.m.dl_tensor.data).refs) == 1
    return pf_is_plain(t)

cdef pf_status h_alias(pf_ctx* ctx, int32_t i, int32_t o, const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    cdef pf_tensor* v
    cdef int64_t bytes
    cdef int32_t k
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if pf_no_output(c, o) or not pf_has_input(c, i):
        return pf_fail(ctx, PF_INTERNAL, b"alias of an argument that is not there")
    t = pf_tensor_of(c.ins[i])
    if ctx.dev != NULL and t.device != <void*>out_device(c, o) and not t.flags & PF_T_HANDLE and t.nbytes:
        return pf_fail(ctx, PF_INTERNAL, b"alias of an input that lies in another memory than the output")
    if t.flags & PF_T_HANDLE and not pf_handle_fits(c, o, <pf_object*>t.m.dl_tensor.data):
        return PF_INTERNAL
    if shape == NULL:
        shape = c.ins[i].shape
        ndim = c.ins[i].ndim
    if t.flags & PF_T_HANDLE or (same_shape(c.ins[i], shape, ndim) and t.type == ctx.out_type[o]):
        if pf_owned_alone(c, i) and t.type == ctx.out_type[o]:
            take_over(c, i, o)
        else:
            pf_tensor_ref(t)
            pf_put_output(c, o, t)
        return PF_OK
    if no_shape(ctx, shape, ndim):
        return PF_INTERNAL
    if not pf_reads_as(t.type, ctx.out_type[o]):
        return pf_fail(ctx, PF_INTERNAL, b"alias of an input whose elements cannot be the output's")
    if pf_checked_bytes(ctx.out_type[o], shape, ndim, &bytes) or bytes != t.nbytes:
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"alias to a shape of another size")
    if pf_owned_alone(c, i) and ndim <= PF_INLINE_DIMS and t.m.dl_tensor.ndim <= PF_INLINE_DIMS:
        take_over(c, i, o)
        for k in range(ndim):
            t.dims[k] = shape[k]
        t.m.dl_tensor.ndim = ndim
        return PF_OK
    v = pf_tensor_view_as(t, ctx.out_type[o], shape, ndim)
    if v == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a tensor's header")
    pf_put_output(c, o, v)
    return PF_OK

cdef void* device_scratch(pf_call* c, int64_t n) noexcept nogil:
    cdef pf_device_entry* d = c.node.home
    cdef int64_t size = max(n, <int64_t>1)
    cdef pf_tensor* t = pf_device_tensor(d, PF_MEM_DEVICE, d.stream, PF_UINT8, &size, 1)
    cdef void* p
    if t == NULL:
        pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of device memory for a kernel's scratch buffer")
        return NULL
    p = t.m.dl_tensor.data
    return NULL if pf_call_lend(c, PF_LENT_TENSOR, t) else p

cdef void* h_scratch(pf_ctx* ctx, uint64_t n, uint64_t align) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef void* p
    cdef int64_t pages = 0
    if ctx == NULL:
        return NULL
    if align > 64 or n > <uint64_t>1 << 46:
        pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"scratch memory of that size or alignment cannot be had")
        return NULL
    if ctx.dev != NULL and c.node != NULL and c.node.home != NULL:
        return device_scratch(c, <int64_t>n)
    p = pf_step_scratch(c, n, &pages)
    if p != NULL:
        return p if pf_call_lend(c, pf_lent_of(PF_LENT_PAGES, <int32_t>pages), p) == PF_OK else NULL
    p = pf_mem_alloc(max(n, <uint64_t>1))
    if p == NULL:
        pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a kernel's scratch buffer")
        return NULL
    if pf_call_lend(c, PF_LENT_MEMORY, p):
        return NULL
    return p

# ---------------------------------------------------------------- asynchronous completion
cdef pf_ctx* h_defer(pf_ctx* ctx, uint64_t* ticket) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_call* h
    if ctx == NULL:
        return NULL
    if ticket == NULL:
        pf_fail(ctx, PF_INTERNAL, b"defer without a place for the ticket")
        return NULL
    if pf_is_deferred(c):
        ticket[0] = c.ticket
        return ctx
    ticket[0] = 0
    if c.moved != NULL:
        ticket[0] = c.moved.ticket
        return &c.moved.ctx
    if c.slab == NULL or not c.instr.flags & PF_F_ASYNC:
        pf_fail(ctx, PF_INTERNAL, b"defer by a kernel that is not declared PF_KERNEL_ASYNC")
        return NULL
    h = pf_ticket_new(c, ticket)
    if h == NULL:
        pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for an asynchronous call")
        return NULL
    return &h.ctx

cdef void h_done(uint64_t ticket, pf_status st) noexcept nogil:
    cdef pf_call* c = pf_ticket_take(ticket)
    cdef const char* late = b"done() of an asynchronous kernel came twice, or after its call was over: ignored"
    if c == NULL:
        h_log(PF_LOG_WARNING, late, <int64_t>strlen(late))
        return
    pf_call_done(c, st if st >= 0 else PF_INTERNAL)

cdef pf_ctx* h_pending(uint64_t ticket) noexcept nogil:
    return <pf_ctx*>pf_ticket_peek(ticket)

cdef int32_t h_cancelled(pf_ctx* ctx) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_step* s
    if c == NULL or c.step == NULL:
        return 0
    if pf_a32_load(&c.step.cancelled):
        return 1
    s = c.step.leader
    return (s.deadline_ns != 0 or s.home.deadline_ns != 0 or s.home.poll != NULL) and pf_call_looks(c)

cdef pf_status h_on_cancel(pf_ctx* ctx, uint64_t ticket, void (*fn)(void*) noexcept nogil, void* arg) noexcept nogil:
    cdef pf_call* c
    cdef pf_status st = PF_OK
    if fn == NULL:
        return PF_INVALID_ARGUMENT
    c = pf_ticket_hold(ticket)
    if c == NULL:
        return PF_FAILED_PRECONDITION
    pthread_mutex_lock(&c.step.lock)
    if pf_a32_load(&c.step.cancelled):
        st = PF_CANCELLED
    else:
        c.cancel_fn = fn
        c.cancel_arg = arg
        c.listens = 1
    pthread_mutex_unlock(&c.step.lock)
    pf_ticket_drop(c)
    return st

cdef int32_t h_off_cancel(uint64_t ticket) noexcept nogil:
    cdef pf_call* c = pf_ticket_hold(ticket)
    cdef int32_t was
    if c == NULL:
        return 0
    pthread_mutex_lock(&c.step.lock)
    was = c.cancel_fn != NULL
    c.cancel_fn = NULL
    pthread_mutex_unlock(&c.step.lock)
    pf_ticket_drop(c)
    return was

cdef pf_status h_after(pf_ctx* ctx, pf_status (*fn)(pf_ctx*, void*) noexcept nogil, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef uint64_t ticket
    cdef pf_ctx* kept
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if fn == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"after without a function")
    if c.slab == NULL or c.node.dev == NULL or c.node.dev.stream == NULL:
        return fn(ctx, arg)     # the work so far is done
    kept = h_defer(ctx, &ticket)
    return pf_after_stream(<pf_call*>kept, fn, arg) if kept != NULL else <pf_status>PF_INTERNAL

# ---------------------------------------------------------------- threads
cdef pf_status h_parallel_for(pf_ctx* ctx, int64_t n, int64_t grain, pf_range_fn fn, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    if fn == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"parallel_for without a function")
    if c == NULL or c.step == NULL:
        if n > 0:
            fn(arg, 0, n, 0)
        return PF_OK
    if c.step.trace != NULL:
        return pf_trace_for(c, n, grain, fn, arg)
    return pf_pool_for(c.step.pool, c.step, pf_for_how(c), n, grain, fn, arg)

cdef int32_t h_workers(pf_ctx* ctx) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    return c.step.pool.n if c != NULL and c.step != NULL else 1

cdef pf_status h_post(const pf_host* host, int32_t lane, void (*fn)(void*) noexcept nogil, void* arg) noexcept nogil:
    if fn == NULL:
        return PF_INVALID_ARGUMENT
    return pf_pool_post(pf_default_pool(), lane, fn, arg)

cdef pf_status h_post_caller(pf_ctx* ctx, void (*fn)(void*) noexcept nogil, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_post* post
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if fn == NULL:
        return PF_INVALID_ARGUMENT
    if c.step == NULL:
        return PF_UNAVAILABLE
    post = <pf_post*>malloc(sizeof(pf_post))
    if post == NULL:
        return PF_RESOURCE_EXHAUSTED
    post.fn = fn
    post.arg = arg
    pf_pool_post_caller(c.step, post)
    return PF_OK

# ---------------------------------------------------------------- tensors
cdef DLManagedTensorVersioned* h_tensor_new(const pf_host* host, void* dev, int32_t mem, int32_t type,
                                            const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef pf_tensor* t = NULL
    cdef pf_device_entry* d = pf_device_of(dev)
    if (dev != NULL and d == NULL) or ndim < 0 or (shape == NULL and ndim):
        return NULL
    if d != NULL and d.own_memory and mem != PF_MEM_HOST and mem != PF_MEM_ANY:
        t = pf_device_tensor(d, mem, d.stream, type, shape, ndim)
        if t == NULL and mem == PF_MEM_DEVICE:
            return NULL
    if t == NULL:
        t = pf_tensor_new(type, shape, ndim)
    return &t.m if t != NULL else NULL

cdef bint borrowed(pf_tensor* t) noexcept nogil:
    while t.flags & PF_T_VIEW:
        t = <pf_tensor*>t.owner
    return t.flags & PF_T_BORROWED != 0

cdef DLManagedTensorVersioned* h_retain(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    if ctx == NULL:
        return NULL
    if not pf_has_input(c, i):
        pf_fail(ctx, PF_INTERNAL, b"retain of an input that is not there")
        return NULL
    t = pf_tensor_of(c.ins[i])
    if borrowed(t):
        t = pf_tensor_copy(t)
        if t == NULL:
            pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a copy of an input")
            return NULL
    else:
        pf_tensor_ref(t)
        t = pf_tensor_settled(t)
        if t == NULL:
            pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a copy of an input")
            return NULL
    return &t.m

cdef int32_t h_type_of(const DLManagedTensorVersioned* m) noexcept nogil:
    return pf_tensor_of(&m.dl_tensor).type if m != NULL else 0


# ---------------------------------------------------------------- dead tokens, constants, names
cdef int32_t h_is_dead(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef const uint32_t* e
    cdef uint32_t k
    if ctx == NULL:
        return 0
    if c.slab == NULL or i >= ctx.n_in:
        return 0
    e = c.plan.ins + c.instr.in_begin
    if i >= 0:
        return c.slab.slots[e[i] & <uint32_t>PF_IN_SLOT] == PF_DEAD
    for k in range(c.instr.n_in + c.instr.n_ctl):
        if c.slab.slots[e[k] & <uint32_t>PF_IN_SLOT] == PF_DEAD:
            return 1
    return 0

cdef pf_status h_set_dead(pf_ctx* ctx, int32_t o) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef int32_t k
    cdef DLTensor* old
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if c.slab == NULL or not -1 <= o < ctx.n_out or not c.instr.flags & PF_F_DEAD_OK:
        return pf_fail(ctx, PF_INTERNAL, b"set_dead by a kernel that is not declared PF_KERNEL_DEAD, or of no output")
    for k in range(ctx.n_out):
        if o < 0 or k == o:
            old = ctx.out[k]
            pf_ctx_out(ctx)[k] = PF_DEAD
            if pf_alive(old):
                pf_dl_unref(old)
    if o < 0 and c.instr.flags & PF_F_CTL_OUT:     # who reads it clears it: the same call, when it ends
        c.dead_out = 1
    return PF_OK

cdef const DLTensor* h_constant(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    if ctx == NULL:
        return NULL
    if c.constants == NULL or not 0 <= i < ctx.n_in:
        return NULL
    return c.constants[i]

cdef pf_status h_drop_constant(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if c.constants == NULL or not 0 <= i < ctx.n_in or c.constants[i] == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"drop_constant of an input that is not a constant, or outside init")
    c.dropped[i] = 1
    return PF_OK

cdef pf_digest digest_of(pf_call* c, int32_t i) noexcept nogil:
    """Of constant input i: computed for the first of its readers."""
    cdef pf_digest* known = c.digests[i]
    if not known.a and not known.b:
        known[0] = pf_shared_digest(c.constants[i])
    return known[0]

cdef pf_status keep_shared(pf_call* c, pf_shared* take, void** obj) noexcept nogil:
    """The plan holds it until its kernels are done."""
    cdef pf_shared_use* use = <pf_shared_use*>pf_arena_alloc(&c.plan.arena, sizeof(pf_shared_use))
    if use == NULL:
        pf_shared_unref(take)
        return pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for what a kernel shares")
    use.object = take
    use.next = c.plan.shared
    c.plan.shared = use
    obj[0] = take.obj
    return PF_OK

cdef pf_status h_shared(pf_ctx* ctx, int32_t i, pf_str form, const pf_type* type, pf_make_fn make, void* arg,
                        void** obj) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef const DLTensor* t
    cdef pf_shared* found
    cdef pf_status st = PF_OK
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if (obj == NULL or make == NULL or type == NULL or type.size < 16 or type.id == NULL or form.len < 0
            or (form.data == NULL and form.len > 0)):
        return pf_fail(ctx, PF_INTERNAL, b"shared without a usable pf_type, form, make or place for the object")
    t = h_constant(ctx, i)
    if t == NULL or pf_tensor_of(t).type == PF_STRING or pf_tensor_of(t).flags & PF_T_HANDLE or pf_tensor_of(t).device != NULL:
        return PF_NOT_FOUND
    found = pf_shared_find(t, digest_of(c, i), form, type, make, ctx, arg, &st)
    if found == NULL:
        return st
    return keep_shared(c, found, obj)

cdef const void* h_native(pf_ctx* ctx, const char* what) noexcept nogil:
    """The node's own device: handles of its stream, for kernels of whatever plugin."""
    cdef pf_call* c = <pf_call*>ctx
    cdef const pf_device_entry* d = c.node.dev if c != NULL and c.node != NULL else NULL
    if what == NULL or d == NULL or d.dev == NULL or d.vtable == NULL or d.vtable.native == NULL:
        return NULL
    return d.vtable.native(d.dev, d.stream, what)

cdef pf_str h_node_name(pf_ctx* ctx) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_str nothing
    nothing.data = b""
    nothing.len = 0
    return c.node.name if c != NULL and c.node != NULL else nothing

cdef int64_t h_frame_iter(pf_ctx* ctx, pf_str* frame) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    if ctx == NULL:
        return 0
    if frame != NULL:
        frame.data = b""
        frame.len = 0
        if c.loop != NULL:
            frame[0] = c.loop.name
        elif c.slab != NULL and c.slab.def_ != NULL and c.slab.frame != NULL:
            frame[0] = c.slab.def_.name
    return c.iter if c.slab != NULL else 0


# ---------------------------------------------------------------- the table
cdef pf_a32 table_state

cdef const void* transport1     # filled with the table, once
cdef const void* transport2
cdef const void* functions1
cdef const pf_files* files1     # set once, before the first step

cdef public void pf_files_set(const pf_files* files) noexcept nogil:
    global files1
    files1 = files

cdef const void* h_extension(const char* id) noexcept nogil:
    if id != NULL and strcmp(id, b"pyflow.transport/1") == 0:
        return transport1
    if id != NULL and strcmp(id, b"pyflow.transport/2") == 0:
        return transport2
    if id != NULL and strcmp(id, b"pyflow.functions/1") == 0:
        return functions1
    if id != NULL and strcmp(id, b"pyflow.files/1") == 0:
        return files1
    return NULL

cdef void fill_table() noexcept nogil:
    global transport1, transport2, functions1
    transport1 = pf_transport_table()
    transport2 = pf_transport2_table()
    functions1 = pf_functions_table()
    table.size = sizeof(pf_host)
    table.minor = PF_ABI_MINOR
    table.name = b"pyflow 0.2.0"
    table.fail = h_fail
    table.log = h_log
    table.output = h_output
    table.set_output = h_set_output
    table.forward = h_forward
    table.alias = h_alias
    table.scratch = h_scratch
    table.defer = h_defer
    table.done = h_done
    table.pending = h_pending
    table.cancelled = h_cancelled
    table.on_cancel = h_on_cancel
    table.off_cancel = h_off_cancel
    table.after = h_after
    table.parallel_for = h_parallel_for
    table.workers = h_workers
    table.post = h_post
    table.tensor_new = h_tensor_new
    table.retain = h_retain
    table.type_of = h_type_of
    table.str_get = pf_tensor_str_get
    table.str_set = pf_tensor_str_set
    table.is_dead = h_is_dead
    table.set_dead = h_set_dead
    table.constant = h_constant
    table.drop_constant = h_drop_constant
    table.node_name = h_node_name
    table.frame_iter = h_frame_iter
    table.infer_n = pf_infer_n
    table.infer_dims = pf_infer_dims
    table.infer_type = pf_infer_type
    table.infer_constant = pf_infer_constant
    table.infer_attr = pf_infer_attr
    table.infer_set = pf_infer_set
    table.infer_fail = pf_infer_fail
    table.extension = h_extension
    table.post_caller = h_post_caller
    table.can_forward = h_can_forward
    table.bring_output = h_bring_output
    table.native = h_native
    table.shared = h_shared

cdef public const pf_host* pf_host_table() noexcept nogil:
    if pf_a32_load(&table_state) == TABLE_READY:
        return &table
    if pf_a32_cas(&table_state, TABLE_EMPTY, TABLE_FILLING):
        pf_host_fill_state(&table)
        fill_table()
        pf_a32_store(&table_state, TABLE_READY)
    while pf_a32_load(&table_state) != TABLE_READY:
        pf_cpu_relax()
    return &table
