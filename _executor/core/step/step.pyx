# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Steps: one run of a plan, from arguments to results.

A step is DONE when every block of its root slab is done: each ran, or was passed over because the step was cancelled.
Then no thread touches the step any more, and its caller takes the results, sweeps what an error left in slots, frees the
step's resources and puts the step back on the plan's free list.

Steps of one plan are isolated: each has its own slots, rendezvous and resources.  The first failure wins; it cancels the
rest: blocks not yet begun are passed over, asynchronous kernels are told through their cancel callbacks.  A deadline or a
signal that a kernel finds, by asking `cancelled`, stops blocks at once; callbacks, which may want a lock that the kernel
holds, are told by the step's caller (`untold`).
"""
from step_h cimport *

cdef enum:
    POLL_NS = 20000000
    ORDER_NS = 50000000         # what an asynchronous call of a step in order has before others begin
    SLICE_NS = 100000000

cdef pf_a64 step_ids

# ---------------------------------------------------------------- slabs
cdef public pf_status pf_slab_allocate(pf_slab* s, pf_plan* plan, const pf_frame_def* fd) noexcept nogil:
    cdef uint32_t k
    cdef pf_item* item
    s.def_ = fd
    s.items = <pf_item*>calloc(fd.n_blocks + 1, sizeof(pf_item))
    s.slots = <DLTensor**>calloc(fd.n_slots + 1, sizeof(void*))
    s.uses = <pf_a32*>calloc(fd.n_uses + 1, sizeof(pf_a32))
    s.next = <DLTensor**>calloc(fd.n_vars + 1, sizeof(void*))
    s.arrived = <uint8_t*>calloc(fd.n_vars + 1, 1)
    if s.items == NULL or s.slots == NULL or s.uses == NULL or s.next == NULL or s.arrived == NULL:
        pf_slab_release(s)
        return PF_RESOURCE_EXHAUSTED
    for k in range(fd.n_blocks):
        item = s.items + k
        item.block = fd.block_begin + k
        item.order = plan.blocks[fd.block_begin + k].order
        item.slab = s
    return PF_OK

cdef public void pf_slab_reset(pf_slab* s) noexcept nogil:
    cdef const pf_frame_def* fd = s.def_
    cdef const pf_block* blocks = s.step.plan.blocks + fd.block_begin
    cdef uint32_t k
    for k in range(fd.n_blocks):
        pf_a32_store_rlx(&s.items[k].pending, blocks[k].pending)
        s.items[k].call = NULL
    for k in range(fd.n_uses):
        pf_a32_store_rlx(s.uses + k, <int32_t>fd.use_counts[k])
    pf_a32_store(&s.blocks_left, <int32_t>fd.n_blocks)

cdef public void pf_slab_sweep(pf_slab* s, pf_plan* plan) noexcept nogil:
    cdef uint32_t k
    cdef int32_t j
    cdef DLTensor* t
    if s.slots == NULL:
        return
    for k in range(1, s.def_.n_slots):
        t = s.slots[k]
        s.slots[k] = NULL
        if pf_alive(t) and plan.slot_use[s.def_.slot_base + k] != PF_SLOT_LENT:
            pf_dl_unref(t)
    for j in range(s.def_.n_vars):
        t = s.next[j]
        s.next[j] = NULL
        if pf_alive(t):
            pf_dl_unref(t)

cdef public void pf_slab_release(pf_slab* s) noexcept nogil:
    free(s.items)
    free(s.slots)
    free(s.uses)
    free(s.next)
    free(s.arrived)
    s.items = NULL
    s.slots = NULL
    s.uses = NULL
    s.next = NULL
    s.arrived = NULL

# ---------------------------------------------------------------- steps
cdef pf_step* step_new(pf_plan* plan) noexcept nogil:
    cdef pf_step* s = <pf_step*>calloc(1, sizeof(pf_step))
    if s == NULL:
        return NULL
    s.plan = plan
    s.pool = plan.pool
    s.leader = s
    s.home = s
    pthread_mutex_init(&s.lock, NULL)
    pf_cond_init(&s.cond)
    s.root.step = s
    s.rets = <DLTensor**>calloc(plan.n_rets + 1, sizeof(void*))
    s.free_frames = <pf_frame**>calloc(plan.n_frames + 1, sizeof(void*))
    if s.rets == NULL or s.free_frames == NULL or pf_slab_allocate(&s.root, plan, plan.frames):
        free_step(s)
        return NULL
    return s

cdef void free_step(pf_step* s) noexcept nogil:
    cdef pf_frame* f = s.all_frames
    cdef pf_frame* next
    while f != NULL:
        next = f.next_all
        pf_frame_free(f)
        f = next
    pf_slab_release(&s.root)
    pthread_mutex_destroy(&s.lock)
    pthread_cond_destroy(&s.cond)
    free(s.rets)
    free(s.free_frames)
    free(s.owned)
    free(s.drawn)
    free(s)

cdef public void pf_idle_steps_free(pf_step* first) noexcept nogil:
    """Those that a plan kept, linked by next_free."""
    cdef pf_step* next
    while first != NULL:
        next = first.next_free
        free_step(first)
        first = next

cdef inline pf_step* acquire(pf_plan* plan) noexcept nogil:
    cdef pf_step* s
    pf_spin_lock(&plan.lock)
    s = plan.free_steps
    if s != NULL:
        plan.free_steps = s.next_free
    pf_spin_unlock(&plan.lock)
    if s == NULL:
        s = step_new(plan)
        if s == NULL:
            return NULL
    s.id = pf_a64_add_rlx(&step_ids, 1) + 1
    s.error.code = PF_OK
    pf_a32_store_rlx(&s.shared, 0)
    s.drained = 0
    s.home = s
    s.started = NULL
    s.stream = 0
    s.depth = 0
    s.outlived = 0
    s.task = NULL
    s.trace = NULL
    s.inspect = NULL
    s.deadline_ns = 0
    s.next_poll_ns = 0
    s.give_up_ns = 0
    pf_a32_store_rlx(&s.untold, 0)
    pf_a32_store_rlx(&s.crowded, 0)
    pf_a32_store_rlx(&s.cancelled, 0)
    pf_a32_store_rlx(&s.done, 0)
    return s

cdef inline void give_back(pf_step* s) noexcept nogil:
    cdef pf_plan* plan = s.plan
    pf_spin_lock(&plan.lock)
    s.next_free = plan.free_steps
    plan.free_steps = s
    pf_spin_unlock(&plan.lock)

cdef public void pf_step_own(pf_step* s, pf_resource* take) noexcept nogil:
    cdef pf_resource** grown
    cdef int32_t room
    pthread_mutex_lock(&s.lock)
    if s.n_owned == s.owned_room:
        room = s.owned_room * 2 if s.owned_room else 16
        grown = <pf_resource**>realloc(s.owned, sizeof(void*) * room)
        if grown != NULL:
            s.owned = grown
            s.owned_room = room
    if s.n_owned < s.owned_room:
        s.owned[s.n_owned] = take
        s.n_owned += 1
        take = NULL
    pthread_mutex_unlock(&s.lock)
    if take != NULL:
        pf_object_unref(&take.base)     # lives as long as its handles

cdef public int64_t pf_last_step() noexcept nogil:
    return pf_a64_load_rlx(&step_ids)

cdef public pf_rendezvous* pf_step_rendezvous(pf_step* s) noexcept nogil:
    cdef pf_rendezvous* r
    pthread_mutex_lock(&s.lock)
    if s.rendezvous == NULL:
        s.rendezvous = pf_rendezvous_new()
    r = s.rendezvous
    pthread_mutex_unlock(&s.lock)
    return r

cdef void check_slab(pf_slab* s, pf_plan* plan) noexcept nogil:
    """Invariant 4 of step.h after a step without error: every value was released by its last reader."""
    cdef uint32_t k
    cdef char text[200]
    if s.slots == NULL:
        return
    for k in range(1, s.def_.n_slots):
        if pf_alive(s.slots[k]) and plan.slot_use[s.def_.slot_base + k] != PF_SLOT_LENT:
            snprintf(text, 200, b"check failed: slot %u of frame '%.*s' still holds a tensor after its step", k,
                     <int>s.def_.name.len, s.def_.name.data)
            pf_host_table().log(PF_LOG_ERROR, text, <int64_t>strlen(text))
            return

cdef void check_slots(pf_step* s) noexcept nogil:
    cdef pf_frame* f = s.all_frames
    cdef int32_t k
    check_slab(&s.root, s.plan)
    while f != NULL:
        for k in range(f.n_ring):
            check_slab(f.ring + k, s.plan)
        f = f.next_all

cdef void clean_up(pf_step* s) noexcept nogil:
    """After the step: what an error left behind, its resources, its rendezvous."""
    cdef pf_frame* f
    cdef int32_t k
    cdef uint32_t r
    if pf_a32_load_rlx(&s.cancelled):
        f = s.all_frames
        while f != NULL:
            for k in range(f.n_ring):
                pf_slab_sweep(f.ring + k, s.plan)
                f.ring[k].status = 0
            f = f.next_all
        pf_slab_sweep(&s.root, s.plan)
        for r in range(s.plan.n_rets):
            if pf_alive(s.rets[r]):
                pf_dl_unref(s.rets[r])
            s.rets[r] = NULL
    while s.n_owned:
        s.n_owned -= 1
        pf_object_unref(&s.owned[s.n_owned].base)
    if s.rendezvous != NULL:
        if not s.leader.outlived:
            pf_rendezvous_abort(s.rendezvous, PF_CANCELLED)
        pf_rendezvous_unref(s.rendezvous)
        s.rendezvous = NULL

# ---------------------------------------------------------------- failure
cdef void tell_waiters(pf_step* s) noexcept nogil:
    """Cancel callbacks, each once, no lock held; then the rendezvous.

    One pass over the deferred calls: `s.told_up_to` is the next one to look at, and a call that ends meanwhile moves it on.  No
    callback is registered once the step is cancelled, so nothing appears behind it."""
    cdef pf_call* c
    cdef void (*fn)(void*) noexcept nogil
    cdef void* arg
    cdef pf_rendezvous* r
    cdef pf_error why
    cdef bint first = True
    while True:
        pthread_mutex_lock(&s.lock)
        c = s.deferred if first else s.told_up_to
        first = False
        while c != NULL and c.cancel_fn == NULL:
            c = c.next_cancel
        s.told_up_to = NULL
        if c != NULL:
            s.told_up_to = c.next_cancel
            fn = c.cancel_fn
            arg = c.cancel_arg
            c.cancel_fn = NULL
        pthread_mutex_unlock(&s.lock)
        if c == NULL:
            break
        fn(arg)
    pthread_mutex_lock(&s.lock)
    r = s.rendezvous
    if r != NULL:
        pf_rendezvous_ref(r)
    pthread_mutex_unlock(&s.lock)
    if r != NULL:
        pthread_mutex_lock(&s.leader.lock)
        memcpy(&why, &s.leader.error, sizeof(pf_error))
        pthread_mutex_unlock(&s.leader.lock)
        pf_rendezvous_fail(r, &why)
        pf_rendezvous_unref(r)

cdef void stop_blocks(pf_step* s) noexcept nogil:
    """Every partition of the step: no block begins from now on."""
    cdef pf_started* kept = s.started
    while s != NULL:
        pthread_mutex_lock(&s.lock)
        pf_a32_store(&s.cancelled, 1)
        pthread_mutex_unlock(&s.lock)
        s = s.peer
    if kept != NULL:
        pf_keeper_poll_at(kept, pf_now_ns() + POLL_NS)      # most are over by then, and forgotten

cdef public pf_task* pf_step_task(pf_step* s) noexcept nogil:
    """Whose step it is; not counted."""
    s = s.leader
    return s.task if s.task != NULL else pf_state_task(s.plan.state) if s.plan.state != NULL else pf_task_own()

cdef void stop_with(pf_step* s, const pf_node_info* node, pf_status code, const char* message) noexcept nogil:
    """The error, unless one is there that it is a consequence of; no block of this leader's partitions begins any more.  Nobody
    is told."""
    cdef int32_t derived
    pthread_mutex_lock(&s.lock)
    derived = s.error.code != PF_OK and (code == PF_CANCELLED or code == s.error.code)
    if pf_error_yields(&s.error, derived):
        pf_error_clear(&s.error)
        s.error.derived = derived
        pf_copy_text(s.error.task, sizeof(s.error.task), pf_step_task(s).name, <int64_t>strlen(pf_step_task(s).name))
        if node != NULL:
            pf_copy_text(s.error.node, sizeof(s.error.node), node.name.data, node.name.len)
            pf_copy_text(s.error.op, sizeof(s.error.op), node.op.data, node.op.len)
            pf_copy_text(s.error.device, sizeof(s.error.device), node.device.data, node.device.len)
        pf_error_set(&s.error, code if code > 0 else PF_INTERNAL, b"%s", message)
    pthread_mutex_unlock(&s.lock)
    stop_blocks(s)

cdef void tell_all(pf_step* s) noexcept nogil:
    while s != NULL:
        tell_waiters(s)
        s = s.peer

cdef public void pf_step_fail(pf_step* s, const pf_node_info* node, pf_status code, const char* message) noexcept nogil:
    stop_with(s.leader, node, code, message)
    tell_all(s.leader)

cdef public void pf_step_fail_as(pf_step* s, const pf_error* why) noexcept nogil:
    """With an error of elsewhere, as it is."""
    s = s.leader
    pthread_mutex_lock(&s.lock)
    if pf_error_yields(&s.error, why.derived):
        memcpy(&s.error, why, sizeof(pf_error))
    pthread_mutex_unlock(&s.lock)
    stop_blocks(s)
    tell_all(s)

cdef void append_waiting(pf_step* s, char* text, int32_t room) noexcept nogil:
    """Which asynchronous nodes have not completed; where, if the step has several partitions."""
    cdef pf_call* c
    cdef int32_t used = <int32_t>strlen(text), n = 0
    cdef bint several = s.peer != NULL
    while s != NULL:
        pthread_mutex_lock(&s.lock)
        c = s.deferred
        while c != NULL:
            if n < 8 and used < room - 600:
                used += snprintf(text + used, room - used, b"%s%.*s (%.*s)", b"; waiting for " if n == 0 else b", ",
                                 <int>min(c.node.name.len, 150), c.node.name.data, <int>min(c.node.op.len, 60),
                                 c.node.op.data)
                if c.node.foreign:
                    used += snprintf(text + used, room - used, b" of plugin '%.100s'", c.node.kernel.plugin_id)
                if several:
                    used += snprintf(text + used, room - used, b" on %.*s", <int>min(c.node.device.len, 120),
                                     c.node.device.data)
            n += 1
            c = c.next_cancel
        pthread_mutex_unlock(&s.lock)
        s = s.peer
    if n > 8:
        snprintf(text + used, room - used, b" and %d more", n - 8)

cdef public void pf_step_cancel(pf_step* s, pf_status why, const char* message) noexcept nogil:
    cdef char text[2048]
    snprintf(text, 1000, b"%s", message)
    append_waiting(s.leader, text, 2000)
    pf_step_fail(s, NULL, why, text)

cdef bint is_late(pf_step* s, int64_t now) noexcept nogil:
    return s.deadline_ns != 0 and now > s.deadline_ns and not pf_a32_load_rlx(&s.cancelled)

cdef void stop_from_within(pf_step* s, pf_call* c, pf_status why, const char* message) noexcept nogil:
    """The step of a kernel that found the reason itself, or one around it; its caller, woken, tells the others."""
    cdef char text[2048]
    snprintf(text, 1000, b"%s; '%.*s' (%.*s) of plugin '%.100s' was running", message, <int>min(c.node.name.len, 300),
             c.node.name.data, <int>min(c.node.op.len, 100), c.node.op.data, c.node.kernel.plugin_id)
    append_waiting(s, text, 2000)
    stop_with(s, NULL, why, text)
    pf_a32_store(&s.untold, why)
    pf_pool_wake_caller(s)

cdef bint holds_variable(const pf_call* c) noexcept nogil:
    cdef int32_t k
    for k in range(c.n_lent):
        if pf_lent_kind(c.lent + k) == PF_LENT_LOCK:
            return True
    return False

cdef const char* TIMED_OUT() noexcept nogil:
    return b"Timed out: the step did not finish in the time given by timeout_in_ms"

cdef public int32_t pf_call_looks(pf_call* c) noexcept nogil:
    cdef pf_step* s = c.step.leader
    cdef int64_t now = pf_coarse_ns()
    if c.node == NULL:
        c.node = c.instr.about
    if is_late(s, now):
        stop_from_within(s, c, PF_DEADLINE_EXCEEDED, TIMED_OUT())
    s = s.home
    if is_late(s, now):
        stop_from_within(s, c, PF_DEADLINE_EXCEEDED, TIMED_OUT())
    elif (s.poll != NULL and pthread_equal(pthread_self(), s.caller) and now >= s.next_poll_ns and not holds_variable(c)):
        # the caller's alone: another thread does not even read next_poll_ns
        s.next_poll_ns = now + POLL_NS
        if s.poll(s.poll_arg):
            stop_from_within(s, c, PF_CANCELLED, b"Interrupted")
    return pf_a32_load(&c.step.cancelled) or pf_a32_load(&s.cancelled)

cdef public void pf_call_late(pf_call* c) noexcept nogil:
    cdef pf_step* s = c.step.leader
    if s.deadline_ns and is_late(s, pf_coarse_ns()):
        stop_from_within(s, c, PF_DEADLINE_EXCEEDED, TIMED_OUT())

cdef int32_t poll_helper(pf_step* s) noexcept nogil:
    """On the thread that started it, while that helps; the clock is the keeper's."""
    cdef int64_t now = pf_coarse_ns()
    if s.poll != NULL and pthread_equal(pthread_self(), s.caller) and now >= s.next_poll_ns:
        s.next_poll_ns = now + POLL_NS
        if s.poll(s.poll_arg):
            pf_step_cancel(s, PF_CANCELLED, b"Interrupted")
    return pf_a32_load_rlx(&s.cancelled)

