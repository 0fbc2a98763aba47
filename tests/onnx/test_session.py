"""InferenceSession and what is around it, beside onnxruntime's recorded answers (session.json)."""
import base64
import gc
import json
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
import session_cases
from sweep_model import F, data, graph, model, node

import pyflow as tf
from pyflow.interop import onnxruntime as ort

RECORDED = json.loads(pathlib.Path(__file__).with_name("session.json").read_text("utf-8"))
MODELS = {name: base64.b64decode(text) for name, text in RECORDED["models"].items()}

# Where pyflow says something else, with the reason.
OTHERWISE = {
    "feed: an initializer": "not fed here: it would have to be an input of every step",
    "unknown op": "NotImplemented: pyflow keeps no list of ops that it lacks",
    "feed: other byte order": "onnxruntime reads the bytes as they lie: 1e-38 for 1",
}


@pytest.fixture(scope="module")
def ours():
    return session_cases.outcomes(ort, MODELS)


@pytest.mark.parametrize("case", [name for name in RECORDED["answers"] if name not in OTHERWISE])
def test_answers_are_onnxruntimes(case, ours):
    want, got = RECORDED["answers"][case], json.loads(json.dumps(ours[case]))
    if isinstance(want, dict) and "raises" in want:
        assert got["raises"] == want["raises"], got
        # onnxruntime's number and status, and the beginning of what it says of a feed
        told = want["says"].split(" : ")
        if told[0] == "[ONNXRuntimeError]":
            assert got["says"].split(" : ")[:3] == told[:3]
        if case.startswith("feed"):
            assert got["says"][:60] == want["says"][:60]
    else:
        assert got == want


def test_every_case_is_recorded(ours):
    assert set(ours) == set(RECORDED["answers"]) and set(OTHERWISE) <= set(ours)


def test_what_is_otherwise(ours):
    assert ours["feed: an initializer"]["says"].endswith("Invalid input name: b")
    assert ours["unknown op"]["raises"] == "NotImplemented" and "Nope" in ours["unknown op"]["says"]
    assert ours["feed: other byte order"] == ours["feed: plain"]


