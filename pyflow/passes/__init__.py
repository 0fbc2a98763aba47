"""Passes: from the user's graph to the bytes a Plan is compiled from.  Each is graph -> graph.

    built   [node.build]       pass nodes of the operations that fetches and targets need (pruned in
    the same walk) placed  [place.place]      every node has a full device name
    delayed [partition_delay.delay]   with enable_recv_scheduling: large tensors for other devices wait
    cut     [partition.cut]    edges between devices go through a send and a receive node, or
    parts   [partition_split.split]   with partitions="device": a graph per device or task
    bytes   [wire.graph_bytes] GraphDef for `_executor.compile`, big constants beside it

PYFLOW_DUMP=dir writes the graph after each pass.  Device names are those of one process; a master
that serves several tasks uses the same passes with its own device list.
"""
