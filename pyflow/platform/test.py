"""tf.test: a TestCase with TF's assertions, `main`, temporary folders.

    class SquareTest(tf.test.TestCase):
        def testSquare(self):
            with self.session():
                self.assertAllEqual(tf.square([2, 3]).eval(), [4, 9])

    if __name__ == "__main__":
        tf.test.main()
"""
import contextlib
import os
import random
import re
import tempfile
import threading
import unittest
from collections import abc
from unittest import mock

import numpy as np

from pyflow.framework import errors
from pyflow.framework import graph as graph_lib
from pyflow.platform.test_assertions import Assertions
from pyflow.platform.test_benchmark import Benchmark, benchmark_config
from pyflow.platform.test_gradients import compute_gradient, compute_gradient_error
from pyflow.session import Session

__all__ = ["Benchmark", "TestCase", "benchmark_config", "compute_gradient",
           "compute_gradient_error", "create_local_cluster", "get_temp_dir", "gpu_device_name",
           "is_built_with_cuda", "is_built_with_gpu_support", "is_built_with_rocm",
           "is_gpu_available", "main", "mock", "test_src_dir_path"]


def main(argv=None):
    """Runs the tests of the main module."""
    unittest.main(argv=argv)


def get_temp_dir():
    """A temporary folder that lives as long as the process."""
    global _temporary
    if _temporary is None:
        _temporary = tempfile.TemporaryDirectory(prefix="pyflow_test_")
    return _temporary.name


_temporary = None


def test_src_dir_path(relative_path):
    """`relative_path` below TensorFlow's sources where TEST_SRCDIR, as Bazel sets it, says where
    they are; else below the folder of the running program."""
    import sys
    if os.environ.get("TEST_SRCDIR"):
        return os.path.join(os.environ["TEST_SRCDIR"], "org_tensorflow/tensorflow", relative_path)
    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), relative_path)


test_src_dir_path.__test__ = False       # not a test, whatever its name says


def create_local_cluster(num_workers, num_ps, protocol="grpc", worker_config=None, ps_config=None):
    """(workers, parameter servers): lists of tf.train.Server in this process, on free ports.

    TF: tf.test.create_local_cluster.  worker_config, ps_config: ConfigProto, or None."""
    from pyflow.distributed.run import server
    return server.create_local_cluster(num_workers, num_ps, protocol, worker_config, ps_config)


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """True if a plugin offers a GPU."""
    from pyflow.session import runtime
    return any(kind == "GPU" for kind, _, _ in runtime.start().devices())


def is_built_with_cuda():
    """False: accelerators come as plugins."""
    return False


def is_built_with_rocm():
    """False: accelerators come as plugins."""
    return False


def is_built_with_gpu_support():
    """False: accelerators come as plugins."""
    return False


def gpu_device_name():
    """The first GPU's name, or an empty string."""
    return "/device:GPU:0" if is_gpu_available() else ""


def assert_equal_graph_def(actual, expected, checkpoint_v2=False, hash_table_shared_name=False):
    """AssertionError unless two GraphDefs have the same nodes, whatever their order."""
    from pyflow.framework.protos import GraphDef
    for graph_def, name in ((actual, "actual"), (expected, "expected")):
        if not isinstance(graph_def, GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(graph_def).__name__}")
    ours, theirs = ({node.name: node for node in g.node} for g in (actual, expected))
    for what, names in (("Found unexpected", sorted(set(ours) - set(theirs), reverse=True)),
                        ("Did not find expected", sorted(set(theirs) - set(ours), reverse=True))):
        if names:
            others = f" and {len(names) - 1} more" if names[1:] else ""
            raise AssertionError(f"{what} node '{{{{node {names[0]}}}}}'{others}")
    differ = [n for n in sorted(ours) if ours[n] != theirs[n]]
    if differ:
        raise AssertionError(f"graphs differ in the nodes {', '.join(differ[:5])}; the first is "
                             f"{ours[differ[0]]}for {theirs[differ[0]]}")


