"""A SavedModel loaded step by step, and the builder of version 2: what TensorFlow's builder_impl and
loader_impl have beside tf.saved_model.  Who calls it: programs, by those modules' paths.

    from tensorflow.python.saved_model import loader_impl
    loader = loader_impl.SavedModelLoader(folder)
    saver, _ = loader.load_graph(graph, ["serve"])
    loader.restore_variables(session, saver)
    loader.run_init_ops(session, ["serve"])
"""
from pyflow.framework import dtypes, graph as graph_lib, protos
from pyflow.saved_model import folders, keys, reading, signatures, writing
from pyflow.train import checkpoint, meta_graph

__all__ = ["INIT_OP_SIGNATURE_KEY", "SavedModelLoader", "TRAIN_OP_KEY", "TRAIN_OP_SIGNATURE_KEY",
           "_SavedModelBuilder", "get_asset_tensors", "get_init_op", "get_train_op",
           "parse_saved_model"]
INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY, TRAIN_OP_KEY = (
    keys.INIT_OP_SIGNATURE_KEY, keys.TRAIN_OP_SIGNATURE_KEY, keys.TRAIN_OP_KEY)


class _SavedModelBuilder(writing.SavedModelBuilder):
    """The builder of version 2: init_op and train_op are signatures, assets are a list."""

    def add_meta_graph_and_variables(self, sess, tags, signature_def_map=None, assets_list=None,
                                     clear_devices=False, init_op=None, train_op=None,
                                     strip_default_attrs=True, saver=None):
        """As SavedModelBuilder's; train_op: stored, not run."""
        super().add_meta_graph_and_variables(
            sess, tags, _with_ops(signature_def_map, init_op, train_op), assets_list,
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs, saver=saver)

    def add_meta_graph(self, tags, signature_def_map=None, assets_list=None, clear_devices=False,
                       init_op=None, train_op=None, saver=None):
        """As SavedModelBuilder's; train_op: stored, not run."""
        super().add_meta_graph(
            tags, _with_ops(signature_def_map, init_op, train_op), assets_list,
            clear_devices=clear_devices, strip_default_attrs=True, saver=saver)


def _with_ops(signatures, init_op, train_op):
    writing.require_names(signatures)
    signatures = dict(signatures or {})
    for key, op in ((keys.INIT_OP_SIGNATURE_KEY, init_op), (TRAIN_OP_SIGNATURE_KEY, train_op)):
        if op is not None:
            made = signatures[key] = protos.SignatureDef()
            made.outputs[key].CopyFrom(_info(op))
    return signatures


def _info(op):
    """A TensorInfo that names an operation, or describes a tensor."""
    if isinstance(op, graph_lib.Tensor):
        return signatures.build_tensor_info(op)
    if not isinstance(op, graph_lib.Operation):
        raise TypeError(f"init_op and train_op must be operations or tensors: {op!r}")
    info = protos.TensorInfo(name=op.name, dtype=dtypes.float32.as_datatype_enum)
    info.tensor_shape.unknown_rank = True
    return info


class SavedModelLoader:
    """A SavedModel's folder, of which graph, variables and initialisation are loaded one by one.

    tags: those of a MetaGraph, exactly, else a RuntimeError. IOError for a folder that is none."""

    def __init__(self, export_dir):
        self._export_dir = export_dir
        self._message = folders.read(export_dir)

    export_dir = property(lambda self: self._export_dir, doc="The folder.")
    variables_path = property(lambda self: folders.variables_path(self._export_dir),
                              doc="The prefix of its checkpoint.")
    saved_model = property(lambda self: self._message, doc="The SavedModel message.")

    def get_meta_graph_def_from_tags(self, tags):
        """The MetaGraphDef with these tags."""
        return folders.meta_graph(self._message, tags, self._export_dir)

    def load_graph(self, graph, tags, import_scope=None, **saver_kwargs):
        """Adds the nodes to a graph. (Saver or None, what return_elements names or None)."""
        found = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return meta_graph.import_with_return_elements(found, import_scope=import_scope,
                                                          **saver_kwargs)

    def restore_variables(self, sess, saver, import_scope=None):
        """Gives the session the variables' values. ValueError where the graph has variables and
        there is no saver."""
        with sess.graph.as_default():
            if saver is None and graph_lib.get_collection(
                    graph_lib.GraphKeys.GLOBAL_VARIABLES, scope=import_scope):
                raise ValueError("No tf.train.Saver object was passed to the function "
                                 "SavedModelLoader.restore_variables, and the graph has variables "
                                 "to restore")
            if saver is not None and checkpoint.checkpoint_exists(self.variables_path):
                saver.restore(sess, self.variables_path)

    def run_init_ops(self, sess, tags, import_scope=None):
        """Runs what initialises tables and the like, fed with the assets' paths."""
        found = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            reading.run_init_op(sess, found, import_scope, self._export_dir)

    def load(self, sess, tags, import_scope=None, **saver_kwargs):
        """All three; returns the MetaGraphDef."""
        saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, tags, import_scope)
        return self.get_meta_graph_def_from_tags(tags)


def get_init_op(meta_graph_def, import_scope=None):
    """The operation of the default graph that initialises an imported MetaGraph, or None."""
    return reading.init_op(graph_lib.get_default_graph(), meta_graph_def, import_scope)


def get_train_op(meta_graph_def, import_scope=None):
    """The operation or tensor of the default graph that trains an imported MetaGraph, or None."""
    key = TRAIN_OP_SIGNATURE_KEY
    if key in meta_graph_def.signature_def:
        name = meta_graph_def.signature_def[key].outputs[key].name
        return reading.named(graph_lib.get_default_graph(), reading.scoped(name, import_scope))
    there = graph_lib.get_collection(TRAIN_OP_KEY) if TRAIN_OP_KEY in meta_graph_def.collection_def else ()
    return there[0] if there else None


def get_asset_tensors(export_dir, meta_graph_def_to_load, import_scope=None):
    """{name of the asset's tensor: path of its file}."""
    return {reading.scoped(name, import_scope): path for name, path
            in folders.asset_files(meta_graph_def_to_load, export_dir).items()}


def parse_saved_model(export_dir):
    """The SavedModel message of a folder; IOError where there is none."""
    return folders.read(export_dir)
