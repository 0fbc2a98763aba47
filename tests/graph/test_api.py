"""tf's names beside TensorFlow 1.15's (tf_api.json, recorded): the same kind of thing, the same
arguments in the same order with the same defaults; what differs on purpose is listed here and, where
a program would notice, in docs/differences.md.  And what a function of tf is called.

Run as a program it prints the names that there are, for record_api.py.
"""
import ast
import copy
import enum
import functools
import inspect
import json
import pathlib
import pickle
import types

import pytest

import pyflow as tf
from pyflow import _names

PATHS = sorted({*_names.HOMES, *_names.ELSEWHERE, *" ".join(_names.FRAMEWORK.values()).split()})

OTHER_KIND = {
    **dict.fromkeys((f"contrib.estimator.{head}_head" for head in (
        "binary_classification", "logistic_regression", "multi_class", "multi_label",
        "poisson_regression", "regression")), "the head's class itself, a function there"),
    "contrib.data.RandomDataset": "a function that makes a Dataset",
    "data.experimental.RandomDataset": "a function that makes a Dataset",
}
NOT_YET = "arguments of parts that are not here"
OTHER_ARGUMENTS = {
    "Operation": "made by the graph, from what an op block knows",
    "RaggedTensor": "caches of TensorFlow's own; made by RaggedTensor.from_*",
    "UnconnectedGradients": "names of values, no enum",
    "VariableAggregation": "names of values, no enum",
    "VariableSynchronization": "names of values, no enum",
    "contrib.distributions.Distribution": "the base class: subclasses are as TensorFlow's",
    "distributions.Distribution": "the base class: subclasses are as TensorFlow's",
    "contrib.learn.DNNLinearCombinedClassifier": "the global step is counted once",
    "contrib.learn.DNNLinearCombinedRegressor": "the global step is counted once",
    "contrib.learn.Experiment": NOT_YET,
    "contrib.learn.RunConfig": "600 seconds are written where TensorFlow has a mark for them",
    "contrib.seq2seq.AttentionWrapper": NOT_YET,
    "contrib.seq2seq.BahdanauAttention": NOT_YET,
    "contrib.seq2seq.BeamSearchDecoderState": NOT_YET,
    "contrib.seq2seq.LuongAttention": NOT_YET,
    "contrib.tfprof.model_analyzer.print_model_analysis": "None and 0 both mean no options",
    "estimator.BestExporter": "None and the pattern there both mean all event files",
    "estimator.BoostedTreesClassifier": "2 is written where TensorFlow has a mark for it",
    "estimator.BoostedTreesRegressor": "1 is written where TensorFlow has a mark for it",
    **dict.fromkeys((f"estimator.{head}Head" for head in (
        "BinaryClass", "LogisticRegression", "MultiClass", "MultiLabel", "PoissonRegression",
        "Regression")), "tf.losses.Reduction's spelling of the same reduction"),
    "estimator.experimental.KMeans": "contrib.factorization.KMeansClustering's random_seed",
    "Tensor": "made by operations, which know the shape",
    "contrib.layers.crossed_column": NOT_YET,
    "contrib.layers.input_from_feature_columns": NOT_YET,
    "contrib.layers.recompute_grad": "tf.recompute_grad: the device's memory is planned by passes",
    "contrib.layers.sparse_column_with_hash_bucket": NOT_YET,
    "contrib.seq2seq.AttentionMechanism": "the base class: subclasses are as TensorFlow's",
    "contrib.slim.utils.smart_cond": "contrib.framework.smart_cond, which takes fn1 and fn2, too",
    "data.Dataset": "the base class: datasets are made by its functions",
    "estimator.Head": "the base class: subclasses are as TensorFlow's",
    "function": "no AutoGraph: tf.cond and tf.while_loop are written by name",
    "layers.Conv2DTranspose": "1 for (1, 1)",
    "layers.Conv3DTranspose": "1 for (1, 1, 1)",
    "layers.SeparableConv2D": "1 for (1, 1)",
    "math.reduce_euclidean_norm": "keepdims=None is False, as the other reductions'",
    "profiler.profile": "None and 0 both mean the parameters",
    "ragged.constant": "row splits are int64",
    "ragged.constant_value": "row splits are int64",
}


def value_of(path):
    value = tf
    for part in path.split("."):
        value = getattr(value, part)
    return value


def kind_of(value):
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else "value"


def parameters_of(text):
    """[(name with its stars, default as text or None)] of a recorded text."""
    found = ast.parse(f"f({_quoted(text)})", mode="eval").body if text else None
    return [] if found is None else [
        (node.id, None) if isinstance(node, ast.Name) else
        (f"*{node.value.id}", None) if isinstance(node, ast.Starred) else
        (node.arg, ast.unparse(node.value)) if isinstance(node, ast.keyword) and node.arg else
        (f"**{node.value.id}", None) for node in _in_order(found)]


def _quoted(text):
    """Defaults in angle brackets as strings."""
    return text.replace("=<", "='<").replace(">,", ">',") + ("'" if text.endswith(">") else "")


def _in_order(call):
    return sorted([*call.args, *call.keywords], key=lambda n: (n.lineno, n.col_offset))


def plain(default):
    """A default as a value that compares: numbers by value, sequences as lists, the rest by name."""
    if isinstance(default, tf.DType):
        return f"tf.{default.name}"
    if isinstance(default, enum.Enum) or default is None:
        return default
    if isinstance(default, (bool, str)):
        return default
    if isinstance(default, (int, float)):
        return float(default)
    if isinstance(default, (tuple, list)):
        return [plain(each) for each in default]
    name = getattr(default, "__name__", None) or type(default).__name__
    return f"<{name.lstrip('_')}>"


