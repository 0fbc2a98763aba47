"""python -m pyflow run MODEL --feed x:0=x.npy --fetch y:0 [--save y.npy]: runs a frozen graph."""
import argparse
import sys


def main(argv):
    """Runs the graph once and prints or saves what is fetched."""
    parser = argparse.ArgumentParser(prog="python -m pyflow run", description=__doc__)
    parser.add_argument("model", help="GraphDef (.pb, .pbtxt) or .meta file")
    parser.add_argument("--feed", action="append", default=[], metavar="TENSOR=FILE.npy|VALUE")
    parser.add_argument(
        "--fetch", action="append", default=[], metavar="TENSOR", help="default: what nothing reads"
    )
    parser.add_argument(
        "--save", metavar="FILE.npz", help="write the results instead of printing them"
    )
    args = parser.parse_args(argv)
    import numpy as np
    import pyflow as tf
    from pyflow.tools import files
    from pyflow.train import saved_origins
    try:
        message, _ = files.read_graph(args.model)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(message, name="")
        place = saved_origins.SavedPlace(args.model, 1, "graph")
        for op in graph.get_operations():
            op.origin = (place, 0)              # errors name the file, not this program
        fetches = [_tensor_name(graph, name) for name in args.fetch] or _leaves(graph)
        feeds = dict(_feed(text) for text in args.feed)
        with tf.Session(graph=graph) as sess:
            values = sess.run(fetches, feeds)
    except (files.UnreadableModel, ValueError, TypeError, KeyError, tf.OpError) as e:
        print(e, file=sys.stderr)
        if "You must feed a value" in str(e):
            print("Feed it with --feed NAME=VALUE or --feed NAME=FILE.npy", file=sys.stderr)
        return 1
    if args.save:
        np.savez(
            args.save, **{name: value for name, value in zip(fetches, values) if value is not None}
        )
        return 0
    for name, value in zip(fetches, values):
        print(f"{name} = {value}")
    return 0


def _tensor_name(graph, name):
    """`y` is short for `y:0` where y has an output."""
    op = graph._nodes_by_name.get(name)
    return f"{name}:0" if op is not None and op.outputs else name


def _leaves(graph):
    """Names of the tensors that nothing reads."""
    return [t.name for op in graph.get_operations() for t in op.outputs if not t.consumers()]


def _feed(text):
    import numpy as np
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--feed {text}: expected TENSOR=FILE.npy or TENSOR=VALUE")
    name = name if ":" in name else name + ":0"
    if value.endswith(".npy"):
        try:
            return name, np.load(value, allow_pickle=False)
        except OSError as e:
            raise ValueError(f"--feed {text}: {e.strerror or e}") from None
    import json
    try:
        return name, np.asarray(json.loads(value))
    except ValueError:
        return name, value
