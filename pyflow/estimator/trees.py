"""tf.estimator.BoostedTreesClassifier, BoostedTreesRegressor.

    features -> buckets [batch, features] -> leaves of all trees -> logits -> head
    training: gradients and Hessians by node, feature and bucket, summed over n_batches_per_layer
    batches -> one layer more (tree_growing.py) -> ... -> n_trees trees

Invariants
    1. All state is in variables below boosted_trees: a killed training goes on from its checkpoint.
    2. Predictions are ops of the graph alone, so they can be exported; layers are grown by a
       py_func of the training's graph.

Thread: one.  Source: TF 1.15 tf.estimator canned boosted_trees.

    tf.estimator.BoostedTreesClassifier(columns, n_batches_per_layer=1).train(input_fn, steps=600)
"""
import numpy as np

import pyflow as tf
from pyflow.estimator import heads, tree_growing
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.linear import check_features
from pyflow.estimator.modes import ModeKeys
from pyflow.feature_column.columns import Features, checked_columns, flat
from pyflow.feature_column.dense import IndicatorColumn
from pyflow.feature_column.numeric import BucketizedColumn, NumericColumn

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
_KINDS = (BucketizedColumn, IndicatorColumn, NumericColumn)


def _variable(name, shape, dtype, value=0):
    return tf.get_variable(name, shape, dtype, tf.constant_initializer(value), trainable=False,
                           use_resource=True)


class _Model:
    """The variables of an ensemble, and what is computed with them."""

    def __init__(self, features, columns, rules, size, center_bias, quantiles):
        self.rules, self.size, self._quantiles = rules, size, quantiles
        there = Features(features)
        parts = [self._part(column, there) for column in columns]
        self._edges = [edge for _, _, edge in parts if edge is not None]
        self._x = [tensor for tensor, _, _ in parts]
        self.buckets = max(count for _, count, _ in parts)
        self.width = sum(tensor.shape[1].value for tensor in self._x)
        trees, nodes = rules.n_trees, 2 ** (rules.max_depth + 1) - 1
        self.feature = _variable("feature", [trees, nodes], tf.int32, -1)
        self.bucket = _variable("bucket", [trees, nodes], tf.int32)
        self.gain = _variable("gain", [trees, nodes], tf.float32)
        self.value = _variable("value", [trees, nodes, size], tf.float32)
        self.bias = _variable("bias", [size], tf.float32)
        # tree, layer, batches of the layer, whether the bias is found, whether quantiles are.
        first = [0, 0, 0, 0 if center_bias else 1, 0]
        self.state = _variable("state", [5], tf.int32, first)

    def _part(self, column, there):
        """(buckets or, of numbers, themselves [batch, n]; how many buckets; their edges)."""
        if isinstance(column, NumericColumn):
            width = int(np.prod(column.shape)) if column.shape else 1
            edges = _variable(f"{column.var_scope_name}_boundaries", [width, self._quantiles],
                              tf.float32)
            return flat(there.get(column), width), self._quantiles + 1, edges
        if isinstance(column, BucketizedColumn):
            width = column.source_column.shape[0]
            return flat(there.get(column), width), len(column.boundaries) + 1, None
        width = column.variable_shape.num_elements()
        return tf.to_int32(tf.greater(flat(there.get(column), width), 0)), 2, None

    def found_quantiles(self):
        """The operation that takes the edges of numbers from the first batch."""
        if not self._edges:
            return tf.no_op()
        numbers = [x for x in self._x if x.dtype.is_floating]

        def from_batch():
            made = []
            for edges, x in zip(self._edges, numbers):
                at = np.linspace(0, 1, self._quantiles + 2)[1:-1]
                found = tf.py_func(lambda x, at=at: np.quantile(x, at, axis=0).T.astype(np.float32),
                                   [x], tf.float32)
                found.set_shape(edges.shape)
                made.append(edges.assign(found).op)
            with tf.control_dependencies(made):
                return self.state.assign(
                    self.state.read_value() + tf.constant([0, 0, 0, 0, 1])).op
        return tf.cond(tf.equal(self.state.read_value()[4], 0), lambda: _done(from_batch()),
                       lambda: _done(tf.no_op())).op

    def x(self):
        """The buckets of all features, int32 [batch, width]."""
        edges, made = iter(self._edges), []
        for x in self._x:
            if x.dtype.is_floating:
                edge = tf.expand_dims(next(edges).read_value(), 0)
                above = tf.greater(tf.expand_dims(x, -1), edge)
                x = tf.reduce_sum(tf.to_int32(above), -1)
            made.append(tf.to_int32(x))
        return tf.concat(made, 1)

    def leaves(self, x):
        """(each example's node in each tree that has begun [batch, trees], the trees)."""
        tree = self.state.read_value()[0]
        used = tf.minimum(tree + 1, self.rules.n_trees)
        nodes = self.feature.shape[1].value
        feature = tf.reshape(self.feature.read_value()[:used], [-1])
        bucket = tf.reshape(self.bucket.read_value()[:used], [-1])
        batch = tf.shape(x)[0]
        trees = tf.expand_dims(tf.range(used) * nodes, 0)
        rows = tf.expand_dims(tf.range(batch) * self.width, 1)
        flat_x, node = tf.reshape(x, [-1]), tf.zeros(tf.stack([batch, used]), tf.int32)
        for _ in range(self.rules.max_depth):
            column = tf.gather(feature, trees + node)
            seen = tf.gather(flat_x, rows + tf.maximum(column, 0))
            right = tf.to_int32(tf.greater(seen, tf.gather(bucket, trees + node)))
            node = tf.where(tf.greater_equal(column, 0), 2 * node + 1 + right, node)
        return node, trees

    def logits(self, node, trees):
        """[batch, size]: the bias and the leaves' values."""
        values = tf.reshape(self.value.read_value(), [-1, self.size])
        logits = tf.reduce_sum(tf.gather(values, trees + node), 1) + self.bias.read_value()
        logits.set_shape([None, self.size])
        return logits

    # ------------------------------------------------------------ training

    def train_op(self, x, node, sums, n_batches):
        """Adds a batch, and grows a layer when there are enough. sums: [batch, 2 size]."""
        rules, size = self.rules, 2 * self.size
        shape = [2 ** (rules.max_depth - 1), self.width, self.buckets, size]
        stats = _variable("stats", [int(np.prod(shape[:3])), size], tf.float32)
        total = _variable("sums", [size], tf.float32)
        layer = self.state.read_value()[1]
        local = node[:, -1] - (tf.bitwise.left_shift(1, layer) - 1)
        active = tf.expand_dims(tf.to_float(tf.greater_equal(local, 0)), 1)
        local = tf.expand_dims(tf.maximum(local, 0), 1)
        at = (local * self.width + tf.expand_dims(tf.range(self.width), 0)) * self.buckets + x
        each = tf.tile(tf.expand_dims(sums * active, 1), [1, self.width, 1])
        with tf.control_dependencies([at, each]):
            added = [tf.scatter_add(stats, tf.reshape(at, [-1]), tf.reshape(each, [-1, size])),
                     total.assign_add(tf.reduce_sum(sums, 0), read_value=False)]
        with tf.control_dependencies(added):
            counted = self.state.assign_add([0, 0, 1, 0, 0], read_value=False)
        with tf.control_dependencies([counted]):
            enough = tf.greater_equal(self.state.read_value()[2], n_batches)
            grown = tf.cond(enough, lambda: _done(self._grow(stats, total, shape)),
                            lambda: _done(tf.no_op()))
        with tf.control_dependencies([grown]):
            return tf.assign_add(tf.train.get_global_step(), 1).op

    def _grow(self, stats, total, shape):
        state = [self.feature, self.bucket, self.gain, self.value, self.state, self.bias]

        def grow(sums, everything, *before):
            feature, bucket, gain, value, numbers, bias = (np.array(x) for x in before)
            if numbers[3]:
                tree_growing.grow_layer(self.rules, sums.reshape(shape), feature, bucket, gain,
                                        value, numbers)
            else:
                numbers[3] = tree_growing.center(self.rules, everything, bias)
            numbers[2] = 0
            return feature, bucket, gain, value, numbers, bias
        after = tf.py_func(grow, [stats.read_value(), total.read_value(),
                                  *(v.read_value() for v in state)], [v.dtype for v in state])
        with tf.control_dependencies(after):
            ops = [stats.assign(tf.zeros(stats.shape), read_value=False),
                   total.assign(tf.zeros(total.shape), read_value=False)]
        for variable, new in zip(state, after):
            new.set_shape(variable.shape)
            ops.append(variable.assign(new, read_value=False))
        return tf.group(*ops)


