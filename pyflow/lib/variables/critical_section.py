"""CriticalSection: functions that never run at the same time.

Invariants
    1. What a CriticalSection executes runs after its lock and before the lock's release, in one step
       or in several.
    2. What the function reads from outside is computed before the lock is taken, so that nothing
       that is waited for under the lock can need the lock.
    3. A resource belongs to one section, unless both executions gave up that right.

Example:  `cs = tf.CriticalSection();  y = cs.execute(lambda: v.assign_add(1))`.
"""
import typing

from pyflow.framework import dtypes, graph, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import grouping
from pyflow.ops.state.critical_section_ops import ConsumeMutexLock, MutexLock, MutexV2


class CriticalSection(ShowsArguments):
    """Code of a graph that runs by one execution at a time, across steps and sessions.

    `execute(fn)` calls fn() once, now, and returns its tensors; whenever they are computed, the ops
    that fn made run between taking and releasing the mutex. TF: tf.CriticalSection.
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
        """The result of fn() (a nest of tensors or operations), computed under the lock.

        ValueError where fn() uses this section itself, which would wait for ever, or a resource of
        which another section's execution, or this one, asks the exclusive use."""
        with graph.name_scope(name, "critical_section_execute", []):
            lock = MutexLock(self._handle)
            own = graph.get_default_graph()
            before = set(own.get_operations())
            with graph.control_dependencies([lock]):
                result = fn()
            made = [op for op in own.get_operations() if op not in before]
            _wait_for_arguments(own, lock.op, made)
            used = [x for op in made for x in op.inputs if x.dtype == dtypes.resource]
            self._check_resources(own, used, exclusive_resource_access)
            outside = [o for o in made if o._control_flow_context is lock.op._control_flow_context]
            with graph.control_dependencies(outside):
                done = ConsumeMutexLock(lock)
            own.add_to_collection(EXECUTIONS, _Execution(self._handle, used,
                                                         exclusive_resource_access))
            with graph.control_dependencies([done]):
                return _after(result, done)

    def _check_resources(self, own, used, exclusive):
        if any(_is_same_mutex(x, self._handle) for x in used):
            raise ValueError(
                f"CriticalSection {self.name!r}: the function would run inside the section and uses "
                "it itself (fn attempts to directly access the CriticalSection in which it would be "
                "running), which would wait for ever: call execute() outside of fn")
        for other in own.get_collection(EXECUTIONS):
            shared = [x for x in used if any(x is theirs for theirs in other.used)]
            if shared and (exclusive or other.exclusive) and not _is_same_mutex(
                    other.handle, self._handle):
                raise ValueError(
                    f"CriticalSection {self.name!r}: fn uses {shared[0].op.name!r}, which an "
                    f"execution of {other.handle.op.name!r} uses too, and one of them requested "
                    "exclusive resource access: pass exclusive_resource_access=False to both, or "
                    "use one section")


EXECUTIONS = "critical_section_executions"


class _Execution(typing.NamedTuple):
    """What a later execution has to know of an earlier one, in the collection EXECUTIONS."""

    handle: graph.Tensor
    used: list
    exclusive: bool


def _is_same_mutex(x, handle):
    """Two handles of one mutex: what fn() makes has a handle of its own if it makes the section."""
    return x is handle or (x.op.type == "MutexV2" and x.op.get_attr("shared_name") and all(
        x.op.get_attr(name) == handle.op.get_attr(name) for name in ("shared_name", "container")))


def _wait_for_arguments(own, lock, made):
    """The lock is taken after all that `made`, what fn() added, needs from outside."""
    inside = {lock, *made, *lock.control_inputs, *(x.op for x in lock.inputs)}
    needed = {*(x.op for op in made for x in op.inputs), *(c for op in made
                                                           for c in op.control_inputs)}
    needed = sorted(needed - inside, key=lambda op: op._id)
    if needed:
        count = len(own.get_operations())
        gate = grouping.group(*needed)          # what lies outside the lock's loop enters it here
        own._put_before(lock, count)
        lock._add_control_input(gate)


def _after(result, done):
    """The result's tensors as they are when the lock is released."""
    if result is None or isinstance(result, graph.Operation):
        return done
    return nest.map_structure(
        lambda x: done if isinstance(x, graph.Operation) else identity_functions.identity(x),
        result)


PUBLIC = {"CriticalSection": CriticalSection}
