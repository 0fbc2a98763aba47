# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""State that outlives a step: containers of variables and resources, random streams.

A session has a container of its own (name ""); named ones belong to its task until they are reset.
Sessions of a server have a BASE in common, another state: there are their variables and what has a
shared name; a queue that nobody named, random streams and kept tensors are each session's own.

Invariants
1. A container holds one reference to each object; handles, calls and plans hold their own.
2. An object's name is unique in its container per kind; a resource is made once: MAKING -> there,
   or forgotten.
3. A variable's value is written in place only while nobody else holds it; else the writer gets a
   copy, so that what was read or fetched never changes.
4. Kernels' functions (make, abort, unref) are called with no lock held.
5. A base has no base, and outlives the states that it is the base of.

Threads: any.  Lock order: the task, which guards its list of containers, one container; a variable's
lock is taken with neither held.

    pf_state *s = pf_state_new("", NULL, NULL);
    pf_state_variable(s, pf_str_of(""), pf_str_of("w"), PF_FLOAT32, shape, &v, &err);
"""
from host_h cimport *

cdef enum:
    BUCKETS = 256       # of a container; lookups happen once per plan
    STREAM = 3          # an entry's kind beside PF_OBJ_VARIABLE and PF_OBJ_RESOURCE
    POSITION_BITS = 32  # of a stream's counter, for the numbers of one position

cdef struct Stream:     # one node's random numbers
    uint64_t seed, seed2, key, high, next

cdef struct Entry:
    Entry* next
    int32_t kind
    uint64_t hash
    pf_str name
    pf_object* object   # NULL while `maker` makes it
    const void* maker
    Stream stream
    uint64_t sought     # a stream's: the last pf_state_seek that it followed

cdef struct Container:
    pthread_mutex_t lock
    pthread_cond_t made
    Entry* table[256]
    char* name
    pf_container* next
    uint64_t sought, position, shard    # pf_state_seek: how often, and where to
    bint closed

cdef struct State:
    pf_a32 refs, ended
    pf_a64 numbers
    pf_task* task
    State* base         # or NULL
    Container own

cdef struct Globals:
    pf_a64 last_id      # of variables
    pf_a64 last_entropy

cdef Globals globals_


# ---------------------------------------------------------------- containers
cdef char* copy_text(pf_str s) noexcept nogil:
    cdef char* p = <char*>malloc(<size_t>s.len + 1)
    if p != NULL:
        pf_copy_text(p, <size_t>s.len + 1, s.data, s.len)
    return p


cdef bint container_init(Container* c, pf_str name) noexcept nogil:
    pthread_mutex_init(&c.lock, NULL)
    pthread_cond_init(&c.made, NULL)
    c.name = copy_text(name)
    return c.name != NULL


cdef void container_free(Container* c) noexcept nogil:
    pthread_mutex_destroy(&c.lock)
    pthread_cond_destroy(&c.made)
    free(c.name)


cdef Container* named_container(pf_task* t, pf_str name) noexcept nogil:
    """Of the task; made on first use, freed with it."""
    cdef Container* c
    pthread_mutex_lock(&t.lock)
    c = <Container*>t.named
    while c != NULL and not pf_str_is(name, c.name):
        c = <Container*>c.next
    if c == NULL:
        c = <Container*>calloc(1, sizeof(Container))
        if c != NULL and container_init(c, name):
            c.next = t.named
            t.named = <pf_container*>c
        elif c != NULL:
            free(c)
            c = NULL
    pthread_mutex_unlock(&t.lock)
    return c


cdef Container* container_of(pf_state* state, pf_str name) noexcept nogil:
    """Where what sessions have in common is."""
    cdef State* s = <State*>state
    if name.len:
        return named_container(s.task, name)
    return &s.own if s.base == NULL else &s.base.own


cdef bint has(Container* c, pf_str name) noexcept nogil:
    cdef bint there
    pthread_mutex_lock(&c.lock)
    there = find(c, PF_OBJ_RESOURCE, name)[0] != NULL
    pthread_mutex_unlock(&c.lock)
    return there


cdef Container* container_of_resource(pf_state* state, pf_str container, pf_str name,
                                      int32_t private_) noexcept nogil:
    """The session's own, if it is the session's alone or is there already, as for the string handle
    of an iterator that nobody named."""
    cdef State* s = <State*>state
    if container.len == 0 and (private_ or (s.base != NULL and has(&s.own, name))):
        return &s.own
    return container_of(state, container)


cdef Entry** find(Container* c, int32_t kind, pf_str name) noexcept nogil:
    """With the lock held: where the entry hangs, or NULL hangs for a new one."""
    cdef uint64_t hash = pf_str_hash(name) + <uint64_t>kind
    cdef Entry** at = &c.table[hash % BUCKETS]
    while at[0] != NULL and not (at[0].hash == hash and at[0].kind == kind
                                 and pf_str_eq(at[0].name, name)):
        at = &at[0].next
    return at


cdef Entry* entry_new(Entry** at, int32_t kind, pf_str name) noexcept nogil:
    cdef Entry* e = <Entry*>calloc(1, sizeof(Entry) + <size_t>name.len + 1)
    if e == NULL:
        return NULL
    e.kind = kind
    e.hash = pf_str_hash(name) + <uint64_t>kind
    e.name.data = <char*>e + sizeof(Entry)
    e.name.len = name.len
    if name.len:
        memcpy(<char*>e + sizeof(Entry), name.data, <size_t>name.len)
    at[0] = e
    return e


cdef Entry* take_all(Container* c, bint close) noexcept nogil:
    cdef Entry* all = NULL
    cdef Entry* e
    cdef int32_t i
    pthread_mutex_lock(&c.lock)
    c.closed = c.closed or close
    for i in range(BUCKETS):
        while c.table[i] != NULL:
            e = c.table[i]
            c.table[i] = e.next
            e.next = all
            all = e
    pthread_cond_broadcast(&c.made)
    pthread_mutex_unlock(&c.lock)
    return all


cdef void drop_handle(pf_variable* v) noexcept nogil:
    """A variable whose value is a handle may hold itself, straight or through other objects."""
    cdef pf_tensor* value = NULL
    pthread_mutex_lock(&v.lock)
    if v.value != NULL and v.value.flags & PF_T_HANDLE:
        value = v.value
        v.value = NULL
    pthread_mutex_unlock(&v.lock)
    pf_tensor_unref(value)


cdef void clear(Container* c, pf_status why, bint close) noexcept nogil:
    """Aborts every resource before the first is let go: their waiters may hold each other."""
    cdef Entry* all = take_all(c, close)
    cdef Entry* e = all
    cdef pf_resource* r
    while e != NULL:
        r = <pf_resource*>e.object
        if r != NULL and e.kind == PF_OBJ_RESOURCE and r.type.abort != NULL:
            r.type.abort(r.obj, why)
        e = e.next
    while all != NULL:
        e = all
        all = e.next
        if e.kind == PF_OBJ_VARIABLE:
            drop_handle(<pf_variable*>e.object)
        pf_object_unref(e.object)
        free(e)


cdef public void pf_containers_reset(pf_task* t, const char* const* names, int32_t n) noexcept nogil:
    cdef Container* c
    cdef int32_t i
    for i in range(n):
        c = named_container(t, pf_str_of(names[i]))
        if c != NULL:
            clear(c, PF_ABORTED, False)
    if n:
        return
    pthread_mutex_lock(&t.lock)
    c = <Container*>t.named
    pthread_mutex_unlock(&t.lock)
    while c != NULL:                    # the list only grows, at its head
        clear(c, PF_ABORTED, False)
        c = <Container*>c.next


cdef public void pf_containers_free(pf_task* t) noexcept nogil:
    cdef Container* c = <Container*>t.named
    cdef Container* next
    while c != NULL:
        next = <Container*>c.next
        clear(c, PF_CANCELLED, True)
        container_free(c)
        free(c)
        c = next
    t.named = NULL


# ---------------------------------------------------------------- a session's state
cdef public pf_state* pf_state_new(const char* name, pf_task* task, pf_state* base) noexcept nogil:
    cdef State* s = <State*>calloc(1, sizeof(State))
    if s == NULL:
        return NULL
    if not container_init(&s.own, pf_str_of(name)):
        free(s)
        return NULL
    pf_a32_store(&s.refs, 1)
    s.task = task if task != NULL else pf_task_own()
    pf_task_ref(s.task)
    if base != NULL:
        s.base = <State*>base
        pf_state_ref(base)
    return <pf_state*>s


cdef public pf_task* pf_state_task(pf_state* s) noexcept nogil:
    return (<State*>s).task


cdef public void pf_state_ref(pf_state* s) noexcept nogil:
    pf_a32_add_rlx(&(<State*>s).refs, 1)


cdef public void pf_state_unref(pf_state* state) noexcept nogil:
    cdef State* s = <State*>state
    if s == NULL or not pf_a32_dec_last(&s.refs):
        return
    clear(&s.own, PF_CANCELLED, True)
    container_free(&s.own)
    pf_state_unref(<pf_state*>s.base)
    pf_task_unref(s.task)
    free(s)


cdef public void pf_state_close(pf_state* s, pf_status why) noexcept nogil:
    clear(&(<State*>s).own, why, True)


cdef public void pf_state_end(pf_state* s) noexcept nogil:
    pf_a32_store(&(<State*>s).ended, 1)


cdef public uint64_t pf_state_next_number(pf_state* s) noexcept nogil:
    return <uint64_t>pf_a64_add(&(<State*>s).numbers, 1)


cdef public int32_t pf_state_ended(pf_state* s) noexcept nogil:
    return pf_a32_load(&(<State*>s).ended)


cdef pf_status closed(pf_str name, pf_error* err) noexcept nogil:
    return pf_error_set(err, PF_CANCELLED, b"the session was closed; '%.*s' is gone",
                        <int>(name.len if name.len < 400 else 400), name.data)


cdef pf_status no_memory(pf_str name, pf_error* err) noexcept nogil:
    return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for '%.*s'",
                        <int>(name.len if name.len < 400 else 400), name.data)


cdef pf_status take_value_away(pf_variable* v) noexcept nogil:
    """An unset variable counts as not there, as where each step looks variables up by name."""
    cdef pf_tensor* value
    pthread_mutex_lock(&v.lock)
    value = v.value
    v.value = NULL
    pthread_mutex_unlock(&v.lock)
    if value == NULL:
        return PF_NOT_FOUND
    pf_tensor_unref(value)
    return PF_OK


cdef Entry* take_out(Container* c, pf_object* o) noexcept nogil:
    """The object's entry, which is no longer in the container; NULL: it was not."""
    cdef Entry* e = NULL
    cdef Entry** at
    pthread_mutex_lock(&c.lock)
    at = find(c, o.kind, pf_str_of(o.name))
    if at[0] != NULL and at[0].object == o:
        e = at[0]
        at[0] = e.next
    pthread_mutex_unlock(&c.lock)
    return e


