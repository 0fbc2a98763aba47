"""tf.train.replica_device_setter: variables on parameter servers, everything else on a worker; and
strategies that choose among the servers.

Invariants
    1. A device function: it says where a node belongs and changes nothing.
    2. What an inner `tf.device` said wins, field by field (merge_devices=True); a node whose job
       is another than the parameter servers' gets no task from the strategy.

Threads: a setter, and a greedy strategy, count what they placed; one graph is built by one thread
at a time.

    cluster = {"ps": ["a:2222", "b:2222"], "worker": ["c:2222"]}
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        v = tf.Variable(0.0)           # /job:ps/task:0
        w = tf.Variable(1.0)           # /job:ps/task:1
        y = v + w                      # /job:worker
"""
import hashlib
import itertools
import logging

from pyflow.framework import dtypes, tensor_shape
from pyflow.framework.device import parsed

_log = logging.getLogger("tensorflow")
STANDARD_PS_OPS = tuple("""Variable VariableV2 AutoReloadVariable VarHandleOp MutableHashTable
    MutableHashTableV2 MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableDenseHashTable
    MutableDenseHashTableV2 BoostedTreesEnsembleResourceHandleOp
    BoostedTreesQuantileStreamResourceHandleOp ResourceConditionalAccumulator
    DecisionTreeResource""".split())


def replica_device_setter(ps_tasks=0, ps_device="/job:ps", worker_device="/job:worker",
                          merge_devices=True, cluster=None, ps_ops=None, ps_strategy=None):
    """A device function for `tf.device` (TF 1.15, training/device_setter.py), or None where there
    are no parameter servers: `tf.device(None)` asks for nothing.

    ps_tasks: the number of tasks of the ps job; with a cluster (a dict of jobs, a ClusterDef or
        ClusterSpec) as many as that has in the job of ps_device.
    ps_device, worker_device: (partial) names for nodes of a type in ps_ops, and for all others;
        "" asks for nothing.
    merge_devices: False leaves nodes alone that have a device already.
    ps_ops: op types, default those that hold variables and tables.
    ps_strategy: function(Operation) -> task; default: one after another, round robin.

    Raises TypeError for a cluster or a strategy that is none, ValueError for names of no device.
    """
    if cluster is not None:
        ps_tasks = len(_jobs(cluster).get(parsed(ps_device).job) or ())
    if not ps_tasks:
        return None
    if ps_strategy is None:
        turns = itertools.cycle(range(ps_tasks))

        def ps_strategy(_):
            return next(turns)
    if not callable(ps_strategy):
        raise TypeError(f"ps_strategy must be callable (function(Operation) -> task), but got"
                        f" {type(ps_strategy)}")
    if not merge_devices:
        _log.warning("replica_device_setter: merge_devices=False is deprecated; with True"
                     " inner devices are merged with those of the cluster")
    ps_ops = frozenset(STANDARD_PS_OPS if ps_ops is None else ps_ops)
    ps_spec, worker_spec = parsed(ps_device or ""), parsed(worker_device or "")

    def choose(op):
        if op.device and not merge_devices:
            return op.device
        current = parsed(op.device or "")
        if not ps_device or _type_of(op) not in ps_ops:
            return worker_spec.make_merged_spec(current).to_string()
        spec = ps_spec
        if spec.job and current.job in (None, spec.job):
            spec = spec.replace(task=ps_strategy(op))
        return spec.make_merged_spec(current).to_string()

    return choose


def _type_of(op):
    """The type of an Operation or a NodeDef."""
    return op.type if hasattr(op, "type") else op.op


def _jobs(cluster):
    """{job: its tasks} of a ClusterSpec, a ClusterDef or a dict."""
    if hasattr(cluster, "as_dict"):
        return cluster.as_dict()
    if isinstance(cluster, dict):
        return cluster
    if hasattr(cluster, "job"):
        return {job.name: job.tasks for job in cluster.job}
    raise TypeError("cluster must be a dict {job: [addresses]}, a ClusterDef or a ClusterSpec, but"
                    f" got {type(cluster)}")


class GreedyLoadBalancingStrategy:
    """A ps_strategy: each variable goes to the task with the least load so far, the first of equal
    ones, and adds its own. TF 1.15: tf.contrib.training.GreedyLoadBalancingStrategy.

    num_tasks: the number of tasks of the ps job. load_fn: function(Operation) -> number, in any
    unit, such as `byte_size_load_fn`.

    Large variables should be made first: what is placed is not moved again.

        ps_strategy = tf.contrib.training.GreedyLoadBalancingStrategy(
            2, tf.contrib.training.byte_size_load_fn)
        tf.train.replica_device_setter(cluster=cluster, ps_strategy=ps_strategy)
    """

    def __init__(self, num_tasks, load_fn):
        if num_tasks < 1:
            raise ValueError(f"num_tasks must be at least 1, got {num_tasks}")
        self._load_fn = load_fn
        self._loads = [0] * num_tasks

    def __repr__(self):
        return f"<tf.contrib.training.GreedyLoadBalancingStrategy, loads {self._loads}>"

    def __call__(self, op):
        """The task of an Operation."""
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


class RandomStrategy:
    """A ps_strategy: the MD5 sum of a variable's name and the seed chooses its task, so that every
    process chooses alike, whatever it builds beside. TF 1.15: tf.contrib.training.RandomStrategy.

    num_ps_tasks: the number of tasks of the ps job. seed: a number."""

    def __init__(self, num_ps_tasks, seed=0):
        if num_ps_tasks < 1:
            raise ValueError(f"num_ps_tasks must be at least 1, got {num_ps_tasks}")
        self._num_tasks, self._seed = num_ps_tasks, seed

    def __repr__(self):
        return (f"<tf.contrib.training.RandomStrategy of {self._num_tasks} tasks, seed "
                f"{self._seed}>")

    def __call__(self, op):
        """The task of an Operation."""
        key = f"{op.name}_{self._seed}".encode()
        return int(hashlib.md5(key, usedforsecurity=False).hexdigest(), 16) % self._num_tasks


def byte_size_load_fn(op):
    """The bytes of an Operation's only output, a load for GreedyLoadBalancingStrategy. The handle
    of a resource variable counts as the variable, where TensorFlow counts a byte.
    TF 1.15: tf.contrib.training.byte_size_load_fn.

    Raises ValueError for an operation with several outputs, or one of unknown shape."""
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op.name!r} ({op.type}) must have a single output, and has "
                         f"{len(op.outputs)}")
    [output] = op.outputs
    shape, dtype = output.get_shape(), output.dtype.base_dtype
    if op.type == "VarHandleOp":
        shape, dtype = tensor_shape.TensorShape(op.get_attr("shape")), op.get_attr("dtype")
    if not shape.is_fully_defined():
        raise ValueError(f"Op {op.name!r} ({op.type}): the shape {shape} of its output is not fully"
                         " defined, so its size is unknown")
    return shape.num_elements() * dtypes.as_dtype(dtype).size


PUBLIC = {
    "contrib.training.GreedyLoadBalancingStrategy": GreedyLoadBalancingStrategy,
    "contrib.training.RandomStrategy": RandomStrategy,
    "contrib.training.byte_size_load_fn": byte_size_load_fn,
    "train.replica_device_setter": replica_device_setter,
}
