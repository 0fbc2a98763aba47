# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""The process's host: plugins, ops, kernels, devices, memory, pools and states; what kernels and devices say about themselves."""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from look_h cimport *
from pyflow._executor.tasks cimport Task
from pyflow._executor.values cimport borrow, clear_error, kept, raise_error, text_of

# ---------------------------------------------------------------- process-wide tables
cdef enum:
    MAX_DESCRIBED = 1 << 16     # entries of one table, against a missing NULL at its end

def checked_build():
    """Was the core built with -Dchecks=true?  Then invariants and writes past outputs are looked at."""
    return bool(pf_checked_build())

def host_address():
    """Address of the pf_host table that plugins are given."""
    return <uintptr_t>pf_host_table()

cdef void collect_problem(void* arg, const char* text) noexcept nogil:
    with gil:
        (<list>arg).append(text.decode("utf-8", "replace"))

cdef extern from *:
    """
    /* What a plugin logs while it is registered goes to Python's logging, by way of this buffer: other threads' messages
     * keep going to stderr, since they may come without the interpreter's lock. */
    static char pf_said[8192];
    static int pf_said_n, pf_listening;
    static pthread_t pf_listener;
    static void pf_listen(int32_t level, const char *msg, int64_t n) {
      if (pf_listening && pthread_equal(pf_listener, pthread_self())) {
        if (n > 1000) n = 1000;
        if (pf_said_n + n + 8 < (int)sizeof pf_said)
          pf_said_n += snprintf(pf_said + pf_said_n, sizeof pf_said - (size_t)pf_said_n, "%d %.*s%c", (int)level, (int)n, msg, 1);
      } else if (level >= PF_LOG_WARNING) {
        fprintf(stderr, "pyflow: %s: %.*s\\n", level >= PF_LOG_ERROR ? "error" : "warning", (int)(n > 4000 ? 4000 : n), msg);
      }
    }
    static void pf_listen_start(void) { pf_listener = pthread_self(); pf_said_n = 0; pf_listening = 1; }
    static int pf_listen_stop(void) { pf_listening = 0; return pf_said_n; }
    """
    char* pf_said
    void pf_listen(int32_t, const char*, int64_t) noexcept nogil
    void pf_listen_start()
    int pf_listen_stop()
    void pf_set_log(void (*fn)(int32_t, const char*, int64_t) noexcept nogil) noexcept nogil


cdef void pass_on(bytes said):
    """To the standard logger "pyflow.plugins"."""
    import logging
    for line in said.decode("utf-8", "replace").split("\x01")[:-1]:
        level, text = line.split(" ", 1)
        logging.getLogger("pyflow.plugins").log(int(level), "%s", text)


def register_plugin(uintptr_t address, str origin):
    """Takes the tables of a pf_plugin at `address`; returns a list of problems, one string each."""
    cdef pf_error err
    cdef list problems = []
    cdef bytes where = origin.encode()
    cdef const char* where_c = where
    pf_error_clear(&err)
    err.message[0] = 0
    pf_set_log(pf_listen)
    pf_listen_start()
    with nogil:
        pf_plugin_register(<const pf_plugin*>address, where_c, collect_problem, <void*>problems, &err)
    pass_on(pf_said[:pf_listen_stop()])
    if err.code:
        problems.insert(0, err.message.decode("utf-8", "replace"))
    return problems

def name_crashes():
    """From now on a fatal signal, or exit(), within another plugin's function names plugin, node and op on stderr."""
    pf_blame_watch()

def stop_plugins(double patience=2.0):
    """Cancels the steps that still run, waits for them, closes devices, stops plugins: the interpreter's end.  False: a step does
    not end, and everything is left as it is."""
    cdef int64_t ns = <int64_t>(patience * 1e9)
    cdef int32_t over
    with nogil:
        over = pf_watch_stop(ns)
        if over:
            pf_plugins_stop()
            pf_keeper_stop()
    return bool(over)

def between_ticket_and_use(uintptr_t address):
    """For tests: a C function of a ticket, called each time the core has found a call by its ticket and not used it yet."""
    pf_between_ticket_and_use(<void (*)(uint64_t) noexcept nogil><void*>address)

