"""A worker process of test_net.py: serves a few plans, does what its standard input says, one word a line.

    python net_worker.py KIND NAME LEASE EPOCH      ->  address incarnation
"""
import ctypes
import resource
import sys

import numpy as np

import pyflow as tf
from pyflow import _executor

NULL, ADD, ECHO, WAIT, FAIL, TEXT, PAIR, SLOW, KERNEL, WIDE = range(1, 11)
DTYPES = [np.float32, np.float64, np.int32, np.uint8, np.int16, np.int8, np.complex64, np.int64, np.bool_, np.uint16,
          np.complex128, np.float16, np.uint32, np.uint64]
kept = {}               # what `send` sends, by its size
ECHO_OF = 100           # + an element type's number: its identity


def plan_of(session, fetch, feeds):
    step, _ = session._step_for(fetch, feeds)
    return step.compiled.plan


def serve_all(net, session):
    """The plans, built in the default graph."""
    x = tf.placeholder(tf.float32, [None], name="x")
    whatever = tf.placeholder(tf.float32, None)
    text = tf.placeholder(tf.string, [None])
    queue = tf.FIFOQueue(10, tf.float32)
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [2])
    size = tf.placeholder(tf.int32, [])
    kernel = tf.reduce_sum(tf.random_gamma([size], 0.7))
    loop = tf.while_loop(lambda i: i < 3_000_000, lambda i: i + 1, [0])
    plans = {
        NULL: (tf.no_op(), {}), ADD: (x + 1, {x: [1.0]}), ECHO: (tf.identity(whatever), {whatever: np.float32(0)}),
        WAIT: (queue.dequeue(), {}), FAIL: (tf.check_numerics(x, "no number here", name="checked"), {x: [1.0]}),
        TEXT: (tf.string_join([text, "!"]), {text: ["a"]}), PAIR: ([b * 2, a + 1], {a: np.float32(0), b: np.int32([0, 0])}),
        SLOW: (loop, {}), KERNEL: (kernel, {size: 1}), WIDE: (tf.reduce_sum(tf.fill([60_000], a)), {a: np.float32(0)}),
    }
    for handle, (fetch, feeds) in plans.items():
        net.serve(handle, plan_of(session, fetch, feeds))
    for dtype in DTYPES:
        kind = tf.as_dtype(dtype)
        of = tf.placeholder(kind, None)
        net.serve(ECHO_OF + kind.as_datatype_enum, plan_of(session, tf.identity(of), {of: np.zeros([], dtype)}))


def obey(line, net):
    word, *rest = line.split()
    if word == "hold":                                  # the GIL, as a C library that forgets to release it
        print("held", flush=True)
        ctypes.PyDLL(None).usleep(int(float(rest[0]) * 1e6))
        print("let go", flush=True)
    elif word == "peers":
        print(net.peers(), flush=True)
    elif word == "counts":
        print(net.task.counts(), flush=True)
    elif word == "send":                                # so many float32 to the peer's step {9, number}
        key = int(rest[2])
        if key not in kept:
            kept[key] = _executor.Kept.of(np.ones(key, np.float32), 1)
        net.put(rest[0], 9, int(rest[1]), b"key", kept[key], 1)
    elif word == "faults":
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt, flush=True)
    elif word == "unserve":
        print(net.unserve(int(rest[0])), flush=True)


def main(kind, name, lease, epoch):
    net = _executor.Net(_executor.Task(name), lease=float(lease), epoch=int(epoch))
    with tf.Session() as session:
        serve_all(net, session)
        print(net.listen(kind), net.incarnation, flush=True)
        for line in sys.stdin:
            obey(line, net)
    net.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
