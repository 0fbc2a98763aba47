"""Session: runs parts of a graph.

    run(fetches, feed_dict)
      first time   fetches -> FetchMapper;  feeds -> Feeds;  passes -> Plan;  all kept as a `Step`
      afterwards   one dict lookup, a check of each fed array, Plan.run, the user's structure
      rebuilt

Where it runs is the place's of its target; what that gives (State, Compiler, Plans) obeys
contract.py, and nothing here asks which it is.

Invariants
    1. `_steps` maps (fetch, *feed keys) or a signature of them to a Step; a Step serves any thread,
       any number of runs at once.
    2. Plans are dropped when existing operations were changed; added operations leave them valid.
       Variables live in `_state`, not in plans, so they keep their values.
    3. After `close` every call raises RuntimeError.

Threads: all methods may be called from any thread; `_lock` guards compiling and closing only.

    with tf.Session() as sess:
        sess.run([loss, train_op], {x: images})
"""
import collections
import itertools
import threading
import warnings
import weakref

import numpy as np

from pyflow import config as env
from pyflow.framework import errors, origin
from pyflow.framework import graph as graph_lib
from pyflow.session import callable_options as callable_options_lib
from pyflow.session import feeds as feeds_lib
from pyflow.session import fetches as fetches_lib
from pyflow.session import (contract, failures, handles, inspection, metadata, plans, random_state,
                            runtime, targets)
from pyflow.session import threads as threads_lib

_ndarray = np.ndarray
_live = weakref.WeakSet()


class Step:
    """What `run` needs for one signature of fetches and feeds."""

    __slots__ = ("mapper", "feeds", "compiled", "leaf", "fed_fetches", "handles", "_session", "_run",
                 "_error", "keep")

    def __init__(self, mapper, feeds, compiled, fed_fetches, session, keep):
        self.mapper, self.feeds, self.compiled = mapper, feeds, compiled
        self.fed_fetches = fed_fetches  # [(slot of a fetch, index of the feed that is fetched)]
        self.handles = handles.fetched(mapper.tensors)
        self.leaf = mapper.is_leaf and not fed_fetches and not self.handles
        self._session = weakref.ref(session) if self.handles else None
        self._run = compiled.run
        self._error = runtime.executor().StepError
        self.keep = keep                          # the fetches: a signature may hold their id

    def run(self, values, options=None):
        """The result for one value per feed, in order.  options: contract.RunOptions."""
        args = []
        for feed, value in zip(self.feeds, values):
            if (
                type(value) is not _ndarray
                or value.dtype is not feed.dtype
                or value.shape != feed.shape
            ):
                value = feed.convert(value)
            args.append(value)
        try:
            results = self._run(args, options)
        except self._error as failure:
            raise self.compiled.explain(failure) from None
        if self.leaf:
            return results[0]
        if self.fed_fetches:
            results = self._with_fed(results, args)
        if self.handles:
            results = handles.wrap(self._session(), self.handles, results)
        return self.mapper.build(results)

    def run_watched(self, values, options, look, every):
        """As `run`; `look` is called every so many seconds meanwhile, on this thread."""
        if self.compiled.observed:
            return self.run(values, options)
        args = [feed.convert(value) for feed, value in zip(self.feeds, values)]
        try:
            running = self.compiled.plan.start(args, options)
            while not running.wait(every):
                look()
            results = running.result()
        except self._error as failure:
            raise self.compiled.explain(failure) from None
        if self.fed_fetches:
            results = self._with_fed(results, args)
        if self.handles:
            results = handles.wrap(self._session(), self.handles, results)
        return self.mapper.build(results)

    def _with_fed(self, results, args):
        results = list(results)
        for slot, index in self.fed_fetches:
            results.insert(slot, self.feeds[index].fetched(args[index]))
        return results


