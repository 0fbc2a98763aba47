# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Threads: one pool for work between and inside kernels.

A pool of n threads is n - 1 threads of its own and the caller of each step.  Callers work on their own step only, pool
threads on any.  Everybody owns a LANE, a heap of stealable items (expensive blocks); what is cheap stays in the worker's
private heap, as does an expensive block that is alone in it.  Finished asynchronous calls come in through the injector.

    find work: own lane -> injector -> other lanes -> parallel_for loops (parallel.pyx) -> (pool threads) posts -> sleep

What is ready for a worker alone comes first, and the newest of the injector: what was touched last is still in the cache.  A loop
without end would so keep all else waiting for ever; so each FAIR-th item is one that waits longest elsewhere.

Wake chaining: who publishes wakes one sleeper, and who was woken and finds more work wakes the next; so a burst of
items starts all threads in log time without a broadcast.  A sleeper announces itself (`idle`), then looks once more;
a publisher publishes, then looks at `idle`: one of the two sees the other.

A thread in parallel_for runs chunks of that loop only: stealing a block there could want a variable's lock its own
thread holds.

To sleep and be woken costs 50 us and more on a virtual machine, about as long as the gaps between kernels.  So who finds
nothing looks on for a while before it sleeps: SPIN_NS at most, and less each time that looking did not pay (the gap was
longer), down to SPIN_LEAST_NS.  A pool with more threads than processors starts at SPIN_LEAST_NS.

Steps without a caller (start.pyx) are worked on by pool threads alone; those started within another step by its caller too
(`home`).  A pool of one thread has none of its own: the first step without a caller gives it a STEWARD, who touches no other.

fork: the child has none of the threads.  pthread_atfork counts generations; the first step in the child rebuilds locks
and threads.

