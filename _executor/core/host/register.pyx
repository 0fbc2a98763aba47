# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
# cython: nonecheck=False, binding=False, overflowcheck=False
"""Takes a plugin in: checks its tables against kernel.h's rules of growth and against the
signatures.

Invariants
1. A struct of the plugin is read once, into a full-size copy: min(its size, ours), the rest zero.
2. A problem with one op, kernel or device leaves that one out and is reported; a problem with the
   plugin itself (version, critical flags, id, `start`) leaves the whole plugin out and is the
   function's status.
3. Ops come first: a plugin's kernels may implement its own ops.
4. Plugin functions (`start`, `count`) and the report callback are called with no lock held.

Threads: any; two plugins may register at once.
"""
from registry_h cimport *

cdef enum:
    KERNEL_CRITICAL = PF_KERNEL_STRIDED | PF_KERNEL_DEAD | PF_KERNEL_COLLECTIVE
    MAX_STATE = 1 << 30
    MAX_TABLE = 4096    # entries of one table, against a missing NULL at its end

cdef struct Registering:
    pf_plugin_entry* entry
    pf_problem_fn problem
    void* arg
    pf_error error      # of the object being checked
    pf_error* err       # of the plugin


cdef void report(Registering* r, const char* what, const char* name) noexcept nogil:
    """Tells `r.error` about one object, and forgets it."""
    cdef char text[4500]
    snprintf(text, sizeof(text), b"plugin '%s' (%s): %s '%.100s' left out: %s", r.entry.plugin.id,
             r.entry.origin, what,
             name, r.error.message)
    r.error.code = PF_OK
    if r.problem != NULL:
        r.problem(r.arg, text)


cdef pf_status wrong(Registering* r, const char* format, const char* a,
                     const char* b) noexcept nogil:
    cdef char text[2000]
    snprintf(text, sizeof(text), format, a, b)
    return pf_error_set(&r.error, PF_INVALID_ARGUMENT, b"%s", text)


cdef const char* or_unnamed(const char* text) noexcept nogil:
    if text == NULL:
        return b"(unnamed)"
    return text


cdef void* full_copy(Registering* r, const void* src, size_t own) noexcept nogil:
    """Rule 1 of growth.  NULL: no memory, or a size no struct can have."""
    cdef uint32_t size
    cdef void* copy
    if src == NULL:
        return NULL
    memcpy(&size, src, sizeof(size))
    if size < 8:
        return NULL
    copy = pf_arena_alloc(&r.entry.arena, own)
    if copy == NULL:
        return NULL
    memcpy(copy, src, size if size < own else own)
    size = <uint32_t>own
    memcpy(copy, &size, sizeof(size))
    return copy


cdef pf_status check_versions(Registering* r, uint32_t flags, uint32_t known,
                              uint32_t min_minor) noexcept nogil:
    """Rules 2 and 4: unknown critical flags, and the minor version the object needs."""
    cdef uint32_t unknown = flags & <uint32_t>PF_FLAG_CRITICAL_MASK & ~known
    if min_minor > PF_ABI_MINOR:
        return pf_error_set(&r.error, PF_FAILED_PRECONDITION, b"needs v%d.%u, this host offers "
                            b"v%d.%d; update pyflow",
                            PF_ABI_MAJOR, min_minor, PF_ABI_MAJOR, PF_ABI_MINOR)
    if unknown:
        return pf_error_set(&r.error, PF_FAILED_PRECONDITION, b"has critical flag 0x%x, which "
                            b"this host (v%d.%d) "
                            b"does not know; update pyflow", unknown, PF_ABI_MAJOR, PF_ABI_MINOR)
    return PF_OK


