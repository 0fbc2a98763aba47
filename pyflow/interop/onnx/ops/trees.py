"""Ensembles of decision trees (domain ai.onnx.ml): regressors, classifiers, TreeEnsemble.

The attributes of a model become the constant inputs of the op _TreeEnsemble, which
pyflow/ops/trees/tree_ops.py describes. Everything in them is checked here, so that an error names
the node; the kernel checks again what it will follow.

Invariant: in a `Forest`, a child below the number of inner nodes is an inner node, other ones are
leaves, and no node is below itself.
"""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.registry import converter
from pyflow.ops.trees.tree_ops import COLUMNS, MEMBER

_ML = "ai.onnx.ml"
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
          "BRANCH_MEMBER")
_HOWS = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MAX_TARGETS = 1 << 20
_MAX_ID = 1 << 31


class Forest:
    """The arrays of _TreeEnsemble, as NumPy's."""

    def __init__(self, node, roots, columns, splits, leaf_starts, targets, weights, members):
        """columns: feature, mode, missing, true child, false child, first member, of each node."""
        self.node = node
        self.roots, self.splits, self.leaf_starts = roots, splits, leaf_starts
        self.targets, self.weights, self.members = targets, weights, members
        self.columns = columns
        self._check()

    def _check(self):
        inner, leaves = len(self.splits), len(self.leaf_starts) - 1
        feature, mode, _, true, false, _ = self.columns
        self._inside("feature ids", feature, _MAX_ID - 1)
        self._inside("modes", mode, len(_MODES))
        for what, children in (("true children", true), ("false children", false),
                               ("roots", self.roots)):
            self._inside(what, children, inner + leaves)
        if not len(self.roots):
            raise self.node.error("the ensemble has no tree")
        if not _ends(true, false, inner):
            raise self.node.error("the trees have a cycle: a node is below itself")
        below = np.concatenate([true, false, self.roots])
        if np.bincount(below[below < inner], minlength=1).max() > 1:
            raise self.node.error("a node of the trees is below two nodes; expected trees")

    def _inside(self, what, values, limit):
        if len(values) and not (0 <= values.min() and values.max() < limit):
            raise self.node.error(f"{what} lie in [{values.min()}, {values.max()}], expected "
                                  f"numbers in [0, {limit})")

    def inputs(self, x, base_values, count):
        """Inputs of the op for samples `x`, `count` targets."""
        self._inside("target ids", self.targets, count)
        ints = (np.ascontiguousarray(a, np.int32) for a in (
            self.roots, np.stack(self.columns, 1).reshape(-1, COLUMNS)))
        roots, nodes = ints
        dtype = x.dtype.as_numpy_dtype
        arrays = [roots, nodes, self.splits.astype(dtype), self.leaf_starts.astype(np.int32),
                  self.targets.astype(np.int32), self.weights.astype(dtype),
                  self.members.astype(dtype), np.asarray(base_values).astype(dtype)]
        return [x, *map(tf.constant, arrays)]


def _ends(true, false, inner):
    """Whether every way down ends at a leaf."""
    places = np.arange(inner)
    if (true > places).all() and (false > places).all():
        return True
    children = np.concatenate([true, false])
    parents = np.concatenate([places, places])[children < inner]
    children = children[children < inner]
    order = np.argsort(children, kind="stable")
    parents, starts = parents[order], np.searchsorted(children[order], np.arange(inner + 1))
    left = np.bincount(parents, minlength=inner)
    ready, done = np.flatnonzero(left == 0), 0
    while len(ready):
        done += len(ready)
        counts = starts[ready + 1] - starts[ready]
        first = np.repeat(starts[ready] - np.cumsum(counts) + counts, counts)
        above = parents[first + np.arange(counts.sum())]
        np.subtract.at(left, above, 1)
        ready = np.unique(above[left[above] == 0])
    return done == inner


# ------------------------------------------------------------------- attributes of two generations
def _numbers(node, name, dtype=np.int64):
    """An attribute's numbers, of the list or of the tensor `name`_as_tensor; [] if absent."""
    given = node.attr(f"{name}_as_tensor", None)
    if given is None:
        given = node.attr(name, [])
    return np.asarray(given, dtype).reshape(-1)


def _equal_lengths(node, **arrays):
    if len({len(a) for a in arrays.values()}) > 1:
        raise node.error("the attributes " + ", ".join(
            f"{name} ({len(a)})" for name, a in arrays.items()) + " must have equal lengths")


def _places(node, trees, nodes, what, known=None):
    """Keys of (tree, node) pairs; with `known`, (sorted keys, their order): places there."""
    for ids in (trees, nodes):
        if len(ids) and not (0 <= ids.min() and ids.max() < _MAX_ID):
            raise node.error(f"{what}: ids lie in [{ids.min()}, {ids.max()}], expected numbers in "
                             f"[0, 2^31)")
    keys = trees << 32 | nodes
    if known is None:
        return keys
    sorted_keys, order = known
    at = np.searchsorted(sorted_keys, keys)
    at = np.minimum(at, max(len(sorted_keys) - 1, 0))
    if len(keys) and (not len(sorted_keys) or (sorted_keys[at] != keys).any()):
        wrong = int(np.flatnonzero(sorted_keys[at] != keys)[0]) if len(sorted_keys) else 0
        raise node.error(f"{what}: tree {trees[wrong]} has no node {nodes[wrong]}")
    return order[at]


