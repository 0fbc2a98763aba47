# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Reads of ref variables: which of them are taken when their readers run.

TensorFlow's Identity of a reference shares the variable's buffer: who computes with `v/read` after an update of v, in the order
that edges give, sees the update, however early the Identity itself ran.  Here the Identity takes a snapshot; so, while a plan
is compiled, the readers that need a read of their own are found [pf_comp_reads] and emit.pyx lets them have it:

    NAMES     a set of nodes whose outputs name one variable: it, what returns a reference to it (Assign), and the nodes that
              only pass its value on (`passes_on`): Identity, Switch, Merge, Enter, Exit, NextIteration, and kernels whose output
              is an input's buffer (Reshape, IdentityN, CheckNumerics)
    LATE      an edge from such a passing node to a reader that some update of the variable leads to, by any path of edges, a
              loop's back edges and the way from a Send to a Recv included; and to every fetch of a variable that the plan
              updates, for a fetch is read when the step is over
    CARRIES   a passing node whose output is the reference itself, unread, because a late edge needs it and the node may be
              dead or is part of a loop: each of its readers reads for itself

Invariants
1. A late reader behind plain Identities reads the slot of what they read: those nodes still run, and snapshots that no update
   touches stay what they are, with their buffers and fusions.
2. Nothing is added to the graph or renamed.  Plans that update no variable by reference do not come here.
3. The time is linear in the edges for each variable with late candidates; an update has few nodes behind it, as a rule.

Threads: the compiling thread.
"""
from buffers_h cimport *

cdef enum:
    REF = 1                     # an output is a reference
    PASSES = 2                  # its data output is a name for the value of a reference

cdef struct Writer:
    int32_t node, names, next

cdef struct Work:
    pf_comp* c
    uint8_t* kind
    int32_t* leader             # union-find: node -> a node with the same names
    int32_t* first              # leader -> its passing nodes, chained by `next`; -1
    int32_t* next
    Writer* writers
    int32_t n_writers
    int32_t* first_writer       # leader -> writers; -1
    int32_t* seen               # node -> the leader whose updates lead to it; -1
    int32_t* stack
    int32_t* recvs              # nodes that receive
    int32_t n_recvs

# ---------------------------------------------------------------- what passes a value on
cdef bint shares_buffers(pf_comp* c, int32_t i) noexcept nogil:
    """A kernel whose outputs are, one by one, its inputs' buffers, as in TensorFlow."""
    cdef int32_t k
    if c.plan.nodes[i].home != NULL:
        return False
    for k in range(c.sig[i].n_out):
        if pf_comp_aliased(c, i, k) != k:
            return False
    return c.sig[i].n_out > 0

cdef bint passes_on(pf_comp* c, int32_t i) noexcept nogil:
    cdef int32_t cls = c.cls[i]
    if cls == PF_C_KERNEL:
        return shares_buffers(c, i)
    if cls == PF_C_IDENTITY:
        return not c.def_[i].traits & PF_TRAIT_SNAPSHOT
    return cls == PF_C_SWITCH or cls == PF_C_MERGE or cls == PF_C_ENTER or cls == PF_C_EXIT or cls == PF_C_NEXT

cdef inline bint passed_input(pf_comp* c, int32_t i, int32_t k) noexcept nogil:
    """Input k of a passing node is what it passes on."""
    return k == 0 or c.cls[i] == PF_C_MERGE or (c.cls[i] == PF_C_KERNEL and k < c.sig[i].n_out)

cdef inline bint value_port(pf_comp* c, int32_t i, int32_t port) noexcept nogil:
    """Output `port` of a passing node is the value (a Merge also tells which input it took)."""
    return port >= 0 and not (port == 1 and c.cls[i] == PF_C_MERGE)

cdef inline bint names_one(Work* w, int32_t src, int32_t port) noexcept nogil:
    return w.c.sig[src].out_ref[port] or (w.kind[src] & PASSES and value_port(w.c, src, port))

# ---------------------------------------------------------------- names
cdef int32_t leader_of(Work* w, int32_t i) noexcept nogil:
    while w.leader[i] != i:
        w.leader[i] = w.leader[w.leader[i]]
        i = w.leader[i]
    return i

cdef inline void join(Work* w, int32_t a, int32_t b) noexcept nogil:
    w.leader[leader_of(w, a)] = leader_of(w, b)

cdef pf_status join_nodes_of_variables(Work* w) noexcept nogil:
    """Several nodes may hold the same variable: shared names."""
    cdef pf_comp* c = w.c
    cdef int32_t i, room = 64, at
    cdef int32_t* table
    cdef void* v
    while room < 2 * c.n:
        room *= 2
    table = <int32_t*>pf_comp_grab(c, room, sizeof(int32_t))
    if table == NULL:
        return c.err.code
    for i in range(c.n):
        if c.cls[i] != PF_C_VARIABLE or c.value[i] == NULL:
            continue
        v = c.value[i].data
        at = <int32_t>((<uint64_t><uintptr_t>v * <uint64_t>0x9E3779B97F4A7C15ULL >> 33) & <uint64_t>(room - 1))
        while table[at] and c.value[table[at] - 1].data != v:
            at = (at + 1) & (room - 1)
        if table[at]:
            join(w, i, table[at] - 1)
        else:
            table[at] = i + 1
    return PF_OK

