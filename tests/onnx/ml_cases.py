"""Cases of ai.onnx.ml: one node each, over its attributes, element types, NaN, and batches.

    {name: Case(op, attributes, inputs, outputs, opset)};  model_of(case)      # our ModelProto

record_ml.py writes onnxruntime's answers into ml_answers.npz; test_ml.py compares.
"""
import dataclasses

import numpy as np

from pyflow.interop.onnx import messages
from pyflow.interop.onnx.tensors import NUMBERS
from pyflow.framework import dtypes

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MAKE = messages.CLASSES


@dataclasses.dataclass
class Case:
    op: str
    attributes: dict
    inputs: list
    outputs: int = 1
    opset: int = 3


# ------------------------------------------------------------------------------------- as a model
def _number(array):
    return NUMBERS[dtypes.string if array.dtype.kind in "OUS" else dtypes.as_dtype(array.dtype)]


def _tensor(array):
    array = np.asarray(array)
    if array.dtype.kind in "OUS":
        return MAKE["TensorProto"](dims=list(array.shape), data_type=8, string_data=[
            s.encode() for s in array.ravel().tolist()])
    return MAKE["TensorProto"](dims=list(array.shape), data_type=_number(array),
                               raw_data=array.tobytes())


def _attribute(name, value):
    kinds = {float: (1, "f"), int: (2, "i"), str: (3, "s")}
    if isinstance(value, np.ndarray):
        return MAKE["AttributeProto"](name=name, type=4, t=_tensor(value))
    if isinstance(value, (list, tuple)):
        first = type(value[0]) if len(value) else int
        number, field = {float: (6, "floats"), int: (7, "ints"), str: (8, "strings")}[first]
        held = [v.encode() for v in value] if first is str else list(value)
        return MAKE["AttributeProto"](name=name, type=number, **{field: held})
    number, field = kinds[type(value)]
    held = value.encode() if isinstance(value, str) else value
    return MAKE["AttributeProto"](name=name, type=number, **{field: held})


def _info(name, array):
    dims = [MAKE["TensorShapeProto.Dimension"](dim_param=f"{name}{i}") if i == 0 and array.ndim > 1
            else MAKE["TensorShapeProto.Dimension"](dim_value=d) for i, d in enumerate(array.shape)]
    kind = MAKE["TypeProto.Tensor"](elem_type=_number(array), shape=MAKE["TensorShapeProto"](
        dim=dims))
    return MAKE["ValueInfoProto"](name=name, type=MAKE["TypeProto"](tensor_type=kind))


def model_of(case):
    names = [f"x{i}" for i in range(len(case.inputs))]
    node = MAKE["NodeProto"](
        input=names, output=[f"y{i}" for i in range(case.outputs)], op_type=case.op,
        domain="ai.onnx.ml", attribute=[_attribute(k, v) for k, v in case.attributes.items()])
    graph = MAKE["GraphProto"](
        node=[node], input=[_info(n, np.asarray(a)) for n, a in zip(names, case.inputs)],
        output=[MAKE["ValueInfoProto"](name=name) for name in node.output])
    return MAKE["ModelProto"](graph=graph, opset_import=[
        MAKE["OperatorSetIdProto"](domain="", version=18),
        MAKE["OperatorSetIdProto"](domain="ai.onnx.ml", version=case.opset)])


