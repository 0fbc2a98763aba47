# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The interpreter: runs a block's instructions, then tells the blocks that wait for it.

    WAITING -> READY    [pf_block_count_down]  the last predecessor is done
    READY   -> RUNNING  [pf_run_item]          a worker took it: own heap, own lane, or stolen
    RUNNING -> PENDING  [pf_run_range]         an asynchronous kernel deferred, or a slab loop started
    RUNNING, PENDING -> DONE [pf_block_done]   every instruction ran, or the step was cancelled

A block is done exactly once, live or dead.  `pf_block_done` is the only place that counts down successors and
the slab.  An instruction's inputs are pointers gathered from slots; its outputs are written into slots in place.

Threads: one thread per block; workers meet only in `pending`, `blocks_left` and `uses`, which are atomic once the
step is shared.
"""
from step_h cimport *

cdef enum:
    INLINE_INPUTS = 64

# ---------------------------------------------------------------- slots
cdef inline bint last_use(pf_slab* s, uint32_t entry) noexcept nogil:
    """This read is the last of all: the slot's reference is the reader's."""
    if entry & <uint32_t>PF_IN_LAST:
        return True
    if entry & <uint32_t>PF_IN_SHARED:
        return pf_a32_add(s.uses + s.step.plan.slot_use[s.def_.slot_base + (entry & <uint32_t>PF_IN_SLOT)] - 1, -1) == 1
    return False

cdef void (*given_up)() noexcept nogil

cdef public void pf_after_giving_up_use(void (*fn)() noexcept nogil) noexcept nogil:
    global given_up
    given_up = fn

cdef public DLTensor* pf_take_input(pf_slab* s, uint32_t entry) noexcept nogil:
    """Of a slot that several blocks read the reference is taken before the use is given up: who comes last then may write in
    place, or release what is there."""
    cdef uint32_t slot = entry & <uint32_t>PF_IN_SLOT
    cdef DLTensor* t = s.slots[slot]
    cdef bint shared = entry & <uint32_t>PF_IN_SHARED and pf_alive(t)
    if shared:
        pf_tensor_ref(pf_tensor_of(t))
    if last_use(s, entry):
        if pf_alive(t):
            pf_slot_clear(&s.slots[slot])
        if shared:
            pf_dl_unref(t)          # the slot's own; ours stays
    elif shared:
        pf_gave_up_use(given_up)
    elif pf_alive(t):
        pf_tensor_ref(pf_tensor_of(t))
    return t

cdef inline void release_input(pf_slab* s, uint32_t entry) noexcept nogil:
    cdef uint32_t slot
    cdef DLTensor* t
    if entry & <uint32_t>(PF_IN_LAST | PF_IN_SHARED) and last_use(s, entry):
        slot = entry & <uint32_t>PF_IN_SLOT
        t = s.slots[slot]
        if pf_alive(t):
            pf_slot_clear(&s.slots[slot])
            pf_dl_unref(t)

cdef public void pf_release_inputs(pf_slab* s, const pf_instr* ins) noexcept nogil:
    cdef const uint32_t* e = s.step.plan.ins + ins.in_begin
    cdef uint32_t k
    for k in range(ins.n_in):
        release_input(s, e[k])

cdef void drop_unused(pf_slab* s, const pf_instr* ins) noexcept nogil:
    cdef uint32_t k
    cdef DLTensor* t
    cdef const uint32_t* use = s.step.plan.slot_use + s.def_.slot_base + ins.out_slot
    for k in range(ins.n_out):
        if use[k] == PF_SLOT_UNUSED:
            t = s.slots[ins.out_slot + k]
            if pf_alive(t):             # a dead one stays: control edges look at it
                s.slots[ins.out_slot + k] = NULL
                pf_dl_unref(t)

cdef inline bint any_dead(pf_slab* s, const pf_instr* ins) noexcept nogil:
    cdef const uint32_t* e = s.step.plan.ins + ins.in_begin
    cdef uint32_t k
    for k in range(ins.n_in + ins.n_ctl):
        if pf_slot_peek(&s.slots[e[k] & <uint32_t>PF_IN_SLOT]) == PF_DEAD:
            return True
    return False

cdef void kill(pf_slab* s, const pf_instr* ins) noexcept nogil:
    """A dead instruction: dead outputs, inputs released."""
    cdef uint32_t k
    for k in range(ins.n_out):
        s.slots[ins.out_slot + k] = PF_DEAD
    if ins.flags & PF_F_CTL_OUT:
        s.slots[ins.out_slot + ins.n_out] = PF_DEAD
    pf_release_inputs(s, ins)

# ---------------------------------------------------------------- kernels
cdef public pf_status pf_same_memory(pf_call* c, pf_variable* v, pf_tensor** t) noexcept nogil:
    """The variable's value *t lies where this node's plan expects it; else *t is given back."""
    cdef char text[700]
    if t[0].device == <void*>c.node.home or t[0].type == PF_STRING:
        return PF_OK
    snprintf(text, 700, b"variable %s holds its value %s %s, but this node runs on %.*s: put the variable and the operations that "
             b"use its reference on one device", v.base.name, b"on" if t[0].device != NULL else b"in host memory",
             pf_device_name(t[0].device, b""), <int>min(c.node.device.len, 100),
             c.node.device.data)
    pf_tensor_unref(t[0])
    t[0] = NULL
    return pf_fail(&c.ctx, PF_FAILED_PRECONDITION, text)

cdef public pf_tensor* pf_value_of(pf_tensor* h) noexcept nogil:
    """What a variable's handle names now, a new reference; NULL: the variable holds nothing, or no memory."""
    cdef pf_tensor* t = pf_variable_read(<pf_variable*>h.m.dl_tensor.data)
    cdef pf_tensor* v
    if t == NULL or not h.flags & PF_T_NAMED:
        return t
    if t.nbytes != h.nbytes:        # assigned in another size meanwhile: the name is the old value's, as in TensorFlow
        pf_tensor_unref(t)
        v = <pf_tensor*>h.owner
        pf_tensor_ref(v)
        return v
    v = pf_tensor_view_as(t, h.type, h.m.dl_tensor.shape, h.m.dl_tensor.ndim)
    pf_tensor_unref(t)
    return v

