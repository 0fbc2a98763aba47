"""Part of api.pyx: what the records of a trace refer to, copied out of a plan: names of nodes, with
their inputs and devices, and of loops.  Of all that a plan has, traces that are read later keep this
alone.

Invariants
1. A PlanNames refers to nothing of its plan; the plan keeps it for the next trace.
2. It never changes: any thread may read it, without the GIL.

    names = names_of_plan(plan)     # PlanTexts: about 100 bytes and 50 ns per node, once per plan
"""

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
    cdef PlanNames names

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
