"""Live resharding: parameters move from some parameter servers to others while the training goes on.

The graph's parameters are on so many parameter TASKS, /job:ps/task:0 and so on; as many SERVERS of
that job as there are (or as are asked for) hold them, task k the server k % servers.  Another number
moves some tasks:

    move     a session over both places and its plans are made, and memory on the way, while the
             training goes on
    _switch  between two steps the variables of the tasks that move are copied, server to server
    serve    the new layout (layouts.py) is published, the sessions of the old one end; all make new
             ones, and nothing is restored
    move     the copies that were left behind are released

Invariants
1. Variables move between two steps, all or none: if a server is lost meanwhile, the training goes on
   where it was, or from its checkpoint.
2. Moves are made one after another, by the chief alone.

Threads: `move` any, one at a time; `_switch` the chief's of steps; `serve`, `begin` the one that
makes the chief's sessions.  Callers: training.py; `python -m pyflow cluster reshard ADDRESS ps=2`.

    resharding.ask("localhost:2222", 2)     # any server's address; the seconds that steps waited
"""
import logging
import threading
import time

from pyflow.distributed.look import asking
from pyflow.distributed.train import layouts, mirrors
from pyflow.distributed.wire import messages, task_names
from pyflow.distributed.launch import contract
from pyflow.framework import errors
from pyflow.framework.device import parsed
from pyflow.session import Session

SECONDS = 60.0                  # for a move, with all that is prepared
LONGEST = 3600.0
ANSWER = 1.0                    # for a server to end sessions
_LOST = (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError)
_log = logging.getLogger("pyflow.distributed")


class Resharding:
    """A chief's.  server: its tf.train.Server; sync: the SyncReplicasOptimizer, after
    apply_gradients; tasks: how many parameter tasks the graph has; config, options: of the sessions.

    ValueError for a variable on a task beyond those."""

    def __init__(self, server, sync, graph, tasks, config=None, options=None):
        self._server, self._sync, self._graph = server, sync, graph
        self._config, self._options = config, options or {}
        self._job, self._tasks = parsed(sync.boundary.global_step.device).job, tasks
        self._mirrors = mirrors.Mirrors(self._job, graph)
        for variable in self._mirrors.variables():
            if not (parsed(variable.device).task or 0) < tasks:
                raise ValueError(f"{variable.name} is on {variable.device}: with ps_tasks={tasks} "
                                 f"there are tasks 0 to {tasks - 1} (replica_device_setter("
                                 f"ps_tasks={tasks}))")
        self.servers = min(tasks, len(layouts.tasks_of(server, self._job)))
        self._published, self._chief = layouts.Published(server), layouts.ChiefSession()
        self._asked, self._lock = threading.Lock(), threading.Lock()
        self._ready, self._moved, self._first = None, None, True
        server.on_reshard(self._answer)

    # ------------------------------------------------------------ the chief's sessions

    def serve(self):
        """(target of a new session, whether the parameters are there).  The layout is published; if
        it is another one, sessions of the old one end."""
        self._chief.end()
        with self._lock:
            moved = self._moved is not None and not self._moved.over.is_set()
        self._published.say(self._renames(self.servers))
        if moved or self._first:
            self._first = False
            self._server.reset_tasks({f"/job:{self._job}/replica:0/task:{k}": 0 for k in
                                      layouts.tasks_of(self._server, self._job)}, True, ANSWER)
        return self._server.target_where(self._renames(self.servers),
                                         patience=layouts.THERE), moved

    def begin(self, session):
        """The parameters are there, in a session of `serve`'s target."""
        self._chief.begin(session)
        with self._lock:
            moved, self._moved = self._moved, None
        if moved is not None:
            moved.end()

    def close(self):
        """No move is made any more."""
        self._server.on_reshard(None)
        self._chief.end()

    def take(self, session):
        """A step: of the chief's thread, in its session."""
        with self._lock:
            move, self._ready = self._ready, None
        if move is not None:
            with self._chief.at_work(session):
                self._switch(move)
        session.run(self._sync.boundary.update)

    def _switch(self, move):
        """Copies; then the sessions are to be made anew: AbortedError.  A move that fails leaves all
        as it is."""
        try:
            move.copy()
        except _LOST as problem:
            move.end(problem)
            return
        with self._lock:
            self.servers, self._moved = move.servers, move
        raise errors.AbortedError(None, None, (
            f"the parameters have moved: {self._tasks} tasks on {move.servers} servers of the job "
            f"{self._job}; a session that finds them is made"))

    # ------------------------------------------------------------ moves

    def move(self, servers, seconds=SECONDS):
        """Has so many servers hold the parameters; the _Move, once a session with that is there.

        InvalidArgumentError for a number of servers that there are not, or more than tasks;
        DeadlineExceededError if the training takes no step within `seconds`."""
        with self._asked:
            there = layouts.tasks_of(self._server, self._job)
            if not 1 <= servers <= self._tasks or list(range(servers)) != there[:servers]:
                raise errors.InvalidArgumentError(None, None, (
                    f"{servers} servers: the graph has parameters on {self._tasks} tasks, and the "
                    f"job {self._job} has the tasks {there}; a task may move to one that is there"))
            move = _Move(self, servers)
            if not move.tasks:
                move.end()
                return move
            try:
                move.warm()
            except errors.OpError:
                move.close()
                raise
            with self._lock:
                self._ready = move
            move.over.wait(seconds)
            with self._lock:
                if self._ready is move:
                    self._ready, move.failure = None, errors.DeadlineExceededError(
                        None, None, f"the training took no step within {seconds:g} s")
            if move.failure is None and move.over.wait(seconds):
                move.release()
            move.close()
            if move.failure is not None:
                raise move.failure
            _log.info("%s", move)
            return move

    def _answer(self, request):
        """A ReshardResponse to a ReshardRequest."""
        if request.job != self._job:
            raise errors.InvalidArgumentError(
                None, None, f"the parameters are on the job {self._job!r}, not {request.job!r}")
        seconds, before = request.seconds or SECONDS, self.servers
        if not 0 < seconds <= LONGEST:
            raise errors.InvalidArgumentError(None, None, f"a move within {seconds} s: expected at "
                                              f"most {LONGEST:g}")
        move = self.move(request.servers, seconds)
        return messages.ReshardResponse(before=before, servers=move.servers, bytes=move.bytes,
                                        copied=move.copied, seconds=move.seconds)

    def _renames(self, servers, spare=None):
        """Where the graph's parameters are on so many servers; spare: and their mirrors on so
        many."""
        found = {}
        for k in range(self._tasks):
            found[self._job, k] = self._job, k % servers
            if spare is not None:
                found[mirrors.SPARE, k] = self._job, k % spare
        return found


