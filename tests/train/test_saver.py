"""tf.train.Saver: what is saved comes back, mistakes are explained in one message, old checkpoints
go."""
import os
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.train import checkpoint


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def session():
    sess = tf.Session()
    sess.run(tf.global_variables_initializer())
    return sess


def test_save_and_restore(tmp_path):
    v = tf.Variable([[1.0, 2.0]], name="v")
    r = tf.Variable(np.int64(5), name="r", use_resource=True)
    saver = tf.train.Saver()
    prefix = str(tmp_path / "model")
    with session() as sess:
        sess.run([tf.assign_add(v, [[1.0, 1.0]]), r.assign(7)])
        assert saver.save(sess, prefix) == prefix
        sess.run(tf.global_variables_initializer())
        assert saver.restore(sess, prefix) is None
        assert sess.run(v).tolist() == [[2, 3]] and sess.run(r) == 7
    with tf.Session() as new:
        saver.restore(new, prefix)
        assert new.run(v).tolist() == [[2, 3]] and new.run(r) == 7
    assert tf.train.list_variables(prefix) == [("r", []), ("v", [1, 2])]
    assert checkpoint.CheckpointReader(prefix).verify() == []


def test_node_names_are_tfs(graph):
    tf.Variable(0.0, name="v")
    definition = tf.train.Saver().as_saver_def()
    assert (
        definition.filename_tensor_name,
        definition.save_tensor_name,
        definition.restore_op_name,
    ) == ("save/Const:0", "save/control_dependency:0", "save/restore_all")
    for name in ("save/SaveV2", "save/RestoreV2", "save/Assign", "save/filename"):
        graph.get_operation_by_name(name)


def test_every_element_type(tmp_path):
    values = {
        name: np.array([0, 1, 2]).astype(name)
        for name in (
            "float16",
            "float32",
            "float64",
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "bool",
            "complex64",
            "complex128",
        )
    }
    values["string"] = np.array([b"", b"a\0b", "\u00e9".encode()], object)
    values["scalar"] = np.float32(3)
    values["empty"] = np.zeros((0, 4), np.float32)
    variables = {name: tf.Variable(value, name=name) for name, value in values.items()}
    half = tf.Variable(tf.cast([1.5, -2.0], tf.bfloat16), name="bfloat16")
    saver = tf.train.Saver()
    with session() as sess:
        path = saver.save(sess, str(tmp_path / "all"))
    with tf.Session() as sess:
        saver.restore(sess, path)
        for name, var in variables.items():
            got = sess.run(var)
            assert (
                np.shape(got) == values[name].shape and (np.asarray(got) == values[name]).all()
            ), name
        assert sess.run(tf.cast(half, tf.float32)).tolist() == [1.5, -2]
    reader = tf.train.load_checkpoint(path)
    for name, value in values.items():
        assert (np.asarray(reader.get_tensor(name)) == value).all(), name
    assert reader.get_variable_to_dtype_map()["bfloat16"] == tf.bfloat16


def test_kernels_read_what_python_writes(tmp_path):
    import sys
    sys.path.insert(0, os.path.dirname(__file__))
    import reference_writer
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "caf\u00e9": np.int32(4),
              "s": np.array([b"x", b""], object), "c": np.complex64([1j])}
    prefix = str(tmp_path / "written")
    reference_writer.write(prefix, values)
    variables = {name: tf.Variable(np.zeros_like(value) if value.dtype != object else ["", ""])
                 for name, value in values.items()}
    saver = tf.train.Saver(variables)
    with session() as sess:
        saver.restore(sess, prefix)
        for name, var in variables.items():
            assert (np.asarray(sess.run(var)) == values[name]).all(), name


