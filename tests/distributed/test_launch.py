"""Launchers: the contract, processes on this machine and their end, Slurm's and JobSets' tasks."""
import concurrent.futures
import json
import os
import pathlib
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import psutil
import pytest
from quiet import clock
import yaml

import launchers
import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.wire import security
from pyflow.distributed.launch import (contract, control, hosted, kubernetes, local, members,
                                       processes, slurm, supervision, tracebacks)
from pyflow.framework import errors
from pyflow.train.cluster_spec import ClusterSpec

CLUSTER = {"ps": ["a:1"], "worker": ["b:1", "c:1"]}
NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's")


# ---------------------------------------------------------------- the contract

def config(**fields):
    return {"TF_CONFIG": json.dumps(
        {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, **fields})}


def test_what_a_process_is_told():
    told = launch.Task(ClusterSpec(CLUSTER), "worker", 1, epoch=3, job_id="5f", shards=4, lease=2.5,
                       certificates="/secrets", insecure=True, members="/tmp/m")
    assert launch.task(told.environment()) == told
    assert (told.name, told.label, told.address) == ("/job:worker/task:1", "worker-1", "c:1")
    fields = json.loads(told.environment()["TF_CONFIG"])
    assert fields["cluster"] == CLUSTER and fields["task"] == {"type": "worker", "index": 1}


def test_tensorflows_own_contract_is_enough():
    task = launch.task(config(environment="cloud", model_dir="/x", rpc_layer="grpc"))
    assert task == launch.Task(ClusterSpec(CLUSTER), "worker", 1)
    assert (task.epoch, task.lease, task.shards, task.insecure) == (0, 10.0, None, False)
    assert launch.task({}) is None and launch.task({"TF_CONFIG": " "}) is None
    assert launch.task({"TF_CONFIG": '{"task": {"type": "worker"}, "cluster": {}}'}) is None
    assert launch.task(config(task={"type": "evaluator", "index": 0})).address is None
    assert launch.task(config(task={"type": "ps"})).index == 0
    gaps = launch.task(config(cluster={"ps": {"3": "a:1"}}, task={"type": "ps", "index": "3"}))
    assert gaps.address == "a:1"
    assert launch.task({**config(), "SLURM_JOB_ID": "9", "SLURM_RESTART_COUNT": "1"}).epoch == 2
    assert launch.task({**config(epoch=7), "SLURM_JOB_ID": "9"}).epoch == 7


def test_the_chief():
    def chief(*jobs):
        cluster = {job: ["x:1"] for job in jobs}
        return [job for job in jobs if launch.task(
            config(cluster=cluster, task={"type": job, "index": 0})).is_chief]
    assert chief("ps", "worker") == ["worker"] and chief("worker", "chief") == ["chief"]
    assert chief("ps", "master", "worker") == ["master"] and chief("odd") == ["odd"]
    assert not launch.task(config()).is_chief           # worker 1


@pytest.mark.parametrize("text, said", [
    ("{", "no JSON"), ("3", "expected an object"), ("[" * 100_000, "no JSON"),
    (" " * 10 + "x" * (contract.LARGEST + 1), "characters, over")])
def test_what_is_no_contract(text, said):
    with pytest.raises(errors.InvalidArgumentError, match=f"TF_CONFIG: .*{said}"):
        launch.task({"TF_CONFIG": text})


@pytest.mark.parametrize("field, value, said", [
    ("cluster", ["a:1"], "cluster: expected {job"), ("cluster", {"": ["a"]}, "cluster: job ''"),
    ("cluster", {"a b": ["a"]}, "job 'a b'"), ("cluster", {"w": "a:1"}, "job 'w': expected a list"),
    ("cluster", {"w": [3]}, "job 'w', task 0: expected an address"),
    ("cluster", {"w": {"x": "a"}}, "task 'x' is no number"), ("cluster", {"w": [""]}, "address"),
    ("task", None, "task: expected"), ("task", "worker", "task: expected"),
    ("task", {"type": "gpu"}, "task.type: the cluster has no job 'gpu', it has ps, worker"),
    ("task", {"type": "ps", "index": 1}, "task.index: job 'ps' has no task 1"),
    ("task", {"type": "ps", "index": True}, "task.index: expected a whole number"),
    ("task", {"type": "ps", "index": -1}, "task.index"), ("task", {"type": ["ps"]}, "task.type"),
    ("epoch", -1, "epoch is -1"), ("epoch", "3", "epoch is '3'"), ("epoch", 1 << 31, "epoch"),
    ("shards", 0, "shards: expected a whole number from 1"), ("shards", 2.5, "shards"),
    ("lease", 0, "lease: expected a number from 0.1"), ("lease", "10", "lease"),
    ("lease", True, "lease"), ("certificates", 3, "certificates: expected text"),
    ("certificates", "a\0b", "certificates"), ("insecure", "yes", "insecure: expected true or"),
    ("insecure", 1, "insecure"), ("members", [], "members"), ("job", "x" * 201, "job: expected")])
def test_each_malformed_field_is_named(field, value, said):
    with pytest.raises(errors.InvalidArgumentError) as error:
        launch.task(config(**{field: value}))
    assert "TF_CONFIG: " in str(error.value) and said in str(error.value)


