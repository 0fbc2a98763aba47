"""Part of api.pyx: the kernels of a trace in the order in which they began, device after device, and
the turns of the loops around them.  For api_step_stats.pxi.

Invariants
1. Parts are in the order of lanes, those of a lane in the order of writing: a kernel's outputs
   follow its record, perhaps in its lane's next chunk.
2. While steps run, the newest chunk of a lane is its thread's alone.  An older one is full, and was
   full when its thread took the trace's lock for the next: whoever has seen that one under the lock
   may read the older.  The last record before the newest chunk waits, its outputs may lie in there.
3. Every record is listed once: `taken` drops what was, the rest is listed next time.
4. Nothing here allocates through Python or needs the GIL.

    if list_all(&s, over): for each device d: s.spans[d.end - d.n_spans .. d.end]
    taken(&s)
"""

cdef extern from "<math.h>" nogil:
    long long llrint(double)

cdef extern from *:
    """
    /* of frames.pyx, path_of: path = outer path * golden ratio + turn, mod 2^64 */
    static const uint64_t pf_golden_inverse = 0xF1DE83E19937733Dull;
    """
    const uint64_t pf_golden_inverse

cdef struct Wire:
    char* begin
    char* at                    # the text lies in at..end
    char* end

cdef struct Part:               # of a chunk: its records begin..end are listed this time
    const pf_trace_chunk* chunk
    int32_t begin, end

cdef struct Span:               # a kernel's record
    int64_t start               # ns
    int32_t part, index, device

cdef struct DeviceName:
    pf_str node                 # as the node has it; data NULL: `entry`'s
    const pf_device_entry* entry
    int32_t stream              # -1: none
    int64_t n_spans, end        # in the grouped spans

cdef struct TurnOf:             # an open hash table
    int64_t path
    uint32_t step, frame, turn, used

cdef struct LabelTable:
    const char* text
    uint32_t* begin             # by node, n_nodes + 1

cdef struct StepTable:
    const pf_plan* plan
    LabelTable labels

cdef struct LaneName:
    uint32_t thread, seen
    const char* name
    int64_t len

cdef struct StatsWriter:
    Wire w
    pf_trace* t
    const pf_trace_chunk* newest        # of the chunks listed so far
    Part* parts                         # by lane, oldest first
    int32_t n_parts, parts_room, n_devices, devices_room
    Span* spans
    Span* spare
    int64_t n_spans, spans_room
    DeviceName* devices
    const pf_record_out** outs
    int64_t n_outs, outs_room
    TurnOf* turns
    uint64_t n_turns                    # 0: not asked for yet
    StepTable* steps
    int32_t n_steps, steps_room
    int64_t tick0, ns0, to_wall
    double rate

# ---------------------------------------------------------------- the records in order
cdef inline int64_t ns_of(const StatsWriter* s, int64_t ticks) noexcept nogil:
    return s.ns0 + llrint(<double>(ticks - s.tick0) * s.rate)

cdef bint list_steps(StatsWriter* s) noexcept nogil:
    """The plans of steps; their labels are for later."""
    cdef StepTable* grown
    cdef int32_t k, n
    pf_spin_lock(&s.t.lock)
    n = s.t.n_steps
    pf_spin_unlock(&s.t.lock)
    if n > s.steps_room:
        grown = <StepTable*>realloc(s.steps, sizeof(StepTable) * <size_t>n * 2)
        if grown == NULL:
            return False
        s.steps = grown
        s.steps_room = n * 2
    pf_spin_lock(&s.t.lock)
    for k in range(s.n_steps, n):
        memset(&s.steps[k], 0, sizeof(StepTable))
        s.steps[k].plan = <const pf_plan*>s.t.steps[k].plan
    pf_spin_unlock(&s.t.lock)
    s.n_steps = n
    return True

