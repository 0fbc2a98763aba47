"""The error of the vectorised functions: at most what vmath.h, vmath_arc.h and vmath_f64.h of
plugins/cpu/kernels/vec state, in ulp.

Arguments are bit patterns in even steps over the whole range of the type, and denser ones around
zero and one; the reference is float64 for float32 and 80-bit for float64.  An ulp is the distance
of the float next to the right result; where that is denormal, zero or infinite, one of it is
allowed.
"""
import math
import pathlib
import re

import numpy as np
import pytest

import pyflow as tf

KERNELS = pathlib.Path(__file__).parents[2] / "plugins/cpu/kernels/vec"
STATED = "".join((KERNELS / name).read_text(encoding="utf-8")
                 for name in ("vmath.h", "vmath_arc.h", "vmath_f64.h"))
LIMITS = {name: max(float(a), float(b)) for name, a, b in
          re.findall(r"(\w+_f(?:32|64)) ([\d.]+)/([\d.]+)", STATED)}


def exp_of_square(x):
    """e^-xx of 80-bit numbers: the square of half of their digits is exact."""
    half = np.float32(x).astype(x.dtype)
    return np.exp(-half * half) * np.exp(-(x - half) * (x + half))


def erf_by_series(x):
    """Abramowitz and Stegun 7.1.6, whose terms all have one sign; |x| < 7."""
    total = term = x
    for n in range(1, 220):
        term = term * (2 * x * x / (2 * n + 1))
        total = total + term
    return 2 / np.sqrt(np.arccos(-np.ones(1, x.dtype))) * exp_of_square(x) * total


def erfc_by_fraction(x):
    """Abramowitz and Stegun 7.1.14; x >= 1."""
    below = x
    for n in range(400, 0, -1):
        below = x + np.longdouble(n) / 2 / below
    return exp_of_square(x) / below / np.sqrt(np.arccos(-np.ones(1, x.dtype)))


def exact_erf(x):
    if x.dtype == np.float64:
        return np.vectorize(math.erf, [np.float64])(x)
    return np.where(np.abs(x) < 7, erf_by_series(np.clip(x, -7, 7)), np.sign(x))


def exact_erfc(x):
    if x.dtype == np.float64:
        return np.vectorize(math.erfc, [np.float64])(x)
    far = erfc_by_fraction(np.clip(np.abs(x), 1, 30))
    return np.where(np.abs(x) < 1, 1 - exact_erf(np.clip(x, -1, 1)), np.where(x < 0, 2 - far, far))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


FUNCTIONS = {"exp": (tf.exp, np.exp), "expm1": (tf.expm1, np.expm1), "log": (tf.log, np.log),
             "log1p": (tf.log1p, np.log1p), "tanh": (tf.tanh, np.tanh),
             "sigmoid": (tf.sigmoid, sigmoid), "softplus": (tf.nn.softplus, softplus),
             "erf": (tf.erf, exact_erf), "sin": (tf.sin, np.sin), "cos": (tf.cos, np.cos),
             "tan": (tf.tan, np.tan), "atan": (tf.atan, np.arctan), "asin": (tf.asin, np.arcsin),
             "acos": (tf.acos, np.arccos), "sinh": (tf.sinh, np.sinh), "cosh": (tf.cosh, np.cosh),
             "asinh": (tf.asinh, np.arcsinh), "acosh": (tf.acosh, np.arccosh),
             "atanh": (tf.atanh, np.arctanh), "erfc": (tf.erfc, exact_erfc),
             "atan2": (lambda x: tf.atan2(x, tf.reverse(x, [0])), lambda x: np.arctan2(x, x[::-1]))}
CASES = [(name, kind) for name in FUNCTIONS for kind in ("f32", "f64")
         if f"{name}_{kind}" in LIMITS]


def arguments(kind, count):
    """Bit patterns in even steps, and numbers in even steps in [-32, 32]."""
    bits = np.linspace(0, 2**32 - 1, count).astype(np.uint32)
    if kind == "f32":
        x = np.concatenate([bits.view(np.float32), np.linspace(-32, 32, count, dtype=np.float32)])
    else:
        x = np.concatenate([(bits.astype(np.uint64) << 32 | 0x9e3779b9).view(np.float64),
                            np.linspace(-32, 32, count)])
    return x[np.isfinite(x)]


