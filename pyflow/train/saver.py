"""tf.train.Saver: saves and restores variables through SaveV2 and RestoreV2 nodes.

The Saver only builds nodes, keeps the list of recent checkpoints and explains failures; the kernels
do the writing and reading (file format: checkpoint.py).  Nodes, with TF's names (scope
`save`):

    Const (the prefix, fed) --> SaveV2 --> control_dependency (Identity of the prefix, after SaveV2)
                            --> RestoreV2 --> Assign, Assign_1, ... --> restore_all

Invariants
    1. A checkpoint is deleted only after a newer one is complete and the `checkpoint` file names
       it.
    2. Restoring compares keys, types and shapes first, so one error lists everything that does not
       fit, and no variable has changed when it is raised.

Threads: one thread at a time per Saver.

    saver = tf.train.Saver(max_to_keep=3)
    path = saver.save(sess, "/tmp/model", global_step=10)     # "/tmp/model-10"
    saver.restore(sess, path)
"""
import functools
import logging
import os
import threading
import time
import uuid

from pyflow import config
from pyflow.framework import device, errors, graph as graph_lib
from pyflow.ops.checkpoint import io_ops
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.files import remote
from pyflow.lib.strings import string_functions
from pyflow.ops.base import tensors
from pyflow.train import (checkpoint, checkpoint_state, file_progress, restore_report,
                          saveable)

DEFAULT_KEEP_HOURS = 10000.0


class SaverDef:
    """The names of a saver's nodes and its policy: TF's SaverDef message without protobuf."""

    V1, V2 = 1, 2
    FIELDS = (
        "filename_tensor_name",
        "save_tensor_name",
        "restore_op_name",
        "max_to_keep",
        "sharded",
        "keep_checkpoint_every_n_hours",
        "version",
    )

    def __init__(self, **fields):
        defaults = ("", "", "", 0, False, 0.0, self.V2)
        for name, default in zip(self.FIELDS, defaults):
            setattr(self, name, fields.pop(name, default))
        if fields:
            raise TypeError(f"SaverDef has no field {sorted(fields)[0]!r}")

    def __repr__(self):
        fields = " ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"<tf.train.SaverDef {fields}>"


def _made(folder):
    """Makes a folder, none above it; False where that fails."""
    try:
        os.mkdir(folder)
    except OSError:
        return os.path.isdir(folder)            # another saver has made it meanwhile
    return True


def _filename_nodes(filename):
    """`filename` and `Const`: the prefix, fed by save and restore."""
    default = identity_functions.placeholder_with_default(filename or "model", shape=(),
                                                          name="filename")
    return identity_functions.placeholder_with_default(default, shape=(), name="Const")


def _by_task(saveables):
    """[(device of a processor, saveables)] of each task that they name, in order."""
    found = {}
    for item in saveables:
        spec = device.parsed(_device_of(item) or "")
        where = "/cpu:0" if spec.job is None else spec.replace(
            device_type="CPU", device_index=0).to_string()
        found.setdefault(where, []).append(item)
    return sorted(found.items())


def _device_of(item):
    value = _value(item.specs[0])
    return value.device


def _sharded_save_nodes(prefix, shards, file_format):
    """Each task writes what it has; one puts the files together, which then are one checkpoint."""
    folder = string_functions.string_join([prefix, f"_temp_{uuid.uuid4().hex}/part"])
    parts = []
    for k, (where, saveables) in enumerate(shards):
        with graph_lib.device(where):
            name = io_ops.ShardedFilename(folder, k, len(shards), name="ShardedFilename")
            parts.append(_save_nodes(name, saveables, file_format, where))
    with graph_lib.device(shards[-1][0]):
        with graph_lib.control_dependencies([part.op for part in parts]):
            merge = io_ops.MergeV2Checkpoints(tensors.stack(parts), prefix, delete_old_dirs=True,
                                              name="MergeV2Checkpoints")
        with graph_lib.control_dependencies([merge]):
            return identity_functions.identity(prefix, name="Identity")


def _save_nodes(prefix, saveables, file_format, where="/cpu:0"):
    specs = [spec for s in saveables for spec in s.specs]
    with graph_lib.device(where):
        save = io_ops.SaveV2(prefix=prefix, tensor_names=[s.name for s in specs],
                             shape_and_slices=[s.slice_spec for s in specs],
                             tensors=[_value(s) for s in specs], name="SaveV2")
        write_as(save, file_format)
        with graph_lib.control_dependencies([save]):
            return identity_functions.identity(prefix, name="control_dependency")


