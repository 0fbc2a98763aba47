"""Sparse tensors, sets and edit distances.

A sparse input is a tensor of values at fixed places; a sparse result is its three tensors.
"""

import numpy as np

from cases import ints, normal, op, positive, value

A = np.array([[0, 1], [1, 0], [1, 3], [2, 2]], np.int64)
B = np.array([[0, 1], [0, 2], [2, 2]], np.int64)
CUBE = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 2], [1, 1, 2]], np.int64)
SIZE, CUBED = [3, 4], [2, 2, 3]


def sparse(tf, values, places=A, size=SIZE):
    return tf.SparseTensor(places, values, np.array(size, np.int64))


def parts(*tensors):
    return [p for x in tensors for p in (x.indices, x.values, x.dense_shape)]


V4, V3, V5 = normal(4), normal(3), normal(5)

# -------------------------------------------------------------------------------------- places
op(
    "sparse_reorder",
    lambda tf, v: parts(tf.sparse_reorder(sparse(tf, v, A[[2, 0, 3, 1]]))),
    V4,
)
op("sparse_reshape", lambda tf, v: parts(tf.sparse_reshape(sparse(tf, v), [2, -1])), V4)
op(
    "sparse_transpose",
    lambda tf, v: parts(
        tf.sparse_transpose(sparse(tf, v, CUBE, CUBED)),
        tf.sparse_transpose(sparse(tf, v, CUBE, CUBED), [1, 0, 2]),
    ),
    V5,
)
op(
    "sparse_concat",
    lambda tf, v, w: parts(
        tf.sparse_concat(1, [sparse(tf, v), sparse(tf, w, B)]),
        tf.sparse_concat(0, [sparse(tf, v), sparse(tf, w, B, [4, 5])], expand_nonconcat_dim=True),
    ),
    V4,
    V3,
    gradient=False,
)
op(
    "sparse_split",
    lambda tf, v: parts(
        *tf.sparse_split(sp_input=sparse(tf, v), num_split=2, axis=1),
        *tf.sparse_split(sp_input=sparse(tf, v), num_split=2, axis=0),
    ),
    V4,
    gradient=False,
)
op("sparse_slice", lambda tf, v: parts(tf.sparse_slice(sparse(tf, v), [1, 0], [2, 3])), V4)
op(
    "sparse_retain",
    lambda tf, v: parts(tf.sparse_retain(sparse(tf, v), [True, False, False, True])),
    V4,
)


def fill_empty(tf, v, d):
    filled, empty = tf.sparse_fill_empty_rows(sparse(tf, v, [[0, 1], [2, 0], [2, 3]], [5, 4]), d)
    return [*parts(filled), empty]


op("sparse_fill_empty_rows", fill_empty, V3, value(0.5))
op(
    "sparse_reset_shape",
    lambda tf, v: parts(
        tf.sparse_reset_shape(sparse(tf, v)), tf.sparse_reset_shape(sparse(tf, v), [9, 9])
    ),
    V4,
)
op("sparse_expand_dims", lambda tf, v: parts(tf.sparse.expand_dims(sparse(tf, v), 1)), V4)
op("sparse_eye", lambda tf, v: parts(tf.sparse.eye(2, 3)), value(1.0), gradient=False)
op(
    "sparse_from_dense",
    lambda tf, x: parts(tf.sparse.from_dense(x)),
    value([[0.0, 2.0], [3.0, 0.0]]),
)


def masked(tf, x):
    rows = tf.sparse_mask(tf.IndexedSlices(x, [4, 7, 2]), [7, 1])
    return [rows.values, rows.indices]


