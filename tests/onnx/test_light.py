"""The nine light networks with random weights give onnxruntime's recorded logits, to 1e-4."""
import pathlib

import numpy as np
import pytest

from pyflow.interop import onnx as pyflow_onnx

pytest.importorskip("onnx", reason="the test extra `onnx` is not installed")
from onnx_light import NAMES, image, random_model  # noqa: E402

ANSWERS = np.load(pathlib.Path(__file__).with_name("light_logits.npz"))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] if name in ("vgg19", "zfnet512", "bvlc_alexnet") else []) for name in NAMES])
def test_logits_are_onnxruntimes(name):
    expected = ANSWERS[name]
    assert expected.std() > 1           # the weights are random: logits differ
    prepared = pyflow_onnx.prepare(random_model(name))
    logits = prepared.run([image(None)])[-1].reshape(-1)
    prepared.close()
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()
