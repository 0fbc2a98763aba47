"""A SavedModel's folder: its message, its MetaGraphs by tags, where its files lie.

    export_dir/saved_model.pb  (or .pbtxt)
               variables/variables.index, variables/variables.data-...
               assets/...

Invariants
    1. Everything read is untrusted: names of assets are bare file names inside assets/, a message
       that cannot be parsed is an IOError that names the file.
    2. One set of tags names one MetaGraph; which tags there are is said where they do not fit.

Threads: functions without state.

    message = folders.read(export_dir)
    graph = folders.meta_graph(message, ["serve"], export_dir)
"""
import os

from pyflow.framework import whole_files
from pyflow.lib.files import remote
from pyflow.saved_model import keys


def model_file(export_dir):
    """Path of the folder's saved_model.pb or .pbtxt; None if it has neither."""
    for name in (keys.SAVED_MODEL_FILENAME_PB, keys.SAVED_MODEL_FILENAME_PBTXT):
        path = os.path.join(remote.local_name(export_dir), name)
        if os.path.isfile(path):
            return path
    return None


def maybe_saved_model_directory(export_dir):
    """True if the folder has a saved_model.pb or saved_model.pbtxt."""
    return model_file(export_dir) is not None


def folder_of(path):
    """The folder of a SavedModel that `path` means, a folder or its saved_model.pb, else None."""
    path = remote.local_name(path)
    if os.path.isdir(path):
        return path if model_file(path) else None
    names = keys.SAVED_MODEL_FILENAME_PB, keys.SAVED_MODEL_FILENAME_PBTXT
    is_one = os.path.basename(path) in names and os.path.isfile(path)
    return (os.path.dirname(path) or ".") if is_one else None


def read(export_dir):
    """The SavedModel message of a folder. IOError if there is none, or it cannot be parsed."""
    path = model_file(export_dir)
    if path is None:
        raise IOError(f"SavedModel file does not exist at: {remote.local_name(export_dir)}{os.path.sep}"
                      f"{{{keys.SAVED_MODEL_FILENAME_PBTXT}|"
                      f"{keys.SAVED_MODEL_FILENAME_PB}}}")
    try:
        data = whole_files.read(path)
    except OSError as e:
        raise IOError(f"{path}: {e.strerror}") from None
    message = _parsed(path, data)
    if not message.meta_graphs:
        raise IOError(f"{path} has no MetaGraph: it is no SavedModel, or an empty one")
    return message


def _parsed(path, data):
    from google.protobuf import message, text_format

    from pyflow.framework import protos
    try:
        if path.endswith(".pbtxt"):
            return text_format.Parse(data.decode("utf-8"), protos.SavedModel(),
                                     allow_unknown_extension=True, allow_unknown_field=True)
        return protos.SavedModel.FromString(data)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as e:
        line = (str(e).splitlines() or ["malformed"])[0][:200]
        raise IOError(f"Cannot parse file {path}: {line}. It is no SavedModel, or damaged"
                      ) from None


def tag_sets(message):
    """[set of tags] of a SavedModel's MetaGraphs."""
    return [set(graph.meta_info_def.tags) for graph in message.meta_graphs]


def meta_graph(message, tags, where):
    """The MetaGraphDef with exactly these tags; None for `tags`: the one to serve, or the only one.
    RuntimeError that lists the tags there are."""
    there = tag_sets(message)
    if tags is None:
        wanted = {keys.SERVING} if {keys.SERVING} in there else there[0]
    else:
        wanted = {tags} if isinstance(tags, str) else set(tags)
    for graph, found in zip(message.meta_graphs, there):
        if found == wanted and (tags is not None or len(there) == 1
                                or keys.SERVING in found):
            return graph
    shown = ", ".join("{" + ", ".join(sorted(found)) + "}" for found in there)
    raise RuntimeError(f"MetaGraphDef associated with tags {sorted(wanted)} could not be found in "
                       f"SavedModel '{remote.local_name(where)}'. Available tag-sets: {shown}")


def variables_path(export_dir):
    """The prefix of the folder's checkpoint."""
    return os.path.join(remote.local_name(export_dir), keys.VARIABLES_DIRECTORY,
                        keys.VARIABLES_FILENAME)


def asset_files(graph, export_dir):
    """{tensor name: path} of a MetaGraphDef's assets."""
    found = {}
    for asset in list(graph.asset_file_def) or _collected_assets(graph):
        name = asset.filename
        if not name or os.path.isabs(name) or ".." in name.split("/") or "\0" in name:
            raise IOError(f"SavedModel '{export_dir}': asset {name!r} is no file below "
                          f"{keys.ASSETS_DIRECTORY}/")
        found[asset.tensor_info.name] = os.path.join(
            remote.local_name(export_dir), keys.ASSETS_DIRECTORY, name)
    return found


def _collected_assets(graph):
    from google.protobuf import message

    from pyflow.framework import protos
    if keys.ASSETS_KEY not in graph.collection_def:
        return []
    values = graph.collection_def[keys.ASSETS_KEY].any_list.value
    try:
        return [protos.AssetFileDef.FromString(value.value) for value in values]
    except message.DecodeError as e:
        raise IOError(f"the assets of the SavedModel cannot be parsed: {e}") from None


PUBLIC = {
    "saved_model.loader.maybe_saved_model_directory": maybe_saved_model_directory,
    "saved_model.maybe_saved_model_directory": maybe_saved_model_directory,
    "saved_model.contains_saved_model": maybe_saved_model_directory,
}