# ------------------------------------------------------------------------------------------ forests
def forest(prefix="target", trees=3, leaves=6, features=4, modes=MODES[:1], targets=(0,),
           per_leaf=1, weights="mixed", missing=False, seed=0):
    """Attributes of random trees.  targets: those of the weights, in turn; values lie on a grid of
    halves, so that samples meet them."""
    rng = np.random.default_rng(seed)
    made = {f"nodes_{n}": [] for n in ("treeids", "nodeids", "featureids", "values", "truenodeids",
                                       "falsenodeids", "modes")}
    tracks = []
    made.update({f"{prefix}_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")})
    for tree in range(trees):
        children, waiting, count = {}, [0], 1
        while len(waiting) < leaves:
            at = waiting.pop(int(rng.integers(len(waiting))))
            children[at] = count, count + 1
            waiting += [count, count + 1]
            count += 2
        for at in range(count):
            inner = at in children
            true, false = children.get(at, (0, 0))
            row = (tree, at, int(rng.integers(features)) if inner else 0,
                   float(rng.integers(-3, 4)) / 2 if inner else 0.0, true, false,
                   modes[int(rng.integers(len(modes)))] if inner else "LEAF")
            for name, value in zip(list(made)[:7], row):
                made[name].append(value)
            tracks.append(int(inner and rng.integers(2)))
            for _ in range(0 if inner else per_leaf):
                weight = float(rng.integers(1, 64)) / 64
                if weights == "mixed" and rng.integers(2):
                    weight = -weight
                if weights == "small":
                    weight /= 8
                entry = tree, at, int(targets[len(made[f"{prefix}_ids"]) % len(targets)]), weight
                for name, value in zip(("treeids", "nodeids", "ids", "weights"), entry):
                    made[f"{prefix}_{name}"].append(value)
    if missing:
        made["nodes_missing_value_tracks_true"] = tracks
    return made


def tensors(attributes):
    """Float lists as the tensors of doubles that version 3 has."""
    named = ("nodes_values", "target_weights", "class_weights", "base_values", "nodes_hitrates")
    return {(f"{k}_as_tensor" if k in named else k):
            (np.array(v, np.float64) if k in named else v) for k, v in attributes.items()}


def samples(count, features=4, dtype=np.float32, nan=False, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, (count, features)) / (1 if np.dtype(dtype).kind == "i" else 2)
    x = x.astype(dtype)
    if nan:
        x[rng.random(x.shape) < 0.25] = np.nan
    return x


def forest_5(modes, seed=0, features=4, targets=1, dtype=np.float32):
    """Attributes of TreeEnsemble, version 5: two trees; the sets of mode 6 have 1 to 3 values."""
    rng = np.random.default_rng(seed)
    inner = 10
    made = {"tree_roots": [0, 5], "nodes_featureids": rng.integers(0, features, inner).tolist(),
            "nodes_modes": np.array([modes[i % len(modes)] for i in range(inner)], np.uint8),
            "nodes_splits": (rng.integers(-3, 4, inner) / 2).astype(dtype)}
    true, false, true_leaf, false_leaf, leaf = [], [], [], [], 0
    for tree in range(2):
        for i in range(5):
            left, right = (1, 2) if i == 0 else (3, 4) if i == 1 else (None, None)
            for child, ids, is_leaf in ((left, true, true_leaf), (right, false, false_leaf)):
                is_leaf.append(int(child is None))
                ids.append(leaf if child is None else tree * 5 + child)
                leaf += child is None
    made.update(nodes_truenodeids=true, nodes_falsenodeids=false, nodes_trueleafs=true_leaf,
                nodes_falseleafs=false_leaf, leaf_targetids=[i % targets for i in range(leaf)],
                leaf_weights=(rng.integers(-32, 33, leaf) / 32).astype(dtype), n_targets=targets)
    asking = int((made["nodes_modes"] == 6).sum())
    if asking:
        sets = [np.append(rng.choice(np.arange(-3, 4), i % 3 + 1, replace=False), np.nan)
                for i in range(asking)]
        made["membership_values"] = np.concatenate(sets).astype(dtype)
    return made


