# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Slots, instructions and last readers: the flat arrays of a plan.

1. Every output gets a slot in the slab of its frame's home (an inlined loop lives in its parent's slab).
2. Inlined loop bodies are emitted first, innermost first, each a contiguous range; then block after block.
3. Reading in execution order, the last reader of a slot is marked: it releases or forwards the tensor.  A value from
   outside an inlined body is read there but released by the LOOP instruction, which lists it among its inputs.

Slot 0 of every slab is always NULL: the input a kernel dropped (`drop_constant`) points there.
"""
from compile_h cimport *

cdef enum:
    NONE = 0xffffffff
    ORDER_CHEAP = 0x40000000
    ORDER_EXPENSIVE = 0x60000000
    SMALL_GRAPH = 128           # nodes
    BRIEF_BYTES = 65536         # of one tensor; as many as may be fed to a step that keeps the GIL

cdef pf_status no_memory(pf_comp* c) noexcept nogil:
    return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while emitting a plan of %d nodes", c.n)

# ---------------------------------------------------------------- slots
cdef bint has_control_readers(pf_comp* c, int32_t i) noexcept nogil:
    cdef int32_t k
    for k in range(c.out_begin[i], c.out_begin[i + 1]):
        if c.out_port[k] < 0:
            return True
    return False

cdef void assign_slots(pf_comp* c) noexcept nogil:
    cdef int32_t i, f
    cdef pf_comp_frame* home
    for f in range(c.n_frames):
        c.frames[f].n_slots = 1
    for i in range(c.n):
        f = c.out_frame[i] if c.cls[i] == PF_C_EXIT else c.frame[i]
        home = c.frames + c.frames[f].home
        c.slot[i] = home.n_slots
        home.n_slots += <uint32_t>c.sig[i].n_out
        c.ctl_slot[i] = NONE
        if (c.flags[i] & PF_N_MAYBE_DEAD and (c.sig[i].n_out == 0 or c.cls[i] == PF_C_SWITCH)
                and has_control_readers(c, i)):
            c.ctl_slot[i] = home.n_slots
            home.n_slots += 1
        c.inner_slot[i] = c.slot[i]
        if c.cls[i] == PF_C_ENTER and not c.frames[c.out_frame[i]].inlined:
            home = c.frames + c.out_frame[i]
            c.inner_slot[i] = home.n_slots
            home.n_slots += 1

cdef uint32_t slot_read(pf_comp* c, int32_t reader_frame, int32_t src, int32_t port) noexcept nogil:
    if c.cls[src] == PF_C_ENTER and reader_frame == c.out_frame[src]:
        return c.inner_slot[src]
    return c.slot[src] + <uint32_t>port

# ---------------------------------------------------------------- instructions
cdef pf_instr* add_instr(pf_comp* c, int32_t block) noexcept nogil:
    cdef pf_instr* grown
    cdef int32_t* blocks
    if c.n_instrs == c.instrs_room:
        c.instrs_room = c.instrs_room * 2 if c.instrs_room else 1024
        grown = <pf_instr*>pf_comp_grab(c, c.instrs_room, sizeof(pf_instr))
        blocks = <int32_t*>pf_comp_grab(c, c.instrs_room, sizeof(int32_t))
        if grown == NULL or blocks == NULL:
            return NULL
        if c.n_instrs:
            memcpy(grown, c.instrs, sizeof(pf_instr) * c.n_instrs)
            memcpy(blocks, c.instr_block, sizeof(int32_t) * c.n_instrs)
        c.instrs = grown
        c.instr_block = blocks
    c.instr_block[c.n_instrs] = block
    c.n_instrs += 1
    memset(c.instrs + c.n_instrs - 1, 0, sizeof(pf_instr))
    c.instrs[c.n_instrs - 1].in_begin = c.n_ins
    return c.instrs + c.n_instrs - 1

cdef pf_status add_in(pf_comp* c, uint32_t what) noexcept nogil:
    cdef uint32_t* grown
    if c.n_ins == c.ins_room:
        c.ins_room = c.ins_room * 2 if c.ins_room else 4096
        grown = <uint32_t*>pf_comp_grab(c, c.ins_room, sizeof(uint32_t))
        if grown == NULL:
            return c.err.code
        if c.n_ins:
            memcpy(grown, c.ins, sizeof(uint32_t) * c.n_ins)
        c.ins = grown
    c.ins[c.n_ins] = what
    c.n_ins += 1
    return PF_OK

cdef pf_status add_inputs(pf_comp* c, int32_t i, pf_instr* ins) noexcept nogil:
    cdef pf_node* nd = c.g.nodes + i
    cdef pf_input from_
    cdef int32_t k, src
    cdef uint32_t e
    for k in range(nd.n_in):
        pf_comp_read_source(c, i, k, &from_)
        e = slot_read(c, c.frame[i], from_.node, from_.output)
        if pf_comp_reads_ref(c, i, k, &from_):
            e |= <uint32_t>PF_IN_DEREF
            ins.flags |= PF_F_DEREF
        if c.plan.nodes[i].dropped != NULL and c.plan.nodes[i].dropped[k]:
            e = 0
        if add_in(c, e):
            return c.err.code
    ins.n_in = <uint32_t>nd.n_in
    if not ins.flags & PF_F_MAYBE_DEAD or c.cls[i] == PF_C_MERGE:
        return PF_OK
    for k in range(nd.n_in, nd.n_in + nd.n_ctl):
        src = nd.inputs[k].node
        if not c.flags[src] & PF_N_MAYBE_DEAD or c.cls[src] == PF_C_NEXT:
            continue
        e = c.ctl_slot[src]
        if e == <uint32_t>NONE:
            e = slot_read(c, c.frame[i], src, 0)
        if add_in(c, e):
            return c.err.code
        ins.n_ctl += 1
    return PF_OK

cdef int32_t variable_of_next(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_comp_frame* fr = c.frames + c.frame[i]
    cdef int32_t k
    for k in range(fr.n_vars):
        if fr.nexts[k] == i:
            return k
    return -1

cdef pf_status no_operation(pf_ctx* ctx, const void* state) noexcept nogil:
    return PF_OK

cdef bint is_plain(int32_t type) noexcept nogil:
    return type != PF_STRING and type != PF_RESOURCE and type != PF_VARIANT

cdef bint may_be_large(pf_comp* c, int32_t i) noexcept nogil:
    """A tensor it reads or writes is known to be; or the size of what it writes follows from values, not from its inputs' sizes,
    which are known: a fill, a range, a draw."""
    cdef const pf_node* nd = c.g.nodes + i
    cdef bint known = nd.n_in > 0
    cdef int64_t bytes
    cdef int32_t k, src
    for k in range(nd.n_in):
        src = nd.inputs[k].node
        if c.cls[src] == PF_C_CONST and c.value[src] != NULL:
            bytes = pf_tensor_of(c.value[src]).nbytes
        else:
            bytes = pf_comp_static_bytes(c, src, nd.inputs[k].output)
        if bytes > BRIEF_BYTES:
            return True
        known = known and bytes >= 0
    for k in range(c.sig[i].n_out):
        bytes = pf_comp_static_bytes(c, i, k)
        if bytes > BRIEF_BYTES or (bytes < 0 and known and is_plain(c.sig[i].out_type[k])):
            return True
    return False

cdef bint is_brief(pf_comp* c, int32_t i) noexcept nogil:
    """Over before signals or a deadline matter, as the kernel says of small arguments; an expensive one where its shapes say so,
    and in a small graph only.  Loops look anyway."""
    cdef uint32_t flags = c.kernel[i].kernel.flags
    if not flags & <uint32_t>PF_KERNEL_BRIEF or flags & <uint32_t>PF_KERNEL_BLOCKING or may_be_large(c, i):
        return False
    return not flags & <uint32_t>PF_KERNEL_EXPENSIVE or (c.flags[i] & PF_N_BRIEF != 0 and c.n <= SMALL_GRAPH)

cdef void set_kind(pf_comp* c, int32_t i, pf_instr* ins) noexcept nogil:
    cdef int32_t cls = c.cls[i]
    cdef int32_t slab = not c.frames[c.frame[i]].inlined
    if cls == PF_C_KERNEL:
        ins.kind = PF_I_CALL
        if (c.sig[i].n_in == 0 and c.sig[i].n_out == 0 and not c.flags[i] & PF_N_ASYNC
                and c.plan.nodes[i].call.opened == NULL):
            ins.kind = PF_I_CALL0
        if pf_runs_slowly(c.plan.nodes + i):
            ins.compute = pf_compute_slowly
        elif c.plan.nodes[i].foreign:
            ins.compute = pf_foreign_compute
        else:
            ins.compute = c.kernel[i].kernel.compute
        ins.state = c.plan.nodes[i].state
        ins.how = PF_X_NAMES if pf_comp_gives_names(c, i) else 0
        if c.flags[i] & PF_N_ASYNC:
            ins.flags |= PF_F_ASYNC
        if not is_brief(c, i):
            ins.flags |= PF_F_LONG
        if c.kernel[i].kernel.flags & <uint32_t>PF_KERNEL_DEAD:
            ins.flags |= PF_F_DEAD_OK
    elif cls == PF_C_NOOP:
        ins.kind = PF_I_CALL0
        ins.compute = no_operation
        if c.def_[i].traits & PF_TRAIT_NEVER_DEAD:
            ins.flags |= PF_F_DEAD_OK
    elif cls == PF_C_CONST:
        ins.kind = PF_I_CONST
        ins.state = c.value[i]
    elif cls == PF_C_RETVAL:
        ins.kind = PF_I_RETVAL
        ins.aux = <uint32_t>pf_attr_int(c, i)
        if pf_comp_is_late(c, i, 0):
            ins.how = PF_X_LATE
            c.plan.late_rets = 1
    elif cls == PF_C_SWITCH:
        ins.kind = PF_I_SWITCH
    elif cls == PF_C_MERGE:
        ins.kind = PF_I_MERGE
    elif cls == PF_C_NEXT:
        ins.kind = PF_I_NEXT
        ins.aux = <uint32_t>variable_of_next(c, i)
        ins.how = PF_X_IN_SLABS if slab else 0
    elif cls == PF_C_EXIT:
        ins.kind = PF_I_EXIT
        ins.aux = c.slot[i]
        ins.how = PF_X_IN_SLABS if slab else 0
    else:
        ins.kind = PF_I_IDENTITY

cdef int64_t pf_attr_int(pf_comp* c, int32_t i) noexcept nogil:
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"index")
    return a.i if a != NULL else 0      # the value that list_arguments checked: of two entries the last

cdef pf_status emit_node(pf_comp* c, int32_t i, int32_t block) noexcept nogil:
    cdef pf_instr* ins = add_instr(c, block)
    if ins == NULL:
        return c.err.code
    ins.node = <uint32_t>i
    ins.about = c.plan.nodes + i
    ins.info = c.plan.nodes[i].call
    ins.out_slot = c.slot[i]
    ins.n_out = <uint32_t>c.sig[i].n_out
    if c.flags[i] & PF_N_MAYBE_DEAD:
        ins.flags |= PF_F_MAYBE_DEAD
    set_kind(c, i, ins)
    if c.ctl_slot[i] != <uint32_t>NONE:
        ins.flags |= PF_F_CTL_OUT
    return add_inputs(c, i, ins)

cdef pf_status emit_loop(pf_comp* c, int32_t f, int32_t block) noexcept nogil:
    cdef pf_comp_frame* fr = c.frames + f
    cdef pf_instr* ins = add_instr(c, block)
    cdef int32_t k
    if ins == NULL:
        return c.err.code
    ins.kind = PF_I_LOOP if fr.inlined else PF_I_FRAME
    ins.aux = <uint32_t>f
    ins.node = <uint32_t>fr.enters[0]
    ins.about = c.plan.nodes + ins.node
    ins.info = ins.about.call
    ins.n_in = <uint32_t>fr.n_enters
    for k in range(fr.n_enters):
        if add_in(c, c.slot[fr.enters[k]]):
            return c.err.code
    return PF_OK

cdef pf_status emit_item(pf_comp* c, int32_t item, int32_t block) noexcept nogil:
    if item >= c.n:
        return emit_loop(c, item - c.n, block)
    if c.flags[item] & (PF_N_PREFILLED | PF_N_LOOP_MERGE):
        return PF_OK
    return emit_node(c, item, block)

cdef pf_status emit_bodies(pf_comp* c) noexcept nogil:
    """Inlined bodies; children have higher numbers than their parents, so backwards is innermost first."""
    cdef int32_t f = c.n_frames - 1, k
    while f > 0:
        if c.frames[f].inlined:
            c.plan.frames[f].body_begin = c.n_instrs
            for k in range(c.frames[f].n_items):
                if emit_item(c, c.frames[f].items[k], -2 - f):
                    return c.err.code
            c.plan.frames[f].body_end = c.n_instrs
        f -= 1
    return PF_OK

cdef pf_status emit_blocks(pf_comp* c, int32_t* where) noexcept nogil:
    """Blocks frame by frame; `where` maps a block number to its place in plan.blocks."""
    cdef int32_t f, b, item, at = 0
    cdef pf_block* pb
    cdef uint32_t order
    c.plan.blocks = <pf_block*>pf_comp_keep(c, c.n_blocks, sizeof(pf_block))
    if c.plan.blocks == NULL:
        return c.err.code
    for f in range(c.n_frames):
        c.plan.frames[f].block_begin = <uint32_t>at
        for b in range(c.n_blocks):
            if c.blocks[b].frame != f:
                continue
            where[b] = at
            pb = c.plan.blocks + at
            at += 1
            pb.begin = c.n_instrs
            item = c.blocks[b].first
            while item >= 0:
                if emit_item(c, item, b):
                    return c.err.code
                item = c.chain[item]
            pb.end = c.n_instrs
            pb.pending = c.blocks[b].n_preds
            pb.flags = <uint32_t>c.blocks[b].flags
            order = <uint32_t>c.blocks[b].order
            if not pb.flags & (PF_B_URGENT | PF_B_ASYNC) and not c.opt.ordered:
                order += ORDER_EXPENSIVE if pb.flags & PF_B_EXPENSIVE else ORDER_CHEAP
            pb.order = order
        c.plan.frames[f].n_blocks = <uint32_t>at - c.plan.frames[f].block_begin
    c.plan.n_blocks = <uint32_t>at
    return PF_OK

cdef void link_starts(pf_comp* c, const int32_t* where) noexcept nogil:
    """The next collective of a frame waits until the last one's compute returned."""
    cdef int32_t i, d
    if c.next_start == NULL:
        return
    for i in range(c.n):
        if c.next_start[i] >= 0:
            d = where[c.block[c.next_start[i]]]
            c.plan.blocks[where[c.block[i]]].next_start = <uint32_t>d + 1
            c.plan.blocks[d].pending += 1

