"""The end of a job: workers say that they are done, the chief waits for them and stops all."""
import threading
import time

import pytest

import pyflow as tf
import processes
from pyflow.distributed import launch
from pyflow.distributed.launch import job_end
from pyflow.distributed.run import epochs, remote_worker
from pyflow.distributed.wire.channels import Channels


@pytest.fixture
def job():
    """job(counts) -> [(server, task)] of a cluster in this process."""
    made = []

    def start(**counts):
        ports = iter(processes.free_ports(sum(counts.values())))
        cluster = tf.train.ClusterSpec({name: [f"localhost:{next(ports)}" for _ in range(count)]
                                        for name, count in counts.items()})
        tasks = [launch.Task(cluster, name, index) for name, count in counts.items()
                 for index in range(count)]
        made.extend((task.server(), task) for task in tasks)
        return made
    yield start
    for server, _ in made:
        server.stop()


@pytest.mark.parametrize("counts", [{"ps": 1, "worker": 3}, {"worker": 3},
                                    {"chief": 1, "ps": 2, "worker": 1}])
def test_the_chief_waits_for_the_others_and_every_join_returns(counts, job):
    servers = job(**counts)
    serving = [server for server, task in servers if task.job == "ps"]
    [(chief, task)] = [pair for pair in servers if pair[1].is_chief]
    others = [pair for pair in servers if pair != (chief, task) and pair[0] not in serving]
    joined = [threading.Thread(target=server.join) for server in serving]
    ended = threading.Thread(target=job_end.end_job, args=(chief, task))
    for thread in [*joined, ended]:
        thread.start()
    for server, other in others:
        time.sleep(0.05)
        assert ended.is_alive() and not chief.stopped and not any(s.stopped for s in serving)
        assert job_end.end_job(server, other)
    for thread in [ended, *joined]:
        thread.join(10)
        assert not thread.is_alive()


def test_a_chief_that_was_replaced_does_not_end_its_successors_job():
    ports = processes.free_ports(3)
    jobs = {"ps": [f"localhost:{ports[0]}"], "worker": [f"localhost:{ports[1]}"]}
    ps = tf.train.Server(jobs, "ps", 0)
    old = tf.train.Server(jobs, "worker", 0, epoch=1)
    new = tf.train.Server({**jobs, "worker": [f"localhost:{ports[2]}"]}, "worker", 0, epoch=2)
    ps._worker.admit("/job:worker/replica:0/task:0", epochs.Fence(2, new._worker.incarnation))
    old.stop_cluster()
    time.sleep(0.2)                     # a server ends 50 ms after it was told
    assert not ps.stopped
    new.stop_cluster()
    ps.join()


@pytest.mark.parametrize("always", [True, False])
def test_who_never_says_so_is_waited_for_as_long_as_there_is_patience(always, job):
    (ps, _), (chief, task), _ = job(ps=1, worker=2)
    began = time.monotonic()
    assert job_end.end_job(chief, task, patience=0.2, always=always) == always
    assert 0.2 <= time.monotonic() - began < 5 and chief.stopped == always
    if always:
        ps.join()
    assert ps.stopped == always


def test_a_parameter_server_that_is_gone_costs_no_more_than_the_patience(job):
    (ps, _), (chief, task) = job(ps=1, worker=1)
    ps.stop()
    began = time.monotonic()
    assert job_end.end_job(chief, task, patience=0.5)
    assert time.monotonic() - began < 5


def test_one_that_has_left_is_not_waited_for(job):
    (ps, _), (chief, task), (gone, _) = job(ps=1, worker=2)
    gone.stop()
    jobs = task.cluster.as_dict()
    chief.update_cluster({**jobs, "worker": jobs["worker"][:1]})
    assert job_end.end_job(chief, task, patience=30)
    ps.join()


def test_a_chief_that_was_replaced_ends_nothing():
    """Frozen at the end, thawed while its successor is at it."""
    with processes.Cluster({"ps": 1, "worker": 1}) as cluster:
        spec = tf.train.ClusterSpec({**cluster.spec(), "worker": ["localhost:0"]})
        successor = remote_worker.RemoteWorker(
            "/job:ps/replica:0/task:0", cluster.addresses["ps", 0], Channels(),
            ("/job:worker/replica:0/task:0", 0xa7, 2))
        successor.open_session(7)
        task = launch.Task(spec, "worker", 0, epoch=1)
        with task.server() as chief, pytest.raises(tf.errors.FailedPreconditionError,
                                                   match="epoch 1 was replaced by epoch 2"):
            job_end.end_job(chief, task)
        assert chief.stopped
        assert successor.status(fresh=True).sessions == 1
        successor.close()