def write_as(save, file_format):
    """Has a SaveV2 node write "tensorflow"'s format, or "pyflow"'s."""
    if file_format == "tensorflow":
        save._set_attr("_format", "tensorflow")


def rewrite(prefix, file_format):
    """Writes the checkpoint `prefix` again, in the other format, unless it has it already."""
    reader = checkpoint.CheckpointReader(prefix)
    if reader.format.lower().startswith(file_format):
        return
    from pyflow.session import Session
    values = {name: reader.get_tensor(name) for name in reader.entries()}
    with graph_lib.Graph().as_default() as graph:
        given = [identity_functions.placeholder(reader.entries()[name].dtype) for name in values]
        save = io_ops.SaveV2(prefix=prefix, tensor_names=list(values),
                             shape_and_slices=[""] * len(values), tensors=given)
        write_as(save, file_format)
    with Session(graph=graph) as sess:
        sess.run(save, dict(zip(given, values.values())))


def all_saveables():
    """The global variables and saveable objects of the default graph, each once."""
    keys = graph_lib.GraphKeys
    found = []
    for key in (keys.GLOBAL_VARIABLES, keys.SAVEABLE_OBJECTS):
        found += [v for v in graph_lib.get_collection(key) if not any(v is f for f in found)]
    return found


def _checked_format(file_format):
    """"pyflow" or "tensorflow": what was asked for, or the environment's."""
    if file_format is None:
        return config.value("PYFLOW_CHECKPOINT_FORMAT")
    if file_format not in ("pyflow", "tensorflow"):
        raise ValueError(f"format is {file_format!r}: expected 'pyflow' or 'tensorflow'")
    return file_format


def _value(spec):
    tensor = spec.tensor
    return (
        tensor._ref()
        if hasattr(tensor, "_ref") and not isinstance(tensor, graph_lib.Tensor)
        else tensor
    )


def _restore_nodes(prefix, saveables, reshape, sequentially, name="restore_all", where="/cpu:0"):
    specs = [spec for s in saveables for spec in s.specs]
    with graph_lib.device(where):
        values = io_ops.RestoreV2(prefix=prefix, tensor_names=[s.name for s in specs],
                                  shape_and_slices=[s.slice_spec for s in specs],
                                  dtypes=[s.dtype.base_dtype for s in specs], name="RestoreV2")
    values, assigned, at = list(values), [], 0
    for item in saveables:
        tensors = values[at:at + len(item.specs)]
        at += len(item.specs)
        after = [_operation(assigned[-1])] if sequentially and assigned else []
        with graph_lib.control_dependencies(after):
            assigned.append(item.restore(tensors, _wanted_shapes(item) if reshape else None))
    return grouping.group(*[_operation(a) for a in assigned], name=name)


def _operation(x):
    return x if isinstance(x, graph_lib.Operation) else x.op


def _wanted_shapes(item):
    shapes = []
    for spec in item.specs:
        shape = spec.tensor.get_shape()
        shapes.append(shape.as_list() if shape.is_fully_defined() else tensors.shape(spec.tensor))
    return shapes


