# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""What a step may be given when it runs: a token to cancel it, a rendezvous, a trace, an inspector.

A Python exception that must come out of `run` is kept in the step's Interrupt on its way through the core.
"""
cimport cython
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.bytes cimport PyBytes_FromStringAndSize
cimport numpy as cnp
from look_h cimport *
from pyflow._executor.values cimport Buffer, SMALL_RESULT, array_of, borrow, npy_of, raise_error, tensor_of, text_of

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    int PyErr_CheckSignals()
    void PyErr_Fetch(PyObject**, PyObject**, PyObject**)
    void PyErr_Restore(PyObject*, PyObject*, PyObject*)
    void PyErr_SetObject(object, object)

cdef extern from "numpy/arrayobject.h":
    int PyArray_SetBaseObject(cnp.ndarray, object) except -1

# ---------------------------------------------------------------- signals
cdef int32_t check_signals(void* arg) noexcept nogil:
    cdef Interrupt* i = <Interrupt*>arg
    cdef int32_t r = 0
    with gil:
        if PyErr_CheckSignals() < 0:
            PyErr_Fetch(&i.type, &i.value, &i.traceback)
            r = 1
    return r

cdef int restore(Interrupt* i) except -1:
    PyErr_Restore(i.type, i.value, i.traceback)
    return -1

# ---------------------------------------------------------------- cancellation, rendezvous
@cython.final
cdef class CancelToken:
    """Given to one `run`; `cancel` ends that step from another thread with a CANCELLED error."""

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
        pf_error_clear(&err)
        with nogil:
            pf_rendezvous_send(self.r, k, t, 0, &err)
        if err.code:
            raise_error(&err)

    def receive(self, bytes key, callback):
        """callback(code, value) once the key's tensor is there, perhaps from another thread.  Raises StepError if it was aborted."""
        cdef pf_str k = borrow(key)
        cdef pf_status st
        cdef pf_error err
        Py_INCREF(callback)
        with nogil:
            st = pf_rendezvous_recv(self.r, k, NULL, deliver_to_python, <void*>callback)
        if st:
            Py_DECREF(callback)
            if not pf_rendezvous_error(self.r, &err):
                pf_error_set(&err, st, b"%s", b"somebody waits for the key already" if st == PF_ALREADY_EXISTS else b"out of memory")
            raise_error(&err)

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

# ---------------------------------------------------------------- traces
@cython.final
cdef class Records:
    """What a Trace recorded, for its readers: the last of them frees it."""

    def __dealloc__(self):
        pf_trace_free(self.t)

@cython.final
cdef class Trace:
    """Collects what ran when in the steps it is given to (`Plan.run(..., trace=t)`).

    level: 1 a record per block, 2 per kernel, with the outputs of what is more than routing, 3 with all outputs.
    max_records bounds the memory (64 bytes each); what does not fit is counted.  Read it with `take` when its steps are
    over.
    """
    def __cinit__(self, int level=3, int64_t max_records=1 << 20):
        self.records = Records.__new__(Records)
        self.t = self.records.t = pf_trace_new(level, max_records)
        if self.t == NULL:
            raise MemoryError()
        self.plans = {}
        pf_trace_clock(&self.ticks, &self.ns)

    def take(self):
        """The records so far, as a dict: `records` (bytes, 64 per record, in order per lane), `steps` [(plan, id, start, end,
        lane, status)] with times in ticks, `dropped`, `clock` (ticks, ns, ticks, ns): two readings of both clocks, at the
        beginning and now."""
        cdef pf_trace_chunk* c = self.t.chunks
        cdef int64_t ticks, ns
        cdef Py_ssize_t size = 0
        cdef int32_t k
        cdef bytes records
        cdef char* end
        pf_trace_clock(&ticks, &ns)
        while c != NULL:
            size += c.n * <Py_ssize_t>sizeof(pf_record)
            c = c.next
        records = PyBytes_FromStringAndSize(NULL, size)
        end = <char*>records + size
        c = self.t.chunks                   # newest first
        while c != NULL:
            end -= c.n * sizeof(pf_record)
            memcpy(end, c.records, c.n * sizeof(pf_record))
            c = c.next
        steps = []
        for k in range(self.t.n_steps):
            s = self.t.steps + k
            steps.append((self.plans.get(<uintptr_t>s.plan), s.id, s.start, s.end, s.lane, s.status))
        return dict(records=records, steps=steps, dropped=pf_a64_load(&self.t.dropped),
                    clock=(self.ticks, self.ns, ticks, ns))

def trace_lanes():
    """[(thread number of the system, its name)]: the threads that wrote records so far, by lane."""
    cdef int32_t k, n = pf_trace_lanes(NULL, 0)
    cdef pf_trace_lane* lanes = <pf_trace_lane*>calloc(n + 1, sizeof(pf_trace_lane))
    if lanes == NULL:
        raise MemoryError()
    n = min(n, pf_trace_lanes(lanes, n))
    out = [(lanes[k].thread, lanes[k].name.decode("utf-8", "replace")) for k in range(n)]
    free(lanes)
    return out

