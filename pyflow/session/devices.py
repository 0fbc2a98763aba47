"""A session's devices and thread pools, as its ConfigProto asks for them.

    device_count                    at most so many devices of a type ({"GPU": 0} hides them); more
                                    CPU devices than one are made
    gpu_options.visible_device_list "1,0": GPU:0 of the session is the second of the process; of
                                    pluggable_device_options: the same for other accelerators
    per_process_gpu_memory_fraction a limit on the device's memory, for the whole process;
                                    experimental.virtual_devices[k].memory_limit_mb likewise
    allow_growth                    always so: memory is taken as it is needed
    use_per_session_threads         a thread pool of its own; else sessions with equal thread
                                    counts share one
    session_inter_op_thread_pool    pools to choose from with RunOptions.inter_op_thread_pool; a
                                    global_name is shared by all sessions that say it

Invariants
    1. Nothing here opens a device, but for memory limits, `list_devices` and a cost model.

Threads: `Pools.get` under the session's lock; named pools under a lock of their own.
"""
import os
import threading

from pyflow.framework import errors
from pyflow.passes.place import LOCAL, Device, Devices
from pyflow.passes.place_devices import Speed
from pyflow.passes.place_kernels import KernelTable
from pyflow.session import runtime
from pyflow.session import threads as threads_lib

_lock = threading.Lock()
_named_pools = {}
MEGABYTE = 1 << 20


def open_devices(executor, config, task=None):
    """The Devices of a session with this ConfigProto (or None).  Raises InvalidArgumentError for a
    list of visible devices that names others than there are.

    task: the executor's Task whose session it is; None: the process's own, which is called LOCAL."""
    counts = dict(config.device_count) if config is not None else {}
    task = executor.Task() if task is None else task
    here, number = task.name or LOCAL, as_int64(task.incarnation)
    devices = [Device(f"{here}/device:CPU:{i}", incarnation=number,
                      core_name=f"{here}/device:CPU:{i}")
               for i in range(max(1, counts.get("CPU", 1)))]
    ordinals = {}
    for kind, ordinal, _ in executor.devices():
        if kind != "CPU":
            ordinals.setdefault(kind, []).append(ordinal)
    for kind, there in ordinals.items():
        options = _options_of(config, kind)
        chosen = _visible(options, kind, sorted(there))[:max(0, counts.get(kind, len(there)))]
        priority = executor.device_priority(kind)
        for i, ordinal in enumerate(chosen):
            _limit_memory(executor, options, kind, i, ordinal)
            devices.append(Device(f"{here}/device:{kind}:{i}", priority,
                                  core_name=f"{here}/device:{kind}:{ordinal}",
                                  incarnation=number))
    if len(devices) == 1:
        return Devices(devices)
    return Devices(devices, KernelTable(executor.kernels()),
                   lambda device: executor.device_problem(*_core(device)))


def as_int64(bits):
    """64 bits as the signed number that an attribute holds."""
    return bits - (1 << 64) if bits >> 63 else bits


def _options_of(config, kind):
    """The GPUOptions for a device type, or None."""
    if config is None:
        return None
    return config.gpu_options if kind == "GPU" else config.pluggable_device_options


def _visible(options, kind, there):
    """The ordinals of the process that a session sees, in its order."""
    text = options.visible_device_list.strip() if options is not None else ""
    if not text:
        return there
    chosen = []
    for word in text.split(","):
        word = word.strip()
        if not word.isdigit() or int(word) not in there:
            raise errors.InvalidArgumentError(
                None, None,
                f"'visible_device_list' {text!r} listed an invalid {kind} id {word!r}: there are"
                f" {len(there)}, numbered {', '.join(map(str, there))}")
        if int(word) in chosen:
            raise errors.InvalidArgumentError(
                None, None, f"'visible_device_list' {text!r} lists {kind} id {word!r} twice")
        chosen.append(int(word))
    return chosen


def _limit_memory(executor, options, kind, i, ordinal):
    """Applies a memory fraction, or the limits of virtual devices, to a device of the process."""
    if options is None:
        return
    virtual = options.experimental.virtual_devices
    if i < len(virtual) and virtual[i].memory_limit_mb:
        limit = int(sum(virtual[i].memory_limit_mb) * MEGABYTE)
        executor.device_limit(kind, ordinal, limit)
    elif options.per_process_gpu_memory_fraction:
        memory = executor.device_info(kind, ordinal, "memory")
        if memory:
            fraction = options.per_process_gpu_memory_fraction
            executor.device_limit(kind, ordinal, int(float(memory) * fraction))


