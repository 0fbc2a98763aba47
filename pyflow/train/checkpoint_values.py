"""What a checkpoint holds, asked for by its prefix or by its folder.

Threads: functions without state.

    tf.train.load_variable("/tmp/run", "w")     # of the newest checkpoint there
"""
import os

from pyflow.lib.files import remote
from pyflow.train import checkpoint, checkpoint_state


def load_checkpoint(ckpt_dir_or_file):
    """A `CheckpointReader` of a prefix, or of the newest checkpoint of a folder.

    Raises ValueError if the folder has none, NotFoundError if the prefix is no checkpoint.
    """
    path = remote.local_name(ckpt_dir_or_file)
    if os.path.isdir(path):
        found = checkpoint_state.latest_checkpoint(path)
        if found is None:
            raise ValueError(
                f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
            )
        path = found
    return checkpoint.CheckpointReader(path)


def list_variables(ckpt_dir_or_file):
    """[(name, shape)] of a checkpoint, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file, name):
    """One tensor of a checkpoint as an ndarray.  A ':0' at the end of the name is ignored."""
    if name.endswith(":0"):
        name = name[:-2]
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


PUBLIC = {
    "train.list_variables": list_variables,
    "train.load_checkpoint": load_checkpoint,
    "train.load_variable": load_variable,
}
