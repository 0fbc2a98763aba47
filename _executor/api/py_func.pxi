"""Part of api.pyx: the PyFunc kernels, Python callables on the thread that called run."""

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
