"""Where a session runs: targets by name.

    ""        this process, as one task of its own
    "local"   the same
    others    what was registered: a whole target, or a scheme ("grpc" for "grpc://host:port")

A PLACE opens sessions: `place.open(session, deterministic, partitions, costs, inspect) -> Opened`
and `place.reset(containers, timeout)`, seconds or None.  `Local` is the one that runs them in this
process; a server registers a Local with its own task under its address, so that
`Session(server.target)` in the server's process adds no hop.

Invariants
    1. What is registered as a whole target is found before its scheme.
    2. A target means one place as long as it is registered.

Threads: any; the table is guarded by a lock.
"""
import collections
import importlib
import threading

from pyflow import config as env
from pyflow.framework import errors
from pyflow.passes.options import Options as Rewrites
from pyflow.session import devices as devices_lib
from pyflow.session import plans, runtime

Opened = collections.namedtuple("Opened", "step_error state pools compiler")
Opened.__doc__ = """What a session is made of: the class of its steps' failures, its state (`close`, `cancel`,
`streams`), its thread pools by number, and the compiler of its plans."""

_lock = threading.Lock()


class Local:
    """Sessions of this process.  task: the executor's Task whose containers and devices they have;
    None: the process's own."""

    def __init__(self, task=None):
        self.task = task

    def open(self, session, deterministic, partitions, costs, inspect):
        executor = runtime.start()
        config, threads = session._config, session._threads
        state = executor.State(f"session_{id(session):x}", self.task)
        devices = devices_lib.open_devices(executor, config, self.task)
        pools = devices_lib.Pools(config, threads)
        if costs is not None:
            devices_lib.measure_speeds(executor, devices, threads)
        options = plan_options(threads, deterministic, partitions, config, inspect)
        rewrites, pool = Rewrites.of(config), pools.get(0)
        if inspect is not None:
            options, rewrites = inspect.plan_options(options), inspect.rewrites(rewrites)
            pool = runtime.pool(1) if inspect.debug else pool
        compiler = plans.Compiler(
            session.graph, state, pool, devices,
            bool(getattr(config, "allow_soft_placement", False)),
            bool(getattr(config, "log_device_placement", False)), options, rewrites, costs)
        return Opened(executor.StepError, state, pools, compiler)

    def reset(self, containers, timeout=None):
        """Forgets the task's named containers; all of them for []."""
        executor = runtime.start()
        (executor.Task() if self.task is None else self.task).reset_containers(containers)


def plan_options(threads, deterministic, partitions, config, inspect):
    """What a session's plans are compiled with (plans.Compiler's options)."""
    return {"threads": threads, "blocks": env.value("PYFLOW_SCHEDULE") is None,
            "deterministic": bool(deterministic), "partitions": partitions,
            "debug": env.value("PYFLOW_DEBUG"),
            "schedule_recvs": config is not None
            and bool(config.graph_options.enable_recv_scheduling), "inspection": inspect}


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