def test_any_json_is_a_contract_or_an_error_that_names_a_field():
    draw, kept = random.Random(3), 0
    values = [None, True, -1, 0, 3, 1e400, 2.5, "", "worker", "a:1", [], {}, ["a:1"], {"0": "a:1"},
              {"type": "worker", "index": 0}, {"worker": ["a:1"]}, {"worker": {"0": "b:1"}},
              "\ud800"]
    keys = ["cluster", "task", "epoch", "shards", "lease", "certificates", "insecure", "members",
            "job", "odd"]
    for _ in range(3000):
        fields = {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}
        for key in draw.sample(keys, draw.randrange(4)):
            fields[key] = draw.choice(values)
        try:
            kept += launch.task({"TF_CONFIG": json.dumps(fields)}) is not None
        except errors.InvalidArgumentError as e:
            assert "TF_CONFIG: " in str(e)
    assert 500 < kept < 2500


def test_credentials_of_a_task(tmp_path, monkeypatch):
    from pyflow.distributed.wire import certificates
    certificates.make_certificates(tmp_path, {"worker-1": ["a"], "ps-0": ["b"]})
    task = launch.task(config(certificates=str(tmp_path)))
    assert task.credentials().folder == str(tmp_path / "worker-1")
    assert launch.task(config()).credentials() is None
    monkeypatch.setenv("PYFLOW_CERTIFICATES", str(tmp_path / "ps-0"))
    assert launch.task(config()).credentials().folder == str(tmp_path / "ps-0")


# ---------------------------------------------------------------- members

def test_members_of_a_cluster(tmp_path):
    who = members.Members(3, "5f", {("worker", 0): members.Member("a:1", 2, "running"),
                                    ("worker", 2): members.Member("b:1", 1, "restarting"),
                                    ("ps", 0): members.Member("c:1", 1, "gone")})
    members.write(tmp_path / "m", who)
    assert members.read(tmp_path / "m") == who and os.listdir(tmp_path) == ["m"]
    assert who.cluster().as_dict() == {"worker": {0: "a:1", 2: "b:1"}}
    with pytest.raises(errors.NotFoundError):
        members.read(tmp_path / "n")


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "3", '{"generation": 1, "job": "", "tasks": []}', "[" * 100_000,
    '{"generation": "1", "job": "", "tasks": {}}',
    '{"generation": 1, "job": "", "tasks": {"w": {"x": {}}}}',
    *('{"generation": 1, "job": "", "tasks": {"w": {"0": {"address": %s, "epoch": 1, "state": "%s"}'
      '}}}' % wrong for wrong in (("3", "gone"), ('""', "x"), ("null", "gone")))])
def test_a_file_that_is_no_list_of_members(text, tmp_path):
    (tmp_path / "m").write_text(text)
    with pytest.raises(errors.DataLossError, match="members of the cluster"):
        members.read(tmp_path / "m")


# ---------------------------------------------------------------- processes on this machine

HEAD = """
import json, os, signal, subprocess, sys, time
told = json.loads(os.environ["TF_CONFIG"])
job, index, epoch = told["task"]["type"], told["task"]["index"], told["epoch"]
"""


@pytest.fixture
def script(tmp_path):
    """A quick script: it reads its contract itself; launch.task() is the test of one."""
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(HEAD + text)
        return [sys.executable, "-S", str(path)]
    return write


@pytest.fixture
def started(script):
    """started(text, jobs, ...) -> a LocalCluster that runs, with .said, [(label, line)]."""
    clusters = []

    def start(text, jobs, **options):
        said = []
        cluster = local.LocalCluster(script(text), jobs, grace=options.pop("grace", 2.0),
                                     output=lambda *line: said.append(line), **options)
        cluster.said = said
        clusters.append(cluster)
        return cluster.start()
    yield start
    for cluster in clusters:
        cluster.stop(signal.SIGKILL)


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return found


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_each_task_has_its_contract_and_the_chiefs_end_is_the_clusters(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import os, sys, time\n"
                    "from pyflow.distributed import launch\n"
                    "from pyflow.distributed.launch import members\n"
                    "task = launch.task()\n"
                    "print(task.name, task.epoch, task.shards, task.lease, sys.argv[1:])\n"
                    "print(task.address, task.cluster.as_dict())\n"
                    "there = members.read(task.members).cluster().as_dict()\n"
                    "assert task.address in there[task.job]\n"
                    "if task.job == 'ps':\n"
                    "    open('ready', 'x')\n"
                    "    time.sleep(60)\n"
                    "while not os.path.exists('ready'): time.sleep(0.01)\n")
    words = [sys.executable, "-P", "-m", "pyflow", "launch", "--workers", "1", "--ps", "1",
             "--shards", "4", "--lease", "2", path, "a", "b c"]
    began = clock()
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert clock() - began < 30        # the parameter server was told to end
    lines = done.stdout.splitlines()
    for job, index in (("ps", 0), ("worker", 0)):
        assert f"[{job}-{index}] /job:{job}/task:{index} 1 4 2.0 ['a', 'b c']" in lines
        [where] = [w.split("] ")[1] for w in lines if w.startswith(f"[{job}-{index}] 127.0.0.1:")]
        address, _, cluster = where.partition(" ")
        assert eval(cluster)[job][index] == address     # repr of a dict, written above


@pytest.mark.parametrize("words, status, said", [
    (["nowhere.py"], 2, "nowhere.py: there is no such script"),
    (["--job", "x", "true"], 2, "--job x: expected NAME=N"),
    (["--job", "a-b=1", "true"], 2, "job 'a-b'"), (["--workers", "-1", "true"], 2, "worker=-1"),
    (["--on", "slurm", "true"], 2, "SLURM_PROCID is not set"),
    (["--on", "kubernetes", "true"], 2, "JOBSET_NAME is not set"),
    (["true"], 0, ""), (["false"], 1, ""), (["no-such-program"], 127, "")])
def test_the_command(words, status, said, capfd, monkeypatch):
    from pyflow.tools import command
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    assert command.main(["launch", *words]) == status
    assert said in capfd.readouterr().err


