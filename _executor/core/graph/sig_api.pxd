# cython: language_level=3
"""What sig.pyx defines (pf_core.h, "signatures")."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    const pf_op_def* pf_op_find(pf_str name) noexcept
    pf_status pf_op_register(const char* name, const char* sig, int32_t flags,
                             pf_status (*infer)(pf_infer*) noexcept nogil, const char* doc,
                             const char* plugin,
                             pf_error* err) noexcept
    int32_t pf_op_count() noexcept
    const pf_op_def* pf_op_at(int32_t i) noexcept
    pf_status pf_node_resolve(pf_graph* g, const pf_node* n, const pf_op_def* op, pf_signature* out,
                              pf_error* err) noexcept
    const pf_attr_value* pf_attr_or_default(const pf_node* n, const pf_op_def* op,
                                            const char* name) noexcept
