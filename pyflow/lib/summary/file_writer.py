"""tf.summary.FileWriter: summaries, graphs and metadata of runs into a folder for TensorBoard.

Invariants
  1. Messages of ours and TensorFlow's are taken alike, by their bytes.
  2. Of a tag's metadata only the first summary keeps it, as TensorBoard expects.
  3. A tag of add_run_metadata is used once.

Threads: any may add; events are written in the order of the calls.

Example:
    with tf.summary.FileWriter("logs", sess.graph) as writer:
        for step in range(100):
            _, data = sess.run([train, merged])
            writer.add_summary(data, step)
"""
import threading
import time
import warnings

from pyflow.framework import graph as ops
from pyflow.lib.files.record_files import tf_record_iterator
from pyflow.lib.summary.event_file import EventFile


def _bytes(message):
    return message if isinstance(message, bytes) else message.SerializeToString()


class FileWriter:
    """Writes Events into files of `logdir`, in a thread of its own.

    graph: a tf.Graph written at once, as GraphDef with shapes and as MetaGraphDef; max_queue: how
    many events may wait; flush_secs: how often files are flushed; graph_def: deprecated, use graph,
    in whose place a GraphDef is taken, too;
    filename_suffix: put behind each file's name; session: taken without effect, for there is no
    writer in a graph. Errors of the system are raised by the next call. TF: tf.summary.FileWriter.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tf.summary.FileWriter(folder, graph=tf.get_default_graph()) as writer:
        ...         line = tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)])
        ...         writer.add_summary(line, global_step=1)
        ...     [path] = tf.gfile.Glob(folder + "/events.*")
        ...     [e.summary.value[0].tag for e in tf.train.summary_iterator(path) if e.step == 1]
        ['loss']
    """

    def __init__(self, logdir, graph=None, max_queue=10, flush_secs=120, graph_def=None,
                 filename_suffix=None, session=None):
        self._file = EventFile(logdir, max_queue, flush_secs, filename_suffix)
        self._lock = threading.Lock()
        self._seen_tags, self._run_tags = set(), set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            self.add_meta_graph(_meta_graph(graph, graph_def))

    def __repr__(self):
        return f"<tf.summary.FileWriter of {self.get_logdir()!r}>"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def get_logdir(self):
        """The folder it writes into."""
        return self._file.logdir

    def add_event(self, event):
        """Adds an Event message; a warning, and nothing else, if the writer is closed."""
        if self._file.closed:
            warnings.warn("Attempting to use a closed FileWriter. The operation will be a noop "
                          "unless the FileWriter is explicitly reopened.")
            return
        self._file.add(_bytes(event))

    def _add(self, step, **what):
        from pyflow.framework import protos
        event = protos.Event(wall_time=time.time(), **what)
        if step is not None:
            event.step = int(step)
        self.add_event(event)

    def add_summary(self, summary, global_step=None):
        """Adds a Summary, a message or its bytes, of step `global_step`.
        DecodeError for bytes that are none."""
        from pyflow.framework import protos
        own = protos.Summary.FromString(_bytes(summary))
        with self._lock:
            for value in own.value:
                if not value.HasField("metadata"):
                    continue
                if value.tag in self._seen_tags:
                    value.ClearField("metadata")
                else:
                    self._seen_tags.add(value.tag)
        self._add(global_step, summary=own)

    def add_session_log(self, session_log, global_step=None):
        """Adds a SessionLog message: that a program starts, saves, stops."""
        from pyflow.framework import protos
        self._add(global_step, session_log=protos.SessionLog.FromString(_bytes(session_log)))

    def add_graph(self, graph, global_step=None, graph_def=None):
        """Adds a tf.Graph with its shapes. ValueError for both or none, TypeError for no Graph.

        graph_def: deprecated; also taken in place of the graph."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, ops.Graph):
            graph_def = graph.as_graph_def(add_shapes=True)
        elif graph is not None and hasattr(graph, "SerializeToString"):
            graph_def = graph
        elif graph is not None:
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated "
                            f"`GraphDef`, got {type(graph).__name__}")
        if graph_def is None:
            raise ValueError("At least one of graph or graph_def (deprecated) must be given.")
        self._add(global_step, graph_def=_bytes(graph_def))

    def add_meta_graph(self, meta_graph_def, global_step=None):
        """Adds a MetaGraphDef; TypeError for others."""
        if not hasattr(meta_graph_def, "meta_info_def"):
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw type: "
                            f"{type(meta_graph_def)}")
        self._add(global_step, meta_graph_def=_bytes(meta_graph_def))

    def add_run_metadata(self, run_metadata, tag, global_step=None):
        """Adds what a traced run recorded, tf.RunMetadata, for the graph page.
        ValueError for a tag that was used."""
        from pyflow.framework import protos
        with self._lock:
            if tag in self._run_tags:
                raise ValueError("The provided tag was already used for this event type")
            self._run_tags.add(tag)
        self._add(global_step, tagged_run_metadata=protos.TaggedRunMetadata(
            tag=tag, run_metadata=_bytes(run_metadata)))

    def flush(self):
        """Returns when all events are in the file."""
        self._file.flush()

    def close(self):
        """Flushes and ends the file."""
        self._file.close()

    def reopen(self):
        """After close(): begins another file in the folder; else nothing."""
        self._file.open()


def _meta_graph(graph, graph_def):
    from pyflow.framework import protos
    message = protos.MetaGraphDef()
    if isinstance(graph, ops.Graph):
        graph_def = graph.as_graph_def(add_shapes=True)
    message.graph_def.ParseFromString(_bytes(graph_def if graph is None else graph_def or graph))
    message.meta_info_def.tensorflow_version = "1.15.0"
    return message


class FileWriterCache:
    """One FileWriter per folder. TF: tf.summary.FileWriterCache."""
    _cache, _lock = {}, threading.RLock()

    @staticmethod
    def get(logdir):
        """The folder's FileWriter, made with the default graph if there is none."""
        with FileWriterCache._lock:
            found = FileWriterCache._cache.get(logdir)
            if found is None:
                found = FileWriterCache._cache[logdir] = FileWriter(
                    logdir, graph=ops.get_default_graph())
            return found

    @staticmethod
    def clear():
        """Closes and forgets all."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()


def summary_iterator(path):
    """The Event messages of an event file, one by one.

    NotFoundError for no such file, DataLossError where it is damaged, DecodeError for a record that
    is no Event. TF: tf.train.summary_iterator."""
    from pyflow.framework import protos
    for record in tf_record_iterator(path):
        yield protos.Event.FromString(record)


PUBLIC = {"summary.FileWriter": FileWriter, "summary.FileWriterCache": FileWriterCache,
          "train.summary_iterator": summary_iterator}
