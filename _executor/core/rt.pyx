# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, nonecheck=False, binding=False, overflowcheck=False
"""The embedding API (pyflow/runtime.h): a frozen GraphDef run from C.

A graph from a file has placeholders and no _Arg or _Retval.  `rewrite` makes it what the compiler wants: fed nodes become
_Arg, each fetch gets a _Retval, and what no fetch needs is left out.
"""
from step_h cimport *

cdef extern from "<dlfcn.h>" nogil:
    void* dlopen(const char*, int) noexcept
    void* dlsym(void*, const char*) noexcept
    const char* dlerror() noexcept
    int RTLD_NOW, RTLD_LOCAL

cdef extern from "<stdlib.h>" nogil:
    int atexit(void (*)() noexcept nogil) noexcept

cdef extern from "<unistd.h>" nogil:
    int getpid() noexcept

cdef enum:
    PATIENCE_NS = 2000000000    # for steps that still run at the end

cdef extern from "pyflow/runtime.h" nogil:
    ctypedef struct pf_model

cdef extern from *:
    """
    #include <stdio.h>
    #include <dlfcn.h>
    #include "pyflow/runtime.h"
    typedef const char *const *pf_names;
    typedef const DLTensor *const *pf_inputs;
    struct pf_model { pf_plan *plan; pf_state *state; pf_pool *pool; };
    typedef const pf_plugin *(*pf_entry_fn)(const pf_host *);
    static inline pf_entry_fn pf_as_entry(void *p) { union { void *p; pf_entry_fn f; } u; u.p = p; return u.f; }
    static inline void *pf_read_file(const char *path, int64_t *size) {
      FILE *f = fopen(path, "rb");
      char *data = NULL;
      if (!f) return NULL;
      if (!fseek(f, 0, SEEK_END)) {
        long n = ftell(f);
        if (n >= 0 && n < INT32_MAX && !fseek(f, 0, SEEK_SET) && (data = (char *)malloc((size_t)n + 1))) {
          if (fread(data, 1, (size_t)n, f) != (size_t)n) { free(data); data = NULL; }
          *size = n;
        }
      }
      fclose(f);
      return data;
    }
    """
    ctypedef const char** pf_names
    ctypedef const DLTensor** pf_inputs
    ctypedef const pf_plugin* (*pf_entry_fn)(const pf_host*) noexcept nogil
    pf_entry_fn pf_as_entry(void*) noexcept nogil
    void* pf_read_file(const char*, int64_t*) noexcept nogil
    cdef struct model "pf_model":
        pf_plan* plan
        pf_state* state
        pf_pool* pool

cdef pf_a32 core_registered

cdef pf_status say(char* err, int64_t n, pf_status code, const char* text) noexcept nogil:
    if err != NULL and n > 0:
        pf_copy_text(err, <size_t>n, text, <int64_t>strlen(text))
    return code

cdef pf_status tell(char* err, int64_t n, pf_error* e) noexcept nogil:
    if err != NULL and n > 0:
        if e.node[0]:
            snprintf(err, <size_t>n, b"%s [node %s, op %s]", e.message, e.node, e.op)
        else:
            snprintf(err, <size_t>n, b"%s", e.message)
    return e.code

cdef void clear(pf_error* e) noexcept nogil:
    pf_error_clear(e)

cdef void log_problem(void* arg, const char* text) noexcept nogil:
    pf_host_table().log(PF_LOG_WARNING, text, <int64_t>strlen(text))

cdef int32_t home               # the process that loaded plugins

cdef public void pf_rt_end() noexcept nogil:
    """Not in a child that was forked off: threads and devices are the parent's."""
    if home == getpid() and pf_watch_stop(PATIENCE_NS):
        pf_plugins_stop()
        pf_keeper_stop()

