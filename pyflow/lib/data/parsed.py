"""Datasets of parsed files: CSV, tf.Examples; and classes in other proportions.

Invariants
  1. A CSV record is a line: a quoted field may hold the delimiter, no line's end.
  2. Everything here is made of the transformations of dataset.py and experimental.py, so that
     iterators of it can be saved.

Thread: the one building the graph.
Source: TF 1.15 tf.data.experimental.{CsvDataset, make_csv_dataset, make_batched_features_dataset,
parse_example_dataset, rejection_resample}.

Example:  `tf.data.experimental.CsvDataset("a.csv", [tf.float32, [0]], header=True)`
"""
import collections
import csv

import numpy as np

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.errors import InvalidArgumentError
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.data import structure
from pyflow.lib.data.dataset import AUTOTUNE, Dataset
from pyflow.lib.data.experimental import scan, shuffle_and_repeat
from pyflow.lib.data.readers import TextLineDataset, TFRecordDataset
from pyflow.lib.files import remote
from pyflow.lib.math import reductions
from pyflow.lib.parsing import parsing
from pyflow.lib.random import random_functions
from pyflow.lib.strings.string_data_functions import decode_csv
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops


# -------------------------------------------------------------------------------------------- CSV
class CsvDataset(Dataset):
    """The records of CSV files: tuples of scalars, one a column.

    filenames: a string, a tensor or a Dataset of them; record_defaults: for each column a DType
    (it is required) or a default of one element; header: each file's first line is skipped;
    select_cols: indices of the columns that count, rising; the rest as tf.decode_csv's. A record is
    a line. InvalidArgumentError in the step for records that do not fit.
    TF: tf.data.experimental.CsvDataset."""

    def __init__(self, filenames, record_defaults, compression_type=None, buffer_size=None,
                 header=False, field_delim=",", use_quote_delim=True, na_value="",
                 select_cols=None):
        defaults = [ops.convert_to_tensor([], d) if isinstance(d, dtypes.DType) else
                    ops.convert_to_tensor(d) for d in record_defaults]
        types = tuple(d.dtype.base_dtype for d in defaults)

        def columns(line):
            return tuple(decode_csv(line, defaults, field_delim, use_quote_delim,
                                    na_value=na_value, select_cols=select_cols))
        lines = _lines(filenames, compression_type, buffer_size, header)
        made = lines.map(columns)
        super().__init__(made._variant_tensor, types, tuple(TensorShape([]) for _ in types),
                         [made])


def _lines(filenames, compression_type, buffer_size, header):
    """The lines of the files, each without its first one where that is a header."""
    def of(name):
        lines = TextLineDataset(name, compression_type, buffer_size)
        return lines.skip(1) if header else lines
    if isinstance(filenames, Dataset):
        return filenames.flat_map(of)
    names = ops.convert_to_tensor(filenames, dtypes.string, name="filenames")
    if not header:
        return TextLineDataset(names, compression_type, buffer_size)
    if names.shape.ndims == 0:
        names = tensors.expand_dims(names, 0)
    return Dataset.from_tensor_slices(names).flat_map(of)


