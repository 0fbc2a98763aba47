# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Steps that can last, while they run: so that others can cancel them, and say what they wait for.

A plan is WATCHED if a step of it may take long: a loop, an asynchronous kernel, a kernel declared expensive; or if it uses what
ends with the host: a device, another plugin's kernels.  Its steps are in one list of the process from pf_watch_begin to
pf_watch_end; by that list peers find them too (pf_running_rendezvous).

Invariants
1. A listed step is alive; who looks at one without the lock has PINNED it, and pf_watch_end waits for pins.
2. No cancel callback runs under the lock.
3. A step is listed before its first kernel runs, so a peer that knows its id finds it until it is over.

Threads: any.  `lock` guards the list, the links and the pins; step.lock is taken under it, never the other way round.

    pf_watch_cancel(state, PF_CANCELLED, "the session was closed");
    pf_watch_report(text, sizeof text);     // which nodes of which steps have not completed, and what waits for them
"""
from step_h cimport *

cdef enum:
    NAMED_BLOCKS = 12           # of each kind in a report
    WAITED = 3

cdef extern from *:
    """
    static pthread_mutex_t pf_watch_lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t pf_watch_unpinned = PTHREAD_COND_INITIALIZER;
    """
    pthread_mutex_t pf_watch_lock
    pthread_cond_t pf_watch_unpinned

cdef pf_step* first
cdef bint stopped               # the host ends: with the lock

cdef public void pf_watch_begin(pf_step* s) noexcept nogil:
    global first
    cdef bint late
    s.began_ns = pf_now_ns()
    s.pins = 0
    s.prev_running = NULL
    pthread_mutex_lock(&pf_watch_lock)
    s.next_running = first
    if first != NULL:
        first.prev_running = s
    first = s
    late = stopped
    pthread_mutex_unlock(&pf_watch_lock)
    if late:
        pf_step_cancel(s, PF_CANCELLED, b"the process is about to end: plugins were stopped")
    if pf_state_ended(s.plan.state):    # pf_watch_cancel may have come too early to see it in the list
        pf_step_cancel(s, PF_CANCELLED, b"the session was closed")

cdef public void pf_watch_end(pf_step* s) noexcept nogil:
    global first
    pthread_mutex_lock(&pf_watch_lock)
    if s.prev_running != NULL:
        s.prev_running.next_running = s.next_running
    else:
        first = s.next_running
    if s.next_running != NULL:
        s.next_running.prev_running = s.prev_running
    if s.started != NULL:
        s.started.step = NULL
    while s.pins:
        pthread_cond_wait(&pf_watch_unpinned, &pf_watch_lock)
    if stopped:
        pthread_cond_broadcast(&pf_watch_unpinned)
    pthread_mutex_unlock(&pf_watch_lock)

cdef public pf_rendezvous* pf_running_rendezvous(int64_t step, pf_task** task, pf_status* why) noexcept nogil:
    """Made here if no kernel of the step has asked for it yet: what a peer sends early waits in it.  task (may be NULL): a new
    reference to the step's."""
    cdef pf_step* s
    cdef pf_rendezvous* r = NULL
    pthread_mutex_lock(&pf_watch_lock)
    s = first
    while s != NULL and s.id != step:
        s = s.next_running
    if s != NULL:
        r = pf_step_rendezvous(s)
        if r != NULL:
            pf_rendezvous_ref(r)
            if task != NULL:
                task[0] = pf_step_task(s)
                pf_task_ref(task[0])
    pthread_mutex_unlock(&pf_watch_lock)
    if r == NULL:
        why[0] = (PF_RESOURCE_EXHAUSTED if s != NULL else PF_UNAVAILABLE if step > pf_last_step() else
                  PF_INVALID_ARGUMENT if step <= 0 else PF_NOT_FOUND)
    return r

cdef public pf_step* pf_watch_pin(pf_step** where) noexcept nogil:
    cdef pf_step* s
    pthread_mutex_lock(&pf_watch_lock)
    s = where[0]
    if s != NULL:
        s.pins += 1
    pthread_mutex_unlock(&pf_watch_lock)
    return s

