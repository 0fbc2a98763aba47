# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Kernels, constants and variable handles of a plan's nodes, and what element types a node takes variables for.

A constant's tensor may be a caller's memory while its plan is compiled.  Once all kernels of its readers are initialised it is let
go, if each of them dropped it, which is as soon as the last did; else, where it is borrowed or not aligned, the plan gets a copy:

    LENT -> GONE [note_dropped] | OWN [own_constant]      a plugin's kernel that is not ours sees OWN ones only
"""
from compile_h cimport *

# ---------------------------------------------------------------- what variables may hold
# What a node may find in the variables behind its inputs.
#
# A kernel takes a variable's buffer for elements of the type its node declares, and a GraphDef can declare anything; so each
# input of a node that is a reference or a resource gets a set of element types (bit 1 << type), and host_state.pyx lends a
# kernel only variables of these.  The first that says something:
#
# 1. a reference: the type of the reference;
# 2. the kernel's pf_arg: PF_ARG_ANY_TYPE, or a type in its flags;
# 3. the op's attribute `dtype`, or else `T`: what TensorFlow's ops on variables call the type of what the handle leads to;
# 4. where it has other inputs than handles: their element types and those of its outputs, any of them;
# 5. nothing, any type: VariableShape, and kernels that look at the dtype of what they get.
cdef uint32_t any_type() noexcept nogil:
    return <uint32_t>0xffffffff

cdef uint32_t just(int32_t type) noexcept nogil:
    return <uint32_t>1 << (type - 100 if type > 100 else type)

cdef uint32_t said_by_kernel(const pf_kernel* k, pf_str arg) noexcept nogil:
    """0: nothing."""
    cdef const pf_arg** a = <const pf_arg**>k.args
    cdef uint32_t type
    while a != NULL and a[0] != NULL:
        if pf_str_is(arg, a[0].name):
            type = a[0].flags >> PF_ARG_TYPE_SHIFT & 31
            if a[0].flags & <uint32_t>PF_ARG_ANY_TYPE:
                return any_type()
            return just(<int32_t>type) if type else 0
        a += 1
    return 0

cdef uint32_t said_by_attr(pf_comp* c, int32_t i, const pf_arg_def* arg, const char* name) noexcept nogil:
    """0: the op has no such attribute, or it is the type of the handle itself, as Identity's T."""
    cdef const pf_op_def* op = c.def_[i]
    cdef const pf_attr_value* v
    cdef int32_t k
    for k in range(op.n_attrs):
        if pf_str_is(op.attrs[k].name, name) and op.attrs[k].kind == PF_ATTR_TYPE and k != arg.type_attr:
            v = pf_attr_or_default(c.g.nodes + i, op, name)
            return just(v.type) if v != NULL else 0
    return 0

cdef uint32_t said_by_others(const pf_signature* s) noexcept nogil:
    cdef uint32_t types = 0
    cdef int32_t k
    for k in range(s.n_in):
        types |= just(s.in_type[k])
    if not types & ~(just(PF_RESOURCE) | just(PF_VARIANT)):
        return any_type()
    for k in range(s.n_out):
        types |= just(s.out_type[k])
    return types & ~(just(PF_RESOURCE) | just(PF_VARIANT))

cdef uint32_t held_behind(pf_comp* c, int32_t i, const pf_arg_def* arg, int32_t k) noexcept nogil:
    cdef const pf_signature* s = c.sig + i
    cdef uint32_t types
    if s.in_ref[k] or s.in_type[k] != PF_RESOURCE:
        return just(s.in_type[k])
    types = said_by_kernel(c.kernel[i].kernel, arg.name)
    if not types:
        types = said_by_attr(c, i, arg, b"dtype")
    if not types:
        types = said_by_attr(c, i, arg, b"T")
    return types if types else said_by_others(s)

