# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Which memory every value lies in, and the copies that joins of different memories need.

A value lies on the HOST or in the memory of its node's DEVICE.  Kernels say where they want and leave things (pf_arg); strings,
resources and references are always on the host; what only routes (Identity, Switch, Merge, Enter, Exit, NextIteration) takes
over what it gets; constants and Recv's output (PF_MEM_ANY) go where their readers want them.  A loop's Merge is on the device as
soon as anything that arrives there is, so that a copy, if one is needed, happens outside of the cycle or once per iteration.

Where an edge joins different memories the graph gets a node `_CopyToHost` or `_CopyToDevice` (one per value and destination; a
constant a second Const instead), and is compiled again.  Graphs without devices of own memory never come here.
"""
from compile_h cimport *

cdef enum:
    ANYWHERE = 2
    A_HANDLE = 3
    FOLLOWS = 4                 # routing: its own memory

cdef bint host_only(int32_t type) noexcept nogil:
    return type == PF_STRING or type == PF_RESOURCE or type == PF_VARIANT

cdef const pf_arg* declared(const pf_arg** a, pf_str name) noexcept nogil:
    while a[0] != NULL:
        if pf_str_is(name, a[0].name):
            return a[0]
        a += 1
    return NULL

cdef int32_t arg_of(pf_comp* c, int32_t i, bint output, int32_t k) noexcept nogil:
    """The argument that flat input or output k belongs to; -1."""
    cdef pf_signature* s = c.sig + i
    cdef const int32_t* start = s.out_start if output else s.in_start
    cdef int32_t a = 0, n = s.n_out_args if output else s.n_in_args
    while a + 1 < n and start[a + 1] <= k:
        a += 1
    return a if a < n else -1

cdef public const pf_arg* pf_comp_arg(pf_comp* c, int32_t node, int32_t output, int32_t k) noexcept nogil:
    """What the node's kernel says about flat input or output k; NULL: nothing."""
    cdef const pf_arg** said = <const pf_arg**>c.kernel[node].kernel.args if c.kernel[node] != NULL else NULL
    cdef int32_t a = arg_of(c, node, output, k) if said != NULL else -1
    if a < 0:
        return NULL
    return declared(said, c.def_[node].out[a].name if output else c.def_[node].ins[a].name)

cdef public int32_t pf_comp_aliased(pf_comp* c, int32_t node, int32_t k) noexcept nogil:
    """The flat input whose buffer output k always is; -1: none."""
    cdef const pf_arg* a = pf_comp_arg(c, node, 1, k)
    cdef int32_t in_
    if a == NULL or not a.flags & <uint32_t>PF_ARG_ALIAS or a.reuse <= 0:
        return -1
    in_ = a.reuse - 1 + k - c.sig[node].out_start[arg_of(c, node, 1, k)]
    return in_ if in_ < c.sig[node].n_in else -1

cdef inline int32_t place_of(const pf_arg* a) noexcept nogil:
    if a == NULL or a.mem == PF_MEM_DEVICE:
        return PF_ON_DEVICE
    return ANYWHERE if a.mem == PF_MEM_ANY else PF_ON_HOST

cdef inline bint routes(pf_comp* c, int32_t i) noexcept nogil:
    cdef int32_t cls = c.cls[i]
    if cls == PF_C_IDENTITY:
        return not c.def_[i].traits & PF_TRAIT_STAYS
    return (cls == PF_C_SWITCH or cls == PF_C_MERGE or cls == PF_C_ENTER or cls == PF_C_EXIT
            or cls == PF_C_NEXT)

cdef int32_t wanted(pf_comp* c, int32_t i, int32_t k) noexcept nogil:
    """Where node i wants its input k."""
    if c.sig[i].in_ref[k]:
        return A_HANDLE
    if host_only(c.sig[i].in_type[k]):
        return PF_ON_HOST
    if routes(c, i):
        return PF_ON_HOST if c.cls[i] == PF_C_SWITCH and k == 1 else FOLLOWS
    if c.cls[i] != PF_C_KERNEL or c.plan.nodes[i].home == NULL:
        return PF_ON_HOST
    return place_of(pf_comp_arg(c, i, 0, k))

