# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Buffers: where the outputs of a plan go, decided while it is compiled [pf_comp_places].

For outputs of the root frame whose shape is known:
    1. Walk the instructions in the order one thread would run them, counting the readers of every slot.  A BUFFER is born
       with an output, passed on by identities, reshapes and kernels that write over an input, and dies with its last reader.
    2. Buffers that may outlive the step or change hands unseen (fetched, assigned, sent, carried by a loop) stay on the heap.
    3. The others get offsets: largest first, each into the smallest gap that no buffer alive at the same time covers.

Invariant: a place is a hint.  What is given, and that nobody else writes there, is the extents' business (extents.pyx); so plans
for one thread may run on many, kernels may keep tensors, and a prediction that fails costs memory, not correctness.

Threads: the compiling thread.
"""
from buffers_h cimport *

# ---------------------------------------------------------------- sizes known while planning
cdef public int64_t pf_comp_bytes(pf_comp* c, int32_t node, int32_t port) noexcept nogil:
    """Bytes of an output, from the attribute `_output_shapes`; -1: not known, or not plain data in host memory."""
    if port < c.sig[node].n_out and c.sig[node].out_ref[port]:
        return -1
    return pf_comp_static_bytes(c, node, port)

cdef public int64_t pf_comp_static_bytes(pf_comp* c, int32_t node, int32_t port) noexcept nogil:
    cdef const pf_attr_value* shapes
    cdef const pf_shape* s
    cdef int64_t bytes
    cdef int32_t type
    if port >= c.sig[node].n_out:
        return -1
    type = c.sig[node].out_type[port]
    if type == PF_STRING or type == PF_RESOURCE or type == PF_VARIANT:
        return -1
    shapes = pf_node_attr_find(c.g.nodes + node, b"_output_shapes")
    if shapes == NULL or shapes.kind != PF_ATTR_SHAPE | PF_ATTR_LIST or port >= shapes.list.n:
        return -1
    s = (<const pf_shape*>shapes.list.items) + port
    if s.ndim < 0 or s.ndim > PF_INLINE_DIMS or pf_checked_bytes(type, s.dims, s.ndim, &bytes):
        return -1
    return bytes

cdef int64_t last_bytes(pf_comp* c, int32_t src, int32_t port) noexcept nogil:
    """Bytes of a kernel's output that has one reader, through identities; 0: none of that kind."""
    cdef int32_t j, readers
    while True:
        readers = 0
        for j in range(c.out_begin[src], c.out_begin[src + 1]):
            if c.out_port[j] == port:
                readers += 1
        if readers != 1 or not (c.cls[src] == PF_C_KERNEL or c.cls[src] == PF_C_IDENTITY):
            return 0
        if c.cls[src] == PF_C_KERNEL:
            return max(pf_comp_bytes(c, src, port), 0)
        port = c.g.nodes[src].inputs[0].output
        src = c.g.nodes[src].inputs[0].node

cdef public int32_t pf_comp_frees(pf_comp* c, int32_t node) noexcept nogil:
    """1: running this node early gives memory back (an update that reads a gradient nobody else needs)."""
    cdef int32_t k
    cdef int64_t bytes, gain = 0
    cdef pf_node* nd = c.g.nodes + node
    if c.cls[node] != PF_C_KERNEL:
        return 0
    for k in range(nd.n_in):
        gain += last_bytes(c, nd.inputs[k].node, nd.inputs[k].output)
    if gain < PF_PLACE_BYTES:
        return 0
    for k in range(c.sig[node].n_out):
        if c.sig[node].out_ref[k]:
            continue
        bytes = pf_comp_bytes(c, node, k)
        if bytes < 0:
            return 0
        gain -= bytes
    return gain >= PF_PLACE_BYTES

# ---------------------------------------------------------------- planning
cdef struct Buffer:
    int64_t bytes, offset
    int32_t begin, end          # positions; end: of the last reader
    int32_t slots               # slots that hold it now
    int32_t heap                # 1: may leave the step

cdef struct Planner:
    pf_comp* c
    pf_plan* p
    int32_t* reads              # per root slot: readers to come
    int32_t* buffer             # per root slot: its buffer, or -1
    int32_t* order              # positions -> instructions
    int32_t n_order
    Buffer* buffers
    int32_t n_buffers
    int32_t* of_place           # per place: its buffer, or -1
    int32_t n_places

