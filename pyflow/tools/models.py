"""Model files as graphs ready to run: frozen GraphDefs, ONNX models and SavedModels.

    model = models.load("model.onnx")
    model.graph, model.inputs, model.outputs      # inputs and outputs: names of tensors

Threads: any; pure but for reading files.
"""
import json
import re
import sys
from typing import NamedTuple

import numpy as np

from pyflow.tools.files import UnreadableModel, read_graph, read_meta_graph, saved_places

__all__ = ["Model", "UnreadableModel", "feeds_of", "load", "shapes_of", "tensor_name", "with_feeds"]


def _nothing(sess):
    """A model without state."""


class Model(NamedTuple):
    """A graph of its own, and the names of the tensors it is fed and asked for; `give_state` takes
    the session before its first step; `names`: {name in a signature: tensor name}."""

    graph: object
    inputs: list
    outputs: list
    give_state: object = _nothing
    names: dict = {}


def load(path, shapes=None, tags=None, signature=None):
    """The Model in a .pb, .pbtxt, .meta or .onnx file, or a SavedModel's folder.

    shapes: of its inputs, by name, where the file leaves them open.  A GraphDef's inputs are its
    placeholders that are read, in its order; its outputs the tensors outside loops that nothing
    reads or waits for, of calls of functions only where nothing reads any result.
    Raises UnreadableModel, or ValueError for a graph that does not hold together.
    """
    return with_feeds(path, shapes, [], [], tags, signature)[0]


def with_feeds(path, shapes, files, named, tags=None, signature=None):
    """(Model, {tensor name: array}): the feeds as `feeds_of` reads them.

    An ONNX model in which an op has to know sizes or values is made for those that are fed.  tags,
    signature: of a SavedModel.
    """
    from pyflow.saved_model import folders
    if str(path).endswith(".onnx"):
        return _load_onnx(path, shapes or {}, files, named)
    if folders.folder_of(path):
        model = _load_saved_model(path, shapes or {}, tags, signature)
    else:
        model = _load_graph(path, shapes or {})
    return model, feeds_of(model, files, named)


def shapes_of(texts):
    """{name: sizes} of NAME=1,3,H,W texts, None where a size is no number."""
    shapes = {}
    for text in texts:
        name, equals, sizes = text.partition("=")
        words = sizes.split(",") if sizes else []
        if not equals or not all(re.fullmatch(r"\d+|\?|-1|[A-Za-z]\w*", word) for word in words):
            raise ValueError(f"--shape {text}: expected NAME=1,3,H,W, with ? for an unknown size")
        shapes[name] = [int(word) if word.isdigit() else None for word in words]
    return shapes


def _load_saved_model(path, shapes, tags, signature):
    """One signature of a SavedModel; its session's state is what `give_state` restores."""
    import pyflow as tf
    from pyflow.saved_model import folders, reading, signatures
    message = read_meta_graph(path, tags)
    _, found = signatures.chosen(message, signature, path)
    inputs = signatures.names_of(found.inputs, "input", path)
    outputs = signatures.names_of(found.outputs, "output", path)
    graph = tf.Graph()
    give_state = reading.import_into(graph, message, None, folders.folder_of(path))
    say_where(graph, path)
    _set_shapes(graph.get_operations(), {inputs.get(k, k): v for k, v in shapes.items()})
    return Model(graph, list(inputs.values()), list(outputs.values()), give_state,
                 {**inputs, **outputs})


def _load_graph(path, shapes):
    import pyflow as tf
    from pyflow.train import saved_origins
    message, kind = read_graph(path)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
    if kind.startswith("MetaGraphDef"):
        saved_origins.restore(graph, saved_places(path))
    say_where(graph, path)
    operations = graph.get_operations()
    given = _set_shapes(operations, shapes)
    inputs = [op.outputs[0].name for op in [op for op in given if _is_read(op)] or given]
    return Model(graph, inputs, _outputs(message, operations), _state_beside(path, kind))


