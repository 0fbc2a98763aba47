"""Steps of requests, alone or joined: dynamic batching along the first dimension.

    WAITING -> RUNNING [_start] -> ANSWERED [_deliver]
       \\___________\\-> LATE [_late], answered at its deadline whatever the step does

A request waits in a group of those whose arrays agree in all but the first dimension. A group is
ripe when it has `max_batch` rows or its first request has waited `batch_timeout`; ripe groups run,
the longest waiting first, while fewer than `concurrency` batches of the endpoint run. While they
wait for that, groups grow. (TensorFlow Serving: batching_session, with one queue a shape.)

Invariants
    1. A request's rows stand together and in order; its results are those rows of the outputs.
       Nothing is padded but, to the next of `allowed_sizes`, with copies of the last row.
    2. An error of a batch is nobody's: each of its requests runs again alone and gets its own.
    3. A batch has the latest deadline among its requests; each is answered at its own.
    4. `servable.release` is called once for each request that began to wait, when its step is over.

Threads: on the event loop's, but for `_work`, which runs on the runner's own and touches nothing
shared.

    runner = Runner(options)
    outputs = await runner.run(servable, endpoint, arrays, deadline=time.monotonic() + 1)
"""
import asyncio
import collections
import logging
import queue
import threading
import time
import weakref
from typing import NamedTuple

import numpy as np

from pyflow.framework import errors

_log = logging.getLogger("pyflow")
_TICK = 0.0005          # timers of event loops have a millisecond


class Batching(NamedTuple):
    """concurrency: steps at once. max_batch: rows of a batch; 1: none are made. batch_timeout:
    seconds that the first request of a batch waits for more. allowed_sizes: sizes of batches,
    ascending, the last being max_batch; empty: any."""

    concurrency: int = 2
    max_batch: int = 1
    batch_timeout: float = 0.0
    allowed_sizes: tuple = ()


class _Call:
    """One request's arrays, and where its outcome goes."""

    __slots__ = ("arrays", "rows", "deadline", "began", "waiter", "release")

    def __init__(self, arrays, rows, deadline, waiter, release):
        self.arrays, self.rows, self.deadline = arrays, rows, deadline
        self.began, self.waiter, self.release = time.monotonic(), waiter, release


class Runner:
    """Runs requests' steps on threads of its own, batched where an endpoint allows it."""

    def __init__(self, options):
        self.options = options
        self._jobs = queue.SimpleQueue()        # cheaper than an executor's futures
        self._threads = [threading.Thread(target=self._work_on, name=f"pyflow-step-{k}",
                                          daemon=True)      # an application that never began
                         for k in range(options.concurrency)]
        for thread in self._threads:
            thread.start()
        self._queues = weakref.WeakKeyDictionary()      # endpoint -> _Queue

    async def run(self, servable, endpoint, arrays, deadline):
        """The endpoint's outputs for `arrays`. deadline: of time.monotonic(), or None.
        DeadlineExceededError after it, else what the step raises."""
        loop = asyncio.get_running_loop()
        servable.use()
        call = _Call(arrays, _rows(endpoint, arrays), deadline, loop.create_future(),
                     servable.release)
        if 0 < call.rows <= self.options.max_batch > 1:
            waiting = self._queues.get(endpoint)
            if waiting is None:
                waiting = _Queue(loop, endpoint, self.options, self.submit)
                self._queues[endpoint] = waiting
            waiting.add(call)
        else:
            self.submit(loop, endpoint, [call], 0, None)
        if deadline is None:
            return await call.waiter
        timer = loop.call_later(max(0.0, deadline - time.monotonic()), _late, call)
        try:
            return await call.waiter
        finally:
            timer.cancel()

    def submit(self, loop, endpoint, calls, size, on_done):
        """Runs `calls` on a thread, as a batch of `size` rows unless that is 0; then
        on_done()."""
        self._jobs.put((loop, endpoint, calls, size, on_done))

    def _work_on(self):
        """A thread's life."""
        while (job := self._jobs.get()) is not None:
            loop, endpoint, calls, size, on_done = job
            loop.call_soon_threadsafe(_deliver, calls, _work(endpoint, calls, size), on_done)
            del job, endpoint, calls, on_done           # while it waits it keeps nothing alive

    def close(self):
        """Waits for what was submitted."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


def _rows(endpoint, arrays):
    """How many rows the arrays have, 0 if they cannot be joined with others'."""
    if not endpoint.batchable:
        return 0
    rows = len(arrays[0])
    return rows if all(len(a) == rows for a in arrays) else 0