def test_what_dies_is_started_again_with_the_next_epoch(started):
    cluster = started("""
print("epoch", epoch, flush=True)
if job == "worker" and index == 1 and epoch < 4:
    if epoch == 3: sys.exit(7)
    os.kill(os.getpid(), signal.SIGKILL if epoch == 1 else signal.SIGABRT)
if index == 0: time.sleep(60)
""", {"worker": 2}, restarts=3, backoff=(0.01, 0.03))
    found = cluster.wait_for(lambda m: m.tasks["worker", 1].state == "done")
    assert found.tasks["worker", 1].epoch == 4 and found.tasks["worker", 0].epoch == 1
    assert [line for label, line in cluster.said if label == "worker-1"] == [
        f"epoch {n}" for n in (1, 2, 3, 4)]
    assert [line for label, line in cluster.said if label == "launch"] == [
        "worker-1 (epoch 1): SIGKILL: epoch 2 starts in 0.01 s (restart 1 of 3)",
        "worker-1 (epoch 2): SIGABRT: epoch 3 starts in 0.02 s (restart 2 of 3)",
        "worker-1 (epoch 3): exit status 7: epoch 4 starts in 0.03 s (restart 3 of 3)"]
    pid = cluster.pid("worker", 0)
    cluster.kill("worker", 0)
    cluster.wait_for(lambda m: m.tasks["worker", 0].epoch == 2)     # the chief, too
    assert cluster.pid("worker", 0) != pid and gone(pid)


def test_a_task_that_fails_for_good_ends_the_cluster(started):
    cluster = started("if index == 1: sys.exit(9)\ntime.sleep(60)", {"worker": 3}, restarts=1,
                      backoff=(0.01, 0.01))
    assert cluster.wait(10) == 9
    assert cluster.said[-1] == ("launch", "worker-1 (epoch 2): exit status 9 after 1 restarts: the "
                                          "cluster is stopped")
    assert {m.state for m in cluster.members().tasks.values()} == {"gone"}
    assert started("os.kill(os.getpid(), 11)", {"worker": 1}).wait(10) == 128 + 11


def test_what_cannot_begin_is_started_twice(started):
    """It was started again and again, 50 times, for an import that is not there."""
    cluster = started("def f(): raise RuntimeError(f'task {index} of {epoch}: no')\nf()",
                      {"worker": 2}, restarts=50, backoff=(0.01, 0.01))
    assert cluster.wait(20) == 1
    assert max(member.epoch for member in cluster.members().tasks.values()) == 2
    [last] = [line for label, line in cluster.said if "twice in the same way" in line]
    assert last.endswith("no: the cluster is stopped") and "RuntimeError: task " in last


def test_what_others_ends_raise_may_do_better_the_next_time(started):
    cluster = started("if index == 1: raise ConnectionRefusedError('there')\ntime.sleep(60)",
                      {"worker": 2}, restarts=3, backoff=(0.01, 0.01))
    assert cluster.wait(20) == 1
    assert cluster.members().tasks["worker", 1].epoch == 4


def test_a_traceback_of_all_is_printed_once(started):
    cluster = started("def f(): raise RuntimeError(f'task {index}')\nf()", {"worker": 3},
                      grace=5.0)
    assert cluster.wait(20) == 1
    whole = [label for label, line in cluster.said if line == tracebacks.BEGINS]
    again = [line for label, line in cluster.said if "the same traceback as" in line]
    assert len(whole) == 1 and len(again) <= 2
    assert all(line.startswith(f"the same traceback as {whole[0]}'s: RuntimeError: task ")
               for line in again)
    labels = [label for label, line in cluster.said if line.startswith("  File ")]
    assert set(labels) == set(whole)


def test_tracebacks_are_kept_together_and_nothing_is_lost():
    said = []
    found = tracebacks.Tracebacks(lambda label, line: said.append((label, line)))
    frames = ["  File \"a.py\", line 3, in f", "    f()"]
    for lines in zip(*[[(label, line) for line in (
            tracebacks.BEGINS, *frames, f"pyflow.framework.errors.InternalError: {label}", "",
            "Node 'x' was made here:")] for label in ("ps-0", "worker-0")]):
        for label, line in lines:
            found.take(label, line)
    found.take("worker-1", "a line of another")
    assert said == [("worker-1", "a line of another")]
    assert found.end("worker-0") == "pyflow.framework.errors.InternalError: worker-0"
    assert [label for label, _ in said[1:]] == ["worker-0"] * 6
    assert found.due() is not None
    found.release(found.due())
    assert [label for label, _ in said[7:]] == ["ps-0"] * 6 and found.due() is None
    assert found.end("ps-0") == "pyflow.framework.errors.InternalError: ps-0"
    assert found.end("worker-1") is None


def test_a_missing_extra_is_found_before_anything_is_started(monkeypatch, capfd, tmp_path):
    from pyflow.tools import command
    script = tmp_path / "s.py"
    script.write_text("print('started')")
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert command.main(["launch", str(script)]) == 2
    out, err = capfd.readouterr()
    assert "grpcio is not installed" in err and "started" not in out


def test_when_the_chief_has_ended_the_others_have_time_to(started):
    cluster = started("""
if job == "worker" and index == 1:
    time.sleep(0.15); print("at my own pace", flush=True)
elif job == "ps" or index == 2:
    signal.signal(signal.SIGTERM, lambda *_: (print("told to", flush=True), os._exit(0)))
    print("ready", flush=True); time.sleep(60)
else:
    time.sleep(0.1)
""", {"ps": 1, "worker": 3}, grace=0.4)
    assert cluster.wait(10) == 0
    assert sorted(line for line in cluster.said if line[1] != "ready") == [
        ("ps-0", "told to"), ("worker-1", "at my own pace"), ("worker-2", "told to")]