class BaseSession:
    """A session on the operations of one graph; see `Session`."""

    def __init__(self, target="", graph=None, config=None, threads=None, deterministic=False,
                 partitions=None, placement=None, placement_costs=None, debug=None,
                 check_numerics=None):
        self._closed, self._closed_at, self._lost = True, None, None    # until all below worked
        self._has_graph = graph is not None
        self._graph = graph if self._has_graph else graph_lib.get_default_graph()
        if not isinstance(self._graph, graph_lib.Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        self._target = targets.named(target)
        self._config = _check_config(config)
        self._threads = threads_lib.choose(threads, config)
        self._lock, self._steps = threading.RLock(), {}
        self._partial_runs, self._handle_numbers = {}, itertools.count()
        self._traced = None     # (Step, weak reference to its RunMetadata), the last, for a notebook
        self._callables = weakref.WeakSet()
        self._default_session, self._contexts = None, []
        options = contract.SessionOptions(
            self._graph, self._config, self._threads, bool(deterministic),
            _check_partitions(partitions), plans.placement_costs(placement, placement_costs),
            inspection.choose(debug, check_numerics),
            max(0, int(getattr(config, "operation_timeout_in_ms", 0) or 0)),
            f"session_{id(self):x}", weakref.WeakMethod(self._lose))
        self._inspection = options.inspection
        self._open(options)
        self._closed = False
        _live.add(self)
        self._begin()

    def _open(self, options):
        self._place = targets.find(self._target)
        with failures.typed(self._graph):
            opened = self._place.open(options)
        self._state, self._pools, self._compiler = opened.state, opened.pools, opened.compiler
        self._timeout_ms = opened.timeout_ms
        self._options = contract.with_timeout(opened.timeout_ms)   # of runs that say nothing else
        self._dead_handles, self._handle_readers = handles.DeadHandles(self._state), {}
        self._changes = self._count_changes()

    def _begin(self):
        """It is open."""

    def __repr__(self):
        state = "closed" if self._closed else f"{self._threads} threads"
        return f"<tf.{type(self).__name__} of {getattr(self, '_graph', None)!r}, {state}>"

    def _repr_html_(self):
        from pyflow.session import notebook
        return notebook.session_html(self)

    # ------------------------------------------------------------ properties

    @property
    def graph(self):
        """The graph that was launched in this session."""
        return self._graph

    @property
    def graph_def(self):
        """A GraphDef of the graph."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self):
        """The target given to the constructor."""
        return self._target

    def list_devices(self):
        """[DeviceAttributes]: name, device_type, memory_limit_bytes of every device of the
        session."""
        self._require_open()
        with failures.typed(self._graph):
            return self._compiler.list_devices()

    # ------------------------------------------------------------ running

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs operations and evaluates tensors in `fetches`.

        fetches: a Tensor, Operation, name, or nested structure of them; the result has the same
            structure, None for operations.
        feed_dict: values by Tensor (or name); arrays of the right type are not copied.
        options: RunOptions; `timeout_in_ms` limits this run, `trace_level` (FULL_TRACE: every
            kernel; SOFTWARE_TRACE: blocks of kernels) fills run_metadata.step_stats,
            `output_partition_graphs` its partition_graphs.
        run_metadata: RunMetadata whose content is replaced, also when the run fails.  A
            tf.RunMetadata makes it when it is first read, a message of another class has it at once.

        Raises RuntimeError if the session is closed, TypeError or ValueError for wrong fetches and
        feeds, and a tf.errors exception if an operation fails.
        """
        if type(fetches) in _STRUCTURES:
            key = (
                (fetches_lib.signature(fetches), *feed_dict)
                if feed_dict
                else (fetches_lib.signature(fetches),)
            )
        else:
            key = (fetches, *feed_dict) if feed_dict else (fetches,)
        try:
            step = self._steps[key]
        except (KeyError, TypeError):
            step = None                         # run outside: a failure has no context here
        graph = self._graph
        if graph.revision - len(graph._nodes_by_id) != self._changes:
            step = None
        if options is not None or run_metadata is not None:
            return self._run_with_options(step, fetches, feed_dict, options, run_metadata)
        if step is None:
            return self._first_run(fetches, feed_dict)
        return step.run(feed_dict.values() if feed_dict else (), self._options)

    def run_watched(self, fetches, feed_dict, look, every=0.1):
        """`run`, while `look()` is called every so many seconds on this thread, for what takes
        long; not in debug mode and where all steps are traced.  What `look` raises ends the
        step."""
        step, values = self._step_for(fetches, feed_dict)
        return step.run_watched(values, self._options, look, every)

    def _first_run(self, fetches, feed_dict):
        step, values = self._step_for(fetches, feed_dict)
        return step.run(values, self._options)

    def _run_with_options(self, step, fetches, feed_dict, options, run_metadata):
        """`step`: the one for the session's own pool, if it is known."""
        pool = int(getattr(options, "inter_op_thread_pool", 0) or 0)
        values = feed_dict.values() if feed_dict else ()
        if step is None or pool:
            step, values = self._step_for(fetches, feed_dict, pool)
        if run_metadata is not None:
            self._traced = step, metadata.weakly(run_metadata)
        return self._run_step(step, values, options, run_metadata)

    def _run_step(self, step, values, options, run_metadata):
        timeout_ms = int(getattr(options, "timeout_in_ms", 0) or 0)
        given = contract.with_timeout(timeout_ms) or self._options
        level = metadata.level_of(options) if run_metadata is not None else 0
        trace = runtime.executor().Trace(level) if level else None
        if trace is not None:
            given = contract.RunOptions(given.timeout_ms if given is not None else 0, trace=trace)
        try:
            return step.run(values, given)
        finally:
            if run_metadata is not None:
                asked = getattr(options, "output_partition_graphs", False)
                metadata.fill(run_metadata, trace, step.compiled.graphs if asked else ())

    def _step_for(self, fetches, feed_dict, pool=0):
        """The Step for these fetches and feeds on a thread pool, and the values in its order."""
        self._require_open()
        if not self._graph.version:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )
        pairs = feeds_lib.flatten(self._graph, feed_dict) if feed_dict else []
        tensors = tuple(t for t, _ in pairs)
        if len(set(tensors)) != len(tensors):
            twice = next(t for i, t in enumerate(tensors) if t in tensors[:i])
            raise ValueError(f"Tensor {twice.name!r} is fed twice in one feed_dict")
        with self._lock:
            self._require_open()
            self._drop_stale_plans()
            plain = not pool and all(
                isinstance(k, (graph_lib.Tensor, str)) for k in feed_dict or ())
            signature = fetches_lib.signature(fetches)
            keys = [((pool, signature) if pool else signature, *tensors)]
            step = self._steps.get(keys[0])
            if step is None:
                step = self._make_step(fetches, tensors, pool)
            if plain:
                structure = type(fetches) in _STRUCTURES
                keys.append((keys[0][0] if structure else fetches, *(feed_dict or ())))
            for key in keys:
                self._remember(key, step)
        return step, [v for _, v in pairs]

    def _remember(self, key, step):
        try:
            if type(key[0]) is tuple or not isinstance(key[0], tuple):    # never a bare named tuple
                self._steps[key] = step
        except TypeError:
            pass                                   # unhashable: the signature serves

    def _make_step(self, fetches, fed, pool=0, targets=(), joined=None):
        """targets: operations to run besides; joined: {Tensor: what is read in its place}."""
        mapper = fetches_lib.FetchMapper(self._graph, fetches)
        order = {t: i for i, t in enumerate(fed)}
        fed_fetches = [(slot, order[t]) for slot, t in enumerate(mapper.tensors) if t in order]
        computed = [t for t in mapper.tensors if t not in order]
        in_debug = self._inspection is not None and self._inspection.debug
        compiler = (self._compiler if not pool or in_debug else
                    self._compiler.on_pool(self._pools.get(pool)))
        with failures.typed(self._graph):
            compiled = compiler.compile(computed, [*mapper.targets, *targets], list(fed), joined)
        self._graph.mark_run()
        return Step(mapper, self._feeds(fed), compiled, fed_fetches, self, fetches)

    def _feeds(self, tensors):
        return [feeds_lib.Feed(t, self._state) for t in tensors]

    def _count_changes(self):
        """Changes of existing operations so far (additions count in both numbers)."""
        return self._graph.revision - len(self._graph._nodes_by_id)

    def _drop_stale_plans(self):
        changes = self._count_changes()
        if changes != self._changes:
            self._steps.clear()
            self._changes = changes

    # ------------------------------------------------------------ callables and partial runs

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        """A function that runs `fetches` with the values of `feed_list` as positional arguments.

        With accept_options it also takes options= and run_metadata=.  Faster than `run` for small
        steps.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        feed_list = list(feed_list or ())
        pairs = [feeds_lib.feedable(self._graph, key) for key in feed_list]
        if len(set(pairs)) != len(pairs):
            raise ValueError("`feed_list` names a tensor twice")
        with self._lock:
            self._require_open()
            self._drop_stale_plans()
            step = self._make_step(fetches, tuple(pairs))
        fast = self._fast_callable(step)
        if not accept_options:
            return fast

        def run_step(*values, options=None, run_metadata=None):
            if options is None and run_metadata is None:
                return fast(*values)
            self._require_open()
            if len(values) != len(pairs):
                return fast(*values)            # which says so
            return self._run_with_options(step, fetches, dict(zip(pairs, values)), options,
                                          run_metadata)
        return run_step

    def _make_callable_from_options(self, callable_options):
        """A function that runs what a CallableOptions message names: it takes a value per `feed`
        and run_metadata=, and returns the list of the values of `fetch`.  See
        callable_options.py."""
        return callable_options_lib.make(self, callable_options)

    def _fast_callable(self, step):
        count, options, compiled = len(step.feeds), self._options, step.compiled

        def checked(*values):
            """The way for values that need converting, and for the first call."""
            self._require_open()
            if len(values) != count:
                raise TypeError(
                    f"this callable takes {count} values, one per entry of feed_list; got"
                    f" {len(values)}"
                )
            return step.run(values, options)
        if step.fed_fetches or step.handles or options is not None or compiled.core is None \
                or len(compiled.graphs) > 1 or compiled.observed:
            return checked
        finish = None if step.leaf else step.mapper.build
        fast = runtime.executor().Callable(
            compiled.core, step.leaf, finish, checked, compiled.explain)
        self._callables.add(fast)
        return fast

    def partial_run_setup(self, fetches, feeds=None):
        """Prepares a run whose feeds come and fetches go in several `partial_run` calls.  Returns
        its handle."""
        self._require_open()
        mapper = fetches_lib.FetchMapper(self._graph, fetches)
        if not mapper.tensors and not mapper.targets:
            raise errors.InvalidArgumentError(
                None, None, "Must specify at least one target to fetch or execute: "
                f"partial_run_setup got fetches={fetches!r}")
        tensors = feeds_lib.partial_feeds(self._graph, feeds or [])
        with self._lock:
            self._require_open()
            self._drop_stale_plans()
            with failures.typed(self._graph):
                run = self._compiler.partial_run(mapper, self._feeds(tensors))
            handle = f"partial_run_{next(self._handle_numbers)}"
            self._partial_runs[handle] = run
        self._graph.mark_run()
        return handle

    def partial_run(self, handle, fetches, feed_dict=None):
        """Continues a partial run: feeds more values, fetches what can be computed from all fed so
        far.

        Each feed and each fetch may be used once.  Raises InvalidArgumentError otherwise.
        """
        self._require_open()
        run = self._partial_runs.get(handle)
        if run is None:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Must run 'setup' before performing partial runs! "
                f"There is no partial run {handle!r} in this session.",
            )
        mapper = fetches_lib.FetchMapper(self._graph, fetches)
        pairs = feeds_lib.flatten(self._graph, feed_dict) if feed_dict else []
        with failures.typed(self._graph):
            values = run.advance(mapper, pairs, self._timeout_ms)
        if run.finished:
            self._partial_runs.pop(handle, None)
        return mapper.build(handles.wrap(self, handles.fetched(mapper.tensors), values))

    def _register_dead_handle(self, name):
        """A TensorHandle ended whose tensor lives."""
        self._dead_handles.add(name)

    # ------------------------------------------------------------ random streams

    def random_state(self):
        """Where the random streams of this session are: {operation name: int64 array of 5}.

        Kept beside a checkpoint (`np.savez(path, **state)`) and given to `set_random_state`, it
        lets a restored run continue bit for bit: dropout, shuffles and noise go on as they would
        have.  Operations that have not run yet have no stream.  The numbers: random_state.py.
        """
        self._require_open()
        with failures.typed(self._graph):
            return random_state.read(self._state)

    def set_random_state(self, state):
        """Sets all random streams of this session to what `random_state` returned, here or in
        another process; a stream that `state` lacks begins anew.

        Raises ValueError, and changes nothing, if `state` has the stream of an operation that the
        session's graph lacks, that draws no random numbers, or that has other seeds.
        """
        self._require_open()
        with failures.typed(self._graph):
            random_state.write(self._state, self._graph, state)

    def debug_break(self, *names):
        """Stops in pdb before each op whose name matches one of `names`; without names, at none.

        names: Operations, Tensors, or patterns ("fc*/MatMul").  The frame is at the line that made
            the op, with `op`, `name` and `inputs` as locals; `s` goes on to the next op.

        Raises RuntimeError without debug=True.
        """
        if self._inspection is None or not self._inspection.debug:
            raise RuntimeError("debug_break needs a session in debug mode: tf.Session(debug=True), "
                               "or PYFLOW_DEBUG_RUN=1")
        self._inspection.stop_at(names)

    # ------------------------------------------------------------ life

    def close(self):
        """Ends the session: its variables are freed, its blocked steps are cancelled.  May be
        called twice."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        elif not self._closed:          # a run that waits for a task to be there may have it
            self._state.cancel("the session was closed")
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._closed_at = origin.here()
            self._steps.clear()
            self._partial_runs.clear()
            for call in list(self._callables):
                call.close()
            self._state.cancel("the session was closed")
        self._state.close()
        _release_memory()

    def _lose(self, why):
        """Its server ended it: from now on AbortedError says so, which trainings recover from."""
        self._lost = why
        self.close()

    def _closed_message(self):
        at = f" It was closed at {origin.user_frame(self._closed_at)};" if self._closed_at else ""
        return f"Attempted to use a closed Session.{at} make a new one with tf.Session()."

    def _require_open(self):
        if self._lost:
            raise errors.AbortedError(None, None, self._lost)
        if self._closed:
            raise RuntimeError(self._closed_message())

    def __del__(self):
        try:
            if not self._closed:        # this thread may be within a call to the same server
                self._closed = True
                self._state.abandon()
                _release_memory()
        except Exception:
            pass                                   # half-built, or the interpreter is ending

    def as_default(self):
        """Context in which this is the default session of the thread (the graph is not made
        default)."""
        return graph_lib.default_session(self)


