"""What both ends of an exchange have in common: a library by its name, runs as plain data.

A run is (session, [fetched name], {fed name: packed array}, [packed array or None] or the type of
the error); START in place of the names: the graph's queue runners are started.  Needs Python 3.7 or
later.
"""
import collections
import os
import pickle
import select
import signal
import struct
import threading
import types

import programs

Run = collections.namedtuple("Run", "session fetches feeds values")
START = "queue runners"


def library(name):
    """The module behind `tf`: "pyflow", or "tensorflow" (1.15 or 2.21 as 1.x)."""
    if name == "pyflow":
        import pyflow as tf
        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow
    if tensorflow.__version__.startswith("1."):
        import tensorflow.contrib.rnn       # for the gradients of its ops
        tf = tensorflow                     # has contrib, which its compat.v1 lacks
    else:
        tf = tensorflow.compat.v1
        tf.disable_v2_behavior()
        add_first_layers(tf)
    tf.logging.set_verbosity(tf.logging.FATAL)
    return tf


def add_first_layers(tf):
    """TensorFlow 2.21 keeps the first versions' layers and cells, but shows them no more."""
    from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl
    from tensorflow.python.keras.legacy_tf_layers import base, convolutional, core, pooling
    layers = types.ModuleType("layers")
    for module in (pooling, convolutional, core):
        vars(layers).update((k, v) for k, v in vars(module).items() if not k.startswith("_"))
    layers.Layer = base.Layer
    tf.layers, tf.nn.rnn_cell = layers, rnn_cell_impl


def function_module(name):
    if name == "pyflow":
        from pyflow.python.framework import function
    else:
        from tensorflow.python.framework import function
    return function


def leaves(graph, fetches, values):
    """[(name, value)] of what a run was asked for, and gave."""
    if fetches is None:
        return []
    if isinstance(fetches, dict):
        return [x for key in fetches for x in leaves(graph, fetches[key], values[key])]
    if isinstance(fetches, (list, tuple)):
        return [x for f, v in zip(fetches, values) for x in leaves(graph, f, v)]
    parts = None
    if hasattr(fetches, "dense_shape"):     # sparse tensors and slices
        order = ("indices", "values", "dense_shape") if type(fetches).__name__ == "SparseTensor" \
            else ("values", "indices", "dense_shape")
        parts = [getattr(fetches, name) for name in order]
        return [x for f, v in zip(parts, values) if f is not None for x in leaves(graph, f, v)]
    element = graph.as_graph_element(fetches)
    return [(element.name, values)]


class Recorder:
    """Within it, sessions tell what they run on the thread that began it (others are queue
    runners'), unless it is paused."""

    paused = False

    def __init__(self, tf):
        self.tf, self.runs, self.sessions, self.kept = tf, [], {}, []

    def __enter__(self):
        self.real, self.real_start = self.tf.Session.run, self.tf.train.start_queue_runners
        inner, thread = [], threading.get_ident()

        def run(session, fetches, feed_dict=None, options=None, run_metadata=None):
            if inner or self.paused or threading.get_ident() != thread:
                return self.real(session, fetches, feed_dict, options, run_metadata)
            inner.append(True)
            try:
                return self.run(session, fetches, feed_dict, options, run_metadata)
            finally:
                inner.pop()

        def start(sess=None, *given, **named):
            session = sess or self.tf.get_default_session()
            self.runs.append((session.graph, Run(self.number_of(session), START, {}, [])))
            return self.real_start(sess, *given, **named)
        self.tf.Session.run = run
        self.tf.train.start_queue_runners = start
        return self

    def __exit__(self, *error):
        self.tf.Session.run = self.real
        self.tf.train.start_queue_runners = self.real_start

    def number_of(self, session):
        self.kept.append(session)           # or its id may come again
        return self.sessions.setdefault(id(session), len(self.sessions))

    def run(self, session, fetches, feed_dict, options, run_metadata):
        number = self.number_of(session)
        feeds = {}
        for key, value in (feed_dict or {}).items():
            for name, part in leaves(session.graph, key, value):
                feeds[name] = programs.packed(part)
        try:
            values = self.real(session, fetches, feed_dict, options, run_metadata)
        except self.tf.errors.OpError as error:
            self.runs.append((session.graph, Run(number, names_of(session.graph, fetches), feeds,
                                                 type(error).__name__)))
            raise
        found = leaves(session.graph, fetches, values)
        self.runs.append((session.graph, Run(
            number, [name for name, _ in found], feeds,
            [None if v is None else programs.packed(v) for _, v in found])))
        return values


