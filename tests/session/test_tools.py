"""python -m pyflow COMMAND."""
import os
import subprocess
import sys
import textwrap

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
    assert run("--version") == f"pyflow {tf.pyflow_version}\n"


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
