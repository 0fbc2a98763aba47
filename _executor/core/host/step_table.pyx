# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The steps of a task by their key: where the partitions of a step, and what peers send for them, meet.

    ABSENT --put, take, fail--> EARLY --begin, open--> OPEN --clean--> GONE --later--> ABSENT
       `-----------begin, open---------------------------^               ^
       `-----------clean--------------------------------------------------'

A peer may speak of a step before it begins here, and after its last partition here is over: the step's rendezvous is there from
the first that speaks of it until `clean`, which whoever runs the step says when it is over everywhere.  A step that failed
elsewhere before it began fails as it begins.  What comes for a step that is GONE is told so; the last MAX_GONE are remembered.

Peers are not trusted: steps that are EARLY, and the bytes that wait in them, are bounded, and swept after a while.

Invariants
1. A step is in the table once, in one state; n_open, n_early and n_gone count them.
2. A member is called at most while it is a member: pf_task_end returns after that, and nothing is called after it returned.
3. Nothing of a rendezvous is called with the task's lock held but its reference count.

Threads: any.  The task's lock guards the table; `stop` of a member runs under it.
"""
from host_h cimport *

cdef enum:
    EARLY = 1
    OPEN = 2
    GONE = 3
    MAX_GONE = 8192
    FIRST_BITS = 6
    MAX_BITS = 20

cdef struct Open:                   # what the header calls pf_open_step
    pf_open_step* next              # in its bucket
    pf_open_step* older             # EARLY, GONE: in a list, the oldest first
    pf_open_step* newer
    pf_step_key key
    pf_rendezvous* r                # NULL: GONE
    pf_member* members
    pf_error* why                   # NULL: it has not failed
    int64_t since_ns, early_bytes
    int32_t state

# ---------------------------------------------------------------- the table, with the lock held
cdef uint64_t hash_of(pf_task* t, pf_step_key key) noexcept nogil:
    """Salted: who chooses keys does not choose buckets."""
    cdef uint64_t h = (key.session ^ t.incarnation) * <uint64_t>0x9E3779B97F4A7C15
    h = (h ^ (h >> 32) ^ key.step) * <uint64_t>0xD6E8FEB86659FD93
    return h ^ (h >> 32)

cdef bint grown(pf_task* t) noexcept nogil:
    """There is a table, of a good size or as large as it could be made."""
    cdef int32_t bits = FIRST_BITS if t.steps == NULL else t.bits + 2
    cdef int64_t k, n = t.n_open + t.n_early + t.n_gone
    cdef pf_open_step** larger
    cdef pf_open_step** at
    cdef pf_open_step* e
    if t.steps != NULL and (n < (<int64_t>2 << t.bits) or bits > MAX_BITS):
        return True
    larger = <pf_open_step**>calloc(<size_t>1 << bits, sizeof(void*))
    if larger == NULL:
        return t.steps != NULL
    if t.steps != NULL:
        for k in range(<int64_t>1 << t.bits):
            while t.steps[k] != NULL:
                e = t.steps[k]
                t.steps[k] = (<Open*>e).next
                at = larger + (hash_of(t, (<Open*>e).key) & ((<uint64_t>1 << bits) - 1))
                (<Open*>e).next = at[0]
                at[0] = e
        free(t.steps)
    t.steps = larger
    t.bits = bits
    return True

cdef pf_open_step** where(pf_task* t, pf_step_key key) noexcept nogil:
    cdef pf_open_step** at = t.steps + (hash_of(t, key) & ((<uint64_t>1 << t.bits) - 1))
    while at[0] != NULL and not ((<Open*>at[0]).key.session == key.session and (<Open*>at[0]).key.step == key.step):
        at = &(<Open*>at[0]).next
    return at

cdef Open* find(pf_task* t, pf_step_key key) noexcept nogil:
    return <Open*>where(t, key)[0] if t.steps != NULL else NULL

cdef void line_up(pf_open_step** first, pf_open_step** last, Open* e) noexcept nogil:
    """At the end of a list."""
    e.older = last[0]
    e.newer = NULL
    if last[0] != NULL:
        (<Open*>last[0]).newer = <pf_open_step*>e
    else:
        first[0] = <pf_open_step*>e
    last[0] = <pf_open_step*>e

cdef void step_out(pf_open_step** first, pf_open_step** last, Open* e) noexcept nogil:
    if e.older != NULL:
        (<Open*>e.older).newer = e.newer
    else:
        first[0] = e.newer
    if e.newer != NULL:
        (<Open*>e.newer).older = e.older
    else:
        last[0] = e.older

cdef void leave_state(pf_task* t, Open* e) noexcept nogil:
    if e.state == EARLY:
        step_out(&t.early_first, &t.early_last, e)
        t.n_early -= 1
        t.early_bytes -= e.early_bytes
        e.early_bytes = 0
    elif e.state == OPEN:
        t.n_open -= 1
    elif e.state == GONE:
        step_out(&t.gone_first, &t.gone_last, e)
        t.n_gone -= 1
    e.state = 0

cdef void enter_state(pf_task* t, Open* e, int32_t state) noexcept nogil:
    leave_state(t, e)
    e.state = state
    if state == EARLY:
        line_up(&t.early_first, &t.early_last, e)
        t.n_early += 1
    elif state == OPEN:
        t.n_open += 1
    else:
        line_up(&t.gone_first, &t.gone_last, e)
        t.n_gone += 1

cdef void forget_oldest(pf_task* t) noexcept nogil:
    cdef Open* e = <Open*>t.gone_first
    where(t, e.key)[0] = e.next
    leave_state(t, e)
    free(e)

cdef Open* made(pf_task* t, pf_step_key key, int32_t state) noexcept nogil:
    """A new one; NULL: out of memory."""
    cdef Open* e
    cdef pf_open_step** at
    if not grown(t):
        return NULL
    e = <Open*>calloc(1, sizeof(Open))
    if e == NULL:
        return NULL
    if state != GONE:
        e.r = pf_rendezvous_new()
        if e.r == NULL:
            free(e)
            return NULL
    e.key = key
    e.since_ns = pf_now_ns()
    at = where(t, key)
    e.next = at[0]
    at[0] = <pf_open_step*>e
    enter_state(t, e, state)
    return e

# ---------------------------------------------------------------- problems
cdef pf_status no_memory(pf_error* err) noexcept nogil:
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory for the table of steps")

cdef pf_status is_over(pf_step_key key, pf_error* err) noexcept nogil:
    err.derived = 1
    return pf_error_set(err, PF_NOT_FOUND, b"step %016llx:%016llx is over", <unsigned long long>key.session,
                        <unsigned long long>key.step)

cdef pf_status too_early(pf_task* t, pf_step_key key, int64_t bytes, pf_error* err) noexcept nogil:
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"step %016llx:%016llx has not begun here, and %lld others wait for their beginning "
                        b"with %lld bytes: of %lld and %lld allowed there is no room for %lld bytes more",
                        <unsigned long long>key.session, <unsigned long long>key.step, <long long>t.n_early,
                        <long long>t.early_bytes, <long long>t.max_early, <long long>t.max_early_bytes, <long long>bytes)

cdef pf_status spoken_of(pf_task* t, pf_step_key key, int64_t bytes, pf_rendezvous** out, pf_error* err) noexcept nogil:
    """A new reference to the step's rendezvous, the step EARLY if it is ABSENT; `bytes` come to wait in it."""
    cdef Open* e
    cdef pf_status st = PF_OK
    pthread_mutex_lock(&t.lock)
    e = find(t, key)
    if e != NULL and e.state == GONE:
        st = is_over(key, err)
    elif ((e == NULL and t.n_early >= t.max_early)
            or ((e == NULL or e.state == EARLY) and bytes > t.max_early_bytes - t.early_bytes)):
        st = too_early(t, key, bytes, err)
    else:
        if e == NULL:
            e = made(t, key, EARLY)
        if e == NULL:
            st = no_memory(err)
        else:
            if e.state == EARLY:
                e.early_bytes += bytes
                t.early_bytes += bytes
            pf_rendezvous_ref(e.r)
            out[0] = e.r
    pthread_mutex_unlock(&t.lock)
    return st

