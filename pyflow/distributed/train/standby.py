"""Standby parameter servers: a job whose tasks hold what the parameter servers hold, and take their
place when one is lost.

The tasks of two jobs, "ps" and "ps_standby", are two SIDES.  The chief's session trains on one, the
serving side; the other one is the spare side.  Each step's mean gradients are put aside on both,
then both apply them:

    stage on both -> apply on the serving side -> apply on the spare side -> count the step

Invariants
1. Neither side's update depends on the other's tasks: whichever dies, the other is at a step's
   boundary, and the training goes on there.  What was given for the step under way is computed
   again.
2. A side serves only if it is whole (`_whole`): all its tasks are those that were copied to or
   restored, and no update of theirs failed midway; else the training goes back to its checkpoint.
3. A side is reset before it becomes the spare one: what was done there before, by whoever was
   frozen meanwhile, ends; sessions that are still open there are ABORTED.
4. Every so many steps a number of each variable is compared on both sides; a difference ends the
   training.

    alone -> found [_look, a thread: the spare tasks answer; reset; sessions and plans are made]
          -> mirrored [take: copied between two steps]
          -> alone    [a spare task is lost]
          -> alone, the other side serving [serve: a serving task is lost]

Threads: the one that makes the chief's sessions calls `serve`, `begin`; the chief's of steps `take`;
`_look` is one per session.  `_lock` guards what they share; `serve` waits for an update.  Callers: training.py.
"""
import logging
import threading
import time

from pyflow.distributed.look import asking
from pyflow.distributed.train import layouts, mirrors
from pyflow.distributed.wire import messages
from pyflow.framework import errors
from pyflow.framework.device import parsed
from pyflow.session import Session
from pyflow.session.session import state_of

JOB = "ps_standby"              # the job's usual name
LOOKS = 0.25                    # seconds between looks for spare tasks
ANSWER = 0.5                    # seconds for a task to say that it is there
LATEST = 2.0                    # seconds for a task to be there once it has answered
_LOST = (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError)
_log = logging.getLogger("pyflow.distributed")