def recorded(text):
    try:
        return plain(float(text) if text.endswith("inf") else ast.literal_eval(text))
    except ValueError:
        return text


NAMES_OF_OBJECTS = {"<TFRecordDatasetV1>": "<TFRecordDataset>", "<function>": "<object>",
                    "<_initializer>": "<ContribScaling>"}
ENUMS = ("<VariableSynchronization>", "<VariableAggregation>", "<UnconnectedGradients>")


def same_default(theirs, ours):
    theirs = recorded(theirs)
    if theirs in ENUMS:
        return True
    return NAMES_OF_OBJECTS.get(theirs, theirs) == plain(ours) if isinstance(theirs, str) \
        else theirs == plain(ours)


def difference(path, text):
    """How the arguments of a name differ from the recorded ones, or None."""
    try:
        ours = list(inspect.signature(value_of(path)).parameters.values())
    except (TypeError, ValueError):
        return None
    theirs = [p for p in parameters_of(text) if not p[0].startswith("**")]
    if theirs and theirs[0][0] == "self":
        theirs = theirs[1:]
    if any(name.startswith("*") for name, _ in theirs):
        return None                                     # whatever ours are
    by_position = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for at, (name, default) in enumerate(theirs):
        at_all = {p.name for p in ours}
        parameter = by_position[at] if at < len(by_position) else None
        if parameter is None or parameter.name != name:
            if name in at_all and parameter is None:
                continue                                # by name alone
            return f"argument {at} is {parameter.name if parameter else None}, there {name}"
        if default is None:
            continue                                    # required there
        if parameter.default is parameter.empty:
            return f"{name} is required"
        if not same_default(default, parameter.default):
            return f"{name}={parameter.default!r}, there {default}"
    extra = [p.name for p in ours[len(theirs):] if p.default is p.empty and p.kind in (
        p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return f"also required: {extra}" if extra else None


RECORD = json.loads((pathlib.Path(__file__).parent / "tf_api.json").read_text()) \
    if __name__ != "__main__" else {}


def test_names_are_of_their_kind():
    wrong = {path: (row[0], kind_of(value_of(path))) for path, row in RECORD.items()
             if row[0] != kind_of(value_of(path))}
    assert wrong.keys() == OTHER_KIND.keys(), wrong


def test_arguments_are_tensorflow_s():
    wrong = {}
    for path, row in RECORD.items():
        if row[0] in ("function", "class") and row[1] is not None and path not in OTHER_KIND:
            found = difference(path, row[1])
            if found:
                wrong[path] = found
    unexpected = {path: text for path, text in wrong.items() if path not in OTHER_ARGUMENTS}
    assert not unexpected, unexpected
    assert wrong.keys() == OTHER_ARGUMENTS.keys(), OTHER_ARGUMENTS.keys() - wrong.keys()


def functions():
    for path in PATHS:
        value = value_of(path)
        if kind_of(value) == "function" and not isinstance(value, functools.partial):
            yield path, value


def test_functions_are_called_what_they_are_in_tf():
    """`tf.nn.relu.__name__`: what is saved by it is found by it. Of several names, one."""
    names = {path.rpartition(".")[2] for path in PATHS} | {"MakeNdarray"}
    assert not [path for path, value in functions() if value.__name__ not in names]
    for path in ("nn.relu", "nn.relu6", "nn.elu", "sigmoid", "nn.sigmoid", "tanh", "nn.softmax",
                 "nn.selu", "exp", "identity", "nn.leaky_relu", "nn.softplus"):
        assert value_of(path).__name__ == path.rpartition(".")[2]


def test_functions_can_be_pickled_and_copied():
    for path, value in functions():
        assert pickle.loads(pickle.dumps(value)) is value, path
        assert copy.deepcopy(value) is value, path


def test_cells_layers_and_optimisers_can_be_pickled():
    for made in (tf.nn.rnn_cell.LSTMCell(3), tf.nn.rnn_cell.GRUCell(3, activation=tf.nn.relu),
                 tf.layers.Dense(3, activation=tf.nn.relu), tf.train.AdamOptimizer(),
                 tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(2)])):
        assert type(pickle.loads(pickle.dumps(made))) is type(made)


CONFIGS = {         # what TensorFlow 1.15's get_config() gives of the defaults
    "constant": {"value": 0}, "glorot_normal": {"seed": None}, "glorot_uniform": {"seed": None},
    "he_normal": {"scale": 2.0, "mode": "fan_in", "distribution": "truncated_normal", "seed": None},
    "he_uniform": {"scale": 2.0, "mode": "fan_in", "distribution": "uniform", "seed": None},
    "identity": {"gain": 1.0},
    "lecun_normal": {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal",
                     "seed": None},
    "lecun_uniform": {"scale": 1.0, "mode": "fan_in", "distribution": "uniform", "seed": None},
    "ones": {}, "orthogonal": {"gain": 1.0, "seed": None},
    "random_normal": {"mean": 0.0, "stddev": 1.0, "seed": None},
    "random_uniform": {"minval": 0, "maxval": None, "seed": None},
    "truncated_normal": {"mean": 0.0, "stddev": 1.0, "seed": None},
    "uniform_unit_scaling": {"factor": 1.0, "seed": None},
    "variance_scaling": {"scale": 1.0, "mode": "fan_in", "distribution": "truncated_normal",
                         "seed": None},
    "zeros": {},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_initializers_are_made_again_from_their_configuration(name):
    made = getattr(tf.initializers, name)()
    config = made.get_config()
    assert config == {**CONFIGS[name], "dtype": "float32"}
    again = type(made).from_config(config)
    assert type(again) is type(made) and again.get_config() == config


if __name__ == "__main__":
    print(json.dumps(PATHS))
