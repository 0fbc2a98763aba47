"""Cases of benchmarks/elementwise.py: element-wise kernels, transposes, moves.

A case is a function of the package `tf` that gives (fetch, placeholders, arrays); see
elementwise_case.py.  The loops in C of the column "bound" are in elementwise_moves.c and
elementwise_turns.c.
"""
import numpy as np

from elementwise_case import MEGA, aligned, case, fed, half, one

TURNED = "its lines, then its shuffles"     # elementwise_turns.c


# ------------------------------------------------------------------------------------ element-wise
@case()
def add(tf): return one(tf, lambda a, b: a + b, (8 * MEGA,), (8 * MEGA,))


@case()
def multiply_by_scalar(tf): return one(tf, lambda a: a * 2.0, (8 * MEGA,))


@case()
def bias_add(tf): return one(tf, tf.nn.bias_add, (8192, 1000), (1000,))


@case()
def add_column(tf): return one(tf, lambda a, b: a + b, (8192, 1000), (8192, 1))


@case()
def relu(tf): return one(tf, tf.nn.relu, (8 * MEGA,))


@case()
def select(tf): return one(tf, lambda a, b: tf.where(a > 0, a, b), (8 * MEGA,), (8 * MEGA,))


@case()
def cast_to_double(tf): return one(tf, lambda a: tf.cast(a, tf.float64), (4 * MEGA,))


@case()
def cast_to_half(tf): return one(tf, lambda a: tf.cast(a, tf.float16), (8 * MEGA,))


@case()
def cast_to_bfloat16(tf): return one(tf, lambda a: tf.cast(a, tf.bfloat16), (8 * MEGA,))


# ------------------------------------------------------------------------------------ transposes
@case(bound=(TURNED, "turned", 2048, 4096, 4, 3))
def transpose_2d(tf): return one(tf, tf.transpose, (2048, 4096))


@case(bound=(TURNED, "turned", 2047, 4097, 4, 3))
def transpose_odd(tf): return one(tf, tf.transpose, (2047, 4097))


@case()
def transpose_tall(tf): return one(tf, tf.transpose, (MEGA, 8))


@case()
def nhwc_to_nchw(tf): return one(tf, lambda a: tf.transpose(a, [0, 3, 1, 2]), (32, 56, 56, 64))


@case()
def nchw_to_nhwc(tf): return one(tf, lambda a: tf.transpose(a, [0, 2, 3, 1]), (32, 64, 56, 56))


@case()
def image_to_nchw(tf): return one(tf, lambda a: tf.transpose(a, [0, 3, 1, 2]), (32, 224, 224, 3))


@case()
def heads(tf): return one(tf, lambda a: tf.transpose(a, [0, 2, 1, 3]), (32, 256, 16, 64))


@case(bound=(TURNED, "reversed_4d", 3))
def reverse_4d(tf): return one(tf, lambda a: tf.transpose(a, [3, 2, 1, 0]), (32, 64, 64, 64))


@case()
def heads_merged(tf): return one(tf, lambda a: tf.transpose(a, [1, 0, 2]), (256, 512, 64))


@case(bound=(TURNED, "turned", 2999, 2999, 4, 3))
def transpose_2999(tf): return one(tf, tf.transpose, (2999, 2999))


@case(bound=(TURNED, "turned", 2048, 2048, 8, 3))
def transpose_float64(tf): return one(tf, tf.transpose, (2048, 2048), dtype="float64")


@case(bound=(TURNED, "turned", 4096, 4096, 1, 3))
def transpose_uint8(tf): return one(tf, tf.transpose, (4096, 4096), dtype="uint8")


@case(bound=(TURNED, "turned", 4095, 4097, 1, 3))
def transpose_odd_uint8(tf): return one(tf, tf.transpose, (4095, 4097), dtype="uint8")


@case(bound=(TURNED, "turned", 2047, 4097, 2, 3))
def transpose_odd_float16(tf): return one(tf, tf.transpose, (2047, 4097), dtype="float16")


# ------------------------------------------------------------------------------------ moves
@case(share=0.75)
def slice_rows(tf): return one(tf, lambda a: tf.slice(a, [1024, 0], [6144, 1024]), (8192, 1024))


@case(bound=("rows that lie apart", "column_slice", 8192, 4000, 400, 3200), share=0.8)
def slice_columns(tf): return one(tf, lambda a: tf.slice(a, [0, 100], [8192, 800]), (8192, 1000))


@case()
def every_second(tf): return one(tf, lambda a: a[:, ::2], (8192, 1024))


@case()
def concat_rows(tf): return one(tf, lambda a, b: tf.concat([a, b], 0), *[(4096, 1024)] * 2)


@case()
def concat_columns(tf): return one(tf, lambda a, b: tf.concat([a, b], 1), *[(8192, 500)] * 2)


@case()
def concat_channels(tf): return one(tf, lambda a, b: tf.concat([a, b], 3), *[(32, 56, 56, 32)] * 2)


@case(bound=("rows between zeros", "images_in_borders", 32, 224, 2688, 3, 36))
def pad_images(tf):
    return one(tf, lambda a: tf.pad(a, [[0, 0], [3, 3], [3, 3], [0, 0]]), (32, 224, 224, 3))


@case()
def pad_channels_last(tf):
    return one(tf, lambda a: tf.pad(a, [[0, 0], [1, 1], [1, 1], [0, 0]]), (32, 56, 56, 64))


@case()
def tile_rows(tf): return one(tf, lambda a: tf.tile(a, [8, 1]), (1024, 1024))


@case()
def reverse_rows(tf): return one(tf, lambda a: tf.reverse(a, [0]), (8192, 1024))


@case()
def reverse_columns(tf): return one(tf, lambda a: tf.reverse(a, [1]), (8192, 1024))


def _gather(tf, rows, width):
    x, at = aligned((rows, width)), np.random.default_rng(2).integers(0, rows, rows).astype("i")
    inputs = fed(tf, x, at)
    return tf.gather(*inputs), inputs, [x, at]


@case(bound=("rows read at random", "gather_rows", 8192, 4096))
def gather_rows_of_1024(tf): return _gather(tf, 8192, 1024)


@case(bound=("rows read at random", "gather_rows", 131072, 256))
def gather_rows_of_64(tf): return _gather(tf, 131072, 64)


@case()
def gate_channels(tf): return one(tf, lambda a, b: a * b, (32, 56, 56, 64), (32, 1, 1, 64))


@case()
def scale_planes(tf): return one(tf, lambda a, b: a * b, (32, 64, 56, 56), (1, 64, 1, 1))


@case()
def add_int32(tf): return one(tf, lambda a, b: a + b, *[(8 * MEGA,)] * 2, dtype="int32")


# ------------------------------------------------------------------------------------ half types
for _dtype in ("float16", "bfloat16"):
    half("transpose_2d", lambda tf: tf.transpose, [(2048, 4096)], _dtype,
         bound=(TURNED, "turned", 2048, 4096, 2, 3))
    half("cast_to_float", lambda tf: lambda a: tf.cast(a, tf.float32), [(8 * MEGA,)], _dtype)
