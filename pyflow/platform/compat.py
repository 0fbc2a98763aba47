"""tf.compat: text and bytes."""
import contextlib
import numbers

import numpy as np


def as_bytes(bytes_or_text, encoding="utf-8"):
    """bytes of a str or bytes; TypeError for anything else."""
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text, encoding="utf-8"):
    """str of a str or bytes; TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value):
    """as_str of strings, str() of everything else."""
    return as_str(value) if isinstance(value, bytes) else str(value)


def path_to_str(path):
    """str of a path-like object."""
    return as_str_any(path.__fspath__()) if hasattr(path, "__fspath__") else path


def forward_compatible(year, month, day):
    """Always True: nothing waits for older readers here."""
    return True


@contextlib.contextmanager
def forward_compatibility_horizon(year, month, day):
    """Context in which forward_compatible() is of a program of that day: as everywhere here."""
    yield


integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)
bytes_or_text_types = (bytes, str)
