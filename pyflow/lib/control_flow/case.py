"""`tf.case`: the function of the first predicate that is true, over nested conds."""
import collections
from collections import abc

from pyflow.framework import dtypes, graph as ops
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops


# --------------------------------------------------------------------------------------------- case
def case(pred_fn_pairs, default=None, exclusive=False, strict=False, name="case"):
    """The function of the first predicate that is true, else `default`.

    `pred_fn_pairs` is a list of (scalar bool tensor, callable), or a dict (ordered unless
    `exclusive`). Without `default` the last function runs if no other does, after an Assert that
    its predicate holds. With `exclusive` an Assert fails the step if more than one predicate is
    true. TF: tf.case.
    Predicates: bool scalars; the functions' results agree in dtype and structure, shapes may
    differ. TypeError for predicates that are no tensors or functions that cannot be called,
    InvalidArgumentError where `exclusive` does not hold."""
    pairs = _checked_pairs(pred_fn_pairs, exclusive)
    preds = [pred for pred, _ in pairs]
    with ops.name_scope(name, "case", preds):
        if default is None:
            default, pairs = _asserting_default(pairs)
        elif not callable(default):
            raise TypeError("default must be callable.")
        if exclusive and len(preds) > 1:
            with ops.control_dependencies([_assert_at_most_one(preds)]):
                return _chain(pairs, default, strict)
        return _chain(pairs, default, strict)


def _chain(pairs, default, strict):
    """Nested conds, tested in order."""
    branch = default
    for position, (pred, function) in reversed(list(enumerate(pairs))):
        branch = _else(pred, function, branch, strict, "cond" if position == 0 else None)
    return branch()


def _else(pred, function, otherwise, strict, name):
    return lambda: cond(pred, true_fn=function, false_fn=otherwise, strict=strict, name=name)


def _checked_pairs(pred_fn_pairs, exclusive):
    if isinstance(pred_fn_pairs, abc.Mapping):
        pairs = list(pred_fn_pairs.items())
        if not isinstance(pred_fn_pairs, collections.OrderedDict) and not exclusive:
            pairs.sort(key=lambda pair: pair[0].name)
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError("pred_fn_pairs must be a list, tuple or dict, "
                        f"got {type(pred_fn_pairs).__name__}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple. "
                            f"Received {pair}.")
        pred, function = pair
        if not isinstance(pred, ops.Tensor) or pred.dtype.base_dtype != dtypes.bool:
            raise TypeError(f"pred must be Tensor of type bool: {pred}")
        if not callable(function):
            raise TypeError(f"fn for pred {pred.name} must be callable.")
    return pairs


def _asserting_default(pairs):
    """The last function, guarded by an Assert on its predicate, and the other pairs."""
    if not pairs:
        raise ValueError("case(): give at least one (predicate, function) pair, or a default")
    pred, function = pairs[-1]

    def checked():
        message = (f"None of conditions evaluated as True. Conditions: (0) {pairs[0][0].name}"
                   f" ... ({len(pairs) - 1}) {pred.name}")
        guard = logging_functions.Assert(pred, [message], name="assert_any_true")
        with ops.control_dependencies([guard]):
            return function()
    return checked, pairs[:-1]


def _assert_at_most_one(preds):
    stacked = tensors.stack(preds, name="preds_c")
    count = reductions.reduce_sum(tensors.cast(stacked, dtypes.int32), name="num_true_conds")
    names = ", ".join(pred.name for pred in preds)
    return logging_functions.Assert(
        logic_ops.Less(count, 2, name="at_most_1_true_cond"),
        [f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:",
         stacked])


PUBLIC = {"case": case}
