"""MetaGraphDef: a graph with its collections and saver in one file, wire-compatible with TF's
`.meta`.

Invariants
    1. Variables come back as variable objects in the collections they were in; tensors and
       operations by name; strings, ints and floats as they were.
    2. A collection that cannot be written is left out with a warning, never a failure.
    3. The places where operations were made are kept (saved_origins.py), but in a message that is
       neither written nor of a Saver: it has TensorFlow's collections alone (tensorflow_hub 0.1
       refuses others).
    4. The file appears complete or not at all (temp file, fsync, rename).

Threads: the one that builds the graph.

    tf.train.export_meta_graph("model.meta")
    saver = tf.train.import_meta_graph("model.meta")
"""
import logging
import os

from pyflow.framework import errors, graph as graph_lib
from pyflow.lib.files import remote
from pyflow.train import checkpoint_state, saved_origins

_SAVER_FIELDS = (
    "filename_tensor_name",
    "save_tensor_name",
    "restore_op_name",
    "max_to_keep",
    "sharded",
    "keep_checkpoint_every_n_hours",
    "version",
)
TENSORFLOW = "1.15.0"          # whose API the graphs are written with; readers ask for it
UNBOUND, UNBOUND_COLLECTION = "$unbound_inputs_", "unbound_inputs"
_VARIABLES = frozenset(graph_lib.GraphKeys._VARIABLE_COLLECTIONS)


# ---------------------------------------------------------------- export


def export_meta_graph(
    filename=None,
    graph=None,
    saver_def=None,
    as_text=False,
    collection_list=None,
    export_scope=None,
    clear_devices=False,
    meta_info_def=None,
    graph_def=None,
    clear_extraneous_savers=False,
    strip_default_attrs=False,
):
    """The MetaGraphDef of a graph; written to `filename` if given (a SaverDef may be a message or
    the saver's own)."""
    graph = graph or graph_lib.get_default_graph()
    with graph._lock:           # what collections name is in the GraphDef
        message = _message(graph, saver_def, collection_list, export_scope, clear_devices,
                           meta_info_def, graph_def, clear_extraneous_savers, strip_default_attrs)
        if not export_scope and (filename or saver_def is not None):
            items = saved_origins.items_of(graph.get_operations())
            message.collection_def[saved_origins.COLLECTION].bytes_list.value.extend(items)
    if filename:
        _write(message, remote.local_name(filename), as_text)
    return message


def _message(graph, saver_def, collection_list, export_scope, clear_devices, meta_info_def,
             graph_def, clear_extraneous_savers, strip_default_attrs):
    """The MetaGraphDef without the places where operations were made."""
    from pyflow.framework import protos
    message = protos.MetaGraphDef()
    if meta_info_def is not None:
        message.meta_info_def.CopyFrom(meta_info_def)
    message.graph_def.CopyFrom(
        graph_def if graph_def is not None else graph.as_graph_def(add_shapes=True)
    )
    unbound = _keep_scope(message.graph_def, export_scope.rstrip("/")) if export_scope else ()
    for node in message.graph_def.node if clear_devices else ():
        node.device = ""
    _describe(message, strip_default_attrs)
    if saver_def is not None:
        _copy_saver(saver_def, message.saver_def)
    for name in graph.get_all_collection_keys() if collection_list is None else collection_list:
        if name == graph_lib.GraphKeys.SAVERS and clear_extraneous_savers:
            continue
        _export_collection(message, graph, name, export_scope)
    if unbound:
        message.collection_def[UNBOUND_COLLECTION].bytes_list.value.extend(
            name.encode() for name in unbound)
    return message


def _describe(message, strip_default_attrs):
    """The meta_info_def: who wrote the graph, and the ops it needs."""
    import pyflow
    from pyflow.framework import written_messages
    info = message.meta_info_def
    info.meta_graph_version = info.meta_graph_version or "1"
    info.tensorflow_version = info.tensorflow_version or TENSORFLOW
    info.tensorflow_git_version = info.tensorflow_git_version or pyflow.GIT_VERSION
    if not info.HasField("stripped_op_list"):
        info.stripped_op_list.CopyFrom(written_messages.op_list_of(message.graph_def))
    if strip_default_attrs:
        written_messages.strip_defaults(message.graph_def)
        info.stripped_default_attrs = True


def _write(message, path, as_text):
    if as_text:
        from google.protobuf import text_format
        data = text_format.MessageToString(message).encode()
    else:
        data = message.SerializeToString()
    checkpoint_state.replace_file(path, data)


