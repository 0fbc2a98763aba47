"""Part of groups.pyx: pf_group_api, what a compiler may ask about a group.  Numbers out of range give nothing."""

cdef inline int32_t graph_node(const pf_group* g, int32_t node) noexcept nogil:
    """The graph's number; -1: no such node."""
    if not 0 <= node < g.n:
        return -1
    return node if g.whole else g.nodes[node]

cdef bint find_output(const pf_group* g, int32_t node, int32_t output, pf_input* out) noexcept nogil:
    if node == -1:
        if not 0 <= output < g.n_in:
            return False
        out[0] = g.ins[output]
        return True
    out.node = graph_node(g, node)
    out.output = output
    return out.node >= 0 and 0 <= output < g.c.sig[out.node].n_out

cdef pf_str nothing() noexcept nogil:
    cdef pf_str s
    s.data = b""
    s.len = 0
    return s

cdef int32_t g_n_nodes(const pf_group* g) noexcept nogil:
    return g.n

cdef pf_str g_op(const pf_group* g, int32_t node) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    return g.c.g.nodes[i].op if i >= 0 else nothing()

cdef pf_str g_name(const pf_group* g, int32_t node) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    return g.c.g.nodes[i].name if i >= 0 else nothing()

cdef int32_t g_n_inputs(const pf_group* g, int32_t node) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    return g.c.g.nodes[i].n_in if i >= 0 else 0

cdef int32_t g_n_outputs(const pf_group* g, int32_t node) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    return g.c.sig[i].n_out if i >= 0 else 0

cdef int32_t g_input(const pf_group* g, int32_t node, int32_t k, int32_t* output) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    cdef pf_input e
    if output == NULL:
        return -1
    if i < 0 or not 0 <= k < g_n_inputs(g, node):
        output[0] = -1
        return -1
    e = g.c.g.nodes[i].inputs[k] if g.whole else g.edges[g.in_begin[node] + k]
    output[0] = e.output
    return e.node

cdef int32_t g_type(const pf_group* g, int32_t node, int32_t output) noexcept nogil:
    cdef pf_input o
    if not find_output(g, node, output, &o):
        return 0
    return g.c.sig[o.node].out_type[o.output]

cdef pf_shape shape_of(pf_comp* c, pf_input o) noexcept nogil:
    """As the Python passes wrote it."""
    cdef const pf_attr_value* a = pf_node_attr_find(c.g.nodes + o.node, b"_output_shapes")
    cdef pf_shape s
    cdef const DLTensor* t
    if a != NULL and a.kind == PF_ATTR_SHAPE | PF_ATTR_LIST and o.output < a.list.n:
        return (<const pf_shape*>a.list.items)[o.output]
    memset(&s, 0, sizeof(s))
    s.ndim = -1
    t = c.value[o.node] if c.cls[o.node] == PF_C_CONST else NULL
    if t != NULL:
        s.ndim = t.ndim
        s.dims = t.shape
    elif c.cls[o.node] == PF_C_ARG:
        a = pf_node_attr_find(c.g.nodes + o.node, b"shape")
        if a != NULL and a.kind == PF_ATTR_SHAPE:
            s = a.shape
    return s

cdef pf_status g_dims(const pf_group* g, int32_t node, int32_t output, const int64_t** dims, int32_t* ndim) noexcept nogil:
    cdef pf_input o
    cdef pf_shape s
    if dims == NULL or ndim == NULL:
        return PF_INVALID_ARGUMENT
    if not find_output(g, node, output, &o):
        return PF_OUT_OF_RANGE
    s = shape_of(g.c, o)
    dims[0] = s.dims
    ndim[0] = s.ndim
    return PF_OK

cdef const DLTensor* g_constant(const pf_group* g, int32_t node) noexcept nogil:
    cdef int32_t i = graph_node(g, node)
    return g.c.value[i] if i >= 0 and host_constant(g.c, i) else NULL

cdef pf_status g_attr(const pf_group* g, int32_t node, const char* name, int32_t kind, void* value) noexcept nogil:
    cdef pf_infer_call call
    cdef int32_t i = graph_node(g, node)
    if i < 0:
        return PF_OUT_OF_RANGE
    memset(&call, 0, sizeof(call))
    call.node = g.c.g.nodes + i
    call.def_ = g.c.def_[i]
    return pf_infer_attr(<pf_infer*>&call, name, kind, value)

cdef int32_t g_n_results(const pf_group* g) noexcept nogil:
    return g.n_out

cdef int32_t g_result(const pf_group* g, int32_t i, int32_t* output) noexcept nogil:
    if output == NULL:
        return -1
    if not 0 <= i < g.n_out:
        output[0] = -1
        return -1
    output[0] = g.outs[i].output
    return g.outs[i].node

cdef int32_t g_n_group_inputs(const pf_group* g) noexcept nogil:
    return g.n_in

cdef pf_status g_fail(const pf_group* g, pf_status st, const char* msg, int64_t n) noexcept nogil:
    if g.message != NULL:
        pf_copy_text(g.message, GROUP_MESSAGE, msg, n)
    return st if st > 0 else PF_INTERNAL

cdef void fill_api(pf_group_api* api) noexcept nogil:
    memset(api, 0, sizeof(pf_group_api))
    api.size = sizeof(pf_group_api)
    api.n_nodes = g_n_nodes
    api.op = g_op
    api.name = g_name
    api.n_inputs = g_n_inputs
    api.input = g_input
    api.type = g_type
    api.dims = g_dims
    api.constant = g_constant
    api.attr = g_attr
    api.n_results = g_n_results
    api.result = g_result
    api.n_group_inputs = g_n_group_inputs
    api.n_outputs = g_n_outputs
    api.fail = g_fail