cdef public pf_status pf_state_delete(pf_state* s, pf_object* o) noexcept nogil:
    cdef Container* c
    cdef Entry* e
    if o.name == NULL:
        return PF_NOT_FOUND
    if o.kind == PF_OBJ_VARIABLE and (<pf_variable*>o).planned:
        return take_value_away(<pf_variable*>o)
    c = container_of(s, pf_str_of(o.container))
    if c == NULL:
        return PF_RESOURCE_EXHAUSTED
    e = take_out(c, o)
    if e == NULL and c != &(<State*>s).own:
        e = take_out(&(<State*>s).own, o)
    if e == NULL:
        return PF_NOT_FOUND
    pf_object_unref(o)
    free(e)
    return PF_OK


# ---------------------------------------------------------------- variables
cdef void variable_destroy(pf_object* o) noexcept nogil:
    cdef pf_variable* v = <pf_variable*>o
    pf_tensor_unref(v.value)
    pthread_mutex_destroy(&v.lock)
    free(v.dims)
    free(v.base.container)
    free(v.base.name)
    free(v)


cdef bint object_init(pf_object* o, int32_t kind, pf_str container, pf_str name,
                      void (*destroy)(pf_object*) noexcept nogil) noexcept nogil:
    pf_a32_store(&o.refs, 1)
    o.kind = kind
    o.destroy = destroy
    o.container = copy_text(container)
    o.name = copy_text(name)
    return o.container != NULL and o.name != NULL


