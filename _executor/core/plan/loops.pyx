# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Frames: which loop each node belongs to, and what makes up a loop."""
from compile_h cimport *

# ---------------------------------------------------------------- frames
cdef int32_t child_frame(pf_comp* c, int32_t parent, int32_t node) noexcept nogil:
    """The frame an Enter opens; -1: an error is set."""
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + node, c.def_[node], b"frame_name")
    cdef const pf_attr_value* par = pf_attr_or_default(c.g.nodes + node, c.def_[node], b"parallel_iterations")
    cdef pf_comp_frame* grown
    cdef int32_t f
    cdef int32_t* bucket
    if a == NULL:
        pf_comp_fail(c, node, PF_INVALID_ARGUMENT, b"Enter without a frame_name")
        return -1
    bucket = c.frame_buckets + ((pf_str_hash(a.s) ^ <uint64_t>(31 * <int64_t>parent)) & (PF_FRAME_BUCKETS - 1))
    f = bucket[0]
    while f > 0:
        if c.frames[f].parent == parent and pf_str_eq(c.frames[f].name, a.s):
            return f
        f = c.frames[f].same_hash
    if c.n_frames == c.frames_room:
        grown = <pf_comp_frame*>pf_comp_grab(c, c.frames_room * 2, sizeof(pf_comp_frame))
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
    c.frames[f].same_hash = bucket[0]
    bucket[0] = f
    c.frames[f].parallel = <int32_t>min(max(par.i if par != NULL else 10, 1), 1024)
    return f

cdef pf_status place_in_frame(pf_comp* c, int32_t i) noexcept nogil:
    """frame and out_frame of a node whose predecessors (but NextIteration ones) are placed."""
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, src, f = -1, dead = 0, loop = 0
    for k in range(nd.n_in + nd.n_ctl):
        src = nd.inputs[k].node
        if c.cls[i] == PF_C_MERGE and c.cls[src] == PF_C_NEXT and k < nd.n_in:
            loop = 1
            continue
        if f < 0:
            f = c.out_frame[src]
        elif f != c.out_frame[src]:
            return pf_comp_failf(c, i, PF_INVALID_ARGUMENT, b"its inputs come from different loops ('%.*s' and "
                                 b"'%.*s'): a value crosses into a loop through Enter and leaves it through Exit",
                                 <int>min(c.frames[f].name.len, 200), c.frames[f].name.data,
                                 <int>min(c.frames[c.out_frame[src]].name.len, 200),
                                 c.frames[c.out_frame[src]].name.data)
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

cdef public pf_status pf_comp_frames(pf_comp* c) noexcept nogil:
    cdef int32_t* waits = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    cdef int32_t* ready = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    cdef int32_t n_ready = 0, i, k, d, placed = 0
    cdef pf_node* nd
    c.frames_room = 16
    c.frames = <pf_comp_frame*>pf_comp_grab(c, c.frames_room, sizeof(pf_comp_frame))
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

cdef pf_status room_for_loops(pf_comp* c) noexcept nogil:
    """Each frame's lists, empty; how long they get has been counted."""
    cdef int32_t f
    cdef pf_comp_frame* fr
    for f in range(c.n_frames):
        fr = c.frames + f
        fr.enters = <int32_t*>pf_comp_grab(c, fr.n_enters, sizeof(int32_t))
        fr.exits = <int32_t*>pf_comp_grab(c, fr.n_exits, sizeof(int32_t))
        fr.merges = <int32_t*>pf_comp_grab(c, fr.n_vars, sizeof(int32_t))
        fr.nexts = <int32_t*>pf_comp_grab(c, fr.n_vars, sizeof(int32_t))
        if fr.enters == NULL or fr.exits == NULL or fr.merges == NULL or fr.nexts == NULL:
            return c.err.code
        fr.n_enters = 0
        fr.n_exits = 0
        fr.n_vars = 0
    return PF_OK

cdef bint begins_a_variable(pf_comp* c, int32_t enter) noexcept nogil:
    """Its data go to the loop's Merges and nowhere else."""
    cdef int32_t e
    for e in range(c.out_begin[enter], c.out_begin[enter + 1]):
        if c.out_port[e] >= 0 and not c.flags[c.out_node[e]] & PF_N_LOOP_MERGE:
            return False
    return c.out_begin[enter] != c.out_begin[enter + 1]

cdef pf_status add_variable(pf_comp* c, int32_t merge) noexcept nogil:
    cdef pf_node* nd = c.g.nodes + merge
    cdef pf_comp_frame* fr = c.frames + c.frame[merge]
    cdef int32_t k, src, enter = -1, nxt = -1
    for k in range(nd.n_in):
        src = nd.inputs[k].node
        if c.cls[src] == PF_C_NEXT and c.frame[src] == c.frame[merge]:
            nxt = src
        elif c.cls[src] == PF_C_ENTER:
            enter = src
    if nd.n_in != 2 or enter < 0 or nxt < 0:
        return pf_comp_fail(c, merge, PF_INVALID_ARGUMENT,
                            b"a loop's Merge joins exactly one Enter and one NextIteration of its own loop")
    fr.merges[fr.n_vars] = merge
    fr.nexts[fr.n_vars] = nxt
    fr.n_vars += 1
    return PF_OK

