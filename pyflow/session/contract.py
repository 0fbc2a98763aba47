"""The contract of what runs: what a session asks for, and who answers, wherever that is.

    Place      opens sessions: targets.Local, master.Place, client.Place
    Opened     what a session is made of: State, Compiler, thread pools
    State      what is kept from step to step: the executor's State, SessionLink, client.Link
    Compiler   fetches and feeds -> a Plan: of plans.py, cluster_compiler.py, client.py
    Plan       runs as one step: the executor's Plan and Parts, ClusterPlan, OwnPlan, client.Plan
    Running    a step under way: the executor's Started and Remote, ClusterStep, client.Running
    Worker     one task's plans and steps: worker.Worker, remote_worker.RemoteWorker

A session holds a State, a Compiler and Plans and never asks which of them it has: what one place
cannot do it refuses with an error that says so.  tests/session/test_contract.py asks the same of
every place.

Options are frozen and typed; they are made once and passed down as they are, to the core's
pf_plan_options and pf_run_options (_executor/api/options.pyx).  What Python alone looks at
(CompileOptions, SessionOptions) is never among what the core takes.  None means PlanOptions() or
RunOptions() and costs nothing.

Errors: compiling raises tf.errors exceptions; a step raises the executor's StepError, which
`Compiled.explain` turns into the tf.errors exception with the user's line.  Feeds that do not fit
are ValueError and TypeError before anything begins.

Threads: every method may be called from any thread, unless it says otherwise.

    opened = place.open(SessionOptions(graph, threads=2))
    plan = opened.compiler.compile([y], [], [x]).plan
    [value] = plan.run([x_value], RunOptions(timeout_ms=1000))
    running = plan.start([x_value])
    running.cancel("not needed")
"""
import abc
import collections
import dataclasses
import typing

BY_POOL, BY_STARTER, BY_WAITER = 0, 1, 2        # who works for a step that is begun (Plan.start)
MAX_TIMEOUT_MS = 10 * 365 * 86_400_000          # longer ones are as good as none; clocks hold it


# ---------------------------------------------------------------- options

def _check(options, kinds):
    """Raises TypeError for a field of another type than `kinds` says: {name: type}."""
    for name, kind in kinds.items():
        value = getattr(options, name)
        if type(value) is not kind:
            raise TypeError(f"{type(options).__name__}({name}={value!r}): expected a "
                            f"{kind.__name__}, but got {type(value)}")


@dataclasses.dataclass(frozen=True, slots=True)
class PlanOptions:
    """How the core compiles a plan (pf_plan_options).  TypeError, ValueError for what does not fit.

    threads: of its pool; 1: loops run inline and expensive nodes join blocks; 0: as many as it has.
    inline: short loops run within their block.  blocks: cheap nodes run in blocks.
    ordered: strictly in construction order, on one thread.
    groups: plugins may compile groups of nodes.  deterministic: only into deterministic kernels.
    """

    threads: int = 0
    inline: bool = True
    blocks: bool = True
    ordered: bool = False
    groups: bool = True
    deterministic: bool = False

    def __post_init__(self):
        _check(self, _PLAN_KINDS)
        if not 0 <= self.threads < 1 << 31:
            raise ValueError(f"PlanOptions(threads={self.threads}): expected 0 or more")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunOptions:
    """How a step runs (pf_run_options).  TypeError, ValueError for what does not fit.

    timeout_ms: after it the step ends with DEADLINE_EXCEEDED; 0: never.
    keep: results are the executor's Kept, not arrays.
    trace: an executor Trace, which gets what ran when, at every task that takes part.
    stats: a dict that gets "kernels", how many ran in this process.  `run` alone.
    inspect: an executor Inspector, which looks at every kernel.  `run` alone, and one process.
    cancel: an executor CancelToken, which ends it.  `run` alone, and one process: `Running.cancel`
        does so everywhere.
    task: an executor Task, whose step it is.  `start` alone, with a key.
    rendezvous: an executor Rendezvous, in place of a private one.  One process.
    """

    timeout_ms: int = 0
    keep: bool = False
    trace: typing.Any = None
    stats: dict | None = None
    inspect: typing.Any = None
    cancel: typing.Any = None
    task: typing.Any = None
    rendezvous: typing.Any = None

    def __post_init__(self):
        _check(self, _RUN_KINDS)
        if not 0 <= self.timeout_ms <= MAX_TIMEOUT_MS:
            raise ValueError(f"RunOptions(timeout_ms={self.timeout_ms}): expected 0, which is "
                             f"none, to {MAX_TIMEOUT_MS}")


_PLAN_KINDS = {field.name: field.type for field in dataclasses.fields(PlanOptions)}
_RUN_KINDS = {"timeout_ms": int, "keep": bool}
ON_REQUEST = RunOptions(keep=True)              # of who passes the values on, or keeps them