class Saver:
    """Saves and restores variables.

    var_list: list of variables, or dict key -> variable; default: all global variables and
        saveables.
    reshape: restore values of another shape with equally many elements.
    max_to_keep: how many recent checkpoints to keep (0 or None: all, and `last_checkpoints` stays
        empty).
    keep_checkpoint_every_n_hours: besides these, keep one per so many hours.
    saver_def, builder, defer_build, allow_empty, write_version, restore_sequentially,
        pad_step_number, save_relative_paths, filename: as in TF 1.15.
    format: "tensorflow" writes TensorFlow's V2 checkpoints; None: PYFLOW_CHECKPOINT_FORMAT, which
        is "pyflow", whose files are replaced as one. Both, and V1, are restored. Some parts of a
        partitioned variable are saved as slices of it, in TensorFlow's format.
    strict in `restore`: False restores what fits and returns a report.
    sharded: each task that the variables name writes what it has, into a folder that all of them
        reach; without it, where they name none, and in TensorFlow's format, the session's own task
        writes everything.

        >>> import tempfile
        >>> v = tf.get_variable("v", initializer=[1.0, 2.0])
        >>> saver = tf.train.Saver()
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     path = saver.save(sess, tempfile.mkdtemp() + "/model", global_step=7)
        >>> with tf.Session() as sess:
        ...     saver.restore(sess, path)
        ...     sess.run(v)
        array([1., 2.], dtype=float32)
    """

    def __init__(
        self,
        var_list=None,
        reshape=False,
        sharded=False,
        max_to_keep=5,
        keep_checkpoint_every_n_hours=DEFAULT_KEEP_HOURS,
        name=None,
        restore_sequentially=False,
        saver_def=None,
        builder=None,
        defer_build=False,
        allow_empty=False,
        write_version=2,
        pad_step_number=False,
        save_relative_paths=False,
        filename=None,
        format=None,
    ):
        if defer_build and var_list:
            raise ValueError("If `var_list` is provided then build cannot be deferred. Either set "
                             "defer_build=False or var_list=None.")
        if builder is not None:
            raise ValueError(
                "Saver(builder=...) is not offered: give saveables in var_list instead"
            )
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep, self._keep_hours = max_to_keep, keep_checkpoint_every_n_hours
        self._name, self._sequentially, self._filename = name, restore_sequentially, filename
        self._allow_empty, self._is_empty = allow_empty, False
        self._given_format, self._format = format, _checked_format(format)
        self._pad_step_number, self._save_relative_paths = pad_step_number, save_relative_paths
        self.saver_def = saver_def
        self._last_checkpoints, self._turn = [], threading.Lock()
        if not defer_build:
            self.build()
        if self.saver_def is not None:
            self._check_policy()
        self._next_keep_time = time.time() + self._keep_hours * 3600

    def __repr__(self):
        definition = self.saver_def
        nodes = f"restored by {definition.restore_op_name!r}" if definition else "without nodes"
        kept = f", last saved {self._last_checkpoints[-1][0]!r}" if self._last_checkpoints else ""
        return f"<tf.train.Saver max_to_keep={self._max_to_keep} {nodes}{kept}>"

    # ------------------------------------------------------------ building

    def build(self):
        """Adds the nodes to the default graph, unless there are any."""
        if self.saver_def is not None:
            return
        var_list = self._var_list
        if var_list is None:
            var_list = all_saveables()
        if not var_list:
            if not self._allow_empty:
                raise ValueError(
                    "No variables to save: create variables first, or give allow_empty=True"
                )
            self._is_empty = True
            return
        self.saver_def = self._build_nodes(saveable.saveables_from(var_list))

    def _build_nodes(self, saveables):
        self._allow_slices(saveables)
        with graph_lib.name_scope(self._name, "save", [s.op for s in saveables]):
            prefix = _filename_nodes(self._filename)
            shards = _by_task(saveables)
            if self._sharded and self._format == "pyflow" and \
                    (len(shards) > 1 or shards[0][0] != "/cpu:0"):
                saved = _sharded_save_nodes(prefix, shards, self._format)
                restored = grouping.group(*[_restore_nodes(
                    prefix, part, self._reshape, self._sequentially, "restore_shard", where)
                    for where, part in shards], name="restore_all")
            else:
                saved = _save_nodes(prefix, saveables, self._format)
                restored = _restore_nodes(prefix, saveables, self._reshape, self._sequentially)
        return SaverDef(filename_tensor_name=prefix.name, save_tensor_name=saved.name,
                        restore_op_name=restored.name, max_to_keep=self._max_to_keep or 0,
                        sharded=self._sharded, keep_checkpoint_every_n_hours=self._keep_hours)

    def _allow_slices(self, saveables):
        """A part alone of a partitioned variable needs a format that has slices."""
        for item in saveables:
            if isinstance(item, saveable.SlicesSaveable):
                if self._given_format == "pyflow":
                    raise ValueError(f"Saver: of {item.name} only some parts are to be saved, and "
                                     f"format 'pyflow' holds whole tensors: give all, or format="
                                     f"'tensorflow'")
                self._format = "tensorflow"

    def _check_policy(self):
        definition = self.saver_def
        if not definition.save_tensor_name or not definition.restore_op_name:
            raise ValueError("saver_def must name its save tensor and its restore op: "
                             f"save_tensor_name={definition.save_tensor_name!r}, "
                             f"restore_op_name={definition.restore_op_name!r}")
        self._max_to_keep = definition.max_to_keep
        self._keep_hours = definition.keep_checkpoint_every_n_hours or DEFAULT_KEEP_HOURS

    # ------------------------------------------------------------ saving

    def save(
        self,
        sess,
        save_path,
        global_step=None,
        latest_filename=None,
        meta_graph_suffix="meta",
        write_meta_graph=True,
        write_state=True,
        strip_default_attrs=False,
        save_debug_info=False,
    ):
        """Saves the variables of `sess`.  Returns the prefix of the checkpoint, for `restore`.

        A folder that does not exist is made, but none above it. Raises RuntimeError if the saver was
        not built, ValueError if the folder above it does not exist (with `sharded` the folder) or names
        collide, TypeError if `sess` is not a session.
        """
        self._require_built("save")
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        given = os.fsdecode(save_path)
        save_path = remote.local_name(given)
        _require_session(sess)
        prefix = self._prefix(sess, save_path, global_step)
        if os.path.basename(prefix) == latest_filename and not self._sharded:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': '{latest_filename}' and "
                f"'{save_path}'"
            )
        if self._is_empty:
            return None
        with self._turn:                # a sharded save's folder on the way is the saver's
            self._write(sess, prefix, save_path)
            if write_meta_graph:
                self.export_meta_graph(f"{prefix}.{meta_graph_suffix}", graph=sess.graph,
                                       strip_default_attrs=strip_default_attrs)
            if write_state:
                self._record(prefix, save_path, latest_filename)
        return given[:len(given) - len(save_path)] + prefix         # "file://" comes back

    def _prefix(self, sess, save_path, global_step):
        if global_step is None:
            return save_path
        if not isinstance(global_step, int):
            global_step = (
                int(sess.run(global_step)) if hasattr(global_step, "graph") else int(global_step)
            )
        return (
            f"{save_path}-{global_step:08d}"
            if self._pad_step_number
            else f"{save_path}-{global_step}"
        )

    def _write(self, sess, prefix, save_path):
        names, folder = self.saver_def, os.path.dirname(save_path)
        write = functools.partial(file_progress.save, sess, names.save_tensor_name,
                                  {names.filename_tensor_name: prefix}, prefix)
        missing = ValueError(f"Parent directory of {save_path} doesn't exist, can't save. Create "
                             f"'{folder}' first.")
        if self._sharded and folder and not sess.sess_str and not os.path.isdir(folder):
            raise missing                       # as in TF, shards' folder is one deeper
        try:
            write()
        except (errors.FailedPreconditionError, errors.NotFoundError):
            if not folder or os.path.isdir(folder):
                raise
            if self._sharded or not _made(folder):
                raise missing from None
            write()

    def _record(self, prefix, save_path, latest_filename):
        """The `checkpoint` file first, then deletion of what is too old."""
        dropped = []
        if self._max_to_keep:           # else all stay and nobody counts them, as in TF
            self._last_checkpoints = [c for c in self._last_checkpoints if c[0] != prefix] + [
                (prefix, time.time())
            ]
        while self._max_to_keep and len(self._last_checkpoints) > self._max_to_keep:
            dropped.append(self._last_checkpoints.pop(0))
        checkpoint_state.write_state(
            os.path.dirname(save_path), prefix, self.last_checkpoints, latest_filename,
            timestamps=[t for _, t in self._last_checkpoints], relative=True)
        for path, written in dropped:
            if written > self._next_keep_time:
                self._next_keep_time += self._keep_hours * 3600
            else:
                checkpoint.remove_checkpoint(path)

    # ------------------------------------------------------------ restoring

    def restore(self, sess, save_path, strict=True):
        """Restores the variables from checkpoint `save_path`.

        strict=True raises NotFoundError for missing keys and InvalidArgumentError for other shapes
        or types, one error listing them all; nothing is restored then.  strict=False restores what
        fits and returns a `RestoreReport` (missing, unexpected, misshaped, restored).
        """
        if self._is_empty:
            return None
        self._require_built("restore")
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        save_path = remote.local_name(save_path)
        if not checkpoint.checkpoint_exists(save_path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {save_path}"
                             + restore_report.suggest_prefix(save_path))
        _require_session(sess)
        logging.getLogger("tensorflow").info("Restoring parameters from %s", save_path)
        reader = checkpoint.CheckpointReader(save_path)
        report = restore_report.compare(sess.graph, self.saver_def, reader, self._reshape)
        if strict:
            report.raise_for_problems()
            names = self.saver_def
            file_progress.restore(sess, names.restore_op_name,
                                  {names.filename_tensor_name: save_path}, reader)
            return None
        report.restore_matching(sess, reader)
        return report

    # ------------------------------------------------------------ the list of checkpoints

    @property
    def last_checkpoints(self):
        """Prefixes of the checkpoints not yet deleted, oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints):
        """Old form: (prefixes) without times."""
        self._last_checkpoints = [(p, float("inf")) for p in last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time):
        """Sets the list of (prefix, seconds since the epoch), oldest first."""
        self._last_checkpoints = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths):
        """Takes over those of `checkpoint_paths` that still exist, after a restart."""
        paths = [p for p in checkpoint_paths if checkpoint.checkpoint_exists(p)]
        self.set_last_checkpoints_with_time(
            list(zip(paths, checkpoint_state.get_checkpoint_mtimes(paths)))
        )

    # ------------------------------------------------------------ definitions

    def as_saver_def(self):
        """The SaverDef of this saver."""
        return self.saver_def

    def to_proto(self, export_scope=None):
        """The SaverDef with names relative to `export_scope`, or None if the saver lies outside
        it."""
        if not export_scope or self.saver_def is None:
            return self.saver_def
        fields = vars(self.saver_def).copy()
        for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            if not fields[name].startswith(export_scope + "/"):
                return None
            fields[name] = fields[name][len(export_scope) + 1:]
        return SaverDef(**fields)

    @staticmethod
    def from_proto(saver_def, import_scope=None):
        """A Saver over nodes that are already in the graph."""
        fields = {name: getattr(saver_def, name) for name in SaverDef.FIELDS}
        if import_scope:
            for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                fields[name] = f"{import_scope}/{fields[name]}"
        return Saver(saver_def=SaverDef(**fields), name=import_scope)

    def export_meta_graph(
        self,
        filename=None,
        collection_list=None,
        as_text=False,
        export_scope=None,
        clear_devices=False,
        clear_extraneous_savers=False,
        strip_default_attrs=False,
        save_debug_info=False,
        graph=None,
    ):
        """Writes the graph, its collections and this saver as a MetaGraphDef."""
        from pyflow.train import meta_graph
        return meta_graph.export_meta_graph(
            filename=filename,
            graph=graph,
            saver_def=self.to_proto(export_scope),
            as_text=as_text,
            collection_list=collection_list,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )

    def _require_built(self, verb):
        if self.saver_def is None and not self._is_empty:
            raise RuntimeError(f"`build()` should be called before {verb} if defer_build==True")


def _require_session(sess):
    if not (hasattr(sess, "run") and hasattr(sess, "graph")):
        raise TypeError(f"'sess' must be a Session; {sess!r}")


def import_meta_graph(meta_graph_or_file, clear_devices=False, import_scope=None, **kwargs):
    """Recreates a graph saved in a .meta file.  Returns its Saver, or None if it had no
    variables."""
    from pyflow.train import meta_graph
    return meta_graph.import_meta_graph(meta_graph_or_file, clear_devices, import_scope, **kwargs)


def export_meta_graph(
    filename=None,
    meta_info_def=None,
    graph_def=None,
    saver_def=None,
    collection_list=None,
    as_text=False,
    graph=None,
    export_scope=None,
    clear_devices=False,
    clear_extraneous_savers=False,
    strip_default_attrs=False,
    save_debug_info=False,
):
    """The default graph (or `graph`) with its collections as a MetaGraphDef, written to `filename`
    if given."""
    from pyflow.train import meta_graph
    return meta_graph.export_meta_graph(
        filename=filename, graph=graph, saver_def=saver_def, as_text=as_text, graph_def=graph_def,
        collection_list=collection_list, export_scope=export_scope, clear_devices=clear_devices,
        meta_info_def=meta_info_def, clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs)


PUBLIC = {
    "train.Saver": Saver,
    "train.SaverDef": SaverDef,
    "train.export_meta_graph": export_meta_graph,
    "train.import_meta_graph": import_meta_graph,
}
