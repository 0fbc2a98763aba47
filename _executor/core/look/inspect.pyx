# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Inspected steps: kernels one by one, what each got and gave looked at; NaN and Inf named where
they are born.

A value is BAD if it is NaN or infinite.  A kernel is to blame for

    NaN   none of its inputs holds NaN.  A variable that held NaN before, or a feed, is named
          itself: it is where NaN enters the step.
    Inf   its inputs are all finite.  An op without floating-point inputs (a constant, a reader, a
          queue) is not blamed for Inf: that is how it comes in, and taken as meant.

Variables count as inputs with the value they had before the call, and as outputs if they changed.

Invariants
1. pf_run_range runs every instruction, one at a time: an inspected step computes what others do.
2. Held inputs belong to the thread that runs the call; an asynchronous call takes them along.
3. The first call to blame ends the step; its error is the step's, if no other was first.

Threads: those of the step.  Steps in order (`ordered`) have one.

    pf_inspect look = {.numerics = 1};  options.inspect = &look;
    pf_step_run(plan, args, rets, &options, &err);
"""
from look_h cimport *

cdef enum:
    ROOM = 2400                 # of an error's text
    SHOWN = 6                   # inputs in it

# ---------------------------------------------------------------- what a call gets
cdef pf_variable* variable_of(pf_tensor* t) noexcept nogil:
    cdef pf_object* o
    if t == NULL or not t.flags & PF_T_HANDLE:
        return NULL
    o = <pf_object*>t.m.dl_tensor.data
    return <pf_variable*>o if o != NULL and o.kind == PF_OBJ_VARIABLE else NULL

cdef pf_held_inputs* hold(pf_call* c, const pf_instr* ins) noexcept nogil:
    """References to the inputs, and to the values of variables among them; NULL: no inputs, or no
    memory."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef pf_held_inputs* h
    cdef DLTensor* t
    cdef pf_variable* v
    cdef uint32_t k
    if ins.n_in == 0:
        return NULL
    h = <pf_held_inputs*>calloc(1, sizeof(pf_held_inputs) + ins.n_in * sizeof(pf_held_input))
    if h == NULL:
        return NULL
    h.n = ins.n_in
    for k in range(ins.n_in):
        t = c.slab.slots[e[k] & <uint32_t>PF_IN_SLOT]
        if not pf_alive(t):
            continue
        h.ins[k].given = pf_tensor_of(t)
        pf_tensor_ref(h.ins[k].given)
        v = variable_of(h.ins[k].given)
        h.ins[k].value = pf_variable_read(v) if v != NULL else h.ins[k].given
    return h

cdef void let_go(pf_held_inputs* h) noexcept nogil:
    cdef uint32_t k
    if h == NULL:
        return
    for k in range(h.n):
        if h.ins[k].value != NULL and h.ins[k].value != h.ins[k].given:
            pf_tensor_unref(h.ins[k].value)
        if h.ins[k].given != NULL:
            pf_tensor_unref(h.ins[k].given)
    free(h)

# ---------------------------------------------------------------- values
cdef bint is_float(const pf_tensor* t) noexcept nogil:
    cdef uint64_t mask
    return t != NULL and not t.flags & PF_T_HANDLE and pf_float_layout(t.type, &mask) != 0

cdef public pf_tensor* pf_inspect_on_host(pf_tensor* t) noexcept nogil:
    cdef pf_device_entry* d = <pf_device_entry*>t.device
    cdef pf_tensor* copy
    if d == NULL:
        pf_tensor_ref(t)
        return t
    copy = pf_tensor_new(t.type, t.m.dl_tensor.shape, t.m.dl_tensor.ndim)
    if copy == NULL:
        return NULL
    if t.nbytes and (d.vtable.copy(d.dev, d.stream, pf_dl(t), pf_dl(copy)) != PF_OK
                     or pf_device_wait(d) != PF_OK):
        pf_tensor_unref(copy)
        return NULL
    return copy

cdef pf_finite look(pf_tensor* t) noexcept nogil:
    """How many values of t are bad; t may be NULL or no floating-point tensor."""
    cdef pf_finite f
    cdef pf_tensor* host
    f.nan = 0
    f.inf = 0
    f.first = -1
    if not is_float(t) or t.nbytes == 0:
        return f
    host = pf_inspect_on_host(t)
    if host == NULL:
        return f
    if pf_count_bad(host.m.dl_tensor.data, host.nbytes, host.type):
        f = pf_describe_bad(host.m.dl_tensor.data, host.nbytes, host.type)
    pf_tensor_unref(host)
    return f