def _regressors():
    for n in (0, 1, 2, 70, 300):
        yield f"batch {n}", forest(trees=70, targets=(0, 1), seed=n), samples(n), 2
    for seed, modes in enumerate([[m] for m in MODES] + [MODES, MODES[:4], MODES[2:4]]):
        for missing in (False, True):
            yield (f"modes {seed} missing {missing}", forest(modes=modes, missing=missing,
                                                              seed=seed), samples(40, nan=True), 1)
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets, base in ((1, []), (1, [0.25]), (3, []), (3, [0.25, -1.0, 2.0])):
            more = {"aggregate_function": how, **({"base_values": base} if base else {})}
            yield (f"{how} {targets} base {len(base)}", {**forest(
                targets=range(targets), trees=4), **more}, samples(20), targets)
            yield (f"{how} {targets} base {len(base)} lists", {**forest(
                targets=range(targets), per_leaf=2 if targets > 1 else 1, seed=3), **more},
                samples(5), targets)
    for transform in TRANSFORMS:
        for targets in (1, 3):
            yield (f"{transform} {targets}", {**forest(
                targets=range(targets), weights="small"), "post_transform": transform,
                "base_values": [0.125] * targets}, samples(9), targets)


def _classifiers():
    for name, targets, labels in (
            ("first of two", (0,), [4, 7]), ("second of two", (1,), [4, 7]),
            ("both of two", (0, 1), [4, 7]), ("three", (0, 1, 2), [5, 9, 2]),
            ("two of three", (0, 2), [5, 9, 2])):
        for weights in ("mixed", "small"):
            for transform in TRANSFORMS:
                if transform == "PROBIT" and (len(targets) < 3 or weights == "mixed"):
                    continue        # its second score, or a NaN, is nobody's answer
                yield (f"{name} {weights} {transform}", {**forest(
                    "class", targets=targets, weights=weights), "classlabels_int64s": labels,
                    "post_transform": transform}, samples(12))
        for base in ([0.125], [0.25, -0.5], [0.5, 0.25, -0.25]):
            if len(base) == len(labels) or len(base) == 1 and len(labels) + len(targets) == 3:
                for per_leaf in (1, 2):
                    yield (f"{name} base {len(base)} lists {per_leaf}", {**forest(
                        "class", targets=targets, per_leaf=per_leaf), "classlabels_int64s": labels,
                        "base_values": base}, samples(12))


def trees():
    made = {}
    for name, attributes, x, targets in _regressors():
        made[f"regressor {name}"] = Case("TreeEnsembleRegressor", {
            **attributes, "n_targets": targets}, [x])
    for name, attributes, x in _classifiers():
        made[f"classifier {name}"] = Case("TreeEnsembleClassifier", attributes, [x], 2)
    words = {"classlabels_strings": ["no", "yes", "maybe"]}
    made["classifier of strings"] = Case("TreeEnsembleClassifier", {
        **forest("class", targets=range(3)), **words}, [samples(20)], 2)
    made["classifier batch 0"] = Case("TreeEnsembleClassifier", {
        **forest("class", targets=range(3)), "classlabels_int64s": [0, 1, 2]}, [samples(0)], 2)
    for dtype in (np.float64, np.int64, np.int32):
        made[f"classifier {np.dtype(dtype).name}"] = Case("TreeEnsembleClassifier", {
            **forest("class", targets=range(3), seed=2), "classlabels_int64s": [0, 1, 2]},
            [samples(20, dtype=dtype)], 2)
    double = {**forest(modes=MODES[:2], missing=True), "n_targets": 1}
    made["regressor double"] = Case("TreeEnsembleRegressor", double, [
        samples(20, dtype=np.float64, nan=True)])
    made["regressor double tensors"] = Case("TreeEnsembleRegressor", tensors(double), [
        samples(20, dtype=np.float64, nan=True)])
    made["classifier double tensors"] = Case("TreeEnsembleClassifier", tensors({
        **forest("class", targets=range(3)), "classlabels_int64s": [0, 1, 2],
        "base_values": [0.5, 0.25, 0.125]}), [samples(20, dtype=np.float64)], 2)
    made["version 1"] = Case("TreeEnsembleRegressor", {**forest(), "n_targets": 1}, [samples(7)],
                             1, 1)
    made["many trees"] = Case("TreeEnsembleRegressor", {
        **forest(trees=130, leaves=9, features=40), "n_targets": 1}, [samples(31, 40)])
    for seed, modes in enumerate(([0], [1, 2], [3, 4, 5], [6], [0, 6, 4], range(7))):
        for dtype in (np.float32, np.float64):
            made[f"TreeEnsemble {seed} {np.dtype(dtype).name}"] = Case(
                "TreeEnsemble", forest_5(list(modes), seed, targets=1 + seed % 3, dtype=dtype),
                [np.floor(samples(30, dtype=dtype, nan=True))], 1, 5)  # see record_ml.py
    for how in range(4):
        made[f"TreeEnsemble aggregate {how}"] = Case("TreeEnsemble", {
            **forest_5([0], how, targets=2), "aggregate_function": how}, [samples(12)], 1, 5)
    for number in (0, 3):           # onnxruntime takes 1 for LOGISTIC, 2 for SOFTMAX; ONNX does not
        made[f"TreeEnsemble transform {number}"] = Case("TreeEnsemble", {
            **forest_5([0], number, targets=3), "post_transform": number}, [samples(12)], 1, 5)
    return made