cdef bint has_no_elements(const pf_variable* v) noexcept nogil:
    """Its declared shape is known and has a dimension of 0."""
    cdef int32_t i
    cdef bint empty = False
    for i in range(v.ndim):
        if v.dims[i] < 0:
            return False
        empty = empty or v.dims[i] == 0
    return empty

cdef public pf_status pf_deref(pf_call* c, DLTensor* handle, pf_tensor** out) noexcept nogil:
    cdef pf_tensor* h = pf_tensor_of(handle)
    cdef pf_variable* v = <pf_variable*>h.m.dl_tensor.data
    if not h.flags & PF_T_HANDLE or v == NULL or v.base.kind != PF_OBJ_VARIABLE:
        if h.flags & PF_T_HANDLE and v != NULL and v.base.kind == PF_OBJ_RESOURCE:
            return pf_failf(&c.ctx, PF_INVALID_ARGUMENT, b"input '%s' is a reference to a resource, which has no value of its own: "
                            b"only operations on its kind of resource take it", v.base.name)
        pf_tensor_ref(h)            # already a value (a ref that went through a host op)
        out[0] = h
        return PF_OK
    out[0] = pf_value_of(h)
    if out[0] == NULL and c.node.home == NULL and has_no_elements(v):
        out[0] = pf_tensor_new(v.type, v.dims, v.ndim)  # nothing to initialise, as in TF
    if out[0] != NULL:
        return pf_same_memory(c, v, out)
    return pf_failf(&c.ctx, PF_FAILED_PRECONDITION, b"Attempting to use uninitialized value %s (read by '%.*s'). "
                    b"Run the variable's initializer first, for example tf.global_variables_initializer().",
                    v.base.name, <int>min(c.node.name.len, 300), c.node.name.data)

