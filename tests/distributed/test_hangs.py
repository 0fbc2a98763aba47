"""Hangs on purpose: what `cluster why` and a deadline's error say first is the culprit.

Each hang is a function of a Play: it begins a step that cannot end and returns what the first
sentence has to say.  The seed deals the roles to the tasks.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import lossy
import processes
from chrome_flows import check_flows

import pyflow as tf
from pyflow import timeline
from pyflow.distributed.look import asking, probe, why
from pyflow.distributed.wire import grpc_link

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 900                          # milliseconds
LOOK = 0.5                              # seconds until somebody asks


class Cluster:
    """Four tasks: ps 0, ps 1 and worker 1 are processes, worker 0 is here."""

    def __init__(self, free_ports):
        ports = free_ports(4)
        self.spec = {"ps": [f"localhost:{p}" for p in ports[:2]],
                     "worker": [f"localhost:{p}" for p in ports[2:]]}
        self.processes = {}
        for job, task in (("ps", 0), ("ps", 1), ("worker", 1)):
            self.begin(job, task)
        self.server = tf.train.Server(self.spec, "worker", 0)
        for process in self.processes.values():
            process.stdout.readline()

    def begin(self, job, task, *faults):
        """Starts the process of a task, in place of an earlier one."""
        old = self.processes.pop((job, task), None)
        if old is not None:
            self.end(old)
        self.processes[job, task] = subprocess.Popen(
            [sys.executable, "-P", os.path.join(HERE, "hang_server.py"), json.dumps(self.spec), job,
             str(task), *faults], stdout=subprocess.PIPE)
        if faults or old is not None:
            self.processes[job, task].stdout.readline()

    def settle(self):
        """Until all tasks know that one is back which they had given up."""
        graph, until = tf.Graph(), time.monotonic() + 10
        with graph.as_default():
            found = []
            for job, task in self.processes:
                with tf.device(f"/job:{job}/task:{task}"):
                    found.append(tf.random_uniform([]) + 1)
            with tf.device("/job:worker/task:0"):
                found = tf.add_n(found)
        while True:
            time.sleep(0.2)
            try:
                with tf.Session(self.server.target, graph=graph) as sess:
                    sess.run(found)
                return
            except tf.errors.OpError:
                assert time.monotonic() < until

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def close(self):
        self.server.stop()
        for process in self.processes.values():
            self.end(process)


@pytest.fixture(scope="module")
def free_ports_of_module():
    return processes.free_ports


@pytest.fixture(scope="module")
def cluster(free_ports_of_module):
    found = Cluster(free_ports_of_module)
    yield found
    found.close()


class Play:
    """One hang: its graph, its session, and what goes wrong meanwhile."""

    def __init__(self, cluster, seed, monkeypatch):
        self.cluster, self.patch = cluster, monkeypatch
        self.graph, self.random = tf.Graph(), random.Random(seed)
        self.away = self.random.sample([("ps", 0), ("ps", 1), ("worker", 1)], 3)
        self.afterwards, self.threads, self.target = [], [], cluster.server.target
        self.before, self.stopped = lambda sess: None, False

    @staticmethod
    def name(task):
        return f"/job:{task[0]}/replica:0/task:{task[1]}"

    def losing(self, kind):
        """A Lossy for what this process sends over gRPC to tasks that are restarted from now on."""
        frames = lossy.Lossy(kind, left=1000, armed=False)
        self.patch.setattr(grpc_link, "sent", frames.of(grpc_link.sent))
        return frames

    def on(self, task):
        """A device scope; None: this process."""
        return tf.device(self.name(task or ("worker", 0)))

    def restart(self, task, *faults):
        """The task's process anew, and as it was when the play is over."""
        self.cluster.begin(*task, *faults)
        self.afterwards.append(lambda: self.cluster.begin(*task))

    def stop(self, task):
        process, self.stopped = self.cluster.processes[task], True
        process.send_signal(signal.SIGSTOP)
        while probe.state_of(process.pid) != "T":
            time.sleep(0.001)
        self.afterwards.append(lambda: process.send_signal(signal.SIGCONT))

    def aside(self, run):
        """Another client, that waits too."""
        def quietly():
            try:
                run()
            except tf.errors.OpError:
                pass
        self.threads.append(threading.Thread(target=quietly))
        self.threads[-1].start()

    def perform(self, hang):
        """Runs it; checks what is said meanwhile, and by the deadline's error."""
        with self.graph.as_default():
            fetch, expected = hang(self)
        said = []
        with tf.Session(self.target, graph=self.graph) as sess:
            self.before(sess)
            asking = threading.Timer(LOOK, lambda: said.append(self.ask()))
            asking.start()
            try:
                with pytest.raises(tf.errors.DeadlineExceededError) as late:
                    sess.run(fetch, options=tf.RunOptions(timeout_in_ms=DEADLINE))
            finally:
                for undo in self.afterwards:
                    undo()
                asking.join()
            text = str(late.value)
        if self.stopped:
            self.cluster.settle()
        for thread in self.threads:
            thread.join()
        first = text.partition(" ms: ")[2].split("\n")[0]
        assert re.search(expected, first), text
        assert said[0].culprits and re.search(expected, said[0].culprits[0].text), said[0].text()
        return text

    def ask(self):
        with asking.Cluster(self.cluster.server.address, patience=0.5) as seen:
            return why.of_cluster(seen)