@pytest.mark.alone
def test_what_does_not_listen_is_killed(started):
    cluster = started("signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); "
                      "time.sleep(60)", {"worker": 2}, grace=0.1)
    until(lambda: len(cluster.said) == 2)
    pids = [cluster.pid("worker", n) for n in (0, 1)]
    os.kill(pids[0], signal.SIGSTOP)            # nor does one that is frozen
    began = clock()
    assert cluster.stop() == 128 + 15 and clock() - began < 2
    assert all(map(gone, pids))


def test_lines_are_passed_on_whole(started):
    cluster = started(r"""
out = os.write
out(1, b"a\xff\xe2"); out(1, b"\x82\xac\nprogress 1\rprogress 2\r"); out(2, b"error\r\n\nlast")
subprocess.run(["true"]); out(1, b"x" * 200_000); out(1, b"\nend")
""", {"worker": 1})
    assert cluster.wait(10) == 0
    lines = [line for _, line in cluster.said]
    assert lines[:5] == ["a\ufffd\u20ac", "progress 1", "progress 2", "error", ""]
    assert "".join(lines[5:-1]) == "last" + "x" * 200_000 and lines[-1] == "end"
    assert max(map(len, lines)) <= 2 * processes.LONGEST


def test_scaling(started):
    cluster = started("print(told['cluster'], flush=True)\ntime.sleep(60)", {"ps": 1, "worker": 1})
    pids = [cluster.pid("ps", 0), cluster.pid("worker", 0)]
    before = cluster.members()
    cluster.scale("worker", 3)
    after = cluster.wait_for(lambda m: len(m.tasks) == 4 and all(
        t.state == "running" for t in m.tasks.values()))
    assert after.generation > before.generation
    until(lambda: len(cluster.said) == 4)
    said = {label: eval(line) for label, line in cluster.said}
    assert len(said["worker-0"]["worker"]) == 1     # it began before; the file tells it
    assert said["worker-1"] == said["worker-2"] == after.cluster().as_dict()
    assert members.read(os.path.join(cluster.folder, "members.json")) == cluster.members()
    leaving = cluster.pid("worker", 2)
    cluster.scale("worker", 2)
    cluster.scale("worker", 3)              # back before the old process has ended
    found = cluster.wait_for(lambda m: m.tasks["worker", 2].epoch == 2)
    assert gone(leaving) and found.tasks["worker", 2].state == "running"
    cluster.scale("worker", 1)
    assert cluster.wait_for(lambda m: m.tasks["worker", 2].state == "gone").cluster().as_dict() == {
        "ps": [after.tasks["ps", 0].address], "worker": [after.tasks["worker", 0].address]}
    assert [cluster.pid("ps", 0), cluster.pid("worker", 0)] == pids
    with pytest.raises(ValueError, match="no job 'gpu', it has ps, worker"):
        cluster.scale("gpu", 1)


def test_scaling_by_the_command(started, capsys):
    from pyflow.tools import command
    ours = ["--launcher", str(os.getpid())]
    assert command.main(["cluster", "scale", "worker=2", *ours]) == 1
    assert "no such launcher of yours runs here" in capsys.readouterr().err
    cluster = started("time.sleep(60)", {"ps": 1, "worker": 1})
    assert command.main(["cluster", "scale", "worker=3", *ours]) == 0
    said = capsys.readouterr().out
    assert said == "ps 0:running\nworker 0:running 1:restarting 2:restarting\n"
    cluster.wait_for(lambda m: len(m.tasks) == 4 and m.tasks["worker", 2].state == "running")
    for words, status, error in (
            (["worker", *ours], 2, "expected JOB=N"), (["worker=1001", *ours], 2, "worker=1001"),
            (["gpu=1", *ours], 2, "no job 'gpu', it has ps, worker"),
            (["worker=2", "--launcher", "1"], 1, "no such launcher")):
        assert command.main(["cluster", "scale", *words]) == status
        assert error in capsys.readouterr().err
    assert len(cluster.members().tasks) == 4


def test_a_launcher_that_ends_while_it_is_asked(tmp_path, monkeypatch, capsys):
    from pyflow.tools import command
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pyflow-ending").mkdir()
    ending = control.Control(tmp_path / "pyflow-ending", lambda request: {"pid": 7})

    def answers_once():
        select.select([ending], [], [])
        ending.serve()
        ending.close()
    thread = threading.Thread(target=answers_once)
    thread.start()
    assert command.main(["cluster", "scale", "worker=2", "--launcher", "7"]) == 2
    thread.join()
    said = capsys.readouterr()
    assert said.err.startswith("python -m pyflow cluster scale: [Errno") and not said.out


@pytest.mark.parametrize("data", [b"", b"\n", b"{\n", b"3\n", b"[]\n", b"[" * 70000, b"\xff\n",
                                  b'{"scale": 3}\n', b'{"scale": {"worker": "2"}}\n',
                                  b'{"scale": {"worker": null}}\n'])
def test_what_a_launcher_is_told_is_checked(data, hosting_control):
    path, asked = hosting_control
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        assert "error" in json.loads(sock.recv(65536))
    assert control.ask(path, {"scale": {"worker": 2}}) == {"pid": 1}
    assert asked == [("worker", 2)]


