"""Cases of benchmarks/elementwise.py: reductions, softmax, norms.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_norms.c.
"""
import pathlib

from elementwise_case import MEGA, case, half, one

_INFO = pathlib.Path("/proc/cpuinfo")
AVX512 = _INFO.exists() and "avx512f" in _INFO.read_text(encoding="utf-8")
IMAGES = 32 * 64 * 64 * 64


def bound(name, loop, *integers):
    """A bound whose loop in C is written for AVX-512."""
    return (name, loop, *integers) if AVX512 else None


# ------------------------------------------------------------------------------------ reductions
@case()
def sum_all(tf): return one(tf, tf.reduce_sum, (8192, 1024))


@case()
def sum_inner(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (8192, 1024))


@case()
def sum_outer(tf): return one(tf, lambda a: tf.reduce_sum(a, 0), (8192, 1024))


@case()
def sum_middle(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (64, 128, 1024))


@case()
def sum_short_rows(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (MEGA, 8))


@case()
def sum_rows_of_3(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (2796032, 3))


@case()
def sum_rows_of_49(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (171200, 49))


@case()
def max_rows_of_49(tf): return one(tf, lambda a: tf.reduce_max(a, 1), (171200, 49))


@case()
def mean_7x7_nchw(tf): return one(tf, lambda a: tf.reduce_mean(a, [2, 3]), (168, 1024, 7, 7))


@case()
def sum_rows_of_8_float64(tf): return one(tf, lambda a: tf.reduce_sum(a, 1), (MEGA // 2, 8),
                                          dtype="float64")


@case()
def max_rows_of_10_int32(tf): return one(tf, lambda a: tf.reduce_max(a, 1), (838400, 10),
                                         dtype="int32")


@case()
def mean_nhwc(tf): return one(tf, lambda a: tf.reduce_mean(a, [0, 1, 2]), (32, 64, 64, 64))


@case()
def max_inner(tf): return one(tf, lambda a: tf.reduce_max(a, 1), (8192, 1024))


@case()
def max_outer(tf): return one(tf, lambda a: tf.reduce_max(a, 0), (8192, 1024))


@case(bound=bound("maximum, then its place", "row_argmax", 1024, 8192))
def argmax_inner(tf): return one(tf, lambda a: tf.argmax(a, 1), (8192, 1024))


# --------------------------------------------------------------------------- softmax and norms
@case(bound=bound("row by row in the nearest cache", "row_softmax", 1000, 0, 8192))
def softmax(tf): return one(tf, tf.nn.softmax, (8192, 1000))


@case(bound=bound("row by row in the nearest cache", "row_softmax", 1000, 1, 8192))
def log_softmax(tf): return one(tf, tf.nn.log_softmax, (8192, 1000))


@case()
def batch_norm_inference(tf):
    def make(x, a, b, c, d):
        return tf.nn.fused_batch_norm(x, a, b, c, tf.abs(d), is_training=False)[0]
    return one(tf, make, (32, 64, 64, 64), *[(64,)] * 4)


@case(bound=("two readings, one writing", "twice_and_write", 1, IMAGES))
def batch_norm_training(tf):
    return one(tf, lambda x, a, b: tf.nn.fused_batch_norm(x, a, b)[0], (32, 64, 64, 64),
               *[(64,)] * 2)


@case(bound=("two readings of both, one writing", "twice_and_write", 2, IMAGES))
def batch_norm_gradient(tf):
    def make(dy, x, scale, mean, variance):
        return tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy, x=x, scale=scale, reserve_space_1=mean,
            reserve_space_2=tf.abs(variance), reserve_space_3=tf.zeros([0]))[0]
    return one(tf, make, *[(32, 64, 64, 64)] * 2, *[(64,)] * 3)


def _moments(tf, axes, shape):
    return one(tf, lambda a: tf.stack([tf.reshape(m, [-1]) for m in tf.nn.moments(a, axes)]), shape)


@case()
def moments_inner(tf): return _moments(tf, [1], (8192, 1024))


@case()
def moments_nhwc(tf): return _moments(tf, [0, 1, 2], (32, 64, 64, 64))


@case()
def moments_images(tf): return _moments(tf, [1, 2], (32, 64, 64, 64))


@case()
def moments_nchw(tf): return _moments(tf, [0, 2, 3], (32, 64, 64, 64))


@case(bound=bound("row by row in the nearest cache", "rows_normalised", 1024, 8192))
def layer_norm(tf):
    def make(x, scale, offset):
        mean, variance = tf.nn.moments(x, [1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-6)
    return one(tf, make, (8192, 1024), (1024,), (1024,))


@case()
def cumsum_inner(tf): return one(tf, lambda a: tf.cumsum(a, 1), (8192, 1024))


@case()
def cumsum_outer(tf): return one(tf, lambda a: tf.cumsum(a, 0), (8192, 1024))


@case(bound=bound("maxima and their rows", "column_argmax", 8192, 1024))
def argmax_outer(tf): return one(tf, lambda a: tf.argmax(a, 0), (8192, 1024))


@case(bound=bound("reciprocal roots and a Newton step", "lrn_arithmetic", 32 * 28 * 28, 192))
def lrn(tf): return one(tf, lambda a: tf.nn.lrn(a, 2, 1.0, 1e-4, 0.75), (32, 28, 28, 192))


# ------------------------------------------------------------------------------------ half types
for _name, _make, _shapes in (
    ("sum_inner", lambda tf: lambda a: tf.reduce_sum(a, 1), [(8192, 1024)]),
    ("sum_outer", lambda tf: lambda a: tf.reduce_sum(a, 0), [(8192, 1024)])):
    for _dtype in ("float16", "bfloat16"):
        half(_name, _make, _shapes, _dtype)
