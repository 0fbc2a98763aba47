"""Requests that are damaged: each must be answered, by a status that says whose fault it is.

    PYTHONSAFEPATH=1 python tests/serve/serving_fuzz.py --count 5000 --seed 1

Bodies of right requests have values exchanged, dropped and nested, and bytes changed; they are
asked with orjson and without, of a server that batches and of one that does not, and must get the
same status, and the same answer if it is 200.  Heads have bytes changed, and come in pieces.
Counts what came of it.  Fails for a status 500, an answer that is no JSON, answers that differ, a
request over TIME_LIMIT, and for requests or bytes that the server still counts at the end.
"""
import argparse
import collections
import copy
import json
import logging
import pathlib
import random
import select
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from pyflow.serving import json_text  # noqa: E402
from serving_models import TYPES, Served, write_zoo  # noqa: E402

TIME_LIMIT = 5.0
RIGHT = [
    ("predict", {"instances": [1.0, 2.5]}), ("predict", {"instances": [{"x": 1}]}),
    ("predict", {"inputs": {"x": [1e3, -0.0]}}),
    ("predict", {"signature_name": "pair", "instances": [{"a": [1, 2], "b": 3}] * 2}),
    ("predict", {"signature_name": "pair", "inputs": {"a": [[1, 2], [3, 4]], "b": [5, 6]}}),
    ("predict", {"signature_name": "text", "instances": ["a", {"b64": "YQ=="}, "é\u2028"]}),
    ("predict", {"signature_name": "checked", "inputs": [[1, 2], [3, 4]]}),
    ("predict", {"signature_name": "count", "inputs": 3}),
    ("predict", {"signature_name": "total", "inputs": [1, 2, 3]}),
    ("predict", {"signature_name": "types", "inputs": {t: [1, 0] if t != "bool" else [True]
                                                       for t in TYPES}}),
    ("classify", {"signature_name": "classify", "examples": [{"x": [1, 2]}]}),
    ("classify", {"signature_name": "scores", "examples": [{"a": 1}], "context": {"b": 2.5}}),
    ("classify", {"signature_name": "parsed", "examples": [{"x": [0.5, 2.0], "word": "a"}]}),
    ("regress", {"signature_name": "regress", "examples": [{"x": 1.0}, {"x": [2]}]}),
    ("regress", {"signature_name": "examples", "examples": [{"f": 1, "g": [0.5], "h": "t"}]}),
]
ODD = [None, True, False, 0, 1, -1, 0.5, 1e39, 1e308, 2 ** 31, 2 ** 63, 2 ** 64, -2 ** 63 - 1,
       10 ** 30, float("nan"), float("inf"), "", "1", "\ud800", "\0", [], [[]], [[], [1]], {},
       {"b64": ""}, {"b64": "?"}, {"b64": 1}, {"x": 1}, [1, [2]], [[[[1]]]], "pair", "none"]
BYTES = b'[]{}",:0123456789eE.-+\\untfNI \xff\x00'
ALLOWED = {200, 400, 404, 408, 413, 501}


def body(rng):
    """(method, bytes) of a right request that is made wrong, mostly."""
    method, request = rng.choice(RIGHT)
    request = copy.deepcopy(request)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _change(request, rng)
    data = json.dumps(request, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        data = _damaged(data, rng)
    return rng.choice((method, method, method, "predict", "classify", "regress")), data


def _change(value, rng):
    """One value in it, somewhere, becomes another one, goes, or comes twice."""
    while True:
        places = list(value) if isinstance(value, dict) else range(len(value))
        if not places:
            return
        at = rng.choice(places)
        below = value[at]
        if not isinstance(below, (dict, list)) or not below or rng.random() < 0.4:
            break
        value = below
    kind = rng.randrange(5)
    if kind == 0:
        del value[at]
    elif kind == 1:
        value[at] = [value[at]]
    elif kind == 2 and isinstance(value, list):
        value.insert(at, value[at])
    elif kind == 2:
        value[rng.choice(("x", "inputs", "instances", "b64", ""))] = value[at]
    else:
        value[at] = copy.deepcopy(rng.choice(ODD))


def _damaged(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, n = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 8))
        kind = rng.randrange(4)
        if kind == 0:
            del data[at:at + n]
        elif kind == 1:
            data[at:at] = bytes(rng.choice(BYTES) for _ in range(n))
        elif kind == 2:
            data[at:at + n] = data[at:at + n][::-1]
        else:
            data[at:] = data[at:] * 2
    return bytes(data)


