# cython: language_level=3
"""pf_compile.h as Cython sees it."""
from exec_api cimport *
from core cimport *

cdef extern from "pf_compile.h" nogil:
    enum:
        PF_C_KERNEL, PF_C_ARG, PF_C_RETVAL, PF_C_CONST, PF_C_IDENTITY, PF_C_NOOP, PF_C_SWITCH, PF_C_MERGE
        PF_C_ENTER, PF_C_EXIT, PF_C_NEXT, PF_C_VARIABLE
    enum:
        PF_N_MAYBE_DEAD, PF_N_ASYNC, PF_N_EXPENSIVE, PF_N_URGENT, PF_N_LOOP_MERGE, PF_N_CONST_ENTER, PF_N_PREFILLED, PF_N_BRIEF
    ctypedef struct pf_comp_frame:
        pf_str name
        int32_t parent, parallel, inlined, home, async_ "async", expensive, key, waits, height
        int32_t n_nodes, n_enters, n_exits, n_vars
        int32_t* items
        int32_t n_items
        int32_t* enters
        int32_t* exits
        int32_t* merges
        int32_t* nexts
        int32_t block, same_hash
        uint32_t n_slots
    ctypedef struct pf_comp_block:
        int32_t frame, flags, n_preds, n_items, order
        int32_t* preds
        int32_t first, last
        uint64_t key
        int32_t same_key
    ctypedef struct pf_comp:
        pf_graph* g
        pf_plan* plan
        pf_plan_options opt
        pf_error* err
        pf_arena work
        int32_t n
        const pf_op_def** def_ "def"
        pf_signature* sig
        pf_call_info** infos
        const pf_kernel_entry** kernel
        void** state
        DLTensor** value
        int32_t* mem_at
        uint8_t* mem
        int32_t again
        int32_t* in_at
        uint8_t* late
        uint8_t* carries
        uint8_t* passes
        uint8_t* cls
        uint8_t* flags
        int32_t* frame
        int32_t* out_frame
        int32_t* topo
        int32_t* next_start
        int32_t* out_begin
        int32_t* out_node
        int32_t* out_port
        int32_t n_frames, frames_room
        pf_comp_frame* frames
        int32_t* frame_buckets
        int32_t* first_node
        int32_t* next_node
        int32_t* first_child
        int32_t* next_child
        int32_t* waits
        int32_t* fwaits
        int32_t* ready
        int32_t n_blocks, blocks_room
        pf_comp_block* blocks
        int32_t* block
        int32_t* chain
        int32_t* buckets
        int32_t n_buckets
        uint32_t* slot
        uint32_t* inner_slot
        uint32_t* ctl_slot
        uint32_t n_instrs, instrs_room, n_ins, ins_room
        pf_instr* instrs
        int32_t* instr_block
        uint32_t* ins
    ctypedef struct pf_group:
        pf_comp* c
        int32_t whole, n, n_in, n_out
        int32_t* nodes
        int32_t* in_begin
        pf_input* edges
        pf_input* ins
        pf_input* outs
        char* message
    pf_status pf_comp_order(pf_comp*, int32_t) noexcept
    pf_status pf_comp_blocks(pf_comp*) noexcept
    pf_status pf_comp_reads(pf_comp*) noexcept
    void pf_comp_read_source(pf_comp*, int32_t, int32_t, pf_input*) noexcept
    int32_t pf_comp_reads_ref(pf_comp*, int32_t, int32_t, const pf_input*) noexcept
    int32_t pf_comp_gives_names(pf_comp*, int32_t) noexcept
    int32_t pf_comp_is_late(pf_comp*, int32_t, int32_t) noexcept
    pf_status pf_comp_emit(pf_comp*) noexcept
    pf_status pf_comp_places(pf_comp*) noexcept
    int64_t pf_comp_bytes(pf_comp*, int32_t, int32_t) noexcept
    int32_t pf_comp_frees(pf_comp*, int32_t) noexcept
    pf_status pf_comp_group(pf_comp*) noexcept
    pf_status pf_comp_consumers(pf_comp*) noexcept
    pf_status pf_comp_fail(pf_comp*, int32_t, pf_status, const char*) noexcept
    void pf_ints_push(int32_t*, int32_t*, int32_t) noexcept
    int32_t pf_ints_pop(int32_t*, int32_t*) noexcept
