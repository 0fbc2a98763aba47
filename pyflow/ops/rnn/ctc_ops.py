"""Connectionist temporal classification: the loss, greedy and beam-search decoders.

Invariants
  1. Logits are [time, batch, classes]; in the ops the blank is the last class.
  2. CTCLoss gives its gradient as second output; the loss's gradient is that, times the incoming
     one.
  3. Labels and decoded sequences are sparse matrices [batch, place].

Source: Graves et al. 2006 (loss), Graves and Jaitly 2014 (prefix beam search).
Example:  `loss = tf.nn.ctc_loss(labels, logits, lengths)`.
"""
import itertools

import numpy as np

from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.shape_rules import by_pattern

FLOAT = "T: {float, double} = float"


def _logits(op):
    """(time, batch, classes) of the logits, the batch also from the sequence lengths."""
    x = op.inputs[0].shape.with_rank(3)
    lengths = op.inputs[-1].shape.with_rank(1)
    batch = x[1].merge_with(lengths[0])
    return TensorShape([x[0], batch, x[2]])


# ------------------------------------------------------------------------------------------ oracles
def _log_softmax(x):
    top = x.real.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


def _row_loss(logits, labels, merge):
    """-log of the summed probability of all paths; logits [time, classes] may be complex."""
    blank = logits.shape[1] - 1
    place = [blank] + [p for label in labels for p in (label, blank)]
    y = np.exp(_log_softmax(logits))
    reach = np.zeros(len(place), y.dtype)
    reach[:2] = y[0, place[:2]]
    for t in range(1, len(y)):
        now = np.zeros_like(reach)
        for u, label in enumerate(place):
            total = reach[u] if merge or label == blank else 0
            total = total + (reach[u - 1] if u else 0)
            if u > 1 and label != blank and not (merge and label == place[u - 2]):
                total = total + reach[u - 2]
            now[u] = total * y[t, label]
        reach = now
    return -np.log(reach[-2:].sum())


def _row_labels(values, classes, collapse):
    kept = [v for i, v in enumerate(values)
            if not (collapse and i and v == values[i - 1])]
    return [int(v) for v in itertools.takewhile(lambda v: v < classes - 1, kept)]


def _loss_and_gradient(inputs, indices, values, lengths, collapse, merge, ignore_longer):
    """The gradient by complex steps: exact, and no relation to the kernel's backward pass."""
    loss, grad = np.zeros(inputs.shape[1]), np.zeros(inputs.shape)
    step = 1e-30
    for b, n in enumerate(lengths):
        labels = _row_labels(values[indices[:, 0] == b], inputs.shape[2], collapse)
        if n == 0 or ignore_longer and len(labels) > n:
            continue
        x = inputs[:n, b].astype(np.float64)
        loss[b] = _row_loss(x, labels, merge)
        for at in np.ndindex(*x.shape):
            moved = x.astype(np.complex128)
            moved[at] += 1j * step
            grad[(at[0], b, at[1])] = _row_loss(moved, labels, merge).imag / step
    return loss.astype(inputs.dtype), grad.astype(inputs.dtype)


def _sparse(rows):
    """(indices, values, dense_shape) of lists of different lengths."""
    indices = [[b, i] for b, row in enumerate(rows) for i in range(len(row))]
    longest = max(map(len, rows), default=0)
    return (np.array(indices, np.int64).reshape(-1, 2),
            np.array([v for row in rows for v in row], np.int64),
            np.array([len(rows), longest], np.int64))


def _greedy(inputs, lengths, merge_repeated, blank_index):
    blank = blank_index % inputs.shape[2]
    rows, scores = [], np.zeros((inputs.shape[1], 1), inputs.dtype)
    for b, n in enumerate(lengths):
        best = inputs[:n, b].argmax(-1)
        kept = [k for i, k in enumerate(best) if k != blank
                and not (merge_repeated and i and k == best[i - 1])]
        rows.append(kept)
        scores[b] = -inputs[:n, b].max(-1).sum() if n else 0
    return (*_sparse(rows), scores)


def _every_labelling(inputs, lengths, top_paths, merge_repeated):
    """Exact decoding: the probability of each labelling, summed over all paths one by one."""
    rows = [[] for _ in range(top_paths)]
    scores = np.zeros((inputs.shape[1], top_paths))
    blank = inputs.shape[2] - 1
    for b, n in enumerate(lengths):
        y, found = _log_softmax(inputs[:n, b].astype(np.float64)), {}
        for way in itertools.product(range(inputs.shape[2]), repeat=int(n)):
            short = tuple(k for i, k in enumerate(way) if k != blank
                          and not (i and k == way[i - 1]))
            chance = np.exp(sum(y[t, k] for t, k in enumerate(way)))
            found[short] = found.get(short, 0) + chance
        best = sorted(found, key=lambda k: -found[k])[:top_paths]
        for i, labels in enumerate(best):
            rows[i].append([k for j, k in enumerate(labels)
                            if not (merge_repeated and j and k == labels[j - 1])])
            scores[b, i] = np.log(found[labels])
    sparse = [_sparse(r) for r in rows]
    return (*(s[0] for s in sparse), *(s[1] for s in sparse), *(s[2] for s in sparse),
            scores.astype(inputs.dtype))


