"""python -m pyflow dump MODEL --feeds f.npz -o out.npz: every named tensor of one step, for
`compare`.

MODEL is a GraphDef (.pb, .pbtxt), .meta file, ONNX model or SavedModel folder.  Names are those of
tensors (conv1/Relu:0), of an ONNX model's values; `numpy.load` reads the file.

Threads: a command of its own.
"""
import argparse
import sys


def main(argv):
    """Writes the file and says what it holds.  Returns 0, or 2 where that cannot be done."""
    args = _parser().parse_args(argv)
    import pyflow as tf
    from pyflow.tools import arrays, files, models, sources
    try:
        feeds = arrays.read(args.feeds, args.max_mb << 20) if args.feeds else {}
        named = dump(args.model, feeds, args.fetch, sources.Options(args.threads, args.device),
                     files.tags_of(args.tags), args.signature)
        arrays.write(args.output, named)
    except (models.UnreadableModel, arrays.UnreadableArrays, OSError, ValueError, TypeError,
            KeyError, tf.OpError) as e:
        print(f"python -m pyflow dump: {e}", file=sys.stderr)
        return 2
    print(f"{args.output}: {len(named)} arrays, {sum(v.nbytes for v in named.values())} bytes")
    return 0


def dump(model, feeds=None, fetches=(), options=None, tags=None, signature=None):
    """{tensor name: array} of all that the model's outputs, or `fetches`, need in one step.

    model: a path, tf.Graph or tf.Session.  feeds: {name: array}."""
    from pyflow.tools import sources
    source = sources.open_source(model, feeds, fetches, options, tags, signature)
    try:
        if source.kind == "arrays":
            raise ValueError(f"{source.path} has arrays, expected a model")
        return dict(source.values())
    finally:
        source.close()


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow dump",
                                     description=__doc__.split("\n\nThreads", 1)[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="GraphDef (.pb, .pbtxt), .meta file, ONNX "
                                                       "model or SavedModel folder")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.npz")
    parser.add_argument("--feeds", metavar="FILE.npz", help="arrays by input name")
    parser.add_argument("--fetch", action="append", default=[], metavar="TENSOR",
                        help="what has to be computed; default: the model's outputs")
    parser.add_argument("--threads", type=int, metavar="N", help="default: all cores")
    parser.add_argument("--device", metavar="DEVICE", help="such as /device:GPU:0, for every node")
    parser.add_argument("--tags", default="", help="of a SavedModel's graph; default: serve")
    parser.add_argument("--signature", help="of a SavedModel")
    parser.add_argument("--max-mb", type=int, default=16384, metavar="MB",
                        help="the most that the feeds may take")
    return parser
