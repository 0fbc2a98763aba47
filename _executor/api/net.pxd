cimport cython
from pyflow._executor.tasks cimport Task

cdef extern from "net/net.h" nogil:
    ctypedef struct pf_net

@cython.final
cdef class Net:
    cdef pf_net* n
    cdef readonly Task task
    cdef readonly bint closed
    cdef readonly double lease
    cdef object lost
    cdef object __weakref__
