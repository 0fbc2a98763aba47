"""tf.keras.datasets from local files, and the version of Keras that TensorFlow 1.15 had.

    (x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()

Layers and models of Keras are not here. Nothing is downloaded and no pickle is read: files lie in
the folder PYFLOW_DATA or in ~/.keras/datasets.
Threads: any.
"""
import gzip
import os
import types
import zipfile

import numpy as np

__version__ = "2.2.4-tf"
_ROW = 1 + 3 * 32 * 32                  # bytes of an image of CIFAR-10's binary files: label, planes


def _folders():
    from pyflow import config
    named = config.value("PYFLOW_DATA")
    return ([named] if named else []) + [os.path.expanduser("~/.keras/datasets")]


def load_mnist(path="mnist.npz"):
    """((images, labels), (test images, test labels)): uint8 [n, 28, 28] and [n].

    path: a .npz of Keras's, looked for as it is and in the folders; else MNIST's idx files in the
    folders. FileNotFoundError says where was looked.
    """
    for place in (path, *(os.path.join(folder, path) for folder in _folders())):
        if os.path.isfile(place):
            try:
                with np.load(place, allow_pickle=False) as file:
                    return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])
            except (ValueError, KeyError, zipfile.BadZipFile) as e:
                raise ValueError(f"{place}: not Keras's mnist.npz: {e}") from e
    from pyflow.examples.tutorials.mnist import input_data
    paths = input_data._find(_folders()[0])
    images, labels, test_images, test_labels = (
        input_data.extract_labels(p) if "labels" in os.path.basename(p) else
        input_data.extract_images(p)[..., 0] for p in paths)
    return (images, labels), (test_images, test_labels)


def load_cifar10():
    """((images, labels), (test images, test labels)): uint8 [n, 32, 32, 3] and [n, 1], from
    CIFAR-10's binary files data_batch_1.bin to data_batch_5.bin and test_batch.bin, compressed
    (.gz) or not.  FileNotFoundError names those that are missing."""
    names = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
    tried = []
    for folder in _folders():
        for place in (folder, os.path.join(folder, "cifar10"),
                      os.path.join(folder, "cifar-10-batches-bin")):
            found = [_existing(os.path.join(place, name)) for name in names]
            if all(found):
                parts = [_batch(path) for path in found]
                return tuple(np.concatenate(p) for p in zip(*parts[:-1])), parts[-1]
            tried.append(f"{place} lacks {', '.join(n for n, p in zip(names, found) if not p)}")
    raise FileNotFoundError("CIFAR-10 is not there, and nothing is downloaded: " + "; ".join(tried))


def _existing(path):
    return next((p for p in (path, path + ".gz") if os.path.isfile(p)), None)


def _batch(path):
    """(images, labels) of one binary file.  ValueError if it is not a whole number of images."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = np.frombuffer(file.read(10000 * _ROW + 1), np.uint8)
    if data.size == 0 or data.size % _ROW or data[::_ROW].max() > 9:
        raise ValueError(f"{path}: not a binary file of CIFAR-10: {data.size} bytes, expected rows "
                         f"of {_ROW} that begin with a label below 10")
    rows = data.reshape(-1, _ROW)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, :1]


def _module(name, load_data):
    made = types.ModuleType(f"pyflow.keras.datasets.{name}", load_data.__doc__)
    made.load_data = load_data
    return made


mnist = _module("mnist", load_mnist)
cifar10 = _module("cifar10", load_cifar10)
