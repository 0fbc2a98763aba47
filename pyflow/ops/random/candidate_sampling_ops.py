"""Sampled classes for training with many classes, and the losses that use them.

Invariants
  1. A sampler gives (sampled classes int64 [num_sampled], expected counts of the true classes
     float32 [batch, num_true], expected counts of the sampled ones float32 [num_sampled]).
  2. With equal seeds the classes are TF's own.
  3. Samplers have no gradient; the losses' gradients reach weights, biases and inputs.

Source: Jean et al. 2014 (sampled softmax), Gutmann and Hyvarinen 2010 (NCE).
Example:  `loss = tf.nn.sampled_softmax_loss(w, b, labels, hidden, num_sampled=64, num_classes=n)`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.nn import nn_functions
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import cast_ops, unary_ops
from pyflow.ops.gemm import matmul_ops
from pyflow.ops.move import array_ops, gather_ops, join_ops, slicing_ops
from pyflow.ops.norm import softmax_ops

SEEDS = "seed: int = 0, seed2: int = 0"
COMMON = "num_true: int >= 1, num_sampled: int >= 1, unique: bool, "
RANGE = COMMON + "range_max: int >= 1, "
OUTPUTS = "sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float"


def _shapes(op):
    rows = op.inputs[0].shape.with_rank(2)
    n = op.attr("num_sampled")
    rows = rows.merge_with(TensorShape([None, op.attr("num_true")]))
    return [TensorShape([n]), rows, TensorShape([n])]


DRAWN = dict(num_true=2, num_sampled=4, unique=True, range_max=7)
SAMPLES = [S(lit([[1, 2], [3, 0], [6, 6]]), **DRAWN),
           S(lit([[1]]), num_true=1, num_sampled=50, unique=False, range_max=9, seed=3),
           S(lit(np.zeros((0, 1))), num_true=1, num_sampled=3, unique=True, range_max=3)]


# ---------------------------------------------------------------------------------------------- ops
@op("UniformCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS, attrs=RANGE + SEEDS,
    stateful=True)
class UniformCandidateSampler:
    """Classes drawn uniformly from [0, range_max). No NumPy oracle: tests check distribution and
    TF's numbers. TF: UniformCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED
    reference = None
    samples = SAMPLES


@op("LogUniformCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS,
    attrs=RANGE + SEEDS, stateful=True)
class LogUniformCandidateSampler:
    """Classes drawn by Zipf's law, P(k) = log((k + 2) / (k + 1)) / log(range_max + 1).
    TF: LogUniformCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED
    reference = None
    samples = SAMPLES


@op("LearnedUnigramCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS,
    attrs=RANGE + SEEDS, stateful=True)
class LearnedUnigramCandidateSampler:
    """Classes drawn as often as they were true so far, each counted once from the start.
    TF: LearnedUnigramCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED
    reference = None
    samples = SAMPLES


@op("ThreadUnsafeUnigramCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS,
    attrs=RANGE + SEEDS, stateful=True)
class ThreadUnsafeUnigramCandidateSampler:
    """LearnedUnigramCandidateSampler; here as safe as that. TF:
    ThreadUnsafeUnigramCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED
    reference = None
    samples = SAMPLES


@op("FixedUnigramCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS,
    attrs=RANGE + 'vocab_file: string = "", distortion: float = 1.0, num_reserved_ids: int = 0, '
    "num_shards: int >= 1 = 1, shard: int >= 0 = 0, unigrams: list(float) = [], " + SEEDS,
    stateful=True)
class FixedUnigramCandidateSampler:
    """Classes drawn in proportion to given frequencies to the power `distortion`.
    TF: FixedUnigramCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED
    reference = None
    samples = [S(lit([[1, 2], [3, 0]]), num_true=2, num_sampled=3, unique=True, range_max=4,
                 unigrams=[1.0, 2.0, 3.0, 4.0]),
               S(lit([[1]]), num_true=1, num_sampled=20, unique=False, range_max=5,
                 num_reserved_ids=2, unigrams=[1.0, 8.0, 3.0], distortion=0.75)]


@op("AllCandidateSampler", inputs="true_classes: int64", outputs=OUTPUTS, attrs=COMMON + SEEDS,
    stateful=True)
class AllCandidateSampler:
    """Every class once, 0 to num_sampled - 1, for tests. TF: AllCandidateSampler."""
    shape = _shapes
    gradient = UNREGISTERED

    def reference(true_classes, num_sampled):
        return (np.arange(num_sampled), np.ones(true_classes.shape, np.float32),
                np.ones(num_sampled, np.float32))
    samples = [S(lit([[1, 2], [3, 0]]), num_true=2, num_sampled=5, unique=True)]


@op("ComputeAccidentalHits", inputs="true_classes: int64, sampled_candidates: int64",
    outputs="indices: int32, ids: int64, weights: float", attrs="num_true: int, " + SEEDS)
