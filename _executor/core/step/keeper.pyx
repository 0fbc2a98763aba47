# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The keeper: one thread of the process that looks after steps without a caller's thread (start.pyx).

    pf_keeper_poll_at(h, when) --> a pairing heap by time --.
    pf_started_cancel(h)       --> a queue ------------------+--> the keeper: pins the step, polls or cancels it

It sleeps until the earliest of them.  Cancels only put the step into the queue, so that a chain of ten thousand calls is
cancelled without ten thousand frames of stack, and under any lock.

Invariants
1. Nothing here costs more than log(steps that wait for a clock): 65,536 calls in each other, cancelled, are polled in turn.
2. The keeper holds no lock while it polls or cancels.
3. The heap and the queue hold a reference of each pf_started in them; its step may be over by the time they come to it.

The heap: M. L. Fredman et al., "The pairing heap: a new form of self-adjusting heap", Algorithmica 1 (1986).
"""
from step_h cimport *

cdef extern from *:
    """
    static pthread_mutex_t pf_keeper_lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t pf_keeper_cond;
    """
    pthread_mutex_t pf_keeper_lock
    pthread_cond_t pf_keeper_cond

cdef pthread_t keeper           # all of these with the lock
cdef bint keeper_runs, keeper_ends
cdef int32_t keeper_generation
cdef pf_started* asked_first
cdef pf_started* asked_last
cdef pf_started* earliest       # the heap's root

# ---------------------------------------------------------------- the heap, lock held
cdef pf_started* meld(pf_started* a, pf_started* b) noexcept nogil:
    if a == NULL:
        return b
    if b == NULL:
        return a
    if b.when_ns < a.when_ns:
        a, b = b, a
    b.before = a
    b.beside = a.below
    if a.below != NULL:
        a.below.before = b
    a.below = b
    return a

cdef pf_started* meld_all(pf_started* h) noexcept nogil:
    """h and all beside it: in pairs from the left, then the pairs from the right."""
    cdef pf_started* pairs = NULL
    cdef pf_started* a
    cdef pf_started* b
    while h != NULL:
        a = h
        b = a.beside
        h = b.beside if b != NULL else NULL
        a.beside = NULL
        a.before = NULL
        if b != NULL:
            b.beside = NULL
            b.before = NULL
        a = meld(a, b)
        a.beside = pairs
        pairs = a
    while pairs != NULL:
        a = pairs
        pairs = a.beside
        a.beside = NULL
        h = meld(h, a)
    return h

cdef void take_out(pf_started* h) noexcept nogil:
    global earliest
    cdef pf_started* below = meld_all(h.below)
    if h == earliest:
        earliest = below
    else:
        if h.before.below == h:
            h.before.below = h.beside
        else:
            h.before.beside = h.beside
        if h.beside != NULL:
            h.beside.before = h.before
        earliest = meld(earliest, below)
    h.below = NULL
    h.beside = NULL
    h.before = NULL
    pf_a32_store_rlx(&h.waits, 0)

# ---------------------------------------------------------------- the thread
cdef pf_started* next_of(int64_t now, bint* asked, pf_error* why) noexcept nogil:
    """Lock held: whom to look after, with its reference; NULL: nobody yet.  why: what it asked to fail with; no code: cancelled."""
    global asked_first, asked_last
    cdef pf_started* h = asked_first
    asked[0] = h != NULL
    if h != NULL:
        why.code = PF_OK
        if h.cause != NULL:
            memcpy(why, h.cause, sizeof(pf_error))
        h.queued = 0
        asked_first = h.next
        if asked_first == NULL:
            asked_last = NULL
    elif earliest != NULL and earliest.when_ns <= now:
        h = earliest
        take_out(h)
    return h

cdef pf_started* wait_for_one(bint* asked, pf_error* why) noexcept nogil:
    """NULL: the host ends."""
    cdef pf_started* h = NULL
    pthread_mutex_lock(&pf_keeper_lock)
    while not keeper_ends:
        h = next_of(pf_now_ns(), asked, why)
        if h != NULL:
            break
        if earliest != NULL:
            pf_cond_wait_until(&pf_keeper_cond, &pf_keeper_lock, earliest.when_ns)
        else:
            pthread_cond_wait(&pf_keeper_cond, &pf_keeper_lock)
    pthread_mutex_unlock(&pf_keeper_lock)
    return h

cdef void* keep(void* arg) noexcept nogil:
    cdef bint asked = False
    cdef int64_t again
    cdef pf_error why
    cdef pf_started* h = wait_for_one(&asked, &why)
    cdef pf_step* s
    while h != NULL:
        s = pf_watch_pin(&h.step)
        if s != NULL:
            if asked and why.code:
                pf_step_fail_as(s, &why)
            elif asked:
                pf_step_cancel(s, h.why, h.message)
            else:
                again = pf_step_poll_kept(s)
                if again:
                    pf_keeper_poll_at(h, again)     # before the pin goes, so pf_keeper_forget comes after it
            pf_watch_unpin(s)
        pf_started_unref(h)
        h = wait_for_one(&asked, &why)
    return NULL

cdef bint ready() noexcept nogil:
    """Lock held: its thread runs, in this process."""
    global keeper_runs, keeper_generation, asked_first, asked_last, earliest
    if keeper_ends:
        return False
    if keeper_runs and keeper_generation == pf_fork_generation():
        return True
    if keeper_generation != pf_fork_generation():
        asked_first = NULL      # the parent's
        asked_last = NULL
        earliest = NULL
    pf_cond_init(&pf_keeper_cond)
    keeper_generation = pf_fork_generation()
    keeper_runs = pthread_create(&keeper, NULL, keep, NULL) == 0
    return keeper_runs

cdef public void pf_keeper_stop() noexcept nogil:
    global keeper_ends, keeper_runs
    cdef bint runs
    pthread_mutex_lock(&pf_keeper_lock)
    keeper_ends = True
    runs = keeper_runs and keeper_generation == pf_fork_generation()
    keeper_runs = False
    if runs:
        pthread_cond_signal(&pf_keeper_cond)
    pthread_mutex_unlock(&pf_keeper_lock)
    if runs:
        pthread_join(keeper, NULL)

# ---------------------------------------------------------------- what it is asked for
cdef public void pf_keeper_poll_at(pf_started* h, int64_t when_ns) noexcept nogil:
    global earliest
    pthread_mutex_lock(&pf_keeper_lock)
    if ready() and not (pf_a32_load_rlx(&h.waits) and h.when_ns <= when_ns):
        if pf_a32_load_rlx(&h.waits):
            take_out(h)
        else:
            pf_a32_add_rlx(&h.refs, 1)
        h.when_ns = when_ns
        pf_a32_store_rlx(&h.waits, 1)
        earliest = meld(earliest, h)
        if earliest == h:
            pthread_cond_signal(&pf_keeper_cond)
    pthread_mutex_unlock(&pf_keeper_lock)

cdef public void pf_keeper_forget(pf_started* h) noexcept nogil:
    """Its step is over; the caller has a reference of its own."""
    cdef bint had = False
    if not pf_a32_load_rlx(&h.waits):
        return
    pthread_mutex_lock(&pf_keeper_lock)
    if pf_a32_load_rlx(&h.waits) and keeper_generation == pf_fork_generation():
        take_out(h)
        had = True
    pthread_mutex_unlock(&pf_keeper_lock)
    if had:
        pf_started_unref(h)

cdef void ask(pf_started* h) noexcept nogil:
    """Lock held, the keeper runs."""
    global asked_first, asked_last
    if h.queued:
        return
    h.queued = 1
    h.next = NULL
    pf_a32_add_rlx(&h.refs, 1)
    if asked_last != NULL:
        asked_last.next = h
    else:
        asked_first = h
    asked_last = h
    pthread_cond_signal(&pf_keeper_cond)

cdef public void pf_started_fail(pf_started* h, const pf_error* why) noexcept nogil:
    cdef pf_error* own
    pf_a32_store(&h.asked, 1)           # to be cancelled now would be a consequence
    pthread_mutex_lock(&pf_keeper_lock)
    if ready() and (h.cause == NULL or pf_error_yields(h.cause, why.derived)):
        own = h.cause if h.cause != NULL else <pf_error*>malloc(sizeof(pf_error))
        if own != NULL:
            memcpy(own, why, sizeof(pf_error))
            h.cause = own
        else:
            h.why = why.code
            h.message = b"the step failed elsewhere, and there was no memory to say why"
        ask(h)
    pthread_mutex_unlock(&pf_keeper_lock)

cdef public void pf_started_cancel(pf_started* h, pf_status why, const char* message) noexcept nogil:
    """Once; later reasons are not heard."""
    if h == NULL or not pf_a32_cas(&h.asked, 0, 1):
        return
    pthread_mutex_lock(&pf_keeper_lock)
    h.why = why
    h.message = message
    if ready():
        ask(h)
    pthread_mutex_unlock(&pf_keeper_lock)