def test_packages_find_pyflow_where_they_import_onnxruntime(tmp_path):
    (tmp_path / "package.py").write_text(
        "import onnxruntime as rt\n"
        "from onnxruntime.capi import _pybind_state as C\n"
        "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
        "import importlib.util\n"
        "assert importlib.util.find_spec('onnxruntime') is not None\n"
        "assert C.InvalidArgument is InvalidArgument is rt.InvalidArgument\n"
        "Session = rt.InferenceSession\n")
    (tmp_path / "model.onnx").write_bytes(MODELS["strings"])
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, package, numpy as np\n"
        "s = package.Session('model.onnx', providers=['CPUExecutionProvider'])\n"
        "print(__name__, sys.argv[1:], s.run(None, {'s': np.array(['a'])})[0], package.rt.__version__)\n")
    said = subprocess.run(
        [sys.executable, "-m", "pyflow", "exec", "--onnxruntime", str(program), "--flag", "7"],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout == f"__main__ ['--flag', '7'] ['a'] {ort.__version__}\n"
    module = subprocess.run(
        [sys.executable, "-m", "pyflow", "exec", "--onnxruntime", "-m", "program", "x"],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert module.stdout == f"__main__ ['x'] ['a'] {ort.__version__}\n", module.stderr


@pytest.mark.parametrize("words, said", [
    (["--onnxruntime"], "expected a SCRIPT"), (["--onnxruntime", "-m"], "expected a SCRIPT"),
    (["--onnxruntime", "nowhere.py"], "no file nowhere.py"), (["x.py"], "no file x.py")])
def test_a_program_that_is_not_there(words, said, capsys):
    from pyflow.tools import command
    try:
        status = command.main(["exec", *words])
    except SystemExit as error:
        status = error.code
    assert status == 2 and said in capsys.readouterr().err


def test_onnxruntime_that_is_imported_already_is_not_replaced():
    said = subprocess.run(
        [sys.executable, "-c", "import sys, types; sys.modules['onnxruntime'] = "
         "types.ModuleType('onnxruntime')\nimport pyflow as tf\n"
         "tf.compat.install_as_onnxruntime()"], capture_output=True, text=True, check=False)
    assert "RuntimeError: onnxruntime is imported already" in said.stderr


def test_a_provider_that_is_not_there_is_warned_of():
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available"):
        session = ort.InferenceSession(MODELS["plain"], providers=[
            ("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_memory_is_shared_by_dlpack():
    held = np.zeros(4, np.float32)
    value = ort.OrtValue.from_dlpack(held)
    held[1] = 5
    assert value.numpy()[1] == 5 and np.from_dlpack(value)[1] == 5
    assert ort.OrtValue.ortvalue_from_numpy(held).data_ptr() == held.ctypes.data
    del held
    gc.collect()
    assert value.numpy()[1] == 5


def test_an_output_goes_where_it_is_bound_or_is_refused():
    session = ort.InferenceSession(MODELS["plain"])
    bound = session.io_binding()
    bound.bind_cpu_input("x", session_cases.X)
    bound.bind_cpu_input("i", session_cases.I)
    room = ort.OrtValue.ortvalue_from_shape_and_type([2, 2, 3], np.float32)
    bound.bind_ortvalue_output("y", room)
    session.run_with_iobinding(bound)
    np.testing.assert_array_equal(room.numpy(), session_cases.X + 1)
    bound.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32))
    with pytest.raises(ort.InvalidArgument, match=r"'y' is float32\(2, 2, 3\), bound is float32\(2,\)"):
        session.run_with_iobinding(bound)
    with pytest.raises(ort.Fail, match="'cuda' is not there"):
        bound.bind_output("y", "cuda")


def test_profiling_writes_the_nodes_of_every_run(tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = ort.InferenceSession(MODELS["plain"], options)
    for _ in range(3):
        session.run(None, {"x": session_cases.X, "i": session_cases.I})
    events = json.loads(pathlib.Path(session.end_profiling()).read_text("utf-8"))
    runs = [event for event in events if event["name"] == "model_run"]
    assert len(runs) == 3 and [e["ts"] for e in runs] == sorted(e["ts"] for e in runs)
    assert sum(event["cat"] == "Node" for event in events) >= 3


def test_threads_share_a_session():
    session, failed = ort.InferenceSession(MODELS["plain"]), []

    def work(k):
        for n in range(1, 40):
            x = np.full([n, 2, 3], k, np.float32)
            y, = session.run(["y"], {"x": x, "i": session_cases.I})
            if y.shape != x.shape or (y != k + 1).any():
                failed.append((k, n))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_run_async_calls_back():
    session, done, got = ort.InferenceSession(MODELS["plain"]), threading.Event(), []

    def back(results, data, said):
        got.append((results, data, said))
        done.set()
    session.run_async(["y"], {"x": session_cases.X, "i": session_cases.I}, back, "mine")
    assert done.wait(30)
    (results, data, said), = got
    assert data == "mine" and said == "" and (results[0] == session_cases.X + 1).all()


def test_the_interface_is_read_only_when_it_is_asked_for():
    said = subprocess.run(
        [sys.executable, "-c", "import sys, pyflow\nfrom pyflow.interop import onnx\n"
         "print('pyflow.interop.onnxruntime' in sys.modules)\nonnx.InferenceSession\n"
         "print('pyflow.interop.onnxruntime' in sys.modules)"], capture_output=True, text=True,
        check=True)
    assert said.stdout == "False\nTrue\n"
    assert tf.compat.install_as_onnxruntime.__doc__


def session_of(nodes, inputs, arrays=None):
    return ort.InferenceSession(model(graph(nodes, inputs, [("y",)], arrays or {}),
                                              {"": 17}))


@pytest.mark.parametrize("value, raised", [
    (None, "Fail"), ("a", "RuntimeError"), (3, "RuntimeError"), ({}, "RuntimeError"),
    ((1, 2), "RuntimeError"), ([None], "InvalidArgument"), (np.array(None), "InvalidArgument")])
def test_what_is_no_array(value, raised):
    """onnxruntime 1.32's exceptions."""
    session = session_of([node("MatMul", ["x", "w"], ["y"])], [("x", F, ("n", 4))],
                         {"w": data(4, 3)})
    with pytest.raises(Exception) as caught:
        session.run(None, {"x": value})
    assert type(caught.value).__name__ == raised


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("known", [False, True])
def test_wrong_numbers_of_a_step_are_no_argument(op, gates, known):
    session = session_of([node(op, ["x", "w", "r"], ["y"], {"hidden_size": 3})],
                         [("x", F, ("t", "b", "i"))],
                         {"w": data(1, 3 * gates, 5), "r": data(1, 3 * gates, 3)})
    assert session.run(None, {"x": data(4, 0, 5)})[0].shape == (4, 1, 0, 3)
    for _ in range(3 if known else 1):      # shapes that come again are imported by themselves
        with pytest.raises(ort.errors.InvalidArgument):
            session.run(None, {"x": data(4, 2, 6)})


def test_an_input_whose_rank_nobody_says_takes_any():
    session = session_of([node("Neg", ["x"], ["y"])], [("x", F, None)])
    for shape in ((), (2,), (2, 3), (0,)):
        np.testing.assert_array_equal(session.run(None, {"x": data(*shape)})[0], -data(*shape))
