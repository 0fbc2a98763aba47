"""Requests joined into steps: what is joined, when, and that nobody's answer depends on others."""
import asyncio
import threading
import time

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.serving import batching, servable, tensors
from serving_models import write_zoo


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo") / "1"
    write_zoo(folder)
    found = servable.of_saved_model(folder)
    yield found
    found.close()


class Seen:
    """An endpoint that notes the shapes it was run with, then calls `step`."""

    batchable = True

    def __init__(self, step=lambda x: [x * 2.0], inputs=1):
        self.step, self.shapes = step, []
        self.inputs = [tensors.Spec(f"x{k}", dtypes.float32, (None,)) for k in range(inputs)]
        self.outputs = [tensors.Spec("y", dtypes.float32, (None,))]
        self.gate = threading.Event()
        self.gate.set()

    def run(self, arrays, timeout_ms=0):
        self.shapes.append(arrays[0].shape)
        self.gate.wait(10)
        return self.step(*arrays)


class Users:
    """A servable that counts."""

    now = most = 0

    def use(self):
        self.now += 1
        self.most = max(self.most, self.now)

    def release(self):
        self.now -= 1


def run(endpoint, requests, deadline=None, users=None, **options):
    """The outcomes of requests made at once: lists of arrays, or exceptions."""
    users = users or Users()

    async def all_of_them():
        runner = batching.Runner(batching.Batching(**options))
        try:
            until = None if deadline is None else time.monotonic() + deadline
            return await asyncio.gather(*[runner.run(users, endpoint, arrays, until)
                                          for arrays in requests], return_exceptions=True)
        finally:
            await asyncio.get_running_loop().run_in_executor(None, runner.close)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    found = asyncio.run(all_of_them())
    assert users.now == 0
    return found


def rows(*numbers):
    return [np.float32(numbers)]


def test_what_comes_at_once_is_joined_in_order():
    seen = Seen()
    found = run(seen, [rows(1), rows(2, 3), rows(4)], max_batch=8, concurrency=1)
    assert seen.shapes == [(4,)]
    assert [f[0].tolist() for f in found] == [[2], [4, 6], [8]]


def test_a_batch_is_full():
    """Whole requests only; what does not fit is the next batch; one larger than all runs alone."""
    seen = Seen()
    found = run(seen, [rows(1, 2), rows(3, 4), rows(5), rows(*range(9)), rows()], max_batch=4,
                concurrency=1)
    assert sorted(seen.shapes) == [(0,), (1,), (4,), (9,)]
    assert [f[0].tolist() for f in found[:3]] == [[2, 4], [6, 8], [10]]
    assert found[3][0].tolist() == [2.0 * k for k in range(9)]


def test_other_shapes_are_other_batches():
    seen = Seen()
    requests = [[np.full((1, k % 2 + 1), k, np.float32)] for k in range(6)]
    found = run(seen, requests, max_batch=8, concurrency=1)
    assert sorted(seen.shapes) == [(3, 1), (3, 2)]
    for k, (result,) in enumerate(found):
        assert result.tolist() == [[2.0 * k] * (k % 2 + 1)]


def test_inputs_of_different_lengths_are_not_joined():
    seen = Seen(lambda x, y: [x + y[:1]], inputs=2)
    found = run(seen, [[np.float32([1, 2]), np.float32([1])]] * 2, max_batch=8)
    assert seen.shapes == [(2,), (2,)] and [f[0].tolist() for f in found] == [[2, 3], [2, 3]]


def test_sizes_are_those_allowed():
    """Padded with the last row, which nobody gets."""
    padded = []
    seen = Seen(lambda x: [padded.append(x.tolist()) or x * 2.0])
    found = run(seen, [rows(1), rows(2), rows(3)], max_batch=8, allowed_sizes=(1, 4, 8),
                concurrency=1)
    assert padded == [[1, 2, 3, 3]] and [f[0].tolist() for f in found] == [[2], [4], [6]]
    assert run(seen, [rows(5, 6)], max_batch=8, allowed_sizes=(4, 8))[0][0].tolist() == [10, 12]


def test_the_first_of_a_batch_waits():
    """For as long as it is told, and no longer once the batch is full."""
    async def timed(numbers, after):
        seen, users = Seen(), Users()
        runner = batching.Runner(batching.Batching(2, 4, batch_timeout=0.15))
        began = time.monotonic()
        first = asyncio.ensure_future(runner.run(users, seen, rows(*numbers), None))
        await asyncio.sleep(0.03)
        second = asyncio.ensure_future(runner.run(users, seen, rows(*after), None))
        await asyncio.gather(first, second)
        runner.close()
        return time.monotonic() - began, seen.shapes
    took, shapes = asyncio.run(timed([1], [2]))
    assert shapes == [(2,)] and 0.14 < took
    took, shapes = asyncio.run(timed([1], [2, 3, 4]))
    assert shapes == [(4,)] and took < 0.14


def test_batches_grow_while_all_threads_are_busy():
    async def crowd():
        seen, users = Seen(), Users()
        runner = batching.Runner(batching.Batching(1, 64))
        seen.gate.clear()
        runs = [asyncio.ensure_future(runner.run(users, seen, rows(k), None)) for k in range(20)]
        await asyncio.sleep(0.02)
        runs += [asyncio.ensure_future(runner.run(users, seen, rows(k), None)) for k in range(20)]
        await asyncio.sleep(0.02)
        seen.gate.set()
        found = await asyncio.gather(*runs)
        runner.close()
        return found, seen.shapes
    found, shapes = asyncio.run(crowd())
    assert shapes == [(20,), (20,)]
    assert [f[0].tolist() for f in found] == 2 * [[2.0 * k] for k in range(20)]


