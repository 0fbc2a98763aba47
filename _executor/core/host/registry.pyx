# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Kernels, devices and plugins: the tables, and the choice of a kernel for a node.

Invariants
1. Entries are never moved or freed (plugins are never unloaded); a chain of one op's kernels is
   kept best first: higher priority, then lower plugin id, then the plugin's own order.
2. What enters has been checked by register.pyx.
3. A device is opened once, on first use; "CPU" needs no plugin and has every ordinal.

Threads: any.  `pf_registry_lock` guards the tables; no plugin function is called under it.
Opening devices has a lock of its own.

    const pf_kernel_entry *k;
    pf_kernel_select(node, op, &sig, "CPU", NULL, &k, &err);
"""
from registry_h cimport *

cdef extern from *:
    """
    static pthread_mutex_t pf_registry_lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_mutex_t pf_opening_lock = PTHREAD_MUTEX_INITIALIZER;
    """
    pthread_mutex_t pf_registry_lock
    pthread_mutex_t pf_opening_lock

cdef enum:
    CHAINS = 1024       # hash chains of ops; a few kernels each
    MAX_DEVICES = 256
    MAX_COMPILERS = 32

cdef struct Chain:      # the kernels of one op
    const char* op
    pf_kernel_entry* first
    Chain* next

cdef struct Registry:
    pf_plugin_entry* plugins
    Chain* chains[1024]
    pf_kernel_entry** kernels
    int32_t n_kernels, room
    pf_device_entry* devices[256]
    int32_t n_devices
    pf_compiler_entry* compilers[32]
    int32_t n_compilers

cdef Registry reg


# ---------------------------------------------------------------- plugins
cdef public pf_status pf_registry_claim(pf_plugin_entry* p, pf_error* err) noexcept nogil:
    cdef pf_plugin_entry* q
    pthread_mutex_lock(&pf_registry_lock)
    q = reg.plugins
    while q != NULL and strcmp(q.plugin.id, p.plugin.id):
        q = q.next
    if q == NULL:
        p.next = reg.plugins
        reg.plugins = p
    pthread_mutex_unlock(&pf_registry_lock)
    if q != NULL:
        return pf_error_set(err, PF_ALREADY_EXISTS, b"plugin '%s' from %s is loaded already, "
                            b"from %s; "
                            b"uninstall one of the two", p.plugin.id, p.origin, q.origin)
    return PF_OK


cdef public void pf_registry_forget(pf_plugin_entry* p) noexcept nogil:
    cdef pf_plugin_entry** at
    pthread_mutex_lock(&pf_registry_lock)
    at = &reg.plugins
    while at[0] != NULL and at[0] != p:
        at = &at[0].next
    if at[0] == p:
        at[0] = p.next
    pthread_mutex_unlock(&pf_registry_lock)


cdef pf_a32 ended

cdef public int32_t pf_host_ended() noexcept nogil:
    return pf_a32_load(&ended)


cdef void close_device(pf_device_entry* d) noexcept nogil:
    """Its streams are drained and deleted first.  Buffers that are still there are not given back
    any more (device.pyx)."""
    cdef void* dev
    if d.vtable == NULL or d.dev == NULL or pf_device_lost(d):
        return
    pf_device_wait(d)
    pthread_mutex_lock(&pf_opening_lock)
    dev = d.dev
    if d.vtable.stream_del != NULL and d.stream != NULL:
        if d.out != d.stream:
            d.vtable.stream_del(dev, d.out)
        if d.ins != d.stream:
            d.vtable.stream_del(dev, d.ins)
        d.vtable.stream_del(dev, d.stream)
    d.dev = NULL
    d.stream = NULL
    pthread_mutex_unlock(&pf_opening_lock)
    if d.vtable.close != NULL:
        d.vtable.close(dev)


cdef public void pf_plugins_stop() noexcept nogil:
    """Closes devices, then stops plugins, newest first; once.  Their tables stay: the process is
    about to end, and no step runs any more (pf_watch_stop)."""
    cdef pf_plugin_entry* p
    cdef void (*stop)(const pf_host*) noexcept nogil
    cdef int32_t i
    if not pf_a32_cas(&ended, 0, 1):
        return
    for i in range(pf_device_count() - 1, -1, -1):
        close_device(pf_device_at(i))
    pthread_mutex_lock(&pf_registry_lock)
    p = reg.plugins
    pthread_mutex_unlock(&pf_registry_lock)
    while p != NULL:                    # the list only grows at its head, once a plugin has started
        stop = p.plugin.stop
        p.plugin.stop = NULL
        if stop != NULL:
            stop(pf_host_table())
        p = p.next


# ---------------------------------------------------------------- kernels
cdef Chain* chain_of(const char* op, bint make) noexcept nogil:
    """With the lock held."""
    cdef Chain** at = &reg.chains[pf_str_hash(pf_str_of(op)) % CHAINS]
    while at[0] != NULL and strcmp(at[0].op, op):
        at = &at[0].next
    if at[0] == NULL and make:
        at[0] = <Chain*>calloc(1, sizeof(Chain))
        if at[0] != NULL:
            at[0].op = op
    return at[0]


cdef bint better(const pf_kernel_entry* a, const pf_kernel_entry* b) noexcept nogil:
    if a.kernel.priority != b.kernel.priority:
        return a.kernel.priority > b.kernel.priority
    return strcmp(a.plugin_id, b.plugin_id) < 0


cdef bint insert(pf_kernel_entry* e) noexcept nogil:
    cdef Chain* chain
    cdef pf_kernel_entry** at
    cdef pf_kernel_entry** more
    cdef int32_t room
    if reg.n_kernels == reg.room:
        room = 2 * reg.room + 256
        more = <pf_kernel_entry**>realloc(reg.kernels, room * sizeof(void*))
        if more == NULL:
            return False
        reg.kernels = more
        reg.room = room
    chain = chain_of(e.kernel.op, True)
    if chain == NULL:
        return False
    at = &chain.first
    while at[0] != NULL and not better(e, at[0]):
        at = &at[0].next
    e.next = at[0]
    at[0] = e
    reg.kernels[reg.n_kernels] = e
    reg.n_kernels += 1
    return True


cdef public pf_status pf_registry_add_kernel(pf_kernel_entry* e) noexcept nogil:
    cdef bint ok
    pthread_mutex_lock(&pf_registry_lock)
    ok = insert(e)
    pthread_mutex_unlock(&pf_registry_lock)
    return PF_OK if ok else PF_RESOURCE_EXHAUSTED


cdef public int32_t pf_kernel_count() noexcept nogil:
    cdef int32_t n
    pthread_mutex_lock(&pf_registry_lock)
    n = reg.n_kernels
    pthread_mutex_unlock(&pf_registry_lock)
    return n


cdef public const pf_kernel_entry* pf_kernel_at(int32_t i) noexcept nogil:
    cdef const pf_kernel_entry* e = NULL
    pthread_mutex_lock(&pf_registry_lock)
    if 0 <= i < reg.n_kernels:
        e = reg.kernels[i]
    pthread_mutex_unlock(&pf_registry_lock)
    return e


# ---------------------------------------------------------------- compilers of groups
cdef public pf_status pf_registry_add_compiler(pf_compiler_entry* e) noexcept nogil:
    """By plugin id: which one may claim a node first does not depend on the order of loading."""
    cdef int32_t i
    pthread_mutex_lock(&pf_registry_lock)
    i = reg.n_compilers
    if i < MAX_COMPILERS:
        while i > 0 and strcmp(reg.compilers[i - 1].plugin_id, e.plugin_id) > 0:
            reg.compilers[i] = reg.compilers[i - 1]
            i -= 1
        reg.compilers[i] = e
        reg.n_compilers += 1
        i = 0
    pthread_mutex_unlock(&pf_registry_lock)
    return PF_OK if i < MAX_COMPILERS else PF_RESOURCE_EXHAUSTED


cdef public int32_t pf_compiler_count() noexcept nogil:
    cdef int32_t n
    pthread_mutex_lock(&pf_registry_lock)
    n = reg.n_compilers
    pthread_mutex_unlock(&pf_registry_lock)
    return n


cdef public const pf_compiler_entry* pf_compiler_at(int32_t i) noexcept nogil:
    cdef const pf_compiler_entry* e = NULL
    pthread_mutex_lock(&pf_registry_lock)
    if 0 <= i < reg.n_compilers:
        e = reg.compilers[i]
    pthread_mutex_unlock(&pf_registry_lock)
    return e


# ---------------------------------------------------------------- the choice
cdef bint type_in(const pf_constraint* c, int32_t type) noexcept nogil:
    cdef int32_t i
    if type > 100:
        type -= 100                     # a reference to that type
    for i in range(c.n):
        if c.types[i] == type:
            return True
    return False


cdef bint satisfied(const pf_where* w, const pf_node* n, const pf_op_def* op) noexcept nogil:
    cdef const pf_attr_value* v
    cdef int32_t i
    cdef int64_t k
    if w == NULL:
        return True
    for i in range(w.n):
        v = pf_attr_or_default(n, op, w.all[i].attr.data)
        if v == NULL:
            return False
        if v.kind == PF_ATTR_TYPE:
            if not type_in(&w.all[i], v.type):
                return False
        elif v.kind & PF_ATTR_LIST:
            for k in range(v.list.n):
                if not type_in(&w.all[i], (<const int32_t*>v.list.items)[k]):
                    return False
        else:
            return False
    return True


cdef bint serves(const pf_kernel_entry* e, const char* device_type) noexcept nogil:
    return not strcmp(e.kernel.device, b"*") or not strcmp(e.kernel.device, device_type)


cdef struct Text:       # a message under construction
    char* at
    size_t room


cdef void add_text(Text* t, int n) noexcept nogil:
    """`n` is what snprintf returned for t.at and t.room."""
    cdef size_t k = <size_t>n if n > 0 else 0
    if k >= t.room:
        k = t.room - 1
    t.at += k
    t.room -= k


cdef void describe_types(const pf_node* n, const pf_op_def* op, Text* t) noexcept nogil:
    """"T=int8, Tidx=int32": what the node asks for."""
    cdef const pf_attr_value* v
    cdef int32_t i
    cdef int64_t k, many
    cdef const char* between = b" with "
    for i in range(op.n_attrs):
        v = pf_attr_or_default(n, op, op.attrs[i].name.data)
        if v == NULL or op.attrs[i].kind & ~PF_ATTR_LIST != PF_ATTR_TYPE:
            continue
        add_text(t, snprintf(t.at, t.room, b"%s%s=", between, op.attrs[i].name.data))
        if v.kind == PF_ATTR_TYPE:
            add_text(t, snprintf(t.at, t.room, b"%s", pf_type_name(v.type % 100)))
        many = v.list.n if v.kind & PF_ATTR_LIST else 0
        for k in range(many if many < 16 else <int64_t>16):
            add_text(t, snprintf(t.at, t.room, b"%s ",
                                 pf_type_name((<const int32_t*>v.list.items)[k] % 100)))
        between = b", "


cdef void describe_kernels(const Chain* chain, Text* t) noexcept nogil:
    cdef const pf_kernel_entry* e = chain.first
    cdef const char* where
    cdef const char* between = b""
    while e != NULL:
        where = b"any type"
        if e.where != NULL:
            where = (<const pf_where*>e.where).text
        add_text(t, snprintf(t.at, t.room, b"%s%s {%.120s} (%s)", between, e.kernel.device, where,
                             e.plugin_id))
        between = b"; "
        e = e.next


cdef pf_status no_kernel(const pf_node* n, const pf_op_def* op, const char* device_type,
                         const Chain* chain, pf_error* err) noexcept nogil:
    cdef char text[3000]
    cdef Text t
    cdef pf_status code = PF_NOT_FOUND
    t.at = text
    t.room = sizeof(text)
    add_text(&t, snprintf(t.at, t.room, b"node '%.*s': no kernel for op %s on device type %s",
                          <int>(n.name.len if n.name.len < 400 else 400), n.name.data,
                          op.name.data, device_type))
    describe_types(n, op, &t)
    if chain != NULL and chain.first != NULL:
        add_text(&t, snprintf(t.at, t.room, b". Kernels there are: "))
        describe_kernels(chain, &t)
        add_text(&t, snprintf(t.at, t.room, b". Cast the inputs, place the node on another "
                              b"device, or install a "
                              b"plugin that has the kernel"))
    else:
        code = PF_UNIMPLEMENTED
        add_text(&t, snprintf(t.at, t.room, b". No loaded plugin has a kernel for this op; "
                              b"install one that does, "
                              b"such as pyflow-cpu"))
    pf_copy_text(err.node, sizeof(err.node), n.name.data, n.name.len)
    pf_copy_text(err.op, sizeof(err.op), op.name.data, op.name.len)
    pf_copy_text(err.device, sizeof(err.device), device_type, <int64_t>strlen(device_type))
    return pf_error_set(err, code, b"%s", text)


cdef public pf_status pf_kernel_select(const pf_node* n, const pf_op_def* op,
                                       const pf_signature* sig,
                                       const char* device_type, const pf_kernel_entry* after,
                                       const pf_kernel_entry** out, pf_error* err) noexcept nogil:
    cdef Chain* chain
    cdef const pf_kernel_entry* e
    cdef pf_status s = PF_OK
    out[0] = NULL
    pthread_mutex_lock(&pf_registry_lock)
    chain = chain_of(op.name.data, False)
    e = after.next if after != NULL else (chain.first if chain != NULL else NULL)
    while e != NULL and not (serves(e, device_type) and satisfied(<const pf_where*>e.where, n, op)):
        e = e.next
    out[0] = e
    if e == NULL:
        s = no_kernel(n, op, device_type, chain, err)
    pthread_mutex_unlock(&pf_registry_lock)
    return s


# ---------------------------------------------------------------- kernel state
cdef bint copy_str(pf_arena* arena, pf_str from_, pf_str* to) noexcept nogil:
    to[0] = pf_arena_str(arena, from_)
    return to.data != NULL


cdef bint copy_shape(pf_arena* arena, pf_shape from_, pf_shape* to) noexcept nogil:
    cdef int64_t* dims
    to[0] = from_
    if from_.ndim <= 0:
        return True
    dims = <int64_t*>pf_arena_alloc(arena, from_.ndim * sizeof(int64_t))
    if dims == NULL:
        return False
    memcpy(dims, from_.dims, from_.ndim * sizeof(int64_t))
    to.dims = dims
    return True


cdef bint copy_list(pf_arena* arena, int32_t kind, pf_list from_, pf_list* to) noexcept nogil:
    """Items are copied, with what they point to; tensors stay the graph's."""
    cdef int64_t i, size = 8
    cdef char* items
    if kind == PF_ATTR_BOOL or kind == PF_ATTR_TYPE:
        size = 4
    elif kind == PF_ATTR_STRING or kind == PF_ATTR_FUNC:
        size = sizeof(pf_str)
    elif kind == PF_ATTR_SHAPE:
        size = sizeof(pf_shape)
    elif kind == PF_ATTR_TENSOR:
        size = sizeof(pf_const)
    items = <char*>pf_arena_alloc(arena, <uint64_t>(from_.n * size + 1))
    if items == NULL:
        return False
    if from_.n:
        memcpy(items, from_.items, <size_t>(from_.n * size))
    to.items = items
    to.n = from_.n
    for i in range(from_.n):
        if kind == PF_ATTR_STRING or kind == PF_ATTR_FUNC:
            if not copy_str(arena, (<pf_str*>items)[i], <pf_str*>items + i):
                return False
        elif kind == PF_ATTR_SHAPE and not copy_shape(arena, (<pf_shape*>items)[i],
                                                      <pf_shape*>items + i):
            return False
    return True