def _listed_forest(node, prefix):
    """The Forest of TreeEnsembleRegressor (prefix target) and TreeEnsembleClassifier (class)."""
    trees, ids = _numbers(node, "nodes_treeids"), _numbers(node, "nodes_nodeids")
    features, values = _numbers(node, "nodes_featureids"), _numbers(node, "nodes_values", float)
    true, false = _numbers(node, "nodes_truenodeids"), _numbers(node, "nodes_falsenodeids")
    modes = np.array(node.attr("nodes_modes", []), object)
    _equal_lengths(node, nodes_treeids=trees, nodes_nodeids=ids, nodes_featureids=features,
                   nodes_values=values, nodes_truenodeids=true, nodes_falsenodeids=false,
                   nodes_modes=modes)
    missing = _numbers(node, "nodes_missing_value_tracks_true")[:len(ids)]
    missing = np.concatenate([missing, np.zeros(len(ids) - len(missing), np.int64)])
    mode = _mode_numbers(node, modes)
    is_leaf = mode == len(_MODES)
    keys = _places(node, trees, ids, "nodes_nodeids")
    order = np.argsort(keys, kind="stable")
    if len(keys) > 1 and (np.diff(keys[order]) == 0).any():
        raise node.error("nodes_nodeids: a tree has two nodes of one id")
    known = keys[order], order
    inner = ~is_leaf
    place = np.where(inner, np.cumsum(inner) - 1, inner.sum() + np.cumsum(is_leaf) - 1)
    children = [place[_places(node, trees[inner], ids_[inner], what, known)] for ids_, what in (
        (true, "nodes_truenodeids"), (false, "nodes_falsenodeids"))]
    starts, targets, weights = _leaf_weights(node, prefix, known, place, int(inner.sum()),
                                             int(is_leaf.sum()))
    roots = place[np.flatnonzero(np.diff(trees, prepend=-1))]
    columns = [features[inner], mode[inner], missing[inner], *children,
               np.zeros(int(inner.sum()), np.int64)]
    return Forest(node, roots, columns, values[inner], starts, targets, weights, np.zeros(0))


def _mode_numbers(node, modes):
    numbers = {name: i for i, name in enumerate(_MODES[:MEMBER])}
    numbers["LEAF"] = len(_MODES)
    unknown = sorted({str(m) for m in modes} - set(numbers))
    if unknown:
        raise node.error(f"nodes_modes has {unknown[0]!r}, expected one of {', '.join(numbers)}")
    return np.array([numbers[m] for m in modes], np.int64)


def _leaf_weights(node, prefix, known, place, inner, leaves):
    """(where each leaf's weights start, their targets, the weights)."""
    trees, ids = _numbers(node, f"{prefix}_treeids"), _numbers(node, f"{prefix}_nodeids")
    targets, weights = _numbers(node, f"{prefix}_ids"), _numbers(node, f"{prefix}_weights", float)
    _equal_lengths(node, **{f"{prefix}_treeids": trees, f"{prefix}_nodeids": ids,
                            f"{prefix}_ids": targets, f"{prefix}_weights": weights})
    at = place[_places(node, trees, ids, f"{prefix}_nodeids", known)] - inner
    targets, weights, at = (a[at >= 0] for a in (targets, weights, at))  # inner nodes' are not read
    order = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[order], np.arange(leaves + 1))
    return starts, targets[order], weights[order]


def _samples(node, double_too=True):
    """Input 0 as [samples, features] of float or double."""
    x = node.x(0)
    rank = node.expect_rank(0, 1, 2)
    if x.dtype.base_dtype not in ((tf.float32, tf.float64) if double_too else (tf.float32,)):
        x = tf.cast(x, tf.float32)
    return tf.reshape(x, [1, -1]) if rank == 1 else x


def _check_features(node, forest):
    have = node.shape(0)[-1]
    wanted = int(forest.columns[0].max(initial=-1)) + 1
    if have is not None and have < wanted:
        raise node.error(f"the trees look at feature {wanted - 1}, the samples have {have}")


def _name_of(node, attribute, names, default):
    """The attribute's name among `names`; by number in TreeEnsemble."""
    given = node.attr(attribute, default)
    if isinstance(given, int) and 0 <= given < len(names):
        return names[given]
    if given not in names:
        raise node.error(f"{attribute} {given!r} is none of {', '.join(names)}")
    return given


