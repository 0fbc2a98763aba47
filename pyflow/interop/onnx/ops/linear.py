"""Linear models and support vector machines (domain ai.onnx.ml).

Scores, labels and the rules for two classes are onnxruntime's."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import ints, sizes
from pyflow.interop.onnx.ops.scores import (
    ML, check_features, chosen, floats, labels_of, rows, transform_of, transformed)
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


# ---------------------------------------------------------------------------------- linear models
def _product(node, count, bias):
    """x coefficients^T + bias, with coefficients for `count` results: a row of as many as the
    samples have features for each, and what is left over is not used."""
    weights = floats(node, "coefficients")
    if count < 1 or not len(weights):
        raise node.error(f"{len(weights)} coefficients cannot be shared out among {count} results")
    x, features = rows(node), node.shape(0)[-1]
    if features is None:
        each = sizes(x)[1:2]
        matrix = tf.reshape(tf.slice(tf.constant(weights), ints([0]), each * ints([count])),
                            tf.concat([ints([count]), each], 0))
    elif len(weights) < count * features:
        raise node.error(f"the samples have {features} features and there are {count} results; "
                         f"expected {count * features} coefficients, got {len(weights)}")
    else:
        matrix = tf.constant(weights[:count * features].reshape(count, features))
    made = tf.matmul(x, matrix, transpose_b=True)
    return made + tf.constant(bias) if len(bias) else made


@converter("LinearRegressor", domain=ML)
def linear_regressor(node):
    count, bias = node.attr("targets", 1), floats(node, "intercepts")
    if len(bias) not in (0, count):
        raise node.error(f"{len(bias)} intercepts are given for {count} targets")
    transform = transform_of(node)
    made = _product(node, count, bias)
    return transformed(made, transform) if count > 1 or transform == "PROBIT" else made


@converter("LinearClassifier", domain=ML)
def linear_classifier(node):
    labels, bias, transform = labels_of(node), floats(node, "intercepts"), transform_of(node)
    count = len(bias)
    if count == 0:
        raise node.error("intercepts must have a number for each class")
    if count > 1 and len(labels) < count:
        raise node.error(f"{len(labels)} classes are named for {count} intercepts")
    scores = _product(node, count, bias)
    if count > 1:
        return chosen(labels, tf.argmax(scores, -1)), transformed(scores, transform)
    if len(labels) != 2:
        raise node.error(f"{len(labels)} classes are named for one intercept, expected two")
    places = tf.cast(tf.greater(scores[:, 0], 0.0), tf.int64)
    return chosen(labels, places), _both(scores, transform, 1.0 - scores)


def _both(scores, transform, other):
    """Scores of two classes from that of the second, [samples, 1]; `other`: the first's."""
    if transform == "PROBIT":
        made = transformed(scores, transform)
        return tf.concat([made, tf.zeros_like(made)], 1)
    if transform == "LOGISTIC":
        return tf.concat([tf.sigmoid(-scores), tf.sigmoid(scores)], 1)
    return tf.concat([other, scores], 1)


# ------------------------------------------------------------------------ support vector machines
def _kernel(node, vectors, kind):
    """The kernel of each sample with each of `vectors`, [samples, vectors] in float64."""
    gamma, coef0, degree = [*node.attr("kernel_params", []), 0.0, 0.0, 0.0][:3]
    check_features(node, vectors.shape[1])
    x, vectors = tf.cast(rows(node), tf.float64), vectors.astype(np.float64)
    dot = tf.matmul(x, tf.constant(vectors), transpose_b=True)
    if kind == "RBF":
        lengths = tf.reduce_sum(x * x, 1, keepdims=True)
        apart = lengths - 2.0 * dot + tf.constant((vectors ** 2).sum(1))
        return tf.exp(-gamma * tf.maximum(apart, tf.constant(0.0, tf.float64)))
    if kind == "LINEAR":
        return dot
    inner = gamma * dot + coef0
    return tf.tanh(inner) if kind == "SIGMOID" else tf.pow(inner, degree)


def _kernel_type(node):
    kind = node.attr("kernel_type", "LINEAR")
    if kind not in _KERNELS:
        raise node.error(f"kernel_type {kind!r} is none of {', '.join(_KERNELS)}")
    return kind


def _support_vectors(node, count):
    vectors = floats(node, "support_vectors")
    if not len(vectors) or len(vectors) % count:
        raise node.error(f"support_vectors has {len(vectors)} numbers for {count} vectors")
    return vectors.reshape(count, -1)


def _rho(node, least):
    rho = floats(node, "rho")
    if len(rho) < least:
        raise node.error(f"rho has {len(rho)} numbers, expected at least {least}")
    return rho


@converter("SVMRegressor", domain=ML)
def svm_regressor(node):
    count, rho, kind = node.attr("n_supports", 0), _rho(node, 1), _kernel_type(node)
    coefficients = floats(node, "coefficients")
    if count < 0 or not len(coefficients) or count and len(coefficients) < count:
        raise node.error(f"{len(coefficients)} coefficients are given for {count} support vectors")
    if count:
        kernel = _kernel(node, _support_vectors(node, count), kind)
        weights = coefficients[:count].astype(np.float64).reshape(-1, 1)
        made = tf.cast(tf.matmul(kernel, tf.constant(weights)) + float(rho[0]), tf.float32)
    else:
        made = _product(node, 1, rho[:1])
    if node.attr("one_class", 0):
        made = tf.where(tf.greater(made, 0.0), tf.ones_like(made), -tf.ones_like(made))
    return made


