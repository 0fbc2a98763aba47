"""python -m pyflow explain FILE [--dot | --buffers | --target ADDRESS], explain --passes: a graph, checkpoint or
error code in readable form; or where the outputs of its kernels would lie, and what is written in place; or how
its tensors would go between the tasks of a cluster."""
import argparse
import difflib
import os
import sys

LISTED = 80                             # lines of a graph, unless --all is given
CODES = {
    "CANCELLED": (
        "the step was stopped because another node failed first, or its session was closed"
    ),
    "UNKNOWN": (
        "a kernel or Python function failed without saying how; the message has its own words"
    ),
    "INVALID_ARGUMENT": (
        "a value, shape or type does not fit the op: compare the input shapes in the message with"
        " the op's documentation (python -m pyflow op NAME)"
    ),
    "DEADLINE_EXCEEDED": (
        "the step did not end within its timeout; the message lists the nodes that were still"
        " waiting"
    ),
    "NOT_FOUND": (
        "a file, variable, kernel or op is not there; python -m pyflow check MODEL lists all at"
        " once"
    ),
    "ALREADY_EXISTS": "a resource of this name exists with another type",
    "PERMISSION_DENIED": "the operating system refused access to a file",
    "RESOURCE_EXHAUSTED": "memory or disk is full: use a smaller batch, or fewer live tensors",
    "FAILED_PRECONDITION": (
        "state is not ready: most often a variable that was not initialised (run "
        "tf.global_variables_initializer() or restore a checkpoint)"
    ),
    "ABORTED": "a peer was restarted meanwhile; run the step again",
    "OUT_OF_RANGE": "the end of the input was reached",
    "UNIMPLEMENTED": "the op does not do this yet; the message names the attribute",
    "INTERNAL": (
        "an invariant of pyflow or of a plugin does not hold: please report it with the message"
    ),
    "UNAVAILABLE": "a peer cannot be reached",
    "DATA_LOSS": "a file is damaged: its CRC or sizes do not match",
    "UNAUTHENTICATED": "the peer did not accept the credentials",
}


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow explain", description=__doc__)
    parser.add_argument(
        "file", nargs="?", help="GraphDef (.pb, .pbtxt), .meta, SavedModel folder, checkpoint"
                                " prefix or folder (pyflow's or TensorFlow's), or an error code"
    )
    parser.add_argument("--tags", default="", help="of a SavedModel's graph; default: serve")
    parser.add_argument("--all", action="store_true",
                        help=f"every node, where there are more than {LISTED}")
    parser.add_argument("--dot", action="store_true", help="the graph in DOT, for graphviz")
    parser.add_argument("--rewritten", action="store_true",
                        help="the graph after constant folding, merging and simplification")
    parser.add_argument("--buffers", action="store_true",
                        help="the plan of the intermediate buffers: places, sizes, lifetimes, what"
                             " is written in place")
    parser.add_argument("--fetch", metavar="NAMES", default="",
                        help="for --buffers and --target: what is fetched, with commas; default:"
                             " all that nobody reads")
    parser.add_argument("--target", metavar="ADDRESS",
                        help="of a server, grpc://HOST:PORT: which of its cluster's tasks run the"
                             " graph, and by which ops and links tensors go between them")
    parser.add_argument("--batch", metavar="N", type=int,
                        help="for --buffers: stands for the unknown sizes of placeholders")
    parser.add_argument("--passes", action="store_true",
                        help="the passes between a graph and its plan, in order, and the options"
                             " of RewriterConfig that they follow")
    return parser


