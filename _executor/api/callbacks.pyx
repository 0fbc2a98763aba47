# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Kernels that are Python callables, on the thread that called `run`: PyFunc, and known ops that are Python functions."""
cimport cython
cimport numpy as cnp
from look_h cimport *
from pyflow._executor.host cimport collect_problem
from pyflow._executor.values cimport array_of, dtype_of, string_tensor, text_of

from threading import get_ident

import numpy as np
from pyflow._executor.values import StepError

cnp.import_array()

# ---------------------------------------------------------------- py_func
cdef extern from *:
    """
    typedef struct { pf_str token; } pf_pyfunc_state;
    static pf_status pf_pyfunc_compute(pf_ctx *c, const void *state);
    static const pf_attr *const pf_pyfunc_attrs[] = {PF_ATTR(pf_pyfunc_state, PF_ATTR_STRING, token), 0};
    static const pf_arg pf_pyfunc_in = {sizeof(pf_arg), 0, "input", PF_MEM_HOST, 0};
    static const pf_arg pf_pyfunc_out = {sizeof(pf_arg), PF_ARG_WRITTEN, "output", PF_MEM_HOST, 0};
    static const pf_arg *const pf_pyfunc_args[] = {&pf_pyfunc_in, &pf_pyfunc_out, 0};
    #define PF_PYFUNC(NAME) {.size = sizeof(pf_kernel), .flags = PF_KERNEL_ASYNC, .op = NAME, .device = "*", \
      .args = pf_pyfunc_args, .attrs = pf_pyfunc_attrs, .state_size = sizeof(pf_pyfunc_state), .compute = pf_pyfunc_compute}
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
cdef dict py_func_watches = {}      # thread -> PyFuncFailures

@cython.final
cdef class PyFuncFailures:
    """Context: `last` is what a py_func raised last on this thread, with its traceback; None: nothing."""
    cdef readonly object last
    cdef object outer

    def __enter__(self):
        self.outer = py_func_watches.get(get_ident())
        py_func_watches[get_ident()] = self
        return self

    def __exit__(self, *failure):
        if self.outer is None:
            py_func_watches.pop(get_ident(), None)
        else:
            py_func_watches[get_ident()] = self.outer
        self.outer = None

cdef int watch_failure(object e) except -1:
    cdef PyFuncFailures watch = py_func_watches.get(get_ident())
    if watch is not None:
        watch.last = e
    return 0

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
    a = np.asarray(value, order="C")
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
            if py_func_watches:
                watch_failure(e)
            code, message = status_of(e)
            text = message.encode("utf-8", "replace")
            st = host.fail(p.ctx, code, text, len(text))
    free(p)
    host.done(ticket, st)

# ---------------------------------------------------------------- known ops
# Kernels of known ops for the CPU that are Python functions, on the thread that called run [register_hosted]:
# function(*arrays, **attributes) -> array, or a tuple of arrays.  The arrays are the node's inputs, the attributes those of
# the op's signature that no input's element type or number tells already; what is returned has the op's output types.  An
# exception with an integer `status` (an absl code) fails the step with its text alone; any other brings its traceback.
# Who registers them for pyflow's own ops (image codecs, Unicode case): pyflow/session/runtime.py.
cdef extern from *:
    """
    enum { PF_HOSTED_SLOT = 16 };                           /* an attribute's value has a slot of its own */
    static void pf_hosted_go(void *arg);
    static void pf_hosted_run(void *arg) { pf_hosted_go(arg); }
    static pf_status pf_hosted_compute(pf_ctx *c, const void *state) {
      pf_pycall *p = (pf_pycall *)malloc(sizeof *p);
      (void)state;
      if (!p) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "out of memory");
      p->ctx = c->host->defer(c, &p->ticket);
      if (!p->ctx) { free(p); return PF_RESOURCE_EXHAUSTED; }
      pf_status st = c->host->post_caller(p->ctx, pf_hosted_run, p);
      if (st) { free(p); return st; }
      return PF_PENDING;
    }
    """
    enum:
        PF_HOSTED_SLOT
    pf_status pf_hosted_compute(pf_ctx*, const void*) noexcept nogil

cdef dict hosted = {}               # op -> its function
cdef list hosted_names = []         # what the tables point to; these live for ever, as every plugin's

cdef list passed_attributes(const pf_op_def* op):
    """Numbers of the attributes that a function is given."""
    cdef int32_t k
    told = set()
    for k in range(op.n_in):
        told.update((op.ins[k].type_attr, op.ins[k].number_attr, op.ins[k].list_attr))
    return [k for k in range(op.n_attrs) if k not in told]

cdef const char* kept_name(str name):
    cdef bytes encoded = name.encode()
    hosted_names.append(encoded)
    return encoded

cdef void* kept(size_t size) except NULL:
    cdef void* p = calloc(1, size)
    if p == NULL:
        raise MemoryError()
    return p

cdef const pf_attr** hosted_attrs(const pf_op_def* op, list numbers) except NULL:
    """The kernel's table of attributes, each with a slot in the state."""
    cdef const pf_attr** table = <const pf_attr**>kept((len(numbers) + 1) * sizeof(void*))
    cdef pf_attr* attr
    cdef int32_t n = 0, k
    for k in numbers:
        name = text_of(op.attrs[k].name)
        if op.attrs[k].kind not in (PF_ATTR_INT, PF_ATTR_FLOAT, PF_ATTR_BOOL, PF_ATTR_STRING, PF_ATTR_TYPE):
            raise ValueError("op %s: a Python function is given numbers, strings and types, not attributes like '%s'"
                             % (text_of(op.name), name))
        attr = <pf_attr*>kept(sizeof(pf_attr))
        attr.size = sizeof(pf_attr)
        attr.name = kept_name(name)
        attr.kind = op.attrs[k].kind
        attr.offset = PF_HOSTED_SLOT * n
        table[n] = attr
        n += 1
    return table

