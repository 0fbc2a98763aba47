"""python -m pyflow summary MODEL: the parameters of a model by scope: names, types, shapes, bytes,
totals.

MODEL is a GraphDef (.pb, .pbtxt), a .meta file, a SavedModel folder, an ONNX model, or a checkpoint
(its prefix, .index file or folder; pyflow's or TensorFlow's).  Parameters are a graph's variables,
or of one without any, such as a frozen one, its constants of floating point (or 8 bits) with more
than one number; an ONNX model's initializers and Constant nodes; all tensors of a checkpoint.

    python -m pyflow summary model.pb --depth 1

Threads: a command of its own; `summary` for any thread.  The same as a function:

    found = summary("model.pb");  found.parameters, found.tensors[0].shape

Within a program, `tf.contrib.tfprof.model_analyzer.print_model_analysis` prints such a tree.
"""
import argparse
import json
import math
import os
import re
import sys
from typing import NamedTuple


class Parameter(NamedTuple):
    """One tensor.  dtype: its type's name; shape: None where the rank is unknown, sizes None where
    they are; parameters: numbers it has, bytes: what they take, 0 where that is unknown;
    trainable: None where the file does not say."""

    name: str
    dtype: str
    shape: tuple
    parameters: int
    bytes: int
    trainable: bool = None


class Summary(NamedTuple):
    """kind: of file.  tensors: [Parameter] in the file's order.  root: tfprof's ModelNode, the
    tree of scopes with totals."""

    kind: str
    tensors: list
    root: object

    @property
    def parameters(self):
        """How many numbers."""
        return self.root.total_parameters

    @property
    def bytes(self):
        """What they take."""
        return self.root.total_bytes

    @property
    def trainable(self):
        """How many of the numbers are trained; None where the file does not say."""
        said = [t for t in self.tensors if t.trainable is not None]
        return sum(t.parameters for t in said if t.trainable) if said else None


def summary(model, tags=None):
    """The Summary of a path, or of a tf.Graph.  tags: of a SavedModel's graph.

    Raises UnreadableModel, OSError, ValueError (OnnxError) or tf.errors for what cannot be read."""
    import pyflow as tf
    if isinstance(model, tf.Graph):
        return _summed("Graph", _of_variables(model))
    path = os.fspath(model)
    if path.endswith(".onnx"):
        return _summed("ONNX", _of_onnx(path), "/.")
    from pyflow.saved_model import folders
    from pyflow.train import checkpoint, checkpoint_state
    if folders.folder_of(path) is None:
        prefix = (checkpoint_state.latest_checkpoint(path) or path) if os.path.isdir(path) else path
        prefix = prefix.removesuffix(".index")
        if checkpoint.checkpoint_exists(prefix):
            return _summed("checkpoint", _of_checkpoint(prefix))
    return _summed(*_of_graph(path, tags))


def _summed(kind, tensors, separators="/"):
    from pyflow.lib.contrib import tfprof
    root = tfprof.ModelNode("")
    for tensor in tensors:
        node = tfprof.place(root, tensor.name, separators)
        node.parameters += tensor.parameters
        node.bytes += tensor.bytes
        node.total_tensors += 1
        node.tensor = tensor
    tfprof.total(root)
    return Summary(kind, tensors, root)


def _parameter(name, dtype, shape, trainable=None, stored=None):
    """dtype: a DType.  stored: bytes of what has no fixed size."""
    known = shape is not None and all(size is not None for size in shape)
    count = math.prod(shape) if known else 0
    return Parameter(name, dtype.name, None if shape is None else tuple(shape), count,
                     stored if stored is not None else count * dtype.size, trainable)


# ---------------------------------------------------------------- graphs
_VARIABLES = ("VarHandleOp", "VariableV2", "Variable")


def _of_variables(graph):
    from pyflow.framework.graph import GraphKeys
    trained = {v.op for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    return [_parameter(v.op.name, v.dtype.base_dtype, v.shape.as_tuple(), v.op in trained)
            for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)]