Locks: pool.lock, then step.cond's use of it; lane locks are innermost.
"""
from step_h cimport *

cdef enum:
    SPIN_NS = 200000
    SPIN_LEAST_NS = 10000
    LOOKS = 16                      # between two looks at the clock
    USUAL_SLOW = 16                 # threads of the BLOCKING lane
    MAX_SLOW = 1024                 # where those all wait: perhaps for what is queued behind them
    SLOW_STUCK_NS = 10000000
    FAIR = 64
    KERNEL_STACK = 1 << 20          # bytes a kernel finds at least; musl's threads have an eighth of it

cdef pf_aptr default_pool

cdef extern from *:
    """
    static __thread pf_worker *pf_here;
    static inline void pf_set_here(pf_worker *w) { pf_here = w; }
    pf_worker *pf_pool_here(void) { return pf_here; }
    pf_worker *pf_pool_be(pf_worker *w) { pf_worker *was = pf_here; pf_here = w; return was; }
    """
    void set_here "pf_set_here"(pf_worker*) noexcept nogil

# ---------------------------------------------------------------- life
cdef public pf_pool* pf_pool_new(int32_t threads) noexcept nogil:
    cdef pf_pool* p = <pf_pool*>calloc(1, sizeof(pf_pool))
    cdef int32_t i
    if p == NULL:
        return NULL
    pf_watch_forks()
    p.n = max(1, min(threads, PF_MAX_LANES // 2))
    pf_a32_store(&p.lanes_used, p.n)
    p.spin_ns = SPIN_NS if p.n <= usable_processors() else SPIN_LEAST_NS
    p.fork_gen = pf_fork_generation()
    pf_a32_store(&p.refs, 1)
    pthread_mutex_init(&p.lock, NULL)
    pf_cond_init(&p.cond)
    pf_cond_init(&p.slow_cond)
    p.lanes = <pf_lane*>calloc(PF_MAX_LANES, sizeof(pf_lane))
    p.lane_taken = <pf_a32*>calloc(PF_MAX_LANES, sizeof(pf_a32))
    p.workers = <pf_worker*>calloc(p.n, sizeof(pf_worker))
    if p.lanes == NULL or p.lane_taken == NULL or p.workers == NULL:
        free(p.lanes)
        free(p.lane_taken)
        free(p.workers)
        free(p)
        return NULL
    for i in range(p.n):
        p.workers[i].pool = p
        p.workers[i].id = i
        p.workers[i].lane = p.lanes + i
        pf_a32_store(p.lane_taken + i, 1)
    return p

cdef public int32_t pf_pool_threads(const pf_pool* p) noexcept nogil:
    return p.n

cdef public void pf_pool_ref(pf_pool* p) noexcept nogil:
    pf_a32_add_rlx(&p.refs, 1)

cdef void* reap(void* arg) noexcept nogil:
    end_pool(<pf_pool*>arg)
    return NULL

cdef public void pf_pool_unref(pf_pool* p) noexcept nogil:
    """The last one ends the threads; where one of them is that last, which cannot wait for itself, another thread does."""
    cdef pthread_t reaper
    if p == NULL or not pf_a32_dec_last(&p.refs):
        return
    if pf_pool_here() == NULL or pf_pool_here().pool != p:
        end_pool(p)
    elif pthread_create(&reaper, NULL, reap, p) == 0:
        pthread_detach(reaper)

cdef void end_pool(pf_pool* p) noexcept nogil:
    cdef int32_t i
    if p.fork_gen == pf_fork_generation():       # the BLOCKING lane has threads before workers are started
        pthread_mutex_lock(&p.lock)
        pf_a32_store(&p.stop, 1)
        pthread_cond_broadcast(&p.cond)
        pthread_cond_broadcast(&p.slow_cond)
        pthread_mutex_unlock(&p.lock)
        if pf_a32_load(&p.started):
            for i in range(1, p.n):
                pthread_join(p.workers[i].thread, NULL)
        if p.steward:
            pthread_join(p.workers[0].thread, NULL)
        while True:
            pthread_mutex_lock(&p.lock)
            i = p.slow_threads
            pthread_mutex_unlock(&p.lock)
            if i == 0:
                break
            sched_yield()
    for i in range(PF_MAX_LANES):
        free(p.lanes[i].heap.items)
    for i in range(p.n):
        free(p.workers[i].ready.items)
    free(p.lanes)
    free(p.lane_taken)
    free(p.workers)
    free(p)

cdef public pf_pool* pf_default_pool() noexcept nogil:
    """The process's own pool, one thread per processor it may use."""
    cdef pf_pool* p = <pf_pool*>pf_aptr_load(&default_pool)
    if p != NULL:
        return p
    p = pf_pool_new(<int32_t>usable_processors())
    if p != NULL and not pf_aptr_cas(&default_pool, NULL, p):
        pf_pool_unref(p)
        p = <pf_pool*>pf_aptr_load(&default_pool)
    return p

cdef extern from *:
    """
    #include <sched.h>
    #include <unistd.h>
    static inline long pf_usable_processors(void) {
    #if defined(__linux__) && defined(CPU_COUNT)
      cpu_set_t set;
      if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
    #endif
      return sysconf(_SC_NPROCESSORS_ONLN);
    }
    """
    long usable_processors "pf_usable_processors"() noexcept nogil

# ---------------------------------------------------------------- threads
cdef void* thread_main(void* arg) noexcept nogil:
    cdef pf_worker* w = <pf_worker*>arg
    pf_name_thread(b"pyflow worker %d", w.id)
    set_here(w)
    if w.pool.n > 1:
        work(w)
    else:
        work_as_steward(w)
    return NULL