# ---------------------------------------------------------------- partitions
cdef pf_status opened(pf_task* t, pf_step_key key, Open** out, pf_error* err) noexcept nogil:
    """Lock held: the step is OPEN, unless it is over or failed."""
    cdef Open* e = find(t, key)
    if e != NULL and e.state == GONE:
        return is_over(key, err)
    if e != NULL and e.why != NULL:
        memcpy(err, e.why, sizeof(pf_error))
        return err.code
    if e == NULL:
        e = made(t, key, OPEN)
        if e == NULL:
            return no_memory(err)
    elif e.state == EARLY:
        enter_state(t, e, OPEN)
    out[0] = e
    return PF_OK

cdef public pf_status pf_task_open(pf_task* t, pf_step_key key, pf_error* err) noexcept nogil:
    cdef Open* e = NULL
    pthread_mutex_lock(&t.lock)
    cdef pf_status st = opened(t, key, &e, err)
    pthread_mutex_unlock(&t.lock)
    return st

cdef public pf_status pf_task_begin(pf_task* t, pf_step_key key, pf_member* m, pf_rendezvous** out, pf_error* err) noexcept nogil:
    cdef Open* e = NULL
    pthread_mutex_lock(&t.lock)
    cdef pf_status st = opened(t, key, &e, err)
    if st == PF_OK:
        m.prev = NULL
        m.next = e.members
        if e.members != NULL:
            e.members.prev = m
        e.members = m
        pf_rendezvous_ref(e.r)
        out[0] = e.r
    pthread_mutex_unlock(&t.lock)
    return st

