"""SavedModels: those that TensorFlow 2.21 wrote (saved_models.py) give its answers, loaded, frozen
and on the command line; those written here come back, and are what TensorFlow reads."""
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import pyflow as tf  # noqa: E402
import tables  # noqa: E402
from pyflow.framework import protos  # noqa: E402
from pyflow.saved_model import freezing  # noqa: E402
from pyflow.tools import command  # noqa: E402

DATA = HERE / "data"
ANSWERS = np.load(DATA / "answers.npz")
CASES = sorted({tuple(key.split("|")[:2]) for key in ANSWERS})
NEEDS_TABLE = {("graph", "serve/rows"), ("module", "serve/look_up")}


def arrays(model, case, kind):
    """{name: array} that TensorFlow was fed, or answered."""
    found = {}
    for key in ANSWERS:
        if key.split("|")[:3] == [model, case, kind]:
            value = ANSWERS[key]
            found[key.split("|")[3]] = value.astype(object) if value.dtype.kind == "S" else value
    return found


def check(found, model, case):
    wanted = arrays(model, case, "out")
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=1e-6, err_msg=name)


def asked(sess, graph, name, feeds):
    """A signature's outputs by name."""
    signature = graph.signature_def[name]
    return sess.run({key: info.name for key, info in signature.outputs.items()},
                    {signature.inputs[key].name: value for key, value in feeds.items()})


def pyflow(capfd, *args):
    """(status, stdout, stderr) of `python -m pyflow ARGS`, in this process."""
    status = command.main([str(arg) for arg in args])
    return status, *capfd.readouterr()


@pytest.mark.parametrize("model, case", CASES)
def test_loaded(model, case):
    tags, name = case.split("/")
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.loader.load(sess, [tags], str(DATA / model))
        check(asked(sess, graph, name, arrays(model, case, "in")), model, case)


@pytest.mark.parametrize("model, case", CASES)
def test_frozen(model, case):
    name = case.split("/")[1]
    if (model, case) in NEEDS_TABLE:
        with pytest.raises(tf.errors.UnimplementedError, match=f"'{name}' needs the table"):
            freezing.freeze(DATA / model, ["serve"], name)
        return
    frozen = freezing.freeze(DATA / model, signature=name)
    assert not {"VarHandleOp", "VariableV2", "RestoreV2"} & {n.op for n in frozen.graph_def.node}
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(frozen.graph_def, name="")
        feeds = {frozen.inputs[key]: value for key, value in arrays(model, case, "in").items()}
        check(sess.run(frozen.outputs, feeds), model, case)


def test_a_moved_folder_and_a_scope(tmp_path):
    """Nothing of the paths it was written at is used; names are below the scope."""
    shutil.copytree(DATA / "graph", tmp_path / "elsewhere")
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, {"serve"}, tmp_path / "elsewhere", import_scope="a/b")
        signature = graph.signature_def["rows"]
        feeds = arrays("graph", "serve/rows", "in")
        found = sess.run("a/b/" + signature.outputs["rows"].name,
                         {"a/b/" + signature.inputs["word"].name: feeds["word"]})
        check({"rows": found}, "graph", "serve/rows")


def test_two_graphs_by_tags():
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["train"], str(DATA / "graph"))
        assert {"dropout" in n.name for n in graph.graph_def.node} == {True, False}
        x = arrays("graph", "serve/serving_default", "in")["x"]
        found = asked(sess, graph, "serving_default", {"x": x})["y"]
        plain = sess.run("y:0", {"x:0": x})
        np.testing.assert_allclose(plain, ANSWERS["graph|serve/serving_default|out|y"], rtol=2e-6)
        assert np.all((found == 0) | np.isclose(found, 2 * plain))


@pytest.mark.parametrize("tags", [["serv"], ["serve", "train"], []])
def test_tags_that_are_not_there(tags):
    with tf.Session(graph=tf.Graph()) as sess:
        with pytest.raises(RuntimeError, match=r"Available tag-sets: \{train\}, \{serve\}"):
            tf.saved_model.load(sess, tags, str(DATA / "graph"))


