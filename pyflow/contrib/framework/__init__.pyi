"""Types of pyflow.contrib.framework.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
assert_same_float_dtype = _contrib.framework.assert_same_float_dtype
assert_scalar_int = _contrib.framework.assert_scalar_int
convert_to_tensor_or_sparse_tensor = _contrib.framework.convert_to_tensor_or_sparse_tensor
create_global_step = _contrib.framework.create_global_step
get_global_step = _contrib.framework.get_global_step
get_or_create_global_step = _contrib.framework.get_or_create_global_step
is_numeric_tensor = _contrib.framework.is_numeric_tensor
is_tensor = _contrib.framework.is_tensor
local_variable = _contrib.framework.local_variable
from . import nest as nest
reduce_sum_n = _contrib.framework.reduce_sum_n
safe_embedding_lookup_sparse = _contrib.framework.safe_embedding_lookup_sparse
smart_case = _contrib.framework.smart_case
smart_cond = _contrib.framework.smart_cond
smart_constant_value = _contrib.framework.smart_constant_value
with_same_shape = _contrib.framework.with_same_shape
with_shape = _contrib.framework.with_shape