def main(argv):
    """Prints FILE readably.  Returns 1 if it is damaged, 2 if it is nothing known."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.passes:
        from pyflow.passes import pipeline
        print("\n".join(pipeline.table()))
        return 0
    if args.file is None:
        parser.error("which FILE?")
    if args.file.upper() in CODES and not os.path.exists(args.file):
        print(f"{args.file.upper()}: {CODES[args.file.upper()]}")
        return 0
    if not os.path.exists(args.file) and args.file.isidentifier():
        near = difflib.get_close_matches(args.file.upper(), CODES, n=2)
        if near:
            print(f"{args.file}: no such file or error code; did you mean {' or '.join(near)}?",
                  file=sys.stderr)
            return 2
    from pyflow.saved_model import folders
    from pyflow.tools import files
    from pyflow.train import checkpoint, checkpoint_state
    path, tags = args.file, files.tags_of(args.tags)
    saved = folders.folder_of(path)
    if saved and not (args.buffers or args.dot or args.rewritten or args.target):
        return _explain_saved_model(saved, tags)
    if os.path.isdir(path) and not saved:
        path = checkpoint_state.latest_checkpoint(path) or path
    prefix = path[:-6] if path.endswith(".index") else path
    if checkpoint.checkpoint_exists(prefix):
        return _explain_checkpoint(prefix)
    if args.target:
        return _explain_ways(path, [n for n in args.fetch.split(",") if n], args.target, tags)
    if args.buffers:
        return _explain_buffers(path, [n for n in args.fetch.split(",") if n], args.batch, tags)
    return _explain_graph(path, args.dot, args.rewritten, tags, args.all)


def _explain_saved_model(folder, tags):
    """The signatures of each MetaGraph, or of the one with these tags, and the variables."""
    from pyflow.framework import errors
    from pyflow.saved_model import folders, signatures
    from pyflow.train import checkpoint
    try:
        message = folders.read(folder)
        chosen = [folders.meta_graph(message, tags, folder)] if tags else message.meta_graphs
    except (OSError, RuntimeError) as e:
        print(e, file=sys.stderr)
        return 2
    for graph in chosen:
        print(f"MetaGraph {{{', '.join(sorted(graph.meta_info_def.tags))}}}: "
              f"{len(graph.graph_def.node)} nodes, {len(graph.graph_def.library.function)}"
              f" functions, written by TensorFlow {graph.meta_info_def.tensorflow_version or '?'}")
        for name, signature in sorted(graph.signature_def.items()):
            print(f"  signature {name!r} ({signature.method_name or 'no method'})")
            for what, infos in (("input", signature.inputs), ("output", signature.outputs)):
                for key, info in sorted(infos.items()):
                    print(f"    {what:6} {key}: {signatures.described(info)}, {info.name}")
    path = folders.variables_path(folder)
    if not checkpoint.checkpoint_exists(path):
        return 0
    try:
        return _explain_checkpoint(path)
    except errors.OpError as e:
        print(e.message, file=sys.stderr)
        return 1


def _explain_checkpoint(prefix):
    """A line per tensor: name, type, shape, and what its values are."""
    from pyflow.framework import errors
    from pyflow.train import checkpoint
    try:
        reader = checkpoint.CheckpointReader(prefix)
    except errors.OpError as e:
        print(e.message, file=sys.stderr)
        return 1
    total = 0
    for entry in sorted(reader.entries().values(), key=lambda entry: entry.name):
        dtype = getattr(entry.dtype, "name", f"type {entry.dtype} ")
        print(f"{entry.name}  {dtype}{list(entry.shape)}  {_summary(reader, entry)}")
        total += entry.end - entry.begin
    problems = reader.verify()
    for problem in problems:
        print(problem, file=sys.stderr)
    print(
        f"# {len(reader.entries())} tensors, {total} bytes, {reader.format} checkpoint, "
        + ("DAMAGED" if problems else "all CRCs match")
    )
    return 1 if problems else 0


def _summary(reader, entry):
    """mean, std and NaNs of a floating tensor; small tensors in full."""
    import numpy as np
    from pyflow.framework import errors
    try:
        value = reader.get_tensor(entry.name)
    except errors.OpError:
        return "unreadable"
    if np.size(value) <= 4 and not (entry.dtype.name == "string" and len(value) > 80):
        return str(np.asarray(value).tolist())
    if entry.dtype.is_floating:
        value = value.astype(np.float64)
        return f"mean {value.mean():.4g} std {value.std():.4g} NaNs {int(np.isnan(value).sum())}"
    return ""


def _explain_buffers(path, fetches, batch, tags):
    import pyflow  # noqa: F401 - registers the ops
    from pyflow.framework import errors
    from pyflow.tools import buffers, files
    try:
        message, _ = files.read_graph(path, tags)
        for line in buffers.lines(message, fetches, batch):
            print(line)
    except (files.UnreadableModel, errors.OpError, ValueError, KeyError, TypeError) as e:
        print(e.args[0] if isinstance(e, KeyError) else e, file=sys.stderr)
        return 2
    return 0


def _explain_ways(path, fetches, target, tags):
    """How the graph's tensors would go between the tasks of the cluster at `target`."""
    import pyflow as tf
    from pyflow.distributed.look import ways
    from pyflow.framework import errors, function_inline
    from pyflow.framework.graph_io import import_graph_def
    from pyflow.tools import files
    target = target if "://" in target else f"grpc://{target}"
    try:
        message, _ = files.read_graph(path, tags)
        config = tf.ConfigProto(operation_timeout_in_ms=20_000)
        with tf.Graph().as_default() as graph:
            import_graph_def(function_inline.flat_graph_def(message), name="")
            read = {source.op for op in graph.get_operations() for source in op.inputs}
            wanted = fetches or [op.name for op in graph.get_operations()
                                 if op not in read and op.outputs]
            with tf.Session(target, graph=graph, config=config) as session:
                print(ways.explain(session, wanted), end="")
    except (files.UnreadableModel, errors.OpError, ValueError, KeyError, TypeError) as e:
        print(e.args[0] if isinstance(e, KeyError) else e, file=sys.stderr)
        return 2
    return 0


