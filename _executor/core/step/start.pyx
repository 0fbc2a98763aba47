# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Steps without a caller's thread: begun, and told of when they are over.

    pf_step_start ----> blocks run on the pool ----> the last one's thread: results -> `done`
         `-- a plan of one synchronous block runs at once, on the starter's thread, unless starts lie too deep in each other
             (a step of a task, or with a deadline, only where its starter says so: `here`)

Who works.  The roots of a step within another go to the starter's own worker where it is one (a kernel that calls a function goes
on with it without a hand-over), else through the injector to any thread of the pool: a kernel may wait for it.  A step started WITHIN another has that one's `home`: its
caller takes the items too, so a pool without threads of its own gets by.  Where nobody calls, such a pool has a steward.

Who looks at the clock.  Callers poll for their own step; for those without, and to cancel them, there is keeper.pyx.

Invariants
1. `done` is called once, after the last block, no lock held; the step is its plan's again by then.
2. A pf_started's `step` is set until pf_watch_end takes it away, under watch.pyx's lock: who finds it there pins it.
"""
from step_h cimport *

cdef enum:
    FEW_RETS = 16
    MAX_DEPTH = 24              # starts at once inside each other, on one thread

cdef extern from *:
    """
    static __thread int32_t pf_start_depth;
    static inline int32_t pf_start_deeper(int32_t by) { return pf_start_depth += by; }
    """
    int32_t deeper "pf_start_deeper"(int32_t) noexcept nogil

cdef public void pf_started_unref(pf_started* h) noexcept nogil:
    if h != NULL and pf_a32_dec_last(&h.refs):
        free(h.cause)
        free(h)

# ---------------------------------------------------------------- at once
cdef bint at_once(pf_plan** plans, int32_t n, const pf_run_options* o) noexcept nogil:
    cdef pf_plan* p = plans[0]
    return (n == 1 and tiny(p)
            and (o == NULL or (o.timeout_ns == 0 and o.rendezvous == NULL and o.task == NULL and o.trace == NULL)))

cdef bint tiny(const pf_plan* p) noexcept nogil:
    return p.n_blocks == 1 and not p.has_async and p.n_frames_in_slabs == 0 and not p.watched

cdef public int32_t pf_start_enter(pf_plan* plan) noexcept nogil:
    if not tiny(plan):
        return False
    if deeper(1) <= MAX_DEPTH:
        return True
    deeper(-1)
    return False

cdef public void pf_start_leave() noexcept nogil:
    deeper(-1)

cdef void run_at_once(pf_plan* plan, pf_tensor** take_args, uint64_t stream, pf_started_fn done, void* arg) noexcept nogil:
    cdef pf_tensor* few[FEW_RETS]
    cdef pf_tensor** rets = few
    cdef pf_run_options with_stream
    cdef pf_error err
    cdef pf_status st
    cdef uint32_t k
    pf_error_clear(&err)
    if stream:
        memset(&with_stream, 0, sizeof(with_stream))
        with_stream.stream = stream
    if plan.n_rets > FEW_RETS:
        rets = <pf_tensor**>malloc(sizeof(void*) * plan.n_rets)
    if rets == NULL:
        for k in range(plan.n_args):
            pf_tensor_unref(take_args[k])
        st = pf_error_set(&err, PF_RESOURCE_EXHAUSTED, b"out of memory for a step's results")
    else:
        st = pf_step_run(plan, take_args, rets, &with_stream if stream else NULL, &err)
    done(arg, st, &err if st else NULL, rets)
    if rets != few:
        free(rets)

# ---------------------------------------------------------------- begin
cdef void hand_over(pf_step* leader, bint quiet) noexcept nogil:
    """The roots of every partition, to whoever may run them.  The step may be over before this returns."""
    cdef pf_worker* here = pf_pool_here()
    cdef pf_worker nobody
    cdef pf_step* s = leader
    cdef pf_step* next
    cdef pf_pool* pool = leader.pool
    if (leader.home != leader and here != NULL and here.pool == pool
            and (here.step == leader.home or (here.step == NULL and pool.n > 1))):
        while s != NULL:
            next = s.peer
            pf_step_begin_root(s, here)
            s = next
        return
    pf_pool_open(pool, leader.home.started != NULL)
    memset(&nobody, 0, sizeof(nobody))
    nobody.pool = pool
    while s != NULL:
        next = s.peer
        pf_share(s)
        pf_step_begin_root(s, &nobody)
        while nobody.ready.n:
            if quiet:
                pf_pool_lay(pool, pf_heap_take(&nobody.ready, 0))
            else:
                pf_pool_inject(pool, pf_heap_take(&nobody.ready, 0))
        s = next
    free(nobody.ready.items)

cdef int32_t prepare(pf_step* leader, const pf_run_options* o) noexcept nogil:
    """What the starter asked for; the number of partitions with anything to run."""
    if o != NULL:
        pf_step_given(leader, o)
        if o.within != NULL and o.within.pool == leader.pool:
            leader.home = o.within.leader.home
            leader.depth = o.within.leader.depth + 1
    return pf_parts_busy(leader)

cdef public pf_status pf_step_start(pf_plan** plans, int32_t n, pf_tensor** take_args, const pf_run_options* o,
                                    pf_started_fn done, void* arg, pf_started** out, pf_error* err) noexcept nogil:
    if out != NULL:
        out[0] = NULL
    if at_once(plans, n, o) and pf_start_enter(plans[0]):
        run_at_once(plans[0], take_args, o.stream if o != NULL else 0, done, arg)
        pf_start_leave()
        return PF_OK
    return start(plans, n, take_args, o, done, arg, out, err)

cdef void stop(void* arg, const pf_error* why) noexcept nogil:
    pf_started_fail(<pf_started*>arg, why)

cdef void join_task(pf_step* leader, const pf_run_options* o) noexcept nogil:
    """Takes the rendezvous of its key.  A step that is over elsewhere, or failed there, fails before it begins."""
    cdef pf_started* h = leader.started
    cdef pf_error err
    pf_error_clear(&err)
    h.member.stop = stop
    h.member.arg = h
    leader.key = o.key
    if pf_task_begin(o.task, o.key, &h.member, &leader.rendezvous, &err):
        pf_step_fail_as(leader, &err)
        return
    leader.task = o.task
    leader.outlived = 1

cdef pf_status start(pf_plan** plans, int32_t n, pf_tensor** take_args, const pf_run_options* o, pf_started_fn done,
                     void* arg, pf_started** out, pf_error* err) noexcept nogil:
    cdef pf_started* h = <pf_started*>calloc(1, sizeof(pf_started))
    cdef pf_step* leader = pf_parts_link(plans, n, take_args)
    if h == NULL or leader == NULL:
        free(h)
        if leader != NULL:
            pf_step_fail(leader, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a step")
            pf_parts_part(leader, PF_RESOURCE_EXHAUSTED, NULL)
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory for a step")
    h.done = done
    h.arg = arg
    h.step = leader
    pf_a32_store(&h.refs, 1 if out == NULL else 2)      # the step's own, and the starter's
    if out != NULL:
        out[0] = h
    leader.started = h
    if o != NULL and o.task != NULL:
        join_task(leader, o)
    if prepare(leader, o) and n > 1 and not pf_parts_share_rendezvous(leader):
        pf_step_fail(leader, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a rendezvous")
    pf_watch_begin(leader)
    if n == 1 and o != NULL and o.here and pf_start_enter(leader.plan):
        if not pf_a32_load(&leader.cancelled):
            pf_step_alone(leader)
        pf_started_over(leader)
        pf_start_leave()
        return PF_OK
    if leader.deadline_ns:
        pf_keeper_poll_at(h, leader.deadline_ns)
    if n == 1 and leader.plan.n_blocks == 0 or n > 1 and pf_a32_load(&leader.parts_left) == 0:
        pf_started_over(leader)
    elif o != NULL and o.here and not leader.pool.seeded and deeper(1) <= MAX_DEPTH:
        pf_step_here(leader)
        deeper(-1)
    else:
        if o != NULL and o.here and not leader.pool.seeded:
            deeper(-1)
        hand_over(leader, o != NULL and o.quiet and not leader.pool.seeded)
    return PF_OK

# ---------------------------------------------------------------- end
cdef public void pf_started_over(pf_step* leader) noexcept nogil:
    """By the thread of the last block."""
    cdef pf_tensor* few[FEW_RETS]
    cdef pf_tensor** rets = few
    cdef pf_started* h = leader.started
    cdef pf_step* s = leader
    cdef uint32_t n = 0
    cdef pf_status st
    cdef pf_error* err = NULL
    while s != NULL:
        n += s.plan.n_rets
        pf_a64_store_rlx(&s.kernels, 0)
        s = s.peer
    if n > FEW_RETS:
        rets = <pf_tensor**>malloc(sizeof(void*) * n)
        if rets == NULL:
            pf_step_fail(leader, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a step's results")
    pf_parts_read_late(leader)
    if leader.task != NULL:
        pf_task_end(leader.task, leader.key, &h.member)
    pf_watch_end(leader)
    pf_keeper_forget(h)
    st = leader.error.code
    if st:
        err = <pf_error*>malloc(sizeof(pf_error))
        if err != NULL:
            memcpy(err, &leader.error, sizeof(pf_error))
    pf_parts_part(leader, st, rets)
    h.done(h.arg, st, err, rets)
    pf_a32_store(&h.over, 1)
    pf_fence()
    pf_started_nudge(h)
    pf_started_unref(h)
    free(err)
    if rets != few:
        free(rets)