cdef pf_status take_plugin(const pf_plugin* p, const char* origin, char* err, int64_t err_len) noexcept nogil:
    global home
    cdef pf_error e
    clear(&e)
    home = getpid()
    atexit(pf_rt_end)           # after each: before what the library itself does at exit
    if pf_a32_cas(&core_registered, 0, 1):
        pf_plugin_register(pf_core_plugin(), b"pyflow", log_problem, NULL, &e)
    if p == NULL:
        return say(err, err_len, PF_FAILED_PRECONDITION, b"the plugin refused to start: its entry returned NULL")
    if pf_plugin_register(p, origin, log_problem, NULL, &e):
        return tell(err, err_len, &e)
    return PF_OK

cdef public const char* pf_rt_version() noexcept nogil:
    return pf_host_table().name

cdef public pf_status pf_rt_plugin(const char* path, char* err, int64_t err_len) noexcept nogil:
    cdef void* lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)
    cdef void* entry
    if lib == NULL:
        return say(err, err_len, PF_NOT_FOUND, dlerror())
    entry = dlsym(lib, b"pyflow_plugin_v1")
    if entry == NULL:
        return say(err, err_len, PF_INVALID_ARGUMENT, b"the library exports no pyflow_plugin_v1: not a pyflow plugin")
    return take_plugin(pf_as_entry(entry)(pf_host_table()), path, err, err_len)

# ---------------------------------------------------------------- rewriting
cdef int32_t find_node(pf_graph* g, pf_str name) noexcept nogil:
    cdef int32_t i
    for i in range(g.n_nodes):
        if pf_str_eq(g.nodes[i].name, name):
            return i
    return -1

cdef pf_node_attr* new_attrs(pf_graph* g, int32_t n) noexcept nogil:
    return <pf_node_attr*>pf_arena_alloc(&g.arena, sizeof(pf_node_attr) * <uint64_t>n)

cdef pf_status make_arg(pf_graph* g, const char* name, int32_t index, pf_error* e) noexcept nogil:
    cdef pf_str plain = pf_str_of(name)
    cdef int32_t i
    cdef const pf_attr_value* t
    cdef const pf_attr_value* s
    cdef pf_node_attr* a
    if plain.len > 2 and plain.data[plain.len - 2] == c':' and plain.data[plain.len - 1] == c'0':
        plain.len -= 2
    i = find_node(g, plain)
    if i < 0:
        return pf_error_set(e, PF_NOT_FOUND, b"the graph has no node '%s' to feed", name)
    t = pf_node_attr_find(g.nodes + i, b"dtype")
    if t == NULL:
        t = pf_node_attr_find(g.nodes + i, b"T")
    s = pf_node_attr_find(g.nodes + i, b"shape")
    a = new_attrs(g, 3)
    if t == NULL or a == NULL:
        return pf_error_set(e, PF_INVALID_ARGUMENT, b"node '%s' cannot be fed: its type is not stated", name)
    a[0].name = pf_str_of(b"T")
    a[0].value.kind = PF_ATTR_TYPE
    a[0].value.type = t.type
    a[1].name = pf_str_of(b"index")
    a[1].value.kind = PF_ATTR_INT
    a[1].value.i = index
    g.nodes[i].n_attrs = 2
    if s != NULL and s.kind == PF_ATTR_SHAPE:
        a[2].name = pf_str_of(b"shape")
        a[2].value = s[0]
        g.nodes[i].n_attrs = 3
    g.nodes[i].attrs = a
    g.nodes[i].op = pf_str_of(pf_name_arg)
    g.nodes[i].n_in = 0
    g.nodes[i].n_ctl = 0
    return PF_OK

cdef pf_status type_of_output(pf_graph* g, int32_t node, int32_t output, int32_t* type, pf_error* e) noexcept nogil:
    cdef pf_signature sig
    cdef const pf_op_def* op = pf_op_find(g.nodes[node].op)
    if op == NULL:
        return pf_error_set(e, PF_NOT_FOUND, b"unknown op %.*s of node '%.*s'", <int>min(g.nodes[node].op.len, 80),
                            g.nodes[node].op.data, <int>min(g.nodes[node].name.len, 200), g.nodes[node].name.data)
    if pf_node_resolve(g, g.nodes + node, op, &sig, e):
        return e.code
    if output < 0 or output >= sig.n_out:
        return pf_error_set(e, PF_INVALID_ARGUMENT, b"node '%.*s' has %d outputs, %d was asked for",
                            <int>min(g.nodes[node].name.len, 200), g.nodes[node].name.data, sig.n_out, output)
    type[0] = sig.out_type[output]
    return PF_OK

