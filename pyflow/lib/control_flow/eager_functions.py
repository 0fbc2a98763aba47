"""tf.py_function: a Python function as an operation, given values with a `numpy` method.

    y = tf.py_function(lambda x: np.sinh(x.numpy()), [x], tf.float32)
"""
import numpy as np

from pyflow.lib.control_flow import script_functions


class Value(np.ndarray):
    """An array with what programs ask of TensorFlow's eager tensors."""

    def numpy(self):
        """The array itself."""
        return self.view(np.ndarray)

    def get_shape(self):
        """The sizes."""
        return self.shape


def py_function(func, inp, Tout, name=None):
    """The results of Python function `func` called on the values of the tensors `inp`.

    func gets arrays that have TensorFlow's `numpy()`, too, and returns arrays or numbers; it may not
    use tf's functions, which build graphs, and no gradient goes through it. Tout: a dtype, or a list
    of them. Shapes, dtypes and errors as tf.py_func's. TF: tf.py_function."""
    def with_values(*arrays):
        return func(*[np.asarray(array).view(Value) for array in arrays])
    with_values.__name__ = getattr(func, "__name__", "py_function")
    return script_functions.py_func(with_values, inp, Tout, stateful=True,
                                    name=name or "EagerPyFunc")


PUBLIC = {"py_function": py_function}
