"""Part of plan.pyx: what a node may find in the variables behind its inputs.

A kernel takes a variable's buffer for elements of the type its node declares, and a GraphDef can declare anything; so each
input of a node that is a reference or a resource gets a set of element types (bit 1 << type), and host_state.pxi lends a
kernel only variables of these.  The first that says something:

1. a reference: the type of the reference;
2. the kernel's pf_arg: PF_ARG_ANY_TYPE, or a type in its flags;
3. the op's attribute `dtype`, or else `T`: what TensorFlow's ops on variables call the type of what the handle leads to;
4. where it has other inputs than handles: their element types and those of its outputs, any of them;
5. nothing, any type: VariableShape, and kernels that look at the dtype of what they get.
"""
cdef uint32_t any_type() noexcept nogil:
    return <uint32_t>0xffffffff

cdef uint32_t just(int32_t type) noexcept nogil:
    return <uint32_t>1 << (type - 100 if type > 100 else type)

cdef uint32_t said_by_kernel(const pf_kernel* k, pf_str arg) noexcept nogil:
    """0: nothing."""
    cdef const pf_arg** a = <const pf_arg**>k.args
    cdef uint32_t type
    while a != NULL and a[0] != NULL:
        if pf_str_is(arg, a[0].name):
            type = a[0].flags >> PF_ARG_TYPE_SHIFT & 31
            if a[0].flags & <uint32_t>PF_ARG_ANY_TYPE:
                return any_type()
            return just(<int32_t>type) if type else 0
        a += 1
    return 0

cdef uint32_t said_by_attr(pf_comp* c, int32_t i, const pf_arg_def* arg, const char* name) noexcept nogil:
    """0: the op has no such attribute, or it is the type of the handle itself, as Identity's T."""
    cdef const pf_op_def* op = c.def_[i]
    cdef const pf_attr_value* v
    cdef int32_t k
    for k in range(op.n_attrs):
        if pf_str_is(op.attrs[k].name, name) and op.attrs[k].kind == PF_ATTR_TYPE and k != arg.type_attr:
            v = pf_attr_or_default(c.g.nodes + i, op, name)
            return just(v.type) if v != NULL else 0
    return 0

cdef uint32_t said_by_others(const pf_signature* s) noexcept nogil:
    cdef uint32_t types = 0
    cdef int32_t k
    for k in range(s.n_in):
        types |= just(s.in_type[k])
    if not types & ~(just(PF_RESOURCE) | just(PF_VARIANT)):
        return any_type()
    for k in range(s.n_out):
        types |= just(s.out_type[k])
    return types & ~(just(PF_RESOURCE) | just(PF_VARIANT))

cdef uint32_t held_behind(pf_comp* c, int32_t i, const pf_arg_def* arg, int32_t k) noexcept nogil:
    cdef const pf_signature* s = c.sig + i
    cdef uint32_t types
    if s.in_ref[k] or s.in_type[k] != PF_RESOURCE:
        return just(s.in_type[k])
    types = said_by_kernel(c.kernel[i].kernel, arg.name)
    if not types:
        types = said_by_attr(c, i, arg, b"dtype")
    if not types:
        types = said_by_attr(c, i, arg, b"T")
    return types if types else said_by_others(s)

cdef pf_status declare_holds(pf_comp* c, int32_t i) noexcept nogil:
    """Sets the node's `holds`, once its kernel is chosen."""
    cdef const pf_signature* s = c.sig + i
    cdef uint32_t* holds
    cdef int32_t a, k, n = 0
    for k in range(s.n_in):
        n += 1 if s.in_ref[k] or s.in_type[k] == PF_RESOURCE else 0
    if n == 0:
        return PF_OK
    holds = <uint32_t*>keep(c, s.n_in, sizeof(uint32_t))
    if holds == NULL:
        return c.err.code
    for a in range(s.n_in_args):
        for k in range(s.in_start[a], s.in_start[a + 1]):
            holds[k] = held_behind(c, i, c.def_[i].ins + a, k)
    c.plan.nodes[i].holds = holds
    return PF_OK
