"""Files behind a scheme, through fsspec, and HDF5 files, through h5py."""
import numpy as np
import pytest

import pyflow as tf

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def shelf():
    """A folder in memory, empty at the end."""
    system = fsspec.filesystem("memory")
    yield "memory://shelf"
    if system.exists("/shelf"):
        system.rm("/shelf", recursive=True)


def run(value, feeds=None):
    with tf.Session() as session:
        return session.run(value, feeds)


def drained(dataset):
    following, found = dataset.make_one_shot_iterator().get_next(), []
    with tf.Session() as session:
        try:
            while True:
                found.append(session.run(following))
        except tf.errors.OutOfRangeError:
            return found


def test_gfile(shelf):
    path = shelf + "/a/b.txt"
    with tf.gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
    assert tf.gfile.GFile(path).readline() == "one\n"
    assert tf.gfile.Open(path, "rb").read() == b"one\ntwo\n"
    assert tf.gfile.GFile(path).size() == 8 and tf.gfile.Stat(path).st_size == 8
    assert tf.gfile.Exists(path) and not tf.gfile.Exists(shelf + "/c")
    assert tf.gfile.IsDirectory(shelf + "/a") and not tf.gfile.IsDirectory(path)
    assert tf.gfile.ListDirectory(shelf + "/a") == ["b.txt"]
    assert tf.gfile.Glob(shelf + "/*/*.txt") == ["memory:///shelf/a/b.txt"]
    tf.gfile.Copy(path, shelf + "/a/c.txt")
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.gfile.Copy(path, shelf + "/a/c.txt")
    tf.gfile.Rename(shelf + "/a/c.txt", shelf + "/a/d.txt")
    assert sorted(tf.gfile.ListDirectory(shelf + "/a")) == ["b.txt", "d.txt"]
    assert [files for _, _, files in tf.gfile.Walk(shelf)][-1] == ["b.txt", "d.txt"]
    tf.gfile.Remove(path)
    with pytest.raises(tf.errors.NotFoundError, match="b.txt; No such file"):
        tf.gfile.GFile(path).read()
    tf.gfile.DeleteRecursively(shelf + "/a")
    assert not tf.gfile.Exists(shelf + "/a")


def test_a_file_of_this_machine_may_say_so(tmp_path):
    path = tmp_path / "x"
    path.write_text("here\n")
    assert run(tf.read_file(f"file://{path}")) == b"here\n"
    assert tf.gfile.GFile(f"file://{path}").read() == "here\n"
    assert drained(tf.data.TextLineDataset([f"file://{path}"])) == [b"here"]


def test_copies_between_here_and_there(shelf, tmp_path):
    (tmp_path / "x").write_bytes(b"\x00\x01")
    tf.gfile.Copy(str(tmp_path / "x"), shelf + "/x")
    tf.gfile.Copy(shelf + "/x", str(tmp_path / "y"))
    assert (tmp_path / "y").read_bytes() == b"\x00\x01"
    with pytest.raises(tf.errors.UnimplementedError, match="two file systems"):
        tf.gfile.Rename(shelf + "/x", str(tmp_path / "z"))


def test_ops_of_files(shelf):
    path = shelf + "/folder/x"
    run(tf.write_file(path, b"bytes\x00"))
    assert run(tf.read_file(path)) == b"bytes\x00"
    assert run(tf.matching_files([shelf + "/folder/*", shelf + "/none*"])).tolist() == [
        b"memory:///shelf/folder/x"]
    with pytest.raises(tf.errors.NotFoundError, match="shelf/gone; .*No such file"):
        run(tf.read_file(shelf + "/gone"))


