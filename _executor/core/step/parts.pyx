# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""One step that was partitioned into several plans: they run side by side on the caller's thread
and the pool.

    take       a pf_step per plan, linked: the first is the LEADER, the others its peers
    work       the caller runs blocks of all of them until `parts_left` of the leader is 0
    finish     results of each, or what an error left; every pf_step goes back to its plan

Invariants
1. All partitions share one rendezvous, one step id, one error (the leader's: the first wins), one
   deadline and one poll function.
2. A failure anywhere stops every partition's blocks and wakes every Recv (pf_step_fail).
3. A partition takes no thread of its own: one that only waits costs nothing, and any number of
   them, in any number of steps at once, get by with one thread.

Threads: pf_parts_run runs on the caller's thread; leader and peer are fixed while the step runs.

    pf_parts_run(plans, 2, args, rets, &options, &err);
"""
from step_h cimport *

cdef public pf_step* pf_parts_link(pf_plan** plans, int32_t n, pf_tensor** take_args) noexcept nogil:
    """The leader; its peers in order.  NULL: out of memory, the arguments are released."""
    cdef pf_step* leader = NULL
    cdef pf_step* last = NULL
    cdef pf_step* s
    cdef int32_t i, at = 0
    cdef uint32_t k
    cdef bint failed = False
    for i in range(n):
        s = NULL if failed else pf_step_take(plans[i], take_args + at)
        if s == NULL:
            failed = True
            for k in range(plans[i].n_args):
                pf_tensor_unref(take_args[at + <int32_t>k])
        elif leader == NULL:
            leader = s
        else:
            last.peer = s
            s.leader = leader
            s.id = leader.id
        if s != NULL:
            last = s
        at += <int32_t>plans[i].n_args
    if failed and leader != NULL:
        pf_step_fail(leader, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a step")
        pf_parts_part(leader, PF_RESOURCE_EXHAUSTED, NULL)
        leader = NULL
    return leader

cdef public void pf_parts_part(pf_step* leader, pf_status st, pf_tensor** rets) noexcept nogil:
    """Every partition takes its results and goes back to its plan."""
    cdef pf_step* s = leader
    cdef int32_t outlived = leader.outlived
    cdef pf_step* next
    cdef uint32_t m
    while s != NULL:
        next = s.peer
        m = s.plan.n_rets
        if s.trace != NULL:
            pf_trace_step_end(s, st)
        s.leader = s
        s.outlived = outlived
        s.peer = NULL
        pf_step_finish(s, st, rets)
        if rets != NULL:
            rets += m
        s = next

cdef public int32_t pf_parts_share_rendezvous(pf_step* leader) noexcept nogil:
    """The leader's rendezvous is everybody's."""
    cdef pf_rendezvous* r = pf_step_rendezvous(leader)
    cdef pf_step* s = leader.peer
    if r == NULL:
        return False
    while s != NULL:
        pf_rendezvous_ref(r)
        s.rendezvous = r
        s = s.peer
    return True

cdef public int32_t pf_parts_busy(pf_step* leader) noexcept nogil:
    """The number of partitions with anything to run, which is what is left of the step."""
    cdef pf_step* s = leader
    cdef int32_t busy = 0
    while s != NULL:
        busy += s.plan.n_blocks != 0
        s = s.peer
    pf_a32_store(&leader.parts_left, busy)
    return busy

cdef public void pf_parts_read_late(pf_step* s) noexcept nogil:
    while s != NULL:
        if s.plan.late_rets:
            pf_step_read_late(s)
        s = s.peer

cdef int64_t take_count(pf_step* s) noexcept nogil:
    """Kernels that other threads ran."""
    cdef int64_t n = 0
    while s != NULL:
        n += pf_a64_load_rlx(&s.kernels)
        pf_a64_store_rlx(&s.kernels, 0)
        s = s.peer
    return n

cdef public pf_status pf_parts_run(pf_plan** plans, int32_t n, pf_tensor** take_args,
                                   pf_tensor** rets, const pf_run_options* o,
                                   pf_error* err) noexcept nogil:
    cdef pf_step* leader = pf_parts_link(plans, n, take_args)
    cdef pf_worker w
    cdef pf_status st
    cdef int64_t kernels
    if leader == NULL:
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory for a step")
    w.kernels = 0
    if o != NULL:
        pf_step_given(leader, o)
    if pf_parts_busy(leader):
        if not pf_parts_share_rendezvous(leader):
            pf_step_fail(leader, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a rendezvous")
        if o != NULL:
            pf_step_announce(o, leader)
        pf_step_work(leader, &w)
        if o != NULL:
            pf_step_announce(o, NULL)
    kernels = w.kernels + take_count(leader)
    if o != NULL and o.kernels != NULL:
        o.kernels[0] = kernels
    pf_parts_read_late(leader)
    st = leader.error.code
    if st and err != NULL:
        memcpy(err, &leader.error, sizeof(pf_error))
    pf_parts_part(leader, st, rets)
    return st
