"""Parts of a graph by scope, as MetaGraphDefs; see pyflow/train/meta_graph.py."""
from pyflow.train.meta_graph import (copy_scoped_meta_graph, export_scoped_meta_graph,
                                     import_scoped_meta_graph, read_meta_graph_file)

__all__ = ["copy_scoped_meta_graph", "export_scoped_meta_graph", "import_scoped_meta_graph",
           "read_meta_graph_file"]
