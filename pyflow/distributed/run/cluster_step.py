"""Steps over many tasks: every partition begun by its worker, under one key (session, step).

    Part, OwnPart  the partition of a task: of another, of the master's own
    ClusterPlan    the partitions of a signature, as a core Plan is to a session
    ClusterStep    one run of it, as the executor's Started
    StepElsewhere  one run that lies on one other task alone
    OwnPlan        a plan of the master's task, whose steps are others' business once they have a
                   deadline

Invariants
1. The first failure ends the other partitions; what is raised is the cause, an error that is not
   the consequence of another.
2. A step is over once every partition has ended, or did not in GRACE seconds after a failure; then
   its workers hear that what it left behind is to go.

Threads: any.  Callers: cluster_compiler.py makes plans, sessions run them.
"""
import dataclasses
import logging
import threading
import time

from pyflow.distributed.look import asking, why
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire import messages
from pyflow.framework import errors
from pyflow.session import contract, runtime

GRACE = 5.0                     # seconds in which the other tasks of a failed step should end it
LATE_GRACE = 0.3                # the same where the step's deadline has passed
BACKSTOP_MS = 5000              # beyond a step's own deadline, a worker ends its part by itself
LOOKS = 2.0                     # seconds between looks whether those that are waited for are there
ASKING = 0.3                    # seconds for a task to say what it waits for, when a deadline passes
_log = logging.getLogger("pyflow")


class Part:
    """One partition of a ClusterPlan: `graph` of a worker.  args, rets: which feeds and fetches of
    the whole are its own; arg_names: of those feeds."""

    __slots__ = ("worker", "graph", "args", "rets", "arg_names")
    plan = None                     # the core's, where it is of this process

    def __init__(self, worker, graph, part):
        self.worker, self.graph = worker, graph
        self.args, self.rets = part.args, part.rets
        self.arg_names = [arg.name for arg in part.graph.args]

    def start(self, feeds, options, done, key, by):
        """As Plan.start; a failure names the largest value where they are too many bytes for a
        frame."""
        try:
            return self.worker.start(self.graph, feeds, options, done, key, by)
        except runtime.executor().StepError as failure:
            sizes = [getattr(value, "nbytes", 0) for value in feeds]
            if failure.code == errors.RESOURCE_EXHAUSTED \
                    and sum(sizes) > remote_worker.MOST_AT_ONCE:
                failure.node = self.arg_names[sizes.index(max(sizes))]
            raise

    def is_lost(self):
        """Nobody will say how it ended: there is no connection to its worker any more."""
        return self.worker.link is not None and not self.worker.is_connected()

    def counts(self):
        """What is known of its plan here: nothing."""
        return {}


class OwnPart(Part):
    """A partition of the master's own task.  plan: the core's."""

    __slots__ = ("plan", "_usual")

    def __init__(self, worker, plan, part):
        super().__init__(worker, 0, part)
        self.plan, self._usual = plan, contract.RunOptions(task=worker.task)

    def start(self, feeds, options, done, key, by):
        """As Plan.start; with a trace it is recorded besides, if all steps of the task are."""
        if options is None:
            return self.plan.start(feeds, self._usual, done, key, by)
        trace, over = options.trace, done
        if trace is not None:
            trace, recorded = self.worker.tracer.recording(trace, *key)
            if recorded is not None:
                def over(running):
                    recorded()
                    done(running)
        return self.plan.start(
            feeds, dataclasses.replace(options, task=self.worker.task, trace=trace), over, key, by)

    def is_lost(self):
        """It is here."""
        return False

    def counts(self):
        """As Plan.counts."""
        return self.plan.counts()


