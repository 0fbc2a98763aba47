"""TensorArrays and TensorLists as tensors: what is in a list is what its stack would be.

Invariants:
1. A list is empty (a size, no element yet), stacked (one tensor with the elements along axis 0), or
   open: a loop's variable, of which elements are collected.
2. Elements have one shape.  Elements that were never written are zeros, as TensorFlow's are: a loop
   that ends before a list is full leaves its rest zero, and its length as it was.

A flow (of a TensorArray) and a handle (of a TensorList) are bound to a `List` where a tensor is
bound to a Value.  One model is written by one thread.
"""

import numpy as np

from pyflow.interop.onnx.errors import UnsupportedError
from pyflow.interop.onnx.exporter.body import Value
from pyflow.interop.onnx.tensors import NUMBERS


class NotCollected(Exception):
    """A loop's list is not filled one element a turn; variable: its number."""

    def __init__(self, message, variable):
        super().__init__(message)
        self.variable = variable


class List:
    """An empty list of `size` elements (a name or array of an int64 scalar) or a stacked one."""

    array = None            # as of a Value that is not known
    padded = False          # whether elements that no turn of a loop gives are zeros
    grows = False           # whether it may get more elements than `size`
    reserved = None         # the tensor that `size` is the value of

    def __init__(self, dtype, element_shape, size=None, stack=None):
        self.dtype, self.element_shape, self.size, self.stack = dtype, element_shape, size, stack

    def of_size(self, reserved, grows=False):
        """The same list, `size` elements of which are there (the value of the tensor `reserved`),
        zeros until they are written."""
        self.padded, self.reserved, self.grows = True, reserved, grows
        return self

    @property
    def is_empty(self):
        """Whether no element was written."""
        return self.stack is None

    @property
    def plain(self):
        raise UnsupportedError("a TensorArray or TensorList is used as a tensor")

    def stacked_as(self, name, body, element):
        """The list of the tensor called `name`.  element: a Value one of its elements is like."""
        dims = element.shape if element is not None else self.element_shape
        shape = None if dims is None else (None, *dims)
        return List(self.dtype, self.element_shape,
                    stack=Value(name, None, shape, self.dtype, body))

    def collected_as(self, name, body, written, full):
        """The list of the elements that a loop collected, called `name`; filled up with zeros to
        the size that was reserved, or the last one alone.  full: whether the loop surely makes as
        many turns."""
        element = written.element
        if written.last:
            last, end = np.array([-1], np.int64), np.array([(1 << 63) - 1], np.int64)
            name = body.emit("Slice", [name, last, end, np.array([0], np.int64)], f"{name}/last")
        size = self.size
        known = isinstance(size, np.ndarray)
        if self.padded and not full and not (known and size == 0 and self.grows):
            sizes = size.reshape(1) if known else body.emit(
                "Reshape", [size, np.array([1], np.int64)], f"{name}/size")
            name = resized(body, name, sizes, element, self.grows)
        return self.stacked_as(name, body, element)

    def dense(self, body):
        """The Value of the stack; of an empty list zeros."""
        if self.stack is not None:
            return self.stack
        dims = self.element_shape
        if dims is None or None in dims:
            raise UnsupportedError("a list that is not filled one element a turn, and whose "
                                   "elements' shape is not known: give element_shape")
        zero = np.zeros(1, self.dtype.as_numpy_dtype)
        if isinstance(self.size, np.ndarray):
            array = np.zeros((int(self.size), *dims), self.dtype.as_numpy_dtype)
            return Value(array=array, home=body, wanted="list")
        one = body.emit("Reshape", [self.size, np.array([1], np.int64)], "list/size")
        sizes = body.emit("Concat", [one, np.array(dims, np.int64)], "list/sizes", axis=0)
        name = body.emit("ConstantOfShape", [sizes], "list", value=zero)
        return Value(name, None, (None, *dims), self.dtype, body)


