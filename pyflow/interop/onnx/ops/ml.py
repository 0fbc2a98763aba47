"""Classical learning (domain ai.onnx.ml): label encoders, tree ensembles, scaling, linear models.

Trees are walked level by level for all samples at once, by gathers."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar, sizes
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter

_ML = "ai.onnx.ml"


@converter("Binarizer", domain=_ML)
def binarizer(node):
    x = node.x(0)
    return tf.cast(tf.greater(x, scalar(node.attr("threshold", 0.0), x)), x.dtype)


@converter("Scaler", domain=_ML)
def scaler(node):
    x = tf.cast(node.x(0), tf.float32)
    offset = tf.constant(np.array(node.attr("offset", [0.0]), np.float32))
    return (x - offset) * tf.constant(np.array(node.attr("scale", [1.0]), np.float32))


@converter("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(node):
    x = node.x(0)
    made = tf.gather(x, tf.reshape(node.x(1), [-1]), axis=node.rank(0) - 1)
    return tf.reshape(made, [1, -1]) if node.rank(0) == 1 else made


@converter("Normalizer", domain=_ML)
def normalizer(node):
    x = tf.cast(node.x(0), tf.float32)
    norm = node.attr("norm", "MAX")
    if norm == "MAX":
        length = tf.reduce_max(tf.abs(x), -1, keepdims=True)
    elif norm == "L1":
        length = tf.reduce_sum(tf.abs(x), -1, keepdims=True)
    else:
        length = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))
    return tf.div_no_nan(x, length)


@converter("LinearRegressor", domain=_ML)
def linear_regressor(node):
    targets = node.attr("targets", 1)
    weights = np.array(node.attr("coefficients"), np.float32).reshape(targets, -1)
    made = tf.matmul(tf.cast(node.x(0), tf.float32), tf.constant(weights), transpose_b=True)
    bias = node.attr("intercepts", None)
    return made if not bias else made + tf.constant(np.array(bias, np.float32))


@converter("LabelEncoder", domain=_ML, since=2)
def label_encoder(node):
    """Keys to values; what is no key becomes the default."""
    keys, values = _table(node, "keys"), _table(node, "values")
    if len(keys) != len(values):
        raise node.error(f"{len(keys)} keys are given for {len(values)} values")
    text = values.dtype == object
    default = node.attr("default_tensor", None)
    if default is not None:
        default = default.reshape(-1)[0]
    else:
        kind = "string" if text else "float" if values.dtype.kind == "f" else "int64"
        default = node.attr(f"default_{kind}", {"string": "_Unused", "float": -0.0,
                                                "int64": -1}[kind])
    encode = (lambda v: v if isinstance(v, bytes) else str(v).encode()) if text else (lambda v: v)
    table = {_key(k): encode(v) for k, v in zip(keys.tolist(), values.tolist())}
    missing = encode(default)
    dtype = tf.string if text else tf.as_dtype(values.dtype)

    def look_up(x):
        x = np.asarray(x)
        found = [table.get(_key(k), missing) for k in x.ravel().tolist()]
        made = np.empty(len(found), object if text else values.dtype)
        made[:] = found
        return made.reshape(x.shape)
    return hosted(look_up, [node.x(0)], [dtype], [node.shape(0)])


def _key(key):
    if isinstance(key, str):
        return key.encode()
    return "nan" if key != key else key


def _table(node, which):
    for kind, np_type in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if node.has_attr(f"{which}_{kind}"):
            return np.array(node.attr(f"{which}_{kind}"), np_type)
    return node.attr(f"{which}_tensor").reshape(-1)
