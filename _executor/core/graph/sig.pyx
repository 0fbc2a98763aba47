# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""The table of ops: signatures from the build, from the core itself and from plugins, by name.

Invariants
1. An entry is never moved or freed; its definition is parsed once, on first use, and immutable
   then (but for `infer`, which may come later than the signature, when Python declared the op
   first).
2. Order of the table: the build's ops, the core's own (sig.h) where those lack one, then
   registrations.
3. A name has one signature for ever; saying it again in other words is an error.

Threads: any; one lock guards the table, no call leaves this module (but parsing) under it.

    const pf_op_def *op = pf_op_find(pf_str_of("MatMul"));
"""
from sig_h cimport *

cdef extern from *:
    """
    static pthread_mutex_t pf_ops_lock = PTHREAD_MUTEX_INITIALIZER;
    """
    pthread_mutex_t pf_ops_lock

cdef struct Entry:
    pf_str name
    const char* sig
    int32_t flags, cls, traits
    bint parsed, bad
    pf_op_def op

cdef struct Ops:
    pf_arena arena
    Entry** order
    int32_t n, room
    int32_t* table      # 1 + index in order; 0: empty
    uint64_t mask
    bint loaded

cdef Ops ops


# ---------------------------------------------------------------- the table
cdef int32_t* slot_of(pf_str name) noexcept nogil:
    cdef uint64_t h = pf_str_hash(name)
    cdef int32_t* slot
    while True:
        slot = ops.table + (h & ops.mask)
        if slot[0] == 0 or pf_str_eq(ops.order[slot[0] - 1].name, name):
            return slot
        h += 1


cdef bint grow() noexcept nogil:
    """Room for one more entry, and the table never more than half full."""
    cdef int32_t i, room = 2 * ops.room if ops.room else 1024
    cdef Entry** order
    cdef int32_t* table
    if ops.n < ops.room:
        return True
    order = <Entry**>realloc(ops.order, room * sizeof(void*))
    if order == NULL:
        return False
    ops.order = order
    table = <int32_t*>calloc(2 * room, sizeof(int32_t))
    if table == NULL:
        return False
    free(ops.table)
    ops.table = table
    ops.mask = 2 * room - 1
    ops.room = room
    for i in range(ops.n):
        slot_of(ops.order[i].name)[0] = i + 1
    return True


cdef Entry* add(const char* name, const char* sig, int32_t flags) noexcept nogil:
    """A new entry; `name` and `sig` stay valid (they are static or in the arena)."""
    cdef Entry* e
    if not grow():
        return NULL
    e = <Entry*>pf_arena_alloc(&ops.arena, sizeof(Entry))
    if e == NULL:
        return NULL
    e.name = pf_str_of(name)
    e.sig = sig
    e.flags = flags
    ops.order[ops.n] = e
    ops.n += 1
    slot_of(e.name)[0] = ops.n
    return e


cdef void load(const pf_op_sig* from_table) noexcept nogil:
    """Adds what is not there yet; a class is that of the entry, whoever brought its signature."""
    cdef Entry* e
    cdef int32_t i
    while from_table.name != NULL:
        i = slot_of(pf_str_of(from_table.name))[0]
        e = ops.order[i - 1] if i else add(from_table.name, from_table.sig, from_table.flags)
        if e != NULL and from_table.cls:
            e.cls = from_table.cls
            e.traits = from_table.traits
        from_table += 1


cdef bint ready() noexcept nogil:
    """With the lock held: the static tables are in."""
    if not ops.loaded and grow():
        ops.loaded = True
        load(pf_op_table)
        load(pf_builtin_ops)
    return ops.loaded


cdef const pf_op_def* parsed(Entry* e, pf_error* err) noexcept nogil:
    cdef pf_error ignored
    if not e.parsed and not e.bad:
        if err == NULL:
            memset(&ignored, 0, sizeof(ignored))
            err = &ignored
        e.bad = pf_sig_parse(e.name.data, e.sig, &ops.arena, &e.op, err) != PF_OK
        e.parsed = not e.bad
        e.op.flags = e.flags
        e.op.cls = e.cls
        e.op.traits = e.traits
        if e.bad:
            fprintf(stderr, b"pyflow: %s\n", err.message)
    return NULL if e.bad else &e.op


cdef public const pf_op_def* pf_op_find(pf_str name) noexcept nogil:
    cdef const pf_op_def* op = NULL
    cdef int32_t i
    pthread_mutex_lock(&pf_ops_lock)
    if ready():
        i = slot_of(name)[0]
        if i:
            op = parsed(ops.order[i - 1], NULL)
    pthread_mutex_unlock(&pf_ops_lock)
    return op


cdef public int32_t pf_op_count() noexcept nogil:
    cdef int32_t n
    pthread_mutex_lock(&pf_ops_lock)
    n = ops.n if ready() else 0
    pthread_mutex_unlock(&pf_ops_lock)
    return n


cdef public const pf_op_def* pf_op_at(int32_t i) noexcept nogil:
    cdef const pf_op_def* op = NULL
    pthread_mutex_lock(&pf_ops_lock)
    if ready() and 0 <= i < ops.n:
        op = parsed(ops.order[i], NULL)
    pthread_mutex_unlock(&pf_ops_lock)
    return op


# ---------------------------------------------------------------- registration
cdef bint same_text(const char* a, const char* b) noexcept nogil:
    """Equal but for spaces."""
    while True:
        while a[0] == b' ':
            a += 1
        while b[0] == b' ':
            b += 1
        if a[0] != b[0]:
            return False
        if not a[0]:
            return True
        a += 1
        b += 1


cdef const char* arena_text(const char* text) noexcept nogil:
    return pf_arena_str(&ops.arena, pf_str_of(text)).data if text != NULL else NULL


cdef pf_status register_again(Entry* e, const char* sig,
                              pf_status (*infer)(pf_infer*) noexcept nogil,
                              const char* doc, const char* plugin, pf_error* err) noexcept nogil:
    cdef const char* owner = e.op.plugin
    if not same_text(e.sig, sig):
        if owner == NULL:
            owner = b"pyflow"
        return pf_error_set(err, PF_ALREADY_EXISTS, b"op '%s' already has another signature, from "
                            b"%s: '%.900s'; "
                            b"got '%.900s'. Give the op a prefix of its own, such as 'acme.%s'",
                            e.name.data, owner, e.sig, sig, e.name.data)
    if parsed(e, err) == NULL:
        return err.code
    if e.op.infer == NULL:
        e.op.infer = infer
    if e.op.doc == NULL:
        e.op.doc = arena_text(doc)
    if e.op.plugin == NULL and infer != NULL:
        e.op.plugin = arena_text(plugin)
    return PF_OK


cdef pf_status register_new(const char* name, const char* sig, int32_t flags,
                            pf_status (*infer)(pf_infer*) noexcept nogil, const char* doc,
                            const char* plugin,
                            pf_error* err) noexcept nogil:
    cdef pf_op_def op
    cdef Entry* e
    if pf_sig_parse(name, sig, &ops.arena, &op, err) != PF_OK:
        return err.code
    e = add(op.name.data, op.sig.data, flags)
    if e == NULL:
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for op '%s'", name)
    e.op = op
    e.op.flags = flags
    e.op.infer = infer
    e.op.doc = arena_text(doc)
    e.op.plugin = arena_text(plugin)
    e.parsed = True
    return PF_OK


cdef public pf_status pf_op_register(const char* name, const char* sig, int32_t flags,
                                     pf_status (*infer)(pf_infer*) noexcept nogil, const char* doc,
                                     const char* plugin, pf_error* err) noexcept nogil:
    cdef pf_status s
    cdef int32_t i
    if name == NULL or not name[0] or sig == NULL:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"an op needs a name and a signature")
    pthread_mutex_lock(&pf_ops_lock)
    if not ready():
        s = pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for the table of ops")
    else:
        i = slot_of(pf_str_of(name))[0]
        if i:
            s = register_again(ops.order[i - 1], sig, infer, doc, plugin, err)
        else:
            s = register_new(name, sig, flags, infer, doc, plugin, err)
    pthread_mutex_unlock(&pf_ops_lock)
    return s
