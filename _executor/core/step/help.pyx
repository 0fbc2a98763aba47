# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Helpers: threads that work for a step that was started, where they would only wait for it.

    pf_started_help: own items, the injector's -> run -> ... -> nothing to do: `idle` (a link, say, is received from) -> ...

A HELPER is a worker of the step's pool that takes items of that step, and of steps within it, alone.  What ends an asynchronous call
of the step while the helper receives (a tensor that a Recv waits for) becomes an item of its own heap: the step goes on without a
hand-over.  The pool's threads may work for the step at the same time.

Invariants
1. The helper does not keep the step from ending, on whatever thread: it knows it by address and id, and looks at the pf_started alone.
2. Before a helper sleeps it says so (`nudge`), then looks once more; who injects, or ends the step, does that first and looks at
   `nudge` then.  Descriptors of nudges are never closed, so a late one wakes nobody else's.
3. What a helper leaves behind is the pool's.

Threads: one helper of a step at a time; a second one waits by the clock.
"""
from step_h cimport *

cdef extern from *:
    """
    #include <poll.h>
    #include <sys/eventfd.h>
    #include <unistd.h>
    typedef struct pf_bell { struct pf_bell *next; int32_t fd; } pf_bell;
    static pthread_mutex_t pf_bells_lock = PTHREAD_MUTEX_INITIALIZER;
    static pf_bell *pf_bells;
    static int32_t pf_bells_generation;
    static pf_bell *pf_bell_get(void) {
      pthread_mutex_lock(&pf_bells_lock);
      if (pf_bells_generation != pf_fork_generation()) pf_bells = NULL;         /* those are shared with the parent */
      pf_bells_generation = pf_fork_generation();
      pf_bell *b = pf_bells;
      if (b) pf_bells = b->next;
      pthread_mutex_unlock(&pf_bells_lock);
      if (b) return b;
      b = (pf_bell *)malloc(sizeof *b);
      if (b) b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      if (b && b->fd < 0) free(b), b = NULL;
      return b;
    }
    static void pf_bell_put(pf_bell *b) {
      pthread_mutex_lock(&pf_bells_lock);
      if (pf_bells_generation == pf_fork_generation()) b->next = pf_bells, pf_bells = b;
      pthread_mutex_unlock(&pf_bells_lock);
    }
    static void pf_bell_ring(int32_t fd) {
      uint64_t one = 1;
      if (write(fd, &one, sizeof one) < 0) return;      /* full: it rings already */
    }
    static void pf_bell_quiet(int32_t fd) {
      uint64_t n;
      if (read(fd, &n, sizeof n) < 0) return;
    }
    static void pf_bell_wait(int32_t fd, int64_t ns) {
      struct pollfd f = {.fd = fd, .events = POLLIN};
      struct timespec ts = {ns / 1000000000, ns % 1000000000};
      if (ns > 0) ppoll(&f, 1, &ts, NULL);
    }
    """
    ctypedef struct Bell "pf_bell":
        int32_t fd
    Bell* bell_get "pf_bell_get"() noexcept nogil
    void bell_put "pf_bell_put"(Bell*) noexcept nogil
    void bell_ring "pf_bell_ring"(int32_t) noexcept nogil
    void bell_quiet "pf_bell_quiet"(int32_t) noexcept nogil
    void bell_wait "pf_bell_wait"(int32_t, int64_t) noexcept nogil

cdef enum:
    BRIEF_NS = 20000000             # how long a step that was begun here may keep its starter
    SLICE_NS = 2000000              # where nobody but the clock wakes a helper for what `idle` would have heard

cdef struct Post:                   # a helper at its post
    pf_worker w
    pf_started* h
    const pf_helper* how

cdef bint has_work(Post* p) noexcept nogil:
    return p.w.ready.n or pf_a32_load(&p.h.over) or pf_pool_has_for(p.w.pool, &p.w)

cdef int32_t enough(void* arg) noexcept nogil:
    cdef Post* p = <Post*>arg
    return has_work(p) or (p.how != NULL and p.how.leave(p.how.arg))

cdef public int32_t pf_help_take(pf_item* item) noexcept nogil:
    cdef pf_worker* w = pf_pool_here()
    cdef pf_step* home = item.slab.step.leader.home
    return w != NULL and w.receives and home == w.helps and home.id == w.helps_id and pf_heap_push(&w.ready, item)

cdef public void pf_started_nudge(pf_started* h) noexcept nogil:
    cdef int32_t fd = pf_a32_load(&h.nudge)
    if fd:
        bell_ring(fd - 1)

cdef public void pf_started_wake(pf_started* h) noexcept nogil:
    cdef pf_step* s
    if h == NULL:
        return
    s = pf_watch_pin(&h.step)
    if s != NULL:
        pf_pool_wake(s.pool)
        pf_watch_unpin(s)

cdef void take_post(Post* p, pf_step* leader) noexcept nogil:
    """The step is alive: pinned, or none of its blocks has begun."""
    memset(p, 0, sizeof(Post))
    pf_pool_begin(leader.pool, &p.w, NULL)
    p.w.helps = leader
    p.w.helps_id = leader.id

cdef void leave_post(Post* p) noexcept nogil:
    cdef pf_pool* pool = p.w.pool
    while p.w.ready.n:
        pf_pool_inject(pool, pf_heap_take(&p.w.ready, 0))
    if pf_pool_has_for(pool, &p.w):
        pf_pool_wake(pool)
    pf_pool_end(&p.w)

cdef void work(Post* p, bint injected, int64_t until_ns) noexcept nogil:
    """While there is something to do, until a time."""
    cdef pf_item* item = NULL
    cdef int32_t turns = 0
    while not pf_a32_load(&p.h.over) and not (p.how != NULL and p.how.leave(p.how.arg)):
        item = pf_heap_take(&p.w.ready, 0) if p.w.ready.n else pf_pool_find(&p.w) if injected else NULL
        if item == NULL:
            return
        if injected and pf_pool_has_for(p.w.pool, &p.w):
            pf_pool_wake(p.w.pool)
        turns += 1
        if turns & 15 == 0 or not injected:
            pf_step_poll(item.slab.step.leader.home)
            if pf_now_ns() >= until_ns:
                pf_pool_inject(p.w.pool, item)
                return
        pf_run_item(&p.w, item)

cdef void rest(Post* p, Bell* bell, int64_t until_ns) noexcept nogil:
    """Until there is something to do, or the time."""
    cdef pf_lull lull
    if not pf_a32_cas(&p.h.nudge, 0, bell.fd + 1):      # another thread helps
        bell_wait(bell.fd, min(until_ns - pf_now_ns(), <int64_t>SLICE_NS))
        return
    pf_fence()
    lull.nudge = bell.fd
    lull.until_ns = until_ns
    lull.enough = enough
    lull.self = p
    if not has_work(p):
        p.w.receives = 1
        if p.how == NULL:
            bell_wait(bell.fd, until_ns - pf_now_ns())
        elif not p.how.idle(p.how.arg, &lull):
            bell_wait(bell.fd, min(until_ns - pf_now_ns(), <int64_t>SLICE_NS))
        p.w.receives = 0
    pf_a32_store(&p.h.nudge, 0)
    bell_quiet(bell.fd)

cdef public int32_t pf_started_help(pf_started* h, const pf_helper* how, int64_t until_ns) noexcept nogil:
    cdef Post post
    cdef Bell* bell
    cdef pf_step* leader
    if h == NULL or pf_a32_load(&h.over):
        return True
    leader = pf_watch_pin(&h.step)
    if leader == NULL:                      # about to be over
        return pf_a32_load(&h.over)
    if leader.pool.seeded:
        pf_watch_unpin(leader)
        bell = NULL
    else:
        bell = bell_get()
        if bell != NULL:
            take_post(&post, leader)
            post.h = h
            post.how = how
        pf_watch_unpin(leader)
    if bell == NULL:                        # a seeded schedule has one thread that works; or there is none to be had
        bell_wait(-1, min(until_ns - pf_now_ns(), <int64_t>SLICE_NS))
        return pf_a32_load(&h.over)
    while True:
        work(&post, True, until_ns)
        if pf_a32_load(&h.over) or (how != NULL and how.leave(how.arg)) or pf_now_ns() >= until_ns:
            break
        rest(&post, bell, until_ns)
    leave_post(&post)
    bell_put(bell)
    return pf_a32_load(&h.over)

cdef public void pf_step_here(pf_step* leader) noexcept nogil:
    cdef Post post
    cdef pf_step* s = leader
    cdef pf_step* next
    cdef pf_started* h = leader.started
    pf_a32_add_rlx(&h.refs, 1)
    take_post(&post, leader)
    post.h = h
    pf_pool_open(post.w.pool, True)
    while s != NULL:
        pf_share(s)
        s = s.peer
    s = leader
    while s != NULL:
        next = s.peer                       # once the last has begun all may be over
        pf_step_begin_root(s, &post.w)
        s = next
    work(&post, False, pf_now_ns() + BRIEF_NS)
    leave_post(&post)
    pf_started_unref(h)