# ---------------------------------------------------------------------------- other learners
def _halves(rng, *shape):
    return (rng.integers(-16, 17, shape) / 8).astype(np.float32).ravel().tolist()


def learners():
    made, rng = {}, np.random.default_rng(5)
    for transform in TRANSFORMS[:4]:
        for targets in (1, 3):
            made[f"LinearRegressor {transform} {targets}"] = Case("LinearRegressor", {
                "coefficients": _halves(rng, targets, 4), "targets": targets,
                "intercepts": _halves(rng, targets), "post_transform": transform}, [samples(6)], 1,
                1)
        for count, labels in ((1, [3, 5]), (2, [3, 5]), (3, [3, 5, 8])):
            made[f"LinearClassifier {transform} {count} {len(labels)}"] = Case(
                "LinearClassifier", {
                    "coefficients": _halves(rng, count, 4), "intercepts": _halves(rng, count),
                    "classlabels_ints": labels, "post_transform": transform}, [samples(9)], 2, 1)
    made["LinearRegressor without intercepts"] = Case("LinearRegressor", {
        "coefficients": _halves(rng, 4)}, [samples(3)], 1, 1)
    for dtype in (np.float64, np.int64, np.int32):
        made[f"LinearClassifier {np.dtype(dtype).name}"] = Case("LinearClassifier", {
            "coefficients": _halves(rng, 3, 4), "intercepts": _halves(rng, 3),
            "classlabels_strings": ["a", "b", "c"]}, [samples(9, dtype=dtype)], 2, 1)
    for n in (0, 1):
        made[f"LinearClassifier batch {n}"] = Case("LinearClassifier", {
            "coefficients": _halves(rng, 3, 4), "intercepts": _halves(rng, 3),
            "classlabels_ints": [1, 2, 3]}, [samples(n)], 2, 1)
    kernels = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.25, 0.5, 3.0], "RBF": [0.25, 0.0, 0.0],
               "SIGMOID": [0.125, 0.25, 0.0]}
    for kind, params in kernels.items():
        common = {"kernel_type": kind, "kernel_params": params, "support_vectors": _halves(rng, 7, 4)}
        for one_class in (0, 1):
            made[f"SVMRegressor {kind} {one_class}"] = Case("SVMRegressor", {
                **common, "coefficients": _halves(rng, 7), "n_supports": 7, "rho": [0.5],
                "one_class": one_class}, [samples(8)], 1, 1)
        for count, per_class in ((2, [3, 4]), (3, [2, 2, 3]), (4, [1, 2, 2, 2])):
            pairs = count * (count - 1) // 2
            for proba in (False, True):
                more = {"prob_a": [-v * v / 8 - 0.5 for v in _halves(rng, pairs)],
                        "prob_b": _halves(rng, pairs)} if proba else {}
                made[f"SVMClassifier {kind} {count} {proba}"] = Case("SVMClassifier", {
                    **common, **more, "coefficients": _halves(rng, count - 1, 7),
                    "vectors_per_class": per_class, "rho": _halves(rng, pairs),
                    "classlabels_ints": [9, 4, 6, 2][:count]}, [samples(11)], 2, 1)
    for transform in TRANSFORMS[:4]:
        for count in (2, 3):
            made[f"SVMClassifier {transform} {count}"] = Case("SVMClassifier", {
                "kernel_type": "RBF", "kernel_params": [0.25, 0.0, 0.0],
                "support_vectors": _halves(rng, 6, 4), "coefficients": _halves(rng, count - 1, 6),
                "vectors_per_class": [3, 3] if count == 2 else [2, 2, 2],
                "rho": _halves(rng, 3), "classlabels_strings": ["x", "y", "z"][:count],
                "post_transform": transform}, [samples(11, dtype=np.float64)], 2, 1)
    for positive in (False, True):
        for count in (2, 3):
            weights = _halves(rng, count, 4)
            made[f"SVMClassifier without vectors {positive} {count}"] = Case("SVMClassifier", {
                "coefficients": [abs(w) for w in weights] if positive else weights,
                "kernel_params": [0.0, 0.0, 0.0], "rho": [0.25],
                "classlabels_ints": [4, 8, 6][:count]}, [samples(11)], 2, 1)
    made["SVMRegressor without vectors"] = Case("SVMRegressor", {
        "coefficients": _halves(rng, 4), "kernel_params": [0.0, 0.0, 0.0], "rho": [0.25]},
        [samples(5)], 1, 1)
    return made


