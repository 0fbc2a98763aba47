"""Learning rates that depend on the global step.

Invariants
  1. Each function returns a scalar tensor in the dtype of `learning_rate`.
  2. They are built from ordinary ops and evaluated in each step.

Source: TF 1.x tf.train.*_decay.

Example:  `rate = tf.train.exponential_decay(0.1, global_step, 1000, 0.96, staircase=True)`
"""
import math

from pyflow.framework import dtypes, graph as ops
from pyflow.lib.control_flow import case
from pyflow.ops.control import identity_ops
from pyflow.lib.math import logic_functions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops


def _prepared(name, default, values, global_step):
    if global_step is None:
        raise ValueError(f"global_step is required for {default}.")
    return ops.name_scope(name, default, [v for v in values if v is not None] + [global_step])


def _arguments(learning_rate, *others):
    rate = ops.convert_to_tensor(learning_rate, name="learning_rate")
    return [rate] + [tensors.cast(other, rate.dtype.base_dtype) for other in others]


def _progress(global_step, decay_steps, staircase):
    done = binary_ops.RealDiv(global_step, decay_steps)
    return unary_ops.Floor(done) if staircase else done


def exponential_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False,
                      name=None):
    """learning_rate * decay_rate ^ (global_step / decay_steps). TF: tf.train.exponential_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step. staircase:
    the exponent is rounded down.

        >>> rate = tf.train.exponential_decay(2.0, global_step=25, decay_steps=10, decay_rate=0.5,
        ...                                   staircase=True)
        >>> tf.Session().run(rate)
        np.float32(0.5)
    """
    with _prepared(name, "ExponentialDecay", [learning_rate, decay_steps, decay_rate],
                   global_step) as scope:
        rate, step, steps, decay = _arguments(learning_rate, global_step, decay_steps, decay_rate)
        factor = binary_ops.Pow(decay, _progress(step, steps, staircase))
        return binary_ops.Mul(rate, factor, name=scope)


def natural_exp_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False,
                      name=None):
    """learning_rate * exp(-decay_rate * global_step / decay_steps). TF:
    tf.train.natural_exp_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "NaturalExpDecay", [learning_rate, decay_rate], global_step) as scope:
        rate, step, steps, decay = _arguments(learning_rate, global_step, decay_steps, decay_rate)
        exponent = -decay * _progress(step, steps, staircase)
        return binary_ops.Mul(rate, unary_ops.Exp(exponent), name=scope)


def inverse_time_decay(learning_rate, global_step, decay_steps, decay_rate, staircase=False,
                       name=None):
    """learning_rate / (1 + decay_rate * global_step / decay_steps). TF:
    tf.train.inverse_time_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "InverseTimeDecay", [learning_rate, decay_rate], global_step) as scope:
        rate, step, steps, decay = _arguments(learning_rate, global_step, decay_steps, decay_rate)
        denominator = 1 + decay * _progress(step, steps, staircase)
        return binary_ops.RealDiv(rate, denominator, name=scope)


def polynomial_decay(learning_rate, global_step, decay_steps, end_learning_rate=0.0001, power=1.0,
                     cycle=False, name=None):
    """From learning_rate to end_learning_rate over decay_steps, along (1 - t)^power.

    With `cycle` the span grows to the next multiple of decay_steps. TF:
    tf.train.polynomial_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    values = [learning_rate, decay_steps, end_learning_rate, power]
    with _prepared(name, "PolynomialDecay", values, global_step) as scope:
        rate, step, steps, end, power = _arguments(learning_rate, global_step, decay_steps,
                                                   end_learning_rate, power)
        if cycle:
            turns = unary_ops.Ceil(step / steps)
            first = logic_ops.Equal(step, 0)
            steps = steps * logic_functions.where(first, tensors.ones_like(turns), turns)
        else:
            step = binary_ops.Minimum(step, steps)
        left = binary_ops.Pow(1 - step / steps, power)
        return binary_ops.Add((rate - end) * left, end, name=scope)


def cosine_decay(learning_rate, global_step, decay_steps, alpha=0.0, name=None):
    """Half a cosine from learning_rate to alpha * learning_rate. TF: tf.train.cosine_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "CosineDecay", [learning_rate], global_step):
        rate, step, steps = _arguments(learning_rate, global_step, decay_steps)
        done = binary_ops.Minimum(step, steps) / steps
        half = 0.5 * (1.0 + unary_ops.Cos(done * math.pi))
        return rate * ((1 - alpha) * half + alpha)


