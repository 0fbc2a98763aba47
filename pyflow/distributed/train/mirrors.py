"""A second set of a training's parameters: operations that copy it, update it, compare it.

In the chief's graph each variable of a parameter task has a MIRROR: the variable of the same shared
name on the task of the same number in the job SPARE, which exists in no cluster: a session's layout
(layouts.py) says which task is meant.  In a session whose layout takes the parameters' own tasks for
the spare ones, the graph's usual operations are those of the mirrors.

    copy     mirror := variable, of each
    release  mirror := nothing
    stage    the step's mean gradients are put aside, on both sides   [accumulators "W:0/staged"]
    apply    the optimizer's update, of what was put aside            [the same operation on each side]
    hashes   a number of each variable, on both sides

Invariants
1. `apply` reads the parameters' side alone: a task of the other side that dies tears nothing.
2. What was put aside is of one label (lib/queue/step_gate.py); an update takes that or fails.

Threads: the one building the graph.  Callers: standby.py, resharding.py.
"""
from pyflow.framework import graph as ops
from pyflow.framework import protos
from pyflow.framework.device import parsed
from pyflow.framework.graph import GraphKeys, IndexedSlices
from pyflow.lib.array import join_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.parsing import parsing
from pyflow.lib.queue import accumulators
from pyflow.lib.strings import string_data_functions
from pyflow.ops.base import tensors
from pyflow.ops.state import resource_handles, state_ops
from pyflow.train import sync_replicas

SPARE = "spare_parameters"
BATCH = 16 << 20                # bytes
_BUCKETS = 1 << 62


class Mirrors:
    """A mirror of each variable that has one.  job: the parameters'; graph: the chief's.

    hashes: {number of a task: (Tensor, Tensor)}, a number of each of its variables, on
    both sides; release: {number of a task: the operation after which its mirrors have no memory}."""

    def __init__(self, job, graph):
        self._tasks, self._copies, self.hashes, self.release = {}, {}, {}, {}
        with graph.as_default(), ops.device(None), ops.name_scope(SPARE):
            for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES):
                spec = parsed(variable.device)
                if spec.job == job:
                    self._tasks.setdefault(spec.task, []).append((variable, _mirror_of(variable)))
            for k, pairs in self._tasks.items():
                self._copies[k] = [_assigned(m, v.value()) for v, m in pairs]
                self.hashes[k] = tuple(self._hashes(pairs))
                self.release[k] = grouping.group(*[_released(m) for _, m in pairs])

    def variables(self, tasks=None):
        """Those of some tasks, in the order of the hashes; default: of all."""
        return [v for k in (self._tasks if tasks is None else tasks) for v, _ in self._tasks[k]]

    def tasks(self):
        """The numbers of the tasks that have variables."""
        return list(self._tasks)

    def copy(self, session, tasks=None):
        """A function that copies some tasks' variables, default: all's, in a session; made now.  One
        after another, about BATCH bytes at a time: what is on the way needs no more memory."""
        tasks, batches, room = self.tasks() if tasks is None else tasks, [], 0
        for variable, copy in zip(self.variables(tasks), [c for k in tasks
                                                          for c in self._copies[k]]):
            if room <= 0:
                batches.append([])
                room = BATCH
            batches[-1].append(copy)
            room -= size_of(variable)
        steps = [session.make_callable(batch) for batch in batches]

        def copy_all():
            for step in steps:
                step()
        return copy_all

    def _hashes(self, pairs):
        for side, device in enumerate((pairs[0][0].device, spare_of(pairs[0][0].device))):
            with ops.device(device):
                yield join_functions.pack([_hash(pair[side]) for pair in pairs])


class Staged:
    """A step's means, put aside on both sides.  sync: the SyncReplicasOptimizer, after
    apply_gradients.  stage, count: operations; count makes the chief's label the next step's."""

    def __init__(self, sync, graph):
        self._sync, self._staged, staging = sync, [], []
        with graph.as_default(), ops.device(None), ops.name_scope(SPARE):
            for mean, variable in sync.boundary.taken:
                if mean is not None:
                    staging += self._stage(mean, variable)
            self.stage = grouping.group(*staging)
            self.count = sync.boundary.label.assign_add(1).op

    def apply_options(self):
        """The CallableOptions of `apply`."""
        options = protos.CallableOptions(target=[self._sync.boundary.apply.name])
        for taken, staged in self._staged:
            options.tensor_connection.add(from_tensor=staged.name, to_tensor=taken.name)
        return options

    def _stage(self, mean, variable):
        """Operations that put a mean aside on both sides; notes what is read in its place."""
        label, found = self._sync.boundary.label, []
        for device in (variable.device, spare_of(variable.device)):
            with ops.device(device):
                aside = _accumulator(mean, variable)
                with ops.control_dependencies([aside.set_global_step(label)]):
                    found.append(aside._apply_from(mean, label, 0))
                if device == variable.device:
                    taken = aside._take_at(1, label)
        self._staged += zip(*map(sync_replicas.tensors_of, (mean, taken)))
        return found


def size_of(variable):
    """The bytes of a variable; 0 where they are not known."""
    return (variable.get_shape().num_elements() or 0) * variable.dtype.base_dtype.size


def spare_of(device):
    """The device of the mirrors of what is on a device."""
    return parsed(device).replace(job=SPARE).to_string()


class _Mirror:
    """reference: the variable's reference, or its handle."""

    def __init__(self, reference, variable):
        self.reference, self.dtype = reference, variable.dtype.base_dtype

    def value(self):
        if self.reference.dtype._is_ref_dtype:
            return self.reference
        return resource_handles.ReadVariableOp(self.reference, dtype=self.dtype)


def _mirror_of(variable):
    op = variable.op
    kinds = {"VarHandleOp": resource_handles.VarHandleOp, "VariableV2": state_ops.VariableV2,
             "Variable": state_ops.VariableV2}
    if op.type not in kinds:
        raise ValueError(f"{variable.name} is a {op.type}: only variables have mirrors")
    with ops.device(spare_of(op.device)):
        made = kinds[op.type](
            shape=op.get_attr("shape"), dtype=variable.dtype.base_dtype,
            container=_text(op.get_attr("container")), name=op.name.replace("/", "_"),
            shared_name=_text(op.get_attr("shared_name")) or op.name)
        return _Mirror(made, variable)


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def _assigned(mirror, value):
    reference = mirror.reference
    with ops.device(reference.op.device):
        if reference.dtype._is_ref_dtype:
            return state_ops.Assign(reference, value, validate_shape=False).op
        return resource_handles.AssignVariableOp(reference, value)


def _released(mirror):
    with ops.device(mirror.reference.op.device):
        if mirror.reference.dtype._is_ref_dtype:
            return _assigned(mirror, tensors.zeros([0], mirror.dtype))
        return resource_handles.DestroyResourceOp(mirror.reference, ignore_lookup_error=True)


def _hash(held):
    return string_data_functions.string_to_hash_bucket_fast(
        parsing.serialize_tensor(held.value()), _BUCKETS)


def _accumulator(mean, variable):
    name = f"{variable.name}/staged"
    if isinstance(mean, IndexedSlices):
        return accumulators.SparseConditionalAccumulator(mean.dtype, shape=(), shared_name=name)
    return accumulators.ConditionalAccumulator(mean.dtype, shape=variable.get_shape(),
                                               shared_name=name)


PUBLIC = {}
