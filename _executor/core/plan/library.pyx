# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The functions of a graph as plans: each is compiled when it is first called, and then it is there.

Invariants
1. A function has one plan per library, whoever calls it; recursion finds the plan it runs in.
2. The library owns these plans; the graph's own plan, and whoever keeps a function for later, hold the library.  A body's
   plan holds none, so there is no circle.
3. What failed to compile fails again, with the same error, at the next call.

Threads: any.  `lock` is held while one is compiled; kernels' init does not call.
"""
from plan_h cimport *

cdef struct Library:
    pf_a32 refs
    pthread_mutex_t lock
    pf_functions* functions
    pf_state* state
    pf_pool* pool
    pf_plan_options options
    pf_aptr* plans              # by the function's number; written under the lock

cdef public pf_library* pf_library_new(pf_functions* functions, pf_state* state, pf_pool* pool,
                                       const pf_plan_options* options) noexcept nogil:
    cdef Library* l = <Library*>calloc(1, sizeof(Library))
    if l == NULL:
        return NULL
    l.plans = <pf_aptr*>calloc(functions.n + 1, sizeof(pf_aptr))
    if l.plans == NULL:
        free(l)
        return NULL
    pf_a32_store(&l.refs, 1)
    pthread_mutex_init(&l.lock, NULL)
    pf_functions_ref(functions)
    l.functions = functions
    pf_state_ref(state)
    l.state = state
    pf_pool_ref(pool)
    l.pool = pool
    l.options = options[0]
    return <pf_library*>l

cdef public void pf_library_ref(pf_library* library) noexcept nogil:
    pf_a32_add_rlx(&(<Library*>library).refs, 1)

cdef public void pf_library_unref(pf_library* library) noexcept nogil:
    cdef Library* l = <Library*>library
    cdef int32_t k
    if l == NULL or not pf_a32_dec_last(&l.refs):
        return
    for k in range(l.functions.n):
        pf_plan_unref(<pf_plan*>pf_aptr_load(l.plans + k))
    free(l.plans)
    pf_functions_unref(l.functions)
    pf_state_unref(l.state)
    pf_pool_unref(l.pool)
    pthread_mutex_destroy(&l.lock)
    free(l)

cdef public const pf_function* pf_library_function(const pf_library* library, pf_str name) noexcept nogil:
    return pf_function_find((<const Library*>library).functions, name) if library != NULL else NULL

cdef pf_status compile(Library* l, const pf_function* f, pf_plan** out, pf_error* err) noexcept nogil:
    cdef pf_graph* g = NULL
    cdef pf_plan_options options = l.options
    cdef char text[3600]
    options.library = <pf_library*>l
    if pf_function_graph(l.functions, f, &g, err):
        return err.code
    if pf_plan_compile(g, NULL, 0, l.state, l.pool, &options, out, err):
        snprintf(text, 3600, b"function '%.*s', node '%.300s' (op %.80s): %.2800s", <int>min(f.name.len, <int64_t>200),
                 f.name.data, err.node, err.op, err.message)
        pf_copy_text(err.message, sizeof(err.message), text, <int64_t>strlen(text))
    return err.code

cdef public pf_status pf_library_find(pf_library* library, pf_str name, pf_plan** out, pf_error* err) noexcept nogil:
    cdef Library* l = <Library*>library
    cdef const pf_function* f = pf_library_function(library, name)
    cdef pf_plan* p
    if f == NULL:
        return pf_error_set(err, PF_NOT_FOUND, b"the graph's library has no function '%.*s'", <int>min(name.len, <int64_t>300),
                            name.data)
    p = <pf_plan*>pf_aptr_load(l.plans + (f - l.functions.items))
    if p == NULL:
        pthread_mutex_lock(&l.lock)
        p = <pf_plan*>pf_aptr_load(l.plans + (f - l.functions.items))
        if p == NULL and compile(l, f, &p, err) == PF_OK:
            pf_aptr_store(l.plans + (f - l.functions.items), p)
        pthread_mutex_unlock(&l.lock)
    out[0] = p
    return PF_OK if p != NULL else err.code