cdef bint write_attr(pf_arena* arena, const pf_attr* a, const pf_attr_value* v,
                     char* at) noexcept nogil:
    if a.kind & PF_ATTR_LIST:
        return copy_list(arena, a.kind & ~PF_ATTR_LIST, v.list, <pf_list*>at)
    if a.kind == PF_ATTR_INT:
        (<int64_t*>at)[0] = v.i
    elif a.kind == PF_ATTR_FLOAT:
        (<double*>at)[0] = v.f
    elif a.kind == PF_ATTR_BOOL:
        (<int32_t*>at)[0] = v.i != 0
    elif a.kind == PF_ATTR_TYPE:
        (<int32_t*>at)[0] = v.type - 100 if v.type > 100 else v.type
    elif a.kind == PF_ATTR_SHAPE:
        return copy_shape(arena, v.shape, <pf_shape*>at)
    elif a.kind == PF_ATTR_TENSOR:
        (<pf_const*>at).tensor = pf_dl(v.tensor)
        (<pf_const*>at).type = v.tensor.type
    else:
        return copy_str(arena, v.s, <pf_str*>at)
    return True


cdef pf_status attr_problem(const pf_attr* a, const pf_attr_value* v, const pf_node* n,
                            const pf_kernel_entry* k, pf_error* err) noexcept nogil:
    cdef const char* got = b"nothing"
    if v != NULL:
        got = pf_attr_kind_name(v.kind)
    return pf_error_set(err, PF_INVALID_ARGUMENT, b"node '%.*s' (op %s): the kernel of plugin "
                        b"'%s' needs attribute '%s' "
                        b"of kind %s; the node has %s", <int>(n.name.len if n.name.len < 400
                                                              else 400), n.name.data,
                        k.kernel.op, k.plugin_id, a.name, pf_attr_kind_name(a.kind), got)


cdef public pf_status pf_kernel_state(const pf_kernel_entry* k, const pf_node* n,
                                      const pf_op_def* op,
                                      pf_arena* arena, void** state, pf_error* err) noexcept nogil:
    cdef const pf_attr* const* a = k.kernel.attrs
    cdef const pf_attr_value* v
    state[0] = pf_arena_alloc(arena, k.kernel.state_size + 1)
    if state[0] == NULL:
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for the state of kernel '%s'",
                            k.kernel.op)
    while a != NULL and a[0] != NULL:
        v = pf_attr_or_default(n, op, a[0].name)
        if v == NULL:
            if not a[0].flags & PF_ATTR_OPTIONAL:
                return attr_problem(a[0], v, n, k, err)
        elif v.kind != a[0].kind and not (v.kind == PF_ATTR_LIST and a[0].kind & PF_ATTR_LIST):
            return attr_problem(a[0], v, n, k, err)
        elif not write_attr(arena, a[0], v, <char*>state[0] + a[0].offset):
            return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for attribute '%s'",
                                a[0].name)
        a += 1
    return PF_OK


# ---------------------------------------------------------------- devices
# Devices, opened on first use under a lock of their own, and the types that
# have none here.
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
