"""Plugins that break the rules (broken/broken.c, one fault each): refused, reported or contained;
everything else works on.

Faults before the first kernel are tried twice: installed as a distribution in a new process, and
through load_op_library in this one.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor, plugins

HERE = pathlib.Path(__file__).resolve().parent
FAULTS = {
    "no_symbol": 1,
    "wrong_major": 2,
    "needs_newer": 3,
    "duplicate": 4,
    "no_schema": 5,
    "critical_flag": 6,
    "crash_at_load": 7,
    "crash_in_entry": 8,
    "start_fails": 9,
    "crash_in_start": 10,
    "no_tables": 11,
    "sound": 0,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """library("no_symbol"): the plugin with that fault, of its own id and op."""
    spec = importlib.util.spec_from_file_location("conftest_of_abi", HERE / "conftest.py")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    folder = tmp_path_factory.mktemp("broken")

    def make(fault, ident=None, op=None, running=False):
        name = ident or fault
        target = folder / f"lib{name}.so"
        if not target.exists():
            flags = [
                f"-DFAULT={FAULTS[fault]}",
                f'-DID="test.{name}"',
                f'-DOP="{op or "broken." + name}"',
                "-Wno-unused-function",
            ]
            conftest.build(
                [HERE / "broken" / "broken.c"], target, *flags, *(["-DRUNNING"] if running else [])
            )
        return target

    return make


def works():
    """A normal graph runs."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        y = tf.reduce_sum(tf.nn.relu(x) * 2.0)
        with tf.Session(threads=2) as session:
            assert session.run(y, {x: [1, -1, 2]}) == 6


# ---------------------------------------------------------------- in this process


@pytest.mark.parametrize(
    "fault, message",
    [
        ("no_symbol", "does not export pyflow_plugin_v"),
        ("wrong_major", "ABI v8"),
        ("needs_newer", "99"),
        ("start_fails", "start function returned status 14"),
        ("no_tables", "returned no tables"),
    ],
)
def test_refused_by_name(library, fault, message):
    with pytest.raises(plugins.PluginError, match=message) as caught:
        plugins.load_library(str(library(fault)))
    assert fault in str(caught.value), "it says which plugin"
    assert not [k for k in _executor.kernels() if k["plugin"] == f"test.{fault}"]
    works()


@pytest.mark.parametrize(
    "fault, message",
    [("no_schema", "broken.Unheard"), ("critical_flag", "critical flag 0x40000000")],
)
def test_one_kernel_is_left_out_the_others_serve(library, fault, message, caplog):
    caplog.set_level("INFO", logger="pyflow")
    plugins.load_library(str(library(fault)))
    assert message in caplog.text and f"test.{fault}" in caplog.text
    assert twice(fault) == 6
    works()


def twice(fault):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(plugins.op(f"broken.{fault}")(tf.constant(3.0)))


def test_equal_kernels_are_no_fault_the_first_serves(library):
    """PF_DECLINE needs several kernels for one op; which one comes first is settled: priority,
    plugin id, own order."""
    plugins.load_library(str(library("duplicate")))
    assert twice("duplicate") == 6
    plugins.load_library(str(library("sound", "zz_other", "broken.duplicate")))
    assert [k["plugin"] for k in _executor.kernels("broken.duplicate")] == [
        "test.duplicate"
    ] * 2 + ["test.zz_other"]
    assert twice("duplicate") == 6
    works()


def test_the_same_id_twice(library, tmp_path):
    plugins.load_library(str(library("sound")))
    copy = shutil.copy(library("sound"), tmp_path / "libagain.so")
    with pytest.raises(plugins.PluginError, match="test.sound.*is loaded already"):
        plugins.load_library(str(copy))
    assert twice("sound") == 6
    works()


# ---------------------------------------------------------------- while running


@pytest.fixture(scope="module")
def running(library):
    plugins.load_library(str(library("sound", "running", running=True)))

    def run(name, value=1.0, ms=None):
        with tf.Graph().as_default(), tf.Session(threads=2) as session:
            y = plugins.op("broken." + name)(tf.constant(value), name="culprit")
            options = tf.RunOptions(timeout_in_ms=ms) if ms else None
            return session.run(y, options=options)

    yield run
    works()


def test_a_call_that_never_completes_is_named(running):
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"culprit \(broken.Never\)"):
        running("Never", ms=100)
    works()


def test_done_twice_is_told_and_ignored(running, capfd):
    for _ in range(3):
        assert running("DoneTwice") == 3
    assert "came twice" in capfd.readouterr().err
    works()


def test_done_after_an_error(running):
    with pytest.raises(tf.errors.UnavailableError, match="broken on purpose"):
        running("DoneAfterError")
    works()


def test_done_from_two_threads_at_once(running):
    for _ in range(50):
        assert running("DoneByTwoThreads") == 4
    works()


def test_done_when_the_step_is_over(running, capfd):
    with pytest.raises(tf.errors.DeadlineExceededError, match="culprit"):
        running("LateDone", ms=40)
    for _ in range(20):
        works()
    threading.Event().wait(0.3)
    works()


