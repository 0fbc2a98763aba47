"""A cluster does what TensorFlow's does: the programs of cluster_programs/, run on pyflow, say what
TensorFlow 2.21 said (answers.json): values, devices, who waits, errors' types, ops and texts.

Every program runs on servers of this process, and again (a long test) on servers of a process each,
with the client in none of them."""
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

# Where pyflow's answer is another one, on purpose (docs/distributed.md).
OURS = {
    # TensorFlow 1.15 says InvalidArgumentError, as pyflow does; 2.21 says InternalError.
    ("server_arguments_refused", "no such task"): ["error", "InvalidArgumentError", None, []],
    # As its documentation says: without names every container is cleared, not the nameless alone.
    ("containers", "all forgotten?"): [False, False, False],
    # TensorFlow 1.15.5 (record.py, run by it): the first task by name; 2.21: the session's own.
    ("default_placement", "ran on"): ["/job:ps/replica:0/task:0/device:CPU:0"],
    ("partial_device_names", "/cpu:0"): ["/job:ps/replica:0/task:0/device:CPU:0"],
    ("partial_device_names", "/job:worker"): ["/job:worker/replica:0/task:0/device:CPU:0"],
    ("partial_device_names", "/task:1"): ["/job:ps/replica:0/task:1/device:CPU:0"],
    ("variables_of_a_worker", "two"): True,
    # TensorFlow 1.15's job is "local", 2.21's "localhost".
    ("server_local", "definition"): ["local", 0, "grpc"],
    ("server_local", "devices"): ["/job:local/replica:0/task:0/device:CPU:0"],
    ("server_local", "two CPUs"): ["/job:local/replica:0/task:0/device:CPU:0",
                                   "/job:local/replica:0/task:0/device:CPU:1"],
}
# Those that speak of servers, or of the client's process, itself.
HERE_ONLY = {"server_properties", "python_functions"}


@pytest.fixture(scope="module")
def cluster():
    cluster = cluster_programs.Cluster(tf, ps=2, worker=2)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def processes():
    cluster = cluster_programs.ProcessCluster(tf, ps=2, worker=2)
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


def check(name, cluster, folder):
    said = cluster_programs.answers(tf, name, cluster, 0.1, folder)
    differing = []
    for (what, got), (recorded, want) in zip(said, ANSWERS[name]):
        assert what == recorded, f"pyflow says {what}: {got}, TensorFlow {recorded}: {want}"
        want = OURS.get((name, what), want)
        if not same(got, want):
            differing.append(f"{what}: {got}, TensorFlow: {want}")
    assert not differing, "\n".join(differing)
    assert len(said) == len(ANSWERS[name]), f"{said[len(ANSWERS[name]):]}"


def test_all_programs_are_recorded():
    assert list(ANSWERS) == list(cluster_programs.PROGRAMS)
    said = {(name, what) for name, answers in ANSWERS.items() for what, _ in answers}
    assert set(OURS) <= said


def programs():
    for name, program in cluster_programs.PROGRAMS.items():
        yield pytest.param(name, marks=[pytest.mark.long] if program.alone else [])


@pytest.mark.parametrize("name", list(programs()))
def test_says_what_tensorflow_says(name, cluster, tmp_path):
    check(name, cluster, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, program in cluster_programs.PROGRAMS.items()
                                  if not program.alone and name not in HERE_ONLY])
def test_says_it_to_a_client_of_another_process(name, processes, tmp_path):
    check(name, processes, tmp_path)
