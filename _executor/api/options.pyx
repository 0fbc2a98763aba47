# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""How plans are compiled and steps are run: pyflow.session.contract's PlanOptions and RunOptions, as the core takes them.

Any object with their attributes serves, for this extension knows no pyflow; one without says so.  None is how it is usual.
"""
from look_h cimport *
from pyflow._executor.steps cimport CancelToken, Inspector, Interrupt, Rendezvous, Trace
from pyflow._executor.tasks cimport Task

cdef enum:
    NS_OF_MS = 1000000

cdef object wrong(object given, str expected, object problem):
    return TypeError("options must be a %s of pyflow.session.contract, but got %s: %s" % (expected, type(given), problem))

cdef int take_plan_options(object given, pf_plan_options* o) except -1:
    memset(o, 0, sizeof(o[0]))
    if given is None:
        return 0
    try:
        o.threads = given.threads
        o.no_inline = not given.inline
        o.no_blocks = not given.blocks
        o.ordered = <bint>given.ordered
        o.groups = PF_GROUPS_NONE if not given.groups else PF_GROUPS_DETERMINISTIC if given.deterministic else PF_GROUPS_ANY
    except AttributeError as problem:
        raise wrong(given, "PlanOptions", problem) from None
    return 0

cdef bint take_run_options(object given, pf_run_options* o, Interrupt* interrupt) except -1:
    """Whether results are to be Kept.  What o points to is `given`'s, which has to live as long."""
    cdef CancelToken token
    cdef int64_t timeout_ms
    try:
        timeout_ms = given.timeout_ms
        keep, cancel, rendezvous, task = given.keep, given.cancel, given.rendezvous, given.task
        into, inspect = given.trace, given.inspect
    except AttributeError as problem:
        raise wrong(given, "RunOptions", problem) from None
    o.timeout_ns = timeout_ms * NS_OF_MS
    if cancel is not None:
        token = <CancelToken?>cancel
        o.running = &token.running
        o.running_lock = &token.lock
    if rendezvous is not None:
        o.rendezvous = (<Rendezvous?>rendezvous).r
    if task is not None:
        if rendezvous is not None:
            raise ValueError("a task's step has the rendezvous of its key: give a task or a rendezvous")
        o.task = (<Task?>task).t
    if into is not None:
        o.trace = (<Trace?>into).t
    if inspect is not None:
        (<Inspector?>inspect).prepare(interrupt, o)
    return keep

cdef int require_startable(object given) except -1:
    try:
        cancel, inspect, stats = given.cancel, given.inspect, given.stats
    except AttributeError as problem:
        raise wrong(given, "RunOptions", problem) from None
    if cancel is not None or inspect is not None or stats is not None:
        raise ValueError("a step that is begun has no cancel, inspect or stats: what `start` returns cancels it")
    return 0