class ComputeAccidentalHits:
    """(row, place, -FLOAT_MAX) wherever a sampled class is one of a row's true ones.
    TF: ComputeAccidentalHits."""
    def shape(op):
        op.inputs[0].shape.with_rank(2).merge_with(TensorShape([None, op.attr("num_true")]))
        op.inputs[1].shape.with_rank(1)
        return [TensorShape([None])] * 3
    gradient = UNREGISTERED

    def reference(true_classes, sampled_candidates):
        place = {int(v): i for i, v in enumerate(sampled_candidates)}
        hits = [(r, place[int(v)]) for r, row in enumerate(true_classes) for v in row
                if int(v) in place]
        return (np.array([h[0] for h in hits], np.int32), np.array([h[1] for h in hits], np.int64),
                np.full(len(hits), np.finfo(np.float32).min, np.float32))
    samples = [S(lit([[1, 2], [3, 0], [5, 1]]), lit([0, 7, 1, 5]), num_true=2),
               S(lit([[1], [2]]), lit([1, 4, 1]), num_true=1),
               S(lit(np.zeros((0, 1))), lit([1]), num_true=1),
               S(lit([[2]]), lit(np.zeros(0)), num_true=1)]


# ----------------------------------------------------------------------------------------- samplers
def _seeded(block, seed, *args, **attrs):
    seed1, seed2 = graph.get_seed(seed)
    return block(*args, seed=seed1 or 0, seed2=seed2 or 0, **attrs)


def uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None,
                              name=None):
    """num_sampled classes drawn uniformly from [0, range_max): (classes, expected counts of
    true_classes int64 [batch, num_true], of the drawn). TF: nn.uniform_candidate_sampler.
    Dtypes, shapes, errors: as op UniformCandidateSampler."""
    return _seeded(UniformCandidateSampler, seed, true_classes, num_true=num_true,
                   num_sampled=num_sampled, unique=unique, range_max=range_max, name=name)


def log_uniform_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max, seed=None,
                                  name=None):
    """As uniform_candidate_sampler, by Zipf's law: for classes sorted by falling frequency.
    TF: nn.log_uniform_candidate_sampler.
    Dtypes, shapes, errors: as op LogUniformCandidateSampler."""
    return _seeded(LogUniformCandidateSampler, seed, true_classes, num_true=num_true,
                   num_sampled=num_sampled, unique=unique, range_max=range_max, name=name)


def learned_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max,
                                      seed=None, name=None):
    """As uniform_candidate_sampler, by how often classes were true so far.
    TF: nn.learned_unigram_candidate_sampler.
    Dtypes, shapes, errors: as op LearnedUnigramCandidateSampler."""
    return _seeded(LearnedUnigramCandidateSampler, seed, true_classes, num_true=num_true,
                   num_sampled=num_sampled, unique=unique, range_max=range_max, name=name)


def fixed_unigram_candidate_sampler(true_classes, num_true, num_sampled, unique, range_max,
                                    vocab_file="", distortion=1.0, num_reserved_ids=0, num_shards=1,
                                    shard=0, unigrams=(), seed=None, name=None):
    """As uniform_candidate_sampler, in proportion to the frequencies in `unigrams`, or in the last
    column of the CSV `vocab_file`, to the power `distortion`; ids below num_reserved_ids are never
    drawn. TF: nn.fixed_unigram_candidate_sampler.
    Dtypes, shapes, errors: as op FixedUnigramCandidateSampler."""
    return _seeded(FixedUnigramCandidateSampler, seed, true_classes, num_true=num_true,
                   num_sampled=num_sampled, unique=unique, range_max=range_max,
                   vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids,
                   num_shards=num_shards, shard=shard, unigrams=list(unigrams), name=name)


def all_candidate_sampler(true_classes, num_true, num_sampled, unique, seed=None, name=None):
    """All classes, for tests. TF: nn.all_candidate_sampler.
    Dtypes, shapes, errors: as op AllCandidateSampler."""
    return _seeded(AllCandidateSampler, seed, true_classes, num_true=num_true,
                   num_sampled=num_sampled, unique=unique, name=name)


def compute_accidental_hits(true_classes, sampled_candidates, num_true, seed=None, name=None):
    """(rows, places, weights -FLOAT_MAX) of sampled classes that are true classes of a row.
    TF: nn.compute_accidental_hits.
    Dtypes, shapes, errors: as op ComputeAccidentalHits."""
    return _seeded(ComputeAccidentalHits, seed, true_classes, sampled_candidates, num_true=num_true,
                   name=name)


# ------------------------------------------------------------------------------------------- losses
def _sum_rows(x):
    """The sum of each row, as a product with ones: its gradient is cheap."""
    ones = array_ops.ones(join_ops.stack([array_ops.shape(x)[1], 1]), x.dtype)
    return array_ops.reshape(matmul_ops.matmul(x, ones), [-1])


def _true_logits(inputs, weights, biases, num_true):
    """[batch, num_true], from inputs [batch, dim] and true classes' rows [batch num_true, dim]."""
    dim = array_ops.shape(weights)[1:2]
    rows = array_ops.reshape(weights, join_ops.concat([[-1, num_true], dim], 0))
    dots = array_ops.expand_dims(inputs, 1) * rows
    flat = _sum_rows(array_ops.reshape(dots, join_ops.concat([[-1], dim], 0)))
    return array_ops.reshape(flat, [-1, num_true]) + array_ops.reshape(biases, [-1, num_true])


