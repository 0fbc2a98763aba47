"""What a served model is fed: tf.estimator.export's receivers and the functions that make them.

Thread: the one building the graph.  Source: TF 1.15 tf.estimator.export.

    receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"x": tf.placeholder(tf.float32, [None, 4])})
    estimator.export_saved_model("exported", receiver_fn)
"""
import collections

import pyflow as tf

_FIELDS = "features receiver_tensors receiver_tensors_alternatives"


class ServingInputReceiver(collections.namedtuple("ServingInputReceiver", _FIELDS)):
    """What is fed, and the features made of it.

    features: {name: tensor} for model_fn; a single one is named "feature". receiver_tensors: {name:
    placeholder}; a single one is named "input". receiver_tensors_alternatives: {name: such a dict},
    of which each gives signatures of its own. ValueError for others.
    TF: tf.estimator.export.ServingInputReceiver."""

    __slots__ = ()

    def __new__(cls, features, receiver_tensors, receiver_tensors_alternatives=None):
        return super().__new__(
            cls, _named(features, "feature", allow_sparse=True),
            _named(receiver_tensors, "receiver_tensor", "input"),
            _alternatives(receiver_tensors_alternatives))


class TensorServingInputReceiver(
        collections.namedtuple("TensorServingInputReceiver", _FIELDS)):
    """A ServingInputReceiver for a model_fn that takes one tensor, not a dict.
    TF: tf.estimator.export.TensorServingInputReceiver."""

    __slots__ = ()

    def __new__(cls, features, receiver_tensors, receiver_tensors_alternatives=None):
        if features is None:
            raise ValueError("features must be defined.")
        _check(features, "feature", None, True)
        return super().__new__(
            cls, features, _named(receiver_tensors, "receiver_tensor", "input"),
            _alternatives(receiver_tensors_alternatives))


def _named(tensors, kind, single=None, allow_sparse=False):
    if tensors is None:
        raise ValueError(f"{kind}s must be defined.")
    if not isinstance(tensors, dict):
        tensors = {single or kind: tensors}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise ValueError(f"{kind} keys must be strings: {name}.")
        _check(tensor, kind, name, allow_sparse)
    return tensors


def _check(tensor, kind, name, allow_sparse):
    if not isinstance(tensor, (tf.Tensor, tf.SparseTensor) if allow_sparse else tf.Tensor):
        kinds = "Tensor or SparseTensor" if allow_sparse else "Tensor"
        raise ValueError(f"{kind}{f' {name}' if name else ''} must be a {kinds}, got {tensor!r}.")


def _alternatives(given):
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ValueError(f"receiver_tensors_alternatives must be a dict: {given}.")
    return {name: _named(tensors, "receiver_tensors_alternative", "input")
            for name, tensors in given.items()}


def build_raw_serving_input_receiver_fn(features, default_batch_size=None):
    """A function that makes a placeholder for each feature.

    features: {name: tensor or array}, of which type and shape count; dimension 0 becomes
    default_batch_size. TF: tf.estimator.export.build_raw_serving_input_receiver_fn."""
    described = {}
    for name, tensor in features.items():
        if not isinstance(name, str):
            raise ValueError(f"feature keys must be strings: {name}.")
        value = tensor if isinstance(tensor, tf.Tensor) else tf.make_tensor_proto(tensor)
        shape = value.shape if isinstance(value, tf.Tensor) else tf.TensorShape(
            [dim.size for dim in value.tensor_shape.dim])
        if shape.ndims is not None:
            shape = [default_batch_size, *shape.as_list()[1:]]
        described[name] = tf.as_dtype(value.dtype), shape

    def serving_input_receiver_fn():
        made = {name: tf.placeholder(dtype, shape, name=name)
                for name, (dtype, shape) in described.items()}
        return ServingInputReceiver(dict(made), made)
    return serving_input_receiver_fn


def build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size=None):
    """A function that makes a placeholder of serialised tf.train.Examples [default_batch_size],
    named "examples", and parses them by feature_spec, {name: tf.FixedLenFeature, ...}.
    TF: tf.estimator.export.build_parsing_serving_input_receiver_fn."""
    def serving_input_receiver_fn():
        examples = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        return ServingInputReceiver(tf.parse_example(examples, feature_spec),
                                    {"examples": examples})
    return serving_input_receiver_fn


PUBLIC = {f"estimator.export.{made.__name__}": made for made in (
    ServingInputReceiver, TensorServingInputReceiver, build_raw_serving_input_receiver_fn,
    build_parsing_serving_input_receiver_fn)}
