"""Passes: from the user's graph to the bytes a Plan is compiled from.  Each is graph -> graph.

    built   [node.prune]       pass nodes of the operations that fetches and targets need
            [pipeline.PASSES]  placement, rewrites, transfers: one row each, in order
    bytes   [wire.graph_bytes] GraphDef for `_executor.compile`, big constants beside it

PYFLOW_DUMP=dir writes the graph after each pass.  Device names are those of one process; a master
that serves several tasks uses the same passes with its own device list.
"""