cdef pf_status declare_holds(pf_comp* c, int32_t i) noexcept nogil:
    """Sets the node's `holds`, once its kernel is chosen."""
    cdef const pf_signature* s = c.sig + i
    cdef uint32_t* holds
    cdef int32_t a, k, n = 0
    for k in range(s.n_in):
        n += 1 if s.in_ref[k] or s.in_type[k] == PF_RESOURCE else 0
    if n == 0:
        return PF_OK
    holds = <uint32_t*>pf_comp_keep(c, s.n_in, sizeof(uint32_t))
    if holds == NULL:
        return c.err.code
    for a in range(s.n_in_args):
        for k in range(s.in_start[a], s.in_start[a + 1]):
            holds[k] = held_behind(c, i, c.def_[i].ins + a, k)
    c.plan.nodes[i].holds = holds
    return PF_OK

# ---------------------------------------------------------------- kernels
cdef public void pf_device_of_name(pf_str device, char* kind, int32_t* ordinal) noexcept nogil:
    """'/job:x/device:GPU:1' -> GPU, 1; '' -> CPU, 0.  kind has room for 24."""
    cdef int64_t i = device.len - 1, end = device.len
    cdef int32_t number = 0, k
    strcpy_(kind, b"CPU")
    ordinal[0] = 0
    while i >= 0 and device.data[i] != c':' and device.data[i] != c'/':
        i -= 1
    if i < 0 or device.data[i] != c':' or end - i > 8:
        return
    for k in range(<int32_t>(i + 1), <int32_t>end):
        if device.data[k] < c'0' or device.data[k] > c'9':
            return
        number = number * 10 + (device.data[k] - c'0')
    end = i
    i -= 1
    while i >= 0 and device.data[i] != c':' and device.data[i] != c'/':
        i -= 1
    if i < 0 or end - i - 1 <= 0 or end - i - 1 > 23:
        return
    pf_copy_text(kind, 24, device.data + i + 1, end - i - 1)
    if strcmp(kind, b"cpu") == 0:
        strcpy_(kind, b"CPU")
    elif strcmp(kind, b"gpu") == 0:
        strcpy_(kind, b"GPU")
    ordinal[0] = number

cdef void strcpy_(char* to, const char* text) noexcept nogil:
    pf_copy_text(to, 24, text, <int64_t>strlen(text))

cdef pf_status share_call_info(pf_comp* c, int32_t i, pf_node_info* info, const pf_device_entry* d) noexcept nogil:
    """Nodes with equal argument types share one pf_call_info: it stays in the cache."""
    cdef pf_signature* s = c.sig + i
    cdef pf_call_info want
    cdef pf_call_info* have
    cdef uint64_t h = 1469598103934665603ULL
    cdef int32_t k
    cdef uint32_t at
    want.in_type = s.in_type
    want.out_type = s.out_type
    want.n_in = s.n_in
    want.n_out = s.n_out
    want.in_start = s.in_start
    want.out_start = s.out_start
    want.n_in_args = s.n_in_args
    want.n_out_args = s.n_out_args
    want.opened = d.dev if d != NULL else NULL
    want.stream = d.stream if d != NULL else NULL
    for k in range(s.n_in):
        h = (h ^ <uint64_t>s.in_type[k]) * <uint64_t>1099511628211ULL
    for k in range(s.n_out):
        h = (h ^ <uint64_t>(s.out_type[k] + 64)) * <uint64_t>1099511628211ULL
    at = <uint32_t>((h ^ (h >> 29)) & <uint64_t>(PF_INFO_BUCKETS - 1))
    have = c.infos[at]
    if have == NULL or not same_info(have, &want):
        have = <pf_call_info*>pf_comp_keep(c, 1, sizeof(pf_call_info))
        if have == NULL:
            return c.err.code
        have[0] = want
        c.infos[at] = have
    info.call = have
    return PF_OK

cdef bint same_ints(const int32_t* a, const int32_t* b, int32_t n) noexcept nogil:
    return n <= 0 or a == b or memcmp(a, b, sizeof(int32_t) * n) == 0