cdef int32_t left_at(pf_comp* c, int32_t i, int32_t o) noexcept nogil:
    """Where node i leaves output o; ANYWHERE: where its readers want it."""
    if host_only(c.sig[i].out_type[o]) or c.sig[i].out_ref[o]:
        return PF_ON_HOST
    if routes(c, i):
        return PF_ON_HOST if c.cls[i] == PF_C_MERGE and o == 1 else FOLLOWS
    if c.plan.nodes[i].home == NULL:
        return PF_ON_HOST
    if c.cls[i] == PF_C_CONST:
        return ANYWHERE
    return place_of(pf_comp_arg(c, i, 1, o)) if c.cls[i] == PF_C_KERNEL else PF_ON_HOST

# ---------------------------------------------------------------- solving
cdef inline int32_t memory_read(pf_comp* c, int32_t i, int32_t k) noexcept nogil:
    """Where the value of edge k of node i lies."""
    cdef int32_t src = c.g.nodes[i].inputs[k].node, o = c.g.nodes[i].inputs[k].output
    if c.sig[src].out_ref[o] and not c.sig[i].in_ref[k]:
        return PF_ON_DEVICE if c.plan.nodes[src].home != NULL and not host_only(c.sig[src].out_type[o]) else PF_ON_HOST
    return c.mem[c.mem_at[src] + o]

cdef bint read_on_device(pf_comp* c, int32_t src, int32_t o, uint8_t* routed) noexcept nogil:
    """Some reader of the output wants it on the device, perhaps behind routing nodes."""
    cdef int32_t e, k, d, w
    cdef pf_node* nd
    for e in range(c.out_begin[src], c.out_begin[src + 1]):
        if c.out_port[e] != o:
            continue
        d = c.out_node[e]
        nd = c.g.nodes + d
        for k in range(nd.n_in):
            if nd.inputs[k].node == src and nd.inputs[k].output == o:
                w = wanted(c, d, k)
                if w == PF_ON_DEVICE or (w == FOLLOWS and routed[d]):
                    return True
    return False

cdef void readers_of_routes(pf_comp* c, uint8_t* routed) noexcept nogil:
    """routed[i]: a value that enters routing node i is read on the device in the end."""
    cdef int32_t j, i, o
    cdef bint changed = True
    while changed:
        changed = False
        j = c.n - 1
        while j >= 0:
            i = c.topo[j]
            j -= 1
            if routed[i] or not routes(c, i):
                continue
            for o in range(c.sig[i].n_out):
                if left_at(c, i, o) == FOLLOWS and read_on_device(c, i, o, routed):
                    routed[i] = 1
                    changed = True

cdef bint follow(pf_comp* c, int32_t i) noexcept nogil:
    """Routing node i takes over the memory of what it gets; True: it was news."""
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, o, m = PF_ON_HOST, src
    cdef bint news = False
    if c.sig[i].out_ref[0]:
        return False
    for k in range(nd.n_in):
        if wanted(c, i, k) == FOLLOWS and memory_read(c, i, k) == PF_ON_DEVICE:
            m = PF_ON_DEVICE
    for o in range(c.sig[i].n_out):
        if left_at(c, i, o) == FOLLOWS and m == PF_ON_DEVICE and c.mem[c.mem_at[i] + o] != PF_ON_DEVICE:
            c.mem[c.mem_at[i] + o] = PF_ON_DEVICE
            news = True
    for k in range(nd.n_in):
        src = nd.inputs[k].node
        if (c.mem[c.mem_at[i]] == PF_ON_DEVICE and wanted(c, i, k) == FOLLOWS and left_at(c, src, nd.inputs[k].output) == ANYWHERE
                and c.mem[c.mem_at[src] + nd.inputs[k].output] != PF_ON_DEVICE):
            c.mem[c.mem_at[src] + nd.inputs[k].output] = PF_ON_DEVICE
            news = True
    if c.flags[i] & PF_N_LOOP_MERGE and c.mem[c.mem_at[i]] == PF_ON_DEVICE:
        for k in range(nd.n_in):
            src = nd.inputs[k].node
            if c.mem[c.mem_at[src]] != PF_ON_DEVICE:
                c.mem[c.mem_at[src]] = PF_ON_DEVICE
                news = True
    return news

