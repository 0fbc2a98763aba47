"""Functions whose arguments TensorFlow 0.x had in another order: both orders work where they cannot
be confused.

Invariants
    1. A call in TensorFlow 1.15's form goes to pyflow's function unchanged.
    2. A call counts as the old form only if it would be an error in the new one.
    3. The old form is told of once per name.

Threads: any.
"""
import functools

import numpy as np

import pyflow as tf
from pyflow.interop.tensorflow.renamed import current, tell


def value(path):
    """The function or class for an old path of renamed.FORMS."""
    last = path.rpartition(".")[2]
    return _made(_MAKERS[last], path)


@functools.cache
def _made(make, path):
    return make(path)


def _is_scalar(x):
    """True of a Python or NumPy integer, and a tensor without dimensions."""
    if isinstance(x, tf.Tensor):
        return x.get_shape().ndims == 0
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _is_whole(x):
    """True of values with an integer type; None where it cannot be known."""
    if hasattr(x, "dtype"):
        return tf.as_dtype(x.dtype).base_dtype.is_integer
    return np.asarray(x).dtype.kind in "iu"


# ---------------------------------------------------------------- arrays

def _concat(path):
    """concat(concat_dim, values) beside concat(values, axis)."""
    @functools.wraps(tf.concat)
    def concat(*args, **kwargs):
        if "concat_dim" in kwargs:
            tell(path, "concat(values, axis)")
            kwargs["axis"] = kwargs.pop("concat_dim")
            if args:
                kwargs["values"], args = args[0], args[1:]
        elif len(args) >= 2 and _is_scalar(args[0]) and not _is_scalar(args[1]):
            tell(path, "concat(values, axis)")
            args = (args[1], args[0], *args[2:])
        elif len(args) == 1 and _is_scalar(args[0]) and "values" in kwargs:
            tell(path, "concat(values, axis)")
            args = (kwargs.pop("values"), *args)
        return tf.concat(*args, **kwargs)
    return concat


def _split(path):
    """split(split_dim, num_split, value) beside split(value, num_or_size_splits, axis)."""
    @functools.wraps(tf.split)
    def split(*args, **kwargs):
        old = "split_dim" in kwargs or "num_split" in kwargs or (
            len(args) >= 1 and _is_scalar(args[0]) and ("value" in kwargs or len(args) >= 3))
        if not old:
            return tf.split(*args, **kwargs)
        tell(path, "split(value, num_or_size_splits, axis)")
        given = {**dict(zip(("split_dim", "num_split", "value", "name"), args)), **kwargs}
        return tf.split(given["value"], given["num_split"], given["split_dim"],
                        name=given.get("name", "split"))
    return split


def _reverse(path):
    """reverse(tensor, dims), booleans, beside reverse(tensor, axis)."""
    @functools.wraps(tf.reverse)
    def reverse(tensor, axis=None, name=None, dims=None):
        chosen = axis if dims is None else dims
        if dims is not None or _is_boolean(chosen):
            tell(path, "reverse(tensor, axis), axis the numbers of the dimensions")
            flags = tf.get_static_value(tf.convert_to_tensor(chosen))
            if flags is None:
                raise ValueError("tf.reverse: which dimensions to reverse must be known when the "
                                 "graph is built; pass axis, the numbers of the dimensions")
            axis = np.flatnonzero(flags).astype(np.int32)
        return tf.reverse(tensor, axis, name=name)
    return reverse


def _is_boolean(x):
    return (x.dtype.base_dtype == tf.bool if isinstance(x, tf.Tensor)
            else np.asarray(x).dtype == bool and np.size(x) > 0)


def _batch_matmul(path):
    """batch_matmul(x, y, adj_x, adj_y): matmul(a, b, adjoint_a, adjoint_b)."""
    def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
        tell(path, "matmul(a, b, adjoint_a=, adjoint_b=)")
        return tf.matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y, name=name)
    return batch_matmul


def _resize_images(path):
    """resize_images(images, new_height, new_width, method) beside resize_images(images, size)."""
    new = tf.image.resize_images

    @functools.wraps(new)
    def resize_images(images, *args, **kwargs):
        old = "new_height" in kwargs or len(args) >= 1 and _is_scalar(args[0])
        if not old:
            return new(images, *args, **kwargs)
        tell(path, "resize_images(images, [height, width], method)")
        given = {**dict(zip(("new_height", "new_width", "method", "align_corners"), args)),
                 **kwargs}
        size = tf.stack([given.pop("new_height"), given.pop("new_width")])
        static = tf.get_static_value(size)
        return new(images, size if static is None else static, **given)
    return resize_images


# ---------------------------------------------------------------- losses

def _cross_entropy(path):
    """f(logits, labels) beside f(labels=, logits=): 1.x allows no positions.  0.x calls the labels
    of sigmoid_cross_entropy_with_logits targets."""
    new = current(path, path)

    @functools.wraps(new)
    def cross_entropy(*args, **kwargs):
        if "targets" in kwargs:
            tell(path, "name the arguments: labels=, logits=")
            kwargs["labels"] = kwargs.pop("targets")
        if not args or args[0] is None:
            return new(*args, **kwargs)
        tell(path, "name the arguments: labels=, logits=")
        given = dict(zip(("logits", "labels", "name") if "dim" not in kwargs else
                         ("logits", "labels"), args))
        return new(**given, **kwargs)
    return cross_entropy


