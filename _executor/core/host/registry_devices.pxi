"""Part of registry.pyx: devices, opened on first use under a lock of their own, and the types that
have none here.
"""
cdef pf_device_entry* device_new(const pf_device* vtable, const char* type,
                                 int32_t ordinal) noexcept nogil:
    """With the lock held."""
    cdef pf_device_entry* d
    if reg.n_devices == MAX_DEVICES:
        return NULL
    d = <pf_device_entry*>calloc(1, sizeof(pf_device_entry))
    if d == NULL:
        return NULL
    d.vtable = vtable
    d.ordinal = ordinal
    pf_copy_text(d.type, sizeof(d.type), type, <int64_t>strlen(type))
    snprintf(d.name, sizeof(d.name), b"/device:%s:%d", d.type, ordinal)
    reg.devices[reg.n_devices] = d
    reg.n_devices += 1
    return d


cdef pf_device_entry* device_lookup(const char* type, int32_t ordinal) noexcept nogil:
    cdef int32_t i
    for i in range(reg.n_devices):
        if reg.devices[i].ordinal == ordinal and not strcmp(reg.devices[i].type, type):
            return reg.devices[i]
    return NULL


cdef void have_cpu() noexcept nogil:
    if reg.n_devices == 0:
        device_new(NULL, b"CPU", 0)


cdef public pf_status pf_registry_add_device(const pf_device* d, int32_t ordinal) noexcept nogil:
    cdef pf_status s = PF_ALREADY_EXISTS
    pthread_mutex_lock(&pf_registry_lock)
    have_cpu()
    if device_lookup(d.type, ordinal) == NULL:
        s = PF_OK if device_new(d, d.type, ordinal) != NULL else PF_RESOURCE_EXHAUSTED
    pthread_mutex_unlock(&pf_registry_lock)
    return s


cdef void open_streams(pf_device_entry* d) noexcept nogil:
    """A device that gives no streams works synchronously."""
    cdef const pf_device* v = d.vtable
    d.own_memory = v.alloc != NULL
    if v.stream_new != NULL and v.stream_new(d.dev, &d.stream) == PF_OK:
        if v.stream_new(d.dev, &d.ins) != PF_OK:
            d.ins = d.stream
        if v.stream_new(d.dev, &d.out) != PF_OK:
            d.out = d.stream


cdef bint open_device(pf_device_entry* d) noexcept nogil:
    """Opens once; a failure is kept in `problem`, and opening tried again by the next caller."""
    cdef char text[512]
    cdef void* dev = NULL
    if d.vtable == NULL or d.vtable.open == NULL:
        return True
    pthread_mutex_lock(&pf_opening_lock)
    text[0] = 0
    if pf_host_ended():
        snprintf(d.problem, sizeof(d.problem), b"the process is about to end, and devices were closed")
    elif d.dev == NULL and d.vtable.open(pf_host_table(), d.vtable.self, d.ordinal, &dev, text,
                                       sizeof(text)) == PF_OK:
        d.dev = dev
        d.fork_gen = pf_fork_generation()
        open_streams(d)
    elif d.dev == NULL:
        text[511] = 0
        snprintf(d.problem, sizeof(d.problem), b"%.255s", text)
    elif pf_device_lost(d):
        snprintf(d.problem, sizeof(d.problem), b"it was opened before this process was forked; use it in "
                 b"the child only, or start the process by spawn")
        dev = NULL
    if not pf_device_lost(d):
        dev = d.dev
    pthread_mutex_unlock(&pf_opening_lock)
    return dev != NULL


cdef public pf_device_entry* pf_device_find(const char* type, int32_t ordinal) noexcept nogil:
    cdef pf_device_entry* d
    if ordinal < 0:
        return NULL
    pthread_mutex_lock(&pf_registry_lock)
    have_cpu()
    d = device_lookup(type, ordinal)
    if d == NULL and not strcmp(type, b"CPU"):
        d = device_new(NULL, type, ordinal)
        if d == NULL:
            d = reg.devices[0]          # more CPU ordinals than the table holds share one
    pthread_mutex_unlock(&pf_registry_lock)
    return d if d != NULL and open_device(d) else NULL


cdef public int32_t pf_device_count() noexcept nogil:
    cdef int32_t n
    pthread_mutex_lock(&pf_registry_lock)
    have_cpu()
    n = reg.n_devices
    pthread_mutex_unlock(&pf_registry_lock)
    return n


cdef public pf_device_entry* pf_device_at(int32_t i) noexcept nogil:
    cdef pf_device_entry* d = NULL
    pthread_mutex_lock(&pf_registry_lock)
    have_cpu()
    if 0 <= i < reg.n_devices:
        d = reg.devices[i]
    pthread_mutex_unlock(&pf_registry_lock)
    return d


cdef public pf_device_entry* pf_device_of(const void* dev) noexcept nogil:
    cdef pf_device_entry* d = NULL
    cdef int32_t i
    pthread_mutex_lock(&pf_registry_lock)
    for i in range(reg.n_devices):
        if dev != NULL and reg.devices[i].dev == dev:
            d = reg.devices[i]
    pthread_mutex_unlock(&pf_registry_lock)
    return d


cdef public void pf_device_problem(const char* type, int32_t ordinal, char* text,
                                   int32_t room) noexcept nogil:
    cdef pf_device_entry* d
    pthread_mutex_lock(&pf_registry_lock)
    d = device_lookup(type, ordinal)
    pthread_mutex_unlock(&pf_registry_lock)
    if d == NULL:
        snprintf(text, room, b"there is no device %s:%d in this process", type, ordinal)
        return
    pthread_mutex_lock(&pf_opening_lock)
    snprintf(text, room, b"device %s:%d cannot be opened: %s", type, ordinal, d.problem)
    pthread_mutex_unlock(&pf_opening_lock)


# ---------------------------------------------------------------- types that have no device here
cdef struct Absent:
    char type[24]
    char why[256]

cdef Absent absent[16]
cdef int32_t n_absent


cdef public pf_status pf_registry_note_absent(const char* type, const char* why) noexcept nogil:
    global n_absent
    pthread_mutex_lock(&pf_registry_lock)
    if n_absent < 16:
        pf_copy_text(absent[n_absent].type, sizeof(absent[0].type), type, <int64_t>strlen(type))
        pf_copy_text(absent[n_absent].why, sizeof(absent[0].why), why, <int64_t>strlen(why))
        n_absent += 1
    pthread_mutex_unlock(&pf_registry_lock)
    return PF_OK


cdef public int32_t pf_device_absent(int32_t i, const char** type, const char** why) noexcept nogil:
    if not 0 <= i < n_absent:
        return 0
    type[0] = absent[i].type
    why[0] = absent[i].why
    return 1
