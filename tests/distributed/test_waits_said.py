"""Every kernel that may wait says for what, and who ends it: from the registry, and from waits that
are begun here, all at once, in one server."""
import re
import threading
import time

import pytest
from quiet import clock

import pyflow as tf
from pyflow.distributed.look import asking, why
from pyflow.distributed.look.wait_reports import CALLS, PUTS, TAKES
from pyflow.lib.function import defun as function
from pyflow.lib.queue import barriers, step_gate
from pyflow.session import runtime

_ASYNC, _BLOCKING, _PUTS, _TAKES = 4, 8, 128, 256      # PF_KERNEL_* of kernel.h

OURS = {"pyflow.cpu", "pyflow.core", "pyflow.hosted", "pyflow.python"}

# Kernels that wait at no resource: who ends such a call.
OTHERS = {
    "a peer of the edge": "_Recv _net.Send",
    "the function that it calls": "Case If MapDefun PartitionedCall StatefulPartitionedCall "
    "StatelessCase StatelessIf StatelessWhile While",
    "the device, or a copy from it": "_AwaitStream _CopyToDevice _CopyToHost GetSessionTensor",
    "the dataset that it reads, or opens": "DatasetToSingleElement MakeIterator ReduceDataset",
    "the user's Python": "EagerPyFunc PyFunc PyFuncStateless",
    "the library that does its work": "DecodeAndCropJpeg DecodeBmp DecodeCompressed DecodeGif "
    "DecodeImage DecodeJSONExample DecodeJpeg DecodePng EncodeJpeg EncodeJpegVariableQuality "
    "EncodePng ExtractJpegShape ImageSummary StringLower StringUpper",
    "a file": "InitializeTableFromTextFileV2 MatchingFiles MergeV2Checkpoints ReadFile Restore "
    "RestoreSlice RestoreV2 Save SaveSlices SaveV2 WriteFile _CheckpointEntries",
}


def test_each_kernel_that_may_wait_is_at_a_resource_or_known_to_be_at_something_else():
    """One that is added says PF_KERNEL_TAKES or PF_KERNEL_PUTS, or is put among the others."""
    others = {op for ops in OTHERS.values() for op in ops.split()}
    flags = {}
    for kernel in runtime.start().kernels():
        if kernel["plugin"] in OURS:    # other tests of this process may have loaded more
            flags[kernel["op"]] = flags.get(kernel["op"], 0) | kernel["flags"]
    waits = {op for op, f in flags.items() if f & (_ASYNC | _BLOCKING)}
    said = {op for op, f in flags.items() if f & (_PUTS | _TAKES)}
    assert waits - said - others == set()
    assert others & said == set() and {op for op in others if op in flags} <= waits


# ---------------------------------------------------------------- waits, and what is said of them

def queue(name):
    return tf.FIFOQueue(1, tf.float32, [[]], name=name, shared_name=name)