def test_var_list_forms(tmp_path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    path = str(tmp_path / "m")
    with session() as sess:
        tf.train.Saver([a]).save(sess, path + "1")
        tf.train.Saver({"other/name": b}).save(sess, path + "2")
        assert tf.train.list_variables(path + "1") == [("a", [])]
        assert tf.train.list_variables(path + "2") == [("other/name", [])]
        tf.train.Saver({"other/name": a}).restore(sess, path + "2")
        assert sess.run(a) == 2
    c = tf.Variable(3.0, name="c")
    for wrong, kind in (
        ([a, a], ValueError),
        ({"x": a, "y": a}, ValueError),
        ({"x": 3.0}, TypeError),
        ([3.0], TypeError),
        ({5: c}, TypeError),
    ):
        with pytest.raises(kind):
            tf.train.Saver(wrong)


def test_nothing_to_save():
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    empty = tf.train.Saver(allow_empty=True)
    with tf.Session() as sess:
        assert empty.save(sess, "x") is None
    late = tf.train.Saver(defer_build=True)
    tf.Variable(1.0)
    with session() as sess, pytest.raises(RuntimeError, match="build"):
        late.save(sess, "x")


def test_max_to_keep_and_the_state_file(tmp_path):
    v = tf.Variable(0.0, name="v")
    step = tf.Variable(0, name="global_step", trainable=False)
    saver = tf.train.Saver(max_to_keep=2)
    prefix = str(tmp_path / "model")
    with session() as sess:
        for n in range(4):
            sess.run([tf.assign(v, float(n)), tf.assign(step, n)])
            assert saver.save(sess, prefix, global_step=step) == f"{prefix}-{n}"
        assert saver.last_checkpoints == [f"{prefix}-2", f"{prefix}-3"]
        kept = {name.split(".")[0] for name in os.listdir(tmp_path)}
        assert kept == {"checkpoint", "model-2", "model-3"}
        assert tf.train.latest_checkpoint(tmp_path) == f"{prefix}-3"
        assert (
            'model_checkpoint_path: "model-3"' in (tmp_path / "checkpoint").read_text()
        ), "relative paths"
        saver.save(sess, prefix, global_step=3)
        assert saver.last_checkpoints == [f"{prefix}-2", f"{prefix}-3"]
        saver.restore(sess, tf.train.latest_checkpoint(tmp_path))
        again = tf.train.Saver(max_to_keep=2)
        again.recover_last_checkpoints([f"{prefix}-1", f"{prefix}-2", f"{prefix}-3"])
        assert again.last_checkpoints == [f"{prefix}-2", f"{prefix}-3"]


def test_keep_every_n_hours(tmp_path):
    tf.Variable(0.0)
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
    with session() as sess:
        for n in range(3):
            time.sleep(0.01)
            saver.save(sess, str(tmp_path / "m"), global_step=n, write_meta_graph=False)
    assert {n for n in os.listdir(tmp_path) if n.endswith(".index")} == {
        "m-0.index",
        "m-1.index",
        "m-2.index",
    }


def test_other_options_of_save(tmp_path):
    tf.Variable(0.0)
    saver = tf.train.Saver(pad_step_number=True)
    with session() as sess:
        path = saver.save(
            sess,
            str(tmp_path / "m"),
            global_step=7,
            latest_filename="newest",
            write_meta_graph=False,
        )
        assert path.endswith("m-00000007") and sorted(os.listdir(tmp_path))[-1] == "newest"
        assert tf.train.latest_checkpoint(tmp_path, "newest") == path
        saver.save(sess, str(tmp_path / "n"), write_state=False)
        assert not (tmp_path / "checkpoint").exists() and (tmp_path / "n.meta").exists()
        with pytest.raises(ValueError, match="collides"):
            saver.save(sess, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="path components"):
            saver.save(sess, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="doesn't exist"):
            saver.save(sess, str(tmp_path / "no" / "such" / "m"))
        with pytest.raises(TypeError, match="must be a Session"):
            saver.save("sess", str(tmp_path / "m"))


def test_saving_over_the_same_prefix(tmp_path):
    v = tf.Variable(0.0)
    saver = tf.train.Saver()
    with session() as sess:
        for n in range(3):
            sess.run(tf.assign(v, float(n)))
            path = saver.save(sess, str(tmp_path / "m"), write_meta_graph=False)
            assert len([f for f in os.listdir(tmp_path) if ".data-" in f]) == 1
        sess.run(tf.assign(v, -1.0))
        saver.restore(sess, path)
        assert sess.run(v) == 2


def test_moved_folder(tmp_path):
    v = tf.Variable(4.0)
    saver = tf.train.Saver()
    (tmp_path / "old").mkdir()
    with session() as sess:
        saver.save(sess, str(tmp_path / "old" / "m"), global_step=1)
        os.rename(tmp_path / "old", tmp_path / "new")
        sess.run(tf.assign(v, 0.0))
        saver.restore(sess, tf.train.latest_checkpoint(tmp_path / "new"))
        assert sess.run(v) == 4


def test_relative_prefix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    v = tf.Variable(4.0)
    saver = tf.train.Saver()
    with session() as sess:
        assert saver.save(sess, "m", global_step=1) == "m-1"
        assert saver.save(sess, "./m", global_step=2) == "./m-2"
        saver.restore(sess, tf.train.latest_checkpoint("."))
        assert sess.run(v) == 4
    with session() as sess:
        assert saver.save(sess, "missing/m") == "missing/m"     # one folder is made, but none above
        with pytest.raises(ValueError, match="doesn't exist"):
            saver.save(sess, "missing too/two/m")


def test_reshape(tmp_path):
    a = tf.Variable(np.arange(6, dtype=np.float32), name="a")
    with session() as sess:
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    del a
    with tf.Graph().as_default():
        b = tf.Variable(tf.zeros([2, 3]), name="a")
        with tf.Session() as sess:
            tf.train.Saver(reshape=True).restore(sess, path)
            assert sess.run(b).tolist() == [[0, 1, 2], [3, 4, 5]]
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.train.Saver().restore(sess, path)


def test_restore_sequentially(tmp_path):
    variables = [tf.Variable(float(i)) for i in range(4)]
    saver = tf.train.Saver(restore_sequentially=True)
    with session() as sess:
        path = saver.save(sess, str(tmp_path / "m"))
        sess.run([tf.assign(v, -1.0) for v in variables])
        saver.restore(sess, path)
        assert sess.run(variables) == [0, 1, 2, 3]


# ---------------------------------------------------------------- what does not fit

@pytest.fixture
def saved(tmp_path):
    with tf.Graph().as_default():
        for name, shape in (
            ("conv/kernel", [3, 3]),
            ("conv/bias", [3]),
            ("dense/kernel", [9, 2]),
            ("old", [1]),
        ):
            tf.Variable(tf.ones(shape), name=name)
        with session() as sess:
            return tf.train.Saver().save(sess, str(tmp_path / "net"))


def different_graph():
    return {
        name: tf.Variable(tf.zeros(shape, dtype), name=name)
        for name, shape, dtype in (
            ("conv/kernel", [3, 3], tf.float32),
            ("conv/biases", [3], tf.float32),
            ("dense/kernel", [9, 3], tf.float32),
            ("old", [1], tf.float64),
        )
    }


def test_one_error_lists_everything(saved):
    variables = different_graph()
    saver = tf.train.Saver()
    with session() as sess:
        with pytest.raises(tf.errors.NotFoundError) as caught:
            saver.restore(sess, saved)
        text = str(caught.value)
        for part in (
            "Key conv/biases not found in checkpoint; nearest: conv/bias",
            "dense/kernel",
            "[9, 3]",
            "[9, 2]",
            "float64 [1]",
            "float32 [1]",
            "not asked for: conv/bias",
            "strict=False",
        ):
            assert part in text, part
        assert sess.run(variables["conv/kernel"]).sum() == 0, "nothing was restored"


def test_shapes_alone_are_an_invalid_argument(saved):
    tf.Variable(tf.zeros([4]), name="conv/bias")
    with (
        session() as sess,
        pytest.raises(
            tf.errors.InvalidArgumentError, match=r"expects float32 \[4\].*has float32 \[3\]"
        ),
    ):
        tf.train.Saver().restore(sess, saved)


def test_not_strict_restores_what_fits(saved):
    variables = different_graph()
    saver = tf.train.Saver()
    with session() as sess:
        before = len(sess.graph.get_operations())
        report = saver.restore(sess, saved, strict=False)
        assert report.restored == ["conv/kernel"] and report.missing == ["conv/biases"]
        assert report.unexpected == ["conv/bias"] and [m.key for m in report.misshaped] == [
            "dense/kernel",
            "old",
        ]
        assert (
            sess.run(variables["conv/kernel"]).sum() == 9
            and sess.run(variables["dense/kernel"]).sum() == 0
        )
        assert len(sess.graph.get_operations()) == before


def test_paths_that_are_no_checkpoint(saved, tmp_path):
    tf.Variable(1.0)
    saver = tf.train.Saver()
    with session() as sess:
        with pytest.raises(ValueError, match="None"):
            saver.restore(sess, None)
        for wrong, hint in (
            (saved + ".index", "without its ending"),
            (str(tmp_path / "nett"), "net"),
            (str(tmp_path), "latest_checkpoint"),
            (str(tmp_path / "no" / "m"), "does not exist"),
        ):
            with pytest.raises(ValueError, match="is not a valid checkpoint") as caught:
                saver.restore(sess, wrong)
            assert hint in str(caught.value)


def test_damaged_data_is_found_when_restoring(saved):
    data = saved + ".data-00000-of-00001.safetensors"
    blob = bytearray(open(data, "rb").read())
    blob[-2] ^= 4
    open(data, "wb").write(blob)
    tf.Variable(tf.zeros([9, 2]), name="dense/kernel")
    tf.Variable(tf.zeros([3, 3]), name="conv/kernel")
    tf.Variable(tf.zeros([3]), name="conv/bias")
    tf.Variable(tf.zeros([1]), name="old")
    with session() as sess, pytest.raises(tf.errors.DataLossError, match="damaged"):
        tf.train.Saver().restore(sess, saved)


# ---------------------------------------------------------------- meta graphs

def test_meta_graph_in_a_new_graph(tmp_path):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.Variable([[1.0], [2.0]], name="w")
    r = tf.Variable(3.0, name="r", use_resource=True)
    y = tf.add(tf.matmul(x, w), r, name="y")
    tf.add_to_collection("outputs", y)
    tf.add_to_collection("names", "some text")
    tf.add_to_collection("numbers", 5)
    with session() as sess:
        sess.run(tf.assign(w, [[10.0], [20.0]]))
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(sess, path)
        (output,) = tf.get_collection("outputs")
        assert sess.run(output, {"x:0": [[1, 1]]}) == [[33]]
        assert [v.name for v in tf.global_variables()] == ["w:0", "r:0"]
        assert tf.trainable_variables()[0] is tf.global_variables()[0]
        assert tf.get_collection("numbers") == [5]
        assert [v if isinstance(v, str) else v.decode() for v in tf.get_collection("names")] == [
            "some text"
        ]
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(path + ".meta", import_scope="copy")
        saver.restore(sess, path)
        assert sess.run("copy/y:0", {"copy/x:0": [[1, 1]]}) == [[33]]


def test_meta_graph_text_and_devices(tmp_path):
    with tf.device("/cpu:0"):
        tf.Variable(1.0, name="v")
    path = str(tmp_path / "m.pbtxt")
    tf.train.export_meta_graph(path, as_text=True, clear_devices=True)
    with tf.Graph().as_default() as g:
        assert tf.train.import_meta_graph(path) is not None
        assert g.get_operation_by_name("v").device == ""
    with pytest.raises(IOError, match="does not exist"):
        tf.train.import_meta_graph(str(tmp_path / "none.meta"))


def test_errors_of_a_restored_graph_name_the_line_that_built_it(tmp_path):
    x = tf.placeholder(tf.float32, [None, None], name="x")
    y = tf.matmul(x, tf.Variable(tf.ones([3, 3])), name="y")
    path = str(tmp_path / "m.meta")
    tf.train.export_meta_graph(path)
    for scope in (None, "copy"):
        with tf.Graph().as_default() as g, tf.Session() as sess:
            tf.train.import_meta_graph(path, import_scope=scope)
            sess.run(tf.global_variables_initializer())
            prefix = f"{scope}/" if scope else ""
            again = g.get_operation_by_name(prefix + "y")
            assert str(again.user_frame) == str(y.op.user_frame)
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(again.outputs[0], {prefix + "x:0": [[1.0, 2.0]]})
            assert f"{os.path.basename(__file__)}:{y.op.user_frame.lineno}" in str(caught.value)
            assert "import_meta_graph" in str(caught.value)
    assert tf.get_collection("pyflow.origins") == []


def test_saver_from_proto(tmp_path):
    v = tf.Variable(1.0)
    definition = tf.train.Saver(max_to_keep=7).to_proto()
    again = tf.train.Saver.from_proto(definition)
    with session() as sess:
        path = again.save(sess, str(tmp_path / "m"))
        sess.run(tf.assign(v, 5.0))
        again.restore(sess, path)
        assert sess.run(v) == 1 and again._max_to_keep == 7


def test_a_prefix_named_as_the_state_file_collides_without_a_step_only(tmp_path):
    tf.Variable(1.0)
    saver, prefix = tf.train.Saver(), str(tmp_path / "checkpoint")
    with session() as sess:
        assert saver.save(sess, prefix, global_step=1) == prefix + "-1"
        assert tf.train.latest_checkpoint(str(tmp_path)) == prefix + "-1"
        with pytest.raises(ValueError, match="collides"):
            saver.save(sess, prefix)


@pytest.mark.parametrize("keep", [None, 0])
def test_who_keeps_all_counts_none(tmp_path, keep):
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=keep)
    with session() as sess:
        prefixes = [saver.save(sess, str(tmp_path / "m"), global_step=i) for i in range(3)]
    assert saver.last_checkpoints == [] and all(map(tf.train.checkpoint_exists, prefixes))
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == prefixes[-1:]


@pytest.mark.parametrize("text", ["", 'all_model_checkpoint_paths: "a"'])
def test_a_state_file_without_a_checkpoint_is_an_error(tmp_path, text):
    (tmp_path / "checkpoint").write_text(text)
    for ask in (tf.train.get_checkpoint_state, tf.train.latest_checkpoint):
        with pytest.raises(ValueError, match="Invalid checkpoint state"):
            ask(str(tmp_path))
