# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Checks one node against its op: attributes, number and types of inputs and outputs.

Invariants
1. After PF_OK every attribute the op declares has a value of the declared kind, within its allowed
   values.
2. `pf_signature` lists inputs and outputs flat; argument a covers [start[a], start[a+1]).
3. Counts taken from attributes are bounded: inputs by the node's own, outputs by MAX_OUTPUTS.

Attributes starting with '_' belong to passes and are not looked at; other undeclared ones are
tolerated, as a newer producer may have written them.

Threads: any, one per graph (the arena).
"""
from graph_h cimport *

cdef enum:
    MAX_OUTPUTS = 1 << 17


cdef public const char* pf_attr_kind_name(int32_t kind) noexcept nogil:
    cdef bint l = (kind & PF_ATTR_LIST) != 0
    kind &= ~PF_ATTR_LIST
    if kind == PF_ATTR_INT:
        return b"list(int)" if l else b"int"
    if kind == PF_ATTR_FLOAT:
        return b"list(float)" if l else b"float"
    if kind == PF_ATTR_BOOL:
        return b"list(bool)" if l else b"bool"
    if kind == PF_ATTR_STRING:
        return b"list(string)" if l else b"string"
    if kind == PF_ATTR_TYPE:
        return b"list(type)" if l else b"type"
    if kind == PF_ATTR_SHAPE:
        return b"list(shape)" if l else b"shape"
    if kind == PF_ATTR_TENSOR:
        return b"list(tensor)" if l else b"tensor"
    if kind == PF_ATTR_FUNC:
        return b"list(func)" if l else b"func"
    return b"list" if l else b"nothing"


cdef public const pf_attr_value* pf_attr_or_default(const pf_node* n, const pf_op_def* op,
                                                    const char* name) noexcept nogil:
    cdef const pf_attr_value* v = pf_node_attr_find(n, name)
    cdef pf_str wanted
    cdef int32_t i
    if v == NULL and op != NULL:
        wanted = pf_str_of(name)
        for i in range(op.n_attrs):
            if op.attrs[i].has_default and pf_str_eq(op.attrs[i].name, wanted):
                return &op.attrs[i].value
    return v


cdef pf_status blame(const pf_node* n, pf_error* err) noexcept nogil:
    cdef char text[4096]
    pf_copy_text(err.node, sizeof(err.node), n.name.data, n.name.len)
    pf_copy_text(err.op, sizeof(err.op), n.op.data, n.op.len)
    memcpy(text, err.message, sizeof(text))
    snprintf(err.message, sizeof(err.message), b"node '%s' (op %s): %.3400s", err.node, err.op,
             text)
    return err.code


# ---------------------------------------------------------------- attributes
cdef void list_allowed(const pf_attr_def* a, char* text, size_t room) noexcept nogil:
    cdef size_t at = 0
    cdef int32_t i
    cdef const char* between = b""
    text[0] = 0
    for i in range(a.n_allowed):
        if at + 40 > room:
            break
        if a.allowed_types != NULL:
            at += snprintf(text + at, room - at, b"%s%s", between, pf_type_name(a.allowed_types[i]))
        else:
            at += snprintf(text + at, room - at, b"%s'%.24s'", between, a.allowed_strings[i].data)
        between = b", "


cdef pf_status refuse(const pf_attr_def* a, const char* got, int32_t len,
                      pf_error* err) noexcept nogil:
    cdef char allowed[1024]
    list_allowed(a, allowed, sizeof(allowed))
    return pf_error_set(err, PF_INVALID_ARGUMENT, b"attribute '%s' is '%.*s'; allowed are: %s",
                        a.name.data,
                        <int>(len if len < 200 else 200), got, allowed)


cdef pf_status check_type(const pf_attr_def* a, int32_t type, pf_error* err) noexcept nogil:
    cdef int32_t i
    if type > 100:
        type -= 100                     # a reference to that type
    if a.n_allowed == 0:
        if pf_type_size(type):
            return PF_OK
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"attribute '%s' is element type %d, which "
                            b"is unknown",
                            a.name.data, type)
    for i in range(a.n_allowed):
        if a.allowed_types[i] == type:
            return PF_OK
    return refuse(a, pf_type_name(type), 40, err)


cdef pf_status check_string(const pf_attr_def* a, pf_str s, pf_error* err) noexcept nogil:
    cdef int32_t i
    if a.n_allowed == 0:
        return PF_OK
    for i in range(a.n_allowed):
        if pf_str_eq(a.allowed_strings[i], s):
            return PF_OK
    return refuse(a, s.data, <int32_t>(s.len if s.len < 200 else 200), err)


cdef pf_status check_value(const pf_attr_def* a, const pf_attr_value* v,
                           pf_error* err) noexcept nogil:
    cdef int32_t kind = a.kind & ~PF_ATTR_LIST
    cdef int64_t i, n
    cdef const char* what = b"is"
    if v.kind == PF_ATTR_LIST and a.kind & PF_ATTR_LIST:
        n = 0                           # an empty list does not say of what
    elif v.kind != a.kind:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"attribute '%s' must be %s; the "
                            b"node has %s", a.name.data,
                            pf_attr_kind_name(a.kind), pf_attr_kind_name(v.kind))
    else:
        n = v.list.n if a.kind & PF_ATTR_LIST else v.i
    if a.kind & PF_ATTR_LIST:
        what = b"has length"
    if a.has_min and n < a.min:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"attribute '%s' %s %jd; at least "
                            b"%jd needed", a.name.data,
                            what, <intmax_t>n, <intmax_t>a.min)
    if a.kind == PF_ATTR_TYPE:
        return check_type(a, v.type, err)
    if a.kind == PF_ATTR_STRING:
        return check_string(a, v.s, err)
    if a.kind & PF_ATTR_LIST:
        for i in range(n):
            if kind == PF_ATTR_TYPE and check_type(a, (<const int32_t*>v.list.items)[i],
                                                   err) != PF_OK:
                return err.code
            if kind == PF_ATTR_STRING and check_string(a, (<const pf_str*>v.list.items)[i],
                                                       err) != PF_OK:
                return err.code
    return PF_OK


cdef pf_status check_attrs(const pf_node* n, const pf_op_def* op, pf_error* err) noexcept nogil:
    cdef int32_t i
    cdef const pf_attr_value* v
    for i in range(op.n_attrs):
        v = pf_node_attr_find(n, op.attrs[i].name.data)
        if v == NULL:
            if op.attrs[i].has_default:
                continue
            # large constants come beside the graph, not inside it
            if op.attrs[i].kind == PF_ATTR_TENSOR and op.cls == PF_C_CONST:
                continue
            return pf_error_set(err, PF_INVALID_ARGUMENT, b"attribute '%s' (%s) is missing, and "
                                b"the op gives no "
                                b"default; set it where the node is made", op.attrs[i].name.data,
                                pf_attr_kind_name(op.attrs[i].kind))
        if check_value(&op.attrs[i], v, err) != PF_OK:
            return err.code
    return PF_OK


# ---------------------------------------------------------------- arguments
cdef const pf_attr_value* value_of(const pf_node* n, const pf_op_def* op,
                                   int32_t attr) noexcept nogil:
    cdef const pf_attr_value* v = pf_node_attr_find(n, op.attrs[attr].name.data)
    return v if v != NULL else &op.attrs[attr].value


cdef int64_t width(const pf_node* n, const pf_op_def* op, const pf_arg_def* a) noexcept nogil:
    """How many tensors the argument stands for."""
    if a.number_attr >= 0:
        return value_of(n, op, a.number_attr).i
    return value_of(n, op, a.list_attr).list.n if a.list_attr >= 0 else 1


cdef int32_t type_at(const pf_node* n, const pf_op_def* op, const pf_arg_def* a,
                     int64_t i) noexcept nogil:
    cdef int32_t type = a.type
    if a.type_attr >= 0:
        type = value_of(n, op, a.type_attr).type
    elif a.list_attr >= 0:
        type = (<const int32_t*>value_of(n, op, a.list_attr).list.items)[i]
    return type - 100 if type > 100 else type


cdef pf_status count_all(const pf_node* n, const pf_op_def* op, const pf_arg_def* args,
                         int32_t n_args,
                         int64_t cap, int32_t* total, pf_error* err) noexcept nogil:
    cdef int64_t k, sum = 0
    cdef int32_t i
    for i in range(n_args):
        k = width(n, op, &args[i])
        if k < 0 or k > cap:
            return pf_error_set(err, PF_INVALID_ARGUMENT, b"argument '%s' stands for %jd tensors; "
                                b"at most %jd "
                                b"are possible here", args[i].name.data, <intmax_t>k, <intmax_t>cap)
        sum += k
    if sum > cap:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"the op's signature needs %jd tensors; at "
                            b"most %jd are possible "
                            b"here. Signature: %.900s", <intmax_t>sum, <intmax_t>cap, op.sig.data)
    total[0] = <int32_t>sum
    return PF_OK


cdef bint lay_out(pf_graph* g, const pf_node* n, const pf_op_def* op, const pf_arg_def* args,
                  int32_t n_args,
                  int32_t total, int32_t** types, int32_t** starts, uint8_t** refs) noexcept nogil:
    cdef int32_t a, k = 0
    cdef int64_t i
    types[0] = <int32_t*>pf_arena_alloc(&g.arena, total * sizeof(int32_t) + 1)
    starts[0] = <int32_t*>pf_arena_alloc(&g.arena, (n_args + 1) * sizeof(int32_t))
    refs[0] = <uint8_t*>pf_arena_alloc(&g.arena, total + 1)
    if types[0] == NULL or starts[0] == NULL or refs[0] == NULL:
        return False
    for a in range(n_args):
        starts[0][a] = k
        for i in range(width(n, op, &args[a])):
            types[0][k] = type_at(n, op, &args[a], i)
            refs[0][k] = args[a].is_ref
            k += 1
    starts[0][n_args] = k
    return True


cdef pf_status resolve(pf_graph* g, const pf_node* n, const pf_op_def* op, pf_signature* out,
                       pf_error* err) noexcept nogil:
    cdef int32_t n_in
    if check_attrs(n, op, err) != PF_OK:
        return err.code
    if count_all(n, op, op.ins, op.n_in, (<int64_t>1 << 30), &n_in, err) != PF_OK:
        return err.code
    if n_in != n.n_in:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"the op takes %d inputs, the node has %d. "
                            b"Signature: %.900s",
                            n_in, n.n_in, op.sig.data)
    if count_all(n, op, op.out, op.n_out, MAX_OUTPUTS, &out.n_out, err) != PF_OK:
        return err.code
    out.n_in = n_in
    out.n_in_args = op.n_in
    out.n_out_args = op.n_out
    if not (lay_out(g, n, op, op.ins, op.n_in, n_in, &out.in_type, &out.in_start, &out.in_ref)
            and lay_out(g, n, op, op.out, op.n_out, out.n_out, &out.out_type, &out.out_start,
                        &out.out_ref)):
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"the graph needs more memory than its "
                            b"size allows")
    return PF_OK


cdef public pf_status pf_node_resolve(pf_graph* g, const pf_node* n, const pf_op_def* op,
                                      pf_signature* out,
                                      pf_error* err) noexcept nogil:
    memset(out, 0, sizeof(pf_signature))
    if resolve(g, n, op, out, err) != PF_OK:
        return blame(n, err)
    return PF_OK
