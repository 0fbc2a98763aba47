"""How run.py reads what unittest prints."""
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("kernel_tests_run", HERE / "run.py")
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)


def test_a_page_names_no_path_of_a_machine():
    cause = "RuntimeError: closed at /opt/x.y/lib/python3/a.py:7, of shape 1/2, in\n  a/b_test.py"
    cause_of = {"T.a": cause}
    result = dict(passed=1, failed=1, worded=0, dropped=0, skipped=0, broken="", causes=cause_of)
    page = run.report({"o/r@0123456789ab:tensorflow/x_test.py": result})
    assert "closed at FILE of shape 1/2, in FILE" in page


PRINTED = """\
testA (__main__.T.testA) ... ok
testB (__main__.T.testB) ... ERROR
testC (__main__.T.testC) ... FAIL
testD (__main__.T.testD)
What D does. ... skipped 'no GPU'
testE (__main__.T.testE) ... ERROR

======================================================================
ERROR: testB (__main__.T.testB)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "x.py", line 7, in testB
    f(op)
pyflow.framework.errors.InvalidArgumentError: node 'Add_12' got 3 and 4.5

======================================================================
FAIL: testC (__main__.T.testC)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "x.py", line 9, in testC
    with self.assertRaisesRegexp(ValueError, "must match"):
AssertionError: "must match" does not match "differ: 3 and 4"

======================================================================
ERROR: testE (__main__.T.testE)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "x.py", line 12, in testE
    x[[slice(0, 1)]]
IndexError: only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) are valid

----------------------------------------------------------------------
Ran 5 tests in 0.010s

FAILED (failures=1, errors=2, skipped=1)
"""


def test_each_test_counts_once():
    found = run.counted(PRINTED, 1)
    assert {k: found[k] for k in ("passed", "failed", "worded", "dropped", "skipped", "broken")} == {
        "passed": 1, "failed": 1, "worded": 1, "dropped": 1, "skipped": 1, "broken": ""}
    assert found["causes"]["__main__.T.testB"] == (
        "pyflow.framework.errors.InvalidArgumentError: node X got N and N")


def test_files_that_end_early():
    hung = run.counted(PRINTED.partition("testB")[0], "timeout")
    assert (hung["passed"], hung["failed"]) == (1, 1)
    lost = run.counted("Traceback ...\nModuleNotFoundError: no such thing\n", 1)
    assert lost["broken"] == "ModuleNotFoundError: no such thing" and not lost["failed"]


def test_the_list_names_files_at_commits():
    sources = run.sources()
    assert len(sources) >= 40 and len(set(sources)) == len(sources)
    assert all(len(s.commit) == 40 and s.path.endswith("_test.py") for s in sources)


def test_an_interpreter_is_found_from_other_folders(monkeypatch, tmp_path):
    """A path as the Makefile gives it; a name on PATH."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "a-python"
    python.symlink_to(sys.executable)           # of an environment: a link that has to stay one
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for given in ("bin/a-python", "a-python", str(python)):
        assert run._arguments(["--python", given]).python == str(python)
