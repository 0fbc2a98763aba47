# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The extension "pyflow.functions/1": kernels of any plugin call functions of the graph's library.

A pf_fn holds the library, which holds the function's plan, its state and its pool: it outlives the step, the graph's own plan
and the session, whose end its calls are told of.  A call holds its pf_fn until `done` has returned.

Invariants
1. `fn_call` either returns an error, about its arguments being NULL or about memory, or tells everything by `done`.
2. The init of a kernel in a function's body gets a pf_fn that holds nothing, as the library holds that body's plan, which holds
   the kernel's state.  While others hold it too it holds the library for them (`inner`).
3. A pf_fn may be there before its plan is: a kernel's init may ask for the function whose body it stands in.

Threads: any; `lock` of an inner pf_fn makes counting and holding one.
"""
from outputs_h cimport *

cdef enum:
    FEW = 16

cdef struct Fn:
    pf_a32 refs, lock
    int32_t inner
    pf_library* library
    pf_aptr plan                    # NULL: found at the first call
    const pf_function* def_

cdef struct Call:                   # what `done` needs
    Fn* fn
    void (*done)(void*, pf_status, pf_str, DLManagedTensorVersioned* const*) noexcept nogil
    void* arg

# ---------------------------------------------------------------- functions
cdef pf_status fn_get(pf_ctx* ctx, pf_str name, pf_fn** out) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_library* l
    cdef pf_plan* plan = NULL
    cdef pf_error err
    cdef Fn* f
    cdef pf_status st
    if ctx == NULL or out == NULL or (name.len and name.data == NULL):
        return PF_INVALID_ARGUMENT
    out[0] = NULL
    l = c.plan.library if c.plan != NULL else NULL
    pf_error_clear(&err)
    if c.step == NULL:
        st = pf_library_promise(l, name, &plan, &err)
    else:
        st = pf_library_find(l, name, &plan, &err)
    if st:
        return pf_fail(ctx, st, err.message)
    f = <Fn*>calloc(1, sizeof(Fn))
    if f == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a function")
    pf_a32_store(&f.refs, 1)
    f.inner = c.step == NULL and c.plan.of_library
    f.library = l
    pf_aptr_store(&f.plan, plan)
    f.def_ = pf_library_function(l, name)
    if not f.inner:
        pf_library_ref(l)
    out[0] = <pf_fn*>f
    return PF_OK

cdef void fn_retain(pf_fn* fn) noexcept nogil:
    cdef Fn* f = <Fn*>fn
    if f == NULL:
        return
    if not f.inner:
        pf_a32_add_rlx(&f.refs, 1)
        return
    pf_spin_lock(&f.lock)
    if pf_a32_add(&f.refs, 1) == 1:
        pf_library_ref(f.library)
    pf_spin_unlock(&f.lock)

cdef void fn_release(pf_fn* fn) noexcept nogil:
    cdef Fn* f = <Fn*>fn
    cdef pf_library* l
    cdef int32_t before
    if f == NULL:
        return
    l = f.library
    if f.inner:
        pf_spin_lock(&f.lock)
        before = pf_a32_add(&f.refs, -1)
        pf_spin_unlock(&f.lock)
        if before == 2:
            pf_library_unref(l)         # perhaps with the kernel's state, whose fini releases what is left
        elif before == 1:
            free(f)
    elif pf_a32_dec_last(&f.refs):
        free(f)
        pf_library_unref(l)

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

# ---------------------------------------------------------------- arguments
cdef void give_back_all(const Fn* f, DLManagedTensorVersioned* const* steal) noexcept nogil:
    cdef int32_t k
    for k in range(f.def_.n_in):
        if steal[k] != NULL and steal[k].deleter != NULL:
            steal[k].deleter(steal[k])

cdef bint fits(int32_t given, int32_t want) noexcept nogil:
    """Equal, or the same numbers under another name (int8, qint8)."""
    cdef DLDataType a = pf_type_dl(given)
    cdef DLDataType b = pf_type_dl(want)
    return given == want or (given != 0 and a.bits != 0 and a.code == b.code and a.bits == b.bits and pf_reads_as(given, want))

cdef bint on_host(const DLTensor* t) noexcept nogil:
    return t.device.device_type in (kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged)

cdef pf_status adopt_all(const Fn* f, DLManagedTensorVersioned* const* steal, pf_tensor** args, pf_error* err) noexcept nogil:
    """On a failure every one is released."""
    cdef int32_t k, j
    cdef int32_t shown = <int32_t>min(f.def_.name.len, <int64_t>200)
    for k in range(f.def_.n_in):
        if steal[k] == NULL:
            pf_error_set(err, PF_INVALID_ARGUMENT, b"function '%.*s' takes %d arguments, argument %d was not given", shown,
                         f.def_.name.data, f.def_.n_in, k)
        elif not fits(pf_managed_type(steal[k]), f.def_.in_type[k]):
            pf_error_set(err, PF_INVALID_ARGUMENT, b"function '%.*s': argument %d is %s, but what was given is %s", shown,
                         f.def_.name.data, k, pf_type_name(f.def_.in_type[k]), pf_type_name(pf_managed_type(steal[k])))
        elif not on_host(&steal[k].dl_tensor):
            pf_error_set(err, PF_INVALID_ARGUMENT, b"function '%.*s': argument %d lies in a device's memory", shown,
                         f.def_.name.data, k)
        if err.code:
            give_back_all(f, steal)
            return err.code
    for k in range(f.def_.n_in):
        args[k] = pf_tensor_adopt(steal[k], f.def_.in_type[k])
        if args[k] != NULL:
            continue
        for j in range(k):
            pf_tensor_unref(args[j])
        for j in range(k + 1, f.def_.n_in):
            steal[j].deleter(steal[j])
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"function '%.*s': argument %d cannot be used: out of memory, or its shape "
                            b"or version is wrong", shown, f.def_.name.data, k)
    return PF_OK

# ---------------------------------------------------------------- calls
cdef pf_plan* plan_of(Fn* f, pf_error* err) noexcept nogil:
    cdef pf_plan* p = <pf_plan*>pf_aptr_load(&f.plan)
    if p == NULL and pf_library_find(f.library, f.def_.name, &p, err) == PF_OK:
        pf_aptr_store(&f.plan, p)
    return p

cdef pf_status may_begin(const Fn* f, const pf_plan* p, const pf_call* within, pf_error* err) noexcept nogil:
    cdef int32_t shown = <int32_t>min(f.def_.name.len, <int64_t>200)
    if pf_host_ended() or pf_state_ended(p.state):
        return pf_error_set(err, PF_CANCELLED, b"function '%.*s' cannot be called any more: the session was closed", shown,
                            f.def_.name.data)
    if within != NULL and pf_a32_load(&within.step.leader.home.cancelled):
        return pf_error_set(err, PF_CANCELLED, b"function '%.*s' is called within a step that was cancelled", shown,
                            f.def_.name.data)
    if within != NULL and within.step.leader.depth >= PF_MAX_CALL_DEPTH:
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"function '%.*s': calls lie more than %d deep in each other: a recursion "
                            b"that does not end?", shown, f.def_.name.data, <int>PF_MAX_CALL_DEPTH)
    if within != NULL and not pf_is_deferred(within):
        return pf_error_set(err, PF_FAILED_PRECONDITION, b"function '%.*s' is called within a kernel that has not deferred, so "
                            b"nothing says that it ends after the call", shown, f.def_.name.data)
    return PF_OK

cdef void fill_options(pf_run_options* o, const pf_fn_options* given, pf_call* within) noexcept nogil:
    memset(o, 0, sizeof(pf_run_options))
    if given != NULL and given.size >= sizeof(pf_fn_options):
        o.timeout_ns = given.timeout_ns
        o.stream = given.stream
    if within != NULL:
        o.within = within.step
        o.trace = within.step.trace
        within.ended_by = PF_ROLE_CALLS

cdef pf_status begin(Call* c, pf_call* within, const pf_fn_options* options, DLManagedTensorVersioned* const* steal,
                     pf_tensor** args, pf_started** out, pf_error* err) noexcept nogil:
    """Takes `steal`.  `landed` follows on PF_OK."""
    cdef pf_run_options o
    cdef pf_plan* p = plan_of(c.fn, err)
    if p == NULL or may_begin(c.fn, p, within, err):
        give_back_all(c.fn, steal)
        return err.code
    if adopt_all(c.fn, steal, args, err):
        return err.code
    fill_options(&o, options, within)
    return pf_step_start(&p, 1, args, &o, landed, c, out, err)

cdef pf_call* deferred(pf_ctx* ctx) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    return c.moved if c != NULL and not pf_is_deferred(c) and c.moved != NULL else c

cdef pf_status fn_call(pf_fn* fn, pf_ctx* within, const pf_fn_options* options, DLManagedTensorVersioned* const* steal,
                       void (*done)(void*, pf_status, pf_str, DLManagedTensorVersioned* const*) noexcept nogil, void* arg,
                       pf_fn_call** out) noexcept nogil:
    cdef Fn* f = <Fn*>fn
    cdef pf_tensor* few[FEW]
    cdef pf_tensor** args = few
    cdef pf_error err
    cdef Call* c
    if out != NULL:
        out[0] = NULL
    if f == NULL or done == NULL or (steal == NULL and f.def_.n_in):
        return PF_INVALID_ARGUMENT
    c = <Call*>calloc(1, sizeof(Call))
    if f.def_.n_in > FEW:
        args = <pf_tensor**>malloc(sizeof(void*) * f.def_.n_in)
    if c == NULL or args == NULL:
        give_back_all(f, steal)
        free(c)
        return PF_RESOURCE_EXHAUSTED
    c.fn = f
    c.done = done
    c.arg = arg
    fn_retain(fn)
    pf_error_clear(&err)
    if begin(c, deferred(within), options, steal, args, <pf_started**>out, &err):
        landed(c, err.code, &err, NULL)
    if args != few:
        free(args)
    return PF_OK

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
