"""tf.saved_model.loader.load: a SavedModel's graph into a session, its variables restored, its
tables and assets initialised.

Models of TensorFlow 1's builder and of TensorFlow 2 (tf.saved_model.save, Keras) are read alike:
the functions of the latter are inlined as any GraphDef's, its signatures are tensors of the
MetaGraph.

Invariants
    1. The variables come from the folder's checkpoint through the MetaGraph's own restore op; then
       the initialising op runs, once, with the assets' paths where they are now.
    2. A folder that was moved is read: nothing of the paths in the graph is used.

Threads: those of graph building; the session's step is as any other.

    with tf.Session(graph=tf.Graph()) as sess:
        meta_graph = tf.saved_model.loader.load(sess, ["serve"], export_dir)
        y = sess.run("y:0", {"x:0": x})
"""
import logging
import os

from pyflow.framework import errors, graph as graph_lib
from pyflow.saved_model import folders, keys
from pyflow.train import checkpoint, meta_graph as meta_graph_lib


def load(sess, tags, export_dir, import_scope=None, **saver_kwargs):
    """Loads the MetaGraph with exactly these tags into the session's graph, and its state into the
    session. Returns the MetaGraphDef.

    import_scope: a name scope for the graph's nodes; names in the MetaGraphDef stay without it.
    saver_kwargs: as `tf.train.import_meta_graph` takes them (input_map).
    Raises IOError for a folder that is no SavedModel, RuntimeError if no MetaGraph has the tags.
    TF: tf.saved_model.loader.load.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> x = tf.placeholder(tf.float32, [None], name="x")
        >>> y = tf.multiply(x, tf.Variable(3.0), name="y")
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     tf.saved_model.simple_save(sess, folder, {"x": x}, {"y": y})
        >>> with tf.Session(graph=tf.Graph()) as sess:
        ...     found = tf.saved_model.loader.load(sess, ["serve"], folder)
        ...     name = found.signature_def["serving_default"].outputs["y"].name
        ...     sess.run(name, {"x:0": [1.0, 2.0]})
        array([3., 6.], dtype=float32)
    """
    message = folders.read(export_dir)
    found = folders.meta_graph(message, tags, export_dir)
    import_into(sess.graph, found, import_scope, export_dir, **saver_kwargs)(sess)
    if found.meta_info_def.stripped_default_attrs:
        from pyflow.framework import written_messages
        written_messages.give_defaults(found.graph_def)
    return found


def import_into(graph, meta_graph, import_scope, export_dir, **saver_kwargs):
    """Adds the MetaGraph's nodes to `graph`; returns the function that gives a session its
    state."""
    with graph.as_default():
        saver = meta_graph_lib.import_meta_graph(meta_graph, import_scope=import_scope,
                                                 **saver_kwargs)
        import_scope = "/".join(filter(None, (graph.get_name_scope(), import_scope)))

    def give_state(sess):
        path = folders.variables_path(export_dir)
        if saver is not None and checkpoint.checkpoint_exists(path):
            saver.restore(sess, path)
        elif saver is not None:
            logging.getLogger("tensorflow").info(
                "The specified SavedModel has no variables; no checkpoints were restored.")
        run_init_op(sess, meta_graph, import_scope, export_dir)
    return give_state


def run_init_op(sess, meta_graph, import_scope, export_dir):
    """Runs what initialises the imported MetaGraph's tables and the like, if it has such an op."""
    init = init_op(sess.graph, meta_graph, import_scope)
    if init is not None:
        sess.run(init, {scoped(name, import_scope): path for name, path
                        in folders.asset_files(meta_graph, export_dir).items()})


def scoped(name, import_scope):
    """A name of the MetaGraph as it is in the graph."""
    return f"{import_scope}/{name}" if import_scope else name


def named(graph, name):
    """The graph's element of that name; NotFoundError where there is none."""
    try:
        return graph.as_graph_element(name)
    except KeyError as e:
        raise errors.NotFoundError(None, None, f"the SavedModel's init op is not there: {e}, is "
                                   "another import_scope needed?") from None


def init_op(graph, meta_graph, import_scope):
    """The op that initialises tables and the like: of version 2 the output of a signature, of
    version 1 the item of a collection. None: nothing is to be done."""
    key = keys.INIT_OP_SIGNATURE_KEY
    if key in meta_graph.signature_def and key in meta_graph.signature_def[key].outputs:
        name = meta_graph.signature_def[key].outputs[key].name
        name = name.partition(":")[0]
        return named(graph, scoped(name, import_scope)) if name else None
    for key in (keys.MAIN_OP_KEY, keys.LEGACY_INIT_OP_KEY):
        names = meta_graph.collection_def[key].node_list.value \
            if key in meta_graph.collection_def else ()
        if len(names) > 1:
            raise RuntimeError(f"Expected exactly one SavedModel init op in the collection {key}, "
                               f"found {len(names)}")
        if names:
            name, there = scoped(names[0], import_scope), graph.get_collection(key)
            if there and not any(op.name == name for op in there):
                return there[0]             # imported under a scope that is not said
            return named(graph, name)
    return None


def _main_op(extra=()):
    from pyflow.lib.control_flow import grouping
    from pyflow.lib.variables import lookup_tables, variables
    inits = [variables.global_variables_initializer(), variables.local_variables_initializer(),
             lookup_tables.tables_initializer()]
    with graph_lib.control_dependencies(list(extra)):
        return grouping.group(*inits)


def main_op():
    """The op that initialises all variables and tables, for Builder's `main_op`."""
    return _main_op()


def main_op_with_restore(restore_op_name):
    """`main_op`, after which the op of this name restores the variables."""
    from pyflow.lib.control_flow import grouping
    with graph_lib.control_dependencies([_main_op()]):
        restore = graph_lib.get_default_graph().as_graph_element(os.fspath(restore_op_name))
        return grouping.group(restore)


PUBLIC = {
    "saved_model.load": load,
    "saved_model.loader.load": load,
    "saved_model.main_op.main_op": main_op,
    "saved_model.main_op.main_op_with_restore": main_op_with_restore,
    "saved_model.main_op_with_restore": main_op_with_restore,
}