cdef pf_status run_order(Planner* q) noexcept nogil:
    """The root's instructions in the order in which one thread takes the blocks."""
    cdef pf_plan* p = q.p
    cdef pf_frame_def* fd = p.frames
    cdef int64_t* ready = <int64_t*>pf_comp_grab(q.c, fd.n_blocks, sizeof(int64_t))
    cdef int32_t* waits = <int32_t*>pf_comp_grab(q.c, fd.n_blocks, sizeof(int32_t))
    cdef int32_t n = 0
    cdef uint32_t b, k, s
    if ready == NULL or waits == NULL:
        return q.c.err.code
    for b in range(fd.n_blocks):
        waits[b] = p.blocks[b].pending
    for k in range(fd.n_roots):
        pf_longs_push(ready, &n, <int64_t>p.blocks[fd.roots[k]].order << 32 | fd.roots[k])
    while n:
        b = <uint32_t>(pf_longs_pop(ready, &n) & <int64_t>0xffffffff)
        for k in range(p.blocks[b].begin, p.blocks[b].end):
            q.order[q.n_order] = <int32_t>k
            q.n_order += 1
        for k in range(p.blocks[b].succ_begin, p.blocks[b].succ_end):
            s = p.succs[k]
            waits[s] -= 1
            if waits[s] == 0:
                pf_longs_push(ready, &n, <int64_t>p.blocks[s].order << 32 | s)
    return PF_OK

cdef bint may_keep(pf_comp* c, int32_t node) noexcept nogil:
    """The node's inputs may leave the step, or change hands where the planner does not look."""
    cdef const pf_arg* a
    cdef int32_t k
    cdef bint borrows
    if c.cls[node] == PF_C_RETVAL or c.cls[node] == PF_C_ENTER or c.cls[node] == PF_C_EXIT or c.cls[node] == PF_C_NEXT:
        return True
    if c.cls[node] != PF_C_KERNEL:
        return False
    if c.flags[node] & PF_N_ASYNC or c.kernel[node] == NULL:
        return True
    borrows = c.kernel[node].kernel.flags & <uint32_t>PF_KERNEL_BORROWS != 0
    for k in range(c.sig[node].n_in):
        a = pf_comp_arg(c, node, 0, k)
        if (a != NULL and a.flags & <uint32_t>PF_ARG_KEPT) or (c.sig[node].in_type[k] == PF_RESOURCE and not borrows):
            return True
    return False

cdef int32_t reusable_inputs(pf_comp* c, int32_t node) noexcept nogil:
    """Bit i: the kernel would write its output 0 over input i.  A prediction: one that does not come true costs a gap or a
    heap block."""
    cdef const pf_arg* a = pf_comp_arg(c, node, 1, 0)
    if a == NULL:
        return 0
    if a.flags & <uint32_t>PF_ARG_REUSE_ANY:    # which of several outputs takes over an input is the kernel's choice
        return 0x7fffffff if c.sig[node].out_start[1] == 1 else 0
    return 1 << (a.reuse - 1) if 0 < a.reuse <= 31 else 0

cdef int32_t new_buffer(Planner* q, int64_t bytes, int32_t at) noexcept nogil:
    cdef Buffer* b = q.buffers + q.n_buffers
    b.bytes = bytes
    b.offset = -1
    b.begin = at
    b.end = at
    b.slots = 0
    b.heap = 0
    q.n_buffers += 1
    return q.n_buffers - 1

cdef void hold(Planner* q, uint32_t slot, int32_t buffer) noexcept nogil:
    """The slot holds the buffer, if anybody will read it."""
    q.buffer[slot] = buffer
    if buffer >= 0 and q.reads[slot] > 0:
        q.buffers[buffer].slots += 1

cdef int32_t reused_input(Planner* q, const pf_instr* ins, int32_t mask, int64_t bytes) noexcept nogil:
    """The input whose buffer this call takes over; -1."""
    cdef const uint32_t* e = q.p.ins + ins.in_begin
    cdef int32_t k, b
    cdef uint32_t slot
    for k in range(<int32_t>min(ins.n_in, <uint32_t>31)):
        slot = e[k] & <uint32_t>PF_IN_SLOT
        if not mask >> k & 1 or e[k] & <uint32_t>(PF_IN_DEREF | PF_IN_NOFWD) or slot == 0:
            continue
        b = q.buffer[slot]
        if b >= 0 and q.reads[slot] == 1 and q.buffers[b].slots == 1 and q.buffers[b].bytes == bytes:
            return k
    return -1