# -------------------------------------------------------------------------------------- features
def strings(*items):
    return np.array(items, object)


def features():
    made = {}
    types = (np.float32, np.float64, np.int64, np.int32)
    for dtype in types:
        name = np.dtype(dtype).name
        x = samples(5, dtype=dtype)
        made[f"Scaler {name}"] = Case("Scaler", {"offset": [0.5, 1.0, -2.0, 0.0],
                                                 "scale": [2.0, 0.5, 1.0, -1.0]}, [x], 1, 1)
        made[f"Scaler one {name}"] = Case("Scaler", {"offset": [0.5], "scale": [2.0]}, [x], 1, 1)
        for norm in ("MAX", "L1", "L2"):
            x0 = x.copy()
            x0[0] = 0
            made[f"Normalizer {norm} {name}"] = Case("Normalizer", {"norm": norm}, [x0], 1, 1)
        made[f"ArrayFeatureExtractor {name}"] = Case("ArrayFeatureExtractor", {}, [
            x, np.array([[2, 0, 2]])], 1, 1)
    made["ArrayFeatureExtractor of a vector"] = Case("ArrayFeatureExtractor", {}, [
        samples(5)[0], np.array([1, 3])], 1, 1)
    made["ArrayFeatureExtractor of strings"] = Case("ArrayFeatureExtractor", {}, [
        strings(["a", "b"], ["c", "d"]), np.array([1])], 1, 1)
    made["Binarizer"] = Case("Binarizer", {"threshold": 0.5}, [samples(5)], 1, 1)
    made["Binarizer as it is"] = Case("Binarizer", {}, [samples(5)], 1, 1)
    x = samples(6)
    x[:, 1] = -1
    for imputed in ([7.0], [1.0, 2.0, 3.0, 4.0]):
        made[f"Imputer {len(imputed)}"] = Case("Imputer", {
            "imputed_value_floats": imputed, "replaced_value_float": -1.0}, [x], 1, 1)
        made[f"Imputer NaN {len(imputed)}"] = Case("Imputer", {
            "imputed_value_floats": imputed, "replaced_value_float": float("nan")},
            [samples(6, nan=True)], 1, 1)
        made[f"Imputer int64 {len(imputed)}"] = Case("Imputer", {
            "imputed_value_int64s": [int(v) for v in imputed], "replaced_value_int64": -1},
            [x.astype(np.int64)], 1, 1)
    for zeros, kinds in ((1, types[:3]), (0, (np.int64,))):
        for dtype in kinds:
            held = samples(4, dtype=dtype) if zeros else np.array([[1, 3], [0, 1]])
            made[f"OneHotEncoder {zeros} {np.dtype(dtype).name}"] = Case("OneHotEncoder", {
                "cats_int64s": [0, 3, 1], "zeros": zeros}, [held], 1, 1)
    made["OneHotEncoder of strings"] = Case("OneHotEncoder", {
        "cats_strings": ["a", "b", "c"]}, [strings("b", "q", "a")], 1, 1)
    made["FeatureVectorizer"] = Case("FeatureVectorizer", {"inputdimensions": [4, 2]}, [
        samples(3), samples(3, 2, seed=2)], 1, 1)
    made["FeatureVectorizer int64"] = Case("FeatureVectorizer", {"inputdimensions": [3]}, [
        samples(2, 3, np.int64)], 1, 1)
    made["CategoryMapper to strings"] = Case("CategoryMapper", {
        "cats_int64s": [3, 1, -2], "cats_strings": ["c", "a", "z"], "default_string": "?"}, [
        np.array([[1, 2], [3, -2]])], 1, 1)
    made["CategoryMapper to numbers"] = Case("CategoryMapper", {
        "cats_int64s": [3, 1, -2], "cats_strings": ["c", "a", "z"]}, [strings("a", "q", "z")], 1, 1)
    made["LabelEncoder 1 to numbers"] = Case("LabelEncoder", {
        "classes_strings": ["a", "b", "c"]}, [strings("c", "q", "a")], 1, 1)
    made["LabelEncoder 1 to strings"] = Case("LabelEncoder", {
        "classes_strings": ["a", "b", "c"], "default_string": "none"}, [np.array([2, 5, 0, -1])],
        1, 1)
    made.update(_label_encoders())
    return made


