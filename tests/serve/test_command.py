"""python -m pyflow serve: in a process of its own, told to end, killed, started again; what it says
where it cannot begin; models that are a file."""
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from quiet import clock

pytest.importorskip("httptools")
pytest.importorskip("uvicorn")

import pyflow as tf  # noqa: E402
from pyflow.tools import command, serve  # noqa: E402
from serving_models import Served, ask, body, write_half, write_zoo  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    write_zoo(made / "zoo" / "1")
    write_half(made / "half", 2.0)
    return made


@contextlib.contextmanager
def started(*arguments):
    """(process, port) of a server that answers."""
    process = subprocess.Popen([sys.executable, "-P", "-m", "pyflow", "serve",
                                *map(str, arguments)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        yield process, int(re.match(r"http://127\.0\.0\.1:(\d+)/v1/models/\w+:predict ", line)[1])
    finally:
        process.kill()
        process.communicate()


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=30)


def in_flight(port, turns):
    """A connection whose request, so many turns of a loop, has begun."""
    connection = connect(port)
    connection.request("POST", "/v1/models/zoo:predict", body(signature_name="count", inputs=turns))
    time.sleep(0.1)
    return connection


def test_killed_and_told_to_end(folder):
    """kill -9 with requests running: the next start answers at the same address. SIGTERM: what runs
    is answered, nothing new is taken, status 0."""
    with started("--model", f"zoo={folder / 'zoo'}", "--port", 0) as (process, port):
        cut = [in_flight(port, 2_000_000_000) for _ in range(3)]
        assert ask(connect(port), "GET", "/healthz") == (200, {"status": "ok"})
        process.kill()
        for connection in cut:
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                connection.getresponse()
    with started(folder / "zoo", "--port", port, "--label", "best=1") as (process, again):
        assert again == port
        assert ask(connect(port), "POST", "/v1/models/zoo/labels/best:predict",
                   {"instances": [1.0]}) == (200, {"predictions": [2.5]})
        kept, turns = connect(port), 3_000_000
        assert ask(kept, "GET", "/healthz")[0] == 200
        running = in_flight(port, turns)
        process.send_signal(signal.SIGTERM)
        answer = running.getresponse()
        assert (answer.status, json.loads(answer.read())) == (200, {"outputs": turns})
        assert process.wait(20) == 0
        with pytest.raises(ConnectionError):
            connect(port).connect()


def test_told_to_end_as_it_begins(folder):
    """The signal comes when the address has just been printed: it is not lost."""
    with started(folder / "half", "--port", 0) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_deadline_over_http(folder):
    with Served({"zoo": folder / "zoo"}, limits={"poll": 0.0, "timeout": 0.2}) as server:
        for headers, most in (({}, 5), ({"x-timeout-ms": "20.5"}, 5),
                              ({"X-Timeout-Ms": "999999"}, 5)):
            began = clock()
            status, found = server.ask("POST", "/v1/models/zoo:predict", {
                "signature_name": "count", "inputs": 2_000_000_000}, headers)
            assert status == 504 and re.search("deadline|Timed out", found["error"]), found
            assert clock() - began < most
        assert server.ask("POST", "/v1/models/zoo:predict", {"instances": [1]})[0] == 200


def test_no_more_requests_than_there_is_room_for(folder):
    """One runs, one waits, the third is refused at once, to come again."""
    with Served({"zoo": folder / "zoo"}, limits={"poll": 0.0, "queue": 1, "timeout": 1.0},
                concurrency=1) as server:
        waiting = [in_flight(server.port, 2_000_000_000) for _ in range(2)]
        connection = connect(server.port)
        connection.request("POST", "/v1/models/zoo:predict", body(instances=[1.0]))
        answer = connection.getresponse()
        assert answer.status == 503 and answer.headers["retry-after"] == "1"
        assert b"2 requests are waiting or running" in answer.read()
        assert server.ask("GET", "/healthz")[0] == 200
        assert [c.getresponse().status for c in waiting] == [504, 504]
        assert server.ask("POST", "/v1/models/zoo:predict", {"instances": [1]})[0] == 200


def test_batches_over_http(folder):
    """Requests of many connections, one of them wrong, answered as each alone."""
    with Served({"zoo": folder / "zoo"}, max_batch=32, batch_timeout=0.02) as server:
        sizes, endpoint = [], server.app._models["zoo"].find()[1].endpoint("checked")
        run = endpoint.run
        endpoint.run = lambda arrays, timeout_ms=0: sizes.append(len(arrays[0])) or run(
            arrays, timeout_ms)
        kept = [connect(server.port) for _ in range(24)]
        for at, connection in enumerate(kept):
            x = b"NaN" if at == 7 else b"%d" % at
            connection.request("POST", "/v1/models/zoo:predict",
                               b'{"signature_name": "checked", "instances": [[%s, 1]]}' % x)
        found = [(c.getresponse(), c)[0] for c in kept]
        assert [answer.status for answer in found] == [400 if k == 7 else 200 for k in range(24)]
        for at, answer in enumerate(found):
            value = json.loads(answer.read())
            if at != 7:
                alone = run([np.float32([[at, 1]])])[0]
                np.testing.assert_allclose(value["predictions"], alone, rtol=1e-6)
        assert max(sizes) > 4


# ---------------------------------------------------------------- where it cannot begin
def said(capfd, *arguments):
    status = command.main(["serve", *map(str, arguments)])
    return status, capfd.readouterr().err


def test_what_cannot_be_served(folder, tmp_path, capfd):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"\x12\xff")
    (tmp_path / "graph.pb").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for arguments, reason in (
            ([tmp_path], "Cannot parse file .*saved_model.pb"),
            ([tmp_path / "empty"], "there is no saved_model.pb in it or in a folder below it"),
            ([tmp_path / "none"], "there is no saved_model.pb"),
            ([tmp_path / "graph.pb"], "is not a graph"),
            ([], "expected DIR, or --model NAME=DIR"),
            (["--model", "a"], "--model a: expected NAME=VALUE"),
            (["--model", "a=x", "--model", "a=y"], "two models have one name"),
            ([folder / "half", "--name", "a/b"], "model name 'a/b'"),
            ([folder / "half", "--label", "a=b"], r"expected \[NAME/\]LABEL=VERSION"),
            ([folder / "half", "--label", "no/a=1"], "of one of the models half"),
            ([folder / "half", "--tags", "train"], "tags .*'train'"),
            ([folder / "half", "--batch-sizes", "1,4"], "the last is 4, --max-batch is 1")):
        status, text = said(capfd, *arguments, "--port", 0)
        assert status == 1 and re.search(reason, text), (arguments, text)
        assert "Traceback" not in text