cdef public void pf_task_end(pf_task* t, pf_step_key key, pf_member* m) noexcept nogil:
    cdef Open* e
    pthread_mutex_lock(&t.lock)
    t.n_ended += 1
    if m.prev != NULL:
        m.prev.next = m.next
    else:
        e = find(t, key)
        if e != NULL and e.members == m:
            e.members = m.next
    if m.next != NULL:
        m.next.prev = m.prev
    m.next = NULL
    m.prev = NULL
    pthread_mutex_unlock(&t.lock)

# ---------------------------------------------------------------- peers
cdef public pf_status pf_task_put(pf_task* t, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, pf_error* err) noexcept nogil:
    return pf_task_put_as(t, key, name, take, dead, NULL, NULL, 0, err)

cdef public pf_status pf_task_put_as(pf_task* t, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, pf_left_fn left, void* arg,
                                     int64_t bytes, pf_error* err) noexcept nogil:
    cdef pf_rendezvous* r = NULL
    cdef pf_status st = spoken_of(t, key, take.nbytes if take != NULL else 0, &r, err)
    if st:
        pf_tensor_unref(take)
        if left != NULL:
            left(arg, bytes)
        return st
    st = pf_rendezvous_send_as(r, name, take, dead, left, arg, bytes, err)
    pf_rendezvous_unref(r)
    return st

cdef public pf_status pf_task_offer(pf_task* t, pf_step_key key, pf_str name, int64_t bytes, pf_wanted_fn fn, void* arg,
                                    pf_error* err) noexcept nogil:
    """A peer has a tensor for the step, and keeps it until it is asked for."""
    cdef pf_rendezvous* r = NULL
    cdef pf_status st = spoken_of(t, key, 0, &r, err)
    if st:
        return st
    st = pf_rendezvous_offer(r, name, bytes, fn, arg)
    if st == PF_ALREADY_EXISTS:
        pf_error_set(err, st, b"a tensor was sent twice under key '%.*s' in one step", <int>min(name.len, <int64_t>400), name.data)
    elif st and not pf_rendezvous_error(r, err):
        pf_error_set(err, st, b"out of memory to know of a tensor")
    elif st:
        err.derived = 1
    pf_rendezvous_unref(r)
    return st

cdef public pf_status pf_task_take(pf_task* t, pf_step_key key, pf_str name, const pf_reader* reader, pf_recv_fn fn, void* arg,
                                   pf_error* err) noexcept nogil:
    cdef pf_rendezvous* r = NULL
    cdef pf_status st = spoken_of(t, key, 0, &r, err)
    if st:
        return st
    st = pf_rendezvous_recv(r, name, reader, fn, arg)
    if st == PF_ALREADY_EXISTS:
        pf_error_set(err, st, b"two receivers wait for one key of a step")
    elif st and not pf_rendezvous_error(r, err):
        pf_error_set(err, st, b"out of memory to wait for a tensor")
    pf_rendezvous_unref(r)
    return st

