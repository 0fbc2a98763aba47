# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Reads a serialised GraphDef (protobuf wire format, TensorFlow's field numbers) of untrusted
bytes.

Invariants
1. Nothing is read outside the given bytes; a message is a sub-range of its parent's, so nesting
   needs no recursion.
2. Everything the graph keeps is copied: strings and lists into its arena, tensors into pf_tensors
   it lists.
3. Arena and tensors together stay below the smaller of 1 GB and 64 times the input + 64 MB.
4. Time is linear in the input: names are found through a hash table with a per-call seed.

Groups, which protobuf no longer has, are refused.  Attribute values are read by attr_value.pyx.

Threads: any; a graph is immutable once read.

    pf_graph *g;
    if (pf_graph_read(bytes, n, &g, &err) == PF_OK) { ...; pf_graph_free(g); }
"""
from wire_h cimport *

cdef enum:
    MAX_ATTRS = 1024    # of one node; TensorFlow's ops have fewer than 50


# ---------------------------------------------------------------- NodeDef
# name=1, op=2, input=3, device=4, attr=5
cdef pf_status count_node(pf_load* l, pf_str bytes, pf_node* node) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef int64_t n_attrs = 0, n_in = 0
    node.name = node.op = node.device = pf_str_of(b"")
    while pf_next_field(&r, &f):
        if f.wire != PF_WIRE_BYTES:
            continue
        if f.number == 1:
            node.name = f.bytes
        elif f.number == 2:
            node.op = f.bytes
        elif f.number == 4:
            node.device = f.bytes
        n_in += f.number == 3
        n_attrs += f.number == 5
    if r.bad:
        return pf_malformed(l, b"a NodeDef")
    if n_attrs > MAX_ATTRS:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"the node has %jd attributes; at most %d "
                            b"are allowed",
                            <intmax_t>n_attrs, MAX_ATTRS)
    node.n_in = <int32_t>n_in
    node.n_attrs = <int32_t>n_attrs
    return check_names(l, node)


cdef pf_status check_names(pf_load* l, const pf_node* node) noexcept nogil:
    cdef int64_t i
    if node.name.len == 0 or node.op.len == 0:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"the node has no name, or no op")
    if node.name.data[0] == b'^':
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a node's name must not start with '^'")
    for i in range(node.name.len):
        if node.name.data[i] == b':' or node.name.data[i] == 0:
            return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"a node's name must not contain ':' "
                                b"or a zero byte")
    return PF_OK


cdef public pf_status pf_load_node(pf_load* l, pf_str bytes, int32_t index) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef pf_node* node = l.graph.nodes + index
    cdef int32_t n_in = 0, n_attrs = 0
    cdef pf_str* names
    if count_node(l, bytes, node) != PF_OK:
        return l.err.code
    node.inputs = <pf_input*>pf_load_take(l, node.n_in, sizeof(pf_input))
    node.attrs = <pf_node_attr*>pf_load_take(l, node.n_attrs, sizeof(pf_node_attr))
    names = <pf_str*>pf_arena_alloc(&l.scratch, (node.n_in + 1) * sizeof(pf_str))
    if node.inputs == NULL or node.attrs == NULL or names == NULL:
        return pf_over_cap(l)
    l.input_names[index] = names
    while pf_next_field(&r, &f):
        if f.number == 3 and f.wire == PF_WIRE_BYTES:
            names[n_in] = f.bytes
            n_in += 1
        elif f.number == 5 and f.wire == PF_WIRE_BYTES:
            if pf_read_attr(l, f.bytes, node.attrs + n_attrs) != PF_OK:
                return l.err.code
            n_attrs += 1
    if not (pf_load_keep(l, node.name, &node.name) and pf_load_keep(l, node.op, &node.op)
            and pf_load_keep(l, node.device, &node.device)):
        return l.err.code
    return PF_OK if l.functions == NULL else pf_load_call(l, node)


# ---------------------------------------------------------------- names
cdef int32_t* slot_of(pf_load* l, pf_str name) noexcept nogil:
    """The table's slot of the node of that name, or the empty one where it would go."""
    cdef uint64_t h = l.seed
    cdef int64_t i
    cdef int32_t* slot
    for i in range(name.len):
        h = (h ^ <unsigned char>name.data[i]) * <uint64_t>0x9E3779B97F4A7C15
        h ^= h >> 29
    while True:
        slot = l.table + (h & l.mask)
        if slot[0] == 0 or pf_str_eq(l.graph.nodes[slot[0] - 1].name, name):
            return slot
        h += 1


