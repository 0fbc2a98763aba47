"""Pairs: the Send and the Recv that carry what goes from one task to another.

    net         _net.Send and _Recv: by whatever link there is between the two tasks (routes.py)
    others      two ops of a plugin, which bring tensors by a way of their own

A pair is known by its name: from a plugin's plugin.json, or registered by the program.

    session     ConfigProto.send_recv_pairs, first that fits: "NAME", "NAME SOURCE DESTINATION"
    process     `register_pair`, newest first, where a session says nothing
    else        net

Invariants
1. SOURCE and DESTINATION are device specifications: "/job:worker", "/device:GPU:*", "" for any.
2. Ops of a pair have the attributes of _Send and _Recv; what their kernels do not take (a type)
   goes by net, and a task without any kernel of theirs is an error that names it.
3. The master of a session chooses, from what it knows; both tasks need the plugin.

Threads: any.

    pairs.register_pair("nccl", "nccl.Send", "nccl.Recv", "/device:GPU:*", "/device:GPU:*")
"""
import collections
import re
import threading
import types

from pyflow import plugins
from pyflow.framework import errors
from pyflow.framework import op as op_lib
from pyflow.framework.device import DeviceSpec
from pyflow.passes import partition_split

Pair = collections.namedtuple("Pair", "name send recv source destination")
Pair.__doc__ = """A pair by name: two ops, and the devices (DeviceSpec) that it serves."""

ENDS = ("tensor_name", "send_device", "send_device_incarnation", "recv_device", "client_terminated")
_ANY = DeviceSpec()
NET = Pair("net", "_net.Send", "_Recv", _ANY, _ANY)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,14}")
_lock = threading.Lock()
_registered = []                        # newest first


def register_pair(name, send_op, recv_op, source="", destination=""):
    """From now on sessions whose masters are in this process carry what goes from devices that
    `source` allows to those that `destination` allows, in another task, by these two ops; sessions
    may say otherwise.  A name that was registered already is replaced; `forget_pair` ends it.

    Raises ValueError for a name, device or op that does not fit.
    """
    pair = _made(name, send_op, recv_op, source, destination)
    _check_ops(pair)
    with _lock:
        _registered[:] = [pair, *(p for p in _registered if p.name != name)]


def forget_pair(name):
    """Whether a pair of that name was registered; plans that are made stay as they are."""
    with _lock:
        before = len(_registered)
        _registered[:] = [p for p in _registered if p.name != name]
        return len(_registered) < before


def known():
    """{name: Pair} of this process: those that were registered win over those of plugins, of which
    the one that was loaded first wins."""
    found = {NET.name: NET}
    for plugin in plugins.load_all():
        if not plugin.problem:
            for row in plugin.description.get("pairs", ()):
                found.setdefault(row["name"], _made(
                    row["name"], row["send"], row["recv"], row.get("source", ""),
                    row.get("destination", "")))
    with _lock:
        found.update((p.name, p) for p in reversed(_registered))
    return found


def _made(name, send_op, recv_op, source, destination):
    if not _NAME.fullmatch(name) or name == NET.name:
        raise ValueError(f"a pair's name is a-z, 0-9 and _, at most 15, and not 'net': got {name!r}")
    return Pair(name, send_op, recv_op, DeviceSpec.from_string(source),
                DeviceSpec.from_string(destination))


def _check_ops(pair):
    """Raises ValueError if the ops are not a Send and a Recv."""
    plugins.load_all()
    for op, types_of, counts in ((pair.send, "T", (1, 0)), (pair.recv, "tensor_type", (0, 1))):
        found = op_lib.find_op(op)
        if found is None:
            raise ValueError(f"pair '{pair.name}': there is no op '{op}' in this process"
                             f"{plugins.why_without(op)}")
        lacking = [a for a in (types_of, *ENDS) if a not in found.attrs]
        if (len(found.inputs), len(found.outputs)) != counts or lacking:
            kind = "_Send" if counts[0] else "_Recv"
            raise ValueError(f"pair '{pair.name}': op '{op}' has not the signature of {kind}: "
                             f"{counts[0]} inputs, {counts[1]} outputs, attributes {types_of}, "
                             f"{', '.join(ENDS)}")


