# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""The library of a GraphDef: FunctionDefs of untrusted bytes, and their bodies as graphs.

A library is read with its graph: names, types and the bytes of each FunctionDef are kept.  A body
becomes a graph when somebody asks for it, by the rules and caps of proto.pyx.

    "x"         as an input in a body: argument x           "n:out:1"  item 1 of n's output `out`
    "^n"        control

Invariants
1. Functions are sorted by name; two of one name are an error.
2. A body's nodes are its arguments in order, those of the FunctionDef, its results in order.
3. A node of a body is named FUNCTION/NODE once the body is read.
4. Only what a result, a control result or an op with effects needs is kept; the rest need not even
   be of a known op.

Threads: any; a library is immutable once read.
"""
from functions_h cimport *

cdef enum:
    MAX_ARGS = 1 << 16          # of one function


cdef extern from "<stdlib.h>" nogil:
    void qsort(void*, size_t, size_t, int (*)(const void*, const void*) noexcept nogil) noexcept


# ---------------------------------------------------------------- the library
cdef public void pf_functions_ref(pf_functions* f) noexcept nogil:
    pf_a32_add_rlx(&f.refs, 1)


cdef public void pf_functions_unref(pf_functions* f) noexcept nogil:
    if f != NULL and pf_a32_dec_last(&f.refs):
        free(f.items)
        pf_arena_free(&f.arena)
        free(f)


cdef int compare(pf_str a, pf_str b) noexcept nogil:
    cdef int d = memcmp(a.data, b.data, <size_t>min(a.len, b.len))
    return d if d else (a.len > b.len) - (a.len < b.len)


cdef int by_name(const void* a, const void* b) noexcept nogil:
    return compare((<const pf_function*>a).name, (<const pf_function*>b).name)


cdef public const pf_function* pf_function_find(const pf_functions* f, pf_str name) noexcept nogil:
    cdef int32_t lo = 0, hi, mid
    cdef int d
    if f == NULL:
        return NULL
    hi = f.n
    while lo < hi:
        mid = (lo + hi) // 2
        d = compare(f.items[mid].name, name)
        if d == 0:
            return f.items + mid
        if d < 0:
            lo = mid + 1
        else:
            hi = mid
    return NULL


cdef pf_status no_room(pf_load* l) noexcept nogil:
    return pf_error_set(l.err, PF_RESOURCE_EXHAUSTED, b"the library of functions takes more "
                        b"memory than its size allows")


cdef pf_status read_argument(pf_load* l, pf_function* f, pf_str bytes, int32_t* type,
                             pf_str* name) noexcept nogil:
    """ArgDef: name=1, type=3, type_attr=4, number_attr=5, type_list_attr=6, is_ref=16."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field a
    type[0] = 0
    name[0] = pf_str_of(b"")
    while pf_next_field(&r, &a):
        if a.number == 1 and a.wire == PF_WIRE_BYTES:
            name[0] = a.bytes
        elif a.number == 3 and a.wire == PF_WIRE_VARINT:
            type[0] = <int32_t>a.value
        elif 4 <= a.number <= 6 and a.wire == PF_WIRE_BYTES and a.bytes.len:
            f.generic = 1
        elif a.number == 16 and a.value:
            f.generic = 1
    name[0] = pf_arena_str(&l.functions.arena, name[0])
    if r.bad:
        return pf_malformed(l, b"an argument of a function")
    return PF_OK if name[0].data != NULL else no_room(l)


