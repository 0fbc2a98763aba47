"""Graphs over many processes: servers, masters, workers, and the ways between them.

    cluster = tf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:2223"]})
    server = tf.train.Server(cluster, job_name="worker", task_index=0)
    with tf.Session(server.target) as sess: ...

docs/distributed.md tells how to use it; here is how it is cut, into rooms of which each uses those
above it alone (tests/abi/test_layers.py):

    wire/    what travels, and by which way: messages.py, tensors.py; rpc.py, links.py, routes.py,
             pairs.py; security.py
    look/    what is seen from outside: asking.py; waits.py, why.py; tracing.py, merged_trace.py
    run/     session -> place (server.py: in this process; client.py: behind an address)
                     -> master.py: sessions over many tasks; cluster_compiler.py: devices,
                        partitions; cluster_step.py: steps; session_link.py: the tasks in use
                     -> worker.py: one task's plans and steps;  remote_worker.py: the same over gRPC
    launch/  which task this process is; launchers; job_end.py: how a job ends
    train/   training.py: sessions that train, and are recovered; collectives.py: sums over tasks

Programs name some modules without their room (PUBLIC): `from pyflow.distributed import training`,
`import pyflow.distributed.commits`.

grpcio is needed by who speaks to another process, and imported then.
"""
import importlib
import importlib.abc
import importlib.machinery
import sys

PUBLIC = {"collectives": "train", "commits": "train", "job_end": "launch", "pairs": "wire",
          "resharding": "train", "training": "train", "ways": "look"}


def _module(name):
    return importlib.import_module(f"{__name__}.{PUBLIC[name]}.{name}")


def __getattr__(name):
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _module(name)


def __dir__():
    return sorted([*globals(), *PUBLIC])


class _PublicNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `pyflow.distributed.NAME` of PUBLIC: the module of its room itself, not another one."""

    def find_spec(self, name, path=None, target=None):
        package, _, last = name.rpartition(".")
        if package != __name__ or last not in PUBLIC:
            return None
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        module = _module(spec.name.rpartition(".")[2])
        spec.loader_state = module.__spec__     # which the import system is about to replace
        return module

    def exec_module(self, module):
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_PublicNames())
