"""tensorflow.python.tools.freeze_graph: a graph and a checkpoint as one GraphDef without variables.

    from tensorflow.python.tools import freeze_graph
    freeze_graph.freeze_graph("graph.pbtxt", "", False, "model.ckpt", "softmax", "save/restore_all",
                              "save/Const:0", "frozen.pb", True, "")

Threads: one call at a time builds a graph and a session of its own.
"""
import os

import pyflow as tf


def freeze_graph(input_graph, input_saver, input_binary, input_checkpoint, output_node_names,
                 restore_op_name, filename_tensor_name, output_graph, clear_devices,
                 initializer_nodes, variable_names_whitelist="", variable_names_blacklist="",
                 input_meta_graph=None, input_saved_model_dir=None, saved_model_tags="serve",
                 checkpoint_version=2):
    """Writes, and returns, the GraphDef of output_node_names (a text, with commas) with the
    checkpoint's values in place of variables.  As TensorFlow 1.15's tools/freeze_graph.py.

    input_graph: a GraphDef's file, binary if input_binary, else text; input_meta_graph: a
    MetaGraphDef's file in its place. input_checkpoint: the checkpoint's prefix. input_saver,
    restore_op_name and filename_tensor_name are read by TensorFlow; here the variables' own names
    are looked up in the checkpoint. clear_devices: nodes lose their devices. initializer_nodes: run
    before freezing, after restoring. The lists of variables, with commas, choose which become
    constants. input_saved_model_dir: a SavedModel's folder in place of graph and checkpoint, of
    which saved_model_tags, with commas, choose the MetaGraph. ValueError for a missing graph,
    checkpoint or name.
    """
    del input_saver, restore_op_name, filename_tensor_name, checkpoint_version
    if not output_node_names:
        raise ValueError("freeze_graph: output_node_names is empty; name the nodes to keep")
    if input_saved_model_dir:
        return _freeze_saved_model(
            input_saved_model_dir, _names(saved_model_tags), output_node_names, output_graph,
            clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist)
    if not tf.train.checkpoint_exists(input_checkpoint):
        raise ValueError(f"freeze_graph: there is no checkpoint {input_checkpoint!r}")
    graph_def = _read(input_meta_graph or input_graph, bool(input_meta_graph), input_binary)
    if clear_devices:
        for node in graph_def.node:
            node.device = ""
    return freeze_graph_with_def_protos(
        graph_def, None, input_checkpoint, output_node_names, None, None, output_graph,
        clear_devices, initializer_nodes, variable_names_whitelist, variable_names_blacklist)


def freeze_graph_with_def_protos(input_graph_def, input_saver_def, input_checkpoint,
                                 output_node_names, restore_op_name, filename_tensor_name,
                                 output_graph, clear_devices, initializer_nodes,
                                 variable_names_whitelist="", variable_names_blacklist="",
                                 **unused):
    """freeze_graph of a GraphDef at hand."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(input_graph_def, name="")
        with tf.Session() as session:
            _restore(session, graph, input_checkpoint)
            return _frozen(session, input_graph_def, output_node_names, output_graph,
                           initializer_nodes, variable_names_whitelist, variable_names_blacklist)


def _freeze_saved_model(folder, tags, output_node_names, output_graph, clear_devices, *rest):
    with tf.Session(graph=tf.Graph()) as session:
        graph_def = tf.saved_model.loader.load(session, tags, folder,
                                               clear_devices=clear_devices).graph_def
        if clear_devices:
            for node in graph_def.node:
                node.device = ""
        return _frozen(session, graph_def, output_node_names, output_graph, *rest)


def _frozen(session, graph_def, output_node_names, output_graph, initializer_nodes,
            whitelist, blacklist):
    """The GraphDef with the session's values for variables, also written to `output_graph`."""
    if initializer_nodes:
        session.run(_names(initializer_nodes))
    frozen = tf.graph_util.convert_variables_to_constants(
        session, graph_def, _names(output_node_names),
        variable_names_whitelist=_names(whitelist) or None,
        variable_names_blacklist=_names(blacklist) or None)
    if output_graph:
        with open(output_graph, "wb") as file:
            file.write(frozen.SerializeToString())
    return frozen


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _read(path, is_meta, binary):
    """The GraphDef of a file.  ValueError if there is none, or it is no such message."""
    from google.protobuf import message, text_format
    if not os.path.exists(path):
        raise ValueError(f"freeze_graph: there is no file {path!r}")
    with open(path, "rb") as file:
        data = file.read()
    made = tf.MetaGraphDef() if is_meta else tf.GraphDef()
    try:
        made.ParseFromString(data) if binary or is_meta else text_format.Parse(data, made)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as e:
        raise ValueError(f"freeze_graph: {path}: not a {'binary' if binary else 'text'} "
                         f"{type(made).__name__}: {e}") from e
    return made.graph_def if is_meta else made


def _restore(session, graph, checkpoint):
    """Assigns the checkpoint's values to the graph's variables of those names."""
    reader = tf.train.NewCheckpointReader(checkpoint)
    stored = reader.get_variable_to_shape_map()
    variables = {op.name: op for op in graph.get_operations()
                 if op.type in ("VariableV2", "Variable", "VarHandleOp")}
    values = {name: reader.get_tensor(name) for name in variables if name in stored}
    for whole, names in _partitioned(variables, stored).items():
        values.update(_cut(whole, reader.get_tensor(whole), {
            name: variables[name].get_attr("shape") for name in names}))
    for name, value in values.items():
        op = variables[name]
        if op.type == "VarHandleOp":
            value = tf.constant(value, dtype=op.get_attr("dtype"))
            session.run(tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value))
        else:
            session.run(tf.raw_ops.Assign(ref=op.outputs[0], value=value))


def _partitioned(variables, stored):
    """{variable that is stored whole: its parts in the graph, in order}."""
    parts = {}
    for name in variables:
        whole, part, number = name.rpartition("/part_")
        if part and number.isdigit() and name not in stored and whole in stored:
            parts.setdefault(whole, []).append(name)
    return {whole: sorted(names, key=lambda name: int(name.rpartition("_")[2]))
            for whole, names in parts.items()}


def _cut(whole, value, shapes):
    """{part: its slice of `value`}; ValueError for parts of other shapes than a partitioned
    variable's."""
    sizes = [[d.size for d in shape.dim] for shape in shapes.values()]
    axis = next((i for i, length in enumerate(value.shape) if sizes[0][i:i + 1] != [length]), 0)
    at, found = 0, {}
    for name, size in zip(shapes, sizes):
        if len(size) != value.ndim or size[:axis] + size[axis + 1:] != [
                *value.shape[:axis], *value.shape[axis + 1:]]:
            raise ValueError(f"freeze_graph: {whole!r} is stored with shape {value.shape}, of "
                             f"which {name!r} with shape {size} is no part")
        found[name] = value.take(range(at, at + size[axis]), axis)
        at += size[axis]
    if at != value.shape[axis]:
        raise ValueError(f"freeze_graph: {whole!r} is stored with {value.shape[axis]} rows along "
                         f"axis {axis}; the graph's {len(shapes)} parts have {at}")
    return found
