# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""StepStats, TensorFlow's message about a traced step, written straight from its
records.  What goes where is said in pyflow/session/metadata.py.

Invariants
1. Protobuf is written from its end to its beginning: when the tag of a message is due, its length
   is known, so nothing is copied or measured twice.
2. Kernels stand in the order in which they began, devices in that of their first kernel.
3. A varint may write up to 8 bytes below itself: the rooms count them.
4. A StepStats refers to records and names alone, no plan, session, feed or tensor, and nothing in
   it changes: any threads may encode it, at once too, which they do without the GIL.

    stats = StepStats(trace, names_of)  # when the steps are over; 0.5 us
    data = stats.encode()               # when somebody asks; 100 ns per kernel
"""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from look_h cimport *
from pyflow._executor.plans cimport traced_plan
from pyflow._executor.steps cimport Records, Trace
from pyflow._executor.records cimport *

cdef extern from *:
    """
    #include <time.h>
    static const char *const pf_stream_names[3] = {"compute", "copy-in", "copy-out"};
    /* 8 bytes of 7 bits each; v < 2^56 */
    static inline uint64_t pf_sevens(uint64_t v)
    {
        v = (v & 0xfffffffull) | (v & 0xfffffff0000000ull) << 4;
        v = (v & 0x00003fff00003fffull) | (v & 0x0fffc0000fffc000ull) << 2;
        return (v & 0x007f007f007f007full) | (v & 0x3f803f803f803f80ull) << 1;
    }
    static inline char *pf_store_low(char *end, uint64_t bytes)
    {
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        bytes = __builtin_bswap64(bytes);
    #endif
        memcpy(end - 8, &bytes, 8);
        return end;
    }
    /* Ends before `end`, overwrites the 8 bytes there; returns its first byte. */
    static inline char *pf_put_varint(char *end, uint64_t v)
    {
        const uint64_t more = 0x8080808080808080ull;
        int n;
        if (v < 128) {
            *--end = (char)v;
            return end;
        }
        if (v >> 63) {
            *--end = 1;
            *--end = (char)(v >> 56 | 128);
        } else if (v >> 56) {
            *--end = (char)(v >> 56);
        }
        if (v >> 56)
            return pf_store_low(end, pf_sevens(v & 0xffffffffffffffull) | more) - 8;
        n = ((64 - __builtin_clzll(v)) * 9 + 64) >> 6;
        v = pf_sevens(v) | (more & ((1ull << 8 * (n - 1)) - 1));
        return pf_store_low(end, v << (64 - 8 * n)) - n;
    }
    /* field < 2048, a constant */
    static inline __attribute__((always_inline)) char *
    pf_put_number(char *end, uint32_t field, uint64_t v)
    {
        if (v == 0)
            return end;
        end = pf_put_varint(end, v);
        if (field > 15)
            *--end = (char)(field >> 4);
        *--end = (char)(field << 3 | (field > 15 ? 128 : 0));
        return end;
    }
    static inline char *pf_put_cpu(char *end, uint32_t field)
    {
        end -= 5;
        memcpy(end, "\\0\\3cpu", 5);
        end[0] = (char)(field << 3 | 2);
        return end;
    }
    static inline int64_t pf_clock_ns(clockid_t id)
    {
        struct timespec t;
        clock_gettime(id, &t);
        return t.tv_sec * 1000000000ll + t.tv_nsec;
    }
    /* Of a few readings the one least disturbed, or the first within a quarter microsecond. */
    static inline int64_t pf_wall_minus_monotonic(void)
    {
        int64_t found = 0, width = INT64_MAX;
        for (int k = 0; k < 5 && width > 250; k++) {
            int64_t before = pf_clock_ns(CLOCK_MONOTONIC), wall = pf_clock_ns(CLOCK_REALTIME);
            int64_t after = pf_clock_ns(CLOCK_MONOTONIC);
            if (after - before < width) {
                width = after - before;
                found = wall - before - width / 2;
            }
        }
        return found;
    }
    """
    const char* pf_stream_names[3]
    char* pf_put_varint(char* end, uint64_t v) noexcept nogil
    char* pf_put_number(char* end, uint32_t field, uint64_t v) noexcept nogil
    char* pf_put_cpu(char* end, uint32_t field) noexcept nogil
    int64_t pf_wall_minus_monotonic() noexcept nogil

cdef enum:
    NODE_ROOM = 600             # bytes of a NodeExecStats without its texts, outputs and turns
    OUTPUT_ROOM = 320           # of an output of ten dimensions
    TURN_ROOM = 40
    USUAL_BYTES = 320           # of a NodeExecStats; the buffer grows where it is more

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
    if used > 0:
        memcpy(grown + size - used, w.at, used)
    free(w.begin)
    w.begin = grown
    w.end = grown + size
    w.at = w.end - used
    return True

cdef inline void put_varint(Wire* w, uint64_t v) noexcept nogil:
    w.at = pf_put_varint(w.at, v)

cdef inline void put_number(Wire* w, uint32_t field, uint64_t v) noexcept nogil:
    w.at = pf_put_number(w.at, field, v)

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

# ---------------------------------------------------------------- texts
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

cdef bint put_turns(StatsWriter* s, const pf_record* r) noexcept nogil:
    """" [frame:outermost.innermost]"."""
    cdef const PlanNames* names = names_of(s, r)
    cdef const FrameNames* frames = names.frames
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
    put_bytes(&s.w, names.text + frames[r.frame].name, frames[r.frame].name_len)
    put_bytes(&s.w, b" [", 2)
    return True

# ---------------------------------------------------------------- a kernel
cdef bint list_outputs(StatsWriter* s, const Span* span) noexcept nogil:
    """The output records behind a kernel's, perhaps in its lane's next chunk."""
    cdef int32_t k = span.chunk, i = span.index + 1
    cdef const pf_record_out** grown
    s.n_outs = 0
    while True:
        if i == s.chunks[k].n:
            if k + 1 == s.n_chunks or s.chunks[k + 1].lane != s.chunks[k].lane:
                return True
            k += 1
            i = 0
            continue
        if s.chunks[k].records[i].kind < PF_TR_OUTPUT:
            return True
        if s.n_outs == s.outs_room:
            s.outs_room = s.outs_room * 2 + 16
            grown = <const pf_record_out**>realloc(s.outs, sizeof(void*) * s.outs_room)
            if grown == NULL:
                return False
            s.outs = grown
        s.outs[s.n_outs] = <const pf_record_out*>&s.chunks[k].records[i]
        s.n_outs += 1
        i += 1

cdef void put_allocator(Wire* w, uint32_t field, uint32_t memory) noexcept nogil:
    """By DLPack device type: "cpu" for the host's."""
    cdef int64_t before = w.end - w.at
    if memory <= 1:
        w.at = pf_put_cpu(w.at, field)
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
    inner = w.end - w.at
    if o.ndim != 255:
        if more != NULL:
            put_dims(w, more, 5)
        put_dims(w, o, 0)
    put_length(w, 2, w.end - inner)     # scalars' and handles' too: TensorBoard fails without
    put_number(w, 1, <uint32_t>o.type)
    put_length(w, 3, w.end - out)
    put_number(w, 1, <uint32_t>o.slot)
    put_length(w, 7, w.end - out)

