"""optimize_loss: one call from a loss to a training op, with clipping, noise, decay, summaries.

Invariants
  1. The result is the loss behind the step: running it trains once.
  2. UPDATE_OPS (or update_ops) run before the loss is there.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.optimize_loss.

Example:
    train = tf.contrib.layers.optimize_loss(loss, tf.train.get_or_create_global_step(), 0.1, "SGD",
                                            clip_gradients=5.0)
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys, IndexedSlices
from pyflow.lib.contrib.arg_scope import tables
from pyflow.lib.control_flow import grouping
from pyflow.lib.math import logic_functions
from pyflow.lib.nn import nn_functions
from pyflow.lib.random import random_functions
from pyflow.lib.summary import summary_functions as summary
from pyflow.lib.variables import initializers, variable_scope as scopes, variables as variable_lists
from pyflow.lib.variables.moving_average import assign_moving_average
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.train import (adagrad, adam, ftrl, gradient_descent, momentum, optimizer as optimizers,
                          rmsprop, training_util)


def _momentum(learning_rate):
    return momentum.MomentumOptimizer(learning_rate, momentum=0.9)


OPTIMIZER_CLS_NAMES = {
    "Adagrad": adagrad.AdagradOptimizer, "Adam": adam.AdamOptimizer, "Ftrl": ftrl.FtrlOptimizer,
    "Momentum": _momentum, "RMSProp": rmsprop.RMSPropOptimizer,
    "SGD": gradient_descent.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm",
                       "global_gradient_norm"]


def optimize_loss(loss, global_step, learning_rate, optimizer, gradient_noise_scale=None,
                  gradient_multipliers=None, clip_gradients=None, learning_rate_decay_fn=None,
                  update_ops=None, variables=None, name=None, summaries=None,
                  colocate_gradients_with_ops=False, increment_global_step=True):
    """The tensor `loss` whose run trains one step.

    loss: a scalar. global_step: a scalar integer variable, or None for the graph's (needed with a
    decay). learning_rate: float, scalar tensor, or None where the optimizer has one; a float
    becomes the variable `learning_rate`. optimizer: a name of OPTIMIZER_CLS_NAMES, a class, an
    instance, or a function of the learning rate. gradient_noise_scale: times truncated normal
    noise. gradient_multipliers: {variable or its name: factor}. clip_gradients: the global norm (a
    float), or a function of [(gradient, variable)]. learning_rate_decay_fn(rate, step) -> rate.
    summaries: of OPTIMIZER_SUMMARIES. ValueError for other values.
    TF: tf.contrib.layers.optimize_loss.

        >>> w = tf.get_variable("w", initializer=2.0)
        >>> train = tf.contrib.layers.optimize_loss(w * w, None, 0.25, "SGD")
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     _ = sess.run(train)
        ...     sess.run(w)
        np.float32(1.0)
    """
    loss = ops.convert_to_tensor(loss)
    if loss.shape.ndims not in (0, None):
        raise ValueError(f"Expected scalar shape for the loss {loss.name}, got {loss.shape}")
    if global_step is None:
        global_step = training_util.get_global_step()
    else:
        training_util.assert_global_step(global_step)
    with scopes.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        update_ops = ops.get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if update_ops:
            loss = grouping.with_dependencies(list(dict.fromkeys(update_ops)), loss)
        summaries = _checked_summaries(summaries)
        rate = _learning_rate(learning_rate, learning_rate_decay_fn, global_step, summaries)
        opt = _optimizer(optimizer, rate)
        gradients = opt.compute_gradients(
            loss, variable_lists.trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        gradients = _changed(gradients, gradient_noise_scale, gradient_multipliers)
        whole = "global_gradient_norm" in summaries or "gradient_norm" in summaries
        if whole:
            _norm_summary("global_norm/gradient_norm", gradients)
        gradients = _clipped(gradients, clip_gradients)
        if "loss" in summaries:
            summary.scalar("loss", loss)
        _gradient_summaries(gradients, summaries)
        if whole and clip_gradients is not None:
            _norm_summary("global_norm/clipped_gradient_norm", gradients)
        step = opt.apply_gradients(
            gradients, global_step=global_step if increment_global_step else None, name="train")
        return grouping.with_dependencies([step], loss)


def _checked_summaries(summaries):
    if summaries is None:
        return ["loss", "learning_rate", "global_gradient_norm"]
    for wanted in summaries:
        if wanted not in OPTIMIZER_SUMMARIES:
            raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you "
                             f"provided {wanted}.")
    return summaries


def _learning_rate(given, decay, global_step, summaries):
    """The learning rate as a tensor or variable, decayed; None without one."""
    if given is None:
        return None
    if isinstance(given, float):
        if given < 0.0:
            raise ValueError(f"Invalid learning_rate {given}.")
        rate = scopes.get_variable("learning_rate", [], trainable=False,
                                   initializer=initializers.Constant(given))
    elif isinstance(given, ops.Tensor) and given.shape.ndims == 0:
        rate = given
    else:
        raise ValueError(f"Learning rate should be 0d Tensor or float. Got {given} of type "
                         f"{type(given)}")
    if decay is not None:
        if global_step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, global_step)
        if "learning_rate" in summaries:
            summary.scalar("learning_rate", rate)
    return rate


def _optimizer(given, rate):
    """The Optimizer that a name, class, function or instance means."""
    if isinstance(given, optimizers.Optimizer):
        return given
    if isinstance(given, str) and given not in OPTIMIZER_CLS_NAMES:
        raise ValueError(f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you "
                         f"provided {given}.")
    is_class = isinstance(given, type) and issubclass(given, optimizers.Optimizer)
    if isinstance(given, str) or is_class:
        if rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is "
                             f"{'class' if is_class else 'string'} ({given}).")
        return (given if is_class else OPTIMIZER_CLS_NAMES[given])(learning_rate=rate)
    if not callable(given):
        raise ValueError("Unrecognized optimizer: should be string, subclass of Optimizer, "
                         f"instance of subclass of Optimizer or function with one argument. Got {given}.")
    made = given() if rate is None else given(rate)
    if not isinstance(made, optimizers.Optimizer):
        raise ValueError("Unrecognized optimizer: function should return subclass of Optimizer. "
                         f"Got {made}.")
    return made


def scaled(gradient, factor):
    """A gradient, dense or sparse, times a scalar; None stays."""
    if gradient is None:
        return None
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values * tensors.cast(factor, gradient.values.dtype),
                             gradient.indices, gradient.dense_shape)
    return gradient * tensors.cast(factor, gradient.dtype)


def _changed(gradients, noise_scale, multipliers):
    """With noise, and multiplied."""
    if noise_scale is not None:
        gradients = [(g if g is None else g + noise_scale * random_functions.truncated_normal(
            g.dense_shape if isinstance(g, IndexedSlices) else g.shape), v) for g, v in gradients]
    if multipliers is not None:
        factors = {getattr(key, "name", key): value for key, value in multipliers.items()}
        gradients = [(scaled(g, factors[v.name]) if v.name in factors else g, v)
                     for g, v in gradients]
        if not gradients:
            raise ValueError("Empty list of (gradient, var) pairs encountered. This is most likely "
                             "to be caused by an improper value of gradient_multipliers.")
    return gradients


def _clipped(gradients, clip):
    if clip is None:
        return gradients
    if callable(clip):
        return clip(gradients)
    if not isinstance(clip, float):
        raise ValueError(f"Unknown type {type(clip)} for clip_gradients: a float, or a function of "
                         "[(gradient, variable)]")
    clipped, _ = nn_functions.clip_by_global_norm([g for g, _ in gradients], clip)
    return [(g, v) for g, (_, v) in zip(clipped, gradients)]


def _norm_summary(tag, gradients):
    summary.scalar(tag, nn_functions.global_norm([g for g, _ in gradients]))


def _gradient_summaries(gradients, summaries):
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in summaries:
            summary.histogram(f"gradients/{name}", values)
        if "gradient_norm" in summaries:
            summary.scalar(f"gradient_norm/{name}", nn_functions.global_norm([values]))


def adaptive_clipping_fn(std_factor=2.0, decay=0.95, static_max_norm=None, global_step=None,
                         report_summary=False, epsilon=1e-8, name=None):
    """A clip_gradients that follows the norms seen: one above exp(mean + std_factor * deviation) of
    their logarithms is brought down to exp(mean).

    decay: of the moving mean and square, less at the first steps where global_step is given.
    static_max_norm: clips above it, too. report_summary: the largest norm as a summary.
    TF: tf.contrib.layers.adaptive_clipping_fn."""
    def clip(grads_and_vars):
        grads = [g for g, _ in grads_and_vars]
        norm = nn_functions.global_norm(grads)
        largest, mean = _adaptive_max_norm(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            summary.scalar("global_norm/adaptive_max_gradient_norm", largest)
        factor = logic_functions.where(norm < largest, tensors.ones_like(norm),
                                       unary_ops.Exp(mean) / norm)
        if static_max_norm is not None:
            factor = binary_ops.Minimum(static_max_norm / norm, factor)
        return [(scaled(g, factor), v) for g, v in grads_and_vars]
    return clip


def _adaptive_max_norm(norm, std_factor, decay, global_step, epsilon, name):
    """(the largest norm let through, the mean of the logarithms)."""
    with scopes.variable_scope(name, "AdaptiveMaxNorm", [norm]):
        log_norm = unary_ops.Log(norm + epsilon)
        if global_step is not None:
            n = tensors.cast(global_step, dtypes.float32)
            decay = binary_ops.Minimum(decay, n / (n + 1.0))

        def moving(which, value):
            average = scopes.get_variable(which, shape=value.shape, dtype=value.dtype,
                                          initializer=initializers.Zeros(), trainable=False)
            return assign_moving_average(average, value, decay, zero_debias=False)

        mean = moving("mean", log_norm)
        variance = moving("sq_mean", unary_ops.Square(log_norm)) - unary_ops.Square(mean)
        deviation = unary_ops.Sqrt(binary_ops.Maximum(epsilon, variance))
        return unary_ops.Exp(mean + std_factor * deviation), mean


PUBLIC = {**tables(optimize_loss, layers=True),
          "contrib.layers.adaptive_clipping_fn": adaptive_clipping_fn,
          "contrib.layers.OPTIMIZER_CLS_NAMES": OPTIMIZER_CLS_NAMES,
          "contrib.layers.OPTIMIZER_SUMMARIES": OPTIMIZER_SUMMARIES}