class _Move:
    """One move to so many servers.  tasks: those that move; bytes: of their variables; copied: the
    seconds that took, no step was made meanwhile; seconds: until the training went on."""

    def __init__(self, resharding, servers):
        self.before, self.servers, self._of = resharding.servers, servers, resharding
        made = resharding._mirrors
        self.tasks = [k for k in made.tasks() if k % self.before != k % servers]
        self.bytes = sum(map(mirrors.size_of, made.variables(self.tasks)))
        self.over, self.failure, self.copied, self.seconds = threading.Event(), None, 0.0, 0.0
        self._began, self._sessions = 0.0, []
        if self.tasks:
            self._copy = made.copy(self._session(self.before, servers), self.tasks)

    def __str__(self):
        return (f"{self.bytes} bytes of parameters have moved from {self.before} to {self.servers} "
                f"servers: copied in {self.copied:.3f} s, no step for {self.seconds:.3f} s")

    def _session(self, here, there):
        of = self._of
        target = of._server.target_where(of._renames(here, there), patience=layouts.THERE)
        session = Session(target, graph=of._graph, config=of._config, **of._options)
        self._sessions.append(session)
        return session

    def warm(self):
        """Copies while steps are made, for nothing but the memory on the way, which is there then
        when it counts."""
        self._copy()

    def copy(self):
        """Between two steps."""
        self._began = time.monotonic()
        self._copy()
        self.copied = time.monotonic() - self._began

    def end(self, failure=None):
        """The training goes on."""
        self.failure = failure
        if self._began:
            self.seconds = time.monotonic() - self._began
        self.over.set()

    def release(self):
        """What was left behind goes; if that fails its server is gone, or it stays until then."""
        try:
            release = self._of._mirrors.release
            self._session(self.servers, self.before).run([release[k] for k in self.tasks])
        except errors.OpError as problem:
            _log.info("parameters that have moved are not released: %s", problem)

    def close(self):
        """Ends its sessions."""
        for session in self._sessions:
            session.close()


def ask(cluster, servers, job="ps", seconds=SECONDS):
    """Has a training's chief move the parameters to so many servers; the ReshardResponse.

    cluster: an asking.Cluster, or the address of any of its servers.  Raises asking.Unreachable, or
    ValueError with what the chief says."""
    if isinstance(cluster, str):
        with asking.Cluster(cluster) as found:
            return ask(found, servers, job, seconds)
    jobs = {}
    for task in cluster.tasks:
        name, number = task_names.parts(task)
        jobs.setdefault(name, []).append(int(number))
    chief = "/job:{}/replica:0/task:{}".format(*contract.chief_of(jobs))
    cluster.asker.patience = 2 * seconds
    reply = cluster.asker.ask(chief, "Reshard", messages.ReshardRequest(
        job=job, servers=servers, seconds=seconds))
    if isinstance(reply, asking.Silent):
        raise ValueError(f"{task_names.short(chief)}: {reply.reason}")
    return reply


PUBLIC = {}
