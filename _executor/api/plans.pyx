# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Plans: compiled graphs, run as steps; alone, as callables, or as the partitions of one step.

The GIL is released while a step runs, unless the plan is tiny, has no variables and its arguments are small; kernels
that call Python (callbacks.pyx) run on the thread that called `run`, between blocks.

    state, pool = State("s"), default_pool(2)
    plan = compile(graph_def_bytes, {}, state, pool)
    [y] = plan.run([x])
"""
cimport cython
cimport numpy as cnp
from cpython.ref cimport Py_DECREF, Py_INCREF
from look_h cimport *
from pyflow._executor.values cimport all_lendable, array_of, borrow, clear_error, kept, lent, raise_error, tensor_of, text_of, type_of_array
from pyflow._executor.host cimport Pool, State
from pyflow._executor.options cimport BY_POOL, require_startable, take_plan_options, take_run_options
from pyflow._executor.steps cimport Interrupt, Trace, check_signals, restore
from pyflow._executor.started cimport Started, begin, take_feeds
from pyflow._executor.explain cimport explain_plan, list_places, trace_table

import numpy as np
from pyflow._executor.values import StepError

cnp.import_array()

cdef enum:
    MAX_INLINE_ARGS = 16
    SMALL_WORK = 65536          # bytes of arguments below which a tiny plan runs without releasing the GIL
    HELD_BYTES = 4096           # constants from here on are shared with the graph, not copied
    TINY_PLAN = 64

cdef class Runnable:
    """What runs as one step: a Plan, or the Parts of one graph (contract.Plan).  Thread-safe; runs are isolated."""

    cdef list members(self):
        """Its Plans, in order: itself, where it is not made of several."""
        return [self]

    cdef int note(self, Trace trace) except -1:
        """A trace's records will speak of the plans."""
        cdef Plan plan
        for plan in self.members():
            trace.plans[<uintptr_t>plan.p] = plan
        return 0

    def run(self, feeds=(), options=None):
        """Runs one step on this thread and the pool's; the list of results, in order.  options: a RunOptions; None: as usual.  Raises
        StepError; ValueError, TypeError for feeds that do not fit."""
        cdef pf_run_options o
        cdef Interrupt interrupt
        cdef int64_t executed = 0
        cdef bint keep = False
        memset(&o, 0, sizeof(o))
        memset(&interrupt, 0, sizeof(interrupt))
        o.poll = check_signals
        o.poll_arg = &interrupt
        if options is not None:
            keep = take_run_options(options, &o, &interrupt)
            if o.task != NULL:
                raise ValueError("a task's step is begun: `start` takes its key")
            if o.trace != NULL:
                self.note(options.trace)
            if options.stats is not None:
                o.kernels = &executed
        results = run_all(self, feeds, &o, &interrupt, keep)
        if o.kernels != NULL:
            options.stats["kernels"] = executed
        return results

    def start(self, feeds=(), options=None, done=None, key=None, int by=BY_POOL):
        """Begins one step and returns a Started at once.  done(started): called when it is over, on a thread of the pool: it has to be
        brief.  key: (session, step), whose of options.task it is.  by: who works for it, BY_*; by who waits: no thread begins it before
        it is waited for, or helped by a Remote."""
        if options is not None:
            require_startable(options)
            if options.trace is not None:
                self.note(options.trace)
        return begin(self, self.all, self.n, self.arg_of, self.ret_of, self.n_args, self.n_rets, feeds, options, done, key, by)

cdef list run_all(Runnable r, object feeds, pf_run_options* o, Interrupt* interrupt, bint keep):
    cdef pf_tensor* small[MAX_INLINE_ARGS * 2]
    cdef pf_tensor** args = small
    cdef pf_tensor** rets
    cdef int32_t k
    cdef int64_t bytes_in
    cdef pf_error err
    cdef pf_status st
    cdef list hold = []
    cdef list out
    if r.n_args + r.n_rets > MAX_INLINE_ARGS * 2:
        args = <pf_tensor**>malloc(sizeof(void*) * (r.n_args + r.n_rets))
        if args == NULL:
            raise MemoryError()
    rets = args + r.n_args
    try:
        bytes_in = take_feeds(r.all, r.n, r.arg_of, r.n_args, feeds, args, hold)
        pf_error_clear(&err)
        if r.n != 1:
            with nogil:
                st = pf_parts_run(r.all, r.n, args, rets, o, &err)
        elif r.tiny and bytes_in < SMALL_WORK and o.timeout_ns == 0 and o.running == NULL:
            st = pf_step_run(r.all[0], args, rets, o, &err)
        else:
            with nogil:
                st = pf_step_run(r.all[0], args, rets, o, &err)
        if st == 0:
            out = [None] * r.n_rets
            for k in range(r.n_rets):
                out[k if r.ret_of == NULL else r.ret_of[k]] = kept(rets[k]) if keep else array_of(rets[k])
    finally:
        if args != small:
            free(args)
    if interrupt.type != NULL:
        restore(interrupt)
    if st:
        raise_error(&err)
    return out

