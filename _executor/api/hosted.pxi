"""Part of api.pyx: kernels of known ops that are Python functions (image codecs, Unicode case, inflating), on the thread that called run.

Each op has a kernel for the CPU here and a function of its name in KERNELS of one of HOSTED_MODULES:
function(*arrays, **attributes) -> array, or a tuple of arrays, of the op's output types.  An exception with an
integer `status` (an absl code) fails the step with its text alone; any other brings its traceback.
"""

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
