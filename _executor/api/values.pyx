# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Values of steps: NumPy arrays to tensors and back, element types; text and errors.

Invariants
1. Exceptions are born in these modules only; the core returns pf_status and fills a pf_error.
2. A fed array is lent to the step: the caller's frame holds it, the tensor around it is marked BORROWED, and the core never
   mutates, forwards or keeps it; so nothing here outlives the call.
3. A fetched array never changes afterwards and is the caller's own: a tensor nobody else refers to is handed over without
   a copy, any other is copied.
"""
cimport cython
from cpython.ref cimport PyObject, Py_INCREF, Py_XDECREF
from cpython.bytes cimport PyBytes_FromStringAndSize
cimport numpy as cnp
from look_h cimport *

import sys
import numpy as np

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    int PyArray_SetBaseObject(cnp.ndarray, object) except -1
    object PyArray_Scalar(void*, cnp.dtype, object)

# ---------------------------------------------------------------- text and errors
class StepError(Exception):
    """A step or a compilation failed.

    Attributes: code (an absl status code), message, node, op, device, task (strings, perhaps empty), derived (it is the
    consequence of a failure elsewhere), explained (its message is what a user is to read: another process has said it all).
    """
    explained = False

    def __init__(self, code, message, node="", op="", device="", task="", derived=False):
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = node
        self.op = op
        self.device = device
        self.task = task
        self.derived = derived

cdef void clear_error(pf_error* err) noexcept nogil:
    pf_error_clear(err)

cdef object raise_error(pf_error* e):
    raise StepError(e.code, e.message.decode("utf-8", "replace"), e.node.decode("utf-8", "replace"),
                    e.op.decode("utf-8", "replace"), e.device.decode("utf-8", "replace"),
                    e.task.decode("utf-8", "replace"), e.derived != 0)

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

cdef int npy_of(int32_t type) noexcept nogil:
    """NumPy's number of the type; -1: it is an extension's, a string or a handle."""
    return npy_of_pf[type] if 0 <= type < 32 else -1

cdef object dtype_of(int32_t type):
    if 0 <= type < 32 and npy_of_pf[type] >= 0:
        return cnp.PyArray_DescrFromType(npy_of_pf[type])
    if type == PF_STRING:
        return np.dtype(object)
    if type not in extra_dtypes and type in (PF_BFLOAT16, PF_FLOAT8_E5M2, PF_FLOAT8_E4M3FN):
        register_extensions()
    return extra_dtypes[type]

cdef void register_extensions() except *:
    import ml_dtypes
    register_dtype(PF_BFLOAT16, ml_dtypes.bfloat16)
    register_dtype(PF_FLOAT8_E5M2, ml_dtypes.float8_e5m2)
    register_dtype(PF_FLOAT8_E4M3FN, ml_dtypes.float8_e4m3fn)

# ---------------------------------------------------------------- tensors in
cdef extern from *:
    """
    #define pf_is_bytes(x) (Py_TYPE(x) == &PyBytes_Type || PyBytes_Check(x))
    #define pf_is_text(x) (Py_TYPE(x) == &PyUnicode_Type || PyUnicode_Check(x))
    #define pf_fetch(p) __builtin_prefetch(p)
    static int pf_has_utf8(PyObject *x) {       /* a str keeps its UTF-8: asking twice costs once */
      Py_ssize_t length;
      if (PyUnicode_AsUTF8AndSize(x, &length)) return 1;
      PyErr_Clear();
      return 0;
    }
    """
    bint pf_has_utf8(PyObject*)
    bint pf_is_bytes(PyObject*)
    bint pf_is_text(PyObject*)
    void pf_fetch(void*)
    const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*) except NULL
    int PyBytes_AsStringAndSize(PyObject*, char**, Py_ssize_t*) except -1
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char*, Py_ssize_t) except NULL

cdef enum:
    AHEAD = 12                  # objects whose memory is asked for before their turn

cdef int64_t not_text(cnp.ndarray a) noexcept:
    """Where a compact array of objects has the first one that is neither bytes nor a str that has UTF-8; -1: nowhere."""
    cdef PyObject** items = <PyObject**>cnp.PyArray_DATA(a)
    cdef int64_t i, n = cnp.PyArray_SIZE(a)
    for i in range(n):
        if i + AHEAD < n:
            pf_fetch(items[i + AHEAD])
        if items[i] == NULL or not (pf_has_utf8(items[i]) if pf_is_text(items[i]) else pf_is_bytes(items[i])):
            return i
    return -1

def first_not_text(array):
    """The flat position of the first element that is neither bytes nor a str that has UTF-8; -1 if there is none."""
    return not_text(np.ascontiguousarray(array, dtype=object))

def bytes_of_text(array):
    """The array of objects with bytes, in UTF-8, for its strs."""
    cdef pf_tensor* t = string_tensor(array)
    try:
        if t.m.dl_tensor.ndim == 0:
            return np.array(strings_of(t), dtype=object)
        return strings_of(t)
    finally:
        pf_tensor_unref(t)

cdef cnp.ndarray texts_of(object value):
    """The value as a compact array of str and bytes, bytes for whatever else has a buffer."""
    cdef cnp.ndarray a = np.asarray(value, dtype=object)
    cdef list flat
    if not cnp.PyArray_ISCARRAY_RO(a):
        a = np.array(a, dtype=object, order="C")
    if not_text(a) < 0:
        return a
    flat = [x if isinstance(x, (bytes, str)) else bytes(memoryview(x)) for x in a.reshape(-1)]
    a = np.empty(len(flat), dtype=object).reshape((<object>a).shape)
    for i, x in enumerate(flat):
        (<object>a).reshape(-1)[i] = x
    return a

cdef pf_tensor* string_tensor(object value) except NULL:
    """A tensor with copies of the strings; a str as UTF-8."""
    cdef cnp.ndarray a = texts_of(value)
    cdef PyObject** items = <PyObject**>cnp.PyArray_DATA(a)
    cdef int64_t i, n = cnp.PyArray_SIZE(a)
    cdef Py_ssize_t length = 0
    cdef pf_tensor* t = pf_tensor_new(PF_STRING, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a))
    cdef pf_str* s
    if t == NULL:
        raise MemoryError("a string tensor")
    s = <pf_str*>t.m.dl_tensor.data
    try:
        for i in range(n):              # no Python code runs: the objects stay
            if i + AHEAD < n:
                pf_fetch(items[i + AHEAD])
            if pf_is_bytes(items[i]):
                PyBytes_AsStringAndSize(items[i], <char**>&s[i].data, &length)
            else:
                s[i].data = PyUnicode_AsUTF8AndSize(items[i], &length)
            s[i].len = length
        if pf_strings_own(t) != PF_OK:
            raise MemoryError("a string tensor")
    except BaseException:
        memset(s, 0, <size_t>t.nbytes)
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

cdef int32_t type_of_array(cnp.ndarray a) except -1:
    cdef int n = cnp.PyArray_TYPE(a)
    if 0 <= n < 32:
        return pf_of_npy[n]
    if not extra_types and "ml_dtypes" in sys.modules:      # the first array of such a type may come from outside
        register_extensions()
    return extra_types.get(a.dtype, 0)

cdef inline bint usable(cnp.ndarray a, int32_t type) except -1:
    """As it is: the right type, compact, aligned, native byte order."""
    return type_of_array(a) == type and cnp.PyArray_ISCARRAY_RO(a)

cdef inline bint lendable(cnp.ndarray a, int32_t type) except -1:
    """A step takes it without a conversion."""
    if type == PF_STRING:
        return (cnp.PyArray_TYPE(a) == cnp.NPY_OBJECT and cnp.PyArray_ISCARRAY_RO(a)
                and not_text(a) < 0)
    return usable(a, type)

cdef bint all_lendable(tuple values, const pf_plan* p) except -1:
    """Every value is an array that a step of the plan takes as it is, and fits; there are as many as arguments."""
    cdef uint32_t k
    cdef int32_t i
    cdef cnp.ndarray a
    cdef const pf_shape* s
    for k in range(p.n_args):
        value = values[k]
        if type(value) is not cnp.ndarray:
            return False
        a = <cnp.ndarray>value
        if not lendable(a, p.arg_type[k]):
            return False
        s = p.arg_shape + k
        if s.ndim >= 0:
            if s.ndim != cnp.PyArray_NDIM(a):
                return False
            for i in range(s.ndim):
                if s.dims[i] >= 0 and s.dims[i] != cnp.PyArray_DIMS(a)[i]:
                    return False
    return True

cdef pf_tensor* lent(object value, int32_t type) except NULL:
    """A tensor of an array that all_lendable found so."""
    return string_tensor(value) if type == PF_STRING else tensor_of_array(<cnp.ndarray>value, type)

cdef pf_tensor* tensor_of(object value, int32_t type, list hold) except NULL:
    """A tensor of the type: borrowed where possible; `hold` keeps what was converted."""
    cdef cnp.ndarray a
    if isinstance(value, Kept):
        if (<Kept>value).t.type != type:
            raise TypeError("expected a tensor of %s, got one of %s" % (
                pf_type_name(type).decode(), pf_type_name((<Kept>value).t.type).decode()))
        pf_tensor_ref((<Kept>value).t)
        return (<Kept>value).t
    if type == PF_STRING:
        return string_tensor(value)
    if type == PF_RESOURCE or type == PF_VARIANT:
        if isinstance(value, Handle):
            if (<Handle>value).t.type != type:
                raise TypeError("expected the handle of a %s, got that of a %s" % (
                    pf_type_name(type).decode(), pf_type_name((<Handle>value).t.type).decode()))
            pf_tensor_ref((<Handle>value).t)
            return (<Handle>value).t
        raise TypeError("a resource is fed with the handle that a step returned, got %s" % type_name(value))
    if isinstance(value, cnp.ndarray) and usable(value, type):
        return tensor_of_array(value, type)
    if not isinstance(value, (cnp.ndarray, np.generic)) and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
        hold.append(value)
    a = np.asarray(value, dtype=dtype_of(type), order="C")
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

    def __dealloc__(self):
        pf_tensor_unref(self.t)

@cython.final
cdef class Handle:
    """A resource handle outside of a step: opaque, can be fed again."""

    def __dealloc__(self):
        pf_tensor_unref(self.t)

    @property
    def name(self):
        """Of the resource in its container; "" where it has none."""
        cdef pf_object* o = <pf_object*>self.t.m.dl_tensor.data
        return o.name.decode("utf-8", "replace") if o != NULL and o.name != NULL else ""

    def __repr__(self):
        return "<pyflow resource %s>" % self.name

@cython.final
cdef class Kept:
    """A tensor outside of a step that is no array: it can be fed without a copy, and becomes an array when asked to."""

    def __dealloc__(self):
        pf_tensor_unref(self.t)

    @staticmethod
    def of(value, int type):
        """With a copy of an array's elements."""
        cdef list hold = []
        return kept(tensor_of(value, type, hold))

    @property
    def type(self):
        """The element type's number."""
        return self.t.type

    @property
    def shape(self):
        return tuple([self.t.m.dl_tensor.shape[i] for i in range(self.t.m.dl_tensor.ndim)])

    @property
    def on_host(self):
        """In memory that an array can show; else a plan brings it."""
        return self.t.device == NULL

    @staticmethod
    def empty(int type, tuple shape):
        """A tensor of numbers that are to be written into `data(writable=True)`, before it is given away."""
        cdef int64_t dims[254]
        cdef int k
        cdef Kept made = Kept.__new__(Kept)
        if len(shape) > 254 or pf_type_size(type) <= 0 or type in (PF_STRING, PF_RESOURCE, PF_VARIANT):
            raise ValueError("a tensor of numbers and at most 254 dimensions is wanted")
        for k in range(<int>len(shape)):
            dims[k] = shape[k]
            if dims[k] < 0:
                raise ValueError("a negative dimension")
        made.t = pf_tensor_new(type, dims, <int32_t>len(shape))
        if made.t == NULL:
            raise MemoryError("a tensor")
        return made

    def data(self, bint writable=False):
        """The bytes of numbers on the host, as in memory: an array of uint8 that shares and keeps it."""
        cdef cnp.ndarray a
        cdef Buffer keep
        cdef cnp.npy_intp n = <cnp.npy_intp>self.t.nbytes
        if self.t.device != NULL or self.t.type == PF_STRING or self.t.flags & PF_T_HANDLE:
            raise ValueError("a tensor without numbers on the host")
        a = cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT8, self.t.m.dl_tensor.data)
        keep = Buffer.__new__(Buffer)
        keep.t = self.t
        pf_tensor_ref(self.t)
        PyArray_SetBaseObject(a, keep)
        Py_INCREF(keep)                 # SetBaseObject steals a reference
        if not writable:
            a.flags.writeable = False
        return a

    def array(self):
        """A copy as an array (NumPy scalar, bytes)."""
        pf_tensor_ref(self.t)
        return array_of(self.t)

    def handed_over(self):
        """The same, and this one has it no more: without a copy where nobody else does."""
        cdef pf_tensor* t = self.t
        if t == NULL:
            raise ValueError("the tensor was handed over already")
        self.t = NULL
        return array_of(t)

