"""Gates of steps, pyflow's own: the blocks (class: lib/queue/step_gate.py).

Invariants
  1. A label is generation << 40 | step; labels only grow.
  2. All four are stateful: none is ever merged with another, or computed ahead.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/queues runs them.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape


def _scalar(op):
    return TensorShape([])


def _scalars(op):
    return [TensorShape([]), TensorShape([])]


def _nothing(op):
    return []


def _block(name, doc, shape_of, inputs="", outputs="", attrs=""):
    @op(name, inputs=inputs, outputs=outputs, attrs=attrs, stateful=True, doc=doc)
    class Block:
        shape = shape_of
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


_StepGate = _block(
    "_StepGate", "What replicas that train in step wait at.  TF: none, its queue of tokens.", _scalar,
    outputs="handle: resource",
    attrs="container: string = '', shared_name: string = '', shards: int = 0")
_StepGateBegin = _block(
    "_StepGateBegin", "Begins a generation at a step, with the gate shut: at least `generation`, "
    "and more than any before.  TF: none.", _scalar,
    inputs="handle: resource, step: int64, generation: int64", outputs="label: int64")
_StepGateOpen = _block(
    "_StepGateOpen", "Lets replicas compute the label's step. AbortedError for one of another "
    "generation.  TF: none.", _nothing, inputs="handle: resource, label: int64")
_StepGateNext = _block(
    "_StepGateNext", "What comes after (label, source): waits until there is something to do.  "
    "TF: none.",
    _scalars, inputs="handle: resource, label: int64, source: int64, owner: int64",
    outputs="next_label: int64, next_source: int64")