op("sparse_mask", masked, normal(3, 2))
op(
    "sparse_to_dense_forms",
    lambda tf, v: [
        tf.sparse_tensor_to_dense(sparse(tf, v)),
        tf.sparse_tensor_to_dense(sparse(tf, v), default_value=-1.0),
        tf.sparse_to_dense(A, SIZE, v, default_value=2.0),
    ],
    V4,
)
op(
    "sparse_to_indicator",
    lambda tf, v: tf.sparse_to_indicator(sparse(tf, v, [[0, 0], [0, 1], [2, 0]], [3, 2]), 5),
    ints(0, 5, 3, dtype=np.int64),
)
op(
    "sparse_merge",
    lambda tf, i, v: parts(
        tf.sparse_merge(
            sparse(tf, i, [[0, 0], [1, 0], [1, 1]], [2, 2]),
            sparse(tf, v, [[0, 0], [1, 0], [1, 1]], [2, 2]),
            6,
        )
    ),
    value([5, 4, 1], np.int64),
    V3,
)

# ---------------------------------------------------------------------------------- arithmetic
op("sparse_add", lambda tf, v, w: parts(tf.sparse_add(sparse(tf, v), sparse(tf, w, B))), V4, V3)
op(
    "sparse_add_threshold",
    lambda tf, v, w: parts(tf.sparse_add(sparse(tf, v), sparse(tf, w, B), threshold=0.8)),
    V4,
    V3,
)
op("sparse_add_dense", lambda tf, v, x: tf.sparse_add(sparse(tf, v), x), V4, normal(3, 4))
op(
    "sparse_extrema",
    lambda tf, v, w: parts(
        tf.sparse_maximum(sparse(tf, v), sparse(tf, w, B)),
        tf.sparse_minimum(sparse(tf, v), sparse(tf, w, B)),
    ),
    V4,
    V3,
    gradient=False,
)
for name, call in {
    "mul": lambda tf, x, y: x * y,
    "div": lambda tf, x, y: x / y,
}.items():
    for shape in ((3, 4), (4,), (3, 1)):
        op(
            f"sparse_{name}_dense_{len(shape)}_{shape[-1]}",
            lambda tf, v, x, call=call: call(tf, sparse(tf, v), x).values,
            V4,
            positive(*shape),
        )
op(
    "sparse_cwise_add",
    lambda tf, v, x: tf.raw_ops.SparseDenseCwiseAdd(
        sp_indices=A, sp_values=v, sp_shape=SIZE, dense=x
    ),
    V4,
    normal(4),
    gradient=False,
)
for keep in (False, True):
    op(
        f"sparse_reduce_sum_{keep}",
        lambda tf, v, keep=keep: [
            tf.sparse_reduce_sum(sparse(tf, v, CUBE, CUBED), keepdims=keep),
            tf.sparse_reduce_sum(sparse(tf, v, CUBE, CUBED), axis=1, keepdims=keep),
            tf.sparse_reduce_sum(sparse(tf, v, CUBE, CUBED), axis=[0, -1], keepdims=keep),
        ],
        V5,
    )
    op(
        f"sparse_reduce_max_{keep}",
        lambda tf, v, keep=keep: [
            tf.sparse_reduce_max(sparse(tf, v, CUBE, CUBED), keepdims=keep),
            tf.sparse_reduce_max(sparse(tf, v, CUBE, CUBED), axis=1, keepdims=keep),
            tf.sparse_reduce_max(sparse(tf, v, CUBE, CUBED), axis=[0, -1], keepdims=keep),
        ],
        V5,
        gradient=False,
    )
