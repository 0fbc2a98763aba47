"""Steps over many tasks: every partition begun by its worker, under one key (session, step).

    ClusterPlan   the partitions of a signature, as a core Plan is to a session
    ClusterStep   one run of it, as the executor's Started
    StepElsewhere one run that lies on one other task alone

Invariants
1. The first failure ends the other partitions; what is raised is the cause, an error that is not
   the consequence of another.
2. A step is over once every partition has ended, or did not in GRACE seconds after a failure; then
   its workers hear that what it left behind is to go.

Threads: any.  Callers: cluster_compiler.py makes plans, sessions run them.
"""
import logging
import threading
import time

from pyflow.distributed.look import asking, clocks, tracing, why
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire import messages
from pyflow.framework import errors
from pyflow.session import metadata, runtime

GRACE = 5.0                     # seconds in which the other tasks of a failed step should end it
LATE_GRACE = 0.3                # the same where the step's deadline has passed
BACKSTOP_MS = 5000              # beyond a step's own deadline, a worker ends its part by itself
LOOKS = 2.0                     # seconds between looks whether those that are waited for are there
ASKING = 0.3                    # seconds for a task to say what it waits for, when a deadline passes
_log = logging.getLogger("pyflow")


class Part:
    """One partition of a ClusterPlan.  plan: a core Plan of this process' task, or None, then
    `graph` is its number at the worker."""

    __slots__ = ("worker", "plan", "graph", "args", "rets", "types", "_names")

    def __init__(self, worker, plan, graph, part, types):
        self.worker, self.plan, self.graph = worker, plan, graph
        self.args, self.rets, self.types = part.args, part.rets, types
        self._names = [node.name for node in part.graph.args]

    def blamed(self, failure, args):
        """A failure to begin it with these values, which names the largest where they are too many
        bytes for a frame."""
        sizes = [getattr(arg, "nbytes", 0) for arg in args]
        if failure.code == errors.RESOURCE_EXHAUSTED and sum(sizes) > remote_worker.MOST_AT_ONCE:
            failure.node = self._names[sizes.index(max(sizes))]
        return failure


class ClusterPlan:
    """Partitions on several tasks that run as one step; what a core Plan is to a session."""

    def __init__(self, link, parts, names=(), ways_text=None):
        self._link, self._parts, self._names, self._ways = link, parts, names, ways_text
        self.n_rets = sum(len(p.rets) for p in parts)

    def run(self, feeds=(), timeout_ms=0, trace=None, keep=False, inspect=None):
        """The results of one step, in the whole graph's order, with `keep` as Kept.  Raises
        StepError."""
        if inspect is not None:
            raise runtime.executor().StepError(
                errors.UNIMPLEMENTED, "debug mode and numeric checks look at the kernels of one "
                "process: this step has partitions on several tasks")
        if trace is None and len(self._parts) == 1 and self._parts[0].worker.link is not None \
                and not self._link.tasks.own.tracer.on:
            return self._run_there(self._parts[0], feeds, timeout_ms, keep)
        step = self.start(feeds, timeout_ms, trace, keep, waits=True)
        return step.result()

    def _run_there(self, part, feeds, timeout_ms, keep):
        """A step that lies on one other task, over a link: nothing to put together."""
        link, worker = self._link, part.worker
        step = StepElsewhere(link.next_step(), worker.name, self._names)
        args = [feeds[k] for k in part.args]
        try:
            running = step.running = worker.start(
                part.graph, link.number, step.number, args, part.types, None,
                timeout_ms + BACKSTOP_MS if timeout_ms else 0)
        except runtime.executor().StepError as failure:
            raise part.blamed(failure, args) from None
        link.begun(step)
        try:
            values = running.result(timeout_ms / 1000 if timeout_ms else None, keep=keep)
        except TimeoutError:
            late = lateness(link, step.number, timeout_ms, [worker.name], [worker.name])
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

    def start(self, feeds=(), timeout_ms=0, trace=None, keep=False, waits=False):
        """Begins a step; its ClusterStep.  waits: the caller does, at once."""
        step = ClusterStep(self._link, self._parts, self.n_rets, timeout_ms, trace, keep)
        step.waits = waits
        step.names = self._names
        step.begin(feeds)
        return step

    def __del__(self):
        for part in self._parts:
            if part.plan is None:
                self._link.drop(part.worker, part.graph)


def lateness(link, number, timeout_ms, tasks, left):
    """The StepError of a step whose deadline has passed: who waits for whom, the culprit first.
    tasks: those that take part; left: those that have not ended."""
    try:
        found = why.explain(link.asker(ASKING), (link.number, number), set(tasks))
    except Exception as problem:                # the error that is wanted comes all the same
        _log.debug("a deadline is not explained: %r", problem)
        found = "still running: " + ", ".join(left)
    return runtime.executor().StepError(
        errors.DEADLINE_EXCEEDED, f"the step was not over within {timeout_ms} ms: {found}")


class StepElsewhere:
    """A step that lies on one other task, to which a link leads: for who looks, or ends it."""

    __slots__ = ("number", "names", "running", "_task", "_since")

    def __init__(self, number, task, names):
        self.number, self.names, self._task = number, names, task
        self.running, self._since = None, time.monotonic()      # the executor's Remote

    def cancel(self, why="cancelled"):
        """As ClusterStep.cancel."""
        self.running.cancel(errors.CANCELLED, why)

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


