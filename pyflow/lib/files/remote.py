"""Paths with a scheme, "s3://bucket/x" or "memory://x", by the package fsspec where it is there.

Invariants
  1. A path with a scheme is `word://...`; "file://" is a local path, which needs no package.
  2. Failures are tf.errors: NotFoundError, PermissionDeniedError, ..., UnimplementedError where
     fsspec, or what it needs for the scheme, is not installed.
  3. Kernels get here through `serve`: bytes go by a file that the kernel opened.

Who calls it: gfile, record_files, the executor.  Threads: any.

Example:  `open_file("memory://a/b", "rb").read()`.
"""
import os
import re
import shutil

from pyflow.framework import errors

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
READ, WRITE, MATCH = 1, 2, 3            # kernel.h's PF_FILES_*


def is_remote(path):
    """Whether a path has a scheme, and that is not "file"."""
    found = _SCHEME.match(path) if isinstance(path, str) else None
    return found is not None and found[1] != "file"


def local(path):
    """A local path without "file://"."""
    path = os.fspath(path)
    return path[7:] if isinstance(path, str) and path.startswith("file://") else path


def local_name(path):
    """As `local`, as text: a path may be given as bytes, as TensorFlow itself gives some back."""
    return local(os.fsdecode(path))


def filesystem(path):
    """(fsspec's file system, its name of the path)."""
    try:
        import fsspec
        return fsspec.core.url_to_fs(path)
    except ImportError as error:
        scheme = _SCHEME.match(path)[1]
        raise errors.UnimplementedError(None, None, f"{path}: paths with a scheme need the package "
                                        f"fsspec and what it needs for {scheme}:// ({error}); pip "
                                        "install fsspec") from None
    except ValueError as error:         # a scheme nobody knows
        raise errors.UnimplementedError(None, None, f"{path}: {error}") from None


def translated(function):
    """The function, its failures as tf.errors."""
    def call(path, *args, **kwargs):
        try:
            return function(path, *args, **kwargs)
        except errors.OpError:
            raise
        except OSError as error:
            raise _of(error, path) from None
        except Exception as error:      # of the network, credentials, ...: fsspec has no base class
            raise errors.UnknownError(None, None, f"{path}: {type(error).__name__}: "
                                      f"{error}") from None
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


_CLASSES = ((FileNotFoundError, errors.NotFoundError, "No such file or directory"),
            (PermissionError, errors.PermissionDeniedError, "Permission denied"),
            (FileExistsError, errors.AlreadyExistsError, "File exists"),
            (IsADirectoryError, errors.FailedPreconditionError, "Is a directory"),
            (NotADirectoryError, errors.FailedPreconditionError, "Not a directory"))


def _of(error, path):
    for kind, made, text in _CLASSES:
        if isinstance(error, kind):
            return made(None, None, f"{path}; {text}")
    return errors.UnknownError(None, None, f"{path}; {error}")


@translated
def open_file(path, mode="rb", encoding=None):
    """An open file, as `open` makes one; the folders above a file that is written are made."""
    system, name = filesystem(path)
    if "r" not in mode:
        system.makedirs(os.path.dirname(name), exist_ok=True)
    if "b" in mode:
        return system.open(name, mode)
    return system.open(name, mode, encoding=encoding or "utf-8")


@translated
def match(pattern):
    """Paths with the scheme that match (*, ?, [...]), sorted."""
    system, name = filesystem(pattern)
    return sorted(system.unstrip_protocol(found) for found in system.glob(name))


@translated
def serve(path, what, fd):
    """What kernels ask for: READ, WRITE or MATCH, by the open file of descriptor `fd`."""
    with os.fdopen(os.dup(fd), "rb" if what == WRITE else "wb") as file:
        if what == READ:
            with open_file(path, "rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        elif what == WRITE:
            with open_file(path, "wb") as target:
                shutil.copyfileobj(file, target, 1 << 20)
        else:
            for name in match(path):
                file.write(name.encode("utf-8", "surrogateescape") + b"\0")
