# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Traces: records of what ran when, and the second copy of the instruction loop that writes them.

Invariants
1. Untraced steps never come here: exec.pyx picks `pf_run_range_traced` once per block, frames.pyx
   once per loop.  It runs instructions one by one through `pf_run_range`, so both agree.
2. A thread writes records into a chunk of its own, remembered beside the id of the trace; taking a
   chunk is the only thing that locks.
3. After a block, a call or a frame was handed over (PF_RUN_PENDING), its step may end on another
   thread at any moment: what is to be recorded about it was recorded before.
4. Readers come when the steps of the trace are over: pf_step_run returned.

Threads: any.

    t = pf_trace_new(PF_TRACE_FULL, 1 << 20)
    options.trace = t;  pf_step_run(plan, args, rets, &options, &err);  pf_trace_free(t)
"""
from look_h cimport *

cdef extern from *:
    """
    #include <pthread.h>
    #if defined(__linux__)
    #include <sys/syscall.h>
    #include <unistd.h>
    #endif
    #if defined(__GLIBC__) && defined(__linux__)
    #define PF_TRACE_TLS __attribute__((tls_model("initial-exec")))
    #else
    #define PF_TRACE_TLS
    #endif
    int32_t pf_ticks_from_tsc;
    static inline void pf_use_tsc(void) { pf_ticks_from_tsc = 1; }
    typedef struct { uint64_t trace; pf_trace_chunk *chunk; int32_t lane; } pf_trace_tls;
    static PF_TRACE_TLS _Thread_local pf_trace_tls pf_my_trace = {0, NULL, -1};
    static inline pf_trace_tls *pf_trace_mine(void) { return &pf_my_trace; }
    static inline int64_t pf_thread_number(void) {
    #if defined(__linux__)
      return syscall(SYS_gettid);
    #else
      return 0;
    #endif
    }
    static inline void pf_thread_name(char *out) {
      out[0] = 0;
    #if defined(__GLIBC__) && defined(__linux__)
      pthread_getname_np(pthread_self(), out, 16);
    #endif
    }
    """
    ctypedef struct pf_trace_tls:
        uint64_t trace
        pf_trace_chunk* chunk
        int32_t lane
    pf_trace_tls* pf_trace_mine() noexcept nogil
    int64_t pf_thread_number() noexcept nogil
    void pf_thread_name(char*) noexcept nogil
    void pf_use_tsc() noexcept nogil

cdef pf_a64 trace_ids
cdef pf_a32 lanes_lock
cdef pf_trace_lane* lanes                     # lanes_lock; kept until the process ends
cdef int32_t n_lanes, lanes_room
cdef pf_a32 cache_lock
cdef pf_trace_chunk* cached_chunks            # cache_lock
cdef int32_t n_cached
cdef pf_a32 clock_chosen
cdef pf_a64 closest_pair                      # ticks between the two readings around a clock's

# ---------------------------------------------------------------- life
cdef public pf_trace* pf_trace_new(int32_t level, int64_t max_records) noexcept nogil:
    cdef pf_trace* t = <pf_trace*>calloc(1, sizeof(pf_trace))
    if t == NULL:
        return NULL
    if pf_a32_cas(&clock_chosen, 0, 1) and pf_tsc_is_invariant():
        pf_use_tsc()
    t.id = <uint64_t>pf_a64_add_rlx(&trace_ids, 1) + 1
    t.level = level
    t.max_chunks = <int32_t>min(max(max_records // PF_CHUNK_RECORDS, <int64_t>1) + 1, <int64_t>1 << 30)
    return t

cdef pf_trace_chunk* chunk_new() noexcept nogil:
    global cached_chunks, n_cached
    cdef pf_trace_chunk* c
    pf_spin_lock(&cache_lock)
    c = cached_chunks
    if c != NULL:
        cached_chunks = c.next
        n_cached -= 1
    pf_spin_unlock(&cache_lock)
    if c == NULL:
        c = <pf_trace_chunk*>malloc(sizeof(pf_trace_chunk))
    if c != NULL:
        c.n = 0
        c.next = NULL
    return c

cdef void chunk_free(pf_trace_chunk* c) noexcept nogil:
    global cached_chunks, n_cached
    pf_spin_lock(&cache_lock)
    if n_cached < PF_CHUNK_CACHE:
        c.next = cached_chunks
        cached_chunks = c
        n_cached += 1
        c = NULL
    pf_spin_unlock(&cache_lock)
    free(c)

cdef public void pf_trace_free(pf_trace* t) noexcept nogil:
    cdef pf_trace_chunk* c
    cdef pf_trace_chunk* next
    if t == NULL:
        return
    c = t.chunks
    while c != NULL:
        next = c.next
        chunk_free(c)
        c = next
    free(t.steps)
    free(t)

cdef public int32_t pf_trace_lanes(pf_trace_lane* out, int32_t room) noexcept nogil:
    cdef int32_t n
    pf_spin_lock(&lanes_lock)
    n = n_lanes
    if room > 0 and n > 0:
        memcpy(out, lanes, sizeof(pf_trace_lane) * <size_t>min(n, room))
    pf_spin_unlock(&lanes_lock)
    return n

cdef public void pf_trace_clock(int64_t* ticks, int64_t* ns) noexcept nogil:
    """A pair read within one scheduling quantum: of a few the closest, or the first that is about as
    close as any has been."""
    cdef int64_t before, after, at, best = 0, known = pf_a64_load_rlx(&closest_pair)
    cdef int32_t k
    for k in range(5):
        before = pf_ticks()
        at = pf_now_ns()
        after = pf_ticks()
        if k == 0 or after - before < best:
            best = after - before
            ticks[0] = before + (after - before) // 2
            ns[0] = at
        if best <= known + known // 2:
            break
    if known == 0 or best < known:
        pf_a64_store_rlx(&closest_pair, best)

# ---------------------------------------------------------------- records
cdef int32_t new_lane() noexcept nogil:
    """A number for this thread; when all are taken, or memory is, the last one is shared."""
    global n_lanes, lanes, lanes_room
    cdef int32_t lane
    cdef void* more
    pf_spin_lock(&lanes_lock)
    lane = n_lanes
    if lane == lanes_room and lane < PF_MAX_TRACE_LANES:
        more = realloc(lanes, sizeof(pf_trace_lane) * <size_t>(2 * lane + 16))
        if more != NULL:
            lanes = <pf_trace_lane*>more
            lanes_room = 2 * lane + 16
    if lane < min(lanes_room, PF_MAX_TRACE_LANES):
        lanes[lane].thread = pf_thread_number()
        pf_thread_name(lanes[lane].name)
        n_lanes += 1
    else:
        lane = max(lane - 1, 0)
    pf_spin_unlock(&lanes_lock)
    return lane

cdef pf_trace_chunk* take_chunk(pf_trace* t) noexcept nogil:
    """A chunk with room for this thread: the one it had in this trace, or a new one; NULL: full."""
    cdef pf_trace_tls* me = pf_trace_mine()
    cdef pf_trace_chunk* c
    if me.lane < 0:
        me.lane = new_lane()
    pf_spin_lock(&t.lock)
    c = t.chunks
    while c != NULL and c.lane != me.lane:
        c = c.next
    if c == NULL or c.n == PF_CHUNK_RECORDS:
        c = NULL
        if t.n_chunks < t.max_chunks:
            c = chunk_new()
            if c != NULL:
                c.lane = me.lane
                c.next = t.chunks
                t.chunks = c
                t.n_chunks += 1
    pf_spin_unlock(&t.lock)
    me.trace = t.id if c != NULL else 0
    me.chunk = c
    return c

cdef inline pf_record* new_record(pf_trace* t) noexcept nogil:
    cdef pf_trace_tls* me = pf_trace_mine()
    cdef pf_trace_chunk* c = me.chunk
    cdef pf_record* r
    if me.trace != t.id or c.n == PF_CHUNK_RECORDS:
        c = take_chunk(t)
        if c == NULL:
            pf_a64_add_rlx(&t.dropped, 1)
            return NULL
    r = &c.records[c.n]
    c.n += 1
    r.lane = <uint16_t>me.lane
    return r

cdef inline void add_output(pf_trace* t, int32_t slot, DLTensor* d) noexcept nogil:
    cdef pf_tensor* v = pf_tensor_of(d)
    cdef pf_record_out* r = <pf_record_out*>new_record(t)
    cdef int32_t k
    if r == NULL:
        return
    r.kind = PF_TR_OUTPUT
    r.slot = slot
    r.type = v.type
    r.bytes = v.nbytes
    r.ndim = <uint8_t>d.ndim
    r.memory = <uint32_t>d.device.device_type
    if v.flags & PF_T_HANDLE:
        r.ndim = 255
    else:
        for k in range(min(d.ndim, 5)):
            r.dims[k] = d.shape[k]
        if d.ndim > 5:
            more_dims(t, d)

cdef void more_dims(pf_trace* t, DLTensor* d) noexcept nogil:
    cdef pf_record_out* r = <pf_record_out*>new_record(t)
    cdef int32_t k
    if r == NULL:
        return
    r.kind = PF_TR_MORE
    r.ndim = <uint8_t>d.ndim
    r.slot = 0
    for k in range(5, min(d.ndim, 10)):
        r.dims[k - 5] = d.shape[k]

cdef bint makes_values(const pf_instr* ins) noexcept nogil:
    return ins.kind <= PF_I_CONST or ins.kind == PF_I_SWITCH or ins.kind == PF_I_MERGE

cdef void add_outputs(pf_trace* t, pf_record* r, pf_slab* s, const pf_instr* ins) noexcept nogil:
    cdef uint32_t k
    cdef DLTensor* d
    if not makes_values(ins) or (t.level < PF_TRACE_FULL and ins.kind > PF_I_CALL0):
        return
    for k in range(ins.n_out):
        d = s.slots[ins.out_slot + k]
        if pf_alive(d):
            add_output(t, <int32_t>k, d)
            r.n_out += 1

cdef inline uint32_t live_blocks() noexcept nogil:
    return <uint32_t>min(max(pf_mem_in_use(), <int64_t>0) >> 6, <int64_t>0xffffffff)

cdef inline uint32_t turn_of(pf_call* c) noexcept nogil:
    return <uint32_t>(c.turn if c.loop != NULL else c.slab.iter if c.slab.frame != NULL else 0)

cdef inline uint16_t frame_of(pf_call* c) noexcept nogil:
    cdef const pf_frame_def* f = c.loop if c.loop != NULL else c.slab.def_
    return <uint16_t>(f - c.plan.frames)

cdef inline pf_record* call_record(pf_call* c, const pf_instr* ins, uint8_t kind, int64_t ready,
                                   int64_t start, int64_t end) noexcept nogil:
    cdef pf_record* r = new_record(c.step.trace)
    cdef const pf_device_entry* home = ins.about.home
    if r == NULL:
        return NULL
    r.ready = ready
    r.start = start
    r.end = end
    r.back = 0
    r.flags = 0
    if home != NULL and (kind == PF_TR_KERNEL or kind == PF_TR_LAUNCH):
        r.back = pf_a64_load_rlx(&home.in_use)
        r.flags = PF_TR_OWN_MEMORY
    r.path = c.iter
    r.turn = turn_of(c)
    r.in_use = live_blocks()
    r.instr = <uint32_t>(ins - c.plan.instrs)
    r.step = c.step.trace_step
    r.kind = kind
    r.frame = frame_of(c)
    r.n_out = 0
    return r

# ---------------------------------------------------------------- the traced loop
cdef public int32_t pf_run_range_traced(pf_call* c, uint32_t begin, uint32_t end,
                                        uint32_t stamp) noexcept nogil:
    """pf_run_range with a record per instruction; stamp: when the block became ready, 0: now."""
    cdef pf_trace* t = c.step.trace
    cdef const pf_instr* ins
    cdef pf_record* rec
    cdef uint32_t i
    cdef int32_t r
    cdef int64_t start = pf_ticks(), now, before
    cdef int64_t ready = pf_ready_tick(stamp, start) if stamp else start
    if t.level <= PF_TRACE_BLOCKS and end - begin > 1:
        return whole_range(c, begin, end, ready, start)
    for i in range(begin, end):
        ins = c.plan.instrs + i
        before = c.worker.kernels
        c.recorded = 0
        c.t_ready = ready
        c.t_start = start
        c.t_done = 0
        c.mark = NULL
        if ins.kind <= PF_I_CALL0 and ins.about.dev != NULL and ins.about.dev.stream != NULL:
            c.mark = pf_trace_enqueue(c, ins.about.dev, PF_STREAM_COMPUTE)
        r = pf_run_range(c, i, i + 1)
        if r == PF_RUN_PENDING:
            return r
        if c.mark != NULL:
            end_mark(c, ins)
        if c.worker.kernels == before and r == PF_RUN_OK:
            continue                # dead: it did not run
        now = pf_ticks()
        if ins.kind == PF_I_LOOP:
            rec = call_record(c, ins, PF_TR_LOOP, ready, start, now)
            if rec != NULL:
                rec.frame = <uint16_t>ins.aux
        elif not c.recorded:
            rec = call_record(c, ins, PF_TR_KERNEL, ready, start, now)
            if rec != NULL:
                if r != PF_RUN_OK:
                    rec.flags |= PF_TR_FAILED
                elif t.level > PF_TRACE_BLOCKS:
                    add_outputs(t, rec, c.slab, ins)
        if r != PF_RUN_OK:
            return r
        start = now
        ready = now
    return PF_RUN_OK

cdef int32_t whole_range(pf_call* c, uint32_t begin, uint32_t end, int64_t ready,
                         int64_t start) noexcept nogil:
    """Coarser: one record for a block of several instructions; an inner loop's bodies have their own."""
    cdef int32_t r
    cdef pf_record* rec
    r = pf_run_range(c, begin, end)
    if r == PF_RUN_PENDING:
        return r
    rec = call_record(c, c.plan.instrs + begin, PF_TR_BLOCK, ready, start, pf_ticks())
    if rec != NULL:
        rec.n_out = <uint16_t>min(end - begin, <uint32_t>65535)
        rec.flags = PF_TR_FAILED if r != PF_RUN_OK else 0
    return r