cdef public int32_t pf_step_poll(pf_step* s) noexcept nogil:
    cdef int64_t now
    s = s.leader
    if s.started != NULL:
        return poll_helper(s)
    now = pf_now_ns()
    if pf_a32_load_rlx(&s.untold) and pf_a32_xchg(&s.untold, 0):
        tell_all(s)
    if now < s.next_poll_ns:
        return pf_a32_load_rlx(&s.cancelled)
    s.next_poll_ns = now + POLL_NS
    if is_late(s, now):
        pf_step_cancel(s, PF_DEADLINE_EXCEEDED, TIMED_OUT())
    elif now < s.deadline_ns < s.next_poll_ns:
        s.next_poll_ns = s.deadline_ns
    if s.poll != NULL and s.poll(s.poll_arg):
        pf_step_cancel(s, PF_CANCELLED, b"Interrupted")
    if pf_a32_load_rlx(&s.cancelled):
        if s.give_up_ns == 0:
            s.give_up_ns = now + PF_GRACE_NS
        elif now > s.give_up_ns:
            pf_abandon_calls(s)
    return pf_a32_load_rlx(&s.cancelled)

cdef public int64_t pf_step_poll_kept(pf_step* s) noexcept nogil:
    """A step without a caller, by the keeper; when to look again, 0: it need not."""
    cdef int64_t now = pf_now_ns()
    if pf_a32_load_rlx(&s.untold) and pf_a32_xchg(&s.untold, 0):
        tell_all(s)
    if not pf_a32_load(&s.cancelled):
        if s.deadline_ns == 0 or now <= s.deadline_ns:
            return s.deadline_ns + 1 if s.deadline_ns else 0
        pf_step_cancel(s, PF_DEADLINE_EXCEEDED, TIMED_OUT())
    if s.give_up_ns == 0:
        s.give_up_ns = now + PF_GRACE_NS
    if now < s.give_up_ns:
        return s.give_up_ns
    pf_abandon_calls(s)
    return now + POLL_NS