cdef extern from *:
    """
    typedef struct { pf_a32 refs, given_back; } pf_loan;
    static pf_loan *pf_loan_new(void) {
      pf_loan *l = calloc(1, sizeof *l);
      if (l) pf_a32_store(&l->refs, 2);           /* the Lent's, the tensor's */
      return l;
    }
    static void pf_loan_unref(pf_loan *l) { if (l && pf_a32_dec_last(&l->refs)) free(l); }
    static void pf_loan_end(void *loan) {         /* on any thread, which may not wait for the GIL */
      pf_loan *l = (pf_loan *)loan;
      pf_a32_store(&l->given_back, 1);
      pf_loan_unref(l);
    }
    """
    ctypedef struct pf_loan:
        pf_a32 given_back
    pf_loan* pf_loan_new() nogil
    void pf_loan_unref(pf_loan*) nogil
    void pf_loan_end(void*) noexcept nogil

cdef set loans = set()              # those that may not be given back yet

@cython.final
cdef class Lent:
    """An array's memory as a tensor that outlives the call: for links, which send it while the caller waits.  The array is kept until
    `over`, and is not to change before."""
    cdef pf_loan* loan
    cdef readonly Kept tensor
    cdef object array

    def __cinit__(self, array, int type):
        cdef cnp.ndarray a
        for loan in [l for l in loans if l.over]:
            loans.discard(loan)
        if type == PF_STRING or not isinstance(array, cnp.ndarray) or not usable(array, type):
            raise ValueError("an array of that type, compact and aligned, is wanted")
        a = array
        self.loan = pf_loan_new()
        if self.loan == NULL:
            raise MemoryError("a tensor's header")
        self.tensor = Kept.__new__(Kept)
        self.tensor.t = pf_tensor_wrap(type, <int64_t*>cnp.PyArray_DIMS(a), cnp.PyArray_NDIM(a), cnp.PyArray_DATA(a), PF_T_FOREIGN,
                                       pf_loan_end, self.loan)
        if self.tensor.t == NULL:
            pf_loan_unref(self.loan)
            raise MemoryError("a tensor's header")
        self.array = array
        loans.add(self)

    def __dealloc__(self):
        pf_loan_unref(self.loan)

    @property
    def over(self):
        """Nobody reads the array's memory any more."""
        return self.loan == NULL or pf_a32_load(&self.loan.given_back) != 0

    def end(self):
        """The caller has no use for it any more: it is given back when it was sent."""
        self.tensor = None
        if self.over:
            loans.discard(self)

