"""Contracts of srun's processes, from what Slurm tells them.

Invariants
1. Tasks are ranks in order: of jobs {"ps": 1, "worker": 2}, rank 0 is the parameter server. Ranks
   lie on nodes in blocks (srun --distribution=block), which is checked where it can be.
2. A job's ports follow from its number, so that all its processes know them without asking.
3. The epoch counts the job's restarts (SLURM_RESTART_COUNT), and its number is the job's id.

Threads: functions without state.  Caller: `python -m pyflow launch --on slurm`, by srun;
templates/pyflow.sbatch is the script around it.

    contract = task({"ps": 1, "worker": 2})          # in a process that srun started
    os.environ.update(contract.environment())
"""
import os
import re

from pyflow.distributed.run.epochs import restart_epoch
from pyflow.distributed.launch.contract import Task
from pyflow.framework import errors
from pyflow.train.cluster_spec import ClusterSpec

FIRST_PORT, PORTS_A_JOB, SLOTS = 10000, 100, 220        # to 31999: below those systems give out
MOST = 100_000                                          # nodes, tasks


def task(jobs, port=0, host=None, environ=None, **told):
    """The contract.Task of this process.

    jobs: {job: number of tasks}, in the order of ranks, as many together as srun started.
    port: of the first task of each node; 0: one that follows from the job's number.
    host: of all tasks instead of their nodes, to try a script out on one machine.
    told: shards, lease, certificates, insecure.

    Raises tf.errors.InvalidArgumentError for a variable that is missing or malformed, or does not
    fit the others; tf.errors.FailedPreconditionError outside of srun."""
    environ = os.environ if environ is None else environ
    if not environ.get("SLURM_PROCID"):
        raise errors.FailedPreconditionError(None, None, (
            "SLURM_PROCID is not set: this process was not started by srun. Use srun python -m "
            "pyflow launch --on slurm ..."))
    counts = _counts(_need(environ, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    nodes = hosts_of(_need(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"))
    if len(nodes) != len(counts):
        _refuse("SLURM_STEP_TASKS_PER_NODE", f"{len(counts)} nodes have tasks, and the list of "
                                             f"nodes has {len(nodes)}")
    rank = _number(environ, "SLURM_PROCID", sum(counts))
    if sum(counts) != sum(jobs.values()):
        asked = ", ".join(f"{job}={n}" for job, n in jobs.items())
        _refuse("SLURM_NTASKS", f"srun started {sum(counts)} tasks, and the cluster ({asked}) has "
                                f"{sum(jobs.values())}")
    _check_place(environ, rank, counts)
    if len(nodes) == 1:
        host = host or "127.0.0.1"          # not to be reached from elsewhere
    first = port or FIRST_PORT + _number(environ, "SLURM_JOB_ID") % SLOTS * PORTS_A_JOB
    addresses = [f"{host or node}:{first + (at + sum(counts[:n]) if host else at)}"
                 for n, node in enumerate(nodes) for at in range(counts[n])]
    return of_rank(jobs, rank, addresses, epoch=restart_epoch(environ),
                   job_id=f"slurm-{environ['SLURM_JOB_ID']}", **told)


def of_rank(jobs, rank, addresses, **told):
    """The Task of a rank: jobs' tasks are numbered through, in order."""
    positions = [(job, index) for job, count in jobs.items() for index in range(count)]
    cluster = {}
    for (job, index), address in zip(positions, addresses, strict=True):
        cluster.setdefault(job, {})[index] = address
    return Task(ClusterSpec(cluster), *positions[rank], **told)


def hosts_of(text):
    """The hosts of Slurm's short form: "a[1-2,07],b" is a1, a2, a07, b. InvalidArgumentError."""
    hosts, parts = [], re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)
    if ",".join(parts) != text:
        _refuse("SLURM_JOB_NODELIST", f"{text[:60]!r} is no list of hosts")
    for part in parts:
        if not re.fullmatch(r"[A-Za-z0-9_.-]*(\[[0-9,-]+\][A-Za-z0-9_.-]*)*", part):
            _refuse("SLURM_JOB_NODELIST", f"{part[:60]!r} is no list of hosts")
        hosts += _expanded(part)
        if len(hosts) > MOST:
            _refuse("SLURM_JOB_NODELIST", f"over {MOST} hosts")
    if not hosts:
        _refuse("SLURM_JOB_NODELIST", f"{text[:60]!r} has no host")
    return hosts


def _expanded(part):
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    numbers = []
    for span in inside.split(","):
        low, dash, high = span.partition("-")
        high = high if dash else low
        if not (low.isdigit() and high.isdigit() and len(high) <= 9 and
                0 <= int(high) - int(low) <= MOST):
            _refuse("SLURM_JOB_NODELIST", f"{span!r} in {part[:60]!r} is no range of numbers")
        numbers += [f"{n:0{len(low)}d}" for n in range(int(low), int(high) + 1)]
    tails = _expanded(tail)
    if len(numbers) * len(tails) > MOST:
        _refuse("SLURM_JOB_NODELIST", f"over {MOST} hosts")
    return [f"{head}{number}{end}" for number in numbers for end in tails]


def _counts(text):
    """[3, 3, 1] of "3(x2),1"."""
    counts = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,5})(?:\(x([0-9]{1,5})\))?", part)
        if not found:
            _refuse("SLURM_STEP_TASKS_PER_NODE", f"{text[:60]!r}: expected as 3(x2),1")
        counts += [int(found[1])] * int(found[2] or 1)
    if max(counts) > PORTS_A_JOB:
        _refuse("SLURM_STEP_TASKS_PER_NODE", f"{max(counts)} tasks on a node: at most "
                                             f"{PORTS_A_JOB}, a port each")
    return counts


def _check_place(environ, rank, counts):
    """That the rank is on the node where blocks would have it."""
    node = next(n for n in range(len(counts)) if rank < sum(counts[:n + 1]))
    if environ.get("SLURM_NODEID") and _number(environ, "SLURM_NODEID") != node:
        _refuse("SLURM_NODEID", f"rank {rank} is on node {environ['SLURM_NODEID']}, in blocks it "
                                f"would be on {node}: start it with srun --distribution=block")


def _need(environ, *names):
    for name in names:
        if environ.get(name):
            return environ[name]
    _refuse(names[-1], "it is not set")


def _number(environ, name, below=1 << 40):
    text = environ.get(name, "")
    if not (text.isascii() and text.isdigit() and int(text) < below):
        _refuse(name, f"{text[:60]!r}: expected a number from 0 to {below - 1}")
    return int(text)


def _refuse(name, what):
    raise errors.InvalidArgumentError(None, None, f"{name}: {what}")
