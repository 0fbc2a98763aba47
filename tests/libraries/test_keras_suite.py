"""keras_suite.py without Keras: how tests end is recorded, what failed before pyflow is told from what did not."""
import os
import pathlib
import subprocess
import sys
import tarfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import keras_suite  # noqa: E402

TESTS = '''
import pytest
import pyflow as tf

@pytest.fixture
def leaves_something():
    yield
    assert not ["rest"]

def test_right(): assert tf.add(1, 2).shape == []
def test_wrong(): assert tf.add(1, 2).shape == [3]
def test_of_pyflow(): tf.reshape([1, 2], [3])
def test_of_numpy(): None.th_sparse_module
def test_of_both():
    try: tf.reshape([1, 2], [3])
    except ValueError as e: None.th_sparse_module
def test_left(leaves_something): pass
@pytest.mark.skip(reason="why")
def test_skipped(): pass
'''


def ends_of(folder, files):
    """{test: how it ended} of files of tests, by the plugin."""
    below = folder / "tests/keras/backend"
    below.mkdir(parents=True)
    for name, text in files.items():
        (below / name).write_text(textwrap.dedent(text), encoding="utf-8")
    out = folder / "ends.jsonl"
    subprocess.run([sys.executable, "-P", "-m", "pytest", "-q", "-p", "keras_frames", "-p", "no:cacheprovider",
                    "--continue-on-collection-errors", "tests"],
                   cwd=folder, stdout=subprocess.DEVNULL, timeout=120,
                   env={**os.environ, "KERAS_FRAMES": str(out), "PYTHONPATH": str(HERE)})
    return {end["test"].rpartition("::")[2]: end for end in keras_suite._ends(out)}


def test_ends_are_recorded(tmp_path):
    ends = ends_of(tmp_path, {"few_test.py": TESTS, "broken_test.py": "import no_such_module"})
    broken = ends.pop("tests/keras/backend/broken_test.py")
    assert broken["error"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert keras_suite.verdict(broken) == ("ours", None)
    assert {name: end["outcome"] for name, end in ends.items()} == {
        "test_right": "passed", "test_wrong": "failed", "test_of_pyflow": "failed", "test_of_numpy": "failed",
        "test_of_both": "failed", "test_left": "failed", "test_skipped": "skipped"}
    assert ends["test_wrong"]["frames"][-1].endswith(" test_wrong")
    assert ends["test_skipped"]["error"] == "Skipped: why"
    reached = {name for name, end in ends.items() if any("/pyflow/" in f for f in end.get("frames", ()))}
    assert reached == {"test_of_pyflow", "test_of_both"}        # the second by what its error came from
    kinds = {name: keras_suite.verdict(end)[0] for name, end in ends.items()}
    assert kinds == {"test_right": "passed", "test_skipped": "skipped", "test_wrong": "ours", "test_left": "ours",
                     "test_of_pyflow": "ours", "test_of_numpy": "before", "test_of_both": "ours"}
    lines = list(keras_suite.table(list(ends.values())))
    assert lines[1].split() == ["backend", "1", "4", "1", "1"] and lines[1].split()[1:] == lines[7].split()[1:]
    assert keras_suite.shares(list(ends.values())) == (1 / 5, 1 / 6)
    assert keras_suite.not_run([*ends.values(), broken]) == [broken["test"]]


def test_a_tree_around_the_tests_does_not_configure_them(tmp_path, monkeypatch):
    """This one's pyproject.toml imports tests in another way: a module beside them is not found."""
    given, root = tmp_path / "archive", tmp_path / "tree"
    (given / "tests/keras").mkdir(parents=True)
    (given / "tests/keras/beside.py").write_text("right = 1")
    (given / "tests/keras/some_test.py").write_text(
        "import beside\n\ndef test_it(): assert beside.right")
    root.mkdir()
    (root / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n")

    def download(command, check):
        with tarfile.open(root / "build/Keras-2.2.4.tar.gz", "w:gz") as archive:
            archive.add(given, "Keras-2.2.4")
    with monkeypatch.context() as patched:
        patched.setattr(keras_suite.subprocess, "run", download)
        where = keras_suite.fetch(root / "build", sys.executable)
    out = tmp_path / "ends.jsonl"
    subprocess.run([sys.executable, "-P", "-m", "pytest", "-q", "-p", "keras_frames", "tests/keras/some_test.py"],
                   cwd=where, stdout=subprocess.DEVNULL, timeout=120,
                   env={**os.environ, "KERAS_FRAMES": str(out), "PYTHONPATH": str(HERE)})
    [end] = keras_suite._ends(out)
    assert (end["test"], end["outcome"]) == ("tests/keras/some_test.py::test_it", "passed")
