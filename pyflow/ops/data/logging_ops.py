"""Print and Assert: looking at values while a graph runs.

Invariants
  1. Print writes to stderr, for its first `first_n` evaluations; printing is a side effect, and its
     output must be used for it to happen.
  2. Assert fails the step with INVALID_ARGUMENT and the data when its condition is false;
     something must depend on it, or be built under `tf.control_dependencies([assert_op])`.

No samples, on purpose: these are side effects; tests/control_flow runs them.

Example:  `x = tf.Print(x, [tf.reduce_mean(x)], "mean: ")`
"""
from pyflow.framework import dtypes, graph as ops
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


def print_tensors(input_, data, message=None, first_n=None, summarize=None, name=None):
    """`input_` itself; prints `message` and the first `summarize` elements of each of `data`.

    Only the first `first_n` evaluations print (all if None). TF: tf.Print.
    Dtypes, shapes, errors: as op Print."""
    return Print(input_, list(data), message=message, first_n=first_n, summarize=summarize,
                 name=name)


def Assert(condition, data, summarize=None, name=None):
    """An Operation that fails the step with InvalidArgumentError unless `condition` holds.

    `data` are tensors to show, up to `summarize` elements of each. TF: tf.Assert.
    condition: a bool scalar; data: tensors of any shape and dtype. Running it raises
    InvalidArgumentError."""
    from pyflow.lib.control_flow import cond
    from pyflow.ops.control import control_flow_ops as cf
    data = list(data)
    with ops.name_scope(name, "Assert", [condition] + data):
        shown = [ops.convert_to_tensor(x) for x in data]
        if all(x.dtype.base_dtype in (dtypes.int32, dtypes.string) for x in shown):
            return AssertOp(condition, shown, summarize=summarize, name="Assert")
        condition = ops.convert_to_tensor(condition, name="Condition")

        def fails():
            return AssertOp(condition, data, summarize=summarize, name="Assert")
        return cond.cond(condition, cf.no_op, fails, name="AssertGuard").op


PUBLIC = {"Print": print_tensors, "Assert": Assert, "debugging.Assert": Assert}
