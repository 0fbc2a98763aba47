"""Values of the variables that a model needs, read from a session in one step.

Threads: those of the session.
"""

from pyflow.framework import default_graph
from pyflow.interop.onnx.exporter.walk import Walk

_REFS = ("VariableV2", "Variable")
_KINDS = (*_REFS, "VarHandleOp")


class Variables:
    """The variables of `graph`.  session: None for the default one."""

    def __init__(self, graph, session):
        self._graph = graph
        self._session = session if session is not None else default_graph.get_default_session()

    def arrays(self, outputs, inputs):
        """{operation of a variable: its array}, of those that the tensors need.

        The operations may be of another graph with the same names.  ValueError without a session,
        or for a variable that the session's graph does not read."""
        needed = [op for op in Walk(outputs, inputs).needed if op.type in _KINDS]
        if not needed:
            return {}
        if self._session is None:
            raise ValueError(f"the graph has variables ({', '.join(op.name for op in needed[:3])}"
                             f"{', ...' if len(needed) > 3 else ''}): give session=, or export "
                             f"inside `with tf.Session()`")
        fetches = {op.name: self._reader(op) for op in needed}
        values = self._session.run(fetches)
        return {op: values[op.name] for op in needed}

    def _reader(self, op):
        own = self._session.graph._nodes_by_name.get(op.name)
        if own is None:
            raise ValueError(f"variable {op.name!r} is not in the session's graph")
        if own.type in _REFS:
            return own.outputs[0]
        reader = next((c for c in own.outputs[0].consumers() if c.type == "ReadVariableOp"), None)
        if reader is None:
            raise ValueError(f"variable {op.name!r} is never read in the session's graph")
        return reader.outputs[0]
