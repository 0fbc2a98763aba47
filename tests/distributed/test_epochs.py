"""Fencing numbers, and checkpoints committed under them: faults, kills, processes that return."""
import errno
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.run import epochs
from pyflow.distributed.train import commits, training
from pyflow.distributed.launch import members
from pyflow.framework import errors

ME = "/job:worker/task:1"


# ---------------------------------------------------------------- fencing numbers

def test_a_fence_as_text():
    fence = epochs.Fence.new(3)
    assert epochs.Fence.parse(str(fence)) == fence and fence.incarnation != 0
    assert str(epochs.Fence(3, 0xa7)) == "3:00000000000000a7"
    assert epochs.Fence.new(3).incarnation != fence.incarnation


@pytest.mark.parametrize("text", ["", "3", "3:", "3:a7", "-1:00000000000000a7",
                                  "3:00000000000000A7", "99999999999:00000000000000a7",
                                  "2147483648:00000000000000a7",
                                  "3:0000000000000000", " 3:00000000000000a7",
                                  "\u0663:00000000000000a7", None, b"3:00000000000000a7"])
def test_what_is_no_fence(text):
    with pytest.raises(errors.InvalidArgumentError, match="expected EPOCH:INCARNATION"):
        epochs.Fence.parse(text)


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", 1 << 31, None])
def test_what_is_no_epoch(value):
    with pytest.raises(errors.InvalidArgumentError, match="lease_epoch is .*whole number from 0"):
        epochs.checked_epoch(value, "lease_epoch")


def test_the_newest_is_admitted_and_older_ones_never_again(caplog):
    fences, admit = epochs.Fences(), lambda *f: fences.admit(ME, epochs.Fence(*f))
    assert [admit(2, 5), admit(2, 5), admit(3, 9), admit(3, 9)] == [True, False, True, False]
    with pytest.raises(epochs.StaleEpochError, match="epoch 2 was replaced by epoch 3") as error:
        admit(2, 5)
    assert error.value.error_code == errors.FAILED_PRECONDITION
    assert isinstance(error.value, errors.FailedPreconditionError)
    with pytest.raises(epochs.StaleEpochError, match="two processes claim epoch 3.*0009 has it"):
        admit(3, 8)
    with pytest.raises(epochs.StaleEpochError, match="of epoch 0 was replaced by epoch 3"):
        admit(0, 8)
    assert fences.current(ME) == (3, 9) and fences.current("other") is None
    assert len(caplog.records) == 3 and ME in caplog.records[0].getMessage()


def test_where_nobody_counts_the_last_to_come_is_the_one():
    fences, admit = epochs.Fences(), lambda n: fences.admit(ME, epochs.Fence(0, n))
    assert [admit(1), admit(2), admit(2), admit(3)] == [True, True, False, True]
    for gone in (1, 2):
        with pytest.raises(epochs.StaleEpochError, match="nobody counts.*replaced by 0+3"):
            admit(gone)
    for n in range(4, 2 * epochs.KEPT):
        admit(n)
    assert len(fences._gone[ME]) == epochs.KEPT
    assert fences.admit(ME, epochs.Fence(1, 7)) and ME not in fences._gone


