"""Where a session's random streams are: read, kept beside a checkpoint, set again.

A stateful random operation draws from a stream of its own: a counter-based generator (Philox) with
a key and a counter.  The stream begins with the operation's first run in a session, from its graph
and op seeds; without seeds from the system's entropy.

    {"dropout/random_uniform/RandomUniform": [seed, seed2, key, high, next], ...}      int64, [5]

An operation of a function has the name of its call, or of its function, before its own.

    seed, seed2     the operation's attributes
    key, high       the key and the upper half of the counter: the seeds, or what entropy gave
    next            the lower half of the counter, which each run advances

Invariants
    1. Setting what was read makes the same numbers come again, in this process or another, with or
       without seeds.
    2. All streams are set, or none; a stream that the mapping lacks begins anew.

Threads: any; a stream is read between two draws, never within one.
"""
import struct

import numpy as np

from pyflow.framework import errors
from pyflow.session import runtime

_MARK = b"PFRNG 1\0"
_SEEDS = "seed", "seed2"
_LENGTH, _NUMBERS = struct.Struct("=I"), struct.Struct("=5q")


def read(state):
    """{name of a random operation: int64 array of 5} of a core State."""
    data, at, found = state.streams(), len(_MARK), {}
    while at < len(data):
        [length] = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        name = data[at:at + length].decode()
        found[name] = np.array(_NUMBERS.unpack_from(data, at + length), np.int64)
        at += length + _NUMBERS.size
    return dict(sorted(found.items()))


def write(state, graph, streams):
    """Sets all streams of a core State.  Raises what Session.set_random_state does."""
    parts = [_MARK]
    for name, numbers in streams.items():
        numbers = _numbers(name, numbers)
        _check(graph, name, numbers)
        text = name.encode()
        parts += [_LENGTH.pack(len(text)), text, _NUMBERS.pack(*numbers)]
    try:
        state.set_streams(b"".join(parts))
    except runtime.executor().StepError as failure:
        raise errors.CancelledError(None, None, failure.message) from None


def seek(session, position, shard=0, everywhere=False):
    """What a session's random operations draw from now on depends on their seeds, the position and
    the shard alone (contract.State.seek)."""
    session._state.seek(position, shard, everywhere)


def _numbers(name, value):
    array = np.asarray(value)
    if array.shape != (5,) or array.dtype != np.int64:
        raise ValueError(f"The random stream of {name!r} is an int64 array of shape (5,), as "
                         f"random_state() gives it; got {array.dtype} of shape {array.shape}")
    return array.tolist()


def _check(graph, name, numbers):
    """ValueError if no operation of the graph, or of its functions, has this stream."""
    op = graph._nodes_by_name.get(name)
    found = ([(op.type, op.op_def.stateful, [op.attrs.get(seed, 0) for seed in _SEEDS])]
             if op is not None else list(_in_functions(graph._library, name)))
    if not found:
        raise ValueError(f"There is no operation {name!r} in the session's graph whose random "
                         "stream could be set: was the graph built in another way than the one "
                         "whose streams these are?")
    if not any(stateful for _, stateful, _ in found):
        raise ValueError(f"Operation {name!r} ({found[0][0]}) draws no random numbers: it has no "
                         "stream to set")
    if all(seeds != numbers[:2] for _, _, seeds in found):
        raise ValueError(f"The random stream given for {name!r} has the seeds {numbers[:2]}, the "
                         f"operation in the graph has {found[0][2]}: its numbers would not come "
                         "again")


def _in_functions(library, name):
    """(op, stateful, seeds) of the functions' nodes that a plan may call `name`: after the names of
    the calls that were inlined, or of the function that runs as a call."""
    parts = name.split("/")
    tails = {"/".join(parts[i:]) for i in range(1, len(parts))}
    for function_def in library.definitions.values():
        for node in function_def.node_def:
            op_def = library.find_op(node.op) if node.name in tails else None
            if op_def is not None:
                yield node.op, op_def.stateful, [node.attr[seed].i if seed in node.attr else 0
                                                 for seed in _SEEDS]
