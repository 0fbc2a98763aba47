"""Which ops have a gradient, give None or are an error for tf.gradients: as TensorFlow (recorded by
record_gradients.py), or a gradient where TensorFlow has none."""
import json
import pathlib

import pytest

import pyflow as tf
from pyflow.framework.gradient_registry import gradient_of_type
from pyflow.framework.op import op_from_signature, registered_ops

RECORD = json.loads((pathlib.Path(__file__).parent / "tf_gradients.json").read_text())
KINDS = {name: kind for kind, names in RECORD.items() for name in names}
# A gradient of ours where TensorFlow has none: (what TensorFlow says, ops).
MORE = {"error": set("GRUBlockCell IRFFT3D LSTMBlockCell Lu MaxPoolGradGradV2 "
                     "MaxPoolGradWithArgmax RFFT3D ResizeNearestNeighborGrad Snapshot "
                     "SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad "
                     "_SwitchN PartitionedCall StatefulPartitionedCall".split()),
        "none": {"ResizeBilinearGrad"}}
# Registered in TensorFlow: the eager tape of EagerPyFunc has no counterpart here, the functions of
# SparseSparse* raise TypeError there; While has one once it is lowered, as imports do, and none as a
# call.  None at all would train on without a word.
LESS = {"EagerPyFunc", "SparseSparseMaximum", "SparseSparseMinimum", "StatelessWhile", "While"}
OURS = {"_AccumulatorApplyFrom", "_AccumulatorTakeAt", "_CheckpointEntries", "_DynamicQuantizeLSTM",
        "_FusedElementwise", "_FusedLayerNorm", "_FusedMoments", "_GRU", "_MatMulInteger",
        "_RestoreIterator", "_SaveIterator", "_SparseAccumulatorApplyFrom",
        "_SparseAccumulatorTakeAt", "_StepGate", "_StepGateBegin", "_StepGateNext",
        "_StepGateOpen", "_TreeEnsemble", "_TreeEnsembleClassifier"}


def kind_of(name):
    try:
        return "none" if gradient_of_type(name) is None else "gradient"
    except LookupError:
        return "error"


def test_every_op_does_as_tensorflow():
    own = {n for n, op in registered_ops().items() if (op.module or "").startswith("pyflow.")}
    assert own == set(KINDS) | OURS, "record again"
    expected = dict(KINDS, **dict.fromkeys(OURS | LESS, "error"))
    for names in MORE.values():
        expected.update(dict.fromkeys(names, "gradient"))
    assert {name: kind_of(name) for name in sorted(own)} == dict(sorted(expected.items()))
    for kind, names in MORE.items():
        assert {KINDS[name] for name in names} == {kind}


def test_a_missing_gradient_is_an_error_on_a_path_only():
    """As in TensorFlow: between xs and ys, reached by a gradient through differentiable types."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4], name="x")
        bits = tf.bitcast(x, tf.float32, name="bits")
        with pytest.raises(LookupError, match=r"'bits' \(op type: Bitcast, made at .*py:"):
            tf.gradients(bits * 2.0, x)
        beside, = tf.gradients(x * tf.stop_gradient(bits), x)
        assert beside is not None
        assert tf.gradients(bits * x, bits)[0] is not None          # x's side is not asked for
        places = tf.cast(tf.cast(x, tf.int32), tf.float32)          # no path: integers
        assert tf.gradients(places, x) == [None]
        with pytest.raises(LookupError, match="Unique"):
            tf.gradients(tf.unique(x)[0], x)


def test_minimize_does_not_leave_variables_out():
    with tf.Graph().as_default():
        a, b = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
        loss = tf.reduce_sum(tf.truncatemod(a, 2.0) + b)
        with pytest.raises(LookupError, match="TruncateMod"):
            tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def _plugins_op(name, **more):
    from pyflow.framework import op as op_lib
    made = op_from_signature(name, "x: float -> y: float", shape=lambda op: op.inputs[0].shape,
                             **more)
    return op_lib.register(made)


def test_plugins_op_without_gradient():
    """The error names the Python package that may have it; registering one ends it."""
    there, plain = (_plugins_op("missing.There", package="missing_package_of_there"),
                    _plugins_op("missing.Plain"))
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        with pytest.raises(LookupError, match="`import missing_package_of_there` before"):
            tf.gradients(there(x, name="at"), x)
        with pytest.raises(LookupError, match=r"RegisterGradient\('missing.Plain'\)"):
            tf.gradients(plain(x), x)
        tf.RegisterGradient("missing.There")(lambda op, dy: dy * 2.0)
        tf.NotDifferentiable("missing.Plain")
        assert tf.gradients(there(x), x)[0] is not None
        assert tf.gradients(plain(x), x) == [None]
