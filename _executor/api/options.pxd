from look_h cimport *
from pyflow._executor.steps cimport Interrupt

cdef enum:                      # who works for a step that is begun: `by` of `start`
    BY_POOL                     # the pool's threads
    BY_STARTER                  # this thread, as far as what it does is bounded
    BY_WAITER                   # who waits for it

cdef int take_plan_options(object given, pf_plan_options* o) except -1
cdef bint take_run_options(object given, pf_run_options* o, Interrupt* interrupt) except -1
cdef int require_startable(object given) except -1
