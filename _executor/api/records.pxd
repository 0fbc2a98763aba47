from look_h cimport *
from pyflow._executor.plans cimport Plan

cdef extern from "<math.h>" nogil:
    long long llrint(double)

cdef extern from *:
    """
    /* of frames.pyx, path_of: path = outer path * golden ratio + turn, mod 2^64 */
    static const uint64_t pf_golden_inverse = 0xF1DE83E19937733Dull;
    """
    const uint64_t pf_golden_inverse

cdef struct NodeNames:
    int64_t label, device       # in the text; the label is "name = Op(inputs)"
    int64_t label_len, name_len, op_len, device_len

cdef struct InstrNames:
    uint32_t node, calls        # calls: a kernel, which may allocate

cdef struct FrameNames:
    int64_t name, name_len
    int32_t parent

cdef struct PlanNames:
    char* text
    NodeNames* nodes
    InstrNames* instrs
    FrameNames* frames
    uint32_t n_frames

cdef struct Wire:
    char* begin
    char* at                    # the text lies in at..end
    char* end

cdef struct Span:               # a kernel's record
    int64_t start               # ns
    int32_t chunk, index, device

cdef struct DeviceName:
    pf_str node                 # as the plan has it; data NULL: `entry`'s
    const pf_device_entry* entry
    int32_t stream              # -1: none
    int64_t n_spans, end        # in the grouped spans

cdef struct TurnOf:             # an open hash table
    int64_t path
    uint32_t step, frame, turn, used

cdef struct LaneName:
    uint32_t thread, seen
    const char* name
    int64_t len

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
    const PlanNames** steps             # by step
    int64_t tick0, ns0, to_wall
    double rate

cdef class PlanTexts:
    cdef PlanNames names

cdef PlanTexts names_of_plan(Plan plan)

cdef inline int64_t ns_of(const StatsWriter* s, int64_t ticks) noexcept nogil:
    return s.ns0 + llrint(<double>(ticks - s.tick0) * s.rate)

cdef inline const pf_record* record_of(const StatsWriter* s, const Span* span) noexcept nogil:
    return &s.chunks[span.chunk].records[span.index]

cdef inline const PlanNames* names_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return s.steps[r.step]

cdef inline const NodeNames* node_of(const StatsWriter* s, const pf_record* r) noexcept nogil:
    return &names_of(s, r).nodes[names_of(s, r).instrs[r.instr].node]

cdef TurnOf* find_turn(const StatsWriter* s, uint32_t step, uint32_t frame, int64_t path) noexcept nogil
cdef bint list_turns(StatsWriter* s) noexcept nogil
cdef bint list_all(StatsWriter* s) noexcept nogil
cdef void free_stats(StatsWriter* s) noexcept nogil
