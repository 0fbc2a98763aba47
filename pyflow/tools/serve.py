"""python -m pyflow serve DIR: answers TensorFlow Serving's REST API for models.

DIR is a SavedModel's folder or a folder of numbered versions, of which the newest serves, and a
newer one takes its place as soon as it is there; or a model's file (.pb, .onnx). Several models:
--model NAME=DIR for each. It needs two packages: pip install uvicorn httptools.

Threads: a command of its own, until SIGTERM or SIGINT.
"""
import argparse
import asyncio
import logging
import os
import re
import sys


def main(argv):
    """Serves. Returns 0 after a signal, 1 with the reason on stderr if it cannot begin."""
    parser = _parser()
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    from pyflow.serving import server
    try:
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        print(server.NEEDS, file=sys.stderr)
        return 1
    try:
        models = _models(args)
        app = _app(args, models)
        with server.bound(args.host, args.port) as sock:
            asyncio.run(app.start())
            sock.listen(2048)
            server.serve(app, sock, args.connections, args.grace, lambda: _say(sock, models))
    except (OSError, RuntimeError, ValueError) as e:
        print(f"python -m pyflow serve: {e}", file=sys.stderr)
        return 1
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow serve",
                                     description=__doc__.split("\n\n", 1)[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("dir", nargs="?", help="a SavedModel's folder, a folder of versions, a .pb or .onnx file")
    add("--name", help="the model's name in addresses; without it the name of DIR")
    add("--model", action="append", default=[], metavar="NAME=DIR", help="one more model")
    add("--host", default="127.0.0.1", help="the address to listen on")
    add("--port", type=_port, default=8501, help="0: a free one, which is printed")
    add("--tags", default="", help="of a SavedModel's graph, with commas; empty: serve")
    add("--keep", type=_count, default=1, metavar="N", help="how many of the newest versions serve")
    add("--label", action="append", default=[], metavar="[NAME/]LABEL=VERSION",
        help="a name for a version in addresses")
    add("--poll", type=_seconds, default=1.0, metavar="S",
        help="seconds between looks for new versions; 0: none")
    add("--timeout", type=_seconds, default=60.0, metavar="S",
        help="seconds that a request may take; 0: any; a request's header x-timeout-ms asks for "
             "less")
    add("--max-batch", type=_count, default=1, metavar="ROWS",
        help="rows of requests run together; 1: each request alone")
    add("--batch-timeout-us", type=_microseconds, default=0.0, metavar="US",
        help="how long the first request of a batch waits for more")
    add("--batch-sizes", type=_sizes, default=(), metavar="N,N,...",
        help="the only sizes of batches: smaller ones are padded; the last is --max-batch")
    add("--concurrency", type=_count, metavar="N", help="steps at once; default: a CPU each")
    add("--queue", type=_whole, default=1000, metavar="N", help="requests that may wait")
    add("--connections", type=_count, default=1000, metavar="N", help="open at once")
    add("--max-body", type=_bytes, default=32 << 20, metavar="BYTES",
        help="the largest body, also as 512K or 32M")
    add("--grace", type=_count, default=30, metavar="S", help="seconds to end what runs")
    add("--threads", type=_count, help="of each step; default: one for each CPU")
    return parser


def _checked(kind, expected, is_right):
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not is_right(value):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value
    return convert


_count = _checked(int, "a whole number from 1", lambda n: n >= 1)
_whole = _checked(int, "a whole number from 0", lambda n: n >= 0)
_seconds = _checked(float, "seconds", lambda s: 0 <= s < 1e9)
_microseconds = _checked(lambda text: float(text) / 1e6, "microseconds", lambda s: 0 <= s < 1e3)
_sizes = _checked(lambda text: tuple(map(int, text.split(","))), "ascending sizes, with commas",
                  lambda sizes: sizes[0] >= 1 and sorted(set(sizes)) == list(sizes))


def _port(text):
    if not re.fullmatch(r"\d{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to 65535, got {text!r}")
    return int(text)


def _bytes(text):
    found = re.fullmatch(r"(\d{1,12})([KMG]?)", text)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"expected bytes, as 512K or 32M, got {text!r}")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def _models(args):
    """{name: ServedModel} of the command line."""
    from pyflow.serving.models import ServedModel
    paths = dict(_pair("--model", text) for text in args.model)
    if args.dir:
        name = args.name or _name_of(args.dir)
        paths = {name: args.dir, **paths}
    if not paths or len(paths) != len(args.model) + bool(args.dir):
        raise ValueError("two models have one name" if paths else
                         "expected DIR, or --model NAME=DIR")
    for name in paths:
        if not re.fullmatch(r"[^/:%\s?#]+", name):
            raise ValueError(f"model name {name!r}: expected one without / : % ? # and spaces; "
                             f"give another by --name")
    labels = {name: {} for name in paths}
    for text in args.label:
        key, version = _pair("--label", text)
        name, _, label = key.rpartition("/")
        name = name or next(iter(paths))
        if name not in paths or not re.fullmatch(r"\d{1,18}", version):
            raise ValueError(f"--label {text}: expected [NAME/]LABEL=VERSION of one of the models "
                             f"{', '.join(paths)}")
        labels[name][label] = int(version)

    def open_version(path):
        return _open(path, args)
    return {name: ServedModel(name, path, open_version, args.keep, labels[name])
            for name, path in paths.items()}


def _pair(option, text):
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise ValueError(f"{option} {text}: expected NAME=VALUE")
    return key, value


def _name_of(path):
    name = os.path.basename(os.path.abspath(path))
    return os.path.splitext(name)[0] if os.path.isfile(path) else name


def _open(path, args):
    """The Servable of a SavedModel's folder, or of a model's file."""
    from pyflow.serving import servable
    from pyflow.tools import files
    if os.path.isdir(path):
        return servable.of_saved_model(path, files.tags_of(args.tags), args.threads)
    from pyflow.saved_model import keys, signatures
    from pyflow.tools import models
    try:
        model = models.load(path)
        outputs = models.harmless_outputs(model)
    except models.UnreadableModel as e:
        raise ValueError(str(e)) from None

    def named(tensors):
        return {name.removesuffix(":0"): model.graph.get_tensor_by_name(name) for name in tensors}
    signature = signatures.predict_signature_def(named(model.inputs), named(outputs))
    return servable.Servable(model.graph, {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
                             model.give_state, args.threads)


def _app(args, models):
    from pyflow.serving.app import App, Limits
    from pyflow.serving.batching import Batching, Runner
    from pyflow.session import threads
    sizes = args.batch_sizes
    if sizes and sizes[-1] != args.max_batch:
        raise ValueError(f"--batch-sizes: the last is {sizes[-1]}, --max-batch is "
                         f"{args.max_batch}")
    batching = Batching(args.concurrency or threads.available_threads(), args.max_batch,
                        args.batch_timeout_us, sizes)
    limits = Limits(args.max_body, args.queue, args.timeout or None, args.poll)
    return App(models, Runner(batching), limits)


def _say(sock, models):
    host, port = sock.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    for name, model in models.items():
        shown = ", ".join(map(str, sorted(model.serving())))
        print(f"http://{host}:{port}/v1/models/{name}:predict (version {shown})", flush=True)
