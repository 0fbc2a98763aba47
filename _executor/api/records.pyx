# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Records of a trace: the kernels of a trace in the order in which they began, device after device, and
the turns of the loops around them.  For step_stats.pyx.

Invariants
1. The steps are over: nobody writes records any more, and any number of threads may read them.
2. Chunks are in the order of lanes, those of a lane in the order of writing: a kernel's outputs
   follow its record, perhaps in its lane's next chunk.
3. Nothing here allocates through Python or needs the GIL.

    if list_all(&s): for each device d: s.spans[d.end - d.n_spans .. d.end]
"""
cimport cython
from look_h cimport *
from pyflow._executor.plans cimport Plan

# ---------------------------------------------------------------- names
# What the records of a trace refer to, copied out of a plan: names of nodes, with
# their inputs and devices, and of loops.  Of all that a plan has, traces that are read later keep this
# alone.
#
# Invariants
# 1. A PlanNames refers to nothing of its plan; the plan keeps it for the next trace.
# 2. It never changes: any thread may read it, without the GIL.
#
#     names = names_of_plan(plan)     # PlanTexts: about 100 bytes and 50 ns per node, once per plan

cdef inline char* append(char* at, const char* data, int64_t n) noexcept nogil:
    if n > 0:                   # a text that is not there has no address
        memcpy(at, data, n)
    return at + n

cdef const pf_node* source_of(const pf_plan* p, uint32_t k) noexcept nogil:
    """Node k in the plan's graph, which says whose outputs it reads."""
    cdef int32_t origin = p.nodes[k].origin
    return &p.graph.nodes[origin] if 0 <= origin < p.graph.n_nodes else NULL

cdef int64_t text_room(const pf_plan* p) noexcept nogil:
    """At most so many bytes."""
    cdef const pf_node* node
    cdef uint32_t k
    cdef int32_t i
    cdef int64_t room = 1
    for k in range(p.n_nodes):
        room += p.nodes[k].name.len + p.nodes[k].op.len + p.nodes[k].device.len + 8
        node = source_of(p, k)
        if node != NULL:
            for i in range(node.n_in + node.n_ctl):
                room += p.graph.nodes[node.inputs[i].node].name.len + 16
    for k in range(p.n_frames):
        room += p.frames[k].name.len
    return room

cdef char* put_input(char* at, const pf_graph* g, pf_input of) noexcept nogil:
    """"name", "name:1" or "^name"."""
    cdef pf_str name = g.nodes[of.node].name
    if of.output < 0:
        at = append(at, b"^", 1)
    at = append(at, name.data, name.len)
    if of.output > 0:
        at += snprintf(at, 14, b":%d", <int>of.output)
    return at

cdef char* name_node(PlanNames* to, char* at, const pf_plan* p, uint32_t k) noexcept nogil:
    cdef const pf_node_info* info = &p.nodes[k]
    cdef const pf_node* node = source_of(p, k)
    cdef NodeNames* n = &to.nodes[k]
    cdef int32_t i
    n.label = at - to.text
    n.name_len = info.name.len
    n.op_len = info.op.len
    at = append(at, info.name.data, info.name.len)
    at = append(at, b" = ", 3)
    at = append(at, info.op.data, info.op.len)
    at = append(at, b"(", 1)
    for i in range(node.n_in + node.n_ctl if node != NULL else 0):
        at = put_input(append(at, b", ", 2 if i else 0), p.graph, node.inputs[i])
    at = append(at, b")", 1)
    n.label_len = at - to.text - n.label
    n.device = at - to.text
    n.device_len = info.device.len
    if k > 0 and same_text(to, n - 1, info.device):
        n.device = (n - 1).device
        return at
    return append(at, info.device.data, info.device.len)

cdef bint same_text(const PlanNames* to, const NodeNames* before, pf_str device) noexcept nogil:
    return (before.device_len == device.len
            and (device.len == 0 or memcmp(to.text + before.device, device.data, device.len) == 0))

cdef void fill_names(PlanNames* to, const pf_plan* p) noexcept nogil:
    cdef char* at = to.text
    cdef uint32_t k
    for k in range(p.n_nodes):
        at = name_node(to, at, p, k)
    for k in range(p.n_frames):
        to.frames[k].parent = p.frames[k].parent
        to.frames[k].name = at - to.text
        to.frames[k].name_len = p.frames[k].name.len
        at = append(at, p.frames[k].name.data, p.frames[k].name.len)
    for k in range(p.n_instrs):
        to.instrs[k].node = p.instrs[k].node
        to.instrs[k].calls = p.instrs[k].kind <= PF_I_CALL0
    to.n_frames = p.n_frames

