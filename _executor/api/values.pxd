cimport numpy as cnp
from look_h cimport *

cdef enum:
    SMALL_RESULT = 2048         # below, copying is cheaper than keeping the tensor alive

cdef class Buffer:
    cdef pf_tensor* t

cdef class Handle:
    cdef pf_tensor* t

cdef class Kept:
    cdef pf_tensor* t

# text and errors
cdef void clear_error(pf_error* err) noexcept nogil
cdef object raise_error(pf_error* e)
cdef str text_of(pf_str s)
cdef pf_str borrow(bytes b)

# types
cdef int npy_of(int32_t type) noexcept nogil
cdef object dtype_of(int32_t type)
cdef int32_t type_of_array(cnp.ndarray a) except -1

# in; out
cdef bint all_lendable(tuple values, const pf_plan* p) except -1
cdef pf_tensor* lent(object value, int32_t type) except NULL
cdef pf_tensor* string_tensor(object value) except NULL
cdef pf_tensor* tensor_of(object value, int32_t type, list hold) except NULL
cdef object array_of(pf_tensor* take)
cdef Kept kept(pf_tensor* take)

# feeds
cdef int wrong_shape(const pf_plan* p, int k, pf_tensor* t) except -1
cdef inline bint fits(pf_shape* s, pf_tensor* t) noexcept nogil:
    cdef int32_t i
    if s.ndim < 0:
        return True
    if s.ndim != t.m.dl_tensor.ndim:
        return False
    for i in range(s.ndim):
        if s.dims[i] >= 0 and s.dims[i] != t.m.dl_tensor.shape[i]:
            return False
    return True
