"""How a layer of a boosted tree is grown from sums of gradients and Hessians, in NumPy.

    stats [nodes of the layer, features, buckets, gradients and Hessians of each logit]
        -> the best split of each node -> two children, a Newton step away from their node

Invariants
    1. A tree is a heap: node n has children 2n + 1 and 2n + 2; `feature` -1 marks leaves.
    2. Left is bucket <= the split's; a child's value is its node's and learning_rate times
       -gradient / (Hessian + l2), the gradient shrunk by l1.
    3. Both sides of a split have min_node_weight of Hessian, and some.

Threads: pure functions.
Source: Chen and Guestrin, "XGBoost" (2016), sections 2.2 and 2.3; TF 1.15 BoostedTrees ops.
"""
import typing

import numpy as np

PRUNING = ("none", "pre", "post")


class Rules(typing.NamedTuple):
    """What trees are grown by; as tf.estimator.BoostedTreesClassifier's arguments."""

    n_trees: int
    max_depth: int
    learning_rate: float
    l1: float
    l2: float
    tree_complexity: float
    min_node_weight: float
    pruning: str


def step_and_score(sums, rules):
    """(-g / (h + l2), sum of g^2 / (h + l2)) of sums [..., 2K] of g and h."""
    g, h = np.split(sums, 2, axis=-1)
    g = np.sign(g) * np.maximum(np.abs(g) - rules.l1, 0.0)
    weight = h + rules.l2
    safe = np.where(weight > 1e-12, weight, 1.0)
    step = np.where(weight > 1e-12, -g / safe, 0.0)
    return step, np.sum(np.where(weight > 1e-12, g * g / safe, 0.0), axis=-1)


def best_splits(stats, rules):
    """For each node of a layer (feature, bucket, gain, left sums, right sums); feature -1 where no
    split has weight on both sides."""
    stats = np.asarray(stats, np.float64)
    nodes, features, buckets, size = stats.shape
    left = np.cumsum(stats, axis=2)[:, :, :-1]
    total = stats.sum(axis=2)[:, :, None]
    right = total - left
    gain = sum(step_and_score(side, rules)[1] for side in (left, right)) \
        - step_and_score(total, rules)[1]
    weights = [side[..., size // 2:].sum(-1) for side in (left, right)]
    able = np.all([(w >= rules.min_node_weight) & (w > 1e-10) for w in weights], axis=0)
    gain = np.where(able, gain, -np.inf).reshape(nodes, -1)
    at = np.argmax(gain, axis=1)
    best = gain[np.arange(nodes), at]
    feature, bucket = np.divmod(at, buckets - 1)
    pick = np.arange(nodes), feature, bucket
    feature = np.where(np.isfinite(best), feature, -1)
    return feature, bucket, best - rules.tree_complexity, left[pick], right[pick]


def grow_layer(rules, stats, feature, bucket, gain, value, state):
    """The trees with one layer more, and the state after it.

    feature, bucket, gain [trees, nodes], value [trees, nodes, K], state [tree, layer, ...]: arrays
    that are changed."""
    tree, layer = int(state[0]), int(state[1])
    if tree >= rules.n_trees:
        return
    first, count = 2 ** layer - 1, 2 ** layer
    found = best_splits(stats[:count], rules)
    split_any = False
    for at, (column, edge, won, left, right) in enumerate(zip(*found)):
        if column < 0 or rules.pruning == "pre" and won <= 0:
            continue
        node, split_any = first + at, True
        feature[tree, node], bucket[tree, node], gain[tree, node] = column, edge, won
        for child, sums in ((2 * node + 1, left), (2 * node + 2, right)):
            step, _ = step_and_score(sums, rules)
            value[tree, child] = value[tree, node] + rules.learning_rate * step
    state[1] += 1
    if not split_any or state[1] >= rules.max_depth:
        if rules.pruning == "post":
            prune(feature[tree], gain[tree])
        state[0], state[1] = tree + 1, 0


def prune(feature, gain):
    """Makes leaves of splits between leaves that gain nothing, from below."""
    for node in range(len(feature) // 2 - 1, -1, -1):
        leaves = feature[2 * node + 1] < 0 and feature[2 * node + 2] < 0
        if feature[node] >= 0 and leaves and gain[node] <= 0:
            feature[node] = -1


def center(rules, sums, bias):
    """A Newton step of the bias, in place; whether it was small."""
    step, _ = step_and_score(np.asarray(sums, np.float64), rules)
    bias += step
    return bool(np.all(np.abs(step) <= 0.01 * np.maximum(np.abs(bias), 0.1)))
