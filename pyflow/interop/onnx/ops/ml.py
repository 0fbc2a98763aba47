"""Classical learning (domain ai.onnx.ml): label encoders, tree ensembles, scaling, linear models.

Trees are walked level by level for all samples at once, by gathers."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar, sizes
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter

_ML = "ai.onnx.ml"


@converter("Binarizer", domain=_ML)
def binarizer(node):
    x = node.x(0)
    return tf.cast(tf.greater(x, scalar(node.attr("threshold", 0.0), x)), x.dtype)


@converter("Scaler", domain=_ML)
def scaler(node):
    x = tf.cast(node.x(0), tf.float32)
    offset = tf.constant(np.array(node.attr("offset", [0.0]), np.float32))
    return (x - offset) * tf.constant(np.array(node.attr("scale", [1.0]), np.float32))


@converter("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(node):
    x = node.x(0)
    made = tf.gather(x, tf.reshape(node.x(1), [-1]), axis=node.rank(0) - 1)
    return tf.reshape(made, [1, -1]) if node.rank(0) == 1 else made


@converter("Normalizer", domain=_ML)
def normalizer(node):
    x = tf.cast(node.x(0), tf.float32)
    norm = node.attr("norm", "MAX")
    if norm == "MAX":
        length = tf.reduce_max(tf.abs(x), -1, keepdims=True)
    elif norm == "L1":
        length = tf.reduce_sum(tf.abs(x), -1, keepdims=True)
    else:
        length = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))
    return tf.div_no_nan(x, length)


@converter("LinearRegressor", domain=_ML)
def linear_regressor(node):
    targets = node.attr("targets", 1)
    weights = np.array(node.attr("coefficients"), np.float32).reshape(targets, -1)
    made = tf.matmul(tf.cast(node.x(0), tf.float32), tf.constant(weights), transpose_b=True)
    bias = node.attr("intercepts", None)
    return made if not bias else made + tf.constant(np.array(bias, np.float32))


@converter("LabelEncoder", domain=_ML, since=2)
def label_encoder(node):
    """Keys to values; what is no key becomes the default."""
    keys, values = _table(node, "keys"), _table(node, "values")
    if len(keys) != len(values):
        raise node.error(f"{len(keys)} keys are given for {len(values)} values")
    text = values.dtype == object
    default = node.attr("default_tensor", None)
    if default is not None:
        default = default.reshape(-1)[0]
    else:
        kind = "string" if text else "float" if values.dtype.kind == "f" else "int64"
        default = node.attr(f"default_{kind}", {"string": "_Unused", "float": -0.0,
                                                "int64": -1}[kind])
    encode = (lambda v: v if isinstance(v, bytes) else str(v).encode()) if text else (lambda v: v)
    table = {_key(k): encode(v) for k, v in zip(keys.tolist(), values.tolist())}
    missing = encode(default)
    dtype = tf.string if text else tf.as_dtype(values.dtype)

    def look_up(x):
        x = np.asarray(x)
        found = [table.get(_key(k), missing) for k in x.ravel().tolist()]
        made = np.empty(len(found), object if text else values.dtype)
        made[:] = found
        return made.reshape(x.shape)
    return hosted(look_up, [node.x(0)], [dtype], [node.shape(0)])


def _key(key):
    if isinstance(key, str):
        return key.encode()
    return "nan" if key != key else key


def _table(node, which):
    for kind, np_type in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        if node.has_attr(f"{which}_{kind}"):
            return np.array(node.attr(f"{which}_{kind}"), np_type)
    return node.attr(f"{which}_tensor").reshape(-1)


# trees
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)


class _Forest:
    """Arrays of all nodes, leaves behind the inner ones: a leaf's children are itself."""

    def __init__(self, node):
        def array(name, default=None):
            given = node.attr(name, default)
            return None if given is None else np.asarray(given)
        self.splits = array("nodes_splits")
        self.modes = array("nodes_modes").astype(np.int64)
        self.features = array("nodes_featureids").astype(np.int64)
        inner = len(self.modes)
        true, false = array("nodes_truenodeids"), array("nodes_falsenodeids")
        true = true + inner * (array("nodes_trueleafs") != 0)
        false = false + inner * (array("nodes_falseleafs") != 0)
        self.targets = array("leaf_targetids").astype(np.int64)
        self.weights = array("leaf_weights")
        leaves = len(self.weights)
        itself = np.arange(inner, inner + leaves)
        self.true = np.concatenate([true, itself]).astype(np.int64)
        self.false = np.concatenate([false, itself]).astype(np.int64)
        self.roots = array("tree_roots").astype(np.int64)
        missing = array("nodes_missing_value_tracks_true", np.zeros(inner, np.int64))
        self.missing = missing.astype(bool) if len(missing) else np.zeros(inner, bool)
        self.members = array("membership_values")
        self.inner, self.leaves = inner, leaves
        self._check(node)
        self.depth = self._depth(node)

    def _check(self, node):
        inner, total = self.inner, self.inner + self.leaves
        sizes_agree = all(len(a) == inner for a in (self.splits, self.features, self.missing)) \
            and len(self.true) == total == len(self.false) and len(self.targets) == self.leaves
        inside = sizes_agree and self.roots.size and all(
            ((0 <= a) & (a < total)).all() for a in (self.true, self.false, self.roots))
        if not inside or ((self.modes < 0) | (self.modes > _MEMBER)).any() \
                or (self.features < 0).any() or (self.targets < 0).any():
            raise node.error("the arrays of the trees' nodes and leaves do not fit each other")

    def _depth(self, node):
        """Steps from the roots to the deepest leaf."""
        at, depth = np.unique(self.roots), 0
        while (at < self.inner).any():
            at = np.unique(np.concatenate([self.true[at], self.false[at]]))
            depth += 1
            if depth > self.inner:
                raise node.error("the trees have a cycle")
        return depth

    def sets(self):
        """For each node, the set of values it tests membership in, padded with NaN."""
        order, found = self._member_order(), {}
        groups, current = [], []
        for value in self.members.tolist():
            if value != value:
                groups.append(current)
                current = []
            else:
                current.append(value)
        for k, node_id in enumerate(order):
            found[node_id] = groups[k] if k < len(groups) else []
        width = max((len(v) for v in found.values()), default=0)
        made = np.full((self.inner, max(width, 1)), np.nan)
        for node_id, values in found.items():
            made[node_id, :len(values)] = values
        return made

    def _member_order(self):
        """Nodes that test membership, as a walk from the roots meets them: true side first."""
        order, seen = [], set()
        for root in self.roots.tolist():
            waiting = [root]
            while waiting:
                at = waiting.pop()
                if at >= self.inner or at in seen:
                    continue
                seen.add(at)
                if self.modes[at] == _MEMBER:
                    order.append(at)
                waiting += [int(self.false[at]), int(self.true[at])]
        return order


