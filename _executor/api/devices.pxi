"""Part of api.pyx: what is known of devices, their memory, its limits."""


cdef pf_device_entry* device_named(kind, int ordinal) except NULL:
    cdef bytes name = kind.encode()
    cdef const char* text = name
    cdef pf_device_entry* d
    with nogil:
        d = pf_device_find(text, ordinal)
    if d == NULL:
        raise ValueError(device_problem(kind, ordinal))
    return d


def device_problem(kind, int ordinal):
    """Opens the device if need be; None, or why it cannot be used."""
    cdef bytes name = kind.encode()
    cdef const char* at = name
    cdef char text[400]
    cdef pf_device_entry* d
    with nogil:
        d = pf_device_find(at, ordinal)
    if d != NULL:
        return None
    pf_device_problem(at, ordinal, text, sizeof(text))
    return text.decode("utf-8", "replace")


def absent_devices():
    """(type, reason) of device types whose plugin is loaded and finds none: no driver, say."""
    cdef const char* kind
    cdef const char* why
    cdef int k = 0
    out = []
    while pf_device_absent(k, &kind, &why):
        out.append((kind.decode("utf-8", "replace"), why.decode("utf-8", "replace")))
        k += 1
    return out


def device_info(kind, int ordinal, key):
    """What the device says about itself, as text (kernel.h, pf_device.info); None: it does not say.  ValueError: no such device."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    cdef bytes wanted = key.encode()
    cdef char text[512]
    text[0] = 0
    if d.vtable == NULL or d.vtable.info == NULL or d.vtable.info(d.dev, wanted, text, 512) != PF_OK:
        return None
    text[511] = 0
    return text.decode("utf-8", "replace")


def device_stats(kind, int ordinal):
    """Bytes in use in the device's own memory, their peak, the limit (0: none), allocations; whether it has memory and streams
    of its own.  ValueError: no such device."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    return dict(in_use=pf_a64_load(&d.in_use), peak=pf_a64_load(&d.peak), limit=pf_a64_load(&d.limit),
                allocs=pf_a64_load(&d.allocs), own_memory=bool(d.own_memory), streams=d.stream != NULL)


def device_limit(kind, int ordinal, int64_t limit):
    """From now on at most `limit` bytes of the device's memory are used (0: no limit)."""
    pf_a64_store(&device_named(kind, ordinal).limit, max(limit, 0))


def reset_device_peak(kind, int ordinal):
    """Starts a new peak measurement of the device's memory."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    pf_a64_store(&d.peak, pf_a64_load(&d.in_use))


def device_priority(kind, int ordinal=0):
    """pf_device.priority: where default placement looks first; a CPU's is 0."""
    cdef pf_device_entry* d
    cdef int32_t k
    for k in range(pf_device_count()):
        d = pf_device_at(k)
        if d.type.decode("utf-8", "replace") == kind:
            return d.vtable.priority if d.vtable != NULL else 0
    raise ValueError(f"there is no device type {kind}")
