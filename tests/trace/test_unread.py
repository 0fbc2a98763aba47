"""tf.RunMetadata, whose content is made when it is first read: by whatever reads it, once, from
records alone; and what a run replaces."""

import copy
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from google.protobuf import descriptor_pool, json_format, message, message_factory, text_format

import pyflow as tf
from pyflow import timeline
from pyflow.framework import protos
from pyflow.session import metadata
from pyflow.tools import trace as trace_tool

HERE = pathlib.Path(__file__).resolve().parent
DATA = (HERE / "run_metadata.pb").read_bytes()
FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
GRAPHS = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)


def unread(data=DATA):
    """A RunMetadata as a run leaves it."""
    made = tf.RunMetadata()
    made._fill_later(lambda plain: plain.MergeFromString(data))
    assert made._unread
    return made


def plain(data=DATA):
    return protos.RunMetadata.FromString(data)


def count(metadata):
    return sum(len(d.node_stats) for d in metadata.step_stats.dev_stats)


def roots(session, values, options=FULL, filled=None):
    """Runs gather(sqrt(x), [1]), which fails for less than two values -> the RunMetadata."""
    y, x = session.graph.get_tensor_by_name("y:0"), session.graph.get_tensor_by_name("x:0")
    filled = tf.RunMetadata() if filled is None else filled
    session.run(y, {x: values}, options, filled)
    return filled


@pytest.fixture
def session():
    x = tf.placeholder(tf.float32, [None], name="x")
    tf.gather(tf.sqrt(x, name="root"), [1], name="y")
    with tf.Session() as session:
        yield session


# ---------------------------------------------------------------- reading

def merged(m):
    m.MergeFromString(DATA)
    return m


def cleared(m):
    m.ClearField("partition_graphs")
    return m


def added(m):
    m.step_stats.dev_stats.add().device = "mine"
    return m


def parsed(m):
    return json_format.Parse('{"stepStats": {"devStats": [{"device": "mine"}]}}', m)


READERS = {
    "field": lambda m: m.step_stats,
    "graphs": lambda m: [g.SerializeToString() for g in m.partition_graphs],
    "bytes": lambda m: m.SerializeToString(deterministic=True),
    "partial": lambda m: m.SerializePartialToString(deterministic=True),
    "size": lambda m: m.ByteSize(),
    "has": lambda m: (m.HasField("step_stats"), m.IsInitialized()),
    "fields": lambda m: [(f.name, len(str(v))) for f, v in m.ListFields()],
    "str": str,
    "repr": repr,
    "copy": lambda m: copy.copy(m).SerializeToString(deterministic=True),
    "deepcopy": lambda m: copy.deepcopy(m).SerializeToString(deterministic=True),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)).SerializeToString(deterministic=True),
    "state": lambda m: plain(m.__getstate__()["serialized"]),
    "json": json_format.MessageToJson,
    "dict": json_format.MessageToDict,
    "text": text_format.MessageToString,
    "timeline": lambda m: timeline.Timeline(m.step_stats).generate_chrome_trace_format(),
    "merge": lambda m: merged(m).SerializeToString(deterministic=True),
    "clear": lambda m: cleared(m).SerializeToString(deterministic=True),
    "add": lambda m: added(m).SerializeToString(deterministic=True),
    "parse": lambda m: parsed(m).SerializeToString(deterministic=True),
    "missing": lambda m: hasattr(m, "no_such_field"),
}


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_it_finds_what_a_plain_message_has(reader):
    mine, read = unread(), READERS[reader]
    assert read(mine) == read(plain())
    assert not mine._unread
    assert mine.partition_graphs is mine.partition_graphs


def test_it_is_a_message():
    mine = unread()
    assert isinstance(mine, message.Message) and mine.DESCRIPTOR is plain().DESCRIPTOR
    assert tf.RunMetadata.STEP_STATS_FIELD_NUMBER == 1 and tf.RunMetadata.DESCRIPTOR.name
    assert set(dir(plain())) - set(dir(mine)) <= {
        "Extensions", "FindInitializationErrors", "RegisterExtension", "_ListFieldsItemKey",
        "_CheckCalledFromGeneratedFile", "_extensions_by_name", "_extensions_by_number"}
    assert mine.FindInitializationErrors() == []
    with pytest.raises(TypeError, match="unhashable"):
        hash(mine)
    for name in ("step_stats", "no_such_field"):
        with pytest.raises(AttributeError, match=name):
            setattr(mine, name, 3)


