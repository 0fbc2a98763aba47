"""The SavedModels that record.py has TensorFlow write: of version 1's builder and of version 2.

Each function writes a folder and returns {signature: ({input: array}, {output: array})}; with tags
before the signature's name, "serve/name".
"""
import os
import pathlib

import numpy as np
import tensorflow as tf2
import tensorflow.compat.v1 as tf


def x_of(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _answers(sess, signatures, feeds):
    found = {}
    for name, signature in signatures.items():
        fed = {k: feeds[k] for k in signature.inputs}
        got = sess.run({k: v.name for k, v in signature.outputs.items()},
                       {signature.inputs[k].name: v for k, v in fed.items()})
        found[f"serve/{name}"] = fed, got
    return found


def _graph(path, training, folder):
    """Variables of both kinds, a partitioned one, a table made of an asset."""
    words = folder / "words.txt"
    words.write_text("red\ngreen\nblue\n")
    asset = tf.constant(str(words), name="asset_path")
    tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                                      tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 2)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    word = tf.placeholder(tf.string, [None], name="word")
    w = tf.get_variable("w", initializer=x_of(1, 4, 3), use_resource=False)
    b = tf.get_variable("b", initializer=x_of(2, 3), use_resource=True)
    embedding = tf.get_variable("embedding", [5, 3], initializer=tf.ones_initializer(),
                                partitioner=tf.fixed_size_partitioner(2))
    rows = tf.nn.embedding_lookup(embedding, table.lookup(word), partition_strategy="div")
    y = tf.nn.softmax(tf.matmul(x, w) + b, name="y")
    if training:
        y = tf.nn.dropout(y, rate=0.5)
    build, info = tf.saved_model.build_signature_def, tf.saved_model.build_tensor_info
    return {
        "serving_default": build({"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict"),
        "rows": build({"word": info(word)}, {"rows": info(rows)}, "tensorflow/serving/predict"),
    }


def _set_rows(sess):
    """The partitioned variable's rows: a part's initializer cannot be an array."""
    rows = x_of(3, 5, 3)
    for at, part in zip((0, 3), [v for v in tf.global_variables() if "embedding" in v.name]):
        part.load(rows[at:at + part.shape[0]], sess)


def graph(path, folder):
    """Two MetaGraphs: "serve", and "train"."""
    feeds = {"x": x_of(4, 2, 4), "word": np.array([b"blue", b"red", b"mauve"], object)}
    builder = tf.saved_model.Builder(str(path))
    with tf.Graph().as_default(), tf.Session() as sess:
        signatures = _graph(path, True, folder)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        _set_rows(sess)
        builder.add_meta_graph_and_variables(sess, ["train"], signatures)
    with tf.Graph().as_default(), tf.Session() as sess:
        signatures = _graph(path, False, folder)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        _set_rows(sess)
        answers = _answers(sess, signatures, feeds)
        builder.add_meta_graph(["serve"], signatures, main_op=tf.tables_initializer(),
                               assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS))
    builder.save()
    return answers


