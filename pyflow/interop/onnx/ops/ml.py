"""Preparing features for learners (domain ai.onnx.ml): scaling, filling in, encoding.

Numbers are looked up by kernels, strings by Python functions of the step. (Trees: trees.py; linear
models and support vector machines: linear.py; maps: maps.py.)"""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar, sizes
from pyflow.interop.onnx.ops.scores import ML, encoded, floats
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter


# --------------------------------------------------------------------------------------- features
@converter("Binarizer", domain=ML)
def binarizer(node):
    x = node.x(0)
    return tf.cast(tf.greater(x, scalar(node.attr("threshold", 0.0), x)), x.dtype)


def _per_feature(node, name, default):
    """An attribute with one number, or one per feature."""
    made, have = floats(node, name, [default]), node.shape(0)[-1]
    if len(made) != 1 and have not in (None, len(made)):
        raise node.error(f"{name} has {len(made)} numbers, expected 1 or one for each of {have} "
                         f"features")
    return made


@converter("Scaler", domain=ML)
def scaler(node):
    offset, scale = _per_feature(node, "offset", 0.0), _per_feature(node, "scale", 1.0)
    return (tf.cast(node.x(0), tf.float32) - tf.constant(offset)) * tf.constant(scale)


@converter("Normalizer", domain=ML)
def normalizer(node):
    x = tf.cast(node.x(0), tf.float32)
    norm = node.attr("norm", "MAX")
    if norm == "MAX":
        length = tf.reduce_max(x, -1, keepdims=True)
    elif norm == "L1":
        length = tf.reduce_sum(tf.abs(x), -1, keepdims=True)
    elif norm == "L2":
        length = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))
    else:
        raise node.error(f"norm {norm!r} is none of MAX, L1, L2")
    return x / tf.where(tf.equal(length, 0.0), tf.ones_like(length), length)


@converter("Imputer", domain=ML)
def imputer(node):
    x, whole = node.x(0), node.x(0).dtype.is_integer
    kind, wanted = ("int64", "int64s") if whole else ("float", "floats")
    missing = node.attr(f"replaced_value_{kind}", 0)
    values = np.array(node.attr(f"imputed_value_{wanted}", [])).astype(x.dtype.as_numpy_dtype)
    have = node.shape(0)[-1]
    if len(values) != 1 and (not len(values) or have not in (None, len(values))):
        raise node.error(f"imputed_value_{wanted} has {len(values)} numbers, expected 1 or one for "
                         f"each of {have} features")
    gone = tf.is_nan(x) if missing != missing else tf.equal(x, scalar(missing, x))
    return tf.where_v2(gone, tf.constant(values), x)