# ---------------------------------------------------------------- the hangs

def stopped_task(play):
    """A process gets no CPU any more."""
    victim = play.away[0]
    with play.on(victim):
        x = tf.random_uniform([]) + 1
    with play.on(None):
        y = x * 2
    play.before = lambda sess: (sess.run(y), play.stop(victim))
    return y, f"{play.name(victim)} at .* is stopped"


def stopped_ps_behind_another(play):
    """This one waits for a worker that waits for a parameter server."""
    ps, between = play.away[:2]
    with play.on(ps):
        v = tf.Variable(1.0)
    with play.on(between):
        y = v * 2
    with play.on(None):
        z = y + 1

    def before(sess):
        sess.run(v.initializer)
        sess.run(z)
        play.stop(ps)
    play.before = before
    return z, f"{play.name(ps)} at .* is stopped"


def stopped_in_a_loop(play):
    """Iterations over two tasks, one of which stops in the middle."""
    victim = play.away[0]

    def body(i, a):
        with play.on(victim):
            return i + 1, a * 1.0001
    with play.on(None):
        i, a = tf.while_loop(lambda i, a: i < 10 ** 9, body, [0, 1.0])
    play.before = lambda sess: threading.Timer(0.2, play.stop, [victim]).start()
    return a, f"{play.name(victim)} at .* is stopped"


def missing_send(play):
    """A partition was cut wrongly: nobody sends what a Recv waits for."""
    from pyflow.passes import partition_split
    source = play.away[0]
    with play.on(source):
        x = tf.random_uniform([], name="lonely")
    with play.on(None):
        y = x * 2
    real = partition_split.split

    def split(*args, **how):
        parts = real(*args, **how)
        for part in parts:
            part.graph.nodes[:] = [n for n in part.graph.nodes if n.op != "_net.Send"
                                   or "lonely" not in n.name]
        return parts
    play.patch.setattr(partition_split, "split", split)
    return y, f"nothing at {play.name(source)} sends tensor lonely.*:0.*test_hangs.py:"


def lost_frame(play):
    """A task sends, and nothing arrives."""
    source, sink = play.away[:2]
    play.restart(source, "lose-put")
    with play.on(source):
        x = tf.random_uniform([], name="lost")
    with play.on(sink):
        y = x * 2
    with play.on(None):
        z = y + 1
    return z, (f"tensor lost.*:0 was sent by {play.name(source)} and did not arrive at "
               f"{play.name(sink)}.*test_hangs.py:")


