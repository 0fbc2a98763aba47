"""The scopes, collections and seeds of the default graph, as module-level functions.

`name_scope` follows TF 1.x: `name_scope(name, default_name=None, values=None)`; `values` choose the
graph. `get_seed` follows TF's rule for graph-level and op-level seeds.
"""

from pyflow.framework.convert import graph_of
from pyflow.framework.default_graph import get_default_graph

DEFAULT_GRAPH_SEED = 87654321
_MAX_SEED = 2 ** 31 - 1


class name_scope:  # noqa: N801 - TF's name
    """Context that prefixes the names of ops: yields `scope/`, to be passed on as a name.

    name: the scope, or None to use `default_name`; a trailing slash re-enters a scope.
    values: tensors whose graph the scope is opened in (the default graph without them).

        >>> with tf.name_scope("layer"):
        ...     print(tf.constant(1.0, name="c").name)
        layer/c:0
    """

    def __init__(self, name, default_name=None, values=None):
        if not isinstance(default_name, (str, bytes, type(None))):
            raise TypeError(f"`default_name` must be a string, got {default_name!r}; tensors are "
                            f"given as `values`")
        self._name = default_name if name is None else name
        self._values = values
        if self._name is None and values is not None:
            raise ValueError(f"At least one of name ({name}) and default_name ({default_name}) "
                             f"must be provided.")
        if self._name is not None and not isinstance(self._name, (str, bytes)):
            raise TypeError(f"name for name_scope must be a string, got {self._name!r}")

    def __repr__(self):
        return f"<tf.name_scope {self._name!r}>"

    @property
    def name(self):
        """The name that was asked for, or None."""
        return self._name

    def __enter__(self):
        graph = get_default_graph()
        self._graph_context = None
        if self._values:
            graph = graph_of(self._values)
            self._graph_context = graph.as_default()
            self._graph_context.__enter__()
        try:
            self._scope = graph.name_scope(self._name)
            return self._scope.__enter__()
        except BaseException:
            self._leave_graph()
            raise

    def _leave_graph(self, *details):
        if self._graph_context is not None:
            self._graph_context.__exit__(*(details or (None, None, None)))

    def __exit__(self, *details):
        self._scope.__exit__(*details)
        self._leave_graph(*details)
        return False


def op_scope(values, name, default_name=None):
    """TF's old spelling of `name_scope(name, default_name, values)`."""
    return name_scope(name, default_name, values)


def get_name_scope():
    """The current name scope of the default graph."""
    return get_default_graph().get_name_scope()


def device(device_name_or_function):
    """`Graph.device` of the default graph.

    device_name_or_function: a full or partial name ("/cpu:0", "/job:worker/task:1/device:GPU:1"), a
    function Operation -> name, or None, which undoes those around it.

        >>> with tf.device("/cpu:1"):
        ...     print(tf.constant(1.0).device)
        /device:CPU:1
    """
    return get_default_graph().device(device_name_or_function)


def container(container_name):
    """`Graph.container` of the default graph."""
    return get_default_graph().container(container_name)


def colocate_with(op, ignore_existing=False):
    """`Graph.colocate_with` of the graph that `op` is in, or of the default graph for None."""
    graph = getattr(getattr(op, "op", op), "graph", None) or get_default_graph()
    return graph.colocate_with(op, ignore_existing)


def control_dependencies(control_inputs):
    """`Graph.control_dependencies` of the default graph.

    control_inputs: Operations or Tensors that run before every operation made inside; None undoes
    those around it.

        >>> v = tf.Variable(1.0)
        >>> with tf.control_dependencies([v.assign_add(1.0)]):
        ...     after = tf.identity(v) * 10.0
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(after)
        np.float32(20.0)
    """
    return get_default_graph().control_dependencies(control_inputs)


def add_to_collection(name, value):
    """`Graph.add_to_collection` of the default graph.
    name: of the collection, which is made with its first value; value: anything.

        >>> loss = tf.constant(0.5, name="loss")
        >>> tf.add_to_collection("losses", loss)
        >>> tf.get_collection("losses")
        [<tf.Tensor 'loss:0' shape=() dtype=float32>]
    """
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names, value):
    """`Graph.add_to_collections` of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key, scope=None):
    """`Graph.get_collection` of the default graph.

    key: the collection's name. scope: a regex; only elements whose name it matches.

        >>> tf.add_to_collection("mine", 7)
        >>> tf.get_collection("mine")
        [7]
    """
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key):
    """`Graph.get_collection_ref` of the default graph."""
    return get_default_graph().get_collection_ref(key)


def get_all_collection_keys():
    """`Graph.get_all_collection_keys` of the default graph."""
    return get_default_graph().get_all_collection_keys()


def set_random_seed(seed):
    """Sets the graph-level seed of the default graph.

    seed: an int. Ops made afterwards without a seed of their own draw from it, each another stream;
    those made before do not change.

        >>> tf.set_random_seed(7)
        >>> x = tf.random_uniform([])
        >>> bool(tf.Session().run(x) == tf.Session().run(x))
        True
    """
    get_default_graph().seed = seed


def get_seed(op_seed):
    """(graph seed, op seed) for a random op, or (None, None) when neither seed was set.

    With only the graph seed, the op seed is the id of the last op, so that it depends on the
    position in the program; with only an op seed, the graph seed is 87654321. Never (0, 0), which
    would mean "not seeded".
    """
    graph = get_default_graph()
    if graph.seed is not None:
        seeds = graph.seed % _MAX_SEED, (graph._last_id if op_seed is None else op_seed) % _MAX_SEED
    elif op_seed is not None:
        seeds = DEFAULT_GRAPH_SEED, op_seed % _MAX_SEED
    else:
        seeds = None, None
    return (0, _MAX_SEED) if seeds == (0, 0) else seeds
