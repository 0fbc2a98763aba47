# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Plans as text and as tables; shapes of ops declared in C."""
cimport numpy as cnp
from look_h cimport *
from pyflow._executor.values cimport clear_error, raise_error, tensor_of, text_of

import numpy as np

cnp.import_array()

# ---------------------------------------------------------------- explain
cdef str explain_plan(pf_plan* p):
    cdef uint32_t f, b, i
    kinds = ["call", "call", "route", "const", "retval", "switch", "merge", "next", "exit", "loop", "frame"]
    out = ["plan: %d nodes, %d instructions, %d blocks, %d frames" % (p.n_nodes, p.n_instrs, p.n_blocks, p.n_frames)]
    for f in range(p.n_frames):
        if p.frames[f].inlined:
            out.append("loop %s (inline in frame %d), %d variables" % (text_of(p.frames[f].name), p.frames[f].parent,
                                                                       p.frames[f].n_vars))
            for i in range(p.frames[f].body_begin, p.frames[f].body_end):
                out.append("    " + explain_instr(p, i, kinds))
            continue
        out.append("frame %d %s: %d slots" % (f, text_of(p.frames[f].name) if f else "(root)", p.frames[f].n_slots))
        for b in range(p.frames[f].block_begin, p.frames[f].block_begin + p.frames[f].n_blocks):
            flags = [n for bit, n in ((PF_B_EXPENSIVE, "expensive"), (PF_B_ASYNC, "async"), (PF_B_URGENT, "urgent"),
                                      (PF_B_EVENT, "event")) if p.blocks[b].flags & bit]
            succ = [p.succs[i] for i in range(p.blocks[b].succ_begin, p.blocks[b].succ_end)]
            out.append("  block %d: waits for %d%s -> %s" % (b, p.blocks[b].pending, " [%s]" % " ".join(flags) if flags else "",
                                                            succ))
            for i in range(p.blocks[b].begin, p.blocks[b].end):
                out.append("    " + explain_instr(p, i, kinds))
    return "\n".join(out + explain_buffers(p))

cdef str explain_instr(pf_plan* p, uint32_t i, list kinds):
    cdef pf_instr* ins = p.instrs + i
    cdef uint32_t k
    reads = []
    for k in range(ins.in_begin, ins.in_begin + ins.n_in):
        reads.append("%d%s" % (p.ins[k] & <uint32_t>PF_IN_SLOT, "".join(
            c for bit, c in ((<uint32_t>PF_IN_LAST, "!"), (<uint32_t>PF_IN_SHARED, "~"), (<uint32_t>PF_IN_DEREF, "*"))
            if p.ins[k] & bit)))
    name = text_of(p.nodes[ins.node].name)
    if ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME:
        return "%s %s(%s)" % (kinds[ins.kind], text_of(p.frames[ins.aux].name), ", ".join(reads))
    outs = ["%d" % (ins.out_slot + k) for k in range(ins.n_out)]
    kernel = p.nodes[ins.node].kernel
    return "%s = %s %s(%s)%s%s%s" % (", ".join(outs) or "()", text_of(p.nodes[ins.node].op), name, ", ".join(reads),
                                     " maybe-dead" if ins.flags & PF_F_MAYBE_DEAD else "",
                                     " by " + kernel.plugin_id.decode("utf-8", "replace") if kernel != NULL else "", explain_places(p, i))

# ---------------------------------------------------------------- buffers
cdef list explain_buffers(pf_plan* p):
    """Sizes of what was planned, last lines of `explain`."""
    if p.planned_bytes < PF_EXTENT_BYTES:
        return ["buffers: none planned, all on the heap (%d bytes of known size that end within the step)" % p.planned_sum]
    return ["buffers: %d bytes planned for %d bytes of outputs; at most %d of them alive at once" % (
        p.planned_bytes, p.planned_sum, p.planned_least)]

cdef str explain_places(pf_plan* p, uint32_t i):
    """Where the outputs of a kernel call of the root frame go: `[0+4096]` offset and bytes, `[in place of 0]`, `[heap]`."""
    cdef pf_instr* ins = p.instrs + i
    cdef pf_place* place
    cdef uint32_t k
    out = []
    if ins.kind != PF_I_CALL or not ins.n_out or p.frames[p.nodes[ins.node].frame].inlined or p.nodes[ins.node].frame:
        return ""
    for k in range(ins.n_out):
        place = p.places + ins.aux + k
        if place.how == PF_PUT_REUSE:
            out.append("in place of %d" % place.input)
        elif place.how == PF_PUT_ALIAS:
            out.append("shares %d" % place.input)
        elif place.how == PF_PUT_PLACE and ins.flags & PF_F_PLACED:
            out.append("%d+%d" % (place.offset, place.bytes))
        else:
            out.append("heap")
    return " [%s]" % ", ".join(out)

cdef list list_places(pf_plan* p):
    """(node, op, port, bytes, how, offset, input, buffer, first, last) of each output of the root frame's kernel calls, in order;
    how: "planned", "in place", "shares", "heap"; offset, input, buffer: None if there is none; first, last: nodes between which
    the buffer is alive."""
    cdef pf_instr* ins
    cdef pf_place* place
    cdef uint32_t i, k, b
    cdef pf_frame_def* root = p.frames
    out = []
    for b in range(root.block_begin, root.block_begin + root.n_blocks):
        for i in range(p.blocks[b].begin, p.blocks[b].end):
            ins = p.instrs + i
            if ins.kind != PF_I_CALL:
                continue
            for k in range(ins.n_out):
                place = p.places + ins.aux + k
                how = ("in place" if place.how == PF_PUT_REUSE else "shares" if place.how == PF_PUT_ALIAS else
                       "planned" if place.how == PF_PUT_PLACE and ins.flags & PF_F_PLACED else "heap")
                out.append((text_of(p.nodes[ins.node].name), text_of(p.nodes[ins.node].op), k, place.bytes, how,
                            place.offset if how == "planned" else None, place.input if place.input >= 0 else None,
                            place.buffer if place.buffer >= 0 else None,
                            text_of(p.nodes[p.instrs[place.first].node].name) if place.first >= 0 else None,
                            text_of(p.nodes[p.instrs[place.last].node].name) if place.last >= 0 else None))
    return out

