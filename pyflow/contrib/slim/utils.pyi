"""Types of pyflow.contrib.slim.utils.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
append_tensor_alias = _contrib.slim.utils.append_tensor_alias
channel_dimension = _contrib.slim.utils.channel_dimension
collect_named_outputs = _contrib.slim.utils.collect_named_outputs
constant_value = _contrib.slim.utils.constant_value
convert_collection_to_dict = _contrib.slim.utils.convert_collection_to_dict
gather_tensors_aliases = _contrib.slim.utils.gather_tensors_aliases
get_tensor_aliases = _contrib.slim.utils.get_tensor_aliases
get_variable_collections = _contrib.slim.utils.get_variable_collections
last_dimension = _contrib.slim.utils.last_dimension
n_positive_integers = _contrib.slim.utils.n_positive_integers
smart_cond = _contrib.slim.utils.smart_cond
two_element_tuple = _contrib.slim.utils.two_element_tuple
