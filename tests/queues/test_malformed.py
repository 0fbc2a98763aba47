"""Calls of every op of queues and their kin with arguments of random types and shapes: an answer or
a tf.errors, whoever waits ends with its deadline, and never a crash."""
import random

import numpy as np
import pytest

import pyflow as tf
from pyflow.ops.queue import accumulator_ops, barrier_ops, queue_ops, staging_ops, step_gate_ops

TYPES = (tf.float32, tf.int32, tf.int64, tf.string, tf.bool, tf.float16)
SHAPES = ([], [0], [1], [2], [3, 2], [2, 2], [2, 0, 3])


class Calls:
    """Random arguments, and runs of ops with them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.session = tf.Session(threads=2)
        self.ran = self.said = self.refused = 0

    def value(self, dtype=None, shape=None):
        """A placeholder of unknown shape and what to feed it."""
        dtype = dtype or self.rng.choice(TYPES)
        shape = self.rng.choice(SHAPES) if shape is None or self.rng.random() < 0.3 else shape
        numbers = np.array([self.rng.randrange(-2, 5) for _ in range(int(np.prod(shape)))])
        array = (np.array([str(n) for n in numbers], object) if dtype == tf.string else
                 numbers.astype(dtype.as_numpy_dtype)).reshape(shape)
        return tf.placeholder(dtype), array

    def run(self, make, *arguments, **attrs):
        """Arguments: handles, or pairs of `value`, or lists of them."""
        feeds = {}

        def tensor(a):
            if isinstance(a, list):
                return [tensor(one) for one in a]
            if isinstance(a, tuple):
                feeds[a[0]] = a[1]
                return a[0]
            return a
        try:
            fetch = make(*[tensor(a) for a in arguments], **attrs)
        except (ValueError, TypeError):
            self.refused += 1
            return
        try:
            self.session.run(fetch, feeds, options=tf.RunOptions(timeout_in_ms=3))
            self.ran += 1
        except tf.errors.OpError:
            self.said += 1

    def types(self):
        return [self.rng.choice(TYPES) for _ in range(self.rng.randrange(1, 3))]

    def index(self):
        return self.value(tf.int32, [])


def queues(calls):
    rng, v2 = calls.rng, calls.rng.random() < 0.7
    types = calls.types()
    kind = rng.choice(("FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue", "PriorityQueue"))
    shapes = [rng.choice(SHAPES + ([None, 2], None)) for _ in types] if rng.random() < 0.8 else []

    def op(name):
        return getattr(queue_ops, name + ("V2" if v2 else ""))
    try:
        handle = op(kind)(component_types=types, shapes=shapes, capacity=rng.choice((-1, 0, 1, 5)))
    except (ValueError, TypeError):
        return
    known = types if rng.random() < 0.7 else calls.types()
    known = [tf.int64] * (kind == "PriorityQueue") + known
    for _ in range(6):
        values = [calls.value(t) for t in known]
        calls.run(op("QueueEnqueue"), handle, values)
        calls.run(op("QueueEnqueueMany"), handle, values)
        calls.run(op(rng.choice(("QueueDequeueMany", "QueueDequeueUpTo"))), handle, calls.index(),
                  component_types=known)
        calls.run(op("QueueDequeue"), handle, component_types=known)
    calls.run(op("QueueClose"), handle, cancel_pending_enqueues=rng.random() < 0.5)
    calls.run(op("QueueSize"), handle)


def barriers(calls):
    types = calls.types()
    shapes = [calls.rng.choice(SHAPES) for _ in types]
    handle = barrier_ops.Barrier(component_types=types, shapes=shapes)
    for _ in range(6):
        calls.run(barrier_ops.BarrierInsertMany, handle, calls.value(tf.string, [2]),
                  calls.value(calls.rng.choice(types)), component_index=calls.rng.randrange(-1, 3))
        calls.run(barrier_ops.BarrierTakeMany, handle, calls.index(), component_types=types,
                  allow_small_batch=calls.rng.random() < 0.5)
    calls.run(barrier_ops.BarrierClose, handle)


def accumulators(calls):
    rng = calls.rng
    dtype = rng.choice((tf.float32, tf.float16, tf.float64))
    other = rng.choice((dtype, tf.float32))
    shape = rng.choice(SHAPES + ([None, 2], None))
    dense = accumulator_ops.ConditionalAccumulator(dtype=dtype, shape=shape)
    sparse = accumulator_ops.SparseConditionalAccumulator(dtype=dtype, shape=shape)
    for _ in range(4):
        for handle in (dense, sparse):
            calls.run(accumulator_ops.AccumulatorApplyGradient, handle, calls.value(tf.int64, []),
                      calls.value(other))
            calls.run(accumulator_ops.SparseAccumulatorApplyGradient, handle,
                      calls.value(tf.int64, []), calls.value(tf.int64, [2]),
                      calls.value(other, [2, 2]), calls.value(tf.int64, [2]),
                      has_known_shape=rng.random() < 0.5)
        mine = [accumulator_ops.ConditionalAccumulator(dtype=dtype, shape=shape, shared_name="m"),
                accumulator_ops.SparseConditionalAccumulator(dtype=dtype, shape=shape,
                                                             shared_name="n")]
        for handle in (*mine, dense, sparse):
            calls.run(accumulator_ops._AccumulatorApplyFrom, handle, calls.value(tf.int64, []),
                      calls.value(tf.int64), calls.value(other))
            calls.run(accumulator_ops._SparseAccumulatorApplyFrom, handle,
                      calls.value(tf.int64, []), calls.value(tf.int64, []),
                      calls.value(tf.int64, [2]), calls.value(other, [2, 2]),
                      calls.value(tf.int64, [2]), has_known_shape=rng.random() < 0.5)
            calls.run(accumulator_ops._AccumulatorTakeAt, handle, calls.index(),
                      calls.value(tf.int64), dtype=other)
            calls.run(accumulator_ops._SparseAccumulatorTakeAt, handle, calls.index(),
                      calls.value(tf.int64), dtype=other)
        calls.run(accumulator_ops.AccumulatorTakeGradient, dense, calls.index(), dtype=other)
        calls.run(accumulator_ops.SparseAccumulatorTakeGradient, sparse, calls.index(), dtype=other)
        calls.run(accumulator_ops.AccumulatorSetGlobalStep, dense, calls.value(tf.int64))
        calls.run(accumulator_ops.AccumulatorNumAccumulated, sparse)
    calls.run(queue_ops.QueueSize, dense)
    calls.run(accumulator_ops.AccumulatorNumAccumulated, barrier_ops.Barrier(component_types=[dtype]))


def gates(calls):
    rng = calls.rng
    handle = step_gate_ops._StepGate(shards=rng.choice((-1, 0, 1, 3, 1 << 40)))
    wrong = barrier_ops.Barrier(component_types=[tf.int32])
    for _ in range(6):
        for gate in (handle, handle, wrong):
            calls.run(step_gate_ops._StepGateBegin, gate, calls.value(tf.int64),
                      calls.value(tf.int64))
            calls.run(step_gate_ops._StepGateOpen, gate, calls.value(tf.int64))
            calls.run(step_gate_ops._StepGateNext, gate, calls.value(tf.int64),
                      calls.value(tf.int64), calls.value(tf.int64))


def staging(calls):
    rng, types = calls.rng, calls.types()
    area = dict(shared_name=f"area_{rng.random()}", capacity=rng.choice((0, 1)),
                memory_limit=rng.choice((0, 8, 100)))
    prefix = rng.choice(("Map", "OrderedMap"))

    def op(name):
        return getattr(staging_ops, prefix + name)
    for _ in range(5):
        calls.run(staging_ops.Stage, [calls.value(t) for t in types], **area)
        calls.run(staging_ops.StagePeek, calls.index(), dtypes=types, **area)
        calls.run(staging_ops.Unstage, dtypes=calls.types(), **area)
        own = dict(area, shared_name=area["shared_name"] + "m")
        calls.run(op("Stage"), calls.value(tf.int64, []), calls.value(tf.int32, [len(types)]),
                  [calls.value(t) for t in types], dtypes=types, **own)
        calls.run(op("Peek"), calls.value(tf.int64, []), calls.value(tf.int32, [1]), dtypes=types,
                  **own)
        calls.run(op("UnstageNoKey"), calls.value(tf.int32, [1]), dtypes=types, **own)
        calls.run(op("Unstage"), calls.value(tf.int64, []), calls.value(tf.int32), dtypes=types,
                  **own)
    calls.run(op("Size"), dtypes=types, **own)
    calls.run(op("IncompleteSize"), dtypes=types, **own)
    calls.run(op("Clear"), dtypes=types, **own)
    calls.run(staging_ops.StageClear, dtypes=types, **area)
    calls.run(op("Size"), dtypes=types, **area)         # an area, not a map


@pytest.mark.parametrize("kind", [queues, barriers, accumulators, gates, staging])
def test_bad_calls_are_errors(kind):
    calls = Calls(5)
    for _ in range(5):
        kind(calls)
    assert calls.ran > 3 and calls.said > 10, (calls.ran, calls.said, calls.refused)
