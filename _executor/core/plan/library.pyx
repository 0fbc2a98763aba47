# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The functions of a graph as plans: each is compiled when it is first called, and then it is there.

Invariants
1. A function has one plan per library, whoever calls it; recursion finds the plan it runs in.
2. The library owns these plans; the graph's own plan, and whoever keeps a function for later, hold the library.  A body's
   plan holds none, so there is no circle.
3. What failed to compile fails again, with the same error, at the next call.
4. A kernel's init may ask for functions (pf_library_promise), also for the one whose body it stands in: that one, and what
   lies too deep in each other, is compiled when it is first called.

Threads: any.  `lock` is held while one is compiled, by the thread that compiles also for what that asks for.
"""
from plan_h cimport *

cdef enum:
    MAX_NESTED = 16             # compiled within each other's init: each takes some kilobytes of the thread's stack

cdef extern from *:
    """
    static inline int pf_recursive_mutex(pthread_mutex_t *m) {
      pthread_mutexattr_t how;
      if (pthread_mutexattr_init(&how)) return -1;
      int error = pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE) || pthread_mutex_init(m, &how);
      pthread_mutexattr_destroy(&how);
      return error;
    }
    """
    int recursive_mutex "pf_recursive_mutex"(pthread_mutex_t*) noexcept nogil

cdef struct Library:
    pf_a32 refs
    pthread_mutex_t lock        # recursive
    pf_functions* functions
    pf_state* state
    pf_pool* pool
    pf_plan_options options
    pf_aptr* plans              # by the function's number; written under the lock
    uint8_t* begun              # likewise: it is being compiled (lock)
    int32_t nested              # lock

cdef public pf_library* pf_library_new(pf_functions* functions, pf_state* state, pf_pool* pool,
                                       const pf_plan_options* options) noexcept nogil:
    cdef Library* l = <Library*>calloc(1, sizeof(Library))
    if l == NULL:
        return NULL
    l.plans = <pf_aptr*>calloc(functions.n + 1, sizeof(pf_aptr))
    l.begun = <uint8_t*>calloc(functions.n + 1, 1)
    if l.plans == NULL or l.begun == NULL or recursive_mutex(&l.lock):
        free(l.plans)
        free(l.begun)
        free(l)
        return NULL
    pf_a32_store(&l.refs, 1)
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
    free(l.begun)
    pf_functions_unref(l.functions)
    pf_state_unref(l.state)
    pf_pool_unref(l.pool)
    pthread_mutex_destroy(&l.lock)
    free(l)

cdef public const pf_function* pf_library_function(const pf_library* library, pf_str name) noexcept nogil:
    return pf_function_find((<const Library*>library).functions, name) if library != NULL else NULL

cdef public int32_t pf_library_size(const pf_library* library) noexcept nogil:
    return (<const Library*>library).functions.n if library != NULL else 0

cdef public pf_plan* pf_library_compiled(const pf_library* library, int32_t k, pf_str* name) noexcept nogil:
    cdef const Library* l = <const Library*>library
    name[0] = l.functions.items[k].name
    return <pf_plan*>pf_aptr_load(l.plans + k)

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

cdef pf_status not_there(pf_str name, pf_error* err) noexcept nogil:
    return pf_error_set(err, PF_NOT_FOUND, b"the graph's library has no function '%.*s'", <int>min(name.len, <int64_t>300), name.data)

cdef pf_plan* compile_once(Library* l, const pf_function* f, pf_error* err) noexcept nogil:
    """Lock held.  NULL: it cannot be compiled, or (err says nothing) it is being compiled, or others are too deep in each other."""
    cdef int64_t k = f - l.functions.items
    cdef pf_plan* p = <pf_plan*>pf_aptr_load(l.plans + k)
    if p != NULL or l.begun[k] or l.nested == MAX_NESTED:
        return p
    l.begun[k] = 1
    l.nested += 1
    if compile(l, f, &p, err) == PF_OK:
        pf_aptr_store(l.plans + k, p)
    l.nested -= 1
    l.begun[k] = 0
    return p

cdef public pf_status pf_library_promise(pf_library* library, pf_str name, pf_plan** out, pf_error* err) noexcept nogil:
    """The plan, or NULL and PF_OK: pf_library_find will know, once no init is under way on this thread."""
    cdef Library* l = <Library*>library
    cdef const pf_function* f = pf_library_function(library, name)
    cdef pf_plan* p
    out[0] = NULL
    if f == NULL:
        return not_there(name, err)
    p = <pf_plan*>pf_aptr_load(l.plans + (f - l.functions.items))
    if p == NULL:
        pthread_mutex_lock(&l.lock)
        p = compile_once(l, f, err)
        pthread_mutex_unlock(&l.lock)
    out[0] = p
    return PF_OK if p != NULL else err.code

cdef public pf_status pf_library_find(pf_library* library, pf_str name, pf_plan** out, pf_error* err) noexcept nogil:
    cdef pf_status st = pf_library_promise(library, name, out, err)
    if st == PF_OK and out[0] == NULL:
        return pf_error_set(err, PF_FAILED_PRECONDITION, b"function '%.*s' is called while it is compiled",
                            <int>min(name.len, <int64_t>300), name.data)
    return st
