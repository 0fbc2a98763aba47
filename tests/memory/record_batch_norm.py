"""Writes batch_norm_tf.npz: TensorFlow's answers for FusedBatchNorm and its gradients.

    TF_PYTHON tests/memory/record_batch_norm.py
"""
import os
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CASES = [   # op, dtype, data format, training, exponential_avg_factor
    ("FusedBatchNorm", "float32", "NHWC", True, 1.0),
    ("FusedBatchNorm", "float32", "NCHW", True, 1.0),
    ("FusedBatchNormV2", "float32", "NHWC", True, 1.0),
    ("FusedBatchNormV2", "float16", "NHWC", True, 1.0),
    ("FusedBatchNormV3", "float32", "NHWC", True, 0.25),
    ("FusedBatchNormV3", "float32", "NHWC", False, 1.0),
    ("FusedBatchNormV3", "float16", "NHWC", True, 1.0),
    ("FusedBatchNormV3", "float16", "NHWC", False, 1.0),
    ("FusedBatchNormV3", "bfloat16", "NHWC", True, 1.0),
    ("FusedBatchNormV3", "float32", "NCHW", True, 1.0),
    ("FusedBatchNormV3", "float32", "NCHW", False, 1.0),
]


def inputs(number, data_format, training, factor):
    """x, scale, offset, mean, variance, dy as float32."""
    r = np.random.RandomState(number)
    x = r.randn(3, 5, 4, 6).astype(np.float32) * 2 + 1
    c = 6 if data_format == "NHWC" else 5
    scale, offset = r.rand(c).astype(np.float32) + 0.5, r.randn(c).astype(np.float32)
    mean, variance = r.randn(c).astype(np.float32), r.rand(c).astype(np.float32) + 0.5
    if training and factor == 1.0:
        mean = variance = np.zeros(0, np.float32)
    return x, scale, offset, mean, variance, r.randn(*x.shape).astype(np.float32)


def answers(tf, case, number):
    """y, mean, variance, dx, dscale, doffset as float32 arrays."""
    op, dtype, data_format, training, factor = case
    x, scale, offset, mean, variance, dy = inputs(number, data_format, training, factor)
    with tf.Graph().as_default(), tf.Session() as session:
        x, dy = (tf.cast(tf.constant(v), dtype) for v in (x, dy))
        scale, offset = tf.constant(scale), tf.constant(offset)
        made = getattr(tf.raw_ops, op)(
            x=x, scale=scale, offset=offset, mean=tf.constant(mean),
            variance=tf.constant(variance), epsilon=0.001, exponential_avg_factor=factor,
            data_format=data_format, is_training=training)
        gradients = tf.gradients(made[0], [x, scale, offset], [dy])
        return session.run([tf.cast(t, tf.float32) for t in [*made[:3], *gradients]])


def main():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    found = {}
    for number, case in enumerate(CASES):
        for i, value in enumerate(answers(tf, case, number)):
            found[f"{number}_{i}"] = value
    np.savez_compressed(HERE / "batch_norm_tf.npz", **found)
    print(len(found), "arrays, TensorFlow", tf.__version__)


if __name__ == "__main__":
    main()
