"""A Ray cluster of three nodes on loopback alone, and what happens to a job on it.

    unshare -n -p -f --mount-proc --kill-child python tests/distributed/ray_nodes.py CASE FOLDER

Ray's `Cluster` binds the host's own address: it runs in a network namespace where there is none.
Prints a JSON object: what was seen, and seconds.  Callers: test_ray.py, and launchers.py for the
case "script", which prints what a script's tasks do; marked long; needs ray.
"""
import fcntl
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from pyflow.distributed.train import commits
from pyflow.distributed.launch import ray as on_ray

ALONE = ["unshare", "-n", "-p", "-f", "--mount-proc", "--kill-child"]
TRAIN = """
import json, os, sys, time
from pyflow.distributed import launch
from pyflow.distributed.train import commits
task = launch.task()
print("begins", task.label, task.epoch, task.address, flush=True)
if task.is_chief:
    store = commits.CheckpointFolder(sys.argv[1], epoch=task.epoch, job=task.job_id)
    resumed = store.begin()
    for step in range(resumed.step + 1 if resumed else 1, int(sys.argv[2]) + 1):
        time.sleep(0.05)
        store.save(step, {"data": str(step).encode()})
        print("step", step, task.epoch, flush=True)
    print("end", flush=True)
else:
    while True:
        time.sleep(0.05)
        print("alive", task.label, task.epoch, flush=True)
"""


SERVERS = """
import sys, time
import numpy as np
import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.train import commits, training
task, last = launch.task(), int(sys.argv[2])
server = task.server()
print("begins", task.label, task.epoch, task.address, flush=True)
if not task.is_chief:
    server.join()
    sys.exit()
with tf.device(tf.train.replica_device_setter(cluster=task.cluster, worker_device=task.name)):
    x = tf.placeholder(tf.float32, [8])
    w = tf.get_variable("w", [8], initializer=tf.random_normal_initializer(seed=1))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.05).minimize(tf.reduce_sum(tf.square(w - x)), step)
with training.training_session(
        server, True, feed=lambda step, source: {x: np.random.RandomState(step).rand(8)},
        checkpoint_dir=sys.argv[1], save_steps=5, last_step=last, epoch=task.epoch,
        job=task.job_id) as sess:
    while not sess.should_stop():
        print("step", sess.run([train, step])[1], task.epoch, flush=True)
        time.sleep(0.05)
print("sha256", training.digest(commits.newest_committed(sys.argv[1]).prefix), flush=True)
server.stop_cluster()
"""


def reason_to_skip():
    """Why Ray's clusters cannot be tested here, or None."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed: long.py ray-tests"
    try:
        done = subprocess.run([*ALONE, "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "no command unshare: Ray's test clusters would bind this machine's address"
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else None


def alone(case, folder, *words):
    """What subprocess.run returns of a case, in a namespace of its own."""
    return subprocess.run([*ALONE, sys.executable, "-P", __file__, case, folder, *words], text=True,
                          capture_output=True, env={**os.environ, "PYTHONSAFEPATH": "1"})


def loopback_up():
    """Brings up lo, the only interface of a new namespace; refuses to run beside others."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        sys.exit(f"only in a network namespace with lo alone, here are {names}: unshare -n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        up = struct.pack("16sh", b"lo", 0x1 | 0x40)         # IFF_UP, IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, up)                       # SIOCSIFFLAGS