# ---------------------------------------------------------------- asynchronous calls, loops, posts
cdef public void pf_trace_launched(pf_call* c) noexcept nogil:
    c.recorded = 1
    if c.mark != NULL:
        end_mark(c, c.instr)
    if not pf_runs_slowly(c.instr.about):
        call_record(c, c.instr, PF_TR_LAUNCH, c.t_ready, c.t_start, pf_ticks())

cdef public void pf_trace_ran(pf_call* c, int64_t start) noexcept nogil:
    call_record(c, c.instr, PF_TR_LAUNCH, c.t_ready, start, pf_ticks())

cdef public void pf_trace_completed(pf_call* c) noexcept nogil:
    cdef pf_record* r = call_record(c, c.instr, PF_TR_ASYNC, c.t_ready, c.t_start, pf_ticks())
    if r == NULL:
        return
    r.back = c.t_done if c.t_done else r.end
    if c.status != PF_OK:
        r.flags = PF_TR_FAILED
    elif c.step.trace.level > PF_TRACE_BLOCKS:
        add_outputs(c.step.trace, r, c.slab, c.instr)

cdef public void pf_trace_span(pf_step* s, int32_t kind, uint32_t instr, const void* frame_def,
                               int64_t path, int64_t start) noexcept nogil:
    """Something of a step that is no instruction's: a loop in slabs, a post."""
    cdef pf_record* r = new_record(s.trace)
    if r == NULL:
        return
    r.ready = start
    r.start = start
    r.end = pf_ticks()
    r.back = 0
    r.path = path
    r.turn = 0
    r.in_use = live_blocks()
    r.instr = instr
    r.step = s.trace_step
    r.kind = <uint8_t>kind
    r.flags = 0
    r.frame = <uint16_t>(<const pf_frame_def*>frame_def - s.plan.frames)
    r.n_out = 0

