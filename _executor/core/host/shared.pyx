# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""What kernels made of constants (packed weights), once for all plans of the process.

An object is found by its constant (element type, shape, a keyed digest of its bytes:
values/digest.h), its pf_type's id and the form that the kernel asked for.  So it serves every node,
plan, session and thread whose constant has the same elements, wherever they lie.

    (absent) -> MAKING [pf_shared_find: the first who asks] -> there, or absent where making failed;
    there -> absent [pf_shared_unref: the last user went]; whoever asks meanwhile waits for `made`

Invariants
1. An entry lives as long as a user holds it; the table itself holds none.
2. The constant is not kept: where all kernels took their forms its memory goes.
3. `make` and `unref` are called with no lock held.

Threads: any; one lock.

    pf_shared *s = pf_shared_find(constant, digest, form, &type, make, ctx, arg, &status);
    use(s->obj);
    pf_shared_unref(s);
"""
from host_h cimport *

cdef enum:
    BUCKETS = 1024

cdef struct Shared:
    pf_shared base          # first: what users see
    Shared* next
    uint64_t hash
    pf_digest digest
    pf_type type            # full-size copy
    int32_t refs, there     # both under the lock
    int64_t constant        # bytes of what follows: the constant's type and shape
    int64_t form
    char* key

cdef struct Table:
    pthread_mutex_t lock
    pthread_cond_t made
    Shared* bucket[1024]
    int64_t entries

cdef Table table
cdef pf_digest_key secret

cdef extern from *:
    """
    static pthread_once_t pf_shared_once = PTHREAD_ONCE_INIT;
    """
    ctypedef struct pthread_once_t:
        pass
    pthread_once_t pf_shared_once
    int pthread_once(pthread_once_t*, void (*)() noexcept nogil) noexcept nogil


cdef void start() noexcept nogil:
    pthread_mutex_init(&table.lock, NULL)
    pthread_cond_init(&table.made, NULL)
    pf_digest_key_from(&secret, pf_entropy())


cdef public pf_digest pf_shared_digest(const DLTensor* t) noexcept nogil:
    """Of the elements of a constant in host memory that is no string."""
    pthread_once(&pf_shared_once, start)
    return pf_digest_of(&secret, t.data, <uint64_t>pf_tensor_of(t).nbytes)


cdef Shared** find(uint64_t hash, pf_digest digest, const char* id, pf_str shape,
                   pf_str form) noexcept nogil:
    """With the lock held: where the entry hangs, or NULL hangs for a new one."""
    cdef Shared** at = &table.bucket[hash % BUCKETS]
    cdef Shared* e
    while at[0] != NULL:
        e = at[0]
        if (e.hash == hash and e.digest.a == digest.a and e.digest.b == digest.b
                and e.constant == shape.len and e.form == form.len
                and memcmp(e.key, shape.data, <size_t>shape.len) == 0
                and (form.len == 0 or memcmp(e.key + shape.len, form.data, <size_t>form.len) == 0)
                and strcmp(e.type.id, id) == 0):
            break
        at = &e.next
    return at


cdef Shared* entry_new(Shared** at, uint64_t hash, pf_digest digest, const pf_type* type,
                       pf_str shape, pf_str form) noexcept nogil:
    cdef Shared* e = <Shared*>calloc(1, sizeof(Shared) + <size_t>(shape.len + form.len))
    if e == NULL:
        return NULL
    e.hash = hash
    e.digest = digest
    memcpy(&e.type, type, type.size if type.size < sizeof(pf_type) else sizeof(pf_type))
    e.type.size = sizeof(pf_type)
    e.constant = shape.len
    e.form = form.len
    e.key = <char*>e + sizeof(Shared)
    memcpy(e.key, shape.data, <size_t>shape.len)
    if form.len:
        memcpy(e.key + shape.len, form.data, <size_t>form.len)
    e.refs = 1
    at[0] = e
    table.entries += 1
    return e


cdef void take_out(Shared* e) noexcept nogil:
    """With the lock held."""
    cdef Shared** at = &table.bucket[e.hash % BUCKETS]
    while at[0] != e:
        at = &at[0].next
    at[0] = e.next
    table.entries -= 1


cdef pf_status make_it(Shared* e, pf_make_fn make, pf_ctx* ctx, void* arg) noexcept nogil:
    """MAKING -> there, or absent."""
    cdef void* obj = NULL
    cdef pf_status st = make(ctx, arg, &obj)
    pthread_mutex_lock(&table.lock)
    e.base.obj = obj
    e.there = st == PF_OK
    if st != PF_OK:
        take_out(e)
    pthread_cond_broadcast(&table.made)
    pthread_mutex_unlock(&table.lock)
    if st != PF_OK:
        free(e)
    return st


cdef public pf_shared* pf_shared_find(const DLTensor* constant, pf_digest digest, pf_str form,
                                      const pf_type* type, pf_make_fn make, pf_ctx* ctx, void* arg,
                                      pf_status* st) noexcept nogil:
    """A new reference; NULL: *st is what `make` returned, or there is no memory."""
    cdef int64_t shape[PF_MAX_NDIM + 1]
    cdef pf_str key
    cdef Shared** at
    cdef Shared* e
    cdef uint64_t hash
    cdef int32_t i, n = constant.ndim
    pthread_once(&pf_shared_once, start)
    shape[0] = pf_tensor_of(constant).type
    for i in range(n):
        shape[i + 1] = constant.shape[i]
    key.data = <const char*>shape
    key.len = <int64_t>sizeof(int64_t) * (n + 1)
    hash = digest.a ^ pf_str_hash(form) ^ pf_str_hash(key)
    st[0] = PF_OK
    pthread_mutex_lock(&table.lock)
    while True:
        at = find(hash, digest, type.id, key, form)
        e = at[0]
        if e == NULL or e.there:
            break
        pthread_cond_wait(&table.made, &table.lock)
    if e != NULL:
        e.refs += 1
        pthread_mutex_unlock(&table.lock)
        return &e.base
    e = entry_new(at, hash, digest, type, key, form)
    pthread_mutex_unlock(&table.lock)
    if e == NULL:
        st[0] = PF_RESOURCE_EXHAUSTED
        return NULL
    st[0] = make_it(e, make, ctx, arg)
    return &e.base if st[0] == PF_OK else NULL


cdef public void pf_shared_unref(pf_shared* s) noexcept nogil:
    cdef Shared* e = <Shared*>s
    pthread_mutex_lock(&table.lock)
    e.refs -= 1
    if e.refs:
        pthread_mutex_unlock(&table.lock)
        return
    take_out(e)
    pthread_mutex_unlock(&table.lock)
    if e.type.unref != NULL and not pf_host_ended():
        e.type.unref(e.base.obj)
    free(e)


cdef public int64_t pf_shared_count() noexcept nogil:
    """Objects there are now."""
    cdef int64_t n
    pthread_once(&pf_shared_once, start)
    pthread_mutex_lock(&table.lock)
    n = table.entries
    pthread_mutex_unlock(&table.lock)
    return n