cdef public void pf_watch_unpin(pf_step* s) noexcept nogil:
    pthread_mutex_lock(&pf_watch_lock)
    s.pins -= 1
    pthread_cond_broadcast(&pf_watch_unpinned)
    pthread_mutex_unlock(&pf_watch_lock)

cdef int32_t cancel_all(pf_state* state, pf_status why, const char* message) noexcept nogil:
    """Steps of the state, or all (NULL), that are listed now; how many were not cancelled yet.  One pass: the step it is at is
    pinned, so it stays in the list."""
    cdef int32_t n = 0
    cdef pf_step* at = NULL
    cdef pf_step* s
    while True:
        pthread_mutex_lock(&pf_watch_lock)
        s = first if at == NULL else at.next_running
        while s != NULL and ((state != NULL and s.plan.state != state) or pf_a32_load(&s.cancelled)):
            s = s.next_running
        if s != NULL:
            s.pins += 1
        if at != NULL:
            at.pins -= 1
            pthread_cond_broadcast(&pf_watch_unpinned)
        pthread_mutex_unlock(&pf_watch_lock)
        if s == NULL:
            return n
        pf_step_cancel(s, why, message)
        n += 1
        at = s

cdef public int32_t pf_watch_cancel(pf_state* state, pf_status why, const char* message) noexcept nogil:
    """Cancels every watched step of the state, and each that begins later; how many there were."""
    pf_state_end(state)
    return cancel_all(state, why, message)

cdef public int32_t pf_watch_stop(int64_t patience_ns) noexcept nogil:
    global stopped
    cdef int64_t until = pf_now_ns() + patience_ns
    cdef int32_t over
    pthread_mutex_lock(&pf_watch_lock)
    stopped = True
    pthread_mutex_unlock(&pf_watch_lock)
    cancel_all(NULL, PF_CANCELLED, b"the process is about to end")
    pthread_mutex_lock(&pf_watch_lock)
    while first != NULL and pf_now_ns() < until:
        pf_cond_wait_until(&pf_watch_unpinned, &pf_watch_lock, until)
    over = first == NULL
    pthread_mutex_unlock(&pf_watch_lock)
    return over

# ---------------------------------------------------------------- reports
cdef pf_step_key key_of(pf_step* s) noexcept nogil:
    """Its step's; of a function that no step waits for itself, as datasets call them: step 0, of its session if a step of that runs.
    The lock is held."""
    cdef pf_step* outer = s.home.leader
    cdef pf_step* other = first
    cdef pf_step_key key
    if outer.task != NULL:
        return outer.key
    key.session = 0
    key.step = 0 if outer.plan.of_library else <uint64_t>outer.id
    while other != NULL and outer.plan.of_library:
        if other.task != NULL and other.plan.state == outer.plan.state and outer.plan.state != NULL:
            key.session = other.key.session
        other = other.next_running
    return key

cdef public void pf_watch_glance(pf_task* task, pf_glance* g) noexcept nogil:
    cdef pf_step* s
    pthread_mutex_lock(&pf_watch_lock)
    s = first
    while s != NULL:
        if pf_step_task(s) == task:
            pf_step_glance(s, key_of(s), g)
        s = s.next_running
    pthread_mutex_unlock(&pf_watch_lock)

cdef struct Text:
    char* at
    int64_t room

cdef void say(Text* t, int32_t n) noexcept nogil:
    """After an snprintf to t.at with t.room that wanted n characters."""
    cdef int64_t wrote = n
    if wrote > t.room - 1:
        wrote = max(t.room - 1, <int64_t>0)
    t.at += wrote
    t.room -= wrote

cdef const pf_node_info* node_of(pf_plan* plan, uint32_t block) noexcept nogil:
    cdef const pf_block* b = plan.blocks + block
    return plan.instrs[b.begin].about if b.end > b.begin else NULL