cdef pf_status read_signature(pf_load* l, pf_function* f, pf_str bytes) noexcept nogil:
    """OpDef: name=1, input_arg=2, output_arg=3, is_stateful=17."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field a
    cdef pf_arena* arena = &l.functions.arena
    cdef int64_t n_in = 0, n_out = 0
    while pf_next_field(&r, &a):
        n_in += a.number == 2 and a.wire == PF_WIRE_BYTES
        n_out += a.number == 3 and a.wire == PF_WIRE_BYTES
        if a.number == 1 and a.wire == PF_WIRE_BYTES:
            f.name = a.bytes
        elif a.number == 17 and a.wire == PF_WIRE_VARINT:
            f.stateful = a.value != 0
    if r.bad or f.name.len == 0:
        return pf_malformed(l, b"the signature of a function")
    if n_in > MAX_ARGS or n_out > MAX_ARGS:
        return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"function '%.*s' has more than %d "
                            b"arguments or results",
                            <int>min(f.name.len, <int64_t>200), f.name.data, MAX_ARGS)
    f.name = pf_arena_str(arena, f.name)
    f.in_type = <int32_t*>pf_arena_alloc(arena, (n_in + 1) * sizeof(int32_t))
    f.out_type = <int32_t*>pf_arena_alloc(arena, (n_out + 1) * sizeof(int32_t))
    f.in_name = <pf_str*>pf_arena_alloc(arena, (n_in + 1) * sizeof(pf_str))
    f.out_name = <pf_str*>pf_arena_alloc(arena, (n_out + 1) * sizeof(pf_str))
    if (f.name.data == NULL or f.in_type == NULL or f.out_type == NULL or f.in_name == NULL
            or f.out_name == NULL):
        return no_room(l)
    r = pf_reader_of(bytes)
    while pf_next_field(&r, &a):
        if a.wire != PF_WIRE_BYTES:
            continue
        if a.number == 2:
            if read_argument(l, f, a.bytes, <int32_t*>f.in_type + f.n_in,
                             <pf_str*>f.in_name + f.n_in) != PF_OK:
                return l.err.code
            f.n_in += 1
        elif a.number == 3:
            if read_argument(l, f, a.bytes, <int32_t*>f.out_type + f.n_out,
                             <pf_str*>f.out_name + f.n_out) != PF_OK:
                return l.err.code
            f.n_out += 1
    return PF_OK


cdef pf_status read_function(pf_load* l, pf_str bytes) noexcept nogil:
    """FunctionDef: signature=1; the rest is read when its body is wanted."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field a
    cdef pf_functions* all = l.functions
    cdef pf_function* f = all.items + all.n
    memset(f, 0, sizeof(pf_function))
    while pf_next_field(&r, &a):
        if a.number == 1 and a.wire == PF_WIRE_BYTES and f.name.len == 0:
            if read_signature(l, f, a.bytes) != PF_OK:
                return l.err.code
    if r.bad or f.name.len == 0:
        return pf_malformed(l, b"a FunctionDef")
    f.def_ = pf_arena_str(&all.arena, bytes)
    if f.def_.data == NULL:
        return no_room(l)
    all.n += 1
    return PF_OK


cdef public pf_status pf_load_library(pf_load* l, pf_str bytes) noexcept nogil:
    """FunctionDefLibrary: function=1.  Protobuf may send one message in pieces."""
    cdef pf_reader r = pf_reader_of(bytes)
    cdef pf_field a
    cdef int64_t n = 0
    cdef pf_function* grown
    while pf_next_field(&r, &a):
        n += a.number == 1 and a.wire == PF_WIRE_BYTES
    if r.bad:
        return pf_malformed(l, b"the FunctionDefLibrary")
    if l.functions == NULL:
        l.functions = <pf_functions*>calloc(1, sizeof(pf_functions))
        if l.functions == NULL:
            return pf_over_cap(l)
        pf_a32_store(&l.functions.refs, 1)
        l.functions.arena.cap = l.cap
        l.graph.functions = l.functions
    n += l.functions.n
    grown = <pf_function*>realloc(l.functions.items, <size_t>(n + 1) * sizeof(pf_function))
    if grown == NULL:
        return pf_over_cap(l)
    l.functions.items = grown
    r = pf_reader_of(bytes)
    while pf_next_field(&r, &a):
        if a.number == 1 and a.wire == PF_WIRE_BYTES and read_function(l, a.bytes) != PF_OK:
            return l.err.code
    return PF_OK