cdef pf_variable* variable_new(int32_t type, pf_shape shape, pf_str container,
                               pf_str name) noexcept nogil:
    cdef pf_variable* v = <pf_variable*>calloc(1, sizeof(pf_variable))
    if v == NULL:
        return NULL
    pthread_mutex_init(&v.lock, NULL)
    v.id = <uint64_t>pf_a64_add(&globals_.last_id, 1) + 1
    v.type = type - 100 if type > 100 else type
    v.ndim = shape.ndim
    if shape.ndim > 0:
        v.dims = <int64_t*>malloc(shape.ndim * sizeof(int64_t))
        if v.dims != NULL:
            memcpy(v.dims, shape.dims, shape.ndim * sizeof(int64_t))
    if not object_init(&v.base, PF_OBJ_VARIABLE, container, name, variable_destroy) or (
            shape.ndim > 0 and v.dims == NULL):
        pf_object_unref(&v.base)
        return NULL
    return v


cdef pf_variable* find_or_make(Container* c, pf_str container, pf_str name, int32_t type,
                               pf_shape shape) noexcept nogil:
    """With the lock held; the reference is the container's."""
    cdef Entry** at = find(c, PF_OBJ_VARIABLE, name)
    cdef pf_variable* v
    if at[0] != NULL:
        return <pf_variable*>at[0].object
    v = variable_new(type, shape, container, name)
    if v == NULL:
        return NULL
    if entry_new(at, PF_OBJ_VARIABLE, name) == NULL:
        pf_object_unref(&v.base)
        return NULL
    at[0].object = &v.base
    return v