def test_folders_that_are_none(tmp_path):
    assert not tf.saved_model.loader.maybe_saved_model_directory(str(tmp_path))
    assert tf.saved_model.maybe_saved_model_directory(DATA / "legacy")      # .pbtxt
    with tf.Session(graph=tf.Graph()) as sess:
        with pytest.raises(IOError, match="SavedModel file does not exist at"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path))
        (tmp_path / "saved_model.pb").write_bytes(b"\x12\xff\xff")
        with pytest.raises(IOError, match="Cannot parse file .*saved_model.pb"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path))


def test_an_asset_outside_the_folder(tmp_path):
    shutil.copytree(DATA / "module", tmp_path / "m")
    path = tmp_path / "m" / "saved_model.pb"
    message = protos.SavedModel.FromString(path.read_bytes())
    message.meta_graphs[0].asset_file_def[0].filename = "../../secret"
    path.write_bytes(message.SerializeToString())
    with tf.Session(graph=tf.Graph()) as sess:
        with pytest.raises(IOError, match="no file below assets/"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path / "m"))


# ---------------------------------------------------------------- the command line

def test_run(tmp_path, capfd):
    np.save(tmp_path / "x.npy", ANSWERS["module|serve/serving_default|in|x"])
    ran = pyflow(capfd, "run", DATA / "module", "--input", tmp_path / "x.npy",
                 "--save", tmp_path / "o.npz")
    assert ran == (0, "", "")
    check(dict(np.load(tmp_path / "o.npz")), "module", "serve/serving_default")
    status, out, err = pyflow(capfd, "run", DATA / "module", "--signature", "lookup")
    assert status == 1 and "no signature 'lookup'; it has look_up, serving_default" in err


def test_run_in_a_process_of_its_own():
    ran = subprocess.run([sys.executable, "-P", "-m", "pyflow", "run",
                          DATA / "module" / "saved_model.pb", "--signature", "look_up",
                          "--tags", "serve", "--feed", 'word=["emu", "owl"]'],
                         capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "number = [ 2 -1]\n")


def test_check_and_explain(capfd):
    status, out, err = pyflow(capfd, "check", DATA / "keras")
    assert status == 0 and "nothing is missing" in out
    status, out, err = pyflow(capfd, "explain", DATA / "graph")
    assert status == 0 and "MetaGraph {serve}" in out and "MetaGraph {train}" in out
    assert "    input  word: string [?], word:0\n" in out
    assert "w  float32[4, 3]  mean" in out
    status, out, err = pyflow(capfd, "check", DATA / "graph", "--tags", "nothing")
    assert status == 2 and "Available tag-sets" in err


# ---------------------------------------------------------------- written

def small_model(words):
    """(x, y, word, number): variables of both kinds, a partitioned one, a loop, a table."""
    asset = tf.constant(str(words), name="asset")
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    word = tf.placeholder(tf.string, [None], name="word")
    w = tf.get_variable("w", [4, 3], use_resource=True)
    b = tf.get_variable("b", [3], initializer=tf.ones_initializer())
    rows = tf.get_variable("rows", [5, 3], partitioner=tf.fixed_size_partitioner(2))
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.nn.relu(y + b)),
                         [0, tf.matmul(x, w)])
    return x, y + tf.convert_to_tensor(rows)[4], word, table.lookup(word)


def written(folder, as_text=False):
    """Writes a SavedModel; (x, y) of its first signature."""
    words = folder / "words.txt"
    words.write_text("red\ngreen\nblue\n")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(3)
        x, y, word, number = small_model(words)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        make = tf.saved_model.predict_signature_def
        builder = tf.saved_model.builder.SavedModelBuilder(str(folder / "model"))
        builder.add_meta_graph_and_variables(
            sess, [tf.saved_model.tag_constants.SERVING],
            {"serving_default": make({"x": x}, {"y": y}),
             "words": make({"word": word}, {"n": number})},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(), clear_devices=True)
        with tf.Graph().as_default():
            parts = small_model(words)
            rows = make({"x": parts[0]}, {"y": parts[1]})
            builder.add_meta_graph(["serve", "again"], {"rows": rows})
        path = builder.save(as_text)
        assert os.path.basename(path) == ("saved_model.pbtxt" if as_text else "saved_model.pb")
        given = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
        return given, sess.run(y, {x: given})