def test_equal_to_messages_of_the_same_content():
    assert unread() == unread() and unread() == plain() and plain() == unread()
    assert unread() != tf.RunMetadata() and tf.RunMetadata() != unread()
    assert tf.RunMetadata() == protos.RunMetadata() and unread() != 3
    assert tf.RunMetadata.FromString(DATA) == unread()
    assert tf.RunMetadata(step_stats=plain().step_stats).step_stats == unread().step_stats
    with pytest.raises(ValueError, match="no_such_field"):
        tf.RunMetadata(no_such_field=3)


def test_copies_both_ways():
    for take in ("CopyFrom", "MergeFrom"):
        for source in (unread(), plain()):
            target = tf.RunMetadata()
            getattr(target, take)(source)
            assert target == source
            target.step_stats.dev_stats[0].device = "changed"
            assert target != source and source == plain()
    target = unread(b"")
    target.CopyFrom(target)
    target.MergeFrom(unread())
    target.MergeFrom(unread())
    assert count(target) == 2 * count(plain())
    with pytest.raises(TypeError):
        target.MergeFrom(protos.GraphDef())
    with pytest.raises(TypeError):      # protobuf's own class takes no other
        protos.RunMetadata().CopyFrom(unread())
    assert protos.RunMetadata.FromString(unread().SerializeToString()) == plain()


def test_what_replaces_it_does_not_make_it():
    def never(plain):
        raise AssertionError("it was made")
    mine = tf.RunMetadata()
    for replace in (lambda: mine.Clear(), lambda: mine.ParseFromString(DATA),
                    lambda: mine.CopyFrom(plain())):
        mine._fill_later(never)
        replace()
    assert mine == plain()


def test_what_fails_while_it_is_made_is_made_again():
    failures = [MemoryError, MemoryError]

    def write(plain):
        if failures:
            raise failures.pop()
        plain.MergeFromString(DATA)
    mine = tf.RunMetadata()
    mine._fill_later(write)
    for _ in range(2):
        with pytest.raises(MemoryError):
            len(mine.partition_graphs)
    assert mine == plain()


# ---------------------------------------------------------------- runs

def test_a_run_makes_nothing_until_it_is_read(session, monkeypatch):
    written, write = [], metadata._write_graphs
    monkeypatch.setattr(metadata, "_write_graphs", lambda *args: (written.append(1), write(*args)))
    filled = roots(session, [1, 4], GRAPHS)
    assert filled._unread and not written
    assert {n.node_name for d in filled.step_stats.dev_stats for n in d.node_stats} >= {"root"}
    assert len(filled.partition_graphs) == 1 and len(written) == 1
    assert not filled._unread


def test_each_run_replaces_what_there_was(session):
    """As TensorFlow's, whose failing runs leave it; here they tell how far they came."""
    filled = roots(session, [1, 4])
    kernels = count(filled)
    for _ in range(3):
        roots(session, [1, 4], GRAPHS, filled)
    assert count(filled) == kernels and len(filled.partition_graphs) == 1
    with pytest.raises(tf.errors.InvalidArgumentError):
        roots(session, [1], FULL, filled)
    assert 0 < count(filled) < kernels and not filled.partition_graphs
    with pytest.raises(ValueError):
        roots(session, ["text"], FULL, filled)
    assert not count(filled)
    for options in (None, tf.RunOptions()):
        assert count(roots(session, [1, 4], FULL, filled)) == kernels
        assert not roots(session, [1, 4], options, filled).ListFields()
    filled.partition_graphs.add()
    assert not roots(session, [1, 4], FULL, filled).partition_graphs


def own_class():
    """A RunMetadata of protobuf's, from a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(protos.RunMetadata.DESCRIPTOR.file.serialized_pb)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pyflow.RunMetadata"))


@pytest.mark.parametrize("make", [lambda: protos.RunMetadata, own_class])
def test_messages_of_other_classes_are_filled_at_once(session, make, monkeypatch):
    written, write = [], metadata._write_graphs
    monkeypatch.setattr(metadata, "_write_graphs", lambda *args: (written.append(1), write(*args)))
    kernels, filled = count(roots(session, [1, 4])), make()()
    for k in range(3):
        roots(session, [1, 4], GRAPHS, filled)
        assert len(written) == 1 + k
        assert count(filled) == kernels and len(filled.partition_graphs) == 1
    with pytest.raises(tf.errors.InvalidArgumentError):
        roots(session, [1], FULL, filled)
    assert 0 < count(filled) < kernels
    assert not roots(session, [1, 4], None, filled).ListFields()


def kept():
    """How many steps' records are held."""
    gc.collect()
    return sum(type(o).__name__ == "StepStats" and type(o).__module__.startswith("pyflow._executor")
               for o in gc.get_objects())