cdef pf_rendezvous* there(pf_task* t, pf_step_key key) noexcept nogil:
    """New reference; NULL: nobody spoke of the step, or it is over."""
    cdef Open* e
    cdef pf_rendezvous* r = NULL
    pthread_mutex_lock(&t.lock)
    e = find(t, key)
    if e != NULL and e.r != NULL:
        r = e.r
        pf_rendezvous_ref(r)
    pthread_mutex_unlock(&t.lock)
    return r

cdef public int32_t pf_task_withdraw(pf_task* t, pf_step_key key, pf_str name, const void* arg) noexcept nogil:
    """1: that offer is none any more, and its function is not called."""
    cdef pf_rendezvous* r = there(t, key)
    cdef int32_t found = 0
    if r != NULL:
        found = pf_rendezvous_withdraw(r, name, arg)
        pf_rendezvous_unref(r)
    return found

cdef public int32_t pf_task_reader(pf_task* t, pf_step_key key, pf_str name, pf_reader* out) noexcept nogil:
    cdef pf_rendezvous* r = there(t, key)
    cdef int32_t found = 0
    if r != NULL:
        found = pf_rendezvous_reader(r, name, out)
        pf_rendezvous_unref(r)
    return found

cdef public int32_t pf_task_error(pf_task* t, pf_step_key key, pf_error* out) noexcept nogil:
    cdef pf_rendezvous* r = there(t, key)
    cdef int32_t found = 0
    pf_error_clear(out)
    if r != NULL:
        found = pf_rendezvous_error(r, out)
        pf_rendezvous_unref(r)
    return found

cdef public int32_t pf_task_over(pf_task* t, pf_step_key key) noexcept nogil:
    """1: the step failed or is over here; what is sent for it goes nowhere."""
    cdef pf_rendezvous* r = there(t, key)
    cdef pf_error why
    cdef int32_t over = 1
    if r != NULL:
        over = pf_rendezvous_error(r, &why)
        pf_rendezvous_unref(r)
    return over

cdef void note(Open* e, const pf_error* why) noexcept nogil:
    """The first reason, but a cause wins over its consequences; every member is told of what is noted."""
    cdef pf_member* m = e.members
    if e.why != NULL and not pf_error_yields(e.why, why.derived):
        return
    if e.why == NULL:
        e.why = <pf_error*>malloc(sizeof(pf_error))
    if e.why != NULL:
        memcpy(e.why, why, sizeof(pf_error))
    while m != NULL:
        m.stop(m.arg, why)
        m = m.next

cdef public pf_status pf_task_fail(pf_task* t, pf_step_key key, const pf_error* why) noexcept nogil:
    """The step fails here, now or as it begins.  PF_NOT_FOUND: it is over; PF_RESOURCE_EXHAUSTED: too many have not begun."""
    cdef pf_rendezvous* r = NULL
    cdef pf_error err
    cdef Open* e
    cdef pf_status st
    pf_error_clear(&err)
    st = spoken_of(t, key, 0, &r, &err)
    if st:
        return st
    pthread_mutex_lock(&t.lock)
    e = find(t, key)
    if e != NULL and e.r == r:
        note(e, why)
    pthread_mutex_unlock(&t.lock)
    pf_rendezvous_fail(r, why)
    pf_rendezvous_unref(r)
    return PF_OK

# ---------------------------------------------------------------- clean-up
cdef void cleaned(pf_error* why) noexcept nogil:
    pf_error_clear(why)
    why.derived = 1
    pf_error_set(why, PF_CANCELLED, b"the step was cleaned up")

cdef pf_rendezvous* bury(pf_task* t, Open* e, const pf_error* why) noexcept nogil:
    """Lock held; GONE from now on.  Its rendezvous, for the caller to fail and to let go, the lock released."""
    cdef pf_rendezvous* r = e.r
    cdef pf_member* m
    note(e, why)
    free(e.why)
    e.why = NULL
    e.r = NULL
    while e.members != NULL:
        m = e.members
        e.members = m.next
        m.next = NULL
        m.prev = NULL
    enter_state(t, e, GONE)
    if t.n_gone > MAX_GONE:
        forget_oldest(t)
    return r