def after_giving_up_use(uintptr_t address):
    """For tests of -Dchecks: a C function of nothing, called each time a reader that is not the last has given up its use of a tensor it
    passes on."""
    pf_after_giving_up_use(<void (*)() noexcept nogil><void*>address)

cdef str text_or_none(const char* s):
    return s.decode("utf-8", "replace") if s != NULL else None

def describe_plugin(uintptr_t address):
    """What the tables of a pf_plugin at `address` declare, in plugin.json's words; nothing is registered."""
    cdef const pf_plugin* source = <const pf_plugin*>address
    cdef pf_plugin p
    cdef int32_t k = 0
    memset(&p, 0, sizeof(p))
    memcpy(&p, source, min(<size_t>source.size, sizeof(p)))
    ops, kernels, devices = [], [], []
    while p.ops != NULL and p.ops[k] != NULL and k < MAX_DESCRIBED:
        if p.ops[k].size >= 24:
            ops.append((text_or_none(p.ops[k].name), text_or_none(p.ops[k].sig)))
        k += 1
    k = 0
    while p.kernels != NULL and p.kernels[k] != NULL and k < MAX_DESCRIBED:
        if p.kernels[k].size >= 32:
            kernels.append((text_or_none(p.kernels[k].op), text_or_none(p.kernels[k].device),
                            text_or_none(p.kernels[k].where)))
        k += 1
    k = 0
    while p.devices != NULL and p.devices[k] != NULL and k < MAX_DESCRIBED:
        if p.devices[k].size >= 16:
            devices.append(text_or_none(p.devices[k].type))
        k += 1
    return dict(id=text_or_none(p.id), version=text_or_none(p.version), abi=(p.abi_major, p.abi_minor), ops=ops, kernels=kernels, devices=devices)

def set_ops(ops):
    """Makes ops declared in Python known to the core: (name, signature, flags) each."""
    cdef pf_error err
    cdef bytes n, s
    for name, signature, flags in ops:
        n = name.encode()
        s = signature.encode()
        pf_error_clear(&err)
        if pf_op_register(n, s, flags, NULL, NULL, NULL, &err):
            raise ValueError("op %s: %s" % (name, err.message.decode("utf-8", "replace")))

def plugin_ops():
    """Ops that plugins declared: (name, signature, flags, doc)."""
    cdef const pf_op_def* d
    cdef int32_t k
    out = []
    for k in range(pf_op_count()):
        d = pf_op_at(k)
        if d != NULL and d.plugin != NULL:
            out.append((text_of(d.name), text_of(d.sig), d.flags, d.doc.decode("utf-8", "replace") if d.doc != NULL else ""))
    return out

def known_ops():
    """Names of all ops the core knows."""
    cdef int32_t k
    return [text_of(pf_op_at(k).name) for k in range(pf_op_count()) if pf_op_at(k) != NULL]

def kernels(op=None):
    """Registered kernels, best first for each op: dicts of op, device, where, priority, plugin, origin, flags."""
    cdef const pf_kernel_entry* e
    cdef int32_t k
    out = []
    for k in range(pf_kernel_count()):
        e = pf_kernel_at(k)
        name = e.kernel.op.decode("utf-8", "replace")
        if op is None or op == name:
            out.append(dict(op=name, device=e.kernel.device.decode("utf-8", "replace"), priority=e.kernel.priority,
                            where=e.kernel.where.decode("utf-8", "replace") if e.kernel.where != NULL else "",
                            plugin=e.plugin_id.decode("utf-8", "replace"), origin=e.origin.decode() if e.origin != NULL else "",
                            flags=e.kernel.flags))
    return out

def devices():
    """(type, ordinal, name) of the devices opened so far."""
    cdef pf_device_entry* d
    cdef int32_t k
    out = []
    for k in range(pf_device_count()):
        d = pf_device_at(k)
        out.append((d.type.decode("utf-8", "replace"), d.ordinal, d.name.decode()))
    return out