def write_graph(graph_or_graph_def, logdir, name, as_text=True):
    """Writes a Graph or GraphDef to the file `name` in `logdir`, which is made; returns its path.
    TF: tf.train.write_graph. tf.errors.OpError if it cannot."""
    if isinstance(graph_or_graph_def, graph_lib.Graph):
        graph_or_graph_def = graph_or_graph_def.as_graph_def()
    path = os.path.join(remote.local_name(logdir), name)
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    except FileExistsError:
        raise errors.FailedPreconditionError(None, None, f"{logdir} is no folder") from None
    except OSError as e:
        raise errors.of_os_error(e) from None
    _write(graph_or_graph_def, path, as_text)
    return path


def _copy_saver(saver_def, message):
    for name in _SAVER_FIELDS:
        value = getattr(saver_def, name, None)
        if value is not None:
            setattr(message, name, value)


def _keep_scope(graph_def, scope):
    """Leaves the nodes below `scope`, with names relative to it; returns what they read from
    outside, under the names that `input_map` of an import takes: "$unbound_inputs_NAME"."""
    prefix, kept, unbound = scope + "/", [], []
    for node in graph_def.node:
        if not node.name.startswith(prefix):
            continue
        node.name = node.name[len(prefix):]
        for i, text in enumerate(node.input):
            mark, name = ("^", text[1:]) if text.startswith("^") else ("", text)
            if name.startswith(prefix):
                node.input[i] = mark + name[len(prefix):]
            else:
                node.input[i] = mark + UNBOUND + name
                if node.input[i] not in unbound:
                    unbound.append(node.input[i])
        _keep_colocations(node, prefix)
        kept.append(node)
    kept = [type(n).FromString(n.SerializeToString()) for n in kept]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    return unbound


def _keep_colocations(node, prefix):
    """Those with nodes of the scope, by the names they have there."""
    if "_class" not in node.attr:
        return
    names = [value.removeprefix(b"loc:@").decode() for value in node.attr["_class"].list.s]
    there = [name[len(prefix):] for name in names if name.startswith(prefix)]
    del node.attr["_class"]
    if there:
        node.attr["_class"].list.s.extend(b"loc:@" + name.encode() for name in there)


def export_scoped_meta_graph(filename=None, graph_def=None, graph=None, export_scope=None,
                             as_text=False, unbound_inputs_col_name=UNBOUND_COLLECTION,
                             clear_devices=False, saver_def=None, clear_extraneous_savers=False,
                             strip_default_attrs=False, save_debug_info=False, **kwargs):
    """The MetaGraphDef of what lies below `export_scope`, names relative to it, and {name there:
    variable} of the global variables in it.

    Inputs from outside become "$unbound_inputs_NAME", listed in the collection
    `unbound_inputs_col_name`: who imports has to map them.  `graph` may be extended by
    `collection_list` and `meta_info_def` in kwargs.  TF: python/framework/meta_graph.py."""
    graph = graph or graph_lib.get_default_graph()
    if not isinstance(graph, graph_lib.Graph):
        raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
    scope = export_scope.rstrip("/") if export_scope else ""
    message = export_meta_graph(
        None, graph, saver_def, as_text, export_scope=scope or None, clear_devices=clear_devices,
        graph_def=graph_def, clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs, **kwargs)
    if unbound_inputs_col_name != UNBOUND_COLLECTION:
        there = message.collection_def.pop(UNBOUND_COLLECTION, None)
        if there is not None and unbound_inputs_col_name:
            message.collection_def[unbound_inputs_col_name].CopyFrom(there)
    if filename:
        _write(message, remote.local_name(filename), as_text)
    return message, _variables_by_name(graph, scope)


def _variables_by_name(graph, scope):
    """{name relative to the scope: variable} of the global variables in it."""
    found = graph.get_collection(graph_lib.GraphKeys.GLOBAL_VARIABLES)
    return {_relative(v.name, scope): v for v in found if _in_scope(v, scope)}


def _export_collection(message, graph, name, scope):
    items = [i for i in graph.get_collection(name) if _in_scope(i, scope)]
    if not items or not isinstance(name, str):
        return
    try:
        target = message.collection_def[name]
        for item in items:
            _export_item(target, name, item, scope)
    except (TypeError, AttributeError, ValueError) as e:
        del message.collection_def[name]
        logging.getLogger("pyflow").debug("collection %r is not exported: %s", name, e)


def _in_scope(item, scope):
    return not scope or str(getattr(item, "name", "")).startswith(scope.rstrip("/") + "/")


def _export_item(target, name, item, scope):
    if name in _VARIABLES:
        target.bytes_list.value.append(item.to_proto(scope).SerializeToString())
    elif hasattr(item, "to_proto") and not hasattr(item, "_as_graph_element"):
        proto = item.to_proto(export_scope=scope)
        if not hasattr(proto, "SerializeToString"):
            from pyflow.framework import protos
            own, proto = proto, protos.SaverDef()
            _copy_saver(own, proto)
        target.bytes_list.value.append(proto.SerializeToString())
    elif hasattr(item, "type_url"):             # google.protobuf.Any
        target.any_list.value.add(type_url=item.type_url, value=item.value)
    elif isinstance(item, (str, bytes)):
        target.bytes_list.value.append(item.encode() if isinstance(item, str) else item)
    elif isinstance(item, bool) or not isinstance(item, (int, float)):
        target.node_list.value.append(_relative(item.name, scope))
    elif isinstance(item, int):
        target.int64_list.value.append(item)
    else:
        target.float_list.value.append(item)


