"""Whatever Python object a graph holds dies with the graph: kinds of objects times ways to use it.

Each kind builds, in the default graph, something that captures `held`, and returns (a placeholder,
what to run).  With `friends`, the captured list will hold the graph and its session: a cycle."""
import gc
import tempfile
import time
import weakref

import numpy as np
import pytest

import pyflow as tf
from pyflow.lib.function.defun import Defun

experimental = tf.data.experimental


def called(held, friends):
    def function(x):
        y = tf.py_func(lambda v: (held, friends, v + np.float32(1))[2], [x], tf.float32)
        y.set_shape(x.shape)
        return y
    return function


def generated(held, friends):
    def generator():
        try:
            for _ in range(9):
                yield (held, friends, np.float32(1))[2]
        finally:
            friends[1:1] = ["closed"]           # whoever looks sees that it ran
    return generator


@tf.function
def module_function(x):
    return x * 2.0


@Defun(tf.float32)
def module_defun(x):
    return x * 2.0


def custom(held, friends):
    return tf.custom_gradient(lambda x: (x * 2.0, lambda dy: (held, friends, dy * 3.0)[2]))


def differentiated(held, friends, x):
    return tf.gradients(custom(held, friends)(x), x)[0]


KINDS = {
    "py_func": lambda h, f, x: called(h, f)(x),
    "stateless": lambda h, f, x: tf.py_func(
        lambda v: (h, f, v)[2], [x], tf.float32, stateful=False),
    "numpy_function": lambda h, f, x: tf.numpy_function(lambda v: (h, f, v)[2], [x], tf.float32),
    "while_loop": lambda h, f, x: tf.while_loop(lambda i: i < 3.0, called(h, f), [x]),
    "cond": lambda h, f, x: tf.cond(x > 0, lambda: called(h, f)(x), lambda: x),
    "map_fn": lambda h, f, x: tf.map_fn(called(h, f), tf.stack([x, x])),
    "function": lambda h, f, x: tf.function(called(h, f))(x),
    "defun": lambda h, f, x: Defun(tf.float32)(called(h, f))(x),
    "module_function": lambda h, f, x: module_function(called(h, f)(x)),
    "module_defun": lambda h, f, x: module_defun(called(h, f)(x)),
    "template": lambda h, f, x: tf.make_template("t", called(h, f))(x),
    "custom_gradient": lambda h, f, x: custom(h, f)(x),
    "differentiated": differentiated,
    "summary": lambda h, f, x: tf.summary.merge([tf.summary.scalar("s", called(h, f)(x))]),
    "optimizer": lambda h, f, x: tf.train.AdamOptimizer().minimize(
        tf.get_variable("v", [], initializer=tf.zeros_initializer()) * called(h, f)(x)),
    "reduce": lambda h, f, x: x + floats().reduce(np.float32(0), lambda a, b: a + called(h, f)(b)),
}


def floats():
    return tf.data.Dataset.range(4).map(lambda i: tf.cast(i, tf.float32))


def one(function):
    return lambda x: tf.data.Dataset.from_tensors(function(x))


DATASETS = {
    "generator": lambda h, f: tf.data.Dataset.from_generator(generated(h, f), tf.float32, []),
    "generator_ahead": lambda h, f: tf.data.Dataset.from_generator(
        generated(h, f), tf.float32, []).prefetch(1),
    "map": lambda h, f: floats().map(called(h, f)),
    "parallel_map": lambda h, f: floats().map(called(h, f), num_parallel_calls=2),
    "map_ahead": lambda h, f: floats().map(called(h, f)).prefetch(2),
    "filter": lambda h, f: floats().filter(lambda x: called(h, f)(x) > 0),
    "flat_map": lambda h, f: floats().flat_map(one(called(h, f))),
    "interleave": lambda h, f: floats().interleave(one(called(h, f)), 2),
    "parallel_interleave": lambda h, f: floats().interleave(
        one(called(h, f)), 2, num_parallel_calls=2),
    "scan": lambda h, f: floats().apply(experimental.scan(
        np.float32(0), lambda s, x: (s + called(h, f)(x), x))),
    "group_by_window": lambda h, f: floats().apply(experimental.group_by_window(
        lambda x: tf.cast(called(h, f)(x), tf.int64), lambda _, window: window, 2)),
    "map_and_batch": lambda h, f: floats().apply(experimental.map_and_batch(called(h, f), 2)).map(
        lambda x: x[0]),
}


