"""python -m pyflow convert MODEL -o FILE: frozen graphs and SavedModels to ONNX, and ONNX back.

    python -m pyflow convert model.pb -o model.onnx --outputs logits
    python -m pyflow convert saved_model/ -o model.onnx
    python -m pyflow convert model.onnx -o model.pb --shape x=1,3,224,224
"""
import argparse
import importlib
import os
import re
import sys

KINDS = (".onnx", ".pb")
_NODE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./-]*")


def main(argv):
    """Writes the file and says what it holds.  Returns 0, 1 where that cannot be done,
    or 2 for what cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m pyflow convert", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="GraphDef (.pb, .pbtxt), .meta file, ONNX model or "
                                      "SavedModel folder")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="a .onnx or .pb file")
    parser.add_argument("--inputs", metavar="NAME,...", help="tensors the result is fed")
    parser.add_argument("--outputs", metavar="NAME,...", help="tensors the result gives")
    parser.add_argument("--opset", type=int, default=18, help="of the ONNX model (18)")
    parser.add_argument("--external-data", action="store_true",
                        help="weights of an ONNX model in FILE.data")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,H,W",
                        help="of an ONNX model's input")
    parser.add_argument("--signature", help="of a SavedModel")
    args = parser.parse_args(argv)
    if not args.output.endswith(KINDS):
        parser.error(f"-o {args.output}: expected a name that ends in {' or '.join(KINDS)}")
    from pyflow.framework import errors
    from pyflow.tools import files
    try:
        text = _convert(args)
    except OSError as e:
        text, status = f"{e.filename or args.model}: {e.strerror or e}", 2
    except files.UnreadableModel as e:
        text, status = str(e), 2
    except (ValueError, RuntimeError, errors.OpError) as e:
        text, status = str(e), 1
    else:
        status = 0
    print(text, file=sys.stderr if status else sys.stdout)
    return status


def _names(text):
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _convert(args):
    graph_def, inputs, outputs = _read(args)
    if args.output.endswith(".pb"):
        data = graph_def.SerializeToString()
        with open(args.output, "wb") as file:
            file.write(data)
        return f"{args.output}: {len(graph_def.node)} nodes, {len(data)} bytes"
    from pyflow.interop import onnx
    from pyflow.interop.onnx import messages
    data = onnx.export_graph_def(graph_def, outputs, inputs, args.output, args.opset,
                                 external_data=True if args.external_data else None)
    graph = messages.read(data).graph
    return (f"{args.output}: {len(graph.node)} nodes, {os.path.getsize(args.output)} bytes; inputs "
            f"{', '.join(i.name for i in graph.input) or 'none'}; outputs "
            f"{', '.join(o.name for o in graph.output)}")


def _read(args):
    """(GraphDef, inputs, outputs): the last two as export_graph_def takes them."""
    given = _names(args.inputs), _names(args.outputs)
    if os.path.isdir(args.model):
        return _saved_model(args, *given)
    if args.model.endswith(".onnx"):
        return _onnx(args, *given)
    from pyflow.interop import graph_util
    from pyflow.tools import files
    message, _ = files.read_graph(args.model)
    if args.output.endswith(".pb"):
        if given[1] is None:
            raise ValueError(f"{args.model} is a GraphDef already; with --outputs the part of it "
                             f"is written that they need, -o model.onnx writes an ONNX model")
        message = graph_util.extract_sub_graph(message, [n.partition(":")[0] for n in given[1]])
    return message, *given


def _saved_model(args, inputs, outputs):
    try:
        freezing = importlib.import_module("pyflow.saved_model.freezing")
    except ModuleNotFoundError:
        raise ValueError(f"{args.model} is a folder; SavedModels are not read by this version: "
                         f"freeze it to a .pb first") from None
    frozen = freezing.freeze(args.model, signature=args.signature)
    if args.output.endswith(".pb"):
        return frozen.graph_def, None, None
    return frozen.graph_def, inputs or frozen.inputs, outputs or frozen.outputs


def _onnx(args, inputs, outputs):
    """The model's graph as a GraphDef whose nodes are called as its inputs and outputs."""
    import pyflow as tf
    from pyflow.interop import graph_util, onnx
    from pyflow.tools import models
    with tf.Graph().as_default() as graph:
        model = onnx.import_model(args.model, shapes=models.shapes_of(args.shape))
    for what, names, have in (("--inputs", inputs, model.inputs),
                              ("--outputs", outputs, model.outputs)):
        wrong = [name for name in names or () if name not in have]
        if wrong:
            raise ValueError(f"{what} {wrong[0]}: the model has {', '.join(have) or 'none'}")
    asked = {name: model.outputs[name] for name in outputs or model.outputs}
    fed = {name: model.inputs[name] for name in inputs or model.inputs}
    for name, tensor in [*fed.items(), *asked.items()]:
        if isinstance(tensor, list):
            raise ValueError(f"{name!r} is a sequence or a map, which no GraphDef has")
    kept = [t.op.name for t in [*asked.values(), *fed.values()]]
    frozen = graph_util.extract_sub_graph(graph.as_graph_def(), list(dict.fromkeys(kept)))
    names = _called(frozen, {key: t.op.name for key, t in asked.items()})
    return frozen, {key: t.name for key, t in fed.items()}, names


def _called(graph_def, outputs):
    """Gives the nodes of the outputs the outputs' names, where no other node has them.

    outputs: {name: node}.  Returns {name: name of its tensor}."""
    taken, renamed = {node.name for node in graph_def.node}, {}
    for name, node in outputs.items():
        if name not in taken and _NODE_NAME.fullmatch(name):
            renamed[node] = name
    for node in graph_def.node:
        node.name = renamed.get(node.name, node.name)
        for i, text in enumerate(node.input):
            mark, source = ("^", text[1:]) if text.startswith("^") else ("", text)
            base, colon, index = source.partition(":")
            node.input[i] = f"{mark}{renamed.get(base, base)}{colon}{index}"
    return {name: f"{renamed.get(node, node)}:0" for name, node in outputs.items()}