# ---------------------------------------------------------------- run
cdef inline void fill_slots(pf_step* s, pf_tensor** take_args) noexcept nogil:
    cdef pf_plan* plan = s.plan
    cdef uint32_t k
    for k in range(plan.n_consts):
        s.root.slots[plan.consts[k].slot] = plan.consts[k].tensor
    for k in range(plan.n_args):
        if plan.arg_slot[k] != <uint32_t>0xffffffff:
            s.root.slots[plan.arg_slot[k]] = pf_dl(take_args[k])
        else:
            pf_tensor_unref(take_args[k])

cdef void run_posts(pf_worker* w) noexcept nogil:
    cdef pf_step* s = w.step
    cdef pf_post* post
    cdef int64_t start = 0
    if s.pool.n > 1 and w.ready.n:
        pf_share_ready(w)
    while pf_a32_load(&s.n_posts):
        pthread_mutex_lock(&s.pool.lock)
        post = s.posts
        s.posts = post.next
        pf_a32_add(&s.n_posts, -1)
        pthread_mutex_unlock(&s.pool.lock)
        if s.trace != NULL:
            start = pf_ticks()
        post.fn(post.arg)
        free(post)
        if s.trace != NULL:
            pf_trace_span(s, PF_TR_POST, 0, s.plan.frames, 0, start)

