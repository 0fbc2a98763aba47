# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The context of shape and cost functions (pf_infer): types, known shapes, attributes and constants of one node.

Used for ops declared in C while a graph is built, and for kernels' cost functions while a plan is compiled.
"""
from core cimport *
from tensor_api cimport *
from sig_api cimport pf_attr_or_default
from infer_api cimport pf_infer_call

cdef public int32_t pf_infer_n(pf_infer* i, int32_t output) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    return c.sig.n_out if output else c.sig.n_in

cdef public pf_status pf_infer_dims(pf_infer* i, int32_t k, const int64_t** dims, int32_t* ndim) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if not 0 <= k < c.sig.n_in:
        return PF_OUT_OF_RANGE
    dims[0] = c.in_shapes[k].dims
    ndim[0] = c.in_shapes[k].ndim
    return PF_OK

cdef public int32_t pf_infer_type(pf_infer* i, int32_t k) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    return c.sig.in_type[k] if 0 <= k < c.sig.n_in else 0

cdef public const DLTensor* pf_infer_constant(pf_infer* i, int32_t k) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if c.in_values == NULL or not 0 <= k < c.sig.n_in:
        return NULL
    return c.in_values[k]

cdef public pf_status pf_infer_attr(pf_infer* i, const char* name, int32_t kind, void* value) noexcept nogil:
    """Writes the C type that kernel.h gives for the kind."""
    cdef pf_infer_call* c = <pf_infer_call*>i
    cdef const pf_attr_value* a = pf_attr_or_default(c.node, c.def_, name)
    cdef pf_const* t
    if a == NULL:
        return PF_NOT_FOUND
    if a.kind != kind:
        return PF_INVALID_ARGUMENT
    if kind & PF_ATTR_LIST:
        (<pf_list*>value)[0] = a.list
    elif kind == PF_ATTR_INT:
        (<int64_t*>value)[0] = a.i
    elif kind == PF_ATTR_FLOAT:
        (<double*>value)[0] = a.f
    elif kind == PF_ATTR_BOOL:
        (<int32_t*>value)[0] = a.i != 0
    elif kind == PF_ATTR_TYPE:
        (<int32_t*>value)[0] = a.type
    elif kind == PF_ATTR_SHAPE:
        (<pf_shape*>value)[0] = a.shape
    elif kind == PF_ATTR_TENSOR:
        t = <pf_const*>value
        t.tensor = pf_dl(a.tensor) if a.tensor != NULL else NULL
        t.type = a.tensor.type if a.tensor != NULL else 0
    else:
        (<pf_str*>value)[0] = a.s
    return PF_OK

cdef public pf_status pf_infer_set(pf_infer* i, int32_t o, const int64_t* dims, int32_t ndim) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    cdef int64_t* own
    if not 0 <= o < c.sig.n_out or ndim > PF_MAX_NDIM:
        return PF_OUT_OF_RANGE
    c.out_shapes[o].ndim = ndim
    if ndim > 0:
        own = <int64_t*>pf_arena_alloc(c.arena, sizeof(int64_t) * <uint64_t>ndim)
        if own == NULL:
            return PF_RESOURCE_EXHAUSTED
        memcpy(own, dims, sizeof(int64_t) * ndim)
        c.out_shapes[o].dims = own
    return PF_OK

cdef public pf_status pf_infer_fail(pf_infer* i, const char* msg, int64_t n) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    return pf_error_set(c.err, PF_INVALID_ARGUMENT, b"%.*s", <int>max(<int64_t>0, min(n, <int64_t>3000)), msg)