# ---------------------------------------------------------------- ops
cdef pf_status check_op_name(Registering* r, const char* name) noexcept nogil:
    """Ops outside pyflow carry a prefix, so that two vendors' ops cannot meet; pyflow's own names
    stay its own."""
    if pf_is_own(r.entry.plugin.id):
        return PF_OK
    if name[0] == b'_' or not strncmp(name, b"pyflow.", 7):
        return wrong(r, b"names of ops that begin with '_' or 'pyflow.' are pyflow's own, got "
                     b"'%s'%s", name, b"")
    if strchr(name, b'.') != NULL:
        return PF_OK                    # a known one: with the known signature only
    if pf_op_find(pf_str_of(name)) != NULL:
        return wrong(r, b"'%s' is pyflow's own op; a plugin brings kernels for it without "
                     b"declaring it%s", name, b"")
    return wrong(r, b"an op outside pyflow carries a prefix and a dot, such as 'acme.%s'%s", name,
                 b"")


cdef pf_status register_op(Registering* r, const pf_op* source) noexcept nogil:
    cdef pf_op* o = <pf_op*>full_copy(r, source, sizeof(pf_op))
    if o == NULL or o.name == NULL or o.sig == NULL:
        return wrong(r, b"the struct is too small, or has no name or signature%s%s", b"", b"")
    if check_versions(r, o.flags, 0, o.min_minor) != PF_OK or check_op_name(r, o.name) != PF_OK:
        return r.error.code
    return pf_op_register(o.name, o.sig, <int32_t>o.flags, o.infer, o.doc, r.entry.plugin.id,
                          &r.error)


cdef void register_ops(Registering* r) noexcept nogil:
    cdef const pf_op* const* o = r.entry.plugin.ops
    cdef int32_t i
    for i in range(MAX_TABLE):
        if o == NULL or o[i] == NULL:
            break
        if register_op(r, o[i]) != PF_OK:
            report(r, b"op", or_unnamed(o[i].name if o[i].size >= 16 else NULL))


# ---------------------------------------------------------------- constraints: "T=float|double"
cdef int32_t attr_index(const pf_op_def* op, pf_str name) noexcept nogil:
    cdef int32_t i
    for i in range(op.n_attrs):
        if pf_str_eq(op.attrs[i].name, name):
            return i
    return -1


cdef pf_str next_word(const char** at) noexcept nogil:
    """Skips spaces, takes up to a separator, skips spaces."""
    cdef pf_str s
    while at[0][0] == b' ':
        at[0] += 1
    s.data = at[0]
    while at[0][0] and strchr(b" =|,", at[0][0]) == NULL:
        at[0] += 1
    s.len = at[0] - s.data
    while at[0][0] == b' ':
        at[0] += 1
    return s


cdef pf_status parse_constraint(Registering* r, const pf_op_def* op, const char** at,
                                pf_constraint* c) noexcept nogil:
    cdef int32_t types[32]
    cdef int32_t* kept
    cdef int32_t i
    cdef pf_str name = next_word(at)
    c.attr = pf_arena_str(&r.entry.arena, name)
    i = attr_index(op, name)
    if i < 0 or op.attrs[i].kind & ~PF_ATTR_LIST != PF_ATTR_TYPE:
        return wrong(r, b"`where` names '%s', which is no type attribute of the op. "
                     b"Signature: %.900s",
                     c.attr.data, op.sig.data)
    if at[0][0] != b'=':
        return wrong(r, b"`where` needs '=' after '%s', as in \"T=float|double, Tidx=int32\"%s",
                     c.attr.data, b"")
    while at[0][0] == b'=' or at[0][0] == b'|':
        at[0] += 1
        name = next_word(at)
        types[c.n] = pf_type_from_name(name)
        if types[c.n] == 0:
            return wrong(r, b"`where` gives '%s' an unknown element type at '%.40s'", c.attr.data,
                         name.data)
        c.n += 1
        if c.n == 32:
            return wrong(r, b"`where` lists too many types for '%s'%s", c.attr.data, b"")
    kept = <int32_t*>pf_arena_alloc(&r.entry.arena, c.n * sizeof(int32_t) + 1)
    if kept != NULL:
        memcpy(kept, types, c.n * sizeof(int32_t))
    c.types = kept
    return PF_OK if kept != NULL else PF_RESOURCE_EXHAUSTED