def _late(call):
    if not call.waiter.done():
        waited = time.monotonic() - call.began
        call.waiter.set_exception(_deadline(f"no answer within {waited:.3f} s"))


def _deadline(text):
    return errors.DeadlineExceededError(None, None, f"deadline exceeded: {text}")


def _deliver(calls, outcomes, on_done):
    for call, outcome in zip(calls, outcomes):
        if not call.waiter.done():
            if isinstance(outcome, BaseException):
                call.waiter.set_exception(outcome)
            else:
                call.waiter.set_result(outcome)
        call.release()
    if on_done is not None:
        on_done()


# ---------------------------------------------------------------- on a thread of the runner

def _work(endpoint, calls, size):
    """An outcome a call: a list of arrays, or an exception."""
    if size and (len(calls) > 1 or size > calls[0].rows):
        try:
            return _joined(endpoint, calls, size)
        except errors.DeadlineExceededError as e:
            return [e] * len(calls)
        except Exception as e:  # noqa: BLE001  whoever caused it gets it below
            _log.debug("a batch of %d requests is run one by one: %s", len(calls), e)
    return [_alone(endpoint, call) for call in calls]


def _joined(endpoint, calls, size):
    arrays = [np.concatenate(parts + _padding(parts, size))
              for parts in map(list, zip(*[call.arrays for call in calls]))]
    results = endpoint.run(arrays, _timeout_ms([call.deadline for call in calls]))
    for spec, result in zip(endpoint.outputs, results):
        if not result.ndim or len(result) != size:
            endpoint.batchable = False
            raise errors.FailedPreconditionError(None, None, (
                f"output {spec.name!r} has shape {list(result.shape)} for {size} rows"))
    outcomes, begin = [], 0
    for call in calls:
        outcomes.append([result[begin:begin + call.rows] for result in results])
        begin += call.rows
    return outcomes


def _padding(parts, size):
    missing = size - sum(map(len, parts))
    return [np.repeat(parts[-1][-1:], missing, axis=0)] if missing else []


def _alone(endpoint, call):
    if call.waiter.done():              # it was late; nobody reads the outcome
        return []
    try:
        return endpoint.run(call.arrays, _timeout_ms([call.deadline]))
    except Exception as e:  # noqa: BLE001  its outcome
        return e


def _timeout_ms(deadlines):
    """Until the last of the deadlines; 0: without one."""
    if None in deadlines:
        return 0
    left = max(deadlines) - time.monotonic()
    if left <= 0:
        raise _deadline("it waited for a thread until then")
    return max(1, int(left * 1000))


# ---------------------------------------------------------------- what waits for a batch

class _Queue:
    """The requests that wait for one endpoint."""

    def __init__(self, loop, endpoint, options, submit):
        self._loop, self._options, self._submit = loop, options, submit
        self._endpoint = weakref.ref(endpoint)          # the key this queue is the value of
        self._groups = {}                               # sizes but the first -> deque of calls
        self._running = 0

    def add(self, call):
        key = tuple(array.shape[1:] for array in call.arrays)
        group = self._groups.setdefault(key, collections.deque())
        group.append(call)
        if self._is_ripe(group):
            self._start()
        elif len(group) == 1:
            self._look_later(call)

    def _look_later(self, first):
        wait = first.began + self._options.batch_timeout - time.monotonic()
        if wait > 0:
            self._loop.call_later(wait, self._start)
        else:
            self._loop.call_soon(self._start)

    def _is_ripe(self, group):
        options = self._options
        waited = time.monotonic() - group[0].began
        return (options.batch_timeout and waited + _TICK >= options.batch_timeout
                or sum(call.rows for call in group) >= options.max_batch)

    def _start(self):
        """Runs ripe groups while there are threads."""
        while self._running < self._options.concurrency:
            ripe = [key for key, group in self._groups.items()
                    if not self._options.batch_timeout or self._is_ripe(group)]
            if not ripe:
                return
            key = min(ripe, key=lambda k: self._groups[k][0].began)
            calls, size = self._take(key)
            if calls:
                self._running += 1
                self._submit(self._loop, self._endpoint(), calls, size, self._done)

    def _take(self, key):
        """(calls, rows) of the next batch of a group."""
        group, calls, size = self._groups[key], [], 0
        while group and size + group[0].rows <= self._options.max_batch:
            call = group.popleft()
            if call.waiter.done():                      # late already
                call.release()
                continue
            calls.append(call)
            size += call.rows
        if group:
            self._look_later(group[0])
        else:
            del self._groups[key]
        return calls, self._allowed(size)

    def _allowed(self, size):
        return next((n for n in self._options.allowed_sizes if n >= size), size)

    def _done(self):
        self._running -= 1
        self._start()
