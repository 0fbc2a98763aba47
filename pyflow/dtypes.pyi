"""Types of pyflow.dtypes.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import dtypes as _dtypes
DType = _dtypes.DType
as_dtype = _dtypes.as_dtype
as_string = _dtypes.as_string
cast = _dtypes.cast
saturate_cast = _dtypes.saturate_cast