cdef pf_status parse_where(Registering* r, const pf_op_def* op, const char* text,
                           pf_where** out) noexcept nogil:
    cdef pf_constraint found[16]
    cdef pf_where* w
    cdef const char* at = text
    out[0] = NULL
    while text != NULL and (at[0] == b' '):
        at += 1
    if text == NULL or not at[0]:
        return PF_OK
    w = <pf_where*>pf_arena_alloc(&r.entry.arena, sizeof(pf_where))
    if w == NULL:
        return PF_RESOURCE_EXHAUSTED
    memset(found, 0, sizeof(found))
    w.text = text
    while True:
        if w.n == 16:
            return wrong(r, b"`where` has too many constraints: '%s'%s", text, b"")
        if parse_constraint(r, op, &at, &found[w.n]) != PF_OK:
            return r.error.code if r.error.code else PF_RESOURCE_EXHAUSTED
        w.n += 1
        if at[0] != b',':
            break
        at += 1
    if at[0]:
        return wrong(r, b"`where` ends with '%s'; expected ',' or the end in '%s'", at, text)
    w.all = <pf_constraint*>pf_arena_alloc(&r.entry.arena, w.n * sizeof(pf_constraint))
    if w.all == NULL:
        return PF_RESOURCE_EXHAUSTED
    memcpy(w.all, found, w.n * sizeof(pf_constraint))
    out[0] = w
    return PF_OK


# ---------------------------------------------------------------- kernels
cdef int32_t kind_size(int32_t kind) noexcept nogil:
    """Of the C type of an attribute; 0: no such kind."""
    cdef int32_t base = kind & ~PF_ATTR_LIST
    if base < PF_ATTR_INT or base > PF_ATTR_FUNC:
        return 0
    if kind & PF_ATTR_LIST:
        return sizeof(pf_list)
    if kind == PF_ATTR_INT or kind == PF_ATTR_FLOAT:
        return 8
    if kind == PF_ATTR_BOOL or kind == PF_ATTR_TYPE:
        return 4
    if kind == PF_ATTR_SHAPE:
        return sizeof(pf_shape)
    return sizeof(pf_const) if kind == PF_ATTR_TENSOR else sizeof(pf_str)


cdef pf_status check_attr(Registering* r, const pf_op_def* op, const pf_kernel* k,
                          const pf_attr* a) noexcept nogil:
    cdef int32_t i, size, align
    if a == NULL or a.name == NULL:
        return wrong(r, b"an attribute's struct is too small, or has no name%s%s", b"", b"")
    if check_versions(r, a.flags, 0, 0) != PF_OK:
        return r.error.code
    size = kind_size(a.kind)
    if size == 0:
        return wrong(r, b"attribute '%s' has an unknown kind%s", a.name, b"")
    i = attr_index(op, pf_str_of(a.name))
    if i < 0 and not a.flags & PF_ATTR_OPTIONAL:
        return wrong(r, b"attribute '%s' is not declared by the op. Signature: %.900s", a.name,
                     op.sig.data)
    if i >= 0 and op.attrs[i].kind != a.kind:
        return wrong(r, b"attribute '%s' is %s in the op's signature, the kernel takes "
                     b"another kind", a.name,
                     pf_attr_kind_name(op.attrs[i].kind))
    align = 4 if size == 4 else 8
    if (a.offset < 0 or a.offset % align
            or <uint64_t>a.offset + <uint64_t>size > k.state_size):
        return pf_error_set(&r.error, PF_INVALID_ARGUMENT, b"attribute '%s' of %d bytes at offset "
                            b"%d is misaligned or "
                            b"beyond the state's %ju bytes", a.name, size, a.offset,
                            <uintmax_t>k.state_size)
    return PF_OK


cdef bint is_arg(const pf_arg_def* defs, int32_t n, const char* name) noexcept nogil:
    cdef int32_t i
    for i in range(n):
        if pf_str_is(defs[i].name, name):
            return True
    return False


cdef pf_status check_arg(Registering* r, const pf_op_def* op, const pf_arg* a) noexcept nogil:
    if a == NULL or a.name == NULL:
        return wrong(r, b"an argument's struct is too small, or has no name%s%s", b"", b"")
    if check_versions(r, a.flags, 0, 0) != PF_OK:
        return r.error.code
    if not is_arg(op.ins, op.n_in, a.name) and not is_arg(op.out, op.n_out, a.name):
        return wrong(r, b"argument '%s' is not declared by the op. Signature: %.900s", a.name,
                     op.sig.data)
    if a.mem < PF_MEM_DEVICE or a.mem > PF_MEM_ANY or a.reuse < 0:
        return wrong(r, b"argument '%s' has an unknown memory kind or a negative reuse%s", a.name,
                     b"")
    return PF_OK


