# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Programs: what a compiler is shown of a group, and the instruction that takes the group's place."""
from groups_h cimport *

cdef enum:
    RUN_FLAGS = PF_KERNEL_EXPENSIVE | PF_KERNEL_DETERMINISTIC | PF_KERNEL_ASYNC | PF_KERNEL_URGENT | PF_KERNEL_BRIEF

cdef struct Program:        # the state of a group's instruction, in the plan's arena
    const pf_compiler* compiler
    const char* plugin
    void* program
    const pf_kernel_entry* old      # of the node whose place it takes
    void* old_state
    pf_kernel kernel
    pf_kernel_entry entry
    const char* nodes       # "AddV2 'a', Mul 'b'"

# ---------------------------------------------------------------- running it
cdef pf_status run_group(pf_ctx* ctx, const void* state) noexcept nogil:
    """The program; a failure tells which nodes it stands for."""
    cdef const Program* p = <const Program*>state
    cdef pf_status st = p.compiler.run(ctx, p.program)
    cdef char* said
    cdef const char* what = b"no message"
    cdef char text[4000]
    if st == PF_OK or st == PF_PENDING:
        return st
    said = pf_call_take_message(&ctx, &st)
    if said != NULL:
        what = said
    snprintf(text, 4000, b"%.2500s [in a group compiled by plugin '%s': %s]", what, p.plugin, p.nodes)
    free(said)
    return pf_fail(ctx, st if st > 0 else PF_INTERNAL, text)

cdef public int32_t pf_group_is(const pf_kernel_entry* k) noexcept nogil:
    return k.kernel.compute == run_group

cdef void fini_group(void* state) noexcept nogil:
    cdef Program* p = <Program*>state
    if p.compiler.release != NULL:
        p.compiler.release(p.program)
    if p.old.kernel.fini != NULL:
        p.old.kernel.fini(p.old_state)

# ---------------------------------------------------------------- a group as its compiler sees it
cdef int32_t group_input(pf_grouping* w, pf_group* g, pf_input e) noexcept nogil:
    """The number of the group's input that is `e`, made if new."""
    cdef int32_t k = w.in_head[e.node]
    while k:
        if g.ins[k - 1].output == e.output:
            return k - 1
        k = w.in_same[k - 1]
    g.ins[g.n_in] = e
    w.in_same[g.n_in] = w.in_head[e.node]
    g.n_in += 1
    w.in_head[e.node] = g.n_in
    return g.n_in - 1

cdef bint host_constant(pf_comp* c, int32_t i) noexcept nogil:
    return c.cls[i] == PF_C_CONST and pf_tensor_of(c.value[i]).device == NULL

cdef bint is_result(pf_grouping* w, int32_t i, int32_t output) noexcept nogil:
    """Somebody outside the group reads it."""
    cdef pf_comp* c = w.c
    cdef int32_t k
    for k in range(c.out_begin[i], c.out_begin[i + 1]):
        if c.out_port[k] == output and w.local[c.out_node[k]] < 0:
            return True
    return False

cdef void add_results(pf_grouping* w, pf_group* g, int32_t n_consts) noexcept nogil:
    cdef int32_t k, o
    for k in range(n_consts, g.n):
        for o in range(w.c.sig[g.nodes[k]].n_out):
            if is_result(w, g.nodes[k], o):
                g.outs[g.n_out].node = k
                g.outs[g.n_out].output = o
                g.n_out += 1
    if g.n_out == 0:                # run for its control edges only
        g.outs[0].node = g.n - 1
        g.outs[0].output = 0
        g.n_out = 1

cdef void add_edges(pf_grouping* w, pf_group* g, int32_t n_consts) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef pf_input e
    cdef int32_t k, j, at = 0
    for k in range(g.n):
        g.in_begin[k] = at
        if k < n_consts:
            continue
        for j in range(c.g.nodes[g.nodes[k]].n_in):
            e = c.g.nodes[g.nodes[k]].inputs[j]
            if w.local[e.node] >= 0:
                e.node = w.local[e.node]
            else:
                e.output = group_input(w, g, e)
                e.node = -1
            g.edges[at] = e
            at += 1

