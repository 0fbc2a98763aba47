"""Arrays: shapes, slices, joins, gathers."""

import numpy as np

from cases import bools, ints, normal, op, value

A = (2, 3, 4)

op(
    "reshape",
    lambda tf, x: [
        tf.reshape(x, [4, -1]),
        tf.reshape(x, [-1]),
        tf.reshape(x, tf.reverse(tf.shape(x), [0])),
    ],
    normal(*A),
)
op(
    "expand_squeeze",
    lambda tf, x: [
        tf.expand_dims(x, 1),
        tf.expand_dims(x, -1),
        tf.squeeze(tf.expand_dims(x, 0), [0]),
    ],
    normal(*A),
)
op(
    "shape_size_rank",
    lambda tf, x: [tf.shape(x), tf.size(x), tf.rank(x), tf.shape(x, out_type=tf.int64)],
    normal(*A),
)
op("shape_n", lambda tf, x, y: tf.shape_n([x, y]), normal(*A), normal(2))
op(
    "transpose",
    lambda tf, x: [tf.transpose(x), tf.transpose(x, [1, 0, 2]), tf.transpose(x, [2, 0, 1])],
    normal(*A),
)
op(
    "concat",
    lambda tf, x, y: [tf.concat([x, y], 1), tf.concat([x, x, y], -2)],
    normal(2, 3, 2),
    normal(2, 1, 2),
)
op(
    "stack",
    lambda tf, x, y: [tf.stack([x, y]), tf.stack([x, y], axis=1), tf.stack([x, y], axis=-1)],
    normal(2, 3),
    normal(2, 3),
)
op("unstack", lambda tf, x: tf.unstack(x, axis=1), normal(2, 3, 2))
op("split", lambda tf, x: tf.split(x, 3, axis=1), normal(2, 6))
op("split_sizes", lambda tf, x: tf.split(x, [1, 3, 2], axis=1), normal(2, 6))
op("slice", lambda tf, x: tf.slice(x, [0, 1, 1], [2, -1, 2]), normal(*A))
op(
    "strided_slice",
    lambda tf, x: [
        x[0],
        x[:, 1:, ::2],
        x[..., -1],
        x[:, ::-1],
        x[1, tf.newaxis, :, 2],
        x[-1:, :-1],
    ],
    normal(*A),
)
op(
    "strided_slice_explicit",
    lambda tf, x: tf.strided_slice(x, [0, 0, 3], [2, 3, 0], [1, 2, -1]),
    normal(*A),
)
op(
    "boolean_mask",
    lambda tf, x, m: tf.boolean_mask(x, m),
    normal(4, 2),
    value([True, False, True, True], bool),
)
op(
    "pad",
    lambda tf, x: [tf.pad(x, [[1, 2], [0, 1]]), tf.pad(x, [[1, 1], [0, 1]], constant_values=3.0)],
    normal(2, 3),
)
op(
    "mirror_pad",
    lambda tf, x: [
        tf.pad(x, [[1, 1], [2, 0]], "REFLECT"),
        tf.pad(x, [[1, 1], [2, 0]], "SYMMETRIC"),
    ],
    normal(3, 3),
)
op("tile", lambda tf, x: tf.tile(x, [2, 3]), normal(2, 3))
op("broadcast_to", lambda tf, x: tf.broadcast_to(x, [2, 3, 4]), normal(3, 1))
op("reverse", lambda tf, x: tf.reverse(x, [0, -1]), normal(*A))
op(
    "reverse_sequence",
    lambda tf, x: tf.reverse_sequence(x, [2, 1, 3], seq_axis=1, batch_axis=0),
    normal(3, 4),
)
op("gather", lambda tf, x, i: [tf.gather(x, i), tf.gather(x, i[0])], normal(5, 3), ints(0, 5, 2, 2))
op("gather_axis", lambda tf, x, i: tf.gather(x, i, axis=1), normal(2, 4, 3), ints(0, 4, 3))
op(
    "gather_nd",
    lambda tf, x: [tf.gather_nd(x, [[0, 1], [2, 0]]), tf.gather_nd(x, [[[1]], [[2]]])],
    normal(3, 2),
)
op("embedding_lookup", lambda tf, x, i: tf.nn.embedding_lookup(x, i), normal(6, 3), ints(0, 6, 4))
op("scatter_nd", lambda tf, x: tf.scatter_nd([[1], [3], [1]], x, [5, 2]), normal(3, 2))
op(
    "one_hot",
    lambda tf, i: [
        tf.one_hot(i, 4),
        tf.one_hot(i, 3, on_value=5.0, off_value=-1.0, axis=0),
        tf.one_hot(i, 3, dtype=tf.int32),
    ],
    value([0, 2, -1, 3], np.int32),
)
op("dynamic_partition", lambda tf, x: tf.dynamic_partition(x, [0, 1, 0, 2], 3), normal(4, 2))
op(
    "dynamic_stitch",
    lambda tf, x, y: tf.dynamic_stitch([[0, 2], [1, 3]], [x, y]),
    normal(2, 2),
    normal(2, 2),
)
op("unique", lambda tf, x: list(tf.unique(x)), value([4, 2, 4, 1, 2], np.int32))
op("top_k", lambda tf, x: list(tf.nn.top_k(x, 2)), normal(3, 5))
op("in_top_k", lambda tf, x: tf.nn.in_top_k(x, [0, 1, 2], 2), normal(3, 5), gradient=False)
op("invert_permutation", lambda tf, x: tf.invert_permutation(x), value([2, 0, 1, 3], np.int32))
op("meshgrid", lambda tf, x, y: tf.meshgrid(x, y), normal(3), normal(2))
op("sequence_mask", lambda tf, n: tf.sequence_mask(n, 5), value([1, 3, 5], np.int32))
op("identity_n", lambda tf, x, y: tf.identity_n([x, y]), normal(2), normal(3))
op("stop_gradient", lambda tf, x: x * tf.stop_gradient(x), normal(4))
op(
    "space_to_depth",
    lambda tf, x: [tf.space_to_depth(x, 2), tf.depth_to_space(tf.space_to_depth(x, 2), 2)],
    normal(1, 4, 4, 2),
)
op(
    "space_to_batch",
    lambda tf, x: tf.batch_to_space_nd(
        tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]), [2, 2], [[0, 0], [0, 0]]
    ),
    normal(1, 4, 4, 1),
)
op(
    "setdiff",
    lambda tf, x, y: list(tf.setdiff1d(x, y)),
    value([1, 2, 3, 4], np.int32),
    value([2, 4], np.int32),
)
op("roll", lambda tf, x: tf.roll(x, [1, -1], [0, 1]), normal(3, 4))
op(
    "fill_like",
    lambda tf, x: [tf.zeros_like(x, dtype=tf.int32), tf.ones_like(x), tf.fill(tf.shape(x), 2)],
    normal(2, 2),
)
op(
    "tensor_scatter",
    lambda tf, x, u: tf.tensor_scatter_update(x, [[0], [2]], u),
    normal(4),
    normal(2),
)
op(
    "strings_constant",
    lambda tf, x: tf.where(x, tf.constant(["a", "bc"]), tf.constant(["d", ""])),
    bools(2),
)
op("eye", lambda tf, n: [tf.eye(3), tf.eye(2, 4, dtype=tf.int32)], value(3, np.int32))
