"""com.microsoft's ops give what onnxruntime gave (microsoft.npz), or NumPy where its CPU provider
does not run them."""
import json
import pathlib

import numpy as np
import pytest

from pyflow.interop.onnx import prepare

FILE = np.load(pathlib.Path(__file__).with_name("microsoft.npz"))
INDEX, DATA = json.loads(bytes(FILE["index"])), bytes(FILE["data"])
CASES = {entry["name"]: entry for entry in INDEX["cases"]}

# Of the largest answer, at least of 1.  Whole numbers are equal.
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}


def array(entry):
    dtype, shape, at, count = entry
    return np.frombuffer(DATA[at:at + count], dtype).reshape(shape)


def model_of(entry):
    at, count = entry["model"]
    return DATA[at:at + count]


def test_the_file_holds_the_cases():
    by = [entry["by"] for entry in CASES.values()]
    assert len({entry["op"] for entry in CASES.values()}) > 60
    assert by.count("onnxruntime") > 300 and set(by) == {"onnxruntime", "numpy"}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_onnxruntimes(name):
    entry = CASES[name]
    prepared = prepare(model_of(entry))
    outputs = prepared.run({n: array(a) for n, a in entry["feeds"].items()})
    prepared.close()
    assert len(outputs) == len(entry["outputs"])
    for got, want in zip(outputs, map(array, entry["outputs"])):
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        bound = TOLERANCE[want.dtype.name] * max(np.abs(want).max(), 1)
        np.testing.assert_allclose(got, want, rtol=0, atol=bound)
