# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Ways from a task to others: by a peer's name, the function that hands a tensor to the same step there.

    kernel _net.Send --post--> the step's task --its route to the peer--> put into the peer's table of steps

A route leads straight into another task of this process, or over a link: a function of whoever made it.

Invariants
1. A task has at most one route to a peer; a newer one takes the older one's place.
2. A route's `drop` is called once, when it was replaced or removed and no post uses it any more; no lock is held then.

Threads: any.  The task's lock guards the list; no function of a route is called with it held.
"""
from host_h cimport *

cdef struct Route:                  # what the header calls pf_route
    pf_route* next
    pf_a32 refs
    pf_route_fn fn
    void* arg
    void (*drop)(void*) noexcept nogil
    char peer[128]

cdef void let_go(pf_route* route) noexcept nogil:
    cdef Route* r = <Route*>route
    if r != NULL and pf_a32_dec_last(&r.refs):
        if r.drop != NULL:
            r.drop(r.arg)
        free(r)

cdef pf_route** where(pf_task* t, pf_str peer) noexcept nogil:
    cdef pf_route** at = &t.routes
    while at[0] != NULL and not pf_str_is(peer, (<Route*>at[0]).peer):
        at = &(<Route*>at[0]).next
    return at

cdef public pf_status pf_task_route(pf_task* t, const char* peer, pf_route_fn fn, void* arg, void (*drop)(void*) noexcept nogil) noexcept nogil:
    cdef Route* r = NULL
    cdef pf_route* old
    cdef pf_route** at
    if fn != NULL:
        r = <Route*>calloc(1, sizeof(Route))
        if r == NULL:
            return PF_RESOURCE_EXHAUSTED
        pf_a32_store(&r.refs, 1)
        r.fn = fn
        r.arg = arg
        r.drop = drop
        pf_copy_text(r.peer, sizeof(r.peer), peer, <int64_t>strlen(peer))
    pthread_mutex_lock(&t.lock)
    at = where(t, pf_str_of(peer))
    old = at[0]
    if old != NULL:
        at[0] = (<Route*>old).next
    if r != NULL:
        r.next = t.routes
        t.routes = <pf_route*>r
    pthread_mutex_unlock(&t.lock)
    let_go(old)
    return PF_OK

cdef pf_status put_there(void* arg, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, const pf_pend* pend,
                         pf_error* err) noexcept nogil:
    return pf_task_put(<pf_task*>arg, key, name, take, dead, err)

cdef void leave_task(void* arg) noexcept nogil:
    pf_task_unref(<pf_task*>arg)

cdef public pf_status pf_task_route_to(pf_task* t, const char* peer, pf_task* there) noexcept nogil:
    cdef pf_status st
    pf_task_ref(there)
    st = pf_task_route(t, peer, put_there, there, leave_task)
    if st:
        pf_task_unref(there)
    return st

cdef public pf_status pf_task_post(pf_task* t, pf_str peer, pf_step_key key, pf_str name, pf_tensor* take, int32_t dead, const pf_pend* pend,
                                   pf_error* err) noexcept nogil:
    cdef Route* r
    cdef pf_status st
    pthread_mutex_lock(&t.lock)
    r = <Route*>where(t, peer)[0]
    if r != NULL:
        pf_a32_add_rlx(&r.refs, 1)
    pthread_mutex_unlock(&t.lock)
    if r == NULL:
        pf_tensor_unref(take)
        return pf_error_set(err, PF_UNAVAILABLE, b"%s has no link to %.*s", t.name, <int>min(peer.len, <int64_t>120), peer.data)
    st = r.fn(r.arg, key, name, take, dead, pend, err)
    let_go(<pf_route*>r)
    return st

cdef public void pf_task_drop_routes(pf_task* t) noexcept nogil:
    cdef pf_route* all
    cdef pf_route* next
    pthread_mutex_lock(&t.lock)
    all = t.routes
    t.routes = NULL
    pthread_mutex_unlock(&t.lock)
    while all != NULL:
        next = (<Route*>all).next
        let_go(all)
        all = next