def _of_graph(path, tags):
    """(kind, [Parameter]) of a GraphDef, MetaGraphDef or SavedModel."""
    from pyflow.tools import files
    message, kind = files.read_graph(path, tags)
    nodes = [*message.node, *(n for f in message.library.function for n in f.node_def)]
    trained = _trainable(path, kind, tags)
    found = [_of_node(n, "shape", "dtype", None if trained is None else n.name in trained)
             for n in nodes if n.op in _VARIABLES]
    if not found:
        found = [p for p in (_of_constant(n) for n in nodes if n.op == "Const") if p is not None]
    unknown = [p for p in found if p.shape is None or None in p.shape]
    return kind, _from_checkpoint(path, found) if unknown and kind == "SavedModel" else found


def _of_node(node, shape, dtype, trainable):
    from pyflow.framework import dtypes
    held = node.attr[shape].shape
    sizes = None if held.unknown_rank else [d.size if d.size >= 0 else None for d in held.dim]
    return _parameter(node.name, dtypes.as_dtype(node.attr[dtype].type), sizes, trainable)


def _of_constant(node):
    """The Parameter of a constant, or None: a setting, such as axes, sizes or an epsilon."""
    from pyflow.framework import dtypes
    held = node.attr["value"].tensor
    dtype = dtypes.as_dtype(held.dtype)
    sizes = [d.size for d in held.tensor_shape.dim]
    weight = dtype.is_floating or dtype.is_complex or dtype.size == 1 and not dtype.is_bool
    if not weight or min(sizes, default=0) < 0 or math.prod(sizes) < 2:
        return None
    return _parameter(node.name, dtype, sizes)


def _trainable(path, kind, tags):
    """Names of trainable variables, None where the file has no such collection."""
    from pyflow.framework import protos
    from pyflow.tools import files
    if kind == "SavedModel":
        collections = files.read_meta_graph(path, tags).collection_def
    elif kind.startswith("MetaGraphDef"):
        collections = files.read_meta_file(path).collection_def
    else:
        return None
    if "trainable_variables" not in collections:
        return None
    names = set()
    for item in collections["trainable_variables"].bytes_list.value:
        try:
            names.add(protos.VariableDef.FromString(item).variable_name.partition(":")[0])
        except Exception:           # untrusted bytes: what is no variable names none
            continue
    return names


def _from_checkpoint(path, found):
    """The same with the shapes of the SavedModel's checkpoint where the graph has none."""
    from pyflow.saved_model import folders
    from pyflow.train import checkpoint
    prefix = folders.variables_path(folders.folder_of(path))
    if not checkpoint.checkpoint_exists(prefix):
        return found
    there = {p.name: p for p in _of_checkpoint(prefix)}
    return [there[p.name]._replace(trainable=p.trainable) if p.name in there else p for p in found]


def _of_checkpoint(prefix):
    from pyflow.framework import dtypes
    from pyflow.train import checkpoint
    entries = checkpoint.CheckpointReader(prefix).entries()
    return [_parameter(e.name, e.dtype if hasattr(e.dtype, "name") else dtypes.as_dtype(e.dtype),
                       list(e.shape), None, e.end - e.begin) for e in entries.values()]


def _of_onnx(path):
    from pyflow.interop.onnx.model import load
    proto, _ = load(path)
    found, stack = [], [proto.graph] if proto.graph is not None else []
    while stack:
        graph = stack.pop()
        held = [(t.name, t) for t in graph.initializer]
        for node in graph.node:
            for a in node.attribute:
                stack += [g for g in [a.g, *a.graphs] if g is not None]
                if node.op_type == "Constant" and a.t is not None and math.prod(a.t.dims) > 1:
                    held.append((next(iter(node.output), node.name), a.t))
        held += [(t.values.name, t.values) for t in graph.sparse_initializer
                 if t.values is not None]
        found += [_onnx_parameter(name, tensor) for name, tensor in held]
    return found