def legacy(path, folder):
    """legacy_init_op, text format, a loop, two outputs."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        n = tf.placeholder(tf.int32, [], name="n")
        total = tf.Variable(0.0, name="total", use_resource=False)
        local = tf.get_variable("local", initializer=0.0, use_resource=False,
                                collections=[tf.GraphKeys.LOCAL_VARIABLES])
        start = local.assign(2.5)
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5 + total),
                             [0, x + local])
        sess.run(tf.global_variables_initializer())
        sess.run([total.assign(0.25), start])
        build, info = tf.saved_model.build_signature_def, tf.saved_model.build_tensor_info
        signatures = {"serving_default": build({"x": info(x), "n": info(n)},
                                               {"y": info(y), "n_again": info(tf.identity(n))},
                                               "tensorflow/serving/predict")}
        answers = _answers(sess, signatures, {"x": x_of(5, 3), "n": np.int32(4)})
        builder = tf.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(sess, ["serve"], signatures,
                                             legacy_init_op=tf.group(start))
        builder.save(as_text=True)
    return answers


def _call(functions, feeds):
    found = {}
    for name, function in functions.items():
        got = function(**{k: tf2.constant(v) for k, v in feeds[name].items()})
        found[f"serve/{name}"] = feeds[name], {k: v.numpy() for k, v in got.items()}
    return found


def module(path, folder):
    """A tf.Module: functions with a loop and a branch, a table, a variable each function shares."""
    words = folder / "animals.txt"
    words.write_text("cat\ndog\nemu\n")

    class Model(tf2.Module):
        def __init__(self):
            super().__init__()
            self.scale = tf2.Variable(x_of(6, 3), name="scale")
            self.half = tf2.Variable(tf2.cast(x_of(7, 3), tf2.bfloat16), name="half")
            self.words = tf2.saved_model.Asset(str(words))
            self.table = tf2.lookup.StaticHashTable(
                tf2.lookup.TextFileInitializer(
                    self.words, tf2.string, tf2.lookup.TextFileIndex.WHOLE_LINE, tf2.int64,
                    tf2.lookup.TextFileIndex.LINE_NUMBER), -1)

        @tf2.function(input_signature=[tf2.TensorSpec([None, 3], tf2.float32, name="x")])
        def scaled(self, x):
            y = x * self.scale
            for _ in tf2.range(3):
                y = y + tf2.cast(self.half, tf2.float32)
            if tf2.reduce_sum(y) > 1000:
                y = -y
            return {"y": y, "norm": tf2.norm(y)}

        @tf2.function(input_signature=[tf2.TensorSpec([None], tf2.string, name="word")])
        def look_up(self, word):
            return {"number": self.table.lookup(word)}

    model = Model()
    functions = {"serving_default": model.scaled, "look_up": model.look_up}
    feeds = {"serving_default": {"x": x_of(8, 2, 3)},
             "look_up": {"word": np.array([b"emu", b"fox", b"cat"], object)}}
    tf2.saved_model.save(model, str(path), signatures=functions)
    return _call(functions, feeds)


def keras(path, folder):
    """Convolution, batch normalisation, LSTM and dense layers, exported."""
    tf2.keras.utils.set_random_seed(3)
    layers = tf2.keras.layers
    model = tf2.keras.Sequential([
        layers.Input((6, 5), name="sequence"), layers.Conv1D(4, 3, activation="relu"),
        layers.BatchNormalization(), layers.LSTM(3), layers.Dense(2, activation="softmax")])
    model.layers[1].set_weights([x_of(9 + i, 4) ** 2 + 0.5 for i in range(4)])
    x = x_of(14, 2, 6, 5)
    y = model(x).numpy()
    model.export(str(path), verbose=False)
    loaded = tf2.saved_model.load(str(path)).signatures["serving_default"]
    (key,) = loaded.structured_outputs
    (given,) = loaded.structured_input_signature[1]
    assert np.allclose(loaded(**{given: x})[key], y)
    return {"serve/serving_default": ({given: x}, {key: y})}


MODELS = {"graph": graph, "legacy": legacy, "module": module, "keras": keras}


def record(data, shutil):
    answers = {}
    for name, write in MODELS.items():
        path = data / name
        shutil.rmtree(path, ignore_errors=True)
        work = pathlib.Path("/tmp/saved_models")     # the graphs keep the assets' paths
        work.mkdir(exist_ok=True)
        for key, (inputs, outputs) in write(path, work).items():
            for kind, arrays in (("in", inputs), ("out", outputs)):
                for key2, value in arrays.items():
                    value = np.asarray(value)
                    if value.dtype == object:
                        value = value.astype("S")
                    answers[f"{name}|{key}|{kind}|{key2}"] = value
        shutil.rmtree(work)
        for extra in ("fingerprint.pb", "keras_metadata.pb"):
            if os.path.exists(path / extra):
                os.unlink(path / extra)
    np.savez_compressed(data / "answers.npz", **answers)
