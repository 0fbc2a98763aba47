"""What the cases of benchmarks/elementwise.py are made of.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays).  It is wanted at
0.9 of a loop in C with the same traffic and non-temporal stores ("ratio").  Where memory is not
what bounds it, it names its bound and a loop in C that is the best way known to do that job: it is
then wanted at 0.9 of one of the two.

    @case(bound=("lines read at random", "gather_rows", 64))
    def gather_rows_of_64(tf): ...

calls `gather_rows(inputs, out, args, part, parts)` of the C files on each of `parts` threads, with
pointers to the case's arrays, room for its result, and (64,) as int64 (elementwise_loops.h).  A
case that reads part of its arrays says which `share`: the loop with the same traffic reads as much.
"""
import ctypes

import numpy as np

MEGA = 1 << 20
CASES = {}                  # name -> (function of tf, wanted ratio or None, bound or None, share)


def case(wanted=0.9, bound=None, share=1.0):
    """`bound`: (its name, a function in C, that function's integers ...)."""
    def keep(function):
        CASES[function.__name__] = (function, wanted, bound, share)
        return function
    return keep


def half(name, make, shapes, dtype, bound=None, wanted=0.9):
    """Keeps a case over halves."""
    def made(tf):
        return one(tf, make(tf), *shapes, dtype=dtype)
    CASES[f"{name}_{dtype}"] = (made, wanted, bound, 1.0)


def aligned(shape, dtype=np.float32, fill=None):
    """A new array at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start:start + size].view(dtype).reshape(shape)
    random = np.random.default_rng(1)
    array[...] = random.standard_normal(shape, np.float32) if fill is None else fill
    return array


def fed(tf, *arrays):
    return [tf.placeholder(a.dtype, a.shape) for a in arrays]


def one(tf, make, *shapes, dtype="float32"):
    """(fetch, placeholders, arrays) of `make` over random arrays."""
    kind = tf.as_dtype(dtype).as_numpy_dtype
    arrays = [aligned(s, kind) for s in shapes]
    inputs = fed(tf, *arrays)
    return make(*inputs), inputs, arrays


def pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


def bound_call(loops, bound, arrays, out, threads):
    """-> a function without arguments that runs the bound's loop once."""
    _, name, *integers = bound
    inputs = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    args = (ctypes.c_int64 * max(len(integers), 1))(*integers)
    function = ctypes.cast(getattr(loops, name), ctypes.c_void_p)
    return lambda: loops.in_parts(function, inputs, pointer(out), args, threads)
