"""Types of pyflow.contrib.layers.utils.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
append_tensor_alias = _contrib.layers.utils.append_tensor_alias
channel_dimension = _contrib.layers.utils.channel_dimension
collect_named_outputs = _contrib.layers.utils.collect_named_outputs
constant_value = _contrib.layers.utils.constant_value
convert_collection_to_dict = _contrib.layers.utils.convert_collection_to_dict
gather_tensors_aliases = _contrib.layers.utils.gather_tensors_aliases
get_tensor_aliases = _contrib.layers.utils.get_tensor_aliases
get_variable_collections = _contrib.layers.utils.get_variable_collections
last_dimension = _contrib.layers.utils.last_dimension
n_positive_integers = _contrib.layers.utils.n_positive_integers
smart_cond = _contrib.layers.utils.smart_cond
two_element_tuple = _contrib.layers.utils.two_element_tuple