cdef public pf_status pf_state_variable(pf_state* s, pf_str container, pf_str name, int32_t type,
                                        pf_shape shape,
                                        pf_variable** out, pf_error* err) noexcept nogil:
    cdef Container* c = container_of(s, container)
    cdef pf_variable* v = NULL
    cdef bint is_closed
    out[0] = NULL
    if c == NULL:
        return no_memory(container, err)
    if type > 100:
        type -= 100                     # a reference to that type
    pthread_mutex_lock(&c.lock)
    is_closed = c.closed
    if not is_closed:
        v = find_or_make(c, container, name, type, shape)
        if v != NULL:
            pf_object_ref(&v.base)
    pthread_mutex_unlock(&c.lock)
    if is_closed:
        return closed(name, err)
    if v == NULL:
        return no_memory(name, err)
    if v.type != type:
        pf_error_set(err, PF_INVALID_ARGUMENT, b"variable '%s' holds %s, but is asked for as %s; "
                     b"two variables share this "
                     b"name: give one another name or shared_name", v.base.name,
                     pf_type_name(v.type),
                     pf_type_name(type))
        pf_object_unref(&v.base)
        return err.code
    out[0] = v
    return PF_OK


cdef public pf_tensor* pf_variable_read(pf_variable* v) noexcept nogil:
    cdef pf_tensor* t
    pthread_mutex_lock(&v.lock)
    t = v.value
    if t != NULL:
        pf_tensor_ref(t)
    pthread_mutex_unlock(&v.lock)
    return t


cdef bint sole_owner(pf_tensor* t) noexcept nogil:
    """Nobody else can see the data."""
    if not pf_tensor_unique(t) or t.flags & (PF_T_BORROWED | PF_T_CONSTANT):
        return False
    return not t.flags & PF_T_VIEW or pf_tensor_unique(<pf_tensor*>t.owner)


