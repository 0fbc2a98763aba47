"""Files of records and events: what is written, what is read of damaged ones, and by whom."""
import base64
import glob
import json
import pathlib
import struct
import subprocess
import sys
import textwrap
import threading
import time

import board
import numpy as np
import pytest

import pyflow as tf
from pyflow.lib.files import crc32c

FILES = json.loads(pathlib.Path(__file__).with_name("records.json").read_text("utf-8"))
RECORDS = [b"", b"one", bytes(range(256)) * 9]     # record.py's


# checksums
@pytest.mark.parametrize("data, crc", [     # RFC 3720, B.4
    (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C), (b"123456789", 0xE3069283), (b"", 0)])
def test_crc32c_of_the_rfc(data, crc):
    assert crc32c.crc32c(data) == crc


def test_lanes_give_what_bytes_one_by_one_give():
    random = np.random.default_rng(5)
    for size in (4095, 4096, 4097, 30001, 70000):
        data = random.bytes(size)
        assert crc32c.crc32c(data) == crc32c._plain(data, 0xFFFFFFFF) ^ 0xFFFFFFFF


# records
@pytest.mark.parametrize("kind", FILES)
def test_files_are_tensorflows(kind, tmp_path):
    """Read what it wrote; written, plain files are equal."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_bytes(base64.b85decode(FILES[kind]))
    assert list(tf.io.tf_record_iterator(theirs, kind)) == RECORDS
    with tf.python_io.TFRecordWriter(str(ours), tf.io.TFRecordOptions(kind)) as writer:
        for record in RECORDS:
            writer.write(record)
    assert list(tf.python_io.tf_record_iterator(str(ours), tf.io.TFRecordOptions(kind))) == RECORDS
    if not kind:
        assert ours.read_bytes() == theirs.read_bytes()


def test_options_of_records():
    kinds = tf.io.TFRecordCompressionType
    assert [tf.io.TFRecordOptions.get_compression_type_string(k) for k in (
        None, kinds.NONE, kinds.ZLIB, kinds.GZIP, "GZIP", tf.io.TFRecordOptions("ZLIB"))] == [
            "", "", "ZLIB", "GZIP", "GZIP", "ZLIB"]
    for wrong in ("BZIP", 7, True):
        with pytest.raises(ValueError, match="Not a valid compression_type"):
            tf.io.TFRecordOptions(wrong)


def test_damaged_files(tmp_path):
    """Every cut and every changed byte is seen, and a length that is a lie takes no memory."""
    whole = base64.b85decode(FILES[""])[:60]
    path = tmp_path / "records"
    for end in range(1, 60):
        path.write_bytes(whole[:end])
        if end in (16, 35):                     # between two records
            assert list(tf.io.tf_record_iterator(path)) == RECORDS[:1 + (end == 35)]
            continue
        with pytest.raises(tf.errors.DataLossError, match="truncated record at"):
            list(tf.io.tf_record_iterator(path))
    for at in range(35):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:35])
        with pytest.raises(tf.errors.DataLossError, match="corrupted record at (0|16)"):
            list(tf.io.tf_record_iterator(path))
    head = struct.pack("<Q", 1 << 62)
    path.write_bytes(head + struct.pack("<I", crc32c.masked(head)) + bytes(99))
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 0"):
        list(tf.io.tf_record_iterator(path))
    path.write_bytes(whole)
    with pytest.raises(tf.errors.DataLossError, match="not compressed as said"):
        list(tf.io.tf_record_iterator(path, "ZLIB"))
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.io.tf_record_iterator(tmp_path / "none"))


def test_a_closed_writer_of_records(tmp_path):
    writer = tf.io.TFRecordWriter(tmp_path / "r")
    writer.write("text")
    writer.flush()
    assert list(tf.io.tf_record_iterator(tmp_path / "r")) == [b"text"]
    writer.close()
    writer.close()
    with pytest.raises(tf.errors.FailedPreconditionError):
        writer.write(b"more")
    with pytest.raises(tf.errors.NotFoundError):
        tf.io.TFRecordWriter(tmp_path / "no" / "r")


# events
def events(folder):
    return [e for path in sorted(glob.glob(f"{folder}/*tfevents*"))
            for e in tf.train.summary_iterator(path)]


def of(value, tag="v"):
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value)])


def test_what_a_writer_writes(tmp_path):
    board.write(str(tmp_path / "new" / "logs"))
    found = events(tmp_path / "new" / "logs")
    kinds = [e.WhichOneof("what") for e in found]
    assert kinds == ["file_version", "graph_def", "meta_graph_def",
                     *["summary", "tagged_run_metadata"] * board.STEPS, "session_log"]
    assert found[0].file_version == "brain.Event:2" and found[-1].step == board.STEPS
    assert all(abs(e.wall_time - time.time()) < 60 for e in found)
    summaries = [e.summary for e in found if e.HasField("summary")]
    texts = [v for s in summaries for v in s.value if v.tag == "said"]
    assert [v.HasField("metadata") for v in texts] == [True] + [False] * (board.STEPS - 1)
    graph = tf.GraphDef.FromString(found[1].graph_def)
    assert {n.name for n in graph.node} >= {"x", "layer/w", "layer/y", "Merge/MergeSummary"}


def test_tensorboards_own_reader(tmp_path):
    pytest.importorskip("tensorboard", reason="its reader is asked where it is installed")
    board.write(str(tmp_path))
    assert "5 steps" in board.read(str(tmp_path))


def test_bytes_and_messages_and_steps(tmp_path):
    with tf.summary.FileWriter(tmp_path, filename_suffix=".mine") as writer:
        writer.add_summary(of(1.5), 7)
        writer.add_summary(of(2.5).SerializeToString(), np.int64(1 << 40))
        writer.add_event(tf.Event(step=3, summary=of(3.5)))
        writer.add_summary(of(4.5))
        assert writer.get_logdir() == str(tmp_path)
        with pytest.raises(Exception, match="pars"):
            writer.add_summary(b"\xff\xff")
    path, = glob.glob(f"{tmp_path}/*")
    assert path.endswith(".mine")
    assert [(e.step, e.summary.value[0].simple_value) for e in events(tmp_path)[1:]] == [
        (7, 1.5), (1 << 40, 2.5), (3, 3.5), (0, 4.5)]


def test_flush_close_reopen(tmp_path):
    writer = tf.summary.FileWriter(tmp_path, flush_secs=1000)
    writer.add_summary(of(1.0), 1)
    writer.flush()
    assert len(events(tmp_path)) == 2
    writer.close()
    writer.close()
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.add_summary(of(2.0), 2)
    writer.reopen()
    writer.reopen()
    writer.add_summary(of(3.0), 3)
    writer.close()
    assert len(glob.glob(f"{tmp_path}/*")) == 2
    assert [e.step for e in events(tmp_path) if e.HasField("summary")] == [1, 3]


def test_a_program_that_closes_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", textwrap.dedent(f'''
        import pyflow as tf
        writer = tf.summary.FileWriter({str(tmp_path)!r}, flush_secs=1000)
        for step in range(5):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="v")]), step)
        ''')], check=True, timeout=60)
    assert [e.step for e in events(tmp_path)] == [0, *range(5)]


def test_files_are_flushed_by_themselves(tmp_path):
    with tf.summary.FileWriter(tmp_path, flush_secs=0.05) as writer:
        writer.add_summary(of(1.0), 1)
        end = time.monotonic() + 20
        while len(events(tmp_path)) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        assert len(events(tmp_path)) == 2


def test_several_threads_and_a_small_queue(tmp_path):
    with tf.summary.FileWriter(tmp_path, max_queue=2) as writer:
        def add(thread):
            for step in range(200):
                writer.add_summary(of(thread), step)
        threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    steps = {k: [] for k in range(4)}
    for event in events(tmp_path)[1:]:
        steps[int(event.summary.value[0].simple_value)].append(event.step)
    assert all(found == list(range(200)) for found in steps.values())


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.OpError):
        tf.summary.FileWriter(tmp_path / "file")
    writer = tf.summary.FileWriter(tmp_path / "logs")
    writer._file._writer.close()                # as a full disk
    writer.add_summary(of(1.0))
    with pytest.raises(tf.errors.FailedPreconditionError):
        writer.flush()
    with pytest.raises(tf.errors.FailedPreconditionError):
        writer.add_summary(of(2.0))
    with pytest.raises(tf.errors.FailedPreconditionError):
        writer.close()


def test_graphs_and_tags_that_are_wrong(tmp_path):
    with tf.summary.FileWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="only graph, or graph_def"):
            writer.add_graph(tf.Graph(), graph_def=tf.GraphDef())
        with pytest.raises(ValueError, match="At least one"):
            writer.add_graph(None)
        with pytest.raises(TypeError, match="got int"):
            writer.add_graph(3)
        with pytest.raises(TypeError, match="MetaGraphDef"):
            writer.add_meta_graph(tf.GraphDef())
        writer.add_run_metadata(tf.RunMetadata(), "one")
        with pytest.raises(ValueError, match="already used"):
            writer.add_run_metadata(tf.RunMetadata(), "one")


def test_the_cache_of_writers(tmp_path):
    cache = tf.summary.FileWriterCache
    with tf.Graph().as_default():
        tf.constant(1.0, name="here")
        writer = cache.get(str(tmp_path))
        assert cache.get(str(tmp_path)) is writer
    cache.clear()
    assert b"here" in events(tmp_path)[1].graph_def
    assert cache.get(str(tmp_path)) is not writer
    cache.clear()


def test_the_projectors_config(tmp_path):
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig(model_checkpoint_path="m")
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words", "words.tsv"
    embedding.sprite.image_path = "all.png"
    embedding.sprite.single_image_dim.extend([28, 28])
    with tf.summary.FileWriter(tmp_path / "a") as writer:
        projector.visualize_embeddings(writer, config)
    expected = ('model_checkpoint_path: "m"\nembeddings {\n  tensor_name: "words"\n'
                '  metadata_path: "words.tsv"\n  sprite {\n    image_path: "all.png"\n'
                '    single_image_dim: 28\n    single_image_dim: 28\n  }\n}\n')
    assert (tmp_path / "a" / "projector_config.pbtxt").read_text() == expected
