# cython: language_level=3
"""pf_registry.h as Cython sees it: what register.pyx has checked and registry.pyx keeps."""
from core cimport *

cdef extern from "pf_registry.h" nogil:
    ctypedef struct pf_constraint:
        pf_str attr
        int32_t n
        const int32_t* types
    ctypedef struct pf_where:
        int32_t n
        pf_constraint* all
        const char* text
    ctypedef struct pf_plugin_entry:
        pf_plugin plugin
        const char* origin
        pf_arena arena
        pf_plugin_entry* next
    const char* pf_attr_kind_name(int32_t) noexcept
