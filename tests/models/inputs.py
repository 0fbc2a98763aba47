"""What the models are fed: arrays that look like what they were trained on, by kind and sizes.

    speech(1, 576)(numpy.random.default_rng(0))     # float32 [1, 576], a voice that comes and goes

Each function gives a maker: it takes a Generator and gives the array.
"""
import numpy as np


def speech(*shape, rate=16000, scale=1.0, axis=-1):
    """A voice at `rate` samples a second along `axis`, about -scale .. scale; no size behind it
    is above 1."""
    def make(rng):
        count = shape[axis]
        lines = [_voice(rng, count, rate) for _ in range(int(np.prod(shape)) // count)]
        return (np.reshape(lines, shape) * scale).astype(np.float32)
    return make


def _voice(rng, count, rate):
    """Harmonics of a wandering pitch, in syllables, with breath."""
    time = np.arange(count) / rate
    pitch = 110 + 60 * rng.random() + 15 * np.sin(2 * np.pi * 3 * time + rng.random())
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    found = sum(np.sin(k * phase + rng.random()) / k ** 1.2 for k in range(1, 25))
    syllables = np.clip(np.sin(2 * np.pi * 4 * time + 6 * rng.random()) + 0.4, 0, 1)
    return 0.15 * found * syllables + 0.01 * rng.standard_normal(count)


def image(*shape, low=-1.0, high=1.0, last=False):
    """Soft shades with lines of dark strokes as of a text; channels first, or `last`."""
    def make(rng):
        batch, height, width, channels = shape if last else [shape[0], *shape[2:], shape[1]]
        found = np.stack([_page(rng, height, width, channels) for _ in range(batch)])
        found = found if last else found.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(low + (high - low) * found, np.float32)
    return make


def _page(rng, height, width, channels):
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = rng.random((4, 3)) * 8
    shade = sum(np.sin(a * x + b * y + c) for a, b, c in waves) / 16 + 0.7
    page = shade[..., None] + 0.05 * rng.standard_normal((height, width, channels))
    line = max(height // 12, 24)
    for top in range(line // 3, height - line // 2, line):
        at = line // 3
        while at < width - line // 2:
            wide = int(rng.integers(2, max(line // 4, 3)))
            high = int(rng.integers(line // 6 + 1, line // 2 + 2))
            page[top:top + high, at:at + wide] *= 0.2
            at += wide + int(rng.integers(2, max(line // 3, 4)))
    return np.clip(page, 0, 1)


def tokens(low, high, *shape, dtype=np.int64):
    """Whole numbers in low .. high - 1."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def noise(*shape, scale=1.0, mean=0.0):
    """Normally distributed float32."""
    return lambda rng: (mean + scale * rng.standard_normal(shape)).astype(np.float32)


def share(*shape):
    """float32 in 0 .. 1."""
    return lambda rng: rng.random(shape).astype(np.float32)


def full(value, *shape, dtype=np.float32):
    """`value` everywhere."""
    return lambda rng: np.full(shape, value, dtype)


def number(value, dtype=np.int64):
    """A scalar."""
    return full(value, dtype=dtype)


def array(values, dtype=np.int64):
    """`values` as they are."""
    return lambda rng: np.array(values, dtype)


def bits(*shape):
    """True and False."""
    return lambda rng: rng.random(shape) < 0.5


def distances(length):
    """int64 [1, length, length]: how far apart the atoms of a chain are, 0 .. 12."""
    def make(rng):
        at = np.arange(length)
        return np.minimum(abs(at[:, None] - at), 12)[None].astype(np.int64)
    return make