def make_csv_dataset(file_pattern, batch_size, column_names=None, column_defaults=None,
                     label_name=None, select_columns=None, field_delim=",", use_quote_delim=True,
                     na_value="", header=True, num_epochs=None, shuffle=True,
                     shuffle_buffer_size=10000, shuffle_seed=None, prefetch_buffer_size=None,
                     num_parallel_reads=None, sloppy=False, num_rows_for_inference=100,
                     compression_type=None, ignore_errors=False):
    """Batches of CSV records: {column: vector}, or (that, labels) with a label_name; dtypes int32,
    int64, float32, float64 or string.

    file_pattern: a pattern or a list of them. column_names: the header's of the first file where
    None; column_defaults: as CsvDataset's record_defaults; types are guessed from the first
    num_rows_for_inference lines (None: all) where None. select_columns: names or indices.
    num_epochs None: for ever, and only whole batches. ValueError for names that do not fit,
    InvalidArgumentError where no file matches. TF: tf.data.experimental.make_csv_dataset."""
    names = _matching(file_pattern)
    rows = _Rows(names, field_delim, use_quote_delim, compression_type)
    if column_names is None:
        if not header:
            raise ValueError("Cannot infer column names without a header line.")
        column_names = rows.header()
    if len(column_names) != len(set(column_names)):
        raise ValueError("Cannot have duplicate column names.")
    chosen = _chosen(select_columns, column_names)
    if column_defaults is None:
        column_defaults = rows.guessed(chosen or range(len(column_names)), na_value, header,
                                       num_rows_for_inference)
    if chosen is not None:
        column_names = [column_names[i] for i in chosen]
    if len(column_defaults) != len(column_names):
        raise ValueError(f"{len(column_defaults)} column_defaults for {len(column_names)} columns "
                         f"{column_names}")
    if label_name is not None and label_name not in column_names:
        raise ValueError("`label_name` provided must be one of the columns.")
    dataset = Dataset.from_tensor_slices(names)
    if shuffle:
        dataset = dataset.shuffle(len(names), shuffle_seed)
    dataset = dataset.interleave(lambda name: CsvDataset(
        name, column_defaults, compression_type, None, header, field_delim, use_quote_delim,
        na_value, chosen), num_parallel_reads or 1, 1, num_parallel_calls=num_parallel_reads or 1)
    if ignore_errors:
        from pyflow.lib.data.experimental import ignore_errors as without
        dataset = dataset.apply(without())
    dataset = _shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)

    def by_name(*columns):
        features = collections.OrderedDict(zip(column_names, columns))
        if label_name is None:
            return features
        label = features.pop(label_name)
        return features, label
    return dataset.map(by_name).prefetch(
        AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _matching(file_pattern):
    import glob
    patterns = [file_pattern] if isinstance(file_pattern, (str, bytes)) else list(file_pattern)
    found = []
    for pattern in patterns:
        pattern = pattern.decode() if isinstance(pattern, bytes) else pattern
        found += remote.match(pattern) if remote.is_remote(pattern) else sorted(glob.glob(
            remote.local(pattern)))
    if not found:
        raise InvalidArgumentError(None, None, f"No files match `file_pattern` {file_pattern}.")
    return found


def _chosen(select_columns, names):
    """Indices of the columns that count, rising; None: all."""
    if select_columns is None:
        return None
    found = [names.index(c) if isinstance(c, str) and c in names else c for c in select_columns]
    wrong = [c for c in found if not isinstance(c, (int, np.integer)) or not 0 <= c < len(names)]
    if wrong:
        raise ValueError(f"select_columns has no columns of {names}: {wrong}")
    if len(found) != len(set(found)):
        raise ValueError("`select_columns` must not have duplicate columns.")
    return sorted(found)


class _Rows:
    """The first rows of files, read while the graph is built."""

    def __init__(self, names, delimiter, quotes, compression):
        self.names, self.compression = names, compression
        self.form = dict(delimiter=delimiter,
                         quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE)

    def _open(self, name):
        import gzip
        import io
        import zlib
        file = remote.open_file(name) if remote.is_remote(name) else open(remote.local(name), "rb")
        with file:
            data = file.read()
        data = {"GZIP": gzip.decompress, "ZLIB": zlib.decompress}.get(
            self.compression or "", bytes)(data)
        return csv.reader(io.StringIO(data.decode("utf-8")), **self.form)

    def header(self):
        """The names in the first line of every file; ValueError where files differ."""
        first = None
        for name in self.names:
            columns = next(self._open(name), [])
            if first is not None and columns != first:
                raise ValueError("All input CSV files must have the same column names in the "
                                 f"header row: {name} has {columns}, {self.names[0]} has {first}")
            first = columns
        return first

    def guessed(self, columns, na_value, header, count):
        """The narrowest type that all values of each column have: int32, int64, float32, float64,
        string."""
        kinds, seen = {i: 0 for i in columns}, 0
        for name in self.names:
            for number, row in enumerate(self._open(name)):
                if header and not number:
                    continue
                if count is not None and seen >= count:
                    break
                seen += 1
                for i in kinds:
                    if i >= len(row):
                        raise ValueError(f"Problem inferring types: {name} has a row of {len(row)} "
                                         f"columns, at least {i + 1} are expected")
                    if row[i] not in ("", na_value):
                        kinds[i] = max(kinds[i], _kind(row[i]))
        return [ops.convert_to_tensor([], _GUESSED[k]) for k in kinds.values()]


_GUESSED = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


def _kind(text):
    """Which of _GUESSED holds the value."""
    try:
        value = int(text)
        return 0 if -2 ** 31 <= value < 2 ** 31 else 1 if -2 ** 63 <= value < 2 ** 63 else 2
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return 4
    return 2 if not np.isfinite(value) or abs(value) <= np.finfo(np.float32).max else 3


def _shuffled(dataset, num_epochs, shuffle, buffer_size, seed):
    if shuffle:
        return dataset.apply(shuffle_and_repeat(buffer_size, num_epochs, seed))
    return dataset if num_epochs == 1 else dataset.repeat(num_epochs)


# ---------------------------------------------------------------------------------------- Examples
def parse_example_dataset(features, num_parallel_calls=1):
    """tf.parse_example of each element, a vector of serialized tf.Examples, strings [batch]: dicts
    of tensors and SparseTensors. features: as there; ValueError for none. num_parallel_calls: as
    `map`'s.
    TF: tf.data.experimental.parse_example_dataset."""
    if features is None:
        raise ValueError("Argument `features` is required, but not specified.")
    return lambda dataset: dataset.map(lambda records: parsing.parse_example(records, features),
                                       num_parallel_calls)


def make_batched_features_dataset(file_pattern, batch_size, features, reader=TFRecordDataset,
                                  label_key=None, reader_args=None, num_epochs=None, shuffle=True,
                                  shuffle_buffer_size=10000, shuffle_seed=None,
                                  prefetch_buffer_size=None, reader_num_threads=None,
                                  parser_num_threads=None, sloppy_ordering=False,
                                  drop_final_batch=False):
    """Batches of tf.Examples out of files: {key: tensor}, or (that, labels) with a label_key;
    dtypes and shapes are those that `features` say, [batch] in front.

    reader: makes a Dataset of strings of a name and *reader_args. num_epochs None: for ever.
    InvalidArgumentError in the step where no file matches, ValueError for a label_key that features
    lack.
    TF: tf.data.experimental.make_batched_features_dataset."""
    if label_key is not None and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` "
                         f"keys: {sorted(features)}.")
    reader_num_threads, parser_num_threads = reader_num_threads or 1, parser_num_threads or 2
    dataset = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    dataset = dataset.interleave(lambda name: reader(name, *(reader_args or ())),
                                 reader_num_threads, 1, num_parallel_calls=reader_num_threads)
    if dataset.output_types == (dtypes.string, dtypes.string):      # of a reader with keys
        dataset = dataset.map(lambda _, record: record)
    dataset = _shuffled(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads))
    if label_key is not None:
        dataset = dataset.map(lambda parsed: (
            {key: value for key, value in parsed.items() if key != label_key}, parsed[label_key]))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


# ------------------------------------------------------------------------------------- proportions
def rejection_resample(class_func, target_dist, initial_dist=None, seed=None):
    """(class, element): elements are left out so that classes come in other proportions.

    class_func: of an element, its class, an int scalar in [0, n), else InvalidArgumentError in the
    step; target_dist: [n] floats that add up to 1; initial_dist: the classes' proportions in the
    dataset, estimated as it is read where None. An element of class c is kept with probability
    target[c] / initial[c], over the largest of these. ValueError for a class that is no scalar and
    for distributions of different lengths, TypeError for a class that is no integer.
    TF: tf.data.experimental.rejection_resample."""
    def apply(dataset):
        one = structure.is_nested(dataset._types) and isinstance(dataset._types, tuple)

        def with_class(*element):
            return _class_of(class_func, element), element if one else element[0]
        pairs = dataset.map(with_class)
        wanted = _floats(target_dist, "target_dist")
        if initial_dist is not None:
            given = _floats(initial_dist, "initial_dist")
            return pairs.filter(lambda kind, _: _kept(kind, wanted, given, seed))
        counted = pairs.apply(scan(tensors.zeros_like(wanted) + 1.0, _counting))
        return counted.filter(lambda kind, _, seen: _kept(kind, wanted, seen, seed)).map(
            lambda kind, element, _: (kind, element))
    return apply


def _class_of(class_func, element):
    kind = ops.convert_to_tensor(class_func(*element))
    if kind.dtype not in (dtypes.int16, dtypes.int32, dtypes.int64):
        raise TypeError(f"rejection_resample: class_func must return a scalar of int32 or int64, "
                        f"but returned one of {kind.dtype.name}")
    if not kind.shape.is_compatible_with([]):
        raise ValueError(f"rejection_resample: class_func must return a scalar, but returned a "
                         f"tensor of shape {kind.shape}")
    kind.set_shape([])
    return kind


def _floats(distribution, name):
    return tensors.cast(ops.convert_to_tensor(distribution, name=name), dtypes.float32)


def _counting(counts, pair):
    """Counts with the element's class, and the element beside them: counted, then judged, as in
    TF."""
    kind, element = pair
    classes = tensors.range_(tensors.size(counts, out_type=dtypes.int64))
    here = tensors.cast(logic_ops.Equal(classes, tensors.cast(kind, dtypes.int64)), dtypes.float32)
    counts = counts + here
    return counts, (kind, element, counts)


def _kept(kind, target, initial, seed):
    shares = initial / reductions.reduce_sum(initial)
    ratio = target / (shares + np.finfo(np.float32).tiny)       # 0 of a class that is in neither
    share = tensors.gather(ratio, kind) / reductions.reduce_max(ratio)
    return logic_ops.Less(random_functions.random_uniform([], seed=seed), share)


_FUNCTIONS = (CsvDataset, make_csv_dataset, parse_example_dataset, make_batched_features_dataset,
              rejection_resample)
PUBLIC = {f"{module}.{f.__name__}": f for f in _FUNCTIONS
          for module in ("data.experimental", "contrib.data")}