cdef public pf_status pf_load_index(pf_load* l) noexcept nogil:
    cdef uint64_t size = 16
    cdef int32_t i
    cdef int32_t* slot
    while size < 2 * <uint64_t>l.graph.n_nodes:
        size *= 2
    l.mask = size - 1
    l.table = <int32_t*>pf_arena_alloc(&l.scratch, size * sizeof(int32_t))
    if l.table == NULL:
        return pf_over_cap(l)
    for i in range(l.graph.n_nodes):
        slot = slot_of(l, l.graph.nodes[i].name)
        if slot[0]:
            pf_error_set(l.err, PF_INVALID_ARGUMENT, b"two nodes have this name; names must be "
                         b"unique in a graph")
            return pf_load_blame(l, &l.graph.nodes[i])
        slot[0] = i + 1
    return PF_OK


cdef public int32_t pf_load_find(pf_load* l, pf_str name) noexcept nogil:
    return slot_of(l, name)[0] - 1


cdef pf_status resolve_input(pf_load* l, pf_node* node, int32_t i, pf_str text) noexcept nogil:
    """"name", "name:k" or "^name"."""
    cdef pf_str name = text
    cdef int64_t k, output = 0
    cdef int32_t* slot
    if name.len and name.data[0] == b'^':
        name.data += 1
        name.len -= 1
        output = -1
    else:
        for k in range(text.len):
            if text.data[k] == b':':
                name.len = k
                output = pf_read_number(text, k + 1)
    slot = slot_of(l, name)
    if output < -1 or slot[0] == 0:
        pf_error_set(l.err, PF_INVALID_ARGUMENT, b"input %d is '%.*s', but the graph has no "
                     b"such %s; "
                     b"was the graph pruned or cut at the wrong place?", i,
                     <int>(text.len if text.len < 400 else 400), text.data,
                     b"output (expected name:number)" if output < -1 else b"node")
        return pf_load_blame(l, node)
    node.inputs[i].node = slot[0] - 1
    node.inputs[i].output = <int32_t>output
    return PF_OK


cdef public int64_t pf_read_number(pf_str s, int64_t at) noexcept nogil:
    """The digits from `at` to the end; -2: none, or too large."""
    cdef int64_t n = 0
    cdef int digit
    if at >= s.len or s.len - at > 9:
        return -2
    while at < s.len:
        digit = <int>s.data[at] - 48
        if digit < 0 or digit > 9:
            return -2
        n = 10 * n + digit
        at += 1
    return n


cdef pf_status resolve_node(pf_load* l, int32_t index) noexcept nogil:
    cdef pf_node* node = l.graph.nodes + index
    cdef int32_t i, n = node.n_in, data = 0
    for i in range(n):
        if resolve_input(l, node, i, l.input_names[index][i]) != PF_OK:
            return l.err.code
        if node.inputs[i].output >= 0:
            if data < i:
                pf_error_set(l.err, PF_INVALID_ARGUMENT, b"data input %d follows a control input; "
                             b"control inputs (^name) must come last", i)
                return pf_load_blame(l, node)
            data += 1
    node.n_in = data
    node.n_ctl = n - data
    return PF_OK


# ---------------------------------------------------------------- GraphDef
# node=1, library=2, versions=4
cdef public pf_status pf_load_blame(pf_load* l, const pf_node* node) noexcept nogil:
    """Puts the node into the error."""
    cdef char text[4096]
    pf_copy_text(l.err.node, sizeof(l.err.node), node.name.data, node.name.len)
    pf_copy_text(l.err.op, sizeof(l.err.op), node.op.data, node.op.len)
    memcpy(text, l.err.message, sizeof(text))
    snprintf(l.err.message, sizeof(l.err.message), b"node '%s' (op %s): %.3400s", l.err.node,
             l.err.op, text)
    return l.err.code


