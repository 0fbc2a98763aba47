"""Constants: the `Const` op, `constant`, and conversion of shapes and dimensions.

Invariant: a Const keeps its value as a read-only ndarray; a TensorProto is made only when the graph
is written out, so constants of gigabytes cost their bytes once.
"""

from pyflow.framework import convert, dtypes, user_traceback
from pyflow.framework.default_graph import get_default_graph
from pyflow.framework.op import S, op
from pyflow.framework.tensor_shape import Dimension, TensorShape
from pyflow.framework.tensor_util import make_array


@op("Const", outputs="output: dtype", attrs="value: tensor, dtype: type")
class Const:
    """A constant tensor: `value`, of type `dtype`. Shape: the value's. Source: TF op Const."""

    def shape(value):
        return TensorShape(value.shape)

    gradient = None
    reference = None
    samples = [S(value=1.5, dtype=dtypes.float32), S(value=[[1, 2], [3, 4]], dtype=dtypes.int32)]


def constant(value, dtype=None, shape=None, name="Const", verify_shape=False):
    """A constant tensor.

    value: a Python or NumPy value. dtype: its type (guessed without: float32 and int32 for Python
    numbers). shape: if larger than the value, the last element is repeated. verify_shape: TypeError
    unless the value has exactly `shape`.
    Raises TypeError for values that `dtype` cannot hold, ValueError for a ragged list or a shape
    that is too small.

        >>> tf.constant([1, 2, 3])
        <tf.Tensor 'Const:0' shape=(3,) dtype=int32>
        >>> tf.Session().run(tf.constant(1.5, shape=[2, 2]))
        array([[1.5, 1.5],
               [1.5, 1.5]], dtype=float32)
    """
    try:
        array, dtype = make_array(value, dtype, shape, verify_shape)
    except Exception as error:
        user_traceback.mark(error)
        raise
    return constant_from_array(get_default_graph(), array, dtype, name)


def constant_from_array(graph, array, dtype, name="Const"):
    """A constant that takes over `array` (nobody may change it afterwards)."""
    array.flags.writeable = False
    if isinstance(name, bytes):
        name = name.decode()
    if name and name[-1] == "/":
        name = name[:-1]
    else:
        with graph._lock:
            name = graph.unique_name(name or "Const")
    node = graph.add_node(Const, name, (), {"value": array, "dtype": dtype}, (dtype,),
                          (TensorShape(array.shape),))
    return node.outputs[0]


def _convert_shape(value, dtype=None, name=None, as_ref=False):
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    sizes = value.as_list()
    if dtype is None:
        dtype = dtypes.int64 if any(d > dtypes.int32.max for d in sizes) else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype {dtype.name}; it is int32 or int64")
    return constant(sizes, dtype, name=name or "shape_as_tensor")


def _convert_dimension(value, dtype=None, name=None, as_ref=False):
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    if dtype is None:
        dtype = dtypes.int64 if value.value > dtypes.int32.max else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a Dimension to dtype {dtype.name}; it is int32 or int64")
    return constant(value.value, dtype, name=name or "shape_as_tensor")


def install():
    """Registers the conversions; called once by graph.py."""
    convert.make_constant = constant
    convert.register_tensor_conversion_function(TensorShape, _convert_shape)
    convert.register_tensor_conversion_function(Dimension, _convert_dimension)
