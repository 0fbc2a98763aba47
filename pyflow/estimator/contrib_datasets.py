"""tf.contrib.learn.datasets: tables of numbers with a label, from CSV files.

Invariant: files are text; nothing is fetched.

Threads: any.

    iris = tf.contrib.learn.datasets.base.load_csv_with_header("iris.csv", np.int32, np.float32)
"""
import collections
import csv

import numpy as np

Dataset = collections.namedtuple("Dataset", "data target")
Datasets = collections.namedtuple("Datasets", "train validation test")


def _split(row, target_column):
    target = row.pop(target_column)
    return row, target


def load_csv_with_header(filename, target_dtype, features_dtype, target_column=-1):
    """Dataset(data [rows, n], target [rows]) of a CSV file whose first line begins with the numbers
    of rows and features.

    target_column: which column is the label. ValueError for lines that do not fit.
    TF: tf.contrib.learn.datasets.base.load_csv_with_header."""
    with open(filename, encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        try:
            header = next(lines)
            rows, features = int(header[0]), int(header[1])
        except (StopIteration, ValueError, IndexError) as error:
            raise ValueError(f"{filename}: line 1: expected the numbers of rows and features, got "
                             f"no such header: {error}") from error
        return _table(filename, [row for row in lines if row], target_dtype, features_dtype,
                      target_column, rows, features)


def load_csv_without_header(filename, target_dtype, features_dtype, target_column=-1):
    """Dataset(data, target) of a CSV file without a header.
    TF: tf.contrib.learn.datasets.base.load_csv_without_header."""
    with open(filename, encoding="utf-8", newline="") as file:
        return _table(filename, [row for row in csv.reader(file) if row], target_dtype,
                      features_dtype, target_column)


def _table(filename, lines, target_dtype, features_dtype, target_column, rows=None, features=None):
    if rows is not None and len(lines) < rows:
        raise ValueError(f"{filename}: expected {rows} rows, got {len(lines)}")
    data, target = [], []
    for number, line in enumerate(lines[:rows]):
        try:
            row, label = _split(list(line), target_column)
            data.append(np.asarray(row, dtype=features_dtype))
            target.append(np.asarray(label).astype(target_dtype))
        except (ValueError, IndexError) as error:
            raise ValueError(f"{filename}: row {number + 1}: {error}") from error
        if len(row) != len(data[0]) or features is not None and len(row) != features:
            raise ValueError(f"{filename}: row {number + 1} has {len(row)} features, expected "
                             f"{features or len(data[0])}")
    return Dataset(np.array(data, features_dtype), np.array(target, target_dtype))


def load_iris(data_path=None):
    """Fisher's irises: data [150, 4], target [150] of 0, 1, 2; from data_path, a CSV file with the
    header `150,4,...`. ValueError without it: the data set is not part of this package.
    TF: tf.contrib.learn.datasets.base.load_iris."""
    return load_csv_with_header(_needed(data_path, "iris"), np.int64, np.float64)


def load_boston(data_path=None):
    """Houses of Boston, from data_path, a CSV file with the header `506,13,...` and a line of
    names. ValueError without it. TF: tf.contrib.learn.datasets.base.load_boston."""
    with open(_needed(data_path, "boston"), encoding="utf-8", newline="") as file:
        lines = [row for row in csv.reader(file) if row]
    return _table(data_path, lines[2:], np.float64, np.float64, -1)


def _needed(data_path, name):
    if not data_path:
        raise ValueError(f"The data set {name} is not part of this package: give data_path, a CSV "
                         "file of it")
    return data_path


def shrink_csv(filename, ratio):
    """Writes every ratio-th line of a file, the first one always, into FILE_small.csv.
    TF: tf.contrib.learn.datasets.base.shrink_csv."""
    target = filename.replace(".csv", "_small.csv")
    with open(filename, encoding="utf-8", newline="") as source, \
            open(target, "w", encoding="utf-8", newline="") as out:
        for number, line in enumerate(source):
            if number % ratio == 0:
                out.write(line)


PUBLIC = {f"contrib.learn.datasets.base.{made.__name__}": made for made in (
    Dataset, Datasets, load_csv_with_header, load_csv_without_header, load_iris, load_boston,
    shrink_csv)}
PUBLIC.update({f"contrib.learn.datasets.{made.__name__}": made for made in (
    load_iris, load_boston)})
