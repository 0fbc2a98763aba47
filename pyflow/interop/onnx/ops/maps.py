"""Maps (domain ai.onnx.ml): ZipMap, CastMap, DictVectorizer. See interop/onnx/maps.py."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.maps import Map, Maps
from pyflow.interop.onnx.ops.ml import places_of
from pyflow.interop.onnx.ops.scores import ML, encoded, labels_of
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter

_MAX_WIDTH = 1 << 24


@converter("ZipMap", domain=ML)
def zip_map(node):
    labels = labels_of(node, "classlabels_int64s")
    node.expect_rank(0, 1, 2)
    have = node.shape(0)[-1]
    if have not in (None, len(labels)):
        raise node.error(f"{len(labels)} labels are given for rows of {have}")
    x = node.x(0)
    return Maps(labels, tf.reshape(x, [1, -1]) if node.rank(0) == 1 else x)


def _entries(node):
    value = node.value(0)
    if not isinstance(value, Map):
        raise node.error(f"input 0 is a tensor of shape {value.shape}; expected a map")
    return value.keys, value.tensor


@converter("DictVectorizer", domain=ML)
def dict_vectorizer(node):
    """Values at their keys' places in the vocabulary, zeros elsewhere: [1, vocabulary]."""
    keys, values = _entries(node)
    words = node.attr("string_vocabulary", [])
    known = encoded(words) if words else np.array(node.attr("int64_vocabulary", []), np.int64)
    if not len(known):
        raise node.error("string_vocabulary or int64_vocabulary must name the keys")
    if (known.dtype == object) != (keys.dtype.base_dtype is tf.string):
        raise node.error(f"the vocabulary does not fit keys of {keys.dtype.name}")
    return _scattered(values, places_of(keys, known), len(known))


def _scattered(values, places, width):
    """A row with `values` at `places`, the one behind the end for those that are nowhere."""
    text = values.dtype.base_dtype is tf.string

    def put(values, places):
        made = np.full(width + 1, b"" if text else 0, object if text else values.dtype)
        made[places] = values
        return made[None, :width]
    return hosted(put, [values, places], [values.dtype.base_dtype], [(1, width)])[0]


@converter("CastMap", domain=ML)
def cast_map(node):
    """A map's values, by ascending keys, as a row: as they come (DENSE) or at their keys."""
    keys, values = _entries(node)
    to, form = node.attr("cast_to", "TO_FLOAT"), node.attr("map_form", "DENSE")
    dtypes = {"TO_FLOAT": tf.float32, "TO_INT64": tf.int64, "TO_STRING": tf.string}
    if to not in dtypes or form not in ("DENSE", "SPARSE"):
        raise node.error(f"cast_to {to!r} or map_form {form!r} is not ONNX's")
    if form == "SPARSE":
        width = node.attr("max_map", 1)
        if not 0 < width <= _MAX_WIDTH:
            raise node.error(f"max_map is {width}, expected 1 to {_MAX_WIDTH}")
        inside = tf.logical_and(tf.greater_equal(keys, tf.constant(np.int64(0))),
                                tf.less(keys, tf.constant(np.int64(width))))
        places = tf.where_v2(inside, keys, tf.constant(np.int64(width)))
        return _scattered(_cast(values, dtypes[to]), places, width)
    order = tf.argsort(keys)
    return tf.reshape(tf.gather(_cast(values, dtypes[to]), order), [1, -1])


def _cast(values, dtype):
    if values.dtype.base_dtype is tf.string:
        return values if dtype is tf.string else tf.string_to_number(values, dtype)
    if dtype is tf.string:
        return tf.as_string(values, shortest=False, precision=6)
    return tf.cast(values, dtype)
