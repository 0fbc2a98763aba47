"""Ensembles of decision trees: scores of samples, and their classes.

Invariants
  1. A child below the number of nodes is a node, one from there on a leaf; so is a root. No way
     leads back to a node, and no index out of its array: both are checked before a forest is used.
  2. `nodes` has a row [feature, mode, missing, true child, false child, members] per node: the true
     child follows if `x[feature] <= split` (mode 0; then <, >=, >, ==, !=, and being among
     `members` from that place up to the next NaN), or if x[feature] is NaN and `missing` is set.
  3. Leaf i gives weights[leaves[i]:leaves[i + 1]] to targets[leaves[i]:leaves[i + 1]].
  4. A sample's weights are aggregated in the order of the roots, 64 trees at a time; base values
     are added to the result.

Trees are constants of a model: they have no gradient, and neither has x. Made by the importer of
ONNX models (ai.onnx.ml).

Source: ONNX's TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier; transforms and the
rules for two classes are onnxruntime's.
Example:  `_TreeEnsemble(x, roots, nodes, splits, leaves, targets, weights, members, base,
n_targets=1)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import text

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
COLUMNS = 6
TRANSFORMS = '{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}'
INPUTS = ("x: T, roots: int32, nodes: int32, splits: T, leaves: int32, targets: int32, "
          "weights: T, members: T, base_values: T")
ATTRS = (f'T: {{float, double}}, U: {{float, double}}, n_targets: int >= 1, '
         f'post_transform: {TRANSFORMS} = "NONE"')


def _samples_of(op):
    shapes = [t.shape for t in op.inputs]
    x, nodes = shapes[0].with_rank(2), shapes[2].with_rank(2)
    for i in (1, 3, 4, 5, 6, 7, 8):
        shapes[i].with_rank(1)
    nodes.merge_with(TensorShape([shapes[3][0], COLUMNS]))
    shapes[5].merge_with(shapes[6])
    return x[0]


# ---------------------------------------------------------------------------------- in NumPy
def _reached(x, root, nodes, splits, members):
    """The leaf each sample comes to, counted from 0."""
    count, found = len(nodes), np.empty(len(x), np.int64)
    for i, row in enumerate(x):
        at = int(root)
        while at < count:
            feature, mode, missing, on_true, on_false, begin = nodes[at].tolist()
            v, s = row[feature], splits[at]
            if mode == MEMBER:
                rest = members[begin:]
                ends = np.flatnonzero(np.isnan(rest))
                go = v in rest[:ends[0] if len(ends) else None]
            else:
                go = (v <= s, v < s, v >= s, v > s, v == s, v != s)[mode]
            at = on_true if go or missing and v != v else on_false
        found[i] = at - count
    return found


def _aggregated(x, roots, nodes, splits, leaves, targets, weights, members, n_targets, how):
    """(scores, whether there are any) per sample and target, without base values."""
    if how == "AVERAGE":
        total, marked = _aggregated(x, roots, nodes, splits, leaves, targets, weights, members,
                                    n_targets, "SUM")
        return (total / len(roots) if len(roots) else total), marked
    join = {"SUM": np.add, "MIN": np.minimum, "MAX": np.maximum}[how]
    scores, marked = np.zeros((len(x), n_targets)), np.zeros((len(x), n_targets), bool)
    for root in roots:
        for i, leaf in enumerate(_reached(x, root, nodes, splits, members)):
            for j in range(leaves[leaf], leaves[leaf + 1]):
                cell = i, targets[j]
                scores[cell] = join(scores[cell], weights[j]) if marked[cell] else weights[j]
                marked[cell] = True
    return scores, marked


def _logistic(s):
    return 1 / (1 + np.exp(-s))


def probit(p):
    """Winitzki's approximation of the normal distribution's quantiles."""
    x = 2 * p - 1
    log = np.log((1 - x) * (1 + x))
    v = 2 / (3.14159 * 0.147) + 0.5 * log
    return 1.41421356 * np.where(x < 0, -1, 1) * np.sqrt(-v + np.sqrt(v * v - log / 0.147))


def transformed(scores, transform):
    """ONNX's post_transform of rows of scores."""
    if transform == "LOGISTIC":
        return _logistic(scores)
    if transform == "PROBIT":
        return probit(scores)
    if transform == "NONE" or not scores.size:
        return scores
    top = scores.max(-1, keepdims=True)
    zero = (abs(scores) <= 1e-7) & (transform == "SOFTMAX_ZERO")
    made = np.where(zero, scores * np.exp(-top), np.exp(scores - top))
    total = np.where(zero, 0, made).sum(-1, keepdims=True)
    return made / np.where(total == 0, 1, total)


