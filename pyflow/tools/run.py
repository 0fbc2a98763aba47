"""python -m pyflow run MODEL --input x.npy: runs a frozen graph, an ONNX model or a SavedModel.

MODEL is a GraphDef (.pb, .pbtxt), a .meta file, an ONNX model (.onnx) or a SavedModel's folder, of
which --tags and --signature choose what is run: its inputs' and outputs' names are the signature's.
Inputs are given by
position (--input, in the order in which the model declares them) or by name (--feed x:0=x.npy);
sizes that the file leaves open are those of what is fed, or given by --shape.
What is fetched is printed, or written with --save; --profile says where the time of one more step
went, as `python -m pyflow trace` does.

Threads: a command of its own.
"""
import argparse
import sys
import time

from pyflow.tools import as_json


def main(argv):
    """Runs the model and prints or saves what is fetched.  Returns, with the reason on stderr, 2
    if the model cannot be read, 1 if
    it cannot."""
    args = _parser().parse_args(argv)
    import pyflow as tf
    from pyflow.tools import files, models
    try:
        model, feeds = models.with_feeds(args.model, models.shapes_of(args.shape), args.input,
                                         args.feed, files.tags_of(args.tags), args.signature)
        fetches = ([models.tensor_of(model, n) for n in args.fetch]
                   or models.harmless_outputs(model))
        config = tf.ConfigProto(intra_op_parallelism_threads=args.threads or 0,
                                inter_op_parallelism_threads=args.threads or 0)
        with tf.Session(graph=model.graph, config=config) as sess:
            model.give_state(sess)
            values = sess.run(fetches, feeds)
            found = _results(_shown(model, fetches), values, args.save, args.json)
            if args.repeat:
                found["repeat"] = _time(sess, fetches, feeds, args.repeat)
            if args.profile:
                found["profile"] = _profile(sess, fetches, feeds)
            _show(found, args)
    except (models.UnreadableModel, OSError) as e:
        print(e, file=sys.stderr)
        return 2
    except (ValueError, TypeError, KeyError, tf.OpError) as e:
        print(e, file=sys.stderr)
        if "You must feed a value" in str(e):
            print("Feed it with --input FILE.npy, --feed NAME=VALUE or --feed NAME=FILE.npy",
                  file=sys.stderr)
        return 1
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow run",
                                     description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="GraphDef (.pb, .pbtxt), .meta file, ONNX model (.onnx) or"
                                      " SavedModel folder")
    parser.add_argument("--tags", default="", metavar="TAGS",
                        help="of a SavedModel's graph, with commas; default: serve")
    parser.add_argument("--signature", metavar="NAME",
                        help="of a SavedModel; default: serving_default, or the only one")
    parser.add_argument("--input", action="append", default=[], metavar="FILE.npy",
                        help="the next input, in the order the model declares them")
    parser.add_argument("--feed", action="append", default=[], metavar="TENSOR=FILE.npy|VALUE")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,H,W",
                        help="an input's sizes where the file leaves them open")
    parser.add_argument("--fetch", action="append", default=[], metavar="TENSOR",
                        help="default: the model's outputs; of a GraphDef, what nothing reads")
    parser.add_argument("--save", metavar="FILE.npz",
                        help="write the results instead of printing them")
    parser.add_argument("--repeat", type=int, default=0, metavar="N",
                        help="run N times more and print the time of the fastest and the median")
    parser.add_argument("--profile", nargs="?", type=int, const=15, default=0, metavar="ROWS",
                        help="print where the time of one more step went")
    parser.add_argument("--threads", type=int, help="default: one for each core")
    as_json.add_option(parser)
    return parser


def _shown(model, fetches):
    """The signature's names of what is fetched, where it has some."""
    names = {tensor: name for name, tensor in model.names.items()}
    return [names.get(tensor, tensor) for tensor in fetches]


def _results(fetches, values, save, in_json):
    """What is said of the values: where they were saved, else themselves."""
    import numpy as np
    if save:
        np.savez(save, **{name: v for name, v in zip(fetches, values) if v is not None})
        return {"saved": save}
    return {"outputs": {name: as_json.array(value) if in_json else value
                        for name, value in zip(fetches, values)}}


def _show(found, args):
    """Prints what was found out."""
    import numpy as np

    from pyflow.tools import trace_report
    if args.json:
        if "profile" in found:
            found["profile"] = trace_report.facts(found["profile"], args.profile)
        as_json.show(found)
        return
    with np.printoptions(threshold=100):            # more is shown by its ends; --save has all
        for name, value in found.get("outputs", {}).items():
            print(f"{name} = {value}")
    if "repeat" in found:
        times = found["repeat"]
        print(f"{times['steps']} steps: fastest {times['fastest_s'] * 1e3:.3f} ms, "
              f"median {times['median_s'] * 1e3:.3f} ms")
    if "profile" in found:
        print(trace_report.report(found["profile"], args.profile))


def _time(sess, fetches, feeds, count):
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        sess.run(fetches, feeds)
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    return {"steps": count, "fastest_s": seconds[0], "median_s": seconds[count // 2]}


def _profile(sess, fetches, feeds):
    """The Trace of one more step; the first step, which prepares the plan, is over."""
    import pyflow as tf
    from pyflow.tools import trace
    metadata = tf.RunMetadata()
    sess.run(fetches, feeds, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    return trace.of_metadata(metadata)
