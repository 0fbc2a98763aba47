# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Groups: what plugins that offer "pyflow.compiler/1" claim, and its replacement by one instruction each.

A CANDIDATE is a stateless synchronous kernel node without refs, on a compiler's device type, that `supports` gives a class.
Candidates of one KEY (frame, condition to be alive, device, class) may share a group.  Groups are found by running the graph
on paper:

    READY -> DONE             [run_plain]   every other node, as soon as it can
    READY -> WAVE             [run_wave]    when nothing else can run: all candidates of one key, and what they make ready
    WAVE  -> DONE, a group    [commit]      a connected part of the wave
    WAVE  -> READY            [postpone]    a part that nobody outside waits for, while more of its key may join later

Invariants
1. A group's members are DONE together: their inputs were DONE before, their readers run after.  So the graph with each group
   drawn together stays acyclic (no path leaves a group and enters it again), and c.topo stays an order of it.
2. The work is linear: a node is postponed MAX_TURNS times at most.
3. Equal conditions ("conditions", below) mean: dead or alive together.
4. A replaced node has no instruction, inputs, outputs or readers; its kernel's state stays until the plan goes.

Threads: the caller of pf_plan_compile; `supports` and `compile` are called with no lock held.  A process without such a plugin
pays one comparison per plan.
"""
from groups_h cimport *

cdef enum:
    MAX_TURNS = 8
    UNFIT = PF_KERNEL_ASYNC | PF_KERNEL_BLOCKING | PF_KERNEL_DEAD | PF_KERNEL_COLLECTIVE

# ---------------------------------------------------------------- conditions
# Under which conditions a node is alive.
#
# A CONDITION is "the predicate p is false", "... true", or "this output of this node is alive" for what cannot be told (Recv, a
# Merge that joins no Switch).  A node's set of conditions is the union of its inputs'; a Switch adds the branch taken, the Merge of a
# cond's two branches takes it away again.  Inside a loop, conditions hold per iteration.
cdef enum:
    MAX_CONDITIONS = 64
    BRANCH = 0              # | port: two low bits of a condition
    OPAQUE = 2

cdef inline int64_t condition(int32_t node, int32_t port, int32_t kind) noexcept nogil:
    return ((<int64_t>node << 12) | (port & 4095)) << 2 | kind

cdef int32_t intern(pf_grouping* w, const int64_t* atoms, int32_t n) noexcept nogil:
    """The set's number."""
    cdef pf_guard_sets* s = &w.sets
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
        atoms_grown = <int64_t**>pf_comp_grab(w.c, room, sizeof(void*))
        ints = <int32_t*>pf_comp_grab(w.c, 2 * room, sizeof(int32_t))
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
    s.atoms[k] = <int64_t*>pf_comp_grab(w.c, n, sizeof(int64_t))
    if s.atoms[k] == NULL:
        return 0
    memcpy(s.atoms[k], atoms, sizeof(int64_t) * n)
    s.count[k] = n
    s.same_hash[k] = s.buckets[b]
    s.buckets[b] = k
    s.n += 1
    return k

cdef int32_t opaque(pf_grouping* w, int32_t node, int32_t port) noexcept nogil:
    cdef int64_t a = condition(node, port, OPAQUE)
    return intern(w, &a, 1)

cdef int32_t both(pf_grouping* w, int32_t a, int32_t b, int32_t node) noexcept nogil:
    """The union of two sets; if it grows too large, a condition of the node's own."""
    cdef int64_t out[MAX_CONDITIONS * 2]
    cdef pf_guard_sets* s = &w.sets
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

cdef int32_t guard_of(pf_grouping* w, int32_t src, int32_t port, int32_t reader) noexcept nogil:
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

cdef int32_t joined(pf_grouping* w, int32_t i) noexcept nogil:
    """A Merge: of the two branches of one cond, what holds for both; else a condition of its own."""
    cdef pf_node* nd = w.c.g.nodes + i
    cdef pf_guard_sets* s = &w.sets
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

cdef int32_t of_loop(pf_grouping* w, int32_t i) noexcept nogil:
    """A loop's Merge is alive in every iteration there is: as its Enter."""
    cdef pf_node* nd = w.c.g.nodes + i
    cdef int32_t k
    for k in range(nd.n_in):
        if w.c.cls[nd.inputs[k].node] == PF_C_ENTER:
            return w.guard[nd.inputs[k].node]
    return opaque(w, i, 0)

cdef int32_t of_node(pf_grouping* w, int32_t i) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k, g = 0
    if not c.flags[i] & PF_N_MAYBE_DEAD or c.def_[i].traits & PF_TRAIT_NEVER_DEAD:
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

