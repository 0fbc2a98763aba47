"""Parameters move from one parameter server to two and back while they are trained: every step is
made once, with the bits of a training in which they stay."""
import pathlib
import sys
import threading
import time

import pytest

import pyflow as tf
from pyflow.distributed.train import commits, resharding, training
from pyflow.distributed.launch import local
from pyflow.tools import cluster as command

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import chaos  # noqa: E402 - beside this file
import processes  # noqa: E402
import resharding_task  # noqa: E402
import standby_task  # noqa: E402


class Servers:
    """Two parameter servers and two workers in this process."""

    def __init__(self):
        ports = [f"localhost:{port}" for port in processes.free_ports(4)]
        self.spec = tf.train.ClusterSpec({"ps": ports[:2], "worker": ports[2:]})
        self.all = {(job, k): tf.train.Server(self.spec, job, k)
                    for job in ("ps", "worker") for k in range(2)}

    def train(self, folder, steps, on_step, **options):
        """Its threads: two workers; options: of training_session."""
        def work(k):
            with tf.Graph().as_default():
                sync, train, feed = resharding_task.model(k, 2, 1)
                with training.training_session(
                        self.all["worker", k], k == 0, sync, feed, checkpoint_dir=str(folder),
                        save_steps=10**9, last_step=steps, deterministic=True,
                        on_step=on_step if k == 0 else (), **options) as sess:
                    while not sess.should_stop():
                        sess.run(train)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        return threads

    def places(self):
        """{server: names of variables that have values there}."""
        found = {}
        for k in range(2):
            with tf.Graph().as_default(), tf.device(f"/job:ps/task:{k}"):
                tables = [tf.get_variable(f"table_{n}", [512, 64], use_resource=n % 2 == 1)
                          for n in range(resharding_task.TABLES)]
                there = [tf.is_variable_initialized(v) for v in tables]
                with tf.Session(self.all["ps", k].target) as sess:
                    found[k] = {v.op.name for v, is_there in zip(tables, sess.run(there))
                                if is_there and sess.run(v).size}
        return found

    def stop(self):
        for server in self.all.values():
            server.stop()


def test_from_two_to_one_and_back(tmp_path, capsys):
    values, plain, cluster = standby_task.Values(), standby_task.Values(), Servers()
    chief = cluster.all["worker", 0].address
    paused = lambda session, step: time.sleep(0.003)         # noqa: E731 - so that it lasts
    threads = cluster.train(tmp_path / "moved", 120, [values, paused],
                            ps_tasks=resharding_task.PS_TASKS)
    while len(values.seen) < 5:
        time.sleep(0.01)
    before = cluster.places()
    assert all(before.values()) and not before[0] & before[1]
    reply = resharding.ask(chief, 1)
    assert (reply.before, reply.servers, reply.bytes > 0) == (2, 1, True)
    assert cluster.places() == {0: before[0] | before[1], 1: set()}, "what moved is not left behind"
    capsys.readouterr()
    assert command.main(["reshard", chief, "ps=2"]) == 0
    assert capsys.readouterr().out.startswith(f"ps: 1 -> 2, {reply.bytes} bytes copied in ")
    assert cluster.places() == before
    with pytest.raises(ValueError, match="3 servers: the graph has parameters on 4 tasks, and the"):
        resharding.ask(chief, 3)
    with pytest.raises(ValueError, match="the parameters are on the job 'ps', not 'worker'"):
        resharding.ask(chief, 1, "worker")
    for thread in threads:
        thread.join(60)
    with pytest.raises(ValueError, match="no chief of a training whose parameters can move"):
        resharding.ask(chief, 1)
    cluster.stop()
    cluster = Servers()
    for thread in cluster.train(tmp_path / "plain", 120, [plain], ps_tasks=4):
        thread.join(60)
    cluster.stop()
    assert [line[1:] for line in values.seen] == [line[1:] for line in plain.seen]
    assert [step for _, step, _ in values.seen] == list(range(1, 121))


class Run(chaos.Training):
    """Processes of resharding_task.py."""

    def __init__(self, folder, megabytes, steps):
        self.folder, self.output = folder, []
        folder.mkdir()
        self.cluster = local.LocalCluster(
            [sys.executable, "-P", str(HERE / "resharding_task.py"), str(folder), str(megabytes),
             str(steps)], {"ps": 1, "worker": 2},
            output=lambda label, line: self.output.append(f"[{label}] {line}"))

    def digest(self):
        return training.digest(commits.newest_committed(str(self.folder / "run")).prefix)


@pytest.mark.long
def test_256_megabytes_move_to_a_server_that_has_come_and_back(tmp_path):
    run = Run(tmp_path / "moved", 256, 800)
    with run.cluster as cluster:
        assert run.wait_for_step(0.0), run.output[-40:]
        time.sleep(1)
        cluster.scale("ps", 2)
        members = cluster.wait_for(lambda members: ("ps", 1) in members.tasks)
        time.sleep(2)                   # until it listens
        for servers in (2, 1, 2, 1):
            reply = resharding.ask(members.tasks["worker", 0].address, servers)
            print(f"{reply.before} -> {servers}: {reply.bytes >> 20} MB copied in "
                  f"{reply.copied:.3f} s, no step for {reply.seconds:.3f} s")
            assert reply.bytes >= 128 << 20
            time.sleep(1)
        cluster.scale("ps", 1)
        assert cluster.wait(300) == 0, run.output[-40:]
    at = [seconds for seconds, _, _ in run.steps()][:-1]        # the last one writes a checkpoint
    print(f"longest step {max(b - a for a, b in zip(at, at[1:])):.3f} s")
    assert max(b - a for a, b in zip(at, at[1:])) < 5
    plain = Run(tmp_path / "plain", 256, 800)
    with plain.cluster as cluster:
        assert cluster.wait(300) == 0, plain.output[-40:]
    assert run.digest() == plain.digest()
    assert [step for _, step, _ in run.steps()] == list(range(1, 801))
