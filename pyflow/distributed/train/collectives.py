"""Sums over tasks without a parameter server: all_reduce, by a ring of the tasks.

    N parts of a tensor, N tasks; each part goes round once to be summed, and once more to be known
    in task order: it starts at task 0, and is whole at the last; else part c starts at task c

Invariants
1. All tasks end with equal bits: a sum is computed once, and copied.
2. A task sends 2 (N - 1) / N of the tensor's bytes in the plain ring; in task order the first and
   the last two send it once, the others twice. Parts follow each other in a pipeline.
3. What a task sends goes into a queue of the next task, by name: a task's steps follow one another,
   so do what they send.

Who calls it: programs, each task in its own graph.  Thread: the one building the graph.
Source: Patarasuk and Yuan 2009, bandwidth optimal all-reduce; TF 1.15's tf.contrib.all_reduce.

    total = all_reduce(grad, task=1, devices=["/job:worker/task:0", "/job:worker/task:1"], name="w")
"""
from pyflow.framework import graph as ops
from pyflow.lib.array import identity_functions, join_functions
from pyflow.lib.queue import queues
from pyflow.ops.base import tensors


def all_reduce(tensor, task, devices, name, in_task_order=False):
    """The sum of the tasks' tensors, on this task; every task gets the same bits.

    tensor: numbers of a fully known shape, the same for all. task: which of `devices`, device names
        of all tasks in one order, this graph's is. name: of this sum, the same for all tasks, and
        of no other sum on these tasks.
    in_task_order: adds ((t0 + t1) + t2) + ..., as accumulators do with gradients that name their
        task; else each part of the tensor begins at another task, which balances what they send.

    Every task must run its own, as often as the others; who waits for one that does not ends with
    its step. After a step that failed, queues may hold what it sent: tf.Session.reset clears them.
    Not differentiable. Raises ValueError for a shape that is not known, or a task that is none."""
    tensor = ops.convert_to_tensor(tensor)
    shape, count = tensor.get_shape(), len(devices)
    if not shape.is_fully_defined():
        raise ValueError(f"all_reduce {name!r}: the shape of {tensor.name} is {shape}: it must be "
                         "fully known, and the same for all tasks")
    if not 0 <= task < count:
        raise ValueError(f"all_reduce {name!r}: task {task} is none of the {count} devices")
    with ops.name_scope(f"all_reduce_{task}"), ops.device(devices[task]):
        if count == 1:
            return identity_functions.identity(tensor)
        flat, total = tensors.reshape(tensor, [-1]), shape.num_elements()
        sizes = [total // count + (k < total % count) for k in range(count)]
        parts = join_functions.split(flat, sizes)
        way = _Way(name, devices, task, tensor.dtype.base_dtype, sizes)
        (_in_order if in_task_order else _round)(way, parts)
        with ops.control_dependencies(way.sent):
            return tensors.reshape(tensors.concat(way.known, 0), shape.as_list())


class _Way:
    """From a task to the next, and what came from the one before.  known: the sum's parts here;
    sent: operations that send."""

    def __init__(self, name, devices, task, dtype, sizes):
        self.task, self.count, self.sizes = task, len(devices), sizes
        self.known, self.sent = [None] * len(sizes), []
        self._name, self._devices, self._dtype = name, devices, dtype

    def _queue(self, task, what, part):
        with ops.device(self._devices[task]):
            return queues.FIFOQueue(-1, self._dtype, shapes=[[self.sizes[part]]],
                                    shared_name=f"all_reduce/{self._name}/{what}/{part}",
                                    name=f"{what}_{part}")

    def send(self, what, part, value):
        """To the next task."""
        to = (self.task + 1) % self.count
        with ops.device(self._devices[to]):
            self.sent.append(self._queue(to, what, part).enqueue(value))

    def receive(self, what, part):
        """From the task before."""
        return self._queue(self.task, what, part).dequeue()


def _round(way, parts):
    """Part c is summed from task c on, round to the task before it, and goes on from there."""
    for turn in range(way.count):
        part = (way.task - turn) % way.count
        value = parts[part] if turn == 0 else way.receive("sum", part) + parts[part]
        if turn < way.count - 1:
            way.send("sum", part, value)
        else:                                       # whole here
            way.known[part] = value
            way.send("done", part, value)
    for turn in range(way.count - 1):
        part = (way.task - turn) % way.count
        way.known[part] = value = way.receive("done", part)
        if turn < way.count - 2:
            way.send("done", part, value)


def _in_order(way, parts):
    """All parts are summed from task 0 to the last, and go round once more from there."""
    last = way.count - 1
    for part, own in enumerate(parts):
        value = own if way.task == 0 else way.receive("sum", part) + own
        if way.task < last:
            way.send("sum", part, value)
            value = way.receive("done", part)
        way.known[part] = value
        if way.task != last - 1:
            way.send("done", part, value)


PUBLIC = {}
