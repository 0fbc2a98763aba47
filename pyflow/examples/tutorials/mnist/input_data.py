"""MNIST from a folder, as the tutorials of TensorFlow 1.x read it.

    from pyflow.examples.tutorials.mnist import input_data
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
    images, labels = mnist.train.next_batch(100)            # float32 [100, 784] in 0..1, [100, 10]

Invariants
    1. Nothing is downloaded: a folder without the files is an error that names them.
    2. The order of examples is TensorFlow 1.15's: with the same seed (the argument, else the
       graph's) `next_batch` gives the same batches, over the ends of epochs too.
    3. A file's header is checked against its size before anything is made of it.

NumPy's global generator is seeded and drawn from, as TensorFlow's does.
Threads: one at a time per DataSet.
"""
import collections
import gzip
import math
import os
import struct
import zlib

import numpy as np

TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"
FILES = (TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS)
DEFAULT_SOURCE_URL = ""
_ROOM = 1 << 30                         # bytes: four times what EMNIST's largest file holds

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def read_data_sets(train_dir, fake_data=False, one_hot=False, dtype=np.float32, reshape=True,
                   validation_size=5000, seed=None, source_url=DEFAULT_SOURCE_URL):
    """MNIST, or what has its layout (Fashion-MNIST, EMNIST), as Datasets(train, validation, test).

    train_dir: the folder with the four idx files, compressed (.gz) or not; where they are not there
    the folder that the environment variable PYFLOW_DATA names, and its folder mnist, are searched.
    fake_data: 10,000 examples of ones, read from no file. one_hot: labels are float64 [n, 10] rather
    than uint8 [n]. dtype: float32, images in 0..1, or uint8, in 0..255. reshape: images are [n, 784]
    rather than [n, 28, 28, 1]. validation_size: how many of the first training examples become the
    validation set. seed: of the order of examples; default the graph's, then none. source_url:
    without meaning here, nothing is downloaded.

    FileNotFoundError names the files that are missing; ValueError for files that are not idx files,
    and for a validation_size below 0 or above the number of training examples; TypeError for
    another dtype. As tensorflow.examples.tutorials.mnist.input_data of TensorFlow 1.15.
    """
    del source_url
    if fake_data:
        return Datasets(*(DataSet([], [], fake_data=True, one_hot=one_hot, dtype=dtype, seed=seed)
                          for _ in range(3)))
    paths = _find(os.fspath(train_dir))
    train_images, train_labels, test_images, test_labels = (
        extract_labels(path, one_hot) if "labels" in name else extract_images(path)
        for name, path in zip(FILES, paths))
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(f"Validation size should be between 0 and {len(train_images)}. "
                         f"Received: {validation_size}.")
    options = {"dtype": dtype, "reshape": reshape, "seed": seed}
    cut = validation_size
    return Datasets(
        train=DataSet(train_images[cut:], train_labels[cut:], **options),
        validation=DataSet(train_images[:cut], train_labels[:cut], **options),
        test=DataSet(test_images, test_labels, **options))


def load_mnist(train_dir="MNIST-data"):
    """read_data_sets(train_dir), as tf.contrib.learn.datasets.load_dataset("mnist") gives it."""
    return read_data_sets(train_dir)


