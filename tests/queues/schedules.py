"""Random schedules of calls on queues against a model in plain Python.

    python tests/queues/schedules.py --count 1000000 --seed 1
    python tests/fuzz/sanitize.py thread --script ../queues/schedules.py --count 100000

A schedule begins enqueues, dequeues of one or many, closes and sizes as steps without a thread of
their own, one after another on a pool of one worker, and cancels some that wait; each has to say
what the model says, and what the model leaves waiting has to wait.  With --threads the pool has
several workers and the order is left open: then every element that went in comes out once.

The model is the text of the queues' documentation, not their code: elements are Python objects in a
list, calls are tried in order until none gets on.
"""
import argparse
import bisect
import random
import sys
import time

import numpy as np

import pyflow as tf
from pyflow import _executor
from pyflow.framework import errors

KINDS = ("FIFO", "Padding", "Shuffle", "Priority")
CONTAINER = "schedules"
M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85


def philox(key, high):
    """Philox4x32-10's words, as TensorFlow draws them: counters (0, high), (1, high), ..."""
    low = 0
    while True:
        x = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
        k = [key & 0xFFFFFFFF, key >> 32]
        for _ in range(10):
            a, b = M0 * x[0], M1 * x[2]
            x = [b >> 32 ^ x[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k[1], a & 0xFFFFFFFF]
            k = [k[0] + W0 & 0xFFFFFFFF, k[1] + W1 & 0xFFFFFFFF]
        yield from x
        low += 1


# ------------------------------------------------------------------------------- the model
class Call:
    """What one call wants, and what it got: None while it waits."""

    def __init__(self, op, values=(), wanted=0):
        self.op, self.values, self.wanted, self.left = op, list(values), wanted, wanted
        self.taken, self.answer = [], None


class Model:
    def __init__(self, kind, capacity, min_after, seeds):
        self.kind, self.capacity, self.min_after = kind, capacity, min_after
        self.items, self.closed, self.turn = [], False, 0
        self.putting, self.taking = [], []
        self.draws = philox(*seeds)

    def push(self, value):
        if self.kind == "Priority":
            bisect.insort(self.items, (value[0], self.turn, value))
            self.turn += 1
        else:
            self.items.append(value)

    def pop(self):
        if self.kind == "Shuffle":
            i = next(self.draws) % len(self.items)
            self.items[i], self.items[-1] = self.items[-1], self.items[i]
            return self.items.pop()
        return self.items.pop(0)

    def give_back(self, call):
        while call.taken:
            last = call.taken.pop()
            if self.kind == "Priority":
                bisect.insort(self.items, last)
            else:
                self.items.insert(len(self.items) if self.kind == "Shuffle" else 0, last)

    def put(self, call):
        """True if the call got on."""
        if self.closed:
            call.answer = ("cancelled", "already closed" if call.op == "close" else "is closed")
        elif call.op == "close":
            self.closed, call.answer = True, ("ok",)
        else:
            room = self.capacity - len(self.items)
            for value in call.values[:max(room, 0)]:
                self.push(value)
            call.values = call.values[max(room, 0):]
            if not call.values:
                call.answer = ("ok",)
            return room > 0
        return True

    def take(self, call):
        if self.closed and len(self.items) < call.left:
            said = f"(requested {call.left}, current size {len(self.items)})"
            self.give_back(call)
            if call.op != "up_to" or not self.items:
                call.answer = ("out of range", said)
                return True
            call.left = len(self.items)
        n = min(call.left, len(self.items) - (0 if self.closed else self.min_after))
        if n <= 0 or (self.kind == "Priority" and n < call.left <= self.capacity):
            return False
        for _ in range(n):
            call.taken.append(self.pop())
        call.left -= n
        if not call.left:
            call.answer = ("values", [t[2] if self.kind == "Priority" else t for t in call.taken])
        return True

    def try_first(self, calls, attempt):
        moved = False
        while calls:
            moved = attempt(calls[0]) or moved
            if calls[0].answer is None:
                break
            calls.pop(0)
        return moved

    def settle(self):
        while self.try_first(self.putting, self.put) | self.try_first(self.taking, self.take):
            pass

    def start(self, call):
        if call.op in ("enqueue", "enqueue_many") and not call.values or \
                call.op in ("many", "up_to") and not call.wanted:
            call.answer = ("values", []) if call.op in ("many", "up_to") else ("ok",)
        elif call.op == "cancel_all":
            self.closed, call.answer = True, ("ok",)
            for other in self.putting:
                other.answer = ("cancelled", "Enqueue operation was cancelled")
            self.putting = []
            self.settle()
        elif call.op == "size":
            call.answer = ("size", len(self.items))
        else:
            (self.putting if call.op in ("enqueue", "enqueue_many", "close")
             else self.taking).append(call)
            self.settle()
        return call

    def cancel(self, call):
        (self.putting if call in self.putting else self.taking).remove(call)
        call.answer = ("cancelled", "")
        if call.taken:
            self.give_back(call)
        self.settle()


# ------------------------------------------------------------------------------- real queues
class Real:
    """The plans of the calls on a queue."""

    def __init__(self, kind, capacity, min_after, seeds, threads):
        self.kind = kind
        with tf.Graph().as_default() as graph, graph.container(CONTAINER):
            queue = self.queue(kind, capacity, min_after, seeds)
            self.row = tf.placeholder(tf.int32, [None] if kind == "Padding" else [])
            self.rows = tf.placeholder(tf.int32, [None] * (2 if kind == "Padding" else 1))
            self.key, self.keys = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [None])
            self.n = tf.placeholder(tf.int32, [])
            keyed = kind == "Priority"
            one = [self.key, self.row] if keyed else [self.row]
            many = [self.keys, self.rows] if keyed else [self.rows]
            calls = {
                "enqueue": (queue.enqueue(one), one), "enqueue_many": (queue.enqueue_many(many), many),
                "dequeue": (queue.dequeue(), []), "many": (queue.dequeue_many(self.n), [self.n]),
                "up_to": (queue.dequeue_up_to(self.n), [self.n]), "close": (queue.close(), []),
                "cancel_all": (queue.close(cancel_pending_enqueues=True), []),
                "size": (queue.size(), [])}
            self.session = tf.Session(threads=threads)
            self.plans = {}
            for op, (fetch, feeds) in calls.items():
                feeds = {t: np.zeros([1 if d is None else d for d in t.shape.as_list()],
                                     t.dtype.as_numpy_dtype) for t in feeds}
                self.plans[op] = self.session._step_for(fetch, feeds)[0].compiled.plan

    @staticmethod
    def queue(kind, capacity, min_after, seeds):
        if kind == "FIFO":
            return tf.FIFOQueue(capacity, tf.int32, shapes=[[]])
        if kind == "Padding":
            return tf.PaddingFIFOQueue(capacity, tf.int32, shapes=[[None]])
        if kind == "Priority":
            return tf.PriorityQueue(capacity, tf.int32, shapes=[[]])
        queue = tf.RandomShuffleQueue(capacity, min_after, tf.int32, shapes=[[]], seed=seeds[1])
        assert queue.queue_ref.op.get_attr("seed") == seeds[0]
        return queue

    def start(self, call):
        return self.plans[call.op].start(self.feeds(call))

    def feeds(self, call):
        if call.op in ("many", "up_to"):
            return [np.int32(call.wanted)]
        if call.op == "enqueue":
            value = call.values[0]
            if self.kind == "Priority":
                return [np.int64(value[0]), np.int32(value[1])]
            return [np.array(value, np.int32)]
        if call.op == "enqueue_many":
            if self.kind == "Priority":
                return [np.array([v[0] for v in call.values], np.int64),
                        np.array([v[1] for v in call.values], np.int32)]
            if self.kind == "Padding":
                return [np.array(call.values, np.int32).reshape(len(call.values), len((call.values or [[]])[0]))]
            return [np.array(call.values, np.int32)]
        return []

    def said(self, step, call):
        """The answer of a step that is over, as the model writes it."""
        try:
            found = step.result(30)
        except TimeoutError:
            return ("waits",)
        except Exception as e:
            kind = {1: "cancelled", 10: "aborted", 11: "out of range"}.get(
                getattr(e, "code", None) or getattr(e, "error_code", None), type(e).__name__)
            return (kind, str(e))
        if call.op == "size":
            return ("size", int(found[0]))
        if call.op not in ("dequeue", "many", "up_to"):
            return ("ok",)
        found = [np.asarray(f).tolist() for f in found]
        if call.op == "dequeue":
            found = [[f] for f in found]
        if self.kind == "Priority":
            return ("values", list(zip(*found)))
        return ("values", found[0])