def _with_base(scores, marked, base_values):
    if len(base_values) != scores.shape[1]:
        return scores
    return np.where(marked | (scores.shape[1] == 1), scores + base_values, 0)


def _two_classes(row, marked, base, labels, weights, one_target, transform):
    """(label, scores) of one sample of at most two classes."""
    count, row = len(row), row.copy()
    if count == 2 and len(base) == 2 and marked[1]:
        row[1] = base[1] + row[0]
        row[0] = -row[1]
    elif count == 2 and len(base) == 2:
        row += base
    elif len(base):
        row[0] += base[-1] if len(base) == 2 else base[0]
    single = count == 2 and len(base) < 2 and not marked[1]
    weight = row[1] if count == 2 and marked[1] else row[0] if marked[0] else 0
    positive, one_target = (weights >= 0).all(), one_target and count == 2
    label = labels[int(weight > (0.5 if positive else 0))] if one_target else int(weight > 0)
    if count == 2:
        row = np.where(marked, row, 0)
    if not single:
        return label, transformed(row, transform) if count > 1 or transform == "PROBIT" else row
    v = row[0]
    if transform == "PROBIT":
        row[0] = probit(v)
    elif (one_target or not len(base)) and transform == "LOGISTIC":
        row[:] = _logistic(-v), _logistic(v)
    elif one_target or not len(base):
        row[:] = 1 - v if one_target and positive else -v, v
    return label, row


# -------------------------------------------------------------------------------------------- ops
def _forest(**changes):
    """Inputs of a forest of two trees of five features and two targets, as literals."""
    made = dict(
        roots=[0, 3],
        nodes=[[0, 0, 0, 1, 2, 0], [1, 0, 1, 5, 6, 0], [4, 0, 0, 7, 8, 0], [3, 0, 0, 9, 4, 0],
               [2, 0, 1, 10, 11, 0]],
        splits=[0.1, -0.3, 0.7, 0.2, -0.1], leaves=range(8), targets=[0, 1, 0, 1, 0, 1, 1],
        weights=[0.5, -1.25, 0.75, 0.5, -0.25, 1.5, 2.0], members=[], base_values=[])
    made.update(changes)
    kinds = dict.fromkeys(("roots", "nodes", "leaves", "targets"), "int32")
    return [lit(list(value), kinds.get(name)) for name, value in made.items()]


HOLES = [[0.1, -0.3, 0.2, np.nan, 0.7], [np.nan] * 5, [np.inf, -np.inf, 0.0, -0.0, 1.0],
         [0.1, np.nan, np.nan, 0.2, 0.7], [0, 1, 2, 3, 4]]
ALL_MODES = [[i, mode, missing, 7 + i if i == 6 else i + 1, 8 + i, 2]
             for i, (mode, missing) in enumerate(zip((LEQ, LT, GTE, GT, EQ, NEQ, MEMBER),
                                                     (0, 1, 0, 1, 1, 0, 1)))]
ALL_MODES = [[feature % 5, mode, missing, on_true, on_false, begin]
             for feature, mode, missing, on_true, on_false, begin in ALL_MODES]
MODES = dict(roots=[0], nodes=ALL_MODES, splits=[3.0, 2.0, 0.0, 1.0, 3.0, 5.0, 0.0],
             leaves=range(9), targets=[0] * 8, weights=np.arange(1.0, 9.0),
             members=[9.0, np.nan, 1.0, 4.0, np.nan, 2.0])
TURNED = [[row[0], row[1] if row[1] < EQ else LT, *row[2:]] for row in ALL_MODES]
LISTS = dict(leaves=[0, 2, 2, 3, 4, 5, 6, 7])
WHOLE = lit(np.random.default_rng(7).integers(-1, 6, (41, 5)).tolist())
SIZES = [S((n, 5), *_forest(), n_targets=2) for n in (0, 1, 3, 4, 40, 300)]


@op("_TreeEnsemble", inputs=INPUTS, outputs="scores: U",
    attrs=ATTRS + ', aggregate: {"SUM", "AVERAGE", "MIN", "MAX"} = "SUM"')
