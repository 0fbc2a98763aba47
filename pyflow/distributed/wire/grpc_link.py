"""The link that always is there: a net's frames as the messages of a kept stream of gRPC's.

    dial(channel, net)                      this end, by whose address the net connects
    serve(net, port, requests, context)     the other; a generator of what to send

What the bytes mean only the nets know (plugins/grpc/links/streams.h): steps, tensors and credit are
those of any link.  Encryption, and who may connect, is the channel's: security.py.

Invariants
1. Whatever ends one end ends the other: the net's connection is lost as soon as the call is over,
   and the call is over once the net gives its connection up.
2. That a peer is gone is found out by gRPC's keep-alive, which needs no Python at the other end.

Threads: each end has one that reads, on which the net acts, and one, of gRPC's, that asks for what
to send.
"""
import ctypes
import functools
import threading

from pyflow.distributed.wire import rpc, services
from pyflow.session import runtime

BLOCK = 1 << 20                         # bytes of a message, at most
KEPT = 1 << 26
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3       # malloc.h


@functools.cache
def keep_blocks():
    """The C library keeps freed blocks of a message's size, up to KEPT bytes of an arena, for the
    next one.  Else it gives each back to the system, and the next one's pages are new and zeroed,
    on both sides and in every copy that grpc makes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return                              # not glibc
    mallopt(_M_MMAP_THRESHOLD, 8 * BLOCK)
    mallopt(_M_TRIM_THRESHOLD, KEPT)


def dial(channel, net):
    """An executor's Stream over a grpc channel, by whose `dial` its Net connects, as kind "grpc"."""
    keep_blocks()
    stream = runtime.executor().Stream()
    stub = rpc.Stub(channel, "WorkerService", {"Link": services.WORKER["Link"]})
    call = stub.Link(sent(stream))
    threading.Thread(target=_read, args=(call, stream, net), name="pyflow-link", daemon=True).start()
    return stream


def sent(stream):
    """What is to be sent, block after block, until the stream is over."""
    return iter(stream.take, None)


def _read(call, stream, net):
    why = "the peer closed its stream"
    try:
        _put_all(call, stream, net)
    except Exception as problem:
        details = getattr(problem, "details", lambda: None)()
        why = details or f"{type(problem).__name__}"
    stream.end(why)
    call.cancel()


def _put_all(received, stream, net):
    for data in received:
        if not stream.put(data, net):
            return


def serve(net, port, requests, context):
    """The answers to a Link call, until it ends.  port: what the Net that it is for listens at."""
    keep_blocks()
    stream = runtime.executor().Stream()
    if not context.add_callback(lambda: stream.end("the peer's stream ended")) \
            or not stream.offer(port):
        return
    threading.Thread(target=_take_in, args=(requests, stream, net), name="pyflow-link",
                     daemon=True).start()
    try:
        yield from sent(stream)
    finally:
        stream.end("the stream was given up")


def _take_in(requests, stream, net):
    try:
        _put_all(requests, stream, net)
    except Exception:                       # it broke: the call is over
        pass
    stream.end("the peer closed its stream")