def padded(values):
    width = max(map(len, values), default=0)
    return [v + [0] * (width - len(v)) for v in values]


def agrees(said, answer, call, kind):
    if answer[0] in ("cancelled", "out of range"):
        return said[0] == answer[0] and answer[1] in said[1]
    if answer[0] == "values" and kind == "Padding":
        return said == ("values", padded(answer[1]))
    return said == answer


# ------------------------------------------------------------------------------- schedules
def a_value(rng, kind, number, width):
    if kind == "Padding":
        return [number] * width
    return (rng.randrange(5), number) if kind == "Priority" else number


def a_call(rng, kind, numbers):
    op = rng.choice(("enqueue", "enqueue", "enqueue_many", "dequeue", "dequeue", "many", "up_to",
                     "size") if rng.random() < 0.88 else ("close", "cancel_all"))
    if op in ("enqueue", "enqueue_many"):
        count = 1 if op == "enqueue" else rng.randrange(5)
        width = rng.randrange(4)
        return Call(op, [a_value(rng, kind, next(numbers), width) for _ in range(count)])
    return Call(op, wanted={"dequeue": 1, "many": rng.randrange(5), "up_to": rng.randrange(5)}.get(op, 0))


def until_waiting(n):
    """Until as many calls wait as the model says: one that was begun may still be on its way."""
    until = time.time() + 30
    while _executor.report_steps().count("not completed:") < n and time.time() < until:
        pass


