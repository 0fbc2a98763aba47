"""What an exported model answers: tf.estimator.export's outputs, and their signatures.

Invariants
    1. An output checks its tensors when it is made, a signature its input when it is built.
    2. Of several outputs one has the name "serving_default".

Thread: the one building the graph.  Source: TF 1.15 tf.estimator.export.

    tf.estimator.export.PredictOutput({"class": classes})
"""
import logging

import pyflow as tf
from pyflow.saved_model import keys, signatures

_log = logging.getLogger("tensorflow")


class ExportOutput:
    """What an output of a served model is; its kinds stand below. TF:
    tf.estimator.export.ExportOutput."""

    def __repr__(self):
        return f"<tf.estimator.export.{type(self).__name__}>"

    def as_signature_def(self, receiver_tensors):
        """The SignatureDef from the inputs {name: tensor} to this output; subclasses give it."""
        raise TypeError(f"{type(self).__name__} has no as_signature_def: use ClassificationOutput, "
                        "RegressionOutput or PredictOutput, or define it")


class ClassificationOutput(ExportOutput):
    """Classes and their scores.

    scores: float32, of any shape; classes: strings; one may be None. ValueError for others.
    TF: tf.estimator.export.ClassificationOutput."""

    def __init__(self, scores=None, classes=None):
        if scores is not None and not (isinstance(scores, tf.Tensor) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (
                isinstance(classes, tf.Tensor) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self._scores, self._classes = scores, classes

    @property
    def scores(self):
        """The scores, or None."""
        return self._scores

    @property
    def classes(self):
        """The classes, or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors):
        """A classify signature. ValueError unless the input is one string tensor."""
        return signatures.classification_signature_def(
            _examples(receiver_tensors, "Classification"), self._classes, self._scores)


class RegressionOutput(ExportOutput):
    """One number per example.

    value: float32 tensor; ValueError for others. TF: tf.estimator.export.RegressionOutput."""

    def __init__(self, value):
        if not (isinstance(value, tf.Tensor) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self):
        """The tensor."""
        return self._value

    def as_signature_def(self, receiver_tensors):
        """A regress signature. ValueError unless the input is one string tensor."""
        return signatures.regression_signature_def(
            _examples(receiver_tensors, "Regression"), self._value)


class PredictOutput(ExportOutput):
    """Named tensors of any kind.

    outputs: {name: tensor}, or one tensor, which is named "output". ValueError for others.
    TF: tf.estimator.export.PredictOutput."""

    def __init__(self, outputs):
        outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
        for key, value in outputs.items():
            key = key[0] if isinstance(key, tuple) else key
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key}.")
            if not isinstance(value, tf.Tensor):
                raise ValueError(f"Prediction output value must be a Tensor; got {value}.")
        self._outputs = outputs

    @property
    def outputs(self):
        """{name: tensor}."""
        return self._outputs

    def as_signature_def(self, receiver_tensors):
        """A predict signature."""
        return signatures.predict_signature_def(receiver_tensors, self._outputs)


def _examples(receiver_tensors, kind):
    """The one string tensor that a classify or regress signature takes."""
    if len(receiver_tensors) != 1:
        raise ValueError(f"{kind} input must be a single string Tensor; got {receiver_tensors}")
    (examples,) = receiver_tensors.values()
    if examples.dtype != tf.string:
        raise ValueError(f"{kind} input must be a single string Tensor; got {receiver_tensors}")
    return examples


def checked_outputs(export_outputs, predictions):
    """The outputs with a default one; predictions as PredictOutput where there are none.

    TypeError for what is no dict of ExportOutputs, ValueError for several without a default."""
    default = keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if export_outputs is None:
        export_outputs = {default: PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise TypeError(f"`export_outputs` must be dict, received: {export_outputs}.")
    for value in export_outputs.values():
        if not isinstance(value, ExportOutput):
            raise TypeError("Values in `export_outputs` must be ExportOutput objects, received: "
                            f"{export_outputs}.")
    if len(export_outputs) == 1:
        ((name, only),) = export_outputs.items()
        export_outputs = {name: only, default: only}
    elif default not in export_outputs:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the "
            "default. Use `signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY` to specify a "
            f"default, received: {sorted(export_outputs)}.")
    return dict(export_outputs)


def signature_defs(receiver_tensors, export_outputs, alternatives=None):
    """{name: SignatureDef} of all outputs of which the input fits; the others are logged.

    alternatives: {name: other inputs}, whose signatures are "name:output"."""
    made, left_out = {}, {}
    every = {"": receiver_tensors, **{f"{name}:": x for name, x in (alternatives or {}).items()}}
    for prefix, inputs in every.items():
        inputs = inputs if isinstance(inputs, dict) else {"input": inputs}
        for name, output in export_outputs.items():
            default = name in (None, keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY)
            key = f"{prefix}{keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY if default else name}"
            try:
                signature = output.as_signature_def(inputs)
            except ValueError as error:
                left_out[key] = str(error)
                continue
            if signatures.is_valid_signature(signature):
                made[key] = signature
            else:
                left_out[key] = "not valid for serving"
    for key, why in left_out.items():
        _log.info("Signature %s is not exported: %s", key, why)
    if not made:
        raise ValueError(f"The model has no signature that its input fits: {left_out}")
    return made


PUBLIC = {f"estimator.export.{made.__name__}": made for made in (
    ExportOutput, ClassificationOutput, RegressionOutput, PredictOutput)}
