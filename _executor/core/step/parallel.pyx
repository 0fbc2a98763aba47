# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Parallel_for.

A loop lies on the stack of the thread that runs the kernel, which is its worker 0, and in pool.loops.  Who has nothing
else to do joins it with a worker index of its own: pool threads any loop, a caller those of its own step.  All take chunks
off one counter; the kernel's thread waits for those inside.

    OPEN -> EXHAUSTED [run_chunks: the one who draws the first number behind the end] -> gone [pf_pool_for, nobody inside]

pool.n_loops counts the open ones.
"""
from step_h cimport *

cdef public pf_loop* pf_pool_open_loop(pf_pool* p, pf_worker* caller) noexcept nogil:
    """A loop with chunks left that takes another thread; of the caller's step, if one asks.  Lock held."""
    cdef pf_loop* l = p.loops
    while l != NULL:
        if (pf_a64_load_rlx(&l.next) < l.n and pf_a32_load_rlx(&l.joined) < p.n
                and (caller == NULL or l.step.leader.home == caller.step)):
            return l
        l = l.next_loop
    return NULL

cdef void run_chunks(pf_pool* p, pf_loop* l, int32_t worker, bint polls, pf_worker* joined) noexcept nogil:
    """Between chunks a cancelled step is noticed; its caller's thread looks at signals and the deadline too, and where it
    joined somebody else's loop (`joined`), leaves for what only it can run."""
    cdef int64_t lo
    while joined == NULL or not pf_a32_load_rlx(&joined.step.n_posts):
        lo = pf_a64_add(&l.next, l.chunk)
        if lo >= l.n:
            if lo < l.n + l.chunk:
                pf_a32_add(&p.n_loops, -1)
            return
        if l.whole or not pf_a32_load_rlx(&l.step.cancelled):
            l.fn(l.arg, lo, min(lo + l.chunk, l.n), worker)
            if polls:
                pf_step_poll(l.step.leader.home)

cdef pf_status for_alone(pf_step* s, int32_t how, int64_t n, int64_t chunk, pf_range_fn fn, void* arg) noexcept nogil:
    """Without helpers."""
    cdef int64_t lo = 0
    while lo < n:
        fn(arg, lo, min(lo + chunk, n), 0)
        lo += chunk
        if lo < n and not how & PF_FOR_WHOLE:
            if how & PF_FOR_POLLS:
                pf_step_poll(s.leader.home)
            if pf_a32_load_rlx(&s.cancelled):
                return PF_CANCELLED
    return PF_OK

cdef public int pf_pool_join(pf_pool* p, pf_worker* caller) noexcept nogil:
    """Helps with a loop until its chunks are gone.  caller: NULL for pool threads."""
    cdef pf_loop* l
    cdef pf_blame* mine
    cdef int32_t worker
    if pf_a32_load(&p.n_loops) == 0:
        return False
    pthread_mutex_lock(&p.lock)
    l = pf_pool_open_loop(p, caller)
    if l != NULL:
        pf_a32_add(&l.inside, 1)
        worker = pf_a32_add(&l.joined, 1)
    pthread_mutex_unlock(&p.lock)
    if l == NULL:
        return False
    if l.blame != NULL:
        mine = pf_blame_swap(l.blame)
        run_chunks(p, l, worker, caller != NULL and l.polls, caller)
        pf_blame_swap(mine)
    else:
        run_chunks(p, l, worker, caller != NULL and l.polls, caller)
    pf_a32_add(&l.inside, -1)
    return True

cdef void publish_loop(pf_pool* p, pf_loop* l, int64_t chunks) noexcept nogil:
    pthread_mutex_lock(&p.lock)
    l.next_loop = p.loops
    p.loops = l
    pf_a32_add(&p.n_loops, 1)
    pf_pool_tell_caller(p, l.step)
    if pf_a32_load(&p.idle) > 0:
        if chunks > 2 and p.n > 2:
            pthread_cond_broadcast(&p.cond)
        else:
            pthread_cond_signal(&p.cond)
    pthread_mutex_unlock(&p.lock)

cdef void retire_loop(pf_pool* p, pf_loop* l) noexcept nogil:
    """Nobody joins from here on; those inside are waited for."""
    cdef pf_loop** at = &p.loops
    cdef int32_t spins = 0
    pthread_mutex_lock(&p.lock)
    while at[0] != l:
        at = &at[0].next_loop
    at[0] = l.next_loop
    pthread_mutex_unlock(&p.lock)
    while pf_a32_load(&l.inside):
        spins += 1
        if spins < 4000:
            pf_cpu_relax()
        else:
            sched_yield()

cdef public pf_status pf_pool_for(pf_pool* p, pf_step* s, int32_t how, int64_t n, int64_t grain, pf_range_fn fn,
                                  void* arg) noexcept nogil:
    cdef pf_loop l
    cdef int64_t chunks
    if n <= 0:
        return PF_OK
    grain = max(grain, 1)
    chunks = (n + grain - 1) // grain
    if chunks == 1:
        fn(arg, 0, n, 0)
        return PF_OK
    if p.n == 1:
        return for_alone(s, how, n, grain * max(<int64_t>1, chunks // 8), fn, arg)
    pf_pool_open(p, False)
    memset(&l, 0, sizeof(l))
    l.fn = fn
    l.arg = arg
    l.n = n
    l.chunk = grain * max(<int64_t>1, chunks // (8 * p.n))
    l.step = s
    l.whole = how & PF_FOR_WHOLE
    l.polls = how & PF_FOR_UNLOCKED
    if how & PF_FOR_BLAMED:
        l.blame = pf_blame_now()
    pf_a32_store_rlx(&l.joined, 1)
    publish_loop(p, &l, chunks)
    run_chunks(p, &l, 0, how & PF_FOR_POLLS, NULL)
    retire_loop(p, &l)
    return PF_CANCELLED if pf_a32_load_rlx(&s.cancelled) and not l.whole else PF_OK
