# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Memory of the core: cached blocks of size classes, exact counts, a cap.

Invariants
1. A block is a pf_tensor header and the data of one size class behind it, from pf_mem_alloc or
   pf_tensor_new alike.
2. A free block's header is in its standard state: inline data, dims inside, host memory,
   `pf_block_release`.
3. `in_use` of the heap plus all threads' `delta` is the exact number of bytes in live blocks (and
   strings).  The peak is taken whenever a thread adds its delta: at every large block, and every
   64 KB of small ones.  What the deltas of the others were is taken from the last reset, so it is
   exact but for 64 KB of each thread that worked since.
4. Blocks freed on a thread go to that thread's list; full lists overflow by halves into the shared
   ones.  The shared ones hold no more than 256 MB, or what fits below the peak: a loop touches its
   pages once.

Threads: any.  The lists of a thread are written by it alone; the heap's lock guards the shared
ones and is innermost.

    float *scratch = pf_mem_alloc(1 << 20);
    pf_mem_free(scratch);
"""
from memory_h cimport *

cdef extern from *:
    """
    _Thread_local pf_cache *pf_tls_cache;
    static pf_memory pf_the_heap = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static inline pf_cache *pf_cache_get(void) { return pf_tls_cache; }
    static inline void pf_cache_set(pf_cache *c) { pf_tls_cache = c; }
    static pthread_once_t pf_heap_ready = PTHREAD_ONCE_INIT;
    static inline void pf_heap_once(void (*setup)(void)) { pthread_once(&pf_heap_ready, setup); }
    static inline void pf_heap_key(void (*gone)(void *)) { pthread_key_create(&pf_the_heap.key, gone); }
    static inline void pf_heap_key_set(void *p) { pthread_setspecific(pf_the_heap.key, p); }
    """
    pf_memory pf_the_heap
    pf_cache* pf_cache_get() noexcept nogil
    void pf_cache_set(pf_cache*) noexcept nogil
    void pf_heap_once(void (*)() noexcept nogil) noexcept nogil
    void pf_heap_key(void (*)(void*) noexcept nogil) noexcept nogil
    void pf_heap_key_set(void*) noexcept nogil


# ---------------------------------------------------------------- counting
cdef inline int64_t block_bytes(int32_t k) noexcept nogil:
    return pf_class_bytes(k) + PF_HEADER


cdef void raise_to(pf_a64* a, int64_t now) noexcept nogil:
    cdef int64_t old = pf_a64_load_rlx(a)
    while now > old and not pf_a64_cas(a, old, now):
        old = pf_a64_load_rlx(a)


cdef bint add_in_use(int64_t bytes) noexcept nogil:
    """Counts `bytes`; False, and nothing counted, if that passes the cap."""
    cdef pf_memory* h = &pf_the_heap
    cdef int64_t now = pf_a64_add(&h.in_use, bytes) + bytes
    cdef int64_t cap = pf_a64_load_rlx(&h.cap)
    if bytes > 0:
        if cap > 0 and now > cap:
            pf_a64_add(&h.in_use, -bytes)
            return False
        raise_to(&h.peak, now)
        raise_to(&h.high, now)
    return True


cdef bint flush_delta(pf_cache* c) noexcept nogil:
    cdef int64_t bytes = pf_a64_load_rlx(&c.delta)
    if not add_in_use(bytes):
        return False
    pf_a64_store_rlx(&c.delta, 0)
    return True


cdef public void pf_mem_count(int64_t bytes) noexcept nogil:
    """For bytes outside blocks (strings): never refused here."""
    cdef pf_cache* c = cache()
    if c == NULL:
        pf_a64_add(&pf_the_heap.in_use, bytes)
        return
    bytes += pf_a64_load_rlx(&c.delta)
    pf_a64_store_rlx(&c.delta, bytes)
    if bytes > PF_FLUSH_BYTES or bytes < -PF_FLUSH_BYTES:
        pf_a64_store_rlx(&c.delta, 0)
        bytes += pf_a64_add(&pf_the_heap.in_use, bytes)
        raise_to(&pf_the_heap.peak, bytes)


# ---------------------------------------------------------------- one cache per thread
cdef void lock_heap() noexcept nogil:
    pthread_mutex_lock(&pf_the_heap.lock)


cdef void unlock_heap() noexcept nogil:
    pthread_mutex_unlock(&pf_the_heap.lock)


cdef void heap_setup() noexcept nogil:
    pf_heap_key(cache_gone)
    pthread_atfork(lock_heap, unlock_heap, unlock_heap)


cdef pf_cache* cache_new() noexcept nogil:
    cdef pf_memory* h = &pf_the_heap
    cdef pf_cache* c
    cdef int64_t n
    cdef int32_t k
    pf_heap_once(heap_setup)
    c = <pf_cache*>calloc(1, sizeof(pf_cache))
    if c == NULL:
        return NULL
    for k in range(PF_THREAD_CLASSES):
        n = (262144 if k < PF_SMALL_CLASSES else 524288) // block_bytes(k)
        c.max[k] = PF_CACHE_BLOCKS * <int32_t>(n if n > 2 else 2)
    lock_heap()
    c.next = h.threads
    if c.next != NULL:
        c.next.prev = c
    h.threads = c
    unlock_heap()
    pf_cache_set(c)
    pf_heap_key_set(c)
    return c


cdef inline pf_cache* cache() noexcept nogil:
    cdef pf_cache* c = pf_cache_get()
    return c if c != NULL else cache_new()


cdef void cache_gone(void* arg) noexcept nogil:
    """The thread ends: its blocks and counts go to the heap."""
    cdef pf_memory* h = &pf_the_heap
    cdef pf_cache* c = <pf_cache*>arg
    cdef int32_t k
    pf_cache_set(NULL)
    lock_heap()
    if c.prev != NULL:
        c.prev.next = c.next
    else:
        h.threads = c.next
    if c.next != NULL:
        c.next.prev = c.prev
    pf_a64_add(&h.in_use, pf_a64_load_rlx(&c.delta))
    pf_a64_add(&h.allocs, pf_a64_load_rlx(&c.allocs))
    for k in range(PF_THREAD_CLASSES):
        share_blocks(c, k, 0)
    unlock_heap()
    free(c)


cdef int64_t cache_room() noexcept nogil:
    """How much the shared lists may hold: 256 MB, or whatever stays below the high-water mark."""
    cdef pf_memory* h = &pf_the_heap
    cdef int64_t room = pf_a64_load_rlx(&h.high) - pf_a64_load_rlx(&h.in_use)
    if not PF_CACHE_BLOCKS:
        return 0
    return room if room > PF_SHARED_BYTES else PF_SHARED_BYTES


cdef void share_block(pf_tensor* t) noexcept nogil:
    """With the lock held: into the shared list, or back to the system."""
    cdef pf_memory* h = &pf_the_heap
    cdef int64_t bytes = block_bytes(t.klass)
    if h.cached + bytes > cache_room():
        free(t)
        return
    t.owner = h.free[t.klass]
    h.free[t.klass] = t
    h.cached += bytes


cdef void share_blocks(pf_cache* c, int32_t k, int32_t keep) noexcept nogil:
    cdef pf_tensor* t
    cdef int32_t n = pf_a32_load_rlx(&c.count[k])
    while n > keep:
        t = c.free[k]
        c.free[k] = <pf_tensor*>t.owner
        share_block(t)
        n -= 1
    pf_a32_store_rlx(&c.count[k], n)


cdef pf_tensor* take_shared(int32_t k) noexcept nogil:
    cdef pf_memory* h = &pf_the_heap
    cdef pf_tensor* t = h.free[k]
    if t != NULL:
        h.free[k] = <pf_tensor*>t.owner
        h.cached -= block_bytes(k)
    return t


cdef void evict(int64_t wanted) noexcept nogil:
    """With the lock held: gives blocks back, largest first, until `wanted` more bytes fit."""
    cdef pf_memory* h = &pf_the_heap
    cdef int32_t k = PF_CLASSES - 1
    cdef int64_t room = cache_room() - wanted
    cdef pf_tensor* t
    while h.cached > room and k >= 0:
        t = take_shared(k)
        if t == NULL:
            k -= 1
        else:
            free(t)


# ---------------------------------------------------------------- blocks
cdef public void pf_drop_reference(DLManagedTensorVersioned* m) noexcept nogil:
    pf_tensor_unref(<pf_tensor*>m.manager_ctx)


cdef void standard_header(pf_tensor* t, int32_t k) noexcept nogil:
    memset(t, 0, sizeof(pf_tensor))
    t.m.version.major = 1
    t.m.manager_ctx = t
    t.m.deleter = pf_drop_reference
    t.m.dl_tensor.data = <char*>t + PF_HEADER
    t.m.dl_tensor.device.device_type = kDLCPU
    t.m.dl_tensor.shape = t.dims
    t.release = pf_block_release
    t.klass = k


cdef pf_tensor* fresh_block(int32_t k) noexcept nogil:
    cdef pf_tensor* t = <pf_tensor*>pf_block_from_system(<uint64_t>block_bytes(k))
    if t == NULL:
        pf_mem_trim()
        t = <pf_tensor*>pf_block_from_system(<uint64_t>block_bytes(k))
    if t != NULL:
        standard_header(t, k)
    return t


cdef pf_tensor* small_refill(pf_cache* c, int32_t k) noexcept nogil:
    """The thread's list is empty: some blocks from the shared list, else one from the system."""
    cdef int32_t n, want = c.max[k] // 2
    cdef pf_tensor* t
    cdef pf_tensor* first = NULL
    if want > 32:
        want = 32
    if PF_CACHE_BLOCKS:
        lock_heap()
        first = take_shared(k)
        n = 0
        while first != NULL and n < want:
            t = take_shared(k)
            if t == NULL:
                break
            t.owner = c.free[k]
            c.free[k] = t
            n += 1
        pf_a32_store_rlx(&c.count[k], n)
        unlock_heap()
    return first if first != NULL else fresh_block(k)