cdef void run_alone(pf_step* s, pf_worker* w) noexcept nogil:
    """A plan of one synchronous block: no pool, no counters."""
    w.pool = s.pool
    w.step = s
    w.lane = NULL
    w.ready.n = 0
    w.ready.items = NULL
    w.ready.room = 0
    if s.root.def_.n_uses:
        pf_slab_reset(&s.root)
    pf_a32_store_rlx(&s.root.items.pending, PF_BLOCK_RUNNING)
    pf_run_block(w, s.root.items)

cdef public void pf_step_alone(pf_step* s) noexcept nogil:
    cdef pf_worker w
    memset(&w, 0, sizeof(w))
    run_alone(s, &w)

cdef public void pf_step_draw_from(pf_step* s, uint64_t stream) noexcept nogil:
    if s.drawn == NULL:
        s.drawn = <pf_a64*>calloc(s.plan.n_nodes + 1, sizeof(pf_a64))
    else:
        memset(s.drawn, 0, sizeof(pf_a64) * s.plan.n_nodes)
    if s.drawn == NULL:
        pf_step_fail(s, NULL, PF_RESOURCE_EXHAUSTED, b"out of memory for a step's random streams")
    else:
        s.stream = stream

cdef public void pf_step_begin_root(pf_step* s, pf_worker* w) noexcept nogil:
    cdef uint32_t k
    if s.plan.n_devices:
        pf_share(s)                 # their jobs end on other threads
        pf_step_check_devices(s)
    pf_slab_reset(&s.root)
    for k in range(s.root.def_.n_roots):
        pf_make_ready(w, s.root.items + s.root.def_.roots[k])