class Standby:
    """A chief's.  server: its tf.train.Server; sync: the SyncReplicasOptimizer, after
    apply_gradients; job: whose tasks stand by for those of the same numbers; every: steps between
    comparisons; config, options: of the sessions.

    ValueError if the cluster has no task of `job` for a task of the parameters' job."""

    def __init__(self, server, sync, graph, job=JOB, every=100, config=None, options=None):
        own = parsed(sync.boundary.global_step.device).job
        self._server, self._sync, self._graph, self._every = server, sync, graph, every
        self._config, self._options = config, options or {}
        self._sides, self._serving = (own, job), 0
        self._tasks = layouts.tasks_of(server, own)
        if not own or layouts.tasks_of(server, job) != self._tasks:
            raise ValueError(f"a standby of the job {own!r}, tasks {self._tasks}: the cluster has "
                             f"tasks {layouts.tasks_of(server, job)} of the job {job!r}, and needs "
                             "as many")
        self._published = layouts.Published(server)
        self._mirrors, self._staged = mirrors.Mirrors(own, graph), mirrors.Staged(sync, graph)
        self._whole = {}                # side: incarnations of its tasks, while it is whole
        self._chief, self._lock = layouts.ChiefSession(), threading.Lock()
        self._found, self._pair = None, None
        self._steps, self._first = 0, True

    # ------------------------------------------------------------ which side serves

    def serve(self):
        """(target of a new session, whether the parameters are there).  The layout is published, and
        what is still done on the other side ends."""
        self._end()
        there = self._incarnations_of((0, 1))
        whole = [None not in there[side] and there[side] == self._whole.get(side)
                 for side in (0, 1)]
        now, other, self._whole = self._serving, 1 - self._serving, {}
        gone = not self._first and None in there[now] and None not in there[other]
        self._first = False
        if not whole[now] and (whole[other] or gone):
            _log.warning("the job %s serves in the place of %s", self._sides[other],
                         self._sides[now])
            self._serving, now, other = other, other, now
        self._published.say(self._renames(now))
        self._reset(other, there[other])
        return self._target(now), whole[now]

    def begin(self, session):
        """The parameters are there, in a session of `serve`'s target: looks for spare tasks."""
        self._whole = {self._serving: self._incarnations(session, self._serving)}
        self._chief.begin(session)
        threading.Thread(target=self._look, args=(session,), name="pyflow-standby",
                         daemon=True).start()

    def _end(self):
        """Of a session of the serving side; an update under way is waited for, none begins."""
        self._chief.end()
        with self._lock:
            pairs, self._found, self._pair = [self._found, self._pair], None, None
        for pair in pairs:
            if pair is not None:
                pair.abandon()

    def close(self):
        """Ends what it has begun."""
        self._end()

    def _incarnations(self, session, side):
        """Of a side's tasks, as a session speaks to them."""
        return [state_of(session).worker(self._name(side, k)).incarnation for k in self._tasks]

    def _renames(self, side, spare=False):
        """Where the graph's parameters are with a side serving; spare: its mirrors are, too."""
        own, found = self._sides[0], {}
        for k in self._tasks:
            found[own, k] = self._sides[side], k
            if spare:
                found[mirrors.SPARE, k] = self._sides[1 - side], k
        return found

    def _target(self, side):
        hidden = [(self._sides[1 - side], k) for k in self._tasks]
        return self._server.target_where(self._renames(side), hidden, layouts.THERE)

    def _name(self, side, k):
        return f"/job:{self._sides[side]}/replica:0/task:{k}"

    def _incarnations_of(self, sides):
        """{side: the incarnations of its tasks, None for one that does not answer}."""
        found = self._server.ask_all([self._name(side, k) for side in sides for k in self._tasks],
                                     "GetStatus", messages.GetStatusRequest(), ANSWER)
        return {side: [getattr(found[self._name(side, k)], "incarnation", None)
                       for k in self._tasks] for side in sides}

    def _serves(self):
        """Whether the serving side is as it was."""
        now = self._serving
        return self._incarnations_of([now])[now] == self._whole.get(now)

    # ------------------------------------------------------------ a spare side

    def _look(self, session):
        """From time to time, whether there is a spare side, while the session is the one."""
        while self._chief.lives(session):
            if self._found is None and self._pair is None:
                pair = self._made()
                with self._lock:
                    if self._chief.lives(session):
                        self._found, pair = pair, None
                if pair is not None:
                    pair.abandon()
            time.sleep(LOOKS)

    def _made(self):
        """The _Pair of the spare side; None if that is not there."""
        spare = 1 - self._serving
        there = self._incarnations_of([spare])[spare]
        if None in there or not self._reset(spare, there):
            return None
        try:
            return _Pair(self)
        except errors.OpError as problem:
            _log.info("%s is not ready to stand by: %s", self._sides[spare], problem)
            return None

    def _reset(self, side, incarnations):
        """Ends all sessions at those of a side's tasks that answered; whether they all say so."""
        replies = self._server.reset_tasks({
            self._name(side, k): incarnation
            for k, incarnation in zip(self._tasks, incarnations) if incarnation is not None},
            patience=LATEST)
        return not any(isinstance(reply, asking.Silent) for reply in replies.values())

    # ------------------------------------------------------------ steps

    def take(self, session):
        """A step: of the chief's thread, in its session."""
        if self._pair is None and self._found is not None:
            self._attach()
        pair = self._pair
        if pair is None:
            return self._take_alone(session)
        try:
            pair.stage()
        except _LOST as problem:
            if not self._serves():
                raise
            self._detach(problem)
            session.run(self._sync.boundary.restart)         # what was given for the step is gone
            return self.take(session)
        with self._chief.at_work(session):
            self._change(self._serving, pair.apply)
            try:
                self._change(1 - self._serving, pair.apply_spare)
            except _LOST as problem:
                self._detach(problem)
            session.run(self._staged.count)
        self._steps += 1
        if self._pair is not None and self._steps % self._every == 0:
            self._compare(pair, int(session.run(self._sync.boundary.global_step)))

    def _take_alone(self, session):
        """It may wait for gradients for long, so the side is not whole meanwhile."""
        with self._chief.at_work(session):
            whole = self._whole.pop(self._serving, None)
        session.run(self._sync.boundary.update)
        with self._chief.at_work(session):
            self._whole[self._serving] = whole

    def _change(self, side, run):
        """Variables of a side change: it is not whole meanwhile."""
        before = self._whole.pop(side)
        run()
        self._whole[side] = before

    def _attach(self):
        with self._lock:
            pair, self._found = self._found, None
        if pair is None:
            return
        began = time.monotonic()
        try:
            pair.copy()
        except _LOST as problem:
            pair.abandon()
            if not self._serves():
                raise
            _log.info("%s was lost while it was copied to: %s", pair.text, problem)
            return
        self._whole[1 - self._serving] = pair.incarnations
        with self._lock:
            self._pair = pair
        _log.info("%s stands by, copied in %.3f s", pair.text, time.monotonic() - began)

    def _detach(self, problem):
        self._whole.pop(1 - self._serving, None)
        with self._lock:
            pair, self._pair = self._pair, None
        if pair is not None:
            _log.info("%s is lost, the training goes on without it: %s", pair.text, problem)
            pair.abandon()

    def _compare(self, pair, step):
        """Raises DataLossError if the sides differ."""
        try:
            ours, theirs = pair.hashes()
        except _LOST as problem:
            if not self._serves():
                raise
            return self._detach(problem)
        for variable, one, other in zip(self._mirrors.variables(), ours, theirs):
            if one != other:
                k = parsed(variable.device).task
                raise errors.DataLossError(None, variable.op, (
                    f"after step {step} the variable {variable.name} is not the same at "
                    f"{self._name(self._serving, k)} and {self._name(1 - self._serving, k)} "
                    f"(hashes {one:x} and {other:x}): something other than the chief's update "
                    "changes it, or a machine computes wrongly"))
        _log.debug("after step %d both sides are the same", step)


