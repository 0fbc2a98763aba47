"""Real data for the examples, as NumPy arrays: images float32 [n, side, side, 1] in 0..1, labels
int64 [n]; as names of files; as text.

train, test = datasets.digits(seed=0)         # the bundled UCI digits, a seeded 80/20 split
train, test = datasets.mnist("DIR")           # MNIST's four idx files, plain or .gz
for images, labels in datasets.batches(train, 100, seed=0): ...
train, test = datasets.cifar10("DIR")         # names of CIFAR-10's binary files, plain or .gz
train, test = datasets.digits_as_cifar10("DIR", seed=0)   # writes such files of the bundled digits
text = datasets.text("DIR")                   # input.txt, such as Shakespeare's plays
text = datasets.text(None)                    # the manual that comes with Python
parser = datasets.Parser(description="...")   # argparse's, whose --help says the defaults
"""

import argparse
import gzip
import pathlib

import numpy as np

BUNDLED = pathlib.Path(__file__).parent / "data" / "digits.csv.gz"


class Parser(argparse.ArgumentParser):
    """One whose --help says the defaults."""

    def add_argument(self, *names, **settings):
        if settings.get("default") not in (None, argparse.SUPPRESS):
            settings["help"] = f"{settings.get('help', '')}; default: %(default)s".lstrip("; ")
        return super().add_argument(*names, **settings)


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


def cifar10(folder):
    """(files to train on, files to test with): records of a label's byte and 3072 bytes of pixels,
    [3, 32, 32]; the binary version at https://www.cs.toronto.edu/~kriz/cifar.html."""
    folder = pathlib.Path(folder)
    found = [sorted(map(str, folder.glob(part + "_batch*.bin*"))) for part in ("data", "test")]
    if not all(found):
        raise SystemExit(
            f"{folder} lacks data_batch_*.bin or test_batch*.bin: --data wants CIFAR-10's binary "
            "version, of https://www.cs.toronto.edu/~kriz/cifar.html"
        )
    return found


def digits_as_cifar10(folder, seed):
    """Writes the bundled digits, four times as wide and high, in CIFAR-10's layout."""
    for name, (images, labels) in zip(("data_batch_1.bin", "test_batch.bin"), digits(seed)):
        pixels = np.kron(images[..., 0] * 255, np.ones([4, 4])).reshape(len(images), 1, -1)
        records = np.hstack([labels[:, None], np.repeat(pixels, 3, 1).reshape(len(images), -1)])
        (pathlib.Path(folder) / name).write_bytes(records.astype(np.uint8).tobytes())
    return cifar10(folder)


def text(folder):
    """The text of input.txt in `folder`, such as the plays of Shakespeare of char-rnn
    (https://github.com/karpathy/char-rnn, data/tinyshakespeare); without one, Python's manual."""
    if folder is None:
        from pydoc_data.topics import topics

        return "\n".join(topics[name] for name in sorted(topics))
    path = pathlib.Path(folder) / "input.txt"
    if not path.exists():
        raise SystemExit(
            f"{folder} has no input.txt: --data wants a folder with a text of that name, such as "
            "https://github.com/karpathy/char-rnn/tree/master/data/tinyshakespeare"
        )
    return path.read_text(encoding="utf-8")