cdef pf_status link_blocks(pf_comp* c, const int32_t* where) noexcept nogil:
    """Successor lists, and the roots of every frame."""
    cdef int32_t b, k, f, total = 0, p
    cdef int32_t* at = <int32_t*>pf_comp_grab(c, c.n_blocks, sizeof(int32_t))
    cdef pf_frame_def* fd
    for b in range(c.n_blocks):
        total += c.blocks[b].n_preds
    c.plan.succs = <uint32_t*>pf_comp_keep(c, total, sizeof(uint32_t))
    if at == NULL or c.plan.succs == NULL:
        return c.err.code
    for b in range(c.n_blocks):
        for k in range(c.blocks[b].n_preds):
            at[c.blocks[b].preds[k]] += 1
    total = 0
    for b in range(c.n_blocks):
        c.plan.blocks[where[b]].succ_begin = <uint32_t>total
        c.plan.blocks[where[b]].succ_end = <uint32_t>total
        total += at[b]
    for b in range(c.n_blocks):
        for k in range(c.blocks[b].n_preds):
            p = where[c.blocks[b].preds[k]]
            c.plan.succs[c.plan.blocks[p].succ_end] = <uint32_t>where[b]
            c.plan.blocks[p].succ_end += 1
    link_starts(c, where)
    for f in range(c.n_frames):
        fd = c.plan.frames + f
        fd.roots = <uint32_t*>pf_comp_keep(c, fd.n_blocks, sizeof(uint32_t))
        if fd.roots == NULL:
            return c.err.code
        for k in range(<int32_t>fd.block_begin, <int32_t>(fd.block_begin + fd.n_blocks)):
            if c.plan.blocks[k].pending == 0 and not c.plan.blocks[k].flags & PF_B_EVENT:
                fd.roots[fd.n_roots] = <uint32_t>k
                fd.n_roots += 1
    return PF_OK

