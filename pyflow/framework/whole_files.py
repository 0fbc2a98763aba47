"""Files that are read whole: none is read that is larger than what it could hold.

    data = read("graph.pb")             # OSError (EFBIG) from 2 GB on, before a byte is read
    text = unpacked(data, "t.json.gz")  # gzip, whose content has a bound as well

Threads: any; pure but for reading the file.
"""
import errno
import os
import stat
import zlib

MESSAGE_BYTES = (1 << 31) - 1       # protobuf reads no larger message
TRACE_BYTES = 1 << 30


def read(path, most=MESSAGE_BYTES):
    """The bytes of a file of at most `most`; a pipe or device is read up to there.  OSError."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            if status.st_size > most:
                raise _too_large(path, f"{_size(status.st_size)}", most)
            return file.read()
        data = file.read(most + 1)
    if len(data) > most:
        raise _too_large(path, f"more than {_size(most)}", most)
    return data


def unpacked(data, path, most=TRACE_BYTES):
    """What gzip packed, at most `most` bytes.  OSError for more, or for what is damaged."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        made = unpacker.decompress(data, most)
    except zlib.error as error:
        raise OSError(errno.EINVAL, f"not gzip, or damaged: {error}", os.fspath(path)) from None
    if unpacker.unconsumed_tail:
        raise _too_large(path, f"more than {_size(most)} unpacked", most)
    if not unpacker.eof:
        raise OSError(errno.EINVAL, "gzip's data ends early", os.fspath(path))
    return made


def looks_like_text(data):
    """Whether the beginning of a file could be text: no zero bytes."""
    return b"\0" not in data[:4096]


def _too_large(path, has, most):
    return OSError(errno.EFBIG, f"it has {has}, expected at most {_size(most)}: a message of "
                                f"protobuf has less than 2 GB" if most == MESSAGE_BYTES else
                                f"it has {has}, expected at most {_size(most)}", os.fspath(path))


def _size(count):
    return f"{count / 1e9:.1f} GB" if count >= 10 ** 8 else f"{count:,} bytes"