@pytest.mark.parametrize("option, value", [
    ("--max-body", "0"), ("--max-body", "1T"), ("--timeout", "-1"), ("--timeout", "nan"),
    ("--keep", "0"), ("--batch-sizes", "4,2"), ("--batch-sizes", "a"), ("--queue", "-1")])
def test_wrong_options(folder, capfd, option, value):
    with pytest.raises(SystemExit) as ended:
        command.main(["serve", str(folder / "half"), option, value])
    assert ended.value.code == 2 and f"argument {option}: expected" in capfd.readouterr().err


def test_an_address_that_is_taken(folder, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, text = said(capfd, folder / "half", "--port", taken.getsockname()[1])
    assert status == 1 and "Address already in use" in text


def test_without_uvicorn(folder, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, text = said(capfd, folder / "half")
    assert status == 1 and "pip install uvicorn httptools" in text


# ---------------------------------------------------------------- files
def test_files_of_models(tmp_path):
    """A frozen graph and an ONNX model, by the names of their tensors."""
    from onnx import TensorProto, helper
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.identity(x * 2.0, name="y")
        (tmp_path / "twice.pb").write_bytes(graph.as_graph_def().SerializeToString())
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2]) for name in "xy"]
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 13)])
    (tmp_path / "negative.onnx").write_bytes(model.SerializeToString())
    args = serve._parser().parse_args(["--model", "a=b"])
    paths = {"twice": tmp_path / "twice.pb", "negative": tmp_path / "negative.onnx"}
    with Served(paths, open_version=lambda path: serve._open(path, args)) as server:
        for name, factor in (("twice", 2.0), ("negative", -1.0)):
            assert server.ask("POST", f"/v1/models/{name}:predict", {"inputs": {"x": [[1, 2]]}}) \
                == (200, {"outputs": [[factor, 2 * factor]]})
            assert server.ask("GET", f"/v1/models/{name}")[0] == 200
    assert serve._name_of(str(tmp_path / "twice.pb")) == "twice"