cdef pf_status gather_refs(pf_call* c, const pf_instr* ins) noexcept nogil:
    """Inputs that read a variable through its ref become snapshots, lent for the call."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef uint32_t k
    cdef pf_tensor* t
    for k in range(ins.n_in):
        if e[k] & <uint32_t>PF_IN_DEREF and pf_alive(c.ins[k]):
            if pf_deref(c, c.ins[k], &t):
                return PF_FAILED_PRECONDITION
            c.ins[k] = pf_dl(t)
            if pf_call_lend(c, PF_LENT_TENSOR, t):
                return PF_RESOURCE_EXHAUSTED
    return PF_OK

cdef inline void prepare(pf_call* c, const pf_instr* ins) noexcept nogil:
    """Fills the ctx: inputs gathered, outputs cleared."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef DLTensor** slots = c.slab.slots
    cdef DLTensor* t
    cdef uint32_t k
    c.instr = ins
    c.node = ins.about
    if c.info != ins.info:
        c.info = ins.info
        memcpy(&c.ctx.in_type, ins.info, sizeof(pf_call_info))
    c.ctx.out = slots + ins.out_slot
    for k in range(ins.n_in):
        t = slots[e[k] & <uint32_t>PF_IN_SLOT]
        c.ins[k] = t if pf_alive(t) else NULL
    for k in range(ins.n_out):
        slots[ins.out_slot + k] = NULL