cdef int32_t table_length(const void** table) noexcept nogil:
    cdef int32_t n = 0
    while table != NULL and n < MAX_TABLE and table[n] != NULL:
        n += 1
    return n


cdef pf_status copy_attrs(Registering* r, const pf_op_def* op, pf_kernel* k) noexcept nogil:
    cdef int32_t i, n = table_length(<const void**>k.attrs)
    cdef const pf_attr** copies = <const pf_attr**>pf_arena_alloc(&r.entry.arena,
                                                                  (n + 1) * sizeof(void*))
    if copies == NULL:
        return wrong(r, b"no memory%s%s", b"", b"")
    for i in range(n):
        copies[i] = <const pf_attr*>full_copy(r, k.attrs[i], sizeof(pf_attr))
        if check_attr(r, op, k, copies[i]) != PF_OK:
            return r.error.code
    k.attrs = copies
    return PF_OK


cdef pf_status copy_args(Registering* r, const pf_op_def* op, pf_kernel* k) noexcept nogil:
    cdef int32_t i, n = table_length(<const void**>k.args)
    cdef const pf_arg** copies = <const pf_arg**>pf_arena_alloc(&r.entry.arena,
                                                                (n + 1) * sizeof(void*))
    if copies == NULL:
        return wrong(r, b"no memory%s%s", b"", b"")
    for i in range(n):
        copies[i] = <const pf_arg*>full_copy(r, k.args[i], sizeof(pf_arg))
        if check_arg(r, op, copies[i]) != PF_OK:
            return r.error.code
    k.args = copies
    return PF_OK


cdef int32_t has_needs(Registering* r, const char* needs) noexcept nogil:
    """1: the processor has all of them; 0: not; -1: an unknown name, reported."""
    cdef char name[32]
    cdef int32_t has, all = 1
    cdef size_t n
    while needs != NULL and needs[0]:
        while needs[0] == b' ' or needs[0] == b',':
            needs += 1
        n = 0
        while needs[0] and needs[0] != b',' and needs[0] != b' ' and n < sizeof(name) - 1:
            name[n] = needs[0]
            needs += 1
            n += 1
        name[n] = 0
        has = pf_isa_has(name) if n else 1
        if has < 0:
            wrong(r, b"needs '%s', an instruction set this host does not know%s", name, b"")
            return -1
        all &= has
    return all


cdef pf_status check_kernel(Registering* r, pf_kernel* k, const pf_op_def** op) noexcept nogil:
    if k == NULL or k.op == NULL or k.device == NULL or k.compute == NULL:
        return wrong(r, b"the struct is too small, or has no op, device or compute%s%s", b"", b"")
    if check_versions(r, k.flags, KERNEL_CRITICAL, k.min_minor) != PF_OK:
        return r.error.code
    op[0] = pf_op_find(pf_str_of(k.op))
    if op[0] == NULL:
        return wrong(r, b"no op '%s' is known; declare it in the plugin's `ops`%s", k.op, b"")
    if k.state_size > MAX_STATE:
        return wrong(r, b"its state is larger than 1 GB%s%s", b"", b"")
    if copy_attrs(r, op[0], k) != PF_OK:
        return r.error.code
    return copy_args(r, op[0], k)


