"""Datasets of files: lines, TFRecords, records of one length.

Invariants
  1. Files are read in the order of `filenames`; with num_parallel_reads in turns, in a
     fixed order.
  2. Elements are scalar strings.

Thread: the one building the graph.  Source: TF 1.15 data/ops/readers.py.

Example:  `tf.data.TFRecordDataset(["a.tfrecord", "b.tfrecord"]).map(parse)`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.data.dataset import Dataset
from pyflow.ops.dataset import dataset_ops


def _number(value, name, default=0):
    return ops.convert_to_tensor(default if value is None else value, dtypes.int64, name=name)


class _FileDataset(Dataset):
    """Strings out of files: a tensor of names, or a dataset of them."""

    def __init__(self, filenames, read, num_parallel_reads):
        def of(names):
            return Dataset(read(names), dtypes.string, TensorShape([]))
        if not isinstance(filenames, Dataset):
            names = ops.convert_to_tensor(filenames, dtypes.string, name="filenames")
            if names.shape.ndims not in (None, 0, 1):
                raise ValueError("filenames must be a scalar or a vector of strings, got shape "
                                 f"{names.shape}")
            if num_parallel_reads is None:
                super().__init__(read(names), dtypes.string, TensorShape([]))
                return
            filenames = Dataset.from_tensor_slices(names if names.shape.ndims else [filenames])
        if filenames.output_types != dtypes.string:
            raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")
        made = filenames.flat_map(of) if num_parallel_reads is None else filenames.interleave(
            of, num_parallel_reads, 1, num_parallel_calls=num_parallel_reads)
        super().__init__(made._variant_tensor, dtypes.string, TensorShape([]), [filenames])


class TextLineDataset(_FileDataset):
    """The lines of text files, without their ends (LF or CR LF).

    filenames: a tensor, or a Dataset, of strings; compression_type: "", "ZLIB" or "GZIP";
    buffer_size: bytes read at once. NotFoundError in the step for no such file.
    TF: tf.data.TextLineDataset."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        compression = ops.convert_to_tensor(compression_type or "", dtypes.string)
        size = _number(buffer_size, "buffer_size")
        super().__init__(filenames, lambda names: dataset_ops.TextLineDataset(
            names, compression, size), num_parallel_reads)


class TFRecordDataset(_FileDataset):
    """The records of TFRecord files, their checksums verified.

    As TextLineDataset. DataLossError for damaged records. TF: tf.data.TFRecordDataset."""

    def __init__(self, filenames, compression_type=None, buffer_size=None, num_parallel_reads=None):
        compression = ops.convert_to_tensor(compression_type or "", dtypes.string)
        size = _number(buffer_size, "buffer_size")
        super().__init__(filenames, lambda names: dataset_ops.TFRecordDataset(
            names, compression, size), num_parallel_reads)


class FixedLengthRecordDataset(_FileDataset):
    """Records of record_bytes each, after header_bytes and before footer_bytes of each file.

    InvalidArgumentError in the step where the rest is no multiple of record_bytes.
    TF: tf.data.FixedLengthRecordDataset."""

    def __init__(self, filenames, record_bytes, header_bytes=None, footer_bytes=None,
                 buffer_size=None, compression_type=None, num_parallel_reads=None):
        sizes = [_number(header_bytes, "header_bytes"), _number(record_bytes, "record_bytes"),
                 _number(footer_bytes, "footer_bytes"), _number(buffer_size, "buffer_size")]
        compression = ops.convert_to_tensor(compression_type or "", dtypes.string)
        super().__init__(filenames, lambda names: dataset_ops.FixedLengthRecordDatasetV2(
            names, *sizes, compression), num_parallel_reads)


PUBLIC = {"data.TextLineDataset": TextLineDataset, "data.TFRecordDataset": TFRecordDataset,
          "data.FixedLengthRecordDataset": FixedLengthRecordDataset}