# ---------------------------------------------------------------------------------------------- ops
def _labels(rows):
    """Input specs of labels given as lists."""
    indices, values, _ = _sparse(rows)
    return lit(indices), lit(values.astype(np.int32))


@op("CTCLoss", inputs="inputs: T, labels_indices: int64, labels_values: int32, "
    "sequence_length: int32", outputs="loss: T, gradient: T",
    attrs="preprocess_collapse_repeated: bool = false, ctc_merge_repeated: bool = true, "
          "ignore_longer_outputs_than_inputs: bool = false, " + FLOAT)
class CTCLoss:
    """-log P(labels | logits), [batch], and its gradient. TF: CTCLoss (Graves et al. 2006)."""
    shape = by_pattern("t b c", "n 2", "n", "b", "->", "b", "t b c")

    def gradient(op, dloss, unused):
        slope = raw_ops.PreventGradient(
            op.outputs[1], message="Currently there is no way to take the second derivative of "
            "ctc_loss: its gradient is computed together with the loss")
        return [tensors.expand_dims(dloss, -1) * slope, None, None, None]

    def reference(inputs, labels_indices, labels_values, sequence_length,
                  preprocess_collapse_repeated, ctc_merge_repeated,
                  ignore_longer_outputs_than_inputs):
        return _loss_and_gradient(inputs, labels_indices, labels_values, sequence_length,
                                  preprocess_collapse_repeated, ctc_merge_repeated,
                                  ignore_longer_outputs_than_inputs)
    samples = [S((5, 2, 4), *_labels([[0, 1], [2]]), lit([5, 4])),
               S((6, 2, 3), *_labels([[0, 0, 1], [1, 1]]), lit([6, 5])),
               S((6, 2, 3), *_labels([[0, 0, 1], [1, 1]]), lit([4, 5]),
                 preprocess_collapse_repeated=True),
               S((5, 2, 3), *_labels([[0, 0, 1], [1, 1]]), lit([4, 5]), ctc_merge_repeated=False),
               S((4, 3, 3), *_labels([[0, 1, 0, 1, 0], [1], [0, 2]]), lit([4, 0, 3]),
                 ignore_longer_outputs_than_inputs=True),
               S((1, 1, 2), *_labels([[0]]), lit([1]))]


@op("CTCGreedyDecoder", inputs="inputs: T, sequence_length: int32",
    outputs="decoded_indices: int64, decoded_values: int64, decoded_shape: int64, "
            "log_probability: T",
    attrs="merge_repeated: bool = false, blank_index: int = -1, " + FLOAT)
class CTCGreedyDecoder:
    """The labels of the likeliest path, and minus the sum of its logits. TF: CTCGreedyDecoder."""
    def shape(op):
        batch = _logits(op)[1]
        return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2]),
                TensorShape([batch, 1])]
    gradient = None

    def reference(inputs, sequence_length, merge_repeated, blank_index):
        return _greedy(inputs, sequence_length, merge_repeated, blank_index)
    samples = [S((6, 3, 3), lit([6, 4, 0])), S((8, 2, 3), lit([8, 8]), merge_repeated=True),
               S((8, 2, 3), lit([8, 7]), merge_repeated=True, blank_index=0),
               S((0, 1, 2), lit([0]))]


@op("CTCBeamSearchDecoder", inputs="inputs: T, sequence_length: int32",
    outputs="decoded_indices: top_paths * int64, decoded_values: top_paths * int64, "
            "decoded_shape: top_paths * int64, log_probability: T",
    attrs="beam_width: int >= 1, top_paths: int >= 1, merge_repeated: bool = true, " + FLOAT)
class CTCBeamSearchDecoder:
    """The `top_paths` likeliest labellings and their log probabilities, by prefix beam search.
    TF: CTCBeamSearchDecoder."""
    def shape(op):
        batch, n = _logits(op)[1], op.attr("top_paths")
        return [TensorShape([None, 2])] * n + [TensorShape([None])] * n + [TensorShape([2])] * n + [
            TensorShape([batch, n])]
    gradient = None

    def reference(inputs, sequence_length, top_paths, merge_repeated):
        return _every_labelling(inputs, sequence_length, top_paths, merge_repeated)
    samples = [S((4, 2, 3), lit([4, 3]), beam_width=100, top_paths=1),
               S((4, 2, 3), lit([4, 2]), beam_width=200, top_paths=3, merge_repeated=False),
               S((3, 1, 4), lit([3]), beam_width=300, top_paths=2)]