class TestCase(Assertions, unittest.TestCase):
    """unittest.TestCase with sessions and array assertions.
    methodName: of the test, as unittest gives it.

        >>> class SquareTest(tf.test.TestCase):
        ...     def test_it(self):
        ...         with self.test_session():
        ...             self.assertAllClose(tf.square([2.0, 3.0]).eval(), [4.0, 9.0])
        >>> SquareTest("test_it").debug()                               # raises where it fails
    """

    _cached_session = None               # of the class: setUp may be overridden

    def setUp(self):
        super().setUp()
        self._close_cached_session()
        random.seed(87654321)
        np.random.seed(87654321)
        graph_lib.reset_default_graph()
        graph_lib.set_random_seed(87654321)
        self._threads = []

    def tearDown(self):
        for thread in getattr(self, "_threads", ()):
            thread.check_termination()
        self._close_cached_session()
        super().tearDown()

    def _close_cached_session(self):
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self):
        """A folder of this test's own."""
        folder = os.path.join(get_temp_dir(), re.sub(r"\W", "_", self.id()))
        os.makedirs(folder, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """A new session as default, its graph as default. Ops are placed on the CPU unless
        `use_gpu`, and softly unless `force_gpu`."""
        with Session(graph=graph, config=_test_config(config, force_gpu)) as sess:
            with _test_device(sess.graph, use_gpu, force_gpu):
                yield sess

    @contextlib.contextmanager
    def cached_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """One session for the whole test method. ValueError for another graph or config later."""
        if self._cached_session is None:
            self._cached_session = Session(
                graph=graph, config=_test_config(config, force_gpu))
            self._cached_arguments = graph, config, force_gpu
        elif self._cached_arguments[0] is not graph:
            raise ValueError("The graph used to get the cached session is different than the one "
                             "that was used to create the session. Maybe create a new session "
                             "with self.session()")
        elif self._cached_arguments[1] is not config:
            raise ValueError("The config used to get the cached session is different than the one "
                             "that was used to create the session. Maybe create a new session "
                             "with self.session()")
        elif self._cached_arguments[2] is not force_gpu:
            raise ValueError("The force_gpu value used to get the cached session is different than "
                             "the one that was used to create the session. Maybe create a new "
                             "session with self.session()")
        sess = self._cached_session
        with sess.graph.as_default(), sess.as_default():
            with _test_device(sess.graph, use_gpu, force_gpu):
                yield sess

    @contextlib.contextmanager
    def test_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """As `cached_session` without a graph, else as `session`."""
        context = self.cached_session if graph is None else self.session
        with context(graph=graph, config=config, use_gpu=use_gpu, force_gpu=force_gpu) as sess:
            yield sess

    test_session.__test__ = False        # not a test, whatever its name says

    def checkedThread(self, target, args=None, kwargs=None):  # noqa: N802
        """A thread whose `join` raises what `target` raised; a test that ends with one running
        fails."""
        thread = _CheckedThread(self, target, args, kwargs)
        self.__dict__.setdefault("_threads", []).append(thread)
        return thread

    def evaluate(self, tensors):
        """Their values in the default session."""
        sess = graph_lib.get_default_session()
        if sess is None:
            with self.cached_session() as sess:
                return sess.run(tensors)
        return sess.run(tensors)

    def _value(self, x):
        if isinstance(x, (graph_lib.Tensor, graph_lib.Operation)) or hasattr(
            x, "_as_graph_element"
        ):
            return self.evaluate(x)
        return x

    def _values(self, x):
        """A value, or a list or tuple of them, with tensors evaluated."""
        if type(x) in (list, tuple):
            return type(x)(self._values(item) for item in x)
        return self._value(x)

    # ------------------------------------------------------------ arrays

    def _array(self, x):
        x = self._value(x)
        return x if isinstance(x, np.ndarray) else np.array(x)

    _GetNdArray = _array                 # the name that TensorFlow's own tests use

    def assertShapeEqual(self, np_array, tf_tensor, msg=None):  # noqa: N802 - TF's names
        """The array and the tensor have one shape, all of it known."""
        self.assertEqual(list(np_array.shape), tf_tensor.get_shape().as_list(), msg)

    def assertAllEqual(self, a, b, msg=None):  # noqa: N802
        """Arrays, values or tensors (evaluated), ragged nests too, are equal in shape and
        elements. Strings are compared as bytes; text as UTF-8."""
        a, b = self._value(a), self._value(b)
        if _ragged(a) or _ragged(b):
            self.assertEqual(_nested(a), _nested(b), msg)
            return
        a, b = self._array(a), self._array(b)
        if a.dtype.kind in "SUO" or b.dtype.kind in "SUO":
            a, b = _as_bytes(a), _as_bytes(b)
        np.testing.assert_array_equal(a, b, err_msg=msg or "")

    def assertItemsEqual(self, items1, items2, msg=None):  # noqa: N802
        """The same items as often, in any order: Python 2's name of assertCountEqual."""
        self.assertCountEqual(items1, items2, msg)

    def assertProtoEquals(self, expected_message_maybe_ascii, message, msg=None):  # noqa: N802
        """The message equals another of its class, or what a text in protobuf's format says."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, str):
            from google.protobuf import text_format
            expected = text_format.Merge(expected, type(message)())
        elif type(expected) is not type(message):
            self.fail(self._formatMessage(msg, f"Can't compare protos of type "
                                               f"{type(expected)} and {type(message)}"))
        self.assertMultiLineEqual(str(expected), str(message), msg)
        self.assertEqual(expected, message, msg)

    def assertProtoEqualsVersion(self, expected, actual, producer=None,  # noqa: N802
                                 min_consumer=None, msg=None):
        """assertProtoEquals for a GraphDef text without its versions, which are added."""
        producer = graph_lib.PRODUCER_VERSION if producer is None else producer
        consumer = graph_lib.MIN_CONSUMER_VERSION if min_consumer is None else min_consumer
        self.assertProtoEquals(f"versions {{ producer: {producer} min_consumer: {consumer} }}\n"
                               f"{expected}", actual, msg)

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):  # noqa: N802
        """Arrays, values, tensors or nests of them: |a - b| <= atol + rtol |b|; NaN equals NaN.
        rtol and atol: numbers, or arrays that broadcast."""
        a, b = (x._asdict() if hasattr(x, "_asdict") else self._values(x) for x in (a, b))
        if isinstance(a, abc.Mapping) or isinstance(b, abc.Mapping):
            if not (isinstance(a, abc.Mapping) and isinstance(b, abc.Mapping)):
                raise ValueError(f"Can't compare dict to non-dict: {type(a)} and {type(b)}. "
                                 f"{msg or ''}")
            self.assertEqual(set(a), set(b), msg or "mismatched keys")
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg or f"at {key}")
        elif isinstance(a, (list, tuple)) and any(_ragged(x) for x in (a, b)):
            self.assertEqual(len(a), len(b), msg)
            for x, y in zip(a, b):
                self.assertAllClose(x, y, rtol, atol, msg)
        else:
            a, b = self._array(a), self._array(b)
            if np.float16 in (a.dtype, b.dtype) or "bfloat16" in (a.dtype.name, b.dtype.name):
                a, b = a.astype(np.float32), b.astype(np.float32)
            self.assertEqual(a.shape, b.shape, msg or f"shapes differ: {a.shape} and {b.shape}")
            self._assert_close(a, b, rtol, atol, msg)

    def _assert_close(self, a, b, rtol, atol, msg):
        close = np.isclose(a, b, rtol=np.asarray(rtol), atol=np.asarray(atol), equal_nan=True)
        if np.all(close):
            return
        far = np.argwhere(~np.atleast_1d(close))
        x, y = np.atleast_1d(a)[tuple(far[0])], np.atleast_1d(b)[tuple(far[0])]
        self.fail(self._formatMessage(
            msg, f"{len(far)} of {close.size} elements are not close (rtol {rtol}, atol {atol}); "
                 f"the first at {far[0].tolist()}: {x!r} and {y!r}"))

    def assertAllCloseAccordingToType(
        self,
        a,
        b,
        rtol=1e-6,
        atol=1e-6,
        float_rtol=1e-6,  # noqa: N802
        float_atol=1e-6,
        half_rtol=1e-3,
        half_atol=1e-3,
        bfloat16_rtol=1e-2,
        bfloat16_atol=1e-2,
        msg=None,
    ):
        """assertAllClose, by tolerances of the less exact of the two dtypes."""
        a, b = self._array(a), self._array(b)
        names = (a.dtype.name, b.dtype.name)
        if "float32" in names or "complex64" in names:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if "float16" in names:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        if "bfloat16" in names:
            rtol, atol = max(rtol, bfloat16_rtol), max(atol, bfloat16_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a, b, **kwargs):  # noqa: N802
        """assertAllClose, with its arguments, fails."""
        try:
            self.assertAllClose(a, b, **kwargs)
        except AssertionError:
            return
        raise AssertionError("The two values are close at all elements")

    def assertNotAllEqual(self, a, b, msg=None):  # noqa: N802
        """assertAllEqual fails."""
        try:
            self.assertAllEqual(a, b, msg)
        except AssertionError:
            return
        raise AssertionError("The two values are equal at all elements")

    def assertArrayNear(self, farray1, farray2, err, msg=None):  # noqa: N802
        """Two sequences of floats of one length differ by at most `err` each."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg)

    def assertNear(self, f1, f2, err, msg=None):  # noqa: N802
        """Two numbers differ by at most `err`."""
        self.assertTrue(
            f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r} {msg or ''}"
        )

    def assertNDArrayNear(self, ndarray1, ndarray2, err, msg=None):  # noqa: N802
        """The norm of the two arrays' difference is at most `err`."""
        self.assertLessEqual(
            np.linalg.norm(self._array(ndarray1) - self._array(ndarray2)), err, msg
        )

    def assertAllGreater(self, a, comparison_target):  # noqa: N802
        """Every element is greater than the number."""
        self.assertGreater(np.min(self._array(a)), comparison_target)

    def assertAllLess(self, a, comparison_target):  # noqa: N802
        """Every element is less than the number."""
        self.assertLess(np.max(self._array(a)), comparison_target)

    def assertAllGreaterEqual(self, a, comparison_target):  # noqa: N802
        """Every element is at least the number."""
        self.assertGreaterEqual(np.min(self._array(a)), comparison_target)

    def assertAllLessEqual(self, a, comparison_target):  # noqa: N802
        """Every element is at most the number."""
        self.assertLessEqual(np.max(self._array(a)), comparison_target)

    # ------------------------------------------------------------ errors and graphs

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type, expected_err_re_or_predicate
    ):  # noqa: N802
        """The block raises `exception_type` whose message matches a regex or predicate."""
        match = expected_err_re_or_predicate
        if not callable(match):
            def match(e, pattern=expected_err_re_or_predicate):
                return re.search(pattern, e.message if isinstance(e, errors.OpError) else str(e))
        try:
            yield
        except exception_type as e:
            if not match(e):
                raise AssertionError(f"Exception of type {type(e)}: {e}") from e
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate):  # noqa: N802
        """The block raises a tf.errors.OpError that a regex or predicate matches."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertDeviceEqual(self, device1, device2, msg=None):  # noqa: N802
        """Two device names mean the same device, however they are written."""
        from pyflow.framework.device import canonical_name
        self.assertEqual(canonical_name(device1), canonical_name(device2), msg)

    def assertStartsWith(self, actual, expected_start, msg=None):  # noqa: N802
        """The text begins with `expected_start`."""
        self.assertTrue(
            actual.startswith(expected_start),
            msg or f"{actual!r} does not start with {expected_start!r}",
        )

    def assertNotStartsWith(self, actual, expected_start, msg=None):  # noqa: N802
        """The text does not begin with `expected_start`."""
        self.assertFalse(
            actual.startswith(expected_start),
            msg or f"{actual!r} does start with {expected_start!r}",
        )

    def assertAllInRange(self, target, lower_bound, upper_bound,  # noqa: N802
                         open_lower_bound=False, open_upper_bound=False):
        """Every element lies between the bounds; open ones are excluded."""
        x = self._array(target)
        if x.dtype.kind not in "iuf" and "float" not in x.dtype.name:
            self.fail(f"The value of {target} is not of an integer or floating-point type but "
                      f"{x.dtype}")
        low = x > lower_bound if open_lower_bound else x >= lower_bound
        high = x < upper_bound if open_upper_bound else x <= upper_bound
        self.assertTrue(np.all(low & high), f"{x[~(low & high)]} not in range "
                                            f"{lower_bound} to {upper_bound}")

    def assertAllInSet(self, target, expected_set):  # noqa: N802
        """Every element is in the set."""
        found = np.unique(self._array(target)).tolist()
        self.assertLessEqual(set(found), set(expected_set))

    def assertDTypeEqual(self, target, expected_dtype):  # noqa: N802
        """The array or tensor has the dtype."""
        self.assertEqual(self._array(target).dtype, np.dtype(
            getattr(expected_dtype, "as_numpy_dtype", expected_dtype)))


class _CheckedThread:
    """threading.Thread whose exception is the joiner's."""

    def __init__(self, test, target, args=None, kwargs=None):
        self._test, self._target = test, target
        self._args, self._kwargs = args or (), kwargs or {}
        self._thread = threading.Thread(target=self._protected)
        self._exception, self._is_joined = None, False

    def _protected(self):
        try:
            self._target(*self._args, **self._kwargs)
        except Exception as e:  # noqa: BLE001 - handed to whoever joins
            self._exception = e

    def start(self):
        """Starts the thread."""
        self._thread.start()

    def join(self):
        """Waits for the thread; the test fails if it raised."""
        self._is_joined = True
        self._thread.join()
        if self._exception is not None:
            self._test.fail(f"Error in checkedThread: {self._exception}")

    def is_alive(self):
        """True while it runs."""
        return self._thread.is_alive()

    def check_termination(self):
        """Fails the test if the thread runs still, or ended unjoined with an exception."""
        if self._is_joined or self._thread.ident is None:
            return
        if self.is_alive():
            self._test.fail("A checkedThread was not joined before the test's end")
        self.join()


