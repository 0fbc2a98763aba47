# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""PYFLOW_SCHEDULE, a step of one thread whose order is drawn from a seed.

Where several items are ready, which runs next is drawn; so is, from time to time, that what is under way elsewhere
(asynchronous kernels, devices' streams) is waited for and put among what is ready.  Other threads thus decide nothing: the
same seed gives the same order, whatever the timing.  The k-th step of a pool draws from (seed, k).

    n ready items -> drawn one         [pf_schedule_next]
    calls and jobs -> ready            [gather]  when all that end by themselves have ended, sorted

What does not end by itself - a queue's blocked dequeue, a call whose fate another thread decides - is waited for QUIET_NS
without any change, and then left under way: there timing may show.
"""
from step_h cimport *

cdef enum:
    QUIET_NS = 50000000

cdef public uint64_t pf_schedule_begin(pf_pool* p) noexcept nogil:
    """The state for the next step, never 0 (splitmix64)."""
    cdef uint64_t z = p.seed * <uint64_t>0xD1B54A32D192ED03ULL + <uint64_t>(pf_a64_add_rlx(&p.seeded_steps, 1) + 1)
    z *= <uint64_t>0x9E3779B97F4A7C15ULL
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EBULL
    return (z ^ (z >> 31)) | 1

cdef uint64_t draw(pf_worker* w) noexcept nogil:
    """xorshift64*"""
    w.schedule ^= w.schedule >> 12
    w.schedule ^= w.schedule << 25
    w.schedule ^= w.schedule >> 27
    return (w.schedule * <uint64_t>0x2545F4914F6CDD1DULL) >> 24

cdef bint ends_by_itself(const pf_call* c) noexcept nogil:
    """Calls on a device's stream, and received tensors that are copied, end with a job, which is waited for."""
    return not (c.node.dev != NULL and c.node.dev.stream != NULL) and not c.ended_by

cdef int32_t under_way(pf_step* s) noexcept nogil:
    """Of this step and those that run with it; those among the injected and the ready ones included."""
    cdef pf_call* c
    cdef int32_t n = 0
    while s != NULL:
        n += pf_a32_load(&s.jobs)
        pthread_mutex_lock(&s.lock)
        c = s.deferred
        while c != NULL:
            n += ends_by_itself(c)
            c = c.next_cancel
        pthread_mutex_unlock(&s.lock)
        s = s.peer
    return n

cdef int32_t waited_for(const pf_item* item) noexcept nogil:
    """1 for a finished call or job that under_way counts."""
    if item.block == <uint32_t>PF_JOB_BLOCK:
        return 1
    return item.call != NULL and ends_by_itself(item.call)

cdef int32_t arrived(pf_worker* w) noexcept nogil:
    cdef const pf_item* item
    cdef int32_t k, n = 0
    for k in range(w.ready.n):
        n += waited_for(w.ready.items[k])
    pthread_mutex_lock(&w.pool.lock)
    item = w.pool.inject
    while item != NULL:
        if item.slab.step.leader.home == w.step:
            n += waited_for(item)
        item = item.next
    pthread_mutex_unlock(&w.pool.lock)
    return n

cdef void await_all(pf_worker* w) noexcept nogil:
    """Until everything that ends by itself has, or nothing moved for QUIET_NS."""
    cdef int32_t missing, before = -1
    cdef int64_t since = 0
    while w.step.posts == NULL and not pf_step_poll(w.step):
        missing = under_way(w.step) - arrived(w)
        if missing <= 0:
            return
        if missing != before:
            before = missing
            since = pf_now_ns()
        elif pf_now_ns() > since + QUIET_NS:
            return
        usleep(20)

cdef bint comes_before(const pf_item* a, const pf_item* b) noexcept nogil:
    """An order that does not depend on when they ended: by partition, iteration and place in the plan; jobs by their number."""
    cdef bint job = a.block == <uint32_t>PF_JOB_BLOCK
    cdef pf_step* s
    if a.slab.step.leader != b.slab.step.leader:
        return a.slab.step.leader.id < b.slab.step.leader.id
    if a.slab.step != b.slab.step:
        s = a.slab.step.leader
        while s != a.slab.step and s != b.slab.step:
            s = s.peer
        return s == a.slab.step
    if job != (b.block == <uint32_t>PF_JOB_BLOCK):
        return job
    if job:
        return a.order < b.order
    if a.slab.path != b.slab.path:
        return a.slab.path < b.slab.path
    return a.block < b.block

cdef void gather(pf_worker* w) noexcept nogil:
    cdef pf_item* sorted_items = NULL
    cdef pf_item* item
    cdef pf_item** at
    await_all(w)
    while True:
        item = pf_pool_take_injected(w)
        if item == NULL:
            break
        at = &sorted_items
        while at[0] != NULL and not comes_before(item, at[0]):
            at = &at[0].next
        item.next = at[0]
        at[0] = item
    while sorted_items != NULL:
        item = sorted_items
        sorted_items = item.next
        item.next = NULL
        if not pf_heap_push(&w.ready, item):
            pf_run_item(w, item)

cdef public pf_item* pf_schedule_next(pf_worker* w) noexcept nogil:
    cdef uint64_t drawn = draw(w)
    if w.ready.n == 0 or drawn & 3 == 0:
        gather(w)
    if w.ready.n == 0:
        return NULL
    return pf_heap_take(&w.ready, <int32_t>((drawn >> 2) % <uint64_t>w.ready.n))