@pytest.fixture
def hosting_control(tmp_path):
    """A control socket that a thread serves; its path, and what it was told."""
    asked, over = [], threading.Event()

    def answer(request):
        for job, count in request.get("scale", {}).items():
            asked.append((job, supervision.checked_jobs({job: count})[job]))
        return {"pid": 1}
    end = control.Control(tmp_path, answer)

    def serve():
        while not over.is_set():
            if select.select([end], [], [], 0.02)[0]:
                end.serve()
    thread = threading.Thread(target=serve)
    thread.start()
    yield str(tmp_path / control.NAME), asked
    over.set()
    thread.join()
    end.close()


@pytest.mark.parametrize("unix", [False, True])
def test_one_that_is_frozen_replaced_and_thawed(unix, started):
    cluster = started("""
print("at", told["cluster"][job][index], flush=True)
while True: time.sleep(0.01); print("alive", epoch, flush=True)
""", {"worker": 1}, unix=unix)
    old = cluster.pid("worker", 0)
    until(lambda: ("worker-0", "alive 1") in cluster.said)
    os.kill(old, signal.SIGSTOP)
    cluster.replace("worker", 0)
    until(lambda: ("worker-0", "alive 2") in cluster.said)
    at = [line for _, line in cluster.said if line.startswith("at")]
    assert (at[0] == at[1]) == unix and at[0].startswith("at unix:" if unix else "at 127.0.0.1:")
    assert cluster.members().tasks["worker", 0][1:] == (2, "running")
    count = cluster.said.count(("worker-0", "alive 1"))
    os.kill(old, signal.SIGCONT)
    until(lambda: cluster.said.count(("worker-0", "alive 1")) > count)
    os.kill(old, signal.SIGKILL)
    until(lambda: ("launch", "worker-0's replaced process: SIGKILL") in cluster.said)
    assert cluster.members().tasks["worker", 0][1:] == (2, "running")


# ---------------------------------------------------------------- ports

def test_a_reserved_port_is_nobody_elses_and_a_server_can_have_it():
    reserved = processes.reserve_port()
    address = f"127.0.0.1:{processes.port_of(reserved)}"
    for _ in range(2):                      # a task, and the one after it
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(1),
                             options=[("grpc.so_reuseport", 0)])
        assert security.listen(server, address) == processes.port_of(reserved)
        server.start()
        second = grpc.server(concurrent.futures.ThreadPoolExecutor(1),
                             options=[("grpc.so_reuseport", 0)])
        with pytest.raises(errors.UnavailableError, match="Is an older process"):
            security.listen(second, address)
        server.stop(None).wait()
    given = set()
    for _ in range(3000):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            given.add(other.getsockname()[1])
    assert processes.port_of(reserved) not in given and len(given) > 1000
    with pytest.raises(ConnectionRefusedError):         # nothing is taken for a server meanwhile
        socket.create_connection(("127.0.0.1", processes.port_of(reserved)))
    reserved.close()


# ---------------------------------------------------------------- no orphans

FAMILY = """
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def launcher(script):
    """A launcher in a process of its own, and the pids that its tasks and their children say."""
    made = []

    def start(text=FAMILY, count=2, **options):
        words = [sys.executable, "-P", "-c", f"""
import sys
from pyflow.distributed.launch import local, supervision
cluster = local.LocalCluster({script(text)!r}, {{"worker": {count}}}, restarts=1, grace=0.5)
print("guard", file=sys.stderr)
sys.exit(supervision.run(cluster))
"""]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True, **options)
        made.append(process)
        lines = [process.stdout.readline() for _ in range(count)]
        return process, [int(pid) for line in lines for pid in line.split()[1:]]
    yield start
    for process in made:
        process.kill()
        process.wait()
        process.stdout.close()


def guard_of(process):
    return next(p for p in psutil.Process(process.pid).children()
                if any("guard.py" in word for word in p.cmdline()))


@NEEDS_LINUX
@pytest.mark.parametrize("guarded", [True, False])
def test_no_orphan_survives_a_launcher_that_is_killed(guarded, launcher):
    """Without its guard, the kernel still ends the tasks, if not what those have started."""
    process, pids = launcher()
    guard = guard_of(process)
    folder = next(p.environ()["TF_CONFIG"] for p in psutil.Process(process.pid).children()
                  if p.pid in pids)
    folder = os.path.dirname(json.loads(folder)["members"])
    assert len(pids) == 4 and os.path.isdir(folder) and os.stat(folder).st_mode & 0o777 == 0o700
    if not guarded:
        guard.kill()
    process.kill()
    until(lambda: all(map(gone, pids if guarded else pids[::2])), 2)
    if guarded:
        until(lambda: gone(guard.pid) and not os.path.exists(folder), 2)
    else:
        assert not any(map(gone, pids[1::2]))
        for pid in pids[1::2]:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number, status", [
    (signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)])
def test_a_signal_to_the_launcher_is_passed_on(number, status, launcher):
    process, pids = launcher("""
