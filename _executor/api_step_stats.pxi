"""Part of api.pyx: StepStats, TensorFlow's message about a traced step, written straight from its
records.  What goes where is said in pyflow/session/metadata.py.

Invariants
1. Protobuf is written from its end to its beginning: when the tag of a message is due, its length
   is known, so nothing is copied or measured twice.
2. Kernels stand in the order in which they began, devices in that of their first kernel.

    data = step_stats(trace, lane_names, inputs_of, wall_minus_monotonic_ns)
"""

cdef extern from *:
    """
    #include <math.h>
    /* of frames.pyx, path_of: path = outer path * golden ratio + turn, mod 2^64 */
    static const uint64_t pf_golden_inverse = 0xF1DE83E19937733Dull;
    static const char *const pf_stream_names[3] = {"compute", "copy-in", "copy-out"};
    static inline int pf_varint_bytes(uint64_t v) { return (63 - __builtin_clzll(v | 1)) / 7 + 1; }
    """
    const uint64_t pf_golden_inverse
    const char* pf_stream_names[3]
    int pf_varint_bytes(uint64_t v) noexcept nogil
    long long llrint(double) noexcept nogil

cdef enum:
    NODE_ROOM = 600             # bytes of a NodeExecStats without its texts, outputs and turns
    OUTPUT_ROOM = 320           # of an output of ten dimensions
    TURN_ROOM = 24
    KEPT_ROOM = 8 << 20         # of a buffer that stays for the next step

cdef struct Wire:
    char* begin
    char* at                    # the text lies in at..end
    char* end

cdef struct Span:               # a kernel's record
    int64_t start               # ns
    int32_t chunk, index, device

cdef struct DeviceName:
    pf_str node                 # as the node has it; data NULL: `entry`'s
    const pf_device_entry* entry
    int32_t stream              # -1: none

cdef struct TurnOf:             # an open hash table
    int64_t path
    uint32_t step, frame, turn, used

cdef struct LabelTable:
    const char* text
    uint32_t* begin             # by node, n_nodes + 1

cdef struct StatsWriter:
    Wire w
    const pf_trace* t
    const pf_trace_chunk** chunks       # by lane, oldest first
    int32_t n_chunks, n_devices, devices_room
    Span* spans
    Span* spare
    int64_t n_spans
    DeviceName* devices
    const pf_record_out** outs
    int64_t n_outs, outs_room
    TurnOf* turns
    uint64_t n_turns                    # 0: not asked for yet
    LabelTable* labels                  # by step
    int64_t tick0, ns0, to_wall
    double rate

@cython.final
cdef class Labels:
    """The inputs of each node of a plan, as timeline labels show them."""
    cdef bytes text
    cdef LabelTable table

    def __cinit__(self, Plan plan, inputs):
        """inputs: node -> names of tensors."""
        cdef uint32_t k
        cdef list texts = []
        self.table.begin = <uint32_t*>calloc(plan.p.n_nodes + 1, sizeof(uint32_t))
        if self.table.begin == NULL:
            raise MemoryError()
        for k in range(plan.p.n_nodes):
            text = ", ".join(inputs.get(text_of(plan.p.nodes[k].name), ())).encode()
            texts.append(text)
            self.table.begin[k + 1] = self.table.begin[k] + <uint32_t>len(text)
        self.text = b"".join(texts)
        self.table.text = self.text

    def __dealloc__(self):
        free(self.table.begin)

# ---------------------------------------------------------------- protobuf, backwards
cdef bint make_room(Wire* w, int64_t n) noexcept nogil:
    cdef int64_t used = w.end - w.at, size = w.end - w.begin
    cdef char* grown
    if w.at - w.begin >= n:
        return True
    size = size * 2 + n
    grown = <char*>malloc(size)
    if grown == NULL:
        return False
    memcpy(grown + size - used, w.at, used)
    free(w.begin)
    w.begin = grown
    w.end = grown + size
    w.at = w.end - used
    return True

cdef inline void put_varint(Wire* w, uint64_t v) noexcept nogil:
    cdef int n = pf_varint_bytes(v)
    cdef char* p
    w.at -= n
    p = w.at
    while v > 127:
        p[0] = <char>(v | 128)
        v >>= 7
        p += 1
    p[0] = <char>v