# ---------------------------------------------------------------- shapes of ops declared in C
cdef pf_node* node_named(pf_graph* g, str name) except NULL:
    cdef int32_t k
    for k in range(g.n_nodes - 1, -1, -1):
        if text_of(g.nodes[k].name) == name:
            return g.nodes + k
    raise ValueError("no such node: %s" % name)

cdef pf_shape* shapes_in(pf_arena* arena, list dims) except NULL:
    """dims: of each a list of sizes, or None."""
    cdef pf_shape* found = <pf_shape*>pf_arena_alloc(arena, sizeof(pf_shape) * (len(dims) + 1))
    cdef int32_t k, j
    if found == NULL:
        raise MemoryError()
    for k in range(len(dims)):
        shape = dims[k] or ()
        own = <int64_t*>pf_arena_alloc(arena, 8 * (len(shape) + 1))
        if own == NULL:
            raise MemoryError()
        for j in range(len(shape)):
            own[j] = shape[j]
        found[k].dims = own
        found[k].ndim = -1 if dims[k] is None else <int32_t>len(shape)
    return found

cdef list inferred(pf_infer_call* call):
    """What the op's shape function says."""
    cdef int32_t k, j, n = call.sig.n_out
    cdef pf_blame blame
    cdef pf_status st
    if call.def_.infer == NULL:
        return [None] * n
    for k in range(n):
        call.out_shapes[k].ndim = -1
    pf_blame_enter(&blame, b"the shape function", call.def_.plugin, call.node.name, call.def_.name)
    st = call.def_.infer(<pf_infer*>call)
    pf_blame_leave(&blame)
    if pf_infer_end(call, st):
        raise_error(call.err)
    return [None if call.out_shapes[k].ndim < 0 else
            [call.out_shapes[k].dims[j] for j in range(call.out_shapes[k].ndim)] for k in range(n)]

def infer_shapes(bytes graph_def, str node, list dims, dict consts):
    """Shapes of the outputs of `node` in a graph whose inputs have the given dims (None: unknown rank; -1: unknown size).

    consts: values of inputs by number.  Returns a list of lists or None.  Raises StepError when the op's shape function
    refuses, ValueError where there is no such node or op.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef pf_infer_call call
    cdef pf_signature sig
    cdef const DLTensor** values
    cdef const char* data = graph_def
    cdef pf_node* nd
    cdef pf_tensor* t
    cdef int32_t i
    cdef list hold = []
    clear_error(&err)
    if pf_graph_read(data, len(graph_def), &g, &err):
        raise_error(&err)
    pf_infer_start(&call)
    values = <const DLTensor**>calloc(len(dims) + 1, sizeof(void*))
    try:
        if values == NULL:
            raise MemoryError()
        nd = node_named(g, node)
        call.node = nd
        call.sig = &sig
        call.arena = &g.arena
        call.err = &err
        call.def_ = pf_op_find(nd.op)
        if call.def_ == NULL:
            raise ValueError("no such op: %s" % text_of(nd.op))
        if pf_node_resolve(g, nd, call.def_, &sig, &err):
            raise_error(&err)
        if len(dims) < sig.n_in:
            raise ValueError("%s has %d inputs, got the shapes of %d" % (node, sig.n_in, len(dims)))
        call.in_shapes = shapes_in(&g.arena, dims)
        call.out_shapes = shapes_in(&g.arena, [None] * sig.n_out)
        for i in range(sig.n_in):
            if i in consts:
                a = np.asarray(consts[i], order="C")
                hold.append(a)
                t = tensor_of(a, sig.in_type[i], hold)
                values[i] = &t.m.dl_tensor
        call.in_values = values
        return inferred(&call)
    finally:
        for i in range(<int32_t>len(dims) if values != NULL else 0):
            if values[i] != NULL:
                pf_tensor_unref(pf_tensor_of(values[i]))
        free(values)
        pf_graph_free(g)

# ---------------------------------------------------------------- what records of a trace refer to
cdef dict trace_table(pf_plan* p):
    """nodes [(name, op, device)]; instr_node, instr_kind: arrays; frames [(parent, name, inlined)]."""
    cdef uint32_t k
    cdef cnp.ndarray node_of = np.empty(p.n_instrs, np.uint32)
    cdef cnp.ndarray kind_of = np.empty(p.n_instrs, np.uint8)
    for k in range(p.n_instrs):
        (<uint32_t*>cnp.PyArray_DATA(node_of))[k] = p.instrs[k].node
        (<uint8_t*>cnp.PyArray_DATA(kind_of))[k] = p.instrs[k].kind
    return dict(nodes=[(text_of(p.nodes[k].name), text_of(p.nodes[k].op), text_of(p.nodes[k].device))
                       for k in range(p.n_nodes)],
                instr_node=node_of, instr_kind=kind_of,
                frames=[(p.frames[k].parent, text_of(p.frames[k].name), p.frames[k].inlined) for k in range(p.n_frames)])
