"""tf.data datasets of HDF5 files, by the package h5py, where it is installed.

Invariants
  1. Rows are read `rows_per_read` at a time, by Python; what follows needs no GIL.
  2. The file is open only while it is read, or looked at; a path may have a scheme of fsspec's.

Threads: the one building the graph; the executor's Python lane reads.

Example:
    from pyflow.interop import hdf5
    dataset = hdf5.dataset("train.h5", {"x": "images", "y": "labels"}).shuffle(1000).batch(32)
"""
import contextlib
import os

import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.data import structure
from pyflow.lib.data.dataset import Dataset
from pyflow.lib.files import remote


@contextlib.contextmanager
def _opened(path):
    try:
        import h5py
    except ImportError:
        raise ImportError("HDF5 files need the package h5py: pip install h5py") from None
    path = os.fspath(path)
    with contextlib.ExitStack() as open_files:
        source = remote.local(path)
        if remote.is_remote(path):
            source = open_files.enter_context(remote.open_file(path, "rb"))
        try:
            file = open_files.enter_context(h5py.File(source, "r"))
        except FileNotFoundError:
            raise errors.NotFoundError(None, None, f"{path}; No such file or directory") from None
        except OSError as error:
            raise errors.DataLossError(None, None, f"{path} is no HDF5 file: {error}") from None
        yield file


def _array(file, path, name):
    """The HDF5 dataset of a name, with rows."""
    import h5py
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        names = []
        file.visititems(lambda key, value: names.append(key) if isinstance(value, h5py.Dataset)
                        else None)
        raise errors.NotFoundError(None, None, f"{path} has no HDF5 dataset {name!r}; it has "
                                   f"{', '.join(names) or 'none'}")
    if not found.shape:
        raise errors.InvalidArgumentError(None, None, f"{name!r} of {path} is a scalar: it has no "
                                          "rows")
    return found


def _type_of(array):
    import h5py
    return dtypes.string if h5py.check_string_dtype(array.dtype) else dtypes.as_dtype(array.dtype)


def dataset(path, names, rows_per_read=1024):
    """The rows (of dimension 0) of HDF5 datasets in a file: a tf.data.Dataset.

    names: of one HDF5 dataset ("group/x"), or a tuple or dict of them, as elements are to be; all
    have equally many rows. Dtypes and shapes are the file's, strings tf.string. rows_per_read: rows
    read at once. NotFoundError for no such file or name, DataLossError for what is no HDF5 file,
    InvalidArgumentError for scalars and different numbers of rows."""
    flat = structure.flatten(names)
    if rows_per_read < 1:
        raise ValueError(f"rows_per_read must be > 0, got {rows_per_read}")
    with _opened(path) as file:
        arrays = [_array(file, path, name) for name in flat]
        types = [_type_of(array) for array in arrays]
        shapes = [TensorShape((None,) + array.shape[1:]) for array in arrays]
        rows = {array.shape[0] for array in arrays}
    if len(rows) != 1:
        raise errors.InvalidArgumentError(None, None, f"the HDF5 datasets {flat} of {path} have "
                                          f"different numbers of rows: {sorted(rows)}")

    def blocks():
        with _opened(path) as file:
            arrays = [_array(file, path, name) for name in flat]
            for first in range(0, arrays[0].shape[0], rows_per_read):
                yield tuple(np.asarray(array[first:first + rows_per_read]) for array in arrays)
    made = Dataset.from_generator(blocks, tuple(types), tuple(shapes)).unbatch()
    return made.map(lambda *parts: structure.pack(names, parts))
