# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The extension "pyflow.functions/1": kernels of any plugin call functions of the graph's library.

A pf_fn holds the library, which holds the function's plan, its state and its pool: it outlives the step and the graph's own
plan.  A call holds its pf_fn until `done` has returned.

Threads: any.
"""
from outputs_h cimport *

cdef enum:
    FEW = 16

cdef struct Fn:
    pf_a32 refs
    pf_library* library
    pf_plan* plan
    const pf_function* def_

cdef struct Call:                   # what `done` needs
    Fn* fn
    void (*done)(void*, pf_status, pf_str, DLManagedTensorVersioned* const*) noexcept nogil
    void* arg

cdef pf_status fn_get(pf_ctx* ctx, pf_str name, pf_fn** out) noexcept nogil:
    cdef pf_library* l
    cdef pf_plan* plan = NULL
    cdef pf_error err
    cdef Fn* f
    if ctx == NULL or out == NULL:
        return PF_INVALID_ARGUMENT
    out[0] = NULL
    l = (<pf_call*>ctx).plan.library if (<pf_call*>ctx).plan != NULL else NULL
    pf_error_clear(&err)
    if pf_library_find(l, name, &plan, &err):
        return pf_fail(ctx, err.code, err.message)
    f = <Fn*>calloc(1, sizeof(Fn))
    if f == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a function")
    pf_a32_store(&f.refs, 1)
    pf_library_ref(l)
    f.library = l
    f.plan = plan
    f.def_ = pf_library_function(l, name)
    out[0] = <pf_fn*>f
    return PF_OK

cdef void fn_retain(pf_fn* fn) noexcept nogil:
    if fn != NULL:
        pf_a32_add_rlx(&(<Fn*>fn).refs, 1)

cdef void fn_release(pf_fn* fn) noexcept nogil:
    cdef Fn* f = <Fn*>fn
    if f != NULL and pf_a32_dec_last(&f.refs):
        pf_library_unref(f.library)
        free(f)

cdef int32_t fn_inputs(const pf_fn* fn, const int32_t** types) noexcept nogil:
    cdef const Fn* f = <const Fn*>fn
    if f == NULL:
        return 0
    if types != NULL:
        types[0] = f.def_.in_type
    return f.def_.n_in

cdef int32_t fn_outputs(const pf_fn* fn, const int32_t** types) noexcept nogil:
    cdef const Fn* f = <const Fn*>fn
    if f == NULL:
        return 0
    if types != NULL:
        types[0] = f.def_.out_type
    return f.def_.n_out

cdef void landed(void* arg, pf_status st, const pf_error* err, pf_tensor** take_rets) noexcept nogil:
    cdef Call* c = <Call*>arg
    cdef DLManagedTensorVersioned* few[FEW]
    cdef DLManagedTensorVersioned** take = few
    cdef char text[4000]
    cdef pf_str message
    cdef int32_t k, n = c.fn.def_.n_out
    memset(few, 0, sizeof(few))
    message.data = NULL
    message.len = 0
    if st and err != NULL and err.node[0]:
        message.len = snprintf(text, 4000, b"in node '%.400s' (op %.80s): %.3300s", err.node, err.op, err.message)
        message.data = text
    elif st:
        message = pf_str_of(err.message) if err != NULL else pf_str_of(b"out of memory")
        pf_copy_text(text, sizeof(text), message.data, message.len)
        message.len = <int64_t>strlen(text)
        message.data = text
    else:
        if n > FEW:
            take = <DLManagedTensorVersioned**>malloc(sizeof(void*) * n)
        if take == NULL:
            st = PF_RESOURCE_EXHAUSTED
            message = pf_str_of(b"out of memory for a function's results")
        for k in range(n):
            if take == NULL:
                pf_tensor_unref(take_rets[k])
            else:
                take[k] = &take_rets[k].m
    c.done(c.arg, st, message, NULL if st else take)
    if take != few:
        free(take)
    fn_release(<pf_fn*>c.fn)
    free(c)

cdef pf_status adopt_all(const Fn* f, DLManagedTensorVersioned* const* steal, pf_tensor** args) noexcept nogil:
    """On a failure every one is released."""
    cdef int32_t k
    cdef pf_status st = PF_OK
    for k in range(f.def_.n_in):
        args[k] = pf_tensor_adopt(steal[k], f.def_.in_type[k]) if steal[k] != NULL else NULL
        if args[k] == NULL:
            st = PF_INVALID_ARGUMENT
    if st:
        for k in range(f.def_.n_in):
            pf_tensor_unref(args[k])
    return st

cdef pf_status fn_call(pf_fn* fn, pf_ctx* within, const pf_fn_options* options, DLManagedTensorVersioned* const* steal,
                       void (*done)(void*, pf_status, pf_str, DLManagedTensorVersioned* const*) noexcept nogil, void* arg,
                       pf_fn_call** out) noexcept nogil:
    cdef Fn* f = <Fn*>fn
    cdef pf_tensor* few[FEW]
    cdef pf_tensor** args = few
    cdef pf_start_options o
    cdef pf_error err
    cdef pf_status st
    cdef Call* c
    cdef int32_t k
    if out != NULL:
        out[0] = NULL
    if f == NULL or done == NULL or (steal == NULL and f.def_.n_in):
        return PF_INVALID_ARGUMENT
    memset(&o, 0, sizeof(o))
    if options != NULL:
        o.timeout_ns = options.timeout_ns
        o.stream = options.stream if options.size >= sizeof(pf_fn_options) else 0
    if within != NULL and (<pf_call*>within).step != NULL:
        o.within = (<pf_call*>within).step
        (<pf_call*>within).receives = 1
        o.trace = o.within.trace
    c = <Call*>calloc(1, sizeof(Call))
    if f.def_.n_in > FEW:
        args = <pf_tensor**>malloc(sizeof(void*) * f.def_.n_in)
    if c == NULL or args == NULL:
        for k in range(f.def_.n_in):
            if steal[k] != NULL and steal[k].deleter != NULL:
                steal[k].deleter(steal[k])
        free(c)
        return PF_RESOURCE_EXHAUSTED
    c.fn = f
    c.done = done
    c.arg = arg
    st = adopt_all(f, steal, args)
    if st == PF_OK:
        fn_retain(fn)
        pf_error_clear(&err)
        st = pf_step_start(&f.plan, 1, args, &o, landed, c, <pf_started**>out, &err)
        if st:
            fn_release(fn)
    if args != few:
        free(args)
    if st:
        free(c)
    return st

cdef void fn_cancel(pf_fn_call* call) noexcept nogil:
    pf_started_cancel(<pf_started*>call, PF_CANCELLED, b"the call was cancelled")

cdef void fn_drop(pf_fn_call* call) noexcept nogil:
    pf_started_unref(<pf_started*>call)

cdef pf_functions_api table

cdef public const pf_functions_api* pf_functions_table() noexcept nogil:
    table.size = sizeof(pf_functions_api)
    table.get = fn_get
    table.retain = fn_retain
    table.release = fn_release
    table.inputs = fn_inputs
    table.outputs = fn_outputs
    table.call = fn_call
    table.cancel = fn_cancel
    table.drop = fn_drop
    return &table
