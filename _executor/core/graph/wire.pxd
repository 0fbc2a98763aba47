# cython: language_level=3
"""pf_wire.h as proto.pyx and attr_value.pyx see it."""
from core cimport *

cdef extern from "pf_wire.h" nogil:
    enum:
        PF_WIRE_VARINT, PF_WIRE_FIXED64, PF_WIRE_BYTES, PF_WIRE_FIXED32
    ctypedef struct pf_reader:
        const uint8_t* at
        const uint8_t* end
        int32_t bad
    ctypedef struct pf_field:
        uint32_t number
        int32_t wire
        uint64_t value
        pf_str bytes
    ctypedef struct pf_load:
        pf_graph* graph
        pf_error* err
        uint64_t cap, tensor_bytes, seed, mask
        pf_arena scratch
        pf_str** input_names
        int32_t* table
    pf_reader pf_reader_of(pf_str) noexcept
    bint pf_read_varint(pf_reader*, uint64_t*) noexcept
    bint pf_read_fixed(pf_reader*, int64_t, uint64_t*) noexcept
    bint pf_next_field(pf_reader*, pf_field*) noexcept
