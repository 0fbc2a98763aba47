"""Barriers: tuples whose components come one by one, under a key: the blocks (class:
lib/queue/barriers.py).

No samples and no reference, on purpose: state has no NumPy counterpart; tests/queues runs them.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.queue.queue_ops import TIMEOUT, TUPLE, NAMED
from pyflow.ops.state.resource_handles import handle_source

HANDLE = "handle: Ref(string)"


@op("Barrier", outputs=HANDLE, attrs=TUPLE + NAMED, stateful=True)
class Barrier:
    """Keys whose components come one by one. TF: Barrier."""
    def shape(op): return TensorShape([2])          # container and name, as in TF
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("BarrierInsertMany", inputs=HANDLE + ", keys: string, values: T",
    attrs="T: type, component_index: int")
class BarrierInsertMany:
    """Sets one component of many keys; a key is ready when all its components are there.
    InvalidArgumentError if it is there already. TF: BarrierInsertMany."""
    def shape(op):
        op.inputs[1].shape.with_rank(1)[0].merge_with(op.inputs[2].shape.with_rank_at_least(1)[0])
        return []
    gradient = UNREGISTERED
    reference = None
    samples = None


def _taken(op):
    types = op.attrs["component_types"]
    shapes = list(handle_source(op.inputs[0]).attrs.get("shapes", ()))
    count = None if op.attrs["allow_small_batch"] else constant_value(op.inputs[1])
    rows = TensorShape([None if count is None or int(count) < 0 else int(count)])
    values = [rows.concatenate(s) for s in shapes] if len(shapes) == len(types) else \
        [TensorShape(None)] * len(types)
    return [rows, rows, *values]


@op("BarrierTakeMany", inputs=HANDLE + ", num_elements: int32",
    outputs="indices: int64, keys: string, values: component_types",
    attrs="component_types: list(type) >= 1, allow_small_batch: bool = false, "
          "wait_for_incomplete: bool = false, " + TIMEOUT)
class BarrierTakeMany:
    """`num_elements` ready keys in the order of their first insertion; waits for them.
    OutOfRangeError if the barrier is closed and has fewer. TF: BarrierTakeMany."""
    shape = _taken
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("BarrierClose", inputs=HANDLE, attrs="cancel_pending_enqueues: bool = false")
class BarrierClose:
    """No new keys come; those that are incomplete may be completed, unless
    `cancel_pending_enqueues`. TF: BarrierClose."""
    def shape(op): return []
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("BarrierReadySize", inputs=HANDLE, outputs="size: int32")
class BarrierReadySize:
    """How many keys are ready. TF: BarrierReadySize."""
    def shape(op): return TensorShape([])
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("BarrierIncompleteSize", inputs=HANDLE, outputs="size: int32")
class BarrierIncompleteSize:
    """How many keys lack components. TF: BarrierIncompleteSize."""
    def shape(op): return TensorShape([])
    gradient = UNREGISTERED
    reference = None
    samples = None