@pytest.mark.parametrize("as_text", [False, True])
def test_written_and_loaded(tmp_path, as_text):
    x, y = written(tmp_path, as_text)
    os.unlink(tmp_path / "words.txt")
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["serve"], str(tmp_path / "model"))
        np.testing.assert_array_equal(asked(sess, graph, "serving_default", {"x": x})["y"], y)
        assert asked(sess, graph, "words", {"word": ["blue", "pink"]})["n"].tolist() == [2, -1]
        assert graph.meta_info_def.tags == ["serve"]
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["again", "serve"], str(tmp_path / "model"))
        np.testing.assert_array_equal(asked(sess, graph, "rows", {"x": x})["y"], y)


def test_what_is_written_is_tensorflows(tmp_path):
    """The variables as a bundle, assets in both places where TensorFlow looks, the collections."""
    written(tmp_path)
    folder = tmp_path / "model" / "variables"
    assert sorted(p.name for p in folder.iterdir()) == [
        "variables.data-00000-of-00001", "variables.index"]
    found = tables.bundle((folder / "variables.index").read_bytes(),
                          [(folder / "variables.data-00000-of-00001").read_bytes()])
    assert {name: shape for name, (_, shape, _) in found.items()} == {
        "b": [3], "rows": [5, 3], "w": [4, 3]}
    message = protos.SavedModel.FromString((tmp_path / "model" / "saved_model.pb").read_bytes())
    graph = message.meta_graphs[0]
    assert message.saved_model_schema_version == 1 and len(message.meta_graphs) == 2
    assert graph.asset_file_def[0].filename == "words.txt"
    assert graph.asset_file_def[0].tensor_info.name == "asset:0"
    (kept,) = graph.collection_def["saved_model_assets"].any_list.value
    assert kept.type_url.endswith("tensorflow.AssetFileDef")
    (main_op,) = graph.collection_def["saved_model_main_op"].node_list.value
    assert main_op.startswith("init_all_tables")
    assert graph.signature_def["words"].outputs["n"].dtype == tf.int64.as_datatype_enum
    assert (tmp_path / "model" / "assets" / "words.txt").read_text() == "red\ngreen\nblue\n"


def test_assets_of_one_name(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "words.txt").write_text(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        paths = [tf.constant(str(tmp_path / f / "words.txt")) for f in ("a", "b", "a")]
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(sess, ["serve"], assets_collection=paths)
        builder.save()
    assert (tmp_path / "m/assets/words.txt").read_text() == "a"
    assert (tmp_path / "m/assets/words.txt_1").read_text() == "b"       # TensorFlow's name


def test_a_saver_of_ones_own(tmp_path):
    """What it saves, in TensorFlow's format, though it was built for pyflow's."""
    with tf.Graph().as_default(), tf.Session() as sess:
        kept, _ = tf.Variable(2.0, name="kept"), tf.Variable(3.0, name="left")
        saver = tf.train.Saver({"other_name": kept})
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(sess, ["serve"], saver=saver)
    reader = tf.train.load_checkpoint(str(tmp_path / "m/variables/variables"))
    assert reader.get_variable_to_shape_map() == {"other_name": []}
    assert reader.format == "TensorFlow V2"


def test_a_model_of_tensorflows_written_again(tmp_path):
    """With its own saver, which saves slices and merges shards."""
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["serve"], str(DATA / "graph"))
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        del tf.get_collection_ref("saved_model_main_op")[:]     # its file lies elsewhere now
        builder.add_meta_graph_and_variables(sess, ["serve"], dict(graph.signature_def),
                                             saver=tf.train.Saver.from_proto(graph.saver_def))
        builder.save()
    assert tf.train.load_checkpoint(str(tmp_path / "m/variables/variables")).format == "TensorFlow V2"
    frozen = freezing.freeze(tmp_path / "m", signature="serving_default")
    assert frozen.inputs == {"x": "x:0"} and frozen.outputs == {"y": "y:0"}


