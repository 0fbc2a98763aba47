"""Bucketize and DenseBincount: what Keras's preprocessing layers freeze to."""

import numpy as np

from cases import ints, normal, op, value

for dtype in (np.float32, np.float64):
    op(f"bucketize_{np.dtype(dtype).name}", lambda tf, x: tf.raw_ops.Bucketize(
        input=x, boundaries=[-1.0, -0.25, 0.1, 0.1, 1.5]),
       normal(3, 40, dtype=dtype), gradient=False)
op("bucketize_ints", lambda tf, x, y: [
    tf.raw_ops.Bucketize(input=x, boundaries=[-3.0, 0.5, 4.0, 16777216.0]),
    tf.raw_ops.Bucketize(input=y, boundaries=[2.0])],
   ints(-9, 9, 30), value([16777215, 16777216, 16777217, 2**40, -5], np.int64), gradient=False)
op("bucketize_edges", lambda tf, x: tf.raw_ops.Bucketize(
    input=x, boundaries=[0.1, 0.2, 0.30000001]),
   value([0.1, 0.2, 0.3, np.nan, np.inf, -np.inf], np.float32), gradient=False)
op("bucketize_edges_double", lambda tf, x: tf.raw_ops.Bucketize(
    input=x, boundaries=[0.1, 0.2, 0.30000001]),
   value([0.1, np.float32(0.1), 0.2, 0.3, np.nan, np.inf], np.float64), gradient=False)
for binary in (False, True):
    op(f"dense_bincount_{binary}", lambda tf, x, y, w, binary=binary: [
        tf.raw_ops.DenseBincount(input=x, size=6, weights=tf.zeros([0], tf.int64),
                                 binary_output=binary),
        tf.raw_ops.DenseBincount(input=y, size=tf.constant(5, tf.int64), weights=w,
                                 binary_output=binary)],
       ints(0, 8, 20), ints(0, 7, 4, 6, dtype=np.int64), normal(4, 6), gradient=False)
