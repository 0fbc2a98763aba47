"""OrtValue and IOBinding: arrays that are handed over by reference.

Everything lies in host memory; devices other than "cpu" are refused.

    value = OrtValue.ortvalue_from_numpy(x);  value.numpy() is x
"""

import ctypes
import math

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.tensors import DTYPES, NUMBERS
from pyflow.interop.onnxruntime.errors import Fail, InvalidArgument
from pyflow.interop.onnxruntime.metadata import tensor_type_name


def dtype_of(array):
    """The DType of an array, strings included.  Raises RuntimeError for one that ONNX lacks."""
    if array.dtype.kind in "OUS":
        return dtypes.string
    try:
        return dtypes.as_dtype(array.dtype).base_dtype
    except TypeError:
        raise RuntimeError(f"Unable to handle an array of type {array.dtype}") from None


def _host_only(device_type):
    if str(device_type).lower() != "cpu":
        raise Fail(f"device {device_type!r} is not there: values lie in host memory ('cpu')")


def _element_dtype(element_type):
    """The NumPy type for a NumPy type, or ONNX's number of one."""
    if isinstance(element_type, (int, np.integer)):
        if int(element_type) not in DTYPES:
            raise InvalidArgument(f"element type {element_type} is not supported")
        return np.dtype(DTYPES[int(element_type)].as_numpy_dtype)
    return np.dtype(element_type)


class OrtValue:
    """An array with onnxruntime's questions."""

    def __init__(self, array):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(numpy_obj, /, device_type="cpu", device_id=0, vendor_id=-1):
        """Of an ndarray, whose memory it shares."""
        _host_only(device_type)
        array = np.asarray(numpy_obj)
        dtype_of(array)
        return OrtValue(array if array.flags.c_contiguous else array.copy(order="C"))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data, /, onnx_element_type):
        """Of an array of raw elements, read as ONNX's type of that number."""
        dtype = _element_dtype(onnx_element_type)
        data = np.ascontiguousarray(data)
        if data.dtype.itemsize != dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype.itemsize} bytes cannot be read as "
                                  f"{dtype.name}")
        return OrtValue(data.view(dtype))

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type="cpu", device_id=0,
                                     vendor_id=-1, memory_info=None):
        """Of a shape and a NumPy type (or ONNX's number): zeros."""
        _host_only(device_type)
        return OrtValue(np.zeros([int(d) for d in shape], _element_dtype(element_type)))

    @staticmethod
    def from_dlpack(data, /):
        """Of what has `__dlpack__` and lies in host memory, which it shares."""
        return OrtValue(np.from_dlpack(data))

    def __dlpack__(self, **kwargs):
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def numpy(self):
        """The array itself."""
        return self._array

    @property
    def _ortvalue(self):
        """Where packages reach for onnxruntime's inner object."""
        return self

    def to_dlpack(self):
        """The DLPack capsule of the memory, which it shares."""
        return self._array.__dlpack__()

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype=dtype, copy=copy)

    def data_ptr(self):
        """The address of the first element."""
        return self._array.ctypes.data

    def shape(self):
        """Its sizes, a list."""
        return list(self._array.shape)

    def data_type(self):
        """As `tensor(float)`."""
        return tensor_type_name(dtype_of(self._array))

    def element_type(self):
        """ONNX's number of the element type."""
        return NUMBERS[dtype_of(self._array)]

    def tensor_size_in_bytes(self):
        """Bytes of all elements."""
        return self._array.nbytes

    def device_name(self):
        """Always "cpu"."""
        return "cpu"

    def has_value(self):
        """Always True."""
        return True

    def is_tensor(self):
        """Always True."""
        return True

    def is_sparse_tensor(self):
        """Always False."""
        return False

    def is_tensor_sequence(self):
        """Always False."""
        return False

    def update_inplace(self, np_arr):
        """Writes an array of the same shape and type into it."""
        given = np.asarray(np_arr)
        if given.shape != self._array.shape or given.dtype != self._array.dtype:
            raise InvalidArgument(f"expected {self._array.dtype.name}{self._array.shape}, got "
                                  f"{given.dtype.name}{given.shape}")
        if not self._array.flags.writeable:
            raise Fail("the array that this OrtValue was made of is not writable")
        self._array[...] = given


def _at(pointer, shape, element_type):
    """The array in the caller's memory."""
    dtype, shape = _element_dtype(element_type), tuple(int(d) for d in shape)
    if not pointer or min(shape, default=0) < 0:
        raise InvalidArgument(f"no buffer of shape {shape} at {pointer}")
    count = math.prod(shape) * dtype.itemsize
    held = (ctypes.c_ubyte * count).from_address(int(pointer))
    return np.frombuffer(held, dtype, math.prod(shape)).reshape(shape)


class IOBinding:
    """Inputs and outputs of runs, bound by name; `session.run_with_iobinding(binding)`."""

    def __init__(self, session):
        self._session = session
        self._inputs, self._outputs, self._results = {}, {}, []

    def bind_cpu_input(self, name, arr_on_cpu):
        """An ndarray as an input."""
        self._inputs[name] = np.asarray(arr_on_cpu)

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory of the caller's, read when it runs."""
        _host_only(device_type)
        self._inputs[name] = _at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name, ortvalue):
        """An OrtValue as an input."""
        self._inputs[name] = ortvalue.numpy()

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None,
                    buffer_ptr=None):
        """An output that is wanted; with buffer_ptr it is written to the caller's memory."""
        _host_only(device_type)
        self._outputs[name] = None if buffer_ptr is None else _at(buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name, ortvalue):
        """An output that is written into an OrtValue."""
        self._outputs[name] = ortvalue.numpy()

    def run(self, options=None):
        """One run; `InferenceSession.run_with_iobinding` calls it."""
        names = list(self._outputs)
        values = self._session.run(names, self._inputs, options)
        made = []
        for name, value in zip(names, values):
            room = self._outputs[name]
            if room is None:
                made.append(OrtValue(value))
                continue
            if room.shape != value.shape or room.dtype != value.dtype:
                raise InvalidArgument(f"output {name!r} is {value.dtype.name}{value.shape}, bound is "
                                      f"{room.dtype.name}{room.shape}")
            room[...] = value
            made.append(OrtValue(room))
        self._results = made

    def get_outputs(self):
        """OrtValues of the last run, in the order of binding."""
        return list(self._results)

    def copy_outputs_to_cpu(self):
        """Arrays of the last run, in the order of binding."""
        return [value.numpy() for value in self._results]

    def clear_binding_inputs(self):
        """Forgets the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self):
        """Forgets the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self):
        """Nothing: what is bound lies in host memory."""

    def synchronize_outputs(self):
        """Nothing: a run has ended when it returns."""
