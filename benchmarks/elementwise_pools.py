"""Cases of benchmarks/elementwise.py: pooling.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_pools.c.
"""
from elementwise_case import aligned, case, fed, one

LARGE, SMALL = (16, 112, 112, 64), (16, 56, 56, 64)
ROWS = "rows read again from the second cache"
STEP = "two rows in step"


# ------------------------------------------------------------------------------------ pooling
def _pool(tf, kind, k, s, shape):
    return one(tf, lambda a: getattr(tf.nn, kind)(a, [1, k, k, 1], [1, s, s, 1], "SAME"), shape)


@case(bound=(STEP, "pool_2x2", *LARGE, 0))
def max_pool_2x2(tf): return _pool(tf, "max_pool", 2, 2, LARGE)


@case(bound=(ROWS, "pool_3x3", *LARGE, 2, 0))
def max_pool_3x3_s2(tf): return _pool(tf, "max_pool", 3, 2, LARGE)


@case(bound=(ROWS, "pool_3x3", *SMALL, 1, 0))
def max_pool_3x3_s1(tf): return _pool(tf, "max_pool", 3, 1, SMALL)


@case(bound=(STEP, "pool_2x2", *LARGE, 1))
def avg_pool_2x2(tf): return _pool(tf, "avg_pool", 2, 2, LARGE)


@case(bound=(ROWS, "pool_3x3", *LARGE, 2, 1))
def avg_pool_3x3_s2(tf): return _pool(tf, "avg_pool", 3, 2, LARGE)


@case(bound=(ROWS, "pool_3x3", *SMALL, 1, 1))
def avg_pool_3x3_s1(tf): return _pool(tf, "avg_pool", 3, 1, SMALL)


@case()
def global_average(tf): return one(tf, lambda a: tf.reduce_mean(a, [1, 2]), (64, 32, 32, 128))


# Channels first.
def _planes(tf, kind, k, s, shape):
    return one(tf, lambda a: getattr(tf.nn, kind)(a, [1, 1, k, k], [1, 1, s, s], "SAME",
                                                  data_format="NCHW"), shape)


@case(bound=(STEP, "pool_2x2_planes", 16 * 64, 112, 112))
def max_pool_2x2_nchw(tf): return _planes(tf, "max_pool", 2, 2, (16, 64, 112, 112))


@case(bound=("rows read once, in order", "pool_3x3_of_112", 16 * 64))
def max_pool_3x3_s2_nchw(tf): return _planes(tf, "max_pool", 3, 2, (16, 64, 112, 112))


@case(bound=("unaligned rows joined in L1", "pool_3x3_planes", 16 * 64, 56, 56))
def avg_pool_3x3_s1_nchw(tf): return _planes(tf, "avg_pool", 3, 1, (16, 64, 56, 56))


@case()
def global_average_nchw(tf):
    return one(tf, lambda a: tf.nn.avg_pool(a, [1, 1, 32, 32], [1, 1, 32, 32], "VALID",
                                            data_format="NCHW"), (64, 128, 32, 32))


# Gradients alone: MaxPoolGrad's second input, the maxima, is a constant nobody reads.
def _pool_gradient(tf, kind, k, s, shape):
    x = aligned(shape)
    out = [shape[0], -(-shape[1] // s), -(-shape[2] // s), shape[3]]
    dy = aligned(out)
    size = {"ksize": [1, k, k, 1], "strides": [1, s, s, 1], "padding": "SAME"}
    if kind == "avg":
        inputs = fed(tf, dy)
        return tf.raw_ops.AvgPoolGrad(orig_input_shape=list(shape), grad=inputs[0],
                                      **size), inputs, [dy]
    inputs = fed(tf, x, dy)
    return tf.raw_ops.MaxPoolGrad(orig_input=inputs[0], orig_output=tf.constant(dy),
                                  grad=inputs[1], **size), inputs, [x, dy]


@case(bound=(STEP, "pool_gradient_2x2", *LARGE))
def max_pool_gradient(tf): return _pool_gradient(tf, "max", 2, 2, LARGE)


@case(bound=("places of maxima, then sums", "pool_gradient_3x3", *LARGE))
def max_pool_gradient_3x3_s2(tf): return _pool_gradient(tf, "max", 3, 2, LARGE)


@case()
def avg_pool_gradient(tf): return _pool_gradient(tf, "avg", 2, 2, LARGE)


# ------------------------------------------------------------------------------------ half types
def _halves(kind, dtype):
    name, k = f"{kind}_pool", [1, 2, 2, 1]
    kinds = int(dtype == "bfloat16"), int(kind == "avg")
    bound = ("2x2 of halves", "pool_2x2_halves", *LARGE, *kinds)

    def make(tf):
        return one(tf, lambda a: getattr(tf.nn, name)(a, k, k, "SAME"), LARGE, dtype=dtype)
    make.__name__ = f"{name}_2x2_{dtype}"
    case(bound=bound)(make)


for _dtype in ("float16", "bfloat16"):
    for _kind in ("max", "avg"):
        _halves(_kind, _dtype)