def _relative(name, scope):
    return name[len(scope.rstrip("/")) + 1:] if scope else name


# ---------------------------------------------------------------- import

def read_meta_graph_file(filename):
    """The MetaGraphDef of a binary or text file.  Raises IOError if there is none."""
    from pyflow.framework import protos
    try:
        with open(filename, "rb") as f:
            data = f.read()
    except OSError as e:
        raise IOError(f"File {filename} does not exist or cannot be read: {e.strerror}") from None
    from google.protobuf import message, text_format
    try:
        return protos.MetaGraphDef.FromString(data)
    except message.DecodeError:
        pass
    try:
        return text_format.Parse(data.decode("utf-8"), protos.MetaGraphDef())
    except (text_format.ParseError, UnicodeDecodeError) as e:
        raise IOError(f"Cannot parse file {filename}: {e}") from None


def import_meta_graph(meta_graph_or_file, clear_devices=False, import_scope=None, **kwargs):
    """Adds the graph of a MetaGraphDef (or its file) to the default graph.  Returns a Saver, or
    None without variables.  graph: another graph to add it to.  restore_collections_predicate: a
    function of a collection's name, False leaves it out.  ValueError if it has inputs from outside
    its scope that `input_map` does not name."""
    return import_with_return_elements(meta_graph_or_file, clear_devices, import_scope,
                                       **kwargs)[0]


def import_with_return_elements(meta_graph_or_file, clear_devices=False, import_scope=None,
                                **kwargs):
    """As import_meta_graph: (Saver or None, the tensors and operations that `return_elements`
    names or None)."""
    if (other := kwargs.pop("graph", None)) is not None:
        with other.as_default():
            return import_with_return_elements(meta_graph_or_file, clear_devices, import_scope,
                                               **kwargs)
    wanted = kwargs.pop("restore_collections_predicate", None) or (lambda name: True)
    message, graph, scope, found = _import(meta_graph_or_file, clear_devices, import_scope,
                                           _import_options(kwargs), wanted=wanted)
    return _saver_of(message, graph, scope), found


def _saver_of(message, graph, scope):
    from pyflow.train.saver import Saver
    if message.HasField("saver_def"):
        return Saver.from_proto(message.saver_def, import_scope=scope or None)
    if graph.get_collection(graph_lib.GraphKeys.GLOBAL_VARIABLES, scope or None):
        return Saver()
    logging.getLogger("tensorflow").info(
        "Saver not created because there are no variables in the graph to restore"
    )
    return None


def import_scoped_meta_graph(meta_graph_or_file, clear_devices=False, graph=None, import_scope=None,
                             input_map=None, unbound_inputs_col_name=UNBOUND_COLLECTION,
                             restore_collections_predicate=(lambda key: True)):
    """Adds what `export_scoped_meta_graph` gave to a graph (None: the default one), below
    `import_scope`; returns {name relative to it: variable}.  input_map: tensors for the names in the
    collection `unbound_inputs_col_name`, all of them, else a ValueError.
    restore_collections_predicate: which collections come along.  TF:
    python/framework/meta_graph.py."""
    graph = graph or graph_lib.get_default_graph()
    with graph.as_default():
        _, _, scope, _ = _import(meta_graph_or_file, clear_devices, import_scope,
                                 {"input_map": input_map}, unbound_inputs_col_name,
                                 restore_collections_predicate)
    return _variables_by_name(graph, scope)


def copy_scoped_meta_graph(from_scope, to_scope, from_graph=None, to_graph=None):
    """Copies what lies below one scope, its variables and collections, to another; returns
    {name: variable} of the copies.  ValueError if both are the same scope of one graph.  TF:
    python/framework/meta_graph.py."""
    from_graph = from_graph or graph_lib.get_default_graph()
    to_graph = to_graph or graph_lib.get_default_graph()
    if from_graph == to_graph and from_scope == to_scope:
        raise ValueError(f"'from_scope' and 'to_scope' need to be different when performing copy in"
                         f" the same graph. {from_scope!r}")
    message, _ = export_scoped_meta_graph(export_scope=from_scope, graph=from_graph)
    return import_scoped_meta_graph(message, graph=to_graph, import_scope=to_scope)


