"""others.py without a library: its table is whole, and a job is judged by its bars and its end."""
import math
import pathlib
import re
import sys
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import others  # noqa: E402

ONE = others.Library("some==1.0", "some_job", [others.Bar("accuracy", ">=", 0.9, "guessing: 0.1"),
                                               others.Bar("loss", "<=", 0.5, "untrained: 2.3")])


@pytest.mark.parametrize("library", others.LIBRARIES, ids=lambda library: library.release)
def test_table(library):
    assert re.fullmatch(r"[\w-]+==[\d.]+", library.release)
    text = (HERE / f"jobs/{library.job}.py").read_text(encoding="utf-8")
    assert text.startswith('"""' + library.release.partition("==")[0] + ": ")
    assert "import tensorflow as tf" in text or "import tensorflow" not in text
    assert len({bar.value for bar in library.bars}) == len(library.bars) > 0
    for bar in library.bars:
        assert bar.sign in ("<=", ">=") and math.isfinite(bar.limit) and len(bar.reason) > 10
        assert bar.value.removesuffix("_distance") in text
    names = [other.job for other in others.LIBRARIES]
    assert len(set(names)) == len(names)
    assert {path.stem for path in (HERE / "jobs").glob("*.py")} == set(names)


def test_needs_are_one_requirement_each():
    names = [re.match(r"[\w-]+", need).group() for need in others.needs()]
    assert len(set(names)) == len(names)
    assert not {"tensorflow", "tensorflow-cpu"} & set(names)


PRINTED = "\x1b[?25h\x1b[Bvalue accuracy 0.95\nnoise 3\nvalue loss 0.25\n"


@pytest.mark.parametrize("status, printed, bad", [
    (0, PRINTED, []), (1, PRINTED, ["accuracy", "loss"]), ("timeout", PRINTED, ["accuracy", "loss"]),
    (0, PRINTED.replace("0.95", "0.85"), ["accuracy"]), (0, PRINTED.replace("0.25", "nan"), ["loss"]),
    (0, PRINTED.replace("0.25", "None"), ["loss"]), (0, "value accuracy 1.0\n", ["loss"]),
    (0, "", ["accuracy", "loss"])])
def test_judging(status, printed, bad):
    numbers = others.values(printed)
    assert [bar.value for bar in others.missed(ONE, status, numbers)] == bad
    lines = list(others.rows(ONE, status, numbers, 1.0))
    assert len(lines) == 3 and lines[0].startswith("FAILS" if bad else "passes")
    assert [line.split()[1] for line in lines[1:] if line.split()[0] == "!"] == bad


def test_jobs_are_run_and_ended(tmp_path, monkeypatch):
    """A job in its process: what it prints, its last frame, and its end by the limit of time."""
    (tmp_path / "jobs").mkdir()
    monkeypatch.setattr(others, "HERE", tmp_path)
    args = types.SimpleNamespace(folder=tmp_path, python=sys.executable, tensorflow=False,
                                 timeout=60)
    job = tmp_path / "jobs/some_job.py"
    job.write_text("import tensorflow as tf\nwith tf.Session() as s:\n"
                   "    print('value accuracy', s.run(tf.constant(0.5) * 2))\n"
                   "def f():\n    raise ValueError('wrong')\nf()\n", encoding="utf-8")
    status, printed = others.run(ONE, tmp_path, args)
    assert status == 1 and others.values(printed) == {"accuracy": 1.0}
    assert others.last_frame(printed).endswith("some_job.py:5:f: ValueError: wrong")
    job.write_text("print('value loss 0.1', flush=True)\nimport time\ntime.sleep(60)\n",
                   encoding="utf-8")
    args.timeout = 2
    status, printed = others.run(ONE, tmp_path, args)
    assert status == "timeout" and others.values(printed) == {"loss": 0.1}


def test_an_interpreter_is_found_from_other_folders(monkeypatch, tmp_path):
    """A path as the Makefile gives it; a name on PATH."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "a-python"
    python.symlink_to(sys.executable)           # of an environment: a link that has to stay one
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for given in ("bin/a-python", "a-python", str(python)):
        assert others._arguments(["--python", given]).python == str(python)