def waits():
    """([what runs first, in turn], {name: (fetch, the role of its call, for what it is said to
    wait)}): each begins after those before it wait."""
    full, few = queue("full"), tf.FIFOQueue(9, tf.float32, [[]], name="few", shared_name="few")
    mixed = tf.RandomShuffleQueue(9, 1, tf.float32, [[]], name="mixed", shared_name="mixed")
    barrier = barriers.Barrier((tf.float32,), shapes=((),), name="barrier", shared_name="barrier")
    sums = tf.ConditionalAccumulator(tf.float32, [], name="sums", shared_name="sums")
    sparse = tf.SparseConditionalAccumulator(tf.float32, name="sparse", shared_name="sparse")
    area = tf.contrib.staging.StagingArea([tf.float32], [[]], shared_name="area")
    mapped = tf.contrib.staging.MapStagingArea([tf.float32], [[]], shared_name="mapped")
    gate = step_gate.StepGate("gate")
    files = tf.FIFOQueue(1, tf.string, [[]], name="files", shared_name="files")
    reader = tf.TextLineReader(name="reader")
    section = tf.CriticalSection(name="section", shared_name="section")
    inside, called, kept = queue("inside"), queue("called"), queue("kept")
    queue("boxed").enqueue(1.0)
    with tf.container("box"):
        boxed = queue("boxed")
    dataset = tf.data.Dataset.range(3).map(lambda i: inside.dequeue())
    iterator = dataset.make_initializable_iterator(shared_name="iterator")

    @function.Defun(noinline=True)
    def call():
        return called.dequeue()

    holds = section.execute(lambda: kept.dequeue() + 1)
    return [full.enqueue(1.0), iterator.initializer], {
        "empty": (queue("empty").dequeue(), TAKES, "empty queue 'empty'"),
        "boxed": (boxed.dequeue(), TAKES, "empty queue 'box/boxed'"),
        "mixed": (mixed.dequeue(), TAKES, "empty queue 'mixed'"),
        "many": (few.dequeue_many(2), TAKES, "empty queue 'few'"),
        "full": (full.enqueue(1.0), PUTS, "full queue 'full'"),
        "close": (full.close(), PUTS, "full queue 'full'"),
        "barrier": (barrier.take_many(1), TAKES, ".*barrier.* 'barrier'"),
        "sums": (sums.take_grad(2), TAKES, "accumulator with 0 of 2 gradients.* 'sums'"),
        "sparse": (sparse.take_grad(2), TAKES, "accumulator with 0 of 2 gradients.* 'sparse'"),
        "area": (area.get(), TAKES, "empty staging area 'area'"),
        "mapped": (mapped.get(7), TAKES, "empty staging map 'mapped'"),
        "gate": (gate.next(5, 0, 0), TAKES, "gate at which no step has begun 'gate'"),
        "line": (reader.read(files)[1], TAKES, "empty queue 'files'"),
        "lines": (reader.read_up_to(files, 2)[1], TAKES, "turn of reader 'reader'"),
        "reset": (reader.reset(), TAKES, "turn of reader 'reader'"),
        "holds": (holds, TAKES, "empty queue 'kept'"),
        "lock": (section.execute(lambda: tf.constant(1.0) + 1), TAKES, "lock 'section'"),
        "call": (call(), CALLS, "empty queue 'called'"),
        "element": (iterator.get_next(), TAKES, "next element of iterator 'iterator'"),
    }


class Begun:
    """They wait, each in a step of its own, until `close`."""

    def __init__(self):
        self.server = tf.train.Server.create_local_server()
        with tf.Graph().as_default() as graph:
            first, self.waits = waits()
        self.session = tf.Session(self.server.target, graph=graph)
        self.worker, self.threads = self.server._worker, []
        for fetch in first:
            self.session.run(fetch)
        for fetch, _, what in self.waits.values():
            before = self.calls()
            self.threads.append(threading.Thread(target=self.run, args=(fetch,), daemon=True))
            self.threads[-1].start()
            until = clock() + 20
            while self.calls() <= before:
                assert clock() < until, what
                time.sleep(0.002)
        with asking.Cluster(self.server.target) as cluster:
            self.reply = next(iter(cluster.waits().values()))
            self.why = why.of_cluster(cluster)

    def calls(self):
        """How many are under way."""
        return sum(kind == "call" for kind, _ in self.worker.task.glance())

    def run(self, fetch):
        try:
            self.session.run(fetch)
        except tf.errors.OpError:
            pass

    def close(self):
        self.session.close()
        for thread in self.threads:
            thread.join(20)
        self.server.stop()


@pytest.fixture(scope="module")
def begun():
    found = Begun()
    yield found
    found.close()


NAMES = ("empty boxed mixed many full close barrier sums sparse area mapped gate line lines reset "
         "holds lock call element").split()


def test_all_are_asked_for(begun):
    assert list(begun.waits) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_wait_is_said(begun, name):
    """By its call's role and its resource's words."""
    fetch, role, what = begun.waits[name]
    rows = [row.what for row in begun.why.rows]
    assert any(re.fullmatch(what, row) for row in rows), rows
    node = fetch if isinstance(fetch, tf.Operation) else getattr(fetch, "op", None)
    if node is not None and name not in ("holds", "lock"):
        found = [call.role for call in begun.reply.call if call.node == node.name]
        assert found == [role], (node.name, begun.reply.call)


def test_no_chain_ends_at_what_waits(begun):
    """A kernel is a culprit where it works, and none of these does."""
    assert {culprit.kind for culprit in begun.why.culprits} <= {"empty", "full"}, begun.why.text()


def test_who_would_fill_it_has_the_container_too(begun):
    """One of the same name elsewhere is another one."""
    text, = [c.text for c in begun.why.culprits if "'box/boxed'" in c.text]
    assert "nothing fills it, in no session's graph" in text, text
