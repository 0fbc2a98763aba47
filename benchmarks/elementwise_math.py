"""Cases of benchmarks/elementwise.py: functions, and sums, functions and softmax of halves.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_math.c.
"""
import numpy as np

from elementwise_case import MEGA, case, half, one
from elementwise_norms import bound

SIZE = 4 * MEGA


@case(bound=bound("arithmetic", "of_floats", SIZE, 0))
def exp(tf): return one(tf, tf.exp, (SIZE,))


@case(bound=bound("arithmetic", "of_floats", SIZE, 1))
def log(tf): return one(tf, tf.log, (SIZE,))


@case(bound=bound("arithmetic", "of_floats", SIZE, 2))
def tanh(tf): return one(tf, tf.tanh, (SIZE,))


@case(bound=bound("arithmetic", "of_floats", SIZE, 3))
def sigmoid(tf): return one(tf, tf.sigmoid, (SIZE,))


@case(bound=bound("arithmetic", "of_floats", SIZE, 4))
def erf(tf): return one(tf, tf.erf, (SIZE,))


@case(bound=bound("arithmetic", "of_floats", 8 * MEGA, 5))
def sqrt(tf):
    fetch, inputs, arrays = one(tf, tf.sqrt, (8 * MEGA,))
    np.abs(arrays[0], out=arrays[0])
    return fetch, inputs, arrays


for _type, _dtype in enumerate(("float16", "bfloat16")):
    half("add", lambda tf: lambda a, b: a + b, [(8 * MEGA,)] * 2, _dtype,
         bound("conversions", "sum_of_halves", 8 * MEGA, _type))
    half("tanh", lambda tf: tf.tanh, [(SIZE,)], _dtype,
         bound("arithmetic", "tanh_of_halves", SIZE, _type))
    half("softmax", lambda tf: tf.nn.softmax, [(8192, 1000)], _dtype,
         bound("row by row in the nearest cache", "row_softmax_halves", 1000, 8192, _type))