signal.signal(signal.SIGINT, lambda *_: (print("interrupted", flush=True), os._exit(1)))
print(os.getpid(), flush=True)
time.sleep(60)
""", 2)
    process.send_signal(number)
    out, _ = process.communicate(timeout=5)
    assert process.returncode == status
    assert out.count("interrupted") == (2 if number == signal.SIGINT else 0)
    assert all(map(gone, pids))


def test_the_end_of_a_task_is_the_end_of_what_it_started(started):
    cluster = started(FAMILY.replace("time.sleep(60)\n", "sys.exit(0)\n"), {"worker": 1})
    assert cluster.wait(10) == 0
    assert all(gone(int(pid)) for pid in cluster.said[0][1].split())


def test_a_launcher_that_nobody_reads_ends(launcher):
    process, pids = launcher("print(os.getpid(), flush=True)\n"
                             "while True: time.sleep(0.01); print(flush=True)\n", 1)
    process.stdout.close()
    assert process.wait(5) == 128 + signal.SIGPIPE and all(map(gone, pids))


# ---------------------------------------------------------------- Slurm

def slurm_variables(**changes):
    told = {"SLURM_PROCID": "4", "SLURM_NODEID": "1", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "221",
            "SLURM_STEP_NODELIST": "n[08-09],gpu1", "SLURM_STEP_TASKS_PER_NODE": "3(x2),1"}
    return {k: v for k, v in {**told, **changes}.items() if v is not None}


def test_a_task_of_slurm():
    jobs = {"ps": 2, "worker": 5}
    task = slurm.task(jobs, environ=slurm_variables(), shards=8, insecure=True)
    assert task.cluster.as_dict() == {
        "ps": ["n08:10100", "n08:10101"],
        "worker": ["n08:10102", "n09:10100", "n09:10101", "n09:10102", "gpu1:10100"]}
    assert (task.name, task.epoch, task.job_id) == ("/job:worker/task:2", 1, "slurm-221")
    assert task.shards == 8 and task.insecure
    later = slurm.task(jobs, 5000, environ=slurm_variables(SLURM_RESTART_COUNT="2"))
    assert later.epoch == 3 and later.address == "n09:5001"
    alone = slurm.task({"worker": 2}, environ=slurm_variables(
        SLURM_PROCID="1", SLURM_NODEID="0", SLURM_STEP_NODELIST="n1",
        SLURM_STEP_TASKS_PER_NODE="2"))
    assert alone.cluster.as_dict() == {"worker": ["127.0.0.1:10100", "127.0.0.1:10101"]}
    tried = slurm.task(jobs, 5000, "127.0.0.1", slurm_variables())
    assert tried.cluster.as_dict()["worker"] == [f"127.0.0.1:{5002 + n}" for n in range(5)]


@pytest.mark.parametrize("text, hosts", [
    ("a", "a"), ("a,b", "a b"), ("n[1-3]", "n1 n2 n3"), ("n[08-10,2]x,b", "n08x n09x n10x n2x b"),
    ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"), ("a-b.c_d[0]", "a-b.c_d0")])
def test_lists_of_hosts(text, hosts):
    assert slurm.hosts_of(text) == hosts.split()


@pytest.mark.parametrize("text", ["", "[", "n[1-", "n[a]", "n[2-1]", "n[]", "n[1-999999999]", "a b",
                                  "n[1-1000]m[1-1000]", "n[1]]", "n[\u0661]", "n[--]", "a;b"])
def test_what_is_no_list_of_hosts(text):
    with pytest.raises(errors.InvalidArgumentError, match="SLURM_JOB_NODELIST"):
        slurm.hosts_of(text)


@pytest.mark.parametrize("changes, said", [
    ({"SLURM_PROCID": "7"}, "SLURM_PROCID: '7': expected a number from 0 to 6"),
    ({"SLURM_PROCID": "x"}, "SLURM_PROCID"), ({"SLURM_JOB_ID": None}, "SLURM_JOB_ID"),
    ({"SLURM_STEP_TASKS_PER_NODE": "3(x2)"}, "2 nodes have tasks, and the list of nodes has 3"),
    ({"SLURM_STEP_TASKS_PER_NODE": "3(x9999999)"}, "expected as 3"),
    ({"SLURM_STEP_TASKS_PER_NODE": "101,1,1"}, "at most 100, a port each"),
    ({"SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, "srun started 6 tasks, and the cluster (ps=2, worker"),
    ({"SLURM_STEP_NODELIST": None}, "SLURM_JOB_NODELIST: it is not set"),
    ({"SLURM_NODEID": "2"}, "start it with srun --distribution=block")])
def test_what_slurm_says_is_checked(changes, said):
    with pytest.raises(errors.InvalidArgumentError) as error:
        slurm.task({"ps": 2, "worker": 5}, environ=slurm_variables(**changes))
    assert said in str(error.value)


PAYLOAD = """
import json, os, sys
told = json.loads(os.environ["TF_CONFIG"])
job, index = told["task"]["type"], told["task"]["index"]
sys.stdout.write(f"/job:{job}/task:{index} {told['cluster'][job][index]} {told['epoch']} "
                 f"{sys.argv[1:]}\\n")