cdef pf_status register_kernel(Registering* r, const pf_kernel* source) noexcept nogil:
    cdef pf_kernel* k = <pf_kernel*>full_copy(r, source, sizeof(pf_kernel))
    cdef pf_kernel_entry* e
    cdef const pf_op_def* op = NULL
    cdef pf_where* where
    cdef int32_t has
    if check_kernel(r, k, &op) != PF_OK or parse_where(r, op, k.where, &where) != PF_OK:
        return r.error.code if r.error.code else wrong(r, b"no memory%s%s", b"", b"")
    has = has_needs(r, k.needs)
    if has <= 0:
        return r.error.code             # PF_OK: merely not offered on this processor
    e = <pf_kernel_entry*>pf_arena_alloc(&r.entry.arena, sizeof(pf_kernel_entry))
    if e == NULL:
        return wrong(r, b"no memory%s%s", b"", b"")
    e.kernel = k
    e.plugin_id = r.entry.plugin.id
    e.origin = r.entry.origin
    e.where = where
    e.foreign = not pf_is_own(e.plugin_id)
    if pf_registry_add_kernel(e) != PF_OK:
        return wrong(r, b"no memory%s%s", b"", b"")
    return PF_OK


cdef void register_kernels(Registering* r) noexcept nogil:
    cdef const pf_kernel* const* k = r.entry.plugin.kernels
    cdef int32_t i = 0
    while k != NULL and k[i] != NULL and i < 16 * MAX_TABLE:
        if register_kernel(r, k[i]) != PF_OK:
            report(r, b"kernel for op", or_unnamed(k[i].op if k[i].size >= 16 else NULL))
        i += 1


# ---------------------------------------------------------------- devices
cdef pf_status register_device(Registering* r, const pf_device* source) noexcept nogil:
    cdef pf_device* d = <pf_device*>full_copy(r, source, sizeof(pf_device))
    cdef int32_t i, n
    cdef char why[256]
    if d == NULL or d.type == NULL or not d.type[0] or strlen(d.type) > 23:
        return wrong(r, b"the struct is too small, or its type is empty or over 23 bytes%s%s",
                     b"", b"")
    if check_versions(r, d.flags, 0, 0) != PF_OK:
        return r.error.code
    if not strcmp(d.type, b"CPU"):
        return wrong(r, b"device type 'CPU' is the host's own; choose another%s%s", b"", b"")
    if d.open == NULL or (d.alloc != NULL and (d.free == NULL or d.copy == NULL)):
        return wrong(r, b"device type '%s' needs open, and with alloc also free and copy%s", d.type,
                     b"")
    if d.stream_new != NULL and (d.event_record == NULL or d.event_wait == NULL
                                 or d.event_del == NULL or d.when == NULL):
        return wrong(r, b"device type '%s' has streams and needs event_record, event_wait, "
                     b"event_del and when%s", d.type, b"")
    n = d.count(d.self) if d.count != NULL else 1
    if n <= 0 and d.info != NULL:
        why[0] = 0
        if d.info(NULL, b"absent", why, sizeof(why)) == PF_OK and why[0]:
            why[sizeof(why) - 1] = 0
            return pf_registry_note_absent(d.type, why)
    for i in range(n if n < 64 else <int32_t>64):
        if pf_registry_add_device(d, i) != PF_OK:
            return wrong(r, b"device type '%s' is taken by another plugin, or there are "
                         b"too many%s", d.type, b"")
    return PF_OK


cdef void register_devices(Registering* r) noexcept nogil:
    cdef const pf_device* const* d = r.entry.plugin.devices
    cdef int32_t i
    for i in range(MAX_TABLE):
        if d == NULL or d[i] == NULL:
            break
        if register_device(r, d[i]) != PF_OK:
            report(r, b"device", or_unnamed(d[i].type if d[i].size >= 16 else NULL))


# ---------------------------------------------------------------- compiler
cdef pf_status check_compiler(Registering* r, const pf_compiler* k) noexcept nogil:
    cdef pf_compiler_entry* e
    if (k == NULL or k.device == NULL or k.supports == NULL or k.compile == NULL
            or k.run == NULL):
        return wrong(r, b"the struct is too small, or has no device, supports, compile or "
                     b"run%s%s", b"", b"")
    if check_versions(r, k.flags, 0, 0) != PF_OK:
        return r.error.code
    e = <pf_compiler_entry*>pf_arena_alloc(&r.entry.arena, sizeof(pf_compiler_entry))
    if e == NULL:
        return wrong(r, b"no memory%s%s", b"", b"")
    e.compiler = k[0]
    e.plugin_id = r.entry.plugin.id
    if pf_registry_add_compiler(e) != PF_OK:
        return wrong(r, b"there are too many compilers%s%s", b"", b"")
    return PF_OK


