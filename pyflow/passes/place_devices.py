"""The devices placement chooses from, and which of them a (partial) request means.

Invariants
    1. A set of devices is a bit mask: bit i is `Devices.all[i]`.
    2. `Devices.names` starts with the host, CPU:0; `best(mask)` is the device of the highest
       priority, among equals the first.

Threads: belongs to one session, which compiles under a lock.

    devices = Devices.of_process({"CPU": 2})
    devices.resolve("/cpu:1")      # '/job:localhost/replica:0/task:0/device:CPU:1'
"""
from pyflow.framework.device import DeviceSpec, parsed
from pyflow.passes.place_kernels import ANYWHERE

LOCAL = "/job:localhost/replica:0/task:0"


class Speed:
    """What a device is like, for the cost model: flops and bandwidth per second, link in bytes per
    second from and to the host, peer_link between peers (0: like link), latency in seconds to
    start a kernel, memory in bytes (0: no limit)."""

    __slots__ = ("flops", "bandwidth", "link", "latency", "memory", "peer_link")

    def __init__(self, flops, bandwidth, link, latency, memory=0, peer_link=0):
        self.flops, self.bandwidth, self.link = float(flops), float(bandwidth), float(link)
        self.latency, self.memory, self.peer_link = float(latency), int(memory), float(peer_link)


HOST = Speed(flops=3e10, bandwidth=1e10, link=float("inf"), latency=1e-7)
ACCELERATOR = Speed(flops=1e12, bandwidth=1e11, link=1e10, latency=1e-5)   # where it does not say


class Device:
    """One device: full `name`, type `kind`, `ordinal`, `priority`, `speed`; `core_name` is what the
    executor calls it.  kernels: the KernelTable of its task; None: the table of its Devices.
    incarnation: its task's, 64 random bits as an int64, which edges from it carry.  rank: its
    task's place among all, where priorities are equal."""

    __slots__ = ("name", "kind", "ordinal", "priority", "speed", "core_name", "spec", "kernels",
                 "incarnation", "rank")

    def __init__(self, name, priority=0, speed=None, core_name=None, kernels=None, incarnation=1,
                 rank=0):
        self.name, self.priority, self.kernels = name, priority, kernels
        self.incarnation, self.rank = incarnation, rank
        self.core_name = core_name or name
        self.spec = DeviceSpec.from_string(name)
        self.kind, self.ordinal = self.spec.device_type, self.spec.device_index
        self.speed = speed or (HOST if self.kind == "CPU" else ACCELERATOR)

    def __repr__(self):
        return f"<Device {self.name}>"