"""


@pytest.fixture
def sbatch(tmp_path):
    """sbatch(arguments, ...) -> what subprocess.run returns of the template."""
    (tmp_path / "train.py").write_text(PAYLOAD)
    return lambda *arguments, **variables: launchers.sbatch(tmp_path, 2, *arguments, **variables)


def test_the_script_for_sbatch(sbatch, tmp_path):
    words = ["--ps", "1", "--workers", "1", "train.py", "--dir", "a b"]
    done = sbatch(*words, PYTHON=sys.executable, SLURM_RESTART_COUNT="2")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "/job:ps/task:0 127.0.0.1:14100 3 ['--dir', 'a b']",
        "/job:worker/task:0 127.0.0.1:14101 3 ['--dir', 'a b']"]
    told = json.loads((tmp_path / "log").read_text())
    assert told["options"] == ["--distribution=block", "--kill-on-bad-exit=1", "--wait=60"]
    assert told["command"][1:] == ["-m", "pyflow", "launch", "--on", "slurm", *words]
    assert not (tmp_path / "requeued").exists()


@pytest.mark.parametrize("restarts, requeued", [(None, True), ("4", True), ("5", False)])
def test_a_job_that_fails_is_queued_again(restarts, requeued, sbatch, tmp_path):
    told = {"SLURM_RESTART_COUNT": restarts} if restarts else {}
    assert sbatch("train.py", PYTHON="false", **told).returncode == 1
    assert (tmp_path / "requeued").exists() == requeued
    assert not requeued or (tmp_path / "requeued").read_text() == "requeue 41\n"
    assert "#SBATCH --requeue\n" in (launchers.TEMPLATES / "pyflow.sbatch").read_text()


# ---------------------------------------------------------------- Kubernetes

POD = {"JOBSET_NAME": "pyflow", "JOBSET_JOB": "worker", "JOBSET_UID": "u-1",
       "JOBSET_RESTART_ATTEMPT": "2", "JOB_COMPLETION_INDEX": "1"}


def test_a_task_of_a_jobset():
    task = kubernetes.task({"ps": 1, "worker": 2}, environ=POD, certificates="/certificates")
    assert task.cluster.as_dict() == {
        "ps": ["pyflow-ps-0-0.pyflow:2222"],
        "worker": ["pyflow-worker-0-0.pyflow:2222", "pyflow-worker-0-1.pyflow:2222"]}
    assert (task.label, task.epoch, task.job_id) == ("worker-1", 3, "jobset-u-1")
    assert task.certificates == "/certificates"
    here = kubernetes.task({"ps": 1, "worker": 2}, 7000, "127.0.0.1", POD)
    assert here.cluster.as_dict()["worker"] == ["127.0.0.1:7001", "127.0.0.1:7002"]


@pytest.mark.parametrize("name, value, said", [
    ("JOBSET_NAME", "../x", "JOBSET_NAME: '../x' is no name"),
    ("JOBSET_JOB", "gpu", "no job 'gpu'"),
    ("JOB_COMPLETION_INDEX", "2", "completions as many"), ("JOB_COMPLETION_INDEX", "x", "tasks 0"),
    ("JOBSET_RESTART_ATTEMPT", "x", "JOBSET_RESTART_ATTEMPT"),
    *((name, None, f"{name} is not set") for name in kubernetes.VARIABLES)])
def test_what_a_pod_is_told_is_checked(name, value, said):
    environ = {k: v for k, v in {**POD, name: value}.items() if v is not None}
    with pytest.raises((errors.InvalidArgumentError, errors.FailedPreconditionError)) as error:
        kubernetes.task({"ps": 1, "worker": 2}, environ=environ)
    assert said in str(error.value)


def test_the_jobset(tmp_path):
    """Its pods' commands and environments, run as local processes."""
    jobset = yaml.safe_load((launchers.TEMPLATES / "jobset.yaml").read_text())
    (tmp_path / "train.py").write_text(PAYLOAD)
    running, names = [], []
    for command, environment in launchers.pods_of(jobset, restart=1):
        assert command[0] == "python"
        running.append(subprocess.Popen(
            [sys.executable, "-P", *command[1:]], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment, "PYTHONSAFEPATH": "1"}))
    lines = [process.communicate(timeout=60)[0].strip() for process in running]
    for n, (job, index) in enumerate([("ps", 0), ("worker", 0), ("worker", 1)]):
        names.append(f"pyflow-{job}-0-{index}.pyflow")
        assert lines[n] == f"/job:{job}/task:{index} {names[n]}:2222 2 ['--dir', '/runs/1']"
    said = (launchers.TEMPLATES / "jobset.yaml").read_text()
    assert f"--hosts {' '.join(names)}" in said         # what its head says to certify
    spec = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert spec["volumes"][0]["secret"]["defaultMode"] == 0o400
    assert jobset["spec"]["successPolicy"]["targetReplicatedJobs"] == ["worker"]


# ---------------------------------------------------------------- a process that an actor hosts

@pytest.fixture
def hosting():
    made = []

    def make(lease=10.0):
        made.append(hosted.HostedTask("127.0.0.1", lease))
        return made[-1]
    yield make
    for task in made:
        task.close()


def all_of(task, seconds=5.0):
    """(lines, status) until it has ended."""
    lines, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        more, status = task.events(0.05)
        lines += more
        if status is not None:
            return lines, status
    raise TimeoutError(lines)


def test_a_hosted_process(hosting, script, tmp_path):
    task = hosting()
    told = launch.Task(ClusterSpec({"worker": [task.address]}), "worker", 0, epoch=3,
                       members=task.members_path)
    who = members.Members(1, "j", {("worker", 0): members.Member(task.address, 3, "running")})
    task.tell(who.to_json())
    words = script("print(epoch, open(told['members']).read()); sys.exit(4)")
    pid = task.start(["", *words[1:]], told.environment())
    lines, status = all_of(task)
    assert (lines, status) == ([f"3 {who.to_json()}"], 4) and gone(pid)
    words = script("print('on', flush=True); time.sleep(60)")
    pid = task.start(words, told.environment())
    until(lambda: task.events(0.1)[0] == ["on"])
    with pytest.raises(RuntimeError, match=f"process {pid} runs still"):
        task.start(words, {})
    task.send(signal.SIGTERM)
    assert all_of(task) == ([], -signal.SIGTERM) and task.pid() is None
    pid = task.start(words, told.environment())
    task.close()
    until(lambda: gone(pid) and not os.path.exists(task.folder))


def test_a_hosted_process_that_is_stopped_for_a_lease_is_killed(hosting, script):
    task = hosting(lease=0.2)
    pid = task.start(script("print('on', flush=True); time.sleep(60)"), config(epoch=1))
    until(lambda: task.events(0.1)[0] == ["on"])
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(pid, signal.SIGCONT)            # in time
    time.sleep(0.2)
    assert task.pid() == pid
    os.kill(pid, signal.SIGSTOP)
    lines, status = all_of(task)
    assert status == -signal.SIGKILL and "stopped for 0." in lines[0]


