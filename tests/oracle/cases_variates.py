"""Variates from a seed of two: gamma, Poisson, binomial."""

import numpy as np

from cases import op, value

SEED = [3, 9]
for kind in ("float16", "float32", "float64"):
    op(f"stateless_gamma_{kind}", lambda tf, a, kind=kind: [
        tf.random.stateless_gamma([40, 3], SEED, a, dtype=kind),
        tf.random.stateless_gamma([4, 3], np.array([-5, 2**40]), a, tf.constant(2.0, kind), kind),
    ], value([0.3, 1.0, 5.0], kind), gradient=False)
    op(f"stateless_gamma_v2_{kind}", lambda tf, a: tf.raw_ops.StatelessRandomGammaV2(
        shape=[7, 5, 3], seed=SEED, alpha=a), value([0.5, 2.0, 7.0], kind),
       gradient=kind != "float16")
for kind in ("float32", "float64", "int32", "int64"):
    op(f"stateless_poisson_{kind}", lambda tf, x, kind=kind: [
        tf.random.stateless_poisson([21, 6], SEED, [0.3, 4.0, 9.9, 10.0, 55.0, 2000.0], kind),
        tf.random.stateless_poisson([3, 2], SEED, tf.constant(3.0, tf.float64), kind),
    ], value(1.0), gradient=False)
    op(f"stateless_binomial_{kind}", lambda tf, x, kind=kind: [
        tf.random.stateless_binomial(
            [31, 7], SEED, [5.0, 12.0, 50.0, 50.0, 3000.0, 0.0, 17.0],
            [0.5, 0.1, 0.4, 0.77, 0.03, 0.3, 1.0], kind),
        tf.random.stateless_binomial([6, 2, 3], [1, 2], [[10.0], [90.0]],
                                     tf.constant([0.25, 0.6, 0.0], tf.float32), kind),
        tf.random.stateless_binomial([9], [7, 8], tf.constant(30.0, tf.float64),
                                     tf.constant(0.45, tf.float64), kind),
    ], value(1.0), gradient=False)
