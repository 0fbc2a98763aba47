"""What an ONNX value is while its graph is built: an array known now, or a tensor in some order.

Invariants:
1. `Value.order[i]` is the axis, as ONNX counts, that lies at axis i of the tensor.  Transposes are
   made when somebody needs another order, once per order and control-flow context, so those
   between two layers that agree never exist: NCHW models run channels-last inside.
2. A known array becomes a Const node when a tensor is asked for, outside of loops and branches.
   Those of the model's own tensors (`Weight`), and the forms that converters made of them, are held
   once for all graphs made from the model.
3. `known(tensor)` runs small stateless nodes over known inputs by their NumPy references; nothing
   is added to the graph and nothing big is computed.

One graph is built by one thread.

    value = Value(nhwc, order=(0, 2, 3, 1));  value.plain       # the NCHW tensor
"""

import functools

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.framework.constant import constant_from_array
from pyflow.interop.onnx import files

_MAX_KNOWN = 1 << 14        # elements of a value that is computed while importing
_MAX_DEPTH = 200
_SMALL = 4096               # bytes below which a plan has a copy of its own anyway
RECALLED_BYTES = 1 << 16    # constants that a Variant lets go between compilations
_RANDOM = ("Placeholder", "PlaceholderWithDefault", "Merge", "Enter", "Exit", "NextIteration",
           "PyFunc")


def channels_last(rank):
    """The order N, spatial..., C of a tensor of `rank` axes."""
    return (0, *range(2, rank), 1)


def natural(rank):
    """ONNX's own order."""
    return tuple(range(rank))


class Weight:
    """An array that the model holds, perhaps in its file; nobody writes to it.

    forms: copies made from it, by what they are for; nodes: the Const nodes of large ones, as
    (Operation, key, make), until a Variant takes them."""

    __slots__ = ("_array", "_file", "forms", "nodes")

    def __init__(self, array):
        self._array, self._file = array, files.file_of(array)
        self.forms, self.nodes = {}, []

    @property
    def array(self):
        """The array as it lies.  Raises OnnxError if its file has changed."""
        if self._file is not None:
            self._file.check()
        return self._array

    def form(self, key, make):
        """`make(array)` in memory of its own, made once."""
        made = self.forms.get(key)
        if made is None:
            made = self.forms[key] = owned(make(self.array))
            if self._file is not None:
                self._file.forget(self._array)
        return made


def owned(array):
    """The array or a copy of it: compact, not writable, of its own memory."""
    if array.nbytes < _SMALL:
        array = np.array(array, order="C")
    elif not array.flags.owndata or not array.flags.c_contiguous:
        return files.frozen(array)
    array.flags.writeable = False
    return array


def _itself(array):
    return array


class Value:
    """One ONNX value.  Give `array` (known now), `weight` (what the model holds) or `tensor` (and
    the order it lies in)."""

    __slots__ = ("array", "_tensor", "order", "_made", "home", "small", "_weight",
                 "source")

    def __init__(self, tensor=None, order=None, array=None, weight=None):
        self._weight, self.small = weight, None     # small: see small_types.py
        self.source = None          # what it was made of, for ops that do better with that:
                                    # Dequantised or Stretched of ops/common.py
        self.array = array if weight is None else weight.array
        self._tensor = tensor
        self.order = tuple(order) if order is not None else None
        self._made = {}
        self.home = _context()
        if order is not None:
            if tensor.shape.ndims not in (None, len(self.order)):
                raise ValueError(f"a tensor of shape {tensor.shape} where {len(self.order)} axes "
                                 f"were expected")
            if self.order == natural(len(self.order)):
                self.order = None

    @property
    def dtype(self):
        if self._tensor is not None:
            return self._tensor.dtype.base_dtype
        return dtypes.as_dtype(self.array.dtype) if self.array.dtype != object else dtypes.string

    def tagged(self, small):
        """This value, as codes of ONNX's small type of that number."""
        self.small = small
        return self

    @property
    def rank(self):
        """Number of axes, or None."""
        return self.array.ndim if self._tensor is None else self._tensor.shape.ndims

    @property
    def shape(self):
        """ONNX's shape: a tuple of sizes, None where unknown; None for unknown rank."""
        if self._tensor is None:
            return self.array.shape
        dims = self._tensor.shape.as_tuple()
        if self.order is None or dims is None:
            return dims
        shape = [None] * len(dims)
        for at, axis in enumerate(self.order):
            shape[axis] = dims[at]
        return tuple(shape)

    @property
    def is_array(self):
        return self.array is not None

    @property
    def tensor(self):
        """The tensor as it lies."""
        if self._tensor is None:
            self._tensor = (constant(self.array) if self._weight is None else
                            _held_constant(self._weight, None, _itself))
        return self._tensor

    def form(self, key, make):
        """The constant of `make(array)`, where the array is known; made once.  key: what is made, and
        from what besides the array."""
        made = self._made.get(key)
        if made is None:
            if self._weight is None:
                made = constant(make(self.array))
            else:
                made = _held_constant(self._weight, key, make)
            self._made[key] = made
        return made

    @property
    def plain(self):
        """The tensor in ONNX's order."""
        return self.tensor if self.order is None else self.ordered(natural(self.rank))

    @property
    def last(self):
        """The tensor with the channels (axis 1) last."""
        return self.ordered(channels_last(self.rank))

    def ordered(self, order):
        """The tensor with its axes in `order`; transposed if need be."""
        tensor = self.tensor
        order = tuple(order)
        have = self.order or natural(len(order))
        if order == have:
            return tensor
        key = order, _context()
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = permuted(tensor, [have.index(axis) for axis in order])
        return made

    def transposed(self, perm):
        """The value with its axes permuted; nothing is computed yet."""
        if self._tensor is None:
            return Value(array=self.array.transpose(perm))
        where = {axis: new for new, axis in enumerate(perm)}
        return Value(self._tensor, [where[axis] for axis in self.order or natural(len(perm))])


