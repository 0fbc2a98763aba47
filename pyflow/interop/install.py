"""`import onnxruntime` finds pyflow.

    pyflow.compat.install_as_onnxruntime()
    import onnxruntime                          # pyflow.interop.onnxruntime
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


def _module(name, source):
    """A module in sys.modules with the public names of `source`."""
    made = types.ModuleType(name, source.__doc__)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__dict__.update({key: value for key, value in vars(source).items()
                          if not key.startswith("_") or key == "__version__"})
    sys.modules[name] = made
    return made