# ---------------------------------------------------------------- last readers
cdef struct Readers:
    int32_t* owner          # per slot of all homes: the frame that may release it; -1: lent
    int32_t* last           # the entry of `ins` that read it last in the current block
    int32_t* block          # that block; -1: none yet
    int32_t* blocks         # distinct blocks that read it

cdef void own_slots(pf_comp* c, Readers* r) noexcept nogil:
    cdef int32_t i, k, f
    cdef uint32_t base
    for i in range(c.n):
        f = c.out_frame[i] if c.cls[i] == PF_C_EXIT else c.frame[i]
        base = c.plan.frames[c.frames[f].home].slot_base + c.slot[i]
        for k in range(c.sig[i].n_out):
            r.owner[base + <uint32_t>k] = f
            if c.cls[i] == PF_C_CONST or c.cls[i] == PF_C_VARIABLE:
                r.owner[base + <uint32_t>k] = -1
        if c.cls[i] == PF_C_ENTER and not c.frames[c.out_frame[i]].inlined:
            r.owner[c.plan.frames[c.out_frame[i]].slot_base + c.inner_slot[i]] = -1

cdef int32_t frame_of_instr(pf_comp* c, uint32_t i) noexcept nogil:
    cdef pf_instr* ins = c.instrs + i
    if ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME:
        return c.frames[ins.aux].parent
    return c.frame[ins.node]

