# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""while loops, in two ways.

INLINE: every node is cheap and synchronous.  The body is a range of instructions; an iteration is one pass over it in
the slots of the surrounding slab, with no counters, tokens or atomics.

IN SLABS: the loop holds asynchronous or expensive nodes.  A Frame keeps a ring of `parallel_iterations` slabs; an iteration
starts when the first live token for it arrives and its blocks run as their inputs come, beside older iterations.

    FREE -> ACTIVE  [begin_iteration]  the first live NextIteration token for it, and room in the ring
    ACTIVE -> OVER  [slab_over]        all its blocks ran
    OVER -> FREE    [retire]           in order: the oldest first

A token that arrives while the ring is full is stashed in the slab that sent it, and delivered when the oldest retires; so is one that
arrives while what the loop sends to other tasks finds no room, beyond a few iterations: who reads slowly slows down who sends.
When a slab is over, what it did not send to the next iteration is dead there.  The Frame is over when no slab is active and
nothing is stashed; then its Exits are in the parent's slots (dead where none was live) and the FRAME block is done.

Both ways a loop starts when all its Enters have arrived and delivers its Exits when it ends.

Locks: pf_frame.lock guards oldest, newest, stash, arrived, status.  It is held while tokens are delivered, never while
kernels run.
"""
from step_h cimport *

cdef enum:
    CROWDED = 4                 # iterations under way of a loop whose Sends wait for room

cdef DLTensor* scalar(int32_t x) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_new(PF_INT32, NULL, 0)
    if t == NULL:
        return NULL
    (<int32_t*>t.m.dl_tensor.data)[0] = x
    return pf_dl(t)

cdef inline int64_t path_of(int64_t outer, int64_t iteration) noexcept nogil:
    """One number for the iterations of all loops around: the same in every partition of a step, and, multiples of the golden
    ratio lying far apart, no two alike among 2^31 outer ones with 2^31 inner ones each."""
    return <int64_t>(<uint64_t>outer * <uint64_t>0x9E3779B97F4A7C15ULL + <uint64_t>iteration)

cdef inline void put(DLTensor** slots, uint32_t slot, DLTensor* take) noexcept nogil:
    cdef DLTensor* old = slots[slot]
    slots[slot] = take
    if pf_alive(old):
        pf_dl_unref(old)

cdef DLTensor* entering(pf_slab* outer, const pf_loop_var* v) noexcept nogil:
    """The token of iteration 0, owned."""
    cdef DLTensor* t = outer.slots[v.enter_slot]
    if pf_alive(t):
        if v.take:
            pf_slot_clear(&outer.slots[v.enter_slot])
        else:
            pf_tensor_ref(pf_tensor_of(t))
    return t

# ---------------------------------------------------------------- inline
cdef void enter_loop(pf_slab* s, const pf_frame_def* fd) noexcept nogil:
    cdef int32_t k
    for k in range(fd.n_exits):
        put(s.slots, fd.exits[k], PF_DEAD)
    for k in range(fd.n_vars):
        put(s.slots, fd.vars[k].merge_slot, entering(s, fd.vars + k))
        if fd.vars[k].index_slot != <uint32_t>0xffffffff:
            put(s.slots, fd.vars[k].index_slot, scalar(0))

cdef void disagree(pf_step* s, const pf_frame_def* fd, int32_t var) noexcept nogil:
    """All loop variables go on, or none: else kernels of the next iteration would run without their inputs."""
    if pf_a32_load(&s.cancelled):
        return
    pf_step_failf(s, NULL, PF_INVALID_ARGUMENT, b"loop variable %d of while loop '%.*s' got no value for the next "
                  b"iteration, but others did: every NextIteration has to depend on the loop's condition through "
                  b"its Switch", var, <int>min(fd.name.len, 300), fd.name.data)

cdef bint next_iteration(pf_slab* s, const pf_frame_def* fd) noexcept nogil:
    """Moves the tokens around; False: none is live, the loop is over."""
    cdef int32_t k, dead = -1
    cdef bint live = False
    cdef pf_loop_var* v
    for k in range(fd.n_vars):
        v = fd.vars + k
        if pf_alive(s.slots[v.next_slot]):
            live = True
        else:
            dead = k
        put(s.slots, v.merge_slot, s.slots[v.next_slot])
        s.slots[v.next_slot] = NULL
    if not live:
        return False
    if dead >= 0:
        disagree(s.step, fd, dead)
    for k in range(fd.n_vars):
        if fd.vars[k].index_slot != <uint32_t>0xffffffff:
            put(s.slots, fd.vars[k].index_slot, scalar(1))
    return True

cdef public int32_t pf_run_loop(pf_call* c, const pf_instr* ins) noexcept nogil:
    if c.step.trace != NULL or c.step.inspect != NULL:
        return run_loop(c, ins, True)
    return run_loop(c, ins, False)

cdef inline int32_t run_loop(pf_call* c, const pf_instr* ins, bint traced) noexcept nogil:
    cdef const pf_frame_def* fd = c.plan.frames + ins.aux
    cdef const pf_frame_def* outer_loop = c.loop
    cdef int64_t outer_iter = c.iter, turn = 0, outer_turn = c.turn if traced else 0
    cdef int32_t r
    enter_loop(c.slab, fd)
    c.loop = fd
    while True:
        c.iter = path_of(outer_iter, turn)
        if traced:
            c.turn = turn
            r = (pf_run_range_traced(c, fd.body_begin, fd.body_end, 0) if c.step.inspect == NULL else
                 pf_run_range_inspected(c, fd.body_begin, fd.body_end))
        else:
            r = pf_run_range(c, fd.body_begin, fd.body_end)
        if r:
            return r
        c.worker.kernels += fd.n_vars
        if not next_iteration(c.slab, fd):
            break
        turn += 1
        if pf_a32_load_rlx(&c.step.cancelled):
            return PF_RUN_STOP
        if turn & 63 == 0 and (c.worker.step != NULL or c.worker.helps != NULL):
            pf_step_poll(c.step.leader.home)    # the caller's own, which may lie around this one
    c.iter = outer_iter
    c.loop = outer_loop
    if traced:
        c.turn = outer_turn
    pf_release_inputs(c.slab, ins)
    c.worker.kernels -= 1           # the loop itself is no kernel
    return PF_RUN_OK

# ---------------------------------------------------------------- in slabs
cdef pf_frame* take_frame(pf_step* step, uint32_t f) noexcept nogil:
    cdef pf_frame* fr
    cdef pf_plan* plan = step.plan
    cdef const pf_frame_def* fd = plan.frames + f
    cdef int32_t k
    pthread_mutex_lock(&step.lock)
    fr = step.free_frames[f]
    if fr != NULL:
        step.free_frames[f] = fr.next_free
    pthread_mutex_unlock(&step.lock)
    if fr != NULL:
        return fr
    fr = <pf_frame*>calloc(1, sizeof(pf_frame))
    if fr == NULL:
        return NULL
    fr.step = step
    fr.def_ = fd
    fr.n_ring = fd.parallel
    pthread_mutex_init(&fr.lock, NULL)
    fr.ring = <pf_slab*>calloc(fr.n_ring, sizeof(pf_slab))
    if fr.ring == NULL:
        free(fr)
        return NULL
    for k in range(fr.n_ring):
        fr.ring[k].step = step
        fr.ring[k].frame = fr
    pthread_mutex_lock(&step.lock)
    fr.next_all = step.all_frames
    step.all_frames = fr
    pthread_mutex_unlock(&step.lock)
    return fr

cdef public void pf_frame_free(pf_frame* fr) noexcept nogil:
    cdef int32_t k
    for k in range(fr.n_ring):
        pf_slab_release(fr.ring + k)
    pthread_mutex_destroy(&fr.lock)
    free(fr.ring)
    free(fr)

cdef inline pf_slab* slab_of(pf_frame* fr, int64_t iteration) noexcept nogil:
    return fr.ring + (iteration % fr.n_ring)

cdef int32_t deliver(pf_worker* w, pf_slab* s, uint32_t var, DLTensor* take) noexcept nogil:
    """A loop variable of iteration s arrives, perhaps dead.  1: the slab is over.  Lock held."""
    cdef const pf_loop_var* v = s.def_.vars + var
    put(s.slots, v.merge_slot, take)
    if v.index_slot != <uint32_t>0xffffffff:
        put(s.slots, v.index_slot, scalar(0 if s.iter == 0 else 1) if pf_alive(take) else PF_DEAD)
    s.arrived[var] = 1
    w.kernels += 1
    return pf_block_count_down(w, s, <uint32_t>v.event)

cdef bint begin_iteration(pf_worker* w, pf_frame* fr, int64_t iteration) noexcept nogil:
    """Makes the slab active and starts the blocks that wait for nothing.  Lock held."""
    cdef pf_slab* s = slab_of(fr, iteration)
    cdef const pf_frame_def* fd = fr.def_
    cdef int32_t k
    cdef uint32_t j
    if s.items == NULL and pf_slab_allocate(s, fr.step.plan, fd):
        pf_step_fail(fr.step, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a loop's iteration")
        return False
    pf_slab_reset(s)
    s.iter = iteration
    s.path = path_of(fr.parent.path, iteration)
    pf_slab_go(s, PF_SLAB_FREE, PF_SLAB_ACTIVE)
    memset(s.arrived, 0, fd.n_vars)
    for k in range(fd.n_vars):
        s.next[k] = NULL
    for k in range(fd.n_consts):
        s.slots[fd.consts[k].inner] = fr.parent.slots[fd.consts[k].outer]
    fr.newest = iteration
    for j in range(fd.n_roots):
        pf_make_ready(w, s.items + (fd.roots[j] - fd.block_begin))
    return True

cdef void settle_missing(pf_worker* w, pf_frame* fr, pf_slab* done) noexcept nogil:
    """`done` is over: what the next iteration has not got from it is dead.  Lock held."""
    cdef pf_slab* t
    cdef int32_t k
    cdef int32_t over = 0
    if fr.newest <= done.iter:
        return
    t = slab_of(fr, done.iter + 1)
    for k in range(fr.def_.n_vars):
        if not t.arrived[k]:
            disagree(fr.step, fr.def_, k)
            over |= deliver(w, t, <uint32_t>k, PF_DEAD)
    if over:
        pf_slab_go(t, PF_SLAB_ACTIVE, PF_SLAB_OVER)
        settle_missing(w, fr, t)

cdef bint stashed(pf_frame* fr, pf_slab* s) noexcept nogil:
    cdef int32_t k
    for k in range(fr.def_.n_vars):
        if s.next[k] != NULL:
            return True
    return False

cdef inline int64_t room(const pf_frame* fr) noexcept nogil:
    """How many iterations may be under way: few where what they send finds no room.  The end of each is looked at again."""
    return min(fr.n_ring, <int32_t>CROWDED) if pf_a32_load(&fr.step.crowded) else fr.n_ring

cdef void start_stashed(pf_worker* w, pf_frame* fr) noexcept nogil:
    """There is room again: the newest slab's stashed tokens begin the next iteration.  Lock held."""
    cdef pf_slab* s = slab_of(fr, fr.newest)
    cdef pf_slab* t
    cdef int32_t k, over = 0
    cdef DLTensor* token
    if s.status == PF_SLAB_FREE or not stashed(fr, s) or fr.newest + 1 - fr.oldest >= room(fr):
        return
    if not begin_iteration(w, fr, s.iter + 1):
        return
    t = slab_of(fr, s.iter + 1)
    for k in range(fr.def_.n_vars):
        token = s.next[k]
        if token != NULL:
            s.next[k] = NULL
            over |= deliver(w, t, <uint32_t>k, token)
    if over:
        pf_slab_go(t, PF_SLAB_ACTIVE, PF_SLAB_OVER)
    if s.status == PF_SLAB_OVER:
        settle_missing(w, fr, s)

