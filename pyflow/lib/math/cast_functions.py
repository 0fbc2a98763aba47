"""Conversions of element types: saturating, bit by bit, to_float and its kin."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base.tensors import cast
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.elementwise.cast_ops import Bitcast


def saturate_cast(value, dtype, name=None):
    """`value` as `dtype`, clipped first to what `dtype` can hold. TF: tf.saturate_cast.
    value: numbers of any shape. TypeError for dtypes that cannot be cast."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    with graph.name_scope(name, "saturate_cast", [value]) as scope:
        value = graph.convert_to_tensor(value, name="value")
        if value.dtype.min < dtype.min:
            value = binary_ops.Maximum(value, graph.convert_to_tensor(dtype.min, dtype=value.dtype))
        if value.dtype.max > dtype.max:
            value = binary_ops.Minimum(value, graph.convert_to_tensor(dtype.max, dtype=value.dtype))
        return cast(value, dtype, name=scope)


def bitcast(input, type, name=None):
    """The bytes of `input` read as dtype `type`. TF: tf.bitcast.
    Dtypes, shapes, errors: as op Bitcast."""
    return Bitcast(input, type=dtypes.as_dtype(type), name=name)


def _to(dtype, default):
    def convert(x, name=default):
        return cast(x, dtype, name=name)
    convert.__name__ = default
    convert.__doc__ = f"""`x` as {dtype.name}; use `tf.cast` in new code. TF: tf.{default}.

    x: as for tf.cast.
    Dtypes, shapes, errors: as op Cast.

        >>> x = tf.to_{default[2:].lower()}([1, 2])
        >>> x.dtype.name, x.shape.as_list()
        ({dtype.name!r}, [2])
    """
    return convert


to_float = _to(dtypes.float32, "ToFloat")
to_double = _to(dtypes.float64, "ToDouble")
to_int32 = _to(dtypes.int32, "ToInt32")
to_int64 = _to(dtypes.int64, "ToInt64")
to_bfloat16 = _to(dtypes.bfloat16, "ToBFloat16")
to_complex64 = _to(dtypes.complex64, "ToComplex64")
to_complex128 = _to(dtypes.complex128, "ToComplex128")

PUBLIC = {
    "saturate_cast": saturate_cast, "dtypes.saturate_cast": saturate_cast, "bitcast": bitcast,
    "to_float": to_float, "to_double": to_double, "to_int32": to_int32, "to_int64": to_int64,
    "to_bfloat16": to_bfloat16, "to_complex64": to_complex64, "to_complex128": to_complex128,
}
