"""Models to serve, and a client: what the tests of this folder share.

    write_zoo(folder / "zoo" / "1")           a SavedModel with a signature for each thing to ask
    with Served({"zoo": folder / "zoo"}) as server:
        server.ask("POST", "/v1/models/zoo:predict", {"instances": [1.0]})
"""
import asyncio
import http.client
import json
import pathlib
import threading

import numpy as np

import pyflow as tf
from pyflow.serving import app as app_lib, batching, models, servable, server

SAVED = pathlib.Path(__file__).resolve().parents[1] / "saved" / "data"
ANSWERS = np.load(SAVED / "answers.npz")        # what TensorFlow answered
FROM_TENSORFLOW = sorted({tuple(key.split("|")[:2]) for key in ANSWERS
                          if key.split("|")[1].startswith("serve/")})
W = np.float32([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
TYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64", "bool")


def write_half(folder, b):
    """y = x / 2 + b."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.add(x * 0.5, tf.Variable(float(b)), name="y")
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, str(folder), {"x": x}, {"y": y})


def write_zoo(folder):
    with tf.Graph().as_default(), tf.Session() as sess:
        signatures = {name: make() for name, make in _ZOO.items()}
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(sess, ["serve"], signatures)
        builder.save()


def predict(inputs, outputs, method="predict"):
    infos = [{k: tf.saved_model.build_tensor_info(t) for k, t in given.items()}
             for given in (inputs, outputs)]
    return tf.saved_model.build_signature_def(*infos, f"tensorflow/serving/{method}")


def _half():
    x = tf.placeholder(tf.float32, [None])
    return predict({"x": x}, {"y": x * 0.5 + tf.Variable(2.0)})


def _pair():
    a, b = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int64, [None])
    return predict({"a": a, "b": b}, {"c": tf.matmul(a, tf.constant(W)), "b": b * 2})


def _types():
    given = {t: tf.placeholder(tf.as_dtype(t), None) for t in TYPES}
    return predict(given, {t: tf.identity(x) for t, x in given.items()})


def _text():
    words = tf.placeholder(tf.string, [None])
    return predict({"words": words}, {"same": tf.identity(words), "same_bytes": tf.identity(words)})


def _checked():
    x = tf.placeholder(tf.float32, [None, 2])
    return predict({"x": x}, {"y": tf.check_numerics(tf.matmul(x, tf.constant(W)), "no number")})


def _count():
    n = tf.placeholder(tf.int32, [])
    return predict({"n": n}, {"n": tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])})


def _total():
    x = tf.placeholder(tf.float32, [None])
    return predict({"x": x}, {"total": tf.reduce_sum(x), "x": x + 0.0})


def _told():
    """A text alone, beside rows; its number of rows depends on the values."""
    x = tf.placeholder(tf.float32, [None])
    return predict({"x": x}, {"about": tf.as_string(tf.reduce_sum(x), precision=1),
                              "raw_bytes": tf.constant(b"\xff")})


def _kept():
    x = tf.placeholder(tf.float32, [None])
    return predict({"x": x}, {"a_kept": tf.boolean_mask(x, x > 0), "x": x + 0.0})


def _classify():
    x = tf.placeholder(tf.float32, [None, 2])
    scores = tf.nn.softmax(tf.matmul(x, tf.constant(W)))
    classes = tf.tile(tf.constant([["red", "green", "blue"]]), tf.stack([tf.shape(x)[0], 1]))
    return predict({"x": x}, {"classes": classes, "scores": scores}, "classify")


def _scores():
    a, b = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None, 1])
    return predict({"a": a, "b": b}, {"scores": tf.stack([a, b[:, 0]], 1)}, "classify")


def _regress():
    x = tf.placeholder(tf.float32, [None, 1])
    return predict({"x": x}, {"outputs": x * 0.5 + 3.0}, "regress")


def _examples():
    text = tf.placeholder(tf.string, [None])
    return predict({"inputs": text}, {"outputs": tf.cast(tf.strings.length(text), tf.float32)},
                   "regress")


def _parsed():
    """As exporters of estimators write them: examples, parsed in the graph."""
    text = tf.placeholder(tf.string, [None])
    found = tf.parse_example(text, {
        "x": tf.FixedLenFeature([2], tf.float32), "n": tf.FixedLenFeature([], tf.int64, 1),
        "word": tf.FixedLenFeature([], tf.string, "none")})
    scores = tf.matmul(found["x"], tf.constant(W)) * tf.cast(found["n"], tf.float32)[:, None]
    classes = tf.tile(found["word"][:, None], [1, 3])
    return predict({"inputs": text}, {"classes": classes, "scores": scores}, "classify")


def _sparse():
    x = tf.sparse_placeholder(tf.float32, [None, 3])
    return predict({"x": x}, {"y": tf.sparse_tensor_to_dense(x)})


_ZOO = {"serving_default": _half, "pair": _pair, "types": _types, "text": _text,
        "checked": _checked, "count": _count, "total": _total, "told": _told,
        "kept": _kept, "classify": _classify,
        "scores": _scores, "regress": _regress, "examples": _examples, "parsed": _parsed,
        "sparse": _sparse}


class Served:
    """A server in a thread of this process, with the options of batching and limits."""

    def __init__(self, folders, keep=1, labels=None, open_version=servable.of_saved_model,
                 limits=None, **options):
        found = {name: models.ServedModel(name, path, open_version, keep, labels)
                 for name, path in folders.items()}
        self.app = app_lib.App(found, batching.Runner(batching.Batching(**options)),
                               app_lib.Limits(**(limits or {"poll": 0.0})))

    def __enter__(self):
        asyncio.run(self.app.start())
        self._sock = server.bound("127.0.0.1", 0)
        self._sock.listen(256)
        self.port = self._sock.getsockname()[1]
        self._server = server.uvicorn_server(self.app)
        self._thread = threading.Thread(target=self._server.run, args=([self._sock],))
        self._thread.start()
        self._kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return self

    def __exit__(self, *_):
        self._kept.close()
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def ask(self, method, path, value=None, headers=None):
        """(status, JSON value) on a connection that is kept."""
        return ask(self._kept, method, path, value, headers)


def ask(connection, method, path, value=None, headers=None):
    body = value if isinstance(value, (bytes, type(None))) else json.dumps(value).encode()
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "application/json"
    found = json.loads(answer.read())
    return answer.status, found


def body(**request):
    return json.dumps(request).encode()