cdef pf_status solve_memory(pf_comp* c) noexcept nogil:
    cdef uint8_t* routed = <uint8_t*>pf_comp_grab(c, c.n, 1)
    cdef int32_t i, j, o, at = 0
    cdef bint changed = True
    c.mem_at = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    if routed == NULL or c.mem_at == NULL:
        return c.err.code
    for i in range(c.n):
        c.mem_at[i] = at
        at += c.sig[i].n_out
    c.mem = <uint8_t*>pf_comp_grab(c, at, 1)
    if c.mem == NULL:
        return c.err.code
    readers_of_routes(c, routed)
    for i in range(c.n):
        for o in range(c.sig[i].n_out):
            j = left_at(c, i, o)
            if j == PF_ON_DEVICE or (j == ANYWHERE and read_on_device(c, i, o, routed)):
                c.mem[c.mem_at[i] + o] = PF_ON_DEVICE
    while changed:
        changed = False
        for j in range(c.n):
            if routes(c, c.topo[j]) and follow(c, c.topo[j]):
                changed = True
    return PF_OK

# ---------------------------------------------------------------- copies
cdef struct Copy:
    int32_t src, port, to_device, next  # next: another copy of the same node's outputs
    pf_device_entry* dev
    int32_t node                        # its index in the grown graph

cdef int32_t target_of(pf_comp* c, int32_t i, int32_t k, pf_device_entry** dev) noexcept nogil:
    """Where edge k of node i has to be brought; -1: it is right there already."""
    cdef int32_t src = c.g.nodes[i].inputs[k].node, want = wanted(c, i, k), have
    if want == A_HANDLE or host_only(c.sig[i].in_type[k]):
        return -1
    have = memory_read(c, i, k)
    if want == FOLLOWS:
        want = c.mem[c.mem_at[i]]
        if c.flags[i] & PF_N_LOOP_MERGE:
            return -1
    if want == ANYWHERE:
        return -1
    dev[0] = c.plan.nodes[i].home if want == PF_ON_DEVICE else NULL
    if want == have and (want == PF_ON_HOST or c.plan.nodes[src].home == dev[0]):
        return -1
    return want

cdef pf_str copy_name(pf_graph* g, pf_str name, int32_t number, bint to_device) noexcept nogil:
    cdef char text[600]
    snprintf(text, 600, b"%.*s/_to_%s_%d", <int>min(name.len, 500), name.data, b"device" if to_device else b"host", number)
    return pf_arena_str(&g.arena, pf_str_of(text))

cdef pf_status second_constant(pf_comp* c, pf_node* src, pf_node* nd) noexcept nogil:
    """`_const_of` says whose value it has, where values come by name."""
    cdef pf_node_attr* attrs = <pf_node_attr*>pf_arena_alloc(&c.g.arena, sizeof(pf_node_attr) * <uint64_t>(src.n_attrs + 1))
    if attrs == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    memcpy(attrs, src.attrs, sizeof(pf_node_attr) * src.n_attrs)
    nd.op = src.op
    nd.attrs = attrs
    nd.n_attrs = src.n_attrs
    nd.inputs = src.inputs
    nd.n_ctl = src.n_ctl
    if pf_node_attr_find(src, b"_const_of") == NULL:
        attrs[src.n_attrs].name = pf_str_of(b"_const_of")
        attrs[src.n_attrs].value.kind = PF_ATTR_STRING
        attrs[src.n_attrs].value.s = src.name
        nd.n_attrs += 1
    return PF_OK

