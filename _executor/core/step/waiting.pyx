# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""One step's rows of a glance (host/glance.pyx): the step, its calls that have not completed, its blocks that are not done.

    RUN     text: -; a: nodes of the plan; b: how deep in calls of functions it lies
    CALL    an asynchronous or blocking kernel under way; text: node, op, "container/name" of the resource it uses; a: PF_ROLE_*, 0:
            it works itself
    BLOCK   text: first node, its op; numbers: its successors; a: its number; b: predecessors missing, 0 ready, -1 running
    NODE    a node of a block that is not done which others may wait for: it has no output, as what hands a tensor to another task,
            is asynchronous, or uses a resource; text: node, op; a: the block

Blocks of a loop's iterations are left out; their calls are not.  Slots and counters are read while they change.

Threads: the caller holds watch.pyx's lock, so the step is alive.
"""
from step_h cimport *

cdef enum:
    MOST_BLOCKS = 20000
    MOST_SUCCESSORS = 150

cdef pf_str object_name(const pf_object* o, char* text, int32_t room) noexcept nogil:
    cdef const char* container = o.container
    cdef const char* name = o.name
    cdef pf_str found
    if container == NULL:
        container = b""
    if name == NULL:
        name = b""
    found.data = text
    found.len = min(snprintf(text, room, b"%s/%s", container, name), room - 1)
    return found

cdef pf_str no_text() noexcept nogil:
    cdef pf_str none
    none.data = NULL
    none.len = 0
    return none

cdef bint is_handle(const pf_node_info* n, int32_t input) noexcept nogil:
    """A resource, or a reference as the ops of old take it."""
    cdef int32_t a
    if n.call == NULL:
        return False
    if n.call.in_type[input] == PF_RESOURCE:
        return True
    if n.def_ == NULL:
        return False
    for a in range(min(n.call.n_in_args, n.def_.n_in)):
        if n.call.in_start[a] <= input < n.call.in_start[a + 1]:
            return n.def_.ins[a].is_ref != 0
    return False

cdef pf_object* object_of(pf_call* c) noexcept nogil:
    """What a kernel with a role asked for, else that of the first handle among the inputs: a kernel that runs keeps both until the call
    ends."""
    cdef pf_tensor* t
    cdef int32_t k
    if c.at_of == c.node and pf_role_of(c.node):
        return &c.at.base
    if c.info != NULL and c.ins != NULL:
        for k in range(c.ctx.n_in):
            if is_handle(c.node, k) and pf_alive(c.ins[k]):
                t = pf_tensor_of(c.ins[k])
                if t.flags & PF_T_HANDLE and t.m.dl_tensor.data != NULL:
                    return <pf_object*>t.m.dl_tensor.data
    return NULL

cdef pf_str resource_of(pf_call* c, pf_glance* g, char* text, int32_t room) noexcept nogil:
    """Its name.  A node without one is the resource of its own shared name, if it has that."""
    cdef pf_str found
    cdef pf_object* o = object_of(c)
    if o != NULL:
        if o.kind == PF_OBJ_RESOURCE:
            pf_glance_meet(g, <pf_resource*>o)
        return object_name(o, text, room)
    if c.node.shared_name.len <= 0:
        return no_text()
    found.data = text
    found.len = min(snprintf(text, room, b"%.*s/%.*s", <int>min(c.node.container.len, <int64_t>150), c.node.container.data,
                             <int>min(c.node.shared_name.len, <int64_t>200), c.node.shared_name.data), room - 1)
    return found

cdef void add_calls(pf_glance* g, pf_glance_row row, pf_step* s, int64_t now) noexcept nogil:
    cdef char text[400]
    cdef pf_call* c
    row.kind = PF_GLANCE_CALL
    pthread_mutex_lock(&s.lock)
    c = s.deferred
    while c != NULL:
        row.age_ns = now - c.since_ns
        if c.node != NULL:
            row.a = c.ended_by if c.ended_by else pf_role_of(c.node)
            pf_glance_add(g, row, c.node.name, c.node.op, resource_of(c, g, text, sizeof(text)))
        c = c.next_cancel
    pthread_mutex_unlock(&s.lock)

cdef bint others_wait_for(const pf_node_info* n) noexcept nogil:
    cdef int32_t k
    if n.call != NULL and n.call.n_out == 0:
        return True
    if n.kernel != NULL and n.kernel.kernel.flags & <uint32_t>(PF_KERNEL_ASYNC | PF_KERNEL_BLOCKING):
        return True
    if n.call != NULL:
        for k in range(n.call.n_in):
            if n.call.in_type[k] == PF_VARIANT or is_handle(n, k):
                return True
    return False

cdef void add_block(pf_glance* g, pf_glance_row row, pf_plan* plan, const pf_block* b) noexcept nogil:
    cdef const pf_node_info* n
    cdef bint empty = b.end <= b.begin
    cdef uint32_t k
    row.kind = PF_GLANCE_BLOCK
    n = plan.instrs[b.begin].about if not empty else NULL
    row.n_numbers = <int32_t>min(b.succ_end - b.succ_begin, <uint32_t>MOST_SUCCESSORS)
    pf_glance_add_with(g, row, plan.succs + b.succ_begin, n.name if n != NULL else no_text(), n.op if n != NULL else no_text())
    row.kind = PF_GLANCE_NODE
    for k in range(b.begin, b.end):
        n = plan.instrs[k].about
        if n != NULL and others_wait_for(n):
            pf_glance_add(g, row, n.name, n.op, no_text())

cdef void add_slab(pf_glance* g, pf_glance_row row, pf_slab* s) noexcept nogil:
    cdef uint32_t k
    cdef int32_t pending
    for k in range(min(s.def_.n_blocks, <uint32_t>MOST_BLOCKS)):
        pending = pf_a32_load(&s.items[k].pending)
        if pending != PF_BLOCK_DONE:
            row.a = k
            row.b = pending
            add_block(g, row, s.step.plan, s.step.plan.blocks + s.def_.block_begin + k)

cdef public void pf_step_glance(pf_step* leader, pf_step_key key, pf_glance* g) noexcept nogil:
    cdef pf_glance_row row
    cdef pf_step* part = leader
    cdef int64_t now = pf_now_ns()
    memset(&row, 0, sizeof(row))
    row.session = key.session
    row.step = key.step
    while part != NULL:
        row.kind = PF_GLANCE_RUN
        row.id = part.id
        row.age_ns = now - leader.began_ns
        row.a = part.plan.n_nodes
        row.b = leader.depth
        pf_glance_add(g, row, no_text(), no_text(), no_text())
        add_calls(g, row, part, now)
        add_slab(g, row, &part.root)
        part = part.peer