cdef pf_item* next_in_order(pf_worker* w) noexcept nogil:
    """Of an inspected step in order: a call that ended goes on before anything else begins; one under way has a while to end."""
    cdef pf_step* s = w.step
    cdef pf_item* item = pf_pool_find(w)
    cdef int64_t until = pf_now_ns() + ORDER_NS
    while item == NULL and w.ready.n and s.deferred != NULL and not s.deferred.awaited:
        if pf_now_ns() > until:
            s.deferred.awaited = 1
            break
        pf_pool_wait(w, until)
        if pf_a32_load_rlx(&s.n_posts):
            run_posts(w)
        item = pf_pool_find(w)
    return item if item != NULL or w.ready.n == 0 else pf_heap_take(&w.ready, 0)

cdef void run_shared(pf_step* s, pf_worker* w) noexcept nogil:
    cdef pf_item* item
    cdef pf_step* part = s
    cdef int32_t turns = 0
    w.ready.n = 0
    w.ready.items = NULL
    w.ready.room = 0
    pf_pool_begin(s.pool, w, s)
    while part != NULL:
        pf_step_begin_root(part, w)
        part = part.peer
    while not pf_a32_load(&s.done):
        if pf_a32_load_rlx(&s.n_posts) and (s.pool.n > 1 or not w.ready.n or w.schedule):
            run_posts(w)            # alone, after what is ready: nobody else would run it while a post waits for it
        if w.schedule:
            item = pf_schedule_next(w)
        elif s.inspect != NULL and s.inspect.ordered:
            item = next_in_order(w)
        else:
            item = pf_pool_longest_waiting(w)
            if item == NULL:
                item = pf_heap_take(&w.ready, 0) if w.ready.n else pf_pool_find(w)
        if item != NULL:
            pf_run_item(w, item)
            turns += 1
            if turns & 63 == 0:
                pf_step_poll(s)
            continue
        if pf_a32_load(&s.done):
            break
        if s.deadline_ns and not pf_a32_load_rlx(&s.cancelled):
            pf_pool_wait(w, min(pf_now_ns() + SLICE_NS, s.deadline_ns))
        else:
            pf_pool_wait(w, pf_now_ns() + SLICE_NS)
        if not pf_a32_load(&s.done):
            pf_step_poll(s)
    if pf_a32_load(&s.n_posts):
        run_posts(w)
    pf_pool_end(w)

cdef public void pf_step_announce(const pf_run_options* o, pf_step* s) noexcept nogil:
    if o.running != NULL:
        pthread_mutex_lock(o.running_lock)
        o.running[0] = s
        pthread_mutex_unlock(o.running_lock)

cdef public void pf_step_given(pf_step* leader, const pf_run_options* o) noexcept nogil:
    cdef pf_step* s = leader
    leader.poll = o.poll
    leader.poll_arg = o.poll_arg
    leader.caller = pthread_self()
    if o.timeout_ns > 0:
        leader.deadline_ns = pf_now_ns() + o.timeout_ns
    if o.rendezvous != NULL:
        pf_rendezvous_ref(o.rendezvous)
        leader.rendezvous = o.rendezvous
        leader.outlived = 1
    while s != NULL:
        if o.stream:
            pf_step_draw_from(s, o.stream)
        if o.inspect != NULL:
            s.inspect = o.inspect
            pf_step_extent_over(s)
        if o.trace != NULL:
            s.trace = o.trace
            pf_trace_step_begin(s)
        s = s.peer

cdef inline void end_step(pf_step* s, pf_status st, pf_tensor** rets) noexcept nogil:
    """After the last block: what an error left, or the results; then the step is its plan's again."""
    cdef uint32_t k
    if st or s.n_owned or s.rendezvous != NULL:
        clean_up(s)
    if not st:
        if PF_CHECKS:
            check_slots(s)
        for k in range(s.plan.n_rets):
            rets[k] = pf_tensor_of(s.rets[k])
            s.rets[k] = NULL
    if s.extent != NULL:
        pf_step_extent_over(s)
    give_back(s)

cdef public void pf_step_read_late(pf_step* s) noexcept nogil:
    """After the last block: fetches of variables that this step updates are read now (reads.pyx)."""
    cdef uint32_t k
    cdef pf_tensor* t
    cdef pf_tensor* value
    cdef pf_object* o
    if pf_a32_load_rlx(&s.leader.cancelled) or pf_a32_load_rlx(&s.cancelled):
        return
    for k in range(s.plan.n_rets):
        t = pf_tensor_of(s.rets[k])
        o = <pf_object*>t.m.dl_tensor.data
        if (not t.flags & PF_T_HANDLE or o == NULL or o.kind != PF_OBJ_VARIABLE
                or s.plan.ret_type[k] == PF_RESOURCE or s.plan.ret_type[k] == PF_VARIANT):
            continue
        value = pf_value_of(t)
        if value == NULL:           # it was there when its fetch ran: deleted meanwhile, by another step
            pf_step_fail(s, NULL, PF_FAILED_PRECONDITION, b"a fetched variable was destroyed while the step ran")
            return
        s.rets[k] = pf_dl(value)
        pf_tensor_unref(t)

cdef public pf_step* pf_step_take(pf_plan* plan, pf_tensor** take_args) noexcept nogil:
    cdef pf_step* s = acquire(plan)
    if s != NULL:
        s.poll = NULL
        fill_slots(s, take_args)
        if plan.planned_bytes:
            pf_step_extent(s)
    return s

