"""Files read and written whole, as strings: tf.read_file, tf.write_file, tf.matching_files."""
from pyflow.ops.transfer.file_ops import MatchingFiles, ReadFile, WriteFile


def read_file(filename, name=None):
    """The bytes of a file, a scalar string; read each time it is evaluated. TF: tf.read_file.
    filename: a scalar string. NotFoundError for no such file."""
    return ReadFile(filename, name=name)


def write_file(filename, contents, name=None):
    """The Operation that writes `contents` to a file, whose folders are made. TF: tf.write_file.
    Both are scalar strings. FailedPreconditionError or PermissionDeniedError where it cannot."""
    return WriteFile(filename, contents, name=name)


def matching_files(pattern, name=None):
    """A vector of the paths that match `pattern` (*, ?, [...]). TF: tf.matching_files.
    pattern: a scalar or vector of strings; none that matches gives an empty vector, no error;
    ValueError for another rank."""
    return MatchingFiles(pattern, name=name)


PUBLIC = {
    "read_file": read_file, "io.read_file": read_file, "write_file": write_file,
    "io.write_file": write_file, "matching_files": matching_files,
    "io.matching_files": matching_files,
}