def measure_speeds(executor, devices, threads):
    """Sets `speed` of each device, and which are peers, from what they say about themselves, for
    the cost model."""
    devices.drop_broken(set(range(len(devices.all))))
    for device in devices.all:
        if device.name in devices.problems:
            continue
        kind, ordinal = _core(device)
        mine = device.speed
        told = {key: executor.device_info(kind, ordinal, key)
                for key in ("flops", "bandwidth", "link", "latency", "peer_link")}
        values = {key: float(text) if text else getattr(mine, key) for key, text in told.items()}
        if kind == "CPU" and not told["flops"]:
            values["flops"] = mine.flops * threads
        device.speed = Speed(**values, memory=memory_limit(executor, device))
    others = [(i, *_core(d)) for i, d in enumerate(devices.all)
              if d.kind != "CPU" and d.name not in devices.problems]
    devices.peers = {(i, k) for i, *a in others for k, *b in others
                     if i != k and executor.device_peers(*a, *b)}


def memory_limit(executor, device):
    """Bytes that a Device may use: its limit, else its memory; a CPU without cap: 0."""
    kind, ordinal = _core(device)
    if kind == "CPU":
        return executor.memory_stats()["cap"]
    limit = executor.device_stats(kind, ordinal)["limit"]
    return limit or int(float(executor.device_info(kind, ordinal, "memory") or 0))


def _core(device):
    """(type, ordinal) in the process."""
    kind, ordinal = device.core_name.rsplit("/device:", 1)[1].split(":")
    return kind, int(ordinal)


class DeviceAttributes:
    """One device of a session: name, device_type, memory_limit_bytes, incarnation."""

    def __init__(self, name, memory_limit_bytes=0, incarnation=1):
        self.name, self.memory_limit_bytes = name, memory_limit_bytes
        self.device_type = name.rsplit("/device:", 1)[1].split(":")[0]
        self.incarnation = incarnation

    def __repr__(self):
        return (
            f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes},"
            f" {self.incarnation})"
        )


def list_devices(executor, devices):
    """[DeviceAttributes] of all devices that work; a CPU without cap has the machine's memory."""
    found = []
    devices.drop_broken(set(range(len(devices.all))))
    for device in devices.all:
        if device.name in devices.problems:
            continue
        limit = memory_limit(executor, device)
        if not limit and device.kind == "CPU":
            limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        found.append(DeviceAttributes(device.name, limit, device.incarnation & (1 << 64) - 1))
    return found


def mapping_text(executor, devices):
    """'Device mapping:' and a line per accelerator, as TensorFlow prints it."""
    lines = ["Device mapping:"]
    for device in devices.all:
        if device.kind != "CPU":
            kind, ordinal = _core(device)
            name = next((n for k, i, n in executor.devices() if (k, i) == (kind, ordinal)), kind)
            lines.append(f"{device.name} -> device: {ordinal}, name: {name}")
    return "\n".join(lines) if len(lines) > 1 else "Device mapping: no known devices."


# ---------------------------------------------------------------- pools

class Pools:
    """The thread pools of one session, or of a server.  Pool 0 serves whatever does not say
    otherwise; private: it is no one else's."""

    def __init__(self, config, threads, private=False):
        self._specs = list(config.session_inter_op_thread_pool) if config is not None else []
        self._private = private or config is not None and config.use_per_session_threads
        self._threads, self._pools = threads, {}
        self._seeded = threads_lib.seeded_pool()
        self.get(0)

    def get(self, number):
        """Pool `number` (RunOptions.inter_op_thread_pool); -1: the caller's thread alone.  Raises
        InvalidArgumentError if there is no such pool."""
        if number == -1:
            return self._seeded or runtime.pool(1)
        if not 0 <= number < max(1, len(self._specs)):
            raise errors.InvalidArgumentError(
                None, None,
                f"Invalid inter_op_thread_pool: {number}. This session has"
                f" {max(1, len(self._specs))} (ConfigProto.session_inter_op_thread_pool), numbered"
                " from 0; -1 is the caller's thread.")
        if self._seeded is not None:
            return self._seeded
        if number not in self._pools:
            self._pools[number] = self._make(number)
        return self._pools[number]

    def _make(self, number):
        new = runtime.executor().Pool
        if not self._specs:
            return new(self._threads) if self._private else runtime.pool(self._threads)
        spec = self._specs[number]
        threads = spec.num_threads or self._threads
        return _named_pool(spec.global_name, threads) if spec.global_name else new(threads)


def _named_pool(name, threads):
    with _lock:
        found = _named_pools.get(name)
        if found is None:
            found = _named_pools[name] = runtime.executor().Pool(threads)
    if found.threads != threads:
        raise errors.InvalidArgumentError(
            None, None,
            f"Threadpool {name!r} was configured with num_threads = {found.threads} before; it"
            f" cannot be re-configured with num_threads = {threads}")
    return found
