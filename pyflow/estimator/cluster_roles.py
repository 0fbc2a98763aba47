"""What TF_CONFIG says of this process's part in a cluster, for RunConfig.

    {"cluster": {"chief": [address], "ps": [address, ...], "worker": [...]},
     "task": {"type": "worker", "index": 0}}

Invariants
1. A cluster has one chief, of the job chief or else master. The evaluator is in no cluster.
2. What it says is checked, with TensorFlow's errors.

Threads: functions without state.  Source: TF 1.15 tf.estimator.RunConfig.

    role = role_of({"cluster": {...}, "task": {...}});  role.is_chief;  role.master
"""
import dataclasses

import pyflow as tf

MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"
_TASK, _INDEX, _CLUSTER = "task", "index", "cluster"
_SESSION, _EVAL_SESSION = "session_master", "eval_session_master"


@dataclasses.dataclass(frozen=True)
class Role:
    """master, evaluation_master: targets of sessions. task_type, task_id: which task; cluster: a
    ClusterSpec, or {} outside of one. number: of all tasks, the chief first, parameter servers
    last; None for an evaluator."""

    task_type: str = WORKER
    task_id: int = 0
    master: str = ""
    evaluation_master: str = ""
    is_chief: bool = True
    num_ps: int = 0
    num_workers: int = 1
    number: int | None = 0
    cluster: object = dataclasses.field(default_factory=dict)


def role_of(found):
    """The Role of TF_CONFIG's fields, a dict. ValueError, TypeError where they are none."""
    task = found.get(_TASK) or {}
    if not found.get(_CLUSTER):
        return _alone(found, task)
    cluster = tf.train.ClusterSpec(found[_CLUSTER])
    chief = MASTER if MASTER in cluster.jobs else CHIEF
    job, index = _position(cluster, task, chief)
    if chief == MASTER and CHIEF in cluster.jobs:
        raise ValueError("If `master` node exists in `cluster`, job `chief` is not supported.")
    if job == EVALUATOR:
        if chief == MASTER:
            raise ValueError("If `master` node exists in `cluster`, task_type `evaluator` is not "
                             "supported.")
        return Role(job, index, "", found.get(_EVAL_SESSION, ""), False, 0, 0, None)
    counts = {name: cluster.num_tasks(name) for name in cluster.jobs}
    return Role(job, index, _master(found, cluster, job, index), "", job == chief,
                counts.get(PS, 0), counts.get(WORKER, 0) + counts[chief],
                _number(counts, chief, job, index), cluster)


def _alone(found, task):
    if task.get("type", WORKER) != WORKER:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
    if int(task.get(_INDEX, 0)) != 0:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
    return Role(master=found.get(_SESSION, ""), evaluation_master=found.get(_EVAL_SESSION, ""))


def _position(cluster, task, chief):
    """(job, index), checked."""
    if chief not in cluster.jobs:
        raise ValueError(f'If "cluster" is set in TF_CONFIG, it must have one "{chief}" node.\n'
                         f"It has {', '.join(sorted(cluster.jobs))}; python -m pyflow launch "
                         "--chief makes one")
    if cluster.num_tasks(chief) > 1:
        raise ValueError(f'The "cluster" in TF_CONFIG must have only one "{chief}" node.')
    job, index = task.get("type"), task.get(_INDEX)
    if not job:
        raise ValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if index is None:
        raise ValueError('If "cluster" is set in TF_CONFIG, task index must be set.')
    index = int(index)
    if index < 0:
        raise ValueError("Task index must be non-negative number.")
    if job == EVALUATOR:
        return job, index
    if job not in cluster.jobs:
        raise ValueError(f"{job} is not a valid task_type in the cluster_spec:\n{cluster}\n\nNote "
                         "that these values may be coming from the TF_CONFIG environment variable.")
    if index not in cluster.task_indices(job):
        raise ValueError(f"{index} is not a valid task_id for task_type {job} in the cluster_spec:"
                         f"\n{cluster}\n\nNote that these values may be coming from the TF_CONFIG "
                         "environment variable.")
    return job, index


def _master(found, cluster, job, index):
    """The target of the task's own server; "" where a cluster is this task alone."""
    if _SESSION in found:
        return found[_SESSION]
    if len(cluster.jobs) == 1 and cluster.num_tasks(job) == 1:
        return ""
    return f"grpc://{cluster.task_address(job, index)}"


def _number(counts, chief, job, index):
    """Of all tasks: the chief is 0, then come other jobs by name, parameter servers last."""
    order = [chief, *sorted(set(counts) - {chief, PS}), PS]
    return sum(counts.get(name, 0) for name in order[:order.index(job)]) + index