cdef Kept kept(pf_tensor* take):
    """The tensor as a Kept, copied where its memory is a caller's or a step's."""
    cdef Kept k = Kept.__new__(Kept)
    if callers_memory(take):
        k.t = pf_tensor_copy(take)
        pf_tensor_unref(take)
    else:
        k.t = pf_tensor_settled(take)
    if k.t == NULL:
        raise MemoryError("a copy of a tensor")
    return k

cdef object strings_of(pf_tensor* t):
    """The bytes of a scalar, else an array of them."""
    cdef const pf_str* s = <const pf_str*>t.m.dl_tensor.data
    cdef cnp.ndarray a
    cdef PyObject** items
    cdef int64_t i
    if t.m.dl_tensor.ndim == 0:
        return PyBytes_FromStringAndSize(s.data, s.len) if s.len else b""
    a = cnp.PyArray_SimpleNew(t.m.dl_tensor.ndim, <cnp.npy_intp*>t.m.dl_tensor.shape, cnp.NPY_OBJECT)
    items = <PyObject**>cnp.PyArray_DATA(a)
    for i in range(cnp.PyArray_SIZE(a)):
        Py_XDECREF(items[i])            # None, or nothing yet
        items[i] = NULL
        items[i] = new_bytes(s[i].data, s[i].len)
    return a