def memory_stats():
    """Host allocator: bytes in use, their peak, bytes cached, number of allocations, cap (0: none); and how many things there
    are that kernels made of constants and share."""
    cdef pf_mem_stats m
    pf_mem_get_stats(&m)
    return dict(in_use=m.in_use, peak=m.peak, cached=m.cached, allocs=m.allocs, cap=m.cap, shared=pf_shared_count())

def reset_peak():
    """Starts a new peak measurement of the host allocator."""
    pf_mem_reset_peak()

def report_steps():
    """What the steps that run now are at: which nodes have not completed, and what waits for them.  Any thread."""
    cdef char text[16384]
    cdef int64_t n
    with nogil:
        n = pf_watch_report(text, sizeof(text))
    return text[:n].decode("utf-8", "replace")

def release_memory():
    """Gives cached memory, the host's and the opened devices', back to the system."""
    cdef pf_device_entry* d
    cdef int32_t k
    with nogil:
        pf_mem_trim()
        for k in range(pf_device_count()):
            d = pf_device_at(k)
            if d.dev != NULL and d.vtable.trim != NULL:
                d.vtable.trim(d.dev)

def set_memory_cap(int64_t n):
    """Most bytes the host allocator hands out; 0: no cap."""
    pf_mem_set_cap(n)

@cython.final
cdef class Pool:
    """A pool of `threads` threads, the caller's own included; with a `schedule`, the number that the order of execution is
    drawn from, of one thread."""
    def __init__(self, int threads, schedule=None):
        self.p = pf_pool_new(threads if schedule is None else 1)
        if self.p == NULL:
            raise MemoryError()
        self.threads = self.p.n
        if schedule is not None:
            self.p.seed = <uint64_t>(schedule & 0xffffffffffffffff)
            self.p.seeded = 1

    def __dealloc__(self):
        cdef pf_pool* p = self.p
        if p != NULL:
            with nogil:
                pf_pool_unref(p)

cdef dict pools = {}

def default_pool(int threads):
    """The process's shared pool of that many threads."""
    pool = pools.get(threads)
    if pool is None:
        pool = pools.setdefault(threads, Pool(threads))
    return pool

@cython.final
cdef class State:
    """A session's variables, resources and random streams.  task: whose named containers it sees; None: the process's own.
    base: a State in which its variables are, and its resources that have a shared name."""

    def __init__(self, str name="", Task task=None, State base=None):
        self.s = pf_state_new(name.encode(), task.t if task is not None else NULL, base.s if base is not None else NULL)
        if self.s == NULL:
            raise MemoryError()

    def cancel(self, str why="cancelled", int code=1):
        """Ends every step of this state that can last with an error of this code, and later ones with CANCELLED; how many there
        were."""
        cdef pf_state* s = self.s
        if not 0 < code <= 16:
            raise ValueError("an error's code is 1 to 16")
        cdef bytes text = why.encode()
        cdef const char* message = text
        cdef int n = 0
        if s != NULL:
            with nogil:
                n = pf_watch_cancel(s, <pf_status>code, message)
        return n

    def kept(self, str name):
        """The tensor that GetSessionHandle keeps under the name as a Kept; None: there is none."""
        cdef bytes text = name.encode()
        cdef pf_tensor* t = pf_state_kept(self.s, borrow(text))
        return kept(t) if t != NULL else None

    def forget(self, str name):
        """Lets go of a kept tensor; False: there is none of that name."""
        cdef bytes text = name.encode()
        return pf_state_forget(self.s, borrow(text)) == PF_OK

    def streams(self):
        """Where all random streams are, as bytes: a mark, then per stream the name's length, the name, five numbers."""
        cdef pf_state* s = self.s
        cdef int64_t room = 0, n = pf_state_streams(s, NULL, 0)
        cdef bytearray data = bytearray()
        cdef char* to
        while n > room:                 # a step may begin another stream meanwhile
            data = bytearray(n)
            room = n
            to = data
            with nogil:
                n = pf_state_streams(s, to, room)
        return bytes(data[:n])

    def seek(self, uint64_t position, uint64_t shard=0, bint everywhere=False):
        """What random operations draw from now on depends on their seeds, the position (below 2**32) and the shard alone.  everywhere:
        all of it is here."""
        pf_state_seek(self.s, position, shard)

    def set_streams(self, bytes data):
        """All random streams as `streams` gave them; those it lacks begin anew.  Raises StepError."""
        cdef pf_state* s = self.s
        cdef const char* c = data
        cdef int64_t n = len(data)
        cdef pf_error err
        cdef pf_status st
        clear_error(&err)
        with nogil:
            st = pf_state_set_streams(s, c, n, NULL, NULL, &err)
        if st:
            raise_error(&err)

    def abandon(self):
        """Cancels and closes it; nothing here waits for another process."""
        self.cancel("the session was closed")
        self.close()

    def close(self):
        """Aborts and forgets everything in the session's own container."""
        cdef pf_state* s = self.s
        if s != NULL:
            with nogil:
                pf_state_close(s, PF_CANCELLED)

    def __dealloc__(self):
        if self.s != NULL:
            pf_state_unref(self.s)