def names_of(graph, fetches):
    class Nothing(dict):
        def __getitem__(self, key):
            return self

        def __iter__(self):
            while True:
                yield self
    return [name for name, _ in leaves(graph, fetches, Nothing())]


def shape_text(shape):
    try:
        return ",".join("?" if d is None else str(d) for d in shape.as_list())
    except ValueError:
        return "*"


def inferred(tf, graph_def):
    """{node: "shape;shape"} that the library itself infers for a GraphDef without shapes."""
    bare = tf.GraphDef.FromString(graph_def.SerializeToString())
    for node in bare.node:
        node.attr.pop("_output_shapes", None)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(bare, name="")
        return {op.name: ";".join(shape_text(t.shape) for t in op.outputs)
                for op in graph.get_operations() if op.outputs}


def collections_after_import(tf, meta):
    """{collection: how many it has} of a MetaGraphDef that has been imported."""
    if not meta.collection_def:
        return {}
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta)
        return {key: len(graph.get_collection(key)) for key in meta.collection_def}


def gradients_after_import(tf, meta, runs):
    """Gradients of what the last run fetched by what it fed, made after the import of a graph with
    loops or branches: {fed name: packed array}; None where there is nothing to ask, a text where
    the library itself refuses."""
    if not runs or any(run.fetches == START for run in runs) or isinstance(
            runs[-1].values, str) or not (
            {"while_context", "cond_context"} & set(meta.collection_def)):
        return None
    with tf.Graph().as_default() as graph, tf.Session() as session:
        try:
            tf.train.import_meta_graph(meta)
            tensor = graph.get_tensor_by_name
            ys = [tensor(n) for n in runs[-1].fetches if ":" in n and "grad" not in n]
            ys = [y for y in ys if y.dtype in (tf.float32, tf.float64)]
            names = [n for n in runs[-1].feeds if tensor(n).dtype in (tf.float32, tf.float64)]
            if not ys or not names:
                return None
            found = {n: g for n, g in zip(names, tf.gradients(ys, [tensor(n) for n in names]))
                     if g is not None}
            found = {n: tf.convert_to_tensor(g) for n, g in found.items()}
            for run in runs[:-1]:
                if not isinstance(run.values, str):
                    session.run(run.fetches, unpacked_feeds(tf, run))
            values = session.run(found, unpacked_feeds(tf, runs[-1]))
        except (tf.errors.OpError, ValueError, TypeError, LookupError, AttributeError) as error:
            return "%s: %s" % (type(error).__name__, str(error)[:400])
        return {n: programs.packed(v) for n, v in values.items()}


def unpacked_feeds(tf, run):
    return {name: programs.unpacked(tf, a) for name, a in run.feeds.items()}


# ---------------------------------------------------------------------- processes of their own
def in_children(names, work, limit=60):
    """Yields (name, work(name), None) of each name, in a process that goes on until a name ends it
    or takes `limit` seconds: (name, None, what happened).  A name that ends a process after others
    is tried again in a new one: what they did to memory is not its fault."""
    left = list(names)
    while left:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.close(reads)
            try:
                for name in left:
                    data = pickle.dumps(work(name), protocol=4)
                    _send(writes, struct.pack("<q", len(data)) + data)
            finally:
                os._exit(0)
        os.close(writes)
        done = 0
        try:
            while left:
                data = _receive(reads, limit)
                if not isinstance(data, bytes):
                    if data or not done:
                        yield left.pop(0), None, data or "ends the process"
                    break
                yield left.pop(0), pickle.loads(data), None
                done += 1
        finally:
            os.close(reads)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _send(pipe, data):
    view = memoryview(data)
    while view:
        view = view[os.write(pipe, view):]


def _receive(pipe, limit):
    """A message; None at the end, "hangs" after `limit` seconds."""
    data, size = b"", 8
    while len(data) < size:
        if not select.select([pipe], [], [], limit)[0]:
            return "hangs"
        part = os.read(pipe, min(1 << 20, size - len(data)))
        if not part:
            return None
        data += part
        if size == 8 and len(data) >= 8:
            size += struct.unpack("<q", data[:8])[0]
    return data[8:size]
