"""Layouts: which tasks hold the parameters of a training now, said by its chief, followed by all.

A graph asks for `/job:ps/task:0`.  A layout says which task is meant by that: the parameter server
itself, its standby (standby.py), or another one that its variables were moved to (resharding.py).
A session has one layout; who hears of another makes a new session.

    chief    Published.say({("ps", 0): ("ps_standby", 0)}) -> counts up, its server's status has it
    worker   Followed.session(make): asks the chief, makes a session, asks again if that fails

Invariants
1. The chief alone decides; a layout has a number, and no two of one chief's have the same.
2. A worker whose session was lost waits a little for another layout than the one it had: it may
   have noticed sooner than the chief.
3. What a status says is untrusted: tasks' names are checked.

Threads: one a Followed; any may publish.  Callers: training.py, standby.py.
"""
import contextlib
import logging
import re
import threading
import time

from pyflow.distributed.look import asking
from pyflow.distributed.wire import messages
from pyflow.distributed.launch import contract
from pyflow.framework import errors
from pyflow.session import Session
from pyflow.session.session import is_open

ASK, AGAIN = 1.0, 0.02          # seconds for the chief to answer, and between questions
SAME = 0.5                      # how long a worker waits for another layout than it had
READY = 0.5                     # for the model to be ready, before the layout is asked for again
THERE = 30.0                    # for a task to be there before the chief looks where others are
PATIENCE = 2.0                  # for a task of a layout to be there
_LOST = (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError)
_TASK = re.compile(r"/job:([A-Za-z][A-Za-z0-9_]{0,199})/task:([0-9]{1,9})")
_log = logging.getLogger("pyflow.distributed")


def chief_of(server):
    """The task of a server's cluster that is the chief: 0 of chief, master or worker."""
    job, index = contract.chief_of({job.name: list(job.tasks)
                                    for job in server.server_def.cluster.job})
    return f"/job:{job}/replica:0/task:{index}"


def tasks_of(server, job):
    """The numbers of the tasks of a job, in order."""
    cluster = server.cluster
    return sorted(cluster.task_indices(job)) if job in cluster.jobs else []


class Published:
    """The chief's: what its server's status says."""

    def __init__(self, server):
        self._server, self.number = server, int(time.time() * 1000)     # above an older chief's

    def say(self, renames):
        """{(job, task) asked for: (job, task) meant} is the layout from now on."""
        self.number += 1
        shown = sorted((_text(a), _text(m)) for a, m in renames.items())
        self._server.say_layout(messages.LayoutMessage(
            number=self.number, asked=[a for a, _ in shown], meant=[m for _, m in shown]))


class ChiefSession:
    """Which of a chief's sessions is the one.  Who changes variables beside its steps does so while
    nobody makes another one."""

    def __init__(self):
        self._cond, self._session, self._busy = threading.Condition(), None, False

    def begin(self, session):
        """It is the one from now on."""
        with self._cond:
            self._session = session

    def end(self):
        """None is; work under way is waited for."""
        with self._cond:
            self._session = None
            while self._busy:
                self._cond.wait()

    def lives(self, session):
        """It is the one, and open."""
        return session is self._session and is_open(session)

    @contextlib.contextmanager
    def at_work(self, session):
        """`end` waits meanwhile.  AbortedError if the session is not the one any more."""
        with self._cond:
            if session is not self._session:
                raise errors.AbortedError(None, None, "another session has taken this one's place")
            self._busy = True
        try:
            yield
        finally:
            with self._cond:
                self._busy = False
                self._cond.notify_all()


class Followed:
    """What a worker knows of the chief's layouts.  until: seconds that it waits for a session."""

    def __init__(self, server, until):
        self._server, self._until, self._number = server, until, 0
        self._chief = chief_of(server)

    def session(self, make):
        """make(target, seconds) until it gives a session whose model is ready within that time."""
        began, end = time.monotonic(), time.monotonic() + self._until
        while True:
            layout = self._ask()
            same = layout is not None and layout.number == self._number
            if layout is None or same and time.monotonic() - began < SAME:
                if time.monotonic() > end:
                    raise errors.DeadlineExceededError(
                        None, None, f"{self._chief} says nothing of where the parameters are")
                time.sleep(AGAIN)
                continue
            self._number = layout.number
            try:
                return make(self._server.target_where(renames_of(layout), patience=PATIENCE), READY)
            except _LOST as problem:
                if time.monotonic() > end:
                    raise
                began = time.monotonic() - SAME + 0.1
                _log.info("no session yet with layout %d: %s", layout.number, problem)

    def opened(self, target, **options):
        """A session for `make`."""
        number = self._number

        def is_over():
            layout = self._ask()
            return layout is None or layout.number != number
        return FollowingSession(is_over, target, **options)

    def _ask(self):
        """The LayoutMessage of the chief's status; None if there is none yet."""
        reply = self._server.ask_all([self._chief], "GetStatus", messages.GetStatusRequest(),
                                     ASK)[self._chief]
        silent = isinstance(reply, asking.Silent)
        return reply.layout if not silent and reply.layout.number else None


class FollowingSession(Session):
    """A session of one layout.  What is cut off because another one has come is ABORTED, which
    trainings recover from.  is_over(): whether another one has come."""

    def __init__(self, is_over, target, **options):
        super().__init__(target, **options)
        self._is_over = is_over

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As tf.Session.run."""
        try:
            return super().run(fetches, feed_dict, options, run_metadata)
        except errors.CancelledError as problem:
            if not self._is_over():
                raise
            raise errors.AbortedError(problem.node_def, problem.op, (
                f"the parameters are elsewhere now: {problem.message}")) from problem


def renames_of(layout):
    """{(job, task): (job, task)} of a LayoutMessage.  DataLossError for what is none."""
    if len(layout.asked) != len(layout.meant):
        raise errors.DataLossError(None, None, f"layout {layout.number}: {len(layout.asked)} tasks "
                                   f"mean {len(layout.meant)}")
    return {_task(asked): _task(meant) for asked, meant in zip(layout.asked, layout.meant)}


def _text(task):
    return f"/job:{task[0]}/task:{task[1]}"


def _task(text):
    found = _TASK.fullmatch(text)
    if not found:
        raise errors.DataLossError(None, None, f"a layout names {text[:60]!r}: expected a task, as "
                                   "/job:ps/task:0")
    return found[1], int(found[2])


PUBLIC = {}