def _import(meta_graph_or_file, clear_devices, import_scope, options,
            unbound_collection=UNBOUND_COLLECTION, wanted=lambda name: True):
    """(the message, the default graph, the scope, the elements asked for): nodes and collections
    are there."""
    from pyflow.framework import graph_io
    message = meta_graph_or_file
    if isinstance(message, (str, bytes, os.PathLike)):
        message = read_meta_graph_file(remote.local_name(message))
    _require_bound(message, options.get("input_map") or {}, unbound_collection)
    graph_def = type(message.graph_def).FromString(message.graph_def.SerializeToString())
    for node in graph_def.node if clear_devices else ():
        node.device = ""
    graph = graph_lib.get_default_graph()
    if import_scope:
        scope = graph.unique_name(import_scope, mark_as_used=False)
        name = import_scope
    else:                                       # within a name scope: there
        scope = graph.get_name_scope()
        name = scope and scope + "/"
    if options.get("producer_op_list") is None and message.meta_info_def.HasField(
            "stripped_op_list"):
        options["producer_op_list"] = message.meta_info_def.stripped_op_list
    found = graph_io.import_graph_def(graph_def, name=name, **options)
    origins = message.collection_def.get(saved_origins.COLLECTION)
    if origins is not None:
        saved_origins.restore(graph, origins.bytes_list.value, scope)
    for name in sorted(message.collection_def):
        if name not in (saved_origins.COLLECTION, unbound_collection) and wanted(name):
            _import_collection(graph, name, message.collection_def[name], scope)
    return message, graph, scope, found


def _require_bound(message, input_map, collection):
    """ValueError for inputs from outside the exported scope that nobody maps."""
    if not collection or collection not in message.collection_def:
        return
    mapped = {key.decode() if isinstance(key, bytes) else str(key) for key in input_map}
    missing = [value.decode("utf-8", "replace")
               for value in message.collection_def[collection].bytes_list.value]
    missing = [name for name in missing if name not in mapped]
    if missing:
        raise ValueError(f"Graph contains unbound inputs: {', '.join(missing)}. Must provide these"
                         " inputs through input_map.")


def _import_options(kwargs):
    known = {"input_map", "return_elements", "producer_op_list"}
    unknown = set(kwargs) - known
    if unknown:
        raise TypeError(f"import_meta_graph got unexpected arguments {sorted(unknown)}")
    return kwargs


def _import_collection(graph, name, target, scope):
    kind = target.WhichOneof("kind")
    if kind is None:
        return
    for value in getattr(target, kind).value:
        try:
            graph.add_to_collection(name, _import_item(graph, name, kind, value, scope))
        except (KeyError, ValueError, TypeError, errors.OpError) as e:
            logging.getLogger("pyflow").warning("collection %r: %s", name, e)


def _import_item(graph, name, kind, value, scope):
    if kind == "node_list":
        return graph.as_graph_element(f"{scope}/{value}" if scope else value)
    if kind == "int64_list":
        return int(value)
    if kind == "float_list":
        return float(value)
    if kind == "any_list":                      # a message, such as a SavedModel's assets
        return value
    if name in _VARIABLES:
        return _variable(value, scope)
    if name == graph_lib.GraphKeys.SAVERS:
        from pyflow.framework import protos
        from pyflow.train.saver import Saver
        return Saver.from_proto(_parsed(protos.SaverDef, value), import_scope=scope or None)
    if name == graph_lib.GraphKeys.QUEUE_RUNNERS:
        from pyflow.framework import protos
        from pyflow.train.queue_runners import QueueRunner
        return QueueRunner.from_proto(_parsed(protos.QueueRunnerDef, value), scope or None)
    if name in (graph_lib.GraphKeys.WHILE_CONTEXT, graph_lib.GraphKeys.COND_CONTEXT):
        from pyflow.framework import protos
        from pyflow.lib.control_flow import context_protos
        kind = protos.WhileContextDef if name == graph_lib.GraphKeys.WHILE_CONTEXT \
            else protos.CondContextDef
        return context_protos.read(_parsed(kind, value), scope or None)
    return value


def _parsed(kind, data):
    """The message of a collection's bytes; ValueError for others."""
    from google.protobuf import message
    try:
        return kind.FromString(data)
    except message.DecodeError as e:
        raise ValueError(f"no {kind.__name__}: {e}") from None


def _variable(data, scope):
    """The variable object over nodes that are in the graph; the same one for every collection it is
    in."""
    from pyflow.framework import protos
    from pyflow.lib.variables import variables
    definition = _parsed(protos.VariableDef, data)
    graph = graph_lib.get_default_graph()
    name = (f"{scope}/" if scope else "") + definition.variable_name
    for known in _VARIABLES:
        for var in graph.get_collection(known):
            tensor = getattr(var, "handle", None)
            if (tensor if tensor is not None else var._ref()).name == name:
                return var
    return variables.Variable.from_proto(definition, scope or None)
