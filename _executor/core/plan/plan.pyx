# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""From GraphDef to Plan: checks every node, assigns frames, selects kernels; blocks.pyx and emit.pyx do the rest.

Invariants of a graph that passes
1. Every op is known, every attribute legal, every edge joins equal types, refs go to refs or are read.
2. The graph without NextIteration -> Merge edges is acyclic; all inputs of a node come from one frame; a loop's
   Merge joins one Enter and one NextIteration of its own frame.
3. Every kernel node has an initialised kernel; every constant and variable handle exists before the first step.
4. Every kernel node says what element types it takes the variables behind its references and handles for.

Threads: compile runs on the caller's thread, without the GIL; a finished plan is immutable.
"""
from compile_h cimport *

cdef enum:
    MAX_NODES = 16 * 1024 * 1024
    MAX_INLINED = 64
    MISSING_LISTED = 40         # ops in the error of a graph with unknown ones
    MAX_ATTEMPTS = 4            # a graph grows by copies once, and by copies of those at most once more

cdef public pf_status pf_comp_fail(pf_comp* c, int32_t node, pf_status code, const char* what) noexcept nogil:
    cdef pf_node* nd
    if node >= 0 and not c.err.code:
        nd = c.g.nodes + node
        pf_copy_text(c.err.node, sizeof(c.err.node), nd.name.data, nd.name.len)
        pf_copy_text(c.err.op, sizeof(c.err.op), nd.op.data, nd.op.len)
        pf_copy_text(c.err.device, sizeof(c.err.device), nd.device.data, nd.device.len)
    if what != NULL:
        return pf_error_set(c.err, code, b"%s", what)
    return code

# ---------------------------------------------------------------- nodes
cdef pf_status missing_ops(pf_comp* c) noexcept nogil:
    """One error that lists every unknown op."""
    cdef char text[3000]
    cdef const char* more = b""
    cdef int32_t seen[MISSING_LISTED]
    cdef int32_t used = 0, i, j, listed = 0
    cdef pf_node* nd
    text[0] = 0
    for i in range(c.n):
        if c.def_[i] != NULL:
            continue
        nd = c.g.nodes + i
        for j in range(listed):
            if pf_str_eq(c.g.nodes[seen[j]].op, nd.op):
                break
        else:
            if listed == MISSING_LISTED:
                more = b" or more"
                break
            seen[listed] = i
            listed += 1
            if used < 2700:
                used += snprintf(text + used, 3000 - used, b"%s%.*s (node %.*s)", b", " if listed > 1 else b"",
                                 <int>min(nd.op.len, 80), nd.op.data, <int>min(nd.name.len, 120), nd.name.data)
    pf_error_set(c.err, PF_NOT_FOUND,
                 b"the graph uses %d%s op%s this process does not know: %s. Install the plugin that declares them "
                 b"(python -m pyflow devices lists what is installed).",
                 listed, more, b"s" if listed > 1 else b"", text)
    return c.err.code

cdef pf_status check_edges(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_node* nd = c.g.nodes + i
    cdef pf_node* src
    cdef pf_signature* s = c.sig + i
    cdef pf_signature* p
    cdef int32_t k, o
    for k in range(nd.n_in):
        o = nd.inputs[k].output
        src = c.g.nodes + nd.inputs[k].node
        p = c.sig + nd.inputs[k].node
        if o < 0 or o >= p.n_out:
            return pf_comp_failf(c, i, PF_INVALID_ARGUMENT, b"input %d reads output %d of node '%.*s' (op %.*s), "
                                 b"which has %d output%s", k, o, <int>min(src.name.len, 200), src.name.data,
                                 <int>min(src.op.len, 80), src.op.data, p.n_out, b"" if p.n_out == 1 else b"s")
        if p.out_type[o] != s.in_type[k] or (s.in_ref[k] and not p.out_ref[o]):
            return pf_comp_failf(c, i, PF_INVALID_ARGUMENT, b"input %d expects %s%s but '%.*s' output %d (op %.*s) "
                                 b"is %s%s", k, pf_type_name(s.in_type[k]), b" ref" if s.in_ref[k] else b"",
                                 <int>min(src.name.len, 200), src.name.data, o, <int>min(src.op.len, 80), src.op.data,
                                 pf_type_name(p.out_type[o]), b" ref" if p.out_ref[o] else b"")
    return PF_OK

cdef bint gives_variable(pf_comp* c, int32_t i) noexcept nogil:
    """A reference, or a handle that does not come from a kernel."""
    cdef int32_t k
    for k in range(c.sig[i].n_out):
        if c.sig[i].out_ref[k] or (c.sig[i].out_type[k] == PF_RESOURCE and c.cls[i] != PF_C_KERNEL):
            return True
    return False

cdef pf_status resolve_nodes(pf_comp* c) noexcept nogil:
    cdef int32_t i, missing = 0
    cdef pf_node* nd
    for i in range(c.n):
        nd = c.g.nodes + i
        c.def_[i] = pf_op_find(nd.op)
        if c.def_[i] == NULL:
            missing += 1
        else:
            c.cls[i] = <uint8_t>c.def_[i].cls
    if missing:
        return missing_ops(c)
    for i in range(c.n):
        if pf_node_resolve(c.g, c.g.nodes + i, c.def_[i], c.sig + i, c.err):
            return pf_comp_fail(c, i, c.err.code, NULL)
    for i in range(c.n):
        if check_edges(c, i):
            return c.err.code
        c.plan.has_variables |= gives_variable(c, i)
    return PF_OK

cdef pf_status list_consumers(pf_comp* c) noexcept nogil:
    cdef int32_t i, k, edges = 0, src
    cdef pf_node* nd
    for i in range(c.n):
        nd = c.g.nodes + i
        edges += nd.n_in + nd.n_ctl
        for k in range(nd.n_in + nd.n_ctl):
            c.out_begin[nd.inputs[k].node + 1] += 1
    c.out_node = <int32_t*>pf_comp_grab(c, edges, sizeof(int32_t))
    c.out_port = <int32_t*>pf_comp_grab(c, edges, sizeof(int32_t))
    cdef int32_t* at = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    if c.out_node == NULL or c.out_port == NULL or at == NULL:
        return c.err.code
    for i in range(c.n):
        c.out_begin[i + 1] += c.out_begin[i]
        at[i] = c.out_begin[i]
    for i in range(c.n):
        nd = c.g.nodes + i
        for k in range(nd.n_in + nd.n_ctl):
            src = nd.inputs[k].node
            c.out_node[at[src]] = i
            c.out_port[at[src]] = nd.inputs[k].output if k < nd.n_in else -1
            at[src] += 1
    return PF_OK

cdef public pf_status pf_comp_consumers(pf_comp* c) noexcept nogil:
    memset(c.out_begin, 0, sizeof(int32_t) * (c.n + 1))
    return list_consumers(c)

# ---------------------------------------------------------------- signature of the step
cdef pf_status number_of(pf_comp* c, int32_t i, int32_t* out) noexcept nogil:
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"index")
    if a == NULL or a.i < 0 or a.i >= c.n:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"index out of range")
    out[0] = <int32_t>a.i
    return PF_OK

cdef pf_status list_arguments(pf_comp* c) noexcept nogil:
    cdef int32_t i, k
    cdef pf_plan* p = c.plan
    cdef const pf_attr_value* a
    for i in range(c.n):
        if c.cls[i] == PF_C_ARG or c.cls[i] == PF_C_RETVAL:
            if number_of(c, i, &k):
                return c.err.code
            if c.frame[i] != 0:
                return pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                                    b"an argument or result of the step lies inside a while loop; fetch what leaves the "
                                    b"loop through Exit")
            if c.cls[i] == PF_C_ARG:
                p.n_args = max(p.n_args, <uint32_t>k + 1)
            else:
                p.n_rets = max(p.n_rets, <uint32_t>k + 1)
    p.arg_slot = <uint32_t*>pf_comp_keep(c, p.n_args, sizeof(uint32_t))
    p.arg_type = <int32_t*>pf_comp_keep(c, p.n_args, sizeof(int32_t))
    p.arg_shape = <pf_shape*>pf_comp_keep(c, p.n_args, sizeof(pf_shape))
    p.arg_name = <pf_str*>pf_comp_keep(c, p.n_args, sizeof(pf_str))
    p.ret_type = <int32_t*>pf_comp_keep(c, p.n_rets, sizeof(int32_t))
    p.ret_name = <pf_str*>pf_comp_keep(c, p.n_rets, sizeof(pf_str))
    if c.err.code:
        return c.err.code
    for k in range(<int32_t>p.n_args):
        p.arg_slot[k] = <uint32_t>0xffffffff
        p.arg_shape[k].ndim = -1
    for i in range(c.n):
        if c.cls[i] == PF_C_ARG:
            number_of(c, i, &k)
            if p.arg_type[k]:
                return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"two _Arg nodes have the same index")
            p.arg_type[k] = c.sig[i].out_type[0]
            p.arg_name[k] = c.g.nodes[i].name
            a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"shape")
            if a != NULL:
                p.arg_shape[k] = a.shape
        elif c.cls[i] == PF_C_RETVAL:
            number_of(c, i, &k)
            if p.ret_type[k]:
                return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"two _Retval nodes have the same index")
            p.ret_type[k] = c.sig[i].in_type[0]
            p.ret_name[k] = c.g.nodes[i].name
    for k in range(<int32_t>p.n_rets):
        if not p.ret_type[k]:
            return pf_error_set(c.err, PF_INVALID_ARGUMENT, b"no _Retval node has index %d", k)
    return PF_OK

# ---------------------------------------------------------------- compile
cdef pf_status allocate(pf_comp* c) noexcept nogil:
    cdef int32_t n = c.n
    c.def_ = <const pf_op_def**>pf_comp_grab(c, n, sizeof(void*))
    c.infos = <pf_call_info**>pf_comp_grab(c, PF_INFO_BUCKETS, sizeof(void*))
    c.frame_buckets = <int32_t*>pf_comp_grab(c, PF_FRAME_BUCKETS, sizeof(int32_t))
    c.sig = <pf_signature*>pf_comp_grab(c, n, sizeof(pf_signature))
    c.kernel = <const pf_kernel_entry**>pf_comp_grab(c, n, sizeof(void*))
    c.value = <DLTensor**>pf_comp_grab(c, n, sizeof(void*))
    c.digest = <pf_digest*>pf_comp_grab(c, n, sizeof(pf_digest))
    c.held_at = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.kept_by = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.cls = <uint8_t*>pf_comp_grab(c, n, 1)
    c.flags = <uint8_t*>pf_comp_grab(c, n, 1)
    c.frame = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.out_frame = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.out_begin = <int32_t*>pf_comp_grab(c, n + 1, sizeof(int32_t))
    c.topo = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.block = <int32_t*>pf_comp_grab(c, n, sizeof(int32_t))
    c.slot = <uint32_t*>pf_comp_grab(c, n, sizeof(uint32_t))
    c.inner_slot = <uint32_t*>pf_comp_grab(c, n, sizeof(uint32_t))
    c.ctl_slot = <uint32_t*>pf_comp_grab(c, n, sizeof(uint32_t))
    c.plan.nodes = <pf_node_info*>pf_comp_keep(c, n, sizeof(pf_node_info))
    c.plan.const_tensors = <pf_tensor**>pf_comp_keep(c, 2 * n, sizeof(void*))
    c.plan.n_nodes = <uint32_t>n
    return c.err.code

cdef void decide_inlining(pf_comp* c) noexcept nogil:
    """Innermost first (children have higher numbers): a loop of cheap synchronous nodes runs inside its block, at most
    MAX_INLINED in one another: each takes about a kilobyte of the thread's stack."""
    cdef int32_t i, f
    cdef pf_comp_frame* fr
    for i in range(c.n):
        fr = c.frames + c.frame[i]
        if c.flags[i] & PF_N_ASYNC:
            fr.async_ = 1
        if c.flags[i] & PF_N_EXPENSIVE:
            fr.expensive = 1
    f = c.n_frames - 1
    while f > 0:
        fr = c.frames + f
        fr.inlined = not (fr.async_ or fr.expensive or c.opt.no_inline or fr.height >= MAX_INLINED)
        if not fr.inlined:
            c.frames[fr.parent].async_ = 1
            c.plan.n_frames_in_slabs += 1
        c.frames[fr.parent].height = max(c.frames[fr.parent].height, fr.height + 1)
        f -= 1
    for f in range(c.n_frames):
        fr = c.frames + f
        fr.home = c.frames[fr.parent].home if fr.inlined else f

