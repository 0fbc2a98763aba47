"""Versions, labels, status and metadata; wrong addresses; HTTP itself: limits, chunks, connections
that are cut or held, a hundred at once."""
import http.client
import json
import socket

import pytest

pytest.importorskip("httptools")
pytest.importorskip("uvicorn")

from serving_models import ask, body  # noqa: E402

MODEL = "/v1/models/zoo"


# ---------------------------------------------------------------- versions, status, metadata
def test_versions_and_labels(server):
    for path, first in (("", 3.5), ("/versions/1", 2.5), ("/versions/2", 3.5),
                        ("/labels/stable", 2.5), ("/VERSIONS/01", 2.5)):
        assert server.ask("POST", f"/v1/models/half{path}:predict", {"instances": [1.0]}) == (
            200, {"predictions": [first]})


def test_status(server):
    def version(number):
        return {"version": number, "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""}}
    assert server.ask("GET", MODEL) == (200, {"model_version_status": [version("7")]})
    assert server.ask("GET", "/v1/models/half")[1] == {
        "model_version_status": [version("2"), version("1")]}
    for path in ("/versions/1", "/labels/stable"):
        assert server.ask("GET", "/v1/models/half" + path)[1] == {
            "model_version_status": [version("1")]}
    assert server.ask("GET", "/healthz") == (200, {"status": "ok"})


def test_metadata(server):
    status, found = server.ask("GET", MODEL + "/versions/7/metadata")
    assert status == 200
    assert found["model_spec"] == {"name": "zoo", "signature_name": "", "version": "7"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    a = signatures["pair"]["inputs"]["a"]
    assert (a["dtype"], a["tensor_shape"]) == ("DT_FLOAT", {
        "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False})
    assert signatures["types"]["inputs"]["uint64"]["tensor_shape"]["unknown_rank"] is True
    assert signatures["text"]["inputs"]["words"]["dtype"] == "DT_STRING"
    assert signatures["count"]["outputs"]["n"]["tensor_shape"]["dim"] == []
    assert signatures["regress"]["method_name"] == "tensorflow/serving/regress"


@pytest.mark.parametrize("method, path, status, reason", [
    ("POST", "/v1/models/none:predict", 404, "no model 'none'; there are zoo"),
    ("GET", "/v1/models/n%20ne", 404, "no model 'n ne'"),
    ("POST", "/v1/models/half/versions/3:predict", 404, "version 3; it serves 1, 2"),
    ("POST", "/v1/models/half/labels/none:predict", 404, "no version label 'none'"),
    ("POST", "/v1/models/half/labels/next:predict", 404, "does not serve version 3"),
    ("GET", "/v1/models/half/versions/3", 404, "has no version 3"),
    ("GET", "/v1/models/half/versions/3/metadata", 404, "does not serve version 3"),
    ("GET", "/v1/models/half/versions/" + "9" * 40, 400, "is too large"),
    ("GET", "/v1/models/half/versions/x", 400, "Malformed request: GET"),
    ("GET", "/v1/models", 400, "Malformed request: GET"),
    ("GET", MODEL + ":predict", 400, "Malformed request: GET"),
    ("POST", MODEL, 400, "Malformed request: POST"),
    ("POST", MODEL + ":explain", 400, "Malformed request: POST"),
    ("GET", "/v2", 404, "nothing is at /v2"),
    ("GET", "/", 404, "nothing is at /"),
    ("PUT", MODEL, 405, "GET and POST are"),
    ("DELETE", MODEL, 405, "GET and POST are")])
def test_wrong_addresses(server, method, path, status, reason):
    found = server.ask(method, path, b'{"instances": [1]}' if method == "POST" else None)
    assert found[0] == status and reason in found[1]["error"], found


# ---------------------------------------------------------------- HTTP
def raw(server, *parts):
    """What comes back on a connection of its own, until it is closed or quiet for a moment."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.3) as sock:
        found = b""
        try:
            for part in parts:
                sock.sendall(part)
            while data := sock.recv(65536):
                found += data
        except (TimeoutError, ConnectionError):
            pass
        return found


HEAD = b"POST /v1/models/zoo:predict HTTP/1.1\r\nHost: x\r\n"


def test_large_bodies_are_not_read(server):
    """Refused by what they declare, and as soon as chunks are more; with room for a refusal."""
    found = raw(server, HEAD + b"Content-Length: 100001\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413 ") and b"more than 100000 bytes" in found
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    found = raw(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 7)
    assert found.startswith(b"HTTP/1.1 413 ")
    assert server.app._held == server.app._requests == 0


def test_bodies_in_chunks_and_after_continue(server):
    found = raw(server, HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                b'b\r\n{"instances\r\n', b'8\r\n": [1.0]\r\n1\r\n}\r\n0\r\n\r\n')
    assert found.endswith(b'{"predictions":[2.5]}')
    found = raw(server, HEAD + b"Expect: 100-continue\r\nContent-Length: 20\r\n"
                b"Connection: close\r\n\r\n", b'{"instances": [1.0]}')
    assert found.startswith(b"HTTP/1.1 100 ") and found.endswith(b'{"predictions":[2.5]}')


def test_two_requests_at_once_on_one_connection(server):
    one = HEAD + b"Content-Length: 18\r\n\r\n" + b'{"instances": [%d]}'
    found = raw(server, one % 1 + one % 2)
    assert found.index(b'{"predictions":[2.5]}') < found.index(b'{"predictions":[3.0]}')


@pytest.mark.parametrize("head, status", [
    (b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", b"415"),
    (b"Content-Length: x\r\n\r\n", b"400"),
    (b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", b"400"),
    (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", b"400"),
    (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    (b"Connection: close\r\nX-Timeout-Ms: soon\r\nContent-Length: 2\r\n\r\n{}", b"400"),
    (b"Connection: close\r\nX-Timeout-Ms: 0\r\nContent-Length: 2\r\n\r\n{}", b"400"),
    (b"X-Timeout-Ms: 40\r\nContent-Length: 2\r\n\r\n{", b"408")])
def test_wrong_heads(server, head, status):
    assert raw(server, HEAD + head).startswith(b"HTTP/1.1 " + status), head


def test_heads_have_an_end(server, monkeypatch):
    assert raw(server, HEAD + b"A: " + b"b" * 200_000) == b""
    assert raw(server, b"\x16\x03\x01\x02\x00\x01\x00\x01").startswith(b"HTTP/1.1 400 ")
    monkeypatch.setattr("pyflow.serving.protocol.HEAD_SECONDS", 0.05)
    for sent in (b"", HEAD):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            sock.sendall(sent)
            assert sock.recv(100) == b""


def test_a_client_that_goes_away(server):
    """Nothing is kept for it, and others are answered."""
    for sent in (HEAD + b"Content-Length: 90000\r\n\r\n{", HEAD[:30]):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(sent)
    assert server.ask("POST", MODEL + ":predict", {"instances": [1.0]}) == (
        200, {"predictions": [2.5]})
    assert raw(server) == b"" and server.app._held == server.app._requests == 0


def test_a_hundred_connections(server):
    kept = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=30) for _ in range(100)]
    for at, connection in enumerate(kept):
        connection.request("POST", MODEL + ":predict", body(instances=[float(at)]))
    for at, connection in enumerate(kept):
        answer = connection.getresponse()
        assert json.loads(answer.read()) == {"predictions": [at / 2 + 2]}
        assert ask(connection, "GET", "/healthz") == (200, {"status": "ok"})
        connection.close()