cdef void rebuild(pf_pool* p) noexcept nogil:
    """In a forked child: the locks' owners are gone, and so is their work."""
    cdef int32_t i
    pthread_mutex_init(&p.lock, NULL)
    pf_cond_init(&p.cond)
    pf_cond_init(&p.slow_cond)
    for i in range(PF_MAX_LANES):
        pf_a32_store(&p.lanes[i].lock, 0)
        pf_a32_store(&p.lanes[i].n, 0)
        p.lanes[i].heap.n = 0
        pf_a32_store(p.lane_taken + i, i < p.n)
    for i in range(p.n):
        p.workers[i].ready.n = 0
    p.inject = NULL
    p.loops = NULL
    p.posts = NULL
    p.posts_tail = NULL
    p.slow = NULL
    p.slow_tail = NULL
    p.slow_threads = 0
    p.slow_idle = 0
    p.slow_queued = 0
    p.slow_watched = 0
    pf_a32_store(&p.n_inject, 0)
    pf_a32_store(&p.n_loops, 0)
    pf_a32_store(&p.n_posts, 0)
    pf_a32_store(&p.idle, 0)
    pf_a32_store(&p.waiting_callers, 0)
    pf_a32_store(&p.started, 0)
    p.steward = 0
    p.fork_gen = pf_fork_generation()

cdef int start_thread(pthread_t* thread, void* (*run)(void*) noexcept nogil, void* arg) noexcept nogil:
    """pthread_create, with a stack of at least KERNEL_STACK."""
    cdef pthread_attr_t how
    cdef size_t stack = 0
    cdef int error = pthread_attr_init(&how)
    if error:
        return error
    if pthread_attr_getstacksize(&how, &stack) == 0 and stack < KERNEL_STACK:
        pthread_attr_setstacksize(&how, KERNEL_STACK)
    error = pthread_create(thread, &how, run, arg)
    pthread_attr_destroy(&how)
    return error

cdef void start_threads(pf_pool* p) noexcept nogil:
    cdef int32_t i
    pthread_mutex_lock(&p.lock)
    if not pf_a32_load(&p.started):
        for i in range(1, p.n):
            if start_thread(&p.workers[i].thread, thread_main, p.workers + i):
                p.n = i             # fewer threads than asked for
                break
        pf_a32_store(&p.started, 1)
    pthread_mutex_unlock(&p.lock)

cdef public void pf_pool_open(pf_pool* p, int32_t alone) noexcept nogil:
    if p.fork_gen != pf_fork_generation():
        rebuild(p)
    if p.n > 1:
        if not pf_a32_load(&p.started):
            start_threads(p)
    elif alone:
        pthread_mutex_lock(&p.lock)
        if not p.steward and start_thread(&p.workers[0].thread, thread_main, p.workers) == 0:
            p.steward = 1
        pthread_mutex_unlock(&p.lock)

cdef void note_lane(pf_pool* p, int32_t used) noexcept nogil:
    cdef int32_t now = pf_a32_load_rlx(&p.lanes_used)
    while now < used and not pf_a32_cas(&p.lanes_used, now, used):
        now = pf_a32_load_rlx(&p.lanes_used)

cdef public void pf_pool_begin(pf_pool* p, pf_worker* caller, pf_step* s) noexcept nogil:
    cdef int32_t i
    pf_pool_open(p, False)
    caller.pool = p
    caller.step = s
    caller.outer = pf_pool_here()
    set_here(caller)
    caller.lane = NULL
    caller.id = 0                   # where lanes begin to look, also for one that finds none free
    caller.turns = 0
    caller.helps = NULL
    caller.receives = 0
    caller.schedule = pf_schedule_begin(p) if p.seeded else 0
    if p.n > 1:
        for i in range(p.n, PF_MAX_LANES):
            if pf_a32_load_rlx(p.lane_taken + i) == 0 and pf_a32_cas(p.lane_taken + i, 0, 1):
                caller.lane = p.lanes + i
                caller.id = i
                note_lane(p, i + 1)
                break

cdef public void pf_pool_end(pf_worker* caller) noexcept nogil:
    set_here(caller.outer)
    if caller.lane != NULL:
        pf_a32_store(caller.pool.lane_taken + caller.id, 0)
    free(caller.ready.items)
    caller.ready.items = NULL

