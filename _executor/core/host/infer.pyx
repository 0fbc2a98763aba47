# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The context of shape and cost functions (pf_infer): types, known shapes, attributes and constants of one node.

Used for ops declared in C while a graph is built, and for kernels' cost functions while a plan is compiled.
"""
from host_h cimport *

cdef public void pf_infer_start(pf_infer_call* c) noexcept nogil:
    """Everything zero but what kernel.h shows."""
    memset(c, 0, sizeof(pf_infer_call))
    c.known.size = sizeof(pf_infer)
    c.known.host = pf_host_table()

cdef public pf_status pf_infer_end(pf_infer_call* c, pf_status st) noexcept nogil:
    """After the op's shape function: a failure always has a text, and names who failed."""
    cdef const char* plugin = c.def_.plugin
    cdef char text[3300]
    if st == PF_OK and c.err.code == PF_OK:
        return PF_OK
    if plugin == NULL:
        plugin = b"pyflow"
    if c.err.code == PF_OK or not c.err.message[0]:
        c.err.code = PF_OK
        return pf_error_set(c.err, st if st > 0 else PF_INVALID_ARGUMENT, b"the shape function of op %.*s (plugin '%.120s') "
                            b"failed with status %d and without a message", <int>min(c.def_.name.len, <int64_t>200), c.def_.name.data,
                            plugin, st)
    if not pf_is_own(plugin) and c.def_.plugin != NULL:
        snprintf(text, sizeof(text), b"%.3000s (shape function of plugin '%.120s')", c.err.message, plugin)
        st = c.err.code
        c.err.code = PF_OK
        return pf_error_set(c.err, st, b"%s", text)
    return c.err.code

cdef public int32_t pf_infer_n(pf_infer* i, int32_t output) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if c == NULL:
        return 0
    return c.sig.n_out if output else c.sig.n_in

cdef public pf_status pf_infer_dims(pf_infer* i, int32_t k, const int64_t** dims, int32_t* ndim) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if c == NULL or dims == NULL or ndim == NULL:
        return PF_INVALID_ARGUMENT
    if not 0 <= k < c.sig.n_in:
        return PF_OUT_OF_RANGE
    dims[0] = c.in_shapes[k].dims
    ndim[0] = c.in_shapes[k].ndim
    return PF_OK

cdef public int32_t pf_infer_type(pf_infer* i, int32_t k) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    return c.sig.in_type[k] if c != NULL and 0 <= k < c.sig.n_in else 0

cdef public const DLTensor* pf_infer_constant(pf_infer* i, int32_t k) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if c == NULL or c.in_values == NULL or not 0 <= k < c.sig.n_in:
        return NULL
    return c.in_values[k]

cdef public pf_status pf_infer_attr(pf_infer* i, const char* name, int32_t kind, void* value) noexcept nogil:
    """Writes the C type that kernel.h gives for the kind."""
    cdef pf_infer_call* c = <pf_infer_call*>i
    cdef const pf_attr_value* a
    cdef pf_const* t
    if c == NULL or name == NULL or value == NULL:
        return PF_INVALID_ARGUMENT
    a = pf_attr_or_default(c.node, c.def_, name)
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
    cdef int32_t k
    if c == NULL or c.out_shapes == NULL or not 0 <= o < c.sig.n_out or ndim > PF_MAX_NDIM:
        return PF_OUT_OF_RANGE
    if dims == NULL and ndim > 0:
        return PF_INVALID_ARGUMENT
    for k in range(ndim):
        if dims[k] < -1:
            return PF_INVALID_ARGUMENT
    c.out_shapes[o].ndim = max(ndim, -1)
    if ndim > 0:
        own = <int64_t*>pf_arena_alloc(c.arena, sizeof(int64_t) * <uint64_t>ndim)
        if own == NULL:
            return PF_RESOURCE_EXHAUSTED
        memcpy(own, dims, sizeof(int64_t) * ndim)
        c.out_shapes[o].dims = own
    return PF_OK

cdef public pf_status pf_infer_fail(pf_infer* i, const char* msg, int64_t n) noexcept nogil:
    cdef pf_infer_call* c = <pf_infer_call*>i
    if c == NULL:
        return PF_INVALID_ARGUMENT
    if msg == NULL or n <= 0:
        return PF_INVALID_ARGUMENT
    return pf_error_set(c.err, PF_INVALID_ARGUMENT, b"%.*s", <int>min(n, <int64_t>3000), msg)
