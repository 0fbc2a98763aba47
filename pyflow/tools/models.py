"""Model files as graphs ready to run: frozen GraphDefs and ONNX models.

    model = models.load("model.onnx")
    model.graph, model.inputs, model.outputs      # inputs and outputs: names of tensors

Threads: any; pure but for reading files.
"""
import json
import re
import sys
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

    A GraphDef's inputs are its placeholders that are read, in its order; its outputs the tensors
    outside loops that nothing reads or waits for, of calls of functions only where nothing reads
    any result.
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
    given = [op for op in operations if op.type in _PLACEHOLDERS]
    inputs = [op.outputs[0].name for op in [op for op in given if _is_read(op)] or given]
    return Model(graph, inputs, _outputs(message, operations))


_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
_FLOW = ("Switch", "Merge", "Enter", "NextIteration", "LoopCond", "_SwitchN", "Exit")


def _is_read(op):
    return any(t.consumers() for t in op.outputs) or bool(op.control_outputs)


def _outputs(message, operations):
    """Names of the tensors that nothing reads; see `load`."""
    from pyflow.framework import function_inline
    functions = {f.signature.name for f in message.library.function}
    calls = {n.name for n in message.node if function_inline.is_call(n.op, functions)}
    read = {text for n in message.node for text in n.input}
    read.update([text.partition(":")[0] for text in read])
    own = {n.name for n in message.node}
    looped = _in_loops(operations)
    return [t.name for op in operations for t in op.outputs
            if not t.consumers() and not op.control_outputs and op.name in own and op not in looped
            and op.type not in _FLOW and (op.type not in _PLACEHOLDERS or len(own) == 1)
            and not (op.name in calls and op.name in read)]


def _in_loops(operations):
    """The operations between an Enter and the Exits."""
    stack = [op for op in operations if op.type == "Enter"]
    found = set(stack)
    while stack:
        for tensor in stack.pop().outputs:
            for reader in tensor.consumers():
                if reader.type != "Exit" and reader not in found:
                    found.add(reader)
                    stack.append(reader)
    return found


# What changes variables or files: `run` does that only where it is asked for by name.
_WRITES = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]|Assign|Save|MergeV2|WriteFile|CountUpTo|"
                     r"(Resource)?Scatter(Nd)?(Add|Sub|Update|Mul|Div|Min|Max)$")


def harmless_outputs(model):
    """The model's outputs that write nothing; what the others would write is said on stderr.

    Raises ValueError where none remains: a training graph's ends are its updates and its Saver.
    """
    writers = {name: _writer(model.graph, name) for name in model.outputs}
    kept = [name for name, op in writers.items() if op is None]
    if len(kept) == len(model.outputs):
        return kept
    left = [f"{name} ({op.type} '{op.name}')" for name, op in writers.items() if op is not None]
    text = (f"{len(left)} of the graph's ends write variables or files and are fetched only if --fetch"
            f" names them: {', '.join(left[:3])}{', ...' if len(left) > 3 else ''}")
    if not kept:
        raise ValueError(text + "; a training graph is run after freezing it (tf.graph_util."
                         "convert_variables_to_constants), or with --fetch")
    print(text, file=sys.stderr)
    return kept


def _writer(graph, tensor):
    """An operation that writes among what `tensor` needs, or None."""
    stack = [graph.get_tensor_by_name(tensor).op]
    seen = set(stack)
    while stack:
        op = stack.pop()
        if _WRITES.match(op.type):
            return op
        needed = {t.op for t in op.inputs} | set(op.control_inputs)
        stack += needed - seen
        seen |= needed
    return None


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