def errors(found, wanted):
    """In ulp of the right result."""
    kind = found.dtype.type
    with np.errstate(over="ignore"):
        rounded = wanted.astype(kind)
    with np.errstate(all="ignore"):
        ulp = np.spacing(np.abs(rounded)).astype(wanted.dtype)
        error = np.abs(found.astype(wanted.dtype) - wanted) / ulp
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    edge = ~np.isfinite(rounded) & (np.abs(found) == np.finfo(kind).max)
    return np.where(same | edge, 0, error)


@pytest.mark.parametrize("name, kind", CASES)
def test_error_is_as_stated(name, kind):
    make, exact = FUNCTIONS[name]
    x = arguments(kind, 60_000 if "erf" in name else 700_000 if kind == "f32" else 200_000)
    if name in ("sin", "cos", "tan"):
        x = x[np.abs(x) < (8192 if kind == "f32" else 2**20)]
    with tf.Graph().as_default(), tf.Session() as session:
        argument = tf.placeholder(tf.as_dtype(x.dtype), [None])
        found = session.run(make(argument), {argument: x})
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64 if kind == "f32" else np.longdouble))
    error = errors(found, wanted)
    if name == "sigmoid":                   # 0 where the right result is denormal
        error = error[wanted >= np.finfo(x.dtype).tiny]
        x = x[wanted >= np.finfo(x.dtype).tiny]
    worst = np.argmax(error)
    assert error[worst] <= LIMITS[f"{name}_{kind}"], f"{error[worst]} ulp at {x[worst]!r}"


def test_all_stated_functions_are_tried():
    assert len(CASES) == len(LIMITS) >= 26


EDGES = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, -3e38, 0.5,
                  -2.5, 1 + 2**-23, 89.4, -89.45, 9000], np.float32)


EDGES_F64 = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308,
                      -1e308, 0.5, -2.5, 1 + 2.0**-52, 710.4, -710.5, 2.0**20, 27.3, -1 + 2.0**-53])


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan", "atan", "asin", "acos", "sinh", "cosh",
                                  "asinh", "acosh", "atanh", "erf", "erfc"])
def test_edges_are_libms_at_every_place_of_a_block(name, kind):
    make, exact = FUNCTIONS[name]
    edges, wide = (EDGES, np.float64) if kind == "f32" else (EDGES_F64, np.longdouble)
    for size in (1, 7, 15, 16, 17, 31, 50):
        x = np.resize(edges, size)
        with tf.Graph().as_default(), tf.Session() as session:
            found = session.run(make(tf.constant(x)))
        with np.errstate(all="ignore"):
            wanted = exact(x.astype(wide)).astype(x.dtype)
        tiny = np.finfo(x.dtype).smallest_subnormal
        np.testing.assert_allclose(found, wanted, rtol=4 * np.finfo(x.dtype).eps, atol=tiny)
        number = ~np.isnan(wanted)
        assert (np.signbit(found) == np.signbit(wanted))[number].all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_float64_near_multiples_of_a_quarter_turn_and_of_huge_numbers(name):
    make, exact = FUNCTIONS[name]
    n = np.arange(-640_000, 640_000, 37)
    turns = (n * np.arccos(np.longdouble(0))).astype(np.float64)
    for x in (turns, np.geomspace(2.0**20, 1e300, 3001), np.append(turns[:40], [1e22, -1e300])):
        with tf.Graph().as_default(), tf.Session() as session:
            found = session.run(make(tf.constant(x)))
        assert errors(found, exact(x.astype(np.longdouble))).max() <= LIMITS[f"{name}_f64"]


def test_quadrants_and_remainders_of_edges():
    a, b = (m.ravel() for m in np.meshgrid(EDGES, EDGES))
    with tf.Graph().as_default(), tf.Session() as session:
        angle, floor, trunc = session.run([tf.atan2(a, b), tf.floormod(a, b),
                                           tf.truncatemod(a, b)])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(angle, np.arctan2(a, b), rtol=5e-7, atol=1e-45)
        right = np.fmod(a, b)
        np.testing.assert_array_equal(trunc, right)
        other = (right != 0) & ((right < 0) != (b < 0))
        np.testing.assert_array_equal(floor, np.where(other, right + b, right))
        for found, wanted in (angle, np.arctan2(a, b)), (trunc, right):
            assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()