def lost_frame_of_this_task(play):
    """The same from here."""
    frames = play.losing("TENSOR")
    sink = play.away[0]
    play.restart(sink, "grpc")
    with play.on(None):
        x = tf.random_uniform([], name="mine")
    with play.on(sink):
        y = x * 2
    play.before = lambda sess: frames.begin()
    return y, f"tensor mine.*:0 was sent by .*task:0 and did not arrive at {play.name(sink)}"


def lost_run(play):
    """A task never hears that a step begins."""
    frames = play.losing("RUN")
    source = play.away[0]
    play.restart(source, "grpc")
    with play.on(source):
        x = tf.random_uniform([])
    with play.on(None):
        y = x * 2
    play.before = lambda sess: (sess.run(y), frames.begin())
    return y, f"{play.name(source)} never began step"


def lost_answer(play):
    """A task is done, and its answer is lost."""
    source = play.away[0]
    play.restart(source, "lose-answer")
    with play.on(source):
        x = tf.random_uniform([])
    return x, f"{play.name(source)} is done with its part of step .* answer did not arrive"


def empty_queue(play):
    """Nobody runs the op that would fill it."""
    at = play.away[0]
    with play.on(at):
        queue = tf.FIFOQueue(3, tf.float32, name="input_queue")
        queue.enqueue(1.0)
        x = queue.dequeue()
    with play.on(None):
        y = x * 2
    return y, (f"empty queue 'input_queue' at {play.name(at)}: nothing that runs fills it; this "
               "would: QueueEnqueue.* made at .*test_hangs.py:")


def empty_queue_without_producer(play):
    """No op of any graph fills it."""
    at = play.away[0]
    with play.on(at):
        x = tf.FIFOQueue(3, tf.float32, name="dry").dequeue()
    return x, f"empty queue 'dry' at {play.name(at)}: nothing fills it, in no session's graph"


def full_queue(play):
    """Nobody takes anything out."""
    at = play.away[0]
    with play.on(at):
        queue = tf.FIFOQueue(2, tf.float32, name="brim")
        put, _ = queue.enqueue(1.0), queue.dequeue()
    play.before = lambda sess: [sess.run(put) for _ in range(2)]
    return put, (f"full queue 'brim' at {play.name(at)}: nothing that runs empties it; this would: "
                 "QueueDequeue.*test_hangs.py:")


def too_few_elements(play):
    """dequeue_many asks for more than will come."""
    at = play.away[0]
    with play.on(at):
        queue = tf.FIFOQueue(9, tf.float32, [[]], name="few")
        put, many = queue.enqueue(1.0), queue.dequeue_many(4)
    play.before = lambda sess: [sess.run(put) for _ in range(3)]
    return many, f"queue with 3 of 4 elements 'few' at {play.name(at)}"


def empty_queue_far_away(play):
    """Two tasks lie between the client and the queue."""
    at, between = play.away[:2]
    with play.on(at):
        x = tf.RandomShuffleQueue(9, 1, tf.float32, [[]], name="far").dequeue()
    with play.on(between):
        y = x * 2
    with play.on(None):
        z = y + 1
    return z, f"empty queue 'far' at {play.name(at)}"


def deadlocked_barrier(play):
    """A barrier whose other half nobody inserts."""
    from pyflow.lib.queue import barriers
    at = play.away[0]
    with play.on(at):
        barrier = barriers.Barrier((tf.float32, tf.float32), shapes=((), ()), name="gate")
        half = barrier.insert_many(0, ["a"], [1.0])
        barrier.insert_many(1, ["a"], [2.0])
        taken = barrier.take_many(1)
    play.before = lambda sess: sess.run(half)
    return taken, (f"incomplete barrier with 1 of 2 components of a key 'gate' at {play.name(at)}: "
                   "nothing that runs fills it; this would: BarrierInsertMany.*test_hangs.py:")


