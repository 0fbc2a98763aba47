"""A cluster on Ray: an actor a task hosts its process, wherever Ray finds room for it.

Ray starts, places and finds; it does not fence: a node that was frozen, replaced and thawed goes on
beside its replacement.  So epochs are counted here, and what tasks say to each other has them.

    driver (RayCluster) ── registry: a detached actor on the head's node, counts epochs
                        ├─ an actor a task, in a placement group: hosts the process (hosted.py)
                        └─ a watch a node: kills frozen actors and what they host

Invariants
1. A task's epoch comes from the registry, before its process starts: it is one more than any that
   was given out, by this driver or an earlier one of the same name.
2. A process ends when its actor's process does, and that when the driver or Ray's process on the
   node does.
3. Addresses change when a task moves: the members' file, which actors keep, has the new ones.
4. A task of `shrink`'s jobs that finds no place within `patience` seconds leaves the cluster; one
   of another job ends it.

    a task: placing [_place] -> hosted [_placed] -> running [_start] -> ended [_heard: _task_ended]
            hosted | running -> lost [_heard, _silent] -> placing

Threads: Supervisor's; Ray's calls are made by it alone.  ray is imported when it is used.
Callers: `python -m pyflow launch --on ray`, tests.

    with RayCluster([sys.executable, "train.py"], {"ps": 1, "worker": 2}, restarts=5) as cluster:
        status = cluster.wait()
"""
import math
import os
import secrets
import signal
import sys
import threading
import time

from pyflow.distributed.launch import hosted
from pyflow.distributed.launch.supervision import RUNNING, Slot, Supervisor
from pyflow.framework import errors

NAMESPACE = "pyflow"
NEEDS = "clusters on Ray need two packages: pip install ray grpcio"
# For a head that we start: a lost node is noticed after a second, where Ray's defaults take 15.
HEALTH = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 250,
          "health_check_timeout_ms": 250, "health_check_failure_threshold": 4}
STARTING = 60.0                 # seconds that all tasks together have to find their first places
_ASK = 0.5                      # seconds that an actor waits for news of its process


def _ray():
    """The module ray. ImportError, with what to do, where it is not installed."""
    try:
        import ray
    except ImportError:
        raise ImportError(NEEDS) from None
    return ray


# ---------------------------------------------------------------- actors

class Registry:
    """Counts epochs; outlives drivers, so that they go on where the one before was lost."""

    def __init__(self):
        self._job_id, self._epochs = secrets.token_hex(8), {}

    def job_id(self):
        """Of all drivers that share this registry."""
        return self._job_id

    def begin(self, label):
        """The next epoch of a task."""
        self._epochs[label] = self._epochs.get(label, 0) + 1
        return self._epochs[label]

    def epochs(self):
        """{label: the newest epoch}."""
        return self._epochs


class Host(hosted.HostedTask):
    """The actor of a task."""

    def __init__(self, lease):
        _end_with_the_node()
        super().__init__(_ray().util.get_node_ip_address(), lease)

    def where(self):
        """What the driver must know of it."""
        return {"address": self.address, "members": self.members_path, "pid": os.getpid(),
                "node": _ray().get_runtime_context().get_node_id()}


class Watch:
    """The actor of a node: ends actors there that do not answer."""

    def __init__(self):
        _end_with_the_node()

    def end(self, *pids):
        """Kills processes, frozen ones too; returns which were there."""
        return [pid for pid in pids if pid and hosted.kill_group(pid)]


def _end_with_the_node():
    """Has this process end when Ray's on this node, its parent, does. Ray's own way takes seconds,
    in which a task that was replaced runs on."""
    def watch(raylet):
        while os.getppid() == raylet:
            time.sleep(0.1)
        os._exit(1)
    threading.Thread(target=watch, args=[os.getppid()], daemon=True).start()


class Remote:
    """The process that an actor hosts, as Supervisor sees it."""

    def __init__(self, host, pid):
        self.host, self.pid, self.status = host, pid, None

    def send(self, number):
        """A signal. An actor that is lost does not hear it."""
        self.host.send.remote(int(number))


# ---------------------------------------------------------------- the driver

