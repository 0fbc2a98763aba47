"""Named collections of a graph, and `GraphKeys`, the names TF 1.x reserves.

Invariant: a collection is a list in the order of addition; `get_collection` copies,
`get_collection_ref` hands out the list itself.
"""

import re


class GraphKeys:
    """Standard names of collections (TF 1.x `tf.GraphKeys`).

        >>> v = tf.Variable(1.0, name="v")
        >>> [w.name for w in tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)]
        ['v:0']
    """

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"

    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"

    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"

    _SUMMARY_COLLECTION = "_SUMMARY_V2"
    _STREAMING_MODEL_PORTS = "streaming_model_ports"

    VARIABLES = GLOBAL_VARIABLES  # TF's deprecated spelling
    _VARIABLE_COLLECTIONS = (GLOBAL_VARIABLES, LOCAL_VARIABLES, METRIC_VARIABLES, MODEL_VARIABLES,
                             TRAINABLE_VARIABLES, MOVING_AVERAGE_VARIABLES, CONCATENATED_VARIABLES,
                             TRAINABLE_RESOURCE_VARIABLES)


class GraphCollections:
    """The part of Graph that keeps collections."""

    def __init__(self):
        self._collections = {}

    @property
    def collections(self):
        """The names of all collections."""
        return list(self._collections)

    def get_all_collection_keys(self):
        """The names (strings only) of all collections."""
        return [name for name in self._collections if isinstance(name, str)]

    def add_to_collection(self, name, value):
        """Appends `value`; values may be stored more than once."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names, value):
        """Appends `value` to each collection of `names` (one name or several; repeats count
        once)."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name):
        """The list itself, made if it did not exist: changing it changes the collection."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name, scope=None):
        """A copy of the list; with `scope`, only items whose `.name` the regex `scope` matches."""
        with self._lock:
            items = list(self._collections.get(name, ()))
        if scope is None:
            return items
        matches = re.compile(scope).match
        return [item for item in items if hasattr(item, "name") and matches(item.name)]

    def clear_collection(self, name):
        """Forgets the collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)
