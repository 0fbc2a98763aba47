from look_h cimport *
from pyflow._executor.steps cimport Trace

cdef class Runnable:
    cdef pf_plan** all          # the n plans of one step
    cdef int n
    cdef int32_t* arg_of        # which feed each argument is, plan after plan; NULL: in order
    cdef int32_t* ret_of        # which fetch each result is
    cdef readonly int n_args, n_rets
    cdef readonly bint tiny     # a short step of the host that cannot wait
    cdef object __weakref__
    cdef list members(self)
    cdef int note(self, Trace trace) except -1

cdef class Plan(Runnable):
    cdef pf_plan* p
    cdef object texts           # PlanTexts, once a trace was kept (records.pyx)
    cdef dict called            # address -> Plan of a function of its library that a traced step called; None: none yet
    cdef Plan within            # of such a Plan: the one whose library it is in
    cdef int64_t serial         # its number in the process, once a Spool asked; 0: not yet
    cdef int holds(self, pf_plan* p) except -1

cdef Plan traced_plan(dict plans, const pf_plan* p)

cdef class Parts(Runnable):
    cdef readonly tuple plans