class Open(List):
    """A loop's list before this turn's element."""

    def __init__(self, given, variable):
        super().__init__(given.dtype, given.element_shape, given.size)
        self.variable, self.padded = variable, given.padded

    def dense(self, body):
        raise NotCollected("a list is read while it is filled", self.variable)

    @property
    def plain(self):
        raise NotCollected("a list is used otherwise", self.variable)


class Written(List):
    """A loop's list after it.  last: each turn writes the only element anew."""

    def __init__(self, opened, element, last=False):
        super().__init__(opened.dtype, opened.element_shape, opened.size)
        self.variable, self.element, self.last = opened.variable, element, last

    dense = Open.dense
    plain = Open.plain


def collected(result, variable):
    """The Written of a turn that adds an element to the list, None: it adds none.  NotCollected if
    the list becomes another."""
    if isinstance(result, Written) and result.variable == variable:
        return result
    if isinstance(result, Open) and result.variable == variable:
        return None
    raise NotCollected("a list becomes another one in a turn", variable)


def is_turn(body, index):
    """Whether a Value is the number of the turn of the innermost loop, or a Cast of it."""
    if index.array is not None or index.order is not None:
        return False
    name = index.named()
    while body is not None:
        made = body.made.get(name)
        while made is not None and made.op_type == "Cast":
            name = made.input[0]
            made = body.made.get(name)
        if body.turns is not None:
            return name in body.turns
        body = body.outer
    return False


def write(node, given, index, element):
    """`given` with `element` at `index` (both Values)."""
    if isinstance(given, Written):
        raise NotCollected("two elements are written in a turn", given.variable)
    if isinstance(given, Open):
        if index is not None and index.array is not None and index.array == 0 \
                and isinstance(given.size, np.ndarray) and given.size == 1:
            return Written(given, element, last=True)
        if index is not None and not is_turn(node.body, index):
            raise NotCollected("an element is not written at the turn's number", given.variable)
        return Written(given, element)
    if given.element_shape is None or None in given.element_shape:
        given = List(given.dtype, element.shape, given.size, given.stack)
    stack = given.dense(node.body)
    row = node.reshape(node.int64(index.plain, index.dtype), [1, 1])
    name = node.emit("ScatterND", stack.plain, row, node.unsqueeze(element.plain, 0))
    return List(given.dtype, given.element_shape,
                stack=Value(name, None, stack.shape, given.dtype, node.body))


def push(node, given, element):
    """`given` with `element` behind it."""
    if isinstance(given, (Open, Written)):
        return write(node, given, None, element)
    row = node.unsqueeze(element.plain, 0)
    if given.stack is not None or not isinstance(given.size, np.ndarray) or given.size != 0:
        row = node.emit("Concat", given.dense(node.body).plain, row, axis=0)
    return List(given.dtype, element.shape, stack=Value(
        row, None, None if element.shape is None else (None, *element.shape), given.dtype,
        node.body))


def size(node, given):
    """How many elements: an int64 scalar."""
    if given.stack is None:
        if isinstance(given, (Open, Written)):
            raise NotCollected("a list's length is asked while it is filled", given.variable)
        return given.size
    return node.like_scalar(node.size_of(given.stack.plain, 0))


def resized(body, name, sizes, element, at_least=False):
    """A stack cut or filled with zeros to `sizes`, an int64 vector of one (an array or a name).
    at_least: what is longer stays so."""
    rank = None if element is None or element.shape is None else len(element.shape) + 1
    if rank is None:
        raise UnsupportedError("a list whose elements' rank is not known")
    have = body.emit("Shape", [name], f"{name}/have", start=0, end=1)
    more = body.emit("Sub", [sizes, have], f"{name}/more")
    if at_least:
        more = body.emit("Max", [more, np.zeros(1, np.int64)], f"{name}/more")
    zeros = np.zeros(rank - 1, np.int64)
    pads = body.emit("Concat", [np.zeros(rank, np.int64), more, zeros], f"{name}/pads", axis=0)
    return body.emit("Pad", [name, pads], f"{name}/padded")     # negative pads cut


__all__ = ["List", "NotCollected", "NUMBERS", "Open", "Written", "collected", "is_turn", "push",
           "resized", "size", "write"]