def _scores(node, forest, count, dtype=None):
    """The op _TreeEnsemble for this node."""
    if not 0 < count <= _MAX_TARGETS:
        raise node.error(f"n_targets is {count}, expected 1 to {_MAX_TARGETS}")
    _check_features(node, forest)
    x, base = _samples(node), _base_values(node, count)
    return get_op("_TreeEnsemble")(
        *forest.inputs(x, base, count), U=dtype or x.dtype.base_dtype, n_targets=count,
        aggregate=_name_of(node, "aggregate_function", _HOWS, "SUM"),
        post_transform=_name_of(node, "post_transform", _TRANSFORMS, "NONE"))


def _base_values(node, count):
    base = _numbers(node, "base_values", float)
    if len(base) > max(count, 2):
        raise node.error(f"base_values has {len(base)} values for {count} targets or classes")
    return base


# ------------------------------------------------------------------------------------- converters
@converter("TreeEnsembleRegressor", domain=_ML)
def tree_ensemble_regressor(node):
    return _scores(node, _listed_forest(node, "target"), node.attr("n_targets", 1), tf.float32)


@converter("TreeEnsembleClassifier", domain=_ML)
def tree_ensemble_classifier(node):
    words = node.attr("classlabels_strings", [])
    labels = np.array(node.attr("classlabels_int64s", []), np.int64)
    count = len(words) or len(labels)
    if not 0 < count <= _MAX_TARGETS:
        raise node.error("classlabels_strings or classlabels_int64s must name the classes")
    forest = _listed_forest(node, "class")
    _check_features(node, forest)
    x = _samples(node)
    classes = np.arange(count) if words else labels
    inputs = [*forest.inputs(x, _base_values(node, count), count), tf.constant(classes)]
    found, scores = get_op("_TreeEnsembleClassifier")(
        *inputs, U=tf.float32, n_targets=count,
        post_transform=_name_of(node, "post_transform", _TRANSFORMS, "NONE"))
    if not words:
        return found, scores
    if count == 1:
        words = [*words, *words]        # labels 0 and 1 are made of one class
    encoded = np.array([w.encode() if isinstance(w, str) else bytes(w) for w in words], object)
    return tf.gather(tf.constant(encoded), found), scores


@converter("TreeEnsemble", domain=_ML, since=5)
def tree_ensemble(node):
    forest = _tensor_forest(node)
    x = node.x(0)
    half = x.dtype.base_dtype in (tf.float16, tf.bfloat16)
    made = _scores(node, forest, node.attr("n_targets", 1))
    return tf.cast(made, x.dtype) if half else made


def _tensor_forest(node):
    """The Forest of a TreeEnsemble: leaves are numbered by themselves, each has one weight."""
    splits = np.asarray(node.attr("nodes_splits")).reshape(-1)
    weights = np.asarray(node.attr("leaf_weights")).reshape(-1)
    inner, leaves = len(splits), len(weights)
    mode = _numbers(node, "nodes_modes")
    features, targets = _numbers(node, "nodes_featureids"), _numbers(node, "leaf_targetids")
    missing = _numbers(node, "nodes_missing_value_tracks_true")
    missing = missing if len(missing) else np.zeros(inner, np.int64)
    children = []
    for side in ("true", "false"):
        ids, is_leaf = _numbers(node, f"nodes_{side}nodeids"), _numbers(node, f"nodes_{side}leafs")
        _equal_lengths(node, **{f"nodes_{side}nodeids": ids, f"nodes_{side}leafs": is_leaf})
        limit = np.where(is_leaf != 0, leaves, inner)
        if ((ids < 0) | (ids >= limit)).any():
            raise node.error(f"nodes_{side}nodeids lie outside {inner} nodes and {leaves} leaves")
        children.append(ids + np.where(is_leaf != 0, inner, 0))
    _equal_lengths(node, nodes_splits=splits, nodes_modes=mode, nodes_featureids=features,
                   nodes_truenodeids=children[0], nodes_falsenodeids=children[1],
                   nodes_missing_value_tracks_true=missing)
    _equal_lengths(node, leaf_weights=weights, leaf_targetids=targets)
    members, begin = _members(node, mode)
    return Forest(node, _numbers(node, "tree_roots"), [features, mode, missing, *children, begin],
                  splits, np.arange(leaves + 1), targets, weights, members)


def _members(node, modes):
    """(values of all sets, NaN behind each; where each node's set begins)."""
    given = node.attr("membership_values", None)
    members = np.asarray([] if given is None else given, float).reshape(-1)
    asking = np.flatnonzero(modes == MEMBER)
    if len(members) and members[-1] == members[-1]:
        members = np.append(members, np.nan)
    starts = np.concatenate([[0], np.flatnonzero(np.isnan(members)) + 1]).astype(np.int64)
    if len(starts) - 1 < len(asking):
        raise node.error(f"membership_values has {len(starts) - 1} sets, {len(asking)} nodes test "
                         f"membership")
    begin = np.zeros(len(modes), np.int64)
    begin[asking] = starts[:len(asking)]
    return members, begin
