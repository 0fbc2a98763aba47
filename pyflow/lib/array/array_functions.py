"""tf.fill, tf.linspace, tf.shape_n."""
from pyflow.framework import dtypes
from pyflow.ops.base.tensors import NO_AXES
from pyflow.ops.move.array_ops import Fill, LinSpace, ShapeN


def shape_n(input, out_type=dtypes.int32, name=None):
    """Dimensions of each tensor of a list. TF: tf.shape_n.
    Dtypes, shapes, errors: as op ShapeN."""
    return ShapeN(input, out_type=out_type, name=name)


def fill(dims, value, name=None):
    """A tensor of shape `dims`, every element the scalar `value`. TF: tf.fill.
    Dtypes, shapes, errors: as op Fill.

        >>> tf.Session().run(tf.fill([2, 2], 7))
        array([[7, 7],
               [7, 7]], dtype=int32)
    """
    if isinstance(dims, (list, tuple)) and not dims:
        dims = NO_AXES
    return Fill(dims, value, name=name)


def linspace(start, stop, num, name=None):
    """`num` evenly spaced values from start to stop, both included. TF: tf.linspace.
    Dtypes, shapes, errors: as op LinSpace."""
    return LinSpace(start, stop, num, name=name)


PUBLIC = {"shape_n": shape_n, "fill": fill, "linspace": linspace, "lin_space": linspace}
