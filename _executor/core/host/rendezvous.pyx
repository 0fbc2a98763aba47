# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Rendezvous: where a Send's tensor meets its Recv, by key, within one step.

A key is ABSENT -> SENT [send] -> ABSENT [recv takes it], or ABSENT -> WAITING [recv] -> ABSENT
[send hands it over], or ABSENT -> OFFERED [offer: it can be had] -> WAITING [recv, which asks for
it] or SENT [send].

Invariants
1. An entry exists only while one side waits for the other; loops of any length leave nothing
   behind.
2. A receiver's function is called exactly once, with no lock held, unless recv itself returned an
   error; so are that of an offer, and that of who wants to know when a tensor waits no longer.
3. After abort nothing waits and nothing is kept; send and recv return the reason, which
   pf_rendezvous_error tells in full.  A later cause replaces a reason that was derived.
4. A receiver that said where it wants its tensor can be asked for that while it waits.

Threads: any.  `lock` guards table, count and status.

    pf_rendezvous_recv(r, key, got, arg);           // one thread
    pf_rendezvous_send(r, key, tensor, 0, &err);    // another: calls got(arg, PF_OK, tensor, 0)
"""
from host_h cimport *

cdef enum:
    SENT = 1
    WAITING = 2
    OFFERED = 3

cdef struct Entry:
    Entry* next
    int32_t kind, dead
    pf_tensor* tensor
    pf_recv_fn fn
    void* arg
    pf_reader reader
    uint64_t hash
    int64_t since_ns, bytes
    pf_left_fn left     # SENT; NULL: nobody wants to know
    pf_wanted_fn wanted # OFFERED
    pf_str key          # right behind this struct

cdef struct Rendezvous:
    pf_a32 refs
    pthread_mutex_t lock
    pf_status why       # PF_OK until aborted
    pf_error* cause     # NULL: no more is known than `why`
    int32_t n, buckets  # a power of two
    Entry** table


cdef public pf_rendezvous* pf_rendezvous_new() noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>calloc(1, sizeof(Rendezvous))
    if r == NULL:
        return NULL
    r.buckets = 16
    r.table = <Entry**>calloc(16, sizeof(void*))
    if r.table == NULL:
        free(r)
        return NULL
    pf_a32_store(&r.refs, 1)
    pthread_mutex_init(&r.lock, NULL)
    return <pf_rendezvous*>r


cdef public void pf_rendezvous_ref(pf_rendezvous* rendezvous) noexcept nogil:
    pf_a32_add_rlx(&(<Rendezvous*>rendezvous).refs, 1)


cdef public void pf_rendezvous_unref(pf_rendezvous* rendezvous) noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    if r == NULL or not pf_a32_dec_last(&r.refs):
        return
    pf_rendezvous_abort(rendezvous, PF_CANCELLED)
    pthread_mutex_destroy(&r.lock)
    free(r.cause)
    free(r.table)
    free(r)


# ---------------------------------------------------------------- the table, with the lock held
cdef Entry** find(Rendezvous* r, pf_str key, uint64_t hash) noexcept nogil:
    """Where the entry of `key` hangs; *result is NULL if there is none."""
    cdef Entry** at = &r.table[hash & <uint64_t>(r.buckets - 1)]
    while at[0] != NULL and not (at[0].hash == hash and pf_str_eq(at[0].key, key)):
        at = &at[0].next
    return at


cdef Entry* take(Rendezvous* r, Entry** at) noexcept nogil:
    cdef Entry* e = at[0]
    at[0] = e.next
    r.n -= 1
    return e


cdef void grow(Rendezvous* r) noexcept nogil:
    cdef int32_t i, buckets = 4 * r.buckets
    cdef Entry** table
    cdef Entry* e
    if r.n < 2 * r.buckets or buckets > (1 << 24):
        return
    table = <Entry**>calloc(buckets, sizeof(void*))
    if table == NULL:
        return
    for i in range(r.buckets):
        while r.table[i] != NULL:
            e = r.table[i]
            r.table[i] = e.next
            e.next = table[e.hash & <uint64_t>(buckets - 1)]
            table[e.hash & <uint64_t>(buckets - 1)] = e
    free(r.table)
    r.table = table
    r.buckets = buckets


cdef Entry* put(Rendezvous* r, pf_str key, uint64_t hash, int32_t kind) noexcept nogil:
    cdef Entry* e = <Entry*>calloc(1, sizeof(Entry) + <size_t>key.len + 1)
    cdef Entry** head
    if e == NULL:
        return NULL
    grow(r)
    head = &r.table[hash & <uint64_t>(r.buckets - 1)]
    e.kind = kind
    e.hash = hash
    e.since_ns = pf_now_ns()
    e.key.data = <char*>e + sizeof(Entry)
    e.key.len = key.len
    if key.len:
        memcpy(<void*>e.key.data, key.data, <size_t>key.len)
    e.next = head[0]
    head[0] = e
    r.n += 1
    return e


# ---------------------------------------------------------------- send, recv, abort
cdef pf_status send_problem(Rendezvous* r, pf_status s, pf_str key, pf_error* err) noexcept nogil:
    cdef pf_error cause
    cdef int len = <int>(key.len if key.len < 400 else 400)
    if s == PF_ALREADY_EXISTS:
        return pf_error_set(err, s, b"a tensor was sent twice under key '%.*s' in one step", len,
                            key.data)
    if s == PF_RESOURCE_EXHAUSTED:
        return pf_error_set(err, s, b"no memory to send under key '%.*s'", len, key.data)
    pf_rendezvous_error(<pf_rendezvous*>r, &cause)
    err.derived = 1
    return pf_error_set(err, s, b"the step was aborted before key '%.*s' was sent: %.3000s",
                        len, key.data, cause.message)


cdef public pf_status pf_rendezvous_send(pf_rendezvous* rendezvous, pf_str key,
                                         pf_tensor* take_tensor,
                                         int32_t dead, pf_error* err) noexcept nogil:
    return pf_rendezvous_send_as(rendezvous, key, take_tensor, dead, NULL, NULL, 0, err)


cdef bint stored(Rendezvous* r, Entry* e, const Entry* what, Entry* offer) noexcept nogil:
    """Lock held: it waits in e, a new entry or an offer's, which is given back."""
    if e == NULL:
        return False
    if e.kind == OFFERED:
        offer[0] = e[0]
    e.kind = SENT
    e.tensor = what.tensor
    e.dead = what.dead
    e.left = what.left
    e.arg = what.arg
    e.bytes = what.bytes
    return True