class ClusterPlan(contract.Plan):
    """Partitions on several tasks that run as one step."""

    def __init__(self, link, parts, names=(), ways_text=None):
        self._link, self._parts, self._names, self._ways = link, parts, names, ways_text
        self.n_rets = sum(len(p.rets) for p in parts)
        self.arg_names = [""] * sum(len(p.args) for p in parts)
        for part in parts:
            for k, name in zip(part.args, part.arg_names):
                self.arg_names[k] = name

    def run(self, feeds=(), options=None):
        """As contract.Plan.run.  Raises StepError, UNIMPLEMENTED, for what looks at one process."""
        if options is not None:
            require_anywhere(options)
        self._require_all(feeds)
        if len(self._parts) == 1 and self._parts[0].plan is None \
                and self._parts[0].worker.link is not None \
                and (options is None or options.trace is None) \
                and not self._link.tasks.own.tracer.on:
            return self._run_there(self._parts[0], feeds, options)
        return self.start(feeds, options, by=contract.BY_WAITER).result()

    def _require_all(self, feeds):
        if len(feeds) != len(self.arg_names):
            raise ValueError(f"the step takes {len(self.arg_names)} arguments, got {len(feeds)}")

    def _run_there(self, part, feeds, options):
        """A step that lies on one other task, over a link: nothing to put together."""
        link, worker, seconds = self._link, part.worker, None
        if options is not None:
            seconds, options = options.timeout_ms / 1000 or None, with_backstop(options)
        step = StepElsewhere(link.next_step(), worker.name, self._names)
        running = step.running = part.start(
            [feeds[k] for k in part.args], options, None, (link.number, step.number),
            contract.BY_WAITER)
        link.begun(step)
        try:
            values = running.result(seconds)
        except TimeoutError:
            late = lateness(link, step.number, seconds, [worker.name], [worker.name])
            running.cancel()
            raise late from None
        except runtime.executor().StepError as failure:
            failure.task = failure.task or worker.name
            raise
        except BaseException:
            running.cancel()
            raise
        finally:
            link.over(step, step.number, ())
            worker.clean(link.number, [step.number], soon=True)
        return [values[part.rets.index(k)] for k in range(self.n_rets)]

    def explain(self):
        """Which parts it has, and how tensors go between them, as text (ways.py)."""
        if self._ways is None:
            return "\n".join(p.plan.explain() for p in self._parts)
        names = [p.worker.name for p in self._parts]
        found = self._link.asker(asking.PATIENCE).ask_all("GetStatus", messages.GetStatusRequest(),
                                                        names)
        kinds = {(task, route.task): route.kind for task, status in found.items()
                 if not isinstance(status, asking.Silent) for route in status.route}
        return self._ways(lambda source, to: kinds.get((source, to)))

    def counts(self):
        """As contract.Plan.counts; of another task's part: {}."""
        return [part.counts() for part in self._parts]

    def start(self, feeds=(), options=None, done=None, key=None, by=contract.BY_POOL):
        """As contract.Plan.start: a ClusterStep.  It has a key of its own."""
        if options is not None:
            require_anywhere(options)
        self._require_all(feeds)
        if key is not None:
            raise ValueError("a step over several tasks has a key of its own")
        step = ClusterStep(self._link, self._parts, self.n_rets, self._names, options, done,
                           by == contract.BY_WAITER)
        step.begin(feeds)
        return step

    def __del__(self):
        for part in self._parts:
            if part.plan is None:
                self._link.drop(part.worker, part.graph)


def require_anywhere(options):
    """Raises StepError for options that only a step of one process has."""
    contract.require_run_options(options)
    if options.inspect is not None:
        raise runtime.executor().StepError(
            errors.UNIMPLEMENTED, "debug mode and numeric checks look at the kernels of one "
            "process: this step has partitions on several tasks")
    if options.cancel is not None or options.rendezvous is not None or options.task is not None:
        raise runtime.executor().StepError(
            errors.UNIMPLEMENTED, "a token, a rendezvous and a task are of one process: this step "
            "has partitions on several tasks; what `start` returns cancels it")


def with_backstop(options):
    """The RunOptions of a part whose deadline somebody else looks at, too."""
    if not options.timeout_ms:
        return options
    return dataclasses.replace(options, timeout_ms=min(
        options.timeout_ms + BACKSTOP_MS, contract.MAX_TIMEOUT_MS))


