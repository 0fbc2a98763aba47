"""tf.train.ClusterSpec: which tasks a cluster has, by job, and where they listen.

Invariants
  1. A task has a number in its job; numbers may have gaps, addresses are not looked at.
  2. The ClusterDef has jobs and tasks in order, whatever order they were given in.

Any thread may read one; it does not change.  Source: TF 1.15, training/server_lib.py.

Example:
    cluster = tf.train.ClusterSpec({"ps": ["a:2222"], "worker": {1: "b:2222"}})
    cluster.task_address("worker", 1)                # "b:2222"
"""
from pyflow.framework import protos


class ClusterSpec:
    """The tasks of a cluster. TF: tf.train.ClusterSpec.

    cluster: {job: [address]} or {job: {task number: address}}, a ClusterDef, or a ClusterSpec.
    TypeError for anything else, and for names or addresses that are no text."""

    def __init__(self, cluster):
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_cluster_def()
        if isinstance(cluster, dict):
            self._tasks = {job: _numbered(job, tasks) for job, tasks in cluster.items()}
            self._cluster_def = _as_proto(self._tasks)
        elif isinstance(cluster, protos.ClusterDef):
            self._cluster_def = protos.ClusterDef.FromString(cluster.SerializeToString())
            self._tasks = {job.name: dict(job.tasks) for job in cluster.job}
        else:
            raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists "
                            "of network addresses, or a `ClusterDef` protocol buffer: got "
                            f"{cluster!r}")

    def __bool__(self):
        return bool(self._tasks)

    def __eq__(self, other):
        return self._tasks == (other._tasks if isinstance(other, ClusterSpec) else other)

    __hash__ = None                      # as TensorFlow's, it equals a dict

    def __repr__(self):
        jobs = self.as_dict()
        return f"ClusterSpec({{{', '.join(f'{job!r}: {jobs[job]!r}' for job in sorted(jobs))}}})"

    @property
    def jobs(self):
        """The names of the jobs, a list."""
        return list(self._tasks)

    def as_dict(self):
        """{job: [address]}, or {job: {task number: address}} where numbers are missing."""
        return {job: self.job_tasks(job) if tasks and max(tasks) + 1 == len(tasks) else
                {number: tasks[number] for number in sorted(tasks)}
                for job, tasks in self._tasks.items()}

    def as_cluster_def(self):
        """The ClusterDef message."""
        return self._cluster_def

    def num_tasks(self, job_name):
        """How many tasks a job has. ValueError for a job that is not there, as of all that
        follow."""
        return len(self._job(job_name))

    def task_indices(self, job_name):
        """The numbers of a job's tasks, in order."""
        return sorted(self._job(job_name))

    def task_address(self, job_name, task_index):
        """Where a task listens. ValueError also for a task that is not there."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name):
        """The addresses of a job, a list; None where a number is missing."""
        tasks = self._job(job_name)
        return [tasks.get(number) for number in range(max(tasks, default=-1) + 1)]

    def _job(self, name):
        if name not in self._tasks:
            raise ValueError(f"No such job in cluster: {name!r}")
        return self._tasks[name]


def _numbered(job, tasks):
    """{number: address} of a job's tasks."""
    if isinstance(tasks, (list, tuple)):
        return dict(enumerate(tasks))
    if isinstance(tasks, dict):
        return {int(number): address for number, address in tasks.items()}
    raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to "
                    f"strings: got {tasks!r}")


def _as_proto(jobs):
    message = protos.ClusterDef()
    for name in jobs:
        if not isinstance(name, (str, bytes)):
            raise TypeError(f"Job name {name!r} must be bytes or unicode")
    for name in sorted(jobs):
        job = message.job.add(name=_text(name))
        for number, address in sorted(jobs[name].items()):
            if not isinstance(address, (str, bytes)):
                raise TypeError(f"Task address {address!r} must be bytes or unicode")
            job.tasks[number] = _text(address)
    return message


def _text(name):
    return name.decode("utf-8") if isinstance(name, bytes) else name


PUBLIC = {"train.ClusterSpec": ClusterSpec}
