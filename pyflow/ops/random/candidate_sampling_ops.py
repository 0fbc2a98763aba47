"""Sampled classes for training with many classes.

Invariants
  1. A sampler gives (sampled classes int64 [num_sampled], expected counts of the true classes
     float32 [batch, num_true], expected counts of the sampled ones float32 [num_sampled]).
  2. With equal seeds the classes are TF's own.
  3. Samplers have no gradient.

Example:  `UniformCandidateSampler(classes, num_true=1, num_sampled=64, unique=True, range_max=n)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape

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