def _label_encoders():
    made = {}
    held = {"strings": (["a", "b", "c"], strings("b", "q", "c")),
            "int64s": ([3, -1, 7], np.array([7, 0, 3])),
            "floats": ([0.5, -1.0, 2.0], np.array([2.0, np.nan, -1.0, 0.25], np.float32))}
    for key, (keys, x) in held.items():
        for value, (values, _) in held.items():
            if (key, value) in (("int64s", "int64s"), ("floats", "floats"), ("strings", "strings")) \
                    and key != "int64s":
                values = values[::-1]
            for opset in (2, 4):
                attributes = {f"keys_{key}": keys, f"values_{value}": values}
                made[f"LabelEncoder {opset} {key} {value}"] = Case("LabelEncoder", attributes, [x],
                                                                   1, opset)
    defaults = {"default_string": "none", "default_int64": 11, "default_float": 1.5}
    for value, default in zip(("strings", "int64s", "floats"), defaults):
        made[f"LabelEncoder {default}"] = Case("LabelEncoder", {
            "keys_strings": ["a", "b", "c"], f"values_{value}": held[value][0],
            default: defaults[default]}, [strings("a", "z")], 1, 2)
    made["LabelEncoder NaN"] = Case("LabelEncoder", {
        "keys_floats": [1.0, float("nan")], "values_int64s": [5, 6]}, [
        np.array([np.nan, 1, 2], np.float32)], 1, 4)
    for dtype in (np.float64, np.int64, np.float32):
        made[f"LabelEncoder tensors {np.dtype(dtype).name}"] = Case("LabelEncoder", {
            "keys_tensor": np.array([1, 2, 3], dtype), "values_tensor": np.array([7, 8, 9], dtype),
            "default_tensor": np.array([5], dtype)}, [np.array([[3, 4], [1, 1]], dtype)], 1, 4)
    made["LabelEncoder tensors of strings"] = Case("LabelEncoder", {
        "keys_tensor": strings("x", "y"), "values_tensor": np.array([7, 8], np.int64),
        "default_tensor": np.array([-3], np.int64)}, [strings("y", "w", "x")], 1, 4)
    made["LabelEncoder to tensors of strings"] = Case("LabelEncoder", {
        "keys_tensor": np.array([7, 8], np.int64), "values_tensor": strings("x", "y"),
        "default_tensor": strings("none")}, [np.array([8, 9])], 1, 4)
    return made


def cases():
    return {**trees(), **learners(), **features()}