# ---------------------------------------------------------------- device streams
cdef public pf_trace_mark* pf_trace_enqueue(pf_call* c, pf_device_entry* d, int32_t stream) noexcept nogil:
    cdef pf_trace_mark* m
    if d.stream == NULL or d.vtable.event_time == NULL:
        return NULL
    m = <pf_trace_mark*>calloc(1, sizeof(pf_trace_mark))
    if m == NULL:
        pf_a64_add_rlx(&c.step.trace.dropped, 1)
        return NULL
    m.owner = c.step
    m.dev = d
    m.stream = d.stream if stream == PF_STREAM_COMPUTE else d.ins if stream == PF_STREAM_IN else d.out
    m.record.ready = pf_now_ns()
    m.record.kind = PF_TR_STREAM
    m.record.n_out = <uint16_t>stream
    if d.vtable.event_record(d.dev, m.stream, &m.begin) != PF_OK:
        free(m)
        return NULL
    return m

cdef public void pf_trace_enqueued(pf_call* c, pf_trace_mark* m) noexcept nogil:
    cdef pf_trace* t = c.step.trace
    cdef pf_device_entry* d = m.dev
    cdef int32_t k = 0
    if d.vtable.event_record(d.dev, m.stream, &m.end) != PF_OK:
        m.end = NULL
    while k < pf_device_count() and pf_device_at(k) != d:
        k += 1
    m.record.back = k
    m.record.path = c.iter
    m.record.turn = turn_of(c)
    m.record.instr = <uint32_t>(c.instr - c.plan.instrs)
    m.record.step = c.step.trace_step
    m.record.frame = frame_of(c)
    pf_spin_lock(&t.lock)
    m.next = t.marks
    t.marks = m
    pf_spin_unlock(&t.lock)

