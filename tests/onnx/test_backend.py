"""ONNX's own backend suite: exactly the cases that known.json lists fail, 95 % and more pass.

The cases are those in the installed `onnx` package; nothing is downloaded."""
import collections

import pytest

onnx = pytest.importorskip("onnx", reason="the test extra `onnx` is not installed")
from onnx.backend.test.runner import Runner  # noqa: E402
import onnx_suite as suite  # noqa: E402

SHARDS = 12


@pytest.mark.parametrize("shard", range(SHARDS))
def test_node_cases(shard):
    check("node", list(suite.cases("node"))[shard::SHARDS])


@pytest.mark.parametrize("folder", ["simple", "pytorch-operator", "pytorch-converted"])
def test_model_cases(folder):
    check(folder, list(suite.cases(folder)))


@pytest.mark.parametrize("name", sorted(suite.cases("light")))
def test_light_models(name):
    check("light", [name])


def check(folder, names):
    """Runs cases; whatever is not as known.json says is an error."""
    known = suite.known()
    out = {name: kind for kind, listed in known["left out"].items() for name in listed}
    surprises = []
    for name in names:
        case, full = suite.cases(folder)[name], f"{folder}/{name}"
        model = suite.model_of(case)
        assert suite.left_out(model) == out.get(full), full
        if full in out:
            continue
        error = suite.run(case, model)
        if error is not None and full not in known["failing"]:
            surprises.append(f"{full} fails: {type(error).__name__}: {str(error)[:500]}")
        if error is None and full in known["failing"] and passes_again(case, model):
            surprises.append(f"{full} passes now: take it out of known.json")
    assert not surprises, "\n".join(surprises)


def passes_again(case, model):
    """It passes every time: ten unseeded random bits are the expected ones once in sixty runs."""
    return all(suite.run(case, model) is None for _ in range(4))


def test_known_json_is_about_cases_that_exist():
    known = suite.known()
    assert onnx.__version__.rpartition(".")[0] == known["onnx"], \
        "cases change with onnx's versions: install the test extra, or run onnx_suite.py --write"
    listed = [n for names in known["left out"].values() for n in names] + list(known["failing"])
    assert len(set(listed)) == len(listed)
    for full in listed:
        folder, _, name = full.partition("/")
        assert name in suite.cases(folder), full
    assert set(known["left out"]) <= set(suite.CLASSES)
    assert all(len(reason) > 20 for reason in known["failing"].values())


def test_ninety_five_percent_pass():
    known = suite.known()
    out = {name for names in known["left out"].values() for name in names}
    total = collections.Counter()
    for folder in suite.FOLDERS:
        tried = [n for n in suite.cases(folder) if f"{folder}/{n}" not in out]
        total["tried"] += len(tried)
        total["failing"] += sum(f"{folder}/{n}" in known["failing"] for n in tried)
    assert total["tried"] > 1800
    assert total["failing"] <= 0.05 * total["tried"]


def test_onnx_runner_takes_the_backend():
    """The package's own runner, as its documentation says, on a few cases."""
    from pyflow.interop import onnx as pyflow_onnx
    runner = Runner(pyflow_onnx.Backend, __name__)
    runner.include(r"^test_(relu|gemm_default_no_bias|loop11|single_relu_model)_cpu$")
    ran = 0
    for items in runner._filtered_test_items.values():
        for name, item in items.items():
            if name in ("test_relu_cpu", "test_gemm_default_no_bias_cpu", "test_loop11_cpu",
                        "test_single_relu_model_cpu"):
                item.func(None)
                ran += 1
    assert ran == 4
