# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""Variables, resources and random streams for kernels.

Invariants
1. A kernel is lent a variable only if its element type is one the node declares (pf_node_info.holds, kernels.pyx): the
   kernel takes the buffer for elements of that type.
2. A handle is an output only where the signature has a resource, a variant, or a reference to the variable's own type (of a
   resource: to a string, as TF's first queues and readers have).
"""
from outputs_h cimport *

# ---------------------------------------------------------------- variables
cdef pf_variable* variable_behind(pf_call* c, int32_t i) noexcept nogil:
    cdef pf_tensor* t
    cdef pf_object* o
    if c == NULL:
        return NULL
    if pf_has_input(c, i):
        t = pf_tensor_of(c.ins[i])
        o = <pf_object*>t.m.dl_tensor.data
        if t.flags & PF_T_HANDLE and o != NULL and o.kind == PF_OBJ_VARIABLE:
            return <pf_variable*>o
    pf_failf(&c.ctx, PF_INVALID_ARGUMENT, b"input %d is not a variable", i)
    return NULL

cdef void list_types(uint32_t types, char* text, size_t room) noexcept nogil:
    cdef size_t at = 0
    cdef int32_t t
    for t in range(1, 32):
        if types >> t & 1 and at + 32 < room:
            at += snprintf(text + at, room - at, b"%s%s", b" or " if at else b"", pf_type_name(t))

cdef pf_variable* other_type(pf_call* c, int32_t i, const pf_variable* v) noexcept nogil:
    cdef char types[300]
    list_types(c.node.holds[i], types, sizeof(types))
    pf_failf(&c.ctx, PF_INVALID_ARGUMENT, b"Trying to use variable '%.300s' (input %d) with wrong dtype. Expected "
             b"%s got %s: the node declares another element type than the variable has", v.base.name, i, types,
             pf_type_name(v.type))
    return NULL

cdef inline pf_variable* typed_variable(pf_call* c, int32_t i) noexcept nogil:
    """The variable behind input i, if it holds what the node declares (invariant 1); NULL: the error is told."""
    cdef pf_variable* v = variable_behind(c, i)
    if v != NULL and c.node.holds != NULL and not c.node.holds[i] >> v.type & 1:
        return other_type(c, i, v)
    return v

cdef pf_status uninitialized(pf_call* c, pf_variable* v) noexcept nogil:
    return pf_failf(&c.ctx, PF_FAILED_PRECONDITION, b"Attempting to use uninitialized value %s (read by '%.*s'). "
                    b"Run the variable's initializer first, for example tf.global_variables_initializer().",
                    v.base.name, <int>min(c.node.name.len, 300), c.node.name.data)

cdef int32_t lock_of(pf_call* c, pf_variable* v) noexcept nogil:
    """The entry of a lock this call holds; -1."""
    cdef int32_t k
    for k in range(c.n_lent):
        if pf_lent_kind(c.lent + k) == PF_LENT_LOCK and c.lent[k].p == <void*>v:
            return k
    return -1

cdef pf_status lock_one(pf_call* c, pf_variable* v, int32_t mode) noexcept nogil:
    cdef int32_t k = lock_of(c, v)
    if k >= 0:
        c.lent[k].kind = pf_lent_of(PF_LENT_LOCK, max(mode, pf_lent_number(c.lent + k)))
        return PF_OK
    pthread_mutex_lock(&v.lock)
    return pf_call_lend(c, pf_lent_of(PF_LENT_LOCK, mode), v)

cdef pf_status h_var_lock(pf_ctx* ctx, const pf_var* vars, int32_t n) noexcept nogil:
    """In the order of the variables' ids: selection of the least remaining, n is small."""
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v
    cdef pf_variable* best
    cdef int32_t k, round_, mode = 0
    cdef uint64_t last = 0
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if vars == NULL and n > 0:
        return pf_fail(ctx, PF_INTERNAL, b"var_lock of no variables")
    for k in range(n):
        if not PF_VAR_READ <= vars[k].mode <= PF_VAR_REPLACE:
            return pf_fail(ctx, PF_INTERNAL, b"var_lock in an unknown mode")
        if typed_variable(c, vars[k].ins) == NULL:
            return PF_INVALID_ARGUMENT
    for round_ in range(n):
        best = NULL
        for k in range(n):
            v = variable_behind(c, vars[k].ins)
            if v.id > last and (best == NULL or v.id < best.id):
                best = v
        if best == NULL:
            break
        last = best.id
        mode = PF_VAR_READ
        for k in range(n):
            if variable_behind(c, vars[k].ins) == best:
                mode = max(mode, vars[k].mode)
        if lock_one(c, best, mode):
            return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory")
    for k in range(n):
        v = variable_behind(c, vars[k].ins)
        if vars[k].mode != PF_VAR_REPLACE and v.value == NULL:
            return uninitialized(c, v)
    return PF_OK