cdef pf_status make_retval(pf_graph* g, pf_node* at, const char* fetch, int32_t index, pf_error* e) noexcept nogil:
    cdef const char* colon = strchr(fetch, c':')
    cdef pf_str name = pf_str_of(fetch)
    cdef int32_t i, output = 0, type = 0
    cdef pf_node_attr* a = new_attrs(g, 2)
    cdef char text[32]
    if colon != NULL:
        name.len = colon - fetch
        output = <int32_t>strtoll(colon + 1, NULL, 10)
    i = find_node(g, name)
    if i < 0:
        return pf_error_set(e, PF_NOT_FOUND, b"the graph has no node '%s' to fetch", fetch)
    if type_of_output(g, i, output, &type, e):
        return e.code
    memset(at, 0, sizeof(pf_node))
    at.inputs = <pf_input*>pf_arena_alloc(&g.arena, sizeof(pf_input))
    snprintf(text, 32, b"_retval_%d", index)
    at.name = pf_arena_str(&g.arena, pf_str_of(text))
    if a == NULL or at.inputs == NULL:
        return pf_error_set(e, PF_RESOURCE_EXHAUSTED, b"out of memory")
    at.op = pf_str_of(pf_name_retval)
    at.device = g.nodes[i].device
    at.n_in = 1
    at.inputs[0].node = i
    at.inputs[0].output = output
    a[0].name = pf_str_of(b"T")
    a[0].value.kind = PF_ATTR_TYPE
    a[0].value.type = type
    a[1].name = pf_str_of(b"index")
    a[1].value.kind = PF_ATTR_INT
    a[1].value.i = index
    at.attrs = a
    at.n_attrs = 2
    return PF_OK

cdef pf_status prune(pf_graph* g, pf_error* e) noexcept nogil:
    """Keeps what a _Retval or _Arg needs; indices are renumbered."""
    cdef int32_t* place = <int32_t*>pf_arena_alloc(&g.arena, sizeof(int32_t) * <uint64_t>(g.n_nodes + 1))
    cdef int32_t* stack = <int32_t*>pf_arena_alloc(&g.arena, sizeof(int32_t) * <uint64_t>(g.n_nodes + 1))
    cdef int32_t n = 0, i, k, src, kept = 0
    if place == NULL or stack == NULL:
        return pf_error_set(e, PF_RESOURCE_EXHAUSTED, b"out of memory")
    for i in range(g.n_nodes):
        if pf_str_is(g.nodes[i].op, pf_name_retval) or pf_str_is(g.nodes[i].op, pf_name_arg):
            place[i] = 1
            stack[n] = i
            n += 1
    while n:
        n -= 1
        i = stack[n]
        for k in range(g.nodes[i].n_in + g.nodes[i].n_ctl):
            src = g.nodes[i].inputs[k].node
            if not place[src]:
                place[src] = 1
                stack[n] = src
                n += 1
    for i in range(g.n_nodes):
        if place[i]:
            place[i] = kept
            g.nodes[kept] = g.nodes[i]
            kept += 1
    g.n_nodes = kept
    for i in range(kept):
        for k in range(g.nodes[i].n_in + g.nodes[i].n_ctl):
            g.nodes[i].inputs[k].node = place[g.nodes[i].inputs[k].node]
    return PF_OK

cdef int32_t count(pf_names names) noexcept nogil:
    cdef int32_t n = 0
    if names != NULL:
        while names[n] != NULL:
            n += 1
    return n