cdef public pf_tensor* pf_variable_writable(pf_variable* v) noexcept nogil:
    cdef pf_tensor* own
    if v.value == NULL or sole_owner(v.value):
        return v.value
    own = pf_tensor_copy(v.value)
    if own != NULL:
        pf_tensor_unref(v.value)
        v.value = own
    return own


cdef void shape_text(const int64_t* dims, int32_t ndim, char* text, size_t room) noexcept nogil:
    cdef size_t at = 1
    cdef int32_t i
    cdef const char* between = b""
    text[0] = b'['
    for i in range(ndim):
        if at + 32 > room:
            break
        if dims[i] < 0:
            at += snprintf(text + at, room - at, b"%s?", between)
        else:
            at += snprintf(text + at, room - at, b"%s%jd", between, <intmax_t>dims[i])
        between = b","
    text[at] = b']'
    text[at + 1] = 0


cdef bint shape_fits(const pf_variable* v, const DLTensor* t) noexcept nogil:
    cdef int32_t i
    if v.ndim < 0:
        return True
    if v.ndim != t.ndim:
        return False
    for i in range(v.ndim):
        if v.dims[i] >= 0 and v.dims[i] != t.shape[i]:
            return False
    return True


cdef pf_status check_value(const pf_variable* v, const pf_tensor* t, int32_t any_shape, pf_error* err) noexcept nogil:
    """The declared shape binds the first value, unless it is assigned with validate_shape=False."""
    cdef char want[256]
    cdef char got[256]
    if v.type and t.type != v.type:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"variable '%s' holds %s, the new "
                            b"value is %s", v.base.name,
                            pf_type_name(v.type), pf_type_name(t.type))
    if v.value != NULL or any_shape or shape_fits(v, &t.m.dl_tensor):
        return PF_OK
    shape_text(v.dims, v.ndim, want, sizeof(want))
    shape_text(t.m.dl_tensor.shape, t.m.dl_tensor.ndim, got, sizeof(got))
    return pf_error_set(err, PF_INVALID_ARGUMENT, b"variable '%s' has shape %s, its first value "
                        b"has shape %s", v.base.name,
                        want, got)


cdef public pf_status pf_variable_set(pf_variable* v, pf_tensor* take, int32_t any_shape,
                                      pf_error* err) noexcept nogil:
    cdef pf_tensor* own
    if check_value(v, take, any_shape, err) != PF_OK:
        pf_tensor_unref(take)
        return err.code
    if take.flags & PF_T_BORROWED:
        own = pf_tensor_copy(take)
        pf_tensor_unref(take)
        if own == NULL:
            return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for the value of "
                                b"variable '%s'", v.base.name)
        take = own
    own = v.value
    v.value = take
    pf_tensor_unref(own)
    return PF_OK


# ---------------------------------------------------------------- resources
# Resources, kernels' own objects, made once per name.
#
#     (absent) -> MAKING [pf_state_resource: the first who asks] -> there [settle], or absent again where making failed;
#     whoever asks meanwhile waits for `made`.
cdef void resource_destroy(pf_object* o) noexcept nogil:
    cdef pf_resource* r = <pf_resource*>o
    if r.obj != NULL and r.type.unref != NULL and not pf_host_ended():
        r.type.unref(r.obj)
    pf_uses_free(r.uses)
    free(r.base.container)
    free(r.base.name)
    free(r)


cdef public pf_resource* pf_resource_new(const pf_type* type, void* steal, int32_t scope,
                                         pf_str container,
                                         pf_str name) noexcept nogil:
    """NULL: no memory; `steal` is let go then, too."""
    cdef pf_resource* r = <pf_resource*>calloc(1, sizeof(pf_resource))
    cdef pf_type full
    memset(&full, 0, sizeof(full))
    memcpy(&full, type, type.size if type.size < sizeof(full) else sizeof(full))
    full.size = sizeof(full)
    if r == NULL or not object_init(&r.base, PF_OBJ_RESOURCE, container, name, resource_destroy):
        if full.unref != NULL:
            full.unref(steal)
        if r != NULL:
            pf_object_unref(&r.base)
        return NULL
    r.type = full
    r.obj = steal
    r.scope = scope
    return r