cdef void put_outputs(StatsWriter* s, const pf_record* r) noexcept nogil:
    """Outputs of all; memory of kernels only: what routes passes on what another has allocated."""
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
    if s.n_outs and names_of(s, r).instrs[r.instr].calls:
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
    cdef const NodeNames* node = node_of(s, r)
    cdef const char* text = names_of(s, r).text + node.label
    cdef int64_t n = node.label_len, name = node.name_len
    cdef int64_t inputs = name + 3 + node.op_len, before = w.end - w.at
    if r.kind == PF_TR_BLOCK:
        put_bytes(w, text + inputs, n - inputs)
        put_decimal(w, r.n_out)
        put_bytes(w, b" = block_of_", 12)
    elif r.frame > 0:
        put_bytes(w, text + name, n - name)
    else:
        put_text(w, 8, text, n)
        return True
    if r.frame > 0 and not put_turns(s, r):
        return False
    put_bytes(w, text, name)
    put_length(w, 8, w.end - before)
    return True

cdef int64_t node_room(const StatsWriter* s, const pf_record* r) noexcept nogil:
    cdef const PlanNames* names = names_of(s, r)
    return (NODE_ROOM + 2 * node_of(s, r).label_len + names.frames[r.frame].name_len
            + <int64_t>names.n_frames * TURN_ROOM + s.n_outs * OUTPUT_ROOM)

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
    put_text(w, 1, names_of(s, r).text + node_of(s, r).label, node_of(s, r).name_len)
    put_length(w, 2, w.end - before)
    return True

