"""tf.io.gfile: tf.gfile's functions under their later names and arguments."""
from pyflow.platform import gfile

GFile = gfile.GFile


def copy(src, dst, overwrite=False):
    """Copies a file. AlreadyExistsError where `dst` is there, unless it may be overwritten."""
    gfile.Copy(src, dst, overwrite)


def exists(path):
    """Is there a file or folder?"""
    return gfile.Exists(path)


def glob(pattern):
    """The paths that a pattern, or one of a list of them, describes."""
    return gfile.Glob(pattern)


def isdir(path):
    """Is it a folder?"""
    return gfile.IsDirectory(path)


def listdir(path):
    """The names in a folder. NotFoundError where there is none."""
    return gfile.ListDirectory(path)


def makedirs(path):
    """Makes a folder and those above it; nothing where it is there."""
    gfile.MakeDirs(path)


def mkdir(path):
    """Makes a folder. NotFoundError where the one above it is missing."""
    gfile.MkDir(path)


def remove(path):
    """Removes a file. NotFoundError where there is none."""
    gfile.Remove(path)


def rename(src, dst, overwrite=False):
    """Renames a file or folder. AlreadyExistsError where `dst` is there, unless overwritten."""
    gfile.Rename(src, dst, overwrite)


def rmtree(path):
    """Removes a folder and all in it."""
    gfile.DeleteRecursively(path)


def stat(path):
    """What the system knows of a file: length, mtime_nsec, is_directory."""
    return gfile.Stat(path)


def walk(top, topdown=True, onerror=None):
    """(folder, folders in it, files in it) of `top` and all below; onerror gets what fails."""
    try:
        yield from gfile.Walk(top, topdown)
    except OSError as error:
        if onerror is not None:
            onerror(error)