cdef void end_mark(pf_call* c, const pf_instr* ins) noexcept nogil:
    """Behind a kernel's compute: what it enqueued lies between the two events."""
    cdef pf_trace_mark* m = c.mark
    c.mark = NULL
    c.instr = ins
    pf_trace_enqueued(c, m)

cdef pf_trace_mark* take_marks(pf_trace* t, pf_step* s) noexcept nogil:
    """The step's own marks."""
    cdef pf_trace_mark* mine = NULL
    cdef pf_trace_mark* m
    cdef pf_trace_mark** at = &t.marks
    pf_spin_lock(&t.lock)
    while at[0] != NULL:
        m = at[0]
        if m.owner == <void*>s:
            at[0] = m.next
            m.next = mine
            mine = m
        else:
            at = &m.next
    pf_spin_unlock(&t.lock)
    return mine

cdef void resolve_marks(pf_trace* t, pf_step* s) noexcept nogil:
    """The step's streams have drained: when did its work there begin and end?"""
    cdef pf_trace_mark* m = take_marks(t, s)
    cdef pf_trace_mark* next
    cdef pf_record* r
    cdef uint16_t lane
    while m != NULL:
        next = m.next
        if (m.end != NULL and m.dev.vtable.event_time(m.dev.dev, m.begin, &m.record.start) == PF_OK
                and m.dev.vtable.event_time(m.dev.dev, m.end, &m.record.end) == PF_OK):
            r = new_record(t)
            if r != NULL:
                lane = r.lane
                memcpy(r, &m.record, sizeof(pf_record))
                r.lane = lane
        else:
            pf_a64_add_rlx(&t.dropped, 1)
        m.dev.vtable.event_del(m.dev.dev, m.begin)
        if m.end != NULL:
            m.dev.vtable.event_del(m.dev.dev, m.end)
        free(m)
        m = next