@converter("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node):
    x, places = node.x(0), tf.reshape(node.x(1), [-1])
    made = tf.gather(x, places, axis=node.rank(0) - 1)
    return tf.reshape(made, [1, -1]) if node.rank(0) == 1 else made


@converter("FeatureVectorizer", domain=ML)
def feature_vectorizer(node):
    """Inputs side by side, each cut or filled with zeros to its width."""
    widths = node.attr("inputdimensions", [])
    if len(widths) != len(node) or min(widths, default=0) < 0:
        raise node.error(f"inputdimensions {widths} must name the widths of {len(node)} inputs")
    node.bounded("a row of the result", sum(widths))
    parts = []
    for i, width in enumerate(widths):
        node.expect_rank(i, 1, 2)
        x = tf.cast(node.x(i), tf.float32)
        x = x if node.rank(i) == 2 else tf.reshape(x, [1, -1])
        have = x.shape[1].value
        if have != width:
            x = tf.pad(x[:, :width], [[0, 0], [0, tf.maximum(width - tf.shape(x)[1], 0)]])
            x.set_shape([x.shape[0], width])
        parts.append(x)
    return tf.concat(parts, 1)


# ---------------------------------------------------------------------------------------- encoders
def places_of(x, keys):
    """Where the elements of `x` first are among `keys`, int64 in x's shape; len(keys): nowhere."""
    if keys.dtype == object:
        table = {}
        for i, key in enumerate(encoded(keys.tolist())):
            table.setdefault(key, i)

        def look_up(x):
            x = np.asarray(x, object)
            found = [table.get(v, len(keys)) for v in x.ravel().tolist()]
            return np.array(found, np.int64).reshape(x.shape)
        return hosted(look_up, [x], [tf.int64], [x.shape.as_tuple()])[0]
    unique, first = np.unique(keys[keys == keys], return_index=True)
    first = np.flatnonzero(keys == keys)[first]
    nowhere = tf.constant(np.int64(len(keys)))
    if len(unique):
        flat = tf.reshape(x, [-1])
        at = tf.searchsorted(tf.constant(unique), flat, out_type=tf.int64)
        at = tf.minimum(at, tf.constant(np.int64(len(unique) - 1)))
        hit = tf.equal(tf.gather(tf.constant(unique), at), flat)
        made = tf.where_v2(hit, tf.gather(tf.constant(first.astype(np.int64)), at), nowhere)
        made = tf.reshape(made, sizes(x))
    else:
        made = tf.fill(sizes(x), nowhere)
    if len(unique) < len(keys) and (keys != keys).any():
        nan_at = np.int64(np.flatnonzero(keys != keys)[0])
        made = tf.where_v2(tf.is_nan(x), tf.constant(nan_at), made)
    return made


def mapped(node, x, keys, values, default):
    """Each element's value: that of its key, else `default`."""
    if len(keys) != len(values):
        raise node.error(f"{len(keys)} keys are given for {len(values)} values")
    if (keys.dtype == object) != (x.dtype.base_dtype is tf.string):
        raise node.error(f"the keys are {'strings' if keys.dtype == object else keys.dtype}, the "
                         f"input {x.dtype.name}")
    if keys.dtype != object and x.dtype.as_numpy_dtype != keys.dtype:
        x = tf.cast(x, tf.as_dtype(keys.dtype))
    if values.dtype == object:
        values, default = encoded(values.tolist()), encoded([default])
    every = np.concatenate([values, np.array([default], values.dtype).reshape(-1)])
    return tf.gather(tf.constant(every), places_of(x, keys))


_TYPES = {"strings": (object, "_Unused"), "int64s": (np.int64, -1), "floats": (np.float32, -0.0)}


def _table(node, which):
    for kind, (np_type, _) in _TYPES.items():
        if node.has_attr(f"{which}_{kind}"):
            return np.array(node.attr(f"{which}_{kind}"), np_type)
    made = node.attr(f"{which}_tensor").reshape(-1)
    return made if made.dtype != object else encoded(made.tolist())


@converter("LabelEncoder", domain=ML, since=2)
def label_encoder(node):
    """Keys to values; what is no key becomes the default."""
    keys, values = _table(node, "keys"), _table(node, "values")
    default = node.attr("default_tensor", None)
    if default is not None:
        if default.size != 1:
            raise node.error(f"default_tensor has {default.size} elements, expected one")
        default = default.reshape(-1)[0]
    else:
        kind = "strings" if values.dtype == object else \
            "floats" if values.dtype.kind == "f" else "int64s"
        default = node.attr(f"default_{kind.rstrip('s')}", _TYPES[kind][1])
    return mapped(node, node.x(0), keys, values, default)


@converter("LabelEncoder", domain=ML)
def label_encoder_1(node):
    """Strings to their places among the classes, and places to strings."""
    words, x = encoded(node.attr("classes_strings", [])), node.x(0)
    places = np.arange(len(words))
    return _either_way(node, x, places, words)


@converter("CategoryMapper", domain=ML)
def category_mapper(node):
    words = encoded(node.attr("cats_strings", []))
    return _either_way(node, node.x(0), np.array(node.attr("cats_int64s", []), np.int64), words)


def _either_way(node, x, numbers, words):
    if x.dtype.base_dtype is tf.string:
        return mapped(node, x, words, numbers, node.attr("default_int64", -1))
    return mapped(node, x, numbers, words, node.attr("default_string", "_Unused"))


@converter("OneHotEncoder", domain=ML)
def one_hot_encoder(node):
    x = node.x(0)
    text = x.dtype.base_dtype is tf.string
    keys = encoded(node.attr("cats_strings", [])) if text else \
        np.array(node.attr("cats_int64s", []), np.int64)
    if not len(keys):
        raise node.error(f"cats_{'strings' if text else 'int64s'} must name the categories")
    node.bounded("the one-hot rows", len(keys), len(keys))
    hot = np.eye(len(keys), dtype=np.float32)
    if node.attr("zeros", 1):
        hot = np.concatenate([hot, np.zeros((1, len(keys)), np.float32)])
    x = x if text else tf.cast(x, tf.int64)
    return tf.gather(tf.constant(hot), places_of(x, keys))