class DataSet:
    """Images, their labels, and a place in the order in which `next_batch` gives them."""

    def __init__(self, images, labels, fake_data=False, one_hot=False, dtype=np.float32,
                 reshape=True, seed=None):
        """images: uint8 [n, rows, columns, depth], depth 1 if `reshape`; labels: [n] or [n, classes];
        the rest as for read_data_sets."""
        np.random.seed(_seed(seed))
        kind = np.dtype(getattr(dtype, "as_numpy_dtype", dtype))
        if kind not in (np.uint8, np.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        self.one_hot = one_hot
        self._num_examples = 10000 if fake_data else len(images)
        if not fake_data:
            images = _checked(images, labels, reshape)
            if kind == np.float32:
                images = np.multiply(images.astype(np.float32), np.float32(1.0 / 255.0))
        self._images, self._labels = images, labels
        self._epochs_completed = self._index_in_epoch = 0

    images = property(lambda self: self._images, doc="All images, in the present order.")
    labels = property(lambda self: self._labels, doc="All labels, in the present order.")
    num_examples = property(lambda self: self._num_examples, doc="How many examples there are.")
    epochs_completed = property(lambda self: self._epochs_completed,
                                doc="How often next_batch has gone through all examples.")

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """(images, labels) of the next batch_size examples.

        shuffle: the order is drawn anew for each epoch. A batch over the end of an epoch takes the
        rest of it and goes on with the next. fake_data: lists of ones and of the class 0.
        """
        if fake_data:
            label = [1] + [0] * 9 if self.one_hot else 0
            return [[1] * 784] * batch_size, [label] * batch_size
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        if start + batch_size <= self._num_examples:
            self._index_in_epoch = start + batch_size
            return self._images[start:start + batch_size], self._labels[start:start + batch_size]
        self._epochs_completed += 1
        images, labels = self._images[start:], self._labels[start:]
        if shuffle:
            self._shuffle()
        end = self._index_in_epoch = batch_size - len(images)
        return (np.concatenate((images, self._images[:end])),
                np.concatenate((labels, self._labels[:end])))

    def _shuffle(self):
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def _checked(images, labels, reshape):
    """The images, [n, rows * columns] if `reshape`; ValueError where they do not fit."""
    if len(images) != len(labels):
        raise ValueError(f"images.shape: {images.shape} labels.shape: {labels.shape}: as many "
                         "images as labels are expected")
    if not reshape:
        return images
    if images.ndim != 4 or images.shape[3] != 1:
        raise ValueError(f"images of shape [n, rows, columns, 1] expected with reshape=True, got "
                         f"{list(images.shape)}; pass reshape=False")
    return images.reshape(len(images), images.shape[1] * images.shape[2])


def _seed(seed):
    """What NumPy's generator is seeded with: the graph's seed unless one is given, as in TF."""
    from pyflow.framework.graph import get_seed
    of_graph, of_op = get_seed(seed)
    return of_graph if seed is None else of_op


# ---------------------------------------------------------------- files

def extract_images(f):
    """The images of an idx file as uint8 [n, rows, columns, 1].

    f: a path, compressed or not, or an open file of either. ValueError if it is not such a file.
    """
    return _read_idx(f, rank=3)[..., np.newaxis]


def extract_labels(f, one_hot=False, num_classes=10):
    """The labels of an idx file as uint8 [n], or one_hot as float64 [n, num_classes].

    f: a path, compressed or not, or an open file of either. ValueError if it is not such a file,
    or has a label of num_classes or more with one_hot.
    """
    labels = _read_idx(f, rank=1)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense, num_classes):
    """float64 [n, num_classes] with a one at each label.  ValueError for a label out of range."""
    labels_dense = np.asarray(labels_dense)
    if labels_dense.size and not 0 <= labels_dense.min() <= labels_dense.max() < num_classes:
        raise ValueError(f"labels are {labels_dense.min()} to {labels_dense.max()}, expected 0 to "
                         f"{num_classes - 1}")
    return np.eye(num_classes)[labels_dense.ravel()]


def maybe_download(filename, work_directory, source_url=None):
    """The path of a file in a folder.  FileNotFoundError if it is not there: nothing is downloaded."""
    path = os.path.join(work_directory, filename)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is missing, and nothing is downloaded: put the file there")
    return path


def _find(folder):
    """The paths of FILES.  FileNotFoundError names all that are missing, and where they were
    looked for."""
    tried = []
    for place in [folder, *_other_folders()]:
        found = [_existing(os.path.join(place, name)) for name in FILES]
        if all(found):
            return found
        tried.append((place, [n for n, path in zip(FILES, found) if not path]))
    missing = "; ".join(f"{os.path.abspath(place)} lacks {', '.join(names)}"
                        for place, names in tried)
    raise FileNotFoundError(
        f"MNIST is not there, and nothing is downloaded: {missing}. Put the four idx files there, "
        "compressed or not, or name their folder in the environment variable PYFLOW_DATA")


def _other_folders():
    from pyflow import config
    more = config.value("PYFLOW_DATA")
    return [more, os.path.join(more, "mnist")] if more else []


def _existing(path):
    """`path`, or without .gz, or as some archives name it (train-images.idx3-ubyte); or None."""
    plain = path.removesuffix(".gz")
    dotted = plain.replace("-idx", ".idx")
    return next((p for p in (path, plain, dotted + ".gz", dotted) if os.path.isfile(p)), None)


def _read_idx(f, rank):
    """The array of an idx file: magic number, sizes as big-endian int32, bytes."""
    opened = f if hasattr(f, "read") else open(f, "rb")
    name = getattr(opened, "name", f)
    try:
        data = _unpacked(opened, name)
    finally:
        if opened is not f:
            opened.close()
    head = 4 + 4 * rank
    if len(data) < head or data[:4] != bytes([0, 0, 8, rank]):
        raise ValueError(f"{name}: not an idx file of bytes with {rank} dimensions: it begins with "
                         f"{data[:4].hex(' ')}, expected 00 00 08 {rank:02x}")
    sizes = struct.unpack(f">{rank}I", data[4:head])
    if math.prod(sizes) != len(data) - head:
        raise ValueError(f"{name}: its header promises {' x '.join(map(str, sizes))} bytes, it has "
                         f"{len(data) - head}: the file is cut short or damaged")
    return np.frombuffer(data, np.uint8, offset=head).reshape(sizes)


def _unpacked(opened, name):
    data = opened.read(_ROOM + 1)
    if data[:2] == b"\x1f\x8b":
        try:
            import io
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(_ROOM + 1)
        except (OSError, EOFError, zlib.error) as e:
            raise ValueError(f"{name}: damaged gzip data: {e}") from e
    if len(data) > _ROOM:
        raise ValueError(f"{name}: more than {_ROOM} bytes")
    return data
