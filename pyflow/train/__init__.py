"""tf.train: savers, checkpoints, optimisers, and small helpers of a training program.

PUBLIC is what `tf.train` offers; optimisers bring tables of their own, listed in MODULES.
"""
import importlib

from pyflow.train.checkpoint import (NewCheckpointReader, checkpoint_exists, list_variables, load_checkpoint,
                                     load_variable, remove_checkpoint)
from pyflow.train.checkpoint_state import (CheckpointState, generate_checkpoint_state_proto, get_checkpoint_mtimes,
                                           get_checkpoint_state, latest_checkpoint, update_checkpoint_state)
from pyflow.train.saver import Saver, SaverDef, export_meta_graph, import_meta_graph

MODULES = ()

PUBLIC = {
    "train.NewCheckpointReader": NewCheckpointReader, "train.checkpoint_exists": checkpoint_exists,
    "train.list_variables": list_variables, "train.load_checkpoint": load_checkpoint,
    "train.load_variable": load_variable, "train.remove_checkpoint": remove_checkpoint,
    "train.CheckpointState": CheckpointState,
    "train.generate_checkpoint_state_proto": generate_checkpoint_state_proto,
    "train.get_checkpoint_mtimes": get_checkpoint_mtimes, "train.get_checkpoint_state": get_checkpoint_state,
    "train.latest_checkpoint": latest_checkpoint, "train.update_checkpoint_state": update_checkpoint_state,
    "train.Saver": Saver, "train.SaverDef": SaverDef, "train.export_meta_graph": export_meta_graph,
    "train.import_meta_graph": import_meta_graph,
}
for _name in MODULES:
    PUBLIC.update(importlib.import_module(f"pyflow.train.{_name}").PUBLIC)