cdef bint callers_memory(pf_tensor* t):
    while t.flags & PF_T_VIEW:
        t = <pf_tensor*>t.owner
        if not pf_tensor_unique(t):
            return True
    return t.flags & (PF_T_BORROWED | PF_T_CONSTANT) != 0

cdef object array_of(pf_tensor* take):
    """The array (or NumPy scalar, bytes, Handle) of a tensor; takes the reference."""
    cdef Handle handle
    cdef int npy = npy_of(take.type)
    if take.flags & PF_T_HANDLE:
        handle = Handle.__new__(Handle)
        handle.t = take
        return handle
    if take.type == PF_STRING:
        try:
            return strings_of(take)
        finally:
            pf_tensor_unref(take)
    if npy < 0:                         # an extension type: its bytes as integers, seen as what they are
        extension = dtype_of(take.type)
        npy = cnp.NPY_UINT16 if extension.itemsize == 2 else cnp.NPY_UINT8
        if take.m.dl_tensor.ndim == 0:
            return np.asarray(array_of_type(take, npy)).view(extension)[()]
        return array_of_type(take, npy).view(extension)
    return array_of_type(take, npy)

cdef object array_of_type(pf_tensor* take, int npy):
    """The array (or NumPy scalar) of a tensor as elements of NumPy's type `npy`; takes the reference."""
    cdef Buffer keep
    cdef cnp.ndarray a
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

# ---------------------------------------------------------------- feeds
cdef int wrong_shape(const pf_plan* p, int k, pf_tensor* t) except -1:
    """Raises: argument k is not of the shape that the plan has for it."""
    cdef pf_shape* s = p.arg_shape + k
    want = "(" + ", ".join("?" if s.dims[i] < 0 else str(s.dims[i]) for i in range(s.ndim)) + ")"
    got = tuple(t.m.dl_tensor.shape[i] for i in range(t.m.dl_tensor.ndim))
    raise ValueError("Cannot feed value of shape %r for Tensor '%s', which has shape '%s'" % (got, text_of(p.arg_name[k]), want))
