"""The stacks of default graphs and default sessions, one of each per thread.

Invariants:
1. A `with graph.as_default()` block must be left in the order it was entered.
2. A thread whose stack is empty sees the process's global default graph.

Sessions are held as opaque objects with `run(fetches, feed_dict)`, so that `Tensor.eval` and
`Operation.run` work without importing the session layer.
"""

import contextlib
import threading


class _Stack(threading.local):
    def __init__(self, what):
        self.what = what
        self.items = []

    @contextlib.contextmanager
    def entered(self, item):
        self.items.append(item)
        try:
            yield item
        finally:
            self.leave(item)

    def leave(self, item):
        """Removes `item`, which must be the innermost one."""
        if not self.items or self.items[-1] is not item:
            if item in self.items:
                self.items.remove(item)
            raise AssertionError(f"Nesting violated for default stack of {self.what} objects: "
                                 f"leave the innermost `with` block first")
        self.items.pop()


graph_stack = _Stack("graph")
session_stack = _Stack("session")
_global_lock = threading.Lock()
_global_graph = None
new_graph = None    # makes the global graph: graph.py puts its class here


def get_default_graph():
    """The innermost graph of `with graph.as_default()` on this thread, else the global one.

        >>> with tf.Graph().as_default() as graph:
        ...     tf.get_default_graph() is graph
        True
    """
    items = graph_stack.items
    return items[-1] if items else _get_global_graph()


def _get_global_graph():
    global _global_graph
    if _global_graph is None:
        with _global_lock:
            if _global_graph is None:
                _global_graph = new_graph()
    return _global_graph


def reset_default_graph():
    """Replaces the global default graph by an empty one; AssertionError inside a `with graph`
    block.

        >>> x = tf.constant(1.0)
        >>> tf.reset_default_graph()
        >>> tf.get_default_graph().get_operations()
        []
    """
    global _global_graph
    if graph_stack.items:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you "
                             "need a cleared graph, exit the nesting and create a new graph.")
    _global_graph = None


def has_default_graph():
    """True inside a `with graph.as_default()` block on this thread."""
    return bool(graph_stack.items)


def in_function():
    """True while the default graph of this thread is a function's."""
    items = graph_stack.items
    return bool(items) and items[-1].building_function


@contextlib.contextmanager
def outermost_graph():
    """Context in which a function's graph makes way for the graph that it is defined in, as TF's
    init_scope: for what the function owns but does not do, such as making variables."""
    graph = inner = get_default_graph()
    if not graph.building_function:
        yield graph
        return
    below = [g for g in graph_stack.items if not g.building_function]
    while graph is not None and graph.building_function:
        graph = graph.outer_graph
    if graph is None:
        graph = below[-1] if below else _get_global_graph()
    scopes = graph._scopes
    saved = scopes.devices
    with graph.as_default(), graph.control_dependencies(None):
        if inner._scopes.devices:
            graph._set_devices(inner._scopes.devices)
        try:
            yield graph
        finally:
            graph._set_devices(saved)


@contextlib.contextmanager
def init_scope():
    """Context for what is made once, outside of functions and of what surrounds it: the default graph
    is the outermost one, without control dependencies, name scopes as they are. TF: tf.init_scope.

        >>> with tf.control_dependencies([tf.no_op()]), tf.init_scope():
        ...     tf.constant(1.0).op.control_inputs
        []
    """
    scope = get_default_graph().get_name_scope()
    with outermost_graph() as graph, graph.control_dependencies(None), \
            graph.name_scope(f"{scope}/" if scope else None):
        yield


def get_default_session():
    """The innermost session of `with session.as_default()` on this thread, or None.

        >>> with tf.Session() as sess:
        ...     tf.get_default_session() is sess
        True
    """
    items = session_stack.items
    return items[-1] if items else None


@contextlib.contextmanager
def default_session(session):
    """Context in which `session` is the default session."""
    with session_stack.entered(session):
        yield session


def session_for(action, graph, session):
    """`session`, or the default session; ValueError if there is none or it runs another graph."""
    if session is None:
        session = get_default_session()
        if session is None:
            raise ValueError(f"Cannot {action}: No default session is registered. Use "
                             f"`with sess.as_default()` or pass an explicit session to the call "
                             f"(session=sess).")
        if session.graph is not graph:
            raise ValueError(f"Cannot use the default session to {action}: its graph is different "
                             f"from the graph of what you evaluate. Pass an explicit session to "
                             f"the call (session=sess). {_two_graphs(graph, session.graph)}")
    elif session.graph is not graph:
        raise ValueError(f"Cannot use the given session to {action}: its graph is different from "
                         f"the graph of what you evaluate. {_two_graphs(graph, session.graph)}")
    return session


def _two_graphs(mine, other):
    return (f"Wanted: {mine.describe()}; the session runs: {other.describe()}; "
            f"thread: {threading.current_thread().name}")
