# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Extents: the memory that a running step keeps its planned outputs and scratch buffers in (buffers.pyx has the plan).

    pf_step_extent(s)                               # a step begins: one stretch of memory, cached from an earlier step
    pf_step_output(c, 0, shape, 2)                  # at its place, or in another gap, or NULL: the heap
    pf_step_scratch(c, bytes, &pages)               # in a gap, or NULL

Invariants
1. A page of an extent is written by the holder of its bit only, and its bit is set while a tensor or a scratch buffer lies
   in it.  Planning decides what is asked for first; the bits decide what is given.
2. An extent lives as long as its step and every tensor in it.
3. What leaves the step is copied to the heap [pf_tensor_settled]: fetches and variables never hold an extent.
4. In use is what is handed out, as for any allocator; where the process has a cap, an extent counts as a whole.

Threads: any of the step, under the extent's spin lock; the cache under cache_lock.
"""
from extents_h cimport *

cdef enum:
    KEPT_BYTES = 268435456      # cached extents, beside the newest

cdef pf_a32 cache_lock
cdef pf_extent* cached          # newest first
cdef int64_t cached_bytes

cdef void destroy(pf_extent* x) noexcept nogil:
    pf_unmap(x.base, x.bytes)
    free(x.used)
    free(x)

cdef pf_extent* take_cached(int64_t bytes) noexcept nogil:
    """The smallest cached extent that fits without wasting a quarter."""
    global cached, cached_bytes
    cdef pf_extent** at
    cdef pf_extent** best = NULL
    cdef pf_extent* x = NULL
    pf_spin_lock(&cache_lock)
    at = &cached
    while at[0] != NULL:
        if bytes <= at[0].bytes <= bytes + bytes // 4 and (best == NULL or at[0].bytes < best[0].bytes):
            best = at
        at = &at[0].next
    if best != NULL:
        x = best[0]
        best[0] = x.next
        cached_bytes -= x.bytes
    pf_spin_unlock(&cache_lock)
    return x

cdef void drop_cached(int64_t wanted) noexcept nogil:
    """Unmaps the oldest until `wanted` more bytes fit; -1: all."""
    global cached, cached_bytes
    cdef pf_extent** at
    cdef pf_extent* x
    while True:
        x = NULL
        pf_spin_lock(&cache_lock)
        if cached != NULL and (wanted < 0 or cached_bytes + wanted > KEPT_BYTES):
            at = &cached
            while at[0].next != NULL:
                at = &at[0].next
            x = at[0]
            at[0] = NULL
            cached_bytes -= x.bytes
        pf_spin_unlock(&cache_lock)
        if x == NULL:
            return
        destroy(x)

cdef pf_extent* map_new(int64_t bytes) noexcept nogil:
    cdef pf_extent* x = <pf_extent*>calloc(1, sizeof(pf_extent))
    if x == NULL:
        return NULL
    x.bytes = pf_pages_of(bytes) * PF_PAGE
    x.pages = pf_pages_of(bytes)
    x.used = <uint64_t*>calloc(<size_t>(x.pages // 64 + 2), sizeof(uint64_t))
    x.base = <char*>pf_map(x.bytes) if x.used != NULL else NULL
    if x.base == NULL:
        free(x.used)
        free(x)
        return NULL
    return x

cdef pf_extent* extent_new(int64_t bytes) noexcept nogil:
    """NULL: over the cap or out of memory, then the heap serves.

    Without a cap an eighth more is mapped: where kernels that run side by side find their places taken, a gap here serves
    any size, while the heap keeps blocks class by class.  Pages nobody asks for are never touched.
    """
    cdef pf_mem_stats now
    cdef pf_extent* x
    pf_mem_get_stats(&now)
    if now.cap > 0 and now.in_use + bytes > now.cap:
        return NULL
    if now.cap == 0:
        bytes += bytes // 8
    x = take_cached(bytes)
    if x == NULL:
        drop_cached(bytes)
        x = map_new(bytes)
        if x == NULL:
            return NULL
    pf_a32_store(&x.refs, 1)
    x.free_from = 0
    x.whole = now.cap > 0
    if x.whole:
        pf_mem_count(x.bytes)
    return x

cdef void extent_unref(pf_extent* x) noexcept nogil:
    global cached, cached_bytes
    if not pf_a32_dec_last(&x.refs):
        return
    if x.whole:
        pf_mem_count(-x.bytes)
    drop_cached(x.bytes)
    pf_spin_lock(&cache_lock)
    x.next = cached
    cached = x
    cached_bytes += x.bytes
    pf_spin_unlock(&cache_lock)

cdef public void pf_extents_trim() noexcept nogil:
    """Gives cached extents back to the system."""
    drop_cached(-1)

cdef public int64_t pf_extents_cached() noexcept nogil:
    cdef int64_t bytes
    pf_spin_lock(&cache_lock)
    bytes = cached_bytes
    pf_spin_unlock(&cache_lock)
    return bytes

cdef public void pf_step_extent(pf_step* s) noexcept nogil:
    """Memory for the placed outputs of a step that begins; none if it cannot be had."""
    s.extent = extent_new(s.plan.planned_bytes) if s.plan.planned_bytes >= PF_EXTENT_BYTES else NULL

cdef public void pf_step_extent_over(pf_step* s) noexcept nogil:
    if s.extent != NULL:
        extent_unref(s.extent)
        s.extent = NULL

cdef inline void count(pf_extent* x, int64_t pages) noexcept nogil:
    if not x.whole:
        pf_mem_count(pages * PF_PAGE)

cdef int64_t claim(pf_extent* x, int64_t page, int64_t n) noexcept nogil:
    """The first of n pages that are the caller's now: at `page` if those are free (-1: anywhere), else the first gap."""
    cdef int64_t hit
    pf_spin_lock(&x.lock)
    if page < 0 or page + n > x.pages or pf_pages_taken(x.used, page, page + n) >= 0:
        page = pf_pages_free(x.used, x.free_from, x.pages)
        x.free_from = page
        while page + n <= x.pages:
            hit = pf_pages_taken(x.used, page, page + n)
            if hit < 0:
                break
            page = pf_pages_free(x.used, hit, x.pages)
    if page + n <= x.pages:
        pf_pages_set(x.used, page, page + n, 1)
        pf_a32_add_rlx(&x.refs, 1)
        count(x, n)
    else:
        page = -1
    pf_spin_unlock(&x.lock)
    return page