def require_run_options(options):
    """Raises TypeError for what is no RunOptions."""
    if type(options) is not RunOptions:
        raise TypeError("options must be a RunOptions of pyflow.session.contract, but got "
                        f"{type(options)}: {options!r}")


def with_timeout(timeout_ms):
    """The RunOptions of a deadline: None where there is none (0 or less)."""
    return RunOptions(min(timeout_ms, MAX_TIMEOUT_MS)) if timeout_ms > 0 else None


@dataclasses.dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a session's graph becomes plans.

    plan: what the core takes.  The rest is Python's: partitions ("one", "device"), debug
    (PYFLOW_DEBUG's level), schedule_recvs (GraphOptions.enable_recv_scheduling), inspection
    (inspection.Inspection, or None)."""

    plan: PlanOptions = PlanOptions()
    partitions: str = "one"
    debug: int = 0
    schedule_recvs: bool = False
    inspection: typing.Any = None

    def __post_init__(self):
        _check(self, {"plan": PlanOptions, "partitions": str, "debug": int, "schedule_recvs": bool})
        if self.partitions not in ("one", "device"):
            raise ValueError("partitions must be 'one' (a single plan) or 'device' (a plan per "
                             f"device), but got {self.partitions!r}")

    def of_plan(self, **changes):
        """With other PlanOptions; TypeError for one that there is not."""
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, **changes))


@dataclasses.dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a session asks its place for.

    graph: the Graph.  config: a ConfigProto, or None.  threads: of its own pool.
    deterministic, partitions: as of tf.Session.  costs: a CostModel, or None.
    inspection: an Inspection, or None.  timeout_ms: of its steps, 0: none.
    name: what tells its state from others' in this process.
    on_lost: function(why), called once if the place ends the session; a weak reference's target, or
        None."""

    graph: typing.Any
    config: typing.Any = None
    threads: int = 1
    deterministic: bool = False
    partitions: str = "one"
    costs: typing.Any = None
    inspection: typing.Any = None
    timeout_ms: int = 0
    name: str = "session"
    on_lost: typing.Any = None


Opened = collections.namedtuple("Opened", "state pools compiler timeout_ms")
Opened.__doc__ = """What a session is made of: its State, its thread pools by number
(devices.Pools), the Compiler of its plans, and the milliseconds its steps may take unless they say
otherwise, 0: any."""


# ---------------------------------------------------------------- what runs

class Running(abc.ABC):
    """A step under way.  Dropped while it runs, it is cancelled."""

    __slots__ = ()

    @abc.abstractmethod
    def done(self):
        """It is over: `result` will not wait."""

    @abc.abstractmethod
    def wait(self, timeout=None):
        """Until it is over, at most `timeout` seconds; whether it is.  Signal handlers run
        meanwhile, and what they raise comes out."""

    @abc.abstractmethod
    def result(self, timeout=None):
        """The fetches' values in order, once.  Raises what failed the step, a StepError;
        TimeoutError if it runs after `timeout` seconds."""

    @abc.abstractmethod
    def cancel(self, why="cancelled"):
        """Soon; `result` raises CANCELLED then, unless the step ended before.  Waits for nobody."""


class Plan(abc.ABC):
    """A signature of feeds and fetches, compiled.  Runs of one plan are isolated from each other.

    arg_names: of what is fed, in order."""

    __slots__ = ()

    @abc.abstractmethod
    def run(self, feeds=(), options=None):
        """The fetches' values of one step, in order; this thread may work for it.  feeds: a list or
        tuple of arrays, bytes, Kept and handles.  options: RunOptions.  Raises StepError;
        ValueError, TypeError for feeds that do not fit; what a signal handler raised."""

    @abc.abstractmethod
    def start(self, feeds=(), options=None, done=None, key=None, by=BY_POOL):
        """Begins a step and returns its Running at once.  Arrays that are fed have to stay as they
        are until it is over.

        done(running): called once when it is over, perhaps before this returns, on any thread: it
        has to be brief.  key: (session, step), with which other tasks know it; options.task says
        whose it is.  by: BY_POOL: the pool's threads work for it; BY_STARTER: so does this thread,
        as far as what it does is bounded; BY_WAITER: whoever waits for it, which is to be at
        once.  Raises as `run` what is wrong before it begins."""

    @abc.abstractmethod
    def explain(self):
        """The plan as text, for people."""

    @abc.abstractmethod
    def counts(self):
        """Numbers of nodes, blocks and the like, of each part: a dict, or a list of them."""


class PartialRun(abc.ABC):
    """A step in stages (Session.partial_run).  finished: all was fed and fetched."""

    @abc.abstractmethod
    def advance(self, mapper, pairs, timeout_ms):
        """Feeds the [(Tensor, value)] of `pairs`, runs what can run, and gives the values of the
        FetchMapper's tensors.  Raises InvalidArgumentError for what was not set up, or comes twice,
        or cannot be computed yet; the tf.errors exception of an operation that fails."""


# ---------------------------------------------------------------- what a session is made of

class State(abc.ABC):
    """What a session keeps from step to step."""

    @abc.abstractmethod
    def cancel(self, why="cancelled"):
        """Ends every step that runs with CANCELLED, and those that begin later."""

    @abc.abstractmethod
    def close(self):
        """Forgets all of it.  Twice is once."""

    @abc.abstractmethod
    def abandon(self):
        """Cancels and closes for a finaliser, which may run within anything: it waits for no other
        process and raises nothing."""

    @abc.abstractmethod
    def streams(self):
        """Where all random streams are, as bytes."""

    @abc.abstractmethod
    def set_streams(self, data):
        """All random streams as `streams` gave them; those it lacks begin anew.  Raises
        StepError."""

    @abc.abstractmethod
    def seek(self, position, shard=0, everywhere=False):
        """What random operations draw from now on depends on their seeds, the position and the
        shard alone; everywhere: at all tasks in use, else in this process."""

    @abc.abstractmethod
    def kept(self, name):
        """The Kept of a TensorHandle's name, or None."""

    @abc.abstractmethod
    def forget(self, name):
        """Lets a kept tensor go; whether there was one."""


class Compiler(abc.ABC):
    """Makes a session's plans.  Called under the session's lock."""

    @abc.abstractmethod
    def compile(self, tensors, targets, feeds, joined=None):
        """A plans.Compiled of the graph as it is now.  joined: {Tensor: the Tensor that is read in
        its place}.  Raises tf.errors exceptions for what does not fit."""

    @abc.abstractmethod
    def partial_run(self, mapper, feeds):
        """A PartialRun that may fetch what the FetchMapper names; feeds: [feeds.Feed]."""

    @abc.abstractmethod
    def on_pool(self, pool):
        """A Compiler that is equal but for its plans' thread pool, where that is of this
        process."""

    @abc.abstractmethod
    def list_devices(self):
        """[DeviceAttributes] of all devices of the session.  Raises StepError."""


class Place(abc.ABC):
    """Where sessions of a target run (targets.py)."""

    @abc.abstractmethod
    def open(self, options):
        """The Opened of a session with these SessionOptions.  Raises tf.errors exceptions."""

    @abc.abstractmethod
    def reset(self, containers, timeout=None):
        """Forgets named containers, all for [].  timeout: seconds in which a server has to answer.
        Where sessions are a server's, it ends them: who uses them hears AbortedError.  Raises
        StepError."""

    def ends_sessions_here(self):
        """Whether `reset` is to close the sessions that this process has there."""
        return False


class Worker(abc.ABC):
    """One task's plans and steps, as a master asks for them.  name: the task's.  A session is a
    number that the master gives it, a graph one that `register` gives."""

    @abc.abstractmethod
    def status(self):
        """Its GetStatusResponse."""

    @abc.abstractmethod
    def open_session(self, number, isolate=False, master="", lease=0.0, patience=None,
                     given_up=None):
        """Begins a session; again: it is still alive.  patience: seconds to wait for the task to be
        there, None: any.  given_up(): whether to stop waiting.  Raises StepError."""

    @abc.abstractmethod
    def close_session(self, number):
        """Ends it with its plans and steps; twice is once."""

    @abc.abstractmethod
    def touch(self, numbers):
        """The master of these sessions is alive."""

    @abc.abstractmethod
    def register(self, number, data, consts, deterministic=False, ops=(), routes=(), types=()):
        """Compiles a partition for a session: its graph.  data: GraphDef bytes; consts: its large
        constants by name, emptied; ops: the names of the ops in it; routes: RouteMessages to the
        tasks that it sends to; types: the element types of what is fed.  Raises StepError."""

    @abc.abstractmethod
    def deregister(self, number, graphs):
        """Forgets graphs."""

    @abc.abstractmethod
    def start(self, graph, feeds=(), options=None, done=None, key=None, by=BY_POOL):
        """As Plan.start, of a graph that `register` gave; key's session is the graph's.  What
        another task records is in options.trace when it is over.  Raises StepError, also for feeds
        that do not fit."""

    @abc.abstractmethod
    def fail(self, number, step, failure):
        """The step failed elsewhere with this StepError: it fails here, now or as it begins."""

    @abc.abstractmethod
    def clean(self, number, steps, soon=False):
        """These steps are over everywhere.  soon: it hears so with what it is told next, or a
        little later."""

    @abc.abstractmethod
    def state_of(self, request):
        """A StateResponse to a StateRequest, of a session's State there."""

    @abc.abstractmethod
    def reset(self, containers, timeout=None):
        """As Place.reset, of this task."""
