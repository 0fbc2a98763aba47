"""TensorArray: an array of tensors, written and read by index; what loops collect results in.

Invariants
  1. The array belongs to the step. Its `flow`, a float scalar, carries no value: it orders writes
     before reads, so each write returns a new TensorArray with the new flow, and that one must be
     used.
  2. An element is written once (gradients add up instead) and, with clear_after_read, read once.
  3. The gradient of an array is another array, found by (handle, `source`).

Thread: the one building the graph.  Source: TF 1.x TensorArrayV3.

Example:
    ta = tf.TensorArray(tf.float32, size=3)
    ta = ta.write(0, 1.0).write(1, 2.0).write(2, 3.0)
    ta.stack()                                        # [1, 2, 3]
"""
import contextlib

from pyflow.framework import dtypes, graph as ops, tensor_util
from pyflow.framework.op import raw_ops
from pyflow.framework.tensor_shape import TensorShape, as_shape, unknown_shape
from pyflow.ops.base import tensors


# ------------------------------------------------------------------------------------ TensorArray
class TensorArray:
    """An array of `size` tensors of `dtype` (it grows with dynamic_size=True).

    element_shape: what all elements' shapes fit; with `infer_shape` it is learnt from the first
    write and all must be equal. handle and flow: an existing array's. Raises ValueError for a
    handle together with a size or name. TF: tf.TensorArray."""

    def __init__(self, dtype, size=None, dynamic_size=None, clear_after_read=None,
                 tensor_array_name=None, handle=None, flow=None, infer_shape=True,
                 element_shape=None, colocate_with_first_write_call=True, name=None):
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if handle is not None and not isinstance(handle, ops.Tensor):
            raise TypeError("Handle must be a Tensor")
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        for value, what in ((size, "size"), (dynamic_size, "dynamic_size"),
                            (clear_after_read, "clear_after_read")):
            if handle is not None and value is not None:
                raise ValueError(f"Cannot provide both a handle and {what} at the same time")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._colocate = colocate_with_first_write_call
        self._colocated_with = None
        self._infer_shape = infer_shape or element_shape is not None
        self._element_shape = [as_shape(element_shape)]     # shared by arrays with other flows
        self._size = size if isinstance(size, int) else None
        with ops.name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                self._handle, self._flow = handle, flow
                if flow is None:
                    with ops.colocate_with(handle):
                        self._flow = ops.constant(0, dtype=dtypes.float32, name="flow")
            else:
                made = self._make(size, clear_after_read, tensor_array_name, scope)
                self._handle, self._flow = made

    def _make(self, size, clear_after_read, tensor_array_name, scope):
        def create():
            return raw_ops.TensorArrayV3(
                size, dtype=self._dtype, element_shape=self._element_shape[0],
                dynamic_size=self._dynamic_size, identical_element_shapes=self._infer_shape,
                clear_after_read=True if clear_after_read is None else clear_after_read,
                tensor_array_name=tensor_array_name or "", name=scope)
        if self._colocate:
            with ops.device(None), ops.colocate_with(None, ignore_existing=True):
                return create()
        return create()

    def __repr__(self):
        return (f"<tf.TensorArray {self._handle.name!r} dtype={self._dtype.name} "
                f"element_shape={self._element_shape[0]} size={self._size}>")

    def with_flow(self, flow):
        """The same array, as it is after what `flow` stands for."""
        other = object.__new__(TensorArray)
        other.__dict__.update(self.__dict__)
        other._flow = flow
        return other

    @property
    def handle(self):
        """The resource tensor that names the array."""
        return self._handle

    @property
    def flow(self):
        """The float scalar that orders reads after writes."""
        return self._flow

    @property
    def dtype(self):
        """The DType of the elements."""
        return self._dtype

    @property
    def graph(self):
        """The graph of the array's operations."""
        return self._handle.graph

    @property
    def dynamic_size(self):
        """True if writes past the end make the array longer."""
        return self._dynamic_size

    @property
    def element_shape(self):
        """What is known of the elements' shape."""
        return self._element_shape[0]

    def _learn_shape(self, shape):
        """Every element has the shape of the first that is known."""
        if not self._infer_shape:
            return
        if not self._element_shape[0].is_compatible_with(shape):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected "
                             f"{self._element_shape[0]} (and infer_shape=True)")
        self._element_shape[0] = self._element_shape[0].merge_with(shape)

    @contextlib.contextmanager
    def _placed(self, value=None):
        """On the array's device; with the first value's, if it has none of its own."""
        if not self._colocate:
            with ops.colocate_with(self._handle):
                yield
            return
        if self._colocated_with is None and value is not None:
            self._colocated_with = value
        if self._colocated_with is None:
            yield
            return
        with ops.colocate_with(self._colocated_with):
            yield

    # ----------------------------------------------------------------------------------- operations
    def identity(self):
        """The same array with a new flow, which waits for the control dependencies in force."""
        return self.with_flow(raw_ops.Identity(self._flow))

    def grad(self, source, flow=None, name=None):
        """The array of this one's gradients for the sweep `source`."""
        flow = self._flow if flow is None else flow
        with ops.name_scope(name, "TensorArrayGrad", [self._handle]):
            with ops.colocate_with(self._handle):
                handle, _ = raw_ops.TensorArrayGradV3(self._handle, flow, source=source)
                with ops.control_dependencies([handle]):
                    flow = raw_ops.Identity(flow, name="gradient_flow")
                g = TensorArray(self._dtype, handle=handle, flow=flow,
                                infer_shape=self._infer_shape,
                                colocate_with_first_write_call=False)
                g._element_shape = self._element_shape
                return g

    def read(self, index, name=None):
        """Element `index`."""
        with ops.colocate_with(self._handle):
            value = raw_ops.TensorArrayReadV3(self._handle, index, self._flow, dtype=self._dtype, name=name)
        if self._element_shape[0].ndims is not None:
            value.set_shape(self._element_shape[0])
        return value

    def write(self, index, value, name=None):
        """The array after element `index` is set to `value`."""
        with ops.name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _require_dtype(self, value)
            self._learn_shape(value.shape)
            with self._placed(value):
                flow = raw_ops.TensorArrayWriteV3(self._handle, index, value, self._flow, name=name)
            return self.with_flow(flow)

    def stack(self, name=None):
        """All elements, of one shape, stacked."""
        with ops.colocate_with(self._handle):
            with ops.name_scope(name, "TensorArrayStack", [self._handle]):
                value = self.gather(tensors.range_(0, self.size()), name=name)
                if self._element_shape[0].ndims is not None and not self._dynamic_size:
                    count = tensor_util.constant_value(_size_input(self._handle))
                    if count is not None:
                        rows = TensorShape([int(count)])
                        value.set_shape(rows.concatenate(self._element_shape[0]))
                return value

    def gather(self, indices, name=None):
        """Elements `indices`, of one shape, stacked."""
        value = raw_ops.TensorArrayGatherV3(self._handle, indices, self._flow, dtype=self._dtype,
                                            element_shape=self._element_shape[0], name=name)
        if self._element_shape[0].ndims is not None:
            value.set_shape(TensorShape([None]).concatenate(self._element_shape[0]))
        return value

    def concat(self, name=None):
        """All elements joined along dimension 0."""
        element = self._element_shape[0]
        rest = element[1:] if element.ndims is not None else unknown_shape()
        value, _ = raw_ops.TensorArrayConcatV3(self._handle, self._flow, dtype=self._dtype,
                                               element_shape_except0=rest, name=name)
        if rest.ndims is not None:
            value.set_shape(TensorShape([None]).concatenate(rest))
        return value

    def unstack(self, value, name=None):
        """The array after element i is set to row i of `value`, for all rows."""
        with ops.name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            count = tensors.shape(value)[0]
            return self.scatter(indices=tensors.range_(0, count), value=value, name=name)

    def scatter(self, indices, value, name=None):
        """The array after element `indices[i]` is set to row i of `value`."""
        with ops.name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _require_dtype(self, value)
            if value.shape.ndims is not None:
                self._learn_shape(value.shape[1:])
            with self._placed(value):
                flow = raw_ops.TensorArrayScatterV3(self._handle, indices, value, self._flow, name=name)
            return self.with_flow(flow)

    def split(self, value, lengths, name=None):
        """The array after element i is set to the next `lengths[i]` rows of `value`."""
        with ops.name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = ops.convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            _require_dtype(self, value)
            with self._placed(value):
                lengths = tensors.cast(lengths, dtypes.int64)
                self._learn_split_shape(value, lengths)
                flow = raw_ops.TensorArraySplitV3(self._handle, value, lengths, self._flow, name=name)
            return self.with_flow(flow)

    def _learn_split_shape(self, value, lengths):
        known = tensor_util.constant_value(lengths)
        if not self._infer_shape or value.shape.ndims is None or known is None:
            return
        if known.size and known.max() == known.min():
            self._learn_shape(TensorShape([int(known[0])]).concatenate(value.shape[1:]))

    def size(self, name=None):
        """The number of elements, an int32 scalar."""
        if not self._dynamic_size and self._size is not None:
            return ops.constant(self._size, dtype=dtypes.int32)
        with ops.colocate_with(self._handle):
            return raw_ops.TensorArraySizeV3(self._handle, self._flow, name=name)

    def close(self, name=None):
        """The operation that frees the array before the step ends."""
        with ops.colocate_with(self._handle):
            return raw_ops.TensorArrayCloseV3(self._handle, name=name)


def _require_dtype(array, value):
    if value.dtype.base_dtype != array.dtype:
        raise TypeError(f"TensorArray dtype is {array.dtype.name} but op is trying to write dtype "
                        f"{value.dtype.base_dtype.name} ('{value.name}'). Cast it with tf.cast.")


def _size_input(handle):
    """The size a TensorArrayV3 was made with, seen through loops."""
    op = handle.op
    while op.type in ("Identity", "Enter", "Switch"):
        op = op.inputs[0].op
    return op.inputs[0] if op.type == "TensorArrayV3" else op.outputs[0]


PUBLIC = {"TensorArray": TensorArray}