cdef void mark_reader(pf_comp* c, Readers* r, uint32_t entry, uint32_t at, int32_t block) noexcept nogil:
    """Entry `at` of ins reads slot `entry` of the joint numbering; called in execution order."""
    if r.block[entry] != block:
        if r.block[entry] != -1 and r.last[entry] >= 0:
            c.ins[r.last[entry]] |= <uint32_t>PF_IN_LAST
        r.block[entry] = block
        r.blocks[entry] += 1
    r.last[entry] = <int32_t>at

cdef void mark_repeats(pf_comp* c, pf_instr* ins) noexcept nogil:
    """Inputs of one instruction that are the same slot cannot be forwarded."""
    cdef uint32_t a, b
    if ins.n_in > 64:
        for a in range(ins.in_begin, ins.in_begin + ins.n_in):
            c.ins[a] |= <uint32_t>PF_IN_NOFWD
        return
    for a in range(ins.in_begin, ins.in_begin + ins.n_in):
        for b in range(ins.in_begin, a):
            if (c.ins[a] & <uint32_t>PF_IN_SLOT) == (c.ins[b] & <uint32_t>PF_IN_SLOT):
                c.ins[a] |= <uint32_t>PF_IN_NOFWD
                c.ins[b] |= <uint32_t>PF_IN_NOFWD