cdef void give(pf_extent* x, int64_t page, int64_t n) noexcept nogil:
    if PF_CHECKS:
        memset(x.base + page * PF_PAGE, 0xA5, <size_t>(n * PF_PAGE))
    pf_spin_lock(&x.lock)
    pf_pages_set(x.used, page, page + n, 0)
    count(x, -n)
    if page < x.free_from:
        x.free_from = page
    pf_spin_unlock(&x.lock)
    extent_unref(x)

cdef void release_held(void* owner) noexcept nogil:
    cdef pf_held* h = <pf_held*>(<char*>owner + PF_HEADER)
    give(h.extent, h.page, h.pages)

cdef public pf_tensor* pf_step_output(pf_call* c, int32_t i, const int64_t* shape, int32_t ndim) noexcept nogil:
    """A tensor for output i of a call whose outputs have places; NULL: the heap shall serve."""
    cdef pf_extent* x = c.step.extent
    cdef const pf_place* place = c.plan.places + c.instr.aux + i
    cdef pf_held* h
    cdef pf_tensor* t
    cdef int64_t page, n, bytes
    if x == NULL or ndim > PF_INLINE_DIMS or place.bytes < PF_PLACE_BYTES or place.how == PF_PUT_HEAP:
        return NULL
    if pf_checked_bytes(c.ctx.out_type[i], shape, ndim, &bytes) or bytes != place.bytes:
        return NULL
    n = pf_pages_of(bytes)
    page = claim(x, place.offset // PF_PAGE if place.offset >= 0 else -1, n)
    if page < 0:
        return NULL
    t = pf_tensor_wrap(c.ctx.out_type[i], shape, ndim, x.base + page * PF_PAGE, PF_T_PLACED, release_held, NULL)
    if t == NULL:
        give(x, page, n)
        return NULL
    h = <pf_held*>(<char*>t + PF_HEADER)
    h.extent = x
    h.page = page
    h.pages = n
    t.owner = t
    return t

cdef public void* pf_step_scratch(pf_call* c, uint64_t bytes, int64_t* pages) noexcept nogil:
    """Scratch memory in a gap of the step's extent; NULL: none."""
    cdef pf_extent* x = c.step.extent if c.step != NULL else NULL
    cdef int64_t page, n
    if x == NULL or bytes < PF_SCRATCH_BYTES or bytes > <uint64_t>x.bytes:
        return NULL
    n = pf_pages_of(<int64_t>bytes)
    page = claim(x, -1, n)
    if page < 0:
        return NULL
    pages[0] = n
    return x.base + page * PF_PAGE

cdef public void pf_step_scratch_over(pf_call* c, void* p, int64_t pages) noexcept nogil:
    give(c.step.extent, (<char*>p - c.step.extent.base) // PF_PAGE, pages)

cdef public pf_tensor* pf_tensor_settled(pf_tensor* take) noexcept nogil:
    """The tensor, or its copy on the heap if it lies in an extent; NULL: out of memory."""
    cdef pf_tensor* root = <pf_tensor*>take.owner if take.flags & PF_T_VIEW else take
    cdef pf_tensor* copy
    if not root.flags & PF_T_PLACED:
        return take
    copy = pf_tensor_copy(take)
    pf_tensor_unref(take)
    return copy
