"""python -m pyflow check MODEL: everything a model needs that is missing here, at once."""
import argparse
import sys

from pyflow.tools import as_json


def main(argv):
    """Prints missing ops, kernels and types with the fix.  Returns 0 if the model can run, 1
    if it cannot, 2 if it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m pyflow check", description=__doc__)
    parser.add_argument("model", help="GraphDef (.pb, .pbtxt), .meta file, ONNX model (.onnx) or"
                                      " SavedModel folder")
    parser.add_argument("--tags", default="", help="of a SavedModel's graph; default: serve")
    as_json.add_option(parser)
    args = parser.parse_args(argv)
    path = args.model
    if path.endswith(".onnx"):
        return _check_onnx(path, args.json)
    import pyflow  # noqa: F401 - registers the ops
    from pyflow.framework import errors, function_inline
    from pyflow.framework import graph as graph_lib
    from pyflow.passes import node
    from pyflow.session import missing
    from pyflow.tools import files
    try:
        message, _ = files.read_graph(path, files.tags_of(args.tags))
        graph = node.from_graph_def(function_inline.flat_graph_def(message))
    except (files.UnreadableModel, ValueError, errors.OpError) as e:
        print(e, file=sys.stderr)
        return 2
    problems = [(p.text, list(p.nodes)) for p in missing.problems_of(graph)]
    if message.versions.min_consumer > graph_lib.PRODUCER_VERSION:
        problems.insert(
            0,
            (f"the graph needs a consumer of version {message.versions.min_consumer}, this is "
             f"{graph_lib.PRODUCER_VERSION}: install a newer pyflow", []),
        )
    return _say(path, len(graph.nodes), problems, args.json)


def _say(path, count, problems, in_json):
    """Prints problems, (text, names of nodes) each.  Returns the exit status."""
    if in_json:
        as_json.show({"model": path, "nodes": count, "problems": [
            {"text": text, "nodes": nodes} for text, nodes in problems]})
        return 1 if problems else 0
    for text, nodes in problems:
        print(text + (_nodes(nodes) if nodes else ""))
    size = f"{count} nodes, " if count is not None else ""
    print(f"{path}: {size}{_count(problems)}")
    return 1 if problems else 0


def _check_onnx(path, in_json):
    """The same for an ONNX model: ops without a converter, or what else keeps it from running."""
    from pyflow.interop import onnx
    from pyflow.tools import models
    try:
        missing, count = onnx.missing_ops(path)
        problems = [(f"no converter for {op}", list(nodes)) for op, nodes in missing.items()]
        if not problems:
            try:
                models.load(path)
            except onnx.NeedsConstant as need:
                if not need.inputs:         # else what is fed will tell
                    raise
    except OSError as e:
        print(f"{path}: {e.strerror}", file=sys.stderr)
        return 2
    except models.UnreadableModel as e:
        print(e, file=sys.stderr)
        return 2
    except (onnx.OnnxError, ValueError) as e:
        problems, count = [(str(e), [])], None
    return _say(path, count or None, problems, in_json)


def _count(problems):
    if not problems:
        return "nothing is missing"
    return f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"


def _nodes(names):
    shown = ", ".join(names[:3]) + (f", ... ({len(names)} nodes)" if len(names) > 3 else "")
    return f"  (nodes: {shown})"
