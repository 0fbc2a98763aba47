# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""What devices do meanwhile, for a step: copies to where an output belongs, and waits for a stream.

    host -> device   copy on `in`; `stream` waits for its event; usable at once by later kernels
    device -> host   `out` waits for `stream`; copy on `out`; the host may look when its event happened
    device -> peer   as host -> device, on the destination's `in`, which waits for the source's `stream`; or through the host

Invariants
1. A buffer lives until every copy that touches it has happened: the copy's JOB keeps both tensors.
2. A job counts as a block of its step's root slab, so a step never ends before its jobs did.
3. The device's own threads only inject the job; drivers are called, and tensors released, on workers.
4. Before a step ends, every device of its plan has reported that `stream` did the work enqueued so far; an
   error of that work is an error of the step.

Threads: any.  Jobs: PENDING [start_job] -> INJECTED [job_happened, device's thread] -> over [pf_job_run, a worker].
"""
from outputs_h cimport *

cdef enum:
    PINNED_BYTES = 65536        # smaller host buffers are not worth asking the device for

cdef inline pf_tensor* like(pf_device_entry* d, void* stream, const pf_tensor* src) noexcept nogil:
    return pf_device_tensor(d, PF_MEM_DEVICE, stream, src.type, src.m.dl_tensor.shape, src.m.dl_tensor.ndim)

cdef pf_tensor* host_like(pf_device_entry* d, const pf_tensor* src) noexcept nogil:
    """Host memory to copy into: the device's pinned memory where it has any and the tensor is not small."""
    cdef pf_tensor* t = NULL
    if src.nbytes >= PINNED_BYTES:
        t = pf_device_tensor(d, PF_MEM_PINNED, d.out, src.type, src.m.dl_tensor.shape, src.m.dl_tensor.ndim)
    return t if t != NULL else pf_tensor_new(src.type, src.m.dl_tensor.shape, src.m.dl_tensor.ndim)

# ---------------------------------------------------------------- jobs
cdef void job_happened(void* arg, pf_status s) noexcept nogil:
    """On the device's thread."""
    cdef pf_job* job = <pf_job*>arg
    pf_job_go(job, PF_JOB_PENDING, PF_JOB_INJECTED)
    job.status = s
    pf_pool_inject(job.item.slab.step.pool, &job.item)

cdef pf_job* new_job(pf_device_entry* d, pf_step* s) noexcept nogil:
    cdef pf_job* job = <pf_job*>calloc(1, sizeof(pf_job))
    if job != NULL:
        job.item.block = PF_JOB_BLOCK
        job.item.slab = &s.root
        job.dev = d
    return job

cdef void drop_job(pf_job* job) noexcept nogil:
    cdef pf_device_entry* peer = job.peer if job.peer != NULL else job.dev
    if job.events[0] != NULL:
        job.dev.vtable.event_del(job.dev.dev, job.events[0])
    if job.events[1] != NULL:
        peer.vtable.event_del(peer.dev, job.events[1])
    pf_tensor_unref(job.keep[0])
    pf_tensor_unref(job.keep[1])
    free(job)

cdef pf_status start_job(pf_job* job, void* stream) noexcept nogil:
    """Ends when `stream` has done its work so far.  Takes the job, also on failure (then its tensors are waited for)."""
    cdef pf_device_entry* d = job.dev
    cdef pf_status s = PF_OK
    if job.events[0] == NULL:
        s = d.vtable.event_record(d.dev, stream, &job.events[0])
    if s:
        pf_device_wait(d)
        drop_job(job)
        return s
    pf_a32_add(&job.item.slab.step.root.blocks_left, 1)
    if job.item.slab.step.pool.seeded:
        pf_a32_add(&job.item.slab.step.jobs, 1)
        job.item.order = <uint32_t>pf_a32_add(&job.item.slab.step.jobs_made, 1)
    s = d.vtable.when(d.dev, job.events[0], job_happened, job)
    if s:
        job_happened(job, s)
    return PF_OK

cdef bint add_device(pf_step* s, pf_job* job) noexcept nogil:
    """One failure travels with the events: where a device reported already, another one is named beside it."""
    cdef size_t n
    cdef bint added = False
    pthread_mutex_lock(&s.lock)
    n = strlen(s.error.message)
    if s.error.code and strstr(s.error.message, b"reported status") != NULL and n + 160 < sizeof(s.error.message):
        if strstr(s.error.message, job.dev.name) == NULL:
            snprintf(s.error.message + n, sizeof(s.error.message) - n, b"; device %s reported status %d as well", job.dev.name,
                     job.status)
        added = True
    pthread_mutex_unlock(&s.lock)
    return added

cdef void device_failed(pf_job* job) noexcept nogil:
    if add_device(job.item.slab.step.leader, job):
        return
    pf_step_failf(job.item.slab.step, NULL, job.status, b"device %s reported status %d for work enqueued earlier: a "
                  b"kernel or a copy of this step failed there", job.dev.name, job.status)

cdef public void pf_job_run(pf_worker* w, pf_job* job) noexcept nogil:
    cdef pf_step* s = job.item.slab.step
    pf_job_go(job, PF_JOB_INJECTED, PF_JOB_OVER)
    if s.pool.seeded:
        pf_a32_add(&s.jobs, -1)
    if job.then != NULL:
        job.then(job, job.status)
    elif job.status:
        device_failed(job)
    drop_job(job)
    if pf_a32_add(&s.root.blocks_left, -1) == 1 and not pf_step_drain(s):
        pf_pool_step_over(s)

cdef public void pf_step_check_devices(pf_step* s) noexcept nogil:
    """Before a step starts: fails it where this is a child of the process that opened a device."""
    cdef int32_t k
    for k in range(s.plan.n_devices):
        if pf_device_lost(s.plan.devices[k]):
            pf_step_failf(s, NULL, PF_FAILED_PRECONDITION, b"device %s was opened before this process was forked: "
                          b"its threads and streams belong to the parent. Use the device in the child only, or "
                          b"start the process by spawn", s.plan.devices[k].name)

cdef public int32_t pf_step_drain(pf_step* s) noexcept nogil:
    """Once per step, when its last block is done."""
    cdef pf_plan* plan = s.plan
    cdef pf_device_entry* d
    cdef pf_job* job
    cdef int32_t k
    cdef pf_status st
    if plan.n_devices == 0 or s.drained:
        return 0
    s.drained = 1
    pf_a32_store(&s.root.blocks_left, 1)
    for k in range(plan.n_devices):
        d = plan.devices[k]
        if d.stream == NULL or pf_device_lost(d):
            continue
        job = new_job(d, s)
        st = start_job(job, d.stream) if job != NULL else pf_device_wait(d)
        if st:
            pf_step_fail(s, NULL, st, b"a device could not report the end of its work")
    return pf_a32_add(&s.root.blocks_left, -1) != 1

# ---------------------------------------------------------------- copies to where an output belongs
cdef pf_status no_room(pf_call* c, pf_device_entry* d, const pf_tensor* t) noexcept nogil:
    return pf_failf(&c.ctx, PF_RESOURCE_EXHAUSTED, b"OOM when allocating %lld bytes (type %s) for a copy to %s",
                    <long long>t.nbytes, pf_type_name(t.type), pf_device_name(d, b"the host"))

cdef pf_status copy_failed(pf_call* c, pf_device_entry* d, pf_status s) noexcept nogil:
    return pf_failf(&c.ctx, s, b"a copy from or to %s failed with status %d", d.name, s)

cdef pf_status bring_in(pf_call* c, int32_t i, pf_device_entry* d, pf_tensor* take) noexcept nogil:
    """Host memory, or a peer's, to device d."""
    cdef pf_device_entry* peer = <pf_device_entry*>take.device
    cdef pf_tensor* dst = like(d, d.ins, take)
    cdef pf_job* job = new_job(d, c.step)
    cdef pf_trace_mark* mark
    cdef pf_status s = PF_OK
    if dst == NULL or job == NULL:
        no_room(c, d, take)
        pf_tensor_unref(dst)
        pf_tensor_unref(take)
        free(job)
        return PF_RESOURCE_EXHAUSTED
    pf_tensor_ref(dst)
    pf_put_output(c, i, dst)
    job.keep[0] = take
    job.keep[1] = dst
    if take.nbytes:
        if peer != NULL and d.stream != NULL:
            job.peer = peer
            s = peer.vtable.event_record(peer.dev, peer.stream, &job.events[1])
            if s == PF_OK:
                s = d.vtable.event_wait(d.dev, d.ins, job.events[1])
        mark = pf_trace_enqueue(c, d, PF_STREAM_IN) if c.step.trace != NULL else NULL
        if s == PF_OK and peer != NULL:
            s = d.vtable.peer_copy(peer.dev, d.dev, d.ins, pf_dl(take), pf_dl(dst))
        elif s == PF_OK:
            s = d.vtable.copy(d.dev, d.ins, pf_dl(take), pf_dl(dst))
        if mark != NULL:
            pf_trace_enqueued(c, mark)
    if s == PF_OK and d.stream != NULL:
        s = d.vtable.event_record(d.dev, d.ins, &job.events[0])
        if s == PF_OK:
            s = d.vtable.event_wait(d.dev, d.stream, job.events[0])
        if s == PF_OK:
            s = start_job(job, d.ins)
            return copy_failed(c, d, s) if s else PF_OK
    if s:
        pf_device_wait(d)
    drop_job(job)
    return copy_failed(c, d, s) if s else PF_OK

cdef void end_call(uint64_t ticket, pf_status s) noexcept nogil:
    cdef pf_call* c = pf_ticket_take(ticket)
    if c != NULL:
        pf_call_done(c, s)

cdef void brought_out(pf_job* job, pf_status s) noexcept nogil:
    cdef pf_call* c = pf_ticket_hold(job.ticket)
    if c != NULL:
        end_call(job.ticket, copy_failed(c, job.dev, s) if s else PF_OK)
        pf_ticket_drop(c)

cdef void halfway(pf_job* job, pf_status s) noexcept nogil:
    """The tensor is on the host now; its way leads on to another device."""
    cdef pf_call* c = pf_ticket_hold(job.ticket)
    cdef pf_tensor* t = job.keep[1]
    if c == NULL:
        return
    if s == PF_OK:
        job.keep[1] = NULL
        s = bring_in(c, job.i, c.node.home, t)
    else:
        copy_failed(c, job.dev, s)
    end_call(job.ticket, s)
    pf_ticket_drop(c)

cdef pf_status bring_out(pf_call* c, int32_t i, pf_tensor* take, bint onward) noexcept nogil:
    """From a device's memory to the host, and perhaps onward to the call's own device."""
    cdef pf_device_entry* d = <pf_device_entry*>take.device
    cdef pf_tensor* dst = host_like(d, take)
    cdef pf_job* job = new_job(d, c.step)
    cdef pf_trace_mark* mark
    cdef pf_status s = PF_OK
    if dst == NULL or job == NULL:
        no_room(c, NULL, take)
        pf_tensor_unref(dst)
        pf_tensor_unref(take)
        free(job)
        return PF_RESOURCE_EXHAUSTED
    job.keep[0] = take
    job.ticket = c.ticket
    job.i = i
    job.then = halfway if onward else brought_out
    if onward:
        job.keep[1] = dst
    else:
        pf_put_output(c, i, dst)
    if take.nbytes and d.stream != NULL:
        s = d.vtable.event_record(d.dev, d.stream, &job.events[1])
        if s == PF_OK:
            s = d.vtable.event_wait(d.dev, d.out, job.events[1])
    if s == PF_OK and take.nbytes:
        mark = pf_trace_enqueue(c, d, PF_STREAM_OUT) if c.step.trace != NULL else NULL
        s = d.vtable.copy(d.dev, d.out, pf_dl(take), pf_dl(dst))
        if mark != NULL:
            pf_trace_enqueued(c, mark)
    if s == PF_OK and d.stream != NULL:
        s = start_job(job, d.out)
        return copy_failed(c, d, s) if s else PF_PENDING
    if s:
        pf_device_wait(d)
        drop_job(job)
        return copy_failed(c, d, s)
    if onward:
        job.keep[1] = NULL
        s = bring_in(c, i, c.node.home, dst)
    drop_job(job)
    return s

cdef public pf_status pf_bring_output(pf_call* c, int32_t i, pf_tensor* take) noexcept nogil:
    cdef pf_device_entry* there = <pf_device_entry*>take.device
    cdef pf_device_entry* here = NULL
    if c.node.home != NULL and c.node.out_mem != NULL and c.node.out_mem[i] == PF_ON_DEVICE:
        here = c.node.home
    if there == here or take.flags & PF_T_HANDLE or take.type == PF_STRING:
        pf_put_output(c, i, take)
        return PF_OK
    if there == NULL or (here != NULL and pf_device_peers(there, here)):
        return bring_in(c, i, here, take)
    return bring_out(c, i, take, here != NULL)

# ---------------------------------------------------------------- after
cdef void continued(pf_job* job, pf_status s) noexcept nogil:
    cdef pf_call* c = pf_ticket_hold(job.ticket)
    cdef pf_blame b
    if c == NULL:
        return
    if s == PF_OK and c.node.foreign:
        pf_blame_enter(&b, b"a continuation of the kernel", c.node.kernel.plugin_id, c.node.name, c.node.op)
        s = job.fn(&c.ctx, job.arg)
        pf_blame_leave(&b)
    elif s == PF_OK:
        s = job.fn(&c.ctx, job.arg)
    else:
        pf_failf(&c.ctx, s, b"device %s reported status %d for this kernel's work or for work before it",
                 job.dev.name, s)
    if s != PF_PENDING:
        end_call(job.ticket, s)
    pf_ticket_drop(c)

cdef public pf_status pf_after_stream(pf_call* c, pf_status (*fn)(pf_ctx*, void*) noexcept nogil, void* arg) noexcept nogil:
    cdef pf_device_entry* d = c.node.dev
    cdef pf_job* job = new_job(d, c.step)
    cdef pf_status s
    if job == NULL:
        return pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory to wait for a stream")
    job.ticket = c.ticket
    job.fn = fn
    job.arg = arg
    job.then = continued
    s = start_job(job, d.stream)
    return copy_failed(c, d, s) if s else PF_PENDING
