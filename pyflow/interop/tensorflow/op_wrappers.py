"""Functions of tensorflow.python.ops.*_ops around an op whose name in snake_case is theirs, too: in
these modules a name is the function, the op is in gen_*_ops.

    string_ops.string_format("{}", [x])         # tf.strings.format, not raw_ops.StringFormat

ALIASES has those that are public names of tf, the rest is written out, with TensorFlow's order of
arguments.
"""
import sys

import pyflow as tf
from pyflow.framework.table_module import TableModule
from pyflow.interop.tensorflow import renamed

ALIASES = {
    "cumulative_logsumexp": "math.cumulative_logsumexp",
    "eager_py_func": "py_function",
    "non_max_suppression_with_overlaps": "image.non_max_suppression_overlaps",
    "parse_sequence_example": "io.parse_sequence_example",
    "print_v2": "print",
    "quantize_and_dequantize": "quantization.quantize_and_dequantize",
    "regex_full_match": "strings.regex_full_match",
    "sparse_cross": "sparse.cross",
    "sparse_cross_hashed": "sparse.cross_hashed",
    "stateless_multinomial": "random.stateless_multinomial",
    "stateless_random_normal": "random.stateless_normal",
    "stateless_random_uniform": "random.stateless_uniform",
    "stateless_truncated_normal": "random.stateless_truncated_normal",
    "string_format": "strings.format",
    "string_length": "strings.length",
}


OLD = {f"{kind}_summary" for kind in ("audio", "histogram", "image", "merge", "scalar")}


def __getattr__(name):
    if name in OLD:                             # TensorFlow 0.x's, tags first
        return renamed.value(name)
    if name not in ALIASES:
        raise AttributeError(f"there is no function {name!r} around an op")
    value = tf
    for part in ALIASES[name].split("."):
        value = getattr(value, part)
    return value


def __dir__():
    return sorted([*ALIASES, *OLD, *_WRITTEN])


def string_split_v2(source, sep=None, maxsplit=-1):
    """The parts of strings [N] as a SparseTensor [N, most parts]."""
    source = tf.convert_to_tensor(source, tf.string)
    return tf.SparseTensor(*tf.raw_ops.StringSplitV2(
        input=source, sep="" if sep is None else sep, maxsplit=maxsplit))


def gather_v2(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None):
    """tf.gather with the name last."""
    return tf.gather(params, indices, name=name, axis=axis, batch_dims=batch_dims)


def pad_v2(tensor, paddings, mode="CONSTANT", constant_values=0, name=None):
    """tf.pad with the name last."""
    return tf.pad(tensor, paddings, mode=mode, name=name, constant_values=constant_values)


def deserialize_sparse(serialized_sparse, dtype, rank=None, name=None):
    """SparseTensors out of strings [..., 3], one dimension more per batch dimension."""
    found = tf.SparseTensor(*tf.raw_ops.DeserializeSparse(
        serialized_sparse=serialized_sparse, dtype=dtype, name=name))
    found.indices.set_shape([None, rank])
    found.dense_shape.set_shape([rank])
    return found


def sparse_dense_cwise_add(sp_t, dense_t):
    """sp_t + dense_t where sp_t has values; dense_t is broadcast."""
    return tf.SparseTensor(sp_t.indices, tf.raw_ops.SparseDenseCwiseAdd(
        sp_indices=sp_t.indices, sp_values=sp_t.values, sp_shape=sp_t.dense_shape, dense=dense_t),
        sp_t.dense_shape)


def draw_bounding_boxes_v2(images, boxes, colors, name=None):
    """tf.image.draw_bounding_boxes with the name last."""
    return tf.image.draw_bounding_boxes(images, boxes, name=name, colors=colors)


def extract_glimpse_v2(input, size, offsets, centered=True, normalized=True, noise="uniform",
                       name=None):
    """Glimpses [N, *size, channels] of images at offsets; noise: "uniform", "gaussian", "zero"."""
    return tf.raw_ops.ExtractGlimpse(input=input, size=size, offsets=offsets, centered=centered,
                                     normalized=normalized, noise=noise, uniform_noise=False,
                                     name=name)


def sample_distorted_bounding_box_v2(image_size, bounding_boxes, seed=0, min_object_covered=0.1,
                                     aspect_ratio_range=None, area_range=None, max_attempts=None,
                                     use_image_if_no_bounding_boxes=None, name=None):
    """tf.image.sample_distorted_bounding_box with one seed; 0: a stream of the graph's."""
    return tf.image.sample_distorted_bounding_box(
        image_size, bounding_boxes, seed or None, None, min_object_covered, aspect_ratio_range,
        area_range, max_attempts, use_image_if_no_bounding_boxes, name)


def random_poisson_v2(shape, lam, dtype=tf.float32, seed=None, name=None):
    """tf.random.poisson with the shape first."""
    return tf.random.poisson(lam, shape, dtype, seed, name)


def parse_example_v2(serialized, features, example_names=None, name=None):
    """tf.io.parse_example with the name last."""
    return tf.io.parse_example(serialized, features, name=name, example_names=example_names)


_WRITTEN = [name for name, value in list(globals().items())
            if getattr(value, "__module__", None) == __name__ and not name.startswith("_")]
sys.modules[__name__].__class__ = TableModule