class _TreeEnsemble:
    """Scores [samples, n_targets] of `x` [samples, features]: the weights of the leaves that each
    sample comes to, aggregated, with `base_values` (one per target, or none) added. TF: none."""
    def shape(op):
        return TensorShape([_samples_of(op), op.attr("n_targets")])
    gradient = UNREGISTERED

    def reference(x, roots, nodes, splits, leaves, targets, weights, members, base_values,
                  n_targets, aggregate, post_transform):
        scores, marked = _aggregated(x, roots, nodes, splits, leaves, targets, weights, members,
                                     n_targets, text(aggregate))
        scores, transform = _with_base(scores, marked, base_values), text(post_transform)
        if n_targets > 1 or transform == "PROBIT":
            scores = transformed(scores, transform)
        return scores
    samples = SIZES + [
        S(lit(HOLES), *_forest(), n_targets=2), S(WHOLE, *_forest(**MODES), n_targets=1),
        S(lit(HOLES), *_forest(**MODES), n_targets=1),
        S(lit(HOLES), *_forest(**{**MODES, "nodes": TURNED}), n_targets=1),
        S(WHOLE, *_forest(**{**MODES, "nodes": TURNED}), n_targets=1)] + [
        S((9, 5), *_forest(base_values=base, **LISTS), n_targets=2, aggregate=how,
          post_transform=transform)
        for how, transform, base in (("SUM", "SOFTMAX", []), ("AVERAGE", "NONE", [0.5, 0.25]),
                                     ("MIN", "LOGISTIC", []), ("MAX", "SOFTMAX_ZERO", [0.5, 1]),
                                     ("MIN", "NONE", []), ("MAX", "NONE", [1, 2]))] + [
        S((7, 5), *_forest(targets=[0] * 7, weights=[0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07],
                           base_values=[0.25]), n_targets=1, post_transform="PROBIT"),
        S((3, 5), *_forest(roots=[5, 11]), n_targets=2),
        S((3, 5), *_forest(roots=[]), n_targets=2), S((5, 5), *_forest(roots=[0, 1, 4] * 50),
                                                      n_targets=2)]


@op("_TreeEnsembleClassifier", inputs=INPUTS + ", classes: int64",
    outputs="labels: int64, scores: U", attrs=ATTRS)
class _TreeEnsembleClassifier:
    """The best of `classes` for each sample, and the scores of all. Two classes with weights for
    one alone: the second is chosen above 0, or above 0.5 where no weight is negative. TF: none."""
    def shape(op):
        samples, count = _samples_of(op), op.attr("n_targets")
        op.inputs[9].shape.merge_with(TensorShape([count]))
        return [TensorShape([samples]), TensorShape([samples, count])]
    gradient = UNREGISTERED

    def reference(x, roots, nodes, splits, leaves, targets, weights, members, base_values, classes,
                  n_targets, post_transform):
        scores, marked = _aggregated(x, roots, nodes, splits, leaves, targets, weights, members,
                                     n_targets, "SUM")
        labels, transform = np.zeros(len(x), np.int64), text(post_transform)
        one_target = len(targets) > 0 and (targets == targets[0]).all()
        if n_targets > 2:
            scores = scores + base_values if len(base_values) else scores
            marked |= len(base_values) > 0
            best = np.where(marked, scores, -np.inf).argmax(1) if len(x) else []
            return classes[best] if len(x) else labels, transformed(scores, transform)
        for i in range(len(x)):
            labels[i], scores[i] = _two_classes(scores[i], marked[i], base_values, classes, weights,
                                                one_target, transform)
        return labels, scores
    samples = [
        S((n, 5), *_forest(targets=[target] * 7, weights=weights, base_values=base),
          lit([3, 8], "int64"), n_targets=2, post_transform=transform)
        for n, target, weights, base, transform in (
            (9, 0, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [], "NONE"),
            (9, 1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [], "LOGISTIC"),
            (33, 0, [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7], [0.1], "LOGISTIC"),
            (1, 0, [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7], [], "SOFTMAX"),
            (9, 1, [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7], [0.1, 0.2], "NONE"),
            (9, 0, [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7], [0.1, 0.2], "SOFTMAX"))] + [
        S((20, 5), *_forest(targets=[0, 2, 1, 2, 0, 1, 2], base_values=base, **LISTS),
          lit([5, 6, 4], "int64"), n_targets=3, post_transform=transform)
        for transform, base in (("NONE", []), ("SOFTMAX", [0.1, 0.2, 0.3]),
                                ("SOFTMAX_ZERO", []), ("LOGISTIC", []))] + [
        S((0, 5), *_forest(), lit([0, 1], "int64"), n_targets=2),
        S((6, 5), *_forest(targets=[0] * 7), lit([4], "int64"), n_targets=1)]
