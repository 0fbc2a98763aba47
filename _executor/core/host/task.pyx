# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Tasks: what the sessions of one server share, and no other server's do, be it in the same process.

    pf_task: named containers (state.pyx), steps by their key (step_table.pyx), an incarnation

The INCARNATION is 64 random bits: a message for another one was meant for a server that is gone.  A process that was forked off
is another server, so there they are drawn anew.  Sessions that name no server belong to the process's own task, which has no
name and never ends.

Threads: any.
"""
from host_h cimport *

cdef extern from *:
    """
    static pf_task pf_own_task = {.lock = PTHREAD_MUTEX_INITIALIZER, .max_early = 4096, .max_early_bytes = 1 << 28};
    """
    pf_task pf_own_task

cdef enum:
    MAX_EARLY = 4096
    MAX_EARLY_BYTES = 1 << 28

cdef public pf_task* pf_task_own() noexcept nogil:
    return &pf_own_task

cdef public pf_task* pf_task_new(const char* name) noexcept nogil:
    cdef pf_task* t = <pf_task*>calloc(1, sizeof(pf_task))
    if t == NULL:
        return NULL
    pf_a32_store(&t.refs, 1)
    pf_copy_text(t.name, sizeof(t.name), name, <int64_t>strlen(name))
    pthread_mutex_init(&t.lock, NULL)
    t.max_early = MAX_EARLY
    t.max_early_bytes = MAX_EARLY_BYTES
    pf_task_incarnation(t)
    return t

cdef public void pf_task_ref(pf_task* t) noexcept nogil:
    if t != &pf_own_task:
        pf_a32_add_rlx(&t.refs, 1)

cdef public void pf_task_unref(pf_task* t) noexcept nogil:
    if t == NULL or t == &pf_own_task or not pf_a32_dec_last(&t.refs):
        return
    pf_task_drop_routes(t)
    pf_task_forget_steps(t)
    pf_containers_free(t)
    pthread_mutex_destroy(&t.lock)
    free(t)

cdef public uint64_t pf_task_incarnation(pf_task* t) noexcept nogil:
    cdef uint64_t n
    pf_watch_forks()
    pthread_mutex_lock(&t.lock)
    if t.generation != pf_fork_generation():
        t.incarnation = 0
        t.generation = pf_fork_generation()
    while t.incarnation == 0:
        t.incarnation = pf_entropy()
    n = t.incarnation
    pthread_mutex_unlock(&t.lock)
    return n