def test_builder_refuses(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(AssertionError, match="already exists, and isn't empty"):
        tf.saved_model.Builder(str(tmp_path / "full"))
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0)
        sess.run(v.initializer)
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["serve"])
        with pytest.raises(TypeError, match="main_op needs to be an Operation"):
            builder.add_meta_graph_and_variables(sess, ["serve"], main_op=v)
        with pytest.raises(AssertionError, match="Invalid TensorInfo in signature 's'"):
            builder.add_meta_graph_and_variables(sess, ["serve"], {
                "s": tf.saved_model.build_signature_def({"x": protos.TensorInfo()})})
        builder.add_meta_graph_and_variables(sess, ["serve"])
        with pytest.raises(AssertionError, match="already been saved"):
            builder.add_meta_graph_and_variables(sess, ["serve"])


def test_simple_save_and_main_op_with_restore(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.int32, [None], name="x")
        y = x * tf.Variable(3, name="v")
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, str(tmp_path / "m"), {"x": x}, {"y": y})
        assert tf.saved_model.main_op_with_restore("save/restore_all").type == "NoOp"
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["serve"], tmp_path / "m")
        assert asked(sess, graph, "serving_default", {"x": [1, 2]})["y"].tolist() == [3, 6]


# ---------------------------------------------------------------- signatures

def test_signatures():
    """Methods, names and types as TF Serving wants them."""
    utils = tf.saved_model.signature_def_utils
    with tf.Graph().as_default():
        text = tf.placeholder(tf.string, [None], name="text")
        score = tf.placeholder(tf.float32, [None, 3], name="score")
        classify = utils.classification_signature_def(text, text, score)
        regress = utils.regression_signature_def(text, score)
        predict = utils.predict_signature_def({"a": text}, {"b": score})
        assert classify.method_name == "tensorflow/serving/classify"
        assert sorted(classify.outputs) == ["classes", "scores"]
        assert list(regress.inputs) == ["inputs"]
        assert all(map(utils.is_valid_signature, (classify, regress, predict)))
        regress.outputs["outputs"].dtype = 3
        assert not utils.is_valid_signature(regress)
        assert not utils.is_valid_signature(tf.saved_model.build_signature_def(method_name="other"))
        with pytest.raises(ValueError, match="scores must be of type float32"):
            utils.classification_signature_def(text, None, text)
        with pytest.raises(ValueError, match="cannot both be None"):
            utils.classification_signature_def(text, None, None)
        with pytest.raises(ValueError, match="Prediction inputs cannot be None or empty"):
            utils.predict_signature_def({}, {"b": score})


def test_tensor_infos():
    utils = tf.saved_model.utils
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        info = utils.build_tensor_info(x)
        assert (info.name, info.dtype) == ("x:0", tf.float32.as_datatype_enum)
        assert tf.TensorShape(info.tensor_shape).as_list() == [None, 3]
        assert utils.get_tensor_from_tensor_info(info) is x
        sparse = tf.sparse_placeholder(tf.int64, name="s")
        back = utils.get_tensor_from_tensor_info(utils.build_tensor_info(sparse))
        assert (back.indices, back.values, back.dense_shape) == (
            sparse.indices, sparse.values, sparse.dense_shape)
        with pytest.raises(ValueError, match="Invalid TensorInfo.encoding: None"):
            utils.get_tensor_from_tensor_info(protos.TensorInfo())


def test_constants():
    assert tf.saved_model.tag_constants.SERVING == tf.saved_model.SERVING == "serve"
    assert tf.saved_model.signature_constants.PREDICT_METHOD_NAME == "tensorflow/serving/predict"
    assert tf.saved_model.constants.VARIABLES_FILENAME == "variables"
    assert tf.saved_model.VARIABLES_FILENAME == "variables"
