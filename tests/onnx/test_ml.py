"""Every op of ai.onnx.ml gives onnxruntime's recorded answers; what is malformed is an OnnxError."""
import json
import pathlib

import numpy as np
import pytest

import ml_cases
import pyflow as tf
from ml_cases import Case, forest, forest_5, model_of, samples
from pyflow.framework.op import get_op
from pyflow.interop import onnx
from pyflow.interop.onnx.maps import Map, as_maps
from pyflow.interop.onnx.ops import maps

CASES = ml_cases.cases()


def _recorded():
    held = np.load(pathlib.Path(__file__).with_name("ml_answers.npz"))
    numbers, at, made = held["numbers"], 0, {}
    for name, arrays in json.loads(held["index"].tobytes()).items():
        made[name] = []
        for dtype, shape, texts in arrays:
            if texts is None:
                count = int(np.prod(shape))
                texts, at = numbers[at:at + count], at + count
            made[name].append(np.array(texts, dtype).reshape(shape))
    return made


ANSWERS = _recorded()


def run(case):
    prepared = onnx.prepare(model_of(case))
    try:
        return prepared.run(list(case.inputs))
    finally:
        prepared.close()


def test_every_case_has_an_answer():
    assert set(CASES) == set(ANSWERS)


@pytest.mark.parametrize("op", sorted({case.op for case in CASES.values()}))
def test_answers_are_onnxruntimes(op):
    for name, case in CASES.items():
        if case.op != op:
            continue
        for found, expected in zip(run(case), ANSWERS[name], strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, 2e-5, 2e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(found, expected, err_msg=name)


# ---------------------------------------------------------------------------------- malformed
def _changed(**changes):
    return {**forest(), "n_targets": 1, **changes}


def _with(name, index, value, source=None):
    made = dict(source or {**forest(), "n_targets": 1})
    held = made[name].copy() if isinstance(made[name], np.ndarray) else list(made[name])
    held[index] = value
    return {**made, name: held}


LAST_INNER = max(i for i, mode in enumerate(forest()["nodes_modes"]) if mode != "LEAF")
MALFORMED = {
    "a node below itself": _with("nodes_truenodeids", 0, 0),
    "a cycle": _with("nodes_truenodeids", LAST_INNER, 0),
    "no such child": _with("nodes_falsenodeids", 0, 99),
    "a negative child": _with("nodes_falsenodeids", 0, -1),
    "a huge child": _with("nodes_falsenodeids", 0, 1 << 40),
    "a node below two": {**forest(), "n_targets": 1, "nodes_truenodeids": [
        f if i == 0 else t for i, (t, f) in enumerate(zip(forest()["nodes_truenodeids"],
                                                          forest()["nodes_falsenodeids"]))]},
    "a negative feature": _with("nodes_featureids", 0, -1),
    "a feature beyond": _with("nodes_featureids", 0, 4),
    "a huge feature": _with("nodes_featureids", 0, 1 << 40),
    "a target beyond": _with("target_ids", 0, 1),
    "a negative target": _with("target_ids", 0, -1),
    "a weight of no node": _with("target_nodeids", 0, 77),
    "a weight of no tree": _with("target_treeids", 0, 77),
    "two nodes of one id": _with("nodes_nodeids", 1, 0),
    "an unknown mode": _with("nodes_modes", 0, "BRANCH_MAYBE"),
    "too few values": _changed(nodes_values=[1.0]),
    "too few modes": _changed(nodes_modes=["LEAF"]),
    "too few weights": _changed(target_weights=[1.0]),
    "no nodes": {"n_targets": 1},
    "no targets": _changed(n_targets=0),
    "too many targets": _changed(n_targets=1 << 40),
    "an unknown transform": _changed(post_transform="SIGMOID"),
    "an unknown aggregate": _changed(aggregate_function="MEDIAN"),
    "too many base values": _changed(base_values=[1.0, 2.0, 3.0]),
}
FIVE = forest_5([0])
MALFORMED_5 = {
    "a cycle": {**_with("nodes_trueleafs", 4, 0, _with("nodes_truenodeids", 4, 0, FIVE))},
    "a child beyond": _with("nodes_truenodeids", 0, 10, FIVE),
    "a leaf beyond": _with("nodes_truenodeids", 4, 12, FIVE),
    "a negative leaf": _with("nodes_falsenodeids", 4, -1, FIVE),
    "a root beyond": _with("tree_roots", 0, 100, FIVE),
    "no root": {**FIVE, "tree_roots": []},
    "an unknown mode": _with("nodes_modes", 0, 7, FIVE),
    "no sets": _with("nodes_modes", 0, 6, FIVE),
    "a target beyond": _with("leaf_targetids", 0, 1, FIVE),
    "too few splits": {**FIVE, "nodes_splits": np.zeros(3, np.float32)},
    "too few weights": {**FIVE, "leaf_weights": np.zeros(3, np.float32)},
    "an unknown transform": {**FIVE, "post_transform": 9},
    "an unknown aggregate": {**FIVE, "aggregate_function": -1},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_forest_is_an_error(name):
    with pytest.raises(onnx.OnnxError, match="op TreeEnsembleRegressor"):
        run(Case("TreeEnsembleRegressor", MALFORMED[name], [samples(3)]))


@pytest.mark.parametrize("name", MALFORMED_5)
def test_a_malformed_forest_of_version_5_is_an_error(name):
    with pytest.raises(onnx.OnnxError, match="op TreeEnsemble"):
        run(Case("TreeEnsemble", MALFORMED_5[name], [samples(3)], 1, 5))


@pytest.mark.parametrize("op, attributes, opset", [
    ("TreeEnsembleClassifier", forest("class"), 3),
    ("LinearClassifier", {"coefficients": [1.0] * 7, "intercepts": [0.0] * 3,
                          "classlabels_ints": [1, 2, 3]}, 1),
    ("LinearRegressor", {"coefficients": [1.0] * 4, "intercepts": [1.0] * 3}, 1),
    ("SVMClassifier", {"coefficients": [1.0], "vectors_per_class": [3, 3], "rho": [0.0],
                       "support_vectors": [1.0] * 24, "classlabels_ints": [1, 2]}, 1),
    ("SVMClassifier", {"coefficients": [1.0] * 6, "vectors_per_class": [7, -1], "rho": [0.0],
                       "support_vectors": [1.0] * 24, "classlabels_ints": [1, 2]}, 1),
    ("SVMRegressor", {"coefficients": [1.0], "n_supports": 6, "rho": [0.0],
                      "support_vectors": [1.0] * 24}, 1),
    ("SVMRegressor", {"coefficients": [1.0] * 6, "n_supports": 6, "rho": [],
                      "support_vectors": [1.0] * 24}, 1),
    ("Scaler", {"offset": [1.0, 2.0]}, 1), ("Normalizer", {"norm": "L3"}, 1),
    ("Imputer", {"imputed_value_floats": [1.0, 2.0]}, 1), ("OneHotEncoder", {}, 1),
    ("FeatureVectorizer", {"inputdimensions": [4, 4]}, 1), ("DictVectorizer", {}, 1),
    ("CastMap", {}, 1), ("ZipMap", {"classlabels_int64s": [1, 2]}, 1),
    ("LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0, 2.0]}, 2),
    ("LabelEncoder", {"keys_strings": ["a"], "values_floats": [1.0]}, 2)])
def test_attributes_that_do_not_fit_are_an_error(op, attributes, opset):
    with pytest.raises(onnx.OnnxError, match=f"op {op}"):
        run(Case(op, attributes, [samples(3)], 1, opset))


def test_an_unknown_category_is_an_error_without_zeros():
    case = Case("OneHotEncoder", {"cats_int64s": [1, 2], "zeros": 0}, [np.array([1, 3])], 1, 1)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(case)


# ------------------------------------------------------------------------------------ the kernel
PARTS = dict(roots=[0], nodes=[[0, 0, 0, 1, 2, 0], [1, 0, 0, 3, 4, 0]], splits=[0.0, 1.0],
             leaves=[0, 1, 2, 3], targets=[0, 0, 0], weights=[1.0, 2.0, 3.0], members=[],
             base_values=[])
BROKEN = {
    "way back": {"nodes": [[0, 0, 0, 1, 2, 0], [1, 0, 0, 0, 4, 0]]},
    "child beyond": {"nodes": [[0, 0, 0, 1, 5, 0], [1, 0, 0, 3, 4, 0]]},
    "negative child": {"nodes": [[0, 0, 0, 1, -1, 0], [1, 0, 0, 3, 4, 0]]},
    "negative feature": {"nodes": [[-2, 0, 0, 1, 2, 0], [1, 0, 0, 3, 4, 0]]},
    "feature beyond": {"nodes": [[9, 0, 0, 1, 2, 0], [1, 0, 0, 3, 4, 0]]},
    "mode": {"nodes": [[0, 7, 0, 1, 2, 0], [1, 0, 0, 3, 4, 0]]},
    "members": {"nodes": [[0, 6, 0, 1, 2, 5], [1, 0, 0, 3, 4, 0]]},
    "root beyond": {"roots": [5]}, "negative root": {"roots": [-1]},
    "leaves descend": {"leaves": [0, 2, 1, 3]}, "leaves beyond": {"leaves": [0, 1, 2, 4]},
    "target beyond": {"targets": [0, 1, 0]}, "negative target": {"targets": [0, -1, 0]},
    "base": {"base_values": [1.0, 2.0, 3.0]},
}


def _kernel(x, fed, changes):
    kinds = dict.fromkeys(("roots", "nodes", "leaves", "targets"), np.int32)
    arrays = [np.array(v, kinds.get(n, np.float32)) for n, v in {**PARTS, **changes}.items()]
    with tf.Graph().as_default(), tf.Session() as session:
        parts = [tf.placeholder(a.dtype) if fed else tf.constant(a) for a in arrays]
        scores = get_op("_TreeEnsemble")(tf.constant(x), *parts, U=tf.float32, n_targets=1)
        return session.run(scores, dict(zip(parts, arrays)) if fed else {})


@pytest.mark.parametrize("fed", [False, True])
def test_the_kernel_checks_what_it_follows(fed):
    x = np.array([[-1, 0], [-1, 2], [1, 0], [np.nan, 0]], np.float32)
    assert _kernel(x, fed, {}).ravel().tolist() == [2, 3, 1, 1]
    for name, changes in BROKEN.items():
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            pytest.fail(f"{name} gave {_kernel(x, fed, changes)}")


def test_trees_that_share_nodes_without_end_are_an_error():
    depth = 40                          # 2^40 ways down
    nodes = [[0, 0, 0, i + 1, i + 1, 0] for i in range(depth)]
    changes = dict(nodes=nodes, splits=[0.0] * depth, leaves=[0, 1], targets=[0], weights=[1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="share nodes"):
        _kernel(np.zeros((1, 2), np.float32), False, changes)
    short = {**changes, "nodes": [[0, 0, 0, i + 1, i + 1, 0] for i in range(8)], "splits": [0] * 8}
    assert _kernel(np.zeros((2, 2), np.float32), False, short).ravel().tolist() == [1, 1]


def _session(threads):
    return tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=threads,
                                            inter_op_parallelism_threads=threads))


@pytest.mark.parametrize("trees, leaves, features, missing, double", [
    (300, 40, 7, False, False), (150, 33, 40000, True, False), (1, 33000, 5, True, False),
    (90, 200, 9, True, True), (400, 12, 6, False, True)])
def test_large_forests_give_the_references_scores_for_any_threads(trees, leaves, features, missing,
                                                                  double):
    case = Case("TreeEnsembleRegressor", {**forest(
        trees=trees, leaves=leaves, features=features, missing=missing, targets=(0, 1)),
        "n_targets": 2}, [samples(1)])
    dtype = np.float64 if double else np.float32
    x = samples(157, features, dtype, nan=missing)
    x.ravel()[::3] += np.arange(x.size)[::3].astype(dtype) % 7 / 16
    case.inputs = [x]
    with tf.Graph().as_default():
        model = onnx.import_model(model_of(case))
        op = model.outputs["y0"].op.inputs[0].op
        feed, = model.inputs.values()
        found = []
        for threads in (1, 2):
            with _session(threads) as session:
                found.append([session.run(model.outputs["y0"], {feed: x[:n]}) for n in (1, 3, 157)])
    for one, two in zip(*found):
        assert one.tobytes() == two.tobytes()
    assert found[0][0].tobytes() == found[0][2][:1].tobytes()
    arrays = [None, *(t.op.attrs["value"] for t in op.inputs[1:])]
    arrays[0] = x[:20]
    expected = op.op_def.call_reference(arrays, op.attrs)
    np.testing.assert_allclose(found[0][2][:20], expected, 1e-5, 1e-4)


def test_a_forest_goes_through_a_graph_def():
    case = CASES["classifier three mixed SOFTMAX"]
    with tf.Graph().as_default() as graph:
        model = onnx.import_model(model_of(case))
        names = [t.name for t in (*model.inputs.values(), *model.outputs.values())]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph.as_graph_def(), name="")
        found = session.run(names[1:], {names[0]: case.inputs[0]})
    for one, expected in zip(found, ANSWERS["classifier three mixed SOFTMAX"]):
        np.testing.assert_allclose(one, expected, 2e-5)


# ------------------------------------------------------------------------------------------ maps
def test_scores_of_a_zip_map_become_dicts():
    case = Case("ZipMap", {"classlabels_strings": ["no", "yes"]}, [
        np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)], 1, 1)
    found, = run(case)
    assert found == as_maps(case.inputs[0], np.array([b"no", b"yes"], object)) == [{"no": 0.25, "yes": 0.75}, {"no": 1.0, "yes": 0.0}]


