"""Part of api.pyx: StepStats handed over slice by slice, some of it while the step still runs.

Invariants
1. A slice is small enough to be in the cache when its reader merges it.
2. A device's first slice comes with its name, and with those of the threads that had worked for it
   until then; of several devices that are new at once, in one message.
3. While steps run, the GIL is held for merging alone.
4. Loops three deep are labelled by turns that another thread's record may tell: their steps are
   handed over when they are over.

Threads: one at a time, any.

    stats = StepStats(trace, names_of, inputs_of, merge, merge_more)
    while the step runs: stats.more()
    stats.finish()
"""

cdef enum:
    KEPT_ROOM = 1 << 20         # of a buffer that stays for the next step
    SLICE = 128                 # kernels: about 32 KB

cdef Wire kept                  # the GIL's: the pages of a new buffer would cost as much as the work

cdef inline int64_t first_span(const DeviceName* d) noexcept nogil:
    return d.end - d.n_spans

cdef inline int64_t slice_end(const DeviceName* d, int64_t begin) noexcept nogil:
    return min(d.end, begin + SLICE)

cdef bint put_part(StatsWriter* s, LaneName* lanes, int32_t n_lanes, int32_t device,
                   int64_t begin) noexcept nogil:
    """The slice of a DeviceStepStats at `begin`."""
    cdef DeviceName* d = &s.devices[device]
    if not put_slice(s, lanes, begin, slice_end(d, begin)):
        return False
    return begin > first_span(d) or put_device_head(s, lanes, n_lanes, d)

cdef bint put_new(StatsWriter* s, LaneName* lanes, int32_t n_lanes, int32_t told) noexcept nogil:
    """A RunMetadata of the devices from `told` on, each with its first slice."""
    cdef int32_t d = s.n_devices
    cdef int64_t before
    while d > told:
        d -= 1
        before = s.w.end - s.w.at
        if not put_part(s, lanes, n_lanes, d, first_span(&s.devices[d])):
            return False
        put_length(&s.w, 1, s.w.end - before)
    put_length(&s.w, 1, s.w.end)
    return True

cdef bint knows_turns(const pf_plan* p) noexcept nogil:
    """Does a record know the turns of all loops around it?  See put_turns."""
    cdef uint32_t k
    cdef int32_t outer
    for k in range(p.n_frames):
        outer = p.frames[k].parent
        if outer > 0 and p.frames[outer].parent > 0:
            return False
    return True