cdef void retire(pf_frame* fr, pf_slab* s) noexcept nogil:
    """What nobody read goes; constants' pointers are the parent's.  Lock held."""
    cdef int32_t k
    for k in range(fr.def_.n_vars):
        put(s.slots, fr.def_.vars[k].merge_slot, NULL)
    pf_slab_go(s, PF_SLAB_OVER, PF_SLAB_FREE)

cdef bint retire_all(pf_worker* w, pf_frame* fr) noexcept nogil:
    """Retires finished slabs, oldest first; True: the frame is over.  Lock held."""
    cdef pf_slab* s
    while fr.oldest <= fr.newest:
        s = slab_of(fr, fr.oldest)
        if s.status != PF_SLAB_OVER:
            return False
        if fr.oldest == fr.newest and stashed(fr, s) and not pf_a32_load(&fr.step.cancelled):
            # a ring of one: its own stash starts in the same slab after it
            if not restart_single(w, fr, s):
                return True
            continue
        drop_stash(fr, s)
        retire(fr, s)
        fr.oldest += 1
        if fr.oldest <= fr.newest:
            start_stashed(w, fr)
    return True

cdef void drop_stash(pf_frame* fr, pf_slab* s) noexcept nogil:
    cdef int32_t k
    cdef DLTensor* t
    for k in range(fr.def_.n_vars):
        t = s.next[k]
        s.next[k] = NULL
        if pf_alive(t):
            pf_dl_unref(t)

