"""k-means clustering: tf.contrib.factorization.KMeans, KMeansClustering.

    centres [k, d]: chosen among the rows of a first input -> each row to its nearest centre ->
    centres to the mean of their rows, or by mini-batches a step towards it

Invariants
    1. The distance is |x - c|^2, or 1 - cos(x, c), of which centres and rows have norm one.
    2. A centre without rows stays.
    3. By mini-batches a centre is the mean of all rows that ever came to it.

Thread: the one building the graph.
Source: TF 1.15 tf.contrib.factorization; Sculley, "Web-Scale K-Means Clustering" (2010); Arthur and
Vassilvitskii, "k-means++" (2007).

    kmeans = tf.contrib.factorization.KMeans(x, num_clusters=3, use_mini_batch=False)
    _, [nearest], [distances], _, init_op, train_op = kmeans.training_graph()
"""
import numpy as np

import pyflow as tf
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.modes import ModeKeys
from pyflow.estimator.outputs import PredictOutput
from pyflow.estimator.spec import EstimatorSpec

SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = "random", "kmeans_plus_plus"


def _variable(name, shape, dtype=tf.float32):
    return tf.Variable(tf.zeros(shape, dtype), trainable=False, name=name, use_resource=True)


class KMeans:
    """A graph that finds num_clusters centres.

    inputs: float32 [n, d], or a list of them. initial_clusters: "random", "kmeans_plus_plus", an
    array [num_clusters, d], or a function of (inputs, num_clusters). distance_metric:
    "squared_euclidean" or "cosine". use_mini_batch: whether a step is one of many batches.
    random_seed: of the first centres. mini_batch_steps_per_iteration, kmc2_chain_length,
    kmeans_plus_plus_num_retries: taken without effect. ValueError for others.
    TF: tf.contrib.factorization.KMeans."""

    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = COSINE_DISTANCE
    RANDOM_INIT = RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS_INIT

    def __init__(self, inputs, num_clusters, initial_clusters=RANDOM_INIT,
                 distance_metric=SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch=False,
                 mini_batch_steps_per_iteration=1, random_seed=0, kmeans_plus_plus_num_retries=2,
                 kmc2_chain_length=200):
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(f"Unsupported distance metric passed to Kmeans {distance_metric!r}")
        if isinstance(initial_clusters, str) and initial_clusters not in (
                RANDOM_INIT, KMEANS_PLUS_PLUS_INIT):
            raise ValueError(f"Unsupported initialization algorithm {initial_clusters!r}")
        self._inputs = [tf.to_float(x) for x in (
            inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        self._count, self._first, self._seed = num_clusters, initial_clusters, random_seed
        self._cosine = distance_metric == COSINE_DISTANCE
        self._mini_batch = use_mini_batch

    def __repr__(self):
        return f"<tf.contrib.factorization.KMeans of {self._count} clusters>"

    def training_graph(self):
        """([distances to all centres [n, k]], [nearest centre [n]], [distance to it [n]], whether
        there are centres, the operation that chooses them once, the operation of a step); lists
        have an item for each input."""
        width = self._inputs[0].shape[-1].value
        if width is None:
            raise ValueError("KMeans: the inputs' last dimension must be known, got "
                             f"{self._inputs[0].shape}")
        centres = _variable("clusters", [self._count, width])
        known = _variable("clusters_initialized", [], tf.bool)
        counts = _variable("cluster_counts", [self._count])
        rows = [tf.nn.l2_normalize(x, 1) if self._cosine else x for x in self._inputs]
        every = [self._distances(x, centres.read_value()) for x in rows]
        nearest = [tf.to_int32(tf.argmin(distances, 1)) for distances in every]
        least = [tf.reduce_min(distances, 1) for distances in every]
        x, ids = tf.concat(rows, 0), tf.concat(nearest, 0)
        return (every, nearest, least, known.read_value(),
                self._init_op(x, centres, known), self._step(x, ids, centres, counts))

    def _distances(self, x, centres):
        product = tf.matmul(x, centres, transpose_b=True)
        if self._cosine:
            return 1.0 - product
        squares = tf.reduce_sum(tf.square(x), 1, keepdims=True) + tf.reduce_sum(
            tf.square(centres), 1)
        return tf.maximum(squares - 2.0 * product, 0.0)

    def _init_op(self, x, centres, known):
        def choose():
            first = self._chosen(x)
            first = tf.nn.l2_normalize(first, 1) if self._cosine else first
            with tf.control_dependencies([centres.assign(first, read_value=False)]):
                done = known.assign(True, read_value=False)
            with tf.control_dependencies([done]):
                return tf.constant(True)
        return tf.cond(known.read_value(), lambda: tf.constant(False), choose).op

    def _chosen(self, x):
        """The first centres [k, d]."""
        if callable(self._first):
            return tf.reshape(self._first(x, self._count), [self._count, -1])
        if not isinstance(self._first, str):
            return tf.to_float(tf.convert_to_tensor(self._first))
        seed, count, spread = self._seed, self._count, self._first == KMEANS_PLUS_PLUS_INIT
        found = tf.py_func(lambda rows: _first_centres(rows, count, seed, spread), [x], tf.float32)
        found.set_shape([count, x.shape[1].value])
        return found

    def _step(self, x, ids, centres, counts):
        sums = tf.unsorted_segment_sum(x, ids, self._count)
        here = tf.unsorted_segment_sum(tf.ones_like(x[:, 0]), ids, self._count)
        old, before = centres.read_value(), counts.read_value() if self._mini_batch else 0.0
        total = tf.expand_dims(here + before, 1)
        moved = old + (sums - old * tf.expand_dims(here, 1)) / tf.maximum(total, 1.0)
        moved = tf.nn.l2_normalize(moved, 1) if self._cosine else moved
        with tf.control_dependencies([moved, total]):
            ops = [centres.assign(moved, read_value=False)]
            if self._mini_batch:
                ops.append(counts.assign_add(here, read_value=False))
            return tf.group(*ops)


def _first_centres(rows, count, seed, spread):
    """`count` different rows; spread: each drawn by its squared distance from those before."""
    if len(rows) < count:
        raise ValueError(f"KMeans: {len(rows)} rows for {count} clusters: give at least as many to "
                         "the operation that chooses the first centres")
    random = np.random.RandomState(seed or None)
    if not spread:
        return rows[random.permutation(len(rows))[:count]]
    chosen = [rows[random.randint(len(rows))]]
    far = np.full(len(rows), np.inf)
    for _ in range(count - 1):
        far = np.minimum(far, ((rows - chosen[-1]) ** 2).sum(1, dtype=np.float64))
        share = far / far.sum() if far.sum() > 0 else np.full(len(rows), 1 / len(rows))
        chosen.append(rows[random.choice(len(rows), p=share)])
    return np.stack(chosen).astype(np.float32)


class _ChooseCentres(tf.train.SessionRunHook):
    """Chooses the first centres in a new session."""

    def __init__(self, init_op):
        self._init_op = init_op

    def after_create_session(self, session, coord):
        session.run(self._init_op)


class _StopWhenSettled(tf.train.SessionRunHook):
    """Stops when the loss changes by less than a share of it."""

    def __init__(self, loss, tolerance):
        self._loss, self._tolerance, self._before = loss, tolerance, None

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        loss, before = run_values.results, self._before
        self._before = loss
        if before is not None and abs(loss - before) / (abs(before) + 1e-12) < self._tolerance:
            run_context.request_stop()


class KMeansClustering(Estimator):
    """An Estimator that finds clusters; arguments as KMeans's.

    relative_tolerance: of the loss, below which training ends; only without use_mini_batch
    (ValueError). feature_columns: dense columns, for features in a dict; without them a dict's
    features are put side by side. TF: tf.contrib.factorization.KMeansClustering."""

    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = COSINE_DISTANCE
    RANDOM_INIT = RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS_INIT
    SCORE, CLUSTER_INDEX, ALL_DISTANCES = "score", "cluster_index", "all_distances"
    CLUSTER_CENTERS_VAR_NAME = "clusters"

    def __init__(self, num_clusters, model_dir=None, initial_clusters=RANDOM_INIT,
                 distance_metric=SQUARED_EUCLIDEAN_DISTANCE, random_seed=0, use_mini_batch=True,
                 mini_batch_steps_per_iteration=1, kmeans_plus_plus_num_retries=2,
                 relative_tolerance=None, config=None, feature_columns=None):
        if relative_tolerance is not None and use_mini_batch:
            raise ValueError("relative_tolerance is of a training with use_mini_batch=False")

        def model_fn(features, mode):
            x = _side_by_side(features, feature_columns)
            graph = KMeans(x, num_clusters, initial_clusters, distance_metric, use_mini_batch,
                           random_seed=random_seed).training_graph()
            return _spec(graph, mode, relative_tolerance)
        super().__init__(model_fn, model_dir, config)

    def predict_cluster_index(self, input_fn):
        """Yields each row's cluster."""
        return (one["cluster_index"] for one in self.predict(input_fn, ["cluster_index"]))

    def transform(self, input_fn):
        """Yields each row's distances to all centres [num_clusters]."""
        return (one["all_distances"] for one in self.predict(input_fn, ["all_distances"]))

    def score(self, input_fn):
        """The sum of the rows' distances to their centres, of one batch."""
        return self.evaluate(input_fn, steps=1)[self.SCORE]

    def cluster_centers(self):
        """The centres [num_clusters, d]."""
        return self.get_variable_value("clusters")


def _side_by_side(features, columns):
    if columns is not None:
        return tf.feature_column.input_layer(features, columns)
    if isinstance(features, dict):
        parts = [tf.to_float(features[key]) for key in sorted(features)]
        return tf.concat([x if x.shape.ndims == 2 else tf.expand_dims(x, 1) for x in parts], 1)
    return tf.to_float(features)


def _spec(graph, mode, tolerance):
    (every,), (nearest,), (least,), _, init_op, train_op = graph
    loss = tf.reduce_sum(least)
    predictions = {"all_distances": every, "cluster_index": nearest}
    hooks = []
    if mode == ModeKeys.TRAIN:
        hooks = [_ChooseCentres(init_op)]
        if tolerance is not None:
            hooks.append(_StopWhenSettled(loss, tolerance))
        with tf.control_dependencies([train_op]):
            train_op = tf.assign_add(tf.train.get_global_step(), 1).op
    return EstimatorSpec(
        mode, predictions, loss, train_op, {"score": tf.metrics.mean(loss)},
        {"all_distances": PredictOutput(every), "cluster_index": PredictOutput(nearest),
         "serving_default": PredictOutput(nearest)}, training_hooks=hooks)


PUBLIC = {
    "contrib.factorization.KMeans": KMeans,
    "contrib.factorization.KMeansClustering": KMeansClustering,
    "contrib.factorization.SQUARED_EUCLIDEAN_DISTANCE": SQUARED_EUCLIDEAN_DISTANCE,
    "contrib.factorization.COSINE_DISTANCE": COSINE_DISTANCE,
    "contrib.factorization.RANDOM_INIT": RANDOM_INIT,
    "contrib.factorization.KMEANS_PLUS_PLUS_INIT": KMEANS_PLUS_PLUS_INIT,
    "estimator.experimental.KMeans": KMeansClustering,
}
