"""tf.test.compute_gradient: the gradient a graph computes beside differences of its values.

A Jacobian has a row per number of x and a column per number of y; a complex one counts as two
real numbers, its real and its imaginary part, for a graph need not be holomorphic.

Thread: the one with the default session.  Source: TF 1.x gradient_checker.
"""
import numpy as np

from pyflow.framework import dtypes, graph as graph_lib

_ALLOWED = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64,
            dtypes.complex128)


def compute_gradient(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None,
                     extra_feed_dict=None):
    """(theoretical, numeric) Jacobians of tensor y by tensor x; for a list x, with lists x_shape
    and x_init_value, a list of such pairs.

    x_init_value: where to differentiate; random without. init_targets: operations to run first.
    extra_feed_dict: fed in every run. Needs a default session. TypeError for dtypes that are not
    floating or complex, ValueError for an x_init_value of another shape."""
    for target in init_targets or ():
        target.run()
    if not isinstance(x, (list, tuple)):
        return _pair(x, x_shape, y, y_shape, x_init_value, delta, extra_feed_dict or {})
    values = [None] * len(x) if x_init_value is None else x_init_value
    return [_pair(xi, shape, y, y_shape, value, delta, extra_feed_dict or {})
            for xi, shape, value in zip(x, x_shape, values)]


def compute_gradient_error(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3,
                           init_targets=None, extra_feed_dict=None):
    """The largest difference between the Jacobians that `compute_gradient` gives."""
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets,
                             extra_feed_dict)
    error = 0.0
    for theory, numeric in pairs if isinstance(pairs, list) else [pairs]:
        if theory.size:
            error = np.maximum(error, np.abs(theory - numeric).max())
    return error


def _pair(x, x_shape, y, y_shape, value, delta, feeds):
    for tensor in (x, y):
        if tensor.dtype.base_dtype not in _ALLOWED:
            raise TypeError(f"compute_gradient: {tensor.name} is {tensor.dtype.name}; it differs "
                            f"floating and complex tensors only")
    shape = [x_shape] if isinstance(x_shape, int) else list(x_shape)
    if value is None:
        value = np.random.random_sample(shape).astype(x.dtype.base_dtype.as_numpy_dtype)
        if x.dtype.is_complex:
            value.imag = np.random.random_sample(shape)
    value = np.array(value, x.dtype.base_dtype.as_numpy_dtype, order="C")
    if list(value.shape) != shape:
        raise ValueError(f"x_shape = {shape}, init_data shape = {list(value.shape)}")
    y_shape = [y_shape] if isinstance(y_shape, int) else list(y_shape)
    dx, dy = _gradient(x, y, y_shape)
    return (_theoretical(x, value, dx, dy, y_shape, feeds),
            _numeric(x, value, y, y_shape, delta, feeds))


def _gradient(x, y, y_shape):
    """The gradient of y by x, and the fed tensor it starts from."""
    from pyflow.gradients.backprop import gradients
    from pyflow.lib.array import identity_functions
    with x.graph.as_default():
        fed = graph_lib.constant(np.ones(y_shape), dtype=y.dtype.base_dtype)
        # Another tensor than is fed: an addition hands its gradient on as it is.
        dx = gradients(y, [x], [identity_functions.identity(fed)])[0]
    if dx is None:
        raise ValueError(f"compute_gradient: {y.name} does not depend on {x.name}")
    return dx, fed


def _numbers(array):
    """A view of the array's real numbers, the parts of complex ones side by side."""
    return array.reshape(-1).view(array.real.dtype)


def _theoretical(x, value, dx, dy, y_shape, feeds):
    sess = graph_lib.get_default_session()
    seed = np.zeros(y_shape, dy.dtype.as_numpy_dtype)
    each = _numbers(seed)
    jacobian = np.zeros((_numbers(value).size, each.size), value.real.dtype)
    for column in range(each.size):
        each[column] = 1
        got = sess.run(dx, {**feeds, x: value, dy: seed})
        jacobian[:, column] = _numbers(np.ascontiguousarray(_dense(got, value)))
        each[column] = 0
    if not each.size:
        _check_empty(_dense(sess.run(dx, {**feeds, x: value, dy: seed}), value), value)
    return jacobian


def _dense(got, value):
    """A gradient as an array; of IndexedSlices the rows that repeat are added."""
    if not hasattr(got, "indices"):
        return got
    whole = np.zeros_like(value)
    np.add.at(whole, got.indices, got.values)
    return whole


def _check_empty(got, value):
    if got.shape != value.shape:
        raise ValueError(f"Empty gradient has wrong shape: expected {value.shape}, got {got.shape}")
    if np.any(got):
        raise ValueError("Empty tensor with nonzero gradients")


def _numeric(x, value, y, y_shape, delta, feeds):
    sess = graph_lib.get_default_session()
    count = int(np.prod(y_shape)) * (2 if y.dtype.is_complex else 1)
    jacobian = np.zeros((_numbers(value).size, count), value.real.dtype)
    for row in range(len(jacobian)):
        values = []
        for step in (delta, -delta):
            moved = value.copy()
            _numbers(moved)[row] += step
            got = np.ascontiguousarray(sess.run(y, {**feeds, x: moved}))
            values.append(_numbers(got).astype(np.float64))
        jacobian[row] = (values[0] - values[1]) / (2 * delta)
    return jacobian