cdef pf_status next_ok(pf_comp* c, int32_t i) noexcept nogil:
    cdef int32_t e = c.out_begin[i]
    if c.out_begin[i + 1] - e != 1:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                            b"a NextIteration feeds exactly one node, its loop's Merge")
    if not c.flags[c.out_node[e]] & PF_N_LOOP_MERGE or c.frame[c.out_node[e]] != c.frame[i]:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"NextIteration feeds something else than its loop's Merge")
    return PF_OK

cdef public pf_status pf_comp_loops(pf_comp* c) noexcept nogil:
    """enters, exits, and (Merge, NextIteration) pairs per frame, checked."""
    cdef int32_t i
    cdef uint8_t* changes = NULL
    cdef pf_comp_frame* fr
    if room_for_loops(c):
        return c.err.code
    for i in range(c.n):
        if c.cls[i] == PF_C_ENTER:
            fr = c.frames + c.out_frame[i]
            fr.enters[fr.n_enters] = i
            fr.n_enters += 1
            if not begins_a_variable(c, i):
                c.flags[i] |= PF_N_CONST_ENTER
        elif c.cls[i] == PF_C_EXIT:
            fr = c.frames + c.frame[i]
            fr.exits[fr.n_exits] = i
            fr.n_exits += 1
        elif c.flags[i] & PF_N_LOOP_MERGE and add_variable(c, i):
            return c.err.code
    for i in range(c.n):
        if c.cls[i] == PF_C_NEXT and next_ok(c, i):
            return c.err.code
    for i in range(c.n):
        if c.cls[i] == PF_C_ENTER and c.flags[i] & PF_N_CONST_ENTER:
            const_enter_ok(c, i, &changes)
            if c.err.code:
                return c.err.code
    return PF_OK

cdef bint enters_change(pf_comp* c, int32_t frame, const uint8_t* changes) noexcept nogil:
    cdef pf_comp_frame* fr = c.frames + frame
    cdef int32_t k
    for k in range(fr.n_enters):
        if changes[fr.enters[k]]:
            return True
    return False

cdef bint changes_here(pf_comp* c, int32_t i, const uint8_t* changes) noexcept nogil:
    """Does node i get anything that an iteration of its own loop makes?  What comes through an Enter is from outside."""
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, src
    if c.flags[i] & PF_N_LOOP_MERGE:
        return True
    for k in range(nd.n_in + nd.n_ctl):
        src = nd.inputs[k].node
        if c.cls[src] == PF_C_EXIT:
            if enters_change(c, c.frame[src], changes):
                return True
        elif c.cls[src] != PF_C_ENTER and changes[src]:
            return True
    return False

cdef uint8_t* changing_nodes(pf_comp* c) noexcept nogil:
    """Per node: does it depend on a variable of its loop, so on the iteration?  NULL: no memory."""
    cdef uint8_t* changes = <uint8_t*>pf_comp_grab(c, c.n, 1)
    cdef bint more = True
    cdef int32_t j, i
    while more and changes != NULL:
        more = False
        for j in range(c.n):
            i = c.topo[j]
            if not changes[i] and changes_here(c, i, changes):
                changes[i] = 1
                more = True
    return changes

cdef bint lasts_one_iteration(pf_comp* c, int32_t enter, const uint8_t* changes) noexcept nogil:
    """Nothing that reads the Enter's value meets a later iteration's, and what runs again there has no effect."""
    cdef int32_t* stack = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    cdef uint8_t* seen = <uint8_t*>pf_comp_grab(c, c.n, 1)
    cdef int32_t n = 0, i = enter, e, d, frame = c.out_frame[enter]
    if stack == NULL or seen == NULL:
        return False
    pf_ints_push(stack, &n, enter)
    while n:
        i = pf_ints_pop(stack, &n)
        for e in range(c.out_begin[i], c.out_begin[i + 1]):
            d = c.out_node[e]
            if seen[d] or (c.cls[d] == PF_C_EXIT and c.frame[d] == frame):
                continue
            if c.frame[d] == frame and (changes[d] or c.cls[d] == PF_C_NEXT):
                return False
            if c.frames[frame].n_vars and c.def_[d].flags & PF_OP_STATEFUL:
                return False
            seen[d] = 1
            pf_ints_push(stack, &n, d)
    return True

cdef void const_enter_ok(pf_comp* c, int32_t i, uint8_t** changes) noexcept nogil:
    """is_constant=false: the value exists in the first iteration only.  Where nothing meets later iterations it is as good as
    a constant's."""
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"is_constant")
    if (a != NULL and a.i) or c.out_begin[i] == c.out_begin[i + 1]:
        return
    if changes[0] == NULL:
        changes[0] = changing_nodes(c)
    if c.err.code == PF_OK and not lasts_one_iteration(c, i, changes[0]):
        pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                     b"an Enter with is_constant=false feeds a node that runs in later iterations, too, and is not a Merge: its "
                     b"value exists in the first iteration only")