cdef void read_all(pf_comp* c, Readers* r) noexcept nogil:
    cdef uint32_t i, k, entry
    cdef int32_t f
    cdef pf_instr* ins
    for i in range(c.n_instrs):
        ins = c.instrs + i
        f = frame_of_instr(c, i)
        mark_repeats(c, ins)
        for k in range(ins.in_begin, ins.in_begin + ins.n_in):
            entry = c.plan.frames[c.frames[f].home].slot_base + (c.ins[k] & <uint32_t>PF_IN_SLOT)
            if r.owner[entry] == f:
                mark_reader(c, r, entry, k, c.instr_block[i])

cdef pf_status share_slots(pf_comp* c, Readers* r, uint32_t total) noexcept nogil:
    """PF_IN_LAST for slots of one reading block; slots of several get a count, and PF_IN_SHARED in each."""
    cdef uint32_t s, i, k, entry
    cdef int32_t f
    cdef pf_frame_def* fd
    cdef pf_instr* ins
    c.plan.slot_use = <uint32_t*>pf_comp_keep(c, total, sizeof(uint32_t))
    if c.plan.slot_use == NULL:
        return c.err.code
    for f in range(c.n_frames):
        fd = c.plan.frames + f
        if c.frames[f].home != f:
            continue
        for s in range(fd.slot_base, fd.slot_base + fd.n_slots):
            if r.blocks[s] > 1:
                fd.n_uses += 1
                c.plan.slot_use[s] = fd.n_uses
            elif r.owner[s] < 0:
                c.plan.slot_use[s] = PF_SLOT_LENT
            elif r.blocks[s] == 0:
                c.plan.slot_use[s] = PF_SLOT_UNUSED
            if r.blocks[s] > 0 and r.last[s] >= 0:
                c.ins[r.last[s]] |= <uint32_t>PF_IN_LAST
        fd.use_counts = <uint32_t*>pf_comp_keep(c, fd.n_uses, sizeof(uint32_t))
        if fd.use_counts == NULL:
            return c.err.code
        for s in range(fd.slot_base, fd.slot_base + fd.n_slots):
            if r.blocks[s] > 1:
                fd.use_counts[c.plan.slot_use[s] - 1] = <uint32_t>r.blocks[s]
    for i in range(c.n_instrs):
        ins = c.instrs + i
        f = frame_of_instr(c, i)
        for k in range(ins.in_begin, ins.in_begin + ins.n_in):
            if not c.ins[k] & <uint32_t>PF_IN_LAST:
                continue
            entry = c.plan.frames[c.frames[f].home].slot_base + (c.ins[k] & <uint32_t>PF_IN_SLOT)
            if r.blocks[entry] > 1:
                c.ins[k] = (c.ins[k] & ~<uint32_t>PF_IN_LAST) | <uint32_t>PF_IN_SHARED
    return PF_OK