class Devices:
    """The devices a session may use.  `names` in order; the first is the default."""

    def __init__(self, devices, kernels=None, opener=None, renames=None):
        """renames: {(job, task): (job, task)}, what requests of a task mean where that is another
        one. devices: Device objects or full names, the host first; kernels: the KernelTable of those
        without one of their own, or None where it does not matter (one device); opener: function(Device) -> None, or why it cannot be
        used: asked once, when something is to be placed there.

        `peers`: pairs of indices (from, to) that copy without the host, for the cost model."""
        found = {}
        for device in devices:
            device = Device(device) if isinstance(device, str) else device
            found.setdefault(device.name, device)
        self.all, self.kernels = list(found.values()), kernels
        self.names = list(found)
        self.everything = (1 << len(self.all)) - 1
        self._incarnations = {name: d.incarnation for d in self.all
                              for name in (d.name, d.core_name)}
        self.renamed = {d.name: d.core_name for d in self.all if d.core_name != d.name}
        self._masks, self._best, self._kernel_masks = {}, {}, {}
        self._tables = {}               # id of a KernelTable: (it, mask of the devices it speaks for)
        for i, device in enumerate(self.all):
            table = device.kernels or kernels
            if table is not None:
                self._tables[id(table)] = table, self._tables.get(id(table), (None, 0))[1] | 1 << i
        self._opener, self._opened, self.problems = opener, set(), {}
        self._renames = renames or {}
        self.peers = set()
        self._local = DeviceSpec(self.all[0].spec.job, self.all[0].spec.replica,
                                 self.all[0].spec.task)

    @classmethod
    def of_process(cls, device_count=None, found=(), kernels=None, priorities=None):
        """CPUs as in ConfigProto.device_count (default 1); other types as found [(type, ordinal,
        ...)], at most as many as counted."""
        counts, priorities = dict(device_count or {}), priorities or {}
        devices = [f"{LOCAL}/device:CPU:{i}" for i in range(max(1, counts.get("CPU", 1)))]
        for kind, ordinal, *_ in found:
            if kind != "CPU" and ordinal < counts.get(kind, ordinal + 1):
                devices.append(Device(f"{LOCAL}/device:{kind}:{ordinal}", priorities.get(kind, 0)))
        return cls(devices, kernels)

    @property
    def default(self):
        return self.names[0]

    def mask(self, request):
        """The devices that a (partial) name allows: 0 if there is none such."""
        found = self._masks.get(request)
        if found is None:
            asked = parsed(request)
            if asked.job == "local" and not any(d.spec.job == "local" for d in self.all):
                # the old name of the only process
                asked = asked.replace(job="localhost")
            asked = meant(asked, self._renames)
            found = 0
            for i, device in enumerate(self.all):
                found |= asked.allows(device.spec) << i
            found = self._masks[request] = found & self.everything
        return found

    def task_mask(self, request):
        """The devices of the task that a request names, whatever their type; all if it names none."""
        return self.mask(parsed(request).replace(device_type=None, device_index=None).to_string())

    def type_mask(self, request):
        """The devices of the type that a request asks for, of any number; all if it says none."""
        kind = parsed(request).device_type
        return self.everything & sum(1 << i for i, d in enumerate(self.all)
                                     if kind in (None, d.kind))

    def best(self, mask):
        """The index of the preferred device of a mask that is not 0."""
        found = self._best.get(mask)
        if found is None:
            among = [i for i in range(len(self.all)) if mask >> i & 1]
            found = self._best[mask] = max(
                among, key=lambda i: (self.all[i].priority, -self.all[i].rank, -i))
        return found

    def set_ranks(self, of_task):
        """Which tasks are preferred.  of_task: {'/job:worker/replica:0/task:1': rank}."""
        for device in self.all:
            device.rank = of_task.get(task_of(device), len(of_task))
        self._best = {}

    def has_tasks(self):
        """They are of more than one."""
        return len({task_of(device) for device in self.all}) > 1

    def resolve(self, request):
        """The full name a request gets, or None if there is no such device."""
        mask = self.mask(request)
        return self.names[self.best(mask)] if mask else None

    def drop_broken(self, chosen):
        """True if one of the devices (indices) cannot be opened: then no mask has it any more."""
        broken = False
        for i in chosen - self._opened - {None}:
            device = self.all[i]
            self._opened.add(i)
            problem = self._opener(device) if self._opener and device.kind != "CPU" else None
            if problem:
                broken = True
                self.problems[device.name] = problem
                self.everything &= ~(1 << i)
                self._masks, self._best, self._kernel_masks = {}, {}, {}
        return broken

    def incarnation(self, name):
        """The incarnation of the task of the device of that full name; 1 if there is no such device."""
        return self._incarnations.get(name, 1)

    def rename(self, graph):
        """Gives the nodes the executor's names of their devices (visible_device_list)."""
        for node in graph.nodes:
            node.device = self.renamed.get(node.device, node.device)

    def kernel_mask(self, node):
        """The devices with a kernel for the node, each by its task's table; all where nobody knows."""
        if not self._tables:
            return self.everything
        tables = self._tables.values()
        if len(tables) == 1:
            [(table, _)] = tables
            key = table.key(node)
        else:
            key = tuple([table.key(node) for table, _ in tables])
        found = self._kernel_masks.get(key)
        if found is None:
            found = self.everything & sum(
                self._offers(table, node, mask) for table, mask in tables) or self.everything
            self._kernel_masks[key] = found
        return found

    def _offers(self, table, node, mask):
        """Those of the mask that have a kernel for the node, as their table says."""
        types = table.types(node)
        if types is ANYWHERE or not types:
            return mask if types else 0
        return sum(1 << i for i, d in enumerate(self.all) if mask >> i & 1 and d.kind in types)

    def kernels_text(self, node):
        """'CPU and GPU', or by task where tables differ: for messages."""
        texts = {}
        for table, mask in self._tables.values():
            types = " and ".join(sorted(table.types(node) or ()))
            if types:
                tasks = sorted({task_of(d) for i, d in enumerate(self.all) if mask >> i & 1})
                texts.setdefault(types, []).extend(tasks)
        if len(texts) <= 1 and len(self._tables) <= 1:
            return "".join(texts) or "no device"
        return "; ".join(f"{types} of {', '.join(tasks)}" for types, tasks in texts.items()) \
            or "no device"

    def registered(self, op):
        """The kernels there are, for messages; by task where tables differ."""
        texts = {}
        for table, mask in self._tables.values():
            tasks = sorted({task_of(d) for i, d in enumerate(self.all) if mask >> i & 1})
            texts.setdefault(table.registered(op), []).extend(tasks)
        if len(texts) <= 1:
            return "".join(texts) or "none"
        return "; ".join(f"{text} on {', '.join(tasks)}" for text, tasks in texts.items())


def meant(asked, renames):
    """A DeviceSpec with the task that its own one means; renames: as of Devices."""
    job, task = renames.get((asked.job, asked.task), (asked.job, asked.task))
    return asked if (job, task) == (asked.job, asked.task) else asked.replace(job=job, task=task)


def task_of(device):
    """'/job:worker/replica:0/task:1' of a Device."""
    return device.name.rsplit("/device:", 1)[0]
