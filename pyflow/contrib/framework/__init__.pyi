"""Types of pyflow.contrib.framework.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
add_arg_scope = _contrib.framework.add_arg_scope
add_model_variable = _contrib.framework.add_model_variable
arg_scope = _contrib.framework.arg_scope
arg_scope_func_key = _contrib.framework.arg_scope_func_key
arg_scoped_arguments = _contrib.framework.arg_scoped_arguments
assign_from_checkpoint = _contrib.framework.assign_from_checkpoint
assign_from_checkpoint_fn = _contrib.framework.assign_from_checkpoint_fn
assign_from_values = _contrib.framework.assign_from_values
assign_from_values_fn = _contrib.framework.assign_from_values_fn
create_global_step = _contrib.framework.create_global_step
current_arg_scope = _contrib.framework.current_arg_scope
filter_variables = _contrib.framework.filter_variables
get_global_step = _contrib.framework.get_global_step
get_local_variables = _contrib.framework.get_local_variables
get_model_variables = _contrib.framework.get_model_variables
get_or_create_global_step = _contrib.framework.get_or_create_global_step
get_trainable_variables = _contrib.framework.get_trainable_variables
get_unique_variable = _contrib.framework.get_unique_variable
get_variable_full_name = _contrib.framework.get_variable_full_name
get_variables = _contrib.framework.get_variables
get_variables_by_name = _contrib.framework.get_variables_by_name
get_variables_by_suffix = _contrib.framework.get_variables_by_suffix
get_variables_to_restore = _contrib.framework.get_variables_to_restore
global_variable = _contrib.framework.global_variable
has_arg_scope = _contrib.framework.has_arg_scope
local_variable = _contrib.framework.local_variable
model_variable = _contrib.framework.model_variable
from . import nest as nest
smart_case = _contrib.framework.smart_case
smart_cond = _contrib.framework.smart_cond
smart_constant_value = _contrib.framework.smart_constant_value
variable = _contrib.framework.variable
