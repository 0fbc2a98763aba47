"""Where a session runs: targets by name.

    ""        this process, as one task of its own
    "local"   the same
    others    what was registered: a whole target, or a scheme ("grpc" for "grpc://host:port")

A place (contract.Place) opens sessions.  `Local` is the one that runs them in this process; a
server registers a place of its own under its address, so that `Session(server.target)` in the
server's process adds no hop.

Invariants
    1. What is registered as a whole target is found before its scheme.
    2. A target means one place as long as it is registered.

Threads: any; the table is guarded by a lock.
"""
import importlib
import threading

from pyflow import config as env
from pyflow.framework import errors
from pyflow.passes.options import Options as Rewrites
from pyflow.session import contract, plans, runtime
from pyflow.session import devices as devices_lib

_lock = threading.Lock()


class Local(contract.Place):
    """Sessions of this process.  task: the executor's Task whose containers and devices they have;
    None: the process's own."""

    def __init__(self, task=None):
        self.task = task

    def open(self, options):
        """The session's Opened."""
        executor = runtime.start()
        state = executor.State(options.name, self.task)
        devices = devices_lib.open_devices(executor, options.config, self.task)
        if options.costs is not None:
            devices_lib.measure_speeds(executor, devices, options.threads)
        made = Made(options, options.config)
        compiler = plans.Compiler(options.graph, state, made.pool, devices, made.config,
                                  made.options, made.rewrites, options.costs)
        return contract.Opened(state, made.pools, compiler, options.timeout_ms)

    def reset(self, containers, timeout=None):
        """Forgets the task's named containers; all of them for []."""
        executor = runtime.start()
        (executor.Task() if self.task is None else self.task).reset_containers(containers)

    def ends_sessions_here(self):
        """Nobody else does."""
        return True


class Made:
    """What a session's compiler is made of, wherever its tasks are: pools, pool, CompileOptions,
    rewrites.  config: the ConfigProto that counts."""

    def __init__(self, options, config):
        self.config, self.pools = config, devices_lib.Pools(config, options.threads)
        self.pool, self.rewrites = self.pools.get(0), Rewrites.of(config)
        self.options = contract.CompileOptions(
            contract.PlanOptions(threads=options.threads, deterministic=options.deterministic,
                                 blocks=env.value("PYFLOW_SCHEDULE") is None),
            options.partitions, env.value("PYFLOW_DEBUG"),
            config is not None and bool(config.graph_options.enable_recv_scheduling))
        look = options.inspection
        if look is not None:
            self.options = look.plan_options(self.options)
            self.rewrites = look.rewrites(self.rewrites)
            self.pool = runtime.pool(1) if look.debug else self.pool


LATER = {"grpc": "pyflow.distributed.run.client"}  # scheme: module whose `place_of` serves it
_process = Local()
_places = {"": _process, "local": _process}
_schemes = {}                           # scheme: function(target) -> place
_of_schemes = {}                        # target: the place that its scheme's function made


def register(target, place):
    """From now on sessions with this target run at `place`; ValueError if there is one already."""
    with _lock:
        if target in _places:
            raise ValueError(f"target {target!r} is registered already")
        _places[target] = place


def unregister(target):
    """Sessions that are open stay; KeyError if nobody registered it."""
    with _lock:
        del _places[target]


def register_scheme(scheme, place_of):
    """Targets "SCHEME://...", unless registered as a whole, run at place_of(target), asked once."""
    with _lock:
        if scheme in _schemes:
            raise ValueError(f"targets {scheme}://... are registered already")
        _schemes[scheme] = place_of


def named(target):
    """The target as a string, checked.  Raises TypeError, or NotFoundError."""
    if isinstance(target, bytes):
        target = target.decode()
    if not isinstance(target, str):
        raise TypeError(f"target must be a string, but got {type(target)}")
    find(target)
    return target


def find(target):
    """The place of a target.  Raises NotFoundError, which names those there are."""
    with _lock:
        place = _places.get(target) or _of_schemes.get(target)
        scheme = _schemes.get(target.partition("://")[0]) if "://" in target else None
        later = LATER.get(target.partition("://")[0]) if "://" in target else None
        known = [repr(t) for t in sorted(_places)] + [f"{s}://..." for s in sorted({*_schemes, *LATER})]
    if place is None and scheme is None and later is not None:
        scheme = importlib.import_module(later).place_of
    if place is None and scheme is not None:
        place = scheme(target)
        with _lock:
            place = _of_schemes.setdefault(target, place)
    if place is None:
        raise errors.NotFoundError(
            None, None,
            "No session factory registered for the given session options: target "
            f"{target!r}. Here are {', '.join(known)}: '' and 'local' run in this process.")
    return place