cdef int32_t list_nodes(pf_grouping* w, pf_group* g, int32_t first) noexcept nogil:
    """Constants, then members; their number.  Edges are counted in g.n_in, outputs in g.n_out."""
    cdef pf_comp* c = w.c
    cdef int32_t i = first, j, n = 0, src, n_consts
    while i >= 0:
        for j in range(c.g.nodes[i].n_in):
            src = c.g.nodes[i].inputs[j].node
            if host_constant(c, src) and w.local[src] < 0:
                w.local[src] = n
                g.nodes[n] = src
                n += 1
        i = w.part[i]
    n_consts = n
    i = first
    while i >= 0:
        w.local[i] = n
        g.nodes[n] = i
        n += 1
        i = w.part[i]
    g.n = n
    return n_consts

cdef pf_status build_group(pf_grouping* w, pf_group_install* it, int32_t first) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef pf_group* g = &it.group
    cdef int32_t i = first, members = 0, edges = 0, outs = 0
    while i >= 0:
        members += 1
        edges += c.g.nodes[i].n_in
        outs += c.sig[i].n_out
        i = w.part[i]
    g.c = c
    g.nodes = <int32_t*>pf_comp_grab(c, members + edges, sizeof(int32_t))
    g.in_begin = <int32_t*>pf_comp_grab(c, members + edges, sizeof(int32_t))
    g.edges = <pf_input*>pf_comp_grab(c, edges, sizeof(pf_input))
    g.ins = <pf_input*>pf_comp_grab(c, edges, sizeof(pf_input))
    g.outs = <pf_input*>pf_comp_grab(c, outs, sizeof(pf_input))
    g.message = <char*>pf_comp_grab(c, PF_GROUP_MESSAGE, 1)
    w.in_same = <int32_t*>pf_comp_grab(c, edges, sizeof(int32_t))
    if c.err.code:
        return c.err.code
    it.n_consts = list_nodes(w, g, first)
    add_edges(w, g, it.n_consts)
    add_results(w, g, it.n_consts)
    for i in range(g.n_in):
        w.in_head[g.ins[i].node] = 0
    for i in range(g.n):
        w.local[g.nodes[i]] = -1
    return PF_OK

cdef const char* describe_nodes(pf_comp* c, pf_group_install* it, void* (*memory)(pf_comp*, int64_t, size_t) noexcept nogil) noexcept nogil:
    """"AddV2 'a', Mul 'b' and 3 more"."""
    cdef char* text = <char*>memory(c, 700, 1)
    cdef const char* between = b""
    cdef int32_t k, used = 0
    cdef pf_node* nd
    if text == NULL:
        return b"?"
    for k in range(it.n_consts, it.group.n):
        nd = c.g.nodes + it.group.nodes[k]
        if used > 500:
            snprintf(text + used, 700 - used, b" and %d more", it.group.n - k)
            break
        used += snprintf(text + used, 700 - used, b"%s%.*s '%.*s'", between, <int>min(nd.op.len, 40),
                         nd.op.data, <int>min(nd.name.len, 90), nd.name.data)
        between = b", "
    return text

cdef pf_status not_compiled(pf_grouping* w, pf_group_install* it, pf_status st) noexcept nogil:
    cdef const char* what = b"no message"
    if it.group.message[0]:
        what = it.group.message
    return pf_comp_failf(w.c, it.rep, st if st > 0 else PF_INTERNAL, b"plugin '%s' could not compile a group of %d "
                         b"nodes (%s): %.1200s. Without that plugin, or on another device, these nodes run one by "
                         b"one", w.by.plugin_id, it.group.n - it.n_consts, describe_nodes(w.c, it, grab_memory), what)

