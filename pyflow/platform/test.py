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
import unittest

import numpy as np

from pyflow.framework import errors
from pyflow.framework import graph as graph_lib
from pyflow.session import Session


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


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """True if a plugin offers a GPU."""
    from pyflow.session import runtime
    return any(kind == "GPU" for kind, _, _ in runtime.start().devices())


def is_built_with_cuda():
    """False: accelerators come as plugins."""
    return False


def gpu_device_name():
    """The first GPU's name, or an empty string."""
    return "/device:GPU:0" if is_gpu_available() else ""


class TestCase(unittest.TestCase):
    """unittest.TestCase with sessions and array assertions."""

    def setUp(self):
        super().setUp()
        random.seed(87654321)
        np.random.seed(87654321)
        graph_lib.reset_default_graph()
        graph_lib.set_random_seed(87654321)
        self._cached_session = None

    def tearDown(self):
        if self._cached_session is not None:
            self._cached_session.close()
        super().tearDown()

    def get_temp_dir(self):
        """A folder of this test's own."""
        folder = os.path.join(get_temp_dir(), re.sub(r"\W", "_", self.id()))
        os.makedirs(folder, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """A new session as default, its graph as default."""
        with Session(graph=graph, config=config) as sess:
            yield sess

    @contextlib.contextmanager
    def cached_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """One session for the whole test method."""
        if self._cached_session is None:
            self._cached_session = Session(graph=graph, config=config)
        sess = self._cached_session
        with sess.graph.as_default(), sess.as_default():
            yield sess

    @contextlib.contextmanager
    def test_session(self, graph=None, config=None, use_gpu=False, force_gpu=False):
        """As `cached_session` without a graph, else as `session`."""
        context = self.cached_session if graph is None else self.session
        with context(graph=graph, config=config) as sess:
            yield sess

    test_session.__test__ = False        # not a test, whatever its name says

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

    # ------------------------------------------------------------ arrays

    def _array(self, x):
        x = self._value(x)
        return x if isinstance(x, np.ndarray) else np.array(x)

    def assertShapeEqual(self, np_array, tf_tensor, msg=None):  # noqa: N802 - TF's names
        """The array and the tensor have one shape, all of it known."""
        self.assertEqual(list(np_array.shape), tf_tensor.get_shape().as_list(), msg)

    def assertAllEqual(self, a, b, msg=None):  # noqa: N802
        """Arrays, values or tensors (evaluated) are equal in shape and elements."""
        a, b = self._array(a), self._array(b)
        if a.dtype.kind in "SUO" or b.dtype.kind in "SUO":
            a, b = _texts(a), _texts(b)
        np.testing.assert_array_equal(a, b, err_msg=msg or "")

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):  # noqa: N802
        """Arrays, values, tensors or nests of them: |a - b| <= atol + rtol |b|; NaN equals NaN."""
        a, b = self._value(a), self._value(b)
        if isinstance(a, dict):
            self.assertEqual(set(a), set(b), msg)
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
            np.testing.assert_allclose(
                a, b, rtol=rtol, atol=atol, err_msg=msg or "", equal_nan=True
            )

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


def _texts(array):
    return np.array([x.decode() if isinstance(x, bytes) else x for x in array.ravel().tolist()],
                    dtype=object).reshape(array.shape)


def _ragged(x):
    if not isinstance(x, (list, tuple)):
        return False
    try:
        return np.asarray(x).dtype == object
    except ValueError:
        return True


def compute_gradient(x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None):
    """(theoretical, numeric) Jacobians [x size, y size] of tensor y by tensor x, in the default
    session."""
    from pyflow.gradients.backprop import gradients
    sess = graph_lib.get_default_session()
    for target in init_targets or ():
        sess.run(target)
    if x_init_value is None:
        x_init_value = np.random.random_sample(x_shape)
    x_value = np.asarray(x_init_value, dtype=x.dtype.as_numpy_dtype)
    dy = graph_lib.convert_to_tensor(np.zeros(y_shape, y.dtype.as_numpy_dtype))
    grad = gradients(y, [x], grad_ys=[dy])[0]
    n, m = x_value.size, int(np.prod(y_shape))
    theory, numeric = np.zeros((n, m)), np.zeros((n, m))
    for j in range(m):
        seed = np.zeros(m, y.dtype.as_numpy_dtype)
        seed[j] = 1
        theory[:, j] = np.ravel(sess.run(grad, {x: x_value, dy: seed.reshape(y_shape)}))
    for i in range(n):
        values = []
        for step in (delta, -delta):
            moved = x_value.copy()
            moved.ravel()[i] += step
            values.append(np.ravel(sess.run(y, {x: moved})).astype(np.float64))
        numeric[i] = (values[0] - values[1]) / (2 * delta)
    return theory, numeric


def compute_gradient_error(
    x, x_shape, y, y_shape, x_init_value=None, delta=1e-3, init_targets=None
):
    """The largest difference between theoretical and numeric gradient."""
    theory, numeric = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets)
    return float(np.max(np.abs(theory - numeric))) if theory.size else 0.0
