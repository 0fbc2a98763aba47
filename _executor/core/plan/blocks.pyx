# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The order of nodes and their grouping into blocks.

An ITEM of a frame is one of its nodes, or one of its child frames as a whole (its Enters are the inputs, its
Exits the outputs).  Items are ordered topologically, the one built first coming first: so temporaries die young.

A BLOCK is a set of items that can start together: all cheap items whose predecessors lie in the same set of other
blocks.  A cheap item whose predecessors lie in one cheap block (and in blocks that one waits for anyway) joins it.
Expensive, asynchronous and slab-loop items are blocks of their own; so is the arrival of a loop variable (an
EVENT, without instructions).  Since an item only ever joins a block that waits for at least what the item waits
for, the graph of blocks stays acyclic.
"""
from compile_h cimport *

cdef enum:
    EARLY = 0x40000000      # off the key of a node that gives memory back: it runs as soon as it can

cdef inline int32_t item_of(pf_comp* c, int32_t src, int32_t frame) noexcept nogil:
    """The item of `frame` that produces node src's output there; -1: it comes from outside (an Enter)."""
    if c.cls[src] == PF_C_EXIT and c.out_frame[src] == frame:
        return c.n + c.frame[src]
    if c.frame[src] == frame and c.out_frame[src] == frame:
        return src
    return -1

cdef pf_status order_of_keys(pf_comp* c, int32_t frame, int32_t* waits, int32_t* fwaits) noexcept nogil:
    """waits per node of the frame and per child frame; keys of the child frames."""
    cdef int32_t i, k, src, f = c.first_child[frame]
    cdef pf_node* nd
    while f >= 0:
        fwaits[f] = c.frames[f].n_enters
        c.frames[f].key = 0
        for k in range(c.frames[f].n_enters):
            c.frames[f].key = max(c.frames[f].key, c.frames[f].enters[k])
        f = c.next_child[f]
    i = c.first_node[frame]
    while i >= 0:
        nd = c.g.nodes + i
        waits[i] = 0
        if not c.flags[i] & PF_N_LOOP_MERGE:
            for k in range(nd.n_in + nd.n_ctl):
                src = nd.inputs[k].node
                if item_of(c, src, frame) >= 0:
                    waits[i] += 1
        i = c.next_node[i]
    return PF_OK

cdef void release(pf_comp* c, int32_t node, int32_t frame, int32_t* waits, int32_t* ready, int32_t* n_ready) noexcept nogil:
    """Counts down the consumers, in `frame`, of a node's outputs."""
    cdef int32_t k, d
    for k in range(c.out_begin[node], c.out_begin[node + 1]):
        d = c.out_node[k]
        if c.frame[d] != frame or c.flags[d] & PF_N_LOOP_MERGE:
            continue
        waits[d] -= 1
        if waits[d] == 0:
            pf_ints_push(ready, n_ready, 2 * d - EARLY * pf_comp_frees(c, d))

cdef inline int32_t* ints(pf_comp* c, int64_t n) noexcept nogil:
    return <int32_t*>pf_arena_alloc(&c.work, sizeof(int32_t) * <uint64_t>(n + 1))

cdef pf_status list_members(pf_comp* c) noexcept nogil:
    """Nodes and child frames of every frame, once: so ordering all frames is linear in the graph."""
    cdef int32_t i, f
    c.first_node = ints(c, c.n_frames)
    c.first_child = ints(c, c.n_frames)
    c.next_child = ints(c, c.n_frames)
    c.next_node = ints(c, c.n)
    c.waits = ints(c, c.n)
    c.fwaits = ints(c, c.n_frames)
    c.ready = ints(c, <int64_t>c.n + c.n_frames)
    if (c.first_node == NULL or c.first_child == NULL or c.next_child == NULL or c.next_node == NULL
            or c.waits == NULL or c.fwaits == NULL or c.ready == NULL):
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while ordering %d nodes", c.n)
    for f in range(c.n_frames):
        c.first_node[f] = -1
        c.first_child[f] = -1
    for f in range(c.n_frames - 1, 0, -1):
        c.next_child[f] = c.first_child[c.frames[f].parent]
        c.first_child[c.frames[f].parent] = f
    for i in range(c.n - 1, -1, -1):
        c.next_node[i] = c.first_node[c.frame[i]]
        c.first_node[c.frame[i]] = i
    return PF_OK