cdef bint same_info(const pf_call_info* a, const pf_call_info* b) noexcept nogil:
    if (a.n_in != b.n_in or a.n_out != b.n_out or a.n_in_args != b.n_in_args or a.n_out_args != b.n_out_args
            or a.opened != b.opened):
        return False
    return (same_ints(a.in_type, b.in_type, a.n_in) and same_ints(a.out_type, b.out_type, a.n_out)
            and same_ints(a.in_start, b.in_start, a.n_in_args + 1)
            and same_ints(a.out_start, b.out_start, a.n_out_args + 1))

cdef void fill_info(pf_comp* c, int32_t i, pf_node_info* info) noexcept nogil:
    cdef const pf_attr_value* a
    share_call_info(c, i, info, NULL)
    info.name = c.g.nodes[i].name
    info.op = c.g.nodes[i].op
    info.device = c.g.nodes[i].device
    info.def_ = c.def_[i]
    info.frame = c.frame[i]
    info.origin = i
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"seed")
    info.seed = <uint64_t>a.i if a != NULL else 0
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"seed2")
    info.seed2 = <uint64_t>a.i if a != NULL else 0
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"validate_shape")
    info.any_shape = a != NULL and not a.i
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"container")
    if a != NULL:
        info.container = a.s
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"shared_name")
    if a != NULL:
        info.shared_name = a.s
    a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"use_node_name_sharing")
    info.name_shared = a != NULL and a.i != 0

cdef pf_status init_kernel(pf_comp* c, int32_t i, const pf_kernel_entry* k, pf_node_info* info) noexcept nogil:
    """Calls the kernel's init with the constants it may see."""
    cdef pf_status st
    cdef char said[4096]
    cdef char text[4400]
    cdef char by[160]
    cdef int32_t j
    cdef const DLTensor** constants = <const DLTensor**>pf_comp_grab(c, info.call.n_in, sizeof(void*))
    cdef uint8_t* dropped = <uint8_t*>pf_comp_keep(c, info.call.n_in, 1)
    cdef pf_digest** digests = <pf_digest**>pf_comp_grab(c, info.call.n_in, sizeof(void*))
    if constants == NULL or dropped == NULL or digests == NULL:
        return c.err.code
    for j in range(info.call.n_in):
        digests[j] = c.digest + c.g.nodes[i].inputs[j].node
        if c.cls[c.g.nodes[i].inputs[j].node] == PF_C_CONST:
            if k.foreign and own_constant(c, c.g.nodes[i].inputs[j].node):
                return c.err.code
            constants[j] = c.value[c.g.nodes[i].inputs[j].node]
    info.kernel = k
    st = pf_kernel_init(c.plan, info, constants, dropped, digests, said, sizeof(said))
    if st == PF_OK:
        info.dropped = dropped
        for j in range(info.call.n_in):
            if dropped[j]:
                note_dropped(c, c.g.nodes[i].inputs[j].node)
        return PF_OK
    info.kernel = NULL              # the plan's end calls fini of those that were initialised
    if st == PF_DECLINE:
        return st
    by[0] = 0
    if k.foreign:
        snprintf(by, sizeof(by), b" (kernel of plugin '%.120s')", k.plugin_id)
    if said[0]:
        snprintf(text, sizeof(text), b"%.4000s%s", said, by)
    else:
        snprintf(text, sizeof(text), b"the kernel's init failed with status %d and without a message%s", st, by)
    return pf_comp_fail(c, i, st if st > 0 else PF_INTERNAL, text)

cdef const pf_shape* promised(const pf_node* nd, int32_t n_out) noexcept nogil:
    """The static shapes of a node's outputs; NULL: nothing is known of any."""
    cdef const pf_attr_value* a = pf_node_attr_find(nd, b"_output_shapes")
    cdef const pf_shape* shapes
    cdef int64_t k
    if a == NULL or a.kind != PF_ATTR_SHAPE | PF_ATTR_LIST or a.list.n != n_out:
        return NULL
    shapes = <const pf_shape*>a.list.items
    for k in range(n_out):
        if shapes[k].ndim >= 0:
            return shapes
    return NULL

