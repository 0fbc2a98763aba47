"""The data that programs of programs.txt find: small MNIST, and what stands in for data sets that
nobody may download here.

    mnist = 2000 500       2,000 training images besides the 5,000 of validation, 500 test images
    data = NAME PATH ...   functions below by name, and where the program looks for what they make

Everything is made from seeds, or from files in the folder that PYFLOW_DATA names.
"""
import contextlib
import gzip
import io
import os
import pathlib
import shutil
import struct
import tempfile
import zipfile

import numpy

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def give(options, folder, cache):
    """Puts a program's data where it looks for them.  Returns environment variables for it."""
    words = options.get("data", "").split()
    for name, path in zip(words[::2], words[1::2]):
        where = folder / path
        where.parent.mkdir(parents=True, exist_ok=True)
        MAKERS[name](where)
    if "mnist" not in options:
        return {}
    train, test = map(int, options["mnist"].split())
    return {"PYFLOW_DATA": str(small_mnist(train, test, cache))}


def mnist_folder():
    """The folder of PYFLOW_DATA that has MNIST."""
    given = os.environ.get("PYFLOW_DATA", "")
    for folder in (pathlib.Path(given), pathlib.Path(given, "mnist")):
        if (folder / f"{FILES[0]}.gz").exists():
            return folder
    raise FileNotFoundError("MNIST's four .gz files are in the folder that PYFLOW_DATA names")


def small_mnist(train, test, cache):
    """A folder with the first images of MNIST: 5,000 + train, and test."""
    into = cache / f"mnist-{train}-{test}"
    if into.is_dir():
        return into
    part = pathlib.Path(tempfile.mkdtemp(prefix="mnist-", dir=cache))
    for name in FILES:
        count = 5000 + train if name.startswith("train") else test
        whole = gzip.decompress((mnist_folder() / f"{name}.gz").read_bytes())
        header, size = (16, 784) if "images" in name else (8, 1)
        cut = whole[:4] + struct.pack(">I", count) + whole[8:header + count * size]
        (part / f"{name}.gz").write_bytes(gzip.compress(cut, 1))
    with contextlib.suppress(OSError):          # somebody else was first
        part.rename(into)
    shutil.rmtree(part, ignore_errors=True)
    return into


def mnist(where):
    """MNIST's own files."""
    shutil.copytree(mnist_folder(), where, dirs_exist_ok=True)


def text8(where):
    """A text8.zip of the length that programs check: 500,000 words by Zipf's law, of 60,000."""
    random = numpy.random.RandomState(1)
    words = numpy.concatenate([random.zipf(1.3, 440_000) % 60_000, numpy.arange(60_000)])
    random.shuffle(words)
    letters = numpy.array(list("abcdefghijklmnopqrstuvwxyz"))
    names = ["".join(letters[[k // 17576 % 26, k // 676 % 26, k // 26 % 26, k % 26]])
             for k in range(60_000)]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("text8", " ".join(names[k] for k in words))
    where.write_bytes(bytes(31344016 - made.tell()) + made.getvalue())


def shakespeare(where):
    """Tiny Shakespeare, input.txt."""
    shutil.copy(pathlib.Path(os.environ["PYFLOW_DATA"], "tinyshakespeare/input.txt"), where)


MAKERS = {"mnist": mnist, "text8": text8, "shakespeare": shakespeare}
