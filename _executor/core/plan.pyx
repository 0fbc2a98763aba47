# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""From GraphDef to Plan: checks every node, assigns frames, selects kernels; blocks.pyx and emit.pyx do the rest.

Invariants of a graph that passes
1. Every op is known, every attribute legal, every edge joins equal types, refs go to refs or are read.
2. The graph without NextIteration -> Merge edges is acyclic; all inputs of a node come from one frame; a loop's
   Merge joins one Enter and one NextIteration of its own frame.
3. Every kernel node has an initialised kernel; every constant and variable handle exists before the first step.

Threads: compile runs on the caller's thread, without the GIL; a finished plan is immutable.
"""
from core cimport *
from exec_api cimport *
from compile_api cimport *
from tensor_api cimport *
from proto_api cimport pf_graph_free, pf_node_attr_find
from sig_api cimport *
from registry_api cimport *
from state_api cimport *
from infer_api cimport pf_infer_call

cdef enum:
    MAX_NODES = 16 * 1024 * 1024
    INFO_BUCKETS = 1024

cdef int32_t class_of(pf_str op) noexcept nogil:
    if op.len < 2:
        return PF_C_KERNEL
    if pf_str_is(op, b"_Arg"):
        return PF_C_ARG
    if pf_str_is(op, b"_Retval"):
        return PF_C_RETVAL
    if pf_str_is(op, b"Const"):
        return PF_C_CONST
    if (pf_str_is(op, b"Identity") or pf_str_is(op, b"RefIdentity") or pf_str_is(op, b"StopGradient")
            or pf_str_is(op, b"PreventGradient") or pf_str_is(op, b"Snapshot") or pf_str_is(op, b"LoopCond")):
        return PF_C_IDENTITY
    if pf_str_is(op, b"NoOp") or pf_str_is(op, b"ControlTrigger"):
        return PF_C_NOOP
    if pf_str_is(op, b"Switch") or pf_str_is(op, b"RefSwitch"):
        return PF_C_SWITCH
    if pf_str_is(op, b"Merge") or pf_str_is(op, b"RefMerge"):
        return PF_C_MERGE
    if pf_str_is(op, b"Enter") or pf_str_is(op, b"RefEnter"):
        return PF_C_ENTER
    if pf_str_is(op, b"Exit") or pf_str_is(op, b"RefExit"):
        return PF_C_EXIT
    if pf_str_is(op, b"NextIteration") or pf_str_is(op, b"RefNextIteration"):
        return PF_C_NEXT
    if pf_str_is(op, b"VariableV2") or pf_str_is(op, b"Variable") or pf_str_is(op, b"VarHandleOp"):
        return PF_C_VARIABLE
    return PF_C_KERNEL

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

cdef inline void* grab(pf_comp* c, int64_t count, size_t size) noexcept nogil:
    cdef void* p = pf_arena_alloc(&c.work, <uint64_t>(count + 1) * size)
    if p == NULL:
        pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while compiling a graph of %d nodes", c.n)
    return p

cdef inline void* keep(pf_comp* c, int64_t count, size_t size) noexcept nogil:
    cdef void* p = pf_arena_alloc(&c.plan.arena, <uint64_t>(count + 1) * size)
    if p == NULL:
        pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while compiling a graph of %d nodes", c.n)
    return p

# ---------------------------------------------------------------- nodes
cdef pf_status missing_ops(pf_comp* c) noexcept nogil:
    """One error that lists every unknown op."""
    cdef char text[3000]
    cdef int32_t used = 0, i, j, listed = 0
    cdef pf_node* nd
    text[0] = 0
    for i in range(c.n):
        if c.def_[i] != NULL:
            continue
        nd = c.g.nodes + i
        for j in range(i):
            if c.def_[j] == NULL and pf_str_eq(c.g.nodes[j].op, nd.op):
                break
        else:
            listed += 1
            if used < 2700 and listed <= 40:
                used += snprintf(text + used, 3000 - used, b"%s%.*s (node %.*s)", b", " if listed > 1 else b"",
                                 <int>min(nd.op.len, 80), nd.op.data, <int>min(nd.name.len, 120), nd.name.data)
    pf_error_set(c.err, PF_NOT_FOUND,
                 b"the graph uses %d op%s this process does not know: %s. Install the plugin that declares them "
                 b"(python -m pyflow devices lists what is installed).",
                 listed, b"s" if listed > 1 else b"", text)
    return c.err.code

cdef pf_status check_edges(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_node* nd = c.g.nodes + i
    cdef pf_node* src
    cdef pf_signature* s = c.sig + i
    cdef pf_signature* p
    cdef int32_t k, o
    cdef char text[900]
    for k in range(nd.n_in):
        o = nd.inputs[k].output
        src = c.g.nodes + nd.inputs[k].node
        p = c.sig + nd.inputs[k].node
        if o < 0 or o >= p.n_out:
            snprintf(text, 900, b"input %d reads output %d of node '%.*s' (op %.*s), which has %d output%s", k, o,
                     <int>min(src.name.len, 200), src.name.data, <int>min(src.op.len, 80), src.op.data, p.n_out,
                     b"" if p.n_out == 1 else b"s")
            return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, text)
        if p.out_type[o] != s.in_type[k] or (s.in_ref[k] and not p.out_ref[o]):
            snprintf(text, 900, b"input %d expects %s%s but '%.*s' output %d (op %.*s) is %s%s", k,
                     pf_type_name(s.in_type[k]), b" ref" if s.in_ref[k] else b"", <int>min(src.name.len, 200),
                     src.name.data, o, <int>min(src.op.len, 80), src.op.data, pf_type_name(p.out_type[o]),
                     b" ref" if p.out_ref[o] else b"")
            return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, text)
    return PF_OK

cdef pf_status resolve_nodes(pf_comp* c) noexcept nogil:
    cdef int32_t i, missing = 0
    cdef pf_node* nd
    for i in range(c.n):
        nd = c.g.nodes + i
        c.def_[i] = pf_op_find(nd.op)
        if c.def_[i] == NULL:
            missing += 1
        c.cls[i] = <uint8_t>class_of(nd.op)
    if missing:
        return missing_ops(c)
    for i in range(c.n):
        if pf_node_resolve(c.g, c.g.nodes + i, c.def_[i], c.sig + i, c.err):
            return pf_comp_fail(c, i, c.err.code, NULL)
    for i in range(c.n):
        if check_edges(c, i):
            return c.err.code
    return PF_OK

cdef pf_status list_consumers(pf_comp* c) noexcept nogil:
    cdef int32_t i, k, edges = 0, src
    cdef pf_node* nd
    for i in range(c.n):
        nd = c.g.nodes + i
        edges += nd.n_in + nd.n_ctl
        for k in range(nd.n_in + nd.n_ctl):
            c.out_begin[nd.inputs[k].node + 1] += 1
    c.out_node = <int32_t*>grab(c, edges, sizeof(int32_t))
    c.out_port = <int32_t*>grab(c, edges, sizeof(int32_t))
    cdef int32_t* at = <int32_t*>grab(c, c.n, sizeof(int32_t))
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

# ---------------------------------------------------------------- frames
cdef int32_t child_frame(pf_comp* c, int32_t parent, int32_t node) noexcept nogil:
    """The frame an Enter opens; -1: an error is set."""
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + node, c.def_[node], b"frame_name")
    cdef const pf_attr_value* par = pf_attr_or_default(c.g.nodes + node, c.def_[node], b"parallel_iterations")
    cdef pf_comp_frame* grown
    cdef int32_t f
    if a == NULL:
        pf_comp_fail(c, node, PF_INVALID_ARGUMENT, b"Enter without a frame_name")
        return -1
    for f in range(c.n_frames):
        if c.frames[f].parent == parent and f > 0 and pf_str_eq(c.frames[f].name, a.s):
            return f
    if c.n_frames == c.frames_room:
        grown = <pf_comp_frame*>grab(c, c.frames_room * 2, sizeof(pf_comp_frame))
        if grown == NULL:
            return -1
        memcpy(grown, c.frames, sizeof(pf_comp_frame) * c.n_frames)
        c.frames = grown
        c.frames_room *= 2
    f = c.n_frames
    c.n_frames += 1
    memset(&c.frames[f], 0, sizeof(pf_comp_frame))
    c.frames[f].parent = parent
    c.frames[f].name = a.s
    c.frames[f].block = -1
    c.frames[f].parallel = <int32_t>min(max(par.i if par != NULL else 10, 1), 1024)
    return f

cdef pf_status place_in_frame(pf_comp* c, int32_t i) noexcept nogil:
    """frame and out_frame of a node whose predecessors (but NextIteration ones) are placed."""
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, src, f = -1, dead = 0, loop = 0
    cdef char text[900]
    for k in range(nd.n_in + nd.n_ctl):
        src = nd.inputs[k].node
        if c.cls[i] == PF_C_MERGE and c.cls[src] == PF_C_NEXT and k < nd.n_in:
            loop = 1
            continue
        if f < 0:
            f = c.out_frame[src]
        elif f != c.out_frame[src]:
            snprintf(text, 900, b"its inputs come from different loops ('%.*s' and '%.*s'): a value crosses into a loop "
                     b"through Enter and leaves it through Exit", <int>min(c.frames[f].name.len, 200), c.frames[f].name.data,
                     <int>min(c.frames[c.out_frame[src]].name.len, 200), c.frames[c.out_frame[src]].name.data)
            return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, text)
        if c.flags[src] & PF_N_MAYBE_DEAD:
            dead = 1
    if f < 0:
        f = 0
    c.frame[i] = f
    c.out_frame[i] = f
    c.frames[f].n_nodes += 1
    if dead:
        c.flags[i] |= PF_N_MAYBE_DEAD
    if loop:
        c.flags[i] |= PF_N_LOOP_MERGE
        c.frames[f].n_vars += 1
    if c.cls[i] == PF_C_SWITCH:
        c.flags[i] |= PF_N_MAYBE_DEAD
    elif c.cls[i] == PF_C_ENTER:
        c.out_frame[i] = child_frame(c, f, i)
        if c.out_frame[i] < 0:
            return c.err.code
        c.frames[c.out_frame[i]].n_enters += 1
    elif c.cls[i] == PF_C_EXIT or c.cls[i] == PF_C_NEXT or loop:
        if f == 0:
            return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"it belongs inside a while loop, but no Enter leads to it")
        if c.cls[i] == PF_C_EXIT:
            c.out_frame[i] = c.frames[f].parent
            c.frames[f].n_exits += 1
    return PF_OK

cdef pf_status assign_frames(pf_comp* c) noexcept nogil:
    cdef int32_t* waits = <int32_t*>grab(c, c.n, sizeof(int32_t))
    cdef int32_t* ready = <int32_t*>grab(c, c.n, sizeof(int32_t))
    cdef int32_t n_ready = 0, i, k, d, placed = 0
    cdef pf_node* nd
    c.frames_room = 16
    c.frames = <pf_comp_frame*>grab(c, c.frames_room, sizeof(pf_comp_frame))
    if waits == NULL or ready == NULL or c.frames == NULL:
        return c.err.code
    c.n_frames = 1
    c.frames[0].parent = -1
    c.frames[0].parallel = 1
    c.frames[0].block = -1
    for i in range(c.n):
        nd = c.g.nodes + i
        waits[i] = nd.n_in + nd.n_ctl
        if c.cls[i] == PF_C_MERGE:
            for k in range(nd.n_in):
                if c.cls[nd.inputs[k].node] == PF_C_NEXT:
                    waits[i] -= 1
        if waits[i] == 0:
            pf_ints_push(ready, &n_ready, i)
    while n_ready:
        i = pf_ints_pop(ready, &n_ready)
        if place_in_frame(c, i):
            return c.err.code
        c.topo[placed] = i
        placed += 1
        for k in range(c.out_begin[i], c.out_begin[i + 1]):
            d = c.out_node[k]
            if c.cls[i] == PF_C_NEXT and c.cls[d] == PF_C_MERGE and c.out_port[k] >= 0:
                continue
            waits[d] -= 1
            if waits[d] == 0:
                pf_ints_push(ready, &n_ready, d)
    if placed < c.n:
        for i in range(c.n):
            if waits[i] > 0:
                return pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                                    b"the graph has a cycle through this node that is not a while loop")
    return PF_OK

cdef pf_status collect_loops(pf_comp* c) noexcept nogil:
    """enters, exits, and (Merge, NextIteration) pairs per frame, checked."""
    cdef int32_t i, f, k, src, enter, nxt
    cdef pf_node* nd
    cdef pf_comp_frame* fr
    for f in range(c.n_frames):
        fr = c.frames + f
        fr.enters = <int32_t*>grab(c, fr.n_enters, sizeof(int32_t))
        fr.exits = <int32_t*>grab(c, fr.n_exits, sizeof(int32_t))
        fr.merges = <int32_t*>grab(c, fr.n_vars, sizeof(int32_t))
        fr.nexts = <int32_t*>grab(c, fr.n_vars, sizeof(int32_t))
        if fr.enters == NULL or fr.exits == NULL or fr.merges == NULL or fr.nexts == NULL:
            return c.err.code
        fr.n_enters = 0
        fr.n_exits = 0
        fr.n_vars = 0
    for i in range(c.n):
        nd = c.g.nodes + i
        if c.cls[i] == PF_C_ENTER:
            fr = c.frames + c.out_frame[i]
            fr.enters[fr.n_enters] = i
            fr.n_enters += 1
            k = 1
            for src in range(c.out_begin[i], c.out_begin[i + 1]):
                if c.out_port[src] >= 0 and not c.flags[c.out_node[src]] & PF_N_LOOP_MERGE:
                    k = 0
            if not k or c.out_begin[i] == c.out_begin[i + 1]:
                c.flags[i] |= PF_N_CONST_ENTER
        elif c.cls[i] == PF_C_EXIT:
            fr = c.frames + c.frame[i]
            fr.exits[fr.n_exits] = i
            fr.n_exits += 1
        elif c.flags[i] & PF_N_LOOP_MERGE:
            fr = c.frames + c.frame[i]
            enter = -1
            nxt = -1
            for k in range(nd.n_in):
                src = nd.inputs[k].node
                if c.cls[src] == PF_C_NEXT and c.frame[src] == c.frame[i]:
                    nxt = src
                elif c.cls[src] == PF_C_ENTER:
                    enter = src
            if nd.n_in != 2 or enter < 0 or nxt < 0:
                return pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                                    b"a loop's Merge joins exactly one Enter and one NextIteration of its own loop")
            fr.merges[fr.n_vars] = i
            fr.nexts[fr.n_vars] = nxt
            fr.n_vars += 1
    for i in range(c.n):
        if c.cls[i] == PF_C_NEXT:
            for k in range(c.out_begin[i], c.out_begin[i + 1]):
                if not c.flags[c.out_node[k]] & PF_N_LOOP_MERGE or c.frame[c.out_node[k]] != c.frame[i]:
                    return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"NextIteration feeds something else than its loop's Merge")
    for i in range(c.n):
        if c.cls[i] == PF_C_ENTER and c.flags[i] & PF_N_CONST_ENTER:
            const_enter_ok(c, i)
            if c.err.code:
                return c.err.code
    return PF_OK

cdef void const_enter_ok(pf_comp* c, int32_t i) noexcept nogil:
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"is_constant")
    if (a == NULL or not a.i) and c.out_begin[i] != c.out_begin[i + 1]:
        pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                     b"an Enter with is_constant=false feeds a node that is not a Merge: its value would exist in the "
                     b"first iteration only")

# ---------------------------------------------------------------- kernels
cdef void device_of(pf_str device, char* kind, int32_t* ordinal) noexcept nogil:
    """'/job:x/device:GPU:1' -> GPU, 1; '' -> CPU, 0.  kind has room for 24."""
    cdef int64_t i = device.len - 1, end = device.len
    cdef int32_t number = 0, k
    strcpy_(kind, b"CPU")
    ordinal[0] = 0
    while i >= 0 and device.data[i] != c':' and device.data[i] != c'/':
        i -= 1
    if i < 0 or device.data[i] != c':' or end - i > 8:
        return
    for k in range(<int32_t>(i + 1), <int32_t>end):
        if device.data[k] < c'0' or device.data[k] > c'9':
            return
        number = number * 10 + (device.data[k] - c'0')
    end = i
    i -= 1
    while i >= 0 and device.data[i] != c':' and device.data[i] != c'/':
        i -= 1
    if i < 0 or end - i - 1 <= 0 or end - i - 1 > 23:
        return
    pf_copy_text(kind, 24, device.data + i + 1, end - i - 1)
    if strcmp(kind, b"cpu") == 0:
        strcpy_(kind, b"CPU")
    elif strcmp(kind, b"gpu") == 0:
        strcpy_(kind, b"GPU")
    ordinal[0] = number

cdef void strcpy_(char* to, const char* text) noexcept nogil:
    pf_copy_text(to, 24, text, <int64_t>strlen(text))

cdef pf_status share_call_info(pf_comp* c, int32_t i, pf_node_info* info, void* opened) noexcept nogil:
    """Nodes with equal argument types share one pf_call_info: it stays in the cache."""
    cdef pf_signature* s = c.sig + i
    cdef pf_call_info want
    cdef pf_call_info* have
    cdef uint64_t h = 1469598103934665603ULL
    cdef int32_t k
    cdef uint32_t at
    want.in_type = s.in_type
    want.out_type = s.out_type
    want.n_in = s.n_in
    want.n_out = s.n_out
    want.in_start = s.in_start
    want.out_start = s.out_start
    want.n_in_args = s.n_in_args
    want.n_out_args = s.n_out_args
    want.opened = opened
    for k in range(s.n_in):
        h = (h ^ <uint64_t>s.in_type[k]) * <uint64_t>1099511628211ULL
    for k in range(s.n_out):
        h = (h ^ <uint64_t>(s.out_type[k] + 64)) * <uint64_t>1099511628211ULL
    at = <uint32_t>((h ^ (h >> 29)) & <uint64_t>(INFO_BUCKETS - 1))
    have = c.infos[at]
    if have == NULL or not same_info(have, &want):
        have = <pf_call_info*>keep(c, 1, sizeof(pf_call_info))
        if have == NULL:
            return c.err.code
        have[0] = want
        c.infos[at] = have
    info.call = have
    return PF_OK

cdef bint same_ints(const int32_t* a, const int32_t* b, int32_t n) noexcept nogil:
    return n <= 0 or a == b or memcmp(a, b, sizeof(int32_t) * n) == 0

cdef bint same_info(const pf_call_info* a, const pf_call_info* b) noexcept nogil:
    if (a.n_in != b.n_in or a.n_out != b.n_out or a.n_in_args != b.n_in_args or a.n_out_args != b.n_out_args
            or a.opened != b.opened):
        return False
    return (same_ints(a.in_type, b.in_type, a.n_in) and same_ints(a.out_type, b.out_type, a.n_out)
            and same_ints(a.in_start, b.in_start, a.n_in_args + 1)
            and same_ints(a.out_start, b.out_start, a.n_out_args + 1))

cdef void fill_info(pf_comp* c, int32_t i, pf_node_info* info) noexcept nogil:
    cdef const pf_attr_value* a
    share_call_info(c, i, info, NULL)
    info.name = c.g.nodes[i].name
    info.op = c.g.nodes[i].op
    info.device = c.g.nodes[i].device
    info.def_ = c.def_[i]
    info.frame = c.frame[i]
    info.origin = i
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"seed")
    info.seed = <uint64_t>a.i if a != NULL else 0
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"seed2")
    info.seed2 = <uint64_t>a.i if a != NULL else 0
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"container")
    if a != NULL:
        info.container = a.s
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"shared_name")
    if a != NULL:
        info.shared_name = a.s

cdef pf_status init_kernel(pf_comp* c, int32_t i, const pf_kernel_entry* k, pf_node_info* info) noexcept nogil:
    """Calls the kernel's init with the constants it may see."""
    cdef pf_call call
    cdef pf_status st
    cdef int32_t j
    cdef const DLTensor** constants = <const DLTensor**>grab(c, info.call.n_in, sizeof(void*))
    cdef uint8_t* dropped = <uint8_t*>keep(c, info.call.n_in, 1)
    if constants == NULL or dropped == NULL:
        return c.err.code
    for j in range(info.call.n_in):
        if c.cls[c.g.nodes[i].inputs[j].node] == PF_C_CONST:
            constants[j] = c.value[c.g.nodes[i].inputs[j].node]
    memset(&call, 0, sizeof(call))
    pf_call_init(&call, NULL, NULL)
    call.plan = c.plan
    call.node = info
    call.constants = constants
    call.dropped = dropped
    call.info = info.call
    memcpy(&call.ctx.in_type, info.call, sizeof(pf_call_info))
    st = k.kernel.init(&call.ctx, info.state)
    if st == PF_OK:
        info.dropped = dropped
    if st != PF_OK and st != PF_DECLINE:
        if call.message != NULL:
            pf_comp_fail(c, i, st, call.message)
        else:
            pf_comp_fail(c, i, st, b"the kernel's init failed without a message")
    pf_call_cleanup(&call)
    return st

