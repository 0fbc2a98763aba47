"""A link between two tasks goes down while a step is blocked: when either side says so.

    python tests/distributed/cut_off.py --count 30              # proxies: stop reading, cut
    python tests/distributed/cut_off.py --count 30 --netns      # a network namespace; needs root

Each time a step of a waits for b, and one of b's sessions for a; the link goes down, and later up
again.  a has to raise UNAVAILABLE, and b to have ended the steps that a began, within 2.5 s; what
does not use the link goes on meanwhile, and the same session works once the link is up.
"""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import pyflow as tf
import processes
from pyflow.distributed.wire import messages, rpc, services
from pyflow.distributed.wire.channels import Channels

SECONDS = 2.5
SPACE, OURS, THEIRS = f"pyflow{os.getpid() % 10000}", "10.213.77.1", "10.213.77.2"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Space:
    """A network namespace with one link to this one."""

    def __enter__(self):
        self.device = f"pf{os.getpid() % 100000}"
        ip("netns", "add", SPACE)
        ip("link", "add", self.device, "type", "veth", "peer", "name", "inner", "netns", SPACE)
        ip("addr", "add", f"{OURS}/30", "dev", self.device)
        ip("link", "set", self.device, "up")
        for arguments in (("addr", "add", f"{THEIRS}/30", "dev", "inner"),
                          ("link", "set", "inner", "up"), ("link", "set", "lo", "up")):
            ip("netns", "exec", SPACE, "ip", *arguments)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("netns", "delete", SPACE)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "delete", self.device)

    def down(self):
        """Both directions; packets vanish."""
        ip("netns", "exec", SPACE, "ip", "link", "set", "inner", "down")

    def up(self):
        ip("netns", "exec", SPACE, "ip", "link", "set", "inner", "up")


class Proxied:
    """Two servers behind proxies; b is looked at by another way."""

    def __init__(self, how):
        self.how = how
        self.cluster = processes.Cluster({"a": 1, "b": 1}, ("a", 0), proxies=True, links=[])
        self.server, self._channels = self.cluster.server, Channels()
        self._stub = rpc.Stub(self._channels.get(self.cluster.addresses["b", 0]), "WorkerService",
                              services.WORKER)

    def down(self):
        for proxy in self.cluster.proxies.values():
            getattr(proxy, self.how)()

    def up(self):
        for proxy in self.cluster.proxies.values():
            proxy.read_on()
            proxy.mend()

    def busy(self):
        """Steps that run at b."""
        return self._stub.GetStatus(messages.GetStatusRequest(), timeout=5).steps_running

    def close(self):
        self._channels.close()
        self.cluster.__exit__()


SERVER = """
import sys, threading, pyflow as tf
server = tf.train.Server({spec!r}, "b", 0, links=[], insecure=True)
print("up", flush=True)
for line in sys.stdin:
    print(server.status().steps_running, flush=True)
"""


class Spaced:
    """b in a network namespace of its own, looked at by its pipes."""

    def __init__(self, space):
        self._space = space
        port, other = processes.free_ports(2)
        spec = {"a": [f"{OURS}:{port}"], "b": [f"{THEIRS}:{other}"]}
        self._b = subprocess.Popen(
            ["ip", "netns", "exec", SPACE, sys.executable, "-P", "-c", SERVER.format(spec=spec)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.server = tf.train.Server(spec, "a", 0, links=[], insecure=True)
        assert self._b.stdout.readline() == "up\n"
        self.down, self.up = space.down, space.up

    def busy(self):
        self._b.stdin.write("?\n")
        self._b.stdin.flush()
        return int(self._b.stdout.readline())

    def close(self):
        self._b.kill()
        self._b.wait()
        self.server.stop()


def program():
    """(graph, blocked, alive, here): what waits for b for ever, what needs b, what does not."""
    with tf.Graph().as_default() as graph:
        with tf.device("/job:b/task:0"):
            v = tf.get_variable("v", [], initializer=tf.ones_initializer())
            never, there = tf.FIFOQueue(1, tf.float32).dequeue(), v.read_value() * 2
        with tf.device("/job:a/task:0"):
            blocked, alive = never + 1, there + 1
            here = tf.constant(2.0) * tf.placeholder_with_default(3.0, [])
    return graph, v, blocked, alive, here


def once(bed, session, blocked, alive, here):
    """(seconds until a raised, until b was idle)."""
    raised = []

    def run():
        try:
            session.run(blocked)
        except tf.errors.OpError as error:
            raised.append((time.monotonic(), error))
    thread = threading.Thread(target=run)
    thread.start()
    wait(lambda: bed.busy() == 1, 10)
    bed.down()
    begun = time.monotonic()
    idle = None
    while time.monotonic() - begun < 8 and (idle is None or not raised):
        assert session.run(here) == 6
        if idle is None and bed.busy() == 0:
            idle = time.monotonic() - begun
        time.sleep(0.02)
    bed.up()
    thread.join(10)
    if not raised:
        raise AssertionError("a still waits")
    if not isinstance(raised[0][1], tf.errors.UnavailableError) or "/job:b" not in str(raised[0][1]):
        raise AssertionError(f"a says {raised[0][1]}")
    wait(lambda: works(session, alive), 10)
    return raised[0][0] - begun, idle if idle is not None else float("inf")


said = []


def works(session, fetch):
    try:
        return session.run(fetch, options=tf.RunOptions(timeout_in_ms=2000)) == 3
    except tf.errors.OpError as error:
        said[:] = [time.monotonic(), str(error)[:600]]
        return False


def wait(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {said}"
        time.sleep(0.01)


def series(bed, count, what):
    """Exit status of so many times."""
    graph, v, *fetches = program()
    times = []
    try:
        with tf.Session(bed.server.target, graph=graph) as session:
            session.run(v.initializer)
            for _ in range(count):
                times.append(once(bed, session, *fetches))
    finally:
        bed.close()
    late = sum(max(pair) > SECONDS for pair in times)
    print(f"{what}: {count} times; a raised UNAVAILABLE after {max(a for a, _ in times):.2f} s at "
          f"most, b had ended its steps after {max(b for _, b in times):.2f} s at most; {late} "
          f"later than {SECONDS} s", flush=True)
    return 1 if late else 0


def main(count, netns):
    """Exit status."""
    if netns:
        with Space() as space:
            return series(Spaced(space), count, "namespace, link down")
    return max(series(Proxied("stop_reading"), count, "proxy that stops reading"),
               series(Proxied("cut"), count, "proxy that cuts"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--netns", action="store_true")
    status = main(**vars(parser.parse_args()))
    sys.stdout.flush()
    os._exit(status)