def _state_beside(path, kind):
    """What restores the variables of m.meta from the checkpoint m beside it, where there is one."""
    from pyflow.tools.files import read_meta_file
    from pyflow.train import checkpoint
    from pyflow.train.saver import Saver
    prefix = str(path).removesuffix(".meta")
    if not kind.startswith("MetaGraphDef") or not checkpoint.checkpoint_exists(prefix):
        return _nothing
    message = read_meta_file(path)
    if not message.HasField("saver_def"):
        return _nothing
    return lambda sess: Saver.from_proto(message.saver_def).restore(sess, prefix)


def _set_shapes(operations, shapes):
    """The placeholders, with the sizes that are given."""
    given = [op for op in operations if op.type in _PLACEHOLDERS]
    for name, sizes in shapes.items():
        tensor = next((op.outputs[0] for op in given if name in (op.name, op.name + ":0")), None)
        if tensor is None:
            raise ValueError(f"--shape {name}: the model has no such input; it has "
                             f"{', '.join(op.name for op in given) or 'none'}")
        tensor.set_shape(sizes)
    return given


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


def _load_onnx(path, shapes, files, named):
    from pyflow.interop import onnx
    from pyflow.interop.onnx.model import load as read
    from pyflow.interop.onnx.sequences import flat
    from pyflow.interop.onnx.variants import Variants
    try:
        proto, folder = read(path)
    except OSError as e:
        raise UnreadableModel(f"{path}: {e.strerror}") from None
    if proto.graph is None:
        raise onnx.OnnxError("the model has no graph")
    kept = Variants(proto, folder, shapes=shapes)
    names = [info.name for info in kept.inputs]
    feeds = feeds_of(Model(None, [f"{name}:0" for name in names], []), files, named)
    fed = {name.rpartition(":")[0]: np.asarray(value) for name, value in feeds.items()}
    variant = kept.find(fed)
    say_where(variant.model.graph, path)
    inputs = variant.model.inputs
    built_in = set(names) - set(inputs)
    feeds = {inputs[name].name if name in inputs else f"{name}:0": value
             for name, value in fed.items() if name not in built_in}
    return Model(variant.model.graph, [t.name for t in flat(inputs.values())],
                 [t.name for t in flat(variant.model.outputs.values())]), feeds


READ = "graph"          # the function in whose line 1 what a file holds was made


def say_where(graph, path):
    """Errors name the file, not this program, where the file does not say the line of its own."""
    from pyflow.train import saved_origins
    place = saved_origins.SavedPlace(str(path), 1, READ)
    for op in graph.get_operations():
        if not isinstance(op.origin[0], saved_origins.SavedPlace):
            op.origin = (place, 0)


def tensor_of(model, name):
    """The tensor's name that `name` means: a signature's, or as `tensor_name` says."""
    return model.names.get(name) or tensor_name(model.graph, name)


def tensor_name(graph, name):
    """`y` is short for `y:0` where y has an output."""
    op = graph._nodes_by_name.get(name)
    return f"{name}:0" if op is not None and op.outputs else name


def feeds_of(model, files, named):
    """{tensor name: array}: `files` by position, `named` as TENSOR=FILE.npy or TENSOR=VALUE (JSON,
    else a string).  Raises ValueError for what cannot be read or is too much."""
    feeds = dict(_feed(text, model.names) for text in named)
    free = [name for name in model.inputs if name not in feeds]
    if len(files) > len(free):
        raise ValueError(f"--input given {len(files)} times: expected at most {len(free)}, one for"
                         f" each of the model's inputs ({', '.join(free) or 'it has none'})")
    feeds.update((name, _array(f"--input {path}", path)) for name, path in zip(free, files))
    return feeds


def _feed(text, names):
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--feed {text}: expected TENSOR=FILE.npy or TENSOR=VALUE")
    name = names.get(name) or (name if ":" in name else name + ":0")
    if value.endswith(".npy"):
        return name, _array(f"--feed {text}", value)
    try:
        return name, np.asarray(json.loads(value))
    except ValueError:
        return name, value


def _array(what, path):
    try:
        return np.load(path, allow_pickle=False)
    except OSError as e:
        raise ValueError(f"{what}: {e.strerror or e}") from None