cdef pf_status choose_kernel(pf_comp* c, int32_t i) noexcept nogil:
    cdef char kind[24]
    cdef int32_t ordinal
    cdef const pf_kernel_entry* k = NULL
    cdef pf_node_info* info = c.plan.nodes + i
    cdef pf_status st
    device_of(c.g.nodes[i].device, kind, &ordinal)
    info.dev = pf_device_find(kind, ordinal)
    if info.dev == NULL:
        pf_error_set(c.err, PF_INVALID_ARGUMENT, b"no device %s:%d in this process", kind, ordinal)
        return pf_comp_fail(c, i, c.err.code, NULL)
    if info.dev.dev != NULL and share_call_info(c, i, info, info.dev.dev):
        return c.err.code
    while True:
        if pf_kernel_select(c.g.nodes + i, c.def_[i], c.sig + i, kind, k, &k, c.err) or k == NULL:
            return pf_comp_fail(c, i, c.err.code if c.err.code else PF_NOT_FOUND, b"no kernel")
        if pf_kernel_state(k, c.g.nodes + i, c.def_[i], &c.plan.arena, &info.state, c.err):
            return pf_comp_fail(c, i, c.err.code, NULL)
        st = init_kernel(c, i, k, info) if k.kernel.init != NULL else PF_OK
        if st == PF_OK:
            break
        if st != PF_DECLINE:
            return st
    info.kernel = k
    c.kernel[i] = k
    if k.kernel.flags & <uint32_t>PF_KERNEL_ASYNC:
        c.flags[i] |= PF_N_ASYNC
        c.plan.has_async = 1
    if k.kernel.flags & <uint32_t>PF_KERNEL_URGENT:
        c.flags[i] |= PF_N_URGENT
    if k.kernel.flags & <uint32_t>(PF_KERNEL_EXPENSIVE | PF_KERNEL_BLOCKING) and not c.plan.solo:
        if not (k.kernel.flags & <uint32_t>PF_KERNEL_EXPENSIVE) or not pf_node_is_small(c, i):
            c.flags[i] |= PF_N_EXPENSIVE
    return PF_OK