# ---------------------------------------------------------------- devices
cdef pf_device_entry* device_named(kind, int ordinal) except NULL:
    cdef bytes name = kind.encode()
    cdef const char* text = name
    cdef pf_device_entry* d
    with nogil:
        d = pf_device_find(text, ordinal)
    if d == NULL:
        raise ValueError(device_problem(kind, ordinal))
    return d


def device_problem(kind, int ordinal):
    """Opens the device if need be; None, or why it cannot be used."""
    cdef bytes name = kind.encode()
    cdef const char* at = name
    cdef char text[400]
    cdef pf_device_entry* d
    with nogil:
        d = pf_device_find(at, ordinal)
    if d != NULL:
        return None
    pf_device_problem(at, ordinal, text, sizeof(text))
    return text.decode("utf-8", "replace")


def absent_devices():
    """(type, reason) of device types whose plugin is loaded and finds none: no driver, say."""
    cdef const char* kind
    cdef const char* why
    cdef int k = 0
    out = []
    while pf_device_absent(k, &kind, &why):
        out.append((kind.decode("utf-8", "replace"), why.decode("utf-8", "replace")))
        k += 1
    return out


def device_info(kind, int ordinal, key):
    """What the device says about itself, as text (kernel.h, pf_device.info); None: it does not say.  ValueError: no such device."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    cdef bytes wanted = key.encode()
    cdef char text[512]
    text[0] = 0
    if d.vtable == NULL or d.vtable.info == NULL or d.vtable.info(d.dev, wanted, text, 512) != PF_OK:
        return None
    text[511] = 0
    return text.decode("utf-8", "replace")


def device_stats(kind, int ordinal):
    """Bytes in use in the device's own memory, their peak, the limit (0: none), allocations; whether it has memory and streams
    of its own.  ValueError: no such device."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    return dict(in_use=pf_a64_load(&d.in_use), peak=pf_a64_load(&d.peak), limit=pf_a64_load(&d.limit),
                allocs=pf_a64_load(&d.allocs), own_memory=bool(d.own_memory), streams=d.stream != NULL)


def device_limit(kind, int ordinal, int64_t limit):
    """From now on at most `limit` bytes of the device's memory are used (0: no limit)."""
    pf_a64_store(&device_named(kind, ordinal).limit, max(limit, 0))


def reset_device_peak(kind, int ordinal):
    """Starts a new peak measurement of the device's memory."""
    cdef pf_device_entry* d = device_named(kind, ordinal)
    pf_a64_store(&d.peak, pf_a64_load(&d.in_use))


def device_priority(kind, int ordinal=0):
    """pf_device.priority: where default placement looks first; a CPU's is 0."""
    cdef pf_device_entry* d
    cdef int32_t k
    for k in range(pf_device_count()):
        d = pf_device_at(k)
        if d.type.decode("utf-8", "replace") == kind:
            return d.vtable.priority if d.vtable != NULL else 0
    raise ValueError(f"there is no device type {kind}")

