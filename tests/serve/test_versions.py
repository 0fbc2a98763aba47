"""Versions of a model: which serves, new ones, damaged ones, deleted ones; and under load."""
import asyncio
import concurrent.futures
import http.client
import os
import shutil
import threading
import time

import pytest

import pyflow as tf
from pyflow.serving import models, servable
from serving_models import Served, write_half


class Watched:
    """A ServedModel that is looked at when it is told to be."""

    def __init__(self, path, **options):
        self.loads = []
        self.model = models.ServedModel("half", path, self._open, **options)
        self._loader = concurrent.futures.ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop()

    def _open(self, path):
        self.loads.append(os.path.basename(path))
        return servable.of_saved_model(path)

    def look(self):
        """{version: state} after a look at the folder."""
        self._loop.run_until_complete(self.model.refresh(self._loader))
        self.finish(int)
        return {int(v["version"]): v["state"]
                for v in self.model.status()["model_version_status"]}

    def finish(self, call):
        """Calls, and waits for what it lets run."""
        async def once():
            call()
            await self._loop.run_in_executor(self._loader, int)
            await asyncio.sleep(0)
        self._loop.run_until_complete(once())

    def answer(self, **which):
        version, found = self.model.find(**which)
        return version, found.endpoint(None).run([[0.0]])[0].tolist()


@pytest.fixture
def half(tmp_path):
    write_half(tmp_path / "half" / "1", 1.0)
    return tmp_path / "half"


def test_the_newest_serves_and_the_older_one_ends(half):
    watched = Watched(half)
    assert watched.look() == {1: "AVAILABLE"} and watched.answer() == (1, [1.0])
    write_half(half / "3", 3.0)
    assert watched.look() == {3: "AVAILABLE", 1: "END"} and watched.answer() == (3, [3.0])
    write_half(half / "2", 2.0)
    assert watched.look()[3] == "AVAILABLE" and watched.loads == ["1", "3"]
    with pytest.raises(tf.errors.NotFoundError, match="does not serve version 1; it serves 3"):
        watched.model.find(1)


def test_more_than_one_serves(half):
    for number in (2, 3):
        write_half(half / str(number), number)
    watched = Watched(half, keep=2, labels={"old": 2})
    assert watched.look() == {3: "AVAILABLE", 2: "AVAILABLE"}
    assert watched.answer(label="old") == (2, [2.0]) and watched.answer() == (3, [3.0])


def test_a_damaged_version_changes_nothing(half):
    """It says why, is tried again when its files change, and then serves."""
    watched = Watched(half)
    watched.look()
    shutil.copytree(half / "1", half / "2")
    data = next((half / "2" / "variables").glob("*.data*"))
    whole = data.read_bytes()
    data.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    for _ in range(3):
        assert watched.look() == {2: "END", 1: "AVAILABLE"} and watched.answer() == (1, [1.0])
    assert watched.loads == ["1", "2"]
    [status] = watched.model.status(2)["model_version_status"]
    assert status["status"]["error_code"] == "DATA_LOSS", status
    assert data.name in status["status"]["error_message"]
    data.write_bytes(whole)
    assert watched.look() == {2: "AVAILABLE", 1: "END"} and watched.loads == ["1", "2", "2"]


@pytest.mark.parametrize("damage", ["no model", "a graph cut off", "no variables", "no signature",
                                    "another op"])
def test_versions_that_cannot_serve(half, damage):
    watched = Watched(half)
    watched.look()
    new = half / "2"
    shutil.copytree(half / "1", new)
    path = new / "saved_model.pb"
    graph = path.read_bytes()
    if damage == "no model":
        path.unlink()
    elif damage == "a graph cut off":
        path.write_bytes(graph[:len(graph) // 2])
    elif damage == "no variables":
        shutil.rmtree(new / "variables")
    elif damage == "no signature":
        path.write_bytes(graph.replace(b"serving_default", b"serving_defau\xfft"))
    else:
        path.write_bytes(graph.replace(b"AddV2", b"Add__").replace(b"\x03Mul", b"\x03Mu_"))
    states = watched.look()
    assert states == ({1: "AVAILABLE"} if damage == "no model" else {2: "END", 1: "AVAILABLE"})
    assert watched.answer() == (1, [1.0])


def test_deleting_the_newest_goes_back(half):
    write_half(half / "2", 2.0)
    watched = Watched(half)
    assert watched.look() == {2: "AVAILABLE"}
    shutil.rmtree(half / "2")
    assert watched.look() == {2: "END", 1: "AVAILABLE"} and watched.answer() == (1, [1.0])
    shutil.rmtree(half)
    assert watched.look()[1] == "AVAILABLE" and watched.answer() == (1, [1.0])
    write_half(half / "2", 5.0)
    assert watched.look()[2] == "AVAILABLE" and watched.answer() == (2, [5.0])


def test_a_version_in_use_stays_open(half):
    watched = Watched(half)
    watched.look()
    _, old = watched.model.find()
    old.use()
    write_half(half / "2", 2.0)
    assert watched.look() == {2: "AVAILABLE", 1: "UNLOADING"}
    assert old.endpoint(None).run([[2.0]])[0].tolist() == [2.0]

    watched.finish(old.release)
    assert watched.look() == {2: "AVAILABLE", 1: "END"}
    with pytest.raises(RuntimeError, match="closed"):
        old.endpoint(None).run([[2.0]])


def test_reload_under_load_fails_no_request(half):
    """Six versions come, one of them damaged, while eight clients ask: every answer is 200, and
    each client sees versions go up only."""
    options = {"limits": {"poll": 0.02}, "max_batch": 16, "concurrency": 2}
    with Served({"half": half}, **options) as server:
        stop, failures, seen = threading.Event(), [], [[] for _ in range(8)]

        def client(mine):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            while not stop.is_set():
                connection.request("POST", "/v1/models/half:predict", b'{"instances": [0, 2]}')
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 200:
                    failures.append(text)
                mine.append(text)
            connection.close()
        clients = [threading.Thread(target=client, args=(mine,)) for mine in seen]
        for thread in clients:
            thread.start()
        for number in range(2, 8):
            new = half.parent / "new"
            write_half(new, number)
            if number == 5:
                (new / "saved_model.pb").write_bytes(b"\x12\xff")
            os.rename(new, half / str(number))
            _until_it_serves(server, number if number != 5 else 4)
        stop.set()
        for thread in clients:
            thread.join()
        states = server.ask("GET", "/v1/models/half")[1]["model_version_status"]
    assert not failures, failures[:3]
    assert {s["version"]: s["state"] for s in states}["7"] == "AVAILABLE"
    assert [s["version"] for s in states if s["state"] == "AVAILABLE"] == ["7"]
    wanted = [b'{"predictions":[%d.0,%d.0]}' % (n, n + 1) for n in (1, 2, 3, 4, 6, 7)]
    assert {text for mine in seen for text in mine} == set(wanted)
    for mine in seen:
        assert [wanted.index(text) for text in mine] == sorted(map(wanted.index, mine))


def _until_it_serves(server, number):
    path = f"/v1/models/half/versions/{number}"
    for _ in range(500):
        status, found = server.ask("GET", path)
        if status == 200 and found["model_version_status"][0]["state"] == "AVAILABLE":
            return
        time.sleep(0.01)
    raise AssertionError(f"version {number} did not come: {server.ask('GET', '/v1/models/half')}")