cdef bint spread(Work* w) noexcept nogil:
    """One walk in topological order; True if a node was found to pass a reference's value on (a loop needs another walk)."""
    cdef pf_comp* c = w.c
    cdef pf_node* nd
    cdef int32_t j, i, k, src
    cdef bint more = False
    for j in range(c.n):
        i = c.topo[j]
        nd = c.g.nodes + i
        if w.kind[i] & REF:
            for k in range(nd.n_in):
                if c.sig[i].in_ref[k]:
                    join(w, i, nd.inputs[k].node)
        elif passes_on(c, i):
            for k in range(nd.n_in):
                src = nd.inputs[k].node
                if passed_input(c, i, k) and names_one(w, src, nd.inputs[k].output):
                    more |= not w.kind[i] & PASSES
                    w.kind[i] |= PASSES
                    join(w, i, src)
    return more

cdef int32_t count_refs(pf_comp* c, uint8_t* kind) noexcept nogil:
    """Marks what gives references; how many inputs of kernels take one."""
    cdef int32_t i, k, n = 0
    for i in range(c.n):
        for k in range(c.sig[i].n_out):
            if c.sig[i].out_ref[k]:
                kind[i] |= REF
        if c.cls[i] == PF_C_KERNEL:
            for k in range(c.sig[i].n_in):
                n += c.sig[i].in_ref[k] != 0
    return n

cdef pf_status list_members(Work* w, int32_t n_writers) noexcept nogil:
    """Passing nodes and updates by their leader."""
    cdef pf_comp* c = w.c
    cdef int32_t i, k, names
    cdef Writer* r
    w.first = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.next = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.first_writer = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.writers = <Writer*>pf_comp_grab(c, n_writers, sizeof(Writer))
    if w.first == NULL or w.next == NULL or w.first_writer == NULL or w.writers == NULL:
        return c.err.code
    for i in range(c.n):
        w.first[i] = -1
        w.first_writer[i] = -1
    for i in range(c.n - 1, -1, -1):
        if w.kind[i]:
            names = leader_of(w, i)
            w.next[i] = w.first[names]
            w.first[names] = i
        if c.cls[i] == PF_C_KERNEL:
            for k in range(c.sig[i].n_in):
                if c.sig[i].in_ref[k]:
                    names = leader_of(w, c.g.nodes[i].inputs[k].node)
                    r = w.writers + w.n_writers
                    r.node = i
                    r.names = names
                    r.next = w.first_writer[names]
                    w.first_writer[names] = w.n_writers
                    w.n_writers += 1
    return PF_OK

# ---------------------------------------------------------------- what updates lead to
cdef inline bint carries_between(pf_comp* c, int32_t i) noexcept nogil:
    return c.cls[i] == PF_C_KERNEL and pf_node_attr_find(c.g.nodes + i, b"recv_device") != NULL