cdef pf_status lookup(Container* c, pf_str name, const void* maker, bint make, pf_resource** out,
                      bint* mine) noexcept nogil:
    """Waits while another thread makes it.  `mine`: the caller is to make it."""
    cdef Entry** at
    cdef pf_status s = PF_OK
    mine[0] = False
    out[0] = NULL
    pthread_mutex_lock(&c.lock)
    at = find(c, PF_OBJ_RESOURCE, name)
    while not c.closed and at[0] != NULL and at[0].object == NULL:
        pthread_cond_wait(&c.made, &c.lock)
        at = find(c, PF_OBJ_RESOURCE, name)
    if c.closed:
        s = PF_CANCELLED
    elif at[0] != NULL:
        out[0] = <pf_resource*>at[0].object
        pf_object_ref(at[0].object)
    elif not make:
        s = PF_NOT_FOUND
    elif entry_new(at, PF_OBJ_RESOURCE, name) == NULL:
        s = PF_RESOURCE_EXHAUSTED
    else:
        at[0].maker = maker
        mine[0] = True
    pthread_mutex_unlock(&c.lock)
    return s


cdef void settle(Container* c, pf_str name, const void* maker, pf_resource* r) noexcept nogil:
    """The maker is done: with `r`, which the container keeps unless it was reset meanwhile, or
    with nothing."""
    cdef Entry** at
    cdef Entry* e = NULL
    pthread_mutex_lock(&c.lock)
    at = find(c, PF_OBJ_RESOURCE, name)
    if at[0] != NULL and at[0].maker == maker:
        if r != NULL:
            pf_object_ref(&r.base)
            at[0].object = &r.base
            at[0].maker = NULL
        else:
            e = at[0]
            at[0] = e.next
    pthread_cond_broadcast(&c.made)
    pthread_mutex_unlock(&c.lock)
    free(e)


cdef pf_status explain(pf_status s, pf_str name, const pf_type* type, pf_error* err) noexcept nogil:
    if s == PF_NOT_FOUND:
        return pf_error_set(err, s, b"there is no %s named '%.*s'; was it made, or its "
                            b"container reset?", type.id,
                            <int>(name.len if name.len < 400 else 400), name.data)
    return closed(name, err) if s == PF_CANCELLED else no_memory(name, err)


cdef pf_status make_it(Container* c, pf_str container, pf_str name, const pf_type* type,
                       pf_make_fn make,
                       pf_ctx* ctx, void* arg, pf_resource** out, pf_error* err) noexcept nogil:
    cdef void* obj = NULL
    cdef pf_status s = make(ctx, arg, &obj)
    if s == PF_OK:
        out[0] = pf_resource_new(type, obj, PF_SCOPE_CONTAINER, container, name)
        if out[0] == NULL:
            s = no_memory(name, err)
    else:
        pf_error_set(err, s, b"the %s '%.*s' could not be made", type.id,
                     <int>(name.len if name.len < 400 else 400), name.data)
    settle(c, name, out, out[0])
    return s


cdef public pf_status pf_state_resource(pf_state* s, pf_str container, pf_str name,
                                        int32_t private_, const pf_type* type,
                                        pf_status (*make)(pf_ctx*, void*, void**) noexcept nogil,
                                        pf_ctx* ctx,
                                        void* arg, pf_resource** out, pf_error* err) noexcept nogil:
    cdef Container* c = container_of_resource(s, container, name, private_)
    cdef bint mine = False
    cdef pf_status st
    out[0] = NULL
    if c == NULL:
        return no_memory(container, err)
    st = lookup(c, name, out, make != NULL, out, &mine)
    if st != PF_OK:
        return explain(st, name, type, err)
    if mine:
        return make_it(c, container, name, type, make, ctx, arg, out, err)
    if strcmp(out[0].type.id, type.id):
        pf_error_set(err, PF_INVALID_ARGUMENT, b"'%s' is a %s, but is asked for as %s; give one "
                     b"another shared_name",
                     out[0].base.name, out[0].type.id, type.id)
        pf_object_unref(&out[0].base)
        out[0] = NULL
        return err.code
    return PF_OK


