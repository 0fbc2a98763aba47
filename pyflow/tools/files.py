"""Reads model files for the tools: GraphDef and MetaGraphDef, binary or text, and SavedModels."""
import os

from pyflow.framework import whole_files


class UnreadableModel(Exception):
    """The file is no graph; the message says what was tried."""


def read_graph(path, tags=None):
    """(GraphDef, kind) of a .pb, .pbtxt or .meta file, or of a SavedModel, a folder or its
    saved_model.pb: the MetaGraph with these tags, None for the one to serve."""
    from pyflow.framework import protos
    from pyflow.saved_model import folders
    if folders.folder_of(path):
        return read_meta_graph(path, tags).graph_def, "SavedModel"
    if os.path.isdir(path):
        raise UnreadableModel(f"{path} is a folder without saved_model.pb; name a GraphDef (.pb,"
                              " .pbtxt), a .meta file or a SavedModel's folder")
    try:
        data = whole_files.read(path)
    except OSError as e:
        raise UnreadableModel(f"{path}: {e.strerror}") from None
    errors = []
    for kind in _order(path):
        if kind.endswith("text") and not whole_files.looks_like_text(data):
            continue
        try:
            graph = _PARSERS[kind](data, protos)
        except Exception as e:  # a parser of untrusted bytes: whatever it says is shown
            errors.append(f"as {kind}: {_first_line(e)}")
            continue
        if len(graph.node):
            return graph, kind
        errors.append(f"as {kind}: it has no nodes")
    raise UnreadableModel("\n  ".join([f"{path} is not a graph:", *errors]))


def read_meta_graph(path, tags=None):
    """The MetaGraphDef of a SavedModel."""
    from pyflow.saved_model import folders
    try:
        return folders.meta_graph(folders.read(folders.folder_of(path)), tags, path)
    except (OSError, RuntimeError) as e:
        raise UnreadableModel(str(e)) from None


def read_meta_file(path):
    """The MetaGraphDef of a .meta file, binary or text."""
    from pyflow.framework import protos
    data = whole_files.read(path)
    try:
        return protos.MetaGraphDef.FromString(data)
    except Exception:               # no binary one, as read_graph found
        return _text(data, protos.MetaGraphDef())


def saved_places(path):
    """The items of a .meta file that say where its nodes were made (train/saved_origins.py)."""
    from pyflow.train import saved_origins
    found = read_meta_file(path).collection_def
    key = saved_origins.COLLECTION
    return list(found[key].bytes_list.value) if key in found else []


def tags_of(text):
    """The tags of --tags serve,gpu; None without."""
    return [tag for tag in text.split(",") if tag] if text else None


def _first_line(error):
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 200 else line[:200] + " ..."


def _order(path):
    kinds = ["GraphDef", "MetaGraphDef", "GraphDef text", "MetaGraphDef text"]
    if path.endswith(".meta"):
        kinds = [kinds[1], kinds[0], kinds[3], kinds[2]]
    elif path.endswith((".pbtxt", ".txt")):
        kinds = kinds[2:] + kinds[:2]
    return kinds


def _text(data, message):
    from google.protobuf import text_format
    return text_format.Parse(data.decode("utf-8"), message)


_PARSERS = {
    "GraphDef": lambda data, protos: protos.GraphDef.FromString(data),
    "MetaGraphDef": lambda data, protos: protos.MetaGraphDef.FromString(data).graph_def,
    "GraphDef text": lambda data, protos: _text(data, protos.GraphDef()),
    "MetaGraphDef text": lambda data, protos: _text(data, protos.MetaGraphDef()).graph_def,
}