def test_only_the_records_of_the_last_run_are_kept_until_they_are_read(session):
    before, filled = kept(), tf.RunMetadata()
    for _ in range(5):
        roots(session, [1, 4], FULL, filled)
    assert kept() == before + 1
    assert count(filled) and kept() == before
    roots(session, [1, 4], FULL, filled)
    assert kept() == before + 1
    del filled
    assert kept() == before


def test_nothing_else_is_kept():
    """The session is closed and gone, with its plan, its graph, variables, constants and feeds."""
    filled, gone = tf.RunMetadata(), []
    with tf.Graph().as_default() as graph:
        fed, constant = np.ones((300, 300), np.float32), np.full((300, 300), 2, np.float32)
        x = tf.placeholder(tf.float32, [300, 300], name="x")
        w = tf.Variable(tf.constant(constant), name="w")
        y = tf.matmul(x, w * constant, name="product")
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        session.run(y, {x: fed}, FULL, filled)
        gone += [weakref.ref(o) for o in (
            session, graph, fed, session._step_for(y, {x: fed})[0].compiled.plan)]
        session.close()
    del session, graph, fed, constant, x, w, y
    gc.collect()
    assert [r() for r in gone] == [None] * 4 and filled._unread
    [label] = [n.timeline_label for d in filled.step_stats.dev_stats for n in d.node_stats
               if n.node_name == "product"]
    assert label.startswith("product = MatMul(")


def test_the_tools_read_it(session, tmp_path, capsys):
    path = tmp_path / "metadata.pb"
    path.write_bytes(roots(session, [1, 4]).SerializeToString())
    assert trace_tool.main([str(path)]) == 0
    assert "root" in capsys.readouterr().out
    events = trace_tool.of_metadata(roots(session, [1, 4])).events
    assert "root" in {e.name for e in events}
    with tf.Session(graph=session.graph, placement_costs=roots(session, [1, 4])) as other:
        assert count(roots(other, [1, 4]))


# ---------------------------------------------------------------- threads, processes

def in_threads(count, work):
    """work(k) on each of so many threads at once -> the results."""
    found, failures, start = [None] * count, [], threading.Barrier(count)

    def run(k):
        try:
            start.wait(20)
            found[k] = work(k)
        except BaseException as e:
            failures.append(e)
    workers = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(60)
    assert not failures
    return found


def test_threads_that_read_at_once_get_one_message(session):
    for _ in range(30):
        filled = roots(session, [1, 4])
        assert len(set(map(id, in_threads(4, lambda k: filled._message())))) == 1


def test_the_first_to_finish_counts():
    """A thread that was held up while it made the message takes the other's."""
    mine, inside, go = tf.RunMetadata(), threading.Event(), threading.Event()

    def write(plain):
        if threading.current_thread() is slow:
            inside.set()
            assert go.wait(20)
        plain.MergeFromString(DATA)
    mine._fill_later(write)
    found = []
    slow = threading.Thread(target=lambda: found.append(mine._message()))
    slow.start()
    assert inside.wait(20)
    mine.step_stats.dev_stats.add().device = "mine"
    go.set()
    slow.join(20)
    assert found[0] is mine._message() and found[0].step_stats.dev_stats[-1].device == "mine"


def test_reading_while_other_runs_replace_it(session):
    shared, kernels = tf.RunMetadata(), count(roots(session, [1, 4]))

    def work(k):
        seen = set()
        for _ in range(60):
            if k % 2:
                roots(session, [1, 4], FULL, shared)
            else:
                seen.add(count(shared))
        return seen
    assert set().union(*in_threads(4, work)) <= {0, kernels}


FORK = """
import os, threading
import pyflow as tf
y = x = tf.Variable([1.0, 2.0]) + 1
for _ in range(600):
    y = tf.cumsum(y)
filled, other = tf.RunMetadata(), tf.RunMetadata()
full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(y, None, full, filled)
    session.run(y, None, full, other)
count = lambda m: sum(len(d.node_stats) for d in m.step_stats.dev_stats)
reader = threading.Thread(target=lambda: other.SerializeToString())
reader.start()                          # perhaps in the midst of it
child = os.fork()
if child == 0:
    os._exit(0 if count(filled) > 600 and count(other) > 600 else 1)
reader.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert count(filled) == count(other) > 600
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_reads_what_its_parent_recorded():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