def _done(op):
    """A tensor that is there when an operation has run, for tf.cond."""
    with tf.control_dependencies([op]):
        return tf.constant(True)


class _StopWhenGrown(tf.train.SessionRunHook):
    """Ends training when all trees are grown."""

    def __init__(self, state, n_trees):
        self._state, self._n_trees = state.read_value(), n_trees

    def after_run(self, run_context, run_values):
        if run_context.session.run(self._state)[0] >= self._n_trees:
            run_context.request_stop()


def _gradients(head, labels, logits, weights):
    """[batch, 2 size]: the gradient and the Hessian's diagonal of the mean loss."""
    weights = weights / tf.to_float(tf.shape(logits)[0])
    if isinstance(head, heads.RegressionHead):
        weights = weights / head.logits_dimension
        g, h = 2.0 * (logits - labels), 2.0 * tf.ones_like(logits)
    else:
        if isinstance(head, heads.BinaryClassHead):
            p, wanted = tf.sigmoid(logits), labels
        else:
            p = tf.nn.softmax(logits)
            wanted = tf.one_hot(tf.squeeze(labels, [-1]), head.logits_dimension)
        g, h = p - wanted, p * (1.0 - p)
    return tf.stop_gradient(tf.concat([g * weights, h * weights], 1))


def _trees_spec(features, labels, mode, head, columns, rules, n_batches, center_bias, epsilon):
    check_features(features)
    columns = checked_columns(columns, _KINDS, "a bucketized_column, an indicator_column or a "
                                               "numeric_column")
    training = mode == ModeKeys.TRAIN
    with tf.variable_scope("boosted_trees"):
        model = _Model(features, columns, rules, head.logits_dimension, center_bias,
                       max(1, min(255, int(np.ceil(1.0 / epsilon)))))
        with tf.control_dependencies([model.found_quantiles()] if training else []):
            x = model.x()
            node, trees = model.leaves(x)
            logits = model.logits(node, trees)

        def train_op_fn(loss):
            found = head._checked_labels(labels, logits)
            sums = _gradients(head, found, logits, head._weights(features, logits))
            with tf.control_dependencies([loss]):
                return model.train_op(x, node, sums, n_batches)
        spec = head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op_fn)
    if not training:
        return spec
    return spec._replace(training_hooks=[
        *spec.training_hooks, _StopWhenGrown(model.state, rules.n_trees)])