cdef public pf_status pf_library_ready(pf_load* l) noexcept nogil:
    cdef int32_t k
    cdef pf_functions* f = l.functions
    if f == NULL:
        return PF_OK
    qsort(f.items, <size_t>f.n, sizeof(pf_function), by_name)
    for k in range(1, f.n):
        if compare(f.items[k - 1].name, f.items[k].name) == 0:
            return pf_error_set(l.err, PF_INVALID_ARGUMENT, b"the library has two functions "
                                b"named '%.*s'",
                                <int>min(f.items[k].name.len, <int64_t>200), f.items[k].name.data)
    return PF_OK


cdef bint set_types(pf_load* l, pf_node_attr* a, const char* name, const int32_t* types,
                    int32_t n) noexcept nogil:
    cdef int32_t* kept = <int32_t*>pf_load_take(l, <uint64_t>n, sizeof(int32_t))
    if kept == NULL:
        return False
    memcpy(kept, types, sizeof(int32_t) * <size_t>n)
    a.name = pf_str_of(name)
    a.value.kind = PF_ATTR_LIST | PF_ATTR_TYPE
    a.value.list.items = kept
    a.value.list.n = n
    return True


cdef public pf_status pf_load_call(pf_load* l, pf_node* node) noexcept nogil:
    cdef const pf_function* f = pf_function_find(l.functions, node.op)
    cdef pf_node_attr* a
    if f == NULL:
        return PF_OK
    a = <pf_node_attr*>pf_load_take(l, 3, sizeof(pf_node_attr))
    if a == NULL or not (set_types(l, a, b"Tin", f.in_type, f.n_in)
                         and set_types(l, a + 1, b"Tout", f.out_type, f.n_out)):
        return pf_over_cap(l)
    a[2].name = pf_str_of(b"f")
    a[2].value.kind = PF_ATTR_FUNC
    a[2].value.s = node.op
    node.op = pf_str_of(pf_name_call)
    node.attrs = a
    node.n_attrs = 3
    return PF_OK


# ---------------------------------------------------------------- bodies
cdef struct Body:
    pf_load l
    pf_functions* all
    const pf_function* f
    int32_t n_nodes             # of the FunctionDef
    pf_signature** sig          # of nodes whose outputs are read
    const pf_function** called  # whose name was the node's op
    uint8_t* kept
    int32_t* stack
    int32_t n_stack


cdef bint set_type_and_index(pf_load* l, pf_node* node, const char* op, pf_str name, int32_t type,
                             int32_t index) noexcept nogil:
    cdef pf_node_attr* a = <pf_node_attr*>pf_load_take(l, 2, sizeof(pf_node_attr))
    if a == NULL or not pf_load_keep(l, name, &node.name):
        return False
    node.op = pf_str_of(op)
    node.device = pf_str_of(b"")
    node.attrs = a
    node.n_attrs = 2
    a[0].name = pf_str_of(b"T")
    a[0].value.kind = PF_ATTR_TYPE
    a[0].value.type = type
    a[1].name = pf_str_of(b"index")
    a[1].value.kind = PF_ATTR_INT
    a[1].value.i = index
    return True


cdef pf_status make_ends(Body* b) noexcept nogil:
    """The nodes of arguments and results."""
    cdef int32_t k, at
    cdef char name[64]
    for k in range(b.f.n_in):
        if not set_type_and_index(&b.l, b.l.graph.nodes + k, pf_name_arg, b.f.in_name[k],
                                  b.f.in_type[k], k):
            return pf_over_cap(&b.l)
    for k in range(b.f.n_out):
        at = b.f.n_in + b.n_nodes + k
        snprintf(name, 64, b"_function_result_%d", k)   # ':' and '^' it cannot be asked for with
        b.l.graph.nodes[at].inputs = <pf_input*>pf_load_take(&b.l, 1, sizeof(pf_input))
        if b.l.graph.nodes[at].inputs == NULL or not set_type_and_index(
                &b.l, b.l.graph.nodes + at, pf_name_retval, pf_str_of(name), b.f.out_type[k], k):
            return pf_over_cap(&b.l)
    return PF_OK


