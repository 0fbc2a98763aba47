"""CriticalSection: functions that never run at the same time.

Invariant: what a CriticalSection executes runs after its lock and before the lock's release, in one
step or in several.

Example:  `cs = tf.CriticalSection();  y = cs.execute(lambda: v.assign_add(1))`.
"""
from pyflow.framework import graph, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.array import identity_functions
from pyflow.ops.state.critical_section_ops import ConsumeMutexLock, MutexLock, MutexV2


class CriticalSection(ShowsArguments):
    """Code of a graph that runs by one execution at a time, across steps and sessions.

    `execute(fn)` calls fn() once, now, and returns its tensors; whenever they are computed, the ops
    that fn made run between taking and releasing the mutex. fn must not call `execute` of the same
    section: that would wait for itself. TF: tf.CriticalSection.
    """

    def __init__(self, name=None, shared_name=None, critical_section_def=None, import_scope=None):
        if critical_section_def is not None:
            raise ValueError("tf.CriticalSection: critical_section_def is not offered")
        with graph.name_scope(name, "CriticalSection", []) as scope:
            container = graph.get_default_graph()._container or ""
            shared = shared_name if shared_name is not None else scope.rstrip("/")
            self._handle = MutexV2(container=container, shared_name=shared, name="MutexV2")
            self._name = scope.rstrip("/")

    name = property(lambda self: self._name, doc="The name of the mutex op's scope.")

    def execute(self, fn, exclusive_resource_access=True, name=None):
        """The result of fn() (a nest of tensors or operations), computed under the lock."""
        with graph.name_scope(name, "critical_section_execute", []):
            lock = MutexLock(self._handle)
            own = graph.get_default_graph()
            before = len(own.get_operations())
            with graph.control_dependencies([lock]):
                result = fn()
            made = own.get_operations()[before:]
            outside = [o for o in made if o._control_flow_context is lock.op._control_flow_context]
            with graph.control_dependencies(outside):
                done = ConsumeMutexLock(lock)
            with graph.control_dependencies([done]):
                return _after(result, done)


def _after(result, done):
    """The result's tensors as they are when the lock is released."""
    if result is None or isinstance(result, graph.Operation):
        return done
    return nest.map_structure(
        lambda x: done if isinstance(x, graph.Operation) else identity_functions.identity(x),
        result)


PUBLIC = {"CriticalSection": CriticalSection}