def with_iterator(dataset, number):
    """An element: a one-shot iterator's, an initialisable one's, one by its string handle."""
    if number % 3 == 0:
        return dataset.make_one_shot_iterator().get_next()
    iterator = dataset.make_initializable_iterator()
    tf.add_to_collection("begin", iterator.initializer)
    if number % 3 == 1:
        return iterator.get_next()
    return tf.data.Iterator.from_string_handle(
        iterator.string_handle(), dataset.output_types, dataset.output_shapes).get_next()


def never(session, x, y):
    session.close()


def closed(session, x, y):
    session.run(y)
    session.close()


def left_open(session, x, y):
    session.run(y)


def failed(session, x, y):
    with session.graph.as_default(), session.graph.control_dependencies(
            [getattr(part, "op", part) for part in (y if isinstance(y, (list, tuple)) else [y])]):
        bad = tf.py_func(lambda: 1 / 0, [], tf.float32)
    with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
        session.run(bad)


def ended_by_exception(session, x, y):
    with pytest.raises(KeyError), session:
        session.run(y)
        raise KeyError


def in_parts(session, x, y):
    session.partial_run(session.partial_run_setup([y], [x]), y, {x: 1.0})
    session.partial_run_setup([y], [x])


def callable_only(session, x, y):
    session.make_callable(y)()


def monitored(session, x, y):
    class Keeps(tf.train.SessionRunHook):
        def after_run(self, context, values):
            self.last = context, session, y
    with session.graph.as_default():
        hooks = [Keeps(), tf.train.LoggingTensorHook({"x": x}, every_n_iter=1)]
        with tf.train.MonitoredSession(hooks=hooks) as other:
            for begin in tf.get_collection("begin"):
                other.run(begin)
            other.run(y)


WAYS = [never, closed, left_open, failed, ended_by_exception, in_parts, callable_only, monitored]


def built_and_used(kind, way, number, target=""):
    """(weak references to what the graph held and to the graph, the list of friends' marks)"""
    held, marks = np.zeros(9), []
    graph = tf.Graph()
    friends = [graph]
    with graph.as_default():
        x = tf.placeholder_with_default(np.float32(1), [])
        if kind in KINDS:
            y = KINDS[kind](held, friends, x)
        else:
            y = with_iterator(DATASETS[kind](held, friends), number) + 0.0 * x
            if "generator" in kind:
                friends[:] = []                 # it tells `marks` when it ends
                marks = friends
        initializers = [tf.global_variables_initializer(), *tf.get_collection("begin")]
    session = tf.Session(target, graph=graph)
    if "generator" not in kind:
        friends.append(session)
    if way is not never:
        session.run(initializers)
    way(session, x, y)
    return weakref.ref(held), weakref.ref(graph), marks


def still_there(references, seconds=5):
    """The kinds whose object lives after all; threads that end may take a moment."""
    end = time.monotonic() + seconds
    while True:
        gc.collect()
        alive = [kind for kind, (held, graph, _) in references.items() if held() is not None
                 or graph() is not None]
        if not alive or time.monotonic() > end:
            return alive
        time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_it_dies_with_the_graph(way):
    number = WAYS.index(way)
    references = {kind: built_and_used(kind, way, number + i)
                  for i, kind in enumerate([*KINDS, *DATASETS])}
    assert still_there(references) == []
    if way is not never:
        for kind in ("generator", "generator_ahead"):
            assert "closed" in references[kind][2], f"{kind}: its `finally` did not run"


def test_it_dies_with_the_graph_of_a_session_at_a_server():
    server = tf.train.Server.create_local_server()
    ways = [closed, left_open, failed, ended_by_exception]
    kinds = ["py_func", "stateless", "while_loop", "function", "reduce", "generator", "map",
             "parallel_map"]
    references = {kind: built_and_used(kind, ways[i % len(ways)], i, server.target)
                  for i, kind in enumerate(kinds)}
    assert still_there(references) == []
    assert "closed" in references["generator"][2]