@cython.final
cdef class Plan(Runnable):
    """A compiled graph for one feed and fetch signature."""
    def __dealloc__(self):
        cdef pf_plan* p = self.p
        if p != NULL:
            with nogil:
                pf_plan_unref(p)

    cdef int holds(self, pf_plan* p) except -1:
        """Takes a reference to it."""
        self.p = p
        self.all = &self.p
        self.n = 1
        self.n_args = p.n_args
        self.n_rets = p.n_rets
        return 0

    @property
    def arg_names(self):
        return [text_of(self.p.arg_name[k]) for k in range(self.n_args)]

    @property
    def arg_types(self):
        return [self.p.arg_type[k] for k in range(self.n_args)]

    @property
    def ret_types(self):
        return [self.p.ret_type[k] for k in range(self.n_rets)]

    def counts(self):
        """Numbers of nodes, instructions, blocks, frames and slots."""
        cdef uint32_t k
        cdef int inlined = 0
        for k in range(1, self.p.n_frames):
            inlined += self.p.frames[k].inlined != 0
        return dict(nodes=self.p.n_nodes, instructions=self.p.n_instrs, blocks=self.p.n_blocks, frames=self.p.n_frames,
                    inlined=inlined, slots=self.p.frames[0].n_slots, constants=self.p.n_consts,
                    groups=self.p.n_groups, grouped=self.p.n_grouped)

    def buffers(self):
        """Bytes of the planned extent, of all buffers in it, and of those alive at once at the worst moment."""
        return dict(planned=self.p.planned_bytes, total=self.p.planned_sum, alive=self.p.planned_least)

    def cost(self):
        """Nanoseconds that a step takes at most, by what is known while planning, and whether it has to be measured besides; None
        where a step may take any time."""
        return None if self.p.cost_ns == PF_COST_UNKNOWN else (self.p.cost_ns, bool(self.p.cost_is_measured))

    def functions(self):
        """{name: as `buffers`} of the functions of its library that were called so far: their bodies are planned alike."""
        cdef int k
        cdef pf_str name
        cdef pf_plan* p
        found = {}
        for k in range(pf_library_size(self.p.library)):
            p = pf_library_compiled(self.p.library, k, &name)
            if p != NULL:
                found[text_of(name)] = dict(planned=p.planned_bytes, total=p.planned_sum, alive=p.planned_least)
        return found

    def places(self):
        """Where each output of a kernel goes, as `python -m pyflow explain --buffers` lists it (list_places)."""
        return list_places(self.p)

    def explain(self):
        """The plan as text: blocks, instructions, slots."""
        return explain_plan(self.p)

    def trace_table(self):
        """What records of a Trace refer to: nodes, instructions and frames; see `trace_table`."""
        return trace_table(self.p)

cdef Plan traced_plan(dict plans, const pf_plan* p):
    """The Plan of a step of a trace: one of `plans`, or the body of a function that one of them called."""
    cdef Plan outer, body
    cdef pf_str name
    cdef int32_t k
    found = plans.get(<uintptr_t>p)
    if found is not None:
        return found
    for outer in plans.values():
        if outer.called is not None and <uintptr_t>p in outer.called:
            return outer.called[<uintptr_t>p]
        for k in range(pf_library_size(outer.p.library)):
            if pf_library_compiled(outer.p.library, k, &name) == p:
                body = Plan.__new__(Plan)
                pf_a32_add_rlx(&(<pf_plan*>p).refs, 1)
                body.holds(<pf_plan*>p)
                body.within = outer
                if outer.called is None:
                    outer.called = {}
                outer.called[<uintptr_t>p] = body
                return body
    raise KeyError("a step of the trace belongs to no plan that is known")

