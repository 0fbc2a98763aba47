"""tensorflow.python.framework.test_util: what TensorFlow's own tests import from it.

    class AddTest(test_util.TensorFlowTestCase):
        @test_util.run_deprecated_v1
        def test_add(self): ...

Decorators that choose between graphs and eager execution run the test once, on the default graph,
which TestCase.setUp makes anew.
Threads: those of unittest.
"""
import contextlib
import functools
import unittest

import pyflow as tf

__unittest = True                       # frames of this module are left out of failures
TensorFlowTestCase = tf.test.TestCase
assert_equal_graph_def = tf.test.assert_equal_graph_def


def run_deprecated_v1(func):
    """Decorator: leaves a test or class as it is, on the default graph; 1.x's is the only
    behaviour here."""
    return func


def run_in_graph_and_eager_modes(func=None, __unused__=None, config=None, use_gpu=True, **unused):
    """Decorator: the test runs once, in a session of the default graph."""
    def wrapped(function):
        @functools.wraps(function)
        def test(self, *args, **kwargs):
            with self.test_session(config=config, use_gpu=use_gpu):
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
assert_no_new_tensors = build_as_function_and_v1_graph = with_control_flow_v2 = _unchanged
no_xla_auto_jit = also_run_as_tf_function = _unchanged
deprecated_graph_mode_only = run_deprecated_v1


def run_all_in_deprecated_graph_mode_only(cls):
    """Class decorator: leaves it as it is."""
    return cls


def run_all_in_graph_and_eager_modes(cls):
    """Class decorator: each test method runs once, in a session of the default graph."""
    for name, value in list(vars(cls).items()):
        if callable(value) and name.startswith("test") and name not in ("test_session",):
            setattr(cls, name, run_in_graph_and_eager_modes(value))
    return cls


def run_gpu_only(func=None):
    """Decorator: the test is skipped where there is no GPU."""
    def wrapped(function):
        @functools.wraps(function)
        def test(self, *args, **kwargs):
            if not is_gpu_available():
                self.skipTest("the test needs a GPU")
            return function(self, *args, **kwargs)
        return test
    return wrapped if func is None else wrapped(func)


run_cuda_only = run_gpu_only


def skip_if(condition):
    """Decorator: nothing is done if the condition, or what it returns, is true."""
    def wrapped(function):
        @functools.wraps(function)
        def test(*args, **kwargs):
            if not (condition() if callable(condition) else condition):
                return function(*args, **kwargs)
        return test
    return wrapped


def for_all_test_methods(decorator, *args, **kwargs):
    """Class decorator: decorator(*args, **kwargs) of each test method."""
    def wrapped(cls):
        for name in dir(cls):
            if name.startswith("test") and name != "test_session" and callable(getattr(cls, name)):
                setattr(cls, name, decorator(*args, **kwargs)(getattr(cls, name)))
        return cls
    return wrapped


@contextlib.contextmanager
def use_gpu():
    """Context whose ops are placed on a GPU where there is one."""
    with tf.device("/device:GPU:0") if is_gpu_available() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def device(use_gpu):
    """Context whose ops are placed on the GPU if wanted and there, else on the CPU."""
    with tf.device("/device:GPU:0" if use_gpu and is_gpu_available() else "/device:CPU:0"):
        yield


def get_node_def_from_graph(node_name, graph_def):
    """The NodeDef of that name, or None."""
    return next((node for node in graph_def.node if node.name == node_name), None)


def assert_ops_in_graph(expected_ops, graph):
    """ValueError unless the graph has these nodes, {name: type}; {name: NodeDef} of them."""
    found = {op.name: op.node_def for op in graph.get_operations() if op.name in expected_ops}
    wrong = {name: kind for name, kind in expected_ops.items()
             if name not in found or found[name].op != kind}
    if wrong:
        raise ValueError(f"the graph has not these nodes, or of other types: {wrong}")
    return found


def assert_meta_graph_protos_equal(tester, a, b):
    """Two MetaGraphDefs have the same collections and graphs."""
    tester.assertEqual(set(a.collection_def), set(b.collection_def))
    for name in a.collection_def:
        tester.assertEqual(a.collection_def[name], b.collection_def[name])
    for message in (a, b):
        message.ClearField("collection_def")
    assert_equal_graph_def(a.graph_def, b.graph_def, checkpoint_v2=True)
    tester.assertProtoEquals(a, b)


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


def IsGoogleCudaEnabled():  # noqa: N802
    """False: accelerators come as plugins."""
    return False


def is_xla_enabled():
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
