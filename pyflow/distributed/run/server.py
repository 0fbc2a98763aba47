"""tf.train.Server: one task of a cluster, in this process.

A server has a Worker (plans and steps), a Master's place (sessions), and listens for those of other
processes.  Several may live in one process; each has its own variables.

    NEW --start--> LISTENING --stop--> STOPPED          the port is bound from the start on

Invariants
1. `Session(server.target)` in the server's own process speaks to it directly.
2. Unless told otherwise in so many words, a server listens on loopback only (security.py).
3. After `stop` the port is free, threads and connections are gone, and steps that ran were
   cancelled.

Threads: any.

    cluster = tf.train.ClusterSpec({"worker": ["localhost:2222", "localhost:2223"]})
    server = tf.train.Server(cluster, "worker", 0)
    with tf.Session(server.target) as sess: ...
"""
import contextlib
import logging
import threading
import time

from pyflow.distributed.wire import links as links_lib
from pyflow.distributed.look import asking, watch
from pyflow.distributed.run import (aliases, client, cluster_step, master, master_service,
                                    remote_worker, timeouts, worker, worker_service)
from pyflow.distributed.wire import daemon_pool, messages, routes, rpc, security, services
from pyflow.distributed.wire.channels import Channels
from pyflow.framework import errors, protos
from pyflow.session import runtime, targets
from pyflow.train import cluster_spec

THREADS = 2048                          # at most; made as calls come
LEASE = 10.0                            # seconds: how long what a lost master or client left stays
BEAT = 0.5                              # seconds between signs of life
_SCHEMES = ("unix", "unix-abstract", "ipv4", "ipv6", "dns")
_log = logging.getLogger("pyflow")


