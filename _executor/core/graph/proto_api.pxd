# cython: language_level=3
"""What proto.pyx defines (pf_core.h, "graphs")."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    pf_status pf_graph_read(const void* bytes, int64_t n, pf_graph** out, pf_error* err) noexcept
    void pf_graph_free(pf_graph* g) noexcept
    const pf_attr_value* pf_node_attr_find(const pf_node* n, const char* name) noexcept
