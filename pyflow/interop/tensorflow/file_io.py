"""tensorflow.python.lib.io.file_io: whole files, and the class behind tf.gfile.GFile.

    from tensorflow.python.lib.io import file_io
    file_io.write_string_to_file(path, "text")
    with file_io.FileIO(path, mode="r") as file: ...

Paths are local, or have a scheme; failures are tf.errors, as of tf.gfile.
"""
import os
import uuid
import zlib

import pyflow as tf

FileIO = tf.gfile.GFile
_BLOCK = 1 << 24


def read_file_to_string(filename, binary_mode=False):
    """All of a file: text, or bytes if binary_mode."""
    with FileIO(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def write_string_to_file(filename, file_content):
    """Makes the file of text or bytes."""
    with FileIO(filename, "w") as file:
        file.write(file_content)


def atomic_write_string_to_file(filename, contents, overwrite=True):
    """As write_string_to_file, by a file beside it that is renamed: nobody sees half of it."""
    beside = f"{os.fspath(filename)}.tmp{uuid.uuid4().hex}"
    write_string_to_file(beside, contents)
    try:
        tf.gfile.Rename(beside, filename, overwrite)
    except Exception:
        tf.gfile.Remove(beside)
        raise


def filecmp(filename_a, filename_b):
    """Whether two files have the same bytes."""
    if FileIO(filename_a, "rb").size() != FileIO(filename_b, "rb").size():
        return False
    return file_crc32(filename_a) == file_crc32(filename_b)


def file_crc32(filename, block_size=_BLOCK):
    """The CRC-32 of a file's bytes, as "0x" and eight digits."""
    crc = 0
    with FileIO(filename, "rb") as file:
        while chunk := file.read(block_size):
            crc = zlib.crc32(chunk, crc)
    return f"{crc & 0xffffffff:#010x}"