cdef DLTensor* h_var_get(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = typed_variable(c, i)
    cdef pf_tensor* t
    cdef int32_t k
    if ctx == NULL:
        return NULL
    if v == NULL:
        return NULL
    k = lock_of(c, v)
    if k < 0:
        pf_fail(ctx, PF_INTERNAL, b"var_get without var_lock")
        return NULL
    if v.value != NULL and v.value.device != <void*>c.node.home:
        pf_tensor_ref(v.value)
        t = v.value
        if pf_same_memory(c, v, &t):
            return NULL
        pf_tensor_unref(t)
    if pf_lent_number(c.lent + k) != PF_VAR_UPDATE:
        return pf_dl(v.value) if v.value != NULL else NULL
    t = pf_variable_writable(v)
    if t == NULL:
        pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a variable's own copy")
        return NULL
    return pf_dl(t)

cdef pf_status set_variable(pf_call* c, pf_variable* v, pf_tensor* take) noexcept nogil:
    cdef pf_error err
    err.code = PF_OK
    if pf_variable_set(v, take, c.node.any_shape, &err):
        return pf_fail(&c.ctx, err.code, err.message)
    return PF_OK

cdef pf_status h_var_swap(pf_ctx* ctx, int32_t i, DLManagedTensorVersioned* steal) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = typed_variable(c, i)
    cdef pf_tensor* t
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if steal == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"var_swap of no tensor")
    t = pf_tensor_adopt(steal, v.type if v != NULL else 0)
    if t != NULL:
        t = pf_tensor_settled(t)
    if t == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory")
    if v == NULL or lock_of(c, v) < 0:
        pf_tensor_unref(t)
        return pf_fail(ctx, PF_INTERNAL, b"var_swap without var_lock")
    return set_variable(c, v, t)

cdef pf_status h_var_assign(pf_ctx* ctx, int32_t i, int32_t value) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = typed_variable(c, i)
    cdef pf_tensor* t
    cdef uint32_t e
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if v == NULL:
        return PF_INVALID_ARGUMENT
    if lock_of(c, v) < 0 or not pf_has_input(c, value):
        return pf_fail(ctx, PF_INTERNAL, b"var_assign without var_lock, or of an input that is not there")
    t = pf_tensor_of(c.ins[value])
    if not t.flags & PF_T_PLACED and pf_owned_alone(c, value):
        e = c.plan.ins[c.instr.in_begin + <uint32_t>value]
        pf_slot_clear(&c.slab.slots[e & <uint32_t>PF_IN_SLOT])
        # the header must outlive this call's pointers: the variable holds it, and so does the call
        pf_tensor_ref(t)
        if pf_call_lend(c, PF_LENT_TENSOR, t):
            return PF_RESOURCE_EXHAUSTED
    elif pf_is_plain(t) and not t.flags & PF_T_PLACED:
        pf_tensor_ref(t)            # shared: whoever writes first copies
    else:
        t = pf_tensor_copy(t)
        if t == NULL:
            return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a variable's value")
    return set_variable(c, v, t)

cdef pf_status h_var_read(pf_ctx* ctx, int32_t i, int32_t o) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = typed_variable(c, i)
    cdef pf_tensor* t
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if v == NULL or pf_no_output(c, o):
        return PF_INVALID_ARGUMENT
    t = pf_variable_read(v)
    if t == NULL:
        return uninitialized(c, v)
    if t.device != <void*>c.node.home and pf_same_memory(c, v, &t):
        return PF_FAILED_PRECONDITION
    if t.type != ctx.out_type[o]:
        pf_tensor_unref(t)
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"Trying to read a variable with the wrong dtype")
    pf_put_output(c, o, t)
    return PF_OK