cdef pf_status choose_kernel(pf_comp* c, int32_t i) noexcept nogil:
    cdef char kind[24]
    cdef char text[400]
    cdef int32_t ordinal
    cdef const pf_kernel_entry* k = NULL
    cdef pf_node_info* info = c.plan.nodes + i
    cdef pf_status st
    cdef double flops = UNKNOWN_FLOPS
    pf_device_of_name(c.g.nodes[i].device, kind, &ordinal)
    info.dev = pf_device_find(kind, ordinal)
    if info.dev == NULL:
        pf_device_problem(kind, ordinal, text, sizeof(text))
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, text)
    if info.dev.dev != NULL:
        info.home = info.dev if info.dev.own_memory else NULL
        if share_call_info(c, i, info, info.dev) or pf_comp_note_device(c, info.dev):
            return c.err.code
    while True:
        if pf_kernel_select(c.g.nodes + i, c.def_[i], c.sig + i, kind, k, &k, c.err) or k == NULL:
            return pf_comp_fail(c, i, c.err.code if c.err.code else PF_NOT_FOUND, b"no kernel")
        if pf_kernel_state(k, c.g.nodes + i, c.def_[i], &c.plan.arena, &info.state, c.err):
            return pf_comp_fail(c, i, c.err.code, NULL)
        st = init_kernel(c, i, k, info) if k.kernel.init != NULL else PF_OK
        if st == PF_OK:
            break
        if st != PF_DECLINE:
            return st
    info.kernel = k
    info.foreign = k.foreign
    info.promised = promised(c.g.nodes + i, info.call.n_out) if k.foreign else NULL
    c.kernel[i] = k
    if declare_holds(c, i):
        return c.err.code
    if k.kernel.flags & <uint32_t>(PF_KERNEL_ASYNC | PF_KERNEL_COLLECTIVE) or pf_runs_slowly(info):
        c.flags[i] |= PF_N_ASYNC
        c.plan.has_async = 1
    if k.kernel.flags & <uint32_t>PF_KERNEL_URGENT:
        c.flags[i] |= PF_N_URGENT
    if k.kernel.flags & <uint32_t>PF_KERNEL_EXPENSIVE:
        flops = known_flops(c, i)
    if flops <= BRIEF_FLOPS:
        c.flags[i] |= PF_N_BRIEF
    if (k.kernel.flags & <uint32_t>(PF_KERNEL_EXPENSIVE | PF_KERNEL_BLOCKING) and flops > CHEAP_FLOPS
            and not c.plan.solo and not pf_runs_slowly(info)):
        c.flags[i] |= PF_N_EXPENSIVE
    return PF_OK

cdef enum:
    CHEAP_FLOPS = 60000         # less than it takes to give work to another thread
    BRIEF_FLOPS = 1000000       # some microseconds: over before anybody could wait for it
    UNKNOWN_FLOPS = 0x7fffffff  # too many

cdef double known_flops(pf_comp* c, int32_t i) noexcept nogil:
    """What the kernel's cost function says for the shapes known while planning."""
    cdef pf_node* nd = c.g.nodes + i
    cdef pf_infer_call call
    cdef pf_error ignored
    cdef const pf_attr_value* shapes
    cdef pf_shape* in_shapes
    cdef double flops = 0, traffic = 0
    cdef pf_blame blame
    cdef pf_status st
    cdef int32_t k
    if c.plan.nodes[i].kernel == NULL or c.plan.nodes[i].kernel.kernel.cost == NULL:
        return UNKNOWN_FLOPS
    in_shapes = <pf_shape*>pf_comp_grab(c, nd.n_in, sizeof(pf_shape))
    if in_shapes == NULL:
        return UNKNOWN_FLOPS
    for k in range(nd.n_in):
        in_shapes[k].ndim = -1
        shapes = pf_node_attr_find(c.g.nodes + nd.inputs[k].node, b"_output_shapes")
        if shapes != NULL and shapes.kind == PF_ATTR_SHAPE | PF_ATTR_LIST and nd.inputs[k].output < shapes.list.n:
            in_shapes[k] = (<const pf_shape*>shapes.list.items)[nd.inputs[k].output]
    ignored.code = 0
    pf_infer_start(&call)
    call.node = nd
    call.def_ = c.def_[i]
    call.sig = c.sig + i
    call.in_shapes = in_shapes
    call.arena = &c.work
    call.err = &ignored
    pf_blame_enter(&blame, b"the cost function of a kernel", c.kernel[i].plugin_id, nd.name, nd.op)
    st = c.kernel[i].kernel.cost(<pf_infer*>&call, &flops, &traffic)
    pf_blame_leave(&blame)
    if st:
        return UNKNOWN_FLOPS
    return flops if flops > 0 else UNKNOWN_FLOPS

