"""Queues: tuples of tensors that one step puts in and another, or the same, takes out.

Invariants
  1. A full queue lets its putters wait, an empty one its takers; no thread waits with them.
  2. Who closes a queue says that no more elements come: what is in it can still be taken, then
     takers get OutOfRangeError; putters get CancelledError.
  3. Components have static shapes where the queue was given shapes.

Who calls it: users, train/input.  Thread: the one building the graph.
Source: TF 1.15 `tf.QueueBase` and its kinds.

Example:  `q = tf.FIFOQueue(10, tf.float32, shapes=[[]]);  put = q.enqueue([x]);  y = q.dequeue()`
"""
import functools
import hashlib

from pyflow.framework import dtypes as dtypes_lib, graph
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import Dimension, TensorShape
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import logging_functions, switch_case
from pyflow.lib.queue import components
from pyflow.ops.elementwise import logic_ops
from pyflow.ops.queue import queue_ops


class QueueBase(ShowsArguments):
    """A queue in the graph. TF: tf.QueueBase.

    dtypes: of the components; shapes: one a component, or None; names: one a component, or None:
    with names, elements are dicts. queue_ref: the handle.

    The ways to wait, to close and to fail are those of TensorFlow's queues, whatever the kind.
    """

    def __init__(self, dtypes, shapes, names, queue_ref):
        self._dtypes = dtypes
        if shapes is not None and len(shapes) != len(dtypes):
            raise ValueError("Queue shapes must have the same length as dtypes, received "
                             f"len(shapes)={len(shapes)}, len(dtypes)={len(dtypes)}")
        self._shapes = [TensorShape(s) for s in components.shapes_or_unknown(shapes, dtypes)]
        self._names = components.as_names(names, dtypes)
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rsplit("/", 1)[-1]

    @staticmethod
    def from_list(index, queues):
        """The queue `queues[index]`, chosen when a step runs; index: an int32 scalar.
        TypeError unless all have equal dtypes and names."""
        if not queues or not isinstance(queues, list) or \
                not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(q.dtypes != first.dtypes for q in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(q.names != first.names for q in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = [functools.reduce(components.common_shape, of_one)
                  for of_one in zip(*(q.shapes for q in queues))]
        return QueueBase(first.dtypes, shapes, first.names, _selected(index, queues))

    queue_ref = property(lambda self: self._queue_ref, doc="The handle, a scalar resource tensor.")
    name = property(lambda self: self._queue_ref.op.name, doc="The name of the queue's op.")
    dtypes = property(lambda self: self._dtypes, doc="The components' dtypes.")
    shapes = property(lambda self: self._shapes, doc="The components' static shapes.")
    names = property(lambda self: self._names, doc="The components' names, or None.")

    def _op(self, opdef, *arguments, name, **attrs):
        """The op on this queue: with a reference for a handle TensorFlow's first one."""
        if self._queue_ref.dtype.base_dtype == dtypes_lib.string:
            opdef = getattr(queue_ops, opdef.name.removesuffix("V2"))
        return opdef(self._queue_ref, *arguments, name=name, **attrs)

    def _values(self, values):
        return components.as_tensors(components.in_order(values, self._names), self._dtypes)

    def _scope(self, name, what, values):
        flat = values.values() if isinstance(values, dict) else \
            values if isinstance(values, (list, tuple)) else [values]
        return graph.name_scope(name, f"{self._name}_{what}", list(flat))

    def enqueue(self, vals, name=None):
        """The operation that puts one element in, and waits while the queue is full.

        vals: a tensor, a list of them, or, with names, a dict. ValueError for shapes that do not
        fit. CancelledError if the queue is closed, or is closed meanwhile with
        `cancel_pending_enqueues`."""
        with self._scope(name, "enqueue", vals) as scope:
            vals = self._values(vals)
            for value, shape in zip(vals, self._shapes):
                value.get_shape().assert_is_compatible_with(shape)
            return self._op(queue_ops.QueueEnqueueV2, vals, name=scope)

    def enqueue_many(self, vals, name=None):
        """The operation that puts the rows of dimension 0 in, each an element.

        All components have equal sizes in dimension 0; ValueError otherwise. Rows go in as there
        is room; errors as of `enqueue`."""
        with self._scope(name, "EnqueueMany", vals) as scope:
            vals = self._values(vals)
            rows = Dimension(None)
            for value, shape in zip(vals, self._shapes):
                value_shape = value.get_shape().with_rank_at_least(1)
                if value_shape.ndims is not None:
                    rows = rows.merge_with(value_shape[0])
                    value_shape[1:].assert_is_compatible_with(shape)
            return self._op(queue_ops.QueueEnqueueManyV2, vals, name=scope)

    def _taken(self, found, rows):
        """What a take's op gives, with the static shapes that this queue knows."""
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        for tensor, shape in zip(found, self._shapes):
            tensor.set_shape(shape if rows is None else TensorShape(rows).concatenate(shape))
        return components.given_back(found, self._names)

    def dequeue(self, name=None):
        """One element; waits for it. A tensor, a list, or, with names, a dict.

        OutOfRangeError if the queue is closed and has none left."""
        return self._taken(self._op(queue_ops.QueueDequeueV2, component_types=self._dtypes,
                                    name=name or f"{self._name}_Dequeue"), None)

    def dequeue_many(self, n, name=None):
        """`n` elements as one, side by side in a new dimension 0; waits until they are there.

        Needs the queue's shapes. OutOfRangeError if the queue is closed and has fewer; they stay
        in it."""
        found = self._op(queue_ops.QueueDequeueManyV2, n, component_types=self._dtypes,
                         name=name or f"{self._name}_DequeueMany")
        op = (found[0] if isinstance(found, (list, tuple)) else found).op
        rows = constant_value(op.inputs[1])
        return self._taken(found, [None if rows is None else int(rows)])

    def dequeue_up_to(self, n, name=None):
        """Like dequeue_many; of a closed queue what is left, OutOfRangeError if that is nothing."""
        return self._taken(self._op(queue_ops.QueueDequeueUpToV2, n, component_types=self._dtypes,
                                    name=name or f"{self._name}_DequeueUpTo"), [None])

    def close(self, cancel_pending_enqueues=False, name=None):
        """The operation that closes the queue: behind the elements that are being put in, or, with
        cancel_pending_enqueues, at once; those enqueues then get CancelledError."""
        return self._op(queue_ops.QueueCloseV2, name=name or f"{self._name}_Close",
                        cancel_pending_enqueues=cancel_pending_enqueues)

    def is_closed(self, name=None):
        """True once the queue is closed, a bool scalar."""
        return self._op(queue_ops.QueueIsClosedV2, name=name or f"{self._name}_Is_Closed")

    def size(self, name=None):
        """The number of elements, an int32 scalar."""
        return self._op(queue_ops.QueueSizeV2, name=name or f"{self._name}_Size")


def _selected(index, queues):
    """The handle of queues[index]."""
    index = graph.convert_to_tensor(index, dtype=dtypes_lib.int32, name="index")
    inside = logic_ops.LogicalAnd(index >= 0, index < len(queues))
    check = logging_functions.Assert(
        inside, ["index of a queue:", index, f"is not in [0, {len(queues)})"])
    with graph.control_dependencies([check]):
        index = identity_functions.identity(index)
    return switch_case.switch_case(index, [
        functools.partial(identity_functions.identity, q.queue_ref) for q in queues])


class FIFOQueue(QueueBase):
    """A queue that gives its elements in the order they came. TF: tf.FIFOQueue.

    capacity: the most elements it holds, below 0 any number. dtypes, shapes, names: of the
    components; without shapes only `enqueue`, `enqueue_many` and `dequeue` work. shared_name:
    queues of one name and container are one.
    """

    def __init__(self, capacity, dtypes, shapes=None, names=None, shared_name=None,
                 name="fifo_queue"):
        dtypes = components.as_types(dtypes)
        shapes = components.as_shapes(shapes, dtypes)
        super().__init__(dtypes, shapes, names, queue_ops.FIFOQueueV2(
            component_types=dtypes, shapes=shapes or [], capacity=capacity,
            shared_name=shared_name or "", name=name))


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose elements' sizes may differ; `dequeue_many` pads them with zeros.
    TF: tf.PaddingFIFOQueue.

    shapes: one a component, of known rank, None where sizes differ. ValueError otherwise.
    """

    def __init__(self, capacity, dtypes, shapes, names=None, shared_name=None,
                 name="padding_fifo_queue"):
        dtypes = components.as_types(dtypes)
        shapes = components.as_shapes(shapes, dtypes, unknown_dims=True)
        if shapes is None or len(dtypes) != len(shapes):
            raise ValueError("Shapes must be provided for all components, but received "
                             f"{len(dtypes)} dtypes and {len(shapes or [])} shapes.")
        super().__init__(dtypes, shapes, names, queue_ops.PaddingFIFOQueueV2(
            component_types=dtypes, shapes=shapes, capacity=capacity,
            shared_name=shared_name or "", name=name))


class RandomShuffleQueue(QueueBase):
    """A queue that gives any of its elements. TF: tf.RandomShuffleQueue.

    min_after_dequeue: as many stay in it, until it is closed, so that there is something to choose
    from. seed: with it, or with tf.set_random_seed, TensorFlow's choices.
    """

    def __init__(self, capacity, min_after_dequeue, dtypes, shapes=None, names=None, seed=None,
                 shared_name=None, name="random_shuffle_queue"):
        dtypes = components.as_types(dtypes)
        shapes = components.as_shapes(shapes, dtypes)
        seed1, seed2 = graph.get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:      # by name, not by place in the program
            text = (str(seed1) + shared_name).encode()
            seed2 = int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF
        super().__init__(dtypes, shapes, names, queue_ops.RandomShuffleQueueV2(
            component_types=dtypes, shapes=shapes or [], capacity=capacity,
            min_after_dequeue=min_after_dequeue, seed=seed1, seed2=seed2,
            shared_name=shared_name or "", name=name))


class PriorityQueue(QueueBase):
    """A queue that gives the element of the least priority, among equal ones the first that came.
    TF: tf.PriorityQueue.

    types, shapes: of the components after the first, which is the priority, an int64 scalar.
    """

    def __init__(self, capacity, types, shapes=None, names=None, shared_name=None,
                 name="priority_queue"):
        types = components.as_types(types)
        shapes = components.as_shapes(shapes, types)
        handle = queue_ops.PriorityQueueV2(component_types=types, shapes=shapes or [],
                                           capacity=capacity, shared_name=shared_name or "",
                                           name=name)
        super().__init__([dtypes_lib.int64] + types, [()] + shapes if shapes else shapes, names,
                         handle)


PUBLIC = {
    "QueueBase": QueueBase, "FIFOQueue": FIFOQueue, "PaddingFIFOQueue": PaddingFIFOQueue,
    "RandomShuffleQueue": RandomShuffleQueue, "PriorityQueue": PriorityQueue,
    "queue.QueueBase": QueueBase, "queue.FIFOQueue": FIFOQueue,
    "queue.PaddingFIFOQueue": PaddingFIFOQueue, "queue.RandomShuffleQueue": RandomShuffleQueue,
    "queue.PriorityQueue": PriorityQueue,
}