# ---------------------------------------------------------------- inspection
@cython.final
cdef class Inspector:
    """Looks at the kernels of the step it is given to, `Plan.run(..., inspect=i)`; one at a time.

    numerics: NaN and Inf are errors where they are born (core/inspect.pyx).
    ordered: one call after the other, for a plan compiled with ordered=True on one thread.
    before(name, inputs): called before a kernel of node `name`; what it raises ends the step and
        comes out of `run`.
    failed(name, inputs, outputs): called after the kernel whose error is the step's.
    inputs and outputs are lists: arrays, read-only; None for what is dead, unused, holds nothing or
    cannot be read; Handle for resources.
    """
    def __init__(self, before=None, failed=None, bint numerics=False, bint ordered=False):
        memset(&self.i, 0, sizeof(pf_inspect))
        self.before = before
        self.failed = failed
        self.i.numerics = numerics
        self.i.ordered = ordered
        self.i.arg = <void*>self
        if before is not None:
            self.i.before = inspect_before
        if failed is not None:
            self.i.failed = inspect_failed

    cdef void prepare(self, Interrupt* interrupt, pf_run_options* o):
        self.interrupt = interrupt
        o.inspect = &self.i

    cdef void keep_exception(self):
        """The first one comes out of `run`."""
        cdef PyObject *type
        cdef PyObject *value
        cdef PyObject *traceback
        PyErr_Fetch(&type, &value, &traceback)
        if self.interrupt.type == NULL:
            self.interrupt.type = type
            self.interrupt.value = value
            self.interrupt.traceback = traceback
        else:
            Py_XDECREF(type)
            Py_XDECREF(value)
            Py_XDECREF(traceback)

cdef object value_to_show(pf_tensor* t):
    """An array over the tensor's memory where it may stay, else of a copy."""
    cdef pf_tensor* own
    if t == NULL:
        return None
    own = pf_inspect_on_host(t)
    if own == NULL:
        return None                 # its device failed, or there is no memory
    if own.flags & PF_T_HANDLE or own.type == PF_STRING:
        result = array_of(own)
    else:
        result = array_to_show(own)
    if isinstance(result, np.ndarray):
        result.flags.writeable = False
    return result

cdef object array_to_show(pf_tensor* take):
    """Like array_of, but a tensor that others hold too is shown, not copied, where it stays."""
    cdef Buffer keep
    cdef cnp.ndarray a
    cdef int npy = npy_of(take.type)
    if npy < 0 or take.m.dl_tensor.ndim == 0 or take.nbytes <= SMALL_RESULT or (
            take.flags & <uint32_t>(PF_T_BORROWED | PF_T_VIEW | PF_T_FOREIGN | PF_T_PLACED)):
        return array_of(take)
    a = cnp.PyArray_SimpleNewFromData(take.m.dl_tensor.ndim,
                                      <cnp.npy_intp*>take.m.dl_tensor.shape, npy,
                                      take.m.dl_tensor.data)
    keep = Buffer.__new__(Buffer)
    keep.t = take
    PyArray_SetBaseObject(a, keep)
    Py_INCREF(keep)                 # SetBaseObject steals a reference
    return a

cdef list inputs_to_show(const pf_held_inputs* held):
    cdef uint32_t k
    out = []
    if held != NULL:
        for k in range(held.n):
            out.append(value_to_show(held.ins[k].value))
    return out

cdef list outputs_to_show(pf_call* c, const pf_instr* ins):
    cdef uint32_t k
    cdef DLTensor* t
    out = []
    for k in range(ins.n_out):
        t = c.slab.slots[ins.out_slot + k]
        out.append(value_to_show(pf_tensor_of(t)) if pf_alive(t) else None)
    return out

cdef int32_t inspect_before(void* arg, pf_call* c, const pf_instr* ins,
                            const pf_held_inputs* held) noexcept nogil:
    cdef int32_t r = 0
    with gil:
        self = <Inspector>arg
        try:
            self.before(text_of(c.plan.nodes[ins.node].name), inputs_to_show(held))
        except BaseException as e:
            PyErr_SetObject(type(e), e)
            self.keep_exception()
            r = 1
    return r

cdef void inspect_failed(void* arg, pf_call* c, const pf_instr* ins,
                         const pf_held_inputs* held) noexcept nogil:
    with gil:
        self = <Inspector>arg
        try:
            self.failed(text_of(c.plan.nodes[ins.node].name), inputs_to_show(held),
                        outputs_to_show(c, ins))
        except BaseException as e:
            PyErr_SetObject(type(e), e)
            self.keep_exception()
