"""Connectionist temporal classification: the loss, greedy and beam-search decoders, label tools.

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

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.nn import nn_functions
from pyflow.ops.base.shape_rules import by_pattern
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import cast_ops, logic_ops
from pyflow.ops.move import array_ops, gather_ops, join_ops, partition_ops
from pyflow.ops.reduce import reduction_ops

FLOAT = "T: {float, double} = float"
LOSS_NAMES = ("preprocess_collapse_repeated", "ctc_merge_repeated",
              "ignore_longer_outputs_than_inputs")


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
        slope = identity_ops.PreventGradient(
            op.outputs[1], message="Currently there is no way to take the second derivative of "
            "ctc_loss: its gradient is computed together with the loss")
        return [array_ops.expand_dims(dloss, -1) * slope, None, None, None]

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


# --------------------------------------------------------------------------------- public functions
def ctc_loss(labels, inputs=None, sequence_length=None, preprocess_collapse_repeated=False,
             ctc_merge_repeated=True, ignore_longer_outputs_than_inputs=False, time_major=True,
             logits=None):
    """-log P(labels | logits), [batch].

    labels: int32 SparseTensor [batch, place]; inputs (or logits): float [time, batch, classes], or
    [batch, time, classes] without time_major; the blank is the last class. sequence_length: int32
    [batch]. TypeError if labels are not sparse; InvalidArgumentError for labels longer than their
    sequence unless ignore_longer_outputs_than_inputs. TF: nn.ctc_loss."""
    if not isinstance(labels, graph.SparseTensor):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    x = graph.convert_to_tensor(reduction_ops.one_of(inputs, logits, "inputs", "logits"),
                                name="logits")
    if not time_major:
        x = array_ops.transpose(x, [1, 0, 2])
    half = x.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = cast_ops.cast(x, dtypes.float32) if half else x
    loss, _ = CTCLoss(wide, labels.indices, labels.values, sequence_length,
                      preprocess_collapse_repeated=preprocess_collapse_repeated,
                      ctc_merge_repeated=ctc_merge_repeated,
                      ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)
    return cast_ops.cast(loss, x.dtype) if half else loss


def ctc_loss_v2(labels, logits, label_length, logit_length, logits_time_major=True, unique=None,
                blank_index=None, name=None):
    """ctc_loss with the blank at any class, and dense or sparse labels.

    labels: [batch, place] with label_length [batch], blank_index 0 by default; or a SparseTensor,
    label_length None, with blank_index given (ValueError otherwise). `unique` is not needed. As
    ctc_loss, and unlike TF, an error for labels longer than their sequence. TF: nn.ctc_loss_v2.
    Logits are floats, labels and lengths integers."""
    sparse = isinstance(labels, graph.SparseTensor)
    if sparse and blank_index is None:
        raise ValueError("blank_index must be given when using SparseTensor labels.")
    with graph.name_scope(name, "ctc_loss_dense"):
        logits = graph.convert_to_tensor(logits, name="logits")
        if not sparse:
            labels = _dense_labels_to_sparse(labels, label_length)
        blank = blank_index or 0
        if blank < 0:
            classes = logits.shape[2].value
            blank += array_ops.shape(logits)[2] if classes is None else classes
        logits = join_ops.concat([logits[:, :, :blank], logits[:, :, blank + 1:],
                                  logits[:, :, blank:blank + 1]], axis=2)
        values = logic_ops.where(labels.values < blank, labels.values, labels.values - 1)
        labels = graph.SparseTensor(labels.indices, values, labels.dense_shape)
        return ctc_loss(labels, logits, cast_ops.cast(logit_length, dtypes.int32),
                        time_major=logits_time_major)


def _dense_labels_to_sparse(labels, lengths):
    labels = graph.convert_to_tensor(labels, name="labels")
    size = array_ops.shape(labels, out_type=dtypes.int64)
    kept = nn_functions.sequence_mask(lengths, array_ops.shape(labels)[1])
    indices = logic_ops.where(kept)
    values = gather_ops.gather_nd(labels, indices)
    return graph.SparseTensor(indices, cast_ops.cast(values, dtypes.int32), size)


def ctc_greedy_decoder(inputs, sequence_length, merge_repeated=True, blank_index=None):
    """The likeliest path's labels: ([SparseTensor [batch, place]], minus its summed logits
    [batch, 1]).

    inputs: float [time, batch, classes]; blank_index: the last class by default; merge_repeated:
    equal classes one after another count once. TF: nn.ctc_greedy_decoder.
    InvalidArgumentError for a length beyond time or a blank that is no class."""
    indices, values, shape, score = CTCGreedyDecoder(
        inputs, cast_ops.cast(sequence_length, dtypes.int32), merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index)
    return [graph.SparseTensor(indices, values, shape)], score


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100, top_paths=1,
                            merge_repeated=True):
    """The `top_paths` likeliest labellings: (list of SparseTensors [batch, place], log
    probabilities [batch, top_paths]).

    inputs: float [time, batch, classes], the blank last; beam_width: prefixes kept per frame;
    merge_repeated: equal labels one after another in the result count once.
    InvalidArgumentError for top_paths > beam_width. TF: nn.ctc_beam_search_decoder."""
    indices, values, shapes, scores = CTCBeamSearchDecoder(
        inputs, cast_ops.cast(sequence_length, dtypes.int32), beam_width=beam_width,
        top_paths=top_paths, merge_repeated=merge_repeated)
    return [graph.SparseTensor(*parts) for parts in zip(indices, values, shapes)], scores


def ctc_beam_search_decoder_v2(inputs, sequence_length, beam_width=100, top_paths=1):
    """ctc_beam_search_decoder without merging. TF: nn.ctc_beam_search_decoder_v2.
    Dtypes, shapes, errors: as op CTCBeamSearchDecoder."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)