cdef public pf_status pf_rendezvous_send_as(pf_rendezvous* rendezvous, pf_str key,
                                            pf_tensor* take_tensor, int32_t dead, pf_left_fn left,
                                            void* arg, int64_t bytes,
                                            pf_error* err) noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e = NULL
    cdef Entry** at
    cdef Entry what
    cdef Entry offer
    cdef bint waits = False
    cdef pf_status s
    memset(&what, 0, sizeof(Entry))
    what.tensor = take_tensor
    what.dead = dead
    what.left = left
    what.arg = arg
    what.bytes = bytes
    offer.kind = 0
    pthread_mutex_lock(&r.lock)
    s = r.why
    at = find(r, key, hash)
    if s == PF_OK and (at[0] == NULL or at[0].kind == OFFERED):
        waits = stored(r, at[0] if at[0] != NULL else put(r, key, hash, SENT), &what, &offer)
        if not waits:
            s = PF_RESOURCE_EXHAUSTED
    elif s == PF_OK and at[0].kind == SENT:
        s = PF_ALREADY_EXISTS
    elif s == PF_OK:
        e = take(r, at)
    pthread_mutex_unlock(&r.lock)
    if offer.kind:
        offer.wanted(offer.arg, 1)
    if waits:
        return PF_OK
    if s != PF_OK:
        pf_tensor_unref(take_tensor)
        send_problem(r, s, key, err)
    else:
        e.fn(e.arg, PF_OK, take_tensor, dead)
        free(e)
    if left != NULL:
        left(arg, bytes)
    return s


cdef public pf_status pf_rendezvous_offer(pf_rendezvous* rendezvous, pf_str key, int64_t bytes,
                                          pf_wanted_fn fn, void* arg) noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e
    cdef bint awaited = False
    cdef pf_status s
    pthread_mutex_lock(&r.lock)
    s = r.why
    e = find(r, key, hash)[0]
    if s == PF_OK and e == NULL:
        e = put(r, key, hash, OFFERED)
        if e != NULL:
            e.wanted = fn
            e.arg = arg
            e.bytes = bytes
        else:
            s = PF_RESOURCE_EXHAUSTED
    elif s == PF_OK and e.kind != WAITING:
        s = PF_ALREADY_EXISTS
    elif s == PF_OK:
        awaited = True
    pthread_mutex_unlock(&r.lock)
    if awaited:
        fn(arg, 1)
    return s


cdef public int32_t pf_rendezvous_withdraw(pf_rendezvous* rendezvous, pf_str key, const void* arg) noexcept nogil:
    """1: the offer of `arg` is none any more, and its function is not called."""
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry** at
    cdef Entry* e = NULL
    pthread_mutex_lock(&r.lock)
    at = find(r, key, hash)
    if at[0] != NULL and at[0].kind == OFFERED and at[0].arg == arg:
        e = take(r, at)
    pthread_mutex_unlock(&r.lock)
    free(e)
    return e != NULL