cdef void say_node(Text* t, const pf_node_info* n, const char* before) noexcept nogil:
    if n != NULL:
        say(t, snprintf(t.at, t.room, b"%s%.*s (%.*s)", before, <int>min(n.name.len, 120), n.name.data,
                        <int>min(n.op.len, 60), n.op.data))
        if n.foreign:
            say(t, snprintf(t.at, t.room, b" of plugin '%.100s'", n.kernel.plugin_id))

cdef void say_awaited(Text* t, pf_slab* s, uint32_t block) noexcept nogil:
    """Which blocks the block still waits for."""
    cdef pf_plan* plan = s.step.plan
    cdef uint32_t b, k
    cdef int32_t n = 0
    for b in range(s.def_.block_begin, s.def_.block_begin + s.def_.n_blocks):
        if pf_a32_load(&s.items[b - s.def_.block_begin].pending) == PF_BLOCK_DONE:
            continue
        for k in range(plan.blocks[b].succ_begin, plan.blocks[b].succ_end):
            if plan.succs[k] == block and n < WAITED:
                say_node(t, node_of(plan, b), b" for " if n == 0 else b", ")
                n += 1

cdef void say_slab(Text* t, pf_slab* s) noexcept nogil:
    cdef uint32_t k, at
    cdef int32_t running = 0, waiting = 0, pending
    for k in range(s.def_.n_blocks):
        at = s.def_.block_begin + k
        pending = pf_a32_load(&s.items[k].pending)
        if node_of(s.step.plan, at) == NULL or pending == PF_BLOCK_DONE:
            continue
        if pending == PF_BLOCK_RUNNING:
            running += 1
            if running <= NAMED_BLOCKS:
                say_node(t, node_of(s.step.plan, at), b"\n    running: ")
                if s.step.plan.blocks[at].end - s.step.plan.blocks[at].begin > 1:
                    say(t, snprintf(t.at, t.room, b" or one of the %u nodes after it",
                                    s.step.plan.blocks[at].end - s.step.plan.blocks[at].begin - 1))
        elif pending > 0:
            waiting += 1
            if waiting <= NAMED_BLOCKS:
                say_node(t, node_of(s.step.plan, at), b"\n    waiting: ")
                say_awaited(t, s, at)
    if running > NAMED_BLOCKS or waiting > NAMED_BLOCKS:
        say(t, snprintf(t.at, t.room, b"\n    ... %d running and %d waiting in all", running, waiting))

cdef void say_calls(Text* t, pf_step* s) noexcept nogil:
    cdef pf_call* c
    cdef int32_t n = 0
    pthread_mutex_lock(&s.lock)
    c = s.deferred
    while c != NULL:
        n += 1
        if n <= NAMED_BLOCKS:
            say_node(t, c.node, b"\n    not completed: ")
        c = c.next_cancel
    pthread_mutex_unlock(&s.lock)
    if n > NAMED_BLOCKS:
        say(t, snprintf(t.at, t.room, b"\n    ... %d asynchronous kernels in all", n))

cdef public int64_t pf_watch_report(char* text, int64_t room) noexcept nogil:
    """All watched steps; the length.  Slots and counters are read while they change: a report is a glance."""
    cdef Text t
    cdef pf_step* s
    cdef pf_step* part
    cdef int32_t n = 0
    t.at = text
    t.room = room
    text[0] = 0
    pthread_mutex_lock(&pf_watch_lock)
    s = first
    while s != NULL:
        n += 1
        say(&t, snprintf(t.at, t.room, b"%sstep %lld, running for %.1f s, %u nodes:", b"\n" if n > 1 else b"", <long long>s.id,
                         <double>(pf_now_ns() - s.began_ns) / 1e9, s.plan.n_nodes))
        part = s
        while part != NULL:
            say_slab(&t, &part.root)
            say_calls(&t, part)
            part = part.peer
        s = s.next_running
    pthread_mutex_unlock(&pf_watch_lock)
    if n == 0:
        say(&t, snprintf(t.at, t.room, b"no step that could last is running"))
    return room - t.room
