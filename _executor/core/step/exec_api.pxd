# cython: language_level=3
"""pf_exec.h as Cython sees it: plans, steps, pool, and the functions plan, exec, pool and host define for each other."""
from core cimport *
from trace_types cimport *

cdef extern from "pf_inspect.h" nogil:
    ctypedef struct pf_call
    ctypedef struct pf_instr
    ctypedef struct pf_held_input:
        pf_tensor* given
        pf_tensor* value
    ctypedef struct pf_held_inputs:
        uint32_t n
        pf_held_input ins "in"[1]
    ctypedef struct pf_inspect:
        int32_t numerics, ordered
        void* arg
        int32_t (*before)(void*, pf_call*, const pf_instr*, const pf_held_inputs*) noexcept nogil
        void (*failed)(void*, pf_call*, const pf_instr*, const pf_held_inputs*) noexcept nogil

cdef extern from "pf_core.h" nogil:
    int PF_CHECKS
    DLTensor* PF_DEAD
    bint pf_alive(const DLTensor*) noexcept
    enum:
        PF_IN_LAST, PF_IN_SHARED, PF_IN_DEREF, PF_IN_NOFWD, PF_IN_SLOT
    enum:
        PF_I_CALL, PF_I_CALL0, PF_I_IDENTITY, PF_I_CONST, PF_I_RETVAL, PF_I_SWITCH, PF_I_MERGE, PF_I_NEXT
        PF_I_EXIT, PF_I_LOOP, PF_I_FRAME, PF_I_NOOP
    enum:
        PF_F_MAYBE_DEAD, PF_F_DEREF, PF_F_UNUSED_OUT, PF_F_ASYNC, PF_F_DEAD_OK, PF_F_CTL_OUT, PF_F_LONG, PF_F_PLACED
    ctypedef struct pf_call_info
    ctypedef struct pf_node_info
    ctypedef struct pf_instr:
        pf_status (*compute)(pf_ctx*, const void*) noexcept nogil
        const void* state
        const pf_call_info* info
        const pf_node_info* about
        uint32_t in_begin, out_slot, n_in, n_out, n_ctl, aux, node
        uint8_t kind, flags
        uint16_t aux2
    ctypedef struct pf_call_info:
        const int32_t* in_type
        const int32_t* out_type
        int32_t n_in, n_out
        const int32_t* in_start
        const int32_t* out_start
        int32_t n_in_args, n_out_args
        void* opened
        void* stream
    ctypedef struct pf_node_info:
        const pf_call_info* call
        pf_str name, op, device
        const uint8_t* dropped
        const uint32_t* holds
        const pf_op_def* def_ "def"
        const pf_kernel_entry* kernel
        pf_device_entry* dev
        pf_device_entry* home
        const uint8_t* out_mem
        int32_t waits, foreign
        const pf_shape* promised
        void* state
        uint64_t seed, seed2
        pf_str container, shared_name
        int32_t frame, origin, any_shape
    enum:
        PF_B_EXPENSIVE, PF_B_ASYNC, PF_B_URGENT, PF_B_EVENT
    ctypedef struct pf_block:
        uint32_t begin, end
        int32_t pending
        uint32_t succ_begin, succ_end, order, flags, next_start
    ctypedef struct pf_loop_var:
        uint32_t enter_slot, merge_slot, next_slot, index_slot
        int32_t event, take
    ctypedef struct pf_slot_pair:
        uint32_t outer, inner
    ctypedef struct pf_frame_def:
        int32_t parent, inlined, parallel, n_vars, n_consts, n_exits
        pf_str name
        pf_loop_var* vars
        pf_slot_pair* consts
        uint32_t* exits
        uint32_t body_begin, body_end, block_begin, n_blocks, n_slots, n_uses
        uint32_t* roots
        uint32_t n_roots, slot_base
        uint32_t* use_counts
    uint32_t PF_SLOT_UNUSED, PF_SLOT_LENT
    ctypedef struct pf_const_slot:
        uint32_t slot
        DLTensor* tensor
    ctypedef struct pf_place:
        int64_t offset, bytes
        int32_t how, input
        int32_t buffer, first, last
    ctypedef struct pf_extent
    ctypedef struct pf_plan:
        pf_a32 refs, lock
        pf_graph* graph
        pf_arena arena
        pf_state* state
        pf_pool* pool
        uint32_t n_nodes, n_instrs, n_blocks, n_frames, n_ins, n_consts, n_args, n_rets, max_in, n_const_tensors
        pf_node_info* nodes
        pf_instr* instrs
        pf_block* blocks
        pf_frame_def* frames
        uint32_t* ins
        uint32_t* succs
        uint32_t* slot_use
        pf_const_slot* consts
        pf_tensor** const_tensors
        uint32_t* arg_slot
        int32_t* arg_type
        pf_shape* arg_shape
        pf_str* arg_name
        int32_t* ret_type
        pf_place* places
        int64_t planned_bytes, planned_sum, planned_least
        int32_t n_groups, n_grouped
        pf_step* free_steps
        pf_a64 steps_run, kernels_run
        int32_t solo, has_async, n_frames_in_slabs, n_devices, watched, late_rets
        pf_device_entry** devices
    ctypedef struct pf_plan_options:
        int32_t threads, no_inline, no_blocks, groups, ordered
    ctypedef struct pf_named_tensor:
        pf_str name
        pf_tensor* tensor
    pf_status pf_plan_compile(pf_graph*, const pf_named_tensor*, int32_t, pf_state*, pf_pool*,
                              const pf_plan_options*, pf_plan**, pf_error*) noexcept
    void pf_plan_ref(pf_plan*) noexcept
    void pf_plan_unref(pf_plan*) noexcept

    enum:
        PF_BLOCK_RUNNING, PF_BLOCK_DONE
    ctypedef struct pf_item:
        pf_a32 pending
        uint32_t block, order, ready
        pf_slab* slab
        pf_item* next
        pf_call* call
    ctypedef struct pf_slab:
        pf_step* step
        const pf_frame_def* def_ "def"
        pf_frame* frame
        int64_t iter, path
        pf_a32 blocks_left
        int32_t status
        pf_item* items
        DLTensor** slots
        pf_a32* uses
        DLTensor** next
        uint8_t* arrived
    ctypedef struct pf_frame:
        pf_step* step
        const pf_frame_def* def_ "def"
        pf_slab* parent
        pf_item* item
        pthread_mutex_t lock
        int64_t oldest, newest, t_start
        int32_t n_ring
        pf_slab* ring
        pf_frame* next_free
        pf_frame* next_all
    ctypedef struct pf_step:
        pf_plan* plan
        pf_pool* pool
        pf_trace* trace
        pf_inspect* inspect
        int64_t id
        pf_slab root
        DLTensor** rets
        pf_extent* extent
        pf_a32 cancelled, done
        pf_a32 shared
        pf_a32 caller_waits
        pthread_mutex_t lock
        pthread_cond_t cond
        pf_error error
        pf_call* deferred
        pf_call* told_up_to
        pf_post* posts
        pf_a32 n_posts
        pf_resource** owned
        int32_t n_owned, owned_room
        pf_frame** free_frames
        pf_frame* all_frames
        pf_rendezvous* rendezvous
        pf_a64 kernels
        int64_t deadline_ns, next_poll_ns, give_up_ns
        pf_a32 untold
        uint32_t trace_step
        int32_t (*poll)(void*) noexcept nogil
        void* poll_arg
        pthread_t caller
        int64_t began_ns
        int32_t pins
        pf_step* next_running
        pf_step* prev_running
        int32_t drained
        pf_step* next_free
        pf_step* leader
        pf_step* peer
        pf_step* home
        pf_started* started
        pf_a32 parts_left, jobs, jobs_made
    ctypedef struct pf_lent:
        int32_t kind
        void* p
    ctypedef struct pf_call:
        pf_ctx ctx
        pf_step* step
        pf_slab* slab
        pf_plan* plan
        const pf_instr* instr
        const pf_node_info* node
        const pf_call_info* info
        pf_item* item
        pf_worker* worker
        DLTensor** ins "in"
        int32_t dirty, n_lent, lent_room, listens
        pf_lent* lent
        pf_lent lent_inline[6]
        char* message
        int32_t code
        int64_t iter
        const pf_frame_def* loop
        pf_call* moved
        int32_t deferred, dead_out
        pf_a32 refs
        pf_status status
        uint64_t ticket
        void (*cancel_fn)(void*) noexcept nogil
        void* cancel_arg
        pf_call* next_cancel
        pf_call* prev_cancel
        const DLTensor** constants
        uint8_t* dropped
        int64_t t_ready, t_start, t_done, turn
        pf_trace_mark* mark
        int32_t recorded
        pf_held_inputs* held
        int32_t awaited
    enum:
        PF_JOB_BLOCK
    ctypedef struct pf_job:
        pf_item item
        pf_device_entry* dev
        pf_device_entry* peer
        void* events[2]
        pf_tensor* keep[2]
        pf_status status
        int32_t i
        pf_call* call
        uint64_t ticket
        void (*then)(pf_job*, pf_status) noexcept nogil
        pf_status (*fn)(pf_ctx*, void*) noexcept nogil
        void* arg
    ctypedef struct pf_run_options:
        int64_t timeout_ns
        int32_t (*poll)(void*) noexcept nogil
        void* poll_arg
        pf_rendezvous* rendezvous
        pf_step** running
        pthread_mutex_t* running_lock
        int64_t* kernels
        pf_trace* trace
        pf_inspect* inspect
    pf_status pf_step_run(pf_plan*, pf_tensor**, pf_tensor**, const pf_run_options*, pf_error*) noexcept
    pf_status pf_parts_run(pf_plan**, int32_t, pf_tensor**, pf_tensor**, const pf_run_options*, pf_error*) noexcept
    ctypedef void (*pf_started_fn)(void*, pf_status, const pf_error*, pf_tensor**) noexcept nogil
    ctypedef struct pf_started:
        pf_a32 refs, asked
        pf_step* step
        pf_started_fn done
        void* arg
        pf_status why
        const char* message
        pf_started* next
    ctypedef struct pf_start_options:
        int64_t timeout_ns
        pf_rendezvous* rendezvous
        pf_trace* trace
        pf_step* within
    pf_status pf_step_start(pf_plan**, int32_t, pf_tensor**, const pf_start_options*, pf_started_fn, void*, pf_started**,
                            pf_error*) noexcept
    void pf_started_cancel(pf_started*, pf_status, const char*) noexcept
    void pf_started_unref(pf_started*) noexcept
    void pf_started_over(pf_step*) noexcept
    void pf_keeper_look() noexcept
    void pf_keeper_stop() noexcept
    pf_step* pf_parts_link(pf_plan**, int32_t, pf_tensor**) noexcept
    int32_t pf_parts_share_rendezvous(pf_step*) noexcept
    void pf_parts_read_late(pf_step*) noexcept
    void pf_parts_part(pf_step*, pf_status, pf_tensor**) noexcept
    void pf_step_begin_root(pf_step*, pf_worker*) noexcept
    pf_step* pf_step_take(pf_plan*, pf_tensor**) noexcept
    void pf_step_work(pf_step*, pf_worker*) noexcept
    void pf_step_read_late(pf_step*) noexcept
    void pf_step_finish(pf_step*, pf_status, pf_tensor**) noexcept
    void pf_step_cancel(pf_step*, pf_status, const char*) noexcept
    void pf_step_fail(pf_step*, const pf_node_info*, pf_status, const char*) noexcept
    void pf_call_init(pf_call*, pf_step*, pf_worker*) noexcept
    void pf_call_cleanup(pf_call*) noexcept
    int64_t PF_GRACE_NS
    void pf_abandon_calls(pf_step*) noexcept
    pf_status pf_call_lend(pf_call*, int32_t, void*) noexcept
    pf_call* pf_ticket_new(pf_call*, uint64_t*) noexcept
    bint pf_runs_slowly(const pf_node_info*) noexcept
    pf_status pf_compute_slowly(pf_ctx*, const void*) noexcept
    int32_t pf_checked_build() noexcept
    bint pf_red_zone_ok(const pf_tensor*) noexcept
    pf_call* pf_ticket_take(uint64_t) noexcept
    pf_call* pf_ticket_take_idle(uint64_t) noexcept
    pf_call* pf_ticket_hold(uint64_t) noexcept
    void pf_ticket_drop(pf_call*) noexcept
    pf_call* pf_ticket_peek(uint64_t) noexcept
    void pf_between_ticket_and_use(void (*)(uint64_t) noexcept nogil) noexcept
    pf_rendezvous* pf_running_rendezvous(int64_t, pf_status*) noexcept
    int64_t pf_last_step() noexcept
    int32_t pf_call_looks(pf_call*) noexcept
    void pf_call_late(pf_call*) noexcept
    ctypedef struct pf_blame:
        const char* what
        const char* plugin
        pf_str node, op
        pf_blame* outer
    int32_t pf_is_own(const char*) noexcept
    void pf_blame_watch() noexcept
    void pf_blame_enter(pf_blame*, const char*, const char*, pf_str, pf_str) noexcept
    void pf_blame_leave(pf_blame*) noexcept
    pf_blame* pf_blame_swap(pf_blame*) noexcept
    pf_blame* pf_blame_now() noexcept
    pf_status pf_foreign_run(pf_call*) noexcept
    pf_status pf_foreign_compute(pf_ctx*, const void*) noexcept
    const pf_shape* pf_promised(const pf_node*, int32_t) noexcept
    pf_status pf_compare_outputs(pf_call*) noexcept
    void pf_call_done(pf_call*, pf_status) noexcept
    void pf_step_own(pf_step*, pf_resource*) noexcept
    pf_rendezvous* pf_step_rendezvous(pf_step*) noexcept
    const pf_host* pf_host_table() noexcept
    void pf_step_extent(pf_step*) noexcept
    void pf_step_extent_over(pf_step*) noexcept
    pf_tensor* pf_step_output(pf_call*, int32_t, const int64_t*, int32_t) noexcept
    void* pf_step_scratch(pf_call*, uint64_t, int64_t*) noexcept
    void pf_step_scratch_over(pf_call*, void*, int64_t) noexcept
    const pf_plugin* pf_core_plugin() noexcept

    enum:
        PF_RUN_OK, PF_RUN_STOP, PF_RUN_PENDING
    int32_t pf_run_range(pf_call*, uint32_t, uint32_t) noexcept
    int32_t pf_run_block(pf_worker*, pf_item*) noexcept
    int32_t pf_run_loop(pf_call*, const pf_instr*) noexcept
    int32_t pf_start_frame(pf_call*, const pf_instr*) noexcept
    void pf_frame_next(pf_worker*, pf_slab*, uint32_t, DLTensor*) noexcept
    void pf_frame_slab_over(pf_worker*, pf_slab*) noexcept
    void pf_block_done(pf_worker*, pf_slab*, uint32_t) noexcept
    int32_t pf_block_count_down(pf_worker*, pf_slab*, uint32_t) noexcept
    void pf_make_ready(pf_worker*, pf_item*) noexcept
    void pf_share_ready(pf_worker*) noexcept
    void pf_release_inputs(pf_slab*, const pf_instr*) noexcept
    DLTensor* pf_take_input(pf_slab*, uint32_t) noexcept
    pf_status pf_slab_allocate(pf_slab*, pf_plan*, const pf_frame_def*) noexcept
    void pf_slab_reset(pf_slab*) noexcept
    void pf_slab_sweep(pf_slab*, pf_plan*) noexcept
    void pf_slab_release(pf_slab*) noexcept
    void pf_frame_free(pf_frame*) noexcept
    int32_t pf_step_poll(pf_step*) noexcept
    pf_status pf_call_fail(pf_call*, pf_status) noexcept
    int32_t pf_async_returned(pf_call*, pf_status) noexcept
    void pf_call_forget(pf_call*) noexcept
    int32_t pf_call_finish(pf_worker*, pf_call*) noexcept
    pf_status pf_same_memory(pf_call*, pf_variable*, pf_tensor**) noexcept
    pf_tensor* pf_value_of(pf_tensor*) noexcept
    pf_status pf_deref(pf_call*, DLTensor*, pf_tensor**) noexcept
    void pf_step_free(pf_step*) noexcept

    ctypedef struct pf_heap:
        pf_item** items
        int32_t n, room
    ctypedef struct pf_lane:
        pf_a32 lock, n
        pf_heap heap
    ctypedef struct pf_post:
        pf_post* next
        void (*fn)(void*) noexcept nogil
        void* arg
    ctypedef void (*pf_range_fn)(void*, int64_t, int64_t, int32_t) noexcept nogil
    ctypedef struct pf_loop:
        pf_range_fn fn
        void* arg
        int64_t n, chunk
        pf_a64 next
        pf_a32 inside, joined
        int32_t whole, polls
        pf_step* step
        pf_blame* blame
        pf_loop* next_loop
    ctypedef struct pf_worker:
        pf_pool* pool
        pf_lane* lane
        pf_step* step
        pf_heap ready
        int32_t id
        int64_t kernels
        pf_worker* outer
        uint64_t schedule
        pthread_t thread
    ctypedef struct pf_pool:
        pf_a32 refs
        int32_t n, fork_gen
        pf_a32 started
        pthread_mutex_t lock
        pthread_cond_t cond
        pf_lane* lanes
        pf_a32* lane_taken
        pf_worker* workers
        int32_t steward
        pf_item* inject
        pf_a32 n_inject
        pf_loop* loops
        pf_a32 n_loops
        pf_post* posts
        pf_post* posts_tail
        pf_post* slow
        pf_post* slow_tail
        pthread_cond_t slow_cond
        int32_t slow_threads, slow_idle, slow_queued
        pf_a32 n_posts, idle, lanes_used, waiting_callers, stop
        int64_t spin_ns
        int32_t seeded
        uint64_t seed
        pf_a64 seeded_steps
    enum:
        PF_MAX_LANES
    pf_pool* pf_pool_new(int32_t) noexcept
    void pf_pool_ref(pf_pool*) noexcept
    void pf_pool_unref(pf_pool*) noexcept
    void pf_pool_begin(pf_pool*, pf_worker*, pf_step*) noexcept
    void pf_pool_end(pf_worker*) noexcept
    void pf_pool_open(pf_pool*, int32_t) noexcept
    pf_worker* pf_pool_here() noexcept
    void pf_pool_publish(pf_worker*, pf_item*) noexcept
    void pf_pool_inject(pf_pool*, pf_item*) noexcept
    void pf_pool_wake_caller(pf_step*) noexcept
    pf_item* pf_pool_take_job(pf_pool*) noexcept
    pf_item* pf_schedule_next(pf_worker*) noexcept
    pf_item* pf_pool_find(pf_worker*) noexcept
    void pf_pool_wait(pf_worker*, int64_t) noexcept
    void pf_pool_step_over(pf_step*) noexcept
    enum:
        PF_FOR_POLLS, PF_FOR_WHOLE, PF_FOR_UNLOCKED, PF_FOR_BLAMED
    int32_t pf_for_how(const pf_call*) noexcept
    pf_status pf_pool_for(pf_pool*, pf_step*, int32_t, int64_t, int64_t, pf_range_fn, void*) noexcept
    pf_status pf_pool_post(pf_pool*, int32_t, void (*)(void*) noexcept nogil, void*) noexcept
    void pf_pool_post_caller(pf_step*, pf_post*) noexcept
    pf_pool* pf_default_pool() noexcept
    void pf_run_item(pf_worker*, pf_item*) noexcept
    void pf_cond_init(pthread_cond_t*) noexcept
    void pf_cond_wait_until(pthread_cond_t*, pthread_mutex_t*, int64_t) noexcept
    DLTensor* pf_slot_peek(DLTensor**) noexcept
    void pf_slot_clear(DLTensor**) noexcept
    void pf_share(pf_step*) noexcept
    int64_t pf_now_ns() noexcept
    int64_t pf_coarse_ns() noexcept
    bint pf_heap_push(pf_heap*, pf_item*) noexcept
    pf_item* pf_heap_take(pf_heap*, int32_t) noexcept