# ---------------------------------------------------------------- parallel_for
cdef struct Ranges:
    pf_call* call
    const pf_instr* instr
    pf_range_fn fn
    void* arg
    int64_t n

cdef void run_range(void* arg, int64_t lo, int64_t hi, int32_t worker) noexcept nogil:
    cdef Ranges* f = <Ranges*>arg
    cdef int64_t start = pf_ticks()
    f.fn(f.arg, lo, hi, worker)
    cdef pf_record* r
    if lo == 0 and hi == f.n:
        return                      # undivided: the kernel's own record says it all
    r = call_record(f.call, f.instr, PF_TR_CHUNK, start, start, pf_ticks())
    if r != NULL:
        r.back = hi - lo

cdef public pf_status pf_trace_for(pf_call* c, int64_t n, int64_t grain, pf_range_fn fn,
                                   void* arg) noexcept nogil:
    cdef Ranges f
    f.call = c
    f.instr = c.instr
    f.fn = fn
    f.arg = arg
    f.n = n
    return pf_pool_for(c.step.pool, c.step, pf_for_how(c), n, grain, run_range, &f)

# ---------------------------------------------------------------- steps
cdef public void pf_trace_step_begin(pf_step* s) noexcept nogil:
    cdef pf_trace* t = s.trace
    cdef pf_trace_step* grown
    cdef int32_t room
    pf_spin_lock(&t.lock)
    if t.n_steps == t.steps_room:
        room = t.steps_room * 2 if t.steps_room else 4
        grown = <pf_trace_step*>realloc(t.steps, sizeof(pf_trace_step) * room)
        if grown != NULL:
            t.steps = grown
            t.steps_room = room
    if t.n_steps == t.steps_room:
        s.trace = NULL              # no memory: this step goes untraced
    else:
        s.trace_step = <uint32_t>t.n_steps
        t.steps[t.n_steps].plan = s.plan
        t.steps[t.n_steps].id = s.id
        t.steps[t.n_steps].start = pf_ticks()
        t.steps[t.n_steps].end = 0
        t.steps[t.n_steps].status = 0
        t.n_steps += 1
    pf_spin_unlock(&t.lock)

cdef public void pf_trace_step_end(pf_step* s, pf_status st) noexcept nogil:
    cdef pf_trace* t = s.trace
    cdef pf_trace_tls* me = pf_trace_mine()
    if t.marks != NULL:
        resolve_marks(t, s)
    if me.lane < 0:
        me.lane = new_lane()
    pf_spin_lock(&t.lock)
    t.steps[s.trace_step].end = pf_ticks()
    t.steps[s.trace_step].status = st
    t.steps[s.trace_step].lane = me.lane
    pf_spin_unlock(&t.lock)
    s.trace = NULL
