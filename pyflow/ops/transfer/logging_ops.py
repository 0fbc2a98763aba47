"""Print and Assert: looking at values while a graph runs.

Invariants
  1. Print writes to stderr, for its first `first_n` evaluations; printing is a side effect, and its
     output must be used for it to happen.
  2. Assert fails the step with INVALID_ARGUMENT and the data when its condition is false;
     something must depend on it, or be built under `tf.control_dependencies([assert_op])`.

No samples, on purpose: these are side effects; tests/control_flow runs them.  Functions:
lib/control_flow/logging_functions.py.
"""
from pyflow.framework.op import UNREGISTERED, op


def _unchanged(op):
    return op.inputs[0].shape


def _nothing(op):
    return []


def _print_gradient(op, grad):
    return [grad] + [None] * (len(op.inputs) - 1)


@op("Print", inputs="input: T, data: U", outputs="output: T", stateful=True,
    attrs="T: type, U: list(type) >= 0, message: string = '', first_n: int = -1, summarize: int = "
          "3")
class Print:
    """`input` itself; prints `message` and `data` to stderr. TF: Print."""
    shape = _unchanged
    gradient = _print_gradient
    reference = None
    samples = None


@op("PrintV2", inputs="input: string", stateful=True,
    attrs="output_stream: string = 'stderr', end: string = '\\n'")
class PrintV2:
    """Prints a scalar string. TF: PrintV2."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Assert", inputs="condition: bool, data: T", stateful=True,
    attrs="T: list(type) >= 1, summarize: int = 3")
class AssertOp:
    """Fails the step unless the scalar `condition` holds; the message shows `data`. TF: Assert."""
    shape = _nothing
    gradient = None
    reference = None
    samples = None