@cython.final
cdef class PlanTexts:
    """Owns the PlanNames of a plan."""
    def __cinit__(self, Plan plan):
        cdef const pf_plan* p = plan.p
        cdef PlanNames* n = &self.names
        n.text = <char*>malloc(text_room(p))
        n.nodes = <NodeNames*>malloc(sizeof(NodeNames) * (p.n_nodes + 1))
        n.instrs = <InstrNames*>malloc(sizeof(InstrNames) * (p.n_instrs + 1))
        n.frames = <FrameNames*>malloc(sizeof(FrameNames) * (p.n_frames + 1))
        if n.text == NULL or n.nodes == NULL or n.instrs == NULL or n.frames == NULL:
            raise MemoryError()
        fill_names(n, p)

    def __dealloc__(self):
        free(self.names.text)
        free(self.names.nodes)
        free(self.names.instrs)
        free(self.names.frames)

cdef PlanTexts names_of_plan(Plan plan):
    """Made once per plan."""
    if plan.texts is None:
        plan.texts = PlanTexts(plan)
    return <PlanTexts>plan.texts

# ---------------------------------------------------------------- order

# ---------------------------------------------------------------- the records in order
cdef bint list_chunks(StatsWriter* s) noexcept nogil:
    """By lane; the trace has the newest first."""
    cdef const pf_trace_chunk* c = s.t.chunks
    cdef int32_t k = s.t.n_chunks, i
    s.n_chunks = k
    s.chunks = <const pf_trace_chunk**>malloc(sizeof(void*) * <size_t>(k + 1))
    if s.chunks == NULL:
        return False
    while k > 0:
        k -= 1
        s.chunks[k] = c
        c = c.next
    for i in range(1, s.n_chunks):
        c = s.chunks[i]
        k = i
        while k > 0 and s.chunks[k - 1].lane > c.lane:
            s.chunks[k] = s.chunks[k - 1]
            k -= 1
        s.chunks[k] = c
    return True

cdef inline bint is_kernel(uint8_t kind) noexcept nogil:
    return (kind == PF_TR_KERNEL or kind == PF_TR_ASYNC or kind == PF_TR_BLOCK
            or kind == PF_TR_STREAM)

cdef bint list_spans(StatsWriter* s) noexcept nogil:
    cdef size_t room = 1
    cdef int32_t k, i
    cdef const pf_record* r
    cdef Span* span
    for k in range(s.n_chunks):
        room += s.chunks[k].n
    s.spans = <Span*>malloc(sizeof(Span) * room)
    s.spare = <Span*>malloc(sizeof(Span) * room)
    if s.spans == NULL or s.spare == NULL:
        return False
    for k in range(s.n_chunks):
        for i in range(s.chunks[k].n):
            r = &s.chunks[k].records[i]
            if is_kernel(r.kind):
                span = &s.spans[s.n_spans]
                span.start = r.start if r.kind == PF_TR_STREAM else ns_of(s, r.start)
                span.chunk = k
                span.index = i
                s.n_spans += 1
    return True

cdef inline int64_t run_end(const Span* a, int64_t i, int64_t n) noexcept nogil:
    i += 1
    while i < n and a[i - 1].start <= a[i].start:
        i += 1
    return min(i, n)

cdef void sort_spans(StatsWriter* s) noexcept nogil:
    """By start, stable: merges neighbouring ascending runs, of which a lane has few, into one."""
    cdef int64_t i, j, k, mid, hi, runs = 2
    cdef Span* a
    cdef Span* b
    while runs > 1:
        a, b = s.spans, s.spare
        k = runs = 0
        while k < s.n_spans:
            i = k
            mid = j = run_end(a, k, s.n_spans)
            hi = run_end(a, mid, s.n_spans)
            while k < hi:
                if j == hi or (i < mid and a[i].start <= a[j].start):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
                k += 1
            runs += 1
        s.spans, s.spare = b, a

