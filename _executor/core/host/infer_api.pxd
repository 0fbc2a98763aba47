# cython: language_level=3
"""What infer.pyx defines: the context of shape and cost functions."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    int32_t pf_infer_n(pf_infer*, int32_t) noexcept
    pf_status pf_infer_dims(pf_infer*, int32_t, const int64_t**, int32_t*) noexcept
    int32_t pf_infer_type(pf_infer*, int32_t) noexcept
    const DLTensor* pf_infer_constant(pf_infer*, int32_t) noexcept
    pf_status pf_infer_attr(pf_infer*, const char*, int32_t, void*) noexcept
    pf_status pf_infer_set(pf_infer*, int32_t, const int64_t*, int32_t) noexcept
    pf_status pf_infer_fail(pf_infer*, const char*, int64_t) noexcept
    void pf_infer_start(pf_infer_call*) noexcept
    pf_status pf_infer_end(pf_infer_call*, pf_status) noexcept
    ctypedef struct pf_infer_call:
        pf_infer known
        const pf_node* node
        const pf_op_def* def_ "def"
        const pf_signature* sig
        const pf_shape* in_shapes
        const DLTensor** in_values
        pf_shape* out_shapes
        pf_arena* arena
        pf_error* err
