"""Part of api.pyx: steps whose kernels are looked at one by one."""

cdef struct Interrupt:          # an exception on its way through the core
    PyObject* type
    PyObject* value
    PyObject* traceback

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
    cdef pf_inspect i
    cdef object before, failed
    cdef Interrupt* interrupt

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
    cdef int npy = npy_of_pf[take.type] if 0 <= take.type < 32 else -1
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