cdef pf_status make_variable(pf_comp* c, int32_t i) noexcept nogil:
    cdef pf_node_info* info = c.plan.nodes + i
    cdef const pf_attr_value* t = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"dtype")
    cdef const pf_attr_value* s = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"shape")
    cdef pf_shape anything
    cdef pf_variable* v = NULL
    cdef pf_tensor* h
    cdef pf_str name = info.shared_name
    memset(&anything, 0, sizeof(anything))
    anything.ndim = -1
    if t == NULL:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"a variable without dtype")
    if name.len == 0:
        name = info.name
    if s != NULL:
        anything = s.shape
    if c.def_[i].traits & PF_TRAIT_SCALAR_IS_UNKNOWN and anything.ndim == 0:
        anything.ndim = -1
    if pf_state_variable(c.plan.state, info.container, name, t.type, anything, &v, c.err):
        return pf_comp_fail(c, i, c.err.code, NULL)
    v.planned = 1
    h = pf_tensor_handle(<pf_object*>v)
    if h == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory")
    return pf_comp_own_value(c, i, h)

cdef public pf_status pf_comp_own_value(pf_comp* c, int32_t i, pf_tensor* take) noexcept nogil:
    c.held_at[i] = <int32_t>c.plan.n_const_tensors
    c.plan.const_tensors[c.plan.n_const_tensors] = take
    c.plan.n_const_tensors += 1
    c.value[i] = pf_dl(take)
    return PF_OK

cdef pf_status own_constant(pf_comp* c, int32_t i) noexcept nogil:
    """LENT -> OWN: kernels find it aligned, for as long as the plan lives."""
    cdef pf_tensor* t = pf_tensor_of(c.value[i])
    cdef pf_tensor* own
    if not t.flags & PF_T_BORROWED and not <uintptr_t>t.m.dl_tensor.data & 63:
        return PF_OK
    own = pf_tensor_copy(t)
    if own == NULL:
        return pf_error_set(c.err, PF_RESOURCE_EXHAUSTED, b"out of memory for a constant")
    c.plan.const_tensors[c.held_at[i]] = own
    c.value[i] = pf_dl(own)
    pf_tensor_unref(t)
    return PF_OK

cdef void note_dropped(pf_comp* c, int32_t i) noexcept nogil:
    """LENT -> GONE once nobody else reads it.  Where nodes may still move to a device, or into a group, it stays."""
    c.kept_by[i] -= 1
    if c.kept_by[i] or not c.settled or not c.flags[i] & PF_N_PREFILLED:
        return
    pf_tensor_unref(c.plan.const_tensors[c.held_at[i]])
    c.plan.const_tensors[c.held_at[i]] = NULL
    c.value[i] = NULL

cdef void count_readers(pf_comp* c) noexcept nogil:
    cdef int32_t i, k
    for i in range(c.n):
        for k in range(c.out_begin[i], c.out_begin[i + 1]):
            c.kept_by[i] += c.out_port[k] >= 0

cdef bint is_settled() noexcept nogil:
    """The nodes stay as they are: no device has memory of its own, and nobody compiles groups."""
    cdef int32_t k
    for k in range(pf_device_count()):
        if pf_device_at(k).vtable != NULL:
            return False
    return pf_compiler_count() == 0