class OwnPlan(contract.Plan):
    """A plan of the master's task alone: a core Plan; with a deadline a step that other tasks can
    ask about, so that the error says who was waited for."""

    __slots__ = ("_plan", "_timed", "arg_names")

    def __init__(self, link, plan, part, names):
        self._plan, self.arg_names = plan, plan.arg_names
        self._timed = ClusterPlan(link, [OwnPart(link.tasks.own, plan, part)], names)

    def _which(self, options, key=None):
        if options is not None:
            contract.require_run_options(options)
        if options is None or not options.timeout_ms or key is not None or not (
                options.cancel is options.inspect is options.rendezvous is options.task is None):
            return self._plan
        return self._timed

    def run(self, feeds=(), options=None):
        """As contract.Plan.run."""
        return self._which(options).run(feeds, options)

    def start(self, feeds=(), options=None, done=None, key=None, by=contract.BY_POOL):
        """As contract.Plan.start."""
        return self._which(options, key).start(feeds, options, done, key, by)

    def explain(self):
        """As contract.Plan.explain."""
        return self._plan.explain()

    def counts(self):
        """As contract.Plan.counts."""
        return self._plan.counts()


def lateness(link, number, seconds, tasks, left):
    """The StepError of a step whose deadline has passed: who waits for whom, the culprit first.
    tasks: those that take part; left: those that have not ended."""
    try:
        found = why.explain(link.asker(ASKING), (link.number, number), set(tasks))
    except Exception as problem:                # the error that is wanted comes all the same
        _log.debug("a deadline is not explained: %r", problem)
        found = "still running: " + ", ".join(left)
    return runtime.executor().StepError(
        errors.DEADLINE_EXCEEDED, f"the step was not over within {seconds * 1000:.0f} ms: {found}")


class StepElsewhere:
    """A step that lies on one other task, to which a link leads: for who looks, or ends it."""

    __slots__ = ("number", "names", "running", "_task", "_since")

    def __init__(self, number, task, names):
        self.number, self.names, self._task = number, names, task
        self.running, self._since = None, time.monotonic()      # the executor's Remote

    def cancel(self, why="cancelled"):
        """As ClusterStep.cancel."""
        self.running.cancel(why)

    def fail_elsewhere(self, failure):
        """That task says that it fails: so says its answer."""

    def age(self):
        """As ClusterStep.age."""
        return time.monotonic() - self._since

    def parts(self):
        """As ClusterStep.parts."""
        return [(self._task, True, False)]

    def own_plans(self):
        """None of this process."""
        return []


