"""A mutex between ops.

Invariant: a MutexLock op completes when it has the mutex; its output is the lock, released by
ConsumeMutexLock or when nobody holds it any more.

Who calls it: lib/variables/critical_section.py.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape


@op("MutexV2", outputs="resource: resource", stateful=True,
    attrs='container: string = "", shared_name: string = ""')
class MutexV2:
    """A handle of the named mutex, made on first use. TF: MutexV2."""
    def shape(op): return TensorShape([])
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("MutexLock", inputs="mutex: resource", outputs="mutex_lock: variant", stateful=True)
class MutexLock:
    """Waits for the mutex; the lock is held as long as its tensor lives or until it is consumed.
    TF: MutexLock."""
    def shape(op): return TensorShape([])
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ConsumeMutexLock", inputs="mutex_lock: variant", stateful=True)
class ConsumeMutexLock:
    """Releases a lock. TF: ConsumeMutexLock."""
    def shape(op): return []
    gradient = UNREGISTERED
    reference = None
    samples = None