def test_records_readers_and_datasets(shelf):
    names = [f"{shelf}/{i}.tfrecord" for i in range(2)]
    for i, name in enumerate(names):
        with tf.python_io.TFRecordWriter(name, tf.python_io.TFRecordOptions("GZIP")) as writer:
            for k in range(3):
                writer.write(b"%d/%d" % (i, k))
    everything = [b"%d/%d" % (i, k) for i in range(2) for k in range(3)]
    assert [r for name in names
            for r in tf.python_io.tf_record_iterator(name, "GZIP")] == everything
    assert drained(tf.data.TFRecordDataset(names, "GZIP")) == everything
    queue = tf.FIFOQueue(3, [tf.string], shapes=[()])
    reader = tf.TFRecordReader(options=tf.python_io.TFRecordOptions("GZIP"))
    key, value = reader.read(queue)
    with tf.Session() as session:
        session.run(queue.enqueue_many([names]))
        assert session.run([key, value]) == [b"memory://shelf/0.tfrecord:0", b"0/0"]
    with tf.gfile.GFile(shelf + "/lines", "w") as file:
        file.write("a,1\nb,2\n")
    assert drained(tf.data.TextLineDataset(shelf + "/lines")) == [b"a,1", b"b,2"]
    assert drained(tf.data.experimental.CsvDataset(shelf + "/lines", [tf.string, [0]])) == [
        (b"a", 1), (b"b", 2)]
    assert drained(tf.data.FixedLengthRecordDataset(shelf + "/lines", 4)) == [b"a,1\n", b"b,2\n"]
    with pytest.raises(tf.errors.NotFoundError, match="gone; .*No such file"):
        drained(tf.data.TextLineDataset(shelf + "/gone"))


def test_a_scheme_nobody_knows():
    with pytest.raises(tf.errors.UnimplementedError, match="nosuch://x"):
        tf.gfile.Exists("nosuch://x")
    with pytest.raises(tf.errors.UnimplementedError, match="nosuch"):
        run(tf.read_file("nosuch://x"))


def test_without_fsspec(monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(tf.errors.UnimplementedError, match="memory://x: .*pip install fsspec"):
        tf.gfile.Exists("memory://x")
    with pytest.raises(tf.errors.UnimplementedError, match="pip install fsspec"):
        run(tf.read_file("memory://x"))


# ------------------------------------------------------------------------------------ HDF5
@pytest.fixture
def train_h5(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "train.h5"
    with h5py.File(path, "w") as file:
        file["images"] = np.arange(20, dtype=np.float32).reshape(5, 2, 2)
        file["group/labels"] = np.arange(5, dtype=np.int64)
        file["words"] = ["a", "bb", "", "d", "e"]
        file["few"] = np.zeros(3)
        file["scalar"] = 7
    return path


def test_rows_of_an_hdf5_file(train_h5):
    from pyflow.interop import hdf5
    dataset = hdf5.dataset(train_h5, {"x": "images", "y": "group/labels", "w": "words"},
                           rows_per_read=2)
    assert dataset.output_types == {"x": tf.float32, "y": tf.int64, "w": tf.string}
    assert dataset.output_shapes["x"].as_list() == [2, 2]
    rows = drained(dataset.batch(3))
    assert [r["x"].shape for r in rows] == [(3, 2, 2), (2, 2, 2)]
    assert np.concatenate([r["x"].ravel() for r in rows]).tolist() == list(range(20))
    assert [v for r in rows for v in r["w"]] == [b"a", b"bb", b"", b"d", b"e"]
    assert drained(hdf5.dataset(train_h5, "group/labels").repeat(2)) == list(range(5)) * 2


def test_hdf5_that_does_not_fit(train_h5, tmp_path):
    from pyflow.interop import hdf5
    with pytest.raises(tf.errors.NotFoundError, match="no HDF5 dataset 'none'; it has .*images"):
        hdf5.dataset(train_h5, "none")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rows: \[3, 5\]"):
        hdf5.dataset(train_h5, ("images", "few"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="is a scalar"):
        hdf5.dataset(train_h5, "scalar")
    with pytest.raises(tf.errors.NotFoundError):
        hdf5.dataset(tmp_path / "gone.h5", "x")
    (tmp_path / "text").write_text("no HDF5")
    with pytest.raises(tf.errors.DataLossError, match="is no HDF5 file"):
        hdf5.dataset(tmp_path / "text", "x")


def test_hdf5_behind_a_scheme(train_h5, shelf):
    from pyflow.interop import hdf5
    tf.gfile.Copy(str(train_h5), shelf + "/train.h5")
    assert drained(hdf5.dataset(shelf + "/train.h5", "group/labels")) == list(range(5))