# ---------------------------------------------------------------- servers under a launcher

TRAINING = """
import sys, time
import pyflow as tf
from pyflow.distributed import launch
task = launch.task()
server = task.server()
if task.job == "ps":
    server.join()
    sys.exit()
with tf.device(tf.train.replica_device_setter(cluster=task.cluster, worker_device=task.name)):
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(w - 3.0), step)
with tf.train.MonitoredTrainingSession(server.target, task.is_chief, sys.argv[1],
                                       save_checkpoint_steps=20) as sess:
    done = 0
    while done < int(sys.argv[2]):
        _, done = sess.run([train, step])
        time.sleep(float(sys.argv[3]))
        print("step", done, flush=True)
    print("w", round(float(sess.run(w)), 3), flush=True)
server.stop_cluster()
"""


@pytest.fixture
def training(tmp_path):
    """training(steps, pause, ...) -> a cluster of a parameter server and a worker that train."""
    clusters = []

    def start(steps, pause, **options):
        (tmp_path / "train.py").write_text(TRAINING)
        said = []
        words = [sys.executable, "-P", tmp_path / "train.py", tmp_path / "run", str(steps),
                 str(pause)]
        cluster = local.LocalCluster(words, {"ps": 1, "worker": 1}, cwd=tmp_path,
                                     output=lambda *line: said.append(line), **options)
        cluster.said = said
        clusters.append(cluster)
        return cluster.start()
    yield start
    for cluster in clusters:
        cluster.stop(signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("unix", [True, False])
def test_servers_at_the_addresses_that_were_given(unix, training):
    cluster = training(40, 0, unix=unix)
    assert cluster.wait(60) == 0, cluster.said
    assert ("worker-0", "w 3.0") in cluster.said


def test_a_server_hears_of_tasks_that_move_come_and_leave(tmp_path):
    def server(job, index=0):
        jobs = {"worker": ["localhost:0"], "ps": {0: "localhost:0", 1: "localhost:0"}}
        return tf.train.Server(jobs, job, index)

    def value():
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            with tf.Session(worker.target) as sess:
                return sess.run(tf.get_variable("v", initializer=3.0).initialized_value())
    worker, first, second, third = server("worker"), server("ps"), server("ps"), server("ps", 1)
    who = members.Members(1, "j", {("worker", 0): members.Member("localhost:1", 1, "running"),
                                   ("ps", 0): members.Member(first.address, 1, "running")})
    members.write(tmp_path / "m", who)
    thread = members.follow(tmp_path / "m", lambda found: worker.update_cluster(found.cluster()),
                            lambda: worker.stopped, every=0.01)
    until(lambda: worker._tasks.addresses.get("/job:ps/replica:0/task:0") == first.address)
    assert value() == 3.0 and len(first._worker.task.counts()) > 0
    first.stop()
    reserved = processes.reserve_port()
    nowhere = f"127.0.0.1:{processes.port_of(reserved)}"
    worker.update_cluster({"worker": ["localhost:1"], "ps": [nowhere]})
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waits = pool.submit(value)              # for a server that never comes
        until(lambda: any(known._waiting for known in worker._tasks.known() if not known.local))
        worker.update_cluster({"worker": ["localhost:1"], "ps": [second.address]})
        with pytest.raises(errors.UnavailableError, match=f"no longer at {nowhere}"):
            waits.result(10)
    reserved.close()
    moved = {**who.tasks, ("ps", 0): members.Member(second.address, 2, "running"),
             ("ps", 1): members.Member(third.address, 1, "running")}
    members.write(tmp_path / "m", who._replace(generation=2, tasks=moved))
    until(lambda: len(worker._tasks.names()) == 3)
    assert value() == 3.0
    with tf.Session(worker.target) as sess:
        assert {d.name.split("/device")[0] for d in sess.list_devices()} == {
            f"/job:{task}" for task in ("worker/replica:0/task:0", "ps/replica:0/task:0",
                                        "ps/replica:0/task:1")}
    moved["ps", 1] = members.Member(third.address, 1, "gone")
    members.write(tmp_path / "m", who._replace(generation=3, tasks=moved))
    until(lambda: len(worker._tasks.names()) == 2)
    for task in (worker, second, third):
        task.stop()
    thread.join(5)
    assert not thread.is_alive()


@pytest.mark.long
@pytest.mark.parametrize("unix", [True, False])
def test_a_job_goes_on_when_its_parameter_server_has_moved(unix, training):
    cluster = training(300, 0.01, unix=unix)
    until(lambda: ("worker-0", "step 60") in cluster.said, 30)
    old, address = cluster.pid("ps", 0), cluster.members().tasks["ps", 0].address
    cluster.replace("ps", 0)
    os.kill(old, signal.SIGKILL)
    assert cluster.wait(60) == 0, cluster.said[-30:]
    assert ("worker-0", "w 3.0") in cluster.said
    assert (cluster.members().tasks["ps", 0].address == address) == unix


@pytest.mark.long
@pytest.mark.parametrize("unix", [True, False])
@pytest.mark.parametrize("victim", ["ps", "worker"])
def test_a_job_survives_a_kill(victim, unix, training):
    cluster = training(300, 0.01, unix=unix, restarts=1)
    until(lambda: ("worker-0", "step 60") in cluster.said, 30)
    cluster.kill(victim, 0)
    assert cluster.wait(60) == 0, cluster.said[-30:]
    assert ("worker-0", "w 3.0") in cluster.said and ("worker-0", "step 300") in cluster.said
    assert cluster.members().tasks[victim, 0].epoch == 2