cdef void* grab_memory(pf_comp* c, int64_t n, size_t size) noexcept nogil:
    return pf_comp_grab(c, n, size)

cdef void* keep_memory(pf_comp* c, int64_t n, size_t size) noexcept nogil:
    return pf_comp_keep(c, n, size)

cdef public pf_status pf_group_compile(pf_grouping* w, int32_t first) noexcept nogil:
    """A connected part of a wave, chained by w.part from `first`, goes to the compiler."""
    cdef pf_group_install* it = <pf_group_install*>pf_comp_grab(w.c, 1, sizeof(pf_group_install))
    cdef int32_t k
    cdef pf_status st
    if it == NULL or build_group(w, it, first):
        return w.c.err.code
    it.rep = -1
    for k in range(it.group.n_out):
        it.rep = max(it.rep, it.group.nodes[it.group.outs[k].node])
    st = w.by.compiler.compile(pf_host_table(), w.api, &it.group, &it.program)
    if st == PF_DECLINE:
        return PF_OK
    if st != PF_OK:
        return not_compiled(w, it, st)
    it.next = w.installs
    w.installs = it
    w.c.plan.n_groups += 1
    w.c.plan.n_grouped += it.group.n - it.n_consts
    for k in range(it.n_consts, it.group.n):
        w.rep[it.group.nodes[k]] = it.rep
        w.first_out[it.group.nodes[k]] = w.n_out_index
        w.n_out_index += w.c.sig[it.group.nodes[k]].n_out
    for k in range(it.group.n_out):
        w.out_index[w.first_out[it.group.nodes[it.group.outs[k].node]] + it.group.outs[k].output] = k
    return PF_OK

# ---------------------------------------------------------------- the instruction in its place
cdef pf_signature* signature_of(pf_grouping* w, const pf_group* g) noexcept nogil:
    """One argument per input and per output; NULL: no memory."""
    cdef pf_comp* c = w.c
    cdef pf_signature* s = <pf_signature*>pf_comp_keep(c, 1, sizeof(pf_signature))
    cdef int32_t k
    if s == NULL:
        return NULL
    s.in_type = <int32_t*>pf_comp_keep(c, g.n_in, sizeof(int32_t))
    s.out_type = <int32_t*>pf_comp_keep(c, g.n_out, sizeof(int32_t))
    s.in_start = <int32_t*>pf_comp_keep(c, g.n_in + 1, sizeof(int32_t))
    s.out_start = <int32_t*>pf_comp_keep(c, g.n_out + 1, sizeof(int32_t))
    s.in_ref = <uint8_t*>pf_comp_keep(c, g.n_in, 1)
    s.out_ref = <uint8_t*>pf_comp_keep(c, g.n_out, 1)
    if c.err.code:
        return NULL
    s.n_in = s.n_in_args = g.n_in
    s.n_out = s.n_out_args = g.n_out
    for k in range(g.n_in + 1):
        s.in_start[k] = k
    for k in range(g.n_out + 1):
        s.out_start[k] = k
    for k in range(g.n_in):
        s.in_type[k] = c.sig[g.ins[k].node].out_type[g.ins[k].output]
    for k in range(g.n_out):
        s.out_type[k] = c.sig[g.nodes[g.outs[k].node]].out_type[g.outs[k].output]
    return s

cdef pf_status set_output_shapes(pf_grouping* w, pf_group_install* it) noexcept nogil:
    """As its only attribute: known shapes stay known."""
    cdef pf_comp* c = w.c
    cdef pf_group* g = &it.group
    cdef pf_node_attr* attr = <pf_node_attr*>pf_comp_keep(c, 1, sizeof(pf_node_attr))
    cdef pf_shape* shapes = <pf_shape*>pf_comp_keep(c, g.n_out, sizeof(pf_shape))
    cdef pf_input o
    cdef int32_t k
    if c.err.code:
        return c.err.code
    for k in range(g.n_out):
        o.node = g.nodes[g.outs[k].node]
        o.output = g.outs[k].output
        shapes[k] = shape_of(c, o)
    attr.name = pf_str_of(b"_output_shapes")
    attr.value.kind = PF_ATTR_SHAPE | PF_ATTR_LIST
    attr.value.list.items = shapes
    attr.value.list.n = g.n_out
    c.g.nodes[it.rep].attrs = attr
    c.g.nodes[it.rep].n_attrs = 1
    return PF_OK

