# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""What a step of a plan takes at most, where that is known while it is compiled [pf_comp_cost].

    each kernel NS_A_KERNEL, what it reads and writes, and what is fetched, a nanosecond a byte, an expensive kernel NS_EXPENSIVE

For who would run a step on a thread that others wait for (core/net): only what is bounded here is, and no clock can tell that
beforehand, for the next step's loop may be a million times longer.

Invariants
1. Not known: loops, calls of functions, kernels that may block or wait (transfers wait elsewhere, and are none), those of other
   plugins and of devices, groups; and whatever reads or writes tensors whose size is not known.
2. An expensive kernel that says nothing of its flops, and one that may read of a large input but little, have the cost that
   their shapes give them: `cost_is_measured`, for a number of steps elsewhere tell it.

Threads: the compiling thread.
"""
from compile_h cimport *

cdef enum:
    NS_A_KERNEL = 1000
    NS_EXPENSIVE = 1000000
    NS_MOST = 1000000000            # more is as good as not known
    LARGE = 1 << 20                 # of such an input a kernel may read little: a few rows, say

cdef bint is_transfer(uint32_t flags) noexcept nogil:
    """A Send or Recv: begins at once what ends elsewhere."""
    return flags & <uint32_t>PF_KERNEL_ASYNC and flags & <uint32_t>PF_KERNEL_URGENT

cdef bint may_last(pf_comp* c, int32_t i) noexcept nogil:
    cdef uint32_t flags = c.kernel[i].kernel.flags
    if c.plan.nodes[i].foreign or flags & <uint32_t>(PF_KERNEL_BLOCKING | PF_KERNEL_COLLECTIVE):
        return True
    return not is_transfer(flags) and not flags & <uint32_t>PF_KERNEL_BRIEF

cdef int64_t bytes_of(pf_comp* c, int32_t node, int32_t port) noexcept nogil:
    """What a kernel has to do with one tensor; -1: any amount.  Of a resource it sees the handle."""
    if port < c.sig[node].n_out and c.sig[node].out_type[port] == PF_RESOURCE:
        return 0
    if c.cls[node] == PF_C_CONST and c.value[node] != NULL:
        return pf_tensor_of(c.value[node]).nbytes
    return pf_comp_static_bytes(c, node, port)

cdef int64_t traffic(pf_comp* c, int32_t i) noexcept nogil:
    cdef const pf_node* nd = c.g.nodes + i
    cdef int64_t bytes, total = 0
    cdef int32_t k
    for k in range(nd.n_in):
        if c.plan.nodes[i].dropped != NULL and c.plan.nodes[i].dropped[k]:
            continue
        bytes = bytes_of(c, nd.inputs[k].node, nd.inputs[k].output)
        if bytes < 0:
            return PF_COST_UNKNOWN
        if bytes > LARGE and not is_transfer(c.kernel[i].kernel.flags):
            c.plan.cost_is_measured = 1
        else:
            total += min(bytes, <int64_t>NS_MOST)
    if is_transfer(c.kernel[i].kernel.flags):
        return total
    for k in range(c.sig[i].n_out):
        bytes = bytes_of(c, i, k)
        if bytes < 0:
            return PF_COST_UNKNOWN
        total += min(bytes, <int64_t>NS_MOST)
    return total

cdef int64_t cost_of(pf_comp* c, int32_t i) noexcept nogil:
    cdef int64_t bytes
    if may_last(c, i):
        return PF_COST_UNKNOWN
    bytes = traffic(c, i)
    if bytes < 0:
        return PF_COST_UNKNOWN
    if not c.kernel[i].kernel.flags & <uint32_t>PF_KERNEL_EXPENSIVE:
        return NS_A_KERNEL + bytes
    if not c.flags[i] & PF_N_BRIEF:
        c.plan.cost_is_measured = 1
    return NS_EXPENSIVE + bytes

cdef public void pf_comp_cost(pf_comp* c) noexcept nogil:
    cdef pf_plan* p = c.plan
    cdef int64_t cost, total = 0
    cdef int32_t i
    p.cost_ns = PF_COST_UNKNOWN
    if p.library != NULL or p.n_frames > 1 or p.n_devices or p.n_groups:
        return
    for i in range(c.n):
        if c.cls[i] == PF_C_RETVAL:     # its bytes are copied for who gets them
            cost = bytes_of(c, c.g.nodes[i].inputs[0].node, c.g.nodes[i].inputs[0].output)
        elif c.cls[i] == PF_C_KERNEL and c.kernel[i] != NULL and not c.flags[i] & PF_N_PREFILLED:
            cost = cost_of(c, i)
        else:
            continue
        if cost < 0 or total > NS_MOST:
            return
        total += cost
    p.cost_ns = total
