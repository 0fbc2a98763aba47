"""`import onnxruntime` and `import tensorflow` find pyflow.

    pyflow.compat.install_as_onnxruntime()
    import onnxruntime                          # pyflow.interop.onnxruntime

    pyflow.compat.install_as_tensorflow()
    import tensorflow as tf                     # pyflow, with its module paths and old names
"""

import importlib
import importlib.machinery
import sys
import types

_CAPI = ("_pybind_state", "onnxruntime_pybind11_state", "onnxruntime_inference_collection")


def install_as_onnxruntime():
    """Makes `import onnxruntime`, here and in packages that are imported later, find pyflow.

    Returns the module.  Raises RuntimeError where onnxruntime itself was imported before: what
    others hold of it cannot be replaced.

        >>> tf.compat.install_as_onnxruntime().get_available_providers()
        ['CPUExecutionProvider']
    """
    ours = importlib.import_module("pyflow.interop.onnxruntime")
    there = sys.modules.get("onnxruntime")
    if there is not None and getattr(there, "_pyflow", None) is not ours:
        raise RuntimeError("onnxruntime is imported already: call install_as_onnxruntime() before "
                           "anything imports it")
    if there is None:
        root = _module("onnxruntime", ours)
        root.__path__ = []
        root._pyflow = ours
        root.capi = _module("onnxruntime.capi", ours)
        root.capi.__path__ = []
        for name in _CAPI:
            setattr(root.capi, name, _module(f"onnxruntime.capi.{name}", ours))
    return sys.modules["onnxruntime"]


def install_as_tensorflow(old_python=False):
    """Makes `import tensorflow` and imports of its modules, here and in packages that are imported
    later, find pyflow.  With old_python also gives back names that Python and NumPy have removed
    since (`collections.Iterable`, `inspect.getargspec`, `numpy.float`), to all of the process.

    Returns the module. What TensorFlow's modules are called there is in
    pyflow/interop/tensorflow/paths.py; names that TensorFlow 0.x had work, and are told of once.
    Raises RuntimeError where TensorFlow itself was imported before: what others hold of it cannot
    be replaced.

        >>> tensorflow = tf.compat.install_as_tensorflow()
        >>> from tensorflow.python.ops import array_ops
        >>> array_ops.reshape is tf.reshape
        True
    """
    from pyflow.interop.tensorflow.finder import Finder
    there = sys.modules.get("tensorflow")
    if there is not None and not isinstance(getattr(there.__spec__, "loader", None), Finder):
        raise RuntimeError("tensorflow is imported already: call install_as_tensorflow() before "
                           "anything imports it")
    if not any(isinstance(finder, Finder) and finder.root == "tensorflow"
               for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder("tensorflow"))
    if old_python:
        importlib.import_module("pyflow.interop.old_python").install()
    return importlib.import_module("tensorflow")


def _module(name, source):
    """A module in sys.modules with the public names of `source`."""
    made = types.ModuleType(name, source.__doc__)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__dict__.update({key: value for key, value in vars(source).items()
                          if not key.startswith("_") or key == "__version__"})
    sys.modules[name] = made
    return made