cdef enum:
    CHEAP_FLOPS = 60000         # a few microseconds

cdef bint pf_node_is_small(pf_comp* c, int32_t i) noexcept nogil:
    """An EXPENSIVE kernel whose own cost function says, for the shapes known while planning, that it is cheap here."""
    cdef pf_node* nd = c.g.nodes + i
    cdef pf_infer_call call
    cdef pf_error ignored
    cdef const pf_attr_value* shapes
    cdef pf_shape* in_shapes
    cdef double flops = 0, traffic = 0
    cdef int32_t k
    if c.plan.nodes[i].kernel == NULL or c.plan.nodes[i].kernel.kernel.cost == NULL:
        return False
    memset(&call, 0, sizeof(call))
    in_shapes = <pf_shape*>grab(c, nd.n_in, sizeof(pf_shape))
    if in_shapes == NULL:
        return False
    for k in range(nd.n_in):
        in_shapes[k].ndim = -1
        shapes = pf_node_attr_find(c.g.nodes + nd.inputs[k].node, b"_output_shapes")
        if shapes != NULL and shapes.kind == PF_ATTR_SHAPE | PF_ATTR_LIST and nd.inputs[k].output < shapes.list.n:
            in_shapes[k] = (<const pf_shape*>shapes.list.items)[nd.inputs[k].output]
    ignored.code = 0
    call.node = nd
    call.def_ = c.def_[i]
    call.sig = c.sig + i
    call.in_shapes = in_shapes
    call.arena = &c.work
    call.err = &ignored
    if c.plan.nodes[i].kernel.kernel.cost(<pf_infer*>&call, &flops, &traffic):
        return False
    return 0 < flops <= CHEAP_FLOPS