cdef inline pf_tensor* own_block(pf_cache* c, int32_t k) noexcept nogil:
    """From the thread's own list, if it holds one."""
    cdef pf_tensor* t = c.free[k]
    if t != NULL:
        c.free[k] = <pf_tensor*>t.owner
        pf_a32_store_rlx(&c.count[k], pf_a32_load_rlx(&c.count[k]) - 1)
    return t


cdef pf_tensor* large_block(pf_cache* c, int32_t k) noexcept nogil:
    """A block of a class that is not kept per thread; counted already."""
    cdef pf_tensor* t = NULL
    if PF_CACHE_BLOCKS:
        lock_heap()
        t = take_shared(k)
        if t == NULL:
            evict(block_bytes(k))
        unlock_heap()
    return t if t != NULL else fresh_block(k)


cdef public pf_tensor* pf_block_new_slow(int32_t k) noexcept nogil:
    """Everything but the hit in the thread's own list."""
    cdef pf_cache* c = cache()
    cdef pf_tensor* t
    cdef int64_t bytes
    if k >= PF_CLASSES:
        return NULL
    bytes = block_bytes(k)
    if c == NULL or not flush_delta(c) or not add_in_use(bytes):
        return NULL
    if k >= PF_THREAD_CLASSES:
        t = large_block(c, k)
    else:
        t = own_block(c, k)             # the list may hold blocks: the count of bytes was due
        if t == NULL:
            t = small_refill(c, k)
    if t == NULL:
        add_in_use(-bytes)
        return NULL
    pf_a64_store_rlx(&c.allocs, pf_a64_load_rlx(&c.allocs) + 1)
    return t


