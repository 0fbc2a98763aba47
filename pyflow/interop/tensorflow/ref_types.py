"""tensorflow.python.framework.dtypes: types of references to variables, `float32_ref`."""
from pyflow.framework import dtypes


def __getattr__(name):
    base = getattr(dtypes, name.removesuffix("_ref"), None) if name.endswith("_ref") else None
    if not isinstance(base, dtypes.DType):
        raise AttributeError(name)
    return base._as_ref
