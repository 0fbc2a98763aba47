"""A cluster does what TensorFlow's does: the programs of cluster_programs/, run on pyflow, say what
TensorFlow 2.21 said (answers.json): values, devices, who waits, errors' types, ops and texts."""
import json
import math
import pathlib
import sys

import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cluster_programs  # noqa: E402

ANSWERS = json.loads((HERE / "answers.json").read_text())

# Where pyflow's answer is another one, on purpose: docs/distributed.md says why.
OURS = {}


@pytest.fixture(scope="module")
def cluster():
    cluster = cluster_programs.Cluster(tf, ps=2, worker=2)
    yield cluster
    cluster.stop()


def same(said, expected):
    """Equal; of an error the type, its op where TensorFlow knows it, and the texts at least."""
    if isinstance(expected, list) and expected[:1] == ["error"]:
        if len(expected) < 4 or not isinstance(said, list) or len(said) < 4:
            return said == expected
        kind, op, texts = expected[1:]
        return said[1] == kind and (op is None or said[2] == op) and set(texts) <= set(said[3])
    return close(said, expected)


def close(said, expected):
    """Equal, floats nearly."""
    if isinstance(expected, (list, dict)):
        if type(said) is not type(expected) or len(said) != len(expected):
            return False
        if isinstance(expected, dict):
            return said.keys() == expected.keys() and all(
                close(said[k], expected[k]) for k in expected)
        return all(close(a, b) for a, b in zip(said, expected))
    if type(said) is not type(expected):
        return False
    return said == expected or (isinstance(expected, float)
                                and math.isclose(said, expected, rel_tol=2e-5, abs_tol=1e-7))


def test_all_programs_are_recorded():
    assert list(ANSWERS) == list(cluster_programs.PROGRAMS)


def programs():
    for name, program in cluster_programs.PROGRAMS.items():
        yield pytest.param(name, marks=[pytest.mark.long] if program.alone else [])


@pytest.mark.parametrize("name", programs())
def test_says_what_tensorflow_says(name, cluster, tmp_path):
    said = cluster_programs.answers(tf, name, cluster, 0.1, tmp_path)
    differing = []
    for (what, got), (recorded, want) in zip(said, ANSWERS[name]):
        assert what == recorded, f"pyflow says {what}: {got}, TensorFlow {recorded}: {want}"
        want = OURS.get((name, what), want)
        if not same(got, want):
            differing.append(f"{what}: {got}, TensorFlow: {want}")
    assert not differing, "\n".join(differing)
    assert len(said) == len(ANSWERS[name]), f"{said[len(ANSWERS[name]):]}"
