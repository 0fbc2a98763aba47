"""Gates of steps: what replicas that train in step compute next (pyflow's own).

A label stands for a step: generation << 40 | step.  Who restores a training begins a generation,
so that nothing which was computed before it counts for a step of the same number.

Invariants
  1. A replica's `next` waits while the gate is shut, and until there is work for it.
  2. With shards each one is given to one replica; another gets it, too, if that takes longer than
     it usually does.

Who calls it: train/sync_replicas.  Thread: the one building the graph.
Example:  gate = StepGate("gate");  label, source = gate.next(label, source, owner=1)
"""
from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.queue import step_gate_ops

STEP_BITS = 40


def step_of(label):
    """The step of a label, an int64 tensor."""
    return binary_ops.FloorMod(label, graph.convert_to_tensor(1 << STEP_BITS, dtypes.int64))


class StepGate:
    """A gate, the same for all sessions of its task by shared_name.  shards: how many parts a step
    has; 0: each replica has its own."""

    def __init__(self, shared_name, shards=0, name="step_gate"):
        self.shards = shards
        self.handle = step_gate_ops._StepGate(shared_name=shared_name, shards=shards, name=name)

    def begin(self, step, generation):
        """The label of `step` in a generation that begins, with the gate shut; generation: at least
        that, and more than any before."""
        return step_gate_ops._StepGateBegin(self.handle, _number(step), _number(generation))

    def open(self, label):
        """The operation that lets replicas compute a step. AbortedError, where it runs, for a
        label of another generation than the last."""
        return step_gate_ops._StepGateOpen(self.handle, _number(label))

    def next(self, label, source, owner):
        """(label, source) of what replica `owner` computes after those; both -1: its first."""
        return step_gate_ops._StepGateNext(self.handle, _number(label), _number(source),
                                           _number(owner))


def _number(value):
    return tensors.cast(graph.convert_to_tensor(value), dtypes.int64)


PUBLIC = {}
