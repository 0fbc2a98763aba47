"""Contracts of a JobSet's pods, from what Kubernetes and the template tell them.

Invariants
1. A replicated job of the JobSet is a job of the cluster, of one Indexed Job; a pod's index is its
   task's.
2. A pod's address is its name in the JobSet's headless service, which it keeps when the JobSet
   restarts it.
3. The epoch counts the JobSet's restarts. Pods are not restarted one by one (restartPolicy Never,
   backoffLimit 0), for nobody would count that.

Threads: functions without state.  Caller: `python -m pyflow launch --on kubernetes`, in a pod of
templates/jobset.yaml.

    contract = task({"ps": 1, "worker": 2})
    os.environ.update(contract.environment())
"""
import os
import re

from pyflow.distributed.run.epochs import restart_epoch
from pyflow.distributed.launch.contract import Task
from pyflow.framework import errors
from pyflow.train.cluster_spec import ClusterSpec

PORT = 2222
VARIABLES = {       # name: where a pod has it from
    "JOBSET_NAME": "annotation jobset.sigs.k8s.io/jobset-name",
    "JOBSET_JOB": "annotation jobset.sigs.k8s.io/replicatedjob-name",
    "JOBSET_UID": "annotation jobset.sigs.k8s.io/jobset-uid",
    "JOBSET_RESTART_ATTEMPT": "annotation jobset.sigs.k8s.io/restart-attempt",
    "JOB_COMPLETION_INDEX": "Kubernetes, in pods of Indexed Jobs",
}


def task(jobs, port=0, host=None, environ=None, **told):
    """The contract.Task of this pod.

    jobs: {job: number of tasks}, the replicated jobs of the JobSet and their completions.
    port: where each task listens; 0: 2222. host: of all tasks instead of the pods' names, at ports
    one apart, to try a template out on one machine. told: shards, lease, certificates, insecure.

    Raises tf.errors.InvalidArgumentError for a variable that is malformed or does not fit the jobs,
    tf.errors.FailedPreconditionError outside of such a pod."""
    environ = os.environ if environ is None else environ
    missing = [name for name in VARIABLES if not environ.get(name)]
    if missing:
        raise errors.FailedPreconditionError(None, None, (
            f"{missing[0]} is not set ({VARIABLES[missing[0]]}): this process is not in a pod of "
            "the JobSet that pyflow/distributed/launch/templates/jobset.yaml makes"))
    name, job = environ["JOBSET_NAME"], environ["JOBSET_JOB"]
    for variable in ("JOBSET_NAME", "JOBSET_JOB"):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", environ[variable]):
            _refuse(variable, f"{environ[variable][:80]!r} is no name of Kubernetes'")
    if job not in jobs:
        _refuse("JOBSET_JOB", f"the cluster has no job {job!r}, it has {', '.join(jobs)}")
    index = environ["JOB_COMPLETION_INDEX"]
    if not (index.isascii() and index.isdigit() and int(index) < jobs[job]):
        _refuse("JOB_COMPLETION_INDEX", f"{index[:60]!r}: job {job!r} has tasks 0 to "
                                        f"{jobs[job] - 1}: are the template's completions as many?")
    addresses, first = {}, port or PORT
    for other, count in jobs.items():
        addresses[other] = [
            f"{host}:{first + sum(map(len, addresses.values())) + n}" if host else
            f"{name}-{other}-0-{n}.{name}:{first}" for n in range(count)]
    return Task(ClusterSpec(addresses), job, int(index), epoch=restart_epoch(environ),
                job_id=f"jobset-{environ['JOBSET_UID']}", **told)


def _refuse(name, what):
    raise errors.InvalidArgumentError(None, None, f"{name}: {what}")