def state_of(session):
    """The contract.State of a session: one at a server of this process has a SessionLink."""
    return session._state


def compiled_of(session, fetches, feeds=()):
    """The plans.Compiled of these fetches and fed tensors, compiled if it is not there; nothing
    runs."""
    step, _ = session._step_for(fetches, dict.fromkeys(feeds))
    return step.compiled


def is_open(session):
    """It was not closed yet, by whoever."""
    return not session._closed


def _release_memory():
    """If no session is open any more."""
    if all(session._closed for session in list(_live)):
        runtime.executor().release_memory()


_STRUCTURES = frozenset((list, tuple, dict, collections.OrderedDict))


def _check_partitions(partitions):
    """"one" or "device", as asked for or as PYFLOW_PARTITIONS says."""
    if partitions is None:
        return env.value("PYFLOW_PARTITIONS")
    if partitions in ("one", "device"):
        return partitions
    raise ValueError(f"partitions must be 'one' (a single plan) or 'device' (a plan per device), "
                     f"but got {partitions!r}")


def _check_config(config):
    if config is None or hasattr(config, "device_count"):
        return config
    raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")


class Session(BaseSession):
    """Runs graph operations (tf.Session).

    target: "" for this process.  graph: default the default graph.  config: tf.ConfigProto.
    threads: compute threads; default what affinity and cgroup allow (see session/threads.py).
    deterministic: True gives equal bits for any thread count, or an error naming the op that
        cannot.
    partitions: "one", the graph is one plan whatever its devices; "device", it is cut into a plan
        per device, as it would be for several processes, and they run as one step: same results,
        some microseconds more per edge between devices.  Default: PYFLOW_PARTITIONS, else "one".
    placement: "default", TensorFlow's rule (passes/place.py); "cost", each node goes where a
        simulated step ends earliest (passes/place_cost.py).  Default: PYFLOW_PLACEMENT.
    debug: True runs op by op, in construction order, on one thread; an error is raised at the line
        that made the op, where pdb can look at its inputs (session/inspection.py).  Default:
        PYFLOW_DEBUG_RUN.
    check_numerics: True makes NaN and Inf an error that names the op they come from.  Default:
        PYFLOW_CHECK_NUMERICS, and in debug mode.
    placement_costs: for "cost" (which it implies): RunMetadata or StepStats of an earlier run, or
        {node name: seconds}.

    As a context manager it is the default session and its graph the default graph; leaving closes
    it.

        >>> x = tf.placeholder(tf.float32, [2])
        >>> with tf.Session() as sess:
        ...     sess.run(2.0 * x, feed_dict={x: [1, 2]})
        array([2., 4.], dtype=float32)
    """

    def __enter__(self):
        if self._contexts:
            raise RuntimeError("Session context managers are not re-entrant. Use "
                               "`Session.as_default()` if you want to enter a session multiple "
                               "times.")
        context = self._graph.as_default()
        context.__enter__()
        session_context = self.as_default()
        session_context.__enter__()
        self._contexts.append((context, session_context))
        return self

    def __exit__(self, exc_type, exc_value, exc_traceback):
        context, session_context = self._contexts.pop()
        session_context.__exit__(exc_type, exc_value, exc_traceback)
        context.__exit__(exc_type, exc_value, exc_traceback)
        self.close()

    @staticmethod
    def reset(target, containers=None, config=None):
        """Clears the target's named containers (all without a list) and closes the sessions that
        this process has there.  At a server it ends all of the server's sessions: those who use
        them get AbortedError, as if it had been restarted.

        containers: the name of a server's job is that of its tasks' own container, where variables
            are that name no other.  config: its operation_timeout_in_ms is what the server has to
            answer in; without one it is waited for.

        Raises a tf.errors exception: DeadlineExceededError if nobody answers in time."""
        target = targets.named(target)
        place = targets.find(target)
        timeout_ms = int(getattr(_check_config(config), "operation_timeout_in_ms", 0) or 0)
        with failures.typed(None):
            place.reset(list(containers or ()), timeout_ms / 1000 if timeout_ms else None)
        for session in list(_live):
            if session._place is place and place.ends_sessions_here():
                session.close()


class InteractiveSession(BaseSession):
    """A session that is the default one from its making until `close`, for interactive work.

    target, graph, config, threads, deterministic, partitions, placement, placement_costs, debug and
    check_numerics: as for tf.Session.

        >>> sess = tf.InteractiveSession()
        >>> tf.add(1, 2).eval()
        np.int32(3)
        >>> sess.close()
    """

    _active = 0             # those that are not closed

    def _begin(self):
        if InteractiveSession._active:
            warnings.warn("An interactive session is already active. This can cause out-of-memory "
                          "errors in some cases. You must explicitly call "
                          "`InteractiveSession.close()` to release resources held by the other "
                          "session(s).", stacklevel=3)
        InteractiveSession._active += 1
        self._contexts = [self.as_default()]
        if self._has_graph:
            self._contexts.append(self._graph.as_default())
        for context in self._contexts:
            context.__enter__()

    def close(self):
        """Ends the session; it is no longer the default."""
        contexts, self._contexts = self._contexts, []
        InteractiveSession._active -= bool(contexts)
        super().close()
        for context in reversed(contexts):
            try:
                context.__exit__(None, None, None)
            except AssertionError:
                pass  # closed out of order: the stack already dropped it