cdef pf_status make_variable(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_node_info* info = c.plan.nodes + i
    cdef const pf_attr_value* t = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"dtype")
    cdef const pf_attr_value* s = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"shape")
    cdef pf_shape anything
    cdef pf_variable* v = NULL
    cdef pf_tensor* h
    cdef pf_str name = info.shared_name
    memset(&anything, 0, sizeof(anything))
    anything.ndim = -1
    if t == NULL:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"a variable without dtype")
    if name.len == 0:
        name = info.name
    if s != NULL:
        anything = s.shape
    if pf_str_is(c.g.nodes[i].op, b"Variable") and anything.ndim == 0:
        anything.ndim = -1          # version 1 writes an unknown shape as a scalar's
    if pf_state_variable(c.plan.state, info.container, name, t.type, anything, &v, c.err):
        return pf_comp_fail(c, i, c.err.code, NULL)
    h = pf_tensor_handle(<pf_object*>v)
    if h == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    return own_value(c, i, h)

cdef pf_status own_value(pf_comp* c, int32_t i, pf_tensor* take) noexcept nogil:
    c.plan.const_tensors[c.plan.n_const_tensors] = take
    c.plan.n_const_tensors += 1
    c.value[i] = pf_dl(take)
    return PF_OK

cdef pf_status make_constant(pf_comp* c, int32_t i, const pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"value")
    cdef int32_t k
    cdef pf_tensor* t = NULL
    if a != NULL and a.tensor != NULL:
        t = a.tensor
    for k in range(n_consts):
        if pf_str_eq(consts[k].name, c.g.nodes[i].name):
            t = consts[k].tensor
            break
    if t == NULL:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"a Const without a value")
    if t.type != c.sig[i].out_type[0]:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"the constant's value is not of the type its dtype says")
    if t.flags & PF_T_BORROWED:
        t = pf_tensor_copy(t)
        if t == NULL:
            return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory for a constant")
    else:
        pf_tensor_ref(t)
    return own_value(c, i, t)

