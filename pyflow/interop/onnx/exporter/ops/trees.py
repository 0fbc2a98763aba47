"""Ensembles of trees, whose arrays are constants: nodes are numbered tree by tree again."""

from pyflow.interop.onnx.exporter.ops.common import converts
from pyflow.ops.trees.tree_ops import MEMBER

ML = "ai.onnx.ml"
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def _single(node):
    """The samples, the model's attributes, the classes that have weights."""
    if node.dtype().name != "float32":
        raise node.unsupported("an ensemble of float64, whose numbers ONNX's op has in float32")
    return node.x(0)


def _nodes(node):
    """Attributes nodes_* and (tree, node) of each leaf; roots first, then as they are reached."""
    roots, table, splits = (node.need(i, "the trees") for i in (1, 2, 3))
    if (table[:, 1] == MEMBER).any():
        raise node.unsupported("a node that tests membership of a set")
    rows = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values",
                                  "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    inner, leaves = len(splits), {}
    for tree, root in enumerate(roots.tolist()):
        order, at = [root], 0
        while at < len(order):
            number = order[at]
            if number < inner:
                feature, mode, missing, true, false = table[number, :5].tolist()
                children = len(order), len(order) + 1
                order += [true, false]
                row = (feature, _MODES[mode], float(splits[number]), *children, missing)
            else:
                leaves.setdefault(number - inner, (tree, at))
                row = 0, "LEAF", 0.0, 0, 0, 0
            for name, value in zip(("treeids", "nodeids", "featureids", "modes", "values",
                                    "truenodeids", "falsenodeids", "missing_value_tracks_true"),
                                   (tree, at, *row)):
                rows[name].append(value)
            at += 1
    return {f"nodes_{name}": values for name, values in rows.items()}, leaves


def _weights(node, leaves, prefix):
    """Attributes prefix_*: of each leaf what it adds."""
    starts, targets, weights = (node.need(i, "the leaves") for i in (4, 5, 6))
    found = {f"{prefix}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for leaf, (tree, at) in sorted(leaves.items()):
        for k in range(int(starts[leaf]), int(starts[leaf + 1])):
            for name, value in (("treeids", tree), ("nodeids", at), ("ids", int(targets[k])),
                                ("weights", float(weights[k]))):
                found[f"{prefix}_{name}"].append(value)
    return found


def _base(node):
    base = node.need(8, "base values")
    return [float(b) for b in base] or None


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


@converts("_TreeEnsemble")
def tree_ensemble(node):
    x = _single(node)
    nodes, leaves = _nodes(node)
    made = node.emit("TreeEnsembleRegressor", x, domain=ML, n_targets=node.attr("n_targets"),
                     aggregate_function=_text(node.attr("aggregate")), base_values=_base(node),
                     post_transform=_text(node.attr("post_transform")), **nodes,
                     **_weights(node, leaves, "target"))
    return made if node.out_dtype().name == "float32" else node.cast(made, node.out_dtype())


@converts("_TreeEnsembleClassifier")
def tree_ensemble_classifier(node):
    x = _single(node)
    nodes, leaves = _nodes(node)
    classes = node.need(9, "the classes")
    return node.emit("TreeEnsembleClassifier", x, domain=ML, outputs=2, base_values=_base(node),
                     classlabels_int64s=[int(c) for c in classes],
                     post_transform=_text(node.attr("post_transform")), **nodes,
                     **_weights(node, leaves, "class"))
