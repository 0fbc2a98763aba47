"""tf.read_file and its kin, write_graph, and what files that cannot be used raise."""
import os

import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def _run(x):
    with tf.Session() as sess:
        return sess.run(x)


def test_read_write_and_match(tmp_path):
    path = str(tmp_path / "f.bin")
    (tmp_path / "f.bin").write_bytes(b"\x00ab\xff" * 50000)
    read = tf.read_file(path)
    assert _run(read) == b"\x00ab\xff" * 50000 and read.shape.as_list() == []
    with tf.Session() as sess:              # each time anew
        sess.run(read)
        (tmp_path / "f.bin").write_bytes(b"new")
        assert sess.run(read) == b"new"
    assert _run(tf.io.read_file(tf.placeholder_with_default(path, []))) == _run(read)
    _run(tf.write_file(str(tmp_path / "q" / "r" / "s.txt"), "hello"))
    assert (tmp_path / "q" / "r" / "s.txt").read_text() == "hello"
    found = tf.matching_files([str(tmp_path / "f*"), str(tmp_path / "q" / "r" / "*"), "/none*"])
    assert [os.path.basename(p) for p in _run(found)] == [b"f.bin", b"s.txt"]
    assert found.shape.as_list() == [None] and _run(tf.matching_files("/none*")).shape == (0,)


def test_files_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    below = str(tmp_path / "file" / "x")
    for make, kind in ((lambda: tf.read_file(str(tmp_path / "none")), tf.errors.NotFoundError),
                       (lambda: tf.read_file(str(tmp_path)), tf.errors.FailedPreconditionError),
                       (lambda: tf.read_file("x" * 300), tf.errors.InvalidArgumentError),
                       (lambda: tf.write_file(below, "a"), tf.errors.FailedPreconditionError),
                       (lambda: tf.write_file(str(tmp_path), "a"),
                        tf.errors.FailedPreconditionError)):
        with pytest.raises(kind):
            _run(make())
    for make in (lambda: tf.read_file(["a"]), lambda: tf.matching_files([["a"]])):
        with pytest.raises(ValueError):
            make()


def test_write_graph(tmp_path, graph):
    tf.constant(1.0, name="x")
    path = tf.train.write_graph(graph, str(tmp_path / "a" / "b"), "g.pbtxt")
    assert path == str(tmp_path / "a" / "b" / "g.pbtxt") and 'name: "x"' in open(path).read()
    path = tf.io.write_graph(graph.as_graph_def(), str(tmp_path), "g.pb", as_text=False)
    with open(path, "rb") as f:
        assert tf.GraphDef.FromString(f.read()).node[0].name == "x"
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.train.write_graph(graph, path, "g.pb")


def test_saving_makes_the_folder_but_none_above_it(tmp_path):
    """As TensorFlow 1.15, which refuses with shards, whose files lie one deeper until they are
    put together."""
    tf.Variable(1.0)
    saver, sharded = tf.train.Saver(), tf.train.Saver(sharded=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert saver.save(sess, f"{tmp_path}/new/m") == f"{tmp_path}/new/m"
        saver.restore(sess, f"{tmp_path}/new/m")
        for refused, path in ((saver, "a/b/m"), (sharded, "newer/m")):
            with pytest.raises(ValueError, match="Parent directory of .* doesn't exist"):
                refused.save(sess, f"{tmp_path}/{path}")
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_saving_where_it_cannot_names_the_reason(tmp_path, monkeypatch):
    tf.Variable(1.0)
    saver = tf.train.Saver()
    (tmp_path / "file").write_text("")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="File name too long"):
            saver.save(sess, str(tmp_path / ("x" * 300)))
        with pytest.raises(ValueError, match="Parent directory of .* doesn't exist"):
            saver.save(sess, str(tmp_path / "file" / "m"))

        def full(*args):
            raise OSError(28, "No space left on device")
        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
            saver.export_meta_graph(str(tmp_path / "m.meta"))
    assert not list(tmp_path.glob("*.tmp-*"))


def test_gfile_takes_tensorflows_argument_names(tmp_path):
    folder = str(tmp_path / "d")
    tf.gfile.MakeDirs(dirname=folder)
    assert tf.gfile.Exists(filename=folder) and tf.gfile.IsDirectory(dirname=folder)
    assert tf.gfile.ListDirectory(dirname=str(tmp_path)) == ["d"]
    assert [top for top, _, _ in tf.gfile.Walk(top=str(tmp_path), in_order=False)][-1] == str(
        tmp_path)
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Stat(filename=str(tmp_path / "none"))
    tf.gfile.DeleteRecursively(dirname=folder)
    assert not tf.gfile.Exists(folder)
