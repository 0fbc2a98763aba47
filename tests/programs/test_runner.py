"""run.py without any program of others: the list is well-formed, programs are shortened as it says, end values are found
and compared."""
import pathlib
import re
import subprocess
import sys
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import run as runner  # noqa: E402

PROGRAM = '''\
# -*- coding: utf-8 -*-
"""A program."""
from __future__ import print_function
import tensorflow as tf
epochs, n = 10, 3
steps = 1000    # Schritte, viele
v = tf.Variable(0.)
step = tf.assign_add(v, 1.,
                     use_locking=False)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(steps):
        value = sess.run(step)
        if i % 100 == 0: print("é loss", value)
    print("loss", sess.run(v), sess.run(tf.random_uniform([])))
'''


def test_shortened():
    text = runner.shortened(PROGRAM, {"steps": "7", "i % 100": "i % 2", "use_locking=": "True"})
    lines = text.splitlines()
    assert lines[4].endswith("; tf.set_random_seed(1)") and lines[6] == "steps = 7    # Schritte, viele"
    assert "use_locking=True)" in text and "if i % 2 == 0" in text and "range(steps)" in text
    assert len(lines) == len(PROGRAM.splitlines()) + 1
    with pytest.raises(ValueError, match="no assignment, keyword or call absent, range"):
        runner.shortened(PROGRAM, {"absent": "1", "range(2)": "range(1)"})


def options(**values):
    return {"value": r"^loss ([\d.]+)", "tf": "7 7.2 6.9", "within": "0.05", **values}


def test_a_program_is_fetched_run_and_compared(tmp_path):
    source = tmp_path / "owner+name"
    source.mkdir()
    (source / "p.py").write_text(PROGRAM, encoding="utf-8")
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    (source / ".git").rename(tmp_path / "bare")
    (tmp_path / "owner+name/p.py").unlink()
    source.rmdir()
    (tmp_path / "bare").rename(tmp_path / "owner+name")
    files = runner.fetch("owner/name", commit, str(tmp_path), tmp_path / "kept")
    assert (files / "p.py").read_text(encoding="utf-8") == PROGRAM
    program = runner.Program("owner/name", "p.py", options(set="steps = 7"))
    args = types.SimpleNamespace(folder=tmp_path / "kept", timeout=100, python=sys.executable)
    value, _, printed, code = runner.run(program, files, args)
    assert (value, code) == (7.0, 0), printed
    again = runner.run(program, files, args)[2]
    assert again == printed                         # the seeds are set
    assert runner.check(program, value, printed, code) == "ok"
    assert runner.check(program, 7.06, printed, code) == "end value 7.06, TensorFlow's 7 within 0.05"
    assert runner.check(program, None, printed, code) == "no end value in its output"
    assert runner.check(program, 7.0, "a\nError: b\n", 1) == "exit 1: Error: b"
    assert runner.check(program._replace(options=options(tf="")), 7.0, printed, 0) == "ran"


def test_the_list():
    commits, listed = runner.programs()
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits.values())
    assert len(commits) >= 10 and len(listed) >= 60 and len({p.name for p in listed}) == len(listed)
    for program in listed:
        assert program.repository in commits, program
        assert re.compile(program.options["value"]).groups >= 1, program
        assert float(program.options["within"]) >= 0 and all(map(float, program.options["tf"].split()))