class ClusterStep(contract.Running):
    """A step under way on several tasks."""

    def __init__(self, link, parts, n_rets, names, options, done, waits):
        """waits: the caller does, at once, and works for the own part."""
        self._link, self._parts, self._n_rets, self.names = link, parts, n_rets, names
        self._options, self._done, self._waits = options, done, waits
        self.number = link.next_step()
        self._cond = threading.Condition()
        self._left, self._given_up, self._taken = len(parts), False, False
        self._begun, self._ended = {}, {}           # part: what runs it; what it ended as
        self._failure, self._awaited = None, None
        self._own = self._helper = None             # (part, Started), and who receives meanwhile
        remote = [p for p in parts if not p.worker.local]
        self._first = remote[0] if remote else None     # the part that `wait` waits for itself
        self._since, self._until = time.monotonic(), None
        if options is not None and options.timeout_ms:
            self._until = self._since + options.timeout_ms / 1000

    def begin(self, feeds):
        """Begins every partition, those of other processes first."""
        self._link.begun(self)
        options = self._part_options()
        for part in sorted(self._parts, key=lambda p: p.worker.local):
            if self._failure is not None:
                self._over(part)
                continue
            try:
                self._begun[part] = self._start(part, [feeds[k] for k in part.args], options)
            except runtime.executor().StepError as failure:
                self._fail(failure, part)
                self._over(part)
            except BaseException as wrong:          # feeds that do not fit
                self._fail(runtime.executor().StepError(errors.CANCELLED, str(wrong)), part)
                self._link.over(self, self.number, [p.worker for p in self._parts], True)
                raise

    def _part_options(self):
        """The RunOptions of the parts.  Where all steps are recorded, those of other tasks are
        asked for in a way that records."""
        options = self._options
        if options is not None:
            options = with_backstop(dataclasses.replace(options, stats=None)
                                    if options.stats is not None else options)
        tracer = self._link.tasks.own.tracer
        if tracer.on and (options is None or options.trace is None) and tracer.takes():
            return dataclasses.replace(options or contract.RunOptions(),
                                       trace=runtime.executor().Trace(1))
        return options

    def _start(self, part, args, options):
        """Begins a part.  Who waits for the step waits for the first part elsewhere, and works for
        the own one, without a hand-over."""
        key, worker = (self._link.number, self.number), part.worker
        own = first = False
        if options is None or options.trace is None:
            own = self._waits and part.plan is not None
            first = part is self._first and worker.link is not None and self._done is None
        for_waiter = own or first
        if not worker.local:
            over = self._link.take_cleaning(worker)
            if over:
                worker.clean(self._link.number, over, soon=True)
        running = part.start(
            args, options, None if for_waiter else lambda r: self._ran(part, r), key,
            contract.BY_WAITER if for_waiter else contract.BY_POOL)
        if own:
            self._helper, self._own = self._awaited, (part, running)
        elif first:
            self._awaited = running
        return running

    # ------------------------------------------------------------ as partitions end

    def _ran(self, part, running):
        """On whatever thread its partition ended."""
        try:
            values = running.result()
        except runtime.executor().StepError as failure:
            self._fail(self._as_lost(part.worker, failure), part)
            self._over(part)
        else:
            self._over(part, values)

    def _as_lost(self, worker, failure):
        """A step's failure as its master is to see it: what ended because the task was stopped, or
        is elsewhere now, is UNAVAILABLE."""
        tasks = self._link.tasks
        if worker is tasks.own:
            return failure
        if worker.local:
            return worker.as_lost(failure)
        if failure.code == errors.CANCELLED and worker not in tasks.known():
            failure.code, failure.task = errors.UNAVAILABLE, worker.name
            failure.message = f"{worker.name} is no longer at {worker.address}: {failure.message}"
        return failure

    def _over(self, part, values=None):
        with self._cond:
            if part in self._ended:
                return
            self._ended[part] = values
            self._left -= 1
            last = self._left == 0
            self._cond.notify_all()
        if last:
            self._link.over(self, self.number, [p.worker for p in self._parts],
                            self._failure is not None)
            if self._done is not None:
                self._done(self)

    def _fail(self, failure, part=None):
        """The first failure ends the other partitions; a cause wins over its consequences."""
        if part is not None and not failure.task and part.worker is not self._link.tasks.own:
            failure.task = part.worker.name
        with self._cond:
            first = self._failure is None
            if first or self._failure.derived and not failure.derived:
                self._failure = failure
            self._cond.notify_all()
        if not first:
            return
        for other in self._parts:
            if other is not part and other not in self._ended:
                other.worker.fail(self._link.number, self.number, failure)

    # ------------------------------------------------------------ who waits

    def fail_elsewhere(self, failure):
        """A task says that it fails."""
        if self._failure is None:
            self._fail(failure)

    def cancel(self, why="cancelled"):
        """Soon; `result` raises CANCELLED then, unless the step ended before."""
        self._fail(runtime.executor().StepError(errors.CANCELLED, why))

    def done(self):
        """`result` will not wait."""
        if self._left and (self._awaited is not None or self._own is not None):
            self._any_over()
        with self._cond:
            return self._left == 0 or self._given_up

    def wait(self, timeout=None):
        """Until it is over, at most `timeout` seconds; whether it is.  An exception of a signal
        handler ends the step."""
        until = None if timeout is None else time.monotonic() + timeout
        failed_at = None
        try:
            if self._awaited is not None or self._own is not None:
                self._work(until)
            looks = time.monotonic() + LOOKS
            with self._cond:
                while self._left and not self._given_up:
                    now = time.monotonic()
                    if now > looks and self._failure is None:
                        looks = now + LOOKS
                        lost = self._lost_part()
                        if lost is not None:
                            threading.Thread(target=self._give_up, args=(lost,),
                                             daemon=True).start()
                    if until is not None and now >= until:
                        return False
                    if self._failure is not None:
                        failed_at = failed_at or now
                        self._given_up = now - failed_at > self._grace(now)
                    elif self._until is not None and now > self._until:
                        break
                    soon = min([t for t in (until, self._until) if t is not None and t > now],
                               default=now + 0.1)
                    self._cond.wait(min(0.1, soon - now))
        except BaseException:
            self.cancel("interrupted")
            raise
        if not self.done():
            late = self.lateness()
            if self._left:
                self._fail(late)
            return self.wait(timeout)
        if self._given_up:
            self._link.over(self, self.number, [p.worker for p in self._parts], True)
        return True

    def _lost_part(self):
        """A partition whose worker's link is gone, though nobody said that it failed; or None."""
        for part in self._parts:
            if part not in self._ended and part.is_lost():
                return part
        return None

    def _give_up(self, part):
        self._fail(runtime.executor().StepError(
            errors.UNAVAILABLE, f"{part.worker.name} was lost: its connection is gone",
            task=part.worker.name), part)
        self._over(part)

    def lateness(self):
        """The StepError of its deadline, which has passed."""
        return lateness(self._link, self.number, self._options.timeout_ms / 1000,
                        [p.worker.name for p in self._parts],
                        [p.worker.name for p in self._parts if p not in self._ended])

    # ------------------------------------------------------------ for who looks (waits.py)

    def age(self):
        """Seconds since it began."""
        return time.monotonic() - self._since

    def parts(self):
        """[(task, begun, ended)]."""
        with self._cond:
            return [(p.worker.name, p in self._begun, p in self._ended) for p in self._parts]

    def own_plans(self):
        """The core's plans of those of its parts that run in this process."""
        return [p.plan for p in self._parts if p.plan is not None]

    def _work(self, until):
        """The own part and the awaited one, on this thread, without a hand-over, until they are
        over or there is something to look at."""
        failed_at = None
        while self._own is not None or self._awaited is not None:
            now = time.monotonic()
            if self._failure is not None:
                failed_at = failed_at or now
            ends = [t for t in (until, self._until if failed_at is None else
                                failed_at + self._grace(now)) if t is not None]
            patience = max(0.0, min([*ends, now + 1.0]) - now)
            own, awaited = self._own, self._awaited
            if own is not None:
                if self._helper is None or awaited is None and self._failure is not None:
                    own[1].work(patience)
                else:
                    self._helper.help(own[1], patience)
            elif awaited is not None:
                awaited.wait(patience)
            if not self._any_over() and any(time.monotonic() >= t for t in ends):
                return

    def _any_over(self):
        with self._cond:                # another thread may look at the same time
            own, awaited = self._own, self._awaited
            if awaited is not None and awaited.done():
                self._awaited = None
            else:
                awaited = None
            if own is not None and own[1].done():
                self._own = None
            else:
                own = None
        if awaited is not None:
            self._ran(self._first, awaited)
        if own is not None:
            self._ran(*own)
        return own is not None or awaited is not None

    def _grace(self, now):
        """Seconds from the failure on in which the other parts should end."""
        return LATE_GRACE if self._until is not None and now > self._until else GRACE

    def result(self, timeout=None):
        """The fetches' values in order; raises what failed the step."""
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self._failure is not None:
            raise self._failure
        with self._cond:
            taken, self._taken = self._taken, True
        if taken:
            raise RuntimeError("the results of this step were taken already")
        out = [None] * self._n_rets
        for part, values in self._ended.items():
            for k, value in zip(part.rets, values):
                out[k] = value
        return out
