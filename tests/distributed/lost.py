"""Programs that are killed, frozen or interrupted while steps are blocked (test_lost.py).

    python lost.py client TARGET N          N blocked steps of a client; prints "blocked"
    python lost.py master SPEC N OPTIONS    the same of a session in the process of worker 0
    python lost.py interrupted TARGET       one; prints "blocked", then how long after SIGINT it ended
    python lost.py held SPEC SECONDS        worker 0 holds the GIL during a blocked step
    python lost.py goes_on TARGET SECONDS   a client that does so, or is stopped; its step comes to its
                                            end, and its session serves another one
"""
import ctypes
import json
import sys
import threading
import time

import pyflow as tf
from pyflow.distributed.run import client

BLOCKED = "/job:ps/task:0"


def blocked_graph():
    """(graph, what never comes) with a queue on the ps."""
    with tf.Graph().as_default() as graph, tf.device(BLOCKED):
        never = tf.FIFOQueue(1, tf.float32).dequeue()
        alive = tf.constant(1.0) + 1
    return graph, never, alive


def block(target, n):
    """n threads in blocked steps of one session."""
    graph, never, alive = blocked_graph()
    session = tf.Session(target, graph=graph)
    session.run(alive)
    for _ in range(n):
        threading.Thread(target=_run, args=(session, never), daemon=True).start()
    time.sleep(0.2)
    print("blocked", flush=True)
    threading.Event().wait()


def _run(session, never):
    try:
        session.run(never)
    except tf.errors.OpError as error:
        print(type(error).__name__, flush=True)


def interrupted(target):
    """A step that Ctrl-C ends."""
    graph, never, alive = blocked_graph()
    with tf.Session(target, graph=graph) as session:
        session.run(alive)
        print("blocked", flush=True)
        try:
            session.run(never)
        except KeyboardInterrupt:
            print("interrupted", flush=True)


def held(spec, seconds):
    """A step that blocks while nothing of this process's Python runs."""
    server = tf.train.Server(spec, "worker", 0, links=["unix"], lease=1.0)
    graph, never, alive = blocked_graph()
    session = tf.Session(server.target, graph=graph)
    session.run(alive)
    thread = threading.Thread(target=_run, args=(session, never))
    thread.start()
    time.sleep(0.2)
    print("blocked", flush=True)
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    print(f"the same session: {session.run(alive)}", flush=True)
    session.close()
    thread.join()


def goes_on(target, seconds):
    """A step that blocks, while nothing of this process runs, and is let go on by somebody else."""
    graph, later = waiting_graph()
    with tf.Session(target, graph=graph) as session:
        session.run("alive:0")
        thread = threading.Thread(target=lambda: print(f"later: {session.run(later)}", flush=True))
        thread.start()
        time.sleep(0.2)
        print("blocked", flush=True)
        if seconds:
            ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        thread.join()
        print(f"the same session: {session.run('alive:0')}", flush=True)


def waiting_graph():
    """(graph, what comes once somebody has put it into the ps's queue)."""
    with tf.Graph().as_default() as graph, tf.device(BLOCKED):
        queue = tf.FIFOQueue(1, tf.float32, shared_name="later")
        queue.enqueue(7.0, name="put")
        tf.add(tf.constant(1.0), 1.0, name="alive")
        return graph, queue.dequeue()


if __name__ == "__main__":
    how, where = sys.argv[1], sys.argv[2]
    if how == "client":
        client.LEASE = 1.0
        block(where, int(sys.argv[3]))
    elif how == "interrupted":
        interrupted(where)
    elif how == "goes_on":
        client.LEASE = 0.4
        goes_on(where, float(sys.argv[3]))
    elif how == "held":
        held(json.loads(where), float(sys.argv[3]))
    else:
        server = tf.train.Server(json.loads(where), "worker", 0, **json.loads(sys.argv[4]))
        block(server.target, int(sys.argv[3]))