# ---------------------------------------------------------------- costs, for placement
def node_costs(bytes graph_def, kinds=("CPU",)):
    """{node: (flops, bytes)} from the kernels' cost functions, for the shapes in `_output_shapes`.

    kinds: device types; the first that has a kernel with a cost function for the node's types answers.  Nodes without
    one, or whose shapes it cannot judge, are left out.  Raises StepError for bytes that are no graph.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef const char* data = graph_def
    cdef Py_ssize_t n = len(graph_def)
    cdef dict found = {}
    cdef dict ops = {}
    cdef int32_t k
    cdef double flops, traffic
    cdef list encoded = [kind.encode() for kind in kinds]
    for k in range(pf_kernel_count()):
        if pf_kernel_at(k).kernel.cost != NULL:
            ops[pf_kernel_at(k).kernel.op] = True
    clear_error(&err)
    if pf_graph_read(data, n, &g, &err):
        raise_error(&err)
    try:
        for k in range(g.n_nodes):
            op = PyBytes_FromStringAndSize(g.nodes[k].op.data, g.nodes[k].op.len)
            if op in ops and cost_of_node(g, k, encoded, &flops, &traffic):
                found[text_of(g.nodes[k].name)] = (flops, traffic)
    finally:
        pf_graph_free(g)
    return found

def device_peers(kind, int ordinal, other_kind, int other):
    """True if values go from the device `kind:ordinal` to the other one without the host.  ValueError: no such device."""
    cdef pf_device_entry* source = device_named(kind, ordinal)
    cdef pf_device_entry* target = device_named(other_kind, other)
    return source != target and pf_device_peers(source, target) != 0

cdef bint cost_of_node(pf_graph* g, int32_t i, list kinds, double* flops, double* traffic):
    """True if a kernel of one of the device types said what the node costs."""
    cdef pf_node* nd = g.nodes + i
    cdef pf_infer_call call
    cdef pf_signature sig
    cdef pf_error err
    cdef const pf_kernel_entry* e
    cdef pf_blame blame
    cdef pf_status st
    clear_error(&err)
    pf_infer_start(&call)
    call.def_ = pf_op_find(nd.op)
    if call.def_ == NULL or pf_node_resolve(g, nd, call.def_, &sig, &err):
        return False
    call.node = nd
    call.sig = &sig
    call.arena = &g.arena
    call.err = &err
    if not known_inputs(g, nd, &call):
        return False
    for kind in kinds:
        e = NULL
        while pf_kernel_select(nd, call.def_, &sig, kind, e, &e, &err) == PF_OK and e != NULL:
            flops[0] = 0
            traffic[0] = 0
            if e.kernel.cost == NULL:
                continue
            pf_blame_enter(&blame, b"the cost function of a kernel", e.plugin_id, nd.name, nd.op)
            st = e.kernel.cost(<pf_infer*>&call, flops, traffic)
            pf_blame_leave(&blame)
            if st == PF_OK:
                return True
    return False

cdef bint known_inputs(pf_graph* g, pf_node* nd, pf_infer_call* call) noexcept nogil:
    """Fills in the shapes and constant values of the node's inputs."""
    cdef const pf_attr_value* a
    cdef const pf_op_def* d
    cdef pf_node* source
    cdef int32_t k
    cdef pf_shape* shapes = <pf_shape*>pf_arena_alloc(&g.arena, sizeof(pf_shape) * <uint64_t>(nd.n_in + 1))
    cdef const DLTensor** values = <const DLTensor**>pf_arena_alloc(&g.arena, sizeof(void*) * <uint64_t>(nd.n_in + 1))
    if shapes == NULL or values == NULL:
        return False
    for k in range(nd.n_in):
        source = g.nodes + nd.inputs[k].node
        shapes[k].ndim = -1
        values[k] = NULL
        a = pf_node_attr_find(source, b"_output_shapes")
        if a != NULL and a.kind == PF_ATTR_SHAPE | PF_ATTR_LIST and nd.inputs[k].output < a.list.n:
            shapes[k] = (<const pf_shape*>a.list.items)[nd.inputs[k].output]
        d = pf_op_find(source.op)
        a = pf_node_attr_find(source, b"value") if d != NULL and d.cls == PF_C_CONST else NULL
        if a != NULL and a.kind == PF_ATTR_TENSOR and a.tensor != NULL:
            values[k] = pf_dl(a.tensor)
    call.in_shapes = shapes
    call.in_values = values
    return True