cdef inline void put_number(Wire* w, uint32_t field, uint64_t v) noexcept nogil:
    if v != 0:
        put_varint(w, v)
        put_varint(w, field << 3)

cdef inline void put_bytes(Wire* w, const char* data, int64_t n) noexcept nogil:
    w.at -= n
    memcpy(w.at, data, n)

cdef inline void put_length(Wire* w, uint32_t field, const char* end) noexcept nogil:
    """Ends (begins, for a reader) a text or a message that reaches to `end`."""
    put_varint(w, end - w.at)
    put_varint(w, field << 3 | 2)

cdef inline void put_text(Wire* w, uint32_t field, const char* data, int64_t n) noexcept nogil:
    cdef int64_t before = w.end - w.at
    put_bytes(w, data, n)
    put_length(w, field, w.end - before)

cdef inline void put_decimal(Wire* w, uint64_t v) noexcept nogil:
    while True:
        w.at -= 1
        w.at[0] = <char>(48 + v % 10)
        v //= 10
        if v == 0:
            return

# ---------------------------------------------------------------- the records in order
cdef inline int64_t ns_of(const StatsWriter* s, int64_t ticks) noexcept nogil:
    return s.ns0 + llrint(<double>(ticks - s.tick0) * s.rate)

cdef bint list_chunks(StatsWriter* s) noexcept nogil:
    """Lane by lane, each lane's oldest first; the trace has them newest first."""
    cdef const pf_trace_chunk* c = s.t.chunks
    cdef int32_t k, n = s.t.n_chunks
    s.chunks = <const pf_trace_chunk**>malloc(sizeof(void*) * (n + 1))
    if s.chunks == NULL:
        return False
    while c != NULL and s.n_chunks < n:
        k = s.n_chunks
        while k > 0 and s.chunks[k - 1].lane < c.lane:
            s.chunks[k] = s.chunks[k - 1]
            k -= 1
        s.chunks[k] = c
        s.n_chunks += 1
        c = c.next
    for k in range(n // 2):
        c = s.chunks[k]
        s.chunks[k] = s.chunks[n - 1 - k]
        s.chunks[n - 1 - k] = c
    return True

cdef inline const pf_record* record_of(const StatsWriter* s, const Span* span) noexcept nogil:
    return &s.chunks[span.chunk].records[span.index]

cdef inline bint is_kernel(uint8_t kind) noexcept nogil:
    return (kind == PF_TR_KERNEL or kind == PF_TR_ASYNC or kind == PF_TR_BLOCK
            or kind == PF_TR_STREAM)

cdef bint list_spans(StatsWriter* s) noexcept nogil:
    cdef int64_t room = 0
    cdef int32_t k, i
    cdef const pf_record* r
    cdef Span* span
    for k in range(s.n_chunks):
        room += s.chunks[k].n
    s.spans = <Span*>malloc(sizeof(Span) * (room + 1))
    s.spare = <Span*>malloc(sizeof(Span) * (room + 1))
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
    """By start, stable: merges neighbouring ascending runs until one is left; a lane is nearly one."""
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
            s.devices[at] = d
            s.n_devices += 1
        s.spans[k].device = at
    return True

cdef inline const pf_plan* plan_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return <const pf_plan*>s.t.steps[r.step].plan

cdef inline const pf_node_info* node_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return plan_of(s, r).instrs[r.instr].about

cdef void device_of(const StatsWriter* s, const pf_record* r, DeviceName* d) noexcept nogil:
    d.entry = NULL
    d.stream = -1
    d.node = node_of(s, r).device
    if r.kind == PF_TR_STREAM:
        d.stream = r.n_out
        if r.back < pf_device_count():
            d.entry = pf_device_at(<int32_t>r.back)
            d.node.data = NULL
            d.node.len = 0

cdef void put_device(Wire* w, const DeviceName* d) noexcept nogil:
    cdef int64_t before = w.end - w.at
    cdef const char* stream
    if d.stream >= 0:
        stream = pf_stream_names[d.stream]
        put_bytes(w, stream, strlen(stream))
        put_bytes(w, b"/stream:", 8)
    if d.entry == NULL:
        put_bytes(w, d.node.data, d.node.len)
    else:
        put_decimal(w, d.entry.ordinal)
        put_bytes(w, b":", 1)
        put_bytes(w, d.entry.type, strlen(d.entry.type))
        put_bytes(w, b"/job:localhost/replica:0/task:0/device:", 39)
    put_length(w, 1, w.end - before)

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

cdef bint put_turns(StatsWriter* s, const pf_record* r) noexcept nogil:
    """" [frame:outermost.innermost]"."""
    cdef const pf_frame_def* frames = plan_of(s, r).frames
    cdef int32_t frame = r.frame
    cdef int64_t path = r.path
    cdef uint64_t turn = r.turn
    put_bytes(&s.w, b"]", 1)
    while True:
        put_decimal(&s.w, turn)
        path = <int64_t>((<uint64_t>path - turn) * pf_golden_inverse)
        frame = frames[frame].parent
        if frame <= 0:
            break
        put_bytes(&s.w, b".", 1)
        if frames[frame].parent <= 0:
            turn = <uint64_t>path
        else:
            if s.n_turns == 0 and not list_turns(s):
                return False
            turn = find_turn(s, r.step, frame, path).turn
    put_bytes(&s.w, b":", 1)
    put_bytes(&s.w, frames[r.frame].name.data, frames[r.frame].name.len)
    put_bytes(&s.w, b" [", 2)
    return True

# ---------------------------------------------------------------- a kernel
cdef bint list_outputs(StatsWriter* s, const Span* span) noexcept nogil:
    """The output records behind a kernel's, perhaps in its lane's next chunk."""
    cdef int32_t c = span.chunk, i = span.index + 1
    cdef const pf_record_out** grown
    s.n_outs = 0
    while True:
        if i == s.chunks[c].n:
            if c + 1 == s.n_chunks or s.chunks[c + 1].lane != s.chunks[c].lane:
                return True
            c += 1
            i = 0
            continue
        if s.chunks[c].records[i].kind < PF_TR_OUTPUT:
            return True
        if s.n_outs == s.outs_room:
            s.outs_room = s.outs_room * 2 + 16
            grown = <const pf_record_out**>realloc(s.outs, sizeof(void*) * s.outs_room)
            if grown == NULL:
                return False
            s.outs = grown
        s.outs[s.n_outs] = <const pf_record_out*>&s.chunks[c].records[i]
        s.n_outs += 1
        i += 1

cdef void put_allocator(Wire* w, uint32_t field, uint32_t memory) noexcept nogil:
    """By DLPack device type: "cpu" for the host's."""
    cdef int64_t before = w.end - w.at
    if memory <= 1:
        put_text(w, field, b"cpu", 3)
        return
    put_decimal(w, memory)
    put_bytes(w, b"device_", 7)
    put_length(w, field, w.end - before)

cdef void put_dims(Wire* w, const pf_record_out* o, int32_t first) noexcept nogil:
    cdef int32_t k = min(<int32_t>o.ndim - first, 5)
    cdef int64_t before
    while k > 0:
        k -= 1
        before = w.end - w.at
        put_number(w, 1, o.dims[k])
        put_length(w, 2, w.end - before)

cdef void put_output(Wire* w, const pf_record_out* o, const pf_record_out* more) noexcept nogil:
    cdef int64_t out = w.end - w.at, inner = out
    put_allocator(w, 3, o.memory)
    put_number(w, 2, o.bytes)
    put_number(w, 1, o.bytes)
    put_length(w, 4, w.end - inner)
    if o.ndim != 255 and o.ndim > 0:
        inner = w.end - w.at
        if more != NULL:
            put_dims(w, more, 5)
        put_dims(w, o, 0)
        put_length(w, 2, w.end - inner)
    put_number(w, 1, <uint32_t>o.type)
    put_length(w, 3, w.end - out)
    put_number(w, 1, <uint32_t>o.slot)
    put_length(w, 7, w.end - out)

cdef void put_outputs(StatsWriter* s, const pf_record* r) noexcept nogil:
    cdef Wire* w = &s.w
    cdef const pf_record_out* more = NULL
    cdef int64_t total = 0, before, k = s.n_outs
    cdef bint own
    while k > 0:
        k -= 1
        if s.outs[k].kind == PF_TR_MORE:
            more = s.outs[k]
        else:
            put_output(w, s.outs[k], more)
            total += s.outs[k].bytes
            more = NULL
    if s.n_outs:
        before = w.end - w.at
        own = r.flags & PF_TR_OWN_MEMORY and s.outs[0].memory > 1
        put_number(w, 5, r.back if own else <int64_t>r.in_use << 6)
        put_number(w, 4, total)
        put_number(w, 3, total)
        put_number(w, 2, total)
        put_allocator(w, 1, s.outs[0].memory)
        put_length(w, 6, w.end - before)

cdef bint put_label(StatsWriter* s, const pf_record* r) noexcept nogil:
    """"node [frame:iteration] = Op(inputs)"."""
    cdef Wire* w = &s.w
    cdef const pf_node_info* node = node_of(s, r)
    cdef const LabelTable* inputs = &s.labels[r.step]
    cdef uint32_t k = plan_of(s, r).instrs[r.instr].node
    cdef int64_t before = w.end - w.at
    put_bytes(w, b")", 1)
    put_bytes(w, inputs.text + inputs.begin[k], inputs.begin[k + 1] - inputs.begin[k])
    put_bytes(w, b"(", 1)
    if r.kind == PF_TR_BLOCK:
        put_decimal(w, r.n_out)
        put_bytes(w, b"block_of_", 9)
    else:
        put_bytes(w, node.op.data, node.op.len)
    put_bytes(w, b" = ", 3)
    if r.frame > 0 and not put_turns(s, r):
        return False
    put_bytes(w, node.name.data, node.name.len)
    put_length(w, 8, w.end - before)
    return True

cdef int64_t node_room(const StatsWriter* s, const pf_record* r) noexcept nogil:
    cdef const pf_plan* plan = plan_of(s, r)
    cdef const pf_node_info* node = node_of(s, r)
    cdef const LabelTable* inputs = &s.labels[r.step]
    cdef uint32_t k = plan.instrs[r.instr].node
    return (NODE_ROOM + 2 * node.name.len + node.op.len + plan.frames[r.frame].name.len
            + inputs.begin[k + 1] - inputs.begin[k] + <int64_t>plan.n_frames * TURN_ROOM
            + s.n_outs * OUTPUT_ROOM)

cdef bint put_node(StatsWriter* s, const Span* span, uint32_t thread) noexcept nogil:
    """A NodeExecStats."""
    cdef Wire* w = &s.w
    cdef const pf_record* r = record_of(s, span)
    cdef bint stream = r.kind == PF_TR_STREAM
    cdef int64_t end = max(span.start, r.end if stream else ns_of(s, r.end))
    cdef int64_t ready = min(span.start, r.ready if stream else ns_of(s, r.ready)) + s.to_wall
    cdef int64_t start = span.start + s.to_wall, delivered = end - span.start, before
    cdef int64_t stop = ns_of(s, r.back) - span.start if r.kind == PF_TR_ASYNC else delivered
    stop = max(<int64_t>0, stop)
    if not list_outputs(s, span) or not make_room(w, node_room(s, r)):
        return False
    before = w.end - w.at
    put_number(w, 17, ready)
    put_number(w, 16, max(<int64_t>1, delivered))
    put_number(w, 15, stop)
    put_number(w, 13, start)
    put_number(w, 10, thread)
    put_number(w, 9, ready // 1000)
    if not put_label(s, r):
        return False
    put_outputs(s, r)
    put_number(w, 5, max(<int64_t>1, delivered // 1000))
    put_number(w, 4, stop // 1000)
    put_number(w, 2, start // 1000)
    put_text(w, 1, node_of(s, r).name.data, node_of(s, r).name.len)
    put_length(w, 2, w.end - before)
    return True

# ---------------------------------------------------------------- the message
cdef struct LaneName:
    uint32_t thread, seen
    const char* name
    int64_t len

cdef bint put_threads(StatsWriter* s, LaneName* lanes, int32_t n, int32_t device) noexcept nogil:
    """Names of the threads that worked for a device."""
    cdef Wire* w = &s.w
    cdef int64_t k, before
    for k in range(n):
        lanes[k].seen = 0
    for k in range(s.n_spans):
        if s.spans[k].device == device:
            lanes[record_of(s, &s.spans[k]).lane].seen = 1
    for k in range(n):
        if lanes[k].seen:
            if not make_room(w, lanes[k].len + TURN_ROOM):
                return False
            before = w.end - w.at
            put_text(w, 2, lanes[k].name, lanes[k].len)
            put_number(w, 1, lanes[k].thread)
            put_length(w, 3, w.end - before)
    return True

cdef bint put_stats(StatsWriter* s, LaneName* lanes, int32_t n_lanes) noexcept nogil:
    """The whole StepStats; False: out of memory."""
    cdef int32_t d
    cdef int64_t k, before
    if not list_chunks(s) or not list_spans(s):
        return False
    sort_spans(s)
    if not name_devices(s):
        return False
    for d in range(s.n_devices - 1, -1, -1):
        before = s.w.end - s.w.at
        if not put_threads(s, lanes, n_lanes, d):
            return False
        for k in range(s.n_spans - 1, -1, -1):
            if s.spans[k].device == d:
                if not put_node(s, &s.spans[k], lanes[record_of(s, &s.spans[k]).lane].thread):
                    return False
        if not make_room(&s.w, NODE_ROOM + s.devices[d].node.len):
            return False
        put_device(&s.w, &s.devices[d])
        put_length(&s.w, 1, s.w.end - before)
    return True

cdef Wire kept                  # the GIL's: the pages of a new buffer would cost as much as the work

cdef void take_buffer(StatsWriter* s):
    s.w = kept
    s.w.at = s.w.end
    memset(&kept, 0, sizeof(Wire))

cdef void free_stats(StatsWriter* s):
    if kept.begin == NULL and s.w.end - s.w.begin <= KEPT_ROOM:
        kept.begin, kept.end = s.w.begin, s.w.end
    else:
        free(s.w.begin)
    free(s.chunks)
    free(s.spans)
    free(s.spare)
    free(s.devices)
    free(s.outs)
    free(s.turns)
    free(s.labels)

def step_stats(Trace trace, list lane_names, inputs_of, int64_t to_wall):
    """The steps of a trace, which are over, as a serialized StepStats.

    lane_names: (thread id, name in UTF-8) by lane, of `trace_lane_count()` lanes.
    inputs_of(plan): node -> names of its inputs.  to_wall: wall clock - monotonic clock, ns.
    """
    cdef StatsWriter s
    cdef int32_t k, n = len(lane_names)
    cdef LaneName* lanes = <LaneName*>calloc(n + 1, sizeof(LaneName))
    cdef int64_t ticks, ns
    cdef Plan plan
    cdef bytes name
    memset(&s, 0, sizeof(s))
    s.labels = <LabelTable*>calloc(trace.t.n_steps + 1, sizeof(LabelTable))
    try:
        if lanes == NULL or s.labels == NULL:
            raise MemoryError()
        for k in range(n):
            lanes[k].thread = lane_names[k][0]
            name = lane_names[k][1]
            lanes[k].name = name
            lanes[k].len = len(name)
        for k in range(trace.t.n_steps):
            plan = trace.plans[<uintptr_t>trace.t.steps[k].plan]
            if plan.labels is None:
                plan.labels = Labels(plan, inputs_of(plan))
            s.labels[k] = (<Labels>plan.labels).table
        pf_trace_clock(&ticks, &ns)
        take_buffer(&s)
        s.t = trace.t
        s.tick0 = trace.ticks
        s.ns0 = trace.ns
        s.to_wall = to_wall
        s.rate = 1.0
        if ticks > trace.ticks:
            s.rate = <double>(ns - trace.ns) / <double>(ticks - trace.ticks)
        if not put_stats(&s, lanes, n):
            raise MemoryError()
        return PyBytes_FromStringAndSize(s.w.at, s.w.end - s.w.at)
    finally:
        free_stats(&s)
        free(lanes)

def trace_lane_count():
    """How many threads wrote records so far."""
    return pf_trace_lanes(NULL, 0)
