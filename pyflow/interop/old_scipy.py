"""scipy.misc and scipy.sparse.linalg.eigen, which SciPy has removed since TensorFlow 1.x's day.

    python -m pyflow exec --old-python train.py         # imports this by old_python.install()

Programs of that day read, write and resize their pictures by scipy.misc (imread, imsave, imresize,
...), which needs Pillow, and take eigsh from scipy.sparse.linalg.eigen.arpack.

Invariants
    1. Names that the installed SciPy has stay its own; what is missing has SciPy 1.0's meaning.
    2. Nothing is imported before somebody asks for such a module, SciPy and Pillow neither.

Threads: install() once, before what needs the modules is imported.
"""
import importlib
import importlib.abc
import importlib.machinery
import sys

import numpy as np

_EIGEN = ("scipy.sparse.linalg.eigen", "scipy.sparse.linalg.eigen.arpack",
          "scipy.sparse.linalg.eigen.arpack.arpack", "scipy.sparse.linalg.eigen.lobpcg")
_SPECIAL = "comb", "factorial", "factorial2", "factorialk", "logsumexp"
_RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}


def install():
    """Lets imports of the modules find them."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds scipy.misc, whole, and scipy.sparse.linalg.eigen as a package."""

    def find_spec(self, name, path=None, target=None):
        if name == "scipy.misc" or name in _EIGEN:
            return importlib.machinery.ModuleSpec(name, self, is_package=name in _EIGEN)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__ != "scipy.misc":
            module.__getattr__ = _of_linalg         # SciPy asks for the module as it is imported
            return
        module.__dict__.update({f.__name__: f for f in (
            bytescale, fromimage, imread, imresize, imrotate, imsave, toimage)})
        module.__getattr__ = _elsewhere


def _of_linalg(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("scipy.sparse.linalg"), name)


def _elsewhere(name):
    """What has moved from scipy.misc to scipy.special and scipy.datasets."""
    home = "scipy.special" if name in _SPECIAL else "scipy.datasets"
    if name in _SPECIAL + ("face", "ascent"):
        return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'scipy.misc' has no attribute {name!r}")


# ---------------------------------------------------------------- scipy.misc

def bytescale(data, cmin=None, cmax=None, high=255, low=0):
    """An array as bytes: its values, or cmin to cmax, spread over low to high; bytes stay."""
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    if not 0 <= low <= high <= 255:
        raise ValueError(f"low and high must be 0 <= low <= high <= 255, got {low} and {high}")
    cmin = data.min() if cmin is None else cmin
    cmax = data.max() if cmax is None else cmax
    if cmax < cmin:
        raise ValueError(f"`cmax` should be larger than `cmin`, got {cmax} and {cmin}")
    scaled = (data - cmin) * (float(high - low) / ((cmax - cmin) or 1)) + low
    return (scaled.clip(low, high) + 0.5).astype(np.uint8)


def toimage(arr, high=255, low=0, cmin=None, cmax=None, pal=None, mode=None, channel_axis=None):
    """A PIL image of an array [rows, columns], or one with 3 or 4 channels along some axis."""
    from PIL import Image
    data = np.asarray(arr)
    if data.ndim == 2:
        if mode in ("F", "I"):
            return Image.fromarray(data.astype(np.float32 if mode == "F" else np.int32))
        image = Image.fromarray(bytescale(data, cmin, cmax, high, low))
        if pal is not None:
            image.putpalette(np.asarray(pal, np.uint8).tobytes())
        return image.convert(mode) if mode else image
    if data.ndim != 3 or not {3, 4} & set(data.shape):
        raise ValueError(f"'arr' does not have a suitable array shape for any mode: {data.shape}")
    if channel_axis is None:
        channel_axis = data.shape.index(3 if 3 in data.shape else 4)
    data = np.moveaxis(bytescale(data, cmin, cmax, high, low), channel_axis, -1)
    return Image.fromarray(np.ascontiguousarray(data), mode) if mode == "YCbCr" else \
        Image.fromarray(np.ascontiguousarray(data))


def fromimage(im, flatten=False, mode=None):
    """The array of a PIL image; palettes as colours; flatten: as gray floats."""
    if mode is not None and mode != im.mode:
        im = im.convert(mode)
    elif im.mode == "P":
        im = im.convert("RGBA" if "transparency" in im.info else "RGB")
    if flatten:
        im = im.convert("F")
    elif im.mode == "1":
        im = im.convert("L")
    return np.array(im)


def imread(name, flatten=False, mode=None):
    """The array of a picture's file: [rows, columns] or [rows, columns, channels], bytes."""
    from PIL import Image
    with Image.open(name) as im:
        return fromimage(im, flatten, mode)


def imsave(name, arr, format=None):
    """Writes an array as a picture, its values spread over 0 to 255 unless they are bytes."""
    image = toimage(arr, channel_axis=2)
    image.save(name) if format is None else image.save(name, format)


def imresize(arr, size, interp="bilinear", mode=None):
    """A picture in another size: an int is per cent, a float a factor, a tuple (rows, columns)."""
    image = toimage(arr, mode=mode)
    if np.issubdtype(type(size), np.signedinteger):
        size = tuple(int(n * size / 100.0) for n in image.size)
    elif np.issubdtype(type(size), np.floating):
        size = tuple(int(n * size) for n in image.size)
    else:
        size = int(size[1]), int(size[0])
    return fromimage(image.resize(size, resample=_RESAMPLE[interp]))


def imrotate(arr, angle, interp="bilinear"):
    """A picture turned by degrees, counter-clockwise, in its old size."""
    return fromimage(toimage(bytescale(arr)).rotate(angle, resample=_RESAMPLE[interp]))