def cosine_decay_restarts(learning_rate, global_step, first_decay_steps, t_mul=2.0, m_mul=1.0,
                          alpha=0.0, name=None):
    """Half cosines from learning_rate to alpha * learning_rate, again and again, each t_mul times
    as long and m_mul times as high as the one before (Loshchilov and Hutter 2016, SGDR).
    TF: tf.train.cosine_decay_restarts.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "SGDRDecay", [learning_rate], global_step) as scope:
        rate, step, steps, longer, higher, alpha = _arguments(
            learning_rate, global_step, first_decay_steps, t_mul, m_mul, alpha)
        done = step / steps
        if t_mul == 1.0:
            restarts = unary_ops.Floor(done)
            done = done - restarts
        else:
            restarts = unary_ops.Floor(
                unary_ops.Log(1.0 - done * (1.0 - longer)) / unary_ops.Log(longer))
            before = (1.0 - binary_ops.Pow(longer, restarts)) / (1.0 - longer)
            done = (done - before) / binary_ops.Pow(longer, restarts)
        half = 0.5 * binary_ops.Pow(higher, restarts) * (1.0 + unary_ops.Cos(done * math.pi))
        return binary_ops.Mul(rate, (1 - alpha) * half + alpha, name=scope)


def linear_cosine_decay(learning_rate, global_step, decay_steps, num_periods=0.5, alpha=0.0,
                        beta=0.001, name=None):
    """learning_rate ((alpha + linear) cosine + beta): linear from 1 to 0 in decay_steps, the cosine
    of num_periods periods (Bello et al. 2017). TF: tf.train.linear_cosine_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "LinearCosineDecay", [learning_rate], global_step) as scope:
        rate, left, cosine, alpha, beta = _linear_and_cosine(
            learning_rate, global_step, decay_steps, num_periods, alpha, beta)
        return binary_ops.Mul(rate, (alpha + left) * cosine + beta, name=scope)


def noisy_linear_cosine_decay(learning_rate, global_step, decay_steps, initial_variance=1.0,
                              variance_decay=0.55, num_periods=0.5, alpha=0.0, beta=0.001,
                              name=None):
    """As linear_cosine_decay, with normal noise of variance initial_variance / (1 + step) ^
    variance_decay added to the linear part. TF: tf.train.noisy_linear_cosine_decay.
    Scalars; the result has learning_rate's float dtype. ValueError without global_step."""
    with _prepared(name, "NoisyLinearCosineDecay", [learning_rate], global_step) as scope:
        rate, left, cosine, alpha, beta = _linear_and_cosine(
            learning_rate, global_step, decay_steps, num_periods, alpha, beta)
        step = binary_ops.Minimum(*_arguments(learning_rate, global_step, decay_steps)[1:])
        _, variance, decay = _arguments(learning_rate, initial_variance, variance_decay)
        noise = random_functions.random_normal([], dtype=rate.dtype.base_dtype)
        left += noise * unary_ops.Sqrt(variance / binary_ops.Pow(1.0 + step, decay))
        return binary_ops.Mul(rate, (alpha + left) * cosine + beta, name=scope)


def _linear_and_cosine(learning_rate, global_step, decay_steps, num_periods, alpha, beta):
    """(rate, 1 - progress, the cosine, alpha, beta)."""
    rate, step, steps, periods, alpha, beta = _arguments(
        learning_rate, global_step, decay_steps, num_periods, alpha, beta)
    done = binary_ops.Minimum(step, steps) / steps
    return rate, 1.0 - done, 0.5 * (1.0 + unary_ops.Cos(2 * math.pi * periods * done)), alpha, beta


def piecewise_constant(x, boundaries, values, name=None):
    """values[i] for boundaries[i - 1] < x <= boundaries[i]. TF: tf.train.piecewise_constant.

    Raises ValueError unless there is one value more than boundaries.
    x: a number scalar; boundaries of its dtype; values: scalars of one dtype, one more of them.
    ValueError otherwise."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with ops.name_scope(name, "PiecewiseConstant", [x, boundaries, values]):
        x = ops.convert_to_tensor(x)
        boundaries = [_boundary(ops.convert_to_tensor(b), x.dtype.base_dtype) for b in boundaries]
        values = [ops.convert_to_tensor(v) for v in values]
        for value in values[1:]:
            if value.dtype.base_dtype != values[0].dtype.base_dtype:
                raise ValueError("piecewise_constant: values must have one dtype, got "
                                 f"{values[0].dtype.name} and {value.dtype.name}")
        pairs = [(logic_ops.LessEqual(x, boundaries[0]), _giving(values[0])),
                 (logic_ops.Greater(x, boundaries[-1]), _giving(values[-1]))]
        for low, high, value in zip(boundaries[:-1], boundaries[1:], values[1:-1]):
            within = logic_ops.LogicalAnd(logic_ops.Greater(x, low), logic_ops.LessEqual(x, high))
            pairs.append((within, _giving(value)))
        return case.case(pairs, default=_giving(values[0]), exclusive=False)


def _boundary(boundary, dtype):
    """`boundary` in the dtype of x, which is int64 for int32 boundaries or the same."""
    own = boundary.dtype.base_dtype
    if own == dtypes.int32 and dtype == dtypes.int64:
        return tensors.cast(boundary, dtype)
    if own != dtype:
        raise ValueError(f"piecewise_constant: boundaries ({own.name}) must have the dtype of x "
                         f"({dtype.name})")
    return boundary


def _giving(value):
    return lambda: identity_ops.Identity(value)


PUBLIC = {f"train.{f.__name__}": f for f in (
    exponential_decay, natural_exp_decay, inverse_time_decay, polynomial_decay, cosine_decay,
    cosine_decay_restarts, linear_cosine_decay, noisy_linear_cosine_decay, piecewise_constant)}
PUBLIC["train.piecewise_constant_decay"] = piecewise_constant