@pytest.mark.parametrize(
    "name, message",
    [
        ("PendingWithoutDefer", "PF_PENDING without calling defer"),
        ("ForgetsOutput", "without setting output 0"),
        ("StrangeOutput", "output 7 of 1"),
    ],
)
def test_misuse_is_an_error_with_the_nodes_name(running, name, message):
    with pytest.raises(tf.errors.InternalError, match=message) as caught:
        running(name)
    assert "culprit" in str(caught.value)
    works()


@pytest.mark.skipif(
    not _executor.checked_build(), reason="red zones are the checking build's: -Dchecks=true"
)
@pytest.mark.parametrize("n", [1, 16, 1000, 1024])
def test_a_write_past_an_output_is_seen(running, n):
    with pytest.raises(tf.errors.InternalError, match="past the end of output 0") as caught:
        running("WritesPastItsOutput", np.zeros(n, np.float32))
    assert "culprit" in str(caught.value)
    works()


# ---------------------------------------------------------------- installed


def install(site, name, binary, **description):
    """A made-up distribution whose plugin.json is made from the library, but for what
    `description` says."""
    package, info = site / name, site / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pyflow.plugins]\n{name} = {name}\n")
    (package / "__init__.py").write_text("raise SystemExit('no Python of a plugin runs')\n")
    shutil.copy(binary, package / f"lib{name}.so")
    op = f"broken.{name}"
    text = {
        "id": f"test.{name}",
        "version": "1",
        "abi": [plugins.HOST_ABI[0], plugins.HOST_ABI[1]],
        "min_minor": 0,
        "library": f"lib{name}.so",
        "preload": [],
        "ops": [{"name": op, "sig": "x: float -> y: float"}],
        "kernels": [{"op": op, "device": "CPU", "where": None, "needs": None}],
        "devices": [],
        **description,
    }
    (package / "plugin.json").write_text(json.dumps(text))


REPORT = """
    import json, time, pyflow as tf
    from pyflow import plugins
    start = time.perf_counter()
    found = {p.origin.partition(" ")[0]: p.problem for p in plugins.load_all()}
    x = tf.placeholder(tf.float32, [3])
    with tf.Session(threads=2) as session:
        assert session.run(tf.reduce_sum(tf.nn.relu(x) * 2.0), {x: [1, -1, 2]}) == 6
        sound = plugins.op("broken.sound")(tf.constant(3.0))
        assert session.run(sound) == 6
    print(json.dumps(found))
"""


def load_installed(site, cache, **variables):
    env = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep),
        XDG_CACHE_HOME=str(cache),
        **variables,
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REPORT)],
        env=env,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_installed_plugins_one_process_survives_them_all(library, tmp_path):
    site, cache = tmp_path / "site", tmp_path / "cache"
    crashing = ["crash_at_load", "crash_in_entry", "crash_in_start"]
    for name in [*crashing, "no_symbol", "wrong_major", "start_fails", "no_tables", "sound"]:
        install(site, name, library(name))
    install(site, "wrong_id", library("sound", "wrong_id"), id="test.somebody_else")
    install(
        site,
        "wrong_abi",
        library("sound", "wrong_abi"),
        abi=[plugins.HOST_ABI[0], plugins.HOST_ABI[1] + 1],
    )
    install(
        site,
        "wrong_ops",
        library("sound", "wrong_ops"),
        ops=[{"name": "broken.Other", "sig": "x: float -> y: float"}],
    )
    install(site, "wrong_kernels", library("sound", "wrong_kernels"), kernels=[])
    found = load_installed(site, cache)
    assert found["sound"] is None
    for name in crashing:
        assert "crashed with SIG" in found[name] and "plugins.json" in found[name]
    for name, word in {
        "no_symbol": "does not export",
        "wrong_major": "abi",
        "start_fails": "status 14",
        "no_tables": "no tables",
        "wrong_id": "test.somebody_else",
        "wrong_abi": "abi",
        "wrong_ops": "broken.Other",
        "wrong_kernels": "kernels",
    }.items():
        assert word in found[name], (name, found[name])
    verdicts = cache / "pyflow" / "plugins.json"
    kept = json.loads(verdicts.read_text())
    assert len([v for v in kept.values() if v]) == 3 and all(
        "pyflow_cpu" not in key for key in kept
    )
    before = verdicts.stat().st_mtime_ns
    assert load_installed(site, cache) == found, "the second process asks the file"
    assert verdicts.stat().st_mtime_ns == before, "and tries nothing"


def test_a_changed_library_is_tried_again(library, tmp_path):
    site, cache = tmp_path / "site", tmp_path / "cache"
    install(site, "sound", library("sound"))
    install(site, "mended", library("crash_at_load"))
    assert "SIGSEGV" in load_installed(site, cache)["mended"]
    shutil.copy(library("sound", "mended"), site / "mended" / "libmended.so")
    assert load_installed(site, cache)["mended"] is None
    (cache / "pyflow" / "plugins.json").write_text("{ not json")
    assert load_installed(site, cache)["mended"] is None, "a damaged file only costs another try"
    assert load_installed(site, tmp_path / "sound" / "x", PYFLOW_PLUGIN_PROBE="0")["mended"] is None
