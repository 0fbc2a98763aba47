# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Memory, streams and copies of devices that have their own.

A device has three streams: `stream` runs kernels, `in` copies from the host or a peer, `out` copies to the host.  A
tensor is LAID OUT when its buffer exists, and VALID in the order of `stream`: whoever enqueues work there later sees it.
What steps have devices do meanwhile is jobs.pyx.

Threads: any.  A process forked off has none of the device's threads and streams: there the device is LOST.
"""
from host_h cimport *

cdef struct Buffer:             # what frees a tensor's memory
    pf_device_entry* dev
    void* data
    int64_t bytes
    int32_t mem

# ---------------------------------------------------------------- forks
cdef int32_t fork_generation
cdef pf_a32 fork_hooked

cdef void after_fork() noexcept nogil:
    global fork_generation
    fork_generation += 1

cdef public void pf_watch_forks() noexcept nogil:
    if pf_a32_cas(&fork_hooked, 0, 1):
        pthread_atfork(NULL, NULL, after_fork)

cdef public int32_t pf_fork_generation() noexcept nogil:
    return fork_generation

cdef public int32_t pf_device_lost(const pf_device_entry* d) noexcept nogil:
    return d.dev != NULL and d.fork_gen != pf_fork_generation()

# ---------------------------------------------------------------- memory
cdef bint charge(pf_device_entry* d, int64_t nbytes) noexcept nogil:
    """Counts bytes of the device's own memory; False: over its limit."""
    cdef int64_t now = pf_a64_add_rlx(&d.in_use, nbytes) + nbytes
    cdef int64_t limit = pf_a64_load_rlx(&d.limit), peak
    if nbytes > 0 and limit > 0 and now > limit:
        pf_a64_add_rlx(&d.in_use, -nbytes)
        return False
    peak = pf_a64_load_rlx(&d.peak)
    while now > peak and not pf_a64_cas(&d.peak, peak, now):
        peak = pf_a64_load_rlx(&d.peak)
    return True

cdef void free_buffer(void* owner) noexcept nogil:
    cdef Buffer* b = <Buffer*>owner
    if b.dev.dev == NULL or pf_device_lost(b.dev):  # closed, or a parent's: this process cannot give it back
        free(b)
        return
    b.dev.vtable.free(b.dev.dev, b.data, <uint64_t>b.bytes, b.mem, b.dev.stream)
    if b.mem == PF_MEM_DEVICE:
        charge(b.dev, -b.bytes)
    free(b)

cdef Buffer* allocate(pf_device_entry* d, int32_t mem, void* stream, int64_t nbytes) noexcept nogil:
    cdef Buffer* b = <Buffer*>malloc(sizeof(Buffer))
    if b == NULL:
        return NULL
    b.dev = d
    b.bytes = nbytes
    b.mem = mem
    if mem != PF_MEM_DEVICE or charge(d, nbytes):
        b.data = d.vtable.alloc(d.dev, <uint64_t>nbytes, 64, mem, stream)
        if b.data != NULL:
            pf_a64_add_rlx(&d.allocs, 1)
            return b
        if mem == PF_MEM_DEVICE:
            charge(d, -nbytes)
    free(b)
    return NULL

cdef public pf_tensor* pf_device_tensor(pf_device_entry* d, int32_t mem, void* stream, int32_t type,
                                        const int64_t* shape, int32_t ndim) noexcept nogil:
    cdef int64_t nbytes
    cdef Buffer* b = NULL
    cdef pf_tensor* t
    if pf_checked_bytes(type, shape, ndim, &nbytes) != PF_OK:
        return NULL
    if nbytes:
        b = allocate(d, mem, stream, nbytes)
        if b == NULL and mem == PF_MEM_DEVICE and pf_device_wait(d) == PF_OK:
            b = allocate(d, mem, stream, nbytes)
        if b == NULL:
            return NULL
    if b == NULL:
        t = pf_tensor_wrap(type, shape, ndim, NULL, 0, NULL, NULL)
    else:
        t = pf_tensor_wrap(type, shape, ndim, b.data, 0, free_buffer, b)
    if t == NULL:
        if b != NULL:
            free_buffer(b)
        return NULL
    if mem == PF_MEM_DEVICE:
        t.device = d
        t.m.dl_tensor.device.device_type = d.vtable.dl_type
        t.m.dl_tensor.device.device_id = d.ordinal
    return t