cdef pf_status set_signature(pf_grouping* w, pf_group_install* it) noexcept nogil:
    """The group's, and what calls of it are told."""
    cdef pf_comp* c = w.c
    cdef pf_signature* s = signature_of(w, &it.group)
    cdef pf_call_info* info = <pf_call_info*>pf_comp_keep(c, 1, sizeof(pf_call_info))
    cdef pf_node_info* about = c.plan.nodes + it.rep
    if s == NULL or info == NULL or set_output_shapes(w, it):
        return c.err.code
    about.out_mem = NULL
    if about.home != NULL:
        about.out_mem = <uint8_t*>pf_comp_keep(c, s.n_out, 1)
        if about.out_mem == NULL:
            return c.err.code
        memset(<void*>about.out_mem, 1, s.n_out)
    info[0] = about.call[0]
    info.in_type = s.in_type
    info.out_type = s.out_type
    info.n_in = info.n_in_args = s.n_in
    info.n_out = info.n_out_args = s.n_out
    info.in_start = s.in_start
    info.out_start = s.out_start
    about.call = info
    it.sig = s
    return PF_OK

cdef pf_str short_name(pf_comp* c, pf_group_install* it) noexcept nogil:
    """"Group(AddV2 Mul Tanh)": what stands for the op in messages and plans."""
    cdef char* text = <char*>pf_comp_keep(c, 96, 1)
    cdef int32_t k, used
    cdef pf_str op
    if text == NULL:
        return nothing()
    used = snprintf(text, 96, b"Group(")
    for k in range(it.n_consts, it.group.n):
        op = c.g.nodes[it.group.nodes[k]].op
        if used + op.len > 84:
            used += snprintf(text + used, 96 - used, b"... ")
            break
        used += snprintf(text + used, 96 - used, b"%.*s ", <int>op.len, op.data)
    text[used - 1] = c')'
    return pf_str_of(text)

cdef pf_status set_kernel(pf_grouping* w, pf_group_install* it) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef Program* p = <Program*>pf_comp_keep(c, 1, sizeof(Program))
    cdef pf_node_info* about = c.plan.nodes + it.rep
    if p == NULL:
        return c.err.code
    p.compiler = &w.by.compiler
    p.plugin = w.by.plugin_id
    p.program = it.program
    p.old = about.kernel
    p.old_state = about.state
    p.nodes = describe_nodes(c, it, keep_memory)
    p.kernel.size = sizeof(pf_kernel)
    p.kernel.flags = w.by.compiler.flags & <uint32_t>RUN_FLAGS
    p.kernel.op = b"_Group"
    p.kernel.device = w.by.compiler.device
    p.kernel.compute = run_group
    p.kernel.fini = fini_group
    p.entry.kernel = &p.kernel
    p.entry.plugin_id = w.by.plugin_id
    p.entry.origin = w.by.plugin_id
    p.entry.foreign = not pf_is_own(w.by.plugin_id)
    about.op = short_name(c, it)
    about.kernel = &p.entry
    about.foreign = p.entry.foreign
    about.promised = NULL
    about.state = p
    about.dropped = NULL
    c.kernel[it.rep] = &p.entry
    return c.err.code

