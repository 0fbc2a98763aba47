# cython: language_level=3
"""What registry.pyx defines (pf_core.h, "plugins, kernels, devices")."""
from core cimport *

cdef extern from "pf_core.h" nogil:
    pf_status pf_plugin_register(const pf_plugin* p, const char* origin, pf_problem_fn problem,
                                 void* arg,
                                 pf_error* err) noexcept
    void pf_plugins_stop() noexcept
    int32_t pf_host_ended() noexcept
    pf_status pf_kernel_select(const pf_node* n, const pf_op_def* op, const pf_signature* sig,
                               const char* device_type, const pf_kernel_entry* after,
                               const pf_kernel_entry** out, pf_error* err) noexcept
    pf_status pf_kernel_state(const pf_kernel_entry* k, const pf_node* n, const pf_op_def* op,
                              pf_arena* arena,
                              void** state, pf_error* err) noexcept
    int32_t pf_kernel_count() noexcept
    const pf_kernel_entry* pf_kernel_at(int32_t i) noexcept
    int32_t pf_compiler_count() noexcept
    const pf_compiler_entry* pf_compiler_at(int32_t i) noexcept
    pf_device_entry* pf_device_find(const char* type, int32_t ordinal) noexcept
    int32_t pf_device_count() noexcept
    pf_device_entry* pf_device_at(int32_t i) noexcept
    int32_t pf_device_absent(int32_t i, const char** type, const char** why) noexcept
    void pf_device_problem(const char* type, int32_t ordinal, char* text, int32_t room) noexcept
    pf_device_entry* pf_device_of(const void* dev) noexcept