def permuted(tensor, perm):
    """tf.transpose, or a reshape where only axes of size 1 move."""
    dims = tensor.shape.as_tuple()
    moving = [axis for axis in perm if dims is None or dims[axis] != 1]
    if moving == sorted(moving) and dims is not None:
        new = [dims[axis] for axis in perm]
        if new.count(None) <= 1:
            return tf.reshape(tensor, [-1 if d is None else d for d in new])
    return tf.transpose(tensor, perm)


def _context():
    return tf.get_default_graph()._control_flow_context


def constant(array):
    """A Const node outside of all loops and branches."""
    with tf.get_default_graph().control_dependencies(None):
        return tf.constant(array)


def held_constant(array):
    """A Const node of an array that nobody writes to, without a copy."""
    if array.dtype == object:
        return constant(array)
    graph = tf.get_default_graph()
    with graph.control_dependencies(None):
        return constant_from_array(graph, array, dtypes.as_dtype(array.dtype))


def _held_constant(weight, key, make):
    """A Const node of a form of what the model holds, without another copy."""
    array = weight.form(key, make)
    made = held_constant(array)
    if array.nbytes >= RECALLED_BYTES and array.dtype != object:
        weight.nodes.append((made.op, key, make))
    return made


class Knowledge:
    """Values of tensors that follow from constants and static shapes; see invariant 3."""

    def __init__(self):
        self._found = {}

    def array(self, tensor, depth=_MAX_DEPTH):
        """The tensor's value as an ndarray, or None."""
        key = tensor.op, tensor.value_index
        if key in self._found:
            return self._found[key]
        found = self._compute(tensor, depth)
        self._found[key] = found
        return found

    def _compute(self, tensor, depth):
        op = tensor.op
        if op.type == "Const":
            return op.attrs["value"]
        if op.type in ("Shape", "ShapeN", "Size", "Rank"):
            return _from_shape(tensor)
        if op.type == "Switch":             # in the branch that is taken
            return self.array(op.inputs[0], depth - 1) if depth else None
        if not depth or op.type in _RANDOM or op.op_def.is_stateful or not op.op_def.reference:
            return None
        size = tensor.shape.num_elements()
        if size is not None and size > _MAX_KNOWN:
            return None
        arrays = []
        for source in op.inputs:
            value = self.array(source, depth - 1)
            if value is None or value.size > _MAX_KNOWN:
                return None
            arrays.append(value)
        return _evaluate(tensor, arrays)


def _from_shape(tensor):
    op = tensor.op
    shape = op.inputs[tensor.value_index].shape
    if op.type == "Rank":
        value = shape.ndims
    elif op.type == "Size":
        value = shape.num_elements()
    else:
        value = shape.as_list() if shape.is_fully_defined() else None
    return None if value is None else np.array(value, tensor.dtype.as_numpy_dtype)


def _too_big(op, arrays):
    """Whether a result of unknown shape could be large."""
    if op.type in ("Fill", "BroadcastTo", "Reshape", "Tile"):
        asked = arrays[0] if op.type == "Fill" else arrays[1]
        start = arrays[0].size if op.type == "Tile" else 1
        return abs(np.prod(asked.astype(float))) * start > _MAX_KNOWN
    if op.type == "Range":
        start, limit, delta = (float(a) for a in arrays)
        return not delta or abs((limit - start) / delta) > _MAX_KNOWN
    return op.type in ("Pad", "PadV2", "OneHot", "ScatterNd", "LinSpace", "MatrixDiag", "Diag") \
        and op.outputs[0].shape.num_elements() is None


def _evaluate(tensor, arrays):
    op = tensor.op
    if _too_big(op, arrays):
        return None
    try:
        with np.errstate(all="ignore"):
            result = op.op_def.call_reference(arrays, op.attrs)
    except (ValueError, TypeError, LookupError, ArithmeticError):
        return None         # the step will say what is wrong
    if isinstance(result, (tuple, list)):
        result = result[tensor.value_index]
    dtype = tensor.dtype.base_dtype
    if dtype is dtypes.string:
        return np.asarray(result, object)
    return np.asarray(result).astype(dtype.as_numpy_dtype, copy=False)


_SOURCES = ("Placeholder", "VarHandleOp", "VariableV2")


def sources_of(tensor, limit=100_000):
    """Placeholders and variables that `tensor` depends on: their nodes."""
    found, seen, waiting = [], set(), [tensor.op]
    while waiting and len(seen) < limit:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type in _SOURCES:
            found.append(op)
        waiting.extend(source.op for source in op.inputs)
    return found


@functools.cache
def kernel_types(op_name, attr="T"):
    """DTypes of type attribute `attr` for which `op_name` is declared and has a CPU kernel."""
    from pyflow.framework.op import get_op
    from pyflow.session import runtime
    allowed = get_op(op_name).attrs[attr].allowed or list(dtypes._BY_NUMBER.values())
    with_kernel = set()
    for kernel in runtime.start().kernels(op_name):
        wheres = dict(part.strip().split("=", 1) for part in (kernel["where"] or "").split(",")
                      if "=" in part)
        if attr not in wheres:
            return frozenset(allowed)
        names = {"float": "float32", "double": "float64", "half": "float16"}
        with_kernel |= {dtypes.as_dtype(names.get(t, t)) for t in wheres[attr].split("|")}
    return frozenset(t for t in allowed if t in with_kernel)