def _explain_graph(path, as_dot, as_rewritten, tags, whole):
    """What the graph is, then its nodes, at most LISTED lines of them unless all are asked for."""
    import pyflow  # noqa: F401 - registers the ops, for defaults and types
    from pyflow.framework import errors, function_inline
    from pyflow.passes import node, printer
    from pyflow.tools import files, rewritten
    try:
        message, kind = files.read_graph(path, tags)
        message = function_inline.flat_graph_def(message)
        graph = node.from_graph_def(message)
    except (files.UnreadableModel, ValueError, errors.OpError) as e:
        print(e, file=sys.stderr)
        return 2
    placed = _place(message, graph)
    smaller, rewrites = rewritten.rewritten(message)
    if as_rewritten and smaller is not None:
        graph = smaller
    if as_dot:
        print(printer.dot(graph), end="")
        return 0
    ops = {}
    for n in graph.nodes:
        ops[n.op] = ops.get(n.op, 0) + 1
    common = ", ".join(f"{op} {n}" for op, n in sorted(ops.items(), key=lambda x: -x[1])[:8])
    print(f"# {placed}")
    for line in rewrites:
        print(f"# {line}")
    print(
        f"# {kind}, {len(graph.nodes)} nodes: {common}; producer {message.versions.producer},"
        f" min_consumer {message.versions.min_consumer}"
    )
    lines = printer.text(graph).splitlines()
    shown = lines if whole or len(lines) <= LISTED else lines[:LISTED]
    print("\n".join(shown))
    if len(shown) < len(lines):
        print(f"# ... {len(lines) - len(shown)} more lines: --all")
    return 0


def _place(message, graph):
    """Gives the nodes the devices a session here would choose, with the reasons, where there is a
    choice.  Returns one line about it."""
    from pyflow.framework import errors
    from pyflow.framework import graph as graph_lib
    from pyflow.framework.graph_io import import_graph_def
    from pyflow.passes import node, place
    from pyflow.session import devices as devices_lib
    from pyflow.session import plans, runtime
    executor = runtime.start()
    devices = devices_lib.open_devices(executor, None)
    if len(devices.names) == 1:
        return f"one device here: every node runs on {devices.default}"
    costs = plans.placement_costs(None, None)
    if costs is not None:
        devices_lib.measure_speeds(executor, devices, 1)
    try:
        with graph_lib.Graph().as_default() as imported:
            import_graph_def(message, name="")
        whole = node.whole(imported)
        for n in whole.nodes:
            n.origin = None                     # it was made here, which explains nothing
        place.place(whole, devices, soft=True, explain=True, costs=costs)
    except (errors.OpError, ValueError, TypeError) as e:
        return f"not placed: {e}"
    found = {n.name: n for n in whole.nodes}
    for n in graph.nodes:
        n.device, n.why = found[n.name].device, found[n.name].why
    return costs.summary if costs is not None else "placed as a session here would, with reasons"