cdef bint list_parts(StatsWriter* s) noexcept nogil:
    """The chunks taken since the last time behind those of their lane; the trace has the newest
    first."""
    cdef const pf_trace_chunk* head
    cdef const pf_trace_chunk* c
    cdef int32_t k, i, n = 0
    cdef Part part
    cdef Part* grown
    pf_spin_lock(&s.t.lock)
    head = s.t.chunks
    pf_spin_unlock(&s.t.lock)
    if not list_steps(s):
        return False
    c = head
    while c != s.newest:
        n += 1
        c = c.next
    if s.n_parts + n > s.parts_room:
        grown = <Part*>realloc(s.parts, sizeof(Part) * <size_t>(s.n_parts + n) * 2)
        if grown == NULL:
            return False
        s.parts = grown
        s.parts_room = (s.n_parts + n) * 2
    c = head
    for k in range(s.n_parts + n - 1, s.n_parts - 1, -1):
        s.parts[k].chunk = c
        s.parts[k].begin = s.parts[k].end = 0
        c = c.next
    for i in range(s.n_parts, s.n_parts + n):
        part = s.parts[i]
        k = i
        while k > 0 and s.parts[k - 1].chunk.lane > part.chunk.lane:
            s.parts[k] = s.parts[k - 1]
            k -= 1
        s.parts[k] = part
    s.n_parts += n
    s.newest = head
    return True

cdef inline bint is_last(const StatsWriter* s, int32_t k) noexcept nogil:
    return k + 1 == s.n_parts or s.parts[k + 1].chunk.lane != s.parts[k].chunk.lane

cdef void bound_parts(StatsWriter* s, bint over) noexcept nogil:
    """Up to where the parts may be read."""
    cdef int32_t k, i
    cdef bint waits = False
    for k in range(s.n_parts - 1, -1, -1):
        if over:
            s.parts[k].end = s.parts[k].chunk.n
            continue
        if is_last(s, k):
            s.parts[k].end = s.parts[k].begin
            waits = True
            continue
        i = PF_CHUNK_RECORDS
        while waits and i > s.parts[k].begin:
            i -= 1
            waits = s.parts[k].chunk.records[i].kind >= PF_TR_OUTPUT
        s.parts[k].end = i

cdef void taken(StatsWriter* s) noexcept nogil:
    """What is listed has been read."""
    cdef int32_t k, n = 0
    for k in range(s.n_parts):
        s.parts[k].begin = s.parts[k].end
        if s.parts[k].end < PF_CHUNK_RECORDS:
            s.parts[n] = s.parts[k]
            n += 1
    s.n_parts = n

cdef inline const pf_record* record_of(const StatsWriter* s, const Span* span) noexcept nogil:
    return &s.parts[span.part].chunk.records[span.index]

cdef inline bint is_kernel(uint8_t kind) noexcept nogil:
    return (kind == PF_TR_KERNEL or kind == PF_TR_ASYNC or kind == PF_TR_BLOCK
            or kind == PF_TR_STREAM)

cdef bint list_spans(StatsWriter* s) noexcept nogil:
    cdef int64_t room = 0
    cdef int32_t k, i
    cdef const pf_record* r
    cdef Span* span
    for k in range(s.n_parts):
        room += s.parts[k].end - s.parts[k].begin
    if room >= s.spans_room:
        free(s.spans)
        free(s.spare)
        s.spans_room = room * 2 + 1
        s.spans = <Span*>malloc(sizeof(Span) * <size_t>s.spans_room)
        s.spare = <Span*>malloc(sizeof(Span) * <size_t>s.spans_room)
    if s.spans == NULL or s.spare == NULL:
        s.spans_room = 0
        return False
    s.n_spans = 0
    for k in range(s.n_parts):
        for i in range(s.parts[k].begin, s.parts[k].end):
            r = &s.parts[k].chunk.records[i]
            if is_kernel(r.kind):
                span = &s.spans[s.n_spans]
                span.start = r.start if r.kind == PF_TR_STREAM else ns_of(s, r.start)
                span.part = k
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
    for k in range(s.n_devices):
        s.devices[k].n_spans = 0
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

cdef inline const pf_plan* plan_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return s.steps[r.step].plan

cdef inline const pf_node_info* node_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return plan_of(s, r).instrs[r.instr].about

cdef void device_of(const StatsWriter* s, const pf_record* r, DeviceName* d) noexcept nogil:
    memset(d, 0, sizeof(DeviceName))
    d.stream = -1
    d.node = node_of(s, r).device
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
cdef bint list_all(StatsWriter* s, bint over) noexcept nogil:
    """over: the steps are, so that everything is listed."""
    if not list_parts(s):
        return False
    bound_parts(s, over)
    if not list_spans(s):
        return False
    sort_spans(s)
    if not name_devices(s):
        return False
    group_spans(s)
    return True