cdef pf_status read_versions(pf_load* l, pf_str bytes) noexcept nogil:
    """VersionDef: producer=1, min_consumer=2."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_VARINT:
            l.graph.producer = <int32_t>f.value
        elif f.number == 2 and f.wire == PF_WIRE_VARINT:
            l.graph.min_consumer = <int32_t>f.value
    return pf_malformed(l, b"the VersionDef") if r.bad else PF_OK


cdef public pf_status pf_load_nodes(pf_load* l, int64_t n) noexcept nogil:
    l.graph.nodes = <pf_node*>pf_load_take(l, <uint64_t>n, sizeof(pf_node))
    l.input_names = <pf_str**>pf_arena_alloc(&l.scratch, (n + 1) * sizeof(void*))
    if l.graph.nodes == NULL or l.input_names == NULL:
        return pf_over_cap(l)
    l.graph.n_nodes = <int32_t>n
    return PF_OK


cdef pf_status read_graph(pf_load* l, pf_str bytes) noexcept nogil:
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field f
    cdef int32_t i = 0
    cdef int64_t n = 0
    while pf_next_field(&r, &f):
        n += f.number == 1 and f.wire == PF_WIRE_BYTES
        if f.number == 4 and f.wire == PF_WIRE_BYTES and read_versions(l, f.bytes) != PF_OK:
            return l.err.code
        if f.number == 2 and f.wire == PF_WIRE_BYTES and pf_load_library(l, f.bytes) != PF_OK:
            return l.err.code
    if r.bad:
        return pf_malformed(l, b"the GraphDef")
    if pf_load_nodes(l, n) != PF_OK or pf_library_ready(l) != PF_OK:
        return l.err.code
    r = pf_reader_of(bytes)
    while pf_next_field(&r, &f):
        if f.number == 1 and f.wire == PF_WIRE_BYTES:
            if pf_load_node(l, f.bytes, i) != PF_OK:
                return pf_load_blame(l, &l.graph.nodes[i])
            i += 1
    if pf_load_index(l) != PF_OK:
        return l.err.code
    for i in range(l.graph.n_nodes):
        if resolve_node(l, i) != PF_OK:
            return l.err.code
    return PF_OK


cdef public pf_status pf_load_begin(pf_load* l, int64_t bytes, pf_error* err) noexcept nogil:
    cdef timespec now
    memset(l, 0, sizeof(pf_load))
    l.err = err
    l.cap = 64 * <uint64_t>bytes + (<uint64_t>64 << 20)
    if l.cap > (<uint64_t>1 << 30):
        l.cap = <uint64_t>1 << 30
    l.graph = <pf_graph*>calloc(1, sizeof(pf_graph))
    if l.graph == NULL:
        return pf_over_cap(l)
    l.graph.arena.cap = l.scratch.cap = l.cap
    clock_gettime(CLOCK_MONOTONIC, &now)
    l.seed = (<uint64_t>now.tv_nsec << 20) ^ <uint64_t>now.tv_sec ^ <uint64_t><uintptr_t>l.graph
    return PF_OK


cdef public pf_status pf_graph_read(const void* bytes, int64_t n, pf_graph** out,
                                    pf_error* err) noexcept nogil:
    cdef pf_load l
    cdef pf_str all
    out[0] = NULL
    if n < 0 or n >= (<int64_t>1 << 31):
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"a GraphDef of %jd bytes: protobuf allows "
                            b"less than 2 GB",
                            <intmax_t>n)
    if pf_load_begin(&l, n, err) != PF_OK:
        return err.code
    all.data = <const char*>bytes
    all.len = n
    read_graph(&l, all)
    pf_arena_free(&l.scratch)
    if err.code != PF_OK:
        pf_graph_free(l.graph)
        return err.code
    out[0] = l.graph
    return PF_OK


cdef public void pf_graph_free(pf_graph* g) noexcept nogil:
    cdef int32_t i
    if g == NULL:
        return
    for i in range(g.n_tensors):
        pf_tensor_unref(g.tensors[i])
    free(g.tensors)
    pf_functions_unref(g.functions)
    pf_arena_free(&g.arena)
    free(g)


cdef public const pf_attr_value* pf_node_attr_find(const pf_node* n,
                                                   const char* name) noexcept nogil:
    cdef pf_str wanted = pf_str_of(name)
    cdef int32_t i
    for i in range(n.n_attrs - 1, -1, -1):          # a map's last entry of a key counts
        if pf_str_eq(n.attrs[i].name, wanted):
            return &n.attrs[i].value if n.attrs[i].value.kind else NULL
    return NULL