cdef public void pf_block_free_slow(pf_tensor* t) noexcept nogil:
    cdef pf_cache* c = cache()
    cdef int32_t k = t.klass
    add_in_use(-block_bytes(k))
    if c != NULL:
        flush_delta(c)
        if PF_CACHE_BLOCKS and k < PF_THREAD_CLASSES:
            lock_heap()
            share_blocks(c, k, c.max[k] // 2)
            share_block(t)
            unlock_heap()
            return
    if not PF_CACHE_BLOCKS:
        free(t)
        return
    lock_heap()
    share_block(t)
    unlock_heap()


cdef public void* pf_mem_alloc(uint64_t bytes) noexcept nogil:
    cdef pf_tensor* t
    if bytes > (<uint64_t>1 << 46):
        return NULL
    t = pf_block_new(pf_class_of(bytes))
    return NULL if t == NULL else <char*>t + PF_HEADER


cdef public void pf_mem_free(void* p) noexcept nogil:
    if p != NULL:
        pf_block_release(<pf_tensor*>(<char*>p - PF_HEADER))


cdef public void pf_mem_get_stats(pf_mem_stats* out) noexcept nogil:
    cdef pf_memory* h = &pf_the_heap
    cdef pf_cache* c
    cdef int64_t deltas = 0, skew
    cdef int32_t k
    lock_heap()
    out.in_use = pf_a64_load(&h.in_use)
    out.allocs = pf_a64_load(&h.allocs)
    out.cached = h.cached
    c = h.threads
    while c != NULL:
        deltas += pf_a64_load_rlx(&c.delta)
        out.allocs += pf_a64_load_rlx(&c.allocs)
        for k in range(PF_THREAD_CLASSES):
            out.cached += pf_a32_load_rlx(&c.count[k]) * block_bytes(k)
        c = c.next
    unlock_heap()
    out.in_use += deltas
    skew = pf_a64_load(&h.skew)
    raise_to(&h.peak, out.in_use - skew)
    out.cached += pf_extents_cached()
    out.peak = pf_a64_load(&h.peak) + skew
    out.cap = pf_a64_load(&h.cap)


cdef public int64_t pf_mem_in_use() noexcept nogil:
    return pf_a64_load_rlx(&pf_the_heap.in_use)


cdef public void pf_mem_reset_peak() noexcept nogil:
    cdef pf_mem_stats s
    cdef int64_t counted
    if pf_cache_get() != NULL:
        flush_delta(pf_cache_get())
    pf_mem_get_stats(&s)
    counted = pf_a64_load(&pf_the_heap.in_use)
    pf_a64_store(&pf_the_heap.skew, s.in_use - counted)
    pf_a64_store(&pf_the_heap.peak, counted)


cdef public void pf_mem_set_cap(int64_t bytes) noexcept nogil:
    pf_a64_store(&pf_the_heap.cap, bytes if bytes > 0 else 0)


cdef public void pf_mem_trim() noexcept nogil:
    cdef pf_memory* h = &pf_the_heap
    cdef pf_cache* c = pf_cache_get()
    cdef pf_tensor* t
    cdef int32_t k
    pf_extents_trim()
    lock_heap()
    for k in range(PF_CLASSES):
        if c != NULL and k < PF_THREAD_CLASSES:
            share_blocks(c, k, 0)
        while True:
            t = take_shared(k)
            if t == NULL:
                break
            free(t)
    pf_a64_store(&h.high, pf_a64_load(&h.in_use))
    unlock_heap()
