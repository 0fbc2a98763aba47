"""Part of groups.pyx: under which conditions a node is alive.

A CONDITION is "the predicate p is false", "... true", or "this output of this node is alive" for what cannot be told (Recv, a
Merge that joins no Switch).  A node's set of conditions is the union of its inputs'; a Switch adds the branch taken, the Merge of a
cond's two branches takes it away again.  Inside a loop, conditions hold per iteration.
"""

cdef enum:
    MAX_CONDITIONS = 64
    BRANCH = 0              # | port: two low bits of a condition
    OPAQUE = 2

cdef inline int64_t condition(int32_t node, int32_t port, int32_t kind) noexcept nogil:
    return ((<int64_t>node << 12) | (port & 4095)) << 2 | kind

cdef int32_t intern(Work* w, const int64_t* atoms, int32_t n) noexcept nogil:
    """The set's number."""
    cdef Sets* s = &w.sets
    cdef uint64_t h = 1469598103934665603ULL
    cdef int32_t k, b, room
    cdef int64_t** atoms_grown
    cdef int32_t* ints
    if n == 0:
        return 0
    for k in range(n):
        h = (h ^ <uint64_t>atoms[k]) * <uint64_t>1099511628211ULL
        h ^= h >> 31
    b = <int32_t>(h & <uint64_t>(s.n_buckets - 1))
    k = s.buckets[b]
    while k > 0:
        if s.count[k] == n and memcmp(s.atoms[k], atoms, sizeof(int64_t) * n) == 0:
            return k
        k = s.same_hash[k]
    if s.n == s.room:
        room = s.room * 2
        atoms_grown = <int64_t**>grab(w.c, room, sizeof(void*))
        ints = <int32_t*>grab(w.c, 2 * room, sizeof(int32_t))
        if atoms_grown == NULL or ints == NULL:
            return 0
        memcpy(atoms_grown, s.atoms, sizeof(void*) * s.n)
        memcpy(ints, s.count, sizeof(int32_t) * s.n)
        memcpy(ints + room, s.same_hash, sizeof(int32_t) * s.n)
        s.atoms = atoms_grown
        s.count = ints
        s.same_hash = ints + room
        s.room = room
    k = s.n
    s.atoms[k] = <int64_t*>grab(w.c, n, sizeof(int64_t))
    if s.atoms[k] == NULL:
        return 0
    memcpy(s.atoms[k], atoms, sizeof(int64_t) * n)
    s.count[k] = n
    s.same_hash[k] = s.buckets[b]
    s.buckets[b] = k
    s.n += 1
    return k

cdef int32_t opaque(Work* w, int32_t node, int32_t port) noexcept nogil:
    cdef int64_t a = condition(node, port, OPAQUE)
    return intern(w, &a, 1)

cdef int32_t both(Work* w, int32_t a, int32_t b, int32_t node) noexcept nogil:
    """The union of two sets; if it grows too large, a condition of the node's own."""
    cdef int64_t out[MAX_CONDITIONS * 2]
    cdef Sets* s = &w.sets
    cdef int32_t i = 0, j = 0, n = 0
    if a == b or b == 0:
        return a
    if a == 0:
        return b
    while i < s.count[a] or j < s.count[b]:
        if j == s.count[b] or (i < s.count[a] and s.atoms[a][i] < s.atoms[b][j]):
            out[n] = s.atoms[a][i]
            i += 1
        else:
            if i < s.count[a] and s.atoms[a][i] == s.atoms[b][j]:
                i += 1
            out[n] = s.atoms[b][j]
            j += 1
        n += 1
    return intern(w, out, n) if n <= MAX_CONDITIONS else opaque(w, node, 0)

cdef int32_t guard_of(Work* w, int32_t src, int32_t port, int32_t reader) noexcept nogil:
    """Conditions under which output `port` of src (-1: its control output) is alive."""
    cdef pf_comp* c = w.c
    cdef pf_input p
    cdef int64_t a
    if not c.flags[src] & PF_N_MAYBE_DEAD:
        return 0
    if c.kernel[src] != NULL and c.kernel[src].kernel.flags & <uint32_t>PF_KERNEL_DEAD:
        return opaque(w, src, port + 1)
    if c.cls[src] != PF_C_SWITCH or port < 0:
        return w.guard[src]
    p = c.g.nodes[src].inputs[1]
    while c.cls[p.node] == PF_C_IDENTITY and not c.sig[p.node].in_ref[0]:
        p = c.g.nodes[p.node].inputs[0]
    a = condition(p.node, p.output, BRANCH | (port & 1))
    return both(w, w.guard[src], intern(w, &a, 1), reader)

cdef int32_t joined(Work* w, int32_t i) noexcept nogil:
    """A Merge: of the two branches of one cond, what holds for both; else a condition of its own."""
    cdef pf_node* nd = w.c.g.nodes + i
    cdef Sets* s = &w.sets
    cdef int64_t out[MAX_CONDITIONS]
    cdef int32_t a, b, k, n = 0
    cdef bint opposite = False
    if nd.n_in != 2 or nd.n_ctl:
        return opaque(w, i, 0)
    a = guard_of(w, nd.inputs[0].node, nd.inputs[0].output, i)
    b = guard_of(w, nd.inputs[1].node, nd.inputs[1].output, i)
    if a == b:
        return a
    if s.count[a] != s.count[b]:
        return opaque(w, i, 0)
    for k in range(s.count[a]):
        if s.atoms[a][k] == s.atoms[b][k]:
            out[n] = s.atoms[a][k]
            n += 1
        elif not opposite and s.atoms[a][k] ^ 1 == s.atoms[b][k] and s.atoms[a][k] & 2 == 0:
            opposite = True
        else:
            return opaque(w, i, 0)
    return intern(w, out, n)

cdef int32_t of_loop(Work* w, int32_t i) noexcept nogil:
    """A loop's Merge is alive in every iteration there is: as its Enter."""
    cdef pf_node* nd = w.c.g.nodes + i
    cdef int32_t k
    for k in range(nd.n_in):
        if w.c.cls[nd.inputs[k].node] == PF_C_ENTER:
            return w.guard[nd.inputs[k].node]
    return opaque(w, i, 0)

cdef int32_t of_node(Work* w, int32_t i) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, g = 0
    if not c.flags[i] & PF_N_MAYBE_DEAD or pf_str_is(nd.op, b"ControlTrigger"):
        return 0
    if c.flags[i] & PF_N_LOOP_MERGE:
        return of_loop(w, i)
    if c.cls[i] == PF_C_MERGE:
        return joined(w, i)
    if c.cls[i] == PF_C_EXIT:
        return opaque(w, i, 0)
    for k in range(nd.n_in + nd.n_ctl):
        g = both(w, g, guard_of(w, nd.inputs[k].node, nd.inputs[k].output, i), i)
    return g

cdef pf_status find_guards(Work* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef Sets* s = &w.sets
    cdef int32_t j
    s.room = 64
    s.n_buckets = w.n_buckets
    s.n = 1                         # 0: the empty set
    s.atoms = <int64_t**>grab(c, s.room, sizeof(void*))
    s.count = <int32_t*>grab(c, s.room, sizeof(int32_t))
    s.same_hash = <int32_t*>grab(c, s.room, sizeof(int32_t))
    s.buckets = <int32_t*>grab(c, s.n_buckets, sizeof(int32_t))
    if c.err.code:
        return c.err.code
    for j in range(c.n):
        w.guard[c.topo[j]] = of_node(w, c.topo[j])
    return c.err.code