def _without_hits(labels, sampled, logits, num_true):
    """`logits` of sampled classes, about -FLOAT_MAX where a class is a true one of the row."""
    rows, places, weights = compute_accidental_hits(labels, sampled, num_true)
    at = join_ops.stack([cast_ops.cast(rows, dtypes.int64), places], axis=1)
    weights = cast_ops.cast(weights, logits.dtype)
    shape = array_ops.shape(logits, out_type=dtypes.int64)
    return logits + gather_ops.sparse_to_dense(at, shape, weights, 0.0, validate_indices=False)


def _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true,
                    sampled_values, remove_accidental_hits, partition_strategy, seed, name):
    """(logits, labels) [batch, num_true + num_sampled], the true classes first."""
    weights = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    with graph.name_scope(name, "compute_sampled_logits", weights + [biases, inputs, labels]):
        inputs = graph.convert_to_tensor(inputs)
        labels = cast_ops.cast(labels, dtypes.int64)
        flat = array_ops.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True,
                                                           num_classes, seed)
        sampled, true_count, count = map(identity_ops.StopGradient, sampled_values)
        sampled = cast_ops.cast(sampled, dtypes.int64)
        ids = join_ops.concat([flat, sampled], 0)
        w = nn_functions.embedding_lookup(weights, ids, partition_strategy=partition_strategy)
        b = nn_functions.embedding_lookup(biases, ids, partition_strategy=partition_strategy)
        w, b = (t if t.dtype == inputs.dtype else cast_ops.cast(t, inputs.dtype) for t in (w, b))
        n = array_ops.shape(flat)
        row = join_ops.concat([n, [0]], 0)
        true_w = slicing_ops.slice_(w, [0, 0], join_ops.concat([n, [-1]], 0))
        sampled_w = slicing_ops.slice_(w, row, [-1, -1])
        logits = matmul_ops.matmul(inputs, sampled_w, transpose_b=True) \
            + slicing_ops.slice_(b, n, [-1])
        true_logits = _true_logits(inputs, true_w, slicing_ops.slice_(b, [0], n), num_true)
        if remove_accidental_hits:
            logits = _without_hits(labels, sampled, logits, num_true)
        true_logits = true_logits - cast_ops.cast(unary_ops.Log(true_count), inputs.dtype)
        logits = logits - cast_ops.cast(unary_ops.Log(count), inputs.dtype)
        wanted = join_ops.concat([array_ops.ones_like(true_logits) / num_true,
                                  array_ops.zeros_like(logits)], 1)
        return join_ops.concat([true_logits, logits], 1), wanted


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
             sampled_values=None, remove_accidental_hits=False, partition_strategy="mod",
             name="nce_loss"):
    """Noise-contrastive estimation: each row's logistic loss of its true classes against sampled
    ones, [batch].

    weights: [num_classes, dim] or a list of shards; biases: [num_classes]; labels: int64 [batch,
    num_true]; inputs: [batch, dim]; sampled_values: what a sampler gave, by default
    log_uniform_candidate_sampler's. TF: nn.nce_loss.
    Floats; ValueError or InvalidArgumentError for shapes that do not fit or classes out of
    range."""
    logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes,
                                     num_true, sampled_values, remove_accidental_hits,
                                     partition_strategy, None, name)
    losses = softmax_ops.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits,
                                                           name="sampled_losses")
    return _sum_rows(losses)


def sampled_softmax_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
                         sampled_values=None, remove_accidental_hits=True, partition_strategy="mod",
                         name="sampled_softmax_loss", seed=None):
    """Each row's softmax cross entropy of its true classes among them and sampled ones, [batch]: an
    underestimate of the full softmax's, for training only.

    Arguments as nce_loss's; accidental hits are left out by default. TF: nn.sampled_softmax_loss.
    Floats; ValueError or InvalidArgumentError for shapes that do not fit or classes out of
    range."""
    logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes,
                                     num_true, sampled_values, remove_accidental_hits,
                                     partition_strategy, seed, name)
    wanted = identity_ops.StopGradient(wanted, name="labels_stop_gradient")
    return softmax_ops.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits)


PUBLIC = {
    "nn.uniform_candidate_sampler": uniform_candidate_sampler,
    "nn.log_uniform_candidate_sampler": log_uniform_candidate_sampler,
    "nn.learned_unigram_candidate_sampler": learned_unigram_candidate_sampler,
    "nn.fixed_unigram_candidate_sampler": fixed_unigram_candidate_sampler,
    "nn.all_candidate_sampler": all_candidate_sampler,
    "nn.compute_accidental_hits": compute_accidental_hits,
    "nn.nce_loss": nce_loss, "nn.sampled_softmax_loss": sampled_softmax_loss,
}
PUBLIC.update({f"random.{f.__name__}": f for f in (
    uniform_candidate_sampler, log_uniform_candidate_sampler, learned_unigram_candidate_sampler,
    fixed_unigram_candidate_sampler, all_candidate_sampler)})
