"""Cases of benchmarks/elementwise.py: reductions, softmax, norms.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_norms.c.
"""
from elementwise_case import MEGA, case, half, one


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
def mean_nhwc(tf): return one(tf, lambda a: tf.reduce_mean(a, [0, 1, 2]), (32, 64, 64, 64))


@case()
def max_inner(tf): return one(tf, lambda a: tf.reduce_max(a, 1), (8192, 1024))


@case()
def max_outer(tf): return one(tf, lambda a: tf.reduce_max(a, 0), (8192, 1024))


@case()
def argmax_inner(tf): return one(tf, lambda a: tf.argmax(a, 1), (8192, 1024))


# ------------------------------------------------------------------------------------ softmax and norms
@case()
def softmax(tf): return one(tf, tf.nn.softmax, (8192, 1000))


@case()
def log_softmax(tf): return one(tf, tf.nn.log_softmax, (8192, 1000))


@case()
def batch_norm_inference(tf):
    def make(x, a, b, c, d):
        return tf.nn.fused_batch_norm(x, a, b, c, tf.abs(d), is_training=False)[0]
    return one(tf, make, (32, 64, 64, 64), *[(64,)] * 4)


@case(None)
def batch_norm_training(tf):
    return one(tf, lambda x, a, b: tf.nn.fused_batch_norm(x, a, b)[0], (32, 64, 64, 64),
               *[(64,)] * 2)

# ------------------------------------------------------------------------------------ half types
for _name, _make, _shapes in (
    ("sum_inner", lambda tf: lambda a: tf.reduce_sum(a, 1), [(8192, 1024)]),
    ("sum_outer", lambda tf: lambda a: tf.reduce_sum(a, 0), [(8192, 1024)]),
    ("softmax", lambda tf: tf.nn.softmax, [(8192, 1000)])):
    for _dtype in ("float16", "bfloat16"):
        half(_name, _make, _shapes, _dtype)
