"""tf.saved_model.Builder and simple_save: graphs, signatures, variables and assets into a folder
that TensorFlow, TF Serving and pyflow read.

Invariants
    1. Variables are saved once, with the first MetaGraph, in TensorFlow's V2 format.
    2. saved_model.pb appears last and complete: a folder without it is no SavedModel.

Threads: those of graph building.

    builder = tf.saved_model.Builder(export_dir)
    builder.add_meta_graph_and_variables(sess, ["serve"], {"serving_default": signature})
    builder.save()
"""
import filecmp
import logging
import os
import shutil

from pyflow.framework import graph as graph_lib
from pyflow.lib.files import remote
from pyflow.saved_model import folders, keys, signatures
from pyflow.train import checkpoint_state, saver as saver_lib


class SavedModelBuilder:
    """Writes a SavedModel into the folder `export_dir`, which must be new or empty: AssertionError
    otherwise.

    First `add_meta_graph_and_variables`, then `add_meta_graph` for further graphs over the same
    variables, then `save`. TF: tf.saved_model.Builder.
    """

    def __init__(self, export_dir):
        self._export_dir = remote.local_name(export_dir)
        self._message = None
        self._has_saved_variables = False
        if os.path.isdir(self._export_dir) and os.listdir(self._export_dir):
            raise AssertionError(
                f"Export directory {self._export_dir} already exists, and isn't empty. Please "
                "choose a different export directory, or delete all the contents of the specified "
                f"directory: {sorted(os.listdir(self._export_dir))[:5]}")
        os.makedirs(self._export_dir, exist_ok=True)
        from pyflow.framework import protos
        self._message = protos.SavedModel(
            saved_model_schema_version=keys.SAVED_MODEL_SCHEMA_VERSION)

    def __repr__(self):
        return (f"<tf.saved_model.Builder of {self._export_dir!r}, "
                f"{len(self._message.meta_graphs)} MetaGraphs>")

    def add_meta_graph_and_variables(self, sess, tags, signature_def_map=None,
                                     assets_collection=None, legacy_init_op=None,
                                     clear_devices=False, main_op=None, strip_default_attrs=False,
                                     saver=None):
        """Adds the session's graph, and saves its variables and its assets.

        tags: a list of texts. signature_def_map: {name: SignatureDef}. assets_collection: string
        tensors with paths of files, which are copied into the folder. main_op: an operation to run
        after loading (legacy_init_op: its older name). clear_devices: leave the nodes' devices out.
        strip_default_attrs: leave attributes at their defaults out. saver: one that saves what is
        to be saved; default: all variables. AssertionError if it was called already.
        """
        if self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has already been "
                                 "saved. Please invoke `add_meta_graph()` instead.")
        with sess.graph.as_default():
            described = self._describe(tags, signature_def_map, assets_collection, legacy_init_op,
                                       main_op)
            saver = _saver(saver)
            path = folders.variables_path(self._export_dir)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if saver.save(sess, path, write_meta_graph=False, write_state=False):
                saver_lib.rewrite(path, "tensorflow")       # one of the caller's has its own format
            self._add(saver, described, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(self, tags, signature_def_map=None, assets_collection=None,
                       legacy_init_op=None, clear_devices=False, main_op=None,
                       strip_default_attrs=False, saver=None):
        """Adds the default graph, whose variables are those already saved. AssertionError if none
        are; arguments as in `add_meta_graph_and_variables`."""
        if not self._has_saved_variables:
            raise AssertionError("Graph state including variables and assets has not been saved "
                                 "yet. Please invoke `add_meta_graph_and_variables()` first.")
        described = self._describe(tags, signature_def_map, assets_collection, legacy_init_op,
                                   main_op)
        self._add(_saver(saver), described, clear_devices, strip_default_attrs)

    def save(self, as_text=False):
        """Writes saved_model.pb (as_text: saved_model.pbtxt). Returns its path."""
        os.makedirs(self._export_dir, exist_ok=True)
        if as_text:
            from google.protobuf import text_format
            path = os.path.join(self._export_dir, keys.SAVED_MODEL_FILENAME_PBTXT)
            data = text_format.MessageToString(self._message).encode()
        else:
            path = os.path.join(self._export_dir, keys.SAVED_MODEL_FILENAME_PB)
            data = self._message.SerializeToString(deterministic=True)
        checkpoint_state.replace_file(path, data)
        logging.getLogger("tensorflow").info("SavedModel written to: %s", path)
        return path

    # ------------------------------------------------------------ one MetaGraph

    def _describe(self, tags, signature_map, assets, legacy_init_op, main_op):
        """(tags, {name: SignatureDef}, [AssetFileDef], {collection: node}), all checked."""
        if isinstance(tags, (str, bytes)):
            raise TypeError(f"tags must be a list of texts, got {tags!r}")
        signature_map = dict(signature_map or {})
        for name, signature in signature_map.items():
            for info in [*signature.inputs.values(), *signature.outputs.values()]:
                _require_info(name, info)
        nodes = {}
        for key, op in ((keys.MAIN_OP_KEY, main_op), (keys.LEGACY_INIT_OP_KEY, legacy_init_op)):
            if op is not None:
                if not isinstance(op, graph_lib.Operation):
                    raise TypeError(f"{key} needs to be an Operation: {op!r}")
                there = [k for k in (keys.MAIN_OP_KEY, keys.LEGACY_INIT_OP_KEY)
                         if op.graph.get_collection(k)]
                if there:
                    raise ValueError("Graph already contains one or more main ops under the "
                                     f"collection {there[0]}: one of them is enough")
                nodes[key] = op.name
        return list(tags), signature_map, self._copy_assets(assets), nodes

    def _copy_assets(self, assets):
        """The files behind `assets`, copied unless they are there; equal names of different files
        get a number."""
        from pyflow.framework import protos, tensor_util
        made, taken = [], {}
        for tensor in assets or ():
            value = tensor_util.constant_value(tensor)
            if value is None or tensor.dtype.base_dtype.name != "string":
                raise TypeError(f"Asset {tensor!r} must be a constant string tensor")
            path = os.path.abspath(os.fsdecode(value.item() if hasattr(value, "item") else value))
            name = _free_name(os.path.basename(path), path, taken)
            folder = os.path.join(self._export_dir, keys.ASSETS_DIRECTORY)
            os.makedirs(folder, exist_ok=True)
            if not os.path.exists(os.path.join(folder, name)):      # of an earlier MetaGraph's
                shutil.copyfile(path, os.path.join(folder, name))
            made.append(protos.AssetFileDef(filename=name,
                                            tensor_info=protos.TensorInfo(name=tensor.name)))
        return made

    def _add(self, saver, described, clear_devices, strip_default_attrs):
        tags, signature_map, assets, nodes = described
        message = saver.export_meta_graph(clear_devices=clear_devices,
                                          strip_default_attrs=strip_default_attrs)
        message.meta_info_def.tags.extend(tags)
        for name, signature in signature_map.items():
            message.signature_def[name].CopyFrom(signature)
        message.asset_file_def.extend(assets)
        message.collection_def.pop(keys.ASSETS_KEY, None)       # of the model that was loaded
        for asset in assets:
            message.collection_def[keys.ASSETS_KEY].any_list.value.add(
                type_url="type.googleapis.com/tensorflow.AssetFileDef",
                value=asset.SerializeToString())
        for key, name in nodes.items():
            message.collection_def.pop(key, None)
            message.collection_def[key].node_list.value.append(name)
        self._message.meta_graphs.add().CopyFrom(message)


def require_names(signature_map):
    """KeyError for a SignatureDef under a name at which loaders look for an operation."""
    for name in (keys.INIT_OP_SIGNATURE_KEY, keys.TRAIN_OP_SIGNATURE_KEY):
        if name in (signature_map or {}):
            raise KeyError(f"SignatureDefs may not be called {name!r}: loaders look there for an "
                           f"operation of their own")


def _require_info(name, info):
    if info.WhichOneof("encoding") is None or not info.dtype:
        raise AssertionError(f"Invalid TensorInfo in signature {name!r}: it needs a name and a "
                             f"type; make it with tf.saved_model.build_tensor_info")


def _free_name(name, path, taken):
    """`name`, or with a number behind it if another file, of other bytes, has it."""
    found, number = name, 0
    while taken.setdefault(found, path) != path and not filecmp.cmp(taken[found], path, False):
        number += 1
        found = f"{name}_{number}"
    return found


def _saver(saver):
    """The one given, or one of all variables."""
    if saver is not None:
        return saver
    return saver_lib.Saver(saver_lib.all_saveables(), allow_empty=True, format="tensorflow")


def simple_save(session, export_dir, inputs, outputs, legacy_init_op=None):
    """Saves the session's graph and variables for serving: tag "serve", one signature
    "serving_default" of predict.

    inputs, outputs: {name: tensor}. legacy_init_op: an operation to run after loading.
    TF: tf.saved_model.simple_save.

        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> x = tf.placeholder(tf.float32, [None])
        >>> y = x + tf.Variable(1.0)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     tf.saved_model.simple_save(sess, folder, {"x": x}, {"y": y})
        >>> sorted(os.listdir(folder))
        ['saved_model.pb', 'variables']
    """
    signature = signatures.predict_signature_def(inputs, outputs)
    builder = SavedModelBuilder(export_dir)
    with session.graph.as_default():
        assets = graph_lib.get_collection(graph_lib.GraphKeys.ASSET_FILEPATHS)
    builder.add_meta_graph_and_variables(
        session, [keys.SERVING], {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        assets_collection=assets, main_op=legacy_init_op, clear_devices=True)
    builder.save()


PUBLIC = {
    "saved_model.Builder": SavedModelBuilder,
    "saved_model.builder.SavedModelBuilder": SavedModelBuilder,
    "saved_model.simple_save": simple_save,
}
