"""The end of a job that has trained: every task ends by itself, and well.

Engines differ in what they do with tasks that are left: a local launcher tells parameter servers to
end, srun waits for all ranks and takes a rank that it has to kill for a failure.  So:

    worker   "I have ended" into a queue at the parameter server -> stops its own server
    chief    waits until each other worker has said so -> stops all servers: their join returns

Invariants
1. No server stops under a worker that is at its last step.
2. Who was lost for good, or started again for nothing, costs the chief `patience` seconds at most.
3. What a worker said stays while the parameter server lives: a chief that was started again finds
   it.
4. Who was replaced, and is refused, ends nobody else's servers: its successor is at work.

Threads: the caller's.  Callers: programs; examples/distributed/digits.py.

    with training.training_session(server, task.is_chief, ...) as sess: ...
    job_end.end_job(server, task)
"""
import contextlib
import time

from pyflow.distributed.launch import contract
from pyflow.framework import dtypes, errors, protos
from pyflow.framework import graph as ops
from pyflow.lib.queue import queues
from pyflow.session import Session

SERVING = ("ps",)               # jobs whose tasks serve until they are told to end


def end_job(server, task, patience=None, always=True):
    """Ends a task whose part is done; the chief's call ends the whole job. True if it has.

    server: its tf.train.Server. task: its launch.Task. patience: seconds that the chief waits for
    the other workers to be done, and a worker for the server that it tells; default: the lease.
    always: the chief ends the job even then; False leaves all servers as they are.

    Raises FailedPreconditionError in a process that was replaced by one of a later epoch."""
    until, are_done = time.monotonic() + (task.lease if patience is None else patience), False
    refused = None
    with contextlib.suppress(errors.OpError):           # who is lost is not waited for
        try:
            if task.is_chief:
                _wait_for_others(server, task, until)
            else:
                _say_so(server, task, until)
            are_done = True
        except errors.FailedPreconditionError as problem:
            refused = problem
    if refused is not None:
        server.stop()
        raise refused
    if not task.is_chief:
        server.stop()
    elif are_done or always:
        server.stop_cluster()
    return server.stopped


def _wait_for_others(server, task, until):
    ended = {task.label}
    with ops.Graph().as_default() as graph:
        queue = _queue(task)
        label, is_there = queue.dequeue(), queue.size().op
    with Session(server.target, graph=graph, config=_patient(until)) as sess:
        sess.run(is_there, options=_within(until))      # who was replaced is refused
        while _workers(server.cluster) - ended:
            ended.add(sess.run(label, options=_within(until)).decode())


def _say_so(server, task, until):
    with ops.Graph().as_default() as graph:
        said = _queue(task).enqueue(task.label)
    with Session(server.target, graph=graph, config=_patient(until)) as sess:
        sess.run(said, options=_within(until))


def _queue(task):
    """Of the workers that are done, on a server that outlives them, else the chief's."""
    jobs = {job: task.cluster.task_indices(job) for job in task.cluster.jobs}
    serving = {job: jobs[job] for job in SERVING if jobs.get(job)}
    job, index = next(((job, min(tasks)) for job, tasks in serving.items()), contract.chief_of(jobs))
    with ops.device(f"/job:{job}/task:{index}"):
        return queues.FIFOQueue(-1, dtypes.string, shapes=(), shared_name="ended_tasks")


def _workers(cluster):
    """The labels of those that end by themselves."""
    return {f"{job}-{index}" for job in cluster.jobs if job not in SERVING
            for index in cluster.task_indices(job)}


def _within(until):
    return protos.RunOptions(timeout_in_ms=_left_ms(until))


def _patient(until):
    """For a session: how long it waits for a task to be there at all."""
    return protos.ConfigProto(operation_timeout_in_ms=_left_ms(until))


def _left_ms(until):
    return max(1, int(1000 * (until - time.monotonic())))


PUBLIC = {}