cdef void mark_unused(pf_comp* c) noexcept nogil:
    cdef uint32_t i, k, base
    cdef pf_instr* ins
    for i in range(c.n_instrs):
        ins = c.instrs + i
        if ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME or ins.kind == PF_I_NEXT or ins.kind == PF_I_CONST:
            continue
        if ins.kind == PF_I_EXIT:
            base = c.plan.frames[c.frames[c.out_frame[ins.node]].home].slot_base
            if c.plan.slot_use[base + ins.aux] == <uint32_t>NONE:
                ins.how |= PF_X_UNREAD           # nobody reads it: drop the value
            continue
        base = c.plan.frames[c.frames[c.frame[ins.node]].home].slot_base
        for k in range(ins.n_out):
            if c.plan.slot_use[base + ins.out_slot + k] == <uint32_t>NONE:
                ins.flags |= PF_F_UNUSED_OUT

cdef pf_status last_readers(pf_comp* c) noexcept nogil:
    cdef Readers r
    cdef uint32_t total = 0, k
    cdef int32_t f
    for f in range(c.n_frames):
        c.plan.frames[f].slot_base = total
        c.plan.frames[f].n_slots = c.frames[f].n_slots if c.frames[f].home == f else 0
        total += c.plan.frames[f].n_slots
    if total >= <uint32_t>PF_IN_SLOT:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"a plan with %u values is too large", total)
    r.owner = <int32_t*>pf_comp_grab(c, total, sizeof(int32_t))
    r.last = <int32_t*>pf_comp_grab(c, total, sizeof(int32_t))
    r.block = <int32_t*>pf_comp_grab(c, total, sizeof(int32_t))
    r.blocks = <int32_t*>pf_comp_grab(c, total, sizeof(int32_t))
    if r.owner == NULL or r.last == NULL or r.block == NULL or r.blocks == NULL:
        return c.err.code
    for k in range(total):
        r.owner[k] = -1
        r.last[k] = -1
        r.block[k] = -1
    own_slots(c, &r)
    read_all(c, &r)
    if share_slots(c, &r, total):
        return c.err.code
    mark_unused(c)
    return PF_OK