cdef inline pf_tensor* like(pf_device_entry* d, void* stream, const pf_tensor* src) noexcept nogil:
    return pf_device_tensor(d, PF_MEM_DEVICE, stream, src.type, src.m.dl_tensor.shape, src.m.dl_tensor.ndim)

cdef public pf_tensor* pf_device_duplicate(const pf_tensor* src) noexcept nogil:
    cdef pf_device_entry* d = <pf_device_entry*>src.device
    cdef pf_tensor* t = like(d, d.stream, src)
    if t != NULL and src.nbytes and d.vtable.copy(d.dev, d.stream, &src.m.dl_tensor, pf_dl(t)) != PF_OK:
        pf_tensor_unref(t)
        return NULL
    return t

# ---------------------------------------------------------------- waiting on the spot
cdef struct Waiter:
    pthread_mutex_t lock
    pthread_cond_t cond
    int32_t left
    pf_status status

cdef void stream_done(void* arg, pf_status s) noexcept nogil:
    cdef Waiter* w = <Waiter*>arg
    pthread_mutex_lock(&w.lock)
    if s and not w.status:
        w.status = s
    w.left -= 1
    pthread_cond_signal(&w.cond)
    pthread_mutex_unlock(&w.lock)

cdef public pf_status pf_device_wait(pf_device_entry* d) noexcept nogil:
    cdef Waiter w
    cdef void* streams[3]
    cdef void* events[3]
    cdef int32_t k
    cdef pf_status s
    if d.stream == NULL:
        return PF_OK
    streams[0] = d.stream
    streams[1] = d.ins
    streams[2] = d.out
    pthread_mutex_init(&w.lock, NULL)
    pf_cond_init(&w.cond)
    w.left = 3
    w.status = PF_OK
    for k in range(3):
        events[k] = NULL
        s = d.vtable.event_record(d.dev, streams[k], &events[k])
        if s == PF_OK:
            s = d.vtable.when(d.dev, events[k], stream_done, &w)
        if s:
            stream_done(&w, s)
    pthread_mutex_lock(&w.lock)
    while w.left:
        pthread_cond_wait(&w.cond, &w.lock)
    pthread_mutex_unlock(&w.lock)
    for k in range(3):
        if events[k] != NULL:
            d.vtable.event_del(d.dev, events[k])
    pthread_mutex_destroy(&w.lock)
    pthread_cond_destroy(&w.cond)
    return w.status

cdef public pf_status pf_device_upload(pf_device_entry* d, pf_tensor* host, pf_tensor** out) noexcept nogil:
    cdef pf_tensor* t = like(d, d.stream, host)
    cdef pf_status s
    out[0] = t
    if t == NULL:
        return PF_RESOURCE_EXHAUSTED
    if host.nbytes == 0:
        return PF_OK
    s = d.vtable.copy(d.dev, d.stream, pf_dl(host), pf_dl(t))
    if s == PF_OK:
        s = pf_device_wait(d)
    if s:
        pf_tensor_unref(t)
        out[0] = NULL
    return s

cdef public int32_t pf_device_peers(pf_device_entry* a, pf_device_entry* b) noexcept nogil:
    return (a.vtable != NULL and a.vtable == b.vtable and a.vtable.peer_copy != NULL and a.vtable.can_peer != NULL
            and a.vtable.can_peer(a.dev, b.type, b.dev) != 0)
