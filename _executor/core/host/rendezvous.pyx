# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Rendezvous: where a Send's tensor meets its Recv, by key, within one step.

A key is ABSENT -> SENT [send] -> ABSENT [recv takes it], or ABSENT -> WAITING [recv] -> ABSENT
[send hands it over].

Invariants
1. An entry exists only while one side waits for the other; loops of any length leave nothing
   behind.
2. A receiver's function is called exactly once, with no lock held, unless recv itself returned an
   error.
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

cdef struct Entry:
    Entry* next
    int32_t kind, dead
    pf_tensor* tensor
    pf_recv_fn fn
    void* arg
    pf_reader reader
    uint64_t hash
    int64_t since_ns
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
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e = NULL
    cdef Entry** at
    cdef pf_status s
    pthread_mutex_lock(&r.lock)
    s = r.why
    at = find(r, key, hash)
    if s == PF_OK and at[0] == NULL:
        e = put(r, key, hash, SENT)
        if e != NULL:
            e.tensor = take_tensor
            e.dead = dead
            pthread_mutex_unlock(&r.lock)
            return PF_OK
        s = PF_RESOURCE_EXHAUSTED
    elif s == PF_OK and at[0].kind == SENT:
        s = PF_ALREADY_EXISTS
    elif s == PF_OK:
        e = take(r, at)
    pthread_mutex_unlock(&r.lock)
    if s != PF_OK:
        pf_tensor_unref(take_tensor)
        return send_problem(r, s, key, err)
    e.fn(e.arg, PF_OK, take_tensor, dead)
    free(e)
    return PF_OK


cdef public pf_status pf_rendezvous_recv(pf_rendezvous* rendezvous, pf_str key, const pf_reader* reader,
                                         pf_recv_fn fn, void* arg) noexcept nogil:
    cdef Rendezvous* r = <Rendezvous*>rendezvous
    cdef uint64_t hash = pf_str_hash(key)
    cdef Entry* e = NULL
    cdef Entry** at
    cdef pf_status s
    pthread_mutex_lock(&r.lock)
    s = r.why
    at = find(r, key, hash)
    if s == PF_OK and at[0] == NULL:
        e = put(r, key, hash, WAITING)
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
    if e != NULL:
        fn(arg, PF_OK, e.tensor, e.dead)
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
            row.a = e.kind
            row.b = e.tensor.nbytes if e.tensor != NULL else 0
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
        else:
            pf_tensor_unref(e.tensor)
        free(e)
