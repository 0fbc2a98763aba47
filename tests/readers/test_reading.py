"""Readers that wait, are cancelled, closed and reset; many steps on one reader; its files."""
import threading
import time

import pytest
from quiet import clock

import pyflow as tf


@pytest.fixture
def lines(tmp_path):
    """Two files of three lines each."""
    names = []
    for name in "ab":
        file = tmp_path / name
        file.write_text("".join(f"{name}{i}\n" for i in range(3)))
        names.append(str(file))
    return names


def closed_queue(session, names):
    queue = tf.FIFOQueue(1000, [tf.string], shapes=[()])
    session.run(queue.enqueue_many([names]))
    session.run(queue.close())
    return queue


def test_each_reader(tmp_path, lines):
    packed = str(tmp_path / "records")
    options = tf.python_io.TFRecordOptions("GZIP")
    with tf.python_io.TFRecordWriter(packed, options) as writer:
        writer.write(b"first")
    with tf.Session() as session:
        def first(reader, name):
            return session.run(list(reader.read(closed_queue(session, [name]), name="read")))
        assert first(tf.TextLineReader(skip_header_lines=1), lines[0]) == [
            b"%s:2" % lines[0].encode(), b"a1"]
        assert first(tf.WholeFileReader(name="whole"), lines[1]) == [lines[1].encode(),
                                                                     b"b0\nb1\nb2\n"]
        assert first(tf.FixedLengthRecordReader(2, header_bytes=3), lines[0])[1] == b"a1"
        assert first(tf.TFRecordReader(options=options), packed) == [b"%s:0" % packed.encode(),
                                                                    b"first"]
        assert first(tf.IdentityReader(name="same"), "x") == [b"x", b"x"]


def test_a_read_that_waits_is_cancelled_and_the_next_one_goes_on(lines):
    queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
    record = tf.TextLineReader().read(queue)
    put = queue.enqueue([lines[0]])
    with tf.Session() as session:
        started = clock()
        for _ in range(3):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(record, options=tf.RunOptions(timeout_in_ms=60))
        assert clock() - started < 10
        session.run(put)
        assert [session.run(record).value for _ in range(3)] == [b"a0", b"a1", b"a2"]


def test_reads_in_line_behind_one_that_waits(lines):
    """All wait for the first file without a thread each; every record is given once."""
    queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
    record = tf.TextLineReader().read(queue)
    put, close = queue.enqueue_many([lines]), queue.close()
    found, lock = [], threading.Lock()
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=2)) as session:
        def read():
            try:
                value = session.run(record).value
            except tf.errors.OutOfRangeError:
                value = None
            with lock:
                found.append(value)
        threads = [threading.Thread(target=read) for _ in range(20)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        session.run(put)
        session.run(close)
        for thread in threads:
            thread.join(20)
    assert sorted(filter(None, found)) == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]
    assert len(found) == 20


def test_many_steps_at_once(tmp_path):
    """Four threads read 2,000 lines of 40 files, up to 7 at once: each line once, counts right."""
    names = []
    for i in range(40):
        file = tmp_path / str(i)
        file.write_text("".join(f"{i}/{k}\n" for k in range(50)))
        names.append(str(file))
    found, lock = [], threading.Lock()
    with tf.Session() as session:
        reader, queue = tf.TextLineReader(), closed_queue(session, names)
        some = reader.read_up_to(queue, 7)

        def read():
            try:
                while True:
                    values = session.run(some).values
                    with lock:
                        found.extend(values)
            except tf.errors.OutOfRangeError:
                pass
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        counts = session.run([reader.num_records_produced(), reader.num_work_units_completed()])
    assert sorted(found) == sorted(b"%d/%d" % (i, k) for i in range(40) for k in range(50))
    assert counts == [2000, 40]


def test_a_session_that_closes_ends_what_waits(lines):
    queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
    record = tf.TextLineReader().read(queue)
    session, ended = tf.Session(), []

    def read():
        try:
            session.run(record)
        except (tf.errors.CancelledError, tf.errors.AbortedError) as error:
            ended.append(type(error).__name__)
        except RuntimeError as error:           # closed before the step began
            ended.append(str(error))
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    session.close()
    for thread in threads:
        thread.join(20)
    assert len(ended) == 3


def test_a_queue_reset_under_a_read(lines):
    """Session.reset of a container ends reads that wait in it."""
    with tf.container("shelf"):
        queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
        record = tf.TextLineReader().read(queue)
    ended = []
    with tf.Session() as session:
        def read():
            try:
                session.run(record)
            except tf.errors.OpError as error:
                ended.append(type(error))
        thread = threading.Thread(target=read)
        thread.start()
        time.sleep(0.1)
        session.run(queue.close(cancel_pending_enqueues=True))
        thread.join(20)
    assert ended == [tf.errors.OutOfRangeError]


def test_references_as_handles(lines):
    """TensorFlow's first ops, of graphs that were saved long ago."""
    from pyflow.ops.queue import queue_ops
    from pyflow.ops.reader import reader_ops
    from pyflow.lib.reader.readers import ReaderBase
    handle = reader_ops.TextLineReader(skip_header_lines=1, shared_name="lines")
    queue = queue_ops.FIFOQueue(component_types=[tf.string], shapes=[[]], shared_name="names")
    reader = ReaderBase(handle)
    key, value = reader.read(queue)
    assert key.op.type == "ReaderRead"
    with tf.Session() as session:
        session.run(queue_ops.QueueEnqueueMany(queue, [lines]))
        session.run(queue_ops.QueueClose(queue))
        assert session.run(value) == b"a1"
        assert session.run(reader.read_up_to(queue, 5)[1]).tolist() == [b"a2"]
        session.run(reader.reset())
        assert session.run(value) == b"b1"
        assert session.run(reader.num_records_produced()) == 1


def test_a_shared_reader_of_another_kind():
    from pyflow.ops.reader import reader_ops
    from pyflow.lib.reader.readers import ReaderBase
    one = ReaderBase(reader_ops.TextLineReaderV2(shared_name="same"))
    other = ReaderBase(reader_ops.WholeFileReaderV2(shared_name="same"))
    with tf.Session() as session:
        session.run(one.num_records_produced())
        with pytest.raises(tf.errors.InvalidArgumentError, match="is a TextLineReader, this node"):
            session.run(other.num_records_produced())


def test_a_reader_after_a_file_that_is_gone(tmp_path, lines):
    """The error is that of one step; the next one takes the next file."""
    with tf.Session() as session:
        record = tf.TextLineReader().read(closed_queue(session, [str(tmp_path / "gone"), lines[0]]))
        with pytest.raises(tf.errors.NotFoundError, match="gone; No such file"):
            session.run(record)
        assert session.run(record).value == b"a0"
