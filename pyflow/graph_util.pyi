"""Types of pyflow.graph_util.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import graph_util as _graph_util
convert_variables_to_constants = _graph_util.convert_variables_to_constants
extract_sub_graph = _graph_util.extract_sub_graph
import_graph_def = _graph_util.import_graph_def
remove_training_nodes = _graph_util.remove_training_nodes
tensor_shape_from_node_def_name = _graph_util.tensor_shape_from_node_def_name