cdef pf_kernel* hosted_kernel(str op) except NULL:
    cdef const char* name = kept_name(op)
    cdef const pf_op_def* d = pf_op_find(pf_str_of(name))
    cdef pf_kernel* k
    if d == NULL:
        raise ValueError("op %s is not known" % op)
    numbers = passed_attributes(d)
    k = <pf_kernel*>kept(sizeof(pf_kernel))
    k.size = sizeof(pf_kernel)
    k.flags = PF_KERNEL_ASYNC
    k.op = name
    k.device = b"CPU"
    k.attrs = hosted_attrs(d, numbers)
    k.state_size = <uint64_t>(PF_HOSTED_SLOT * len(numbers))
    k.compute = pf_hosted_compute
    return k

def register_hosted(dict functions):
    """Makes Python functions the CPU kernels of ops the core knows, {op: function}; once in a process."""
    cdef const pf_kernel** kernels = <const pf_kernel**>kept((len(functions) + 1) * sizeof(void*))
    cdef pf_plugin* p = <pf_plugin*>kept(sizeof(pf_plugin))
    cdef pf_error err
    cdef list problems = []
    cdef int32_t n = 0
    for op in functions:
        kernels[n] = hosted_kernel(op)
        n += 1
    p.size = sizeof(pf_plugin)
    p.id = b"pyflow.hosted"
    p.version = b"0.1"
    p.kernels = kernels
    p.abi_major = PF_ABI_MAJOR
    p.abi_minor = PF_ABI_MINOR
    err.code = 0
    pf_plugin_register(p, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ValueError("Python kernels: %s %s" % (err.message.decode("utf-8", "replace") if err.code else "", problems))
    hosted.update(functions)

cdef object attribute_value(const pf_attr* attr, const char* slot):
    """An attribute as a Python value: types as their numbers, strings as str."""
    if attr.kind == PF_ATTR_INT:
        return (<const int64_t*>slot)[0]
    if attr.kind == PF_ATTR_FLOAT:
        return (<const double*>slot)[0]
    if attr.kind == PF_ATTR_BOOL:
        return (<const int32_t*>slot)[0] != 0
    if attr.kind == PF_ATTR_TYPE:
        return (<const int32_t*>slot)[0]
    return text_of((<const pf_str*>slot)[0])

cdef object call_hosted(pf_pycall* p):
    """Runs the op's function and sets the outputs; raises what it raised."""
    cdef pf_ctx* c = p.ctx
    cdef const pf_node_info* node = (<pf_call*>c).node
    cdef const pf_attr** a = <const pf_attr**>node.kernel.kernel.attrs
    cdef int32_t k
    cdef pf_tensor* t
    op = node.kernel.kernel.op.decode()
    attrs = {}
    while a[0] != NULL:
        attrs[a[0].name.decode()] = attribute_value(a[0], <const char*>node.state + a[0].offset)
        a += 1
    args = []
    for k in range(c.n_in):
        t = pf_tensor_copy(pf_tensor_of(c.ins[k]))
        if t == NULL:
            raise MemoryError()
        args.append(array_of(t))
    results = hosted[op](*args, **attrs)
    if not isinstance(results, tuple):
        results = (results,)
    for k in range(c.n_out):
        set_python_output(p, k, results[k], op)

cdef void pf_hosted_go "pf_hosted_go"(void* arg) noexcept nogil:
    cdef pf_pycall* p = <pf_pycall*>arg
    cdef pf_status st = PF_OK
    cdef const pf_host* host = p.ctx.host
    cdef uint64_t ticket = p.ticket
    with gil:
        try:
            call_hosted(p)
        except BaseException as e:
            status = getattr(e, "status", None)
            code, message = (status, str(e)) if isinstance(status, int) else status_of(e)
            text = message.encode("utf-8", "replace")
            st = host.fail(p.ctx, code, text, len(text))
    free(p)
    host.done(ticket, st)

# ---------------------------------------------------------------- registration
def _start():
    cdef pf_error err
    cdef list problems = []
    err.code = 0
    pf_plugin_register(pf_core_plugin(), b"pyflow", collect_problem, <void*>problems, &err)
    pf_plugin_register(&pf_pyfunc_plugin, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ImportError("pyflow's own kernels: %s %s" % (err.message.decode("utf-8", "replace"), problems))

_start()