@cython.final
cdef class StepStats:
    """The steps of a trace as TensorFlow's StepStats.

    names_of(): [(thread id, name in UTF-8)] by lane, of `trace_lane_count()` lanes.
    inputs_of(plan): node -> names of its inputs.
    merge(data): a serialized RunMetadata of devices that come behind those before it.
    merge_more(number, data): more of the DeviceStepStats of this number.
    """
    cdef Trace trace
    cdef StatsWriter s
    cdef LaneName* lanes
    cdef int32_t n_lanes, n_told, n_labelled
    cdef bint over, waits
    cdef list names
    cdef object names_of, inputs_of, merge, merge_more

    def __cinit__(self, Trace trace, names_of, inputs_of, merge, merge_more):
        self.trace, self.names_of, self.inputs_of = trace, names_of, inputs_of
        self.merge, self.merge_more = merge, merge_more
        self.s.t = trace.t
        self.s.tick0, self.s.ns0 = trace.ticks, trace.ns
        self.s.to_wall = pf_wall_minus_monotonic()

    def __dealloc__(self):
        free_stats(&self.s)
        free(self.lanes)

    def more(self):
        """Hands over what has surely been recorded -> how many kernels.  For steps that run."""
        cdef bint listed
        if self.waits:
            return 0
        self.set_clock()
        with nogil:
            listed = list_all(&self.s, False)
        return self.hand_over(listed)

    def finish(self):
        """Hands over the rest of steps that are over -> how many kernels."""
        self.over = True
        self.set_clock()
        return self.hand_over(list_all(&self.s, True))

    cdef void set_clock(self):
        cdef int64_t ticks, ns
        pf_trace_clock(&ticks, &ns)
        self.s.rate = 1.0
        if ticks > self.s.tick0:
            self.s.rate = <double>(ns - self.s.ns0) / <double>(ticks - self.s.tick0)

    cdef int64_t hand_over(self, bint listed) except -1:
        cdef StatsWriter* s = &self.s
        cdef int32_t d, told = self.n_told
        cdef int64_t k
        if not listed:
            raise MemoryError()
        self.label()
        if self.waits and not self.over:
            return 0
        self.name_lanes()
        if s.w.begin == NULL:
            take_buffer(s)
        if s.n_devices > told:
            self.merge(self.written(-1, 0))
            self.n_told = s.n_devices
        for d in range(s.n_devices):
            k = first_span(&s.devices[d])
            if d >= told:
                k = slice_end(&s.devices[d], k)
            while k < s.devices[d].end:
                self.merge_more(d, self.written(d, k))
                k = slice_end(&s.devices[d], k)
        taken(s)
        return s.n_spans

    cdef int label(self) except -1:
        """Labels for steps that began since the last time."""
        cdef int32_t k
        cdef Plan plan
        for k in range(self.n_labelled, self.s.n_steps):
            plan = self.trace.plans[<uintptr_t>self.s.steps[k].plan]
            if plan.labels is None:
                plan.labels = Labels(plan, self.inputs_of(plan))
            self.s.steps[k].labels = (<Labels>plan.labels).table
            self.waits = self.waits or not knows_turns(plan.p)
            self.n_labelled = k + 1
        return 0

    cdef int name_lanes(self) except -1:
        cdef int32_t k, n = pf_trace_lanes(NULL, 0)
        cdef bytes name
        if n <= self.n_lanes:
            return 0
        self.names = self.names_of()
        n = <int32_t>len(self.names)
        free(self.lanes)
        self.n_lanes = 0
        self.lanes = <LaneName*>calloc(n + 1, sizeof(LaneName))
        if self.lanes == NULL:
            raise MemoryError()
        for k in range(n):
            self.lanes[k].thread, name = self.names[k]
            self.lanes[k].name = name
            self.lanes[k].len = len(name)
        self.n_lanes = n
        return 0

    cdef bytes written(self, int32_t d, int64_t begin):
        """What is to be merged: of a device its slice at `begin`; -1: of all that are new."""
        cdef bint fits
        self.s.w.at = self.s.w.end
        if self.over:
            fits = self.put(d, begin)
        else:
            with nogil:
                fits = self.put(d, begin)
        if not fits:
            raise MemoryError()
        return PyBytes_FromStringAndSize(self.s.w.at, self.s.w.end - self.s.w.at)

    cdef bint put(self, int32_t d, int64_t begin) noexcept nogil:
        if not make_room(&self.s.w, NODE_ROOM):
            return False
        if d < 0:
            return put_new(&self.s, self.lanes, self.n_lanes, self.n_told)
        return put_part(&self.s, self.lanes, self.n_lanes, d, begin)

cdef void take_buffer(StatsWriter* s):
    s.w = kept
    s.w.at = s.w.end
    memset(&kept, 0, sizeof(Wire))

cdef void free_stats(StatsWriter* s):
    if kept.begin == NULL and s.w.end - s.w.begin <= KEPT_ROOM:
        kept.begin, kept.end = s.w.begin, s.w.end
    else:
        free(s.w.begin)
    free(s.parts)
    free(s.spans)
    free(s.spare)
    free(s.devices)
    free(s.outs)
    free(s.turns)
    free(s.steps)

def trace_lane_count():
    """How many threads wrote records so far."""
    return pf_trace_lanes(NULL, 0)
