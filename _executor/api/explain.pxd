from look_h cimport *

cdef str explain_plan(pf_plan* p)
cdef list list_places(pf_plan* p)
cdef dict trace_table(pf_plan* p)