class Server:
    """A task of a cluster. TF: tf.train.Server.

    server_or_cluster_def: a ServerDef, ClusterDef, ClusterSpec, or a dict of jobs.  job_name,
        task_index, protocol ("grpc"), config (a ConfigProto, of the devices): override what a
        ServerDef says; may be left out where the cluster leaves one choice.
    start: False only binds the port.
    insecure: True lets it listen beyond loopback without certificates.  credentials:
        security.Credentials, or the folder they are in: mutual TLS with every peer.
    lease: seconds after which the steps and sessions of a client or master that is not heard of any
        more are ended.  epoch: the fencing number of this start of the task.
    links: which links it uses beside gRPC, the best first: "unix", "tcp", and the kinds that plugins
        offer; default: what PYFLOW_LINKS says, else unix and tcp, and unix alone for a server at a
        UNIX socket.  With certificates those that do
        not encrypt, which are ours, are left out.

    Raises TypeError and ValueError for arguments that say no task, and for links that there are not,
    InternalError and InvalidArgumentError for a job and a task that the cluster lacks, UnknownError if
    the port cannot be bound, PermissionDeniedError for an address beyond loopback.
    """

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None,
                 config=None, start=True, insecure=False, credentials=None, lease=LEASE, epoch=0,
                 links=None):
        self._server_def = make_server_def(server_or_cluster_def, job_name, task_index, protocol,
                                           config)
        self._grpc = None
        name, address = _own(self._server_def)
        _check_protocol(self._server_def.protocol)
        self._worker = worker.Worker(name, self._server_def.default_session_config, epoch=epoch)
        self._worker.lease = lease
        self._worker.cluster_def = self._server_def.cluster.SerializeToString()
        self._worker.timeouts = timeouts.table(lease, BEAT, client.LEASE, cluster_step.GRACE)
        if isinstance(credentials, str):
            credentials = security.Credentials.load(credentials)
        elif credentials is None:
            credentials = security.Credentials.of_environment()
        self._kinds = links_lib.chosen(links, secure=credentials is not None,
                                       here=address.startswith("unix"))
        self._insecure, self._epoch, self._replaced = insecure, epoch, False
        self._channels = Channels(credentials)
        addresses = _addresses(self._server_def.cluster)
        tasks = master.Tasks(self._worker, addresses, self._connect)
        tasks.channels = self._channels
        self._place = self._worker.place = master.Place(tasks)
        self._aliases = aliases.Aliases(self, lambda task, address: Server(
            aliases.cluster_of({task: address}), config=config, insecure=insecure,
            credentials=credentials, lease=lease, links=self._kinds))
        self._place.of_cluster, self._worker.on_become = self._aliases.place, self._aliases.become
        self._tasks, self._over, self._started = tasks, threading.Event(), False
        self._worker.on_ready, self._worker.on_bye = self._ready, self._bye
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._renamed = {}              # (renames, hidden, patience): target, of target_where
        self._listen(address, insecure, credentials)
        if start:
            self.start()

    def _listen(self, address, insecure, credentials):
        module = rpc.grpc()
        security.check_listen(address, credentials, insecure)
        self._pool = daemon_pool.DaemonPool(THREADS, f"pyflow-{self._worker.name}")
        self._grpc = module.server(self._pool, options=rpc.options(rpc.SILENCE))
        self._master = master_service.MasterService(self._place, self._worker)
        self._grpc.add_generic_rpc_handlers((
            rpc.handler("MasterService", services.MASTER, self._master, self._worker.name),
            rpc.handler("WorkerService", services.WORKER,
                        worker_service.WorkerService(self._worker), self._worker.name)))
        try:
            bound = security.listen(self._grpc, address, credentials, insecure)
        except errors.UnavailableError as problem:
            self._pool.shutdown(wait=False)
            raise errors.UnknownError(
                None, None, f"Could not start gRPC server: {problem.message}") from None
        self._address = (address if address.startswith("unix:") else
                         f"{address.rpartition(':')[0]}:{bound}")
        self._worker.address = self._address
        self._tasks.addresses[self._worker.name] = self._address

    def __repr__(self):
        return f"<tf.train.Server {self._worker.name} at {self._address}>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # ------------------------------------------------------------ life

    def start(self):
        """Begins to serve.  Raises FailedPreconditionError after `stop`; again: nothing."""
        with self._lock:
            if self._over.is_set():
                raise errors.FailedPreconditionError(None, None, "the server was stopped")
            if self._started:
                return
            self._started = True
            host = self._address.rpartition(":")[0]
            here = host == "localhost" or self._address.startswith("unix:")
            self._worker.links = links_lib.Links(
                self._worker, self._kinds, "127.0.0.1" if here else host,
                self._insecure, epoch=self._epoch, lost=self._lost)
            self._worker.routes = routes.Routes(self._worker, self._channels)
            routes.join(self._worker)
            self._watch = watch.Watch(self._worker, lambda: self._tasks.addresses,
                                      self._channels, self._tasks.has_answered)
            self._grpc.start()
            targets.register(self.target, self._place)
            threading.Thread(target=self._beat, name="pyflow-beat", daemon=True).start()
            threading.Thread(target=self._say_ready, name="pyflow-ready", daemon=True).start()
        _log.info("%r listens", self)

    def join(self):
        """Blocks until the server is stopped, by this process or because the job is over (another
        task's `stop_cluster`, `python -m pyflow cluster stop`), or a successor has its place; Ctrl-C
        gets through."""
        while not self._over.wait(0.5):
            if self._replaced:
                self.stop()
        self._stopped.wait(10.0)        # so that the process may end

    def stop_cluster(self, why="the job is over"):
        """Stops every task of the cluster, this one last: their `join` returns.  Tasks that do not
        answer are left out."""
        others = {t: a for t, a in self._tasks.addresses.items() if t != self._worker.name}
        asker = asking.Asker(others, self._channels)
        asker.ask_all("Bye", messages.ByeRequest(
            why=why, sender=self._worker.name, incarnation=self._worker.incarnation,
            epoch=self._epoch))
        self.stop()

    def replaced(self, epoch):
        """A process of a later epoch has this task now, says whoever starts them: one that only
        serves (`join`) ends, others are refused by whom they speak to."""
        if not self._replaced and not self._over.is_set():
            self._replaced = True
            _log.warning("refused: %s of epoch %d was replaced by epoch %d: this process must end",
                         self._worker.name, self._epoch, epoch)

    def update_cluster(self, cluster):
        """Tasks came, left, or listen elsewhere: a ClusterSpec, or what makes one, of all that
        there are now. What it says of this task itself is not looked at."""
        cluster = cluster_spec.ClusterSpec(cluster).as_cluster_def()
        self._tasks.move(_addresses(cluster))
        self._worker.cluster_def = cluster.SerializeToString()

    def _bye(self, why):
        """The job is over, somebody says; the answer goes out first."""
        threading.Timer(0.05, self.stop).start()

    def _ready(self, task, incarnation, address):
        """A task has begun to listen: who waits for it need not find out by itself."""
        if self._tasks.addresses.get(task):
            self._tasks.woken(task)

    def _say_ready(self):
        """Tells the other tasks that this one listens; those that are not there learn it when they
        ask."""
        others = {t: a for t, a in self._tasks.addresses.items() if t != self._worker.name}
        channels = self._channels.another()
        request = messages.ReadyRequest(task=self._worker.name, address=self._address,
                                        incarnation=self._worker.incarnation)
        calls = []
        for address in others.values():
            stub = rpc.Stub(channels.get(address), "WorkerService",
                            {"Ready": services.WORKER["Ready"]})
            calls.append(stub.Ready.future(request, timeout=1.0))
        for call in calls:
            call.exception()
        channels.close()

    def stop(self):
        """Cancels its sessions' steps, forgets its variables, frees the port.  Twice is once.

        Sessions that are open raise from then on."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            started = self._started
        if started:
            for target in (self.target, *self._renamed.values()):
                with contextlib.suppress(KeyError):
                    targets.unregister(target)
            routes.leave(self._worker)
        for link in list(self._place.sessions):
            link.cancel("the server was stopped")
        self._worker.stop()
        if started:
            self._worker.routes.close()
            self._worker.links.close()
        for known in self._tasks.known():
            if known is not self._worker and not known.local:
                known.close()
        self._aliases.stop()
        self._master.stop()
        self._grpc.stop(0).wait()
        self._pool.shutdown(wait=False)
        self._channels.close()
        self._stopped.set()

    def __del__(self):
        if getattr(self, "_grpc", None) is not None and not self._over.is_set() \
                and not self._started:
            self._grpc.stop(0)

    def _lost(self, task, incarnation, code, message):
        """A link was lost, says its net's thread, which must not wait for anything."""
        _log.info("%s: the link to %s is lost: %s", self._worker.name, task, message)
        self._master.lost(task, code, message)
        if not self._over.is_set() and self._worker.routes is not None:
            threading.Thread(target=self._after_loss, args=(task, incarnation, code, message),
                             name="pyflow-lost", daemon=True).start()

    def _after_loss(self, task, incarnation, code, message):
        """What was on its way to a task is lost with a link: masters of steps that it may have been
        of hear so, whose own links may stand. Then another link is made."""
        failure = runtime.executor().StepError(
            code, f"from {self._worker.name} what was sent to {task} may be lost: {message}",
            task=task)
        for master, sessions in self._worker.may_have_sent(task).items():
            for number, steps in sessions.items() if master in self._tasks.addresses else ():
                self._tasks.get(master).say_failed(number, steps, failure)
        self._worker.routes.lost(task, incarnation)

    def _beat(self):
        """Signs of life to other tasks, and the ends of steps and sessions that nobody ends."""
        every = min(BEAT, self._worker.lease / 4)
        while True:
            began = time.monotonic()
            if self._over.wait(every):
                return
            away = max(0.0, time.monotonic() - began - 2 * every)
            links = list(self._place.sessions)
            for what in ([link.flush for link in links]
                         + [lambda: self._worker.sweep(away), lambda: self._master.sweep(away),
                            self._watch.look]
                         + [link.deregister_dropped for link in links]):
                try:
                    what()
                except Exception as problem:
                    _log.debug("%s: %s", self._worker.name, problem)

    def _connect(self, task, address):
        here = routes.at_address(task, address)
        if here is not None:
            return here
        return remote_worker.RemoteWorker(task, address, self._channels,
                                          (self._worker.name, self._worker.incarnation,
                                           self._worker.epoch), self._worker.links)

    # ------------------------------------------------------------ what it is

    @property
    def server_def(self):
        """The ServerDef: the cluster, and which task of it this is."""
        return self._server_def

    @property
    def cluster(self):
        """The tf.train.ClusterSpec as it is now: server_def's, or that of the newest
        update_cluster."""
        return cluster_spec.ClusterSpec(protos.ClusterDef.FromString(self._worker.cluster_def))

    @property
    def stopped(self):
        """True once `stop` was called, here or by the job's end."""
        return self._over.is_set()

    @property
    def target(self):
        """"grpc://host:port", for tf.Session."""
        return f"grpc://{self._address}"

    def target_where(self, renames, hidden=(), patience=None):
        """A target of this process alone, whose sessions take one task for another.

        renames: {(job, task): (job, task)}, what a graph asks for and what it gets; hidden: tasks
        that they do not speak to; patience: seconds for a task to be there, None: as long as it
        takes."""
        key = tuple(sorted(renames.items())), tuple(sorted(hidden)), patience
        with self._lock:
            if key not in self._renamed:
                found = self._renamed[key] = f"{self.target}#{len(self._renamed) + 1}"
                targets.register(found, self._place.renamed(renames, hidden, patience))
            return self._renamed[key]

    def say_layout(self, layout):
        """Has the status of this task say a LayoutMessage: where parameters are (layouts.py)."""
        self._worker.layout = layout

    def on_reshard(self, answer):
        """answer(ReshardRequest) -> ReshardResponse is asked from now on (resharding.py); None:
        nobody."""
        self._worker.on_reshard = answer

    def reset_tasks(self, incarnations, sessions=False, patience=asking.PATIENCE):
        """Has other tasks forget all that they hold, and end their sessions; sessions: that alone.
        incarnations: {task: which is meant, 0 for whichever is there}.
        {task: Empty or asking.Silent}; if this task was replaced by one of a later epoch, they refuse."""
        own = self._worker
        return self.ask_all(list(incarnations), "CleanupAll", {
            task: messages.ResetRequest(
                incarnation=incarnation, call=remote_worker.new_call(), sessions=sessions,
                master=own.name, epoch=own.epoch, master_incarnation=own.incarnation)
            for task, incarnation in incarnations.items()}, patience)

    def ask_all(self, tasks, call, request, patience=asking.PATIENCE):
        """{task: its reply, or an asking.Silent} to one of services.WORKER's calls;
        request: a message, or {task: message}."""
        here = {self._worker.name: worker_service.WorkerService(self._worker)}
        return asking.Asker(self._tasks.addresses, self._channels, here, patience).ask_all(
            call, request, tasks)

    @property
    def address(self):
        """"host:port", where it listens."""
        return self._address

    def status(self):
        """The GetStatusResponse of the task."""
        return self._worker.status()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A server that is a cluster of its own, on a free port of this machine."""
        return Server({"local": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def create_local_cluster(num_workers, num_ps, protocol="grpc", worker_config=None, ps_config=None):
    """(workers, parameter servers): a cluster of servers in this process, on free ports.
    TF: tf.test.create_local_cluster."""
    import socket
    held, jobs = [], {}
    for job, count in (("worker", num_workers), ("ps", num_ps)):
        for _ in range(count):
            probe = socket.socket()
            probe.bind(("localhost", 0))
            held.append(probe)
            jobs.setdefault(job, []).append(f"localhost:{probe.getsockname()[1]}")
    for probe in held:
        probe.close()
    cluster = cluster_spec.ClusterSpec(jobs)
    configs = {"worker": worker_config, "ps": ps_config}
    made = {job: [Server(cluster, job, i, protocol, configs[job]) for i in range(count)]
            for job, count in (("worker", num_workers), ("ps", num_ps))}
    return made["worker"], made["ps"]


# ---------------------------------------------------------------- arguments

def make_server_def(server_or_cluster_def, job_name, task_index, protocol, config):
    """The ServerDef that a Server's arguments mean.  Raises TypeError, ValueError."""
    found = protos.ServerDef()
    if isinstance(server_or_cluster_def, protos.ServerDef):
        found.MergeFrom(server_or_cluster_def)
        for field, value in (("job_name", job_name), ("task_index", task_index),
                             ("protocol", protocol)):
            if value is not None:
                setattr(found, field, value)
    else:
        try:
            cluster = cluster_spec.ClusterSpec(server_or_cluster_def)
        except TypeError:
            raise TypeError("Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or"
                            f" `tf.train.ClusterSpec`: got {type(server_or_cluster_def)}") from None
        if job_name is None:
            if len(cluster.jobs) != 1:
                raise ValueError("Must specify an explicit `job_name`.")
            job_name = cluster.jobs[0]
        if task_index is None:
            indices = cluster.task_indices(job_name)
            if len(indices) != 1:
                raise ValueError("Must specify an explicit `task_index`.")
            task_index = indices[0]
        found.cluster.MergeFrom(cluster.as_cluster_def())
        found.job_name, found.task_index = job_name, task_index
        found.protocol = "grpc" if protocol is None else protocol
    if config is not None:
        found.default_session_config.MergeFrom(config)
    return found


