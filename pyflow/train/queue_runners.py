"""QueueRunner: threads that run the enqueue operations of a queue.

    for each operation, a thread: run it, until it raises or the coordinator stops
    a queue's exceptions (OutOfRangeError by default): the session's last thread closes the queue
    any other exception: reported to the coordinator
    and one more: waits for the coordinator's stop, then closes the queue and cancels what waits

Invariant: a session has each runner's threads once; asking again while they run starts none.

Threads: `_lock` guards the counts.  Who calls it: train/input, users, sessions' life.
Source: TF 1.15 `tf.train.QueueRunner`.
"""
import logging
import threading
import weakref

from pyflow.framework import errors, graph

_log = logging.getLogger("tensorflow")


class QueueRunner:
    """Fills a queue from threads. TF: tf.train.QueueRunner.

    queue: a QueueBase; enqueue_ops: operations, each run by a thread of its own. close_op,
    cancel_op: default the queue's `close`, without and with `cancel_pending_enqueues`.
    queue_closed_exception_types: a tuple of tf.errors that mean the end of input, default
    OutOfRangeError. queue_runner_def: a message to restore a runner from instead.
    ValueError without queue and operations, TypeError for other exception types.
    """

    def __init__(self, queue=None, enqueue_ops=None, close_op=None, cancel_op=None,
                 queue_closed_exception_types=None, queue_runner_def=None, import_scope=None):
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._init_from_proto(queue_runner_def, import_scope)
        else:
            self._init_from_args(queue, enqueue_ops, close_op, cancel_op,
                                 queue_closed_exception_types)
        self._lock = threading.Lock()
        self._runs_per_session = weakref.WeakKeyDictionary()
        self._exceptions_raised = []

    def _init_from_args(self, queue, enqueue_ops, close_op, cancel_op, types):
        if not queue or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        if types is not None and not (isinstance(types, tuple) and types and all(
                isinstance(t, type) and issubclass(t, errors.OpError) for t in types)):
            raise TypeError("queue_closed_exception_types, when provided, must be a tuple of "
                            f"tf.error types, but saw: {types}")
        self._queue, self._enqueue_ops = queue, list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = (queue.close(cancel_pending_enqueues=True) if cancel_op is None
                           else cancel_op)
        self._queue_closed_exception_types = types or (errors.OutOfRangeError,)

    def _init_from_proto(self, message, scope):
        owner = graph.get_default_graph()

        def element(name):
            return owner.as_graph_element(f"{scope}/{name}" if scope else name)
        self._queue = element(message.queue_name)
        self._enqueue_ops = [element(name) for name in message.enqueue_op_name]
        self._close_op = element(message.close_op_name)
        self._cancel_op = element(message.cancel_op_name)
        self._queue_closed_exception_types = tuple(
            errors.exception_type_from_error_code(code)
            for code in message.queue_closed_exception_types) or (errors.OutOfRangeError,)

    queue = property(lambda self: self._queue, doc="The queue, or, restored, its operation.")
    enqueue_ops = property(lambda self: self._enqueue_ops, doc="The operations, one a thread.")
    close_op = property(lambda self: self._close_op, doc="Closes the queue.")
    cancel_op = property(lambda self: self._cancel_op, doc="Closes it, and cancels what waits.")
    queue_closed_exception_types = property(lambda self: self._queue_closed_exception_types,
                                            doc="The exceptions that mean the end of input.")
    exceptions_raised = property(lambda self: self._exceptions_raised, doc="""What threads raised
        that had no coordinator to tell, a list.""")
    name = property(lambda self: self._queue.name, doc="The name of the queue's op.")

    def __repr__(self):
        return f"<tf.train.QueueRunner of '{self.name}', {len(self._enqueue_ops)} threads>"

    def _run(self, sess, enqueue_op, coord=None):
        """One thread's life."""
        counted = True
        try:
            enqueue = sess.make_callable(enqueue_op)
            while not (coord and coord.should_stop()):
                try:
                    enqueue()
                except self._queue_closed_exception_types:
                    counted = False
                    self._end_of_input(sess)
                    return
        except Exception as e:
            if coord and coord.should_stop() and isinstance(e, errors.CancelledError):
                pass                        # stopped, and its session closed: no failure
            elif coord:
                coord.request_stop(e)
            else:
                _log.error("Exception in QueueRunner: %s", str(e))
                with self._lock:
                    self._exceptions_raised.append(e)
                raise
        finally:
            if counted:
                with self._lock:
                    self._runs_per_session[sess] -= 1

    def _end_of_input(self, sess):
        """The last thread of the session closes the queue."""
        with self._lock:
            self._runs_per_session[sess] -= 1
            last = self._runs_per_session[sess] == 0
        if last:
            self._try(sess, self._close_op)

    @staticmethod
    def _try(sess, op):
        try:
            sess.run(op)
        except Exception as e:              # closed already, the session too perhaps
            _log.debug("Ignored exception: %s", str(e))

    def _close_on_stop(self, sess, cancel_op, coord):
        coord.wait_for_stop()
        self._try(sess, cancel_op)

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        """The threads for a session, started if `start`; none if they run already.

        coord: the Coordinator whose stop ends them, and that is told of exceptions."""
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [threading.Thread(target=self._run, args=(sess, op, coord),
                                    name=f"QueueRunnerThread-{self.name}-{op.name}")
                   for op in self._enqueue_ops]
        if coord:
            threads.append(threading.Thread(
                target=self._close_on_stop, args=(sess, self._cancel_op, coord),
                name=f"QueueRunnerThread-{self.name}-close_on_stop"))
        for thread in threads:
            if coord:
                coord.register_thread(thread)
            if daemon:
                thread.daemon = True
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope=None):
        """The QueueRunnerDef, with names relative to `export_scope`; None if it lies outside."""
        from pyflow.framework import protos
        scope = f"{export_scope}/" if export_scope else ""
        if not self._queue.name.startswith(scope):
            return None

        def relative(name):
            return name.removeprefix(scope)
        message = protos.QueueRunnerDef()
        message.queue_name = relative(self._queue.name)
        message.enqueue_op_name.extend(relative(op.name) for op in self._enqueue_ops)
        message.close_op_name = relative(self._close_op.name)
        message.cancel_op_name = relative(self._cancel_op.name)
        message.queue_closed_exception_types.extend(
            errors.error_code_from_exception_type(t) for t in self._queue_closed_exception_types)
        return message

    @staticmethod
    def from_proto(queue_runner_def, import_scope=None):
        """A runner of the default graph's nodes that the message names."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr, collection=graph.GraphKeys.QUEUE_RUNNERS):
    """Adds a runner to a collection of the graph, for `start_queue_runners`."""
    graph.add_to_collection(collection, qr)


def start_queue_runners(sess=None, coord=None, daemon=True, start=True,
                        collection=graph.GraphKeys.QUEUE_RUNNERS):
    """Starts the threads of all runners in the collection; returns them. TF:
    tf.train.start_queue_runners.

    sess: default the default session; ValueError without one, TypeError for anything else.
    coord: a Coordinator that stops them and gets their errors; daemon: threads that end with the
    program; start: False leaves the threads to be started; collection: the runners' collection.

        >>> name = tf.train.string_input_producer(["a", "b"], shuffle=False).dequeue()
        >>> with tf.Session() as sess:
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(sess, coord)
        ...     print(sess.run(name), sess.run(name), sess.run(name))
        ...     coord.request_stop()
        ...     coord.join(threads)
        b'a' b'b' b'a'
    """
    if sess is None:
        sess = graph.get_default_session()
        if not sess:
            raise ValueError("Cannot start queue runners: No default session is registered. Use "
                             "`with sess.as_default()` or pass an explicit session to "
                             "tf.start_queue_runners(sess=sess)")
    if not hasattr(sess, "make_callable") or not hasattr(sess, "graph"):
        if type(sess).__name__ in ("MonitoredSession", "SingularMonitoredSession"):
            return []                       # they start them themselves
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    with sess.graph.as_default():
        runners = graph.get_collection(collection)
        if not runners:
            _log.warning("`tf.train.start_queue_runners()` was called when no queue runners "
                            "were defined. You can safely remove the call to this deprecated "
                            "function.")
        return [thread for qr in runners
                for thread in qr.create_threads(sess, coord=coord, daemon=daemon, start=start)]


PUBLIC = {
    "train.QueueRunner": QueueRunner, "train.add_queue_runner": add_queue_runner,
    "train.start_queue_runners": start_queue_runners,
    "train.queue_runner.QueueRunner": QueueRunner,
    "train.queue_runner.add_queue_runner": add_queue_runner,
    "train.queue_runner.start_queue_runners": start_queue_runners,
}