class ClusterStep:
    """A step under way on several tasks: as the executor's Started."""

    def __init__(self, link, parts, n_rets, timeout_ms, trace, keep):
        self._link, self._parts, self._n_rets = link, parts, n_rets
        self._timeout_ms, self._trace, self._keep = timeout_ms, trace, keep
        self.number = link.next_step()
        self._cond = threading.Condition()
        self._left, self._given_up = len(parts), False
        self._begun, self._ended = {}, {}           # part: what runs it; what it ended as
        self._failure, self._awaited = None, None
        self.waits = False                          # then `wait` works for the own part:
        self._own = self._helper = None             # (part, Started), and who receives meanwhile
        remote = [p for p in parts if not p.worker.local]
        self._first = remote[0] if remote else None     # the part that `wait` waits for itself
        self._since, self.names = time.monotonic(), ()
        self._until = None if not timeout_ms else self._since + timeout_ms / 1000
        self._backstop_ms = timeout_ms + BACKSTOP_MS if timeout_ms else 0

    def begin(self, feeds):
        """Begins every partition, those of other processes first."""
        self._link.begun(self)
        level = 3 if self._trace is not None else self._link.tasks.own.tracer.level(0)
        for part in sorted(self._parts, key=lambda p: p.worker.local):
            if self._failure is not None:
                self._over(part)
                continue
            args = [feeds[k] for k in part.args]
            try:
                running = self._start(part, args, level)
            except runtime.executor().StepError as failure:
                self._fail(part.blamed(failure, args), part)
                self._over(part)
                continue
            self._begun[part] = running
            if part is self._first and part.worker.link is not None and not level:
                self._awaited = running

    def _start(self, part, args, level):
        worker, link = part.worker, self._link

        def done(running, trace):
            if trace is not None and self._trace is not None:
                metadata.add_elsewhere(self._trace, tracing.step_stats(trace) if worker.local else
                                       clocks.shifted(trace, -worker.offset_ns()))
            self._ran(part, running)
        if part.plan is not None:
            return self._start_own(part, args, level)
        if worker.local:
            return worker.start(part.graph, link.number, self.number, args, done,
                                self._backstop_ms, level)
        if level:
            worker.offset_ns()                  # asked for now: not while its answer is read
        if part is self._first and worker.link is not None and not level:
            done = None                             # who waits for the step waits for it
        return worker.start(part.graph, link.number, self.number, args, part.types, done,
                            self._backstop_ms, level, link.take_cleaning(worker))

    def _start_own(self, part, args, level):
        """A part of the master's own task."""
        worker, trace = part.worker, self._trace
        if self.waits and not level:                # who waits for the step runs it
            self._helper = self._awaited
            self._own = part, part.plan.start(
                args, self._backstop_ms, task=worker.task, session=self._link.number,
                step=self.number, quiet=True)
            return self._own[1]
        if trace is None and level:
            trace = runtime.executor().Trace(level)

        def done(started):
            if trace is not None and worker.tracer.on:
                worker.tracer.add(self._link.number, self.number, tracing.step_stats(trace))
            self._ran(part, started)
        return part.plan.start(args, self._backstop_ms, callback=done, task=worker.task,
                               session=self._link.number, step=self.number, trace=trace)

    # ------------------------------------------------------------ as partitions end

    def _ran(self, part, running):
        """On whatever thread its partition ended."""
        try:
            values = running.result(keep=self._keep)
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
            if part not in self._ended and getattr(part.worker, "link", None) is not None and \
                    not part.worker.is_connected():
                return part
        return None

    def _give_up(self, part):
        self._fail(runtime.executor().StepError(
            errors.UNAVAILABLE, f"{part.worker.name} was lost: its connection is gone",
            task=part.worker.name), part)
        self._over(part)

    def lateness(self):
        """The StepError of its deadline, which has passed."""
        return lateness(self._link, self.number, self._timeout_ms,
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
            if self._own is None:
                self._awaited.wait(patience)
            elif self._helper is None or self._awaited is None and self._failure is not None:
                self._own[1].work(patience)
            else:
                self._helper.help(self._own[1], patience)
            if not self._any_over() and any(time.monotonic() >= t for t in ends):
                return

    def _any_over(self):
        own, awaited = self._own, self._awaited
        if awaited is not None and awaited.done():
            self._awaited = None
            self._ran(self._first, awaited)
        if own is not None and own[1].done():
            self._own = None
            self._ran(*own)
        return self._own is not own or self._awaited is not awaited

    def _grace(self, now):
        """Seconds from the failure on in which the other parts should end."""
        return LATE_GRACE if self._until is not None and now > self._until else GRACE

    def result(self, timeout=None):
        """The fetches' values in order; raises what failed the step."""
        if not self.wait(timeout):
            raise TimeoutError("the step is still running")
        if self._failure is not None:
            raise self._failure
        out = [None] * self._n_rets
        for part, values in self._ended.items():
            for k, value in zip(part.rets, values):
                out[k] = value
        return out