@converter("SVMClassifier", domain=ML)
def svm_classifier(node):
    labels, transform = labels_of(node), transform_of(node)
    per_class = np.array(node.attr("vectors_per_class", []), np.int64)
    if (per_class < 0).any():
        raise node.error(f"vectors_per_class holds {per_class.min()}, expected no negative number")
    if per_class.sum() > 0:
        return _svc(node, labels, per_class, transform)
    scores = _product(node, len(labels), _rho(node, 1)[:1])
    places = tf.argmax(scores, -1)
    if len(labels) == 2:
        least, best = _positive_bound(node), tf.reduce_max(scores, -1)
        second = tf.greater_equal(best, 0.5) if least else tf.greater(best, 0.0)
        places = tf.where(second, tf.ones_like(places), places)
    if len(labels) > 1 or transform == "PROBIT":
        scores = transformed(scores, transform)
    return chosen(labels, places), scores


def _positive_bound(node):
    """Whether no coefficient is negative."""
    return bool((floats(node, "coefficients") >= 0).all())


def _svc(node, labels, per_class, transform):
    """One against one: a decision for each pair of classes, votes, perhaps probabilities."""
    count = len(labels)
    if len(per_class) != count:
        raise node.error(f"vectors_per_class has {len(per_class)} numbers for {count} classes")
    vectors = _support_vectors(node, int(per_class.sum()))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    rho = _rho(node, len(pairs))[:len(pairs)].astype(np.float64)
    weights = _pair_weights(node, vectors, per_class, pairs)
    kernel = _kernel(node, vectors, _kernel_type(node))
    decided = tf.matmul(kernel, tf.constant(weights)) + tf.constant(rho)
    first = tf.cast(tf.greater(decided, tf.constant(0.0, tf.float64)), tf.float64)
    of_i, of_j = np.zeros((2, len(pairs), count))
    for p, (i, j) in enumerate(pairs):
        of_i[p, i] = of_j[p, j] = 1
    votes = tf.matmul(first, tf.constant(of_i)) + tf.matmul(1.0 - first, tf.constant(of_j))
    found, scores = chosen(labels, tf.argmax(votes, -1)), tf.cast(decided, tf.float32)
    if len(floats(node, "prob_a")):
        scores = _probabilities(node, scores, pairs, count)
        return found, transformed(scores, transform)
    if count == 2:
        return found, _both(scores, transform, -scores if transform == "NONE" else 1.0 - scores)
    return found, transformed(scores, transform)


def _pair_weights(node, vectors, per_class, pairs):
    """What each support vector counts in the decision of each pair, [vectors, pairs]."""
    count, total = len(per_class), len(vectors)
    coefficients = floats(node, "coefficients")
    if len(coefficients) < (count - 1) * total or count < 2:
        raise node.error(f"{len(coefficients)} coefficients are given for {count} classes and "
                         f"{total} support vectors")
    node.bounded("the weights of pairs of classes", total, len(pairs))
    coefficients = coefficients[:(count - 1) * total].reshape(count - 1, total)
    starts = np.concatenate([[0], np.cumsum(per_class)])
    made = np.zeros((total, len(pairs)))
    for p, (i, j) in enumerate(pairs):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        made[of_i, p], made[of_j, p] = coefficients[j - 1, of_i], coefficients[i, of_j]
    return made


def _probabilities(node, scores, pairs, count):
    """Probabilities of the classes from those of pairs (Wu, Lin and Weng 2004)."""
    a, b = floats(node, "prob_a"), floats(node, "prob_b")
    if len(a) != len(b) or len(a) < len(pairs):
        raise node.error(f"prob_a has {len(a)} numbers, prob_b {len(b)}, expected {len(pairs)}")
    first, second = np.array(pairs).T

    def couple(scores):
        with np.errstate(over="ignore"):
            each = 1 / (1 + np.exp(scores * a[:len(pairs)] + b[:len(pairs)]))
        each = np.clip(each, np.float32(1e-7), 1 - np.float32(1e-7)).astype(np.float32)
        r = np.zeros((len(scores), count, count), np.float32)
        r[:, first, second], r[:, second, first] = each, 1 - each
        return coupled(r)
    return hosted(couple, [scores], [tf.float32], [(scores.shape[0].value, count)])[0]


def coupled(r):
    """Class probabilities for r[sample, i, j] = P(i | i or j), by fixed-point iteration."""
    samples, count = r.shape[:2]
    q = -r.transpose(0, 2, 1) * r
    index = np.arange(count)
    q[:, index, index] = (r ** 2).sum(1)
    p = np.full((samples, count), 1 / count, np.float32)
    going = np.ones(samples, bool)
    for _ in range(100):
        qp = (q @ p[:, :, None])[:, :, 0]
        pqp = (p * qp).sum(1)
        going &= abs(qp - pqp[:, None]).max(1, initial=0) >= 0.005 / count
        if not going.any():
            break
        kept = p.copy()
        for i in range(count):
            own = q[:, i, i]
            step = (pqp - qp[:, i]) / own
            p[:, i] += step
            pqp = (pqp + step * (step * own + 2 * qp[:, i])) / (1 + step) ** 2
            qp = (qp + step[:, None] * q[:, i]) / (1 + step)[:, None]
            p /= (1 + step)[:, None]
        p[~going] = kept[~going]
    return p.astype(np.float32)
