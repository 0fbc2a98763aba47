"""tf.resource_loader: files beside the module that asks for them.

    path = tf.resource_loader.get_path_to_datafile("vocabulary.txt")
"""
import inspect
import os


def _folder(depth):
    """The folder of the caller's file."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back
    return os.path.dirname(os.path.abspath(frame.f_code.co_filename))


def get_data_files_path():
    """The folder of the file that calls this."""
    return _folder(2)


def get_root_dir_with_all_resources():
    """The folder of the file that calls this."""
    return _folder(2)


def get_path_to_datafile(path):
    """`path`, relative to the file that calls this."""
    return os.path.join(_folder(2), path)


def load_resource(path):
    """The bytes of a file, relative to the file that calls this.  IOError if it is not there."""
    with open(os.path.join(_folder(2), path), "rb") as file:
        return file.read()


def readahead_file_path(path, readahead="128M"):
    """`path`: reading ahead is the system's."""
    return path
