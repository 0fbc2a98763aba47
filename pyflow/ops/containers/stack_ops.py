"""Stacks: last in, first out; where gradients of loops keep forward values.

Invariants
  1. A stack belongs to the step and dies with it; its handle is a scalar resource.
  2. Push returns the element pushed; pop of an empty stack is an InvalidArgumentError.
  3. `max_size` < 0 means no limit; a push beyond it is an InvalidArgumentError.
  4. TensorFlow's first stacks, without V2, have a reference for a handle and no limit.

Who calls it: gradients/loop_state.py.  No samples and no reference, on purpose: state has no NumPy
counterpart; tests/control_flow runs them.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape


def _nothing(op):
    return []


@op("StackV2", inputs="max_size: int32", outputs="handle: resource",
    attrs="elem_type: type, stack_name: string = ''", stateful=True)
class StackV2:
    """A new, empty stack of `elem_type` tensors. TF: StackV2."""
    def shape(op): return TensorShape([2])      # as TensorFlow's table: container and name
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("StackPushV2", inputs="handle: resource, elem: T", outputs="output: T",
    attrs="T: type, swap_memory: bool = false", stateful=True)
class StackPushV2:
    """Pushes `elem`, and passes it on. TF: StackPushV2."""
    def shape(op): return op.inputs[1].shape
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("StackPopV2", inputs="handle: resource", outputs="elem: elem_type", attrs="elem_type: type",
    stateful=True)
class StackPopV2:
    """The element pushed last, removed from the stack. TF: StackPopV2."""
    def shape(op): return unknown_shape()
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("StackCloseV2", inputs="handle: resource", stateful=True)
class StackCloseV2:
    """Frees the stack before the step ends. TF: StackCloseV2."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Stack", outputs="handle: Ref(string)", attrs="elem_type: type, stack_name: string = ''",
    stateful=True)
class Stack:
    """A new, empty stack without a limit. TF: Stack."""
    def shape(op): return TensorShape([2])          # container and name, as in TF
    gradient = None
    reference = None
    samples = None


@op("StackPush", inputs="handle: Ref(string), elem: T", outputs="output: T",
    attrs="T: type, swap_memory: bool = false")
class StackPush:
    """Pushes `elem`, and passes it on. TF: StackPush."""
    def shape(op): return op.inputs[1].shape
    gradient = None
    reference = None
    samples = None


@op("StackPop", inputs="handle: Ref(string)", outputs="elem: elem_type", attrs="elem_type: type")
class StackPop:
    """The element pushed last, removed from the stack. TF: StackPop."""
    def shape(op): return unknown_shape()
    gradient = None
    reference = None
    samples = None


@op("StackClose", inputs="handle: Ref(string)")
class StackClose:
    """Frees the stack before the step ends. TF: StackClose."""
    shape = _nothing
    gradient = None
    reference = None
    samples = None
