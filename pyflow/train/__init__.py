"""tf.train: savers, checkpoints, optimisers, and small helpers of a training program.

Modules listed in MODULES bring tables PUBLIC, as ops modules do.  LAZY names are loaded at their
first use, so that `import pyflow` stays fast.
"""
import importlib
import sys

MODULES = (
    "optimizer",
    "gradient_descent",
    "momentum",
    "adam",
    "rmsprop",
    "adagrad",
    "ftrl",
    "proximal",
    "training_util",
    "learning_rate_decay",
    "moving_averages",
)

LAZY = {
    name: f"pyflow.train.{module}"
    for module, names in {
        "checkpoint": (
            "NewCheckpointReader CheckpointReader checkpoint_exists list_variables load_checkpoint"
            " load_variable remove_checkpoint"
        ),
        "checkpoint_state": (
            "CheckpointState generate_checkpoint_state_proto get_checkpoint_mtimes"
            " get_checkpoint_state latest_checkpoint update_checkpoint_state"
        ),
        "device_setter": "replica_device_setter",
        "saver": "Saver SaverDef export_meta_graph import_meta_graph",
    }.items()
    for name in names.split()
}

PUBLIC = {}
for _name in MODULES:
    PUBLIC.update(importlib.import_module(f"pyflow.train.{_name}").PUBLIC)


def __getattr__(name):
    if name not in LAZY:
        from pyflow import _names
        _names.unknown(sys.modules[__name__], name)
    value = globals()[name] = getattr(importlib.import_module(LAZY[name]), name)
    return value


def __dir__():
    return sorted(set(globals()) | set(LAZY))
