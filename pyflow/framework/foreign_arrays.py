"""Arrays of other libraries (torch, jax, cupy) as NumPy's, without a copy where that can be.

    array = as_numpy(torch.ones(3, dtype=torch.bfloat16, requires_grad=True))

Invariants
    1. What is no array of another library is given back as it is.
    2. Values are as they are there; gradients do not come along.

Threads: any.
"""

import sys

import numpy as np

from pyflow.framework import dtypes


def as_numpy(value):
    """`value` as an ndarray if it speaks DLPack, else `value`.

    TypeError where it cannot be one, such as a tensor on a GPU."""
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack__"):
        return value
    if getattr(value, "requires_grad", False):
        value = value.detach()                  # torch refuses to export what it differentiates
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass                                    # NumPy's DLPack has no bfloat16, and no GPU
    try:
        if str(value.dtype) == "torch.bfloat16":
            return _from_bits(np.from_dlpack(value.view(sys.modules["torch"].int16)))
        return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        where = getattr(value, "device", None)
        raise TypeError(f"an array of {type(value).__module__} of dtype {value.dtype} on "
                        f"{where} cannot become NumPy's: {error}") from None


def _from_bits(bits):
    """bfloat16 of its bits; float32 of the same values where ml_dtypes is not installed."""
    try:
        return bits.view(dtypes.bfloat16.as_numpy_dtype)
    except ImportError:
        return (bits.astype(np.uint32) << 16).view(np.float32)