cdef pf_status list_receivers(Work* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef int32_t i
    w.recvs = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    if w.recvs == NULL:
        return c.err.code
    for i in range(c.n):
        if c.sig[i].n_out and carries_between(c, i):
            w.recvs[w.n_recvs] = i
            w.n_recvs += 1
    return PF_OK

cdef inline void reach(Work* w, int32_t i, int32_t names, int32_t* n) noexcept nogil:
    if w.seen[i] != names:
        w.seen[i] = names
        w.stack[n[0]] = i
        n[0] += 1

cdef void mark_behind(Work* w, int32_t names) noexcept nogil:
    """w.seen of every node that an update of these names leads to."""
    cdef pf_comp* c = w.c
    cdef int32_t n = 0, e, i, k = w.first_writer[names]
    cdef bint crossed = False
    while k >= 0:
        i = w.writers[k].node
        for e in range(c.out_begin[i], c.out_begin[i + 1]):
            reach(w, c.out_node[e], names, &n)
        k = w.writers[k].next
    while n:
        n -= 1
        i = w.stack[n]
        for e in range(c.out_begin[i], c.out_begin[i + 1]):
            reach(w, c.out_node[e], names, &n)
        if w.n_recvs and not crossed and c.sig[i].n_out == 0 and carries_between(c, i):
            crossed = True      # what is received may depend on anything that was sent
            for e in range(w.n_recvs):
                reach(w, w.recvs[e], names, &n)

# ---------------------------------------------------------------- late edges
cdef void carry(Work* w, int32_t i) noexcept nogil:
    """Late readers of passing node i must find the reference: behind plain Identities, or carried by nodes that may be dead or
    that a loop moves."""
    cdef pf_comp* c = w.c
    cdef pf_node* nd
    cdef int32_t n = 1, k
    w.stack[0] = i
    while n:
        n -= 1
        i = w.stack[n]
        nd = c.g.nodes + i
        if not w.kind[i] & PASSES or c.carries[i]:
            continue
        if c.cls[i] != PF_C_IDENTITY or c.flags[i] & PF_N_MAYBE_DEAD:
            c.carries[i] = 1        # of a kernel: it reads for itself, and gives a name
        for k in range(nd.n_in):
            if passed_input(c, i, k) and w.kind[nd.inputs[k].node] & PASSES and not c.carries[nd.inputs[k].node]:
                w.stack[n] = nd.inputs[k].node
                n += 1

cdef bint mark_late(Work* w, int32_t i, int32_t reader) noexcept nogil:
    """The edges from the value of i to `reader`, unless that only passes it on."""
    cdef pf_comp* c = w.c
    cdef pf_node* nd = c.g.nodes + reader
    cdef int32_t k
    cdef bint found = False
    for k in range(nd.n_in):
        if (nd.inputs[k].node == i and names_one(w, i, nd.inputs[k].output) and not c.sig[reader].in_ref[k]
                and not (w.kind[reader] & PASSES and passed_input(c, reader, k))):
            c.late[c.in_at[reader] + k] = 1
            found = True
    return found

cdef void find_late(Work* w, int32_t names) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef int32_t i = w.first[names], e, reader
    cdef bint found
    mark_behind(w, names)
    while i >= 0:
        found = False
        for e in range(c.out_begin[i], c.out_begin[i + 1]):
            reader = c.out_node[e]
            if c.out_port[e] < 0 or (w.seen[reader] != names and c.cls[reader] != PF_C_RETVAL):
                continue
            if w.kind[i] & PASSES or c.cls[reader] == PF_C_RETVAL:
                found |= mark_late(w, i, reader)
        if found:
            carry(w, i)
        i = w.next[i]

cdef pf_status make_room(Work* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef int32_t i, edges = 0
    c.in_at = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    if c.in_at == NULL:
        return c.err.code
    for i in range(c.n):
        c.in_at[i] = edges
        edges += c.g.nodes[i].n_in
    w.leader = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.seen = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.stack = <int32_t*>pf_comp_grab(c, <int64_t>c.n + edges, sizeof(int32_t))
    c.carries = <uint8_t*>pf_comp_grab(c, c.n, 1)
    c.passes = w.kind
    c.late = <uint8_t*>pf_comp_grab(c, edges, 1)
    if w.leader == NULL or w.seen == NULL or w.stack == NULL or c.carries == NULL or c.late == NULL:
        c.late = NULL
        return c.err.code
    for i in range(c.n):
        w.leader[i] = i
        w.seen[i] = -1
    return PF_OK

cdef public pf_status pf_comp_reads(pf_comp* c) noexcept nogil:
    """c.late and c.carries; both stay NULL in plans without updates by reference."""
    cdef Work w
    cdef int32_t i, n_writers
    memset(&w, 0, sizeof(w))
    w.c = c
    w.kind = <uint8_t*>pf_comp_grab(c, c.n, 1)
    if w.kind == NULL:
        return c.err.code
    n_writers = count_refs(c, w.kind)
    if n_writers == 0:
        return PF_OK
    if make_room(&w) or join_nodes_of_variables(&w) or list_receivers(&w):
        return c.err.code
    while spread(&w):
        pass
    if list_members(&w, n_writers):
        return c.err.code
    for i in range(c.n):
        if w.leader[i] == i and w.first[i] >= 0 and w.first_writer[i] >= 0:
            find_late(&w, i)
    return PF_OK

# ---------------------------------------------------------------- for emit.pyx
cdef public void pf_comp_read_source(pf_comp* c, int32_t i, int32_t k, pf_input* from_) noexcept nogil:
    """What input k of node i reads: the producer itself, or, late, what plain Identities before it read."""
    from_[0] = c.g.nodes[i].inputs[k]
    if c.late == NULL or not (c.late[c.in_at[i] + k] or (c.carries[i] and passed_input(c, i, k))):
        return
    while c.passes[from_.node] & PASSES and not c.carries[from_.node]:
        from_[0] = c.g.nodes[from_.node].inputs[0]

cdef public int32_t pf_comp_reads_ref(pf_comp* c, int32_t i, int32_t k, const pf_input* from_) noexcept nogil:
    """1: the slot of `from_` holds a reference (or may), and node i wants its value."""
    if c.sig[i].in_ref[k]:
        return 0
    if c.carries != NULL and c.carries[i] and c.cls[i] != PF_C_KERNEL and passed_input(c, i, k):
        return 0
    return (c.sig[from_.node].out_ref[from_.output]
            or (c.carries != NULL and c.carries[from_.node] and value_port(c, from_.node, from_.output)))

cdef public int32_t pf_comp_gives_names(pf_comp* c, int32_t i) noexcept nogil:
    """1: kernel node i gives names for variables' values."""
    return c.carries != NULL and c.carries[i]

cdef public int32_t pf_comp_is_late(pf_comp* c, int32_t i, int32_t k) noexcept nogil:
    return c.late != NULL and c.late[c.in_at[i] + k]