cdef pf_status find_guards(pf_grouping* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef pf_guard_sets* s = &w.sets
    cdef int32_t j
    s.room = 64
    s.n_buckets = w.n_buckets
    s.n = 1                         # 0: the empty set
    s.atoms = <int64_t**>pf_comp_grab(c, s.room, sizeof(void*))
    s.count = <int32_t*>pf_comp_grab(c, s.room, sizeof(int32_t))
    s.same_hash = <int32_t*>pf_comp_grab(c, s.room, sizeof(int32_t))
    s.buckets = <int32_t*>pf_comp_grab(c, s.n_buckets, sizeof(int32_t))
    if c.err.code:
        return c.err.code
    for j in range(c.n):
        w.guard[c.topo[j]] = of_node(w, c.topo[j])
    return c.err.code

# ---------------------------------------------------------------- candidates
cdef bint reads_refs(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_node* nd = c.g.nodes + i
    cdef int32_t k
    for k in range(nd.n_in):
        if (c.sig[i].in_ref[k] or c.sig[nd.inputs[k].node].out_ref[nd.inputs[k].output] or pf_comp_is_late(c, i, k)
                or pf_comp_reads_ref(c, i, k, nd.inputs + k)):
            return True
    for k in range(c.sig[i].n_out):
        if c.sig[i].out_ref[k]:
            return True
    return False

cdef bint leaves_on_host(pf_comp* c, int32_t i) noexcept nogil:
    """Of a device with memory of its own: the host would have to wait for such an output."""
    cdef int32_t k
    for k in range(c.sig[i].n_out):
        if not c.mem[c.mem_at[i] + k]:
            return True
    return False

cdef int32_t class_of(pf_grouping* w, pf_group* whole, int32_t i) noexcept nogil:
    """The class the compiler gives node i; 0: no candidate."""
    cdef pf_comp* c = w.c
    if c.cls[i] != PF_C_KERNEL or c.kernel[i] == NULL or c.def_[i].flags & PF_OP_STATEFUL:
        return 0
    if c.kernel[i].kernel.flags & <uint32_t>UNFIT or c.sig[i].n_out == 0 or reads_refs(c, i):
        return 0
    if strcmp(c.plan.nodes[i].dev.type, w.by.compiler.device) or pf_group_is(c.kernel[i]):
        return 0
    if c.plan.nodes[i].home != NULL and leaves_on_host(c, i):
        return 0
    return w.by.compiler.supports(w.api, whole, i)

cdef int32_t key_of(pf_grouping* w, const pf_group_key* k) noexcept nogil:
    cdef uint64_t h = <uint64_t>k.frame * <uint64_t>0x9E3779B97F4A7C15ULL ^ <uint64_t>k.guard * <uint64_t>0xBF58476D1CE4E5B9ULL
    cdef int32_t b, i
    cdef pf_group_key* grown
    h ^= <uint64_t><uint32_t>k.device_class * <uint64_t>0x94D049BB133111EBULL ^ <uint64_t><uintptr_t>k.device
    h ^= h >> 29
    b = <int32_t>(h & <uint64_t>(w.n_buckets - 1))
    i = w.buckets[b] - 1
    while i >= 0:
        if (w.keys[i].frame == k.frame and w.keys[i].guard == k.guard and w.keys[i].device == k.device
                and w.keys[i].device_class == k.device_class):
            return i
        i = w.keys[i].same_hash
    if w.n_keys == w.keys_room:
        grown = <pf_group_key*>pf_comp_grab(w.c, 2 * w.keys_room, sizeof(pf_group_key))
        if grown == NULL:
            return -1
        memcpy(grown, w.keys, sizeof(pf_group_key) * w.n_keys)
        w.keys = grown
        w.keys_room *= 2
    w.keys[w.n_keys] = k[0]
    w.keys[w.n_keys].same_hash = w.buckets[b] - 1
    w.buckets[b] = w.n_keys + 1
    w.n_keys += 1
    return w.n_keys - 1

cdef int32_t find_candidates(pf_grouping* w) noexcept nogil:
    """Keys of all candidates; their number."""
    cdef pf_comp* c = w.c
    cdef pf_group whole
    cdef pf_group_key k
    cdef int32_t i, n = 0
    memset(&whole, 0, sizeof(whole))
    whole.c = c
    whole.whole = 1
    whole.n = c.n
    for i in range(c.n):
        w.key[i] = -1
        k.device_class = class_of(w, &whole, i)
        if k.device_class == 0:
            continue
        k.frame = c.frame[i]
        k.guard = w.guard[i]
        k.device = c.plan.nodes[i].dev
        w.key[i] = key_of(w, &k)
        n += 1
    return n

# ---------------------------------------------------------------- running the graph on paper
cdef inline bint counts(pf_comp* c, int32_t src, int32_t d) noexcept nogil:
    """The edge orders: it is not the way back of a loop."""
    return not (c.cls[src] == PF_C_NEXT and c.flags[d] & PF_N_LOOP_MERGE)

cdef void make_ready(pf_grouping* w, int32_t i) noexcept nogil:
    cdef int32_t k = w.key[i]
    if k < 0:
        w.plain[w.n_plain] = i
        w.n_plain += 1
        return
    w.next[i] = w.ready[k]
    w.ready[k] = i
    if not w.is_active[k]:
        w.is_active[k] = 1
        w.active[(w.first_active + w.n_active) % w.n_keys] = k
        w.n_active += 1

cdef void start_paper(pf_grouping* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef int32_t i, k
    w.n_plain = 0
    w.n_active = 0
    w.n_order = 0
    for i in range(w.n_keys):
        w.ready[i] = -1
    memset(w.waits, 0, sizeof(int32_t) * c.n)
    for i in range(c.n):
        for k in range(c.g.nodes[i].n_in + c.g.nodes[i].n_ctl):
            w.waits[i] += counts(c, c.g.nodes[i].inputs[k].node, i)
    for i in range(c.n):
        if c.next_start != NULL and c.next_start[i] >= 0:
            w.waits[c.next_start[i]] += 1
    for i in range(c.n - 1, -1, -1):
        if w.waits[i] == 0:
            make_ready(w, i)

cdef void done(pf_grouping* w, int32_t i) noexcept nogil:
    """Node i is DONE: its readers outside the wave wait for one less (those inside were told by the wave)."""
    cdef pf_comp* c = w.c
    cdef int32_t k, d
    w.order[w.n_order] = i
    w.n_order += 1
    for k in range(c.out_begin[i], c.out_begin[i + 1]):
        d = c.out_node[k]
        if not counts(c, i, d) or (w.key[i] >= 0 and w.key[d] == w.key[i]):
            continue
        w.waits[d] -= 1
        if w.waits[d] == 0:
            make_ready(w, d)
    if c.next_start != NULL and c.next_start[i] >= 0:
        d = c.next_start[i]
        w.waits[d] -= 1
        if w.waits[d] == 0:
            make_ready(w, d)

cdef int32_t root_of(pf_grouping* w, int32_t i) noexcept nogil:
    while w.up[i] != i:
        w.up[i] = w.up[w.up[i]]
        i = w.up[i]
    return i

cdef void run_wave(pf_grouping* w, int32_t key) noexcept nogil:
    """All ready candidates of the key, and what of it they make ready; connected ones are joined."""
    cdef pf_comp* c = w.c
    cdef int32_t i = w.ready[key], k, d, at = 0
    w.ready[key] = -1
    w.is_active[key] = 0
    w.wave_id += 1
    w.n_wave = 0
    while i >= 0:
        w.wave[w.n_wave] = i
        w.n_wave += 1
        i = w.next[i]
    while at < w.n_wave:
        i = w.wave[at]
        at += 1
        w.in_wave[i] = w.wave_id
        w.up[i] = i
        w.open[i] = 0
        for k in range(c.out_begin[i], c.out_begin[i + 1]):
            d = c.out_node[k]
            if w.key[d] == key:
                w.waits[d] -= 1
                if w.waits[d] == 0:
                    w.wave[w.n_wave] = d
                    w.n_wave += 1
    for at in range(w.n_wave):
        i = w.wave[at]
        for k in range(c.g.nodes[i].n_in + c.g.nodes[i].n_ctl):
            d = c.g.nodes[i].inputs[k].node
            if w.in_wave[d] == w.wave_id:
                w.up[root_of(w, d)] = root_of(w, i)

cdef void look_outside(pf_grouping* w) noexcept nogil:
    """Per connected part of the wave: who waits for it."""
    cdef pf_comp* c = w.c
    cdef int32_t at, i, k, d, r
    for at in range(w.n_wave):
        i = w.wave[at]
        r = root_of(w, i)
        if w.turns[i] >= MAX_TURNS:
            w.open[r] |= 1
        for k in range(c.out_begin[i], c.out_begin[i + 1]):
            d = c.out_node[k]
            if w.in_wave[d] != w.wave_id:
                w.open[r] |= 2 if w.key[d] == w.key[i] else 1

cdef void take_back(pf_grouping* w, int32_t i) noexcept nogil:
    """WAVE -> as before."""
    cdef pf_comp* c = w.c
    cdef int32_t k
    w.turns[i] += 1
    for k in range(c.out_begin[i], c.out_begin[i + 1]):
        if w.key[c.out_node[k]] == w.key[i]:
            w.waits[c.out_node[k]] += 1

cdef pf_status end_wave(pf_grouping* w, bint force, bint* moved) noexcept nogil:
    """Parts that somebody waits for, or that cannot grow, become groups; the others wait for the rest of their kind."""
    cdef pf_comp* c = w.c
    cdef int32_t at, i, r
    moved[0] = False
    look_outside(w)
    for at in range(w.n_wave):
        i = w.wave[at]
        w.part[i] = -1
        r = root_of(w, i)
        if w.part_last[r] < 0:
            w.part_last[r] = i
            w.local[r] = i              # the part's first node, meanwhile
        else:
            w.part[w.part_last[r]] = i
            w.part_last[r] = i
    for at in range(w.n_wave):
        r = w.wave[at]
        if w.up[r] != r:
            continue
        i = w.local[r]
        w.local[r] = -1
        w.part_last[r] = -1
        if w.open[r] == 2 and not force:
            w.wave[at] = -1 - i         # postponed below
            continue
        moved[0] = True
        if w.part[i] >= 0 and pf_group_compile(w, i):
            return c.err.code
        while i >= 0:
            done(w, i)
            i = w.part[i]
    for at in range(w.n_wave):
        if w.wave[at] < 0:
            postpone(w, -1 - w.wave[at])
    return PF_OK

cdef void postpone(pf_grouping* w, int32_t first) noexcept nogil:
    cdef int32_t i = first
    while i >= 0:
        take_back(w, i)
        i = w.part[i]
    i = first
    while i >= 0:
        if w.waits[i] == 0:
            make_ready(w, i)
        i = w.part[i]

cdef pf_status run_paper(pf_grouping* w) noexcept nogil:
    cdef bint moved
    cdef int32_t key, in_vain = 0
    start_paper(w)
    while True:
        while w.n_plain:
            w.n_plain -= 1
            done(w, w.plain[w.n_plain])
            in_vain = 0
        if w.n_active == 0:
            return PF_OK
        key = w.active[w.first_active]
        w.first_active = (w.first_active + 1) % w.n_keys
        w.n_active -= 1
        run_wave(w, key)
        if end_wave(w, in_vain > w.n_active, &moved):
            return w.c.err.code
        in_vain = 0 if moved else in_vain + 1

# ---------------------------------------------------------------- replacing a group
# ---------------------------------------------------------------- all of it
cdef pf_status allocate(pf_grouping* w) noexcept nogil:
    cdef pf_comp* c = w.c
    cdef int32_t i, outs = 0
    w.n_buckets = 1024
    while w.n_buckets < c.n:
        w.n_buckets *= 2
    w.keys_room = 64
    for i in range(c.n):
        outs += c.sig[i].n_out
    w.guard = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.keys = <pf_group_key*>pf_comp_grab(c, w.keys_room, sizeof(pf_group_key))
    w.buckets = <int32_t*>pf_comp_grab(c, w.n_buckets, sizeof(int32_t))
    w.key = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.ready = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.next = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.active = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.is_active = <uint8_t*>pf_comp_grab(c, c.n, 1)
    w.waits = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.plain = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.wave = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.in_wave = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.up = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.turns = <uint8_t*>pf_comp_grab(c, c.n, 1)
    w.open = <uint8_t*>pf_comp_grab(c, c.n, 1)
    w.order = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.part = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.part_last = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.local = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.rep = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.first_out = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    w.out_index = <int32_t*>pf_comp_grab(c, outs, sizeof(int32_t))
    w.in_head = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
    if c.err.code:
        return c.err.code
    for i in range(c.n):
        w.part_last[i] = -1
        w.local[i] = -1
        w.rep[i] = -1
    return PF_OK

cdef pf_status group_by(pf_grouping* w) noexcept nogil:
    """What one compiler claims."""
    cdef pf_comp* c = w.c
    cdef int32_t before = c.plan.n_groups
    if find_candidates(w) < 2 or c.err.code:
        return c.err.code
    if run_paper(w) or c.plan.n_groups == before:
        return c.err.code
    if pf_group_install_all(w):
        return c.err.code
    memcpy(c.topo, w.order, sizeof(int32_t) * c.n)
    return pf_comp_consumers(c)

cdef public pf_status pf_comp_group(pf_comp* c) noexcept nogil:
    cdef pf_grouping w
    cdef pf_group_api api
    cdef int32_t k
    for k in range(pf_compiler_count()):
        memset(&w, 0, sizeof(w))
        w.c = c
        w.by = pf_compiler_at(k)
        w.api = &api
        if c.opt.groups == PF_GROUPS_DETERMINISTIC and not w.by.compiler.flags & <uint32_t>PF_KERNEL_DETERMINISTIC:
            continue
        pf_group_fill_api(&api)
        if allocate(&w) or find_guards(&w) or group_by(&w):
            pf_group_release(&w)
            return c.err.code
    return PF_OK
