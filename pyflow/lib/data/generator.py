"""Dataset.from_generator: Python iterators behind GeneratorDataset's three functions.

Invariants
  1. Each reading of the dataset calls `generator` once; each next element is one `next` of it, on
     the executor's Python lane, never two at once of one reading.
  2. What it gives is checked against output_types and output_shapes; messages have the element.

Threads: the graph's for building; `_Generators` has a lock.
Source: TF 1.15 Dataset.from_generator.
"""
import itertools
import threading

import numpy as np

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.op_attrs import FunctionName
from pyflow.lib.control_flow.script_functions import py_func
from pyflow.lib.data import structure
from pyflow.lib.data.functions import ElementFunction
from pyflow.ops.dataset import dataset_ops


class _Generators:
    """The iterators that are being read, by number."""

    def __init__(self, generator):
        self._generator = generator
        self._lock = threading.Lock()
        self._open = {}
        self._numbers = itertools.count()

    def begin(self, *args):
        """-> the number of a new one"""
        number = next(self._numbers)
        made = iter(self._generator(*args))
        with self._lock:
            self._open[number] = made
        return np.int64(number)

    def following(self, number):
        return next(self._open[int(number)])

    def end(self, number):
        with self._lock:
            self._open.pop(int(number), None)
        return np.int64(0)


def _component(value, dtype, shape):
    """A leaf of an element as an array. TypeError, ValueError for what does not fit."""
    wanted = object if dtype == dtypes.string else dtype.as_numpy_dtype
    try:
        array = np.array(value, dtype=wanted)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`generator` yielded an element that could not be converted to the "
                        f"expected type. The expected type was {dtype.name}, but the yielded element "
                        f"was {value}.") from error
    if not shape.is_compatible_with(array.shape):
        raise TypeError(f"`generator` yielded an element of shape {array.shape} where an element "
                        f"of shape {shape} was expected.")
    return array


def _element(value, types, shapes):
    """The flat arrays of what a generator yielded."""
    leaves = structure.flatten(types)
    value = tuple(value) if type(types) is tuple and isinstance(value, list) else value
    try:
        structure.same(types, value, "elements")
    except TypeError as error:
        raise TypeError(f"`generator` yielded an element that did not match the expected "
                        f"structure. The expected structure was {types}, but the yielded "
                        f"element was {value}."
                        ) from error
    return [_component(part, dtype, shape) for part, dtype, shape in
            zip(structure.flatten(value), leaves, structure.flatten(shapes))]


def variant(generator, types, shapes, args):
    """The variant tensor of a dataset over `generator(*args)`."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    kept = _Generators(generator)
    args = tuple(ops.convert_to_tensor(a, name="args") for a in args or ())

    def begin():
        [number] = py_func(lambda *a: [kept.begin(*a)], list(args), [dtypes.int64])
        number.set_shape([])
        return number

    def following(number):
        flat = py_func(lambda n: _element(kept.following(n), types, shapes), [number],
                       structure.flatten(types))
        for tensor, shape in zip(flat, structure.flatten(shapes)):
            tensor.set_shape(shape)
        return structure.pack(types, flat)

    def end(number):
        return py_func(lambda n: [kept.end(n)], [number], [dtypes.int64])[0]
    functions = [ElementFunction(begin, "generator_begin", None, None),
                 ElementFunction(following, "generator_next", dtypes.int64, structure.SCALAR),
                 ElementFunction(end, "generator_end", dtypes.int64, structure.SCALAR)]
    init, step, last = functions
    return dataset_ops.GeneratorDataset(
        init.captured, step.captured, last.captured, init_func=FunctionName(init.name),
        next_func=FunctionName(step.name), finalize_func=FunctionName(last.name),
        Tinit_func_args=init.captured_types, Tnext_func_args=step.captured_types,
        Tfinalize_func_args=last.captured_types, output_types=structure.flatten(types),
        output_shapes=structure.flatten(shapes))
