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
# Kernels of known ops that are Python functions (image codecs, Unicode case, inflating), on the thread that called run.
#
# Each op has a kernel for the CPU here and a function of its name in KERNELS of one of HOSTED_MODULES:
# function(*arrays, **attributes) -> array, or a tuple of arrays, of the op's output types.  An exception with an
# integer `status` (an absl code) fails the step with its text alone; any other brings its traceback.
# ---------------------------------------------------------------- the tables
cdef extern from *:
    """
    enum { PF_HOSTED_SLOT = 16, PF_HOSTED_SLOTS = 12 };     /* an attribute's value has a slot of its own */
    typedef struct { pf_pycall call; const pf_kernel *kernel; const void *state; } pf_hosted;
    static void pf_hosted_go(void *arg);
    static void pf_hosted_run(void *arg) { pf_hosted_go(arg); }
    static pf_status pf_hosted_defer(pf_ctx *c, const void *state, const pf_kernel *kernel) {
      pf_hosted *p = (pf_hosted *)malloc(sizeof *p);
      if (!p) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "out of memory");
      p->kernel = kernel;
      p->state = state;
      p->call.ctx = c->host->defer(c, &p->call.ticket);
      if (!p->call.ctx) { free(p); return PF_RESOURCE_EXHAUSTED; }
      pf_status st = c->host->post_caller(p->call.ctx, pf_hosted_run, p);
      if (st) { free(p); return st; }
      return PF_PENDING;
    }
    #define PF_SLOT(KIND, NAME, I) PF_REF(pf_attr, NAME, KIND, PF_HOSTED_SLOT * (I))
    #define PF_HOSTED(OP, ...) \
      static pf_status pf_hosted_##OP(pf_ctx *c, const void *state); \
      static const pf_attr *const pf_hosted_attrs_##OP[] = {__VA_ARGS__ 0}; \
      static const pf_kernel pf_hosted_kernel_##OP = {.size = sizeof(pf_kernel), .flags = PF_KERNEL_ASYNC, .op = #OP, \
        .device = "CPU", .attrs = pf_hosted_attrs_##OP, .state_size = PF_HOSTED_SLOT * PF_HOSTED_SLOTS, \
        .compute = pf_hosted_##OP}; \
      static pf_status pf_hosted_##OP(pf_ctx *c, const void *state) { \
        return pf_hosted_defer(c, state, &pf_hosted_kernel_##OP); \
      }
    #define PF_JPEG PF_SLOT(PF_ATTR_INT, "channels", 0), PF_SLOT(PF_ATTR_INT, "ratio", 1), \
      PF_SLOT(PF_ATTR_BOOL, "fancy_upscaling", 2), PF_SLOT(PF_ATTR_BOOL, "try_recover_truncated", 3), \
      PF_SLOT(PF_ATTR_FLOAT, "acceptable_fraction", 4), PF_SLOT(PF_ATTR_STRING, "dct_method", 5),
    PF_HOSTED(DecodeJpeg, PF_JPEG)
    PF_HOSTED(DecodeAndCropJpeg, PF_JPEG)
    PF_HOSTED(DecodePng, PF_SLOT(PF_ATTR_INT, "channels", 0), PF_SLOT(PF_ATTR_TYPE, "dtype", 1),)
    PF_HOSTED(DecodeGif,)
    PF_HOSTED(DecodeBmp, PF_SLOT(PF_ATTR_INT, "channels", 0),)
    PF_HOSTED(DecodeImage, PF_SLOT(PF_ATTR_INT, "channels", 0), PF_SLOT(PF_ATTR_TYPE, "dtype", 1),
              PF_SLOT(PF_ATTR_BOOL, "expand_animations", 2),)
    PF_HOSTED(ExtractJpegShape, PF_SLOT(PF_ATTR_TYPE, "output_type", 0),)
    PF_HOSTED(EncodePng, PF_SLOT(PF_ATTR_INT, "compression", 0),)
    PF_HOSTED(EncodeJpegVariableQuality,)
    PF_HOSTED(EncodeJpeg, PF_SLOT(PF_ATTR_STRING, "format", 0), PF_SLOT(PF_ATTR_INT, "quality", 1),
              PF_SLOT(PF_ATTR_BOOL, "progressive", 2), PF_SLOT(PF_ATTR_BOOL, "optimize_size", 3),
              PF_SLOT(PF_ATTR_BOOL, "chroma_downsampling", 4), PF_SLOT(PF_ATTR_STRING, "density_unit", 5),
              PF_SLOT(PF_ATTR_INT, "x_density", 6), PF_SLOT(PF_ATTR_INT, "y_density", 7),
              PF_SLOT(PF_ATTR_STRING, "xmp_metadata", 8),)
    PF_HOSTED(StringLower, PF_SLOT(PF_ATTR_STRING, "encoding", 0),)
    PF_HOSTED(StringUpper, PF_SLOT(PF_ATTR_STRING, "encoding", 0),)
    PF_HOSTED(DecodeCompressed, PF_SLOT(PF_ATTR_STRING, "compression_type", 0),)
    static const pf_kernel *const pf_hosted_kernels[] = {&pf_hosted_kernel_StringLower,
      &pf_hosted_kernel_StringUpper, &pf_hosted_kernel_DecodeCompressed, &pf_hosted_kernel_DecodeJpeg,
      &pf_hosted_kernel_DecodeAndCropJpeg, &pf_hosted_kernel_DecodePng, &pf_hosted_kernel_DecodeGif,
      &pf_hosted_kernel_DecodeBmp, &pf_hosted_kernel_DecodeImage, &pf_hosted_kernel_ExtractJpegShape,
      &pf_hosted_kernel_EncodePng, &pf_hosted_kernel_EncodeJpegVariableQuality, &pf_hosted_kernel_EncodeJpeg, 0};
    static const pf_plugin pf_hosted_plugin = {.size = sizeof(pf_plugin), .id = "pyflow.hosted", .version = "0.1",
      .kernels = pf_hosted_kernels, .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
    """
    ctypedef struct pf_hosted:
        pf_pycall call
        const pf_kernel* kernel
        const void* state
    const pf_plugin pf_hosted_plugin

