from look_h cimport *

cdef class Pool:
    cdef pf_pool* p
    cdef readonly int threads

cdef class State:
    cdef pf_state* s

cdef void collect_problem(void* arg, const char* text) noexcept nogil