class Choice:
    """Which pair serves which edge of a session: called as partition's `link`.

    rules: texts of ConfigProto.send_recv_pairs.  Raises InvalidArgumentError for one that is none."""

    def __init__(self, rules):
        self._rules = [self._rule(text, known()) for text in rules]
        self._found = {}
        self._refused = {}              # (source device, destination, name of a type) -> Pair

    @staticmethod
    def _rule(text, pairs):
        name, *devices = text.split() or [""]
        if name not in pairs:
            raise errors.InvalidArgumentError(
                None, None, f"send_recv_pairs: there is no pair {name!r}, but "
                f"{', '.join(sorted(pairs))}: others come with plugins, or register_pair")
        if len(devices) not in (0, 2):
            raise errors.InvalidArgumentError(
                None, None, f"send_recv_pairs: {text!r}: expected NAME, or NAME SOURCE DESTINATION")
        try:
            if name != NET.name:
                _check_ops(pairs[name])
            return pairs[name], [DeviceSpec.from_string(d) for d in devices or ("", "")]
        except ValueError as wrong:
            raise errors.InvalidArgumentError(None, None, f"send_recv_pairs: {wrong}") from None

    def on(self, devices):
        """function(source device, destination, dtype) -> (send op, recv op) over these Devices."""
        at = {d.name: d for d in devices.all}

        def link(source, destination, dtype):
            pair = self.of(source, destination)
            if pair is not NET and not self._takes(pair, at[source], at[destination], dtype,
                                                   devices.kernels):
                self._refused[source, destination, dtype.name] = pair
                pair = NET
            return pair.send, pair.recv
        return link

    def why_not(self, source, destination, dtype):
        """Why a tensor of the type (its name) goes by net though pairs were asked for; None: they
        were not, or net was."""
        pair = self._refused.get((source, destination, dtype))
        if pair is not None:
            return (f"{dtype} not by {pair.name}: {pair.send} and {pair.recv} have no kernels for "
                    "it on these devices")
        if all(p is NET for p, _ in self._rules) or self._net_was_asked(source, destination):
            return None
        asked = ", ".join(dict.fromkeys(p.name for p, _ in self._rules))
        return f"not by {asked}: no entry of send_recv_pairs fits these devices"

    def _net_was_asked(self, source, destination):
        ends = DeviceSpec.from_string(source), DeviceSpec.from_string(destination)
        return any(p is NET and all(a.allows(end) for a, end in zip(allowed, ends))
                   for p, allowed in self._rules)

    def of(self, source, destination):
        """The Pair for edges between two devices, full names, of different tasks."""
        with _lock:
            registered = () if self._rules else tuple(_registered)
        key = source, destination, registered
        found = self._found.get(key)
        if found is None:
            ends = DeviceSpec.from_string(source), DeviceSpec.from_string(destination)
            rules = self._rules or [(p, (_ANY, _ANY)) for p in registered]
            fitting = (p for p, allowed in rules if all(
                a.allows(end) and b.allows(end) for a, b, end in
                zip(allowed, (p.source, p.destination), ends)))
            found = self._found[key] = next(fitting, NET)
        return found

    @staticmethod
    def _takes(pair, source, destination, dtype, own_kernels):
        """Both devices have a kernel of the pair for the type.  Raises InvalidArgumentError where
        there is none for any."""
        for device, op, attr in ((source, pair.send, "T"), (destination, pair.recv, "tensor_type")):
            table = device.kernels or own_kernels
            if table is None:
                continue
            if table.registered(op) == "none":
                raise errors.InvalidArgumentError(
                    None, None, f"pair '{pair.name}' is to carry what goes from {source.name} to "
                    f"{destination.name}, but {partition_split.partition_name(device.name)} has no "
                    f"kernel of {op}: install its plugin there, or choose 'net' in send_recv_pairs")
            kinds = table.types(types.SimpleNamespace(op=op, attrs={attr: dtype}))
            if not kinds or not kinds & {device.kind, "*"}:
                return False
        return True