def _onnx_parameter(name, tensor):
    from pyflow.interop.onnx.tensors import TYPE_NAMES, dtype_of, shape_of
    shape = shape_of(tensor, f"initializer {name!r}")
    small = TYPE_NAMES.get(tensor.data_type)
    if small is not None:
        count, bits = math.prod(shape), int(re.search(r"\d+", small)[0])
        return Parameter(name, small, shape, count, (count * bits + 7) // 8)
    return _parameter(name, dtype_of(tensor.data_type, f"initializer {name!r}"), shape)


# ---------------------------------------------------------------- the command
def main(argv):
    """Prints the tree.  Returns 0, or 2 for what cannot be read."""
    args = _parser().parse_args(argv)
    if args.depth is not None and args.depth < 0:
        _parser().error(f"--depth must be at least 0, got {args.depth}")
    import pyflow as tf
    from pyflow.tools import files
    try:
        found = summary(args.model, files.tags_of(args.tags))
    except OSError as e:
        print(f"python -m pyflow summary: {e.filename or args.model}: {e.strerror or e}",
              file=sys.stderr)
        return 2
    except (files.UnreadableModel, ValueError, TypeError, tf.OpError) as e:
        print(f"python -m pyflow summary: {e}", file=sys.stderr)
        return 2
    print(json.dumps(as_json(found, args.depth)) if args.json else
          "\n".join(lines_of(found, args.depth)))
    return 0


def rows(found, depth=None):
    """[(level, ModelNode)] down to a depth, scopes of equal sizes in the file's order, by name of
    their parents; a node with a `tensor` is one of the file's."""
    result, stack = [], [(0, child) for child in reversed(found.root.children)]
    while stack:
        level, node = stack.pop()
        result.append((level, node))
        if depth is None or level + 1 < depth:
            stack += [(level + 1, child) for child in reversed(node.children)]
    return result if depth != 0 else []


def lines_of(found, depth=None):
    """The Summary as text."""
    table = [("name", "type", "shape", "parameters", "bytes")]
    for level, node in rows(found, depth):
        tensor = getattr(node, "tensor", None)
        shown = "  " * level + node.name
        if tensor is not None and not node.children:
            shape = "unknown" if tensor.shape is None else \
                "[" + ", ".join("?" if n is None else str(n) for n in tensor.shape) + "]"
            note = " not trained" if tensor.trainable is False else ""
            table.append((shown, tensor.dtype, shape + note, f"{tensor.parameters:,}",
                          f"{tensor.bytes:,}"))
        else:
            table.append((shown + "/", "", f"{node.total_tensors} tensors",
                          f"{node.total_parameters:,}", f"{node.total_bytes:,}"))
    table.append(("total", found.kind, f"{len(found.tensors)} tensors", f"{found.parameters:,}",
                  f"{found.bytes:,}"))
    wide = [max(len(row[i]) for row in table) for i in range(5)]
    lines = [f"{a:{wide[0]}}  {b:{wide[1]}}  {c:{wide[2]}}  {d:>{wide[3]}}  {e:>{wide[4]}}".rstrip()
             for a, b, c, d, e in table]
    if found.trainable is not None:
        lines.append(f"{found.trainable:,} parameters are trained")
    return lines


def as_json(found, depth=None):
    """The Summary as what `json` writes."""
    return {"kind": found.kind, "parameters": found.parameters, "bytes": found.bytes,
            "trainable": found.trainable,
            "tensors": [t._asdict() for t in found.tensors],
            "scopes": [{"name": node.name, "tensors": node.total_tensors,
                        "parameters": node.total_parameters, "bytes": node.total_bytes}
                       for _, node in rows(found, depth) if node.children]}


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow summary",
                                     description=__doc__.split("\n\nThreads")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL",
                        help="GraphDef (.pb, .pbtxt), .meta file, SavedModel folder, ONNX model or "
                             "checkpoint")
    parser.add_argument("--depth", type=int, metavar="N",
                        help="scopes below this level are one row")
    parser.add_argument("--tags", default="", help="of a SavedModel's graph; default: serve")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser
