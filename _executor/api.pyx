# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""pyflow._executor: the one Python-facing file of the executor.

Invariants
1. Exceptions are born here only; the core returns pf_status and fills a pf_error.
2. A fed array is lent to the step: the caller's frame holds it, the tensor around it is marked BORROWED, and the core never
   mutates, forwards or keeps it; so nothing here outlives the call.
3. A fetched array never changes afterwards and is the caller's own: a tensor nobody else refers to is handed over without
   a copy, any other is copied.
4. The GIL is released while a step runs, unless the plan is tiny and its arguments are small; kernels that call Python
   (py_func) run on the thread that called `run`, between blocks.

    state, pool = State("s"), default_pool(2)
    plan = compile(graph_def_bytes, {}, state, pool, {})
    [y] = plan.run([x])
"""
cimport cython
from cpython.ref cimport PyObject, Py_INCREF, Py_XDECREF, Py_XINCREF
from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_AsStringAndSize
cimport numpy as cnp
from core cimport *
from exec_api cimport *
from tensor_api cimport *
from proto_api cimport pf_graph_read, pf_graph_free
from sig_api cimport *
from registry_api cimport *
from state_api cimport *
from rendezvous_api cimport *
from infer_api cimport pf_infer_call

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    int PyErr_CheckSignals()
    void PyErr_Fetch(PyObject**, PyObject**, PyObject**)
    void PyErr_Restore(PyObject*, PyObject*, PyObject*)

cdef extern from "numpy/arrayobject.h":
    int PyArray_SetBaseObject(cnp.ndarray, object) except -1
    object PyArray_Return(cnp.ndarray)
    object PyArray_Scalar(void*, cnp.dtype, object)

cdef enum:
    MAX_INLINE_ARGS = 16
    SMALL_RESULT = 2048         # below, copying is cheaper than keeping the tensor alive
    SMALL_WORK = 65536          # bytes of arguments below which a tiny plan runs without releasing the GIL
    TINY_PLAN = 64

class StepError(Exception):
    """A step or a compilation failed.

    Attributes: code (an absl status code), message, node, op, device (strings, perhaps empty).
    """

    def __init__(self, code, message, node="", op="", device=""):
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = node
        self.op = op
        self.device = device

cdef object raise_error(pf_error* e):
    raise StepError(e.code, e.message.decode("utf-8", "replace"), e.node.decode("utf-8", "replace"),
                    e.op.decode("utf-8", "replace"), e.device.decode("utf-8", "replace"))

cdef str text_of(pf_str s):
    return PyBytes_FromStringAndSize(s.data, s.len).decode("utf-8", "replace") if s.len else ""

cdef pf_str borrow(bytes b):
    cdef pf_str s
    s.data = b
    s.len = len(b)
    return s

# ---------------------------------------------------------------- element types
cdef int32_t pf_of_npy[32]
cdef int npy_of_pf[32]
cdef dict extra_dtypes = {}         # PF type -> numpy dtype, from ml_dtypes
cdef dict extra_types = {}          # numpy dtype -> PF type

cdef void fill_types():
    cdef int k
    for k in range(32):
        pf_of_npy[k] = 0
        npy_of_pf[k] = -1
    pairs = [(cnp.NPY_FLOAT32, PF_FLOAT32), (cnp.NPY_FLOAT64, PF_FLOAT64), (cnp.NPY_INT32, PF_INT32),
             (cnp.NPY_UINT8, PF_UINT8), (cnp.NPY_INT16, PF_INT16), (cnp.NPY_INT8, PF_INT8),
             (cnp.NPY_COMPLEX64, PF_COMPLEX64), (cnp.NPY_INT64, PF_INT64), (cnp.NPY_BOOL, PF_BOOL),
             (cnp.NPY_UINT16, PF_UINT16), (cnp.NPY_COMPLEX128, PF_COMPLEX128), (cnp.NPY_FLOAT16, PF_FLOAT16),
             (cnp.NPY_UINT32, PF_UINT32), (cnp.NPY_UINT64, PF_UINT64)]
    for npy, pf in pairs:
        pf_of_npy[npy] = pf
        npy_of_pf[pf] = npy
    for npy in (cnp.NPY_LONGLONG, cnp.NPY_LONG):
        if not pf_of_npy[npy]:
            pf_of_npy[npy] = PF_INT64 if np.dtype(int).itemsize == 8 or npy == cnp.NPY_LONGLONG else PF_INT32
    for npy in (cnp.NPY_ULONGLONG, cnp.NPY_ULONG):
        if not pf_of_npy[npy]:
            pf_of_npy[npy] = PF_UINT64
    for pf, same in ((PF_QINT8, PF_INT8), (PF_QUINT8, PF_UINT8), (PF_QINT32, PF_INT32), (PF_QINT16, PF_INT16),
                     (PF_QUINT16, PF_UINT16)):
        npy_of_pf[pf] = npy_of_pf[same]

fill_types()

def register_dtype(int number, dtype):
    """Makes a NumPy extension dtype (ml_dtypes' bfloat16, float8) known under an element-type number."""
    extra_dtypes[number] = np.dtype(dtype)
    extra_types[np.dtype(dtype)] = number

cdef object dtype_of(int32_t type):
    if 0 <= type < 32 and npy_of_pf[type] >= 0:
        return cnp.PyArray_DescrFromType(npy_of_pf[type])
    if type == PF_STRING:
        return np.dtype(object)
    if type not in extra_dtypes and type in (PF_BFLOAT16, PF_FLOAT8_E5M2, PF_FLOAT8_E4M3FN):
        import ml_dtypes
        register_dtype(PF_BFLOAT16, ml_dtypes.bfloat16)
        register_dtype(PF_FLOAT8_E5M2, ml_dtypes.float8_e5m2)
        register_dtype(PF_FLOAT8_E4M3FN, ml_dtypes.float8_e4m3fn)
    return extra_dtypes[type]

# ---------------------------------------------------------------- tensors in
cdef pf_tensor* string_tensor(object value) except NULL:
    cdef cnp.ndarray a = np.asarray(value, dtype=object)
    cdef pf_tensor* t = pf_tensor_new(PF_STRING, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a))
    cdef int64_t i = 0
    if t == NULL:
        raise MemoryError("a string tensor")
    try:
        for x in a.flat:
            b = x if type(x) is bytes else x.encode("utf-8") if isinstance(x, str) else bytes(x)
            if pf_tensor_str_set(&t.m.dl_tensor, i, borrow(b)):
                raise MemoryError("a string tensor")
            i += 1
    except BaseException:
        pf_tensor_unref(t)
        raise
    return t

