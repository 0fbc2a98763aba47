"""Gradient functions against central differences of the references, in float64."""
import functools

import numpy as np
import pytest
from derive import cases, own_ops, primary_attr
from interpret import evaluate
from kernel_table import has_kernel

import pyflow as tf
from pyflow.framework import dtypes

STEP = 1e-6
MOST = 40      # entries of one input that are checked


def _is_checked(case):
    primary = primary_attr(case.op, case.sample)
    declined = not case.op.gradient or case.op.reference is None
    if primary is None or declined or case.op.name in UNCHECKED:
        return False
    double = primary.allowed is None or dtypes.float64 in primary.allowed
    wanted = dtypes.float64 if double else dtypes.float32
    return case.types[primary.name] == wanted and bool(_float_inputs(case))


def _float_inputs(case):
    return [i for i, a in enumerate(case.feeds()) if a.dtype.kind == "f"]


# Gradients that central differences of the reference cannot check, and why.
UNCHECKED = {
    "Cast": "to integers the derivative is 0 nearly everywhere",
    "Cholesky": "the reference reads one triangle, the gradient is symmetric: "
                "test_gradient_of_cholesky",
    "IdentityN": "no primary type: test_gradient_of_identity_n",
    "PreventGradient": "asking is an error: test_prevented_gradient",
    "QuantizeAndDequantize": "a staircase; the gradient passes straight through: recorded TF cases",
    "QuantizeAndDequantizeV2": "as QuantizeAndDequantize",
    "QuantizeAndDequantizeV3": "as QuantizeAndDequantize",
    "FakeQuantWithMinMaxArgs": "a staircase in float32: recorded TF cases",
    "FakeQuantWithMinMaxVars": "as FakeQuantWithMinMaxArgs",
    "FakeQuantWithMinMaxVarsPerChannel": "as FakeQuantWithMinMaxArgs",
    "SparseMatMul": "float32 alone: recorded TF cases",
    **{i + r + "FFT" + d: "complex: test_fft.py" for i in ("", "I") for r in ("", "R")
       for d in ("", "2D", "3D")},
    "Complex": "complex outputs", "Real": "complex inputs", "Imag": "complex inputs",
    "Conj": "complex inputs",
    "ComplexAbs": "complex inputs", "Angle": "complex inputs",
    **dict.fromkeys(("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2", "GRUBlockCell"),
                    "gradients flow through the state alone, as in TF: test_rnn_ops.py"),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"),
                    "the reference takes the statistics as given, the gradient goes through them: "
                    "recorded TF cases"),
    "MaxPool3DGradGrad": "MaxPool3DGrad has no float64: compared with TF in tests/oracle (nn2)",
}
# Samples at a point where the function jumps, or where TF defines a gradient that is not the
# limit's
# (cross entropy: softmax - labels, which is the derivative for labels that sum to 1).
KINKS = {("DivNoNan", 4), ("Xdivy", 4), ("Xlog1py", 3), ("FloorMod", 4), ("FloorMod", 5),
         ("TopKV2", 4), ("RGBToHSV", 0),
         ("SoftmaxCrossEntropyWithLogits", 0), ("SoftmaxCrossEntropyWithLogits", 3)}
# Only these first outputs carry gradients in TF; the others are reserve spaces and precomputed
# gradients.
LEADING_OUTPUTS = {"FusedBatchNorm": 1, "FusedBatchNormV2": 1, "FusedBatchNormV3": 1,
                   "SoftmaxCrossEntropyWithLogits": 1, "CTCLoss": 1}
# Float inputs to which TF sends no gradient.
NO_FLOW = {("PadV2", 2), ("MatrixSolveLs", 2), ("Zeta", 0), ("Polygamma", 0), ("Betainc", 0),
           ("Betainc", 1), ("MatrixDiagV2", 4), ("MatrixDiagV3", 4), ("MatrixDiagPartV2", 2),
           ("MatrixDiagPartV3", 2), ("ScaleAndTranslate", 2),
           ("ScaleAndTranslate", 3)} | {(f"FusedBatchNorm{v}", i)
                                                           for v in ("", "V2", "V3")
                                                           for i in (3, 4)}