def _test_config(config, force_gpu):
    """The config of a test's session: soft placement unless the GPU is forced."""
    from pyflow.framework import protos
    if config is None:
        return protos.ConfigProto(allow_soft_placement=not force_gpu)
    if force_gpu and config.allow_soft_placement:
        config = type(config).FromString(config.SerializeToString())
        config.allow_soft_placement = False
    return config


@contextlib.contextmanager
def _test_device(graph, use_gpu, force_gpu):
    """Where a test's ops go: the GPU by force, where the default says, or the CPU."""
    if force_gpu:
        with graph.device(gpu_device_name() or "/device:GPU:0"):
            yield
    elif use_gpu:
        yield
    else:
        with graph.device("/device:CPU:0"):
            yield


def _as_bytes(array):
    """Strings as bytes, other elements as they are."""
    found = np.empty(array.shape, object)
    flat = found.reshape(-1)
    for i, x in enumerate(array.ravel().tolist()):
        flat[i] = x.encode("utf-8", "surrogateescape") if isinstance(x, str) else x
    return flat.reshape(array.shape)


def _nested(x):
    """Nested lists of Python values, whatever the sequences were."""
    if isinstance(x, np.ndarray):
        return _nested(x.tolist())
    if isinstance(x, (list, tuple)):
        return [_nested(item) for item in x]
    return x.encode("utf-8", "surrogateescape") if isinstance(x, str) else x


def _ragged(x):
    if not isinstance(x, (list, tuple)):
        return False
    try:
        return np.asarray(x).dtype == object
    except ValueError:
        return True