cdef pf_status split_inputs(Body* b, int32_t i) noexcept nogil:
    """n_in: data only; n_ctl: control."""
    cdef pf_node* node = b.l.graph.nodes + i
    cdef int32_t k, data = 0
    cdef pf_str* names = b.l.input_names[i]
    for k in range(node.n_in):
        if names[k].len and names[k].data[0] == b'^':
            continue
        if data < k:
            return pf_error_set(b.l.err, PF_INVALID_ARGUMENT, b"data input %d follows a control "
                                b"input; control inputs (^name) must come last", k)
        data += 1
    node.n_ctl = node.n_in - data
    node.n_in = data
    return PF_OK


cdef int32_t output_named(const pf_op_def* op, const pf_signature* s, pf_str arg,
                          int64_t item) noexcept nogil:
    cdef int32_t k
    for k in range(op.n_out):
        if pf_str_eq(op.out[k].name, arg):
            if item < s.out_start[k + 1] - s.out_start[k]:
                return s.out_start[k] + <int32_t>item
    return -1


cdef int32_t output_of(Body* b, int32_t node, pf_str arg, int64_t item) noexcept nogil:
    """The number of a node's output; -1: it has none of that name, or the error is set."""
    cdef pf_node* nd = b.l.graph.nodes + node
    cdef const pf_op_def* op
    cdef pf_signature* s
    cdef int32_t k
    if b.called[node] != NULL:
        for k in range(b.called[node].n_out):
            if item == 0 and pf_str_eq(b.called[node].out_name[k], arg):
                return k
    op = pf_op_find(nd.op)
    if op == NULL:
        pf_error_set(b.l.err, PF_NOT_FOUND, b"unknown op %.*s",
                     <int>min(nd.op.len, <int64_t>80), nd.op.data)
        return -1
    s = b.sig[node]
    if s == NULL:
        s = <pf_signature*>pf_arena_alloc(&b.l.graph.arena, sizeof(pf_signature))
        if s == NULL:
            pf_over_cap(&b.l)
            return -1
        if pf_node_resolve(b.l.graph, nd, op, s, b.l.err):
            return -1
        b.sig[node] = s
    return output_named(op, s, arg, item)


cdef pf_status resolve(Body* b, pf_str text, pf_input* out) noexcept nogil:
    cdef pf_str name = text, arg = pf_str_of(b"")
    cdef int64_t k, first = -1, second = -1, item = 0
    cdef bint control = text.len and text.data[0] == b'^'
    if control:
        name.data += 1
        name.len -= 1
    for k in range(name.len):
        if name.data[k] == b':':
            if first < 0:
                first = k
            elif second < 0:
                second = k
    if first >= 0:
        arg.data = name.data + first + 1
        arg.len = (second if second >= 0 else name.len) - first - 1
        if second >= 0:
            item = pf_read_number(name, second + 1)
        name.len = first
    out.node = pf_load_find(&b.l, name)
    if out.node >= b.f.n_in + b.n_nodes:
        out.node = -1               # a result is nobody's input
    if out.node < 0:
        return PF_INVALID_ARGUMENT
    if control:
        out.output = -1
        return PF_OK
    if out.node < b.f.n_in:
        out.output = 0
        return PF_OK if first < 0 or item == 0 else PF_INVALID_ARGUMENT
    out.output = output_of(b, out.node, arg, item) if first >= 0 and item >= 0 else -1
    return PF_OK if out.output >= 0 else PF_INVALID_ARGUMENT


cdef pf_status bad_input(Body* b, int32_t node, int32_t i, pf_str text) noexcept nogil:
    pf_error_set(b.l.err, PF_INVALID_ARGUMENT, b"input %d is '%.*s', but the function has no such "
                 b"output (expected an argument's name, node:output:number, or ^node)", i,
                 <int>min(text.len, <int64_t>400), text.data)
    return pf_load_blame(&b.l, b.l.graph.nodes + node)


cdef void want(Body* b, int32_t node) noexcept nogil:
    if not b.kept[node]:
        b.kept[node] = 1
        b.stack[b.n_stack] = node
        b.n_stack += 1