cdef pf_status set_inputs(pf_grouping* w, pf_group_install* it) noexcept nogil:
    """The group's inputs, and every control edge that came in; still in the old numbers."""
    cdef pf_comp* c = w.c
    cdef pf_node* nd
    cdef pf_node* rep = c.g.nodes + it.rep
    cdef pf_input* ins
    cdef int32_t k, j, n_ctl = 0, at = it.group.n_in
    for k in range(it.group.n):
        n_ctl += c.g.nodes[it.group.nodes[k]].n_ctl
    ins = <pf_input*>pf_comp_keep(c, it.group.n_in + n_ctl, sizeof(pf_input))
    if ins == NULL:
        return c.err.code
    if it.group.n_in:
        memcpy(ins, it.group.ins, sizeof(pf_input) * it.group.n_in)
    for k in range(it.group.n):
        nd = c.g.nodes + it.group.nodes[k]
        for j in range(nd.n_in, nd.n_in + nd.n_ctl):
            if w.rep[nd.inputs[j].node] != it.rep:
                ins[at] = nd.inputs[j]
                at += 1
    rep.inputs = ins
    rep.n_in = it.group.n_in
    rep.n_ctl = at - it.group.n_in
    return PF_OK

cdef void clear_members(pf_grouping* w, pf_group_install* it) noexcept nogil:
    """Invariant 4; the representative takes over their flags."""
    cdef pf_comp* c = w.c
    cdef int32_t k, m
    cdef uint8_t flags = 0
    for k in range(it.n_consts, it.group.n):
        m = it.group.nodes[k]
        flags |= c.flags[m] & <uint8_t>(PF_N_MAYBE_DEAD | PF_N_EXPENSIVE | PF_N_URGENT)
        if m == it.rep:
            continue
        c.cls[m] = PF_C_NOOP
        c.flags[m] = PF_N_PREFILLED
        c.kernel[m] = NULL
        c.g.nodes[m].n_in = 0
        c.g.nodes[m].n_ctl = 0
        memset(c.sig + m, 0, sizeof(pf_signature))
    if w.by.compiler.flags & <uint32_t>PF_KERNEL_URGENT:
        flags |= PF_N_URGENT
    if w.by.compiler.flags & <uint32_t>PF_KERNEL_ASYNC:
        flags |= PF_N_ASYNC
        c.plan.has_async = 1
    c.flags[it.rep] = flags
    c.sig[it.rep] = it.sig[0]

cdef void rename_inputs(pf_grouping* w) noexcept nogil:
    """Readers of replaced nodes read their representatives."""
    cdef pf_comp* c = w.c
    cdef pf_node* nd
    cdef pf_input* e
    cdef int32_t i, k
    for i in range(c.n):
        nd = c.g.nodes + i
        for k in range(nd.n_in + nd.n_ctl):
            e = nd.inputs + k
            if w.rep[e.node] < 0:
                continue
            if k < nd.n_in:
                e.output = w.out_index[w.first_out[e.node] + e.output]
            e.node = w.rep[e.node]

cdef public pf_status pf_group_install_all(pf_grouping* w) noexcept nogil:
    cdef pf_group_install* it = w.installs
    while it != NULL:
        if set_signature(w, it) or set_kernel(w, it) or set_inputs(w, it):
            return w.c.err.code
        it = it.next
    it = w.installs
    while it != NULL:
        clear_members(w, it)
        it = it.next
    rename_inputs(w)
    return PF_OK

cdef public void pf_group_release(pf_grouping* w) noexcept nogil:
    """The plan failed: programs that no node owns yet."""
    cdef pf_group_install* it = w.installs
    while it != NULL:
        if w.c.kernel[it.rep] == NULL or not pf_group_is(w.c.plan.nodes[it.rep].kernel):
            if w.by.compiler.release != NULL:
                w.by.compiler.release(it.program)
        it = it.next

# ---------------------------------------------------------------- what a compiler may ask
# Pf_group_api, what a compiler may ask about a group.  Numbers out of range give nothing.
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
        pf_copy_text(g.message, PF_GROUP_MESSAGE, msg, n)
    return st if st > 0 else PF_INTERNAL

cdef public void pf_group_fill_api(pf_group_api* api) noexcept nogil:
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
