"""python -m pyflow COMMAND."""
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.tools import command


def run(*args, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "pyflow", *map(str, args)],
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A frozen graph: y = x @ W."""
    path = tmp_path_factory.mktemp("tools") / "model.pb"
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.matmul(x, tf.constant([[1.0], [2.0]], name="W"), name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_help_and_wrong_commands():
    assert "explain" in run()
    assert "did you mean devices" in run("device", status=2)


def test_devices():
    text = run("devices")
    assert (
        "/device:CPU:0" in text
        and "pyflow_cpu" in text
        and "threads:" in text
        and "NOT USED" not in text
    )


def test_a_long_graph_is_told_in_short(tmp_path, capsys):
    """What it is comes first, then some of its nodes; --all has each."""
    from pyflow.tools import explain
    with tf.Graph().as_default() as graph:
        for k in range(200):
            tf.placeholder(tf.float32, name=f"x_{k}")
    path = tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "graph.pb", as_text=False)
    assert explain.main([path]) == 0
    short = capsys.readouterr().out.splitlines()
    assert short[0].startswith("# ") and len(short) < 100 and short[-1].endswith("more lines: --all")
    assert explain.main([path, "--all"]) == 0
    assert all(f"x_{k}" in told for told in [capsys.readouterr().out] for k in range(200))


def test_op():
    text = run("op", "MatMul")
    for part in ("transpose_a: bool = false", "product: T", "CPU", "gradient", "matmul_ops"):
        assert part in text, part
    assert "MatMul" in run("op", "Matmul", status=1)
    assert "lists all" in run("op", "xyzzy", status=1)
    assert "Conv2D" in run("op").split()


def test_explain(model):
    text = run("explain", model)
    assert "%y = MatMul(%x, %W)" in text and "# GraphDef, 3 nodes" in text
    assert run("explain", model, "--dot").startswith("digraph")
    assert "value, shape or type" in run("explain", "INVALID_ARGUMENT")
    assert "did you mean INVALID_ARGUMENT" in run("explain", "INVALID", status=2)
    assert "is not a graph" in run("explain", __file__, status=2)
    assert "No such file" in run("explain", "/nowhere.pb", status=2)


def test_explain_a_checkpoint(tmp_path):
    with tf.Graph().as_default():
        tf.Variable(np.arange(10, dtype=np.float32), name="v")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    text = run("explain", path)
    assert "v  float32[10]  mean 4.5" in text and "all CRCs match" in text
    assert text == run("explain", tmp_path)
    assert "SaveV2" in run("explain", path + ".meta")


def test_check(model, tmp_path):
    assert "nothing is missing" in run("check", model)
    from pyflow.framework import protos
    graph = protos.GraphDef.FromString(model.read_bytes())
    graph.node.add(name="a", op="MatMull", input=["x", "x"])
    graph.node.add(name="b", op="acme.Thing", input=["x"])
    graph.node.add(name="c", op="Softmax", input=["x"]).attr["T"].type = 7
    graph.versions.min_consumer = 99999
    bad = tmp_path / "bad.pb"
    bad.write_bytes(graph.SerializeToString())
    text = run("check", bad, status=1)
    for part in (
        "nearest known: MatMul",
        "acme.Thing is not known",
        "op Softmax has no kernel on CPU for T=string",
        "consumer of version 99999",
        "4 problems",
    ):
        assert part in text, part


def test_run(model, tmp_path):
    np.save(tmp_path / "x.npy", np.float32([[1, 1], [2, 0]]))
    assert "y:0 = [[3.]\n [2.]]" in run("run", model, "--feed", f"x:0={tmp_path}/x.npy")
    assert "[[5.]]" in run("run", model, "--feed", "x=[[1, 2]]", "--fetch", "y:0")
    run("run", model, "--feed", "x=[[1, 2]]", "--save", tmp_path / "out.npz")
    assert np.load(tmp_path / "out.npz")["y:0"] == [[5]]
    assert "[[5.]]" in run("run", model, "--feed", "x=[[1, 2]]", "--fetch", "y")
    text = run("run", model, "--feed", "x=[1, 2, 3]", status=1)
    assert "Cannot feed value of shape" in text and "made at " + str(model) in text
    assert "--feed NAME=VALUE" in run("run", model, status=1)
    assert "No such file" in run("run", model, "--feed", "x=nowhere.npy", status=1)


def test_bench():
    text = run("bench")
    assert "session.run" in text and "GFLOP/s" in text
    assert "at least 1" in run("bench", "--threads", "0", status=2)


def debug_output(level):
    code = """
        import numpy as np, pyflow as tf
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.add(x, 1.0)
        with tf.Session() as sess:
            sess.run(y, {x: np.arange(100)})
            sess.make_callable(y, [x])([1.0, 2.0])
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True,
                          capture_output=True, env=dict(os.environ, PYFLOW_DEBUG=str(level)))
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_debug_ladder():
    assert debug_output(0) == ""
    one, two, five = debug_output(1), debug_output(2), debug_output(5)
    assert "devices: CPU:0" in one and "pyflow_cpu" in one and " us, " not in one
    assert two.count(" us, ") == 2 and "Add" not in two
    assert "feed x:0 = float32[100] mean 49.5" in five or "mean 49.5" in five
    assert "result 0 = float32[2] [2.0, 3.0]" in five and "Add" in five and "'nodes'" in five