class Job:
    """A RayCluster on the nodes; what it says, with times."""

    def __init__(self, nodes, folder, steps, **options):
        self.nodes, self.said = nodes, []
        script, runs = self.script(folder, options.pop("text", TRAIN))
        self.cluster = on_ray.RayCluster(
            [sys.executable, "-P", script, runs, str(steps)], {"ps": 1, "worker": 2},
            address=nodes.address, grace=2.0, output=self.hear,
            **{"restarts": 3, "name": "job", **options})

    @staticmethod
    def script(folder, text=TRAIN):
        """Writes the training script, makes a folder for its checkpoints; their paths."""
        script, runs = os.path.join(folder, "train.py"), os.path.join(folder, "runs")
        with open(script, "w") as f:
            f.write(text)
        os.makedirs(runs, exist_ok=True)
        return script, runs

    def hear(self, label, line):
        self.said.append((time.monotonic(), label, line))
        print(f"[{label}] {line}", file=sys.stderr)

    def until(self, beginning, since=0.0, label=None, seconds=60):
        """Waits for a line; the time it came and the line."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for at, who, line in list(self.said):
                if at > since and line.startswith(beginning) and label in (None, who):
                    return at, line
            if self.cluster._failure:
                raise self.cluster._failure
            time.sleep(0.01)
        raise TimeoutError(f"no line {beginning!r} of {label}")

    def node_of(self, job, index):
        [node] = [n for n in self.nodes.list_all_nodes()
                  if n.node_id == self.cluster.node_of(job, index)]
        return node


def cluster_of(health, spare=1):
    """A head without room for tasks, three nodes, and spare ones."""
    from ray.cluster_utils import Cluster
    head = {"num_cpus": 0, "include_dashboard": False}
    if health:
        head["_system_config"] = on_ray.HEALTH
    nodes = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(3 + spare):          # an actor each
        nodes.add_node(num_cpus=1)
    return nodes


def lose(nodes, folder, job="worker", index=0):
    """A node is removed while its task runs; the task goes on elsewhere."""
    run = Job(nodes, folder, 60)
    with run.cluster as cluster:
        run.until("step 10 ")
        node, before = run.node_of(job, index), cluster.members()
        at = time.monotonic()
        nodes.remove_node(node, allow_graceful=False)
        again, line = run.until(f"begins {job}-{index} 2 ", at)
        first, step = run.until("step", again) if job == "worker" else (again, line)
        status = cluster.wait(120)
        after = cluster.members()
    return {"status": status, "begins": again - at, "seconds": first - at, "line": step,
            "moved": before.tasks[job, index].address != after.tasks[job, index].address,
            "newest": commits.newest_committed(os.path.join(folder, "runs"))[:2],
            "others": [m.epoch for k, m in after.tasks.items() if k != (job, index)]}


def shrink(nodes, folder):
    """No spare node: the second worker is lost for good, the job goes on."""
    run = Job(nodes, folder, 150, patience=3.0)
    with run.cluster as cluster:
        run.until("step 5 ")
        nodes.remove_node(run.node_of("worker", 1), allow_graceful=False)
        run.until("worker-1: Ray found no place", label="launch")
        status = cluster.wait(120)
        return {"status": status, "state": cluster.members().tasks["worker", 1].state,
                "epoch": cluster.members().tasks["worker", 1].epoch,
                "newest": commits.newest_committed(os.path.join(folder, "runs"))[:2]}


def freeze(nodes, folder, what):
    """A task's process, or the actor that hosts it, is stopped: killed after the lease, replaced.
    A whole node that is stopped, replaced and thawed: what it commits afterwards counts nothing."""
    run = Job(nodes, folder, 100, lease=1.0)
    with run.cluster as cluster:
        run.until("step 10 ")
        slot = cluster._slots["worker", 0]
        pids = {"process": [slot.process.pid], "actor": [slot.place["pid"]]}.get(what)
        pids = pids or family(run.node_of("worker", 0))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        at = time.monotonic()
        again, _ = run.until("begins worker-0 2 ", at)
        first, _ = run.until("step", again)
        thawed = 0
        for pid in pids if what == "node" else ():
            try:
                os.kill(pid, signal.SIGCONT)
                thawed += 1
            except ProcessLookupError:
                pass
        status = cluster.wait(120)
        newest = commits.CheckpointFolder(os.path.join(folder, "runs")).committed()
        until_gone(pids)            # those of a node end once its raylet finds itself given up
    return {"status": status, "seconds": first - at, "thawed": thawed,
            "newest": newest[0][:2], "epochs": sorted({c.epoch for c in newest})}


def again(nodes, folder):
    """A driver that ends without a word leaves its registry: the next one counts on."""
    first = Job(nodes, folder, 1000)
    first.cluster.start()
    first.until("step 3 ")
    first.cluster.stop(signal.SIGKILL)
    second = Job(nodes, folder, 30)
    with second.cluster as cluster:
        second.until("begins worker-0 2 ")
        assert cluster.job_id == first.cluster.job_id
        return {"status": cluster.wait(60), "epochs": [m.epoch for m in
                                                       cluster.members().tasks.values()]}


def servers(nodes, folder):
    """tf.train.Servers train: undisturbed; then the parameter server's node is lost, and the
    chief's. What both runs end with."""
    ends, seconds = [], []
    for lost in ((), ("ps", "worker")):
        place = os.path.join(folder, f"lost{len(lost)}")
        os.makedirs(place)
        run = Job(nodes, place, 100, text=SERVERS, name=f"job{len(lost)}")
        with run.cluster as cluster:
            for n, job in enumerate(lost, 1):
                run.until(f"step {30 * n} ")
                at = time.monotonic()
                nodes.remove_node(run.node_of(job, 0), allow_graceful=False)
                again, _ = run.until(f"begins {job}-0 2 ", at)
                seconds.append(run.until("step", again)[0] - at)
            status = cluster.wait(120)
            ends.append([status, run.until("sha256")[1]])
    return {"ends": ends, "seconds": seconds}