cdef pf_status rewrite(pf_graph* g, pf_names feeds, pf_names fetches,
                       pf_error* e) noexcept nogil:
    cdef int32_t n_feeds = count(feeds), n_fetches = count(fetches), k
    cdef pf_node* nodes = <pf_node*>pf_arena_alloc(&g.arena, sizeof(pf_node) * <uint64_t>(g.n_nodes + n_fetches + 1))
    if nodes == NULL:
        return pf_error_set(e, PF_RESOURCE_EXHAUSTED, b"out of memory")
    memcpy(nodes, g.nodes, sizeof(pf_node) * g.n_nodes)
    g.nodes = nodes
    for k in range(n_feeds):
        if make_arg(g, feeds[k], k, e):
            return e.code
    for k in range(n_fetches):
        if make_retval(g, nodes + g.n_nodes, fetches[k], k, e):
            return e.code
        g.n_nodes += 1
    return prune(g, e)

# ---------------------------------------------------------------- models
cdef public pf_status pf_rt_load(const void* data, int64_t size, pf_names feeds, pf_names fetches, int32_t threads, pf_model** out, char* err, int64_t err_len) noexcept nogil:
    cdef pf_error e
    cdef pf_graph* g = NULL
    cdef model* m
    cdef pf_plan_options o
    clear(&e)
    out[0] = NULL
    memset(&o, 0, sizeof(o))
    if pf_graph_read(data, size, &g, &e):
        return tell(err, err_len, &e)
    if rewrite(g, feeds, fetches, &e):
        pf_graph_free(g)
        return tell(err, err_len, &e)
    m = <model*>calloc(1, sizeof(model))
    if m != NULL:
        m.state = pf_state_new(b"model", NULL, NULL)
        if threads > 0:
            m.pool = pf_pool_new(threads)
        else:
            m.pool = pf_default_pool()
            if m.pool != NULL:
                pf_pool_ref(m.pool)
    if m == NULL or m.state == NULL or m.pool == NULL:
        pf_graph_free(g)
        pf_rt_free(<pf_model*>m)
        return say(err, err_len, PF_RESOURCE_EXHAUSTED, b"out of memory")
    o.threads = m.pool.n
    if pf_plan_compile(g, NULL, 0, m.state, m.pool, &o, &m.plan, &e):
        pf_rt_free(<pf_model*>m)
        return tell(err, err_len, &e)
    out[0] = <pf_model*>m
    return PF_OK

cdef public pf_status pf_rt_load_file(const char* path, pf_names feeds, pf_names fetches, int32_t threads, pf_model** out, char* err,
                                      int64_t err_len) noexcept nogil:
    cdef int64_t size = 0
    cdef void* data = pf_read_file(path, &size)
    cdef pf_status st
    if data == NULL:
        return say(err, err_len, PF_NOT_FOUND, b"the graph file cannot be read")
    st = pf_rt_load(data, size, feeds, fetches, threads, out, err, err_len)
    free(data)
    return st

cdef DLManagedTensorVersioned* own_copy(pf_tensor* take) noexcept nogil:
    cdef pf_tensor* t = pf_tensor_copy(take)
    pf_tensor_unref(take)
    return &t.m if t != NULL else NULL

cdef bint right_size(DLDataType given, DLDataType wanted) noexcept nogil:
    """Rule of runtime.h: a dtype of the right size; one that is not filled in counts as right."""
    return given.bits == 0 or given.bits * max(<int>given.lanes, 1) == wanted.bits * wanted.lanes

cdef pf_status refuse_input(model* m, uint32_t k, DLDataType given, char* err, int64_t err_len) noexcept nogil:
    cdef char text[300]
    cdef pf_str name = m.plan.arg_name[k]
    snprintf(text, 300, b"input %u ('%.*s') is %s, elements of %d bits; its dtype says %d bits", k, <int>min(name.len, 100),
             name.data, pf_type_name(m.plan.arg_type[k]), <int>pf_type_dl(m.plan.arg_type[k]).bits, <int>given.bits)
    return say(err, err_len, PF_INVALID_ARGUMENT, text)

