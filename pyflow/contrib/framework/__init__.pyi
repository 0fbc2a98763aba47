"""Types of pyflow.contrib.framework.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
create_global_step = _contrib.framework.create_global_step
get_global_step = _contrib.framework.get_global_step
get_or_create_global_step = _contrib.framework.get_or_create_global_step
local_variable = _contrib.framework.local_variable
from . import nest as nest
smart_case = _contrib.framework.smart_case
smart_cond = _contrib.framework.smart_cond
smart_constant_value = _contrib.framework.smart_constant_value