cdef void let_go(pf_rendezvous* r, const pf_error* why) noexcept nogil:
    pf_rendezvous_fail(r, why)
    pf_rendezvous_unref(r)

cdef public void pf_task_clean(pf_task* t, pf_step_key key) noexcept nogil:
    cdef pf_rendezvous* r = NULL
    cdef pf_error why
    cdef Open* e
    cleaned(&why)
    pthread_mutex_lock(&t.lock)
    e = find(t, key)
    if e == NULL:
        made(t, key, GONE)
        if t.n_gone > MAX_GONE:
            forget_oldest(t)
    elif e.state != GONE:
        r = bury(t, e, &why)
    pthread_mutex_unlock(&t.lock)
    if r != NULL:
        let_go(r, &why)

cdef pf_rendezvous* bury_one_of(pf_task* t, uint64_t session, int64_t* at, const pf_error* why) noexcept nogil:
    """The next of the session's steps from place at[0] of the table on; where it grows meanwhile, none moves to before at[0]."""
    cdef pf_rendezvous* r = NULL
    cdef Open* e
    pthread_mutex_lock(&t.lock)
    while r == NULL and t.steps != NULL and at[0] < <int64_t>1 << t.bits:
        e = <Open*>t.steps[at[0]]
        while e != NULL and (e.state == GONE or e.key.session != session):
            e = <Open*>e.next
        if e != NULL:
            r = bury(t, e, why)
        else:
            at[0] += 1
    pthread_mutex_unlock(&t.lock)
    return r

cdef public void pf_task_clean_session(pf_task* t, uint64_t session) noexcept nogil:
    """In passes over the table, the last of which finds nothing: steps may come while others are let go."""
    cdef pf_error why
    cdef pf_rendezvous* r
    cdef int64_t at, n = 1
    cleaned(&why)
    while n:
        at = 0
        n = 0
        r = bury_one_of(t, session, &at, &why)
        while r != NULL:
            let_go(r, &why)
            n += 1
            r = bury_one_of(t, session, &at, &why)

cdef public int64_t pf_task_sweep(pf_task* t, int64_t patience_ns) noexcept nogil:
    cdef int64_t before = pf_now_ns() - patience_ns, n = 0
    cdef pf_rendezvous* r
    cdef pf_error why
    pf_error_clear(&why)
    pf_error_set(&why, PF_DEADLINE_EXCEEDED, b"the step did not begin here for %.1f s", <double>patience_ns / 1e9)
    while True:
        r = NULL
        pthread_mutex_lock(&t.lock)
        if t.early_first != NULL and (<Open*>t.early_first).since_ns <= before:
            r = bury(t, <Open*>t.early_first, &why)
        pthread_mutex_unlock(&t.lock)
        if r == NULL:
            return n
        let_go(r, &why)
        n += 1

cdef public void pf_task_glance(pf_task* t, pf_glance* g) noexcept nogil:
    cdef pf_glance_row row
    cdef pf_str why, none
    cdef int64_t now = pf_now_ns(), k = 0
    cdef Open* e
    memset(&row, 0, sizeof(row))
    none.data = NULL
    none.len = 0
    pthread_mutex_lock(&t.lock)
    while t.steps != NULL and k < <int64_t>1 << t.bits:
        e = <Open*>t.steps[k]
        while e != NULL:
            if e.state != GONE:
                row.kind = PF_GLANCE_STEP
                row.session = e.key.session
                row.step = e.key.step
                row.age_ns = now - e.since_ns
                row.a = e.state
                row.b = e.early_bytes
                why = pf_str_of(e.why.message) if e.why != NULL else none
                pf_glance_add(g, row, why, none, none)
                pf_rendezvous_glance(e.r, g, row)
            e = <Open*>e.next
        k += 1
    pthread_mutex_unlock(&t.lock)

cdef public void pf_task_forget_steps(pf_task* t) noexcept nogil:
    """The task ends: nobody else has it."""
    cdef int64_t k
    cdef Open* e
    if t.steps == NULL:
        return
    for k in range(<int64_t>1 << t.bits):
        while t.steps[k] != NULL:
            e = <Open*>t.steps[k]
            t.steps[k] = e.next
            if e.r != NULL:
                pf_rendezvous_unref(e.r)
            free(e.why)
            free(e)
    free(t.steps)
    t.steps = NULL
