"""tf.test: sessions, assertions, Jacobians.  Literals are TF 2.21's answers where it has any."""
import collections

import numpy as np
import pytest

import pyflow as tf


class Case(tf.test.TestCase):
    def setUp(self):
        """As programs do that forget super().setUp()."""

    def runTest(self):  # noqa: N802
        """Nothing."""


@pytest.fixture
def case():
    with tf.Graph().as_default():
        yield Case()


def fails(check, *arguments, **more):
    with pytest.raises(AssertionError):
        check(*arguments, **more)


def test_sessions_are_soft_and_on_the_cpu(case):
    for opened in (case.session, case.cached_session, case.test_session):
        with opened() as sess:
            assert tf.constant(1.0).op.device == "/device:CPU:0"
            assert sess._config.allow_soft_placement
    with case.session(use_gpu=True):
        assert tf.constant(1.0).op.device == ""
    with case.cached_session() as first, case.cached_session() as second:
        assert first is second
    with pytest.raises(ValueError, match="config used to get the cached session is different"):
        with case.cached_session(config=tf.ConfigProto()):
            pass
    case.tearDown()


def test_equal_arrays(case):
    same, other = case.assertAllEqual, case.assertNotAllEqual
    same([b"\xff\xfe"], [b"\xff\xfe"])
    same(np.array([b"\xff"]), np.array([b"\xff"], object))
    same(["ä"], ["ä".encode()])
    same([[1], [2, 3]], [[1], [2, 3]])
    same([[b"a"], []], [["a"], []])
    same([1, 2], np.array([1, 2]))
    for a, b in (([b"\xff"], [b"\xfe"]), ([1, 2], [1, 3]), ([[1], [2, 3]], [[1], [2, 4]]),
                 ([[1], [2, 3]], [[1], [2]]), ([1], [[1]])):
        fails(same, a, b)
        other(a, b)


def test_close_arrays(case):
    close = case.assertAllClose
    close([1.0, 2.0], [1.05, 2.2], atol=np.array([0.1, 0.3]))
    fails(close, [1.0, 2.0], [1.05, 2.2], atol=np.array([0.1, 0.1]))
    close([1.0, 2.0], [1.05, 2.2], rtol=[0.1, 0.1])
    close({"a": [1.0]}, {"a": [1.0]})
    close([[1.0], [2.0, 3.0]], [[1.0], [2.0, 3.0]])
    close([1.0, np.nan, np.inf], [1.0, np.nan, np.inf])
    pair = collections.namedtuple("pair", "a b")
    close(pair(1.0, [2.0]), {"a": tf.constant(1.0), "b": [tf.constant(2.0)]})
    for a, b in (({"a": 1.0}, 1.0), (1.0, pair(1.0, 2.0))):
        with pytest.raises(ValueError, match="Can't compare dict to non-dict"):
            close(a, b)
    for a, b in (({"a": 1.0}, {"b": 1.0}), ([1.0], [[1.0]]), ([1.0], [np.nan])):
        fails(close, a, b)


def test_other_assertions(case):
    case.assertProtoEquals('op: "a"', tf.NodeDef(op="a"))
    case.assertProtoEquals(tf.NodeDef(op="a"), tf.NodeDef(op="a"))
    fails(case.assertProtoEquals, 'op: "b"', tf.NodeDef(op="a"))
    fails(case.assertProtoEquals, tf.GraphDef(), tf.NodeDef(op="a"))
    case.assertProtoEqualsVersion("", tf.Graph().as_graph_def())
    case.assertItemsEqual([1, 2, 2], [2, 1, 2])
    fails(case.assertItemsEqual, [1, 2], [2, 2])
    case.assertAllInRange([1, 2], 1, 2)
    fails(case.assertAllInRange, [1, 2], 1, 2, open_lower_bound=True)
    case.assertAllInSet([1, 2], {1, 2, 3})
    fails(case.assertAllInSet, [1, 5], {1, 2, 3})
    case.assertDTypeEqual(np.float32([1]), tf.float32)
    fails(case.assertDTypeEqual, np.float32([1]), np.float64)
    assert tf.test.mock.MagicMock()() is not None


