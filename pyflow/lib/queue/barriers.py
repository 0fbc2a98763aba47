"""Barrier: tuples whose components come one by one, under a key, in any order.

Who calls it: users.  Thread: the one building the graph.
Source: TF 1.15 data_flow_ops.Barrier.
"""
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.queue import components
from pyflow.ops.queue import barrier_ops


class Barrier(ShowsArguments):
    """Keys that are ready when all of their components were inserted. TF: data_flow_ops.Barrier.

    types, shapes: of the components; shapes fully defined (ValueError otherwise). shared_name:
    barriers of one name and container are one.

        b = Barrier([tf.float32, tf.int32], shapes=[[], []])
        b.insert_many(0, ["x", "y"], [1.0, 2.0]);  b.insert_many(1, ["y"], [7])
        b.take_many(1)          # indices, [b"y"], [[2.0], [7]]
    """

    def __init__(self, types, shapes=None, shared_name=None, name="barrier"):
        self._types = components.as_types(types)
        shapes = components.as_shapes(shapes, self._types)
        self._shapes = [TensorShape(s) for s in
                        components.shapes_or_unknown(shapes, self._types)]
        self._barrier_ref = barrier_ops.Barrier(
            component_types=self._types, shapes=shapes or [], shared_name=shared_name or "",
            name=name)
        self._name = self._barrier_ref.op.name.rsplit("/", 1)[-1]

    barrier_ref = property(lambda self: self._barrier_ref, doc="The handle.")
    name = property(lambda self: self._barrier_ref.op.name, doc="The name of the barrier's op.")

    def insert_many(self, component_index, keys, values, name=None):
        """The operation that sets component `component_index` of each key.

        keys: a string vector; values: as many rows. InvalidArgumentError for a component that is
        there, CancelledError for a new key of a closed barrier."""
        return barrier_ops.BarrierInsertMany(
            self._barrier_ref, keys, values, component_index=component_index,
            name=name or f"{self._name}_BarrierInsertMany")

    def take_many(self, num_elements, allow_small_batch=False, timeout=None, name=None):
        """(indices, keys, list of components) of `num_elements` ready keys, the first inserted
        first; waits for them.

        allow_small_batch: of a closed barrier, what is left; OutOfRangeError if that is nothing.
        timeout: not supported by TensorFlow either; use RunOptions."""
        out = barrier_ops.BarrierTakeMany(
            self._barrier_ref, num_elements, component_types=self._types,
            allow_small_batch=allow_small_batch, timeout_ms=-1 if timeout is None else timeout,
            name=name or f"{self._name}_BarrierTakeMany")
        count = None if allow_small_batch else constant_value(out[0].op.inputs[1])
        rows = TensorShape([None if count is None else int(count)])
        indices, keys, values = out[0], out[1], _listed(out[2:])
        for tensor, shape in zip([indices, keys] + values,
                                 [TensorShape([]), TensorShape([])] + self._shapes):
            tensor.set_shape(rows.concatenate(shape))
        return indices, keys, values

    def close(self, cancel_pending_enqueues=False, name=None):
        """The operation that closes the barrier: no new keys; with cancel_pending_enqueues those
        that are incomplete are dropped. CancelledError if it is closed already."""
        return barrier_ops.BarrierClose(self._barrier_ref,
                                        name=name or f"{self._name}_BarrierClose",
                                        cancel_pending_enqueues=cancel_pending_enqueues)

    def ready_size(self, name=None):
        """How many keys are ready, an int32 scalar."""
        return barrier_ops.BarrierReadySize(self._barrier_ref,
                                            name=name or f"{self._name}_BarrierReadySize")

    def incomplete_size(self, name=None):
        """How many keys lack components, an int32 scalar."""
        return barrier_ops.BarrierIncompleteSize(self._barrier_ref,
                                                 name=name or f"{self._name}_BarrierIncompleteSize")


def _listed(values):
    """The components' tensors, whether the op gave them one by one or as a list."""
    return [t for value in values for t in (value if isinstance(value, (list, tuple)) else [value])]


PUBLIC = {}
