"""run.py without any program of others: the list is well-formed and tells trained programs from
untrained ones, programs are run as they are and ended where it says, end values are found and
compared."""
import gzip
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import data  # noqa: E402
import run as runner  # noqa: E402

PROGRAM = '''\
# -*- coding: utf-8 -*-
"""A program."""
from __future__ import print_function
import tensorflow as tf
import os
import random
import sys
import numpy as np
with tf.Graph().as_default(), tf.Session() as sess:
    v = tf.Variable(0.)
    step = tf.assign_add(v, 1.)
    noise = tf.random_uniform([])
    sess.run(tf.global_variables_initializer())
    print("é", sys.argv[1:], os.path.basename(sys.argv[0]), os.listdir("made"), os.environ["EXTRA"])
    while True:
        print("loss", sess.run(step), sess.run(noise), np.random.rand(), random.random())
        if sess.run(v) >= 20: break
'''


def options(**values):
    return {"value": r"^loss ([\d.]+)", "tf": "7 7.2 6.9", "within": "0.05", **values}


def test_a_program_is_fetched_run_and_compared(tmp_path):
    source = tmp_path / "owner+name"
    source.mkdir()
    (source / "p.py").write_text(PROGRAM, encoding="utf-8")
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE,
                            text=True).stdout.strip()
    (source / ".git").rename(tmp_path / "bare")
    (tmp_path / "owner+name/p.py").unlink()
    source.rmdir()
    (tmp_path / "bare").rename(tmp_path / "owner+name")
    files = runner.fetch("owner/name", commit, str(tmp_path), tmp_path / "kept")
    assert (files / "p.py").read_text(encoding="utf-8") == PROGRAM
    program = runner.Program("owner/name", "p.py", options(
        until="^loss", count="7", arguments="--x 'a b'", make="made/inner", env="EXTRA=1"))
    args = types.SimpleNamespace(folder=tmp_path / "kept", timeout=100, python=sys.executable,
                                 seed=1, untrained=False)
    _, printed, code = runner.run(program, files, args)
    value = runner.end_value(program, printed)
    assert (value, code) == (7.0, 0), printed
    assert printed.startswith("é ['--x', 'a b'] p.py ['inner'] 1\n") and printed.count("loss") == 7
    again = runner.run(program, files, args)[1]
    assert again == printed                         # the seeds are set, of the graphs it makes too
    whole = runner.run(program._replace(options={**program.options, "until": "never"}), files, args)
    assert runner.end_value(program, whole[1]) == 20.0 and whole[2] == 0
    args.timeout = 0.01
    assert runner.run(program, files, args)[2] == "timeout"
    assert runner.check(program, value, printed, code) == "ok"
    assert runner.check(program, 7.06, printed, code) == "end value 7.06, TensorFlow's 7 within 0.05"
    assert runner.check(program, None, printed, code) == "no end value in its output"
    assert runner.check(program, 7.0, "a\nError: b\n", 1) == "exit 1: Error: b"
    assert runner.check(program._replace(options=options(tf="")), 7.0, printed, 0) == "ran"


def test_small_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOW_DATA", str(tmp_path / "whole"))
    whole = tmp_path / "whole/mnist"
    whole.mkdir(parents=True)
    for name, magic, sizes in zip(data.FILES, (2051, 2049) * 2, ((28, 28), ()) * 2):
        count = 5010 if name.startswith("train") else 12
        body = bytes(k % 251 for k in range(count * (784 if sizes else 1)))
        (whole / f"{name}.gz").write_bytes(gzip.compress(
            struct.pack(f">{2 + len(sizes)}I", magic, count, *sizes) + body))
    given = data.give({"mnist": "3 5"}, tmp_path, tmp_path)
    from pyflow.examples.tutorials.mnist import input_data
    small = input_data.read_data_sets(given["PYFLOW_DATA"])
    assert (small.train.num_examples, small.test.num_examples) == (3, 5)
    assert small.train.labels.tolist() == [k % 251 for k in range(5000, 5003)]


def test_the_list():
    commits, listed = runner.programs()
    assert all(re.fullmatch("[0-9a-f]{40}( .+)?", commit) for commit in commits.values())
    assert len(commits) >= 10 and len(listed) >= 60 and len({p.name for p in listed}) == len(listed)
    for program in listed:
        options = program.options
        assert program.repository in commits, program
        assert re.compile(options["value"]).groups == 1, program
        assert set(options) <= KEYS and options["within"], program
        assert "until" not in options or re.compile(options["until"])
        assert "data" not in options or set(options["data"].split()[::2]) <= set(data.MAKERS)
    with_values = [p for p in listed if p.options["tf"]]
    assert len(with_values) >= 40 and len({p.repository for p in with_values}) >= 10


KEYS = {"arguments", "env", "make", "folder", "mnist", "data", "first", "until", "count", "value",
        "tf", "oracle", "within", "untrained"}


def test_tolerances_tell_trained_programs_from_untrained_ones():
    """`within` is at most half the way from TensorFlow's end value to the one it ends with when no
    optimizer changes a variable; where nothing is trained it is what rounding may do."""
    for program in (p for p in runner.programs()[1] if p.options["tf"]):
        wanted = statistics.median(float(v) for v in program.options["tf"].split())
        rounding = 1e-4 * max(1, abs(wanted))
        away = abs(wanted - float(program.options.get("untrained", wanted)))
        assert float(program.options["within"]) <= max(rounding, 0.5 * away), program


def test_results_are_judged_anew_from_what_was_printed(tmp_path, capsys):
    listed = [p for p in runner.programs()[1] if p.options["tf"]][:2]
    printed = tmp_path / "printed"
    printed.mkdir()
    for repository in {p.repository for p in listed}:
        (tmp_path / repository.replace("/", "+")).mkdir()
    args = types.SimpleNamespace(folder=tmp_path, judge=True, tf=None, untrained=False)
    for program, code in zip(listed, (0, 1)):
        (printed / f"pyflow_{program.short}.txt").write_text(f"[{code}, 1.5]\nlast line\n")
    said = [runner.tried(program, args) for program in listed]
    assert [s for _, s, _ in said] == ["no end value in its output", "exit 1: last line"]
    assert capsys.readouterr().out.count("FAIL        1.5 s") == 2
    assert runner.summary(said) == 1
    assert runner.summary([(listed[0], "ok", 1.0)] * 19 + said[:1]) == 0
    rows = runner.table(said, runner.programs()[0])
    assert f"## {listed[0].repository} at " in rows and "| exit 1: last line |" in rows


def test_an_interpreter_is_found_from_other_folders(monkeypatch, tmp_path):
    """A path as the Makefile gives it; a name on PATH."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "a-python"
    python.symlink_to(sys.executable)           # of an environment: a link that has to stay one
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for given in ("bin/a-python", "a-python", str(python)):
        assert runner._arguments(["--python", given]).python == str(python)
