"""Runs a script for `python -m pyflow verify-resume` and reports how its training ended.

What is told, as JSON in the file that PYFLOW_RESUME_REPORT names: the sha256 of every global
variable, by name, when a monitored session or a supervisor's session ends, and the state of the
graph that its saver does not have.

Threads: the script's.
"""
import hashlib
import json
import os
import runpy
import sys

from pyflow.tools.verify_resume import REPORT

_QUEUES = ("Queue", "QueueV2")


def unsaved_state(graph, saver):
    """Texts, one for each state in the graph that the saver's checkpoints lack."""
    saved, kept = set(), set()
    for item in (graph.get_collection(graph_keys().GLOBAL_VARIABLES)
                 if saver is None or saver._var_list is None else _listed(saver._var_list)):
        saved.add(getattr(getattr(item, "op", item), "name", None))
    for item in graph.get_collection(graph_keys().SAVEABLE_OBJECTS):
        kept.add(getattr(getattr(item, "op", None), "name", "").partition(":")[0])
    texts = []
    for variable in graph.get_collection(graph_keys().GLOBAL_VARIABLES):
        if variable.op.name not in saved:
            texts.append(f"variable {variable.op.name!r}: it is not in the saver's list")
    for op in graph.get_operations():
        text = _of_operation(op, kept, saved, graph)
        if text:
            texts.append(text)
    return texts


def _listed(var_list):
    return list(var_list.values()) if isinstance(var_list, dict) else list(var_list)


def graph_keys():
    """tf.GraphKeys."""
    from pyflow.framework.graph import GraphKeys
    return GraphKeys


def _of_operation(op, kept, saved, graph):
    where = f"{op.name!r} ({op.user_frame})"
    if op.type in ("Iterator", "IteratorV2", "OneShotIterator"):
        if op.name not in kept:
            return (f"iterator {where}: add tf.data.experimental.make_saveable_from_iterator(it) "
                    "to the collection SAVEABLE_OBJECTS")
    elif op.type.endswith(_QUEUES):
        return f"queue {where}: its elements cannot be saved; use tf.data"
    elif op.type in ("MutableHashTableV2", "MutableDenseHashTableV2", "MutableHashTable"):
        if op.name not in kept:
            return f"table {where}: what was inserted while training"
    elif op.type in ("PyFunc", "EagerPyFunc"):
        return f"Python function {where}: what it keeps"
    elif op.type in ("Barrier", "Stage", "MapStage"):
        return f"{op.type} {where}: its elements"
    local = op.type in ("VariableV2", "VarHandleOp") and op.name not in saved
    if local and any(v.op.name == op.name for v in
                     graph.get_collection(graph_keys().LOCAL_VARIABLES)):
        return f"local variable {where}: it begins anew in each session"
    return None


def _watch():
    """Reports when a monitored session or a supervisor's session is about to end."""
    from pyflow.train import monitored_session, supervisor

    def told(session, saver):
        graph = session.graph
        digests = {}
        with graph.as_default():
            variables = graph.get_collection(graph_keys().GLOBAL_VARIABLES)
        finalized = graph.finalized
        graph._unsafe_unfinalize()
        try:
            for variable in variables:
                value = session.run(variable)
                digests[variable.op.name] = hashlib.sha256(value.tobytes()).hexdigest()
        finally:
            if finalized:
                graph.finalize()
        passing = os.environ[REPORT] + ".tmp"
        with open(passing, "w", encoding="utf-8") as file:
            json.dump({"variables": digests, "unsaved": unsaved_state(graph, saver)}, file)
        os.replace(passing, os.environ[REPORT])

    ended = monitored_session._Monitored._end

    def end(self, exception_type):
        inner = self._inner
        if exception_type is None and inner is not None:
            told(inner.sess, self._creator.scaffold.saver)
        ended(self, exception_type)
    monitored_session._Monitored._end = end

    prepare = supervisor.Supervisor.prepare_or_wait_for_session
    stop = supervisor.Supervisor.stop

    def prepared(self, *args, **kwargs):
        self._watched = prepare(self, *args, **kwargs)
        return self._watched

    def stopped(self, *args, **kwargs):
        session = getattr(self, "_watched", None)
        if session is not None and self._coord._exc_info_to_raise is None:
            told(session, self._saver)
            self._watched = None
        return stop(self, *args, **kwargs)
    supervisor.Supervisor.prepare_or_wait_for_session = prepared
    supervisor.Supervisor.stop = stopped


def main(argv):
    """Runs argv[0] with the rest as its arguments; `import tensorflow` finds pyflow."""
    from pyflow.interop import install
    install.install_as_tensorflow()
    _watch()
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
