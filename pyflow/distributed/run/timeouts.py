"""Every time-out between tasks, in one table, with what it follows from.

A server has one knob, `lease`: how long what a lost client or master left behind stays. Signs of
life go several times per lease, so that two of them may be lost.

Threads: pure functions.

    for name, seconds, what in timeouts.table(lease=10.0): print(name, seconds, what)
"""
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire import rpc

HEARTBEAT = 2.5                         # seconds without a sign of life: a peer is lost


def table(lease, beat, client, grace):
    """[(name, seconds, what happens then)].  lease: the server's; beat: between its signs of life;
    client: a client's lease; grace: for the others of a failed step."""
    options = dict(rpc.options(HEARTBEAT))
    return [
        ("lease", lease, "steps and sessions of a master that is not heard of are ended"),
        ("beat", beat, "between the signs of life that a master gives its workers"),
        ("client lease", client, "sessions of a client that is not heard of are closed"),
        ("client beat", client / 4, "between a client's signs of life"),
        ("early steps", lease, "what came for a step that never begins here is dropped"),
        ("connection", HEARTBEAT, "a peer that is silent on its connection is lost"),
        ("ping", options["grpc.keepalive_time_ms"] / 1000, "between a connection's pings"),
        ("ping answer", options["grpc.keepalive_timeout_ms"] / 1000, "for a ping's answer"),
        ("reconnect", options["grpc.max_reconnect_backoff_ms"] / 1000,
         "at most, between attempts to connect to a task that is away"),
        ("status", remote_worker.STATUS_SECONDS, "for a task that listens to say what it is"),
        ("grace", grace, "for the other tasks of a failed step to end it"),
    ]