cdef void plan_output(Planner* q, pf_instr* ins, int32_t k, int32_t at, pf_place* place) noexcept nogil:
    """Decides about output k of a kernel call."""
    cdef pf_comp* c = q.c
    cdef int32_t node = <int32_t>ins.node, from_, b
    cdef int64_t bytes = pf_comp_bytes(c, node, k)
    cdef const uint32_t* e = q.p.ins + ins.in_begin
    place.how = PF_PUT_HEAP
    place.input = -1
    place.offset = -1
    place.bytes = max(bytes, 0)
    place.buffer = -1
    place.first = -1
    place.last = -1
    from_ = pf_comp_aliased(c, node, k)
    if from_ >= 0:
        place.how = PF_PUT_ALIAS
        place.input = from_
        place.buffer = q.buffer[e[from_] & <uint32_t>PF_IN_SLOT]
        hold(q, ins.out_slot + <uint32_t>k, place.buffer)
        return
    if bytes < PF_PLACE_BYTES or c.plan.nodes[node].home != NULL:
        return
    from_ = reused_input(q, ins, reusable_inputs(c, node), bytes) if k == 0 else -1
    if from_ >= 0:
        place.how = PF_PUT_REUSE
        place.input = from_
        place.buffer = q.buffer[e[from_] & <uint32_t>PF_IN_SLOT]
        hold(q, ins.out_slot, place.buffer)
        return
    b = new_buffer(q, bytes, at)
    hold(q, ins.out_slot + <uint32_t>k, b)
    place.how = PF_PUT_PLACE
    place.buffer = b
    q.of_place[place - q.p.places] = b

cdef void read_inputs(Planner* q, pf_instr* ins, int32_t at) noexcept nogil:
    cdef const uint32_t* e = q.p.ins + ins.in_begin
    cdef uint32_t k, slot
    cdef int32_t b
    cdef bint keeps = ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME or may_keep(q.c, <int32_t>ins.node)
    for k in range(ins.n_in):
        slot = e[k] & <uint32_t>PF_IN_SLOT
        b = q.buffer[slot]
        if b < 0:
            continue
        q.buffers[b].end = max(q.buffers[b].end, at)
        if keeps:
            q.buffers[b].heap = 1
        q.reads[slot] -= 1
        if q.reads[slot] == 0:
            q.buffers[b].slots -= 1

cdef void walk(Planner* q) noexcept nogil:
    cdef int32_t at
    cdef uint32_t k
    cdef pf_instr* ins
    cdef const uint32_t* e
    for at in range(q.n_order):
        ins = q.p.instrs + q.order[at]
        e = q.p.ins + ins.in_begin
        if ins.kind == PF_I_CALL and ins.n_out:
            ins.aux = <uint32_t>q.n_places
            for k in range(ins.n_out):
                q.of_place[q.n_places] = -1
                q.n_places += 1
                plan_output(q, ins, <int32_t>k, at, q.p.places + q.n_places - 1)
        elif ins.kind == PF_I_IDENTITY and not e[0] & <uint32_t>PF_IN_DEREF:
            hold(q, ins.out_slot, q.buffer[e[0] & <uint32_t>PF_IN_SLOT])
        elif ins.kind == PF_I_SWITCH and not e[0] & <uint32_t>PF_IN_DEREF:
            for k in range(2):
                hold(q, ins.out_slot + k, q.buffer[e[0] & <uint32_t>PF_IN_SLOT])
        elif ins.kind == PF_I_MERGE:    # one of several: not followed further
            for k in range(ins.n_in):
                if q.buffer[e[k] & <uint32_t>PF_IN_SLOT] >= 0:
                    q.buffers[q.buffer[e[k] & <uint32_t>PF_IN_SLOT]].heap = 1
        read_inputs(q, ins, at)

# ---------------------------------------------------------------- offsets
cdef struct Sorting:
    Buffer* buffers

cdef Sorting sorting        # guarded by sorting_lock
cdef pf_a32 sorting_lock

cdef int larger_first(const void* a, const void* b) noexcept nogil:
    cdef Buffer* x = sorting.buffers + (<const int32_t*>a)[0]
    cdef Buffer* y = sorting.buffers + (<const int32_t*>b)[0]
    if x.bytes != y.bytes:
        return -1 if x.bytes > y.bytes else 1
    return x.begin - y.begin

cdef bint overlap(const Buffer* a, const Buffer* b) noexcept nogil:
    return a.begin <= b.end and b.begin <= a.end

cdef int64_t best_gap(Planner* q, const int32_t* placed, int32_t n, const Buffer* b) noexcept nogil:
    """`placed`: by offset.  The smallest gap between those alive together with b, else above them all."""
    cdef int64_t top = 0, found = -1, room = 0, need = pf_pages_of(b.bytes) * PF_PAGE
    cdef int32_t i
    cdef Buffer* other
    for i in range(n):
        other = q.buffers + placed[i]
        if not overlap(other, b):
            continue
        if other.offset - top >= need and (found < 0 or other.offset - top < room):
            found = top
            room = other.offset - top
        top = max(top, other.offset + pf_pages_of(other.bytes) * PF_PAGE)
    return found if found >= 0 else top

