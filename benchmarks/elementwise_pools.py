"""Cases of benchmarks/elementwise.py: pooling.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_pools.c.
"""
from elementwise_case import aligned, case, fed, half, one


# ------------------------------------------------------------------------------------ pooling
def _pool(tf, kind, k, s, shape):
    return one(tf, lambda a: getattr(tf.nn, kind)(a, [1, k, k, 1], [1, s, s, 1], "SAME"), shape)


@case()
def max_pool_2x2(tf): return _pool(tf, "max_pool", 2, 2, (16, 112, 112, 64))


@case()
def max_pool_3x3_s2(tf): return _pool(tf, "max_pool", 3, 2, (16, 112, 112, 64))


@case()
def avg_pool_2x2(tf): return _pool(tf, "avg_pool", 2, 2, (16, 112, 112, 64))


@case()
def avg_pool_3x3_s1(tf): return _pool(tf, "avg_pool", 3, 1, (16, 56, 56, 64))


@case()
def global_average(tf): return one(tf, lambda a: tf.reduce_mean(a, [1, 2]), (64, 32, 32, 128))


def _pool_gradient(tf, kind, k, s, shape):
    x = aligned(shape)
    out = [shape[0], -(-shape[1] // s), -(-shape[2] // s), shape[3]]
    dy = aligned(out)
    inputs = fed(tf, x, dy)
    y = getattr(tf.nn, kind)(inputs[0], [1, k, k, 1], [1, s, s, 1], "SAME")
    return tf.gradients(y, inputs[0], inputs[1])[0], inputs, [x, dy]


@case(None)
def max_pool_gradient(tf): return _pool_gradient(tf, "max_pool", 2, 2, (16, 112, 112, 64))


@case()
def avg_pool_gradient(tf): return _pool_gradient(tf, "avg_pool", 2, 2, (16, 112, 112, 64))

# ------------------------------------------------------------------------------------ half types
for _name, _make, _shapes in (
    ("max_pool_2x2", lambda tf: lambda a: tf.nn.max_pool(
        a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [(16, 112, 112, 64)]),
    ("avg_pool_2x2", lambda tf: lambda a: tf.nn.avg_pool(
        a, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [(16, 112, 112, 64)])):
    for _dtype in ("float16", "bfloat16"):
        half(_name, _make, _shapes, _dtype)