def too_few_gradients(play):
    """A synchronous step that one worker does not contribute to."""
    at = play.away[0]
    with play.on(at):
        sums = tf.ConditionalAccumulator(tf.float32, [], name="sums")
        give, take = sums.apply_grad(1.0), sums.take_grad(2)
    play.before = lambda sess: sess.run(give)
    return take, (f"accumulator with 1 of 2 gradients for step 0 'sums' at {play.name(at)}"
                  ".*ApplyGradient")


def empty_staging_area(play):
    """Nothing was staged."""
    at = play.away[0]
    with play.on(at):
        area = tf.contrib.staging.StagingArea([tf.float32], [[]])
        area.put([1.0])
        got = area.get()
    return got, f"empty staging area .* at {play.name(at)}"


def filler_waits_itself(play):
    """The op that would fill the queue runs, and waits for a stopped task."""
    at, victim = play.away[:2]
    with play.on(victim):
        x = tf.random_uniform([])
    with play.on(at):
        queue = tf.FIFOQueue(3, tf.float32, [[]], name="later")
        put, got = queue.enqueue(x), queue.dequeue()

    def before(sess):
        sess.run(put)
        sess.run(got)
        play.stop(victim)
        play.aside(lambda: sess.run(put, options=tf.RunOptions(timeout_in_ms=1500)))
    play.before = before
    return got, f"{play.name(victim)} at .* is stopped"


def circle(play):
    """Two steps, each of which would fill the other's queue."""
    first, second = play.away[:2]
    with play.on(first):
        a = tf.FIFOQueue(3, tf.float32, [[]], name="a")
    with play.on(second):
        b = tf.FIFOQueue(3, tf.float32, [[]], name="b")
    one, other = b.enqueue(a.dequeue()), a.enqueue(b.dequeue())
    play.before = lambda sess: play.aside(
        lambda: sess.run(other, options=tf.RunOptions(timeout_in_ms=1500)))
    return one, "a circle: .*'a'.*'b'|a circle: .*'b'.*'a'"


def held_lock(play):
    """Whoever holds a lock waits for a queue."""
    with play.on(None):
        queue = tf.FIFOQueue(3, tf.float32, [[]], name="inside")
        section = tf.CriticalSection(name="section")
        slow = section.execute(lambda: queue.dequeue() + 1)
        quick = section.execute(lambda: tf.constant(1.0) + 1)

    def before(sess):
        play.aside(lambda: sess.run(slow, options=tf.RunOptions(timeout_in_ms=1800)))
        time.sleep(0.2)
    play.before = before
    return quick, "empty queue 'inside'"


def python_function(play):
    """A function of the client's that does not return."""
    at = play.away[0]
    gate = threading.Event()
    with play.on(None):
        x = tf.py_func(lambda: (gate.wait(5), 1.0)[1], [], tf.float64, name="calls_python")
    with play.on(at):
        y = x * 2
    play.afterwards.append(gate.set)
    return y, "worker/replica:0/task:0 .*PyFunc 'calls_python' made at .*test_hangs.py:"


def endless_kernel(play):
    """A loop on one task that goes on for ever."""
    at = play.away[0]
    with play.on(at):
        i = tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [0], name="endless")
    with play.on(None):
        y = i * 2
    return y, f"{play.name(at)} (computes|has been at) .*endless"


def through_another_master(play):
    """The client's session is at another server."""
    at = ("ps", play.random.randrange(2))
    play.target = f"grpc://{play.cluster.spec['worker'][1]}"
    with play.on(at):
        x = tf.FIFOQueue(3, tf.float32, name="there").dequeue()
    with play.on(("worker", 1)):
        y = x * 2
    return y, f"empty queue 'there' at {play.name(at)}"


