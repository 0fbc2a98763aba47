from cpython.ref cimport PyObject
from look_h cimport *

cdef struct Interrupt:          # an exception on its way through the core
    PyObject* type
    PyObject* value
    PyObject* traceback

cdef int32_t check_signals(void* arg) noexcept nogil     # pf_run_options.poll; arg: the step's Interrupt
cdef int restore(Interrupt* i) except -1

cdef class CancelToken:
    cdef pf_step* running
    cdef pthread_mutex_t lock
    cdef readonly bint cancelled

cdef class Rendezvous:
    cdef pf_rendezvous* r

cdef void deliver_to_python(void* arg, pf_status st, pf_tensor* take, int32_t dead) noexcept nogil

cdef class Records:
    cdef pf_trace* t

cdef class Trace:
    cdef pf_trace* t            # of `records`
    cdef Records records
    cdef dict plans
    cdef int64_t ticks, ns
    cdef object __weakref__

cdef class Inspector:
    cdef pf_inspect i
    cdef object before, failed
    cdef Interrupt* interrupt
    cdef void prepare(self, Interrupt* interrupt, pf_run_options* o)
    cdef void keep_exception(self)
