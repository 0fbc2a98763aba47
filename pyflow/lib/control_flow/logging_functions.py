"""tf.print and tf.Assert: looking at values while a graph runs."""
from pyflow.framework import dtypes, graph as ops
from pyflow.lib.control_flow import cond, grouping
from pyflow.ops.transfer.logging_ops import AssertOp, Print


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
    data = list(data)
    with ops.name_scope(name, "Assert", [condition] + data):
        shown = [ops.convert_to_tensor(x) for x in data]
        if all(x.dtype.base_dtype in (dtypes.int32, dtypes.string) for x in shown):
            return AssertOp(condition, shown, summarize=summarize, name="Assert")
        condition = ops.convert_to_tensor(condition, name="Condition")

        def fails():
            return AssertOp(condition, data, summarize=summarize, name="Assert")
        return cond.cond(condition, grouping.no_op, fails, name="AssertGuard").op


PUBLIC = {"Print": print_tensors, "Assert": Assert, "debugging.Assert": Assert}