@pytest.mark.parametrize("kind", ["py_func", "defun", "function", "map", "generator"])
def test_an_imported_graph_holds_it_too(kind):
    held, friends = np.zeros(9), []
    reference = weakref.ref(held)
    with tf.Graph().as_default() as first:
        x = tf.placeholder_with_default(np.float32(1), [])
        y = KINDS[kind](held, friends, x) if kind in KINDS else with_iterator(
            DATASETS[kind](held, friends), 0)
        tf.identity(y, "y")
    with tf.Graph().as_default() as second:
        [y] = tf.import_graph_def(first.as_graph_def(), return_elements=["y:0"])
    definition = first.as_graph_def()
    del first, x, held
    gc.collect()
    assert reference() is not None
    with tf.Session(graph=second) as session:
        assert session.run(y) in (1.0, 2.0)
    del second, session, y
    gc.collect()
    assert reference() is None
    with tf.Graph().as_default() as third:
        [y] = tf.import_graph_def(definition, return_elements=["y:0"])
        with tf.Session(graph=third) as session:
            with pytest.raises(tf.errors.NotFoundError, match="is not registered in this process"):
                session.run(y)


def test_an_imported_graph_holds_the_gradient_of_custom_gradient():
    held = np.zeros(9)
    reference = weakref.ref(held)
    with tf.Graph().as_default() as first:
        x = tf.placeholder(tf.float32, [], "x")
        tf.identity(custom(held, [])(x), "y")
    with tf.Graph().as_default() as second:
        x, y = tf.import_graph_def(first.as_graph_def(), return_elements=["x:0", "y:0"])
        del first, held
        gc.collect()
        gradient = tf.gradients(y, x)[0]
        with tf.Session(graph=second) as session:
            assert session.run(gradient, {x: 1.0}) == 3.0
    del second, x, y, gradient, session
    gc.collect()
    assert reference() is None


def test_a_defun_is_traced_anew_once_its_graph_is_gone():
    traced = []

    @Defun(tf.float32, func_name="Anew")
    def function(x):
        traced.append(1)
        return x + 1.0
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            y = function(1.0) + function(2.0)
            with tf.Graph().as_default() as other:
                z = function(5.0)
            with tf.Session(graph=graph) as session, tf.Session(graph=other) as second:
                assert session.run(y) == 5.0 and second.run(z) == 6.0
        del graph, other, session, second, y, z
        gc.collect()
    assert len(traced) == 2


def test_evaluation_and_prediction_keep_nothing_of_the_inputs():
    references = []

    def model(features, labels, mode):
        found = tf.layers.dense(features, 1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=found)
        loss = tf.reduce_mean((found - labels) ** 2)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def inputs():
        large = np.ones([2, 3], np.float32)
        references.append(weakref.ref(large))
        return tf.data.Dataset.from_generator(
            lambda: ((large, np.ones([2, 1], np.float32)) for _ in range(3)),
            (tf.float32, tf.float32), ([2, 3], [2, 1]))

    estimator = tf.estimator.Estimator(model, tempfile.mkdtemp())
    estimator.train(inputs, steps=1)
    for _ in range(3):
        estimator.evaluate(inputs, steps=1)
        assert len(list(estimator.predict(inputs))) == 6
        next(iter(estimator.predict(inputs)))       # left before its end
    gc.collect()
    assert len(references) == 10 and [r for r in references if r() is not None] == []


@pytest.mark.long
def test_the_heap_stays_flat_over_150_graphs():
    import tracemalloc
    tracemalloc.start()
    try:
        for number in range(150):
            built_and_used("py_func", closed, number)
            built_and_used("generator", left_open, number)
            if number in (50, 149):
                gc.collect()
                size = tracemalloc.get_traced_memory()[0]
                first = size if number == 50 else first
        assert size - first < 200_000
    finally:
        tracemalloc.stop()