def _sampled(path):
    """f(weights, biases, inputs, labels) beside f(weights, biases, labels, inputs): labels are
    integers, inputs are not."""
    new = current(path, path)

    @functools.wraps(new)
    def sampled(*args, **kwargs):
        if len(args) >= 4 and not _is_whole(args[2]) and _is_whole(args[3]):
            tell(path, "labels come before inputs")
            args = (*args[:2], args[3], args[2], *args[4:])
        return new(*args, **kwargs)
    return sampled


# ---------------------------------------------------------------- scopes, summaries, shapes

def _scope(path):
    """op_scope(values, name, default_name), variable_op_scope(values, name_or_scope, default_name)."""
    new = "variable_scope" if path.startswith("variable") else "name_scope"

    def scope(values, name, default_name=None, *args, **kwargs):
        tell(path, f"{new}(name, default_name, values)")
        make = getattr(tf, path)
        return make(values, name, default_name, *args, **kwargs)
    return scope


def _scalar_summary(path):
    """scalar_summary(tags, values): one tag, a summary of that name."""
    def scalar_summary(tags, values, collections=None, name=None):
        tell(path, "summary.scalar(name, tensor)")
        return current("summary.scalar", path)(_tag(tags, name), values, collections)
    return scalar_summary


def _image_summary(path):
    """image_summary(tag, tensor, max_images)."""
    def image_summary(tag, tensor, max_images=3, collections=None, name=None):
        tell(path, "summary.image(name, tensor, max_outputs)")
        return current("summary.image", path)(_tag(tag, name), tensor, max_images, collections)
    return image_summary


def _audio_summary(path):
    """audio_summary(tag, tensor, sample_rate, max_outputs)."""
    def audio_summary(tag, tensor, sample_rate, max_outputs=3, collections=None, name=None):
        tell(path, "summary.audio(name, tensor, sample_rate, max_outputs)")
        return current("summary.audio", path)(_tag(tag, name), tensor, sample_rate, max_outputs,
                                              collections)
    return audio_summary


def _tag(tag, name):
    """A tag as text; a tensor's value where the graph knows it, else the summary's name."""
    if isinstance(tag, bytes):
        return tag.decode("utf-8", "replace")
    if isinstance(tag, str):
        return tag
    known = tf.get_static_value(tag) if isinstance(tag, tf.Tensor) else np.asarray(tag)
    if known is None:
        return name or "summary"
    first = np.asarray(known).ravel()[0]
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)


def _register_shape(path):
    """RegisterShape(op_type)(function): shapes follow from the op's definition, for all ops."""
    def register_shape(op_type):
        tell(path, "the shape function belongs to the op's definition")
        return lambda function: function
    return register_shape


# ---------------------------------------------------------------- cells

def _cell(path):
    """A cell that takes input_size, which 0.x needed, and does not need it."""
    base = getattr(tf.nn.rnn_cell, path.rpartition(".")[2])

    class Cell(base):
        __doc__ = base.__doc__

        def __init__(self, *args, input_size=None, **kwargs):
            if input_size is not None:
                tell(path, "cells take input_size from their inputs")
            super().__init__(*args, **kwargs)

    Cell.__name__, Cell.__qualname__, Cell.__module__ = (
        base.__name__, base.__qualname__, base.__module__)
    return Cell


def _linear_maker(path):
    """linear(args, output_size, bias): the sum of products, in variables Matrix and Bias."""
    def linear(args, output_size, bias, bias_start=0.0, scope=None):
        tell(path, "contrib.layers.fully_connected or matmul")
        with tf.variable_scope(scope or "Linear"):
            parts = list(args) if isinstance(args, (list, tuple)) else [args]
            width = sum(int(part.get_shape()[1]) for part in parts)
            matrix = tf.get_variable("Matrix", [width, output_size])
            product = tf.matmul(parts[0] if len(parts) == 1 else tf.concat(parts, 1), matrix)
            if not bias:
                return product
            return product + tf.get_variable(
                "Bias", [output_size], initializer=tf.constant_initializer(bias_start))
    return linear


_MAKERS = {
    "concat": _concat, "split": _split, "reverse": _reverse, "batch_matmul": _batch_matmul,
    "resize_images": _resize_images,
    "softmax_cross_entropy_with_logits": _cross_entropy,
    "sparse_softmax_cross_entropy_with_logits": _cross_entropy,
    "sigmoid_cross_entropy_with_logits": _cross_entropy,
    "sampled_softmax_loss": _sampled, "nce_loss": _sampled,
    "op_scope": _scope, "variable_op_scope": _scope,
    "scalar_summary": _scalar_summary, "image_summary": _image_summary,
    "audio_summary": _audio_summary, "RegisterShape": _register_shape,
    "BasicLSTMCell": _cell, "GRUCell": _cell, "BasicRNNCell": _cell, "linear": _linear_maker,
}