# ---------------------------------------------------------------- the message
cdef bint put_threads(StatsWriter* s, LaneName* lanes, int32_t n, const DeviceName* d) noexcept nogil:
    """The names of the threads that worked for a device."""
    cdef Wire* w = &s.w
    cdef int64_t k, before
    for k in range(n):
        lanes[k].seen = 0
    for k in range(d.end - d.n_spans, d.end):
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

cdef bint put_device_stats(StatsWriter* s, LaneName* lanes, int32_t n,
                           const DeviceName* d) noexcept nogil:
    """A DeviceStepStats."""
    cdef int64_t before = s.w.end - s.w.at, k
    if not put_threads(s, lanes, n, d):
        return False
    for k in range(d.end - 1, d.end - d.n_spans - 1, -1):
        if not put_node(s, &s.spans[k], lanes[record_of(s, &s.spans[k]).lane].thread):
            return False
    if not make_room(&s.w, NODE_ROOM + d.node.len):
        return False
    put_device(&s.w, d)
    put_length(&s.w, 1, s.w.end - before)
    return True

cdef bint put_stats(StatsWriter* s, LaneName* lanes, int32_t n) noexcept nogil:
    """A RunMetadata of all that was recorded; empty if nothing was."""
    cdef int32_t d
    if not list_all(s) or not make_room(&s.w, s.n_spans * USUAL_BYTES + NODE_ROOM):
        return False
    for d in range(s.n_devices - 1, -1, -1):
        if not put_device_stats(s, lanes, n, &s.devices[d]):
            return False
    if s.n_devices:
        put_length(&s.w, 1, s.w.end)
    return True

cdef list known_lanes = []              # a lane stays with its thread: asked for when there are more

@cython.final
cdef class StepStats:
    """The steps of a trace, which are over, as TensorFlow's StepStats.

    names_of(): [(thread id, name in UTF-8)] by lane.
    """
    cdef Records records
    cdef list texts, lanes              # texts: PlanTexts by step
    cdef int64_t tick0, ns0, to_wall
    cdef double rate

    def __cinit__(self, Trace trace, names_of):
        global known_lanes
        cdef int32_t k
        cdef int64_t ticks, ns
        pf_trace_clock(&ticks, &ns)
        self.to_wall = pf_wall_minus_monotonic()
        self.tick0, self.ns0, self.rate = trace.ticks, trace.ns, 1.0
        if ticks > trace.ticks:
            self.rate = <double>(ns - trace.ns) / <double>(ticks - trace.ticks)
        if len(known_lanes) < pf_trace_lanes(NULL, 0):
            known_lanes = names_of()
        self.records, self.lanes = trace.records, known_lanes
        self.texts = [names_of_plan(traced_plan(trace.plans, trace.t.steps[k].plan))
                      for k in range(trace.t.n_steps)]

    def write(self, message):
        """Adds them to a RunMetadata."""
        message.MergeFromString(self.encode())

    def encode(self):
        """A serialized RunMetadata with the StepStats, empty if there are no kernels."""
        cdef StatsWriter s
        cdef LaneName* lanes = NULL
        cdef int32_t n = <int32_t>len(self.lanes)
        cdef bint fits
        memset(&s, 0, sizeof(s))
        try:
            self.begin(&s)
            lanes = self.lane_names()
            with nogil:
                fits = put_stats(&s, lanes, n)
            if not fits:
                raise MemoryError()
            return PyBytes_FromStringAndSize(s.w.at, s.w.end - s.w.at)
        finally:
            free(lanes)
            free_stats(&s)

    cdef int begin(self, StatsWriter* s) except -1:
        cdef int32_t k
        s.t = self.records.t
        s.tick0, s.ns0, s.to_wall, s.rate = self.tick0, self.ns0, self.to_wall, self.rate
        s.steps = <const PlanNames**>malloc(sizeof(void*) * (len(self.texts) + 1))
        if s.steps == NULL:
            raise MemoryError()
        for k in range(<int32_t>len(self.texts)):
            s.steps[k] = &(<PlanTexts>self.texts[k]).names
        return 0

    cdef LaneName* lane_names(self) except NULL:
        """Their texts are the list's."""
        cdef int32_t k
        cdef bytes name
        cdef LaneName* lanes = <LaneName*>calloc(len(self.lanes) + 1, sizeof(LaneName))
        if lanes == NULL:
            raise MemoryError()
        for k in range(<int32_t>len(self.lanes)):
            lanes[k].thread, name = self.lanes[k]
            lanes[k].name = name
            lanes[k].len = len(name)
        return lanes
