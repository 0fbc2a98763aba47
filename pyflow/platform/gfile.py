"""tf.gfile: TF's file functions, on local paths and, by fsspec, on those with a scheme ("s3://x").

Failures are tf.errors exceptions, as in TF.
"""
import errno
import functools
import glob
import os
import shutil
import stat

from pyflow.framework import errors
from pyflow.lib.files import remote


def _checked(function):
    """OSError -> the tf.errors class TF raises."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except OSError as e:
            raise errors.of_os_error(e) from None
    return call


@remote.translated
def _elsewhere(path, method, *args, **kwargs):
    """A method of fsspec's file system of a path with a scheme."""
    system, name = remote.filesystem(path)
    return getattr(system, method)(name, *args, **kwargs)


class GFile:
    r"""A file of text, or of bytes with "b" in the mode; opened at its first use.

    name: its path. mode: "r", "w", "a", with "+" or "b".

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/notes.txt"
        >>> with tf.gfile.GFile(path, "w") as file:
        ...     file.write("two\nlines\n")
        >>> tf.gfile.GFile(path).readline()
        'two\n'
    """

    def __init__(self, name, mode="r"):
        self._name, self._mode, self._file = remote.local(name), mode, None

    def __repr__(self):
        return f"<tf.gfile.GFile {self._name!r} mode={self._mode!r}>"

    name = property(lambda self: self._name, doc="The path.")
    mode = property(lambda self: self._mode, doc="The mode it is opened with.")

    @property
    def _open(self):
        if self._file is None:
            encoding = None if "b" in self._mode else "utf-8"
            opened = remote.open_file if remote.is_remote(self._name) else _checked(open)
            self._file = opened(self._name, self._mode, encoding=encoding)
        return self._file

    def read(self, n=-1):
        """The next `n` characters or bytes; all that is left without n. NotFoundError for no such
        file."""
        return self._open.read(n)

    def write(self, file_content):
        """Writes text, as UTF-8, or bytes as they are, whatever the mode. A new file of mode "r+" is
        made by it."""
        if self._file is None and self._mode.startswith("r+") and not Exists(self._name):
            with GFile(self._name, "w") as made:
                made.write("")
        binary, text = "b" in self._mode, isinstance(file_content, str)
        if not binary and not text:
            self._open.flush()
            self._open.buffer.write(file_content)
        else:
            self._open.write(file_content.encode() if binary and text else file_content)

    def readline(self):
        """The next line with its end; empty at the end of the file."""
        return self._open.readline()

    def readlines(self):
        """A list of the lines that are left."""
        return self._open.readlines()

    def seek(self, offset=None, whence=0, position=None):
        """Goes to `offset` (`position` in TF's older code) from `whence`, as io.IOBase.seek."""
        self._open.seek(position if offset is None else offset, whence)

    def tell(self):
        """The position in the file."""
        return self._open.tell()

    def size(self):
        """The file's size in bytes. NotFoundError for no such file."""
        if remote.is_remote(self._name):
            return _elsewhere(self._name, "size")
        return _checked(os.path.getsize)(self._name)

    def flush(self):
        """Hands what was written to the system."""
        self._open.flush()

    def close(self):
        """Closes the file; another use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __iter__(self):
        return iter(self._open)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


FastGFile = Open = GFile


def Exists(filename):  # noqa: N802 - TF's names
    """True if there is a file or folder of the name `filename`.

        >>> import tempfile
        >>> tf.gfile.Exists(tempfile.mkdtemp())
        True
    """
    if remote.is_remote(filename):
        return _elsewhere(filename, "exists")
    return os.path.exists(remote.local(filename))


def IsDirectory(dirname):  # noqa: N802
    """True for a folder.
    dirname: a path, which need not be there.

        >>> tf.gfile.IsDirectory("/"), tf.gfile.IsDirectory("/no/such/folder")
        (True, False)
    """
    if remote.is_remote(dirname):
        return _elsewhere(dirname, "isdir")
    return os.path.isdir(remote.local(dirname))


@_checked
def MakeDirs(dirname):  # noqa: N802
    """Makes a folder and those above it.  tf.errors.OpError if that fails.

    dirname: its path.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/a/b"
        >>> tf.gfile.MakeDirs(path)
        >>> tf.gfile.IsDirectory(path)
        True
    """
    if remote.is_remote(dirname):
        return _elsewhere(dirname, "makedirs", exist_ok=True)
    try:
        os.makedirs(remote.local(dirname), exist_ok=True)
    except FileExistsError as e:                # a file of that name
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), e.filename) from None


@_checked
def MkDir(dirname):  # noqa: N802
    """Makes a folder, unless it is there; the one above it is.  tf.errors.OpError if that fails."""
    if IsDirectory(dirname):
        return
    if remote.is_remote(dirname):
        return _elsewhere(dirname, "mkdir")
    os.mkdir(remote.local(dirname))


@_checked
def ListDirectory(dirname):  # noqa: N802
    """Names in a folder, in no order.  NotFoundError for no such folder."""
    if remote.is_remote(dirname):
        return [path.rstrip("/").rpartition("/")[2]
                for path in _elsewhere(dirname, "ls", detail=False)]
    return os.listdir(remote.local(dirname))


@_checked
def Remove(filename):  # noqa: N802
    """Deletes a file.  NotFoundError for no such file."""
    if remote.is_remote(filename):
        return _elsewhere(filename, "rm_file")
    os.remove(remote.local(filename))


@_checked
def DeleteRecursively(dirname):  # noqa: N802
    """Deletes a folder with all in it.  NotFoundError for no such folder."""
    if remote.is_remote(dirname):
        return _elsewhere(dirname, "rm", recursive=True)
    shutil.rmtree(remote.local(dirname))


@_checked
def Stat(filename):  # noqa: N802
    """The file's FileStatistics: length in bytes, mtime_nsec, is_directory, and what os.stat gives.
    NotFoundError for no such file."""
    if remote.is_remote(filename):
        found = _elsewhere(filename, "info")
        kind = stat.S_IFDIR if found["type"] == "directory" else stat.S_IFREG
        return FileStatistics(os.stat_result((kind, 0, 0, 0, 0, 0, found["size"] or 0, 0, 0, 0)))
    return FileStatistics(os.stat(remote.local(filename)))


class FileStatistics:
    """What tf.gfile.Stat gives: TensorFlow's fields, and those of os.stat_result."""

    def __init__(self, found):
        self._found = found
        self.length, self.mtime_nsec = found.st_size, found.st_mtime_ns
        self.is_directory = stat.S_ISDIR(found.st_mode)

    def __getattr__(self, name):
        if not name.startswith("st_"):
            raise AttributeError(f"FileStatistics has no attribute {name!r}")
        return getattr(self._found, name)

    def __repr__(self):
        return (f"FileStatistics(length={self.length}, mtime_nsec={self.mtime_nsec}, "
                f"is_directory={self.is_directory})")