cdef int32_t missing_output(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef uint32_t k
    cdef char text[120]
    for k in range(ins.n_out):
        if c.slab.slots[ins.out_slot + k] == NULL:
            snprintf(text, 120, b"the kernel returned OK without setting output %u", k)
            pf_call_fail(c, pf_fail(&c.ctx, PF_INTERNAL, text))
            pf_call_cleanup(c)
            return PF_RUN_STOP
    return PF_RUN_OK

cdef int32_t overwritten(pf_call* c, uint32_t k) noexcept nogil:
    cdef char text[200]
    snprintf(text, 200, b"the kernel wrote past the end of output %u, which has %lld bytes (seen by the checking build)", k,
             <long long>pf_tensor_of(c.ctx.out[k]).nbytes)
    pf_call_fail(c, pf_fail(&c.ctx, PF_INTERNAL, text))
    pf_call_cleanup(c)
    return PF_RUN_STOP

cdef inline int32_t after_call(pf_call* c, const pf_instr* ins, pf_status st) noexcept nogil:
    """Status checked, outputs checked, inputs released."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef DLTensor** out = c.slab.slots + ins.out_slot
    cdef uint32_t k
    if st != PF_OK:
        c.dead_out = 0
        pf_call_fail(c, st)
        if c.dirty:
            pf_call_cleanup(c)
        return PF_RUN_STOP
    if c.dirty:
        pf_call_cleanup(c)
    for k in range(ins.n_out):
        if out[k] == NULL:
            return missing_output(c, ins)
        if PF_CHECKS and pf_alive(out[k]) and not pf_red_zone_ok(pf_tensor_of(out[k])):
            return overwritten(c, k)
    if ins.flags & PF_F_CTL_OUT:
        out[ins.n_out] = PF_DEAD if c.dead_out else NULL
        c.dead_out = 0
    for k in range(ins.n_in):
        release_input(c.slab, e[k])
    if ins.flags & PF_F_UNUSED_OUT:
        drop_unused(c.slab, ins)
    return PF_RUN_OK

cdef pf_status name_outputs(pf_call* c, const pf_instr* ins) noexcept nogil:
    """A kernel that gave an input's buffer as its output gives a name for the variable behind it: its readers read for
    themselves (reads.pyx)."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef DLTensor** out = c.slab.slots + ins.out_slot
    cdef pf_tensor* h
    cdef uint32_t k
    for k in range(min(ins.n_in, ins.n_out)):
        h = pf_tensor_of(c.slab.slots[e[k] & <uint32_t>PF_IN_SLOT])
        if (not e[k] & <uint32_t>PF_IN_DEREF or not h.flags & PF_T_HANDLE or not pf_alive(out[k])
                or out[k].data != c.ins[k].data or pf_tensor_of(out[k]).nbytes != pf_tensor_of(c.ins[k]).nbytes):
            continue
        pf_object_ref(<pf_object*>h.m.dl_tensor.data)
        h = pf_tensor_named(<pf_object*>h.m.dl_tensor.data, pf_tensor_of(out[k]))
        if h == NULL:
            return pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a tensor's header")
        pf_dl_unref(out[k])
        out[k] = pf_dl(h)
    return PF_OK

cdef inline int32_t call_kernel(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef pf_status st
    cdef int32_t r
    prepare(c, ins)
    if ins.flags & PF_F_DEREF:
        st = gather_refs(c, ins)
        if st != PF_OK:
            return after_call(c, ins, st)
        if ins.how & PF_X_NAMES:
            st = ins.compute(&c.ctx, ins.state)
            return after_call(c, ins, st if st != PF_OK else name_outputs(c, ins))
    st = ins.compute(&c.ctx, ins.state)
    if ins.flags & PF_F_ASYNC:
        return pf_async_returned(c, st)
    r = after_call(c, ins, st)          # first of all unlocks variables: signal handlers may run steps
    if ins.flags & PF_F_LONG and (c.worker.step != NULL or c.worker.helps != NULL):
        pf_step_poll(c.step.leader.home)    # the caller's own, which may lie around this one
        if pf_a32_load_rlx(&c.step.cancelled):
            return PF_RUN_STOP
    return r

cdef pf_status nothing_more(pf_ctx* ctx, void* arg) noexcept nogil:
    return PF_OK

cdef pf_call* await_stream(pf_call* c) noexcept nogil:
    """The call goes on until its stream has written the outputs that lie in host memory; NULL: failed."""
    cdef uint64_t ticket
    cdef pf_call* h = pf_ticket_new(c, &ticket)
    cdef pf_status st
    c.moved = NULL
    if h == NULL:
        pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for an asynchronous call")
        return NULL
    st = pf_after_stream(h, nothing_more, NULL)
    if st != PF_PENDING and pf_ticket_take(ticket) != NULL:
        pf_call_done(h, st)
    return h

cdef public int32_t pf_async_returned(pf_call* c, pf_status st) noexcept nogil:
    """compute of an asynchronous kernel came back; `done` may have come before, may come now, or later."""
    cdef pf_call* h = c.moved
    cdef pf_worker* w = c.worker
    c.moved = NULL
    if h == NULL and st == PF_OK and c.node.waits:
        h = await_stream(c)
        st = PF_PENDING if h != NULL else PF_RESOURCE_EXHAUSTED
    if h == NULL:
        if st == PF_PENDING:
            st = pf_fail(&c.ctx, PF_INTERNAL, b"the kernel returned PF_PENDING without calling defer")
        return after_call(c, c.instr, st)
    if c.step.trace != NULL:
        pf_trace_launched(c)
    if c.step.inspect != NULL:
        c.held = NULL               # they are h's
    if st != PF_PENDING and pf_ticket_take(h.ticket) != NULL:
        h.status = st               # finished at once after all; a later done is late, and its reference is ours
        if pf_a32_add(&h.refs, -2) == 2:
            return pf_call_finish(w, h)
        return PF_RUN_PENDING       # somebody holds it, who completes it
    if pf_a32_dec_last(&h.refs):
        if w.schedule:              # it may as well have been done later
            c.item.call = h
            pf_pool_inject(w.pool, c.item)
            return PF_RUN_PENDING
        return pf_call_finish(w, h)
    return PF_RUN_PENDING

cdef public int32_t pf_call_finish(pf_worker* w, pf_call* c) noexcept nogil:
    """Completes a deferred call on a worker's thread."""
    cdef int32_t r
    pf_call_go(c, PF_CALL_TAKEN, PF_CALL_OVER)
    c.worker = w
    pf_call_forget(c)
    if c.node.promised != NULL and c.status == PF_OK:
        c.status = pf_compare_outputs(c)
    r = after_call(c, c.instr, c.status)
    if c.step.trace != NULL:
        pf_trace_completed(c)
    if c.step.inspect != NULL:
        r = pf_inspect_completed(c, r)
    free(c)
    return r

# ---------------------------------------------------------------- routing
# Instructions that pass tensors on instead of calling a kernel.
#
# An output is the input's tensor itself, or dead (NULL); what is not passed on is released here.
cdef int32_t do_identity(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef uint32_t e = c.plan.ins[ins.in_begin]
    cdef pf_tensor* t
    if e & <uint32_t>PF_IN_DEREF:
        c.instr = ins
        c.node = ins.about
        if pf_deref(c, c.slab.slots[e & <uint32_t>PF_IN_SLOT], &t):
            c.info = NULL           # its inputs were not gathered: nothing to describe
            return after_call(c, ins, PF_FAILED_PRECONDITION)
        c.slab.slots[ins.out_slot] = pf_dl(t)
        release_input(c.slab, e)
    else:
        c.slab.slots[ins.out_slot] = pf_take_input(c.slab, e)
    if ins.flags & PF_F_UNUSED_OUT:
        drop_unused(c.slab, ins)
    return PF_RUN_OK

cdef int32_t settle_retval(pf_call* c, const pf_instr* ins) noexcept nogil:
    """A fetch that lies in the step's extent, perhaps as a view, becomes a tensor of its own."""
    cdef pf_tensor* t = pf_tensor_settled(pf_tensor_of(c.step.rets[ins.aux]))
    c.step.rets[ins.aux] = pf_dl(t) if t != NULL else NULL
    if t != NULL:
        return PF_RUN_OK
    c.info = NULL
    return after_call(c, ins, pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a fetched tensor"))

cdef int32_t do_retval(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef uint32_t e = c.plan.ins[ins.in_begin]
    cdef pf_tensor* t
    c.instr = ins
    c.node = ins.about
    if e & <uint32_t>PF_IN_DEREF:
        if pf_deref(c, c.slab.slots[e & <uint32_t>PF_IN_SLOT], &t):
            c.info = NULL
            return after_call(c, ins, PF_FAILED_PRECONDITION)
        if ins.how & PF_X_LATE and pf_tensor_of(c.slab.slots[e & <uint32_t>PF_IN_SLOT]).flags & PF_T_HANDLE:
            pf_tensor_unref(t)      # there is a value; the one to fetch is read when the step is over
            c.step.rets[ins.aux] = pf_take_input(c.slab, e)
            return PF_RUN_OK
        c.step.rets[ins.aux] = pf_dl(t)
        release_input(c.slab, e)
        return PF_RUN_OK
    c.step.rets[ins.aux] = pf_take_input(c.slab, e)
    if pf_tensor_of(c.step.rets[ins.aux]).flags & (PF_T_PLACED | PF_T_VIEW):
        return settle_retval(c, ins)
    return PF_RUN_OK

cdef int32_t dead_retval(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef char text[400]
    c.instr = ins
    c.node = ins.about
    snprintf(text, 400, b"Retval[%u] does not have value: the fetched tensor is dead, it lies on a branch of a tf.cond (or in a loop) that "
             b"did not run in this step", ins.aux)
    c.info = NULL
    return after_call(c, ins, pf_fail(&c.ctx, PF_INVALID_ARGUMENT, text))

cdef int32_t do_switch(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef DLTensor** out = c.slab.slots + ins.out_slot
    cdef DLTensor* pred
    cdef pf_tensor* t
    cdef DLTensor* value
    cdef int32_t taken
    prepare(c, ins)
    if ins.flags & PF_F_DEREF:
        if gather_refs(c, ins):
            return after_call(c, ins, PF_FAILED_PRECONDITION)
    pred = c.ins[1]
    if pf_tensor_of(pred).type != PF_BOOL or pf_numel(pred) != 1:
        return after_call(c, ins, pf_fail(&c.ctx, PF_INVALID_ARGUMENT, b"Switch expects a boolean scalar as predicate"))
    taken = (<uint8_t*>pred.data)[0] != 0
    if e[0] & <uint32_t>PF_IN_DEREF:
        t = pf_tensor_of(c.ins[0])
        pf_tensor_ref(t)
        value = pf_dl(t)
        release_input(c.slab, e[0])
    else:
        value = pf_take_input(c.slab, e[0])
    release_input(c.slab, e[1])
    out[taken] = value
    out[1 - taken] = PF_DEAD
    if ins.flags & PF_F_CTL_OUT:
        out[2] = NULL
    if c.dirty:
        pf_call_cleanup(c)
    if ins.flags & PF_F_UNUSED_OUT:
        drop_unused(c.slab, ins)
    return PF_RUN_OK

cdef DLTensor* int32_scalar(int32_t x) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_new(PF_INT32, NULL, 0)
    if t == NULL:
        return NULL
    (<int32_t*>t.m.dl_tensor.data)[0] = x
    return pf_dl(t)

cdef inline bint same_slot(uint32_t a, uint32_t b) noexcept nogil:
    return (a ^ b) & <uint32_t>PF_IN_SLOT == 0

cdef int32_t do_merge(pf_call* c, const pf_instr* ins) noexcept nogil:
    """The first live input and its index; dead if none is."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef DLTensor** out = c.slab.slots + ins.out_slot
    cdef DLTensor* value
    cdef uint32_t k, live = ins.n_in
    for k in range(ins.n_in):
        if pf_alive(c.slab.slots[e[k] & <uint32_t>PF_IN_SLOT]):
            live = k
            break
    if live == ins.n_in:
        kill(c.slab, ins)
        return PF_RUN_OK
    for k in range(ins.n_in):
        if not same_slot(e[k], e[live]):
            release_input(c.slab, e[k])
    if take_value(c, ins, e[live], &value):
        return PF_RUN_STOP
    for k in range(ins.n_in):           # the value itself, given twice
        if k != live and same_slot(e[k], e[live]):
            release_input(c.slab, e[k])
    out[0] = value
    out[1] = NULL
    if c.plan.slot_use[c.slab.def_.slot_base + ins.out_slot + 1] != PF_SLOT_UNUSED:
        out[1] = int32_scalar(<int32_t>live)
    if ins.flags & PF_F_UNUSED_OUT:
        drop_unused(c.slab, ins)
    return PF_RUN_OK

cdef int32_t take_value(pf_call* c, const pf_instr* ins, uint32_t entry, DLTensor** out) noexcept nogil:
    """An input as a value: a reference becomes what its variable holds now.  PF_RUN_STOP: it holds nothing."""
    cdef pf_tensor* t
    cdef DLTensor* handle = c.slab.slots[entry & <uint32_t>PF_IN_SLOT]
    if not entry & <uint32_t>PF_IN_DEREF or not pf_alive(handle):
        out[0] = pf_take_input(c.slab, entry)
        return PF_RUN_OK
    c.instr = ins
    c.node = ins.about
    c.info = NULL                   # its inputs were not gathered: nothing to describe
    if pf_deref(c, handle, &t):
        return after_call(c, ins, PF_FAILED_PRECONDITION)
    out[0] = pf_dl(t)
    release_input(c.slab, entry)
    return PF_RUN_OK

cdef int32_t do_exit(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef pf_slab* outer = c.slab.frame.parent if ins.how & PF_X_IN_SLABS else c.slab
    cdef DLTensor* t
    cdef DLTensor* old
    if take_value(c, ins, c.plan.ins[ins.in_begin], &t):
        return PF_RUN_STOP
    if not pf_alive(t):
        return PF_RUN_OK
    if ins.how & PF_X_UNREAD:                # only control edges read it: alive
        outer.slots[ins.aux] = NULL
        pf_dl_unref(t)
        return PF_RUN_OK
    old = outer.slots[ins.aux]
    outer.slots[ins.aux] = t
    if pf_alive(old):
        pf_dl_unref(old)
    return PF_RUN_OK

cdef int32_t do_next(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef DLTensor* t
    if ins.n_ctl and any_dead(c.slab, ins):     # a constant Enter's value, in an iteration whose body does not run
        pf_release_inputs(c.slab, ins)
        if not ins.how & PF_X_IN_SLABS:
            c.slab.slots[ins.out_slot] = PF_DEAD
        return PF_RUN_OK
    if take_value(c, ins, c.plan.ins[ins.in_begin], &t):
        return PF_RUN_STOP
    if ins.how & PF_X_IN_SLABS:
        if pf_alive(t):
            pf_frame_next(c.worker, c.slab, ins.aux, t)
    else:
        c.slab.slots[ins.out_slot] = t
    return PF_RUN_OK

cdef int32_t route(pf_call* c, const pf_instr* ins) noexcept nogil:
    """Everything that is not a kernel."""
    if ins.kind == PF_I_IDENTITY:
        return do_identity(c, ins)
    if ins.kind == PF_I_CONST:
        c.slab.slots[ins.out_slot] = <DLTensor*>ins.state
        if ins.flags & PF_F_CTL_OUT:
            c.slab.slots[ins.out_slot + 1] = NULL
        return PF_RUN_OK
    if ins.kind == PF_I_SWITCH:
        return do_switch(c, ins)
    if ins.kind == PF_I_RETVAL:
        return do_retval(c, ins)
    if ins.kind == PF_I_LOOP:
        return pf_run_loop(c, ins)
    return pf_start_frame(c, ins)

# ---------------------------------------------------------------- a range of instructions
cdef public int32_t pf_run_range(pf_call* c, uint32_t begin, uint32_t end) noexcept nogil:
    cdef const pf_instr* ins = c.plan.instrs + begin
    cdef const pf_instr* last = c.plan.instrs + end
    cdef int32_t r, skipped = 0
    while ins < last:
        if ins.kind == PF_I_CALL0 and not ins.flags:
            if c.info != NULL:
                c.info = NULL
                c.ctx.n_in = 0
                c.ctx.n_out = 0
            c.instr = ins
            r = ins.compute(&c.ctx, ins.state)
            if r != 0 or c.dirty:
                c.node = ins.about
                r = after_call(c, ins, r)
                if r:
                    return r
            ins += 1
            continue
        if ins.kind == PF_I_NEXT:
            if do_next(c, ins):
                return PF_RUN_STOP
            ins += 1
            continue
        if ins.kind == PF_I_EXIT:
            if do_exit(c, ins):
                return PF_RUN_STOP
            ins += 1
            continue
        if ins.kind == PF_I_MERGE:
            if do_merge(c, ins):
                return PF_RUN_STOP
            ins += 1
            continue
        if ins.flags & PF_F_MAYBE_DEAD and any_dead(c.slab, ins) and not ins.flags & PF_F_DEAD_OK:
            if ins.kind == PF_I_RETVAL:
                return dead_retval(c, ins)
            kill(c.slab, ins)
            skipped += 1
            ins += 1
            continue
        if ins.kind <= PF_I_CALL0:
            r = call_kernel(c, ins)
        else:
            r = route(c, ins)
        if r:
            return r
        ins += 1
    c.worker.kernels += <int64_t>(end - begin) - skipped
    return PF_RUN_OK

# ---------------------------------------------------------------- blocks
cdef inline bint is_expensive(pf_item* item) noexcept nogil:
    return item.slab.step.plan.blocks[item.block].flags & PF_B_EXPENSIVE != 0

cdef void publish(pf_worker* w, pf_item* item) noexcept nogil:
    pf_share(item.slab.step)
    pf_pool_publish(w, item)

cdef public void pf_make_ready(pf_worker* w, pf_item* item) noexcept nogil:
    """What is expensive may run elsewhere, unless it is all that this thread has to do: handing it over and waking
    somebody for it take longer than a small kernel."""
    if item.slab.step.trace != NULL:
        item.ready = pf_ready_stamp()
    if w.pool.n > 1 and w.ready.n:
        if is_expensive(item):
            publish(w, item)
            return
        if w.ready.n == 1 and is_expensive(w.ready.items[0]):
            publish(w, pf_heap_take(&w.ready, 0))
    if not pf_heap_push(&w.ready, item):
        pf_run_item(w, item)        # no memory for the list: run it now

cdef inline void one_less(pf_worker* w, pf_slab* s, uint32_t block) noexcept nogil:
    """A predecessor of the block is done.  `shared` is read anew each time: making a block ready may set it."""
    cdef pf_item* item = s.items + (block - s.def_.block_begin)
    cdef int32_t left
    if pf_a32_load_rlx(&s.step.shared):
        left = pf_a32_add(&item.pending, -1) - 1
    else:
        left = pf_a32_load_rlx(&item.pending) - 1
        pf_a32_store_rlx(&item.pending, left)
    if left == 0:
        pf_make_ready(w, item)

cdef public int32_t pf_block_count_down(pf_worker* w, pf_slab* s, uint32_t block) noexcept nogil:
    cdef pf_plan* plan = s.step.plan
    cdef const pf_block* b = plan.blocks + block
    cdef uint32_t k
    cdef int32_t left
    pf_item_done(s.items + (block - s.def_.block_begin), b.flags & PF_B_EVENT)
    for k in range(b.succ_begin, b.succ_end):
        one_less(w, s, plan.succs[k])
    if pf_a32_load_rlx(&s.step.shared):
        return pf_a32_add(&s.blocks_left, -1) == 1
    left = pf_a32_load_rlx(&s.blocks_left) - 1
    pf_a32_store_rlx(&s.blocks_left, left)
    return left == 0

cdef public void pf_block_done(pf_worker* w, pf_slab* s, uint32_t block) noexcept nogil:
    if pf_block_count_down(w, s, block):
        if s.frame != NULL:
            pf_frame_slab_over(w, s)
        elif not pf_step_drain(s.step):
            pf_pool_step_over(s.step)

cdef public void pf_share_ready(pf_worker* w) noexcept nogil:
    """Before something long: what is ready privately may run elsewhere meanwhile."""
    while w.ready.n:
        publish(w, pf_heap_take(&w.ready, w.ready.n - 1))

cdef public int32_t pf_run_block(pf_worker* w, pf_item* item) noexcept nogil:
    cdef pf_call c
    cdef DLTensor* inputs[INLINE_INPUTS]
    cdef pf_slab* s = item.slab
    cdef const pf_block* b = s.step.plan.blocks + item.block
    cdef int32_t r
    if b.flags & PF_B_EXPENSIVE and w.pool.n > 1 and w.ready.n:
        pf_share_ready(w)
    pf_call_init(&c, s.step, w)
    c.slab = s
    c.item = item
    c.iter = s.path
    c.ins = inputs
    if s.step.plan.max_in > INLINE_INPUTS:
        c.ins = <DLTensor**>malloc(sizeof(void*) * s.step.plan.max_in)
        if c.ins == NULL:
            pf_step_fail(s.step, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a kernel's inputs")
            return PF_RUN_STOP
    c.ctx.ins = <const DLTensor**>c.ins
    if s.step.inspect != NULL:
        r = pf_run_range_inspected(&c, b.begin, b.end)
    elif s.step.trace == NULL:
        r = pf_run_range(&c, b.begin, b.end)
    else:
        r = pf_run_range_traced(&c, b.begin, b.end, item.ready)
    if c.ins != inputs:
        free(c.ins)
    return r

cdef public void pf_run_item(pf_worker* w, pf_item* item) noexcept nogil:
    cdef pf_slab* slab = item.slab
    cdef pf_step* step = slab.step
    cdef pf_call* call = item.call
    cdef uint32_t next_start
    cdef int32_t r = PF_RUN_STOP
    if item.block == <uint32_t>PF_JOB_BLOCK:
        pf_job_run(w, <pf_job*>item)
        return
    if call != NULL:
        item.call = NULL
        pf_call_finish(w, call)
        w.kernels += 1
    else:
        next_start = step.plan.blocks[item.block].next_start
        if not pf_a32_load_rlx(&step.cancelled):
            pf_item_runs(item)
            r = pf_run_block(w, item)
        if next_start:              # that block waits for this: its slab, and the step, are still there
            one_less(w, slab, next_start - 1)
        if r == PF_RUN_PENDING:
            return
    if w.step == NULL:              # the step may be gone after the next line
        pf_a64_add_rlx(&step.kernels, w.kernels)
        w.kernels = 0
    pf_block_done(w, item.slab, item.block)
