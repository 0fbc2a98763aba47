"""What a process of a cluster is told: the variable TF_CONFIG, with a few fields beside TF's.

    {"cluster": {"ps": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]},
     "task": {"type": "worker", "index": 1},                        these two are TensorFlow's
     "epoch": 3, "job": "5f2c...", "shards": 4, "lease": 10.0,
     "certificates": "/secrets/worker-1", "insecure": false, "members": "/tmp/x/members.json"}

Invariants
1. One contract for all launchers: a script that reads it runs under each of them unchanged.
2. The environment is untrusted: a field that is not what it should be is an error that names it.
   Fields that nobody here knows are left alone, for TensorFlow has more.
3. Nothing secret is in it: certificates are named by their folder.

Threads: a Task does not change.  Callers: launchers write it, servers and scripts read it.

    task = launch.task()
    if task is not None and task.job == "ps": ...
"""
import dataclasses
import json
import os
import re

from pyflow.distributed.run import epochs
from pyflow.framework import errors
from pyflow.train.cluster_spec import ClusterSpec

VARIABLE = "TF_CONFIG"
LARGEST = 1 << 20               # characters
LEASE = 10.0                    # seconds: issue of a client's and a task's absence
CHIEFS = ("chief", "master", "worker")
SERVING = ("ps", "ps_standby")  # jobs whose tasks serve until they are told to end
OUTSIDE = "evaluator"           # TensorFlow's: a task of this type is not in the cluster


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a cluster.

    cluster: a ClusterSpec. job, index: which task of it this is.
    epoch: counted up by whoever restarts; 0 where nobody counts. job_id: of the launcher's run.
    shards: logical shards of a synchronous step, None: as many as there are workers.
    lease: seconds after which one who does not speak is taken for gone.
    certificates: a folder for `security.Credentials`, or None. insecure: may listen anywhere
        without them. members: a file that says who is there now (members.py), or None."""

    cluster: ClusterSpec
    job: str
    index: int
    epoch: int = 0
    job_id: str = ""
    shards: int | None = None
    lease: float = LEASE
    certificates: str | None = None
    insecure: bool = False
    members: str | None = None

    @property
    def name(self):
        """As in the names of its devices: "/job:worker/task:1"."""
        return f"/job:{self.job}/task:{self.index}"

    @property
    def label(self):
        """For people and for folders: "worker-1"."""
        return f"{self.job}-{self.index}"

    @property
    def address(self):
        """Where its server listens; None for an evaluator."""
        return None if self.job == OUTSIDE else self.cluster.task_address(self.job, self.index)

    @property
    def is_chief(self):
        """True for the task whose end is the job's: task 0 of chief, master or else worker."""
        return (self.job, self.index) == chief_of({job: self.cluster.task_indices(job)
                                                   for job in self.cluster.jobs})

    @property
    def serves(self):
        """True for a task that has nothing to do but `server.join()`: of ps or ps_standby."""
        return self.job in SERVING

    def credentials(self):
        """Its security.Credentials, from `certificates` or else PYFLOW_CERTIFICATES; None."""
        from pyflow.distributed.wire.security import Credentials
        if self.certificates is not None:
            return Credentials.load(self.certificates, self.label)
        return Credentials.of_environment(self.label)

    def server(self, config=None, **options):
        """The tf.train.Server that this task is: its place in the cluster, epoch, lease and
        security as the contract says; it hears of tasks that come, leave or move from the file of
        members. config: a ConfigProto; options: of tf.train.Server."""
        from pyflow.distributed.launch import members
        from pyflow.distributed.run.server import Server
        told = {"epoch": self.epoch, "lease": self.lease, "insecure": self.insecure,
                "credentials": self.credentials()}
        server = Server(self.cluster, self.job, self.index, config=config, **{**told, **options})

        def changed(who):
            mine = who.tasks.get((self.job, self.index))
            if mine is not None and mine.epoch > self.epoch:
                server.replaced(mine.epoch)
            else:
                server.update_cluster(who.cluster())
        if self.members is not None:
            members.follow(self.members, changed, lambda: server.stopped)
        return server

    def to_json(self):
        """The text of TF_CONFIG."""
        fields = {"epoch": self.epoch, "job": self.job_id, "lease": self.lease,
                  "shards": self.shards, "certificates": self.certificates,
                  "insecure": self.insecure, "members": self.members}
        jobs = self.cluster.as_dict()
        return json.dumps({"cluster": jobs, "task": {"type": self.job, "index": self.index},
                           **{key: value for key, value in fields.items() if value is not None}})

    def environment(self):
        """{variable: text} for the process."""
        return {VARIABLE: self.to_json()}


