"""Element-wise, comparison, logic, reductions, linear algebra, casts."""

import numpy as np

from cases import bools, ints, normal, op, positive, unit, value

F = (3, 4)

# element-wise, one float argument: name -> where it is defined
for name, made in {
    "abs": normal,
    "negative": normal,
    "sign": normal,
    "square": normal,
    "sqrt": positive,
    "rsqrt": positive,
    "exp": normal,
    "expm1": normal,
    "log": positive,
    "log1p": positive,
    "sin": normal,
    "cos": normal,
    "tan": unit,
    "asin": unit,
    "acos": unit,
    "atan": normal,
    "sinh": normal,
    "cosh": normal,
    "tanh": normal,
    "asinh": normal,
    "atanh": unit,
    "sigmoid": normal,
    "reciprocal": positive,
    "floor": normal,
    "ceil": normal,
    "rint": normal,
    "round": normal,
    "erf": normal,
    "erfc": normal,
    "lgamma": positive,
    "digamma": positive,
    "is_nan": normal,
    "is_inf": normal,
    "is_finite": normal,
    "log_sigmoid": normal,
    "zeros_like": normal,
    "ones_like": normal,
}.items():

    def call(tf, x, name=name):
        where = tf if hasattr(tf, name) else tf.math
        return getattr(where, name)(x)

    op(name, call, made(*F))

op("acosh", lambda tf, x: tf.acosh(x + 1.5), positive(*F))
op("tanh_double", lambda tf, x: tf.tanh(x), normal(*F, dtype=np.float64))
op("exp_half", lambda tf, x: tf.exp(x), normal(*F, dtype=np.float16))
op(
    "special_values",
    lambda tf, x: [tf.is_nan(x), tf.exp(x), tf.maximum(x, 0.0), tf.minimum(x, 1.0)],
    value([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, 1e-45]),
    gradient=False,
)

# two arguments, with broadcasting
for name, left, right in [
    ("add", normal, normal),
    ("subtract", normal, normal),
    ("multiply", normal, normal),
    ("divide", normal, positive),
    ("maximum", normal, normal),
    ("minimum", normal, normal),
    ("pow", positive, normal),
    ("atan2", normal, normal),
    ("squared_difference", normal, normal),
    ("floordiv", normal, positive),
    ("floormod", normal, positive),
    ("truediv", normal, positive),
    ("less", normal, normal),
    ("less_equal", normal, normal),
    ("greater", normal, normal),
    ("greater_equal", normal, normal),
    ("equal", normal, normal),
    ("not_equal", normal, normal),
]:
    op(name, lambda tf, x, y, name=name: getattr(tf, name)(x, y), left(2, 3, 4), right(3, 1))
op(
    "multiply_complex",
    lambda tf, x, y: x * y,
    normal(3, dtype=np.complex64),
    normal(3, dtype=np.complex64),
    gradient=False,
)
op("realdiv_scalar", lambda tf, x: [2.0 / x, x / 2.0, 2.0 - x, x**2.0, -x, abs(x)], positive(*F))
op(
    "int_arithmetic",
    lambda tf, x, y: [
        x + y,
        x - y,
        x * y,
        x // y,
        x % y,
        tf.truncatediv(x, y),
        tf.mod(x, y),
        tf.div(x, y),
    ],
    ints(-9, 9, 5),
    value([2, -3, 4, -5, 7], np.int32),
)
op(
    "int64_compare",
    lambda tf, x, y: [x < y, x >= y, tf.equal(x, y)],
    ints(0, 3, 6, dtype=np.int64),
    ints(0, 3, 6, dtype=np.int64),
)
op("int_truediv", lambda tf, x, y: x / y, ints(-9, 9, 5), value([2, -3, 4, -5, 7], np.int32))
op(
    "zero_size",
    lambda tf, x, y: [x + y[0], tf.reduce_sum(x, 0), tf.matmul(x, y)],
    normal(0, 3),
    value(np.ones((3, 3))),
    gradient=False,
)

op(
    "logical",
    lambda tf, x, y: [
        tf.logical_and(x, y),
        tf.logical_or(x, y),
        tf.logical_not(x),
        tf.logical_xor(x, y),
    ],
    bools(6),
    bools(6),
)
op("select", lambda tf, c, x, y: tf.where(c, x, y), bools(*F), normal(*F), normal(*F))
op("select_rows", lambda tf, c, x, y: tf.where(c, x, y), bools(3), normal(*F), normal(*F))
op("where_indices", lambda tf, c: tf.where(c), bools(3, 4))
op("clip_by_value", lambda tf, x: tf.clip_by_value(x, -0.5, 0.5), normal(*F))
op("clip_by_norm", lambda tf, x: tf.clip_by_norm(x, 1.0), normal(*F))
op(
    "clip_by_global_norm",
    lambda tf, x, y: tf.clip_by_global_norm([x, y], 1.0)[0],
    normal(*F),
    normal(2),
)
op("global_norm", lambda tf, x, y: tf.global_norm([x, y]), normal(*F), normal(2))
op("add_n", lambda tf, x, y, z: tf.add_n([x, y, z]), normal(*F), normal(*F), normal(*F))
op("accumulate_n", lambda tf, x, y: tf.accumulate_n([x, y]), normal(*F), normal(*F))

# reductions
for name in [
    "reduce_sum",
    "reduce_mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_logsumexp",
]:
    op(
        name,
        lambda tf, x, name=name: [
            getattr(tf, name)(x),
            getattr(tf, name)(x, axis=1),
            getattr(tf, name)(x, axis=[0, 2], keepdims=True),
        ],
        normal(2, 3, 4),
    )