cdef int32_t h_var_initialized(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = variable_behind(c, i)
    cdef pf_tensor* t
    if ctx == NULL:
        return 0
    if v == NULL:
        return 0
    t = pf_variable_read(v)
    if t == NULL:
        return 0
    pf_tensor_unref(t)
    return 1

cdef void know_node(pf_call* c) noexcept nogil:
    """Not every kind of call is begun with its node: who asks for it says so first."""
    if c.node == NULL:
        c.node = c.instr.about

cdef pf_str named(pf_call* c, pf_str name) noexcept nogil:
    if name.len:
        return name
    know_node(c)
    return c.node.shared_name if c.node.shared_name.len else c.node.name

cdef bint private_to_session(pf_call* c, pf_str name) noexcept nogil:
    """Nobody gave it a name: it has its node's.  (Of those, tables may ask to be shared.)"""
    know_node(c)
    return (not c.node.shared_name.len and not c.node.name_shared
            and (not name.len or pf_str_eq(name, c.node.name)))

cdef pf_status put_handle(pf_call* c, int32_t o, pf_object* take) noexcept nogil:
    cdef pf_tensor* t
    if pf_no_output(c, o) or not pf_handle_fits(c, o, take):
        pf_object_unref(take)
        return PF_INTERNAL
    t = pf_tensor_handle(take)
    if t == NULL:
        return pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a handle")
    if c.ctx.out_type[o] == PF_VARIANT:
        t.type = PF_VARIANT
    pf_put_output(c, o, t)
    return PF_OK

cdef pf_status h_var_handle(pf_ctx* ctx, int32_t o, pf_str container, pf_str name, int32_t type,
                            pf_shape shape) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_variable* v = NULL
    cdef pf_error err
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if no_text(container) or no_text(name) or shape.ndim > PF_MAX_NDIM or (shape.dims == NULL and shape.ndim > 0):
        return pf_fail(ctx, PF_INTERNAL, b"var_handle of no name, or of no shape")
    err.code = PF_OK
    if pf_state_variable(c.plan.state, container, named(c, name), type, shape, &v, &err):
        return pf_fail(ctx, err.code, err.message)
    return put_handle(c, o, <pf_object*>v)

# ---------------------------------------------------------------- resources
cdef inline bint usable(const pf_type* type) noexcept nogil:
    return type != NULL and type.size >= 16 and type.id != NULL

cdef inline bint no_text(pf_str s) noexcept nogil:
    return s.len < 0 or (s.data == NULL and s.len > 0)

cdef pf_resource* owned_by_step(pf_step* s, pf_str name, const pf_type* type) noexcept nogil:
    cdef int32_t k
    cdef pf_resource* r = NULL
    pthread_mutex_lock(&s.lock)
    for k in range(s.n_owned):
        if (s.owned[k].base.name != NULL and pf_str_is(name, s.owned[k].base.name)
                and strcmp(s.owned[k].type.id, type.id) == 0):
            r = s.owned[k]
            break
    pthread_mutex_unlock(&s.lock)
    return r

cdef pf_status step_resource(pf_call* c, pf_str name, const pf_type* type, pf_make_fn make, void* arg,
                             void** obj) noexcept nogil:
    cdef pf_resource* r = owned_by_step(c.step, name, type) if c.step != NULL else NULL
    cdef pf_status st
    cdef pf_str nowhere
    if c.step == NULL:
        return pf_fail(&c.ctx, PF_INTERNAL, b"a resource of the step outside of a step")
    nowhere.data = NULL
    nowhere.len = 0
    if r == NULL:
        if make == NULL:
            return pf_fail(&c.ctx, PF_NOT_FOUND, b"no such resource in this step")
        st = make(&c.ctx, arg, obj)
        if st:
            return st
        r = pf_resource_new(type, obj[0], PF_SCOPE_STEP, nowhere, name)
        if r == NULL:
            return pf_fail(&c.ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a resource")
        pf_step_own(c.step, r)
    obj[0] = r.obj
    return PF_OK

cdef void note_use(pf_call* c, pf_resource* r) noexcept nogil:
    """Of a resource at which others wait, by a step of a session that has a number."""
    cdef int32_t role = pf_role_of(c.node) if c.node != NULL else 0
    cdef pf_step* outer
    if not role or c.step == NULL:
        return
    c.at = r
    c.at_of = c.node
    outer = c.step.home.leader
    if outer.task != NULL:
        pf_resource_used(r, outer.key, role, c.node.name, c.node.op)

cdef pf_status h_resource(pf_ctx* ctx, int32_t scope, pf_str container, pf_str name, const pf_type* type,
                          pf_make_fn make, void* arg, void** obj) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_resource* r = NULL
    cdef pf_error err
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if obj == NULL or not usable(type) or no_text(container) or no_text(name):
        return pf_fail(ctx, PF_INTERNAL, b"resource without a usable pf_type, name or place for the object")
    if scope == PF_SCOPE_STEP:
        return step_resource(c, named(c, name), type, make, arg, obj)
    err.code = PF_OK
    if pf_state_resource(c.plan.state, container, named(c, name), private_to_session(c, name), type, make, ctx, arg,
                         &r, &err):
        return pf_fail(ctx, err.code, err.message)
    obj[0] = r.obj
    note_use(c, r)
    return pf_call_lend(c, PF_LENT_OBJECT, r)

cdef pf_status h_resource_output(pf_ctx* ctx, int32_t o, pf_str container, pf_str name, const pf_type* type,
                                 pf_make_fn make, void* arg) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_resource* r = NULL
    cdef pf_error err
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if make == NULL or not usable(type) or no_text(container) or no_text(name):
        return pf_fail(ctx, PF_INTERNAL, b"resource_output without a usable pf_type, name or make")
    err.code = PF_OK
    if pf_state_resource(c.plan.state, container, named(c, name), private_to_session(c, name), type, make, ctx, arg,
                         &r, &err):
        return pf_fail(ctx, err.code, err.message)
    return put_handle(c, o, <pf_object*>r)

cdef pf_status h_resource_handle(pf_ctx* ctx, int32_t o, int32_t scope, const pf_type* type, void* steal) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_resource* r
    cdef pf_str nothing
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    nothing.data = NULL
    nothing.len = 0
    if not usable(type):
        return pf_fail(ctx, PF_INTERNAL, b"resource_handle without a usable pf_type")
    r = pf_resource_new(type, steal, scope, nothing, nothing)
    if r == NULL:
        return pf_fail(ctx, PF_RESOURCE_EXHAUSTED, b"out of memory for a resource")
    if scope == PF_SCOPE_STEP and c.step != NULL:
        pf_object_ref(<pf_object*>r)
        pf_step_own(c.step, r)
    return put_handle(c, o, <pf_object*>r)

cdef pf_status h_resource_get(pf_ctx* ctx, int32_t i, const pf_type* type, void** obj) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    cdef pf_resource* r
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if obj == NULL or not usable(type):
        return pf_fail(ctx, PF_INTERNAL, b"resource_get without a usable pf_type or place for the object")
    if pf_has_input(c, i):
        t = pf_tensor_of(c.ins[i])
        r = <pf_resource*>t.m.dl_tensor.data
        if t.flags & PF_T_HANDLE and r != NULL and r.base.kind == PF_OBJ_RESOURCE:
            if r.type.id == type.id or strcmp(r.type.id, type.id) == 0:
                obj[0] = r.obj
                note_use(c, r)
                return PF_OK
            return pf_failf(ctx, PF_INVALID_ARGUMENT, b"input %d is a resource of type %s, expected %s", i, r.type.id,
                            type.id)
    return pf_failf(ctx, PF_INVALID_ARGUMENT, b"input %d is not a resource handle, expected %s", i, type.id)

cdef pf_resource* behind(const pf_tensor* t, const pf_type* type) noexcept nogil:
    """The resource of that type to which the tensor refers, or NULL."""
    cdef pf_resource* r = <pf_resource*>t.m.dl_tensor.data
    if not t.flags & PF_T_HANDLE or r == NULL or r.base.kind != PF_OBJ_RESOURCE:
        return NULL
    return r if r.type.id == type.id or strcmp(r.type.id, type.id) == 0 else NULL

cdef DLManagedTensorVersioned* h_tensor_ref(const DLManagedTensorVersioned* m) noexcept nogil:
    cdef pf_tensor* t = pf_managed_own(m)
    if t == NULL:
        return NULL
    pf_tensor_ref(t)
    return &t.m

cdef DLManagedTensorVersioned* h_handle_new(const pf_host* host, int32_t type, const pf_type* kind, void* steal) noexcept nogil:
    cdef pf_resource* r
    cdef pf_tensor* t
    cdef pf_str nothing
    nothing.data = NULL
    nothing.len = 0
    if not usable(kind) or type not in (PF_RESOURCE, PF_VARIANT):
        return NULL
    r = pf_resource_new(kind, steal, PF_SCOPE_CONTAINER, nothing, nothing)
    if r == NULL:
        return NULL
    t = pf_tensor_handle(<pf_object*>r)
    if t == NULL:
        return NULL
    t.type = type
    return &t.m

cdef pf_status h_handle_get(const DLManagedTensorVersioned* m, const pf_type* type, void** obj) noexcept nogil:
    cdef pf_tensor* t = pf_managed_own(m)
    cdef pf_resource* r
    if t == NULL or obj == NULL or not usable(type):
        return PF_INVALID_ARGUMENT
    r = behind(t, type)
    if r == NULL:
        return PF_INVALID_ARGUMENT
    obj[0] = r.obj
    return PF_OK

cdef pf_status h_resource_delete(pf_ctx* ctx, int32_t i) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    cdef pf_tensor* t
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if not pf_has_input(c, i):
        return pf_fail(ctx, PF_INTERNAL, b"no such input")
    t = pf_tensor_of(c.ins[i])
    if not t.flags & PF_T_HANDLE or t.m.dl_tensor.data == NULL:
        return pf_fail(ctx, PF_INVALID_ARGUMENT, b"the input is not a resource handle")
    if (<pf_object*>t.m.dl_tensor.data).kind == PF_OBJ_VARIABLE and lock_of(c, <pf_variable*>t.m.dl_tensor.data) >= 0:
        return pf_fail(ctx, PF_INTERNAL, b"resource_delete of a variable this call has locked")
    return pf_state_delete(c.plan.state, <pf_object*>t.m.dl_tensor.data)

cdef uint64_t spread(uint64_t z) noexcept nogil:
    """splitmix64's last step: one to one, and 0 stays 0.  Philox takes 64 bits of key, so a stream's number goes in there."""
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EBULL
    return z ^ (z >> 31)

cdef pf_status h_rng(pf_ctx* ctx, uint64_t n, uint64_t* key, uint64_t* counter) noexcept nogil:
    cdef pf_call* c = <pf_call*>ctx
    if ctx == NULL:
        return PF_INVALID_ARGUMENT
    if c.plan == NULL or c.node == NULL or key == NULL or counter == NULL:
        return pf_fail(ctx, PF_INTERNAL, b"rng outside of a step, or without a place for key and counter")
    if c.step.stream:               # the seeds are the State's, the place is the step's own
        pf_state_rng(c.plan.state, c.node.name, c.node.seed, c.node.seed2, 0, key, counter)
        key[0] ^= spread(c.step.stream)
        counter[0] = <uint64_t>pf_a64_add(c.step.drawn + (c.node - c.plan.nodes), <int64_t>n)
        return PF_OK
    pf_state_rng(c.plan.state, c.node.name, c.node.seed, c.node.seed2, n, key, counter)
    return PF_OK

# ---------------------------------------------------------------- their part of the table
cdef public void pf_host_fill_state(pf_host* table) noexcept nogil:
    table.var_lock = h_var_lock
    table.var_get = h_var_get
    table.var_swap = h_var_swap
    table.var_assign = h_var_assign
    table.var_read = h_var_read
    table.var_initialized = h_var_initialized
    table.var_handle = h_var_handle
    table.resource = h_resource
    table.resource_handle = h_resource_handle
    table.resource_get = h_resource_get
    table.resource_delete = h_resource_delete
    table.rng = h_rng
    table.resource_output = h_resource_output
    table.tensor_ref = h_tensor_ref
    table.handle_new = h_handle_new
    table.handle_get = h_handle_get
