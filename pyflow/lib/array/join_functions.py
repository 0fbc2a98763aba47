"""tf.split, tf.meshgrid, and the older names of stack and unstack."""
import numpy as np

from pyflow.framework import graph
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, int32s
from pyflow.ops.base.tensors import stack, unstack
from pyflow.ops.move import array_ops, broadcast_ops
from pyflow.ops.move.join_ops import Pack, Split, SplitV


def parallel_stack(values, name="parallel_stack"):
    """`tf.stack` along a new first dimension. TF: tf.parallel_stack.
    Dtypes, shapes, errors: as op Pack."""
    return Pack(list(values), name=name)


def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """`value` cut along `axis` into n equal parts or parts of given sizes. TF: tf.split.

    num_or_size_splits: n, which divides the dimension, or a list of sizes, one of which may be -1,
    the rest. num: how many sizes there are where a tensor does not say.
    Dtypes, shapes, errors: as ops Split and SplitV.

        >>> tf.Session().run(tf.split([1, 2, 3, 4, 5], [2, -1]))
        [array([1, 2], dtype=int32), array([3, 4, 5], dtype=int32)]
    """
    if isinstance(value, int) and isinstance(axis, graph.Tensor):
        raise TypeError("tf.split takes the tensor first, then the number of parts, then the axis "
                        f"(since TF 1.0): tf.split(value, {num_or_size_splits!r}, {value})")
    value = graph.convert_to_tensor(value, name="value")
    if isinstance(num_or_size_splits, (int, np.integer)):
        return Split(axis, value, num_split=int(num_or_size_splits), name=name)
    sizes = graph.convert_to_tensor(num_or_size_splits)
    if sizes.shape.ndims == 0:
        raise ValueError("tf.split: a number of equal parts must be a Python int; a tensor must "
                         "be a "
                         "vector of sizes")
    if num is None:
        count = dims_of(sizes.shape)
        num = count[0] if count else None
        if num is None:
            raise ValueError("tf.split: cannot infer num from sizes of unknown length; pass num")
    return SplitV(value, sizes, axis, num_split=num, name=name)


def unpack(value, num=None, axis=0, name="unpack"):
    """The older name of `tf.unstack`. TF: tf.unpack.
    Shapes, dtypes and errors (ValueError, TypeError) as there."""
    return unstack(value, num, axis, name)


def pack(values, axis=0, name="pack"):
    """The older name of `tf.stack`. TF: tf.pack.
    values, axis, shapes, dtypes and errors (ValueError, TypeError) as there.

        >>> tf.Session().run(tf.pack([1, 2]))
        array([1, 2], dtype=int32)
    """
    return stack(values, axis, name)


def meshgrid(*args, indexing="xy", name="meshgrid"):
    """Coordinate tensors of rank n of n vectors; indexing "xy" (default) or "ij". TF:
    tf.meshgrid.
    args: vectors of one dtype. ValueError for an unknown `indexing`, TypeError for another
    keyword."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"tf.meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    with graph.name_scope(name, "meshgrid", args):
        n = len(args)
        vectors = [graph.convert_to_tensor(v) for v in args]
        sizes = [tensors.size(v) for v in vectors]
        place = list(range(n))
        if indexing == "xy" and n > 1:
            place[:2] = [1, 0]
        views = [array_ops.Reshape(v, int32s([-1 if j == place[i] else 1 for j in range(n)]))
                 for i, v in enumerate(vectors)]
        dims = stack([sizes[place.index(j)] for j in range(n)]) if n else int32s([])
        return [broadcast_ops.BroadcastTo(v, dims) for v in views]


PUBLIC = {
    "meshgrid": meshgrid, "pack": pack, "unpack": unpack, "parallel_stack": parallel_stack,
    "split": split,
}