def _own(server_def):
    """(task name, address) of the task that a ServerDef says it is."""
    for job in server_def.cluster.job:
        if job.name == server_def.job_name:
            if server_def.task_index not in job.tasks:
                raise errors.InvalidArgumentError(
                    None, None, f"Task {server_def.task_index} was not defined in job "
                    f"\"{server_def.job_name}\"")
            address = security.bare(job.tasks[server_def.task_index])
            scheme, _, port = address.partition(":")[0], *address.rpartition(":")[1:]
            if scheme not in _SCHEMES and not (port.isdecimal() and port.isascii()):
                raise errors.InvalidArgumentError(
                    None, None, f"Could not parse port for local server from \"{address}\": "
                    "expected host:port")
            return f"/job:{job.name}/replica:0/task:{server_def.task_index}", address
    raise errors.InternalError(
        None, None, f"Job \"{server_def.job_name}\" was not defined in cluster")


def _check_protocol(protocol):
    if protocol != "grpc":
        raise errors.NotFoundError(None, None, "No server factory registered for the given "
                                   f"ServerDef: protocol {protocol!r}; there is 'grpc'")


def _addresses(cluster):
    return {f"/job:{job.name}/replica:0/task:{number}": security.bare(address)
            for job in cluster.job for number, address in sorted(job.tasks.items())}


PUBLIC = {"train.Server": Server}
