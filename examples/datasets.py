"""Real data for the examples, as NumPy arrays: images float32 [n, side, side, 1] in 0..1, labels
int64 [n].

train, test = datasets.digits(seed=0)         # the bundled UCI digits, a seeded 80/20 split
train, test = datasets.mnist("DIR")           # MNIST's four idx files, plain or .gz
for images, labels in datasets.batches(train, 100, seed=0): ...
"""

import gzip
import pathlib

import numpy as np

BUNDLED = pathlib.Path(__file__).parent / "data" / "digits.csv.gz"


def digits(seed):
    with gzip.open(BUNDLED, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    order = np.random.default_rng(seed).permutation(len(table))
    images, labels = table[order, :64].reshape(-1, 8, 8, 1) / 16, table[order, 64].astype(np.int64)
    n = len(table) * 8 // 10
    return (images[:n], labels[:n]), (images[n:], labels[n:])


def read_idx(folder, name):
    """One idx file: two zero bytes, type, rank, big-endian sizes, data."""
    path = next((p for p in (folder / name, folder / (name + ".gz")) if p.exists()), None)
    if path is None:
        raise SystemExit(
            f"{folder} holds neither {name} nor {name}.gz: --data wants the folder of MNIST's four idx files"
        )
    raw = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    rank = raw[3]
    shape = np.frombuffer(raw, ">i4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def mnist(folder):
    folder = pathlib.Path(folder)
    return tuple(
        (
            read_idx(folder, part + "-images-idx3-ubyte")[..., None].astype(np.float32) / 255,
            read_idx(folder, part + "-labels-idx1-ubyte").astype(np.int64),
        )
        for part in ("train", "t10k")
    )


def batches(data, size, seed):
    """One epoch of shuffled batches; the last, short one is left out."""
    images, labels = data
    order = np.random.default_rng(seed).permutation(len(images))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield images[chosen], labels[chosen]