cdef pf_status follow(Body* b) noexcept nogil:
    """Resolves the inputs of what is wanted, which wants them in turn."""
    cdef int32_t i, k
    cdef pf_node* nd
    while b.n_stack:
        b.n_stack -= 1
        i = b.stack[b.n_stack]
        if i < b.f.n_in or i >= b.f.n_in + b.n_nodes:
            continue
        nd = b.l.graph.nodes + i
        for k in range(nd.n_in + nd.n_ctl):
            if resolve(b, b.l.input_names[i][k], nd.inputs + k) != PF_OK:
                return bad_input(b, i, k, b.l.input_names[i][k])
            want(b, nd.inputs[k].node)
    return PF_OK


cdef pf_status read_result(Body* b, pf_str entry, bint control) noexcept nogil:
    """A map entry of `ret` or `control_ret`: key=1, value=2."""
    cdef pf_reader r = pf_reader_of(entry)
    cdef pf_field a
    cdef pf_str key = pf_str_of(b""), value = key
    cdef pf_input at
    cdef pf_node* nd
    cdef int32_t k
    while pf_next_field(&r, &a):
        if a.number == 1 and a.wire == PF_WIRE_BYTES:
            key = a.bytes
        elif a.number == 2 and a.wire == PF_WIRE_BYTES:
            value = a.bytes
    if r.bad:
        return pf_malformed(&b.l, b"a result of a function")
    if control:
        at.node = pf_load_find(&b.l, value)
        if at.node < 0 or at.node >= b.f.n_in + b.n_nodes:
            return pf_error_set(b.l.err, PF_INVALID_ARGUMENT, b"control result '%.*s' is '%.*s', "
                                b"but the function has no such node",
                                <int>min(key.len, <int64_t>200), key.data,
                                <int>min(value.len, <int64_t>200), value.data)
        want(b, at.node)
        return PF_OK
    for k in range(b.f.n_out):
        if pf_str_eq(b.f.out_name[k], key):
            if resolve(b, value, &at) != PF_OK:
                return pf_error_set(b.l.err, PF_INVALID_ARGUMENT, b"result '%.*s' is '%.*s', but "
                                    b"the function has no such output",
                                    <int>min(key.len, <int64_t>200), key.data,
                                    <int>min(value.len, <int64_t>200), value.data)
            nd = b.l.graph.nodes + b.f.n_in + b.n_nodes + k
            nd.inputs[0] = at
            nd.n_in = 1
            want(b, b.f.n_in + b.n_nodes + k)
            want(b, at.node)
    return PF_OK


cdef pf_status want_effects(Body* b) noexcept nogil:
    cdef int32_t i
    cdef const pf_op_def* op
    for i in range(b.f.n_in, b.f.n_in + b.n_nodes):
        op = pf_op_find(b.l.graph.nodes[i].op)
        if b.called[i] != NULL and not b.called[i].stateful:
            continue
        if op != NULL and op.flags & PF_OP_STATEFUL:
            want(b, i)
    return PF_OK


cdef bint full_name(Body* b, pf_node* node) noexcept nogil:
    """FUNCTION/NODE: a node's random stream and resources go by its name in all of the State."""
    cdef pf_str f = b.f.name
    cdef char* text = <char*>pf_load_take(&b.l, <uint64_t>(f.len + node.name.len + 2), 1)
    if text == NULL:
        return False
    memcpy(text, f.data, <size_t>f.len)
    text[f.len] = c'/'
    memcpy(text + f.len + 1, node.name.data, <size_t>node.name.len)
    node.name.data = text
    node.name.len += f.len + 1
    return True


cdef pf_status drop_unwanted(Body* b) noexcept nogil:
    cdef pf_graph* g = b.l.graph
    cdef int32_t i, k, n = 0
    for i in range(g.n_nodes):
        if b.kept[i] or i < b.f.n_in:
            b.stack[i] = n              # its new number
            g.nodes[n] = g.nodes[i]
            n += 1
    g.n_nodes = n
    for i in range(n):
        for k in range(g.nodes[i].n_in + g.nodes[i].n_ctl):
            g.nodes[i].inputs[k].node = b.stack[g.nodes[i].inputs[k].node]
        if not full_name(b, g.nodes + i):
            return pf_over_cap(&b.l)
    return PF_OK