def command(folder):
    """`python -m pyflow launch --on ray`, which starts a head of its own."""
    Job.script(folder)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pyflow", "launch", "--on", "ray", "--workers", "2", "--ps",
         "1", "--shards", "4", os.path.join(folder, "train.py"), os.path.join(folder, "runs"), "8"],
        capture_output=True, text=True, timeout=120)
    print(done.stderr, file=sys.stderr)
    lines = [line for line in done.stdout.splitlines() if "begins" in line or "end" in line]
    return {"status": done.returncode, "lines": sorted(line.split(" 127")[0] for line in lines),
            "newest": commits.newest_committed(os.path.join(folder, "runs"))[:2]}


def script(folder, *words):
    """A script under `python -m pyflow launch --on ray`: its lines are printed as they are."""
    done = subprocess.run([sys.executable, "-P", "-m", "pyflow", "launch", "--on", "ray", "--ps",
                           "1", "--workers", "2", *words], cwd=folder, timeout=180)
    return {"status": done.returncode}


def family(node):
    """The processes of a node: its raylet, workers, and what those host."""
    import psutil
    raylet = next(p for p in psutil.process_iter(["cmdline"])
                  if any("raylet/raylet" in w for w in p.info["cmdline"] or ())
                  and any(node.node_id in w or f"--node_manager_port={node.node_manager_port}" in w
                          or node.raylet_socket_name in w for w in p.info["cmdline"]))
    return [raylet.pid, *(p.pid for p in raylet.children(recursive=True))]


def until_gone(pids, seconds=20.0):
    import psutil

    def there():
        for pid in pids:
            try:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    yield pid, process.status(), process.cmdline()[:3]
            except psutil.NoSuchProcess:
                pass
    end = time.monotonic() + seconds
    while found := list(there()):
        assert time.monotonic() < end, f"still there: {found}"
        time.sleep(0.05)


CASES = {
    "lose worker": lambda folder: lose(cluster_of(True), folder),
    "lose ps": lambda folder: lose(cluster_of(True), folder, "ps"),
    "lose worker with defaults": lambda folder: lose(cluster_of(False), folder),
    "shrink": lambda folder: shrink(cluster_of(True, spare=0), folder),
    "freeze process": lambda folder: freeze(cluster_of(True), folder, "process"),
    "freeze actor": lambda folder: freeze(cluster_of(True), folder, "actor"),
    "freeze node": lambda folder: freeze(cluster_of(True), folder, "node"),
    "servers": lambda folder: servers(cluster_of(True, spare=2), folder),
    "command": command,
    "script": script,
    "again": lambda folder: again(cluster_of(True), folder),
}


if __name__ == "__main__":
    loopback_up()
    alarm = threading.Timer(200, os._exit, [3])
    alarm.daemon = True
    alarm.start()
    found = CASES[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(found), flush=True)
    os._exit(0)         # Cluster's own end takes seconds; its processes are this namespace's