cdef pf_status fill_copy(pf_comp* c, Copy* w, pf_node* nodes, int32_t number) noexcept nogil:
    """A second constant, or a copy node, at nodes[w.node]."""
    cdef pf_graph* g = c.g
    cdef pf_node* src = nodes + w.src
    cdef pf_node* nd = nodes + w.node
    cdef pf_device_entry* here = w.dev if w.to_device else c.plan.nodes[w.src].home
    nd.name = copy_name(g, src.name, number, w.to_device)
    nd.device = src.device
    if here != NULL:
        nd.device = pf_arena_str(&g.arena, pf_str_of(here.name))
    if c.cls[w.src] == PF_C_CONST:
        return second_constant(c, src, nd)
    nd.op = pf_str_of(pf_name_to_device if w.to_device else pf_name_to_host)
    nd.n_in = 1
    nd.inputs = <pf_input*>pf_arena_alloc(&g.arena, sizeof(pf_input))
    nd.n_attrs = 1
    nd.attrs = <pf_node_attr*>pf_arena_alloc(&g.arena, sizeof(pf_node_attr))
    if nd.inputs == NULL or nd.attrs == NULL or nd.name.data == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    nd.inputs[0].node = w.src
    nd.inputs[0].output = w.port
    nd.attrs[0].name = pf_str_of(b"T")
    nd.attrs[0].value.kind = PF_ATTR_TYPE
    nd.attrs[0].value.type = c.sig[w.src].out_type[w.port]
    return PF_OK

cdef int32_t copy_for(Copy* all, int32_t* first, int32_t* n, int32_t src, int32_t port, int32_t to_device,
                      pf_device_entry* dev) noexcept nogil:
    cdef int32_t k = first[src] - 1
    while k >= 0:
        if all[k].port == port and all[k].to_device == to_device and all[k].dev == dev:
            return k
        k = all[k].next
    k = n[0]
    n[0] += 1
    all[k].src = src
    all[k].port = port
    all[k].to_device = to_device
    all[k].dev = dev
    all[k].next = first[src] - 1
    first[src] = k + 1
    return k

cdef pf_status insert_copies(pf_comp* c, int32_t n_edges) noexcept nogil:
    """c.again = 1 and a grown graph if any edge needs a copy."""
    cdef Copy* all = <Copy*>pf_comp_grab(c, n_edges, sizeof(Copy))
    cdef int32_t* first = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    cdef int32_t n = 0, i, k, t, w
    cdef pf_device_entry* dev = NULL
    cdef pf_node* nodes
    cdef pf_node* nd
    if all == NULL or first == NULL:
        return c.err.code
    for i in range(c.n):
        nd = c.g.nodes + i
        for k in range(nd.n_in):
            t = target_of(c, i, k, &dev)
            if t >= 0:
                w = copy_for(all, first, &n, nd.inputs[k].node, nd.inputs[k].output, t, dev)
                all[w].node = c.n + w
    if n == 0:
        return PF_OK
    nodes = <pf_node*>pf_arena_alloc(&c.g.arena, sizeof(pf_node) * <uint64_t>(c.n + n))
    if nodes == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    memcpy(nodes, c.g.nodes, sizeof(pf_node) * c.n)
    return rewire(c, all, first, n, nodes)

cdef pf_status rewire(pf_comp* c, Copy* all, int32_t* first, int32_t n, pf_node* nodes) noexcept nogil:
    cdef int32_t i, k, t, w
    cdef pf_device_entry* dev = NULL
    cdef pf_input* inputs
    for i in range(c.n):
        inputs = NULL
        for k in range(nodes[i].n_in):
            t = target_of(c, i, k, &dev)
            if t < 0:
                continue
            w = copy_for(all, first, &n, c.g.nodes[i].inputs[k].node, c.g.nodes[i].inputs[k].output, t, dev)
            if inputs == NULL:
                inputs = <pf_input*>pf_arena_alloc(&c.g.arena, sizeof(pf_input) * <uint64_t>(nodes[i].n_in + nodes[i].n_ctl))
                if inputs == NULL:
                    return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
                memcpy(inputs, nodes[i].inputs, sizeof(pf_input) * (nodes[i].n_in + nodes[i].n_ctl))
            inputs[k].node = all[w].node
            inputs[k].output = 0
        if inputs != NULL:
            nodes[i].inputs = inputs
    for w in range(n):
        if fill_copy(c, all + w, nodes, w):
            return c.err.code
    c.g.nodes = nodes
    c.g.n_nodes = c.n + n
    c.again = 1
    return PF_OK