cdef void wake_one(pf_pool* p) noexcept nogil:
    pf_fence()
    if pf_a32_load_rlx(&p.idle) > 0:
        pthread_mutex_lock(&p.lock)
        pthread_cond_signal(&p.cond)
        pthread_mutex_unlock(&p.lock)

cdef bint anything(pf_pool* p) noexcept nogil:
    """Work for a pool thread exists.  Called by sleepers after announcing themselves."""
    cdef int32_t i
    if pf_a32_load(&p.n_inject) or pf_a32_load(&p.n_loops) or pf_a32_load(&p.n_posts):
        return True
    for i in range(pf_a32_load(&p.lanes_used)):
        if pf_a32_load(&p.lanes[i].n):
            return True
    return False

cdef bint run_something(pf_worker* w, bint* woken) noexcept nogil:
    """One item, loop or post, if there is any."""
    cdef pf_pool* p = w.pool
    cdef pf_item* item = pf_pool_longest_waiting(w)
    if item == NULL:
        item = pf_heap_take(&w.ready, 0) if w.ready.n else pf_pool_find(w)
    if item != NULL:
        if woken[0]:
            woken[0] = False
            if anything(p):
                wake_one(p)
        pf_run_item(w, item)
        return True
    return pf_pool_join(p, NULL) or run_post(p)

cdef void sleep(pf_pool* p) noexcept nogil:
    pthread_mutex_lock(&p.lock)
    pf_a32_add_sc(&p.idle, 1)
    pf_fence()
    if not anything_locked(p) and not pf_a32_load(&p.stop):
        pthread_cond_wait(&p.cond, &p.lock)
    pf_a32_add_sc(&p.idle, -1)
    pthread_mutex_unlock(&p.lock)

cdef bint look_for_work(pf_pool* p, int64_t began, int64_t spin_ns) noexcept nogil:
    """True: there may be some.  False: it was looked for long enough."""
    cdef int32_t i
    while pf_now_ns() - began <= spin_ns:
        for i in range(LOOKS):
            if anything(p) or pf_a32_load_rlx(&p.stop):
                return True
            pf_cpu_relax()
    return False