cdef pf_status place_all(Planner* q) noexcept nogil:
    cdef int32_t* todo = <int32_t*>pf_comp_grab(q.c, q.n_buffers, sizeof(int32_t))
    cdef int32_t* placed = <int32_t*>pf_comp_grab(q.c, q.n_buffers, sizeof(int32_t))
    cdef int32_t n = 0, i, j
    cdef int64_t size
    cdef Buffer* b
    if todo == NULL or placed == NULL:
        return q.c.err.code
    for i in range(q.n_buffers):
        if not q.buffers[i].heap:
            todo[n] = i
            n += 1
    pf_spin_lock(&sorting_lock)
    sorting.buffers = q.buffers
    pf_place_qsort(todo, n, larger_first)
    pf_spin_unlock(&sorting_lock)
    n = min(n, <int32_t>PF_MAX_PLACED)
    for i in range(n):
        b = q.buffers + todo[i]
        b.offset = best_gap(q, placed, i, b)
        size = pf_pages_of(b.bytes) * PF_PAGE
        q.p.planned_sum += size
        q.p.planned_bytes = max(q.p.planned_bytes, b.offset + size)
        j = i
        while j > 0 and q.buffers[placed[j - 1]].offset > b.offset:
            placed[j] = placed[j - 1]
            j -= 1
        placed[j] = todo[i]
    return PF_OK

cdef pf_status most_alive(Planner* q) noexcept nogil:
    """planned_least: the most bytes alive at once; no plan can need less."""
    cdef int64_t* change = <int64_t*>pf_comp_grab(q.c, q.n_order + 1, sizeof(int64_t))
    cdef int64_t now = 0
    cdef int32_t i
    if change == NULL:
        return q.c.err.code
    for i in range(q.n_buffers):
        if q.buffers[i].offset >= 0:
            change[q.buffers[i].begin] += pf_pages_of(q.buffers[i].bytes) * PF_PAGE
            change[q.buffers[i].end + 1] -= pf_pages_of(q.buffers[i].bytes) * PF_PAGE
    for i in range(q.n_order):
        now += change[i]
        q.p.planned_least = max(q.p.planned_least, now)
    return PF_OK

cdef void settle(Planner* q) noexcept nogil:
    """Offsets into the places; instructions with one are marked."""
    cdef int32_t at, k, b
    cdef pf_instr* ins
    cdef pf_place* place
    for at in range(q.n_order):
        ins = q.p.instrs + q.order[at]
        if ins.kind != PF_I_CALL or not ins.n_out:
            continue
        for k in range(<int32_t>ins.n_out):
            place = q.p.places + ins.aux + k
            if place.buffer >= 0:
                place.first = q.order[q.buffers[place.buffer].begin]
                place.last = q.order[q.buffers[place.buffer].end]
            if place.how != PF_PUT_PLACE:
                continue
            b = q.of_place[ins.aux + <uint32_t>k]
            place.offset = q.buffers[b].offset
            if place.offset < 0:
                place.how = PF_PUT_HEAP
            elif q.p.planned_bytes >= PF_EXTENT_BYTES:
                ins.flags |= PF_F_PLACED

cdef pf_status prepare(Planner* q) noexcept nogil:
    cdef pf_plan* p = q.p
    cdef uint32_t i, k, outs = 0, slots = p.frames[0].n_slots
    for i in range(p.n_instrs):
        outs += p.instrs[i].n_out
    q.reads = <int32_t*>pf_comp_grab(q.c, slots, sizeof(int32_t))
    q.buffer = <int32_t*>pf_comp_grab(q.c, slots, sizeof(int32_t))
    q.order = <int32_t*>pf_comp_grab(q.c, p.n_instrs, sizeof(int32_t))
    q.buffers = <Buffer*>pf_comp_grab(q.c, outs, sizeof(Buffer))
    q.of_place = <int32_t*>pf_comp_grab(q.c, outs, sizeof(int32_t))
    p.places = <pf_place*>pf_arena_alloc(&p.arena, (<uint64_t>outs + 1) * sizeof(pf_place))
    if q.c.err.code or p.places == NULL:
        return PF_RESOURCE_EXHAUSTED
    for k in range(slots):
        q.buffer[k] = -1
    return PF_OK

cdef void count_readers(Planner* q) noexcept nogil:
    cdef int32_t at
    cdef uint32_t k
    cdef pf_instr* ins
    for at in range(q.n_order):
        ins = q.p.instrs + q.order[at]
        for k in range(ins.in_begin, ins.in_begin + ins.n_in):
            q.reads[q.p.ins[k] & <uint32_t>PF_IN_SLOT] += 1

cdef public pf_status pf_comp_places(pf_comp* c) noexcept nogil:
    """Fills plan.places; without memory for it the plan simply has none."""
    cdef Planner q
    memset(&q, 0, sizeof(q))
    q.c = c
    q.p = c.plan
    if prepare(&q) or run_order(&q):
        return c.err.code
    count_readers(&q)
    walk(&q)
    if place_all(&q) or most_alive(&q):
        return c.err.code
    settle(&q)
    return PF_OK