HOSTED_MODULES = ("pyflow.ops.image.image_codec", "pyflow.ops.strings.string_codec")

cdef object hosted_function(str op):
    import importlib
    for module in HOSTED_MODULES:
        found = importlib.import_module(module).KERNELS.get(op)
        if found is not None:
            return found
    raise StepError(PF_NOT_FOUND, "no module of %s has a kernel for %s" % (", ".join(HOSTED_MODULES), op))

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

cdef object call_hosted(pf_hosted* p):
    """Runs the op's function and sets the outputs; raises what it raised."""
    cdef pf_ctx* c = p.call.ctx
    cdef int32_t k = 0
    cdef pf_tensor* t
    op = p.kernel.op.decode()
    attrs = {}
    while p.kernel.attrs[k] != NULL:
        attr = p.kernel.attrs[k].name.decode()
        attrs[attr] = attribute_value(p.kernel.attrs[k], <const char*>p.state + p.kernel.attrs[k].offset)
        k += 1
    args = []
    for k in range(c.n_in):
        t = pf_tensor_copy(pf_tensor_of(c.ins[k]))
        if t == NULL:
            raise MemoryError()
        args.append(array_of(t))
    results = hosted_function(op)(*args, **attrs)
    if not isinstance(results, tuple):
        results = (results,)
    for k in range(c.n_out):
        set_python_output(&p.call, k, results[k], op)

cdef void pf_hosted_go "pf_hosted_go"(void* arg) noexcept nogil:
    cdef pf_hosted* p = <pf_hosted*>arg
    cdef pf_status st = PF_OK
    cdef const pf_host* host = p.call.ctx.host
    cdef uint64_t ticket = p.call.ticket
    with gil:
        try:
            call_hosted(p)
        except BaseException as e:
            status = getattr(e, "status", None)
            code, message = (status, str(e)) if isinstance(status, int) else status_of(e)
            text = message.encode("utf-8", "replace")
            st = host.fail(p.call.ctx, code, text, len(text))
    free(p)
    host.done(ticket, st)

# ---------------------------------------------------------------- registration
def _start():
    cdef pf_error err
    cdef list problems = []
    err.code = 0
    pf_plugin_register(pf_core_plugin(), b"pyflow", collect_problem, <void*>problems, &err)
    pf_plugin_register(&pf_pyfunc_plugin, b"pyflow", collect_problem, <void*>problems, &err)
    pf_plugin_register(&pf_hosted_plugin, b"pyflow", collect_problem, <void*>problems, &err)
    if err.code or problems:
        raise ImportError("pyflow's own kernels: %s %s" % (err.message.decode("utf-8", "replace"), problems))

_start()
