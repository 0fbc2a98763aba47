"""tf.train.init_from_checkpoint: variables whose initial values come from a checkpoint.

Invariants
    1. Only the initializers change: nothing is read before they run.
    2. What does not fit is an error when this is called, not when the initializer runs.

Threads: the one that builds the graph.

    tf.train.init_from_checkpoint("/tmp/model-10", {"/": "new_scope/"})
    sess.run(tf.global_variables_initializer())
"""
import os

from pyflow.framework import graph as graph_lib
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.variables import state_functions, variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.checkpoint import io_ops
from pyflow.train import checkpoint, checkpoint_values


def init_from_checkpoint(ckpt_dir_or_file, assignment_map):
    """Replaces the initializers of variables by reading them from a checkpoint, pyflow's or
    TensorFlow's.

    ckpt_dir_or_file: a prefix, or a folder, whose newest checkpoint is taken.
    assignment_map: {what is in the checkpoint: what is here}, or pairs of these: a tensor's name to
        a variable, a list of a partitioned variable's parts, or a variable's name; "scope/" to
        "scope/", "/" being all.
    Raises ValueError for a tensor that is not there or has another shape. TF:
    tf.train.init_from_checkpoint.

        >>> import tempfile
        >>> v = tf.get_variable("v", initializer=[1.0, 2.0])
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     path = tf.train.Saver().save(sess, tempfile.mkdtemp() + "/model")
        >>> w = tf.get_variable("w", [2])
        >>> tf.train.init_from_checkpoint(path, {"v": w})
        >>> with tf.Session() as sess:
        ...     sess.run(w.initializer)
        ...     sess.run(w)
        array([1., 2.], dtype=float32)
    """
    reader = checkpoint_values.load_checkpoint(ckpt_dir_or_file)
    pairs = assignment_map.items() if hasattr(assignment_map, "items") else assignment_map
    known = variable_scope.store()._vars
    for stored, target in sorted(pairs, key=lambda pair: pair[0]):
        var = _variable(target, known)
        if var is not None:
            _initialize(var, reader, stored)
        elif not isinstance(target, str):
            raise TypeError(f"init_from_checkpoint: {stored!r} is mapped to {target!r}; expected a "
                            f"variable, a list of a variable's parts, or a name")
        else:
            _initialize_scope(target, reader, stored, known)


def _variable(target, known):
    """The variable, or list of parts, that a value of the map means; None: a scope."""
    if hasattr(target, "_get_variable_list"):
        return list(target)
    if isinstance(target, (list, tuple)) and target and all(map(_is_variable, target)):
        return list(target)
    if _is_variable(target):
        return target
    if not isinstance(target, str):
        return None
    return _named(target, known)


def _named(name, known):
    """The variable of a name, or the parts of a partitioned one; None if there is neither."""
    return known[name] if name in known else _parts(name, known)


def _is_variable(value):
    return hasattr(value, "initializer") and hasattr(value, "assign")


def _parts(name, known):
    """The parts of a partitioned variable, in order; None if there is none of that name."""
    found = []
    while f"{name}/part_{len(found)}" in known:
        found.append(known[f"{name}/part_{len(found)}"])
    return found or None


def _initialize_scope(target, reader, stored, known):
    """"there/": "here/" of the map: every variable below `here`."""
    scope = target[:target.rindex("/")] if "/" in target else ""
    if not stored.endswith("/"):
        raise ValueError(f"Assignment map with scope only name {scope} should map to scope only "
                         f"{stored}. Should be 'scope/': 'other_scope/'. Or there is no variable "
                         f"{target!r}")
    inside = {name.partition("/part_")[0] for name in known
              if not scope or name.startswith(scope + "/")}
    for name in sorted(inside):
        rest = name[len(scope):]
        rest = rest if target == "/" else rest.removeprefix("/")
        key = rest if stored == "/" else stored + rest
        _initialize(_named(name, known), reader, key.removesuffix("/"))


def _initialize(var, reader, key):
    if not reader.has_tensor(key):
        raise ValueError(f"Tensor {key} is not found in {reader.prefix} checkpoint; it has "
                         f"{checkpoint.summarise(reader.get_variable_to_shape_map())}")
    there = TensorShape(reader.get_variable_to_shape_map()[key])
    for part in var if isinstance(var, list) else [var]:
        info = part._get_save_slice_info() if isinstance(var, list) else None
        here = TensorShape(info.full_shape) if info else part.get_shape()
        if not here.is_compatible_with(there):
            raise ValueError(f"Shape of variable {part.name} ({here}) doesn't match with shape of "
                             f"tensor {key} ({there}) from checkpoint reader.")
        _set_initializer(part, reader.prefix, key, there, info)


def _set_initializer(var, prefix, key, shape, info):
    """The variable's initializer becomes an assignment of what RestoreV2 reads."""
    dtype = var.dtype.base_dtype
    with graph_lib.control_dependencies(None), graph_lib.name_scope("init_from_checkpoint"):
        with graph_lib.device("/cpu:0"):
            value = io_ops.RestoreV2(os.path.abspath(prefix), [key], [""], dtypes=[dtype])[0]
            value.set_shape(shape)
            if info is not None:
                value = tensors.slice_(value, list(info.var_offset), list(info.var_shape))
        if getattr(var, "handle", None) is not None:
            op = var.assign(value, read_value=False)
        else:
            op = state_functions.assign(var._ref(), value)
    var._initializer_op = getattr(op, "op", op)
    var._initial_value = var._guarded_value = value


PUBLIC = {"train.init_from_checkpoint": init_from_checkpoint}
