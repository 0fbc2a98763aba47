"""Part of api.pyx: a step that was partitioned into several plans."""

@cython.final
cdef class Parts:
    """Several Plans, the partitions of one graph, that run as one step.

    plans: in order; the first one's partition leads.  args, rets: per plan, which feeds and
    fetches of the whole step are its own.  All plans use one pool.  Thread-safe; runs are isolated.
    """
    cdef readonly tuple plans
    cdef tuple args, rets
    cdef readonly int n_args, n_rets
    cdef object __weakref__

    def __init__(self, plans, args, rets):
        cdef Plan plan
        self.plans = tuple(plans)
        self.args = tuple([tuple(a) for a in args])
        self.rets = tuple([tuple(r) for r in rets])
        for plan, a, r in zip(self.plans, self.args, self.rets):
            if len(a) != plan.n_args or len(r) != plan.n_rets:
                raise ValueError("a partition with %d feeds and %d fetches was given %d and %d"
                                 % (plan.n_args, plan.n_rets, len(a), len(r)))
            self.n_args += plan.n_args
            self.n_rets += plan.n_rets

    def counts(self):
        """Plan.counts of every partition."""
        return [plan.counts() for plan in self.plans]

    def explain(self):
        """The plans as text."""
        return "\n".join(["partition %d\n%s" % (k, plan.explain())
                          for k, plan in enumerate(self.plans)])

    @property
    def arg_names(self):
        names = [None] * self.n_args
        for plan, numbers in zip(self.plans, self.args):
            for number, name in zip(numbers, plan.arg_names):
                names[number] = name
        return names

    def run(self, feeds=(), int64_t timeout_ms=0, CancelToken cancel=None,
            Rendezvous rendezvous=None, stats=None, Trace trace=None,
            Inspector inspect=None):
        """Runs one step of all partitions; results in the whole graph's order.  As Plan.run."""
        cdef pf_run_options o
        cdef Interrupt interrupt
        cdef int64_t executed = 0
        memset(&o, 0, sizeof(o))
        memset(&interrupt, 0, sizeof(interrupt))
        o.timeout_ns = timeout_ms * 1000000
        o.poll = check_signals
        o.poll_arg = &interrupt
        if cancel is not None:
            o.running = &cancel.running
            o.running_lock = &cancel.lock
        if rendezvous is not None:
            o.rendezvous = rendezvous.r
        if stats is not None:
            o.kernels = &executed
        if trace is not None:
            o.trace = trace.t
            for plan in self.plans:
                trace.plans[<uintptr_t>(<Plan>plan).p] = plan
        if inspect is not None:
            inspect.prepare(&interrupt, &o)
        if len(feeds) != self.n_args:
            raise ValueError("the step takes %d arguments, got %d" % (self.n_args, len(feeds)))
        results = run_parts(self, feeds, &o, &interrupt)
        if stats is not None:
            stats["kernels"] = executed
        return results

    def start(self, feeds=(), int64_t timeout_ms=0, Rendezvous rendezvous=None, callback=None):
        """As Plan.start."""
        return begin(self.plans, self.args, tuple([k for numbers in self.rets for k in numbers]), feeds, timeout_ms, rendezvous,
                     callback)

cdef int take_feeds(Parts parts, object feeds, pf_tensor** args, list hold) except -1:
    """Fills args, plan after plan; on an exception those made so far are released."""
    cdef int at = 0, k
    cdef Plan plan
    try:
        for plan, numbers in zip(parts.plans, parts.args):
            for k in range(plan.n_args):
                args[at] = tensor_of(feeds[numbers[k]], plan.p.arg_type[k], hold)
                at += 1
                if not fits(plan.p.arg_shape + k, args[at - 1]):
                    wrong_shape(plan, k, args[at - 1])
    except BaseException:
        while at > 0:
            at -= 1
            pf_tensor_unref(args[at])
        raise
    return 0

cdef list run_parts(Parts parts, object feeds, pf_run_options* o, Interrupt* interrupt):
    cdef int n = <int>len(parts.plans), k
    cdef pf_plan** plans = <pf_plan**>malloc(sizeof(void*) * (n + parts.n_args + parts.n_rets + 1))
    cdef pf_tensor** args
    cdef pf_tensor** rets
    cdef pf_error err
    cdef pf_status st
    cdef list hold = []
    cdef list out = [None] * parts.n_rets
    if plans == NULL:
        raise MemoryError()
    args = <pf_tensor**>(plans + n)
    rets = args + parts.n_args
    try:
        for k in range(n):
            plans[k] = (<Plan>parts.plans[k]).p
        take_feeds(parts, feeds, args, hold)
        err.code = 0
        with nogil:
            st = pf_parts_run(plans, n, args, rets, o, &err)
        k = 0
        if st == 0:
            for numbers in parts.rets:
                for number in numbers:
                    out[number] = array_of(rets[k])
                    k += 1
    finally:
        free(plans)
    if interrupt != NULL and interrupt.type != NULL:
        restore(interrupt)
    if st:
        raise_error(&err)
    return out