def _estimator_init(self, head, columns, n_batches_per_layer, model_dir, rules, config, center_bias,
                    epsilon):
    columns = checked_columns(columns, _KINDS, "a bucketized_column, an indicator_column or a "
                                               "numeric_column")
    if rules.pruning not in tree_growing.PRUNING:
        raise ValueError(f"pruning_mode must be one of {tree_growing.PRUNING}, got "
                         f"{rules.pruning!r}")
    for name, low in (("n_trees", 1), ("max_depth", 1), ("learning_rate", 0), ("l1", 0), ("l2", 0),
                      ("tree_complexity", 0), ("min_node_weight", 0)):
        if getattr(rules, name) < low:
            raise ValueError(f"{name} must be at least {low}, got {getattr(rules, name)}")
    if n_batches_per_layer < 1:
        raise ValueError(f"n_batches_per_layer must be at least 1, got {n_batches_per_layer}")
    if rules.tree_complexity > 0 and rules.pruning == "none":
        raise ValueError("For pruning, tree_complexity must be positive and pruning_mode 'pre' or "
                         "'post': got pruning_mode='none'")

    def model_fn(features, labels, mode):
        return _trees_spec(features, labels, mode, head, columns, rules, n_batches_per_layer,
                           center_bias, epsilon)
    Estimator.__init__(self, model_fn, model_dir, config)


class BoostedTreesClassifier(Estimator):
    """Gradient boosted trees of two or n_classes classes.

    feature_columns: bucketized, indicator and numeric columns (of which the first batch's quantiles
    are the buckets). n_batches_per_layer: how many batches a layer of a tree is grown from.
    n_trees, max_depth: of the trees; training ends when they are grown. learning_rate: how much of
    a leaf's Newton step counts. l1_regularization, l2_regularization: of leaves.
    tree_complexity: what a split must gain, min_node_weight: the Hessian on both of its sides.
    center_bias: begin with the labels' mean. pruning_mode: "none", "pre" or "post".
    quantile_sketch_epsilon: 1 / the number of quantiles. train_in_memory: taken without effect.
    The rest as LinearClassifier's. ValueError for others. TF: tf.estimator.BoostedTreesClassifier.
    """

    def __init__(self, feature_columns, n_batches_per_layer, model_dir=None, n_classes=2,
                 weight_column=None, label_vocabulary=None, n_trees=100, max_depth=6,
                 learning_rate=0.1, l1_regularization=0.0, l2_regularization=0.0,
                 tree_complexity=0.0, min_node_weight=0.0, config=None, center_bias=False,
                 pruning_mode="none", quantile_sketch_epsilon=0.01, train_in_memory=False):
        head = heads.binary_or_multi_class_head(n_classes, weight_column, label_vocabulary, _MEAN)
        rules = tree_growing.Rules(n_trees, max_depth, learning_rate, l1_regularization,
                                   l2_regularization, tree_complexity, min_node_weight,
                                   pruning_mode)
        _estimator_init(self, head, feature_columns, n_batches_per_layer, model_dir, rules, config,
                        center_bias, quantile_sketch_epsilon)


class BoostedTreesRegressor(Estimator):
    """Gradient boosted trees of label_dimension numbers; arguments as BoostedTreesClassifier's.
    TF: tf.estimator.BoostedTreesRegressor."""

    def __init__(self, feature_columns, n_batches_per_layer, model_dir=None, label_dimension=1,
                 weight_column=None, n_trees=100, max_depth=6, learning_rate=0.1,
                 l1_regularization=0.0, l2_regularization=0.0, tree_complexity=0.0,
                 min_node_weight=0.0, config=None, center_bias=False, pruning_mode="none",
                 quantile_sketch_epsilon=0.01, train_in_memory=False):
        head = heads.RegressionHead(label_dimension, weight_column, _MEAN)
        rules = tree_growing.Rules(n_trees, max_depth, learning_rate, l1_regularization,
                                   l2_regularization, tree_complexity, min_node_weight,
                                   pruning_mode)
        _estimator_init(self, head, feature_columns, n_batches_per_layer, model_dir, rules, config,
                        center_bias, quantile_sketch_epsilon)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    BoostedTreesClassifier, BoostedTreesRegressor)}