# ---------------------------------------------------------------- devices
cdef bint same_device(const DeviceName* a, const DeviceName* b) noexcept nogil:
    if a.stream != b.stream or a.entry != b.entry or a.node.len != b.node.len:
        return False
    return a.node.data == b.node.data or memcmp(a.node.data, b.node.data, a.node.len) == 0

cdef bint name_devices(StatsWriter* s) noexcept nogil:
    """Numbers the devices of the spans by their first kernel."""
    cdef DeviceName d
    cdef DeviceName* grown
    cdef const pf_record* r
    cdef int64_t k
    cdef int32_t at = 0
    for k in range(s.n_spans):
        r = record_of(s, &s.spans[k])
        device_of(s, r, &d)
        if at >= s.n_devices or not same_device(&s.devices[at], &d):
            at = 0
            while at < s.n_devices and not same_device(&s.devices[at], &d):
                at += 1
        if at == s.n_devices:
            if at == s.devices_room:
                grown = <DeviceName*>realloc(s.devices, sizeof(DeviceName) * (at * 2 + 4))
                if grown == NULL:
                    return False
                s.devices = grown
                s.devices_room = at * 2 + 4
            s.devices[at] = d           # n_spans: 0
            s.n_devices += 1
        s.spans[k].device = at
        s.devices[at].n_spans += 1
    return True

cdef void group_spans(StatsWriter* s) noexcept nogil:
    """Device after device, each in order."""
    cdef int64_t k, at = 0
    cdef int32_t d
    for d in range(s.n_devices):
        s.devices[d].end = at
        at += s.devices[d].n_spans
    for k in range(s.n_spans):
        d = s.spans[k].device
        s.spare[s.devices[d].end] = s.spans[k]
        s.devices[d].end += 1
    s.spans, s.spare = s.spare, s.spans

cdef void device_of(const StatsWriter* s, const pf_record* r, DeviceName* d) noexcept nogil:
    cdef const NodeNames* node = node_of(s, r)
    memset(d, 0, sizeof(DeviceName))
    d.stream = -1
    d.node.data = names_of(s, r).text + node.device
    d.node.len = node.device_len
    if r.kind == PF_TR_STREAM:
        d.stream = r.n_out
        if r.back < pf_device_count():
            d.entry = pf_device_at(<int32_t>r.back)
            d.node.data = NULL
            d.node.len = 0

# ---------------------------------------------------------------- turns of loops
cdef inline uint64_t turn_hash(int64_t path, uint32_t step, uint32_t frame) noexcept nogil:
    cdef uint64_t h = (<uint64_t>path ^ <uint64_t>step << 40 ^ <uint64_t>frame << 20)
    h *= <uint64_t>0xff51afd7ed558ccd
    return h ^ h >> 32

cdef TurnOf* find_turn(const StatsWriter* s, uint32_t step, uint32_t frame,
                       int64_t path) noexcept nogil:
    cdef uint64_t at = turn_hash(path, step, frame)
    cdef TurnOf* e
    while True:
        e = &s.turns[at & (s.n_turns - 1)]
        if not e.used or (e.path == path and e.step == step and e.frame == frame):
            return e
        at += 1

cdef bint list_turns(StatsWriter* s) noexcept nogil:
    """Every record in a loop knows its own turn: which is that of the loops inside it."""
    cdef int64_t k
    cdef const pf_record* r
    cdef TurnOf* e
    s.n_turns = 16
    while s.n_turns < <uint64_t>s.n_spans * 2:
        s.n_turns *= 2
    s.turns = <TurnOf*>calloc(s.n_turns, sizeof(TurnOf))
    if s.turns == NULL:
        return False
    for k in range(s.n_spans):
        r = record_of(s, &s.spans[k])
        if r.frame > 0 and r.kind != PF_TR_STREAM:
            e = find_turn(s, r.step, r.frame, r.path)
            e.used = 1
            e.path, e.step, e.frame, e.turn = r.path, r.step, r.frame, r.turn
    return True

# ---------------------------------------------------------------- all
cdef bint list_all(StatsWriter* s) noexcept nogil:
    if not list_chunks(s) or not list_spans(s):
        return False
    sort_spans(s)
    if not name_devices(s):
        return False
    group_spans(s)
    return True

cdef void free_stats(StatsWriter* s) noexcept nogil:
    free(s.w.begin)
    free(s.chunks)
    free(s.spans)
    free(s.spare)
    free(s.devices)
    free(s.outs)
    free(s.turns)
    free(s.steps)
