"""tf.train.replica_device_setter: variables on parameter servers, everything else on a worker.

Invariants
    1. A device function: it says where a node belongs and changes nothing.
    2. What an inner `tf.device` said wins, field by field (merge_devices=True); a node whose job
       is another than the parameter servers' gets no task from the strategy.

Threads: a setter counts its variables; one graph is built by one thread at a time.

    cluster = {"ps": ["a:2222", "b:2222"], "worker": ["c:2222"]}
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        v = tf.Variable(0.0)           # /job:ps/task:0
        w = tf.Variable(1.0)           # /job:ps/task:1
        y = v + w                      # /job:worker
"""
import itertools
import logging

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


PUBLIC = {
    "train.replica_device_setter": replica_device_setter,
}
