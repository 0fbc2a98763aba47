"""Part of state.pyx: resources, kernels' own objects, made once per name.

    (absent) -> MAKING [pf_state_resource: the first who asks] -> there [settle], or absent again where making failed;
    whoever asks meanwhile waits for `made`.
"""
cdef void resource_destroy(pf_object* o) noexcept nogil:
    cdef pf_resource* r = <pf_resource*>o
    if r.obj != NULL and r.type.unref != NULL and not pf_host_ended():
        r.type.unref(r.obj)
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
                                        const pf_type* type,
                                        pf_status (*make)(pf_ctx*, void*, void**) noexcept nogil,
                                        pf_ctx* ctx,
                                        void* arg, pf_resource** out, pf_error* err) noexcept nogil:
    cdef Container* c = container_of(s, container)
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
