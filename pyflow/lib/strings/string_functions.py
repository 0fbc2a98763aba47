"""tf.string_join, tf.reduce_join, tf.as_string, tf.string_to_number."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base.common import one_of
from pyflow.ops.base.tensors import reduction_axes
from pyflow.ops.strings.string_ops import AsString, ReduceJoin, StringJoin, StringToNumber


def string_join(inputs, separator="", name=None):
    """Strings of a list of tensors joined element by element. TF: tf.string_join.
    Dtypes, shapes, errors: as op StringJoin."""
    return StringJoin(list(inputs), separator=separator, name=name)


def reduce_join(inputs, axis=None, keep_dims=None, separator="", name=None, reduction_indices=None,
                keepdims=None):
    """Strings joined over `axis` (all, without one). TF: tf.reduce_join.
    Dtypes, shapes, errors: as op ReduceJoin."""
    axis = one_of(axis, reduction_indices, "axis", "reduction_indices")
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    inputs = graph.convert_to_tensor(inputs)
    return ReduceJoin(inputs, reduction_axes(inputs, axis), keep_dims=keep, separator=separator,
                      name=name)


def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill="", name=None):
    """Numbers as decimal text. TF: tf.as_string.
    Dtypes, shapes, errors: as op AsString."""
    return AsString(input, precision=precision, scientific=scientific, shortest=shortest,
                    width=width, fill=fill, name=name)


def string_to_number(string_tensor=None, out_type=dtypes.float32, name=None, input=None):
    """Decimal text as numbers. TF: tf.string_to_number.
    Dtypes, shapes, errors: as op StringToNumber."""
    text = one_of(string_tensor, input, "string_tensor", "input")
    return StringToNumber(text, out_type=out_type, name=name)


PUBLIC = {
    "string_join": string_join, "strings.join": string_join, "reduce_join": reduce_join,
    "strings.reduce_join": reduce_join, "as_string": as_string, "strings.as_string": as_string,
    "dtypes.as_string": as_string, "string_to_number": string_to_number,
    "strings.to_number": string_to_number,
}