# ---------------------------------------------------------------- frames and prefilled slots
cdef pf_status describe_frame(pf_comp* c, int32_t f) noexcept nogil:
    cdef pf_comp_frame* fr = c.frames + f
    cdef pf_frame_def* fd = c.plan.frames + f
    cdef int32_t k, e, j, readers
    cdef pf_loop_var* v
    fd.parent = fr.parent
    fd.inlined = fr.inlined
    fd.parallel = 1 if c.opt.ordered else fr.parallel
    fd.name = fr.name
    fd.vars = <pf_loop_var*>pf_comp_keep(c, fr.n_vars, sizeof(pf_loop_var))
    fd.consts = <pf_slot_pair*>pf_comp_keep(c, fr.n_enters, sizeof(pf_slot_pair))
    fd.exits = <uint32_t*>pf_comp_keep(c, fr.n_exits, sizeof(uint32_t))
    if fd.vars == NULL or fd.consts == NULL or fd.exits == NULL:
        return c.err.code
    for k in range(fr.n_vars):
        v = fd.vars + k
        e = c.g.nodes[fr.merges[k]].inputs[0].node
        if c.cls[e] != PF_C_ENTER:
            e = c.g.nodes[fr.merges[k]].inputs[1].node
        readers = 0
        for j in range(c.out_begin[e], c.out_begin[e + 1]):
            if c.out_port[j] >= 0:
                readers += 1
        v.enter_slot = c.slot[e]
        v.merge_slot = c.slot[fr.merges[k]]
        v.next_slot = c.slot[fr.nexts[k]]
        v.index_slot = <uint32_t>NONE
        for j in range(c.out_begin[fr.merges[k]], c.out_begin[fr.merges[k] + 1]):
            if c.out_port[j] == 1:
                v.index_slot = c.slot[fr.merges[k]] + 1
        v.take = readers == 1 and not c.flags[e] & PF_N_CONST_ENTER
        v.event = c.block[fr.merges[k]]
    fd.n_vars = fr.n_vars
    for k in range(fr.n_enters):
        if c.flags[fr.enters[k]] & PF_N_CONST_ENTER and not fr.inlined:
            fd.consts[fd.n_consts].outer = c.slot[fr.enters[k]]
            fd.consts[fd.n_consts].inner = c.inner_slot[fr.enters[k]]
            fd.n_consts += 1
    for k in range(fr.n_exits):
        fd.exits[k] = c.slot[fr.exits[k]]
    fd.n_exits = fr.n_exits
    return PF_OK

cdef pf_status prefill(pf_comp* c) noexcept nogil:
    cdef int32_t i, k
    cdef pf_plan* p = c.plan
    p.consts = <pf_const_slot*>pf_comp_keep(c, c.n, sizeof(pf_const_slot))
    if p.consts == NULL:
        return c.err.code
    for i in range(c.n):
        if not c.flags[i] & PF_N_PREFILLED or c.sig[i].n_out == 0:
            continue
        if c.cls[i] == PF_C_ARG:
            k = <int32_t>pf_attr_int(c, i)
            if p.slot_use[c.slot[i]] != <uint32_t>NONE:
                p.arg_slot[k] = c.slot[i]
        elif c.value[i] != NULL:        # else every reader dropped it
            p.consts[p.n_consts].slot = c.slot[i]
            p.consts[p.n_consts].tensor = c.value[i]
            p.n_consts += 1
    return PF_OK

cdef pf_status copy_out(pf_comp* c) noexcept nogil:
    cdef pf_plan* p = c.plan
    cdef uint32_t i
    p.instrs = <pf_instr*>pf_comp_keep(c, c.n_instrs, sizeof(pf_instr))
    p.ins = <uint32_t*>pf_comp_keep(c, c.n_ins, sizeof(uint32_t))
    if p.instrs == NULL or p.ins == NULL:
        return c.err.code
    if c.n_instrs:
        memcpy(p.instrs, c.instrs, sizeof(pf_instr) * c.n_instrs)
    if c.n_ins:
        memcpy(p.ins, c.ins, sizeof(uint32_t) * c.n_ins)
    p.n_instrs = c.n_instrs
    p.n_ins = c.n_ins
    for i in range(c.n_instrs):
        p.max_in = max(p.max_in, c.instrs[i].n_in)
    return PF_OK

cdef public pf_status pf_comp_emit(pf_comp* c) noexcept nogil:
    cdef int32_t f, k
    cdef int32_t* where = <int32_t*>pf_comp_grab(c, c.n_blocks, sizeof(int32_t))
    c.plan.frames = <pf_frame_def*>pf_comp_keep(c, c.n_frames, sizeof(pf_frame_def))
    if where == NULL or c.plan.frames == NULL:
        return c.err.code
    c.plan.n_frames = <uint32_t>c.n_frames
    assign_slots(c)
    if emit_bodies(c) or emit_blocks(c, where) or link_blocks(c, where) or last_readers(c):
        return c.err.code
    for f in range(c.n_frames):
        if describe_frame(c, f):
            return c.err.code
        for k in range(c.plan.frames[f].n_vars):
            if c.plan.frames[f].vars[k].event >= 0:
                c.plan.frames[f].vars[k].event = where[c.plan.frames[f].vars[k].event]
    if prefill(c):
        return c.err.code
    return copy_out(c)