def test_threads_admit_one_incarnation_of_an_epoch():
    fences, admitted, barrier = epochs.Fences(), [], threading.Barrier(8)

    def claim(n):
        barrier.wait()
        for epoch in range(1, 200):
            try:
                if fences.admit(ME, epochs.Fence(epoch, n)):
                    admitted.append(epoch)
            except epochs.StaleEpochError:
                pass
    threads = [threading.Thread(target=claim, args=[n]) for n in range(1, 9)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(admitted) == len(set(admitted)) and max(admitted) == 199


def test_the_counts_of_engines():
    count = epochs.restart_epoch
    assert count({}) == 0
    assert count({"SLURM_JOB_ID": "7"}) == 1
    assert count({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "4"}) == 5
    assert count({"SLURM_RESTART_COUNT": "4"}) == 0         # not in a job
    assert count({"JOBSET_RESTART_ATTEMPT": "0"}) == 1
    assert count({"JOBSET_RESTART_ATTEMPT": "2"}) == 3
    for wrong in ("x", "-1", "1.5", "9" * 20, "\u0663"):
        with pytest.raises(errors.InvalidArgumentError, match="JOBSET_RESTART_ATTEMPT='.*a count"):
            count({"JOBSET_RESTART_ATTEMPT": wrong})


def test_a_server_that_was_replaced_ends(tmp_path, caplog):
    """Nobody speaks to it any more; the file of members tells."""
    who = members.Members(1, "j", {("ps", 0): members.Member("localhost:0", 1, "running")})
    members.write(tmp_path / "m", who)
    server = launch.Task(who.cluster(), "ps", 0, epoch=1, job_id="j",
                         members=str(tmp_path / "m")).server()
    thread = threading.Thread(target=server.join)
    thread.start()
    members.write(tmp_path / "m", who._replace(generation=2))       # nothing of its own
    thread.join(0.5)
    assert thread.is_alive() and not server.stopped
    members.write(tmp_path / "m", who._replace(generation=3, tasks={
        ("ps", 0): members.Member("localhost:1", 2, "running")}))
    thread.join(5)
    assert not thread.is_alive() and server.stopped
    assert "task:0 of epoch 1 was replaced by epoch 2" in caplog.text


# ---------------------------------------------------------------- checkpoints

def contents(step, epoch, size=20_000):
    """Two files whose bytes say which step and epoch they are of."""
    data = np.random.RandomState([step, epoch]).bytes(size)
    return {"data": data, "index": hashlib.sha256(data).digest()}


def loads(found):
    """Reads a checkpoint as a program would; AssertionError for one that is not whole."""
    data = {name.rsplit(".", 1)[1]: open(os.path.join(os.path.dirname(found.prefix), name),
                                         "rb").read() for name in found.files}
    assert hashlib.sha256(data["data"]).digest() == data["index"]
    return data


def started(folder, **options):
    store = commits.CheckpointFolder(folder, **options)
    store.begin()
    return store


def test_the_newest_step_and_epoch_is_read(tmp_path):
    assert commits.newest_committed(tmp_path) is None
    store = started(tmp_path, epoch=1, job="a")
    for step in (100, 20, 300):
        assert store.save(step, contents(step, 1)).prefix == f"{tmp_path}/model.ckpt-{step}.e1"
    found = commits.newest_committed(tmp_path)
    assert (found.step, found.epoch) == (300, 1) and loads(found) == contents(300, 1)
    assert [c.step for c in store.committed()] == [300, 100, 20]
    later = commits.CheckpointFolder(tmp_path, epoch=2, job="a")
    assert later.begin() == found and later.epoch == 2
    later.save(300, contents(300, 2))
    assert commits.newest_committed(tmp_path).prefix.endswith("model.ckpt-300.e2")
    assert commits.newest_committed(tmp_path, "other") is None


def test_what_is_half_written_damaged_or_strange_is_passed_over(tmp_path, caplog):
    store = started(tmp_path)
    for step in (1, 2, 3, 4, 5):
        store.save(step, contents(step, 1))
    (tmp_path / "model.ckpt-9.e1.data").write_bytes(b"no commit yet")
    (tmp_path / "model.ckpt-8.e1.commit").write_bytes(b"")
    (tmp_path / "model.ckpt-7.e1.commit").write_bytes(b"\0" * (commits.LARGEST_RECORD + 1))
    with open(tmp_path / "model.ckpt-5.e1.data", "r+b") as f:
        f.truncate(100)
    damaged = bytearray((tmp_path / "model.ckpt-4.e1.commit").read_bytes())
    damaged[-3] ^= 1
    (tmp_path / "model.ckpt-4.e1.commit").write_bytes(damaged)
    (tmp_path / "model.ckpt-3.e1.index").unlink()
    store._write_record(str(tmp_path / "model.ckpt-6.e1.commit"),
                        {"format": "pyflow.commit/1", "files": {"../../etc/passwd": 1}})
    store._write_record(str(tmp_path / "model.ckpt-10.e1.commit"),
                        {"format": "pyflow.commit/1", "files": {"model.ckpt-1.e1.data": 20_000}})
    (tmp_path / "model.ckpt-99999999999999999999.e1.commit").write_bytes(b"")
    assert commits.newest_committed(tmp_path).step == 2
    said = caplog.text
    assert "model.ckpt-5.e1.data has 100 bytes, not 20000" in said and "it is damaged" in said


def test_a_replaced_process_is_refused_and_what_it_commits_counts_for_nothing(tmp_path, caplog):
    old = started(tmp_path, epoch=1, job="a")
    old.save(100, contents(100, 1))
    new = commits.CheckpointFolder(tmp_path, epoch=2, job="a")
    assert new.begin().step == 100
    with pytest.raises(epochs.StaleEpochError, match="folder's epoch 1 was replaced by 2"):
        old.save(200, contents(200, 1))
    with pytest.raises(epochs.StaleEpochError, match="epoch 1 of job 'a' was replaced by epoch 2"):
        old.begin()
    assert len([r for r in caplog.records if "refused" in r.getMessage()]) == 2
    again = commits.CheckpointFolder(tmp_path, epoch=2, job="a")
    with pytest.raises(epochs.StaleEpochError, match="epoch 2 of job 'a' was replaced by epoch 2"):
        again.begin()
    assert new.begin().step == 100 and new.epoch == 3       # the same process, once more
    another_run = commits.CheckpointFolder(tmp_path, epoch=1, job="b")
    assert another_run.begin().step == 100
    with pytest.raises(epochs.StaleEpochError, match="this process: epoch 2 of job 'a'.*job 'b'"):
        new.commit(1)


class Frozen(commits.Files):
    """Stops before the rename of a .commit, until it is thawed."""

    def __init__(self):
        self.reached, self.thawed = threading.Event(), threading.Event()

    def replace(self, source, target):
        if target.endswith(".commit"):
            self.reached.set()
            assert self.thawed.wait(10)
        os.replace(source, target)


@pytest.mark.parametrize("new_step", [None, 250])
def test_a_chief_frozen_before_the_rename_is_thawed(tmp_path, new_step):
    """Its step is higher than anything of the new epoch's, and counts for nothing."""
    files = Frozen()
    old = started(tmp_path, epoch=1, job="a", files=files)
    files.thawed.set()
    old.save(200, contents(200, 1))
    files.thawed.clear(), files.reached.clear()
    end = []

    def save():
        try:
            old.save(300, contents(300, 1))
        except errors.OpError as e:
            end.append(e)
    thread = threading.Thread(target=save)
    thread.start()
    assert files.reached.wait(10)
    new = commits.CheckpointFolder(tmp_path, epoch=2, job="a")
    assert new.begin().step == 200
    if new_step:
        new.save(new_step, contents(new_step, 2))
    files.thawed.set()
    thread.join()
    # the rename did happen, unless the new process had removed what uncommitted files it found
    assert os.path.exists(tmp_path / "model.ckpt-300.e1.commit") == (new_step is None)
    assert isinstance(end[0], epochs.StaleEpochError)
    found = commits.newest_committed(tmp_path)
    assert (found.step, found.epoch) == ((new_step, 2) if new_step else (200, 1))
    assert commits.CheckpointFolder(tmp_path, epoch=3, job="a").begin() == found
    loads(found)


def test_one_that_is_replaced_while_it_syncs_renames_nothing(tmp_path):
    class Replaced(commits.Files):
        @staticmethod
        def size(path):                 # asked after the files' sync
            if path.endswith("model.ckpt-200.e1.data"):
                commits.CheckpointFolder(tmp_path, epoch=2, job="a").begin()
            return os.stat(path).st_size
    old = started(tmp_path, epoch=1, job="a", files=Replaced)
    with pytest.raises(epochs.StaleEpochError, match="epoch 1 was replaced by 2"):
        old.save(200, contents(200, 1))
    assert not os.path.exists(tmp_path / "model.ckpt-200.e1.commit")


def test_two_that_begin_at_once_have_two_epochs(tmp_path):
    barrier, stores = threading.Barrier(6), []

    def begin():
        barrier.wait()
        stores.append(started(tmp_path))
    threads = [threading.Thread(target=begin) for _ in range(6)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert sorted(s.epoch for s in stores) == [1, 2, 3, 4, 5, 6]


def test_what_is_old_is_removed(tmp_path):
    old = started(tmp_path, keep=3)
    (tmp_path / "model.ckpt-7.e1.data").write_bytes(b"killed while it wrote")
    (tmp_path / "unrelated").write_bytes(b"")
    for step in range(1, 7):
        old.save(step, contents(step, 1))
    assert [c.step for c in old.committed()] == [6, 5, 4]
    new = started(tmp_path, keep=2)
    new.save(8, contents(8, 2))
    assert sorted(os.listdir(tmp_path)) == sorted(
        ["unrelated", "model.ckpt.e2.fence"] +
        [f"model.ckpt-{c}.{end}" for c in ("6.e1", "8.e2") for end in ("commit", "data", "index")])


def test_one_that_was_replaced_leaves_what_its_successor_is_writing(tmp_path):
    """A chief frozen after a commit, before it looks for what others left unfinished."""
    stores = [commits.CheckpointFolder(str(tmp_path), epoch=k, job="j") for k in (1, 2)]
    for store in stores:
        store.begin()
    for name in ("model.ckpt-5.e1_temp_0a", "model.ckpt-7.e2_temp_0b", "model.ckpt-7_temp_0c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-00000-of-00001.data").write_bytes(b"x")
    training._remove_unfinished(stores[0])
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {
        "model.ckpt-7.e2_temp_0b", "model.ckpt-7_temp_0c"}
    training._remove_unfinished(stores[1])
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == ["model.ckpt-7_temp_0c"]


def test_wrong_use(tmp_path):
    store = commits.CheckpointFolder(tmp_path)
    with pytest.raises(RuntimeError, match=r"call begin\(\) first"):
        store.prefix(1)
    store.begin()
    with pytest.raises(ValueError, match="no file .*model.ckpt-3.e1.* to commit"):
        store.commit(3)
    for options in ({"keep": 1}, {"name": "../x"}, {"name": ""}):
        with pytest.raises(ValueError):
            commits.CheckpointFolder(tmp_path, **options)
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        commits.newest_committed(tmp_path / "nowhere")
    with pytest.raises(errors.NotFoundError, match="nowhere"):
        commits.CheckpointFolder(tmp_path / "nowhere").begin()


@pytest.mark.parametrize("file_format", ["pyflow", "tensorflow"])
def test_with_a_saver(tmp_path, file_format):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        saver = tf.train.Saver(format=file_format)
        sess.run(v.initializer)
        store = started(tmp_path, keep=2)
        for step in (1, 2, 3):
            sess.run(v.assign_add([1.0, 1.0]))
            saver.save(sess, store.prefix(step), write_state=False)
            store.commit(step)
        saver.save(sess, store.prefix(4), write_state=False)        # and is killed here
        sess.run(v.assign([0.0, 0.0]))
        found = commits.newest_committed(tmp_path)
        saver.restore(sess, found.prefix)
        assert found.step == 3 and sess.run(v).tolist() == [4.0, 5.0]
    assert not os.path.exists(tmp_path / "model.ckpt-1.e1.index")


# ---------------------------------------------------------------- faults

class Quick(commits.Files):
    """Without fsync, of which nothing is to be seen unless the machine loses its power."""

    fsync = staticmethod(lambda descriptor: None)


class Faulty(Quick):
    """The call number `at` fails: an error, or a write that takes part of the bytes."""

    def __init__(self, at, fault):
        self.count, self.at, self.fault, self.happened = 0, at, fault, None

    def _call(self, name, *args):
        call = getattr(Quick, name)
        self.count += self.fault != "short" or name == "write"
        if self.count - 1 != self.at or self.happened:
            return call(*args)
        self.happened = name
        if self.fault == "short":
            return call(args[0], args[1][:max(1, len(args[1]) // 3)])
        if name == "write":
            call(args[0], args[1][:len(args[1]) // 2])      # a full disk takes a part first
        raise OSError(self.fault, os.strerror(self.fault))


for _name in ("listdir", "replace", "link", "unlink", "write", "fsync", "size", "read"):
    setattr(Faulty, _name, lambda self, *args, _name=_name: self._call(_name, *args))


def attempt(folder, files):
    """A process of the next epoch saves a checkpoint; what it was told of, and the error."""
    done, store = [], commits.CheckpointFolder(folder, keep=2, files=files)
    try:
        store.begin()
        done.append((20, store.save(20, contents(20, store.epoch, 2000)).epoch))
    except errors.OpError as e:
        return done, e
    return done, None


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO, "short"])
def test_a_fault_at_every_call(fault, tmp_path):
    at, hit = 0, set()
    while True:
        folder = tmp_path / f"{at}"
        folder.mkdir()
        started(folder, files=Quick).save(10, contents(10, 1, 2000))
        files = Faulty(at, fault)
        done, error = attempt(folder, files)
        if files.happened is None:      # fewer calls than that
            break
        found = commits.newest_committed(folder)
        assert loads(found) == contents(found.step, found.epoch, 2000)
        assert (found.step, found.epoch) >= (done or [(10, 1)])[-1]
        hit.add(files.happened)
        assert fault != "short" or error is None
        if error:
            kind = errors.ResourceExhaustedError if fault == errno.ENOSPC else errors.UnknownError
            assert type(error) is kind and os.strerror(fault) in str(error)
        assert not [n for n in os.listdir(folder) if ".tmp-" in n] or files.happened == "unlink"
        done, error = attempt(folder, Quick)        # the disk is well again
        assert error is None and commits.newest_committed(folder).step == 20
        at += 1
    assert hit == ({"write"} if fault == "short" else
                   {"listdir", "replace", "link", "unlink", "write", "fsync", "size", "read"})
    assert at > (3 if fault == "short" else 20)


# ---------------------------------------------------------------- kills

def save_for_ever(folder, epoch, told, files):
    store = commits.CheckpointFolder(folder, epoch=epoch, job="kills", keep=2, files=files)
    resumed = store.begin()
    step = resumed.step if resumed else 0
    while True:
        step += 1
        store.save(step, contents(step, store.epoch))
        os.write(told, b"%d %d\n" % (step, store.epoch))


def kill_at_random(folder, kills, files=commits.Files, seed=5):
    """Kills a saving process `kills` times; after each, the newest checkpoint must be whole and
    not older than the last that the process was told of. Returns how many were told of."""
    draw, last, total = random.Random(seed), (0, 0), 0
    for epoch in range(1, kills + 1):
        reader, writer = os.pipe()
        child = os.fork()           # this process has one thread, and no server
        if not child:
            try:
                save_for_ever(folder, epoch, writer, files)
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as f:
            first = f.readline() if epoch % 2 else ""   # else at the beginning, too
            time.sleep(draw.uniform(0, 0.01))
            os.kill(child, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            told = [tuple(map(int, line.split())) for line in [first, *f] if line]
        last, total = max([last, *told]), total + len(told)
        found = commits.newest_committed(folder)
        assert found or not total
        if found:
            assert (found.step, found.epoch) >= last
            assert loads(found) == contents(found.step, found.epoch)
    left = [n for n in os.listdir(folder) if ".e1." in n]
    assert len(left) <= 8, left             # what killed processes leave is removed
    return total


@pytest.mark.parametrize("kills, files", [
    (20, "Quick"), pytest.param(300, "commits.Files", marks=pytest.mark.long)])
def test_kills(kills, files, tmp_path):
    """In a process of its own: a server's threads of other tests must not be forked."""
    code = ("from test_epochs import *\n"
            f"print(kill_at_random({str(tmp_path)!r}, {kills}, {files}))")
    env = {**os.environ, "PYTHONPATH": os.path.dirname(__file__), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= kills // 2
