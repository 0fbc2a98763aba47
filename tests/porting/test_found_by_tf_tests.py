"""What TensorFlow 1.15.0's own tests found that programs meet, too. Values are TensorFlow 1.15.5's."""
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()], feeds)
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- files

@pytest.fixture
def model(tmp_path):
    """A SavedModel's folder: y = 2 x."""
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2], name="x")
        v = tf.get_variable("v", initializer=2.0)
        session.run(v.initializer)
        tf.saved_model.simple_save(session, folder, {"x": x}, {"y": tf.multiply(x, v, name="y")})
    return folder


def test_a_saved_model_is_loaded_by_bytes(model):
    with tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], model.encode())
        assert session.run("y:0", {"x:0": [1, 2]}).tolist() == [2, 4]


def test_gfile_makes_what_is_there_and_opens_what_is_not(tmp_path):
    tf.gfile.MkDir(str(tmp_path))
    with tf.gfile.GFile(str(tmp_path / "new"), "r+") as file:
        file.write("ab")
    assert (tmp_path / "new").read_text() == "ab"
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.GFile(str(tmp_path / "none"), "r+").read()
    found = tf.gfile.Stat(str(tmp_path / "new"))
    assert (found.length, found.is_directory, found.st_size) == (2, False, 2)


def test_a_checkpoint_behind_file(tmp_path):
    v = tf.get_variable("v", initializer=1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        saver = tf.train.Saver()
        path = saver.save(session, f"file://{tmp_path}/model", global_step=3)
        assert path == f"file://{tmp_path}/model-3"
        session.run(v.assign(5.0))
        saver.restore(session, path)
        assert session.run(v) == 1.0
    assert tf.train.latest_checkpoint(f"file://{tmp_path}").endswith(f"{tmp_path}/model-3")
    assert tf.train.checkpoint_exists(path)


def test_graph_defs_are_written_as_graphs_are(tmp_path):
    tf.constant(1.0)
    graph_def = tf.get_default_graph().as_graph_def()
    for arguments in ({"graph_def": graph_def}, {"graph": graph_def}):
        folder = str(tmp_path / str(len(arguments)) / next(iter(arguments)))
        tf.summary.FileWriter(folder, **arguments).close()
        [name] = os.listdir(folder)
        events = tf.train.summary_iterator(os.path.join(folder, name))
        assert [e.WhichOneof("what") for e in events] == ["file_version", "graph_def",
                                                          "meta_graph_def"]


def test_a_meta_graph_goes_into_the_graph_that_is_named():
    with tf.Graph().as_default() as source:
        tf.get_variable("v", initializer=1.0)
        message = tf.train.export_meta_graph(graph=source)
    other = tf.Graph()
    assert tf.train.import_meta_graph(message, graph=other) is not None
    assert other.get_operation_by_name("v") and not tf.get_default_graph().get_operations()


def test_checkpoints_iterator(tmp_path):
    assert list(tf.train.checkpoints_iterator(str(tmp_path), timeout=0)) == []


SHIM = """
    from tensorflow.core.framework import types_pb2
    from tensorflow.core.lib.core import error_codes_pb2
    from tensorflow.python.lib.io import file_io
    from tensorflow.python.ops import critical_section_ops, math_ops, variable_scope, variables
    from tensorflow.python.saved_model import builder, loader_impl
    from tensorflow.python.tools import freeze_graph
    import tensorflow as tf

    assert types_pb2.DataType.Name(1) == "DT_FLOAT" and types_pb2.DataType.Value("DT_INT32") == 3
    assert error_codes_pb2.INVALID_ARGUMENT == 3 and error_codes_pb2.Code.Name(5) == "NOT_FOUND"
    file_io.write_string_to_file("a", "text")
    with file_io.FileIO("a", mode="r") as file:
        assert file.read() == "text"
    file_io.atomic_write_string_to_file("b", b"text")
    assert file_io.filecmp("a", "b") and file_io.file_exists("a") and file_io.stat("a").length == 4
    assert file_io.file_crc32("a") == "0x3b8ba7c7"
    assert critical_section_ops.CriticalSection is tf.CriticalSection
    assert math_ops.reduce_sum_v1 is tf.reduce_sum and variables.VariableV1 is tf.Variable
    variable_scope.variable(1.0, name="x")
    assert [v.name for v in tf.trainable_variables()] == ["x:0"] and tf.global_variables()

    frozen = freeze_graph.freeze_graph(None, None, True, None, "y", None, None, "frozen.pb", True,
                                       "", input_saved_model_dir=MODEL)
    assert {node.op for node in frozen.node} == {"Placeholder", "Const", "Identity", "Mul"}

    with tf.Session(graph=tf.Graph()) as session:
        loader = loader_impl.SavedModelLoader(MODEL)
        saver, found = loader.load_graph(session.graph, ["serve"], import_scope="m",
                                         return_elements=["y:0"])
        loader.restore_variables(session, saver)
        loader.run_init_ops(session, ["serve"], import_scope="m")
        assert session.run(found, {"m/x:0": [1, 2]})[0].tolist() == [2, 4]
    with tf.Session(graph=tf.Graph()) as session:
        v = tf.get_variable("v", initializer=1.0)
        session.run(v.initializer)
        made = builder._SavedModelBuilder("new")
        made.add_meta_graph_and_variables(session, ["a"], assets_list=[tf.constant("a")],
                                          init_op=tf.group(v.assign(3.0)))
        made.save()
    with tf.Session(graph=tf.Graph()) as session:
        loaded = tf.saved_model.loader.load(session, ["a"], "new")
        assert session.run("v:0") == 3.0 and loaded.asset_file_def[0].filename == "a"
        asset = type(loaded.asset_file_def[0])()
        loaded.collection_def["saved_model_assets"].any_list.value[0].Unpack(asset)
        assert asset == loaded.asset_file_def[0]
"""


def test_modules_of_tensorflow(tmp_path, model):
    (tmp_path / "program.py").write_text(f"MODEL = {model!r}\n" + textwrap.dedent(SHIM))
    done = subprocess.run([sys.executable, "-P", "-m", "pyflow", "exec", "program.py"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- ops

def test_crfs_take_lengths_of_int64():
    x = np.random.RandomState(0).rand(2, 3, 4).astype("f")
    tags = np.array([[1, 2, 0], [3, 1, 0]], "i4")
    transitions = np.eye(4, dtype="f")
    crf, made = tf.contrib.crf, []
    for dtype in (tf.int32, tf.int64):
        lengths = tf.constant([3, 2], dtype)
        made.append([crf.crf_log_likelihood(x, tags, lengths, transitions)[0],
                     *crf.crf_decode(x, transitions, lengths)])
    for narrow, wide in zip(*run(made)):
        np.testing.assert_array_equal(narrow, wide)


def test_sparse_expand_dims_at_a_tensor():
    x = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    axis = tf.placeholder(tf.int32, [])
    y = tf.sparse.expand_dims(x, axis=axis)
    for at in (-3, -2, -1, 0, 1, 2):
        wanted, found = run([tf.sparse.expand_dims(x, axis=at), y], {axis: at})
        np.testing.assert_array_equal(found.indices, wanted.indices)
        np.testing.assert_array_equal(found.dense_shape, wanted.dense_shape)


def test_frames_of_lengths_that_are_tensors():
    x = tf.constant(np.arange(10), tf.float32)
    length, step = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
    frames = tf.signal.frame(x, length, step, pad_end=True)
    whole = tf.signal.overlap_and_add(frames, step)
    assert frames.shape.as_list() == [None, None]
    found, added = run([frames, whole], {length: 4, step: 2})
    assert found.shape == (5, 4) and found[-1].tolist() == [8, 9, 0, 0]
    assert added.tolist() == [0, 1, 4, 6, 8, 10, 12, 14, 16, 18, 0, 0]


def test_a_partitioned_constant_keeps_its_type():
    v = tf.get_variable("v", initializer=tf.constant([1, 2, 3, 4], tf.float16),
                        partitioner=tf.fixed_size_partitioner(2))
    assert v.dtype.base_dtype == tf.float16
    assert run(tf.convert_to_tensor(v)).tolist() == [1, 2, 3, 4]


def test_a_moving_average_is_taken_again_on_reuse():
    from pyflow.lib.variables.moving_average import assign_moving_average
    v = tf.get_variable("v", initializer=1.0)
    for reuse in (False, True):
        with tf.variable_scope("s", reuse=reuse):
            assign_moving_average(v, 2.0, 0.9)
    assert [x.name for x in tf.global_variables()] == ["v:0", "s/v/biased:0", "s/v/local_step:0"]


@pytest.mark.parametrize("make, expected", [
    (lambda: tf.train.AdagradOptimizer(0.1), [0.90122706, 1.9003110]),
    (lambda: tf.train.AdamOptimizer(), [0.9990000, 1.9990000]),
    (lambda: tf.train.RMSPropOptimizer(0.1), [0.8245884, 1.7470179]),
    (lambda: tf.train.FtrlOptimizer(0.1), None),
    (lambda: tf.train.ProximalAdagradOptimizer(0.1), None)])
def test_slots_of_variables_of_unknown_shape(make, expected):
    start = tf.placeholder_with_default([1.0, 2.0], shape=None)
    v = tf.Variable(start, validate_shape=False)
    known = tf.Variable([1.0, 2.0])
    found = []
    for variable in (v, known):
        train = make().minimize(tf.reduce_sum(variable * variable), var_list=[variable])
        with tf.control_dependencies([train]):
            found.append(tf.identity(variable.read_value()))
    found = run(found)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    if expected is not None:
        np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_zeros_for_a_resource_that_nothing_depends_on():
    v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    [zeros] = tf.gradients(tf.constant(1.0), [v], unconnected_gradients="zero")
    assert zeros.shape.as_list() == [2] and run(zeros).tolist() == [0, 0]


def test_weights_of_contrib_losses_count_examples():
    p, l, w = tf.ones([2, 3]), tf.zeros([2, 3]), tf.constant([1.0, 2.0])
    losses = tf.contrib.losses
    found = run([losses.absolute_difference(p, l, weights=w), losses.log_loss(p, l, weights=w),
                 losses.mean_squared_error(p, l, weights=w),
                 losses.sigmoid_cross_entropy(p, l, weights=w),
                 losses.absolute_difference(p, l, weights=tf.constant([[1.0], [2.0]])),
                 losses.absolute_difference(p, l, weights=0.5)])
    np.testing.assert_allclose(found, [1.5, 24.177145, 1.5, 1.9698926, 1.5, 0.5], rtol=1e-6)


# ---------------------------------------------------------------- features

def test_a_sparse_vector_of_unknown_rank_is_a_feature():
    column = tf.feature_column.indicator_column(
        tf.feature_column.categorical_column_with_vocabulary_list("a", ["x", "y"]))
    feature = tf.sparse_placeholder(tf.string)
    y = tf.feature_column.input_layer({"a": feature}, [column])
    for indices, shape in (([[0], [1]], [3]), ([[0, 0], [1, 0]], [3, 1])):
        value = tf.SparseTensorValue(np.array(indices), np.array(["x", "y"]), np.array(shape))
        assert run(y, {feature: value}).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_a_raw_receiver_of_unknown_shape():
    x = tf.placeholder(tf.float32, None)
    made = tf.estimator.export.build_raw_serving_input_receiver_fn({"a": x})()
    assert made.features["a"].shape.ndims is None


def test_rows_of_a_partitioned_variable_are_matched_by_word(tmp_path):
    (tmp_path / "old").write_text("apple\nbanana\nguava\norange")
    (tmp_path / "new").write_text("orange\nguava\nbanana\napple\nraspberry")
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=[[0.5, 0.4], [1.0, 1.1], [2.0, 2.2], [3.0, 3.3]])
        session.run(v.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    v = tf.get_variable("v", [5, 2], partitioner=tf.fixed_size_partitioner(2))
    info = tf.train.VocabInfo(str(tmp_path / "new"), 5, 0, str(tmp_path / "old"),
                              backup_initializer=tf.ones_initializer())
    tf.train.warm_start(path, "v", {"v": info})
    again = tf.get_variable("again", initializer=list(v)[1].initialized_value())
    found, last = run([tf.convert_to_tensor(v), again])
    np.testing.assert_allclose(found, [[3, 3.3], [2, 2.2], [1, 1.1], [0.5, 0.4], [1, 1]])
    np.testing.assert_allclose(last, found[3:])


def test_calls_of_a_function_draw_their_own_numbers():
    """Also where the graph has a seed, which a Defun's random ops do not follow."""
    from pyflow.lib.function.defun import Defun
    tf.set_random_seed(5)

    @Defun()
    def draw():
        return tf.random_uniform([100])

    @Defun()
    def again():
        return draw()
    values = run([draw(), draw(), again(), again()])
    assert len({tuple(value) for value in values}) == 4


def test_images_keep_their_channels_static_shape_and_floats():
    x = tf.placeholder(tf.float16, [None, None, 3])
    assert tf.image.crop_to_bounding_box(x, 0, 0, 5, 6).shape.as_list() == [5, 6, 3]
    assert tf.image.pad_to_bounding_box(x, 0, 0, 5, 6).shape.as_list() == [5, 6, 3]
    assert tf.image.central_crop(x, 0.5).shape.as_list() == [None, None, 3]
    assert tf.image.per_image_standardization(x).dtype == tf.float16