cdef void place_next(pf_comp* c, int32_t frame, int32_t* n_ready) noexcept nogil:
    """The smallest key that is ready becomes the frame's next item, and lets go who waits for it."""
    cdef pf_comp_frame* fr = c.frames + frame
    cdef int32_t i, f, k = pf_ints_pop(c.ready, n_ready)
    if k < 0:
        k += EARLY
    if k & 1:
        f = c.out_frame[k // 2]
        fr.items[fr.n_items] = c.n + f
        fr.n_items += 1
        for i in range(c.frames[f].n_exits):
            release(c, c.frames[f].exits[i], frame, c.waits, c.ready, n_ready)
        return
    i = k // 2
    fr.items[fr.n_items] = i
    fr.n_items += 1
    if c.cls[i] == PF_C_ENTER:
        f = c.out_frame[i]
        c.fwaits[f] -= 1
        if c.fwaits[f] == 0:
            pf_ints_push(c.ready, n_ready, 2 * c.frames[f].key + 1)
    elif not (c.cls[i] == PF_C_EXIT or c.cls[i] == PF_C_NEXT):
        release(c, i, frame, c.waits, c.ready, n_ready)

cdef public pf_status pf_comp_order(pf_comp* c, int32_t frame) noexcept nogil:
    cdef pf_comp_frame* fr = c.frames + frame
    cdef int32_t n_ready = 0, i, f, total = fr.n_nodes
    if c.ready == NULL and list_members(c):
        return c.err.code
    f = c.first_child[frame]
    while f >= 0:
        total += 1
        f = c.next_child[f]
    fr.items = ints(c, total)
    if fr.items == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while ordering %d nodes", c.n)
    order_of_keys(c, frame, c.waits, c.fwaits)
    # keys: 2 * node, or 2 * (last Enter) + 1 for a child frame
    i = c.first_node[frame]
    while i >= 0:
        if c.waits[i] == 0:
            pf_ints_push(c.ready, &n_ready, 2 * i - (EARLY if c.flags[i] & PF_N_PREFILLED else 0))
        i = c.next_node[i]
    while n_ready:
        place_next(c, frame, &n_ready)
    if fr.n_items == total:
        return PF_OK
    for i in range(c.n):
        if c.frame[i] == frame and c.waits[i] > 0:
            return pf_comp_fail(c, i, PF_INVALID_ARGUMENT,
                                b"a loop depends on its own result outside of its loop variables")
    return PF_OK

# ---------------------------------------------------------------- blocks
cdef int32_t new_block(pf_comp* c, int32_t frame, int32_t flags, const int32_t* preds, int32_t n_preds,
                       int32_t order) noexcept nogil:
    cdef pf_comp_block* b
    cdef pf_comp_block* grown
    if c.n_blocks == c.blocks_room:
        c.blocks_room = c.blocks_room * 2 if c.blocks_room else 256
        grown = <pf_comp_block*>pf_arena_alloc(&c.work, sizeof(pf_comp_block) * <uint64_t>c.blocks_room)
        if grown == NULL:
            pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while forming blocks")
            return -1
        if c.n_blocks:
            memcpy(grown, c.blocks, sizeof(pf_comp_block) * c.n_blocks)
        c.blocks = grown
    b = c.blocks + c.n_blocks
    memset(b, 0, sizeof(pf_comp_block))
    b.frame = frame
    b.flags = flags
    b.order = order
    b.first = -1
    b.last = -1
    b.same_key = -1
    b.n_preds = n_preds
    if n_preds:
        b.preds = <int32_t*>pf_arena_alloc(&c.work, sizeof(int32_t) * <uint64_t>n_preds)
        if b.preds == NULL:
            pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while forming blocks")
            return -1
        memcpy(b.preds, preds, sizeof(int32_t) * n_preds)
    c.n_blocks += 1
    return c.n_blocks - 1

cdef bint waits_for(pf_comp* c, int32_t b, int32_t p) noexcept nogil:
    """Block p is a direct predecessor of block b."""
    cdef int32_t lo = 0, hi = c.blocks[b].n_preds, mid
    while lo < hi:
        mid = (lo + hi) // 2
        if c.blocks[b].preds[mid] < p:
            lo = mid + 1
        else:
            hi = mid
    return lo < c.blocks[b].n_preds and c.blocks[b].preds[lo] == p

cdef int32_t reduce(pf_comp* c, int32_t* p, int32_t n) noexcept nogil:
    """Drops predecessors that another one waits for directly.  p is sorted."""
    cdef int32_t i, j, m = 0
    if n > 64:
        return n
    for i in range(n):
        for j in range(n):
            if i != j and waits_for(c, p[j], p[i]):
                break
        else:
            p[m] = p[i]
            m += 1
    return m

cdef int32_t predecessors(pf_comp* c, int32_t item, int32_t frame, int32_t* out) noexcept nogil:
    """Sorted distinct blocks the item waits for."""
    cdef int32_t n = 0, m = 0, k, j, e, b, node, n_enters = 1
    cdef int32_t heap_n = 0
    cdef pf_node* nd
    if item >= c.n:
        n_enters = c.frames[item - c.n].n_enters
    for e in range(n_enters):
        if item >= c.n:
            node = c.frames[item - c.n].enters[e]
            b = c.block[node]
            if b >= 0:
                pf_ints_push(out, &heap_n, b)
            continue
        nd = c.g.nodes + item
        if c.flags[item] & PF_N_LOOP_MERGE:
            return 0
        for k in range(nd.n_in + nd.n_ctl):
            j = item_of(c, nd.inputs[k].node, frame)
            if j < 0:
                continue
            b = c.frames[j - c.n].block if j >= c.n else c.block[j]
            if b >= 0:
                pf_ints_push(out, &heap_n, b)
    n = heap_n
    while heap_n:
        # a heap popped into place from the back would be reversed: sort in situ instead
        b = pf_ints_pop(out, &heap_n)
        out[heap_n] = b
    # now descending: reverse and make distinct
    for k in range(n // 2):
        b = out[k]
        out[k] = out[n - 1 - k]
        out[n - 1 - k] = b
    for k in range(n):
        if m == 0 or out[m - 1] != out[k]:
            out[m] = out[k]
            m += 1
    return m

cdef uint64_t key_of(int32_t frame, const int32_t* p, int32_t n) noexcept nogil:
    cdef uint64_t h = <uint64_t>1469598103934665603ULL ^ <uint64_t>frame
    cdef int32_t k
    for k in range(n):
        h = (h ^ <uint64_t><uint32_t>p[k]) * <uint64_t>1099511628211ULL
        h ^= h >> 31
    return h

cdef int32_t cheap_block(pf_comp* c, int32_t frame, const int32_t* p, int32_t n, int32_t order) noexcept nogil:
    """The block of cheap items that waits for exactly p, made if new."""
    cdef uint64_t key = key_of(frame, p, n)
    cdef int32_t slot = <int32_t>(key & <uint64_t>(c.n_buckets - 1))
    cdef int32_t b = c.buckets[slot] - 1
    while b >= 0:
        if (c.blocks[b].key == key and c.blocks[b].frame == frame and c.blocks[b].n_preds == n
                and (n == 0 or memcmp(c.blocks[b].preds, p, sizeof(int32_t) * n) == 0)):
            return b
        b = c.blocks[b].same_key
    b = new_block(c, frame, 0, p, n, order)
    if b >= 0:
        c.blocks[b].key = key
        c.blocks[b].same_key = c.buckets[slot] - 1
        c.buckets[slot] = b + 1
    return b

cdef int32_t block_for(pf_comp* c, int32_t item, int32_t frame, int32_t* p) noexcept nogil:
    cdef int32_t n = predecessors(c, item, frame, p), own = 0, order
    order = item if item < c.n else c.frames[item - c.n].key
    if item >= c.n and not c.frames[item - c.n].inlined:
        return new_block(c, frame, PF_B_ASYNC, p, reduce(c, p, n), order)
    if item < c.n:
        if c.flags[item] & PF_N_LOOP_MERGE:
            return new_block(c, frame, PF_B_EVENT, p, 0, order)
        if c.flags[item] & PF_N_ASYNC:
            own |= PF_B_ASYNC
        if c.flags[item] & PF_N_EXPENSIVE:
            own |= PF_B_EXPENSIVE
        if c.flags[item] & PF_N_URGENT or pf_comp_frees(c, item):
            own |= PF_B_URGENT
        if own & (PF_B_ASYNC | PF_B_EXPENSIVE) or c.opt.no_blocks:
            return new_block(c, frame, own, p, reduce(c, p, n), order)
    n = reduce(c, p, n)
    if n == 1 and not c.blocks[p[0]].flags & (PF_B_ASYNC | PF_B_EXPENSIVE | PF_B_EVENT):
        return p[0]
    return cheap_block(c, frame, p, n, order)

cdef int32_t most_inputs(pf_comp* c) noexcept nogil:
    cdef int32_t i, most = 16
    for i in range(c.n):
        most = max(most, c.g.nodes[i].n_in + c.g.nodes[i].n_ctl)
    for i in range(c.n_frames):
        most = max(most, c.frames[i].n_enters)
    return most

cdef public pf_status pf_comp_blocks(pf_comp* c) noexcept nogil:
    """Blocks of every frame that owns a slab; c.block and c.chain say what lies where."""
    cdef int32_t f, k, item, b
    cdef int32_t* p = <int32_t*>pf_arena_alloc(&c.work, sizeof(int32_t) * <uint64_t>(most_inputs(c) + 1))
    c.n_buckets = 1024
    while c.n_buckets < c.n:
        c.n_buckets *= 2
    c.buckets = <int32_t*>pf_arena_alloc(&c.work, sizeof(int32_t) * <uint64_t>c.n_buckets)
    c.chain = <int32_t*>pf_arena_alloc(&c.work, sizeof(int32_t) * <uint64_t>(c.n + c.n_frames + 1))
    if p == NULL or c.buckets == NULL or c.chain == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory while forming blocks")
    for k in range(c.n):
        c.block[k] = -1
    for f in range(c.n_frames):
        if c.frames[f].home != f:
            continue
        for k in range(c.frames[f].n_items):
            item = c.frames[f].items[k]
            if item < c.n and c.flags[item] & PF_N_PREFILLED:
                continue
            b = block_for(c, item, f, p)
            if b < 0:
                return c.err.code
            if item < c.n:
                c.block[item] = b
            else:
                c.frames[item - c.n].block = b
            c.chain[item] = -1
            if c.blocks[b].first < 0:
                c.blocks[b].first = item
            else:
                c.chain[c.blocks[b].last] = item
            c.blocks[b].last = item
            c.blocks[b].n_items += 1
    return PF_OK