# ---------------------------------------------------------------- random streams
cdef public uint64_t pf_entropy() noexcept nogil:
    """From the system; without /dev/urandom from the clock and a counter."""
    cdef uint64_t x = 0
    cdef timespec now
    cdef FILE* f = fopen(b"/dev/urandom", b"rb")
    if f != NULL:
        if fread(&x, sizeof(x), 1, f) != 1:
            x = 0
        fclose(f)
    if x == 0:
        clock_gettime(CLOCK_REALTIME, &now)
        x = <uint64_t>now.tv_sec * 1000000007 + <uint64_t>now.tv_nsec
        x += <uint64_t>pf_a64_add(&globals_.last_entropy, 1) * <uint64_t>0x9E3779B97F4A7C15
    return x


cdef void seed_stream(Stream* r, uint64_t seed, uint64_t seed2) noexcept nogil:
    r.seed = seed
    r.seed2 = seed2
    r.next = 0
    if seed == 0 and seed2 == 0:
        seed = pf_entropy()
        seed2 = pf_entropy()
    r.key = seed
    r.high = seed2


cdef public void pf_state_rng(pf_state* s, pf_str name, uint64_t seed, uint64_t seed2, uint64_t n,
                              uint64_t* key,
                              uint64_t* counter) noexcept nogil:
    cdef Container* c = &(<State*>s).own
    cdef Entry** at
    cdef Entry* e
    cdef Stream lone
    cdef Stream* r = &lone
    pthread_mutex_lock(&c.lock)
    at = find(c, STREAM, name)
    e = at[0]
    if e == NULL:
        e = entry_new(at, STREAM, name)
        if e != NULL:
            seed_stream(&e.stream, seed, seed2)
    if e != NULL:
        r = &e.stream
    if e == NULL or r.seed != seed or r.seed2 != seed2:
        seed_stream(r, seed, seed2)
    if e != NULL and e.sought != c.sought:
        e.sought = c.sought
        r.next = c.position << POSITION_BITS
        if seed or seed2:
            r.high = seed2 + c.shard * <uint64_t>0x9E3779B97F4A7C15
    key[0] = r.key
    key[1] = 0
    counter[0] = r.next
    counter[1] = r.high
    r.next += n
    pthread_mutex_unlock(&c.lock)


cdef public void pf_state_seek(pf_state* s, uint64_t position, uint64_t shard) noexcept nogil:
    """All streams are at this position from now on, as though each step had drawn 2**32 blocks:
    what is drawn next depends on the seeds, position (below 2**32) and shard alone."""
    cdef Container* c = &(<State*>s).own
    pthread_mutex_lock(&c.lock)
    c.sought += 1
    c.position = position
    c.shard = shard
    pthread_mutex_unlock(&c.lock)


# ---------------------------------------------------------------- streams, read and set
cdef enum:
    MARK = 8            # bytes of STREAMS_MARK
    NUMBERS = 40        # of a stream: seed, seed2, key, high, next

cdef extern from *:
    """
    static const char pf_streams_mark[8] = "PFRNG 1";       /* then, per stream: u32 length, name, five u64 */
    """
    const char* STREAMS_MARK "pf_streams_mark"


cdef char* write_stream(char* to, const Entry* e) noexcept nogil:
    cdef uint32_t length = <uint32_t>e.name.len
    memcpy(to, &length, sizeof(length))
    memcpy(to + sizeof(length), e.name.data, length)
    to += sizeof(length) + length
    memcpy(to, &e.stream, NUMBERS)
    return to + NUMBERS