cdef public pf_status pf_rt_run(pf_model* handle, pf_inputs inputs, DLManagedTensorVersioned** outputs,
                                char* err, int64_t err_len) noexcept nogil:
    cdef model* m = <model*>handle
    cdef pf_plan* p = m.plan
    cdef pf_tensor** args = <pf_tensor**>calloc(p.n_args + p.n_rets + 1, sizeof(void*))
    cdef pf_tensor** rets
    cdef pf_run_options o
    cdef pf_error e
    cdef uint32_t k, i
    clear(&e)
    memset(&o, 0, sizeof(o))
    if args == NULL:
        return say(err, err_len, PF_RESOURCE_EXHAUSTED, b"out of memory")
    rets = args + p.n_args
    for k in range(p.n_args):
        if not right_size(inputs[k].dtype, pf_type_dl(p.arg_type[k])):
            free(args)
            return refuse_input(m, k, inputs[k].dtype, err, err_len)
    for k in range(p.n_args):
        args[k] = pf_tensor_wrap(p.arg_type[k], inputs[k].shape, inputs[k].ndim,
                                 <char*>inputs[k].data + inputs[k].byte_offset, PF_T_BORROWED, NULL, NULL)
        if args[k] == NULL:
            for i in range(k):
                pf_tensor_unref(args[i])
            free(args)
            return say(err, err_len, PF_INVALID_ARGUMENT, b"an input's shape is not usable")
    if pf_step_run(p, args, rets, &o, &e):
        free(args)
        return tell(err, err_len, &e)
    for k in range(p.n_rets):
        outputs[k] = &rets[k].m
        if rets[k].flags & (PF_T_BORROWED | PF_T_VIEW):     # an input came straight through
            outputs[k] = own_copy(rets[k])
    free(args)
    return PF_OK

cdef public int32_t pf_rt_input_type(const pf_model* handle, int32_t i) noexcept nogil:
    cdef const model* m = <const model*>handle
    return m.plan.arg_type[i] if 0 <= i < <int32_t>m.plan.n_args else 0

cdef public int32_t pf_rt_output_type(const pf_model* handle, int32_t i) noexcept nogil:
    cdef const model* m = <const model*>handle
    return m.plan.ret_type[i] if 0 <= i < <int32_t>m.plan.n_rets else 0

# ---------------------------------------------------------------- random streams
cdef int32_t node_named(void* arg, pf_str name) noexcept nogil:
    cdef pf_plan* p = <pf_plan*>arg
    cdef uint32_t k
    for k in range(p.n_nodes):
        if pf_str_eq(p.nodes[k].name, name):
            return 1
    return 0

cdef public pf_status pf_rt_random_state(pf_model* handle, void* to, int64_t room, int64_t* n, char* err,
                                         int64_t err_len) noexcept nogil:
    cdef char text[160]
    n[0] = pf_state_streams((<model*>handle).state, <char*>to, room if to != NULL else 0)
    if to == NULL or n[0] <= room:
        return PF_OK
    snprintf(text, 160, b"the state of the random streams takes %lld bytes, there is room for %lld", <long long>n[0],
             <long long>room)
    return say(err, err_len, PF_OUT_OF_RANGE, text)

cdef public pf_status pf_rt_set_random_state(pf_model* handle, const void* data, int64_t n, char* err,
                                             int64_t err_len) noexcept nogil:
    cdef model* m = <model*>handle
    cdef pf_error e
    clear(&e)
    if pf_state_set_streams(m.state, <const char*>data, n, node_named, m.plan, &e):
        return tell(err, err_len, &e)
    return PF_OK

cdef public void pf_rt_free(pf_model* handle) noexcept nogil:
    cdef model* m = <model*>handle
    if m == NULL:
        return
    pf_plan_unref(m.plan)
    if m.state != NULL:
        pf_watch_cancel(m.state, PF_CANCELLED, b"the model was freed")      # what plugins kept of its functions
        pf_state_close(m.state, PF_CANCELLED)
        pf_state_unref(m.state)
    pf_pool_unref(m.pool)
    free(m)