cdef public pf_status pf_rendezvous_recv(pf_rendezvous* rendezvous, pf_str key, const pf_reader* reader,
                                         pf_recv_fn fn, void* arg) noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e = NULL
    cdef Entry** at
    cdef Entry offer
    cdef pf_status s
    offer.kind = 0
    pthread_mutex_lock(&r.lock)
    s = r.why
    at = find(r, key, hash)
    if s == PF_OK and (at[0] == NULL or at[0].kind == OFFERED):
        e = at[0]
        if e == NULL:
            e = put(r, key, hash, WAITING)
        else:
            offer = e[0]
            e.kind = WAITING
        if e != NULL:
            e.fn = fn
            e.arg = arg
            if reader != NULL:
                e.reader = reader[0]
            e = NULL
        else:
            s = PF_RESOURCE_EXHAUSTED
    elif s == PF_OK and at[0].kind == WAITING:
        s = PF_ALREADY_EXISTS
    elif s == PF_OK:
        e = take(r, at)
    pthread_mutex_unlock(&r.lock)
    if offer.kind:
        offer.wanted(offer.arg, 1)
    if e != NULL:
        fn(arg, PF_OK, e.tensor, e.dead)
        if e.left != NULL:
            e.left(e.arg, e.bytes)
        free(e)
    return s


cdef public int32_t pf_rendezvous_reader(pf_rendezvous* rendezvous, pf_str key, pf_reader* out) noexcept nogil:
    """1: somebody waits for the key, and said where it wants the tensor."""
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e
    cdef int32_t found = 0
    pthread_mutex_lock(&r.lock)
    e = find(r, key, hash)[0]
    if e != NULL and e.kind == WAITING and e.reader.home != NULL:
        out[0] = e.reader
        found = 1
    pthread_mutex_unlock(&r.lock)
    return found


cdef public void pf_rendezvous_glance(pf_rendezvous* rendezvous, pf_glance* g, pf_glance_row row) noexcept nogil:
    """A row per key that one side waits with; row: of the step."""
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef pf_str none
    cdef int64_t now = pf_now_ns()
    cdef Entry* e
    cdef int32_t i
    none.data = NULL
    none.len = 0
    row.kind = PF_GLANCE_KEY
    pthread_mutex_lock(&r.lock)
    for i in range(r.buckets):
        e = r.table[i]
        while e != NULL:
            row.age_ns = now - e.since_ns
            row.a = SENT if e.kind == OFFERED else e.kind
            row.b = e.tensor.nbytes if e.tensor != NULL else e.bytes
            pf_glance_add(g, row, e.key, none, none)
            e = e.next
    pthread_mutex_unlock(&r.lock)


cdef public int32_t pf_rendezvous_error(pf_rendezvous* rendezvous, pf_error* out) noexcept nogil:
    """Why it was aborted; 0: it was not."""
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef pf_status why
    pf_error_clear(out)
    pthread_mutex_lock(&r.lock)
    why = r.why
    if why and r.cause != NULL:
        memcpy(out, r.cause, sizeof(pf_error))
    pthread_mutex_unlock(&r.lock)
    if why and not out.code:
        pf_error_set(out, why, b"the step is over")
    return why != PF_OK


cdef public void pf_rendezvous_abort(pf_rendezvous* rendezvous, pf_status why) noexcept nogil:
    abort_all(<Rendezvous*>rendezvous, why if why != PF_OK else <pf_status>PF_CANCELLED, NULL)


cdef public void pf_rendezvous_fail(pf_rendezvous* rendezvous, const pf_error* why) noexcept nogil:
    abort_all(<Rendezvous*>rendezvous, why.code, why)


cdef void note(Rendezvous* r, pf_status why, const pf_error* cause) noexcept nogil:
    """Lock held: the first reason, but a cause wins over its consequences."""
    if r.why and not (cause != NULL and r.cause != NULL and pf_error_yields(r.cause, cause.derived)):
        return
    r.why = why
    if cause != NULL and r.cause == NULL:
        r.cause = <pf_error*>malloc(sizeof(pf_error))
    if cause != NULL and r.cause != NULL:
        memcpy(r.cause, cause, sizeof(pf_error))


cdef void abort_all(Rendezvous* r, pf_status why, const pf_error* cause) noexcept nogil:
    cdef Entry* all = NULL
    cdef Entry* e
    cdef int32_t i
    pthread_mutex_lock(&r.lock)
    note(r, why, cause)
    for i in range(r.buckets):
        while r.table[i] != NULL:
            e = take(r, &r.table[i])
            e.next = all
            all = e
    why = r.why
    pthread_mutex_unlock(&r.lock)
    while all != NULL:
        e = all
        all = e.next
        if e.kind == WAITING:
            e.fn(e.arg, why, NULL, 0)
        elif e.kind == OFFERED:
            e.wanted(e.arg, 0)
        else:
            pf_tensor_unref(e.tensor)
            if e.left != NULL:
                e.left(e.arg, e.bytes)
        free(e)