class _Node:
    """A node whose input is a map, as the importer will give it."""

    def __init__(self, keys, values, **attributes):
        self.map, self.attributes = Map(tf.constant(keys), tf.constant(values)), attributes

    def value(self, i):
        return self.map

    def attr(self, name, default=None):
        return self.attributes.get(name, default)


@pytest.mark.parametrize("convert, node, expected", [
    (maps.dict_vectorizer, dict(keys=[b"c", b"q", b"a"], values=np.float32([1, 2, 3]),
                                string_vocabulary=["a", "b", "c"]), [[3, 0, 1]]),
    (maps.dict_vectorizer, dict(keys=np.array([4, 9]), values=np.array([1, 2]),
                                int64_vocabulary=[9, 7, 4]), [[2, 0, 1]]),
    (maps.cast_map, dict(keys=np.array([4, 1, 2]), values=np.float32([7, 8, 9])), [[8, 9, 7]]),
    (maps.cast_map, dict(keys=np.array([4, 1, -2]), values=np.float32([7, 8, 9]), max_map=5,
                         map_form="SPARSE", cast_to="TO_INT64"), [[0, 8, 0, 0, 7]]),
    (maps.cast_map, dict(keys=np.array([2, 1]), values=np.array([b"1.5", b"2"], object)),
     [[2.0, 1.5]])])
def test_maps_become_rows(convert, node, expected):
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(convert(_Node(**node)))
    assert found.tolist() == expected