@converter("TreeEnsemble", domain=_ML, since=5)
def tree_ensemble(node):
    forest = _Forest(node)
    x = node.x(0)
    batch = sizes(x)[0]
    at = tf.tile(tf.reshape(tf.constant(forest.roots), [1, -1]), tf.stack([batch, np.int64(1)]))
    last = tf.constant(np.int64(max(forest.inner - 1, 0)))
    sets = tf.constant(forest.sets().astype(x.dtype.as_numpy_dtype)) \
        if (forest.modes == _MEMBER).any() else None
    for _ in range(forest.depth):
        here = tf.minimum(at, last)
        go = _decisions(forest, x, here, sets)
        at = tf.where(go, tf.gather(tf.constant(forest.true), at),
                      tf.gather(tf.constant(forest.false), at))
    leaf = at - tf.constant(np.int64(forest.inner))
    return _aggregated(node, forest, tf.gather(tf.constant(forest.weights), leaf), leaf, x)


def _decisions(forest, x, here, sets):
    """Whether each sample takes the true branch at node `here` of each tree."""
    value = tf.gather_nd(x, tf.stack([
        tf.broadcast_to(tf.reshape(tf.range(sizes(x)[0]), [-1, 1]), sizes(here)),
        tf.gather(tf.constant(forest.features), here)], -1))
    split = tf.gather(tf.constant(forest.splits), here)
    mode = tf.gather(tf.constant(forest.modes), here)
    tests = {_LEQ: tf.less_equal, _LT: tf.less, _GTE: tf.greater_equal, _GT: tf.greater,
             _EQ: tf.equal, _NEQ: tf.not_equal}
    go = tf.zeros_like(value, tf.bool)
    for k in sorted(set(forest.modes.tolist())):
        if k == _MEMBER:
            hit = tf.reduce_any(tf.equal(tf.expand_dims(value, -1), tf.gather(sets, here)), -1)
        else:
            hit = tests[k](value, split)
        go = tf.where(tf.equal(mode, tf.constant(np.int64(k))), hit, go)
    if forest.missing.any():
        go = tf.logical_or(go, tf.logical_and(tf.is_nan(value), tf.gather(
            tf.constant(forest.missing), here)))
    return go


def _aggregated(node, forest, weights, leaf, x):
    """Sum, average, smallest or largest weight per target."""
    count = node.attr("n_targets", 1)
    how = node.attr("aggregate_function", 1)
    if not 0 < count < 1 << 20 or forest.targets.max(initial=0) >= count or how not in range(4):
        raise node.error(f"n_targets {count} or aggregate_function {how} is out of range")
    if node.attr("post_transform", 0):
        raise node.unsupported("post_transform")
    hit = tf.one_hot(tf.gather(tf.constant(forest.targets), leaf), count, on_value=True,
                     off_value=False, dtype=tf.bool)
    weights = tf.expand_dims(weights, -1)
    if how in (0, 1):
        made = tf.reduce_sum(tf.where_v2(hit, weights, scalar(0, weights)), 1)
        made = made / scalar(len(forest.roots), made) if how == 0 else made
    else:
        limit = np.finfo(weights.dtype.as_numpy_dtype).max
        fill = scalar(limit if how == 2 else -limit, weights)
        spread = tf.where_v2(hit, weights, fill)
        made = tf.reduce_min(spread, 1) if how == 2 else tf.reduce_max(spread, 1)
    return tf.cast(made, x.dtype)