# ---------------------------------------------------------------- what the executor needs of it
cdef pf_status upload_constant(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_tensor* t = NULL
    cdef pf_status st = pf_device_upload(c.plan.nodes[i].home, pf_tensor_of(c.value[i]), &t)
    if st:
        return pf_comp_failf(c, i, st, b"the constant of %lld bytes could not be copied to %s",
                             <long long>pf_tensor_of(c.value[i]).nbytes, c.plan.nodes[i].home.name)
    return pf_comp_own_value(c, i, t)

cdef pf_status describe_outputs(pf_comp* c, int32_t i) noexcept nogil:
    """out_mem, and whether the call ends only when the stream has written its host-memory outputs."""
    cdef pf_node_info* info = c.plan.nodes + i
    cdef uint8_t* mem = <uint8_t*>pf_comp_keep(c, c.sig[i].n_out, 1)
    cdef const pf_arg* a
    cdef int32_t o
    if mem == NULL:
        return c.err.code
    for o in range(c.sig[i].n_out):
        mem[o] = c.mem[c.mem_at[i] + o]
        a = pf_comp_arg(c, i, 1, o)
        if (a != NULL and place_of(a) == PF_ON_HOST and not a.flags & PF_ARG_WRITTEN and info.dev.stream != NULL
                and not host_only(c.sig[i].out_type[o])):
            info.waits = 1
    info.out_mem = mem
    if info.waits:
        c.flags[i] |= PF_N_ASYNC
    return PF_OK

cdef public pf_status pf_comp_note_device(pf_comp* c, pf_device_entry* d) noexcept nogil:
    cdef int32_t k
    for k in range(c.plan.n_devices):
        if c.plan.devices[k] == d:
            return PF_OK
    if c.plan.devices == NULL:
        c.plan.devices = <pf_device_entry**>pf_comp_keep(c, pf_device_count() + 64, sizeof(void*))
        if c.plan.devices == NULL:
            return c.err.code
    c.plan.devices[c.plan.n_devices] = d
    c.plan.n_devices += 1
    c.plan.has_async = 1
    return PF_OK

cdef pf_status find_home(pf_comp* c, int32_t i) noexcept nogil:
    """The device of a node that only routes; constants and variables too."""
    cdef char kind[24]
    cdef char text[400]
    cdef int32_t ordinal
    cdef pf_node_info* info = c.plan.nodes + i
    pf_device_of_name(c.g.nodes[i].device, kind, &ordinal)
    info.dev = pf_device_find(kind, ordinal)
    if info.dev == NULL:
        pf_device_problem(kind, ordinal, text, sizeof(text))
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, text)
    info.home = info.dev if info.dev.own_memory else NULL
    return pf_comp_note_device(c, info.dev) if info.home != NULL else PF_OK

cdef bint elsewhere(pf_comp* c) noexcept nogil:
    """No kernel is on a device with memory, but perhaps a variable or a constant that is only read."""
    cdef char kind[24]
    cdef int32_t i, ordinal
    cdef pf_str last
    last.data = b""
    last.len = 0
    for i in range(c.n):
        if c.cls[i] == PF_C_KERNEL or pf_str_eq(c.g.nodes[i].device, last):
            continue
        last = c.g.nodes[i].device
        pf_device_of_name(last, kind, &ordinal)
        if strcmp(kind, b"CPU"):
            return True
    return False

cdef public pf_status pf_comp_transfers(pf_comp* c) noexcept nogil:
    """After kernels are chosen: memory of every value; c.again if the graph had to grow."""
    cdef int32_t i, edges = 0
    if c.plan.n_devices == 0 and not elsewhere(c):
        return PF_OK
    for i in range(c.n):
        if c.cls[i] != PF_C_KERNEL and c.g.nodes[i].device.len and find_home(c, i):
            return c.err.code
        edges += c.g.nodes[i].n_in
    if solve_memory(c) or insert_copies(c, edges) or c.again:
        return c.err.code
    for i in range(c.n):
        if c.plan.nodes[i].home == NULL:
            continue
        if c.cls[i] == PF_C_KERNEL and describe_outputs(c, i):
            return c.err.code
        if c.cls[i] == PF_C_CONST and c.mem[c.mem_at[i]] == PF_ON_DEVICE and upload_constant(c, i):
            return c.err.code
    return PF_OK