def alone_on_another_master(play):
    """The whole step lies on the other server's task, which runs it without its master."""
    play.target = f"grpc://{play.cluster.spec['worker'][1]}"
    with play.on(("worker", 1)):
        x = tf.FIFOQueue(3, tf.float32, name="alone").dequeue()
    return x, "empty queue 'alone' at /job:worker/replica:0/task:1"


def alone_on_a_stopped_task(play):
    """The whole step lies on one task, which stops."""
    victim = play.away[0]
    with play.on(victim):
        x = tf.random_uniform([]) + 1
    play.before = lambda sess: (sess.run(x), play.stop(victim))
    return x, f"{play.name(victim)} at .* is stopped"


HANGS = (stopped_task, stopped_ps_behind_another, stopped_in_a_loop, missing_send, lost_frame,
         lost_frame_of_this_task, lost_run, lost_answer, empty_queue, empty_queue_without_producer,
         full_queue, too_few_elements, empty_queue_far_away, deadlocked_barrier, too_few_gradients,
         empty_staging_area, filler_waits_itself, circle, held_lock, python_function,
         endless_kernel, through_another_master, alone_on_another_master, alone_on_a_stopped_task)
QUICK = (stopped_task, empty_queue)


@pytest.mark.parametrize("hang", [pytest.param(h, id=h.__name__, marks=() if h in QUICK else
                                               [pytest.mark.long]) for h in HANGS])
def test_the_culprit_stands_first(cluster, hang, monkeypatch):
    seed = os.environ.get("HANGS_SEED", "0")
    Play(cluster, f"{hang.__name__} {seed}", monkeypatch).perform(hang)


@pytest.mark.long
def test_a_killed_task(cluster):
    """No hang: an error at once that names it; and `why` says the same."""
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:1"):
        blocked = tf.FIFOQueue(1, tf.float32).dequeue()
    with tf.Session(cluster.server.target, graph=graph) as sess:
        threading.Timer(0.3, cluster.processes["ps", 1].kill).start()
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:1"):
            sess.run(blocked)
    with asking.Cluster(cluster.server.address, patience=0.5) as seen:
        found = why.of_cluster(seen)
    assert re.match("/job:ps/replica:0/task:1 at .* no process listens", found.culprits[0].text)
    cluster.begin("ps", 1)


@pytest.mark.long
def test_a_session_that_waits_for_a_task(cluster, free_ports):
    """Its own time-out names the task, and that nobody listens there."""
    spec = {"worker": [f"localhost:{p}" for p in free_ports(2)]}
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:worker/task:1"):
        x = tf.random_uniform([])
    with tf.train.Server(spec, "worker", 0) as server:
        config = tf.ConfigProto(operation_timeout_in_ms=600)
        with tf.Session(server.target, graph=graph, config=config) as sess:
            with pytest.raises(tf.errors.DeadlineExceededError,
                               match=r"worker/replica:0/task:1 at .* no process listens"):
                sess.run(x)


def test_one_trace_over_processes(cluster):
    """A step on three processes and here: one clock, arrows between tasks, a path back."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.random_uniform([64, 64])
        with tf.device("/job:ps/task:1"):
            y = tf.matmul(x, x)
        with tf.device("/job:worker/task:1"):
            z = tf.reduce_sum(y)
        with tf.device("/job:worker/task:0"):
            z = z + 1
    found = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(cluster.server.target, graph=graph) as sess:
        sess.run(z)
        sess.run(z, options=options, run_metadata=found)
    stats = found.step_stats
    assert len(timeline.tasks_of(stats)) == 4
    text = timeline.Timeline(stats).generate_chrome_trace_format()
    assert len(check_flows(json.loads(text)["traceEvents"], 3)) == 3
    path = timeline.critical_path(stats)
    assert [s.after.partition("/replica")[0] + s.after[-2:] for s in path if s.after] == [
        "/job:ps:0", "/job:ps:1", "/job:worker:1"]
    assert all(s.waited < 1_000_000 for s in path)