CHECKED = [c for c in cases() if _is_checked(c) and (c.op.name, c.number) not in KINKS]


def _weights(array):
    return np.cos(np.arange(array.size) + 1.0).reshape(array.shape)


def _loss(case, feeds, attrs):
    with np.errstate(all="ignore"):
        result = case.op.call_reference(feeds, attrs)
    results = result if isinstance(result, tuple) else (result,)
    results = [np.asarray(r) for r in results[:LEADING_OUTPUTS.get(case.op.name)]]
    return sum(np.sum(_weights(r) * np.where(np.abs(r) < 1e100, r, 0)) for r in results
               if r.dtype.kind == "f")


def _feeds(case):
    return [a.astype(np.float64) if a.dtype.kind == "f" else a for a in case.feeds()]


@functools.cache        # both runs of a case are compared with these
def numeric_gradient(case, which):
    """(entries of one input, central differences there of the weighted sum of the outputs)."""
    feeds, attrs, found = _feeds(case), case.native_attrs(), []
    size = feeds[which].size
    entries = np.unique(np.linspace(0, size - 1, MOST).astype(int)) if size else []
    for at in entries:
        moved = [f.copy() for f in feeds]
        moved[which].flat[at] += STEP
        high = _loss(case, moved, attrs)
        moved[which].flat[at] -= 2 * STEP
        found.append((high - _loss(case, moved, attrs)) / (2 * STEP))
    return list(entries), np.array(found)


def gradient_graph(case, feeds):
    """(gradients of the weighted sum with respect to the float inputs, the placeholders)."""
    made = []

    def make(array):
        made.append(tf.placeholder(array.dtype, array.shape) if array.dtype.kind == "f"
                    else tf.constant(array))
        return made[-1]
    node = case.node(make)
    outputs = node.outputs[:LEADING_OUTPUTS.get(case.op.name)]
    ys = [y for y in outputs if y.dtype.is_floating]
    results = case.op.call_reference(feeds, case.native_attrs())
    results = results if isinstance(results, tuple) else (results,)
    seeds = [tf.constant(_weights(np.asarray(r)), y.dtype) for r, y in zip(results, outputs)
             if y.dtype.is_floating]
    xs = [made[i] for i in _float_inputs(case)]
    return tf.gradients(ys, xs, grad_ys=seeds), made


def _dense(tensor):
    return None if tensor is None else tf.convert_to_tensor(tensor)


RUNS = [(c, by) for c in CHECKED for by in ("references", "session")
        if by == "references" or has_kernel(c)]


@pytest.mark.parametrize("case, by", RUNS, ids=lambda v: getattr(v, "id", v))
def test_gradient(case, by):
    feeds = _feeds(case)
    with tf.Graph().as_default():
        grads, made = gradient_graph(case, feeds)
        for i, which in enumerate(_float_inputs(case)):
            grad = _dense(grads[i])
            entries, expected = numeric_gradient(case, which)
            if grad is None:
                assert (case.op.name, which) in NO_FLOW or not np.any(expected), \
                    f"input {which} has no gradient, its derivative is {expected}"
                continue
            fed = {t: f for t, f in zip(made, feeds) if t.op.type == "Placeholder"}
            value = _compute(by, grad, fed)
            assert value.shape == feeds[which].shape
            limit = 2e-5 if made[which].dtype == tf.float64 or by == "references" else 3e-3
            np.testing.assert_allclose(value.ravel()[entries], expected, rtol=limit,
                                       atol=limit)


def _compute(by, tensor, feeds):
    if by == "references":
        return evaluate([tensor], feeds)[0]
    with tf.Session() as session:
        return session.run(tensor, feeds)