def test_checked_threads(case):
    seen = []
    thread = case.checkedThread(seen.append, args=(3,))
    thread.start(), thread.join()
    assert seen == [3] and not thread.is_alive()
    failing = case.checkedThread(lambda: 1 / 0)
    failing.start()
    fails(failing.join)
    left = case.checkedThread(lambda: 1 / 0)
    left.start()
    fails(case.tearDown)


def test_benchmarks(capsys):
    class Adds(tf.test.Benchmark):
        def benchmarkAdd(self):  # noqa: N802
            with tf.Graph().as_default(), tf.Session(config=tf.test.benchmark_config()) as sess:
                self.result = self.run_op_benchmark(sess, tf.constant(1.0) + 1.0, min_iters=3)
    adds = Adds()
    assert adds.run("Add") == ["benchmarkAdd"] and adds.run("nothing") == []
    assert adds.result["iters"] == 3 and adds.result["wall_time"] > 0
    assert "iters 3" in capsys.readouterr().out


def jacobians(*arguments, **more):
    found = tf.test.compute_gradient(*arguments, **more)
    return [[np.round(j, 4).tolist() for j in pair]
            for pair in (found if isinstance(found, list) else [found])]


def test_jacobians():
    with tf.Graph().as_default(), tf.Session():
        x, z = tf.placeholder(tf.float64, [2]), tf.placeholder(tf.float64, [3])
        k, at = tf.placeholder(tf.float64, []), np.array([1.0, 2.0])
        square = [[2.0, 0.0], [0.0, 4.0]]
        assert jacobians(x, [2], x * x, [2], at) == [[square, square]]
        three = [[3.0, 0.0], [0.0, 3.0]]
        assert jacobians(x, [2], x * k, [2], at, extra_feed_dict={k: 3.0}) == [[three, three]]
        ones = [[1.0, 0.0], [0.0, 1.0]]
        assert jacobians(x, [2], x + 0.0, [2], at) == [[ones, ones]]
        assert jacobians([x], [[2]], x * x, [2], [at]) == [[square, square]]
        pair = jacobians([x, k], [[2], []], x * x + 0.0 * k, [2], [at, np.array(1.0)],
                         extra_feed_dict={x: at, k: 1.0})
        assert pair == [[square, square], [[[0.0, 0.0]], [[0.0, 0.0]]]]
        assert tf.test.compute_gradient_error(x, [2], x * x, [2], at) < 1e-6
        assert tf.test.compute_gradient_error(z, [3], tf.exp(z), [3]) < 1e-4
        with pytest.raises(ValueError, match="init_data shape"):
            jacobians(x, [2], x * x, [2], np.ones(3))
        with pytest.raises(ValueError, match="does not depend"):
            jacobians(x, [2], z * z, [3], at)
        with pytest.raises(TypeError, match="int32"):
            jacobians(tf.constant(1), [], x, [2])


def test_jacobians_of_complex_and_sparse_gradients():
    with tf.Graph().as_default(), tf.Session():
        c, x = tf.placeholder(tf.complex128, [1]), tf.placeholder(tf.float64, [2])
        whole = [[2.0, 4.0], [-4.0, 2.0]]               # d(z^2) at 1 + 2i: rows Re, Im
        assert jacobians(c, [1], c * c, [1], np.array([1 + 2j])) == [[whole, whole]]
        real = [[2.0], [-4.0]]
        assert jacobians(c, [1], tf.real(c * c), [1], np.array([1 + 2j])) == [[real, real]]
        assert jacobians(x, [2], tf.complex(x, x * x), [2], np.array([1.0, 2.0])) == [
            [[[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 4.0]]] * 2]
        w = tf.placeholder(tf.float64, [3, 1])          # a gather's gradient is IndexedSlices
        rows = [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        assert jacobians(w, [3, 1], tf.gather(w, [0, 2, 0]), [3, 1], np.ones([3, 1])) == [
            [rows, rows]]
        e = tf.placeholder(tf.float64, [0])
        assert tf.test.compute_gradient(e, [0], e * 2.0, [0])[0].shape == (0, 0)


def test_targets_that_initialize():
    with tf.Graph().as_default(), tf.Session():
        x, v = tf.placeholder(tf.float64, [1]), tf.Variable([2.0], dtype=tf.float64)
        assert jacobians(x, [1], x * v, [1], np.ones(1), init_targets=[v.initializer]) == [
            [[[2.0]], [[2.0]]]]
