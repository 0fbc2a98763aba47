"""Incomplete gamma and beta functions whose results are small: a difference from 1 would lose them.

The oracles are an integral by the trapezoidal rule and closed forms.
"""
import math

import numpy as np
import pytest

import pyflow as tf


def evaluate(op, *numbers):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(op(*[tf.constant(v) for v in numbers]))


def upper_gamma(a, x):
    """x^a e^-x times the integral of (1 + s/x)^(a - 1) e^-s ds / x, s = e^u; over gamma(a)."""
    u = np.linspace(-45, 6, 4001)[:, None]
    s = np.exp(u)
    integral = np.sum(s * (x + s) ** (a - 1) * np.exp(-x - s), 0) * (u[1] - u[0])
    return integral / np.array([math.gamma(v) for v in a])


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_upper_incomplete_gamma(dtype):
    a, x = (m.ravel().astype(dtype) for m in np.meshgrid(
        [1e-12, 1e-7, 1e-4, 0.00101, 0.02, 0.3, 0.99, 1, 1.5, 7],
        [0.001, 0.1, 0.5, 0.99, 1, 1.01, 3, 9]))
    wanted = upper_gamma(a.astype(np.float64), x.astype(np.float64))
    found = evaluate(tf.igammac, a, x)
    np.testing.assert_allclose(found, wanted, 2e-7 if dtype is np.float32 else 2e-12)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_incomplete_beta(dtype):
    b, x = (m.ravel().astype(dtype) for m in np.meshgrid(
        [1e-7, 1e-5, 0.001, 0.3, 2, 9], [0.05, 0.3, 0.7, 0.9, 0.99]))
    one, two = (evaluate(tf.betainc, np.full_like(b, n), b, x) for n in (1, 2))
    p, q = b.astype(np.float64), x.astype(np.float64)
    limit = 2e-7 if dtype is np.float32 else 1e-7
    np.testing.assert_allclose(one, -np.expm1(p * np.log1p(-q)), limit)
    np.testing.assert_allclose(two, -np.expm1(p * np.log1p(-q)) - p * q * (1 - q) ** p, limit)