def test_every_differentiable_op_is_checked():
    checked = {c.op.name for c in CHECKED}
    left = {n for n, op in own_ops().items() if op.gradient and n not in checked
            and op.samples and op.reference is not None}
    assert left <= set(UNCHECKED), f"gradient not checked: {sorted(left - set(UNCHECKED))}"


def _gradient_at(build, *arrays):
    """Gradients of sum(weights * build(...)) by the references."""
    with tf.Graph().as_default():
        xs = [tf.placeholder(a.dtype, a.shape) for a in arrays]
        y = build(*xs)
        seed = tf.constant(_weights(np.zeros(y.shape.as_list())), y.dtype)
        return evaluate(tf.gradients([y], xs, grad_ys=[seed]), dict(zip(xs, arrays)))


def test_gradient_of_cast():
    grad, = _gradient_at(lambda x: tf.cast(x, tf.float32), np.ones((2, 3)))
    assert grad.shape == (2, 3) and grad.dtype.kind == "f"
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), x) == [None]


def test_gradient_of_cholesky():
    """The symmetric gradient G agrees with one-sided derivatives: d(i,i) = G, d(i,j) = G + G'."""
    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    grad, = _gradient_at(tf.cholesky, a)
    weights = _weights(a)
    for i in range(3):
        for j in range(i + 1):
            moved = [a.copy(), a.copy()]
            moved[0][i, j] += STEP
            moved[1][i, j] -= STEP
            high, low = (np.sum(weights * np.linalg.cholesky(m)) for m in moved)
            both = grad[i, j] if i == j else grad[i, j] + grad[j, i]
            np.testing.assert_allclose((high - low) / (2 * STEP), both, rtol=1e-5, atol=1e-6)


def test_gradient_ops_of_complex_numbers():
    """TanhGrad and SigmoidGrad are given a conjugate and take none themselves; the others do."""
    y, dy = np.array([0.5 + 1j]), np.array([1.0 + 0j])
    expected = {"TanhGrad": 1.75 - 1j, "SigmoidGrad": 1.25, "SqrtGrad": 0.2 + 0.4j,
                "RsqrtGrad": 0.6875 - 0.125j, "ReciprocalGrad": 0.75 + 1j,
                "InvGrad": 0.75 + 1j}     # TensorFlow 2.21's
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in expected.items():
            found = session.run(getattr(tf.raw_ops, name)(y=y, dy=dy))
            np.testing.assert_allclose(found, [value], err_msg=name)


def test_gradient_of_identity_n():
    grads = _gradient_at(lambda x, y: tf.multiply(*tf.identity_n([x, y])), np.full(3, 2.0),
                         np.full(3, 5.0))
    np.testing.assert_allclose(grads[0], 5 * _weights(np.zeros(3)))
    np.testing.assert_allclose(grads[1], 2 * _weights(np.zeros(3)))


def test_prevented_gradient():
    from pyflow.ops.control.identity_ops import PreventGradient
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        with pytest.raises(LookupError, match="disabled.*because"):
            tf.gradients(PreventGradient(x, message="because"), x)


def test_gradients_of_complex_parts():
    """Through real and imaginary parts: d|z|^2 = 2 (re, im); angle's is (-im, re) / |z|^2."""
    re, im = np.array([3.0, -1.0, 0.5]), np.array([4.0, 2.0, -0.5])
    weights = _weights(re)
    grads = _gradient_at(lambda a, b: tf.square(tf.abs(tf.complex(a, b))), re, im)
    np.testing.assert_allclose(grads, [2 * re * weights, 2 * im * weights])
    grads = _gradient_at(lambda a, b: tf.angle(tf.complex(a, b)), re, im)
    size = re * re + im * im
    np.testing.assert_allclose(grads, [-im / size * weights, re / size * weights])
    grads = _gradient_at(lambda a, b: tf.real(tf.conj(tf.complex(a, b)) * tf.complex(a, b)), re, im)
    np.testing.assert_allclose(grads, [2 * re * weights, 2 * im * weights])