cdef void register_compiler(Registering* r) noexcept nogil:
    cdef const void* offered = NULL
    cdef const char* id = b"pyflow.compiler/1"
    if r.entry.plugin.extension != NULL:
        offered = r.entry.plugin.extension(id)
    if offered == NULL:
        return
    if check_compiler(r, <const pf_compiler*>full_copy(r, offered, sizeof(pf_compiler))) != PF_OK:
        report(r, b"extension", id)


# ---------------------------------------------------------------- the plugin
cdef pf_status refuse(Registering* r) noexcept nogil:
    cdef pf_status code = r.error.code
    cdef const char* id = or_unnamed(r.entry.plugin.id)
    pf_error_set(r.err, code, b"plugin '%.100s' (%s): %s", id, r.entry.origin, r.error.message)
    return code


cdef pf_status check_plugin(Registering* r) noexcept nogil:
    cdef pf_plugin* p = &r.entry.plugin
    if p.id == NULL or not p.id[0]:
        return wrong(r, b"it has no id; a reverse domain name such as 'com.acme.leaky' is "
                     b"expected%s%s", b"", b"")
    if p.abi_major != PF_ABI_MAJOR:
        return pf_error_set(&r.error, PF_FAILED_PRECONDITION, b"built for ABI v%u.%u, this host "
                            b"offers v%d.%d; "
                            b"install a build of the plugin for it", p.abi_major, p.abi_minor,
                            PF_ABI_MAJOR,
                            PF_ABI_MINOR)
    return check_versions(r, p.flags, 0, p.min_minor)


cdef pf_status start(Registering* r) noexcept nogil:
    """Rule: once per host, before any init; an error quarantines the plugin."""
    cdef pf_status s = PF_OK
    if r.entry.plugin.start != NULL:
        s = r.entry.plugin.start(pf_host_table())
    if s != PF_OK:
        pf_error_set(&r.error, s if s > 0 else PF_INTERNAL, b"its start function returned status "
                     b"%d; the plugin is "
                     b"not used", s)
    return s


cdef pf_plugin_entry* entry_new(const pf_plugin* p, const char* origin) noexcept nogil:
    cdef pf_plugin_entry* e = <pf_plugin_entry*>calloc(1, sizeof(pf_plugin_entry))
    if e == NULL:
        return NULL
    memcpy(&e.plugin, p, p.size if p.size < sizeof(pf_plugin) else sizeof(pf_plugin))
    e.plugin.size = sizeof(pf_plugin)
    e.origin = pf_arena_str(&e.arena, pf_str_of(origin)).data if origin != NULL else NULL
    if e.origin == NULL:
        e.origin = b"built in"
    return e


cdef void entry_free(pf_plugin_entry* e) noexcept nogil:
    pf_arena_free(&e.arena)
    free(e)


cdef public pf_status pf_plugin_register(const pf_plugin* p, const char* origin,
                                         void (*problem)(void*, const char*) noexcept nogil,
                                         void* arg,
                                         pf_error* err) noexcept nogil:
    cdef Registering r
    cdef pf_status s
    if p == NULL or p.size < 16:
        return pf_error_set(err, PF_INVALID_ARGUMENT, b"plugin from %s: its entry function "
                            b"returned no usable "
                            b"pf_plugin", or_unnamed(origin))
    memset(&r, 0, sizeof(r))
    r.entry = entry_new(p, origin)
    if r.entry == NULL:
        return pf_error_set(err, PF_RESOURCE_EXHAUSTED, b"no memory for a plugin")
    r.problem = problem
    r.arg = arg
    r.err = err
    if check_plugin(&r) != PF_OK or pf_registry_claim(r.entry, &r.error) != PF_OK:
        s = refuse(&r)
        entry_free(r.entry)
        return s
    if start(&r) != PF_OK:
        s = refuse(&r)
        pf_registry_forget(r.entry)
        entry_free(r.entry)
        return s
    register_ops(&r)
    register_devices(&r)
    register_kernels(&r)
    register_compiler(&r)
    return PF_OK