cdef public void pf_step_work(pf_step* leader, pf_worker* w) noexcept nogil:
    pf_watch_begin(leader)
    run_shared(leader, w)
    pf_watch_end(leader)

cdef public void pf_step_finish(pf_step* s, pf_status st, pf_tensor** rets) noexcept nogil:
    end_step(s, st, rets)

cdef public pf_status pf_step_run(pf_plan* plan, pf_tensor** take_args, pf_tensor** rets, const pf_run_options* o,
                                  pf_error* err) noexcept nogil:
    cdef pf_step* s = acquire(plan)
    cdef pf_worker w
    cdef uint32_t k
    cdef pf_status st
    if s == NULL:
        for k in range(plan.n_args):
            pf_tensor_unref(take_args[k])
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"out of memory for a step")
    s.poll = NULL
    if o != NULL:
        pf_step_given(s, o)
        pf_step_announce(o, s)
    w.kernels = 0
    fill_slots(s, take_args)
    if plan.planned_bytes and s.inspect == NULL:
        pf_step_extent(s)
    if plan.watched:
        pf_watch_begin(s)
    if s.inspect != NULL and pf_inspect_feeds(s):
        pass
    elif plan.n_blocks == 1 and not plan.has_async and plan.n_frames_in_slabs == 0:
        run_alone(s, &w)
    elif plan.n_blocks:
        run_shared(s, &w)
    if plan.watched:
        pf_watch_end(s)
    if o != NULL:
        pf_step_announce(o, NULL)
        if o.kernels != NULL:
            o.kernels[0] = w.kernels + pf_a64_load_rlx(&s.kernels)
    pf_a64_store_rlx(&s.kernels, 0)
    if plan.late_rets:
        pf_step_read_late(s)
    st = s.error.code
    if s.trace != NULL:
        pf_trace_step_end(s, st)
    if st and err != NULL:
        memcpy(err, &s.error, sizeof(pf_error))
    end_step(s, st, rets)
    return st