op(
    "reduce_logic",
    lambda tf, x: [tf.reduce_all(x, 1), tf.reduce_any(x, 0), tf.reduce_all(x)],
    bools(3, 4),
)
op(
    "reduce_int",
    lambda tf, x: [
        tf.reduce_sum(x, 0),
        tf.reduce_prod(x, 1),
        tf.reduce_max(x),
        tf.reduce_mean(x, 0),
    ],
    ints(-5, 9, 3, 4),
)
op(
    "argmax",
    lambda tf, x: [tf.argmax(x, 1), tf.argmin(x, 0), tf.argmax(x, -1, output_type=tf.int32)],
    normal(3, 4),
)
op(
    "cumsum",
    lambda tf, x: [tf.cumsum(x, 0), tf.cumsum(x, 1, exclusive=True), tf.cumsum(x, 1, reverse=True)],
    normal(3, 4),
)
op(
    "cumprod",
    lambda tf, x: [tf.cumprod(x, 1), tf.cumprod(x, 0, exclusive=True, reverse=True)],
    positive(3, 4),
)
op("segment_sum", lambda tf, x: tf.segment_sum(x, [0, 0, 1, 3]), normal(4, 3))
op("segment_mean", lambda tf, x: tf.segment_mean(x, [0, 0, 1, 2]), normal(4, 3))
op("unsorted_segment_sum", lambda tf, x: tf.unsorted_segment_sum(x, [2, 0, 2, 1], 4), normal(4, 3))
op("moments", lambda tf, x: tf.nn.moments(x, [0, 1]), normal(3, 4, 2))
op("norm", lambda tf, x: [tf.norm(x), tf.norm(x, ord=1, axis=1)], normal(3, 4))
op("bincount", lambda tf, x: tf.bincount(x), ints(0, 5, 9), gradient=False)

# linear algebra
op("matmul", lambda tf, a, b: tf.matmul(a, b), normal(3, 4), normal(4, 5))
op("matmul_ta", lambda tf, a, b: tf.matmul(a, b, transpose_a=True), normal(4, 3), normal(4, 5))
op("matmul_tb", lambda tf, a, b: tf.matmul(a, b, transpose_b=True), normal(3, 4), normal(5, 4))
op(
    "matmul_tab",
    lambda tf, a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True),
    normal(4, 3),
    normal(5, 4),
)
op(
    "matmul_double",
    lambda tf, a, b: tf.matmul(a, b),
    normal(33, 17, dtype=np.float64),
    normal(17, 9, dtype=np.float64),
)
op("matmul_int", lambda tf, a, b: tf.matmul(a, b), ints(-5, 5, 3, 4), ints(-5, 5, 4, 2))
op("batch_matmul", lambda tf, a, b: tf.matmul(a, b), normal(2, 3, 4), normal(2, 4, 5))
op(
    "batch_matmul_adjoint",
    lambda tf, a, b: tf.matmul(a, b, adjoint_a=True, transpose_b=True),
    normal(2, 4, 3),
    normal(2, 5, 4),
)
op("tensordot", lambda tf, a, b: tf.tensordot(a, b, [[2], [0]]), normal(2, 3, 4), normal(4, 5))
op("matrix_transpose", lambda tf, a: tf.matrix_transpose(a), normal(2, 3, 4))
op("diag", lambda tf, x: [tf.diag(x), tf.matrix_diag(x)], normal(3))
op("diag_part", lambda tf, x: [tf.diag_part(x), tf.matrix_diag_part(x), tf.trace(x)], normal(3, 3))
op("matrix_band_part", lambda tf, x: tf.matrix_band_part(x, 1, 0), normal(4, 4))
op("matrix_set_diag", lambda tf, x, d: tf.matrix_set_diag(x, d), normal(3, 3), normal(3))

# casts
op(
    "cast",
    lambda tf, x: [
        tf.cast(x, t) for t in (tf.float64, tf.int32, tf.int64, tf.uint8, tf.bool, tf.float16)
    ],
    value([0.0, 1.5, 2.7, 200.0]),
)
op(
    "cast_ints",
    lambda tf, x: [tf.cast(x, t) for t in (tf.float32, tf.int8, tf.uint16, tf.bool)],
    ints(0, 100, 5),
)
op("to_float", lambda tf, x: [tf.to_float(x), tf.to_double(x), tf.to_int64(x)], ints(0, 100, 5))
op("bitcast", lambda tf, x: tf.bitcast(x, tf.int32), normal(4), gradient=False)
op(
    "saturate_cast",
    lambda tf, x: tf.saturate_cast(x, tf.uint8),
    value([-5.0, 3.0, 300.0]),
    gradient=False,
)
op(
    "complex_parts",
    lambda tf, x, y: [
        tf.real(tf.complex(x, y)),
        tf.imag(tf.complex(x, y)),
        tf.abs(tf.complex(x, y)),
        tf.conj(tf.complex(x, y)),
    ],
    normal(4),
    normal(4),
    gradient=False,
)
op(
    "range_linspace",
    lambda tf, n: [tf.range(n), tf.range(1, n, 2), tf.range(n, 0, -1), tf.linspace(0.0, 1.0, n)],
    value(6, np.int32),
)
op(
    "bitwise",
    lambda tf, x, y: [
        tf.bitwise.bitwise_and(x, y),
        tf.bitwise.bitwise_or(x, y),
        tf.bitwise.bitwise_xor(x, y),
    ],
    ints(0, 64, 5),
    ints(0, 64, 5),
)
op(
    "scalar_constants",
    lambda tf, x: [
        tf.constant(3),
        tf.constant([1.5, 2]),
        tf.fill([2, 2], x),
        tf.zeros([2]),
        tf.ones([2], tf.int32),
    ],
    value(4.0),
)