cdef pf_tensor* tensor_of_array(cnp.ndarray a, int32_t type) except NULL:
    """A borrowed tensor over the array's memory: the caller keeps the array alive.  C-contiguous, native, aligned."""
    cdef pf_tensor* t = pf_tensor_wrap(type, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a), cnp.PyArray_DATA(a),
                                       PF_T_BORROWED, NULL, NULL)
    if t == NULL:
        raise MemoryError("a tensor's header")
    return t

cdef inline int32_t type_of_array(cnp.ndarray a):
    cdef int n = cnp.PyArray_TYPE(a)
    if 0 <= n < 32:
        return pf_of_npy[n]
    return extra_types.get(a.dtype, 0)

cdef inline bint usable(cnp.ndarray a, int32_t type):
    """As it is: the right type, compact, aligned, native byte order."""
    return type_of_array(a) == type and cnp.PyArray_ISCARRAY_RO(a)

cdef pf_tensor* tensor_of(object value, int32_t type, list hold) except NULL:
    """A tensor of the type: borrowed where possible; `hold` keeps what was converted."""
    cdef cnp.ndarray a
    if type == PF_STRING:
        return string_tensor(value)
    if type == PF_RESOURCE or type == PF_VARIANT:
        if isinstance(value, Handle):
            pf_tensor_ref((<Handle>value).t)
            return (<Handle>value).t
        raise TypeError("a resource is fed with the handle that a step returned, got %s" % type_name(value))
    if isinstance(value, cnp.ndarray) and usable(value, type):
        return tensor_of_array(value, type)
    if not isinstance(value, (cnp.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
        hold.append(value)
    a = np.array(value, dtype=dtype_of(type), order="C", copy=None, ndmin=0)
    if not cnp.PyArray_ISCARRAY_RO(a):
        a = np.array(a, dtype=dtype_of(type), order="C")
    hold.append(a)
    return tensor_of_array(a, type)

cdef str type_name(object value):
    return type(value).__name__

# ---------------------------------------------------------------- tensors out
@cython.final
@cython.no_gc
cdef class Buffer:
    """Keeps a tensor alive for the array over it."""
    cdef pf_tensor* t

    def __dealloc__(self):
        pf_tensor_unref(self.t)

@cython.final
cdef class Handle:
    """A resource handle outside of a step: opaque, can be fed again."""
    cdef pf_tensor* t

    def __dealloc__(self):
        pf_tensor_unref(self.t)

    def __repr__(self):
        cdef pf_object* o = <pf_object*>self.t.m.dl_tensor.data
        return "<pyflow resource %s>" % (o.name.decode("utf-8", "replace") if o != NULL and o.name != NULL else "")

cdef object strings_of(pf_tensor* t):
    cdef int64_t i, n = pf_numel(&t.m.dl_tensor)
    cdef pf_str s
    cdef list flat = []
    for i in range(n):
        s.len = 0
        pf_tensor_str_get(&t.m.dl_tensor, i, &s)
        flat.append(PyBytes_FromStringAndSize(s.data, s.len) if s.len else b"")
    if t.m.dl_tensor.ndim == 0:
        return flat[0]
    out = np.empty(n, dtype=object)
    out[:] = flat
    return out.reshape([t.m.dl_tensor.shape[k] for k in range(t.m.dl_tensor.ndim)])

cdef bint callers_memory(pf_tensor* t):
    while t.flags & PF_T_VIEW:
        t = <pf_tensor*>t.owner
        if not pf_tensor_unique(t):
            return True
    return t.flags & PF_T_BORROWED != 0

cdef object array_of(pf_tensor* take):
    """The array (or NumPy scalar, bytes, Handle) of a tensor; takes the reference."""
    cdef Buffer keep
    cdef Handle handle
    cdef cnp.ndarray a
    cdef int npy = npy_of_pf[take.type] if 0 <= take.type < 32 else -1
    if take.flags & PF_T_HANDLE:
        handle = Handle.__new__(Handle)
        handle.t = take
        return handle
    if take.type == PF_STRING or npy < 0:
        try:
            return strings_of(take) if take.type == PF_STRING else extension_array(take)
        finally:
            pf_tensor_unref(take)
    if take.m.dl_tensor.ndim == 0:
        try:
            return PyArray_Scalar(take.m.dl_tensor.data, cnp.PyArray_DescrFromType(npy), None)
        finally:
            pf_tensor_unref(take)
    if take.nbytes > SMALL_RESULT and pf_tensor_unique(take) and not callers_memory(take):
        a = cnp.PyArray_SimpleNewFromData(take.m.dl_tensor.ndim, <cnp.npy_intp*>take.m.dl_tensor.shape, npy,
                                          take.m.dl_tensor.data)
        keep = Buffer.__new__(Buffer)
        keep.t = take
        PyArray_SetBaseObject(a, keep)
        Py_INCREF(keep)             # SetBaseObject steals a reference
        return a
    a = cnp.PyArray_SimpleNew(take.m.dl_tensor.ndim, <cnp.npy_intp*>take.m.dl_tensor.shape, npy)
    if take.nbytes:
        memcpy(cnp.PyArray_DATA(a), take.m.dl_tensor.data, <size_t>take.nbytes)
    pf_tensor_unref(take)
    return a

cdef object extension_array(pf_tensor* t):
    cdef cnp.ndarray a = np.empty([t.m.dl_tensor.shape[k] for k in range(t.m.dl_tensor.ndim)], dtype=dtype_of(t.type))
    if t.nbytes:
        memcpy(cnp.PyArray_DATA(a), t.m.dl_tensor.data, <size_t>t.nbytes)
    return a if a.ndim else a[()]

# ---------------------------------------------------------------- process-wide tables
def host_address():
    """Address of the pf_host table that plugins are given."""
    return <uintptr_t>pf_host_table()

cdef void collect_problem(void* arg, const char* text) noexcept nogil:
    with gil:
        (<list>arg).append(text.decode("utf-8", "replace"))

def register_plugin(uintptr_t address, str origin):
    """Takes the tables of a pf_plugin at `address`; returns a list of problems, one string each."""
    cdef pf_error err
    cdef list problems = []
    cdef bytes where = origin.encode()
    cdef const char* where_c = where
    err.code = 0
    err.message[0] = 0
    with nogil:
        pf_plugin_register(<const pf_plugin*>address, where_c, collect_problem, <void*>problems, &err)
    if err.code:
        problems.insert(0, err.message.decode("utf-8", "replace"))
    return problems

def set_ops(ops):
    """Makes ops declared in Python known to the core: (name, signature, flags) each."""
    cdef pf_error err
    cdef bytes n, s
    for name, signature, flags in ops:
        n = name.encode()
        s = signature.encode()
        err.code = 0
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
            out.append((text_of(d.name), text_of(d.sig), d.flags, d.doc.decode() if d.doc != NULL else ""))
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
        name = e.kernel.op.decode()
        if op is None or op == name:
            out.append(dict(op=name, device=e.kernel.device.decode(), priority=e.kernel.priority,
                            where=e.kernel.where.decode() if e.kernel.where != NULL else "",
                            plugin=e.plugin_id.decode(), origin=e.origin.decode() if e.origin != NULL else "",
                            flags=e.kernel.flags))
    return out

def devices():
    """(type, ordinal, name) of the devices opened so far."""
    cdef pf_device_entry* d
    cdef int32_t k
    out = []
    for k in range(pf_device_count()):
        d = pf_device_at(k)
        out.append((d.type.decode(), d.ordinal, d.name.decode()))
    return out

def memory_stats():
    """Host allocator: bytes in use, their peak, bytes cached, number of allocations, cap (0: none)."""
    cdef pf_mem_stats m
    pf_mem_get_stats(&m)
    return dict(in_use=m.in_use, peak=m.peak, cached=m.cached, allocs=m.allocs, cap=m.cap)

def reset_peak():
    """Starts a new peak measurement of the host allocator."""
    pf_mem_reset_peak()

def release_memory():
    """Gives cached host memory back to the system."""
    pf_mem_trim()

def set_memory_cap(int64_t n):
    """Most bytes the host allocator hands out; 0: no cap."""
    pf_mem_set_cap(n)

def reset_containers(names=()):
    """Forgets the process's named containers; all of them when no name is given."""
    cdef list encoded = [n.encode() for n in names]
    cdef const char** c = <const char**>malloc(sizeof(char*) * (len(encoded) + 1))
    cdef int32_t k
    if c == NULL:
        raise MemoryError()
    for k in range(len(encoded)):
        c[k] = encoded[k]
    pf_containers_reset(c, <int32_t>len(encoded))
    free(c)

@cython.final
cdef class Pool:
    """A pool of `threads` threads, the caller's own included."""
    cdef pf_pool* p
    cdef readonly int threads

    def __init__(self, int threads):
        self.p = pf_pool_new(threads)
        if self.p == NULL:
            raise MemoryError()
        self.threads = self.p.n

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
    """A session's variables, resources and random streams."""
    cdef pf_state* s

    def __init__(self, str name=""):
        self.s = pf_state_new(name.encode())
        if self.s == NULL:
            raise MemoryError()

    def close(self):
        """Aborts and forgets everything in the session's own container."""
        cdef pf_state* s = self.s
        if s != NULL:
            with nogil:
                pf_state_close(s, PF_CANCELLED)

    def __dealloc__(self):
        if self.s != NULL:
            pf_state_unref(self.s)

# ---------------------------------------------------------------- plans
cdef struct Interrupt:
    PyObject* type
    PyObject* value
    PyObject* traceback

cdef int32_t check_signals(void* arg) noexcept nogil:
    cdef Interrupt* i = <Interrupt*>arg
    cdef int32_t r = 0
    with gil:
        if PyErr_CheckSignals() < 0:
            PyErr_Fetch(&i.type, &i.value, &i.traceback)
            r = 1
    return r

@cython.final
cdef class CancelToken:
    """Given to one `run`; `cancel` ends that step from another thread with a CANCELLED error."""
    cdef pf_step* running
    cdef pthread_mutex_t lock
    cdef readonly bint cancelled

    def __cinit__(self):
        pthread_mutex_init(&self.lock, NULL)

    def __dealloc__(self):
        pthread_mutex_destroy(&self.lock)

    def cancel(self, str why="cancelled"):
        cdef bytes text = why.encode()
        cdef const char* c = text
        self.cancelled = True
        with nogil:
            pthread_mutex_lock(&self.lock)
            if self.running != NULL:
                pf_step_cancel(self.running, PF_CANCELLED, c)
            pthread_mutex_unlock(&self.lock)

@cython.final
cdef class Rendezvous:
    """Where partial runs meet their fed and fetched tensors: keys and tensors."""
    cdef pf_rendezvous* r

    def __cinit__(self):
        self.r = pf_rendezvous_new()
        if self.r == NULL:
            raise MemoryError()

    def __dealloc__(self):
        pf_rendezvous_unref(self.r)

    def send(self, bytes key, value, int type):
        """Puts a copy of the value under the key."""
        cdef list hold = []
        cdef pf_tensor* t = tensor_of(value, type, hold)
        cdef pf_tensor* own
        cdef pf_error err
        cdef pf_str k = borrow(key)
        if t.flags & PF_T_BORROWED:
            own = pf_tensor_copy(t)
            pf_tensor_unref(t)
            t = own
        err.code = 0
        with nogil:
            pf_rendezvous_send(self.r, k, t, 0, &err)
        if err.code:
            raise_error(&err)

    def receive(self, bytes key, callback):
        """callback(code, value) once the key's tensor is there, perhaps from another thread."""
        cdef pf_str k = borrow(key)
        cdef pf_status st
        Py_INCREF(callback)
        with nogil:
            st = pf_rendezvous_recv(self.r, k, deliver_to_python, <void*>callback)

    def abort(self, int code):
        """Wakes every waiter with the code."""
        with nogil:
            pf_rendezvous_abort(self.r, code)

cdef void deliver_to_python(void* arg, pf_status st, pf_tensor* take, int32_t dead) noexcept nogil:
    with gil:
        callback = <object>arg
        Py_XDECREF(<PyObject*>arg)
        try:
            value = array_of(take) if take != NULL else None
            callback(st if not dead else PF_INVALID_ARGUMENT, value)
        except BaseException as e:
            import logging
            logging.getLogger("pyflow").error("a rendezvous callback failed: %r", e)

@cython.final
cdef class Plan:
    """A compiled graph for one feed and fetch signature.  Thread-safe; runs of one plan are isolated."""
    cdef pf_plan* p
    cdef readonly int n_args, n_rets
    cdef bint tiny
    cdef object __weakref__

    def __dealloc__(self):
        cdef pf_plan* p = self.p
        if p != NULL:
            with nogil:
                pf_plan_unref(p)

    @property
    def arg_names(self):
        return [text_of(self.p.arg_name[k]) for k in range(self.n_args)]

    @property
    def arg_types(self):
        return [self.p.arg_type[k] for k in range(self.n_args)]

    @property
    def ret_types(self):
        return [self.p.ret_type[k] for k in range(self.n_rets)]

    def counts(self):
        """Numbers of nodes, instructions, blocks, frames and slots."""
        cdef uint32_t k
        cdef int inlined = 0
        for k in range(1, self.p.n_frames):
            inlined += self.p.frames[k].inlined != 0
        return dict(nodes=self.p.n_nodes, instructions=self.p.n_instrs, blocks=self.p.n_blocks, frames=self.p.n_frames,
                    inlined=inlined, slots=self.p.frames[0].n_slots, constants=self.p.n_consts)

    def explain(self):
        """The plan as text: blocks, instructions, slots."""
        return explain_plan(self.p)

    def run(self, feeds=(), int64_t timeout_ms=0, CancelToken cancel=None, Rendezvous rendezvous=None, stats=None):
        """Runs one step; returns the list of results.  `stats`, a dict, receives the number of kernels executed."""
        cdef pf_run_options o
        cdef Interrupt interrupt
        cdef int64_t executed = 0
        memset(&o, 0, sizeof(o))
        memset(&interrupt, 0, sizeof(interrupt))
        o.timeout_ns = timeout_ms * 1000000
        o.poll = check_signals
        o.poll_arg = &interrupt
        if cancel is not None:
            o.running = &cancel.running
            o.running_lock = &cancel.lock
        if rendezvous is not None:
            o.rendezvous = rendezvous.r
        if stats is not None:
            o.kernels = &executed
        if len(feeds) != self.n_args:
            raise ValueError("the plan takes %d arguments, got %d" % (self.n_args, len(feeds)))
        results = run_plan(self, feeds, &o, &interrupt)
        if stats is not None:
            stats["kernels"] = executed
        return results

cdef object wrong_shape(Plan plan, int k, pf_tensor* t):
    cdef pf_shape* s = plan.p.arg_shape + k
    want = "(" + ", ".join("?" if s.dims[i] < 0 else str(s.dims[i]) for i in range(s.ndim)) + ")"
    got = tuple(t.m.dl_tensor.shape[i] for i in range(t.m.dl_tensor.ndim))
    raise ValueError("Cannot feed value of shape %r for Tensor '%s', which has shape '%s'"
                     % (got, text_of(plan.p.arg_name[k]), want))

cdef inline bint fits(pf_shape* s, pf_tensor* t) noexcept nogil:
    cdef int32_t i
    if s.ndim < 0:
        return True
    if s.ndim != t.m.dl_tensor.ndim:
        return False
    for i in range(s.ndim):
        if s.dims[i] >= 0 and s.dims[i] != t.m.dl_tensor.shape[i]:
            return False
    return True

cdef list run_plan(Plan plan, object feeds, pf_run_options* o, Interrupt* interrupt):
    cdef pf_tensor* small[MAX_INLINE_ARGS * 2]
    cdef pf_tensor** args = small
    cdef pf_tensor** rets
    cdef int32_t k, n = plan.n_args, m = plan.n_rets
    cdef int64_t bytes_in = 0
    cdef pf_error err
    cdef pf_status st
    cdef list hold = []
    cdef list out = []
    if n + m > MAX_INLINE_ARGS * 2:
        args = <pf_tensor**>malloc(sizeof(void*) * (n + m))
        if args == NULL:
            raise MemoryError()
    rets = args + n
    k = 0
    try:
        for value in feeds:
            args[k] = tensor_of(value, plan.p.arg_type[k], hold)
            bytes_in += args[k].nbytes
            k += 1
            if not fits(plan.p.arg_shape + k - 1, args[k - 1]):
                wrong_shape(plan, k - 1, args[k - 1])
    except BaseException:
        while k > 0:
            k -= 1
            pf_tensor_unref(args[k])
        if args != small:
            free(args)
        raise
    err.code = 0
    if plan.tiny and bytes_in < SMALL_WORK and o.timeout_ns == 0 and o.running == NULL:
        st = pf_step_run(plan.p, args, rets, o, &err)
    else:
        with nogil:
            st = pf_step_run(plan.p, args, rets, o, &err)
    if st == 0:
        for k in range(m):
            out.append(array_of(rets[k]))
    if args != small:
        free(args)
    if interrupt != NULL and interrupt.type != NULL:
        restore(interrupt)
    if st:
        raise_error(&err)
    return out

cdef int restore(Interrupt* i) except -1:
    PyErr_Restore(i.type, i.value, i.traceback)
    return -1

cdef bint is_tiny(pf_plan* p) noexcept nogil:
    """Few cheap synchronous instructions, no loop: such a step is over before another thread could take the GIL."""
    cdef uint32_t k
    if p.n_instrs > TINY_PLAN or p.n_frames > 1 or p.has_async or p.n_blocks > 1:
        return False
    for k in range(p.n_nodes):
        if p.nodes[k].kernel != NULL and p.nodes[k].kernel.kernel.flags & <uint32_t>(
                PF_KERNEL_EXPENSIVE | PF_KERNEL_BLOCKING | PF_KERNEL_ASYNC):
            return False
    return True

def compile(bytes graph_def, dict consts, State state, Pool pool, dict options):
    """Compiles a serialised GraphDef whose feeds are `_Arg` and fetches `_Retval` nodes.

    consts: values of Const nodes by name, beside those in the graph.  options: threads, inline, blocks.
    Raises StepError.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef pf_plan_options o
    cdef pf_named_tensor* named = NULL
    cdef Plan plan = Plan.__new__(Plan)
    cdef const char* data
    cdef Py_ssize_t n
    cdef pf_status st
    cdef int32_t k = 0, n_consts = <int32_t>len(consts)
    cdef list hold = []
    data = graph_def
    n = len(graph_def)
    memset(&o, 0, sizeof(o))
    o.threads = options.get("threads", 0)
    o.no_inline = not options.get("inline", True)
    o.no_blocks = not options.get("blocks", True)
    err.code = 0
    err.node[0] = 0
    err.op[0] = 0
    err.device[0] = 0
    with nogil:
        st = pf_graph_read(data, n, &g, &err)
    if st:
        raise_error(&err)
    named = <pf_named_tensor*>calloc(n_consts + 1, sizeof(pf_named_tensor))
    try:
        for name, value in consts.items():
            b = name.encode()
            hold.append(b)
            a = np.asarray(value)
            number = type_of_array(a) or PF_STRING
            named[k].name = borrow(b)
            named[k].tensor = tensor_of(a, number, hold)
            hold.append(a)
            k += 1
        with nogil:
            st = pf_plan_compile(g, named, n_consts, state.s, pool.p, &o, &plan.p, &err)
        g = NULL
    finally:
        if g != NULL:
            pf_graph_free(g)
        while k > 0:
            k -= 1
            pf_tensor_unref(named[k].tensor)
        free(named)
    if st:
        raise_error(&err)
    plan.n_args = plan.p.n_args
    plan.n_rets = plan.p.n_rets
    plan.tiny = is_tiny(plan.p)
    return plan

@cython.final
cdef class Callable:
    """plan.run as a function of its arguments: the short way for make_callable.

    single: return the one result instead of a list.  finish: None, or a function of the list of results.  slow: called
    with the arguments when one is not an array of the right type and shape (or the callable is closed), to convert or
    refuse it.  explain: StepError -> the exception to raise.
    """
    cdef Plan plan
    cdef bint single, closed
    cdef object finish, slow, explain
    cdef object __weakref__

    def __init__(self, Plan plan, bint single=False, finish=None, slow=None, explain=None):
        self.plan = plan
        self.single = single
        self.finish = finish
        self.slow = slow
        self.explain = explain

    def close(self):
        """From now on every call goes to `slow`."""
        self.closed = True

    def __call__(self, *args):
        cdef Plan plan = self.plan
        cdef list out
        if self.closed or len(args) != plan.n_args or not all_usable(plan, args):
            if self.slow is not None:
                return self.slow(*args)
            if len(args) != plan.n_args:
                raise ValueError("expected %d arguments, got %d" % (plan.n_args, len(args)))
        try:
            if plan.tiny and self.single and self.finish is None and plan.n_args <= MAX_INLINE_ARGS:
                return run_tiny(plan, args)
            out = plan.run(args)
        except StepError as e:
            if self.explain is None:
                raise
            error = self.explain(e)
        else:
            if self.finish is not None:
                return self.finish(out)
            return out[0] if self.single else out
        raise error from None

cdef bint all_usable(Plan plan, tuple args):
    """Every argument is an array that can be lent as it is."""
    cdef int32_t k, i
    cdef cnp.ndarray a
    cdef pf_shape* s
    for k in range(plan.n_args):
        value = args[k]
        if type(value) is not cnp.ndarray:
            return False
        a = <cnp.ndarray>value
        if not usable(a, plan.p.arg_type[k]):
            return False
        s = plan.p.arg_shape + k
        if s.ndim >= 0:
            if s.ndim != cnp.PyArray_NDIM(a):
                return False
            for i in range(s.ndim):
                if s.dims[i] >= 0 and s.dims[i] != cnp.PyArray_DIMS(a)[i]:
                    return False
    return True

cdef object run_tiny(Plan plan, tuple values):
    """One result, few arguments: no lists; the GIL stays while they are small."""
    cdef pf_tensor* args[MAX_INLINE_ARGS]
    cdef pf_tensor* result
    cdef int32_t k = 0, n = plan.n_args
    cdef int64_t bytes_in = 0
    cdef pf_error err
    cdef pf_status st
    cdef list hold = []
    try:
        while k < n:
            args[k] = tensor_of(values[k], plan.p.arg_type[k], hold)
            bytes_in += args[k].nbytes
            k += 1
            if not fits(plan.p.arg_shape + k - 1, args[k - 1]):
                wrong_shape(plan, k - 1, args[k - 1])
    except BaseException:
        while k > 0:
            k -= 1
            pf_tensor_unref(args[k])
        raise
    err.code = 0
    if bytes_in < SMALL_WORK:
        st = pf_step_run(plan.p, args, &result, NULL, &err)
    else:
        with nogil:
            st = pf_step_run(plan.p, args, &result, NULL, &err)
    if st:
        raise_error(&err)
    return array_of(result)

# ---------------------------------------------------------------- explain
cdef str explain_plan(pf_plan* p):
    cdef uint32_t f, b, i
    kinds = ["call", "call", "route", "const", "retval", "switch", "merge", "next", "exit", "loop", "frame", "noop"]
    out = ["plan: %d nodes, %d instructions, %d blocks, %d frames" % (p.n_nodes, p.n_instrs, p.n_blocks, p.n_frames)]
    for f in range(p.n_frames):
        if p.frames[f].inlined:
            out.append("loop %s (inline in frame %d), %d variables" % (text_of(p.frames[f].name), p.frames[f].parent,
                                                                       p.frames[f].n_vars))
            for i in range(p.frames[f].body_begin, p.frames[f].body_end):
                out.append("    " + explain_instr(p, i, kinds))
            continue
        out.append("frame %d %s: %d slots" % (f, text_of(p.frames[f].name) if f else "(root)", p.frames[f].n_slots))
        for b in range(p.frames[f].block_begin, p.frames[f].block_begin + p.frames[f].n_blocks):
            flags = [n for bit, n in ((PF_B_EXPENSIVE, "expensive"), (PF_B_ASYNC, "async"), (PF_B_URGENT, "urgent"),
                                      (PF_B_EVENT, "event")) if p.blocks[b].flags & bit]
            succ = [p.succs[i] for i in range(p.blocks[b].succ_begin, p.blocks[b].succ_end)]
            out.append("  block %d: waits for %d%s -> %s" % (b, p.blocks[b].pending, " [%s]" % " ".join(flags) if flags else "",
                                                            succ))
            for i in range(p.blocks[b].begin, p.blocks[b].end):
                out.append("    " + explain_instr(p, i, kinds))
    return "\n".join(out)

cdef str explain_instr(pf_plan* p, uint32_t i, list kinds):
    cdef pf_instr* ins = p.instrs + i
    cdef uint32_t k
    reads = []
    for k in range(ins.in_begin, ins.in_begin + ins.n_in):
        reads.append("%d%s" % (p.ins[k] & <uint32_t>PF_IN_SLOT, "".join(
            c for bit, c in ((<uint32_t>PF_IN_LAST, "!"), (<uint32_t>PF_IN_SHARED, "~"), (<uint32_t>PF_IN_DEREF, "*"))
            if p.ins[k] & bit)))
    name = text_of(p.nodes[ins.node].name)
    if ins.kind == PF_I_LOOP or ins.kind == PF_I_FRAME:
        return "%s %s(%s)" % (kinds[ins.kind], text_of(p.frames[ins.aux].name), ", ".join(reads))
    outs = ["%d" % (ins.out_slot + k) for k in range(ins.n_out)]
    kernel = p.nodes[ins.node].kernel
    return "%s = %s %s(%s)%s%s" % (", ".join(outs) or "()", text_of(p.nodes[ins.node].op), name, ", ".join(reads),
                                   " maybe-dead" if ins.flags & PF_F_MAYBE_DEAD else "",
                                   " by " + kernel.plugin_id.decode() if kernel != NULL else "")

# ---------------------------------------------------------------- shapes of ops declared in C
def infer_shapes(bytes graph_def, str node, list dims, dict consts):
    """Shapes of the outputs of `node` in a graph whose inputs have the given dims (None: unknown rank; -1: unknown size).

    Returns a list of lists or None.  Raises StepError when the op's shape function refuses.
    """
    cdef pf_error err
    cdef pf_graph* g = NULL
    cdef const char* data = graph_def
    cdef Py_ssize_t n = len(graph_def)
    cdef pf_infer_call call
    cdef pf_signature sig
    cdef pf_node* nd = NULL
    cdef int32_t i, k
    cdef list hold = []
    err.code = 0
    err.node[0] = 0
    err.op[0] = 0
    err.device[0] = 0
    if pf_graph_read(data, n, &g, &err):
        raise_error(&err)
    memset(&call, 0, sizeof(call))
    values = <const DLTensor**>calloc(len(dims) + 1, sizeof(void*))
    try:
        for i in range(g.n_nodes):
            if text_of(g.nodes[i].name) == node:
                nd = g.nodes + i
        call.def_ = pf_op_find(nd.op) if nd != NULL else NULL
        if call.def_ == NULL:
            raise ValueError("no such node or op: %s" % node)
        if pf_node_resolve(g, nd, call.def_, &sig, &err):
            raise_error(&err)
        if call.def_.infer == NULL:
            return [None] * sig.n_out
        call.node = nd
        call.sig = &sig
        call.arena = &g.arena
        call.err = &err
        call.in_shapes = <pf_shape*>pf_arena_alloc(&g.arena, sizeof(pf_shape) * (sig.n_in + 1))
        call.out_shapes = <pf_shape*>pf_arena_alloc(&g.arena, sizeof(pf_shape) * (sig.n_out + 1))
        for i in range(sig.n_in):
            shape = dims[i]
            (<pf_shape*>call.in_shapes)[i].ndim = -1 if shape is None else <int32_t>len(shape)
            own = <int64_t*>pf_arena_alloc(&g.arena, 8 * (len(shape or ()) + 1))
            (<pf_shape*>call.in_shapes)[i].dims = own
            for k in range(len(shape or ())):
                own[k] = shape[k]
            if i in consts:
                a = np.asarray(consts[i], order="C")
                t = tensor_of(a, sig.in_type[i], hold)
                hold.append(a)
                values[i] = &t.m.dl_tensor
        for i in range(sig.n_out):
            call.out_shapes[i].ndim = -1
        call.in_values = values
        if call.def_.infer(<pf_infer*>&call):
            if not err.code:
                err.code = PF_INVALID_ARGUMENT
                err.message[0] = 0
            raise_error(&err)
        return [None if call.out_shapes[i].ndim < 0 else
                [call.out_shapes[i].dims[k] for k in range(call.out_shapes[i].ndim)] for i in range(sig.n_out)]
    finally:
        for i in range(len(dims)):
            if values[i] != NULL:
                pf_tensor_unref(pf_tensor_of(values[i]))
        free(values)
        pf_graph_free(g)

# ---------------------------------------------------------------- py_func
cdef extern from *:
    """
    typedef struct { pf_str token; } pf_pyfunc_state;
    static pf_status pf_pyfunc_compute(pf_ctx *c, const void *state);
    static const pf_attr *const pf_pyfunc_attrs[] = {PF_ATTR(pf_pyfunc_state, PF_ATTR_STRING, token), 0};
    #define PF_PYFUNC(NAME) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_ASYNC, .op = NAME, .device = "*", \
      .attrs = pf_pyfunc_attrs, .state_size = sizeof(pf_pyfunc_state), .compute = pf_pyfunc_compute}
    static const pf_kernel pf_pyfunc_1 = PF_PYFUNC("PyFunc"), pf_pyfunc_2 = PF_PYFUNC("PyFuncStateless"),
      pf_pyfunc_3 = PF_PYFUNC("EagerPyFunc");
    static const pf_kernel *const pf_pyfunc_kernels[] = {&pf_pyfunc_1, &pf_pyfunc_2, &pf_pyfunc_3, 0};
    static const pf_plugin pf_pyfunc_plugin = {.size = sizeof(pf_plugin), .id = "pyflow.python", .version = "0.1",
      .kernels = pf_pyfunc_kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
    typedef struct { pf_ctx *ctx; uint64_t ticket; pf_str token; } pf_pycall;
    static void pf_pycall_run(void *arg);
    static pf_status pf_pyfunc_compute(pf_ctx *c, const void *state) {
      pf_pycall *p = (pf_pycall *)malloc(sizeof *p);
      if (!p) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "out of memory");
      p->token = ((const pf_pyfunc_state *)state)->token;
      p->ctx = c->host->defer(c, &p->ticket);
      if (!p->ctx) { free(p); return PF_RESOURCE_EXHAUSTED; }
      pf_status st = c->host->post_caller(p->ctx, pf_pycall_run, p);
      if (st) { free(p); return st; }
      return PF_PENDING;
    }
    static void pf_pycall_go(void *arg);
    static void pf_pycall_run(void *arg) { pf_pycall_go(arg); }
    """
    ctypedef struct pf_pycall:
        pf_ctx* ctx
        uint64_t ticket
        pf_str token
    const pf_plugin pf_pyfunc_plugin

cdef dict py_funcs = {}

def register_py_func(token, callable):
    """Names a Python callable for PyFunc nodes: callable(*ndarrays) -> sequence of arrays."""
    py_funcs[token] = callable

def forget_py_func(token):
    """Drops a callable registered before."""
    py_funcs.pop(token, None)

cdef object call_python(pf_pycall* p):
    """Runs the callable and sets the outputs; raises what it raised."""
    cdef int32_t k
    cdef pf_tensor* t
    cdef cnp.ndarray a
    cdef DLTensor* out
    token = text_of(p.token)
    fn = py_funcs.get(token)
    if fn is None:
        raise StepError(PF_NOT_FOUND, "py_func callback %r is not registered in this process" % token)
    args = []
    for k in range(p.ctx.n_in):
        t = pf_tensor_copy(pf_tensor_of(p.ctx.ins[k]))
        if t == NULL:
            raise MemoryError()
        args.append(array_of(t))
    results = fn(*args)
    if results is None:
        results = ()
    if not isinstance(results, (list, tuple)):
        results = (results,)
    if len(results) != p.ctx.n_out:
        raise StepError(PF_INVALID_ARGUMENT, "%s returns %d values, but expects to see %d values."
                        % (token, len(results), p.ctx.n_out))
    for k in range(p.ctx.n_out):
        set_python_output(p, k, results[k], token)

cdef int set_python_output(pf_pycall* p, int32_t k, object value, str token) except -1:
    cdef int32_t want = p.ctx.out_type[k]
    cdef pf_tensor* t
    cdef DLTensor* out
    cdef cnp.ndarray a
    if want == PF_STRING:
        t = string_tensor(value)
        if p.ctx.host.set_output(p.ctx, k, &t.m):
            raise MemoryError()
        return 0
    a = np.array(value, order="C", copy=None)
    if a.dtype != dtype_of(want):
        raise StepError(PF_INVALID_ARGUMENT, "%d-th value returned by %s is %s, but expects %s"
                        % (k, token, a.dtype, dtype_of(want)))
    if not cnp.PyArray_ISCARRAY_RO(a):
        a = np.array(a, order="C")
    out = p.ctx.host.output(p.ctx, k, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a))
    if out == NULL:
        raise MemoryError()
    if a.nbytes:
        memcpy(out.data, cnp.PyArray_DATA(a), <size_t>a.nbytes)
    return 0

cdef tuple status_of(object e):
    if isinstance(e, StepError):
        return e.code, e.message
    import traceback
    code = getattr(e, "error_code", None)       # a tf.errors.OpError from a nested session.run
    if not isinstance(code, int):
        code = (PF_INVALID_ARGUMENT if isinstance(e, (TypeError, ValueError)) else
                PF_OUT_OF_RANGE if isinstance(e, StopIteration) else
                PF_RESOURCE_EXHAUSTED if isinstance(e, MemoryError) else
                PF_UNIMPLEMENTED if isinstance(e, NotImplementedError) else
                PF_CANCELLED if isinstance(e, KeyboardInterrupt) else PF_UNKNOWN)
    lines = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    return code, "%s: %s\n%s" % (type(e).__name__, e, lines)

cdef void pf_pycall_go "pf_pycall_go"(void* arg) noexcept nogil:
    cdef pf_pycall* p = <pf_pycall*>arg
    cdef pf_status st = PF_OK
    cdef const pf_host* host = p.ctx.host
    cdef uint64_t ticket = p.ticket
    with gil:
        try:
            call_python(p)
        except BaseException as e:
            code, message = status_of(e)
            text = message.encode("utf-8", "replace")
            st = host.fail(p.ctx, code, text, len(text))
    free(p)
    host.done(ticket, st)

def _start():
    cdef pf_error err
    cdef list problems = []
    err.code = 0
    pf_plugin_register(pf_core_plugin(), b"pyflow", collect_problem, <void*>problems, &err)
    pf_plugin_register(&pf_pyfunc_plugin, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ImportError("pyflow's own kernels: %s %s" % (err.message.decode("utf-8", "replace"), problems))

_start()
