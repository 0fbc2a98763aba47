# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Who used a resource last, for people who ask why nothing goes on: the steps of sessions that have a number, by session and node.

    RESOURCE  text: "container/name", what who takes and who puts waits at; a: puts that came, b: of so many; id: flags
              (pf_wait_state)
    USE       session, step, age: of the last; text: "container/name", node, op; a: its role, b: how often
    SOURCE    text: "container/name"; a: the number of one who put what is there

Invariants
1. At most MOST entries a resource, the longest unused goes first.  They own their texts: a plan may be gone.
2. A resource is asked with no lock held: its own is taken before the host's.

Threads: any; `lock`, the process's own, guards all entries and is taken after every other one.
"""
from host_h cimport *

cdef extern from *:
    """
    static pthread_mutex_t pf_uses_lock = PTHREAD_MUTEX_INITIALIZER;
    """
    pthread_mutex_t pf_uses_lock

cdef enum:
    MOST = 64
    MET = 64                    # resources of one glance

cdef struct Use:
    uint64_t session, step
    int64_t ns, times
    int32_t role, op_len
    pf_str node                 # the op behind it; owned

cdef struct Uses:               # what the header calls pf_uses
    int32_t n, pad
    Use[MOST] at

cdef public void pf_uses_free(pf_uses* uses) noexcept nogil:
    cdef Uses* u = <Uses*>uses
    cdef int32_t k
    if u == NULL:
        return
    for k in range(u.n):
        free(<void*>u.at[k].node.data)
    free(u)

cdef Use* entry_of(Uses* u, uint64_t session, pf_str node, pf_str op) noexcept nogil:
    """That of the session's node, or a new one, with lock held; NULL: no memory."""
    cdef int32_t k, oldest = 0
    cdef char* text
    cdef Use* e
    for k in range(u.n):
        e = u.at + k
        if e.session == session and e.node.len == node.len and memcmp(e.node.data, node.data, <size_t>node.len) == 0:
            return e
        if e.ns < u.at[oldest].ns:
            oldest = k
    text = <char*>malloc(<size_t>(node.len + op.len + 1))
    if text == NULL:
        return NULL
    memcpy(text, node.data, <size_t>node.len)
    memcpy(text + node.len, op.data, <size_t>op.len)
    e = u.at + (u.n if u.n < MOST else oldest)
    if u.n < MOST:
        u.n += 1
    else:
        free(<void*>e.node.data)
    memset(e, 0, sizeof(Use))
    e.session = session
    e.node.data = text
    e.node.len = node.len
    e.op_len = <int32_t>op.len
    return e

cdef public void pf_resource_used(pf_resource* r, pf_step_key key, int32_t role, pf_str node, pf_str op) noexcept nogil:
    cdef Use* e = NULL
    pthread_mutex_lock(&pf_uses_lock)
    if r.uses == NULL:
        r.uses = <pf_uses*>calloc(1, sizeof(Uses))
    if r.uses != NULL:
        e = entry_of(<Uses*>r.uses, key.session, node, op)
    if e != NULL:
        e.step = key.step
        e.role = role
        e.ns = pf_now_ns()
        e.times += 1
    pthread_mutex_unlock(&pf_uses_lock)

# ---------------------------------------------------------------- glances
cdef public void pf_glance_meet(pf_glance* g, pf_resource* r) noexcept nogil:
    cdef int32_t k
    for k in range(g.n_met):
        if g.met[k] == r:
            return
    if g.n_met == MET:
        g.cut = 1
        return
    pf_object_ref(&r.base)
    g.met[g.n_met] = r
    g.n_met += 1

cdef pf_str text_of(const char* s) noexcept nogil:
    if s == NULL:
        s = b""
    return pf_str_of(s)

cdef void add_uses(pf_glance* g, const Uses* u, pf_str name) noexcept nogil:
    cdef pf_glance_row row
    cdef int64_t now = pf_now_ns()
    cdef int32_t k
    cdef pf_str op
    memset(&row, 0, sizeof(row))
    row.kind = PF_GLANCE_USE
    for k in range(u.n):
        row.session = u.at[k].session
        row.step = u.at[k].step
        row.age_ns = now - u.at[k].ns
        row.a = u.at[k].role
        row.b = u.at[k].times
        op.data = u.at[k].node.data + u.at[k].node.len
        op.len = u.at[k].op_len
        pf_glance_add(g, row, name, u.at[k].node, op)

cdef void add_resource(pf_glance* g, pf_resource* r, pf_str name) noexcept nogil:
    cdef pf_wait_state state
    cdef pf_glance_row row
    cdef int64_t k
    memset(&state, 0, sizeof(state))
    memset(&row, 0, sizeof(row))
    state.size = sizeof(state)
    if r.type.tell != NULL and not pf_host_ended():
        r.type.tell(r.obj, &state)
    state.takes[sizeof(state.takes) - 1] = 0
    state.puts[sizeof(state.puts) - 1] = 0
    row.kind = PF_GLANCE_RESOURCE
    row.id = state.flags
    row.a = state.there
    row.b = state.needed
    pf_glance_add(g, row, name, text_of(state.takes), text_of(state.puts))
    row.kind = PF_GLANCE_SOURCE
    for k in range(min(state.n_sources, <int64_t>(sizeof(state.sources) / sizeof(int64_t)))):
        row.a = state.sources[k]
        pf_glance_add(g, row, name, text_of(NULL), text_of(NULL))
    pthread_mutex_lock(&pf_uses_lock)
    if r.uses != NULL:
        add_uses(g, <Uses*>r.uses, name)
    pthread_mutex_unlock(&pf_uses_lock)

cdef public void pf_glance_resources(pf_glance* g) noexcept nogil:
    cdef char[400] text
    cdef pf_resource* r
    cdef pf_str name
    cdef int32_t k
    for k in range(g.n_met):
        r = g.met[k]
        name.data = text
        name.len = min(snprintf(text, sizeof(text), b"%s/%s", text_of(r.base.container).data, text_of(r.base.name).data),
                       <int>sizeof(text) - 1)
        add_resource(g, r, name)
        pf_object_unref(&r.base)
    g.n_met = 0
