"""assign_from_checkpoint: a checkpoint's tensors for variables that may be named otherwise.

Functions only.  Thread: the one building the graph.  Source: TF 1.15 tf.contrib.framework.

Example:
    init_fn = slim.assign_from_checkpoint_fn(path, slim.get_variables_to_restore(exclude=["fc8"]))
    init_fn(session)
"""
import logging

from pyflow.lib.array.identity_functions import placeholder
from pyflow.lib.contrib.arg_scope import tables
from pyflow.lib.contrib.model_variables import get_variable_full_name
from pyflow.lib.control_flow import grouping
from pyflow.train import checkpoint, checkpoint_values, initial_values, saver

_log = logging.getLogger("tensorflow")


def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """(op, feed_dict) that give variables a checkpoint's values: `session.run(op, feed_dict)`.

    model_path: the checkpoint's prefix. var_list: variables, or {name in the checkpoint: variable
    or list of variables}; parts of a variable get their part. ignore_missing_vars: those the
    checkpoint lacks are logged and left out. ValueError for a missing one, and for another shape.
    TF: tf.contrib.framework.assign_from_checkpoint."""
    reader = checkpoint.CheckpointReader(model_path)
    feed, assigned = {}, []
    for name, found in _grouped(var_list).items():
        if not reader.has_tensor(name):
            if not ignore_missing_vars:
                raise ValueError(f"Checkpoint is missing variable [{name}]: {model_path}")
            _log.warning("Checkpoint is missing variable [%s]", name)
            continue
        value = reader.get_tensor(name)
        for var in found:
            given = placeholder(var.dtype.base_dtype, var.shape, name=f"placeholder/{var.op.name}")
            feed[given] = _part(name, var, value)
            assigned.append(var.assign(given))
    return grouping.group(*assigned), feed


def _grouped(var_list):
    """{name in the checkpoint: [variable]}."""
    if isinstance(var_list, dict):
        return {name: list(v) if isinstance(v, (list, tuple)) else [v]
                for name, v in var_list.items()}
    grouped = {}
    for var in var_list:
        grouped.setdefault(get_variable_full_name(var), []).append(var)
    return grouped


def _part(name, var, value):
    """What of `value` is for `var`."""
    info = getattr(var, "_get_save_slice_info", None)
    part = info() if info is not None else None
    if part is not None:
        value = value[tuple(slice(begin, begin + size)
                            for begin, size in zip(part.var_offset, part.var_shape))]
    if list(value.shape) != var.shape.as_list():
        raise ValueError(f"Total size of new array must be unchanged for {name} "
                         f"lh_shape: [{value.shape}], rh_shape: [{var.shape}]")
    return value


def assign_from_checkpoint_fn(model_path, var_list, ignore_missing_vars=False,
                              reshape_variables=False):
    """A function of a session that restores variables of a checkpoint; None if there are none.

    var_list: variables, or {name in the checkpoint: variable}; ValueError where it is empty.
    ignore_missing_vars: those the checkpoint lacks are logged and left out. reshape_variables:
    other shapes of as many elements will do.
    TF: tf.contrib.framework.assign_from_checkpoint_fn."""
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = checkpoint.CheckpointReader(model_path)
        named = var_list if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
        for name in named:
            if not reader.has_tensor(name):
                _log.warning("Variable %s missing in checkpoint %s", name, model_path)
        var_list = {name: var for name, var in named.items() if reader.has_tensor(name)}
    if not var_list:
        _log.warning("No Variables to restore")
        return None
    restorer = saver.Saver(var_list, reshape=reshape_variables)
    return lambda session: restorer.restore(session, model_path)


def load_checkpoint(filepattern):
    """tf.train.load_checkpoint. TF: tf.contrib.framework.load_checkpoint."""
    return checkpoint_values.load_checkpoint(filepattern)


def list_variables(checkpoint_dir):
    """tf.train.list_variables. TF: tf.contrib.framework.list_variables."""
    return checkpoint_values.list_variables(checkpoint_dir)


def load_variable(checkpoint_dir, name):
    """tf.train.load_variable. TF: tf.contrib.framework.load_variable."""
    return checkpoint_values.load_variable(checkpoint_dir, name)


def init_from_checkpoint(checkpoint_dir, assignment_map):
    """tf.train.init_from_checkpoint. TF: tf.contrib.framework.init_from_checkpoint."""
    return initial_values.init_from_checkpoint(checkpoint_dir, assignment_map)


PUBLIC = tables(assign_from_checkpoint, assign_from_checkpoint_fn)
PUBLIC.update({f"contrib.framework.{function.__name__}": function for function in (
    load_checkpoint, list_variables, load_variable, init_from_checkpoint)})
