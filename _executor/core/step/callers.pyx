# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Kernels that call functions of the graph's library: PartitionedCall, If, Case, While, MapDefun; and "pyflow.functions/1".

    compute -- a tiny function --> runs here and now, its results are the outputs
            `- else: defer; a step within this one (start.pyx); its end -> outputs, done

A FLIGHT is one asynchronous call of such a kernel.  It has one step under way at a time (calls, While) or up to `n_seats`
(MapDefun); each sits in a SEAT, where the step's caller finds it when it is cancelled.

    flight: 1 reference of the kernel until compute returns, 1 of the cancel callback, 1 of the end
    seat:   EMPTY -> TAKEN [launch] -> EMPTY [landed]

Invariants
1. on_cancel is registered before the first step begins, so who cancels finds every step that will begin, or none begins.
2. An error of a function ends the flight with the error of its first failed step, whose node is named in the text.
3. A While that runs its functions at once is a loop, not a recursion: who comes second of {launch returned, landed} goes on.

Threads: any; `lock` of a flight guards its seats and, in a MapDefun, its results.
"""
from builtin_h cimport *

cdef enum:
    FEW = 16
    MAX_SEATS = 16

cdef struct Seat:
    pf_started* handle
    Flight* flight
    int64_t row                 # MapDefun
    int32_t taken

cdef struct Flight:
    pf_a32 refs, lock, turn
    int32_t cancelled, over     # lock
    pf_ctx* ctx                 # the deferred call's
    uint64_t ticket
    pf_status status
    # While
    pf_plan* cond
    pf_plan* body
    pf_tensor** vars
    int32_t n_vars, testing
    # MapDefun
    const pf_map_state* map_state
    pf_plan* plan
    int32_t n_mapped, n_out, n_seats
    int64_t rows, next_row, rows_left
    Seat seats[MAX_SEATS]

# ---------------------------------------------------------------- finding a function
cdef pf_status wrong_types(pf_ctx* ctx, pf_str name, const char* what, int32_t k, int32_t takes, int32_t given) noexcept nogil:
    return pf_failf(ctx, PF_INVALID_ARGUMENT, b"function '%.*s': %s %d is %s, but the node says %s",
                    <int>min(name.len, <int64_t>200), name.data, what, k, pf_type_name(takes), pf_type_name(given))

cdef pf_status wrong_count(pf_ctx* ctx, pf_str name, const char* what, int32_t takes, int32_t given) noexcept nogil:
    return pf_failf(ctx, PF_INVALID_ARGUMENT, b"function '%.*s' has %d %s, but the node says %d",
                    <int>min(name.len, <int64_t>200), name.data, takes, what, given)

cdef pf_status fits(pf_ctx* ctx, const pf_function* f, int32_t n_in, const int32_t* in_type, int32_t n_out,
                    const int32_t* out_type) noexcept nogil:
    cdef int32_t k
    if f.n_in != n_in:
        return wrong_count(ctx, f.name, b"arguments", f.n_in, n_in)
    if f.n_out != n_out:
        return wrong_count(ctx, f.name, b"results", f.n_out, n_out)
    for k in range(n_in):
        if f.in_type[k] != in_type[k]:
            return wrong_types(ctx, f.name, b"argument", k, f.in_type[k], in_type[k])
    for k in range(n_out):
        if f.out_type[k] != out_type[k]:
            return wrong_types(ctx, f.name, b"result", k, f.out_type[k], out_type[k])
    return PF_OK

cdef pf_status find(pf_ctx* ctx, pf_str name, int32_t n_in, const int32_t* in_type, int32_t n_out, const int32_t* out_type,
                    pf_plan** out) noexcept nogil:
    cdef pf_library* l = (<pf_call*>ctx).plan.library
    cdef const pf_function* f = pf_library_function(l, name)
    cdef pf_error err
    cdef pf_status st
    if f != NULL:
        st = fits(ctx, f, n_in, in_type, n_out, out_type)
        if st:
            return st
    pf_error_clear(&err)
    if pf_library_find(l, name, out, &err):
        return pf_fail(ctx, err.code, err.message)
    return PF_OK

# ---------------------------------------------------------------- flights
cdef Flight* take_off(pf_ctx* ctx, pf_status* st) noexcept nogil:
    """Defers the call.  NULL: st says why; the call ends with it."""
    cdef Flight* f = <Flight*>calloc(1, sizeof(Flight))
    if f == NULL:
        st[0] = pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for the call of a function")
        return NULL
    f.ctx = ctx.host.defer(ctx, &f.ticket)
    if f.ctx == NULL:
        free(f)
        st[0] = PF_RESOURCE_EXHAUSTED
        return NULL
    (<pf_call*>f.ctx).ended_by = PF_ROLE_CALLS  # its end is another step's: a seeded schedule does not wait for it by the clock
    pf_a32_store(&f.refs, 3)
    st[0] = ctx.host.on_cancel(f.ctx, f.ticket, called_off, f)
    if st[0]:
        free(f)
        return NULL
    return f

cdef void drop(Flight* f) noexcept nogil:
    cdef int32_t k
    if not pf_a32_dec_last(&f.refs):
        return
    for k in range(MAX_SEATS):
        pf_started_unref(f.seats[k].handle)
    for k in range(f.n_vars):
        pf_tensor_unref(f.vars[k])
    free(f.vars)
    free(f)

cdef void called_off(void* arg) noexcept nogil:
    """The step that called is cancelled."""
    cdef Flight* f = <Flight*>arg
    cdef int32_t k
    pf_spin_lock(&f.lock)
    f.cancelled = 1
    for k in range(MAX_SEATS):
        if f.seats[k].taken and f.seats[k].handle != NULL:
            pf_started_cancel(f.seats[k].handle, PF_CANCELLED, b"cancelled with the step that called it")
    pf_spin_unlock(&f.lock)
    drop(f)

cdef void land(Flight* f, pf_status st) noexcept nogil:
    """The call is over; once."""
    cdef pf_ctx* ctx = f.ctx
    cdef uint64_t ticket = f.ticket
    if ctx.host.off_cancel(ticket):
        drop(f)                 # the callback's
    ctx.host.done(ticket, st)
    drop(f)

cdef pf_status tell(pf_ctx* ctx, pf_status st, const pf_error* err, int64_t row=-1) noexcept nogil:
    """What failed in the function; row: which one of a MapDefun's, or -1."""
    cdef char text[4000]
    cdef int32_t used = 0
    text[0] = 0
    if err == NULL:
        return pf_fail(ctx, st, b"the function failed, and there was no memory to say why")
    if row >= 0:
        used = snprintf(text, 100, b"row %lld: ", <long long>row)
    if err.node[0]:
        used += snprintf(text + used, 700, b"in node '%.400s' (op %.80s): ", err.node, err.op)
    snprintf(text + used, <size_t>(4000 - used), b"%.3200s", err.message)
    return pf_fail(ctx, st, text)

cdef uint64_t stream_of(const pf_call* c, int64_t row) noexcept nogil:
    """Within a step of given streams: one for each call, from the step's, the node and the number of the call."""
    cdef uint64_t h
    if c.step.stream == 0:
        return 0
    h = c.step.stream ^ pf_str_hash(c.node.name)
    h = h * <uint64_t>0x9E3779B97F4A7C15 + <uint64_t>pf_a64_add(c.step.drawn + (c.node - c.plan.nodes), 1) + (<uint64_t>row << 20)
    h ^= h >> 31
    return h if h else 1

cdef pf_status launch(Flight* f, Seat* seat, pf_plan* plan, pf_tensor** take_args, pf_started_fn landed) noexcept nogil:
    """`landed` is called, perhaps before this returns; not after a failure."""
    cdef pf_run_options o
    cdef pf_error err
    cdef pf_started* h = NULL
    cdef pf_started* old
    cdef pf_status st
    cdef pf_call* c = <pf_call*>f.ctx
    cdef bint late
    cdef uint32_t k
    if c.step.leader.depth >= PF_MAX_CALL_DEPTH or pf_a32_load(&c.step.leader.home.cancelled):
        for k in range(plan.n_args):
            pf_tensor_unref(take_args[k])
        if pf_a32_load(&c.step.leader.home.cancelled):
            return PF_CANCELLED         # before the news has gone down a long chain of calls
        return pf_fail(f.ctx, PF_RESOURCE_EXHAUSTED, b"calls of functions lie more than 65536 deep in each other: a recursion that does "
                       b"not end?")
    memset(&o, 0, sizeof(o))
    o.within = c.step
    o.trace = c.step.trace
    o.stream = stream_of(c, seat.row)
    pf_error_clear(&err)
    seat.flight = f
    pf_a32_add_rlx(&f.refs, 1)      # the seat is looked at below, whatever landed meanwhile
    pf_spin_lock(&f.lock)
    seat.taken += 1
    pf_spin_unlock(&f.lock)
    st = pf_step_start(&plan, 1, take_args, &o, landed, seat, &h, &err)
    pf_spin_lock(&f.lock)
    if st:
        seat.taken -= 1
    old = NULL
    if h != NULL and seat.taken:    # still under way, or the next of this seat is
        old = seat.handle
        seat.handle = h
        h = NULL
    late = f.cancelled != 0 and seat.handle != NULL and seat.taken
    if late:
        pf_started_cancel(seat.handle, PF_CANCELLED, b"cancelled with the step that called it")
    pf_spin_unlock(&f.lock)
    pf_started_unref(old)
    pf_started_unref(h)
    if st:
        pf_fail(f.ctx, st, err.message)
    drop(f)
    return st

cdef void leave_seat(Seat* seat) noexcept nogil:
    pf_spin_lock(&seat.flight.lock)
    seat.taken -= 1
    pf_spin_unlock(&seat.flight.lock)

# ---------------------------------------------------------------- one call
cdef void call_landed(void* arg, pf_status st, const pf_error* err, pf_tensor** take_rets) noexcept nogil:
    cdef Seat* seat = <Seat*>arg
    cdef Flight* f = seat.flight
    cdef int32_t k
    cdef pf_status set_
    leave_seat(seat)
    if st:
        tell(f.ctx, st, err)
    else:
        for k in range(f.ctx.n_out):
            set_ = f.ctx.host.set_output(f.ctx, k, &take_rets[k].m)
            if set_ and not st:
                st = set_
    land(f, st)

cdef void take_inputs(pf_ctx* ctx, int32_t first, pf_tensor** args) noexcept nogil:
    cdef int32_t k
    for k in range(first, ctx.n_in):
        args[k - first] = pf_tensor_of((<pf_call*>ctx).ins[k])
        pf_tensor_ref(args[k - first])

cdef pf_status call_at_once(pf_ctx* ctx, pf_plan* plan, pf_tensor** args, pf_tensor** rets) noexcept nogil:
    cdef pf_error err
    cdef pf_status st
    cdef int32_t k
    pf_error_clear(&err)
    st = pf_step_run(plan, args, rets, NULL, &err)
    pf_start_leave()
    if st:
        return tell(ctx, st, &err)
    for k in range(ctx.n_out):
        st = ctx.host.set_output(ctx, k, &rets[k].m)
        if st:
            for k in range(k + 1, ctx.n_out):
                pf_tensor_unref(rets[k])
            return st
    return PF_OK

cdef pf_status call(pf_ctx* ctx, pf_plan* plan, int32_t first) noexcept nogil:
    """The function of the inputs from `first` on; its results are the outputs."""
    cdef pf_tensor* few[FEW]
    cdef pf_tensor** args = few
    cdef int32_t n = ctx.n_in - first + ctx.n_out
    cdef pf_status st
    if n > FEW:
        args = <pf_tensor**>malloc(sizeof(void*) * n)
        if args == NULL:
            return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for the arguments of a function")
    take_inputs(ctx, first, args)
    if (<pf_call*>ctx).step.stream == 0 and (<pf_call*>ctx).step.trace == NULL and pf_start_enter(plan):
        st = call_at_once(ctx, plan, args, args + (ctx.n_in - first))
    else:
        st = call_elsewhere(ctx, plan, args)
    if args != few:
        free(args)
    return st

cdef pf_status call_elsewhere(pf_ctx* ctx, pf_plan* plan, pf_tensor** take_args) noexcept nogil:
    cdef pf_status st = PF_OK
    cdef Flight* f = take_off(ctx, &st)
    cdef uint32_t k
    if f == NULL:
        for k in range(plan.n_args):
            pf_tensor_unref(take_args[k])
        return st
    f.plan = plan
    st = launch(f, &f.seats[0], plan, take_args, call_landed)
    if st:
        land(f, st)
    drop(f)
    return PF_PENDING

cdef public pf_status pf_k_call(pf_ctx* ctx, const void* state) noexcept nogil:
    cdef pf_call_state* s = <pf_call_state*>state
    cdef pf_plan* plan = <pf_plan*>pf_aptr_load(&s.plan)
    cdef pf_status st
    if plan == NULL:
        st = find(ctx, s.f, ctx.n_in, ctx.in_type, ctx.n_out, ctx.out_type, &plan)
        if st:
            return st
        pf_aptr_store(&s.plan, plan)
    return call(ctx, plan, 0)

# ---------------------------------------------------------------- If, Case
cdef int32_t holds(pf_ctx* ctx, const pf_tensor* t) noexcept nogil:
    """What If and While take for true: a number that is not 0, a string that is not empty, a tensor with elements.  -1: neither."""
    cdef int64_t k, n = 1
    cdef const uint8_t* at
    cdef pf_str text
    for k in range(t.m.dl_tensor.ndim):
        n *= t.m.dl_tensor.shape[k]
    if t.m.dl_tensor.ndim:
        return n != 0
    if t.type == PF_STRING:
        pf_tensor_str_get(&t.m.dl_tensor, 0, &text)
        return text.len != 0
    if t.flags & PF_T_HANDLE:
        pf_fail(ctx, PF_INVALID_ARGUMENT, b"the condition is a handle; a boolean, number, string or tensor was expected")
        return -1
    if t.type == PF_FLOAT32:
        return (<float*>((<char*>t.m.dl_tensor.data) + t.m.dl_tensor.byte_offset))[0] != 0
    if t.type == PF_FLOAT64:
        return (<double*>((<char*>t.m.dl_tensor.data) + t.m.dl_tensor.byte_offset))[0] != 0
    at = <const uint8_t*>t.m.dl_tensor.data + t.m.dl_tensor.byte_offset
    for k in range(pf_type_size(t.type)):
        if at[k]:
            return 1
    return 0

cdef public pf_status pf_k_if(pf_ctx* ctx, const void* state) noexcept nogil:
    cdef pf_if_state* s = <pf_if_state*>state
    cdef int32_t which = holds(ctx, pf_tensor_of((<pf_call*>ctx).ins[0]))
    cdef pf_plan* plan
    cdef pf_status st
    if which < 0:
        return PF_INVALID_ARGUMENT
    plan = <pf_plan*>pf_aptr_load(&s.plans[which])
    if plan == NULL:
        st = find(ctx, s.then_branch if which else s.else_branch, ctx.n_in - 1, ctx.in_type + 1, ctx.n_out, ctx.out_type, &plan)
        if st:
            return st
        pf_aptr_store(&s.plans[which], plan)
    return call(ctx, plan, 1)

cdef public pf_status pf_k_case(pf_ctx* ctx, const void* state) noexcept nogil:
    cdef const pf_case_state* s = <const pf_case_state*>state
    cdef const DLTensor* index = (<pf_call*>ctx).ins[0]
    cdef pf_plan* plan = NULL
    cdef int64_t k
    cdef pf_status st
    if index.ndim != 0:
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"branch_index must be a scalar")
    k = (<int32_t*>(<char*>index.data + index.byte_offset))[0]
    if not 0 <= k < s.branches.n:
        k = s.branches.n - 1
    st = find(ctx, (<const pf_str*>s.branches.items)[k], ctx.n_in - 1, ctx.in_type + 1, ctx.n_out, ctx.out_type, &plan)
    return st if st else call(ctx, plan, 1)

# ---------------------------------------------------------------- While
cdef void loop_ends(Flight* f, pf_status st) noexcept nogil:
    cdef int32_t k
    cdef pf_status set_
    cdef pf_tensor* t
    for k in range(f.n_vars):
        t = f.vars[k]
        f.vars[k] = NULL
        if st:
            pf_tensor_unref(t)
            continue
        set_ = f.ctx.host.set_output(f.ctx, k, &t.m)
        if set_:
            st = set_
    land(f, st)

cdef void loop_landed(void* arg, pf_status st, const pf_error* err, pf_tensor** take_rets) noexcept nogil:
    cdef Seat* seat = <Seat*>arg
    cdef Flight* f = seat.flight
    cdef int32_t k, on
    leave_seat(seat)
    if st:
        tell(f.ctx, st, err)
        f.status = st
        f.over = 1
    elif f.testing:
        on = holds(f.ctx, take_rets[0])
        pf_tensor_unref(take_rets[0])
        f.testing = 0
        if on < 0:
            f.status = PF_INVALID_ARGUMENT
        f.over = on != 1
    else:
        for k in range(f.n_vars):
            f.vars[k] = take_rets[k]
        f.testing = 1
    if pf_a32_add(&f.turn, -1) == 1:
        loop_on(f)

cdef void loop_on(Flight* f) noexcept nogil:
    """One function after the other, until one of them ends elsewhere."""
    cdef pf_plan* plan
    cdef int32_t k
    cdef pf_status st
    while True:
        if f.over:
            loop_ends(f, f.status)
            return
        if f.ctx.host.cancelled(f.ctx):
            loop_ends(f, PF_CANCELLED)
            return
        plan = f.cond if f.testing else f.body
        pf_a32_store(&f.turn, 2)
        st = launch(f, &f.seats[0], plan, loop_args(f), loop_landed)
        if st:
            loop_ends(f, st)
            return
        if pf_a32_add(&f.turn, -1) != 1:
            return              # loop_landed goes on

cdef pf_tensor** loop_args(Flight* f) noexcept nogil:
    """The condition looks at the variables; the body is given them, and may write where they lay."""
    cdef int32_t k
    for k in range(f.n_vars):
        f.vars[f.n_vars + k] = f.vars[k]
        if f.testing:
            pf_tensor_ref(f.vars[k])
        else:
            f.vars[k] = NULL
    return f.vars + f.n_vars

cdef public pf_status pf_k_while(pf_ctx* ctx, const void* state) noexcept nogil:
    cdef const pf_while_state* s = <const pf_while_state*>state
    cdef pf_plan* cond = NULL
    cdef pf_plan* body = NULL
    cdef Flight* f
    cdef const pf_function* test = pf_library_function((<pf_call*>ctx).plan.library, s.cond)
    cdef pf_status st
    if test != NULL and test.n_out != 1:
        return wrong_count(ctx, s.cond, b"results", test.n_out, 1)
    st = find(ctx, s.cond, ctx.n_in, ctx.in_type, 1, test.out_type if test != NULL else NULL, &cond)
    if not st:
        st = find(ctx, s.body, ctx.n_in, ctx.in_type, ctx.n_in, ctx.in_type, &body)
    if st:
        return st
    f = take_off(ctx, &st)
    if f == NULL:
        return st
    f.cond = cond
    f.body = body
    f.testing = 1
    f.vars = <pf_tensor**>calloc(2 * ctx.n_in + 1, sizeof(void*))
    if f.vars == NULL:
        land(f, pf_fail(f.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a loop's variables"))
    else:
        f.n_vars = ctx.n_in
        take_inputs(f.ctx, 0, f.vars)
        loop_on(f)
    drop(f)
    return PF_PENDING

# ---------------------------------------------------------------- MapDefun
cdef pf_tensor* row_of(const DLTensor* all, int32_t type, int64_t row) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_new(type, all.shape + 1, all.ndim - 1)
    cdef int64_t k, n = 1
    cdef pf_str text
    if t == NULL:
        return NULL
    if type != PF_STRING:
        memcpy(t.m.dl_tensor.data, <const char*>all.data + all.byte_offset + row * t.nbytes, <size_t>t.nbytes)
        return t
    for k in range(1, all.ndim):
        n *= all.shape[k]
    for k in range(n):
        if pf_tensor_str_get(all, row * n + k, &text) or pf_tensor_str_set(&t.m.dl_tensor, k, text):
            pf_tensor_unref(t)
            return NULL
    return t

cdef void say_shape(char* text, int32_t room, const int64_t* dims, int32_t ndim) noexcept nogil:
    cdef int32_t used = snprintf(text, <size_t>room, b"["), k
    for k in range(min(ndim, 8)):
        if dims[k] < 0:
            used += snprintf(text + used, <size_t>(room - used), b"%s", b",?" if k else b"?")
        else:
            used += snprintf(text + used, <size_t>(room - used), b"%s%lld", b"," if k else b"", <long long>dims[k])
    snprintf(text + used, <size_t>(room - used), b"]")

cdef pf_status check_row(Flight* f, int32_t i, const pf_tensor* t) noexcept nogil:
    """A result has the shape that attribute output_shapes gives it."""
    cdef const pf_shape* want = <const pf_shape*>f.map_state.output_shapes.items + i
    cdef bint right
    cdef int32_t k
    cdef char given[256]
    cdef char wanted[256]
    if i >= f.map_state.output_shapes.n or want.ndim < 0:
        return PF_OK
    right = want.ndim == t.m.dl_tensor.ndim
    if right:
        for k in range(want.ndim):
            right = right and (want.dims[k] < 0 or want.dims[k] == t.m.dl_tensor.shape[k])
    if right:
        return PF_OK
    say_shape(given, 256, t.m.dl_tensor.shape, t.m.dl_tensor.ndim)
    say_shape(wanted, 256, want.dims, want.ndim)
    return pf_failf(f.ctx, PF_INVALID_ARGUMENT, b"result %d of the function has the shape %s, attribute output_shapes says %s", i,
                    given, wanted)

cdef pf_status put_row(Flight* f, int32_t i, const pf_tensor* t, int64_t row) noexcept nogil:
    """Lock held.  The first result says what the output's shape is."""
    cdef int64_t shape[PF_MAX_NDIM + 1]
    cdef DLTensor* out = f.ctx.out[i]
    cdef int64_t k, n = 1
    cdef pf_str text
    if t.m.dl_tensor.ndim >= PF_MAX_NDIM:
        return pf_fail(f.ctx, PF_INVALID_ARGUMENT, b"a result has too many dimensions to be stacked")
    if out == NULL:
        if check_row(f, i, t):
            return PF_INVALID_ARGUMENT
        shape[0] = f.rows
        for k in range(t.m.dl_tensor.ndim):
            shape[k + 1] = t.m.dl_tensor.shape[k]
        out = f.ctx.host.output(f.ctx, i, shape, t.m.dl_tensor.ndim + 1)
        if out == NULL:
            return PF_RESOURCE_EXHAUSTED
    if out.ndim != t.m.dl_tensor.ndim + 1:
        return pf_fail(f.ctx, PF_INVALID_ARGUMENT, b"the function's results have different numbers of dimensions: they cannot be "
                       b"stacked")
    for k in range(t.m.dl_tensor.ndim):
        if out.shape[k + 1] != t.m.dl_tensor.shape[k]:
            return pf_fail(f.ctx, PF_INVALID_ARGUMENT, b"the function's results have different shapes: they cannot be stacked")
        n *= t.m.dl_tensor.shape[k]
    if t.type != PF_STRING:
        memcpy(<char*>out.data + out.byte_offset + row * t.nbytes, <const char*>t.m.dl_tensor.data + t.m.dl_tensor.byte_offset,
               <size_t>t.nbytes)
        return PF_OK
    for k in range(n):
        if pf_tensor_str_get(&t.m.dl_tensor, k, &text) or pf_tensor_str_set(out, row * n + k, text):
            return PF_RESOURCE_EXHAUSTED
    return PF_OK

cdef void map_landed(void* arg, pf_status st, const pf_error* err, pf_tensor** take_rets) noexcept nogil:
    cdef Seat* seat = <Seat*>arg
    cdef Flight* f = seat.flight
    cdef int32_t k
    cdef bint last
    cdef int64_t row = seat.row
    pf_spin_lock(&f.lock)
    for k in range(f.n_out):
        if st == PF_OK and f.status == PF_OK:
            f.status = put_row(f, k, take_rets[k], row)
        if st == PF_OK:
            pf_tensor_unref(take_rets[k])
    if st and not f.status:
        f.status = tell(f.ctx, st, err, row)
    if f.status:
        f.rows_left -= f.rows - f.next_row      # no other begins
        f.next_row = f.rows
    f.rows_left -= 1
    last = f.rows_left == 0
    seat.taken -= 1
    pf_spin_unlock(&f.lock)
    if last:
        land(f, f.status)
    elif pf_a32_add(&f.turn, 1) == 0:
        map_on(f)

cdef Seat* free_seat(Flight* f) noexcept nogil:
    """With its row taken; NULL: none is free, or no row left.  Lock held."""
    cdef int32_t k
    if f.next_row >= f.rows:
        return NULL
    for k in range(f.n_seats):
        if not f.seats[k].taken:
            f.seats[k].row = f.next_row
            f.seats[k].taken = 1
            f.next_row += 1
            return &f.seats[k]
    return NULL

cdef void map_on(Flight* f) noexcept nogil:
    """Fills free seats.  One thread at a time (`turn`): who comes while it is busy leaves a note."""
    cdef Seat* seat
    cdef pf_status st
    cdef int32_t seen
    cdef bint last
    pf_a32_add_rlx(&f.refs, 1)
    while True:
        seen = pf_a32_load(&f.turn)
        while True:
            pf_spin_lock(&f.lock)
            seat = free_seat(f)
            pf_spin_unlock(&f.lock)
            if seat == NULL:
                break
            st = map_launch(f, seat)
            if st:
                pf_spin_lock(&f.lock)
                if not f.status:
                    f.status = st
                f.rows_left -= f.rows - f.next_row + 1
                f.next_row = f.rows
                seat.taken = 0
                last = f.rows_left == 0
                pf_spin_unlock(&f.lock)
                if last:
                    land(f, f.status)
                    drop(f)
                    return
        if pf_a32_add(&f.turn, -seen) == seen:
            break
    drop(f)

cdef pf_status map_launch(Flight* f, Seat* seat) noexcept nogil:
    cdef int32_t n = f.ctx.n_in, k
    cdef pf_tensor** args = <pf_tensor**>malloc(sizeof(void*) * (n + 1))
    cdef pf_call* c = <pf_call*>f.ctx
    cdef pf_status st = PF_OK
    if args == NULL:
        return pf_fail(f.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for the arguments of a function")
    for k in range(n):
        if k < f.n_mapped:
            args[k] = row_of(c.ins[k], f.ctx.in_type[k], seat.row)
        else:
            args[k] = pf_tensor_of(c.ins[k])
            pf_tensor_ref(args[k])
        if args[k] == NULL:
            st = pf_fail(f.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a row of a function's argument")
    if st:
        for k in range(n):
            pf_tensor_unref(args[k])
    else:
        pf_spin_lock(&f.lock)
        seat.taken = 0              # launch takes it
        pf_spin_unlock(&f.lock)
        st = launch(f, seat, f.plan, args, map_landed)
    free(args)
    return st

cdef pf_status map_nothing(pf_ctx* ctx, const pf_map_state* s) noexcept nogil:
    """No rows: the outputs' shapes are the attribute's, what it does not know is 0."""
    cdef int64_t shape[PF_MAX_NDIM + 1]
    cdef int32_t i, k, ndim
    cdef const pf_shape* want
    for i in range(ctx.n_out):
        want = <const pf_shape*>s.output_shapes.items + i if i < s.output_shapes.n else NULL
        ndim = max(want.ndim, 0) if want != NULL else 0
        shape[0] = 0
        for k in range(min(ndim, <int32_t>PF_MAX_NDIM - 1)):
            shape[k + 1] = max(want.dims[k], <int64_t>0)
        if ctx.host.output(ctx, i, shape, min(ndim, <int32_t>PF_MAX_NDIM - 1) + 1) == NULL:
            return PF_RESOURCE_EXHAUSTED
    return PF_OK

cdef public pf_status pf_k_map(pf_ctx* ctx, const void* state) noexcept nogil:
    cdef const pf_map_state* s = <const pf_map_state*>state
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_plan* plan = NULL
    cdef Flight* f
    cdef int32_t k, mapped = ctx.in_start[1]
    cdef int64_t rows = -1
    cdef pf_status st
    for k in range(mapped):
        if c.ins[k].ndim == 0 or (rows >= 0 and c.ins[k].shape[0] != rows):
            return pf_fail(ctx, PF_INVALID_ARGUMENT, b"all mapped arguments need a first dimension, of one size")
        rows = c.ins[k].shape[0]
        if pf_tensor_of(c.ins[k]).flags & PF_T_HANDLE:
            return pf_fail(ctx, PF_INVALID_ARGUMENT, b"a handle has no rows to map over: capture it")
    st = find(ctx, s.f, ctx.n_in, ctx.in_type, ctx.n_out, ctx.out_type, &plan)
    if st:
        return st
    if rows <= 0:
        return map_nothing(ctx, s)
    f = take_off(ctx, &st)
    if f == NULL:
        return st
    f.map_state = s
    f.plan = plan
    f.rows = rows
    f.rows_left = rows
    f.n_mapped = mapped
    f.n_out = ctx.n_out
    f.n_seats = <int32_t>min(rows, <int64_t>min(2 * c.step.pool.n, <int32_t>MAX_SEATS))
    pf_a32_store(&f.turn, 1)
    map_on(f)
    drop(f)
    return PF_PENDING