def schedule(rng, real, model):
    """One schedule; the calls and steps that disagree with the model."""
    numbers, calls = iter(range(1, 1000)), []
    for _ in range(rng.randrange(1, 14)):
        waiting = [c for c, _ in calls if c.answer is None]
        if waiting and rng.random() < 0.15:
            call = rng.choice(waiting)
            next(s for c, s in calls if c is call).cancel()
            model.cancel(call)
        else:
            call = a_call(rng, real.kind, numbers)
            calls.append((call, real.start(call)))
            model.start(call)
        for other, step in calls[-1:] + [(c, s) for c, s in calls if c in waiting]:
            if other.answer is not None:
                step.wait(30)
        until_waiting(sum(c.answer is None for c, _ in calls))
    calls.append((model.start(Call("size")), real.plans["size"].start([])))
    wrong = []
    for call, step in reversed(calls):
        if call.answer is None:
            if step.done():
                wrong.append((call.op, "is over", real.said(step, call), "the model waits"))
        else:
            said = real.said(step, call)
            if not agrees(said, call.answer, call, real.kind):
                wrong.append((call.op, said, call.answer))
    _executor.Task().reset_containers([CONTAINER])
    for call, step in calls:
        if call.answer is None and (not step.wait(30) or real.said(step, call)[0] not in
                                    ("aborted", "cancelled")):
            wrong.append((call.op, "outlives its queue"))
    return wrong


def storm(rng, real):
    """Calls in no order: what went in comes out once, or is left."""
    numbers, calls = iter(range(1, 1000)), []
    for _ in range(rng.randrange(20, 60)):
        call = a_call(rng, real.kind, numbers)
        if call.op in ("close", "cancel_all", "size") and rng.random() < 0.8:
            continue
        calls.append((call, list(call.values), real.start(call)))
        if rng.random() < 0.1:
            rng.choice(calls)[2].cancel()
    for call, _, step in calls:
        if rng.random() < 0.3:
            step.cancel()
    _executor.Task().reset_containers([CONTAINER])
    for _, _, step in calls:            # who came too late for the reset waits in a new queue
        if not step.wait(0.02):
            step.cancel()
            step.wait(30)
    _executor.Task().reset_containers([CONTAINER])
    went_in, came_out = set(), []
    for call, values, step in calls:
        went_in.update(map(str, values))
        said = real.said(step, call)
        if said == ("waits",):
            return ["a call outlives its queue"]
        if said[0] == "values" and real.kind != "Padding":
            came_out += map(str, said[1])
    if len(set(came_out)) < len(came_out) or not set(came_out) <= went_in:
        return [f"elements came out twice, or were never put: {sorted(came_out)}"]
    return []


def configurations(threads):
    seeds = 87654321, 11
    for kind in KINDS:
        for capacity in (1, 2, 3, 100):
            for min_after in (0, 1, 2) if kind == "Shuffle" else (0,):
                if not min_after or min_after < capacity:
                    yield (kind, capacity, min_after, seeds), Real(kind, capacity, min_after, seeds,
                                                                   threads)


def main(count, seed, threads=1, minutes=None):
    """Runs `count` schedules; the number that went wrong."""
    reals, failed, until = list(configurations(threads)), 0, time.time() + 60 * (minutes or 1e6)
    for k in range(count):
        rng = random.Random(seed * 10**9 + k)
        what, real = reals[k % len(reals)]
        wrong = storm(rng, real) if threads > 1 else schedule(rng, real, Model(*what))
        if wrong:
            failed += 1
            print(f"schedule {k} of seed {seed}, {what}: {wrong}", file=sys.stderr)
        if failed > 9 or time.time() > until:
            break
        if (k + 1) % 100_000 == 0:
            print(f"{k + 1} schedules", flush=True)
    print(f"{k + 1} schedules on {threads} threads, {failed} failed")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10**4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float)
    sys.exit(1 if main(**vars(parser.parse_args())) else 0)
