"""Sampled classes for training with many of them: samplers, nce_loss, sampled_softmax_loss.

Invariant: samplers have no gradient; the losses' gradients reach weights, biases and inputs.

Source: Jean et al. 2014 (sampled softmax), Gutmann and Hyvarinen 2010 (NCE).
Example:  `loss = tf.nn.sampled_softmax_loss(w, b, labels, hidden, num_sampled=64, num_classes=n)`.
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions
from pyflow.lib.nn import nn_functions, softmax_functions
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import unary_ops
from pyflow.ops.gemm import products
from pyflow.ops.random.candidate_sampling_ops import (AllCandidateSampler, ComputeAccidentalHits,
                                                      FixedUnigramCandidateSampler,
                                                      LearnedUnigramCandidateSampler,
                                                      LogUniformCandidateSampler,
                                                      UniformCandidateSampler)


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
    ones = tensors.ones(tensors.stack([tensors.shape(x)[1], 1]), x.dtype)
    return tensors.reshape(products.matmul(x, ones), [-1])


def _true_logits(inputs, weights, biases, num_true):
    """[batch, num_true], from inputs [batch, dim] and true classes' rows [batch num_true, dim]."""
    dim = tensors.shape(weights)[1:2]
    rows = tensors.reshape(weights, tensors.concat([[-1, num_true], dim], 0))
    dots = tensors.expand_dims(inputs, 1) * rows
    flat = _sum_rows(tensors.reshape(dots, tensors.concat([[-1], dim], 0)))
    return tensors.reshape(flat, [-1, num_true]) + tensors.reshape(biases, [-1, num_true])


def _without_hits(labels, sampled, logits, num_true):
    """`logits` of sampled classes, about -FLOAT_MAX where a class is a true one of the row."""
    rows, places, weights = compute_accidental_hits(labels, sampled, num_true)
    at = tensors.stack([tensors.cast(rows, dtypes.int64), places], axis=1)
    weights = tensors.cast(weights, logits.dtype)
    shape = tensors.shape(logits, out_type=dtypes.int64)
    hidden = gather_functions.sparse_to_dense(at, shape, weights, 0.0, validate_indices=False)
    return logits + hidden


def _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes, num_true,
                    sampled_values, remove_accidental_hits, partition_strategy, seed, name):
    """(logits, labels) [batch, num_true + num_sampled], the true classes first."""
    weights = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    with graph.name_scope(name, "compute_sampled_logits", weights + [biases, inputs, labels]):
        inputs = graph.convert_to_tensor(inputs)
        labels = tensors.cast(labels, dtypes.int64)
        flat = tensors.reshape(labels, [-1])
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(labels, num_true, num_sampled, True,
                                                           num_classes, seed)
        sampled, true_count, count = map(identity_ops.StopGradient, sampled_values)
        sampled = tensors.cast(sampled, dtypes.int64)
        ids = tensors.concat([flat, sampled], 0)
        w = nn_functions.embedding_lookup(weights, ids, partition_strategy=partition_strategy)
        b = nn_functions.embedding_lookup(biases, ids, partition_strategy=partition_strategy)
        w, b = (t if t.dtype == inputs.dtype else tensors.cast(t, inputs.dtype) for t in (w, b))
        n = tensors.shape(flat)
        row = tensors.concat([n, [0]], 0)
        true_w = tensors.slice_(w, [0, 0], tensors.concat([n, [-1]], 0))
        sampled_w = tensors.slice_(w, row, [-1, -1])
        logits = products.matmul(inputs, sampled_w, transpose_b=True) \
            + tensors.slice_(b, n, [-1])
        true_logits = _true_logits(inputs, true_w, tensors.slice_(b, [0], n), num_true)
        if remove_accidental_hits:
            logits = _without_hits(labels, sampled, logits, num_true)
        true_logits = true_logits - tensors.cast(unary_ops.Log(true_count), inputs.dtype)
        logits = logits - tensors.cast(unary_ops.Log(count), inputs.dtype)
        wanted = tensors.concat([tensors.ones_like(true_logits) / num_true,
                                 tensors.zeros_like(logits)], 1)
        return tensors.concat([true_logits, logits], 1), wanted


def nce_loss(weights, biases, labels, inputs, num_sampled, num_classes, num_true=1,
             sampled_values=None, remove_accidental_hits=False, partition_strategy="mod",
             name="nce_loss"):
    """Noise-contrastive estimation: each row's logistic loss of its true classes against sampled
    ones, [batch].

    weights: [num_classes, dim] or a list of shards; biases: [num_classes]; labels: int64 [batch,
    num_true]; inputs: [batch, dim]; sampled_values: what a sampler gave, by default
    log_uniform_candidate_sampler's. TF: nn.nce_loss.
    Floats; ValueError or InvalidArgumentError for shapes that do not fit or classes out of
    range.
    num_sampled: classes sampled for the whole batch; num_true: true classes of a row;
    remove_accidental_hits: a sampled class that is a true one does not count; partition_strategy:
    how the shards of `weights` divide the classes, "mod" or "div".

        >>> loss = tf.nn.nce_loss(weights=tf.zeros([10, 4]), biases=tf.zeros([10]),
        ...                       labels=tf.constant([[3], [7]], tf.int64), inputs=tf.ones([2, 4]),
        ...                       num_sampled=5, num_classes=10)
        >>> tf.Session().run(loss).shape
        (2,)
    """
    logits, wanted = _sampled_logits(weights, biases, labels, inputs, num_sampled, num_classes,
                                     num_true, sampled_values, remove_accidental_hits,
                                     partition_strategy, None, name)
    losses = softmax_functions.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits,
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
    return softmax_functions.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits)


PUBLIC = {
    "nn.uniform_candidate_sampler": uniform_candidate_sampler,
    "nn.log_uniform_candidate_sampler": log_uniform_candidate_sampler,
    "nn.learned_unigram_candidate_sampler": learned_unigram_candidate_sampler,
    "nn.fixed_unigram_candidate_sampler": fixed_unigram_candidate_sampler,
    "nn.all_candidate_sampler": all_candidate_sampler,
    "nn.compute_accidental_hits": compute_accidental_hits, "nn.nce_loss": nce_loss,
    "nn.sampled_softmax_loss": sampled_softmax_loss,
}
PUBLIC.update({f"random.{f.__name__}": f for f in (
    uniform_candidate_sampler, log_uniform_candidate_sampler, learned_unigram_candidate_sampler,
    fixed_unigram_candidate_sampler, all_candidate_sampler)})