cdef pf_status make_values(pf_comp* c, const pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef int32_t i
    for i in range(c.n):
        fill_info(c, i, c.plan.nodes + i)
        if c.cls[i] == PF_C_CONST:
            if make_constant(c, i, consts, n_consts):
                return c.err.code
            if c.g.nodes[i].n_ctl == 0:
                c.flags[i] |= PF_N_PREFILLED
        elif c.cls[i] == PF_C_VARIABLE:
            if make_variable(c, i):
                return c.err.code
            c.flags[i] |= PF_N_PREFILLED
        elif c.cls[i] == PF_C_ARG:
            c.flags[i] |= PF_N_PREFILLED
    for i in range(c.n):
        if c.cls[i] == PF_C_KERNEL and choose_kernel(c, i):
            return c.err.code
    spread_deadness(c)
    return PF_OK

cdef void spread_deadness(pf_comp* c) noexcept nogil:
    """Kernels that handle dead tokens (Recv) may make them too: whatever reads such an output may be dead."""
    cdef int32_t j, i, k
    cdef pf_node* nd
    for j in range(c.n):
        i = c.topo[j]
        nd = c.g.nodes + i
        if c.kernel[i] != NULL and c.kernel[i].kernel.flags & <uint32_t>PF_KERNEL_DEAD:
            c.flags[i] |= PF_N_MAYBE_DEAD
        for k in range(nd.n_in + nd.n_ctl):
            if c.flags[nd.inputs[k].node] & PF_N_MAYBE_DEAD and c.cls[nd.inputs[k].node] != PF_C_NEXT:
                c.flags[i] |= PF_N_MAYBE_DEAD

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
            if c.cls[i] == PF_C_ARG:
                p.n_args = max(p.n_args, <uint32_t>k + 1)
            else:
                p.n_rets = max(p.n_rets, <uint32_t>k + 1)
    p.arg_slot = <uint32_t*>keep(c, p.n_args, sizeof(uint32_t))
    p.arg_type = <int32_t*>keep(c, p.n_args, sizeof(int32_t))
    p.arg_shape = <pf_shape*>keep(c, p.n_args, sizeof(pf_shape))
    p.arg_name = <pf_str*>keep(c, p.n_args, sizeof(pf_str))
    p.ret_type = <int32_t*>keep(c, p.n_rets, sizeof(int32_t))
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
    for k in range(<int32_t>p.n_rets):
        if not p.ret_type[k]:
            return pf_error_set(c.err, PF_INVALID_ARGUMENT, b"no _Retval node has index %d", k)
    return PF_OK

# ---------------------------------------------------------------- compile
cdef pf_status allocate(pf_comp* c) noexcept nogil:
    cdef int32_t n = c.n
    c.def_ = <const pf_op_def**>grab(c, n, sizeof(void*))
    c.infos = <pf_call_info**>grab(c, INFO_BUCKETS, sizeof(void*))
    c.sig = <pf_signature*>grab(c, n, sizeof(pf_signature))
    c.kernel = <const pf_kernel_entry**>grab(c, n, sizeof(void*))
    c.value = <DLTensor**>grab(c, n, sizeof(void*))
    c.cls = <uint8_t*>grab(c, n, 1)
    c.flags = <uint8_t*>grab(c, n, 1)
    c.frame = <int32_t*>grab(c, n, sizeof(int32_t))
    c.out_frame = <int32_t*>grab(c, n, sizeof(int32_t))
    c.out_begin = <int32_t*>grab(c, n + 1, sizeof(int32_t))
    c.topo = <int32_t*>grab(c, n, sizeof(int32_t))
    c.block = <int32_t*>grab(c, n, sizeof(int32_t))
    c.slot = <uint32_t*>grab(c, n, sizeof(uint32_t))
    c.inner_slot = <uint32_t*>grab(c, n, sizeof(uint32_t))
    c.ctl_slot = <uint32_t*>grab(c, n, sizeof(uint32_t))
    c.plan.nodes = <pf_node_info*>keep(c, n, sizeof(pf_node_info))
    c.plan.const_tensors = <pf_tensor**>keep(c, n, sizeof(void*))
    c.plan.n_nodes = <uint32_t>n
    return c.err.code

cdef void decide_inlining(pf_comp* c) noexcept nogil:
    """Innermost first (children have higher numbers): a loop of cheap synchronous nodes runs inside its block."""
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
        fr.inlined = not (fr.async_ or fr.expensive or c.opt.no_inline)
        if not fr.inlined:
            c.frames[fr.parent].async_ = 1
            c.plan.n_frames_in_slabs += 1
        f -= 1
    for f in range(c.n_frames):
        fr = c.frames + f
        fr.home = c.frames[fr.parent].home if fr.inlined else f

cdef pf_status compile_all(pf_comp* c, const pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef int32_t f
    if c.n > MAX_NODES:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"a graph of %d nodes is too large", c.n)
    if (allocate(c) or resolve_nodes(c) or list_consumers(c) or assign_frames(c) or collect_loops(c)
            or list_arguments(c) or make_values(c, consts, n_consts)):
        return c.err.code
    decide_inlining(c)
    for f in range(c.n_frames):
        if pf_comp_order(c, f):
            return c.err.code
    if pf_comp_blocks(c) or pf_comp_emit(c):
        return c.err.code
    return PF_OK

cdef public pf_status pf_plan_compile(pf_graph* take, const pf_named_tensor* consts, int32_t n_consts, pf_state* state,
                                      pf_pool* pool, const pf_plan_options* options, pf_plan** out,
                                      pf_error* err) noexcept nogil:
    cdef pf_comp c
    cdef pf_plan* p = <pf_plan*>calloc(1, sizeof(pf_plan))
    cdef pf_status st
    out[0] = NULL
    if p == NULL:
        pf_graph_free(take)
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    memset(&c, 0, sizeof(c))
    pf_a32_store(&p.refs, 1)
    p.graph = take
    p.state = state
    p.pool = pool
    pf_state_ref(state)
    pf_pool_ref(pool)
    c.g = take
    c.plan = p
    c.err = err
    c.n = take.n_nodes
    if options != NULL:
        c.opt = options[0]
    p.solo = c.opt.threads == 1 or (c.opt.threads <= 0 and pool.n == 1)
    st = compile_all(&c, consts, n_consts)
    pf_arena_free(&c.work)
    if st:
        pf_plan_unref(p)
        return st
    out[0] = p
    return PF_OK

cdef public void pf_plan_ref(pf_plan* p) noexcept nogil:
    pf_a32_add_rlx(&p.refs, 1)

cdef void free_plan(pf_plan* p) noexcept nogil:
    cdef uint32_t i
    cdef pf_step* s = p.free_steps
    cdef pf_step* next
    while s != NULL:
        next = s.next_free
        pf_step_free(s)
        s = next
    if p.nodes != NULL:
        for i in range(p.n_nodes):
            if p.nodes[i].kernel != NULL and p.nodes[i].kernel.kernel.fini != NULL:
                p.nodes[i].kernel.kernel.fini(p.nodes[i].state)
    for i in range(p.n_const_tensors):
        pf_tensor_unref(p.const_tensors[i])
    pf_graph_free(p.graph)
    pf_state_unref(p.state)
    pf_pool_unref(p.pool)
    pf_arena_free(&p.arena)
    free(p)

cdef public void pf_plan_unref(pf_plan* p) noexcept nogil:
    if p != NULL and pf_a32_dec_last(&p.refs):
        free_plan(p)
