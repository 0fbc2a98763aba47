"""What a session keeps from step to step, over a call: its random streams and kept tensors.

A StateRequest says one of: a position to seek, streams to set, a kept tensor to read, kept tensors
to forget, or nothing, which asks for the streams.  A worker asks the state of its own part, a
master the session's link to all of them.

Threads: any; the state guards itself.  Callers: worker.py, master_service.py.

Example:
    reply = session_state.answer(link, messages.StateRequest(session=7))
    reply.streams
"""
from pyflow.distributed.wire import messages, tensors


def answer(state, request, everywhere=False):
    """A StateResponse to a StateRequest.  state: a contract.State;
    everywhere: of its `seek`."""
    reply = messages.StateResponse()
    if request.seek:
        state.seek(request.position, request.shard, everywhere)
    elif request.set:
        state.set_streams(request.streams)
    elif request.kept:
        kept = state.kept(request.kept)
        reply.found = kept is not None
        if kept is not None:
            reply.kept.CopyFrom(tensors.encode(kept, kept.type))
    elif request.forget:
        reply.found = all([state.forget(name) for name in request.forget])
    else:
        reply.streams = state.streams()
    return reply