cdef void decide_watching(pf_plan* p) noexcept nogil:
    """Whether a step may last: others can then cancel it and ask what it waits for."""
    cdef uint32_t i
    p.watched = p.has_async or p.n_frames_in_slabs != 0 or p.n_devices != 0
    for i in range(p.n_nodes):
        if p.nodes[i].foreign:
            p.watched = 1
    for i in range(p.n_instrs):
        if p.instrs[i].kind == PF_I_LOOP or p.instrs[i].flags & PF_F_LONG:
            p.watched = 1

cdef pf_status compile_all(pf_comp* c, pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef int32_t f
    if c.n > MAX_NODES:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"a graph of %d nodes is too large", c.n)
    if (allocate(c) or resolve_nodes(c) or list_consumers(c) or pf_comp_frames(c) or pf_comp_loops(c)
            or list_arguments(c) or pf_comp_values(c, consts, n_consts) or pf_comp_transfers(c) or c.again):
        return c.err.code
    if pf_comp_reads(c) or pf_comp_collectives(c) or (pf_compiler_count() and c.opt.groups != PF_GROUPS_NONE and pf_comp_group(c)):
        return c.err.code
    decide_inlining(c)
    for f in range(c.n_frames):
        if pf_comp_order(c, f):
            return c.err.code
    if pf_comp_blocks(c) or pf_comp_emit(c) or pf_comp_places(c):
        return c.err.code
    decide_watching(c.plan)
    pf_comp_cost(c)
    return PF_OK

