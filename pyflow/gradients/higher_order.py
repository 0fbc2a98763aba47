"""Hessians and user-defined gradients, on top of `gradients`.

Thread: the one building the graph.

Example:
    @tf.custom_gradient
    def clipped(x):
        return tf.identity(x), lambda dy: tf.clip_by_value(dy, -1.0, 1.0)
"""
import functools
import inspect
import itertools

from pyflow.framework import graph as ops
from pyflow.framework import gradient_registry
from pyflow.gradients.backprop import ARRAYS, between, gradients
from pyflow.framework import nest
from pyflow.lib.control_flow.while_loop import while_loop
from pyflow.lib.array import identity_functions
from pyflow.ops.control import identity_ops
from pyflow.ops.containers import tensor_arrays
from pyflow.ops.base import tensors

_serial = itertools.count()


def hessians(ys, xs, name="hessians", colocate_gradients_with_ops=False, gate_gradients=False,
             aggregation_method=None):
    """Second derivatives of sum(ys) with respect to each x alone: for x of shape s a tensor of
    shape s + s.

    Raises LookupError as `gradients` does. TF: tf.hessians.
    x: floats of any shape s, whose result is [s..., s...]. LookupError for an op without
    gradient."""
    xs = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    options = {"colocate_gradients_with_ops": colocate_gradients_with_ops,
               "gate_gradients": gate_gradients, "aggregation_method": aggregation_method}
    firsts = gradients(ys, xs, **options)
    return [_hessian(first, ops.convert_to_tensor(x), options, name)
            for first, x in zip(firsts, xs)]


def _hessian(first, x, options, name):
    """Row by row: the gradient of each element of the gradient."""
    with ops.name_scope(name, "hessians"):
        flat = tensors.reshape(first, [-1])
        count = tensors.shape(flat)[0]

        def row_at(j):
            second = gradients(flat[j], x, **options)[0]
            return tensors.zeros_like(x) if second is None else second

        def row(j, rows):
            return j + 1, rows.write(j, row_at(j))
        size = x.shape.num_elements()
        if size and any(op.type in ARRAYS for op in between([first], [x])):
            rows = tensors.stack([row_at(j) for j in range(size)])      # a loop cannot: backprop.py
            return tensors.reshape(rows, x.shape.as_list() * 2)
        start = (ops.constant(0), tensor_arrays.TensorArray(x.dtype.base_dtype, count))
        _, rows = while_loop(lambda j, _: j < count, row, start)
        shape = tensors.shape(x)
        result = tensors.reshape(rows.stack(), tensors.concat([shape, shape], 0))
        result.set_shape(x.shape.concatenate(x.shape))
        return result


def custom_gradient(f=None):
    """Decorator: `f(*args)` returns (results, grad_fn); grad_fn(*result_grads) gives one gradient
    per argument.

    If `f` reads resource variables, grad_fn takes `variables=` (a list) and returns (argument
    gradients, list of variable gradients). TF: tf.custom_gradient.
    Arguments, results and gradients: tensors of any shape and dtype; a gradient has its
    argument's. Raises TypeError for what is not callable, ValueError for a wrong number of
    gradients."""
    if f is None:
        return custom_gradient

    @functools.wraps(f)
    def decorated(*args, **kwargs):
        return _with_gradient(f, args, kwargs)
    return decorated


def _with_gradient(f, args, kwargs):
    args = nest.map_structure(ops.convert_to_tensor, args)
    flat_args = [identity_ops.Identity(x) for x in nest.flatten(args)]
    graph = ops.get_default_graph()
    first_new = len(graph.get_operations())
    result, grad_fn = f(*nest.pack_sequence_as(args, flat_args), **kwargs)
    flat_result = [ops.convert_to_tensor(r) for r in nest.flatten(result)]
    variables = _variables_read(graph.get_operations()[first_new:], graph)
    if variables and "variables" not in inspect.signature(grad_fn).parameters:
        names = ", ".join(v.name for v in variables)
        raise TypeError(f"custom_gradient: {f.__name__} uses the variables {names}; its gradient "
                        "function must accept the keyword argument `variables`")
    name = f"CustomGradient-{next(_serial)}"

    def gradient(op, *result_grads):
        grads = result_grads[:len(flat_result)]
        if not variables:
            return [None] * len(flat_result) + nest.flatten(grad_fn(*grads))
        of_args, of_variables = grad_fn(*grads, variables=variables)
        return [None] * len(flat_result) + nest.flatten(of_args) + nest.flatten(of_variables)
    gradient_registry.give(name, gradient)
    handles = [variable.handle for variable in variables]
    with graph.gradient_override_map({"IdentityN": name}):
        tensors = identity_functions.identity_n(flat_result + flat_args + handles)
    return nest.pack_sequence_as(result, tensors[:len(flat_result)])


def _variables_read(new_ops, graph):
    """Trainable resource variables whose values the new operations read."""
    handles = {op.inputs[0] for op in new_ops if op.type == "ReadVariableOp"}
    known = graph.get_collection(ops.GraphKeys.TRAINABLE_VARIABLES)
    return [v for v in known if getattr(v, "handle", None) in handles]


PUBLIC = {"hessians": hessians, "custom_gradient": custom_gradient}
