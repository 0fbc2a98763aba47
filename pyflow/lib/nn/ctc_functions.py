"""Connectionist temporal classification: losses, decoders, label tools."""
from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions, pad_functions, partition_functions
from pyflow.lib.control_flow import functional
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.nn import nn_functions
from pyflow.ops.base import common, tensors
from pyflow.ops.elementwise import logic_ops
from pyflow.ops.rnn.ctc_ops import CTCBeamSearchDecoder, CTCGreedyDecoder, CTCLoss


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
    x = graph.convert_to_tensor(common.one_of(inputs, logits, "inputs", "logits"),
                                name="logits")
    if not time_major:
        x = tensors.transpose(x, [1, 0, 2])
    half = x.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = tensors.cast(x, dtypes.float32) if half else x
    loss, _ = CTCLoss(wide, labels.indices, labels.values, sequence_length,
                      preprocess_collapse_repeated=preprocess_collapse_repeated,
                      ctc_merge_repeated=ctc_merge_repeated,
                      ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)
    return tensors.cast(loss, x.dtype) if half else loss


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
            blank += tensors.shape(logits)[2] if classes is None else classes
        logits = tensors.concat([logits[:, :, :blank], logits[:, :, blank + 1:],
                                 logits[:, :, blank:blank + 1]], axis=2)
        values = logic_functions.where(labels.values < blank, labels.values, labels.values - 1)
        labels = graph.SparseTensor(labels.indices, values, labels.dense_shape)
        return ctc_loss(labels, logits, tensors.cast(logit_length, dtypes.int32),
                        time_major=logits_time_major)


def _dense_labels_to_sparse(labels, lengths):
    labels = graph.convert_to_tensor(labels, name="labels")
    size = tensors.shape(labels, out_type=dtypes.int64)
    kept = nn_functions.sequence_mask(lengths, tensors.shape(labels)[1])
    indices = logic_functions.where(kept)
    values = gather_functions.gather_nd(labels, indices)
    return graph.SparseTensor(indices, tensors.cast(values, dtypes.int32), size)


def ctc_greedy_decoder(inputs, sequence_length, merge_repeated=True, blank_index=None):
    """The likeliest path's labels: ([SparseTensor [batch, place]], minus its summed logits
    [batch, 1]).

    inputs: float [time, batch, classes]; blank_index: the last class by default; merge_repeated:
    equal classes one after another count once. TF: nn.ctc_greedy_decoder.
    InvalidArgumentError for a length beyond time or a blank that is no class."""
    indices, values, shape, score = CTCGreedyDecoder(
        inputs, tensors.cast(sequence_length, dtypes.int32), merge_repeated=merge_repeated,
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
        inputs, tensors.cast(sequence_length, dtypes.int32), beam_width=beam_width,
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
        first = tensors.ones_like(labels[:, :1], dtypes.bool)
        new = tensors.concat([first, logic_functions.not_equal(labels[:, 1:], labels[:, :-1])], 1)
        within = nn_functions.sequence_mask(lengths, tensors.shape(labels)[1])
        kept = logic_ops.LogicalAnd(new, within)
        kept.set_shape([None, None])
        counts = reductions.reduce_sum(tensors.cast(kept, dtypes.int32), axis=1)
        places = nn_functions.sequence_mask(counts, reductions.reduce_max(counts))
        goes_to = logic_functions.where(places)
        size = tensors.stack([tensors.shape(labels)[0], reductions.reduce_max(counts)])
        values = logic_functions.boolean_mask(labels, kept)
        collapsed = gather_functions.scatter_nd(goes_to, values, tensors.cast(size, dtypes.int64))
        return collapsed, tensors.cast(counts, lengths.dtype)


def ctc_unique_labels(labels, name=None):
    """Each row's different labels in order, padded with 0, and the place of each label among them:
    (int64, int32), both of the shape of labels [batch, length]. TF: nn.ctc_unique_labels.
    ValueError for other ranks.
    labels: integers."""
    with graph.name_scope(name, "ctc_unique_labels", [labels]):
        labels = graph.convert_to_tensor(labels, name="labels")

        def unique(row):
            found, places = partition_functions.unique(row)
            missing = tensors.size(places) - tensors.size(found)
            padded = pad_functions.pad(found, [tensors.stack([0, missing])])
            return [tensors.cast(padded, dtypes.int64), places]
        return functional.map_fn(unique, labels, dtype=[dtypes.int64, dtypes.int32])


PUBLIC = {
    "nn.ctc_loss": ctc_loss, "nn.ctc_loss_v2": ctc_loss_v2,
    "nn.ctc_greedy_decoder": ctc_greedy_decoder,
    "nn.ctc_beam_search_decoder": ctc_beam_search_decoder,
    "nn.ctc_beam_search_decoder_v2": ctc_beam_search_decoder_v2,
    "nn.collapse_repeated": collapse_repeated, "nn.ctc_unique_labels": ctc_unique_labels,
}
