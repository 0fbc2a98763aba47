"""tf.estimator: what a program that uses it sees."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf

X = np.linspace(-1, 1, 24).reshape(12, 2).astype("f")
Y = (X[:, 0] * 3 - 1).astype("f")


def model_fn(features, labels, mode, params):
    """A line through the features."""
    x = features["x"] if isinstance(features, dict) else features
    y = tf.layers.dense(x, 1, kernel_initializer=tf.zeros_initializer(), name="line")[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": y, "twice": y * 2})
    loss = tf.losses.mean_squared_error(labels, y)
    train_op = tf.train.GradientDescentOptimizer(params["rate"]).minimize(
        loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={
        "mae": tf.metrics.mean_absolute_error(labels, y)})


def input_fn(shuffle=False, batch_size=5, num_epochs=None):
    return tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=batch_size,
                                              num_epochs=num_epochs, shuffle=shuffle)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    estimator = tf.estimator.Estimator(model_fn, str(folder), params={"rate": 0.2})
    return estimator.train(input_fn(), steps=60)


def numpy_line(steps, rate=0.2):
    """The same training in NumPy: (weights, bias)."""
    w, b, at = np.zeros(2, "f"), np.float32(0), np.arange(10 ** 4) % len(X)
    for step in range(steps):
        rows = at[step * 5:step * 5 + 5]
        error = X[rows] @ w + b - Y[rows]
        w -= rate * 2 * (error[:, None] * X[rows]).mean(0)
        b -= rate * 2 * error.mean()
    return w, b


def test_training_equals_numpy(trained):
    w, b = numpy_line(60)
    np.testing.assert_allclose(trained.get_variable_value("line/kernel")[:, 0], w, rtol=1e-4)
    np.testing.assert_allclose(trained.get_variable_value("line/bias"), [b], rtol=1e-4)
    assert trained.get_variable_names() == ["global_step", "line/bias", "line/kernel"]
    assert trained.latest_checkpoint().endswith("model.ckpt-60")


def test_evaluate_and_predict(trained):
    w, b = numpy_line(60)
    result = trained.evaluate(input_fn(num_epochs=1), name="all")
    assert sorted(result) == ["global_step", "loss", "mae"] and result["global_step"] == 60
    np.testing.assert_allclose(result["mae"], np.abs(X @ w + b - Y).mean(), rtol=1e-3)
    assert [f for f in os.listdir(trained.eval_dir("all")) if "tfevents" in f]
    found = list(trained.predict(input_fn(num_epochs=1), predict_keys=["y"]))
    assert [list(one) for one in found] == [["y"]] * 12
    np.testing.assert_allclose([one["y"] for one in found], X @ w + b, rtol=1e-3, atol=1e-5)
    sizes = [len(batch["y"]) for batch in trained.predict(input_fn(num_epochs=1),
                                                          yield_single_examples=False)]
    assert sizes == [5, 5, 2]


def test_a_prediction_leaves_the_default_graph(trained):
    before = tf.get_default_graph()
    stream = trained.predict(input_fn(num_epochs=1))
    next(stream)
    assert tf.get_default_graph() is before
    stream.close()
    assert tf.get_default_graph() is before


def test_training_goes_on(trained, tmp_path):
    parts = tf.estimator.Estimator(model_fn, str(tmp_path), params={"rate": 0.2})
    parts.train(input_fn(), steps=12)           # 12 batches of 5 are 5 epochs of 12
    parts.train(input_fn(), max_steps=24)
    w, b = numpy_line(24)
    np.testing.assert_allclose(parts.get_variable_value("line/kernel")[:, 0], w, rtol=1e-4)
    before = parts.latest_checkpoint()
    parts.train(input_fn(), max_steps=24)
    assert parts.latest_checkpoint() == before


def test_a_dataset_with_hooks_and_listeners(tmp_path):
    def dataset_fn(mode, params):
        assert mode == "train" and params == {"rate": 0.1}
        return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(4)
    seen = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append(global_step_value)

    class Hook(tf.train.SessionRunHook):
        def end(self, session):
            seen.append("end")
    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=2, keep_checkpoint_max=2)
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"rate": 0.1})
    estimator.train(dataset_fn, hooks=[Hook()], saving_listeners=[Listener()])
    assert seen == [0, 2, 3, "end"] and estimator.get_variable_value("global_step") == 3
    assert len([f for f in os.listdir(tmp_path) if f.endswith(".index")]) == 2


def test_an_exported_model(trained, tmp_path):
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"x": tf.placeholder(tf.float32, [None, 2])}, default_batch_size=None)
    (tmp_path / "note.txt").write_text("hello")
    path = trained.export_saved_model(str(tmp_path / "out"), receiver,
                                      assets_extra={"a/note.txt": str(tmp_path / "note.txt")})
    assert isinstance(path, bytes) and os.path.basename(path).isdigit()
    assert open(os.path.join(path, b"assets.extra", b"a", b"note.txt")).read() == "hello"
    with tf.Session(graph=tf.Graph()) as sess:
        meta = tf.saved_model.loader.load(sess, ["serve"], path.decode())
        signature = meta.signature_def["serving_default"]
        found = sess.run(signature.outputs["y"].name, {signature.inputs["x"].name: X})
    w, b = numpy_line(60)
    np.testing.assert_allclose(found, X @ w + b, rtol=1e-3, atol=1e-5)


def test_exported_classes(tmp_path):
    """A string input has classify and regress signatures; another has predict alone."""
    def spec_fn(features, mode):
        score = tf.stack([features["x"], 1 - features["x"]], 1)
        names = tf.tile(tf.constant([["a", "b"]]), [tf.shape(score)[0], 1])
        return tf.estimator.EstimatorSpec(
            mode, predictions=score, loss=tf.reduce_sum(score * tf.get_variable("v", [])),
            train_op=tf.assign_add(tf.train.get_global_step(), 1), export_outputs={
                "serving_default": tf.estimator.export.ClassificationOutput(score, names),
                "number": tf.estimator.export.RegressionOutput(features["x"]),
                "all": tf.estimator.export.PredictOutput({"score": score})})

    def receiver():
        text = tf.placeholder(tf.string, [None])
        return tf.estimator.export.ServingInputReceiver(
            {"x": tf.string_to_number(text)}, text,
            receiver_tensors_alternatives={"raw": {"n": tf.placeholder(tf.float32, [None])}})
    estimator = tf.estimator.Estimator(spec_fn, str(tmp_path / "model"))
    estimator.train(lambda: {"x": tf.constant([0.5])}, steps=1)
    path = estimator.export_savedmodel(str(tmp_path / "out"), receiver, as_text=True)
    with tf.Session(graph=tf.Graph()) as sess:
        signatures = tf.saved_model.loader.load(sess, ["serve"], path.decode()).signature_def
        assert {name: s.method_name.rpartition("/")[2] for name, s in signatures.items()} == {
            "serving_default": "classify", "number": "regress", "all": "predict",
            "raw:all": "predict"}
        classes = signatures["serving_default"]
        found = sess.run({key: info.name for key, info in classes.outputs.items()},
                         {classes.inputs["inputs"].name: ["0.25"]})
    np.testing.assert_allclose(found["scores"], [[0.25, 0.75]])
    assert found["classes"].tolist() == [[b"a", b"b"]]


def test_train_and_evaluate(tmp_path):
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"x": tf.placeholder(tf.float32, [None, 2])})
    estimator = tf.estimator.Estimator(model_fn, params={"rate": 0.1}, config=(
        tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=5)))
    train = tf.estimator.TrainSpec(input_fn(), max_steps=10)
    exporters = [tf.estimator.FinalExporter("last", receiver),
                 tf.estimator.BestExporter("best", receiver, exports_to_keep=1),
                 tf.estimator.LatestExporter("newest", receiver, exports_to_keep=1)]
    evaluation = tf.estimator.EvalSpec(input_fn(num_epochs=1), steps=None, throttle_secs=0,
                                       exporters=exporters)
    metrics, exported = tf.estimator.train_and_evaluate(estimator, train, evaluation)
    w, b = numpy_line(10, 0.1)
    assert metrics["global_step"] == 10 and len(exported) == 3
    np.testing.assert_allclose(metrics["mae"], np.abs(X @ w + b - Y).mean(), rtol=1e-3)
    kept = {name: len(os.listdir(tmp_path / "export" / name))
            for name in ("last", "best", "newest")}
    assert kept == {"last": 1, "best": 1, "newest": 1}
    events = [os.path.join(tmp_path, "eval", f) for f in os.listdir(tmp_path / "eval")]
    steps = [event.step for path in events for event in tf.train.summary_iterator(path)
             if event.summary.value]
    assert steps == [5, 10]


def test_input_goes_on(tmp_path):
    """A training stopped twice, of a shuffled dataset, ends with the bits of one undisturbed."""
    def dataset_fn():
        data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
        return data.shuffle(12, seed=4).repeat().batch(5)

    def run(folder, stops):
        config = tf.estimator.RunConfig(str(folder), tf_random_seed=1)
        for stop in stops:
            estimator = tf.estimator.Estimator(model_fn, config=config, params={"rate": 0.1})
            hook = tf.data.experimental.CheckpointInputPipelineHook(estimator)
            estimator.train(dataset_fn, hooks=[hook], max_steps=stop)
        return estimator.get_variable_value("line/kernel")
    whole = run(tmp_path / "whole", [20])
    assert run(tmp_path / "parts", [3, 11, 20]).tobytes() == whole.tobytes()
    assert {"input-11.index", "input-20.index"} <= set(os.listdir(tmp_path / "parts"))


def test_added_metrics(trained):
    def metric_fn(labels, predictions, features):
        assert predictions == {} and features["x"].shape.as_list() == [None, 2]
        return {"low": tf.metrics.percentage_below(labels, -1.0)}
    found = tf.estimator.add_metrics(trained, metric_fn).evaluate(input_fn(num_epochs=1))
    np.testing.assert_allclose(found["low"], np.mean(Y < -1))
    assert "mae" in found


def test_warm_start(trained, tmp_path):
    settings = tf.estimator.WarmStartSettings(trained.model_dir, vars_to_warm_start="line/kernel")
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), params={"rate": 0.0},
                                       warm_start_from=settings)
    estimator.train(input_fn(), steps=1)
    np.testing.assert_array_equal(estimator.get_variable_value("line/kernel"),
                                  trained.get_variable_value("line/kernel"))
    assert estimator.get_variable_value("line/bias").tolist() == [0.0]


def test_warm_start_by_vocabulary(tmp_path):
    """Rows of words known before keep their vectors, wherever they stand now."""
    for name, words in (("old", "a\nb\nc\n"), ("new", "c\nd\na\n")):
        (tmp_path / name).write_text(words)
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("table", initializer=np.arange(6.0, dtype="f").reshape(3, 2))
        sess.run(table.initializer)
        path = tf.train.Saver().save(sess, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("table", [4, 2])
        tf.train.warm_start(path, var_name_to_vocab_info={"table": tf.train.VocabInfo(
            str(tmp_path / "new"), 3, 1, str(tmp_path / "old"),
            backup_initializer=tf.constant_initializer(9.0))})
        sess.run(table.initializer)
        assert sess.run(table).tolist() == [[4, 5], [9, 9], [0, 1], [9, 9]]


# ---------------------------------------------------------------- inputs

def rows_of(fn):
    """All batches that an input function gives."""
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        got, found = fn(), []
        with tf.Session() as sess:
            while True:
                try:
                    found.append(sess.run(got))
                except tf.errors.OutOfRangeError:
                    return found


def test_numpy_input_fn():
    fn = tf.estimator.inputs.numpy_input_fn({"x": np.arange(5)}, np.arange(5) * 10, batch_size=3,
                                            num_epochs=2, shuffle=False)
    found = rows_of(fn)
    assert [x["x"].tolist() for x, _ in found] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4]]
    assert [y.tolist() for _, y in found] == [[0, 10, 20], [30, 40, 0], [10, 20, 30], [40]]
    assert found[0][0]["x"].dtype == np.int64
    shuffled = tf.estimator.inputs.numpy_input_fn(np.arange(50), batch_size=50, shuffle=True)
    one, again = rows_of(shuffled), rows_of(shuffled)
    assert one[0].tolist() == again[0].tolist() != list(range(50))
    assert sorted(one[0].tolist()) == list(range(50))


@pytest.mark.parametrize("x, y, more, error, text", [
    ({}, None, {}, ValueError, "x cannot be an empty dict"),
    ([1, 2], None, {}, TypeError, "x must be a dict or array; got list"),
    ({"a": np.zeros(3)}, np.zeros(2), {}, ValueError, "Length of tensors in x and y is mismatched"),
    ({"a": np.zeros(3)}, {}, {}, ValueError, "y cannot be empty dict, use None instead."),
    ({"a": np.zeros(3)}, {"a": np.zeros(3)}, {}, ValueError, "duplicate keys are found in both"),
    ({"a": np.zeros(3)}, None, {"shuffle": None}, ValueError, "shuffle must be provided"),
])
def test_numpy_input_fn_refuses(x, y, more, error, text):
    with pytest.raises(error, match=text):
        tf.estimator.inputs.numpy_input_fn(x, y, **{"shuffle": False, **more})()


def test_pandas_input_fn():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.5, 2.5, 3.5], "s": ["x", "y", "z"]}, index=[7, 8, 9])
    labels = pandas.Series([0, 1, 0], index=[7, 8, 9])
    fn = tf.estimator.inputs.pandas_input_fn(frame, labels, batch_size=2, shuffle=False)
    (first, label), (last, _) = rows_of(fn)
    assert first["a"].tolist() == [1.5, 2.5] and last["s"].tolist() == [b"z"]
    assert label.tolist() == [0, 1]
    with pytest.raises(ValueError, match="Index for x and y are mismatched"):
        tf.estimator.inputs.pandas_input_fn(frame, labels.reset_index(drop=True), shuffle=False)


# ---------------------------------------------------------------- checks

def test_spec_checks():
    def spec(mode="train", **more):
        return tf.estimator.EstimatorSpec(mode, **more)
    loss, step = tf.constant(1.0), tf.no_op()
    with pytest.raises(ValueError, match="Missing loss"):
        spec(train_op=step)
    with pytest.raises(ValueError, match="Missing train_op"):
        spec(loss=loss)
    with pytest.raises(ValueError, match="Missing predictions"):
        spec("infer")
    with pytest.raises(ValueError, match="Loss must be scalar, given"):
        spec(loss=tf.ones([2]), train_op=step)
    with pytest.raises(TypeError, match="loss must be Tensor, given: 1.0"):
        spec(loss=1.0, train_op=step)
    with pytest.raises(TypeError, match=r"predictions\[x\] must be Tensor, given"):
        spec("infer", predictions={"x": 3})
    with pytest.raises(TypeError, match="eval_metric_ops must be a dict"):
        spec("eval", loss=loss, eval_metric_ops=[1])
    with pytest.raises(TypeError, match=r"must be \(metric_value, update_op\) tuples"):
        spec("eval", loss=loss, eval_metric_ops={"a": loss})
    with pytest.raises(TypeError, match="All hooks must be SessionRunHook instances"):
        spec(loss=loss, train_op=step, training_hooks=["x"])
    with pytest.raises(TypeError, match="scaffold must be tf.train.Scaffold"):
        spec(loss=loss, train_op=step, scaffold=3)
    with pytest.raises(ValueError, match="none of them are specified as the default"):
        outputs = tf.estimator.export.PredictOutput(loss)
        spec("infer", predictions=loss, export_outputs={"a": outputs, "b": outputs})
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be from the default graph"):
        spec(loss=loss, train_op=step)
    made = spec(loss=tf.ones([1]), train_op=step)
    assert made.loss.shape.as_list() == [] and made.mode == tf.estimator.ModeKeys.TRAIN
    with pytest.raises(ValueError, match="mode of EstimatorSpec cannot be changed"):
        made._replace(mode="eval")


def test_estimator_checks(tmp_path):
    make, folder = tf.estimator.Estimator, str(tmp_path)
    with pytest.raises(ValueError, match="must include features argument"):
        make(lambda labels: None, folder)
    with pytest.raises(ValueError, match=r"has following not expected args: \['x'\]"):
        make(lambda features, x: None, folder)
    with pytest.raises(ValueError, match="does not include params argument"):
        make(lambda features: None, folder, params={"a": 1})
    with pytest.raises(ValueError, match="model_fn must be provided"):
        make(None, folder)
    with pytest.raises(ValueError, match="with different values"):
        make(model_fn, folder, config=tf.estimator.RunConfig("elsewhere"))
    estimator = make(model_fn, folder, params={"rate": 1.0})
    with pytest.raises(ValueError, match="Can not provide both steps and max_steps"):
        estimator.train(input_fn(), steps=1, max_steps=1)
    with pytest.raises(ValueError, match="Must specify steps > 0, given: 0"):
        estimator.evaluate(input_fn(), steps=0)
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook, given: 3"):
        estimator.train(input_fn(), hooks=[3])
    with pytest.raises(ValueError, match="Could not find trained model in model_dir"):
        estimator.get_variable_names()
    with pytest.raises(ValueError, match="Couldn't find trained model at"):
        estimator.export_saved_model(folder, lambda: None)
    with pytest.raises(ValueError, match="model_fn should return an EstimatorSpec"):
        make(lambda features, labels: None, folder).train(input_fn(), steps=1)
    with pytest.raises(ValueError, match="model_fn does not take labels"):
        make(lambda features: None, folder).train(input_fn(), steps=1)
    with pytest.raises(ValueError, match="as a len 2 tuple"):
        estimator.train(lambda: (1, 2, 3), steps=1)

    class Own(tf.estimator.Estimator):
        def evaluate(self):
            """Not allowed."""
    with pytest.raises(ValueError, match="cannot override members of Estimator"):
        Own(model_fn, folder)


def test_run_config(monkeypatch):
    config = tf.estimator.RunConfig("folder", tf_random_seed=3, save_checkpoints_secs=5)
    assert config.model_dir == "folder"
    assert (config.tf_random_seed, config.save_checkpoints_secs) == (3, 5)
    assert config.save_checkpoints_steps is None and config.num_ps_replicas == 0
    assert config.replace(save_checkpoints_steps=7).save_checkpoints_secs is None
    with pytest.raises(ValueError, match="cannot be both set"):
        tf.estimator.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1)
    with pytest.raises(ValueError, match="Replacing master is not supported"):
        config.replace(master="x")
    with pytest.raises(ValueError, match="keep_checkpoint_max should be >= 0"):
        tf.estimator.RunConfig(keep_checkpoint_max=-1)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"model_dir": "there"}))
    assert tf.estimator.RunConfig().model_dir == "there"


# ---------------------------------------------------------------- early stopping

@pytest.mark.parametrize("name, more, stops_at", [
    ("stop_if_lower_hook", {"threshold": 0.25}, 6),
    ("stop_if_higher_hook", {"threshold": 0.35, "min_steps": 1}, 1),
    ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 4}, 1),
    ("stop_if_no_increase_hook", {"max_steps_without_increase": 100}, 6),
])
def test_early_stopping(tmp_path, name, more, stops_at):
    """Evaluations of steps 1 to 9 with losses .5 .4 .3 .3 .3 .3 .3 .3 .3 are there."""
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), params={"rate": 0.1})
    with tf.summary.FileWriter(estimator.eval_dir()) as writer:
        for step, loss in enumerate([0.5, 0.4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3], 1):
            writer.add_summary(tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=loss)]),
                               step)
    make = getattr(tf.estimator.experimental, name)
    hook = make(estimator, "loss", run_every_secs=None, run_every_steps=1, **more)
    estimator.train(input_fn(), hooks=[hook], max_steps=6)
    assert estimator.get_variable_value("global_step") == stops_at


def test_paths_of_tensorflow():
    """Modules that programs import names from."""
    from pyflow.contrib.learn import learn_runner
    from pyflow.python.estimator.canned.dnn import DNNClassifier
    from pyflow.python.estimator.export.export_output import PredictOutput
    from pyflow.python.estimator.inputs.numpy_io import numpy_input_fn
    from pyflow.python.feature_column.feature_column import numeric_column
    assert numpy_input_fn is tf.estimator.inputs.numpy_input_fn
    assert DNNClassifier is tf.estimator.DNNClassifier
    assert PredictOutput is tf.estimator.export.PredictOutput
    assert numeric_column is tf.feature_column.numeric_column
    assert learn_runner.run is tf.contrib.learn.learn_runner.run


@pytest.mark.long       # test_input_goes_on is the same without kill
def test_a_killed_training_ends_with_the_same_bits(tmp_path):
    """Dropout, Adam and a shuffled dataset; killed at two random moments."""
    script = pathlib.Path(__file__).parent / "resumed.py"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pyflow", "verify-resume", "--dir", tmp_path / "run",
         "--kills", "2", "--seed", "5", script, "--logdir", tmp_path / "run"],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "times: 15 variables\nequal: all variables have the same bits" in done.stdout
    assert "killed 0 times" not in done.stdout


def test_what_it_tells_goes_to_tensorflow_s_logger(trained, caplog):
    """As TensorFlow 1.15 writes it: programs read an evaluation's result there."""
    with caplog.at_level("INFO", "tensorflow"):
        results = trained.evaluate(input_fn(num_epochs=1))
    told = [r.getMessage() for r in caplog.records if r.name == "tensorflow"]
    assert "Calling model_fn." in told and "Done calling model_fn." in told
    assert f"Saving dict for global step 60: global_step = 60, loss = {results['loss']}, " \
        f"mae = {results['mae']}" in told
    assert any(t.startswith("Saving 'checkpoint_path' summary for global step 60: ") for t in told)
    assert not [r for r in caplog.records if r.name == "pyflow"]