cdef pf_status read_body(Body* b) noexcept nogil:
    """node_def=3, ret=4, control_ret=6."""
    cdef pf_reader r = pf_reader_of(b.f.def_)
    cdef pf_field a
    cdef int64_t n = 0
    cdef int32_t i = b.f.n_in, k, total
    while pf_next_field(&r, &a):
        n += a.number == 3 and a.wire == PF_WIRE_BYTES
    if r.bad or n >= <int64_t>1 << 30:
        return pf_malformed(&b.l, b"a FunctionDef")
    b.n_nodes = <int32_t>n
    total = b.f.n_in + b.n_nodes + b.f.n_out
    if pf_load_nodes(&b.l, total) != PF_OK or make_ends(b) != PF_OK:
        return b.l.err.code
    b.sig = <pf_signature**>pf_arena_alloc(&b.l.scratch, (total + 1) * sizeof(void*))
    b.called = <const pf_function**>pf_arena_alloc(&b.l.scratch, (total + 1) * sizeof(void*))
    b.kept = <uint8_t*>pf_arena_alloc(&b.l.scratch, total + 1)
    b.stack = <int32_t*>pf_arena_alloc(&b.l.scratch, (total + 1) * sizeof(int32_t))
    if b.sig == NULL or b.called == NULL or b.kept == NULL or b.stack == NULL:
        return pf_over_cap(&b.l)
    r = pf_reader_of(b.f.def_)
    while pf_next_field(&r, &a):
        if a.number == 3 and a.wire == PF_WIRE_BYTES:
            if pf_load_node(&b.l, a.bytes, i) != PF_OK or split_inputs(b, i) != PF_OK:
                return pf_load_blame(&b.l, b.l.graph.nodes + i)
            i += 1
    for k in range(b.f.n_in, b.f.n_in + b.n_nodes):
        b.called[k] = called_by(b, b.l.graph.nodes + k)
    if pf_load_index(&b.l) != PF_OK or want_effects(b) != PF_OK:
        return b.l.err.code
    r = pf_reader_of(b.f.def_)
    while pf_next_field(&r, &a):
        if (a.number == 4 or a.number == 6) and a.wire == PF_WIRE_BYTES:
            if read_result(b, a.bytes, a.number == 6) != PF_OK:
                return b.l.err.code
    for k in range(b.f.n_out):
        if b.l.graph.nodes[b.f.n_in + b.n_nodes + k].n_in == 0:
            return pf_error_set(b.l.err, PF_INVALID_ARGUMENT, b"nothing is said to be its result "
                                b"'%.*s'", <int>min(b.f.out_name[k].len, <int64_t>200),
                                b.f.out_name[k].data)
    if follow(b) != PF_OK:
        return b.l.err.code
    return drop_unwanted(b)


cdef const pf_function* called_by(Body* b, const pf_node* node) noexcept nogil:
    """Of a node that pf_load_call made: its op was the function's name."""
    if node.n_attrs == 3 and pf_str_is(node.op, pf_name_call):
        return pf_function_find(b.all, node.attrs[2].value.s)
    return NULL


cdef public pf_status pf_function_graph(pf_functions* all, const pf_function* f, pf_graph** out,
                                        pf_error* err) noexcept nogil:
    cdef Body b
    cdef char text[3600]
    out[0] = NULL
    memset(&b, 0, sizeof(b))
    if f.generic:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"function '%.*s' has arguments whose types "
                            b"are attributes, lists or references: only functions of plain types "
                            b"can be called", <int>min(f.name.len, <int64_t>200), f.name.data)
    if pf_load_begin(&b.l, f.def_.len, err) != PF_OK:
        return err.code
    b.all = all
    b.f = f
    b.l.functions = all
    pf_functions_ref(all)
    b.l.graph.functions = all
    read_body(&b)
    pf_arena_free(&b.l.scratch)
    if err.code != PF_OK:
        snprintf(text, 3600, b"function '%.*s': %.3000s", <int>min(f.name.len, <int64_t>200),
                 f.name.data, err.message)
        pf_copy_text(err.message, sizeof(err.message), text, <int64_t>strlen(text))
        pf_graph_free(b.l.graph)
        return err.code
    out[0] = b.l.graph
    return PF_OK
