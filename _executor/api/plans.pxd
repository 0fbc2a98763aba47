from look_h cimport *

cdef class Plan:
    cdef pf_plan* p
    cdef readonly int n_args, n_rets
    cdef readonly bint tiny     # a short step of the host that cannot wait
    cdef object texts           # PlanTexts, once a trace was kept (records.pyx)
    cdef dict called            # address -> Plan of a function of its library that a traced step called; None: none yet
    cdef Plan within            # of such a Plan: the one whose library it is in
    cdef int64_t serial         # its number in the process, once a Spool asked; 0: not yet
    cdef object __weakref__

cdef Plan traced_plan(dict plans, const pf_plan* p)

cdef class Parts:
    cdef readonly tuple plans
    cdef tuple args, rets
    cdef readonly int n_args, n_rets
    cdef object __weakref__