cdef pf_status compile_once(pf_comp* c, pf_plan* p, pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef pf_status st
    pf_a32_store(&p.refs, 1)
    p.graph = c.g
    p.of_library = c.opt.library != NULL
    p.library = c.opt.library
    pf_state_ref(p.state)
    pf_pool_ref(p.pool)
    c.plan = p
    c.n = c.g.n_nodes
    p.solo = c.opt.threads == 1 or (c.opt.threads <= 0 and pf_pool_threads(p.pool) == 1)
    if p.library == NULL and c.g.functions != NULL:
        p.library = pf_library_new(c.g.functions, p.state, p.pool, &c.opt)
    if p.library == NULL and c.g.functions != NULL:
        st = pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory for a library of functions")
    else:
        st = compile_all(c, consts, n_consts)
    pf_arena_free(&c.work)
    if st or c.again:
        if c.again:
            p.graph = NULL          # lives on, with copies
        pf_plan_unref(p)
    return st

cdef public pf_status pf_plan_compile(pf_graph* take, pf_named_tensor* consts, int32_t n_consts, pf_state* state,
                                      pf_pool* pool, const pf_plan_options* options, pf_plan** out,
                                      pf_error* err) noexcept nogil:
    cdef pf_comp c
    cdef pf_plan* p
    cdef pf_status st
    cdef int32_t attempt
    out[0] = NULL
    for attempt in range(MAX_ATTEMPTS):
        p = <pf_plan*>calloc(1, sizeof(pf_plan))
        if p == NULL:
            pf_graph_free(take)
            return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory")
        memset(&c, 0, sizeof(c))
        p.state = state
        p.pool = pool
        c.g = take
        c.err = err
        if options != NULL:
            c.opt = options[0]
        st = compile_once(&c, p, consts, n_consts)
        if st:
            return st
        if not c.again:
            out[0] = p
            return PF_OK
    pf_graph_free(take)
    return pf_error_set(err, PF_INVALID_ARGUMENT,
                        b"no arrangement of values in the devices' memories was found: nodes of several devices in one "
                        b"plan are joined by _Send and _Recv only; partition the graph first")

cdef void free_plan(pf_plan* p) noexcept nogil:
    cdef uint32_t i
    pf_idle_steps_free(p.free_steps)
    if p.nodes != NULL:
        for i in range(p.n_nodes):
            if p.nodes[i].kernel != NULL and p.nodes[i].kernel.kernel.fini != NULL and not pf_host_ended():
                p.nodes[i].kernel.kernel.fini(p.nodes[i].state)
    while p.shared != NULL:
        pf_shared_unref(p.shared.object)
        p.shared = p.shared.next
    for i in range(p.n_const_tensors):
        pf_tensor_unref(p.const_tensors[i])
    if p.graph != NULL:
        pf_graph_free(p.graph)
    if not p.of_library:
        pf_library_unref(p.library)
    pf_state_unref(p.state)
    pf_pool_unref(p.pool)
    pf_arena_free(&p.arena)
    free(p)

cdef public void pf_plan_unref(pf_plan* p) noexcept nogil:
    if p != NULL and pf_a32_dec_last(&p.refs):
        free_plan(p)
