"""First and second gradients of complex tensors, of every op that has them, against numbers.

TensorFlow's convention: for the real function L = Re(sum(conj(w) y(x))) the gradient of x with
`grad_ys` w is dL/d Re(x) + i dL/d Im(x).  L is what central differences of a session see; the
second gradient is the gradient of the first one, weighted, by x and by w.
"""
import numpy as np
import pytest
from derive import Case, own_ops, primary_attr, type_choices
from kernel_table import has_kernel

import pyflow as tf
from pyflow.framework import dtypes

STEP = 1e-6
MOST = 2        # entries of an input that are checked, each along both axes
MOST_SAMPLES = 3
WIDER = {dtypes.complex64: dtypes.complex128, dtypes.float32: dtypes.float64}
# Where there is no derivative to be found in numbers, and why.
NO_DERIVATIVE = {
    "Round": "a staircase", "Sign": "TF gives 0",
    "SelfAdjointEigV2": "the phase of a vector is free", "Svd": "as SelfAdjointEigV2",
    "Qr": "as SelfAdjointEigV2",
    "Cast": "from and to real numbers",
    "Cholesky": "the op reads one triangle, its gradient is symmetric",
    "EuclideanNorm": "TF's gradient, x dy / y, is not that of a real result",
    "LogMatrixDeterminant": "TF's gradient, dy / conj(x), is that of the complex logarithm",
    "PreventGradient": "asking is an error",
    "SquaredDifference": "TF's gradient, 2 dy (x - y), is that of real numbers",
    "Xdivy": "TF's gradient lacks the conjugates", "Xlogy": "as Xdivy", "Xlog1py": "as Xdivy",
}
FIRST_ONLY = {"SparseFillEmptyRows", "SparseSlice"}       # TF has no gradient of their gradients


def _complex_cases():
    for op in own_ops().values():
        if not op.gradient or op.name in NO_DERIVATIVE or op.name.startswith("_"):
            continue
        for number, sample in enumerate((op.samples or ())[:MOST_SAMPLES]):
            primary = primary_attr(op, sample)
            for types in type_choices(op, sample):
                if primary is None or not _is_complex(types, primary):
                    continue
                wide = {k: WIDER.get(t, t) if not isinstance(t, list) else t
                        for k, t in types.items()}
                case = Case(op, number, sample, wide)
                if all(np.asarray(a).size for a in case.feeds()):
                    yield case


def _is_complex(types, primary):
    chosen = [types[primary.name], types.get("Tout"), types.get("Tcomplex")]
    return dtypes.complex64 in chosen


CASES = [c for c in _complex_cases() if has_kernel(c)]


def _weights(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return np.asarray(drawn if dtype.is_complex else drawn.real).astype(dtype.as_numpy_dtype)


def _is_smooth(tensor):
    return tensor.dtype.base_dtype in (dtypes.complex128, dtypes.float64)


def _check(session, results, weights, wanted, feeds, what):
    """The gradient `wanted[x]` of Re(sum(conj(weights) results)) for each placeholder x."""
    value = session.make_callable(results, list(feeds))

    def loss(x, at, shift):
        moved = dict(feeds)
        moved[x] = feeds[x].copy()
        moved[x].flat[at] += shift
        return sum(np.sum((np.conj(w) * y).real)
                   for w, y in zip(weights, value(*moved.values())))
    for x, gradient in wanted.items():
        found = session.run(gradient, feeds)
        assert found.shape == feeds[x].shape
        if not found.size:
            continue
        for at in np.unique(np.linspace(0, found.size - 1, MOST).astype(int)):
            for axis in ((1, 1j) if x.dtype.is_complex else (1,)):
                slope = (loss(x, at, STEP * axis) - loss(x, at, -STEP * axis)) / (2 * STEP)
                part = found.flat[at].real if axis == 1 else found.flat[at].imag
                np.testing.assert_allclose(part, slope, rtol=1e-5, atol=1e-6,
                                           err_msg=f"{what} of {x.name} at {at} along {axis}")


def _gradients(ys, weights, xs):
    grads = tf.gradients(ys, xs, grad_ys=weights)
    return {x: tf.convert_to_tensor(g) for x, g in zip(xs, grads) if g is not None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_gradients(case):
    with tf.Graph().as_default(), tf.Session() as session:
        feeds, kinds = {}, {np.asarray(a).dtype for a in case.feeds()}
        kinds &= {np.dtype(np.complex128)} if np.dtype(np.complex128) in kinds else {
            np.dtype(np.float64)}

        def make(array):
            array = np.asarray(array)
            if array.dtype not in kinds:
                return tf.constant(array)
            x = tf.placeholder(array.dtype, array.shape)
            feeds[x] = array
            return x
        ys = [y for y in case.node(make).outputs if _is_smooth(y)]
        xs, sizes = list(feeds), [y.shape for y in session.run(ys, feeds)]
        for i, (y, size) in enumerate(zip(ys, sizes)):
            w = tf.placeholder(y.dtype, size)
            feeds[w] = _weights(size, y.dtype, i)
        ws = list(feeds)[len(xs):]
        first = _gradients(ys, ws, xs)
        assert first or not ys, "no input has a gradient"
        _check(session, ys, [feeds[w] for w in ws], first, feeds, "first gradient")
        if case.op.name in FIRST_ONLY:
            return
        outer = [_weights(g.shape.as_list(), g.dtype, 9 + i)
                 for i, g in enumerate(first.values())]
        second = _gradients(list(first.values()), [tf.constant(v) for v in outer], list(feeds))
        _check(session, list(first.values()), outer, second, feeds, "second gradient")