def Walk(top, in_order=True):  # noqa: N802
    """(folder, folders in it, files in it) of `top` and all below, `top` first if `in_order`."""
    if remote.is_remote(top):
        return _walked(top, in_order)
    return os.walk(remote.local(top), topdown=in_order)


def _walked(top, in_order):
    system, name = remote.filesystem(top)
    for folder, folders, files in system.walk(name, topdown=in_order):
        yield system.unstrip_protocol(folder), folders, files


def Glob(filename):  # noqa: N802 - TF's names
    """Paths that match the pattern or list of patterns.
    filename: a pattern of paths, `*`, `?` and `[...]` in it, or several.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("a.csv", "b.csv", "c.txt"):
        ...         open(os.path.join(folder, name), "w").close()
        ...     sorted(os.path.basename(path) for path in tf.gfile.Glob(folder + "/*.csv"))
        ['a.csv', 'b.csv']
    """
    patterns = [filename] if isinstance(filename, (str, os.PathLike)) else filename
    return [path for p in patterns for path in (
        remote.match(p) if remote.is_remote(p) else sorted(glob.glob(remote.local(p))))]


def _refuse_existing(path, overwrite):
    if Exists(path) and not overwrite:
        raise errors.AlreadyExistsError(None, None, f"file already exists: {path}")


def Copy(oldpath, newpath, overwrite=False):  # noqa: N802
    """Copies a file."""
    _refuse_existing(newpath, overwrite)
    if not remote.is_remote(oldpath) and not remote.is_remote(newpath):
        _checked(shutil.copyfile)(remote.local(oldpath), remote.local(newpath))
        return
    with GFile(oldpath, "rb") as source, GFile(newpath, "wb") as target:
        shutil.copyfileobj(source._open, target._open, 1 << 20)


def Rename(oldname, newname, overwrite=False):  # noqa: N802
    """Renames a file or folder."""
    _refuse_existing(newname, overwrite)
    if remote.is_remote(oldname) and remote.is_remote(newname):
        _elsewhere(oldname, "mv", remote.filesystem(newname)[1], recursive=True)
    elif remote.is_remote(oldname) or remote.is_remote(newname):
        raise errors.UnimplementedError(None, None, f"{oldname} and {newname} lie in two file "
                                        "systems: use Copy, then Remove")
    else:
        _checked(os.replace)(remote.local(oldname), remote.local(newname))