cdef bint is_tiny(pf_plan* p) noexcept nogil:
    """Few cheap synchronous instructions, no loop: such a step is over before another thread could take the GIL.  With
    variables it may wait for one, and whoever has that locked for the GIL, to look at signals."""
    cdef uint32_t k
    if p.n_instrs > TINY_PLAN or p.n_frames > 1 or p.has_async or p.n_blocks > 1 or p.has_variables:
        return False
    for k in range(p.n_instrs):
        if p.instrs[k].flags & PF_F_LONG:
            return False
    for k in range(p.n_nodes):
        if p.nodes[k].kernel != NULL and p.nodes[k].kernel.kernel.flags & <uint32_t>(
                PF_KERNEL_BLOCKING | PF_KERNEL_ASYNC):
            return False
    return True

cdef void release_array(void* array) noexcept with gil:
    if not pf_host_ended():             # else the interpreter is ending
        Py_DECREF(<object>array)

cdef pf_tensor* constant_of(cnp.ndarray a) except NULL:
    """A tensor over the memory of an array that nobody writes to; it holds the array."""
    cdef pf_tensor* t = pf_tensor_wrap(type_of_array(a), <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a), cnp.PyArray_DATA(a),
                                       PF_T_CONSTANT, release_array, <void*>a)
    if t == NULL:
        raise MemoryError("a tensor's header")
    Py_INCREF(a)
    return t

cdef int name_tensors(pf_named_tensor* named, dict consts, list hold) except -1:
    """Takes the arrays out of `consts`: large ones are let go when the plan needs them no more."""
    cdef int32_t k = 0
    while consts:
        name, value = consts.popitem()
        b = name.encode()
        hold.append(b)
        named[k].name = borrow(b)
        a = np.asarray(value)
        if a.nbytes >= HELD_BYTES and not a.flags.writeable and type_of_array(a) and cnp.PyArray_ISCARRAY_RO(a):
            named[k].tensor = constant_of(a)
        else:
            hold.append(a)
            named[k].tensor = tensor_of(a, type_of_array(a) or PF_STRING, hold)
        k += 1
        a = value = None
    return 0

