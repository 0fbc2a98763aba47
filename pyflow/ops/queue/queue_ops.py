"""Queues of tuples of tensors: the blocks (classes: lib/queue/queues.py).

Invariants
  1. Each op is there twice, as in TensorFlow: with a handle that is a reference (`QueueClose`) and
     with a resource (`QueueCloseV2`); both do the same.
  2. What comes out of a queue has the static shapes that the op behind the handle declares.
  3. A priority queue has an int64 scalar, the priority, before its declared components.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/queues runs them.
Who calls it: lib/queue.  Source: TF 1.15 data_flow_ops.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.state.resource_handles import handle_source
from pyflow.framework.static_value import constant_value

NAMED = "container: string = '', shared_name: string = ''"
TUPLE = "component_types: list(type) >= 1, shapes: list(shape) >= 0 = [], capacity: int = -1, "
TIMEOUT = "timeout_ms: int = -1"


def _scalar(op):
    return TensorShape([])


def _reference(op):
    return TensorShape([2])             # container and name, as in TF


def _nothing(op):
    return []


def _block(name, doc, shape_of, **schema):
    """The op `name`, a reference's, and its V2, a resource's.  TF declares the first ones, but for
    QueueIsClosed, not differentiable; of the others it says nothing."""
    made = []
    for suffix, handle in (("", "handle: Ref(string)"), ("V2", "handle: resource")):
        given = {key: value.replace("HANDLE", handle) if isinstance(value, str) else value
                 for key, value in schema.items()}
        if suffix:
            given["stateful"] = True

        said = UNREGISTERED if suffix or name == "QueueIsClosed" else None

        @op(name + suffix, doc=f"{doc} TF: {name}{suffix}.", **given)
        class Block:
            shape = shape_of
            gradient = said
            reference = None
            samples = None
        made.append(Block)
    return made


def _queue(name, doc, attrs):
    made = []
    for suffix, handle, shape_of in (("", "handle: Ref(string)", _reference),
                                     ("V2", "handle: resource", _scalar)):
        @op(name + suffix, outputs=handle, attrs=attrs, stateful=True,
            doc=f"{doc} TF: {name}{suffix}.")
        class Queue:
            shape = shape_of
            gradient = UNREGISTERED
            reference = None
            samples = None
        made.append(Queue)
    return made


FIFOQueue, FIFOQueueV2 = _queue("FIFOQueue", "A queue: first in, first out.", TUPLE + NAMED)
PaddingFIFOQueue, PaddingFIFOQueueV2 = _queue(
    "PaddingFIFOQueue", "A queue whose elements of several sizes are padded with zeros when many "
    "are taken at once.", TUPLE + NAMED)
RandomShuffleQueue, RandomShuffleQueueV2 = _queue(
    "RandomShuffleQueue", "A queue that gives any of its elements, but keeps `min_after_dequeue`.",
    TUPLE + "min_after_dequeue: int = 0, seed: int = 0, seed2: int = 0, " + NAMED)
PriorityQueue, PriorityQueueV2 = _queue(
    "PriorityQueue", "A queue that gives the element of the least int64, its first component.",
    "component_types: list(type) >= 0 = [], shapes: list(shape) >= 0, capacity: int = -1, " + NAMED)


def component_shapes(handle, count):
    """Static shapes of the `count` components of the queue behind a handle."""
    source = handle_source(handle)
    shapes = list(source.attrs.get("shapes", ()))
    if shapes and source.type.startswith("PriorityQueue"):
        shapes.insert(0, TensorShape([]))
    return shapes if len(shapes) == count else [unknown_shape()] * count


def _one(op):
    return component_shapes(op.inputs[0], len(op.attrs["component_types"]))


def _many(op):
    count = constant_value(op.inputs[1])
    rows = TensorShape([None if count is None or int(count) < 0 else int(count)])
    return [rows.concatenate(shape) for shape in _one(op)]


def _up_to(op):
    return [TensorShape([None]).concatenate(shape) for shape in _one(op)]


PUT = dict(inputs="HANDLE, components: Tcomponents",
           attrs=f"Tcomponents: list(type) >= 1, {TIMEOUT}")
TAKE = dict(outputs="components: component_types",
            attrs=f"component_types: list(type) >= 1, {TIMEOUT}")
QueueEnqueue, QueueEnqueueV2 = _block(
    "QueueEnqueue", "Puts one element in; waits while the queue is full. CancelledError if it is "
    "closed.", _nothing, **PUT)
QueueEnqueueMany, QueueEnqueueManyV2 = _block(
    "QueueEnqueueMany", "Puts in the rows of dimension 0, one by one, as there is room.", _nothing,
    **PUT)
QueueDequeue, QueueDequeueV2 = _block(
    "QueueDequeue", "Takes one element; waits for it. OutOfRangeError if the queue is closed and "
    "has none.", _one, inputs="HANDLE", **TAKE)
QueueDequeueMany, QueueDequeueManyV2 = _block(
    "QueueDequeueMany", "Takes `n` elements, side by side in dimension 0. OutOfRangeError if the "
    "queue is closed and has fewer.", _many, inputs="HANDLE, n: int32", **TAKE)
QueueDequeueUpTo, QueueDequeueUpToV2 = _block(
    "QueueDequeueUpTo", "Like QueueDequeueMany; of a closed queue, what is left.", _up_to,
    inputs="HANDLE, n: int32", **TAKE)
QueueClose, QueueCloseV2 = _block(
    "QueueClose", "No more elements come; waits for those that are being put, unless "
    "`cancel_pending_enqueues`.", _nothing, inputs="HANDLE",
    attrs="cancel_pending_enqueues: bool = false")
QueueIsClosed, QueueIsClosedV2 = _block("QueueIsClosed", "True once the queue is closed.", _scalar,
                                        inputs="HANDLE", outputs="is_closed: bool")
QueueSize, QueueSizeV2 = _block("QueueSize", "The number of elements.", _scalar, inputs="HANDLE",
                                outputs="size: int32")
