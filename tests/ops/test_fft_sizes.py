"""Fourier transforms against NumPy's in double: lengths with all kinds of factors, numbers of lines
around a vector's lanes, long lines that are cut in two, axes inside, one and two threads."""
import numpy as np
import pytest

import pyflow as tf

TOLERANCE = {"complex64": 4e-7, "complex128": 1e-15}
LENGTHS = [1, 2, 3, 5, 6, 7, 8, 12, 16, 30, 31, 37, 49, 64, 74, 101, 121, 128, 210, 256, 961, 1000,
           1024, 1369, 2310]


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if not dtype.startswith("complex"):
        return x.astype(dtype)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype)


def close(got, want, kind):
    scale = max(np.abs(want).max(), 1e-30)
    room = TOLERANCE[kind] * (2 + np.log2(max(want.size, 2)))
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= room * scale


def run(make, x, threads=1):
    with tf.Graph().as_default(), tf.Session(threads=threads) as session:
        a = tf.placeholder(x.dtype, x.shape)
        return session.run(make(a), {a: x})


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_and_lines(n, dtype):
    for lines in (1, 3, 8, 15, 16, 17, 33):
        x = numbers((lines, n), dtype, n)
        got, back = run(lambda a: [tf.fft(a), tf.ifft(a)], x)
        close(got, np.fft.fft(x.astype(complex)), dtype)
        close(back, np.fft.ifft(x.astype(complex)), dtype)


@pytest.mark.parametrize("dtype, kind", [("float32", "complex64"), ("float64", "complex128")])
@pytest.mark.parametrize("n", LENGTHS)
def test_real_lengths_and_lines(n, dtype, kind):
    for lines in (1, 2, 7, 16, 31, 32, 33, 70):
        x = numbers((lines, n), dtype, n)
        want = np.fft.rfft(x.astype(float))
        got, back = run(lambda a: [tf.signal.rfft(a), tf.signal.irfft(tf.signal.rfft(a), [n])], x)
        close(got, want, kind)
        close(back, x.astype(float), kind)


@pytest.mark.parametrize("n", [4096, 8192 + 64, 9973, 16384, 3 ** 9, 2 * 8209, 65536 + 3])
def test_long_lines(n):
    for lines in (1, 9):
        x = numbers((lines, n), "complex64", n)
        one, two = (run(lambda a: [tf.fft(a), tf.ifft(a)], x, threads) for threads in (1, 2))
        for got, same, want in zip(one, two, (np.fft.fft(x), np.fft.ifft(x))):
            close(got, want, "complex64")
            np.testing.assert_array_equal(got, same)
        r = x.real.copy()
        got, back = run(lambda a: [tf.signal.rfft(a), tf.signal.irfft(tf.signal.rfft(a), [n])], r)
        close(got, np.fft.rfft(r), "complex64")
        close(back, r, "complex64")


@pytest.mark.parametrize("shape", [(5, 7, 3), (2, 16, 40), (3, 33, 17), (1, 64, 64), (4, 6, 300)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_axes_inside(shape, dtype):
    x = numbers(shape, dtype)
    two, back, three = run(lambda a: [tf.fft2d(a), tf.ifft2d(a), tf.fft3d(a)], x)
    close(two, np.fft.fft2(x), dtype)
    close(back, np.fft.ifft2(x), dtype)
    close(three, np.fft.fftn(x), dtype)


@pytest.mark.parametrize("length", [[9, 20], [16, 16], [12, 31], [33, 6]])
def test_real_planes_cropped_and_padded(length):
    """Lines of a cropped input lie unevenly."""
    x = numbers((5, 21, 27), "float32")
    y = run(lambda a: tf.signal.rfft2d(a, length), x)
    close(y, np.fft.rfft2(x.astype(float), length), "complex64")
    back = run(lambda a: tf.signal.irfft2d(a, length), y)
    close(back, np.fft.irfft2(y.astype(complex), length), "complex64")


def test_lines_of_a_batch_are_alike():
    """Equal lines give equal bits, wherever they stand among the others."""
    for n in (37, 100, 256):
        x = np.repeat(numbers((1, n), "complex64"), 37, axis=0)
        y = run(tf.fft, x)
        np.testing.assert_array_equal(y, np.repeat(y[:1], 37, axis=0))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 74, 100, 999, 9001, 20000])
@pytest.mark.parametrize("lines", [3, 18])
def test_lines_do_not_show_in_each_other(n, lines):
    """Beside a line of huge numbers, of NaN or of infinities the others are what they are alone:
    small ones as precise, zeros zero."""
    x = numbers((lines, n), "float32", n)
    x[0] *= 1e12
    x[2] = 0
    if lines > 3:
        x[4, 0], x[7, -1], x[9] = np.nan, np.inf, 1e30

    def all_ways(a):
        spectrum = tf.signal.rfft(a)
        return [spectrum, tf.signal.irfft(spectrum, [n]), tf.fft(tf.cast(a, "complex64")),
                tf.signal.rfft2d(tf.expand_dims(a, 1))[:, 0]]
    whole = run(all_ways, x)
    alone = [run(all_ways, line[None]) for line in x]
    wide = x.astype(float)
    with np.errstate(invalid="ignore"):
        want = np.fft.rfft(wide), wide, np.fft.fft(wide), np.fft.rfft(wide)
    for i in set(range(lines)) - {4, 7}:
        for got, one, right in zip(whole, alone[i], want):
            close(got[i], right[i], "complex64")
            close(one[0], right[i], "complex64")
    assert all(not got[2].any() for got in whole)
    for i in {4, 7} & set(range(lines)):
        assert not any(np.isfinite(got[i]).all() for got in whole)


@pytest.mark.parametrize("n", [2, 9, 16, 37, 300])
def test_imaginary_parts_that_no_real_line_has(n):
    """Of the first frequency, and of the last of an even length: not read, and never written."""
    for lines in (1, 20):
        x = numbers((lines, n), "float64", n)
        spectrum = run(tf.signal.rfft, x)
        assert not spectrum[:, 0].imag.any() and (n % 2 or not spectrum[:, -1].imag.any())
        spectrum[:, 0] += 5j
        if n % 2 == 0:
            spectrum[:, -1] -= 7j
        close(run(lambda a: tf.signal.irfft(a, [n]), spectrum), x, "complex128")
