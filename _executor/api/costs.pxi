"""Part of api.pyx: what kernels and devices say about themselves, for placement."""

def node_costs(bytes graph_def, kinds=("CPU",)):
    """{node: (flops, bytes)} from the kernels' cost functions, for the shapes in `_output_shapes`.

    kinds: device types; the first that has a kernel with a cost function for the node's types answers.  Nodes without
    one, or whose shapes it cannot judge, are left out.  Raises StepError for bytes that are no graph.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef const char* data = graph_def
    cdef Py_ssize_t n = len(graph_def)
    cdef dict found = {}
    cdef dict ops = {}
    cdef int32_t k
    cdef double flops, traffic
    cdef list encoded = [kind.encode() for kind in kinds]
    for k in range(pf_kernel_count()):
        if pf_kernel_at(k).kernel.cost != NULL:
            ops[pf_kernel_at(k).kernel.op] = True
    clear_error(&err)
    if pf_graph_read(data, n, &g, &err):
        raise_error(&err)
    try:
        for k in range(g.n_nodes):
            op = PyBytes_FromStringAndSize(g.nodes[k].op.data, g.nodes[k].op.len)
            if op in ops and cost_of_node(g, k, encoded, &flops, &traffic):
                found[text_of(g.nodes[k].name)] = (flops, traffic)
    finally:
        pf_graph_free(g)
    return found

def device_peers(kind, int ordinal, other_kind, int other):
    """True if values go from the device `kind:ordinal` to the other one without the host.  ValueError: no such device."""
    cdef pf_device_entry* source = device_named(kind, ordinal)
    cdef pf_device_entry* target = device_named(other_kind, other)
    return source != target and pf_device_peers(source, target) != 0

cdef bint cost_of_node(pf_graph* g, int32_t i, list kinds, double* flops, double* traffic):
    """True if a kernel of one of the device types said what the node costs."""
    cdef pf_node* nd = g.nodes + i
    cdef pf_infer_call call
    cdef pf_signature sig
    cdef pf_error err
    cdef const pf_kernel_entry* e
    cdef pf_blame blame
    cdef pf_status st
    clear_error(&err)
    pf_infer_start(&call)
    call.def_ = pf_op_find(nd.op)
    if call.def_ == NULL or pf_node_resolve(g, nd, call.def_, &sig, &err):
        return False
    call.node = nd
    call.sig = &sig
    call.arena = &g.arena
    call.err = &err
    if not known_inputs(g, nd, &call):
        return False
    for kind in kinds:
        e = NULL
        while pf_kernel_select(nd, call.def_, &sig, kind, e, &e, &err) == PF_OK and e != NULL:
            flops[0] = 0
            traffic[0] = 0
            if e.kernel.cost == NULL:
                continue
            pf_blame_enter(&blame, b"the cost function of a kernel", e.plugin_id, nd.name, nd.op)
            st = e.kernel.cost(<pf_infer*>&call, flops, traffic)
            pf_blame_leave(&blame)
            if st == PF_OK:
                return True
    return False

cdef bint known_inputs(pf_graph* g, pf_node* nd, pf_infer_call* call) noexcept nogil:
    """Fills in the shapes and constant values of the node's inputs."""
    cdef const pf_attr_value* a
    cdef pf_node* source
    cdef int32_t k
    cdef pf_shape* shapes = <pf_shape*>pf_arena_alloc(&g.arena, sizeof(pf_shape) * <uint64_t>(nd.n_in + 1))
    cdef const DLTensor** values = <const DLTensor**>pf_arena_alloc(&g.arena, sizeof(void*) * <uint64_t>(nd.n_in + 1))
    if shapes == NULL or values == NULL:
        return False
    for k in range(nd.n_in):
        source = g.nodes + nd.inputs[k].node
        shapes[k].ndim = -1
        values[k] = NULL
        a = pf_node_attr_find(source, b"_output_shapes")
        if a != NULL and a.kind == PF_ATTR_SHAPE | PF_ATTR_LIST and nd.inputs[k].output < a.list.n:
            shapes[k] = (<const pf_shape*>a.list.items)[nd.inputs[k].output]
        a = pf_node_attr_find(source, b"value") if pf_str_is(source.op, b"Const") else NULL
        if a != NULL and a.kind == PF_ATTR_TENSOR and a.tensor != NULL:
            values[k] = pf_dl(a.tensor)
    call.in_shapes = shapes
    call.in_values = values
    return True
