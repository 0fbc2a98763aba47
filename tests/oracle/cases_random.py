"""Random numbers with given seeds: TensorFlow's own, from the same Philox counters."""

import numpy as np

from cases import op, value

SHAPE = [3, 37]


def seeded(function):
    """With a graph seed, then each call's own."""

    def build(tf, *x):
        tf.set_random_seed(5)
        return function(tf, *x)

    return build


def draw(name, function, gradient=False, x=1.0):
    op(name, seeded(function), value(x), gradient=gradient)


for bits in (16, 32, 64):
    kind = f"float{bits}"
    draw(
        f"random_uniform_{kind}",
        lambda tf, x, kind=kind: [
            tf.random_uniform(SHAPE, dtype=kind, seed=3),
            tf.random_uniform([7], -2, 5, dtype=kind, seed=4),
        ],
    )
    draw(
        f"random_normal_{kind}",
        lambda tf, x, kind=kind: [
            tf.random_normal(SHAPE, dtype=kind, seed=3),
            tf.random_normal([7], 1.0, 2.0, dtype=kind, seed=4),
        ],
    )
    draw(
        f"truncated_normal_{kind}",
        lambda tf, x, kind=kind: [
            tf.truncated_normal(SHAPE, dtype=kind, seed=3),
            tf.truncated_normal([7], 1.0, 2.0, dtype=kind, seed=4),
        ],
    )
for kind in ("int32", "int64"):
    draw(
        f"random_uniform_{kind}",
        lambda tf, x, kind=kind: [
            tf.random_uniform(SHAPE, -7, 1000, dtype=kind, seed=3),
            tf.random_uniform([9], 0, 2**31 - 1, dtype=kind, seed=4),
        ],
    )
    draw(
        f"multinomial_{kind}",
        lambda tf, x, kind=kind: [
            tf.multinomial([[0.0, 1.0, 2.0], [3.0, 0.5, -1.0]], 11, seed=3, output_dtype=kind),
            tf.random.categorical(tf.log([[0.1, 0.2, 0.7]]), 5, dtype=kind, seed=4),
        ],
    )
draw(
    "random_shuffle",
    lambda tf, x: [
        tf.random_shuffle(np.arange(50), seed=3),
        tf.random_shuffle(np.arange(12).reshape(6, 2), seed=4),
    ],
)
draw("random_crop", lambda tf, x: tf.random_crop(np.arange(60).reshape(6, 10), [3, 4], seed=3))
for bits in (16, 32, 64):
    kind = f"float{bits}"
    draw(
        f"random_gamma_{kind}",
        lambda tf, x, kind=kind: [
            tf.random_gamma([23], tf.constant([0.3, 1.0, 5.0], kind), dtype=kind, seed=3),
            tf.random_gamma(
                [4], tf.constant([[2.0], [3.0]], kind), tf.constant([2.0, 0.5], kind), kind, 4
            ),
        ],
    )
op(
    "random_gamma_gradient",
    seeded(lambda tf, a, b: tf.random_gamma([5], a, b, seed=3)),
    value([0.5, 2.0, 7.0]),
    value([1.0, 2.0, 0.5]),
)
for kind in ("float32", "float64", "int32", "int64"):
    draw(
        f"random_poisson_{kind}",
        lambda tf, x, kind=kind: [
            tf.random_poisson(tf.constant([0.3, 4.0, 9.9, 10.0, 55.0, 2000.0]), [21], kind, seed=3),
            tf.random_poisson(tf.constant(3.0, tf.float64), [3, 2], kind, 4),
        ],
    )
for kind in ("float32", "float64", "float16"):
    draw(
        f"stateless_{kind}",
        lambda tf, x, kind=kind: [
            tf.random.stateless_uniform(SHAPE, [3, 9], dtype=kind),
            tf.random.stateless_uniform([5], [-3, 2**31 - 1], 2, 4, dtype=kind),
            tf.random.stateless_normal(SHAPE, [3, 9], dtype=kind),
            tf.random.stateless_truncated_normal(SHAPE, [3, 9], dtype=kind),
            tf.random.stateless_normal([5], np.array([2**40, -7]), 1.0, 2.0, dtype=kind),
        ],
    )
    draw(
        f"stateless_ops_{kind}",
        lambda tf, x, kind=kind: [
            tf.raw_ops.StatelessRandomUniform(shape=SHAPE, seed=[3, 9], dtype=kind),
            tf.raw_ops.StatelessRandomNormal(shape=SHAPE, seed=[3, 9], dtype=kind),
            tf.raw_ops.StatelessTruncatedNormal(shape=SHAPE, seed=[3, 9], dtype=kind),
        ],
    )
for kind in ("int32", "int64"):
    draw(
        f"stateless_{kind}",
        lambda tf, x, kind=kind: [
            tf.random.stateless_uniform(SHAPE, [3, 9], -5, 100, dtype=kind),
            tf.random.stateless_multinomial([[0.0, 1.0], [2.0, -1.0]], 9, [3, 9], kind),
            tf.raw_ops.StatelessRandomUniformInt(
                shape=SHAPE,
                seed=[3, 9],
                minval=np.dtype(kind).type(0),
                maxval=np.dtype(kind).type(9),
            ),
        ],
    )
draw(
    "dropout_masks",
    lambda tf, x: [tf.nn.dropout(x * tf.ones([40]), rate=0.4, seed=3)],
    gradient=True,
)
