"""Part of exec.pyx: instructions that pass tensors on instead of calling a kernel.

An output is the input's tensor itself, or dead (NULL); what is not passed on is released here.
"""
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
        if ins.aux2 and pf_tensor_of(c.slab.slots[e & <uint32_t>PF_IN_SLOT]).flags & PF_T_HANDLE:
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
    cdef pf_slab* outer = c.slab.frame.parent if ins.aux2 & 1 else c.slab
    cdef DLTensor* t
    cdef DLTensor* old
    if take_value(c, ins, c.plan.ins[ins.in_begin], &t):
        return PF_RUN_STOP
    if not pf_alive(t):
        return PF_RUN_OK
    if ins.aux2 & 2:                # only control edges read it: alive
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
        if not ins.aux2 & 1:
            c.slab.slots[ins.out_slot] = PF_DEAD
        return PF_RUN_OK
    if take_value(c, ins, c.plan.ins[ins.in_begin], &t):
        return PF_RUN_STOP
    if ins.aux2 & 1:
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