cdef pf_status make_constant(pf_comp* c, int32_t i, const pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef const pf_attr_value* a = pf_attr_or_default(c.g.nodes + i, c.def_[i], b"value")
    cdef int32_t k
    cdef pf_tensor* t = NULL
    if a != NULL and a.tensor != NULL:
        t = a.tensor
    cdef pf_str name = c.g.nodes[i].name
    cdef const pf_attr_value* other = pf_node_attr_find(c.g.nodes + i, b"_const_of")
    if other != NULL and other.kind == PF_ATTR_STRING:
        name = other.s
    for k in range(n_consts):
        if pf_str_eq(consts[k].name, name):
            t = consts[k].tensor
            break
    if t == NULL:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"a Const without a value")
    if t.type != c.sig[i].out_type[0]:
        return pf_comp_fail(c, i, PF_INVALID_ARGUMENT, b"the constant's value is not of the type its dtype says")
    pf_tensor_ref(t)
    return pf_comp_own_value(c, i, t)

cdef public pf_status pf_comp_values(pf_comp* c, pf_named_tensor* consts, int32_t n_consts) noexcept nogil:
    cdef int32_t i
    c.settled = is_settled()
    count_readers(c)
    for i in range(c.n):
        fill_info(c, i, c.plan.nodes + i)
        if c.cls[i] == PF_C_CONST:
            if make_constant(c, i, consts, n_consts):
                return c.err.code
            if c.g.nodes[i].n_ctl == 0:
                c.flags[i] |= PF_N_PREFILLED
        elif c.cls[i] == PF_C_VARIABLE:
            if make_variable(c, i):
                return c.err.code
            c.flags[i] |= PF_N_PREFILLED
        elif c.cls[i] == PF_C_ARG:
            c.flags[i] |= PF_N_PREFILLED
    if c.settled:                       # the plan has those it needs
        for i in range(n_consts):
            pf_tensor_unref(consts[i].tensor)
            consts[i].tensor = NULL
    for i in range(c.n):
        if c.cls[i] == PF_C_KERNEL and choose_kernel(c, i):
            return c.err.code
    for i in range(c.n):
        if c.cls[i] == PF_C_CONST and c.value[i] != NULL and own_constant(c, i):
            return c.err.code
    spread_deadness(c)
    return PF_OK

cdef void spread_deadness(pf_comp* c) noexcept nogil:
    """Kernels that handle dead tokens (Recv) may make them too: whatever reads such an output may be dead."""
    cdef int32_t j, i, k
    cdef pf_node* nd
    for j in range(c.n):
        i = c.topo[j]
        nd = c.g.nodes + i
        if c.kernel[i] != NULL and c.kernel[i].kernel.flags & <uint32_t>PF_KERNEL_DEAD:
            c.flags[i] |= PF_N_MAYBE_DEAD
        for k in range(nd.n_in + nd.n_ctl):
            if c.flags[nd.inputs[k].node] & PF_N_MAYBE_DEAD and c.cls[nd.inputs[k].node] != PF_C_NEXT:
                c.flags[i] |= PF_N_MAYBE_DEAD

cdef public pf_status pf_comp_collectives(pf_comp* c) noexcept nogil:
    """Collectives of one frame start one after the other, in the order of their construction where dependencies leave a choice:
    on every task the same.  c.next_start stays NULL without them; iterations with collectives do not overlap."""
    cdef int32_t* last = NULL
    cdef int32_t j, i, f
    for j in range(c.n):
        i = c.topo[j]
        if c.kernel[i] == NULL or not c.kernel[i].kernel.flags & <uint32_t>PF_KERNEL_COLLECTIVE:
            continue
        if last == NULL:
            last = <int32_t*>pf_comp_grab(c, c.n_frames, sizeof(int32_t))
            c.next_start = <int32_t*>pf_comp_grab(c, c.n, sizeof(int32_t))
            if last == NULL or c.next_start == NULL:
                return c.err.code
            for f in range(c.n_frames):
                last[f] = -1
            for f in range(c.n):
                c.next_start[f] = -1
        f = c.frame[i]
        c.frames[f].parallel = 1
        if last[f] >= 0:
            c.next_start[last[f]] = i
        last[f] = i
    return PF_OK
