"""Model files as graphs ready to run: frozen GraphDefs and ONNX models.

    model = models.load("model.onnx")
    model.graph, model.inputs, model.outputs      # inputs and outputs: names of tensors

Threads: any; pure but for reading files.
"""
import json
from typing import NamedTuple

from pyflow.tools.files import UnreadableModel, read_graph

__all__ = ["Model", "UnreadableModel", "feeds_of", "load", "tensor_name"]


class Model(NamedTuple):
    """A graph of its own, and the names of the tensors it is fed and asked for."""

    graph: object
    inputs: list
    outputs: list


def load(path):
    """The Model in a .pb, .pbtxt, .meta or .onnx file.

    A GraphDef's inputs are its placeholders, in its order; its outputs the tensors nothing reads.
    Raises UnreadableModel, or ValueError for a graph that does not hold together.
    """
    import pyflow as tf
    if str(path).endswith(".onnx"):
        return _load_onnx(path)
    message, _ = read_graph(path)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
    _say_where(graph, path)
    operations = graph.get_operations()
    inputs = [op.outputs[0].name for op in operations if op.type in ("Placeholder", "PlaceholderV2")]
    outputs = [t.name for op in operations for t in op.outputs if not t.consumers()]
    return Model(graph, inputs, outputs)


def _load_onnx(path):
    import pyflow as tf
    from pyflow.interop import onnx
    try:
        with tf.Graph().as_default() as graph:
            model = onnx.import_model(path)
    except OSError as e:
        raise UnreadableModel(f"{path}: {e.strerror}") from None
    _say_where(graph, path)
    inputs, outputs = model.inputs.values(), model.outputs.values()
    return Model(graph, [t.name for t in inputs], [t.name for t in outputs])


def _say_where(graph, path):
    """Errors name the file, not this program."""
    from pyflow.train import saved_origins
    place = saved_origins.SavedPlace(str(path), 1, "graph")
    for op in graph.get_operations():
        op.origin = (place, 0)


def tensor_name(graph, name):
    """`y` is short for `y:0` where y has an output."""
    op = graph._nodes_by_name.get(name)
    return f"{name}:0" if op is not None and op.outputs else name


def feeds_of(model, files, named):
    """{tensor name: array}: `files` by position, `named` as TENSOR=FILE.npy or TENSOR=VALUE (JSON,
    else a string).  Raises ValueError for what cannot be read or is too much."""
    feeds = dict(_feed(text) for text in named)
    free = [name for name in model.inputs if name not in feeds]
    if len(files) > len(free):
        raise ValueError(f"--input given {len(files)} times: expected at most {len(free)}, one for"
                         f" each of the model's inputs ({', '.join(free) or 'it has none'})")
    feeds.update((name, _array(f"--input {path}", path)) for name, path in zip(free, files))
    return feeds


def _feed(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--feed {text}: expected TENSOR=FILE.npy or TENSOR=VALUE")
    name = name if ":" in name else name + ":0"
    if value.endswith(".npy"):
        return name, _array(f"--feed {text}", value)
    import numpy as np
    try:
        return name, np.asarray(json.loads(value))
    except ValueError:
        return name, value


def _array(what, path):
    import numpy as np
    try:
        return np.load(path, allow_pickle=False)
    except OSError as e:
        raise ValueError(f"{what}: {e.strerror or e}") from None
