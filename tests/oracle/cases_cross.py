"""Crossed features: texts and hashes of sparse and dense columns."""

import numpy as np

from cases import normal, op

A = np.array([[0, 0], [0, 2], [2, 1], [2, 2]], np.int64)
B = np.array([[0, 0], [1, 0], [2, 0], [2, 1], [2, 3]], np.int64)


def columns(tf):
    """Texts, numbers, and a dense matrix of each."""
    return [
        tf.SparseTensor(A, tf.constant(["red", "", "green", "a longer text of many more bytes"]),
                        [3, 3]),
        tf.SparseTensor(B, tf.constant([5, -7, 2**40, 0, 9], tf.int64), [3, 4]),
        tf.constant([["x", "yy"], ["z", ""], ["u", "v"]]),
        tf.constant([[1], [2], [3]]),
    ]


def parts(*tensors):
    return [p for x in tensors for p in (x.indices, x.values, x.dense_shape)]


for _name, _kept in {"texts": [0, 2], "numbers": [1, 3], "all": [0, 1, 2, 3], "dense": [2, 3],
                     "one": [0]}.items():
    op(f"cross_{_name}", lambda tf, x, kept=_kept: parts(
        tf.sparse.cross([columns(tf)[k] for k in kept]),
        tf.sparse.cross([columns(tf)[k] for k in kept], separator="&")), normal(1))
    op(f"cross_hashed_{_name}", lambda tf, x, kept=_kept: parts(
        tf.sparse.cross_hashed([columns(tf)[k] for k in kept]),
        tf.sparse.cross_hashed([columns(tf)[k] for k in kept], num_buckets=100, hash_key=1234)),
       normal(1))


def salted(tf, strong, kept):
    """SparseCrossHashed of columns as Op cases take them."""
    chosen = [columns(tf)[k] for k in kept]
    sparse = [c for c in chosen if hasattr(c, "indices")]
    dense = [tf.cast(c, tf.int64) if c.dtype == tf.int32 else c for c in chosen
             if not hasattr(c, "indices")]
    return list(tf.raw_ops.SparseCrossHashed(
        indices=[c.indices for c in sparse], values=[c.values for c in sparse],
        shapes=[c.dense_shape for c in sparse], dense_inputs=dense,
        num_buckets=tf.constant(1000, tf.int64), strong_hash=strong,
        salt=tf.constant([137, 173], tf.int64)))


op("cross_salted_False", lambda tf, x: salted(tf, False, [0, 1, 2, 3]), normal(1))
# Of sparse columns alone: TensorFlow 2.21 crashes where dense texts have a strong hash.
op("cross_salted_True", lambda tf, x: salted(tf, True, [0, 1]), normal(1))
op("cross_untexted", lambda tf, x: [p for kept in ([0, 2], [1, 3]) for p in parts_of_v1(tf, kept)],
   normal(1))


def parts_of_v1(tf, kept):
    """SparseCross without hashing, as TF 1.x's feature columns wrote it."""
    chosen = [columns(tf)[k] for k in kept]
    sparse = [c for c in chosen if hasattr(c, "indices")]
    dense = [tf.cast(c, tf.int64) if c.dtype == tf.int32 else c for c in chosen
             if not hasattr(c, "indices")]
    kind = tf.string if kept[0] == 0 else tf.int64
    return list(tf.raw_ops.SparseCross(
        indices=[c.indices for c in sparse], values=[c.values for c in sparse],
        shapes=[c.dense_shape for c in sparse], dense_inputs=dense, hashed_output=False,
        num_buckets=0, hash_key=1, out_type=tf.string, internal_type=kind))