def chief_of(jobs):
    """(job, index) of the task whose end ends the job, of {job: its indices}."""
    job = next((job for job in CHIEFS if jobs.get(job)), next((j for j in jobs if jobs[j]), None))
    return None if job is None else (job, min(jobs[job]))


def task(environ=None):
    """What this process is: the Task that TF_CONFIG tells, or None where it names no cluster.

    Raises tf.errors.InvalidArgumentError, naming the field, for a TF_CONFIG that is malformed."""
    environ = os.environ if environ is None else environ
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return None
    return parse(text, environ)


def parse(text, environ=None):
    """The Task of TF_CONFIG's text; None if it has no cluster. Without an epoch in it, Slurm's or
    JobSet's count of restarts in `environ` stands for it."""
    if len(text) > LARGEST:
        _refuse("", f"it has {len(text)} characters, over {LARGEST}")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as e:
        _refuse("", f"no JSON: {e}: {text[:60]!r}")
    if not isinstance(fields, dict):
        _refuse("", f"expected an object {{...}}, got {text[:60]!r}")
    if not fields.get("cluster"):
        return None
    cluster = _cluster(fields["cluster"])
    job, index = _position(fields.get("task"), cluster)
    epoch = fields.get("epoch")
    return Task(
        cluster, job, index, job_id=_text(fields, "job", "", 200),
        epoch=epochs.restart_epoch(environ) if epoch is None else
        epochs.checked_epoch(epoch, f"{VARIABLE}: epoch"),
        shards=_number(fields, "shards", None, int, 1, 65536),
        lease=_number(fields, "lease", LEASE, (int, float), 0.1, 86400),
        certificates=_text(fields, "certificates", None, 4096),
        insecure=_flag(fields, "insecure"), members=_text(fields, "members", None, 4096))


def _cluster(jobs):
    if not isinstance(jobs, dict):
        _refuse("cluster", f"expected {{job: [addresses]}}, got {jobs!r}")
    checked = {}
    for job, tasks in jobs.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", job):
            _refuse("cluster", f"job {job!r}: expected a name of letters, digits and _")
        pairs = tasks.items() if isinstance(tasks, dict) else (
            enumerate(tasks) if isinstance(tasks, list) else
            _refuse("cluster", f"job {job!r}: expected a list of addresses, got {tasks!r}"))
        checked[job] = dict(_address(job, index, address) for index, address in pairs)
    return ClusterSpec(checked)


def _address(job, index, address):
    if not (str(index).isascii() and str(index).isdigit() and int(index) < 1 << 20):
        _refuse("cluster", f"job {job!r}: task {index!r} is no number of a task")
    if not isinstance(address, str) or not address or len(address) > 1000:
        _refuse("cluster", f"job {job!r}, task {index}: expected an address as \"host:2222\", got "
                           f"{address!r}")
    return int(index), address


def _position(fields, cluster):
    if not isinstance(fields, dict):
        _refuse("task", f"expected {{\"type\": a job, \"index\": a number}}, got {fields!r}")
    job, index = fields.get("type"), fields.get("index", 0)
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index)
    if type(index) is not int or not 0 <= index < 1 << 20:
        _refuse("task.index", f"expected a whole number from 0, got {index!r}")
    if job == OUTSIDE:
        return job, index
    if job not in cluster.jobs:
        _refuse("task.type", f"the cluster has no job {job!r}, it has "
                             f"{', '.join(sorted(cluster.jobs))}")
    if index not in cluster.task_indices(job):
        _refuse("task.index", f"job {job!r} has no task {index}, it has "
                              f"{cluster.task_indices(job)}")
    return job, index


def _text(fields, key, default, longest):
    value = fields.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        _refuse(key, f"expected text of at most {longest} characters, got {value!r}")
    return value


def _number(fields, key, default, kind, low, high):
    value = fields.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
        what = "a whole number" if kind is int else "a number"
        _refuse(key, f"expected {what} from {low} to {high}, got {value!r}")
    return value if kind is int else float(value)


def _flag(fields, key):
    value = fields.get(key, False)
    if not isinstance(value, bool):
        _refuse(key, f"expected true or false, got {value!r}")
    return value


def _refuse(field, what):
    where = f"{VARIABLE}: {field}" if field else VARIABLE
    raise errors.InvalidArgumentError(None, None, f"{where}: {what[:400]}")