def compile(bytes graph_def, dict consts, State state, Pool pool, options=None):
    """Compiles a serialised GraphDef whose feeds are `_Arg` and fetches `_Retval` nodes.

    consts: values of Const nodes by name, beside those in the graph; it is empty afterwards.  options: a PlanOptions; None: as usual.
    Raises StepError.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef pf_plan_options o
    cdef pf_plan* p = NULL
    cdef pf_named_tensor* named
    cdef Plan plan = Plan.__new__(Plan)
    cdef const char* data = graph_def
    cdef Py_ssize_t n = len(graph_def)
    cdef pf_status st
    cdef int32_t k, n_consts = <int32_t>len(consts)
    cdef list hold = []
    take_plan_options(options, &o)
    clear_error(&err)
    with nogil:
        st = pf_graph_read(data, n, &g, &err)
    if st:
        raise_error(&err)
    named = <pf_named_tensor*>calloc(n_consts + 1, sizeof(pf_named_tensor))
    try:
        if named == NULL:
            raise MemoryError()
        name_tensors(named, consts, hold)
        with nogil:
            st = pf_plan_compile(g, named, n_consts, state.s, pool.p, &o, &p, &err)
        g = NULL
    finally:
        if g != NULL:
            pf_graph_free(g)
        for k in range(n_consts if named != NULL else 0):
            pf_tensor_unref(named[k].tensor)
        free(named)
    if st:
        raise_error(&err)
    plan.holds(p)
    plan.tiny = is_tiny(p)
    return plan

@cython.final
cdef class Callable:
    """plan.run as a function of its arguments: the short way for make_callable.

    single: return the one result instead of a list.  finish: None, or a function of the list of results.  slow: called
    with the arguments when one is not an array of the right type and shape (or the callable is closed), to convert or
    refuse it.  explain: StepError -> the exception to raise.
    """
    cdef Plan plan
    cdef bint single, closed
    cdef object finish, slow, explain
    cdef object __weakref__

    def __init__(self, Plan plan, bint single=False, finish=None, slow=None, explain=None):
        self.plan = plan
        self.single = single
        self.finish = finish
        self.slow = slow
        self.explain = explain

    def close(self):
        """From now on every call goes to `slow`."""
        self.closed = True

    def __call__(self, *args):
        cdef Plan plan = self.plan
        cdef list out
        cdef bint lend = not self.closed and len(args) == plan.n_args and all_lendable(args, plan.p)
        if not lend:
            if self.slow is not None:
                return self.slow(*args)
            if len(args) != plan.n_args:
                raise ValueError("expected %d arguments, got %d" % (plan.n_args, len(args)))
        try:
            if lend and plan.tiny and self.single and self.finish is None and plan.n_args <= MAX_INLINE_ARGS:
                return run_tiny(plan, args)
            out = plan.run(args)
        except StepError as e:
            if self.explain is None:
                raise
            error = self.explain(e)
        else:
            if self.finish is not None:
                return self.finish(out)
            return out[0] if self.single else out
        raise error from None

cdef object run_tiny(Plan plan, tuple values):
    """One result, few arguments, all of them lendable: no lists; the GIL stays while they are small."""
    cdef pf_tensor* args[MAX_INLINE_ARGS]
    cdef pf_tensor* result
    cdef int32_t k = 0, n = plan.n_args
    cdef int64_t bytes_in = 0
    cdef pf_error err
    cdef pf_status st
    try:
        while k < n:
            args[k] = lent(values[k], plan.p.arg_type[k])
            bytes_in += args[k].nbytes
            k += 1
    except BaseException:
        while k > 0:
            k -= 1
            pf_tensor_unref(args[k])
        raise
    pf_error_clear(&err)
    if bytes_in < SMALL_WORK:
        st = pf_step_run(plan.p, args, &result, NULL, &err)
    else:
        with nogil:
            st = pf_step_run(plan.p, args, &result, NULL, &err)
    if st:
        raise_error(&err)
    return array_of(result)

# ---------------------------------------------------------------- several plans as one step
@cython.final
cdef class Parts(Runnable):
    """Several Plans, the partitions of one graph, that run as one step.

    plans: in order; the first one's partition leads.  args, rets: per plan, which feeds and
    fetches of the whole step are its own.  All plans use one pool.
    """
    def __init__(self, plans, args, rets):
        cdef Plan plan
        self.plans = tuple(plans)
        for plan, a, r in zip(self.plans, args, rets, strict=True):
            if len(a) != plan.n_args or len(r) != plan.n_rets:
                raise ValueError("a partition with %d feeds and %d fetches was given %d and %d"
                                 % (plan.n_args, plan.n_rets, len(a), len(r)))
        self.arg_of = numbers_of(args, &self.n_args)
        self.ret_of = numbers_of(rets, &self.n_rets)
        self.all = <pf_plan**>malloc(sizeof(void*) * (len(self.plans) + 1))
        if self.all == NULL:
            raise MemoryError()
        for plan in self.plans:
            self.all[self.n] = plan.p
            self.n += 1

    def __dealloc__(self):
        free(self.all)
        free(self.arg_of)
        free(self.ret_of)

    cdef list members(self):
        return list(self.plans)

    def counts(self):
        """Plan.counts of every partition."""
        return [plan.counts() for plan in self.plans]

    def explain(self):
        """The plans as text."""
        return "\n".join(["partition %d\n%s" % (k, plan.explain())
                          for k, plan in enumerate(self.plans)])

    @property
    def arg_names(self):
        cdef int at = 0
        names = [None] * self.n_args
        for plan in self.plans:
            for name in plan.arg_names:
                names[self.arg_of[at]] = name
                at += 1
        return names

cdef int32_t* numbers_of(per_plan, int* n) except NULL:
    """The numbers, plan after plan: each of 0 to n - 1 once."""
    cdef list numbers = [k for own in per_plan for k in own]
    cdef int32_t* out
    cdef int k
    if sorted(numbers) != list(range(len(numbers))):
        raise ValueError("the partitions have the feeds or fetches %s: expected each of a step's once" % numbers)
    out = <int32_t*>malloc(sizeof(int32_t) * (len(numbers) + 1))
    if out == NULL:
        raise MemoryError()
    for k in range(len(numbers)):
        out[k] = numbers[k]
    n[0] = <int>len(numbers)
    return out