cdef struct Given:              # the inputs of a call, taken together
    bint nan, inf, floats
    int32_t stale               # an input whose variable held NaN before; -1: none

cdef Given survey(const pf_held_inputs* h) noexcept nogil:
    cdef Given g
    cdef pf_finite f
    cdef uint32_t k, n = h.n if h != NULL else 0
    g.nan = False
    g.inf = False
    g.floats = False
    g.stale = -1
    for k in range(n):
        if not is_float(h.ins[k].value):
            continue
        g.floats = True
        f = look(h.ins[k].value)
        g.inf = g.inf or f.inf > 0
        if f.nan and h.ins[k].value != h.ins[k].given:
            g.stale = <int32_t>k
        elif f.nan:
            g.nan = True
    return g

# ---------------------------------------------------------------- text
cdef int32_t add_kind(char* text, int32_t at, const pf_tensor* t) noexcept nogil:
    """"float[2,3]"."""
    cdef int32_t k
    at += snprintf(text + at, ROOM - at, b"%s[", pf_type_name(t.type))
    for k in range(min(t.m.dl_tensor.ndim, 8)):
        at += snprintf(text + at, ROOM - at, b",%jd" if k else b"%jd",
                       <intmax_t>t.m.dl_tensor.shape[k])
    return at + snprintf(text + at, ROOM - at, b"]")

