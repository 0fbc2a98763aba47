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
    try:
        message, _ = files.read_graph(args.model)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(message, name="")
        fetches = args.fetch or _leaves(graph)
        feeds = dict(_feed(text) for text in args.feed)
        with tf.Session(graph=graph) as sess:
            values = sess.run(fetches, feeds)
    except (files.UnreadableModel, ValueError, TypeError, KeyError, tf.OpError) as e:
        print(e, file=sys.stderr)
        return 1
    if args.save:
        np.savez(
            args.save, **{name: value for name, value in zip(fetches, values) if value is not None}
        )
        return 0
    for name, value in zip(fetches, values):
        print(f"{name} = {value}")
    return 0


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
        return name, np.load(value, allow_pickle=False)
    import json
    try:
        return name, np.asarray(json.loads(value))
    except ValueError:
        return name, value
