"""Conditionals whose predicate may be known while the graph is built: no branch is made then.

Functions only.  Thread: the one building the graph.  Source: TF 1.15 smart_cond.

Example:  `smart_cond(is_training, lambda: noisy(x), lambda: x)`; is_training: bool, 0, 1 or tensor.
"""
import numpy as np

from pyflow.framework import graph as ops
from pyflow.framework.static_value import constant_value
from pyflow.lib.control_flow import case as cases
from pyflow.lib.control_flow.cond import cond


def smart_constant_value(pred):
    """True or False if it is known, None for a tensor whose value is not.

    pred: bool, 0, 1, or a scalar bool tensor or variable. TypeError for others.
    TF: tf.contrib.framework.smart_constant_value."""
    if isinstance(pred, (bool, np.bool_)):
        return bool(pred)
    if isinstance(pred, int) and pred in (0, 1):
        return bool(pred)
    if isinstance(pred, ops.Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    if hasattr(pred, "initialized_value"):
        return None
    raise TypeError("`pred` must be a Tensor, or a Python bool, or 1 or 0. "
                    f"Found instead: {type(pred)}")


def smart_cond(pred, true_fn=None, false_fn=None, name=None, fn1=None, fn2=None):
    """tf.cond, or just the branch where the predicate's value is known.

    Results as tf.cond's. TypeError for branches that are no functions.
    TF: tf.contrib.framework.smart_cond.
    pred: a bool scalar; the results have any shape and dtype.
    """
    true_fn, false_fn = true_fn or fn1, false_fn or fn2
    if not callable(true_fn):
        raise TypeError("`true_fn` must be callable.")
    if not callable(false_fn):
        raise TypeError("`false_fn` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return cond(ops.convert_to_tensor(pred), true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def smart_case(pred_fn_pairs, default=None, exclusive=False, name="smart_case"):
    """tf.case, or the branch of the first predicate that is known to be true.

    TF: tf.contrib.framework.smart_case.
    Predicates: bool scalars; the results have any shape and dtype. ValueError where none is true
    and there is no default.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    known = [smart_constant_value(pred) for pred, _ in pairs]
    if not exclusive or all(value is not None for value in known):
        for value, (_, function) in zip(known, pairs):
            if value is None:
                break
            if value:
                return function()
        else:
            if default is not None:
                return default()
    rest = [pair for value, pair in zip(known, pairs) if value is not False]
    return cases.case(rest, default, exclusive, name=name)


PUBLIC = {
    "contrib.framework.smart_cond": smart_cond,
    "contrib.framework.smart_constant_value": smart_constant_value,
    "contrib.framework.smart_case": smart_case,
}
