"""A gradient of 0 that comes in where the derivative is infinite or NaN: TensorFlow gives 0 for
some functions and NaN for others, and a model trains or not accordingly."""

from cases import op, value

POINTS = [0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-30]
ONE = ("sqrt rsqrt reciprocal log log1p exp expm1 square abs sign sin cos tan asin acos atan sinh "
       "cosh tanh asinh acosh atanh erf erfc lgamma digamma sigmoid").split()


def stopped(tf, y, xs):
    """The gradients of y by xs for an incoming 0, and theirs again."""
    first = [g for g in tf.gradients(y, xs, grad_ys=tf.zeros_like(y)) if g is not None]
    second = tf.gradients(first, xs, grad_ys=[tf.zeros_like(g) for g in first])
    return [tf.convert_to_tensor(g) for g in first + second if g is not None]


def all_of(*functions):
    """Every function's stopped gradients, from one graph."""

    def function(tf, *xs):
        return [g for f in functions for g in stopped(tf, f(tf, *xs), list(xs))]

    return function


def named(name):
    return lambda tf, x: getattr(tf, name)(x)


at_points, at_others = value(POINTS), value(POINTS[3:] + POINTS[:3])
op("zero_one_operand", all_of(*map(named, ONE)), at_points, gradient=False)
op("zero_raw", all_of(*[
    lambda tf, y, dy, name=name: getattr(tf.raw_ops, name)(y=y, dy=dy)
    for name in "SqrtGrad RsqrtGrad ReciprocalGrad InvGrad TanhGrad SigmoidGrad".split()]),
   at_points, at_others, gradient=False)
op("zero_two_operands", all_of(
    lambda tf, x, y: x / y, lambda tf, x, y: tf.div_no_nan(x, y), lambda tf, x, y: tf.atan2(x, y),
    lambda tf, x, y: tf.pow(x, y), lambda tf, x, y: tf.math.xlogy(x, y),
    lambda tf, x, y: tf.math.xdivy(x, y), lambda tf, x, y: tf.squared_difference(x, y),
    lambda tf, x, y: tf.math.multiply_no_nan(x, y), lambda tf, x, y: tf.floormod(x, y),
    lambda tf, x, y: tf.maximum(x, y)), at_points, at_others, gradient=False)
op("zero_joined", all_of(
    lambda tf, x: tf.norm(x), lambda tf, x: tf.norm(x * 0.0), lambda tf, x: tf.nn.l2_normalize(x),
    lambda tf, x: tf.reduce_prod(x), lambda tf, x: tf.cumprod(x), lambda tf, x: tf.reduce_max(x),
    lambda tf, x: tf.reduce_logsumexp(x), lambda tf, x: tf.nn.softplus(x),
    lambda tf, x: tf.math.reduce_euclidean_norm(x * 0.0),
    lambda tf, x: tf.math.segment_prod(x, [0, 0, 0, 1, 1, 2, 4]),
    lambda tf, x: tf.math.segment_mean(x, [0, 0, 0, 1, 1, 2, 2]),
    lambda tf, x: tf.sqrt(x * x), lambda tf, x: tf.rsqrt(tf.square(x))), at_points, gradient=False)


def guarded(tf, x):
    """What programs write: a function where it is good, else a constant."""
    zeros, found = tf.zeros_like(x), []
    for f in (tf.sqrt, tf.rsqrt, tf.reciprocal, tf.log, lambda v: v ** 0.5, lambda v: 1.0 / v):
        found += tf.gradients(tf.where(x > 0.25, f(x), zeros), x)
        found += tf.gradients(tf.where(x > 0.25, tf.tanh(f(x)) * 2.0, zeros), x)
    return found


op("zero_guarded", guarded, at_points, gradient=False)


# ------------------------------------------------------------------------------ segments with NaN
NAN = float("nan")


def extrema(tf, x):
    found = []
    for f in (lambda v: tf.math.segment_max(v, [0, 0, 1, 1, 3]),
              lambda v: tf.math.segment_min(v, [0, 0, 1, 1, 3]),
              lambda v: tf.math.unsorted_segment_max(v, [0, 0, 1, 1, 3], 5),
              lambda v: tf.math.unsorted_segment_min(v, [0, 0, 1, 1, 3], 5)):
        found += [f(x)] + tf.gradients(f(x), x)
    return found


for _name, _x in [("both", [NAN, NAN, 1.0, 2.0, 3.0]), ("first", [NAN, 1.0, 2.0, NAN, NAN]),
                  ("last", [1.0, NAN, NAN, 2.0, 2.0])]:
    op(f"segments_of_nan_{_name}", extrema, value(_x), gradient=False)