cdef void work(pf_worker* w) noexcept nogil:
    cdef pf_pool* p = w.pool
    cdef int64_t spin_ns = p.spin_ns, began = 0
    cdef bint woken = False
    while not pf_a32_load_rlx(&p.stop):
        if run_something(w, &woken):
            began = 0
            continue
        if began == 0:
            began = pf_now_ns()
        if not look_for_work(p, began, spin_ns):
            sleep(p)
            woken = True
            spin_ns = p.spin_ns if pf_now_ns() - began < p.spin_ns else max(spin_ns // 2, <int64_t>SPIN_LEAST_NS)

cdef bint is_for(const pf_item* item, const pf_worker* w) noexcept nogil:
    """Callers work for their own step and those started within it; a steward for steps that have no caller."""
    cdef pf_step* home = item.slab.step.leader.home
    if w.step != NULL:
        return home == w.step
    if w.helps != NULL:
        return home == w.helps and home.id == w.helps_id
    return w.pool.n > 1 or home.started != NULL

cdef void work_as_steward(pf_worker* w) noexcept nogil:
    """The own thread of a pool that has only its callers' otherwise."""
    cdef pf_pool* p = w.pool
    cdef pf_item* item
    while not pf_a32_load_rlx(&p.stop):
        item = pf_pool_longest_waiting(w)
        if item == NULL:
            item = pf_heap_take(&w.ready, 0) if w.ready.n else pf_pool_take_injected(w)
        if item == NULL:
            pthread_mutex_lock(&p.lock)
            item = p.inject
            while item != NULL and not is_for(item, w):
                item = item.next
            if item == NULL and not pf_a32_load_rlx(&p.stop):
                pthread_cond_wait(&p.cond, &p.lock)
            pthread_mutex_unlock(&p.lock)
            continue
        pf_run_item(w, item)

cdef bint anything_locked(pf_pool* p) noexcept nogil:
    """Like anything, but a loop that takes no more threads does not keep one awake.  Lock held."""
    cdef int32_t i
    if pf_a32_load(&p.n_inject) or pf_a32_load(&p.n_posts):
        return True
    if pf_pool_open_loop(p, NULL) != NULL:
        return True
    for i in range(pf_a32_load(&p.lanes_used)):
        if pf_a32_load(&p.lanes[i].n):
            return True
    return False

# ---------------------------------------------------------------- items
cdef bint told_helper(pf_step* s) noexcept nogil:
    """Lock held: somebody who helps s slept, and is woken."""
    s = s.leader.home
    if s.started == NULL or not pf_a32_load(&s.started.nudge):
        return False
    pf_started_nudge(s.started)
    return True

cdef public void pf_pool_tell_caller(pf_pool* p, pf_step* s) noexcept nogil:
    """Lock held: the caller of s, if it sleeps, has something to look at."""
    s = s.leader.home
    if pf_a32_load(&s.caller_waits):
        pthread_cond_signal(&s.cond)

cdef public void pf_pool_wake_caller(pf_step* s) noexcept nogil:
    """It has something to look at in pf_step_poll."""
    if s.leader.started != NULL:
        pf_keeper_poll_at(s.leader.started, 1)
        return
    pthread_mutex_lock(&s.pool.lock)
    pf_pool_tell_caller(s.pool, s)
    pthread_mutex_unlock(&s.pool.lock)

cdef public void pf_pool_inject(pf_pool* p, pf_item* item) noexcept nogil:
    cdef pf_step* s = item.slab.step
    pthread_mutex_lock(&p.lock)
    item.next = p.inject
    p.inject = item
    pf_a32_add(&p.n_inject, 1)
    pf_pool_tell_caller(p, s)
    if not told_helper(s) and (p.n > 1 or p.steward):
        pthread_cond_signal(&p.cond)
    pthread_mutex_unlock(&p.lock)

cdef public void pf_pool_lay(pf_pool* p, pf_item* item) noexcept nogil:
    """Into the injector; nobody is woken."""
    pthread_mutex_lock(&p.lock)
    item.next = p.inject
    p.inject = item
    pf_a32_add(&p.n_inject, 1)
    pthread_mutex_unlock(&p.lock)

cdef public int32_t pf_pool_has_for(pf_pool* p, const pf_worker* w) noexcept nogil:
    """Something for w was injected."""
    cdef pf_item* item
    if pf_a32_load(&p.n_inject) == 0:
        return False
    pthread_mutex_lock(&p.lock)
    item = p.inject
    while item != NULL and not is_for(item, w):
        item = item.next
    pthread_mutex_unlock(&p.lock)
    return item != NULL

cdef public void pf_pool_wake(pf_pool* p) noexcept nogil:
    """A thread of the pool's looks whether there is something to do."""
    pthread_mutex_lock(&p.lock)
    pthread_cond_signal(&p.cond)
    pthread_mutex_unlock(&p.lock)

cdef public void pf_pool_publish(pf_worker* w, pf_item* item) noexcept nogil:
    cdef pf_pool* p = w.pool
    cdef pf_step* s = item.slab.step.leader.home
    cdef bint ok = False
    if w.lane != NULL:
        pf_spin_lock(&w.lane.lock)
        ok = pf_heap_push(&w.lane.heap, item)
        pf_a32_store(&w.lane.n, w.lane.heap.n)
        pf_spin_unlock(&w.lane.lock)
    if not ok:
        pf_pool_inject(p, item)
        return
    pf_fence()
    if pf_a32_load_rlx(&p.waiting_callers) > 0 and w.step != s:
        pthread_mutex_lock(&p.lock)
        if pf_a32_load(&s.caller_waits):
            pthread_cond_signal(&s.cond)
        pthread_mutex_unlock(&p.lock)
    if pf_a32_load_rlx(&p.idle) > 0:
        pthread_mutex_lock(&p.lock)
        pthread_cond_signal(&p.cond)
        pthread_mutex_unlock(&p.lock)

cdef pf_item* take_injected(const pf_worker* w, bint oldest) noexcept nogil:
    cdef pf_pool* p = w.pool
    cdef pf_item* item = NULL
    cdef pf_item** at
    cdef pf_item** found = NULL
    if pf_a32_load(&p.n_inject) == 0:
        return NULL
    pthread_mutex_lock(&p.lock)
    at = &p.inject
    while at[0] != NULL and (found == NULL or oldest):
        if is_for(at[0], w):
            found = at
        at = &at[0].next
    if found != NULL:
        item = found[0]
        found[0] = item.next
        item.next = NULL
        pf_a32_add(&p.n_inject, -1)
    pthread_mutex_unlock(&p.lock)
    return item

cdef public pf_item* pf_pool_take_injected(const pf_worker* w) noexcept nogil:
    return take_injected(w, False)

cdef public pf_item* pf_pool_longest_waiting(pf_worker* w) noexcept nogil:
    """Mostly NULL; each FAIR-th time something that others would keep waiting, if there is any."""
    cdef pf_item* item
    w.turns += 1
    if w.turns % FAIR:
        return NULL
    item = take_injected(w, True)
    if item != NULL or w.ready.n == 0 or w.step != NULL:
        return item                 # a caller's own ready items are in construction order
    if w.turns // FAIR & 1 and w.pool.n > 1:
        item = pf_pool_find(w)
    if item == NULL:
        item = pf_heap_take(&w.ready, <int32_t>(w.turns // FAIR % <uint32_t>w.ready.n))
    return item

cdef public pf_item* pf_pool_take_job(pf_pool* p) noexcept nogil:
    cdef pf_item* item
    cdef pf_item** at
    if pf_a32_load(&p.n_inject) == 0:
        return NULL
    pthread_mutex_lock(&p.lock)
    at = &p.inject
    while at[0] != NULL and (at[0].block != <uint32_t>PF_JOB_BLOCK or (<pf_job*>at[0]).fn != NULL):
        at = &at[0].next
    item = at[0]
    if item != NULL:
        at[0] = item.next
        item.next = NULL
        pf_a32_add(&p.n_inject, -1)
    pthread_mutex_unlock(&p.lock)
    return item

cdef pf_item* take_from_lane(pf_lane* lane, const pf_step* only) noexcept nogil:
    cdef pf_item* item = NULL
    cdef int32_t i
    if pf_a32_load(&lane.n) == 0:
        return NULL
    pf_spin_lock(&lane.lock)
    for i in range(lane.heap.n):
        if only == NULL or lane.heap.items[i].slab.step.leader.home == only:
            item = pf_heap_take(&lane.heap, i)
            break
    pf_a32_store(&lane.n, lane.heap.n)
    pf_spin_unlock(&lane.lock)
    return item

cdef public pf_item* pf_pool_find(pf_worker* w) noexcept nogil:
    cdef pf_pool* p = w.pool
    cdef pf_item* item
    cdef int32_t i, used
    cdef const pf_step* only = w.helps
    if only == NULL:
        only = w.step
    if w.lane != NULL:
        item = take_from_lane(w.lane, only)
        if item != NULL:
            return item
    item = pf_pool_take_injected(w)
    if item != NULL or p.n == 1:
        return item
    used = pf_a32_load(&p.lanes_used)
    for i in range(used):
        item = take_from_lane(p.lanes + (w.id + 1 + i) % used, only)
        if item != NULL:
            return item
    return NULL

cdef bint caller_has_work(pf_worker* w) noexcept nogil:
    """Lock held."""
    cdef pf_item* item = w.pool.inject
    cdef int32_t i, k
    cdef pf_lane* lane
    cdef bint found = False
    if pf_a32_load(&w.step.done) or pf_a32_load(&w.step.n_posts) or pf_pool_open_loop(w.pool, w) != NULL:
        return True
    while item != NULL:
        if item.slab.step.leader.home == w.step:
            return True
        item = item.next
    for i in range(pf_a32_load(&w.pool.lanes_used)):
        lane = w.pool.lanes + i
        if pf_a32_load(&lane.n):
            pf_spin_lock(&lane.lock)
            for k in range(lane.heap.n):
                if lane.heap.items[k].slab.step.leader.home == w.step:
                    found = True
            pf_spin_unlock(&lane.lock)
    return found

cdef bint caller_looks(pf_worker* caller, int64_t until_ns) noexcept nogil:
    """True: its step has something for it, or it helped with a loop.  False: it was looked for long enough."""
    cdef pf_pool* p = caller.pool
    cdef pf_step* s = caller.step
    cdef bint found
    cdef int32_t i
    until_ns = min(until_ns, pf_now_ns() + (p.spin_ns if p.n > 1 else SPIN_LEAST_NS))
    while True:
        for i in range(LOOKS):
            if pf_a32_load(&s.done) or pf_a32_load(&s.n_posts) or pf_pool_join(p, caller):
                return True
            pf_cpu_relax()
        if anything(p):
            pthread_mutex_lock(&p.lock)
            found = caller_has_work(caller)
            pthread_mutex_unlock(&p.lock)
            if found:
                return True
        if pf_now_ns() >= until_ns:
            return False

cdef public void pf_pool_wait(pf_worker* caller, int64_t until_ns) noexcept nogil:
    cdef pf_pool* p = caller.pool
    cdef pf_step* s = caller.step
    if caller_looks(caller, until_ns):
        return
    pthread_mutex_lock(&p.lock)
    pf_a32_store(&s.caller_waits, 1)
    pf_a32_add_sc(&p.waiting_callers, 1)
    pf_fence()
    if not caller_has_work(caller):
        pf_cond_wait_until(&s.cond, &p.lock, until_ns)
    pf_a32_store(&s.caller_waits, 0)
    pf_a32_add_sc(&p.waiting_callers, -1)
    pthread_mutex_unlock(&p.lock)

cdef public void pf_pool_step_over(pf_step* s) noexcept nogil:
    cdef pf_pool* p = s.pool
    s = s.leader
    if s.peer != NULL and pf_a32_add(&s.parts_left, -1) != 1:
        return
    if s.started != NULL:
        pf_started_over(s)
        return
    if p.n == 1:                    # only the caller's own thread comes here
        pf_a32_store(&s.done, 1)
        return
    pthread_mutex_lock(&p.lock)
    if pf_a32_load(&s.caller_waits):
        pf_a32_store(&s.done, 1)
        pthread_cond_signal(&s.cond)
    else:
        pf_a32_store(&s.done, 1)    # the last touch: its caller may go on at once
    pthread_mutex_unlock(&p.lock)


# ---------------------------------------------------------------- posts
cdef bint run_post(pf_pool* p) noexcept nogil:
    cdef pf_post* post
    if pf_a32_load(&p.n_posts) == 0:
        return False
    pthread_mutex_lock(&p.lock)
    post = p.posts
    if post != NULL:
        p.posts = post.next
        if p.posts == NULL:
            p.posts_tail = NULL
        pf_a32_add(&p.n_posts, -1)
    pthread_mutex_unlock(&p.lock)
    if post == NULL:
        return False
    post.fn(post.arg)
    free(post)
    return True

cdef void* slow_main(void* arg) noexcept nogil:
    """A thread of the BLOCKING lane: ends after a while without work."""
    cdef pf_pool* p = <pf_pool*>arg
    cdef pf_post* post
    pf_name_thread(b"pyflow blocking", 0)
    pthread_mutex_lock(&p.lock)
    while not pf_a32_load(&p.stop):
        post = p.slow
        if post == NULL:
            p.slow_idle += 1
            pf_cond_wait_until(&p.slow_cond, &p.lock, pf_now_ns() + 2000000000)
            p.slow_idle -= 1
            if p.slow == NULL:
                break
            continue
        p.slow = post.next
        p.slow_queued -= 1
        if p.slow == NULL:
            p.slow_tail = NULL
        pthread_mutex_unlock(&p.lock)
        post.fn(post.arg)
        free(post)
        pthread_mutex_lock(&p.lock)
        p.slow_done += 1
    p.slow_threads -= 1
    pthread_mutex_unlock(&p.lock)
    return NULL

cdef bint add_slow(pf_pool* p, void* (*run)(void*) noexcept nogil) noexcept nogil:
    """Lock held: one more thread of the BLOCKING lane."""
    cdef pthread_t t
    if start_thread(&t, run, p):
        return False
    pthread_detach(t)
    p.slow_threads += 1
    return True

cdef void* slow_watch(void* arg) noexcept nogil:
    """While posts are queued behind USUAL_SLOW threads: where none of these ends for a while, more are started."""
    cdef pf_pool* p = <pf_pool*>arg
    cdef timespec rest
    cdef uint32_t done
    cdef int32_t k
    rest.tv_sec = 0
    rest.tv_nsec = SLOW_STUCK_NS
    pf_name_thread(b"pyflow lane", 0)
    pthread_mutex_lock(&p.lock)
    while p.slow != NULL and not pf_a32_load(&p.stop):
        done = p.slow_done
        pthread_mutex_unlock(&p.lock)
        nanosleep(&rest, NULL)
        pthread_mutex_lock(&p.lock)
        if done == p.slow_done:
            for k in range(p.slow_queued):
                if p.slow_threads >= MAX_SLOW or not add_slow(p, slow_main):
                    break
    p.slow_watched = 0
    p.slow_threads -= 1
    pthread_mutex_unlock(&p.lock)
    return NULL

cdef pf_status post_slow(pf_pool* p, pf_post* post) noexcept nogil:
    """Lock held."""
    if p.slow_tail != NULL:
        p.slow_tail.next = post
    else:
        p.slow = post
    p.slow_tail = post
    p.slow_queued += 1
    if p.slow_queued > p.slow_idle:     # one that was signalled still counts as idle
        if p.slow_threads < USUAL_SLOW:
            add_slow(p, slow_main)
        elif not p.slow_watched:
            p.slow_watched = add_slow(p, slow_watch)
    pthread_cond_signal(&p.slow_cond)
    return PF_OK

cdef public pf_status pf_pool_post(pf_pool* p, int32_t lane, void (*fn)(void*) noexcept nogil, void* arg) noexcept nogil:
    cdef pf_post* post = <pf_post*>malloc(sizeof(pf_post))
    if post == NULL:
        return PF_RESOURCE_EXHAUSTED
    post.fn = fn
    post.arg = arg
    post.next = NULL
    if p.fork_gen != pf_fork_generation():
        rebuild(p)
    pthread_mutex_lock(&p.lock)
    if lane == PF_LANE_BLOCKING or p.n == 1 or not pf_a32_load(&p.started):
        post_slow(p, post)
    else:
        if p.posts_tail != NULL:
            p.posts_tail.next = post
        else:
            p.posts = post
        p.posts_tail = post
        pf_a32_add(&p.n_posts, 1)
        pthread_cond_signal(&p.cond)
    pthread_mutex_unlock(&p.lock)
    return PF_OK

cdef public void pf_pool_post_caller(pf_step* s, pf_post* take) noexcept nogil:
    """First come, first served, on the thread that called run."""
    cdef pf_post** at
    s = s.leader.home
    pthread_mutex_lock(&s.pool.lock)
    take.next = NULL
    if s.started != NULL:           # nobody called run
        post_slow(s.pool, take)
        pthread_mutex_unlock(&s.pool.lock)
        return
    at = &s.posts
    while at[0] != NULL:
        at = &at[0].next
    at[0] = take
    pf_a32_add(&s.n_posts, 1)
    pf_pool_tell_caller(s.pool, s)
    pthread_mutex_unlock(&s.pool.lock)