cdef public int64_t pf_state_streams(pf_state* s, char* to, int64_t room) noexcept nogil:
    """The bytes that the positions of all random streams take; written to `to` where `room` suffices."""
    cdef Container* c = &(<State*>s).own
    cdef Entry* e
    cdef int64_t n = MARK
    cdef int32_t i
    pthread_mutex_lock(&c.lock)
    for i in range(BUCKETS):
        e = c.table[i]
        while e != NULL:
            n += sizeof(uint32_t) + e.name.len + NUMBERS if e.kind == STREAM else 0
            e = e.next
    if n <= room:
        memcpy(to, STREAMS_MARK, MARK)
        to += MARK
        for i in range(BUCKETS):
            e = c.table[i]
            while e != NULL:
                if e.kind == STREAM:
                    to = write_stream(to, e)
                e = e.next
    pthread_mutex_unlock(&c.lock)
    return n


cdef void free_entries(Entry* all) noexcept nogil:
    cdef Entry* e
    while all != NULL:
        e = all
        all = e.next
        free(e)


cdef pf_status read_stream(const char** at, const char* end, Entry** out, pf_error* err) noexcept nogil:
    """One stream as an entry before `out`'s others."""
    cdef Entry* e = NULL
    cdef uint32_t length = 0
    cdef pf_str name
    if end - at[0] >= <int64_t>sizeof(length):
        memcpy(&length, at[0], sizeof(length))
    name.data = at[0] + sizeof(length)
    name.len = length
    if length == 0 or end - at[0] < <int64_t>sizeof(length) + name.len + NUMBERS:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"the state of random streams is cut off")
    if entry_new(&e, STREAM, name) == NULL:
        return no_memory(name, err)
    memcpy(&e.stream, name.data + name.len, NUMBERS)
    e.next = out[0]
    out[0] = e
    at[0] = name.data + name.len + NUMBERS
    return PF_OK


cdef Entry* exchange_streams(Container* c, Entry* fresh) noexcept nogil:
    """With the lock held: the streams that were there."""
    cdef Entry** at
    cdef Entry* e
    cdef Entry* old = NULL
    cdef int32_t i
    for i in range(BUCKETS):
        at = &c.table[i]
        while at[0] != NULL:
            e = at[0]
            if e.kind == STREAM:
                at[0] = e.next
                e.next = old
                old = e
            else:
                at = &e.next
    while fresh != NULL:
        e = fresh
        fresh = e.next
        e.sought = c.sought
        e.next = c.table[e.hash % BUCKETS]
        c.table[e.hash % BUCKETS] = e
    return old


cdef public pf_status pf_state_set_streams(pf_state* s, const char* data, int64_t n,
                                           int32_t (*known)(void*, pf_str) noexcept nogil,
                                           void* arg, pf_error* err) noexcept nogil:
    """All streams from what pf_state_streams wrote; those it does not name begin anew.  On an
    error nothing has changed.  known: is there a node of that name?  NULL: all are known."""
    cdef Container* c = &(<State*>s).own
    cdef Entry* streams = NULL
    cdef const char* end = data + n
    cdef bint is_closed
    if n < MARK or memcmp(data, STREAMS_MARK, MARK):
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"this is no state of random streams")
    data += MARK
    while data < end:
        if read_stream(&data, end, &streams, err) != PF_OK:
            break
        if known != NULL and not known(arg, streams.name):
            pf_error_set(err, PF_NOT_FOUND, b"there is no node '%.*s' whose random stream could be "
                         b"set", <int>(streams.name.len if streams.name.len < 400 else 400),
                         streams.name.data)
            break
    if data < end or err.code != PF_OK:
        free_entries(streams)
        return err.code
    pthread_mutex_lock(&c.lock)
    is_closed = c.closed
    if not is_closed:
        streams = exchange_streams(c, streams)
    pthread_mutex_unlock(&c.lock)
    free_entries(streams)
    return closed(pf_str_of(b"random streams"), err) if is_closed else PF_OK