class RayCluster(Supervisor):
    """Tasks of one command on a Ray cluster.

    command: [program, argument ...]; this Python as the program stands for each node's own. Paths
        must be there on each node.
    jobs, restarts, backoff, shards, lease, certificates, insecure, environment, grace, output: as
        of local.LocalCluster; the environment is beside that of the nodes.
    address: of the Ray cluster; default: what RAY_ADDRESS says, or one that is started here.
    name: drivers of the same name go on with the same epochs. cpus: that each task reserves.
    patience: seconds that a task may wait for a new place. shrink: jobs that may lose tasks.

    The lease is also how long an actor may say nothing, or a process be stopped, before it is
    killed and its task placed anew: that counts as a restart."""

    def __init__(self, command, jobs, *, address=None, name=None, cpus=1, patience=15.0,
                 shrink=("worker",), **options):
        ray = _ray()
        command = ["" if word == sys.executable and not n else word
                   for n, word in enumerate(command)]
        super().__init__(command, jobs, job_id="", **options)
        self._ray, self._name, self._cpus = ray, name or secrets.token_hex(4), cpus
        self._patience_of_place, self._shrink = patience, tuple(shrink)
        self._address, self._own_head = address or os.environ.get("RAY_ADDRESS"), False
        self._group, self._registry, self._watches = None, None, {}

    def start(self):
        """Connects to Ray, finds a place for all tasks and starts them; returns itself.

        Raises tf.errors.ResourceExhaustedError if they find none within STARTING seconds."""
        if not self._ray.is_initialized():
            self._own_head = self._address is None
            head = self._head() if self._own_head else {}
            self._ray.init(address=self._address or "local", log_to_driver=False,
                           namespace=NAMESPACE, **head)
        return super().start()

    def _head(self):
        """Settings of a head on this machine, which has room for all tasks, if at a squeeze."""
        wanted = math.ceil(self._cpus * sum(self._wanted.values()))
        return {"_system_config": HEALTH, "include_dashboard": False,
                "num_cpus": max(wanted, os.cpu_count() or 1)}

    def node_of(self, job, index):
        """The id of the node where a task is, None while it has no place."""
        place = self._slots[job, index].place
        return place and place.get("node")

    # ------------------------------------------------------------ the cluster's thread

    def _run(self):
        ray = self._ray
        self._registry = self._actor(Registry, name=f"registry of {self._name}", num_cpus=0,
                                     lifetime="detached", get_if_exists=True,
                                     scheduling_strategy=self._on_node(_head_of(ray)))
        self.job_id = ray.get(self._registry.job_id.remote())
        for job, count in self._wanted.items():
            for index in range(count):
                self._slots[job, index] = Slot(job, index, state="gone")
        self._group = ray.util.placement_group([{"CPU": self._cpus}] * len(self._slots),
                                               strategy="SPREAD")
        if not self._group.wait(STARTING):
            raise errors.ResourceExhaustedError(None, None, (
                f"Ray finds no place for {len(self._slots)} tasks of {self._cpus} CPUs each: it "
                f"has {ray.cluster_resources().get('CPU', 0):g} CPUs"))
        for slot in self._slots.values():
            self._place(slot)
        while not self._begun.is_set() and self._turn():
            if all(slot.place.get("node") for slot in self._slots.values()):
                self._begin_all()
        while self._turn():
            pass

    def _begin_all(self):
        """All have places: addresses are known before the first contract is written."""
        for slot in self._slots.values():
            slot.state = "restarting"
            slot.due = time.monotonic()
        self._begun.set()

    def _turn(self):
        """Hears what actors say, and does what follows; False once all is over."""
        asked = {slot.place["ref"]: slot for slot in self._slots.values()
                 if slot.place and slot.place.get("ref") is not None}
        if asked:
            ready, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0.02)
            for ref in ready:
                self._heard(asked[ref], ref)
        else:
            time.sleep(min(0.02, self._patience(0.02)))
        for slot in self._slots.values():
            self._look_for_silence(slot)
        self._calls.answer()
        return self._pass_time()

    def _close(self):
        """The actors go, and with them their processes; the registry only after a good end."""
        ray = self._ray
        for slot in self._slots.values():
            if slot.place is not None:
                _forget(ray, slot.place["host"])
        for watch in self._watches.values():
            _forget(ray, watch)
        if self._registry is not None and self._status == 0:
            _forget(ray, self._registry)
        if self._group is not None:
            ray.util.remove_placement_group(self._group)
        if self._own_head:
            ray.shutdown()

    def _publish(self, who):
        text = who.to_json()
        for slot in self._slots.values():
            if slot.place is not None and slot.place.get("node"):
                slot.place["host"].tell.remote(text)

    # ------------------------------------------------------------ places

    def _place(self, slot):
        """Asks for an actor of the task, in its bundle of the placement group."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        bundle = list(self._slots.values()).index(slot)
        host = self._actor(Host, self._lease, num_cpus=self._cpus, max_concurrency=4,
                           scheduling_strategy=PlacementGroupSchedulingStrategy(
                               self._group, placement_group_bundle_index=bundle))
        slot.place = {"host": host, "ref": host.where.remote(), "since": time.monotonic()}

    def _placed(self, slot, where):
        slot.place.update(where, ref=None)
        slot.address = where["address"]
        if where["node"] not in self._watches:
            self._watches[where["node"]] = self._actor(
                Watch, num_cpus=0, scheduling_strategy=self._on_node(where["node"]))
        if self._begun.is_set():
            slot.due = time.monotonic()

    def _start(self, slot):
        """A process of the next epoch, on the task's actor, or first an actor for it."""
        if slot.place is None:
            self._place(slot)
            return
        try:
            slot.epoch = self._ray.get(self._registry.begin.remote(slot.label), timeout=30) - 1
        except self._ray.exceptions.RayError as e:
            raise errors.UnavailableError(None, None, (
                f"the registry of cluster {self._name!r}, which counts epochs, is lost: {e}. Start "
                "the cluster under another name")) from None
        contract = self._begin(slot, slot.place["members"])
        environment = {**self._environment, **contract.environment()}
        slot.place["ref"] = slot.place["host"].start.remote(self._command, environment)
        slot.place["since"] = slot.started
        slot.process = Remote(slot.place["host"], None)

    # ------------------------------------------------------------ what actors say

    def _heard(self, slot, ref):
        try:
            said = self._ray.get(ref)
        except self._ray.exceptions.RayActorError as e:
            self._lost(slot, f"its actor is lost ({type(e).__name__})")
            return
        except self._ray.exceptions.RayTaskError as e:
            raise errors.InternalError(None, None, f"{slot.label}'s actor: {e}") from None
        if isinstance(said, dict):
            self._placed(slot, said)
            return
        lines, status = said if isinstance(said, tuple) else ([], None)
        if isinstance(said, int):
            slot.process.pid = said
        for line in lines:
            self._tracebacks.take(slot.label, line)
        if status is None:
            slot.place["ref"] = slot.place["host"].events.remote(_ASK)
            slot.place["since"] = time.monotonic()
            return
        slot.place["ref"], slot.process.status = None, status
        self._task_ended(slot, status)

    def _look_for_silence(self, slot):
        """An actor that says nothing for a lease is frozen or cut off; one that was not placed has
        no place."""
        place = slot.place
        if place is None or place.get("ref") is None:
            return
        quiet = time.monotonic() - place["since"]
        if not place.get("node"):
            if quiet > (self._patience_of_place if self._begun.is_set() else STARTING):
                self._without_place(slot)
        elif quiet > _ASK + self._lease:
            self._end_frozen(slot)
            self._lost(slot, f"its actor said nothing for {quiet:.1f} s")

    def _end_frozen(self, slot):
        """Kills the actor's process and what it hosts, by the watch of their node."""
        watch = self._watches.get(slot.place["node"])
        if watch is not None:
            watch.end.remote(slot.place["pid"], slot.process and slot.process.pid)

    def _lost(self, slot, why):
        """The actor is gone, and its process with it, or soon."""
        _forget(self._ray, slot.place["host"])
        slot.place = None
        if slot.process is not None:
            slot.process.status = slot.process.status or -signal.SIGKILL
        said = f"{slot.label} (epoch {slot.epoch}): {why}"
        if self._phase != RUNNING or slot.state == "gone" and self._begun.is_set():
            self._set(slot, "gone")
        elif slot.restarts < self._restarts:
            self._schedule(slot, said)
        else:
            self._lose(slot, said, 1)

    def _without_place(self, slot):
        if not self._begun.is_set():
            raise errors.ResourceExhaustedError(None, None, (
                f"{slot.label}: Ray started no actor for it in {STARTING:g} s"))
        waited = f"{slot.label}: Ray found no place for it in {self._patience_of_place:g} s"
        _forget(self._ray, slot.place["host"])
        slot.place = None
        if slot.job in self._shrink and (slot.job, slot.index) != self._chief:
            self._say(f"{waited}: the cluster goes on without it")
            self._set(slot, "gone")
        else:
            self._lose(slot, waited, 1)

    # ------------------------------------------------------------ Ray

    def _actor(self, kind, *args, **options):
        return self._ray.remote(kind).options(max_restarts=0, **options).remote(*args)

    def _on_node(self, node):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        return NodeAffinitySchedulingStrategy(node, soft=False)


def _head_of(ray):
    """The id of the head's node."""
    for node in ray.nodes():
        if node["Alive"] and "node:__internal_head__" in node["Resources"]:
            return node["NodeID"]
    return ray.get_runtime_context().get_node_id()


def _forget(ray, actor):
    try:
        ray.kill(actor)
    except Exception:       # of all kinds, where it or its node is gone
        pass