# ---------------------------------------------------------------- models
@pytest.mark.parametrize("signature, exact", [(None, True), ("checked", False)])
def test_joined_answers_are_those_of_each_alone(zoo, signature, exact):
    """Element-wise bit for bit, products to rounding: other sizes are summed in other orders."""
    endpoint, rng = zoo.endpoint(signature), np.random.default_rng(3)
    width = () if signature is None else (2,)
    requests = [[rng.standard_normal((k % 5 + 1, *width)).astype(np.float32)] for k in range(60)]
    alone = [endpoint.run(arrays) for arrays in requests]
    for options in ({"max_batch": 16}, {"max_batch": 16, "allowed_sizes": (5, 16)},
                    {"max_batch": 200, "batch_timeout": 0.01}):
        for mine, (one,) in zip(run(endpoint, requests, **options), alone):
            if exact:
                assert mine[0].tobytes() == one.tobytes()
            else:
                np.testing.assert_allclose(mine[0], one, rtol=1e-6, atol=1e-6)


def test_texts_are_joined(zoo):
    endpoint = zoo.endpoint("text")
    requests = [[tensors.objects([b"%d" % k, b"\0\xff"])] for k in range(7)]
    for k, (same, same_bytes) in enumerate(run(endpoint, requests, max_batch=32)):
        assert same.tolist() == same_bytes.tolist() == [b"%d" % k, b"\0\xff"]


def test_a_wrong_request_does_not_fail_its_neighbours(zoo):
    endpoint = zoo.endpoint("checked")
    requests = [[np.float32([[k, np.nan if k in (2, 5) else 1]])] for k in range(8)]
    found = run(endpoint, requests, max_batch=8, concurrency=1)
    for k, outcome in enumerate(found):
        if k in (2, 5):
            assert isinstance(outcome, tf.errors.InvalidArgumentError)
            assert "no number" in outcome.message
        else:
            assert outcome[0].tolist() == endpoint.run(requests[k])[0].tolist()


def test_what_may_be_joined(zoo):
    """All first dimensions are open: a scalar, an unknown rank and a total are not."""
    found = {name: endpoint.batchable for name, endpoint in zoo.endpoints.items()}
    assert found == {"serving_default": True, "pair": True, "text": True, "checked": True,
                     "classify": True, "scores": True, "regress": True, "examples": True,
                     "parsed": True, "kept": True, "told": False,
                     "count": False, "types": False, "total": False}


def test_outputs_that_are_not_rows_after_all():
    """A rank was not known: each runs alone, and is not joined again."""
    seen = Seen(lambda x: [x[:1]])
    found = run(seen, [rows(1, 2), rows(3, 4)], max_batch=8, concurrency=1)
    assert [f[0].tolist() for f in found] == [[1], [3]] and seen.shapes == [(4,), (2,), (2,)]
    assert not seen.batchable


# ---------------------------------------------------------------- deadlines
def test_a_step_ends_at_its_deadline(zoo):
    """By the session's timeout: the thread is free again."""
    began = clock()
    endpoint = zoo.endpoint("count")
    found = run(endpoint, [[np.int32(2_000_000_000)]] * 3, deadline=0.1, concurrency=2)
    assert all(isinstance(f, tf.errors.DeadlineExceededError) for f in found)
    assert clock() - began < 5
    assert run(endpoint, [[np.int32(5)]], deadline=10)[0][0] == 5


def test_late_requests_are_answered_and_do_not_run():
    """Also where a step does not end: its thread is held, the answer is not."""
    async def late():
        seen, users = Seen(), Users()
        runner = batching.Runner(batching.Batching(1, 8))
        seen.gate.clear()
        began = time.monotonic()
        runs = [asyncio.ensure_future(runner.run(users, seen, rows(1), began + 0.05))]
        await asyncio.sleep(0.01)
        runs += [asyncio.ensure_future(runner.run(users, seen, rows(2), began + 0.1))
                 for _ in range(2)]
        found = await asyncio.gather(*runs, return_exceptions=True)
        took = time.monotonic() - began
        seen.gate.set()
        await asyncio.get_running_loop().run_in_executor(None, runner.close)
        await asyncio.sleep(0.01)
        return found, took, seen.shapes, users.now
    found, took, shapes, users = asyncio.run(late())
    assert all(isinstance(f, tf.errors.DeadlineExceededError) for f in found)
    assert took < 2 and shapes == [(1,)] and users == 0


def test_a_batch_has_its_last_deadline():
    asked = []
    seen = Seen()
    seen.run = lambda arrays, timeout_ms=0: asked.append(timeout_ms) or [arrays[0]]

    async def two():
        runner, users = batching.Runner(batching.Batching(1, 8)), Users()
        now = time.monotonic()
        await asyncio.gather(runner.run(users, seen, rows(1), now + 5),
                             runner.run(users, seen, rows(2), now + 50))
        await asyncio.gather(runner.run(users, seen, rows(1), now + 5),
                             runner.run(users, seen, rows(2), None))
        runner.close()
    asyncio.run(two())
    assert 45_000 < asked[0] <= 50_000 and asked[1] == 0