def ask_bodies(servers, rng, count, found):
    """Counts of statuses in `found`; AssertionError for what may not be."""
    for _ in range(count):
        method, data = body(rng)
        answers = []
        for parser in dict.fromkeys((json_text.orjson, None)):
            kept, json_text.orjson = json_text.orjson, parser
            try:
                for server in servers:
                    began = time.monotonic()
                    answers.append(server.ask("POST", f"/v1/models/zoo:{method}", data,
                                              {"x-timeout-ms": "4000"}))
                    assert time.monotonic() - began < TIME_LIMIT, data
            finally:
                json_text.orjson = kept
        status, answer = answers[0]
        assert status in ALLOWED, (status, answer, data)
        assert (status == 200) == ("error" not in answer), (answer, data)
        for other in answers[1:]:
            assert other[0] == status and (status != 200 or repr(other) == repr(answers[0])), (
                answers, data)
        found[status] += 1


def ask_heads(server, rng, count, found):
    """The same for heads: each its own connection, answered or closed or left waiting."""
    sockets = {}
    for _ in range(count):
        method, request = rng.choice(RIGHT)
        data = json.dumps(request).encode()
        head = (b"POST /v1/models/zoo:%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                b"X-Timeout-Ms: 300\r\nContent-Length: %d\r\n\r\n" % (method.encode(), len(data)))
        sent = (_damaged(head, rng) if rng.random() < 0.6 else head) + data
        sock = socket.create_connection(("127.0.0.1", server.port))
        sockets[sock] = [sent, b""]
        at = rng.randrange(len(sent))
        try:
            sock.sendall(sent[:at])
            sock.sendall(sent[at:])
        except ConnectionError:
            pass                        # refused before it was whole
    end = time.monotonic() + 0.5
    while sockets and time.monotonic() < end:
        for sock in select.select(list(sockets), [], [], 0.1)[0]:
            try:
                part = sock.recv(65536)
            except ConnectionError:
                part = b""
            sockets[sock][1] += part
            if not part:
                _judge(*sockets.pop(sock), found)
                sock.close()
    for sock, (sent, got) in sockets.items():
        _judge(sent, got, found)
        sock.close()


def _judge(sent, got, found):
    if not got:
        found["none"] += 1
        return
    status = int(got[9:12])
    assert got.startswith(b"HTTP/1.") and status in ALLOWED | {100, 405, 415}, (sent, got)
    found[f"head {status}"] += 1


def run(servers, rng, bodies, heads):
    found = collections.Counter()
    ask_bodies(servers, rng, bodies, found)
    for begin in range(0, heads, 50):
        ask_heads(servers[0], rng, min(50, heads - begin), found)
    end = time.monotonic() + 5
    while any(s.app._requests or s.app._held for s in servers) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(s.app._requests or s.app._held for s in servers)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        write_zoo(pathlib.Path(folder) / "1")
        with Served({"zoo": folder}) as plain, Served({"zoo": folder}, max_batch=8,
                                                      allowed_sizes=(4, 8)) as batched:
            found = run([plain, batched], random.Random(args.seed), args.count, args.count // 5)
    print(f"{args.count} bodies, {args.count // 5} heads: " + ", ".join(
        f"{status}: {n}" for status, n in sorted(found.items(), key=str)))


if __name__ == "__main__":
    main()