op(
    "sparse_reduce_sparse",
    lambda tf, v: parts(
        tf.sparse_reduce_sum_sparse(sparse(tf, v, CUBE, CUBED), axis=1),
        tf.sparse_reduce_sum_sparse(sparse(tf, v, CUBE, CUBED), axis=[0, 2], keepdims=True),
        tf.sparse_reduce_max_sparse(sparse(tf, v, CUBE, CUBED), axis=2),
        tf.sparse_reduce_max_sparse(sparse(tf, v, CUBE, CUBED), axis=0, keepdims=True),
    ),
    V5,
    gradient=False,
)
op("sparse_softmax", lambda tf, v: parts(tf.sparse_softmax(sparse(tf, v, CUBE, CUBED))), V5)
op(
    "sparse_dense_matmul",
    lambda tf, v, x: [
        tf.sparse_tensor_dense_matmul(sparse(tf, v), x),
        tf.sparse_tensor_dense_matmul(sparse(tf, v), tf.transpose(x), adjoint_b=True),
    ],
    V4,
    normal(4, 2),
)
op(
    "sparse_dense_matmul_adjoint",
    lambda tf, v, x: [
        tf.sparse_tensor_dense_matmul(sparse(tf, v), x, adjoint_a=True),
        tf.sparse_tensor_dense_matmul(sparse(tf, v), tf.transpose(x), True, True),
    ],
    V4,
    normal(3, 2),
)
op(
    "sparse_dense_matmul_complex",
    lambda tf, v, x: tf.sparse_tensor_dense_matmul(sparse(tf, v), x, adjoint_a=True),
    normal(4, dtype=np.complex64),
    normal(3, 2, dtype=np.complex64),
    gradient=False,
)
op(
    "sparse_matmul",
    lambda tf, a, b: [
        tf.sparse_matmul(a, b, a_is_sparse=True),
        tf.sparse_matmul(a, tf.transpose(b), transpose_b=True, b_is_sparse=True),
        tf.sparse_matmul(tf.transpose(a), b, transpose_a=True),
    ],
    normal(3, 4),
    normal(4, 2),
)
op(
    "sparse_ints",
    lambda tf, v, w: parts(tf.sparse_add(sparse(tf, v), sparse(tf, w, B)))
    + [tf.sparse_reduce_sum(sparse(tf, v), 0), (sparse(tf, v) / tf.constant([3])).values],
    ints(-9, 9, 4),
    ints(-9, 9, 3),
)


# ------------------------------------------------------------------------------------ strings
def there_and_back(tf, v, w):
    one = tf.deserialize_many_sparse(tf.serialize_many_sparse(sparse(tf, v)), tf.float32)
    words = tf.serialize_sparse(sparse(tf, tf.as_string(w)))
    two = tf.raw_ops.DeserializeSparse(serialized_sparse=words, dtype=tf.string)
    three = tf.raw_ops.DeserializeSparse(
        serialized_sparse=tf.stack([tf.serialize_sparse(sparse(tf, w))] * 2), dtype=tf.int32
    )
    return [*parts(one), two[0], two[2], *three]


op("serialize_there_and_back", there_and_back, V4, ints(0, 9, 4), gradient=False)

# ------------------------------------------------------------------------------ sets, distances
S1, S2 = ints(0, 6, 3, 5), ints(0, 6, 3, 4)
for name in ("set_intersection", "set_union", "set_difference"):
    op(
        f"{name}_dense",
        lambda tf, a, b, name=name: parts(getattr(tf.sets, name)(a, b)),
        S1,
        S2,
    )
    op(
        f"{name}_sparse",
        lambda tf, v, w, b, name=name: parts(
            getattr(tf.sets, name)(sparse(tf, v), sparse(tf, w, B)),
            getattr(tf.sets, name)(b, sparse(tf, w, B)),
        ),
        ints(0, 3, 4),
        ints(0, 3, 3),
        ints(0, 3, 3, 2),
    )
op(
    "set_size",
    lambda tf, v: [
        tf.sets.set_size(sparse(tf, v, CUBE, CUBED)),
        *parts(tf.sets.set_difference(v[None], v[None] + 1, aminusb=False)),
    ],
    ints(0, 2, 5),
)
for normalize in (True, False):
    op(
        f"edit_distance_{normalize}",
        lambda tf, v, w, normalize=normalize: [
            tf.edit_distance(sparse(tf, v), sparse(tf, w, B), normalize=normalize),
            tf.edit_distance(
                sparse(tf, v[:3], [[0, 0], [0, 1], [0, 2]], [1, 3]),
                sparse(tf, w, [[0, 0], [0, 1], [0, 2]], [1, 3]),
                normalize=normalize,
            ),
        ],
        ints(0, 3, 4),
        ints(0, 3, 3),
    )
