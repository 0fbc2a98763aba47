"""Part of api.pyx: traces of steps, and the tables their records refer to."""

# ---------------------------------------------------------------- traces
@cython.final
cdef class Records:
    """What a Trace recorded, for its readers: the last of them frees it."""
    cdef pf_trace* t

    def __dealloc__(self):
        pf_trace_free(self.t)

@cython.final
cdef class Trace:
    """Collects what ran when in the steps it is given to (`Plan.run(..., trace=t)`).

    level: 1 a record per block, 2 per kernel, with the outputs of what is more than routing, 3 with all outputs.
    max_records bounds the memory (64 bytes each); what does not fit is counted.  Read it with `take` when its steps are
    over.
    """
    cdef pf_trace* t                    # of `records`
    cdef Records records
    cdef dict plans
    cdef int64_t ticks, ns
    cdef object __weakref__

    def __cinit__(self, int level=3, int64_t max_records=1 << 20):
        self.records = Records.__new__(Records)
        self.t = self.records.t = pf_trace_new(level, max_records)
        if self.t == NULL:
            raise MemoryError()
        self.plans = {}
        pf_trace_clock(&self.ticks, &self.ns)

    def take(self):
        """The records so far, as a dict: `records` (bytes, 64 per record, in order per lane), `steps` [(plan, id, start, end,
        lane, status)] with times in ticks, `dropped`, `clock` (ticks, ns, ticks, ns): two readings of both clocks, at the
        beginning and now."""
        cdef pf_trace_chunk* c = self.t.chunks
        cdef int64_t ticks, ns
        cdef Py_ssize_t size = 0
        cdef int32_t k
        cdef bytes records
        cdef char* end
        pf_trace_clock(&ticks, &ns)
        while c != NULL:
            size += c.n * <Py_ssize_t>sizeof(pf_record)
            c = c.next
        records = PyBytes_FromStringAndSize(NULL, size)
        end = <char*>records + size
        c = self.t.chunks                   # newest first
        while c != NULL:
            end -= c.n * sizeof(pf_record)
            memcpy(end, c.records, c.n * sizeof(pf_record))
            c = c.next
        steps = []
        for k in range(self.t.n_steps):
            s = self.t.steps + k
            steps.append((self.plans.get(<uintptr_t>s.plan), s.id, s.start, s.end, s.lane, s.status))
        return dict(records=records, steps=steps, dropped=pf_a64_load(&self.t.dropped),
                    clock=(self.ticks, self.ns, ticks, ns))

def trace_lanes():
    """[(thread number of the system, its name)]: the threads that wrote records so far, by lane."""
    cdef int32_t k, n = pf_trace_lanes(NULL, 0)
    cdef pf_trace_lane* lanes = <pf_trace_lane*>calloc(n + 1, sizeof(pf_trace_lane))
    if lanes == NULL:
        raise MemoryError()
    n = min(n, pf_trace_lanes(lanes, n))
    out = [(lanes[k].thread, lanes[k].name.decode("utf-8", "replace")) for k in range(n)]
    free(lanes)
    return out

cdef dict trace_table(pf_plan* p):
    """nodes [(name, op, device)]; instr_node, instr_kind: arrays; frames [(parent, name, inlined)]."""
    cdef uint32_t k
    cdef cnp.ndarray node_of = np.empty(p.n_instrs, np.uint32)
    cdef cnp.ndarray kind_of = np.empty(p.n_instrs, np.uint8)
    for k in range(p.n_instrs):
        (<uint32_t*>cnp.PyArray_DATA(node_of))[k] = p.instrs[k].node
        (<uint8_t*>cnp.PyArray_DATA(kind_of))[k] = p.instrs[k].kind
    return dict(nodes=[(text_of(p.nodes[k].name), text_of(p.nodes[k].op), text_of(p.nodes[k].device))
                       for k in range(p.n_nodes)],
                instr_node=node_of, instr_kind=kind_of,
                frames=[(p.frames[k].parent, text_of(p.frames[k].name), p.frames[k].inlined) for k in range(p.n_frames)])
