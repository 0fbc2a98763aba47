"""rejection_resample: classes come in other proportions.  Bounds are of the binomial distribution;
SHARES_OF_TENSORFLOW are of TF 2.21's 3,000 elements with these seeds, and must lie within them,
too."""
import numpy as np
import pytest

import pyflow as tf
from data_helpers import RANGE, elements

RESAMPLE = tf.data.experimental.rejection_resample
INITIAL, TARGET = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
LABELS = np.random.RandomState(3).choice(3, size=3000, p=INITIAL).astype(np.int32)
SHARES_OF_TENSORFLOW = {"given": [0.193, 0.298, 0.510], "estimated": [0.194, 0.307, 0.499]}


def labelled():
    return tf.data.Dataset.from_tensor_slices((np.arange(3000), LABELS))


def resampled(dataset, initial, seed=4, target=TARGET):
    return dataset.apply(RESAMPLE(lambda number, label: label, target, initial, seed=seed))


def counted(dataset, most):
    """[how many of each class], of that many elements."""
    return np.bincount([int(kind) for kind, _ in elements(dataset, most)], minlength=3)


def near(counts, chances, n):
    """Within 4 standard deviations of the binomial distributions."""
    chances = np.asarray(chances)
    return np.all(np.abs(counts - n * chances) <= 4 * np.sqrt(n * chances * (1 - chances)) + 1e-9)


@pytest.mark.parametrize("case", SHARES_OF_TENSORFLOW)
def test_classes_come_in_the_proportions_asked_for(case):
    initial = INITIAL if case == "given" else None
    assert near(3000 * np.array(SHARES_OF_TENSORFLOW[case]), TARGET, 3000)
    assert near(counted(resampled(labelled().repeat(), initial), 3000), TARGET, 3000)
    of_all = np.bincount(LABELS, minlength=3)
    once = counted(resampled(labelled(), initial), 3000)
    kept = TARGET / (INITIAL if case == "given" else of_all / 3000)
    for c in range(3):
        assert near(once[c], kept[c] / max(kept), of_all[c])


def test_draws_are_of_the_seed():
    def numbers(seed, initial=INITIAL):
        return [int(element[0]) for _, element in elements(resampled(labelled(), initial, seed))]
    first = numbers(1)
    assert first == numbers(1) and first != numbers(2) and first != numbers(1, None)
    assert first == sorted(set(first)) and len(first) > 400     # each at most once, in their order


def test_elements_and_their_classes():
    kept = elements(labelled().apply(RESAMPLE(lambda _, label: label, INITIAL, INITIAL)), 3000)
    assert len(kept) == 3000                    # nothing is to be changed: all are there
    assert all(kind == LABELS[number] == label for kind, (number, label) in kept)
    dataset = resampled(labelled(), INITIAL)
    assert dataset.output_types == (tf.int32, (tf.int64, tf.int32))
    half = RANGE(40).map(lambda x: {"x": x}).apply(
        RESAMPLE(lambda element: element["x"] % 2, [1.0, 0.0], [0.5, 0.5]))
    assert half.output_types == (tf.int64, {"x": tf.int64})
    assert [int(element["x"]) for _, element in elements(half)] == list(range(0, 40, 2))


def test_a_class_that_is_in_neither_distribution():
    """0 / 0 is no reason to keep nothing for ever."""
    both = resampled(tf.data.Dataset.from_tensor_slices((np.arange(99), np.arange(99) % 2)),
                     [0.5, 0.5, 0.0], target=tf.constant([0.0, 1.0, 0.0], tf.float64))
    assert counted(both, 99).tolist() == [0, 49, 0]


@pytest.mark.parametrize("initial", [[0.6, 0.4], None])
def test_what_is_no_class(initial):
    few = [0.5, 0.5]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"2 is not in \[0, 2\)"):
        elements(resampled(labelled(), initial, target=few), 3000)
    with pytest.raises(ValueError, match=r"must return a scalar, .* shape \(2,\)"):
        labelled().apply(RESAMPLE(lambda _, label: tf.stack([label, label]), few, initial))
    with pytest.raises(TypeError, match="int32 or int64, but returned one of float32"):
        labelled().apply(RESAMPLE(lambda _, label: tf.cast(label, tf.float32), few, initial))
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 2"):
        resampled(labelled(), few)
