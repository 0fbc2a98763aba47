"""tensorflow.python.framework.test_util: what TensorFlow's own tests import from it.

    class AddTest(test_util.TensorFlowTestCase):
        @test_util.run_deprecated_v1
        def test_add(self): ...

Decorators that choose between graphs and eager execution run the test once, on a graph.
Threads: those of unittest.
"""
import functools
import unittest

import pyflow as tf

__unittest = True                       # frames of this module are left out of failures
TensorFlowTestCase = tf.test.TestCase
assert_equal_graph_def = tf.test.assert_equal_graph_def


def _on_a_graph(function):
    """The test, on a graph of its own."""
    if isinstance(function, type):
        return function

    @functools.wraps(function)
    def test(*args, **kwargs):
        with tf.Graph().as_default():
            return function(*args, **kwargs)
    return test


def run_deprecated_v1(func):
    """Decorator: the test runs on a graph of its own.  Classes stay as they are."""
    return _on_a_graph(func)


def run_in_graph_and_eager_modes(func=None, **unused):
    """Decorator: the test runs on a graph of its own, which is a session's default."""
    def wrapped(function):
        @functools.wraps(function)
        def test(self, *args, **kwargs):
            with tf.Graph().as_default(), self.test_session():
                return function(self, *args, **kwargs)
        return test
    return wrapped if func is None else wrapped(func)


def run_v1_only(reason=None, func=None):
    """Decorator: the test runs; 1.x's behaviour is the only one here."""
    return (lambda function: function) if func is None else func


def run_v2_only(func=None):
    """Decorator: the test is skipped."""
    skip = unittest.skip("pyflow has TensorFlow 1.x's behaviour only")
    return skip if func is None else skip(func)


def _unchanged(description=None):
    """Decorator that leaves a test as it is; XLA, control flow v2 and the like are not here."""
    return description if callable(description) else lambda function: function


disable_xla = disable_all_xla = xla_allow_fallback = enable_control_flow_v2 = _unchanged
disable_control_flow_v2 = with_c_api = enable_c_shapes = _unchanged
assert_no_new_pyobjects_executing_eagerly = assert_no_garbage_created = _unchanged
assert_no_new_tensors = run_cuda_only = build_as_function_and_v1_graph = _unchanged
deprecated_graph_mode_only = run_deprecated_v1


def run_all_in_deprecated_graph_mode_only(cls):
    """Class decorator: leaves it as it is."""
    return cls


def run_all_in_graph_and_eager_modes(cls):
    """Class decorator: each test method runs on a graph of its own."""
    for name, value in list(vars(cls).items()):
        if callable(value) and name.startswith("test") and name not in ("test_session",):
            setattr(cls, name, run_in_graph_and_eager_modes(value))
    return cls


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """True where a GPU's plugin has found one."""
    return tf.test.is_gpu_available(cuda_only, min_cuda_compute_capability)


def gpu_device_name():
    """The name of the first GPU, or ""."""
    return tf.test.gpu_device_name()


def IsMklEnabled():  # noqa: N802 - TF's names
    """False."""
    return False


def IsBuiltWithROCm():  # noqa: N802
    """False."""
    return False


GpuSupportsHalfMatMulAndConv = CudaSupportsHalfMatMulAndConv = is_gpu_available


def NHWCToNCHW(input_tensor):  # noqa: N802
    """A shape or tensor of rank 4 or 5 with channels moved from the end to the second place."""
    return _permuted(input_tensor, {4: [0, 3, 1, 2], 5: [0, 4, 1, 2, 3]})


def NCHWToNHWC(input_tensor):  # noqa: N802
    """A shape or tensor of rank 4 or 5 with channels moved from the second place to the end."""
    return _permuted(input_tensor, {4: [0, 2, 3, 1], 5: [0, 2, 3, 4, 1]})


def _permuted(value, orders):
    if isinstance(value, tf.Tensor):
        return tf.transpose(value, orders[value.get_shape().ndims])
    return [value[i] for i in orders[len(value)]]