cdef bint restart_single(pf_worker* w, pf_frame* fr, pf_slab* s) noexcept nogil:
    """The only active slab is over and holds the next iteration's tokens.  False: could not start.  Lock held."""
    cdef int32_t k, over = 0
    cdef DLTensor* tokens[32]
    cdef DLTensor** t = tokens
    cdef pf_slab* n
    cdef bint ok
    if fr.def_.n_vars > 32:
        t = <DLTensor**>malloc(sizeof(void*) * fr.def_.n_vars)
        if t == NULL:
            pf_step_fail(fr.step, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a loop's variables")
            drop_stash(fr, s)
            return False
    for k in range(fr.def_.n_vars):
        t[k] = s.next[k] if s.next[k] != NULL else PF_DEAD
        if t[k] == PF_DEAD:
            disagree(fr.step, fr.def_, k)
        s.next[k] = NULL
    retire(fr, s)
    fr.oldest += 1
    ok = begin_iteration(w, fr, fr.oldest)
    if ok:
        n = slab_of(fr, fr.oldest)
        for k in range(fr.def_.n_vars):
            over |= deliver(w, n, <uint32_t>k, t[k])
        if over:
            pf_slab_go(n, PF_SLAB_ACTIVE, PF_SLAB_OVER)
    if t != tokens:
        free(t)
    return ok

cdef void frame_over(pf_worker* w, pf_frame* fr) noexcept nogil:
    """The FRAME block of the parent is done."""
    cdef pf_slab* parent = fr.parent
    cdef pf_item* item = fr.item
    cdef pf_step* step = fr.step
    cdef uint32_t f = <uint32_t>(fr.def_ - step.plan.frames)
    if step.trace != NULL:
        pf_trace_span(step, PF_TR_LOOP, step.plan.blocks[item.block].begin, fr.def_, parent.path, fr.t_start)
    pf_release_inputs(parent, step.plan.instrs + step.plan.blocks[item.block].begin)
    pthread_mutex_lock(&step.lock)
    fr.next_free = step.free_frames[f]
    step.free_frames[f] = fr
    pthread_mutex_unlock(&step.lock)
    pf_block_done(w, parent, item.block)

cdef public void pf_frame_slab_over(pf_worker* w, pf_slab* s) noexcept nogil:
    cdef pf_frame* fr = s.frame
    cdef bint over
    pthread_mutex_lock(&fr.lock)
    pf_slab_go(s, PF_SLAB_ACTIVE, PF_SLAB_OVER)
    settle_missing(w, fr, s)
    over = retire_all(w, fr)
    pthread_mutex_unlock(&fr.lock)
    if over:
        frame_over(w, fr)

cdef public void pf_frame_next(pf_worker* w, pf_slab* s, uint32_t var, DLTensor* take) noexcept nogil:
    """A live token for the iteration after s.  The block that sends it keeps s active, so nothing ends here but, perhaps,
    a next iteration that consists of arrivals alone."""
    cdef pf_frame* fr = s.frame
    cdef int64_t k = s.iter + 1
    pthread_mutex_lock(&fr.lock)
    if fr.newest < k and k - fr.oldest < room(fr) and not stashed(fr, s):    # together with those that found no room
        if not begin_iteration(w, fr, k):
            pf_dl_unref(take)
            pthread_mutex_unlock(&fr.lock)
            return
    if fr.newest >= k:
        if deliver(w, slab_of(fr, k), var, take):
            pf_slab_go(slab_of(fr, k), PF_SLAB_ACTIVE, PF_SLAB_OVER)
    else:
        s.next[var] = take
    pthread_mutex_unlock(&fr.lock)

cdef public int32_t pf_start_frame(pf_call* c, const pf_instr* ins) noexcept nogil:
    cdef pf_frame* fr = take_frame(c.step, ins.aux)
    cdef const pf_frame_def* fd = c.plan.frames + ins.aux
    cdef int32_t k, over = 0
    cdef bint ended
    if fr == NULL:
        pf_step_fail(c.step, c.plan.nodes + ins.node, PF_RESOURCE_EXHAUSTED, b"out of memory for a loop")
        return PF_RUN_STOP
    if c.worker.pool.n > 1:
        pf_share(c.step)
    fr.parent = c.slab
    fr.item = c.item
    fr.oldest = 0
    fr.newest = -1
    if c.step.trace != NULL:
        fr.t_start = pf_ticks()
    for k in range(fd.n_exits):
        put(c.slab.slots, fd.exits[k], PF_DEAD)
    pthread_mutex_lock(&fr.lock)
    ended = not begin_iteration(c.worker, fr, 0)
    if not ended:
        for k in range(fd.n_vars):
            over |= deliver(c.worker, slab_of(fr, 0), <uint32_t>k, entering(c.slab, fd.vars + k))
        if over or (fd.n_blocks == 0):
            pf_slab_go(slab_of(fr, 0), PF_SLAB_ACTIVE, PF_SLAB_OVER)
            ended = retire_all(c.worker, fr)
    pthread_mutex_unlock(&fr.lock)
    if ended:
        frame_over(c.worker, fr)
    return PF_RUN_PENDING