def collapse_repeated(labels, seq_length, name=None):
    """Equal labels one after another, within each row's length, become one: (labels [batch, longest
    new length] padded with 0, new lengths [batch]). TF: nn.collapse_repeated.
    Integers or strings; ValueError for other ranks."""
    with graph.name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = graph.convert_to_tensor(labels, name="labels")
        lengths = graph.convert_to_tensor(seq_length, name="seq_length")
        first = array_ops.ones_like(labels[:, :1], dtypes.bool)
        new = join_ops.concat([first, logic_ops.not_equal(labels[:, 1:], labels[:, :-1])], 1)
        kept = logic_ops.LogicalAnd(new, nn_functions.sequence_mask(lengths, array_ops.shape(labels)[1]))
        kept.set_shape([None, None])
        counts = reduction_ops.reduce_sum(cast_ops.cast(kept, dtypes.int32), axis=1)
        goes_to = logic_ops.where(nn_functions.sequence_mask(counts, reduction_ops.reduce_max(counts)))
        size = join_ops.stack([array_ops.shape(labels)[0], reduction_ops.reduce_max(counts)])
        values = logic_ops.boolean_mask(labels, kept)
        collapsed = gather_ops.scatter_nd(goes_to, values, cast_ops.cast(size, dtypes.int64))
        return collapsed, cast_ops.cast(counts, lengths.dtype)


def ctc_unique_labels(labels, name=None):
    """Each row's different labels in order, padded with 0, and the place of each label among them:
    (int64, int32), both of the shape of labels [batch, length]. TF: nn.ctc_unique_labels.
    ValueError for other ranks.
    labels: integers."""
    from pyflow.lib.control_flow import functional
    from pyflow.ops.move import pad_ops
    with graph.name_scope(name, "ctc_unique_labels", [labels]):
        labels = graph.convert_to_tensor(labels, name="labels")

        def unique(row):
            found, places = partition_ops.unique(row)
            missing = array_ops.size(places) - array_ops.size(found)
            padded = pad_ops.pad(found, [join_ops.stack([0, missing])])
            return [cast_ops.cast(padded, dtypes.int64), places]
        return functional.map_fn(unique, labels, dtype=[dtypes.int64, dtypes.int32])


PUBLIC = {
    "nn.ctc_loss": ctc_loss, "nn.ctc_loss_v2": ctc_loss_v2,
    "nn.ctc_greedy_decoder": ctc_greedy_decoder,
    "nn.ctc_beam_search_decoder": ctc_beam_search_decoder,
    "nn.ctc_beam_search_decoder_v2": ctc_beam_search_decoder_v2,
    "nn.collapse_repeated": collapse_repeated, "nn.ctc_unique_labels": ctc_unique_labels,
}