class _Pair:
    """The sessions and plans of a serving and a spare side, made before they are needed.
    incarnations: of the spare tasks."""

    def __init__(self, standby):
        made, staged, serving = standby._mirrors, standby._staged, standby._serving
        self.text = f"the job {standby._sides[1 - serving]}"
        server = standby._server

        def opened(target):
            return Session(target, graph=standby._graph, config=standby._config,
                           **standby._options)
        self._sessions = []
        try:
            both = opened(server.target_where(standby._renames(serving, True), (), LATEST))
            self._sessions.append(both)
            spare = opened(standby._target(1 - serving))
            self._sessions.append(spare)
            self.copy = made.copy(both)
            self.copy()                 # for the memory on the way: what counts is quicker
            self.stage = both.make_callable(staged.stage)
            self._hashes = both.make_callable(list(zip(*made.hashes.values())))
            self.apply = both._make_callable_from_options(staged.apply_options())
            self.incarnations = standby._incarnations(both, 1 - serving)
            self.apply_spare = spare._make_callable_from_options(staged.apply_options())
        except BaseException:
            self.abandon()
            raise

    def hashes(self):
        """([number of a variable on the serving side], [on the spare side])."""
        return [[int(n) for part in side for n in part] for side in self._hashes()]

    def abandon(self):
        """Closes the sessions, on another thread: a task that is gone may take its time."""
        sessions, self._sessions = self._sessions, []
        threading.Thread(target=lambda: [session.close() for session in sessions],
                         name="pyflow-close", daemon=True).start()


PUBLIC = {}
