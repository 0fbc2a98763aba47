from look_h cimport *

cdef class Task:
    cdef pf_task* t
