"""examples/label_image on classifiers of both formats that tell colours apart: a frozen GraphDef in
NHWC and an ONNX model in NCHW, and on images of several formats."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "label_image" / "label_image.py"
LABELS = ["red", "green", "blue"]
Image = pytest.importorskip("PIL.Image", reason="decoding images needs Pillow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """graph.pb, model.onnx, labels.txt and pictures."""
    made = tmp_path_factory.mktemp("label_image")
    (made / "labels.txt").write_text("\n".join(LABELS) + "\n", encoding="utf-8")
    (made / "graph.pb").write_bytes(graph_def())
    onnx = onnx_model()
    if onnx:
        (made / "model.onnx").write_bytes(onnx)
    for k, name in enumerate(LABELS):
        pixels = np.full((20, 30, 3), 40, np.uint8)
        pixels[..., k] = 200
        for kind in ("png", "jpg", "bmp", "gif"):
            Image.fromarray(pixels).save(made / f"{name}.{kind}")
    return made


def graph_def():
    """Mean colours in an NHWC graph with an input of unknown size, softmax inside."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, None, None, 3], name="input")
        tf.nn.softmax(tf.reduce_mean(x, [1, 2]) * 4.0, name="scores")
        return graph.as_graph_def().SerializeToString()


def onnx_model():
    """The same as logits of an NCHW model of 8x8 pixels; None without the onnx package."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return None
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
             helper.make_node("Flatten", ["pooled"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "colours", [x], [y]),
                              opset_imports=[helper.make_opsetid("", 13)])
    return model.SerializeToString()


def label_image(folder, model, image, *more, env=None):
    command = [sys.executable, "-P", SCRIPT, "--graph", folder / model, "--image", folder / image,
               *more]
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)


def test_without_pillow(folder, tmp_path):
    """Two lines: the node and what to install; where the ops run.  No traceback."""
    (tmp_path / "PIL.py").write_text("raise ImportError('as if there were none')\n", encoding="utf-8")
    done = label_image(folder, "graph.pb", "red.jpg", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    said = done.stderr.splitlines()
    assert done.returncode == 1 and len(said) == 2, done.stderr
    assert "pip install pillow" in said[0] and said[1].strip().startswith("on /job")


@pytest.mark.parametrize("image", ["red.jpg", "green.png", "blue.bmp", "green.gif"])
@pytest.mark.parametrize("model", ["graph.pb", "model.onnx"])
def test_names_the_colour(folder, model, image):
    if not (folder / model).exists():
        pytest.skip("making the ONNX model needs the onnx package")
    done = label_image(folder, model, image, "--labels", folder / "labels.txt")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[0].startswith(image.split(".")[0] + " ("), done.stdout
    assert sum(float(line.rsplit(" ", 1)[1]) for line in lines) == pytest.approx(1, abs=1e-3)


def test_channels_in_the_other_order(folder):
    done = label_image(folder, "graph.pb", "red.png", "--bgr", "--labels", folder / "labels.txt")
    assert done.stdout.startswith("blue (2): "), done.stderr


def test_what_cannot_be_read_is_told(folder):
    (folder / "two.txt").write_text("a\n" * 7, encoding="utf-8")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"nothing")
    for more, words in [
        (("graph.pb", "none.png"), "none.png"),
        (("graph.pb", "broken.png"), "decode"),
        (("graph.pb", "red.png", "--labels", folder / "two.txt"), "7 labels: expected 3"),
        (("labels.txt", "red.png"), "is not a graph"),
    ]:
        done = label_image(folder, *more)
        assert done.returncode == 1 and words in done.stderr.lower() + done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_check_lists_all_that_is_missing(folder):
    """python -m pyflow check names every op of an ONNX model without a converter at once."""
    helper = pytest.importorskip("onnx.helper", reason="making the ONNX model needs onnx")
    x = helper.make_tensor_value_info("x", 1, [1])
    nodes = [helper.make_node("Foo", ["x"], ["z"], name="f"),
             helper.make_node("Bar", ["z"], ["y"], domain="mine")]
    model = helper.make_model(helper.make_graph(nodes, "strange", [x], [x]), opset_imports=[
        helper.make_opsetid("", 13), helper.make_opsetid("mine", 1)])
    (folder / "strange.onnx").write_bytes(model.SerializeToString())
    for name, status, words in [("strange.onnx", 1, ["Foo of opset 13", "mine.Bar", "2 problems"]),
                                ("model.onnx", 0, ["nothing is missing"])]:
        command = [sys.executable, "-P", "-m", "pyflow", "check", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == status and all(w in done.stdout for w in words), done
