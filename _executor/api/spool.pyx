# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Records of many traces in one file, as they come.  PYFLOW_TRACE's while it runs;
what the file holds is said in pyflow/session/trace_file.py.

Invariants
1. The buffer is handed to the system when it is full or `flush` is called: a frame may lie in the
   file in part, until the next.
2. The GIL is not held while the system writes; callers take turns by a lock of theirs.
"""
cimport cython
from look_h cimport *
from pyflow._executor.plans cimport Plan, traced_plan
from pyflow._executor.steps cimport Trace

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int, const void*, size_t)

cdef extern from "<errno.h>" nogil:
    int errno, EINTR

cdef enum:
    SPOOL_BYTES = 1 << 18
    STEP_TEXT = 160             # of one step's numbers

cdef int64_t last_serial        # the GIL's

cdef extern from *:
    """
    #define PF_STEP_FORMAT "[%lld,%lld,%lld,%lld,%d,%d],"
    #define PF_FRAME_FORMAT "],\\"clock\\":[%lld,%lld,%lld,%lld]," \\
                            "\\"dropped\\":%lld,\\"bytes\\":%lld}\\n"
    """
    const char* PF_STEP_FORMAT
    const char* PF_FRAME_FORMAT

@cython.final
cdef class Spool:
    """Appends to a file descriptor, which stays the caller's.  OSError: it cannot be written."""
    cdef int fd
    cdef char* buffer
    cdef int64_t used
    cdef dict plans                     # serial of a plan -> its number in this file
    cdef readonly int64_t written       # bytes so far

    def __cinit__(self, int fd):
        self.fd = fd
        self.buffer = <char*>malloc(SPOOL_BYTES)
        if self.buffer == NULL:
            raise MemoryError()
        self.plans = {}

    def __dealloc__(self):
        free(self.buffer)

    def flush(self):
        cdef int64_t done = 0, n = 0
        with nogil:
            while done < self.used and (n >= 0 or errno == EINTR):
                n = write(self.fd, self.buffer + done, self.used - done)
                done += max(n, <int64_t>0)
        self.used -= done
        if self.used > 0:
            memmove(self.buffer, self.buffer + done, self.used)
            raise OSError(errno, "cannot write the trace")

    cdef int make_room(self, int64_t n) except -1:
        if self.used + n > SPOOL_BYTES:
            self.flush()
        return 0

    cdef int append(self, const char* data, int64_t n) except -1:
        cdef int64_t part
        self.written += n
        while n > 0:
            self.make_room(min(n, <int64_t>SPOOL_BYTES))
            part = min(n, SPOOL_BYTES - self.used)
            memcpy(self.buffer + self.used, data, part)
            self.used += part
            data += part
            n -= part
        return 0

    def put(self, bytes line):
        """Appends a line as it is."""
        self.append(line, len(line))

    def add(self, Trace trace, describe):
        """The steps of a trace, which are over.  describe(plan): the line before its first step."""
        cdef int32_t k
        cdef list plans = [self.number_of(traced_plan(trace.plans, trace.t.steps[k].plan), describe)
                           for k in range(trace.t.n_steps)]
        cdef const pf_trace_chunk** chunks = chunks_of(trace.t)
        try:
            self.put_head(trace, plans)
            for k in range(trace.t.n_chunks):
                self.append(<const char*>chunks[k].records,
                            chunks[k].n * <int64_t>sizeof(pf_record))
        finally:
            free(chunks)

    cdef object number_of(self, Plan plan, describe):
        global last_serial
        if plan.serial == 0:
            last_serial += 1
            plan.serial = last_serial
        number = self.plans.get(plan.serial)
        if number is None:
            self.put(describe(plan))
            number = self.plans[plan.serial] = len(self.plans)
        return number

    cdef int put_head(self, Trace trace, list plans) except -1:
        """The line about the records that follow."""
        cdef char text[STEP_TEXT + 200]
        cdef int64_t ticks, ns, size = 0
        cdef pf_trace_step* s
        cdef pf_trace_chunk* c = trace.t.chunks
        cdef int32_t k
        while c != NULL:
            size += c.n * <int64_t>sizeof(pf_record)
            c = c.next
        self.append(b'{"steps":[', 10)
        for k in range(trace.t.n_steps):
            s = trace.t.steps + k
            snprintf(text, sizeof(text), PF_STEP_FORMAT, <long long>plans[k], <long long>s.id,
                     <long long>s.start, <long long>s.end, s.lane, s.status)
            self.append(text, strlen(text) - (k + 1 == trace.t.n_steps))
        pf_trace_clock(&ticks, &ns)
        snprintf(text, sizeof(text), PF_FRAME_FORMAT, <long long>trace.ticks, <long long>trace.ns,
                 <long long>ticks, <long long>ns, <long long>pf_a64_load(&trace.t.dropped),
                 <long long>size)
        return self.append(text, strlen(text))

cdef const pf_trace_chunk** chunks_of(const pf_trace* t) except NULL:
    """Oldest first."""
    cdef const pf_trace_chunk** out
    cdef const pf_trace_chunk* c = t.chunks
    cdef int32_t k = t.n_chunks
    out = <const pf_trace_chunk**>malloc(sizeof(void*) * (k + 1))
    if out == NULL:
        raise MemoryError()
    while c != NULL and k > 0:
        k -= 1
        out[k] = c
        c = c.next
    return out