cdef int32_t add_place(char* text, int32_t at, const pf_tensor* t, int64_t flat) noexcept nogil:
    """The index of element `flat`."""
    cdef int64_t left = flat, span = pf_numel(&t.m.dl_tensor)
    cdef int32_t k
    if t.m.dl_tensor.ndim == 0:
        return at
    at += snprintf(text + at, ROOM - at, b", the first at [")
    for k in range(min(t.m.dl_tensor.ndim, 8)):
        span = span // max(t.m.dl_tensor.shape[k], <int64_t>1)
        at += snprintf(text + at, ROOM - at, b",%jd" if k else b"%jd", <intmax_t>(left // span))
        left = left % span
    return at + snprintf(text + at, ROOM - at, b"]")

cdef int32_t add_bad(char* text, int32_t at, const pf_tensor* t, pf_finite f) noexcept nogil:
    at = add_kind(text, at, t)
    at += snprintf(text + at, ROOM - at, b" holds %jd NaN and %jd Inf", <intmax_t>f.nan,
                   <intmax_t>f.inf)
    return add_place(text, at, t, f.first)

cdef int32_t add_input(char* text, int32_t at, const pf_held_input* i) noexcept nogil:
    cdef pf_tensor* t = i.value
    cdef pf_variable* v = variable_of(i.given)
    cdef pf_tensor* host
    cdef pf_finite f
    cdef double low = 0, high = 0
    if v != NULL:
        at += snprintf(text + at, ROOM - at, b"variable %.80s ", v.base.name)
    if t == NULL or t.flags & PF_T_HANDLE:
        return at + snprintf(text + at, ROOM - at, b"%s", b"without a value" if t == NULL else b"a handle")
    f = look(t)
    if f.nan or f.inf:
        return add_bad(text, at, t, f)
    at = add_kind(text, at, t)
    host = pf_inspect_on_host(t)
    if host == NULL:
        return at
    if pf_value_range(host.m.dl_tensor.data, host.nbytes, host.type, &low, &high):
        at += snprintf(text + at, ROOM - at, b" from %.6g to %.6g", low, high)
    pf_tensor_unref(host)
    return at

cdef int32_t add_inputs(char* text, int32_t at, const pf_held_inputs* h) noexcept nogil:
    cdef uint32_t k
    if h == NULL:
        return at
    for k in range(min(h.n, <uint32_t>SHOWN)):
        if at > ROOM - 400:
            break
        at += snprintf(text + at, ROOM - at, b"%s%u: ", b"; " if k else b". Inputs: ", k)
        at = add_input(text, at, h.ins + k)
    return at + snprintf(text + at, ROOM - at, b"%s", b"; ..." if h.n > SHOWN else b"")

cdef int32_t add_turn(pf_call* c, char* text, int32_t at) noexcept nogil:
    cdef const pf_frame_def* loop = c.loop
    if loop == NULL and c.slab.frame != NULL:
        loop = c.slab.def_
    if loop == NULL:
        return at
    return at + snprintf(text + at, ROOM - at, b" (iteration %jd of while loop '%.*s')",
                         <intmax_t>(c.turn if c.loop != NULL else c.slab.iter),
                         <int>min(loop.name.len, 200), loop.name.data)

# ---------------------------------------------------------------- blame
cdef pf_status blame(pf_call* c, const pf_instr* ins, const pf_held_inputs* h, int32_t port,
                     pf_variable* v, const pf_tensor* t, pf_finite f, Given g) noexcept nogil:
    """The step fails: output `port`, or variable v, holds t."""
    cdef char text[ROOM + 400]
    cdef int32_t at
    if g.stale >= 0 and f.nan:
        v = variable_of(h.ins[g.stale].given)
        at = snprintf(text, ROOM, b"check_numerics: variable '%.200s' held NaN before this op: it "
                      b"came from an earlier step, a session without check_numerics, or a "
                      b"checkpoint. The new value ", v.base.name)
    elif v != NULL:
        at = snprintf(text, ROOM, b"check_numerics: the new value of variable '%.200s' ",
                      v.base.name)
    else:
        at = snprintf(text, ROOM, b"check_numerics: output %d ", port)
    at = add_bad(text, at, t, f)
    at = add_turn(c, text, at)
    if g.stale < 0:
        at += snprintf(text + at, ROOM - at, b"; no input held %s",
                       b"NaN" if f.nan else b"NaN or Inf")
    add_inputs(text, at, h)
    pf_step_fail(c.step, c.plan.nodes + ins.node, PF_INVALID_ARGUMENT, text)
    return PF_INVALID_ARGUMENT

cdef bint to_blame(pf_finite f, Given g) noexcept nogil:
    if f.nan:
        return not g.nan
    return f.inf > 0 and not g.nan and not g.inf and g.stale < 0 and g.floats

cdef pf_status check(pf_call* c, const pf_instr* ins, const pf_held_inputs* h) noexcept nogil:
    """Outputs, and variables that changed.  Inputs are looked at only if something is bad."""
    cdef uint32_t k, n = h.n if h != NULL else 0
    cdef pf_variable* v
    cdef pf_tensor* now
    cdef pf_finite f
    cdef Given g
    cdef DLTensor* out
    cdef pf_status st = PF_OK
    for k in range(ins.n_out):
        out = c.slab.slots[ins.out_slot + k]
        if not pf_alive(out):
            continue
        f = look(pf_tensor_of(out))
        if f.first >= 0:
            g = survey(h)
            if to_blame(f, g):
                return blame(c, ins, h, <int32_t>k, NULL, pf_tensor_of(out), f, g)
    for k in range(n):
        v = variable_of(h.ins[k].given)
        if v == NULL:
            continue
        now = pf_variable_read(v)
        if now != h.ins[k].value:
            f = look(now)
            if f.first >= 0:
                g = survey(h)
                if to_blame(f, g):
                    st = blame(c, ins, h, 0, v, now, f, g)
        if now != NULL:
            pf_tensor_unref(now)
        if st:
            return st
    return PF_OK

cdef bint computes(pf_call* c, const pf_instr* ins) noexcept nogil:
    """A node that reads a variable, or a kernel, but for one that says nothing of what its output holds (Empty)."""
    cdef const pf_kernel_entry* k
    cdef const pf_arg** a
    if ins.kind > PF_I_CALL0:
        return ins.kind == PF_I_IDENTITY and ins.flags & PF_F_DEREF
    k = (c.plan.nodes + ins.node).kernel
    a = <const pf_arg**>k.kernel.args if k != NULL else NULL
    while a != NULL and a[0] != NULL:
        if a[0].flags & <uint32_t>PF_ARG_UNSET:
            return False
        a += 1
    return True

cdef public pf_status pf_inspect_feeds(pf_step* s) noexcept nogil:
    """What the caller's own program gave it."""
    cdef char text[ROOM + 400]
    cdef pf_node_info about
    cdef pf_finite f
    cdef pf_tensor* t
    cdef uint32_t k, slot
    cdef int32_t at
    if not s.inspect.numerics:
        return PF_OK
    for k in range(s.plan.n_args):
        slot = s.plan.arg_slot[k]
        if slot == <uint32_t>0xffffffff or not pf_alive(s.root.slots[slot]):
            continue
        t = pf_tensor_of(s.root.slots[slot])
        f = look(t)
        if f.nan == 0:
            continue
        memset(&about, 0, sizeof(about))
        about.name = s.plan.arg_name[k]
        at = snprintf(text, ROOM, b"check_numerics: the value fed ")
        add_bad(text, at, t, f)
        pf_step_fail(s, &about, PF_INVALID_ARGUMENT, text)
        return PF_INVALID_ARGUMENT
    return PF_OK

# ---------------------------------------------------------------- the loop
cdef int32_t device_done(pf_call* c, const pf_instr* ins) noexcept nogil:
    """In order: what the kernel enqueued on its device's stream is over, and an error of it is this
    kernel's."""
    cdef pf_device_entry* d = (c.plan.nodes + ins.node).dev
    cdef pf_status st
    if ins.kind > PF_I_CALL0 or d == NULL or d.stream == NULL:
        return PF_RUN_OK
    st = pf_device_wait(d)
    if st == PF_OK:
        return PF_RUN_OK
    pf_step_failf(c.step, c.plan.nodes + ins.node, st, b"the work that this kernel enqueued on %s failed with "
                  b"status %d", d.name, st)
    return PF_RUN_STOP

cdef int32_t finish(pf_call* c, const pf_instr* ins, pf_held_inputs* h, int32_t r) noexcept nogil:
    """After the call: outputs checked, failures told, inputs let go."""
    cdef pf_inspect* look_at = c.step.inspect
    if r == PF_RUN_OK and look_at.ordered:
        r = device_done(c, ins)
    if r == PF_RUN_OK and look_at.numerics and computes(c, ins) and check(c, ins, h):
        r = PF_RUN_STOP
    if r == PF_RUN_STOP and look_at.failed != NULL:
        look_at.failed(look_at.arg, c, ins, h)
    let_go(h)
    return r

cdef public int32_t pf_inspect_completed(pf_call* c, int32_t r) noexcept nogil:
    cdef pf_held_inputs* h = c.held
    c.held = NULL
    return finish(c, c.instr, h, r)

cdef int32_t run_one(pf_call* c, uint32_t i) noexcept nogil:
    if c.step.trace != NULL:
        return pf_run_range_traced(c, i, i + 1, 0)
    return pf_run_range(c, i, i + 1)

cdef bint runs(pf_call* c, const pf_instr* ins) noexcept nogil:
    """Not a whole loop, nor dead."""
    cdef const uint32_t* e = c.plan.ins + ins.in_begin
    cdef uint32_t k
    if ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME or ins.kind == PF_I_CONST:
        return False
    if not ins.flags & PF_F_MAYBE_DEAD or ins.flags & PF_F_DEAD_OK:
        return True
    for k in range(ins.n_in + ins.n_ctl):
        if c.slab.slots[e[k] & <uint32_t>PF_IN_SLOT] == PF_DEAD:
            return ins.kind == PF_I_MERGE or ins.kind == PF_I_RETVAL
    return True

cdef public int32_t pf_run_range_inspected(pf_call* c, uint32_t begin, uint32_t end) noexcept nogil:
    cdef pf_inspect* look_at = c.step.inspect
    cdef const pf_instr* ins
    cdef pf_held_inputs* h
    cdef uint32_t i
    cdef int32_t r
    for i in range(begin, end):
        ins = c.plan.instrs + i
        if not runs(c, ins):
            r = run_one(c, i)
            if r != PF_RUN_OK:
                return r
            continue
        c.held = h = hold(c, ins)
        c.awaited = 0
        if look_at.before != NULL and look_at.before(look_at.arg, c, ins, h):
            let_go(h)
            pf_step_fail(c.step, NULL, PF_CANCELLED, b"stopped while debugging")
            return PF_RUN_STOP
        r = run_one(c, i)
        if r == PF_RUN_PENDING or c.held != h:
            if r != PF_RUN_OK:
                return r            # the call took h along, and may be over
            continue
        c.held = NULL
        r = finish(c, ins, h, r)
        if r != PF_RUN_OK:
            return r
    return PF_RUN_OK