def test_version():
    built = f" (commit {tf.version.COMMIT})" if tf.version.COMMIT else ""
    assert run("--version") == f"pyflow {tf.pyflow_version}{built}\n"


def test_a_malformed_variable_is_a_line(monkeypatch):
    monkeypatch.setenv("PYFLOW_CPU_ISA", "foo")
    said = run("devices", status=2)
    assert said.startswith("PYFLOW_CPU_ISA='foo': expected baseline|avx2|avx512") and said.count("\n") == 1


def test_what_is_no_model(tmp_path):
    said = run("check", tmp_path / "missing.onnx", status=2)
    assert said == f"{tmp_path / 'missing.onnx'}: No such file or directory\n"
    text = run("explain", __file__, status=2).splitlines()
    assert text[0] == f"{__file__} is not a graph:" and len(text) == 5
    assert all(line.startswith("  as ") for line in text[1:])


def test_a_training_graph_is_not_run_to_all_its_ends(tmp_path):
    """Its ends are the optimizer's updates and the Saver, which would write a file."""
    path, saved = tmp_path / "train.meta", tmp_path / "saved"
    with tf.Graph().as_default():
        x = tf.placeholder_with_default(tf.ones([1, 2]), [None, 2], name="x")
        loss = tf.reduce_sum(tf.matmul(x, tf.get_variable("w", [2, 1])), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        saver = tf.train.Saver()
        tf.train.export_meta_graph(str(path), saver_def=saver.as_saver_def())
        said = run("run", path, "--feed", f"save/filename:0={saved}", status=1)
        assert "write variables or files" in said and "SaveV2 'save/SaveV2'" in said
    assert not list(tmp_path.glob("saved*"))
    with tf.Graph().as_default():
        x = tf.placeholder_with_default(tf.ones([1, 2]), [None, 2], name="x")
        with tf.control_dependencies([tf.assign(tf.Variable([0.0], name="v"), [1.0])]):
            tf.identity(x, name="after")
        tf.square(x, name="seen")
        tf.train.export_meta_graph(str(path))
    said = run("run", path, "--feed", "v/read=[0.0]")
    assert "seen:0 = [[1. 1.]]" in said and "after:0 =" not in said and "(Assign 'Assign')" in said


# Options and arguments that a command needs before a file.
BEFORE = {"convert": ["-o", "made.onnx"], "dump": ["-o", "made.npz"],
          "verify-resume": ["--dir", "made"]}


@pytest.mark.parametrize("name", command.COMMANDS)
def test_every_command_has_help_and_refuses_a_wrong_option(name, capsys):
    for words, status in ((["--help"], 0), (["--no-such-option", "x", "y"], 2)):
        with pytest.raises(SystemExit) as ended:
            sys.exit(command.main([name, *BEFORE.get(name, []), *words]))
        said = capsys.readouterr()
        assert ended.value.code == status, (name, words)
        assert f"usage: python -m pyflow {name}" in (said.err if status else said.out)
        if not status:
            assert "Threads:" not in said.out and len(said.out.split("\n\n")) >= 3, said.out


@pytest.mark.parametrize("name", ["explain", "check", "run", "convert", "trace", "summary", "dump",
                                  "compare"])
def test_files_that_are_nothing_known_are_a_line_and_status_2(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.pb").write_text("no graph\n")
    (tmp_path / "folder").mkdir()
    for path in ("nowhere.pb", "text.pb", "folder"):
        words = [name, *BEFORE.get(name, []), path] + [path] * (name == "compare")
        assert command.main(words) == 2, words
        said = capsys.readouterr()
        first = said.err.splitlines()[0]
        assert path in first and "Traceback" not in said.err and not said.out, said
        assert not list(tmp_path.glob("made*"))


# ---------------------------------------------------------------- what a user can cause

def child(*args, **how):
    """A command in a process of its own: (status, stdout, stderr)."""
    done = subprocess.run([sys.executable, "-m", "pyflow", *map(str, args)], capture_output=True,
                          text=True, timeout=120, errors="surrogateescape", **how)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command_", ["check", "explain", "run", "summary", "trace", "convert"])
def test_a_file_larger_than_any_graph_is_refused_by_its_size(command_, tmp_path, capfd):
    """5 GB, of which nothing is on the disk: no byte of it is read."""
    path = tmp_path / "huge.pb"
    with open(path, "wb") as file:
        file.truncate(5 * 10**9)
    rest = ["-o", str(tmp_path / "x.onnx")] if command_ == "convert" else []
    assert command.main([command_, str(path), *rest]) == 2
    said = capfd.readouterr().err
    assert "it has 5.0 GB, expected at most 2.1 GB" in said and len(said.splitlines()) == 1, said


def test_a_packed_trace_has_a_bound(tmp_path):
    import gzip

    from pyflow.framework import whole_files
    data = gzip.compress(b"[" + b" " * 10**6)
    assert len(whole_files.unpacked(data, "t", 10**7)) == 10**6 + 1
    for wrong, words in ((data, "it has more than 100,000 bytes unpacked"),
                         (data[:-20], "ends early"), (b"\x1f\x8bxx" * 9, "not gzip")):
        with pytest.raises(OSError, match=words):
            whole_files.unpacked(wrong, "t", 10**5 if wrong is data else 10**7)


def test_what_the_system_refuses_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "pyflow", "devices"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (
        2, "python -m pyflow devices: No space left on device\n")


def test_a_path_that_is_no_utf_8(tmp_path):
    path = os.fsencode(tmp_path) + b"/graph\xff.pb"
    with open(path, "wb") as file:
        file.write(b"\x0a\x03abc")
    for command_ in ("explain", "check", "run", "summary"):
        done = subprocess.run([sys.executable, "-m", "pyflow", command_, path], timeout=120,
                              capture_output=True)
        assert done.returncode == 2 and b"Traceback" not in done.stderr, done.stderr


def test_ctrl_c_is_one_line(tmp_path):
    """A model that runs for ever."""
    path = tmp_path / "endless.pb"
    with tf.Graph().as_default() as graph:
        tf.identity(tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 9, [tf.constant(0)]),
                    name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    process = subprocess.Popen([sys.executable, "-m", "pyflow", "run", path], text=True,
                               stderr=subprocess.PIPE, env={**os.environ, "PYFLOW_DEBUG": "1"})
    for line in process.stderr:             # the devices are told when the session begins
        if "CPU" in line:
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(20) == 130 and said.endswith("python -m pyflow run: interrupted\n")
    assert "Traceback" not in said


def test_a_program_fails_at_its_own_line(tmp_path):
    """`exec` says what the program raised from the program's first line on, as Python does."""
    (tmp_path / "p.py").write_text("def f():\n    raise KeyError('here')\nf()\n")
    status, _, said = child("exec", tmp_path / "p.py")
    lines = said.splitlines()
    assert status == 1 and lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith("p.py\", line 3, in <module>") and lines[-1] == "KeyError: 'here'"
    (tmp_path / "q.py").write_text("import sys; sys.exit(7)\n")
    assert child("exec", tmp_path / "q.py")[0] == 7
    (tmp_path / "r.py").write_text("def f(:\n")
    status, _, said = child("exec", tmp_path / "r.py")
    assert status == 1 and said.splitlines()[-1].startswith("SyntaxError") and "runpy" not in said


def test_json(model, tmp_path, capfd):
    def told(*words, status=0):
        assert command.main([*map(str, words), "--json"]) == status
        return json.loads(capfd.readouterr().out)
    devices = told("devices")
    assert "/device:CPU:0" in [device["name"] for device in devices["devices"]]
    assert any(p.get("id") == "pyflow.cpu" and p["kernels"] > 500 for p in devices["plugins"])
    assert told("check", model) == {"model": str(model), "nodes": 3, "problems": []}
    found = told("run", model, "--feed", "x=[[1.0, 2.0]]", "--repeat", 2, "--profile")
    assert found["outputs"] == {"y:0": {"dtype": "float32", "shape": [1, 1], "value": [[5.0]]}}
    assert found["repeat"]["steps"] == 2 and found["profile"]["steps"] == 1
    assert {row["op"] for row in found["profile"]["ops"]} >= {"MatMul"}
    assert told("run", model, "--feed", "x=[[NaN, 1e39]]")["outputs"]["y:0"]["value"] == [["NaN"]]
    found = told("op", "MatMul")
    assert found["inputs"] == ["a: T", "b: T"] and found["gradient"].split(":")[0].endswith(".py")
    assert "MatMul" in told("op")["ops"]
    with tf.Graph().as_default() as graph:
        node = tf.constant(1.0, name="c").op.node_def
        message = graph.as_graph_def()
    message.node.add().CopyFrom(node)
    message.node[-1].name, message.node[-1].op = "strange", "NoSuchOp"
    (tmp_path / "strange.pb").write_bytes(message.SerializeToString())
    found = told("check", tmp_path / "strange.pb", status=1)
    assert [p["nodes"] for p in found["problems"]] == [["strange"]]
