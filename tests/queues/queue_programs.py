"""Programs of queues and their kin: each is run by TensorFlow (record.py) and by pyflow
(test_oracle.py), and has to say the same.

A program is a function of (tf, x): it builds a graph, and says what it sees by x:

    x.run(fetches, feeds)     values, or the error's type and first line
    x.note(value)             anything: a static shape, a name
    x.fails(function)         the type of the exception that building raises
    x.blocked(fetches)        a step on a thread of its own that is expected to wait; .end() says
                              what came of it
"""
import re
import threading
import time

import numpy as np

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def plain(value):
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


class Session:
    """What programs say, in order."""

    def __init__(self, tf, wait):
        self.tf, self.wait, self.said, self.racing = tf, wait, [], False
        self.session = tf.Session()

    def _run(self, fetches, feeds=None):
        try:
            return plain(self.session.run(fetches, feeds))
        except self.tf.errors.OpError as e:
            return ["error", type(e).__name__, first_line(e, self.racing)]

    def run(self, fetches, feeds=None):
        self.said.append(self._run(fetches, feeds))

    def note(self, value):
        self.said.append(plain(value))

    def fails(self, function):
        try:
            function()
            self.said.append("built")
        except Exception as e:
            self.said.append(["raises", type(e).__name__])

    def blocked(self, fetches, feeds=None):
        found = []
        thread = threading.Thread(target=lambda: found.append(self._run(fetches, feeds)),
                                  daemon=True)
        thread.start()
        time.sleep(self.wait)
        self.said.append(["blocked", thread.is_alive()])
        return Blocked(self, thread, found)


class Blocked:
    def __init__(self, x, thread, found):
        self.x, self.thread, self.found = x, thread, found

    def end(self):
        self.thread.join(20)
        self.x.said.append(self.found[0] if self.found else "hangs")

    def still(self):
        time.sleep(self.x.wait)
        self.x.said.append(["blocked", self.thread.is_alive()])


def first_line(error, racing=False):
    """What the kernel said.  racing: whether elements came before or after the take is left open."""
    lines = error.message.split("\n")
    nodes = [i for i, line in enumerate(lines) if line.startswith("\t [[")]
    text = lines[nodes[0] - 1] if nodes else lines[0]      # TensorFlow 2's comes after a traceback
    if racing:
        text = re.sub(r"requested (\d+), current size (\d+)",
                      lambda m: f"lacks {int(m[1]) - int(m[2])}", text)
    return re.sub(r"(?<!\w)_\d+_", "_N_", text)


def answers(tf, name, wait):
    with tf.Graph().as_default():
        x = Session(tf, wait)
        with x.session:
            PROGRAMS[name](tf, x)
        return x.said


def shape(t):
    return t.shape.as_list() if t.shape.dims is not None else None


# ------------------------------------------------------------------------------- FIFOQueue
@program
def fifo_in_and_out(tf, x):
    q = tf.FIFOQueue(3, [tf.float32, tf.int32], shapes=[[2], []], name="q")
    x.run(q.size())
    x.run(q.enqueue([[1., 2.], 3]))
    x.run(q.enqueue_many([[[3., 4.], [5., 6.]], [4, 5]]))
    x.run(q.size())
    x.run(q.dequeue())
    x.run(q.dequeue_many(2))
    x.run(q.size())
    x.run(q.is_closed())
    d, m, u = q.dequeue(), q.dequeue_many(5), q.dequeue_up_to(5)
    x.note([shape(t) for t in d] + [shape(t) for t in m] + [shape(t) for t in u])
    x.note([q.name, d[0].op.name, d[0].op.type, m[0].op.type, q.enqueue([[1., 2.], 3]).name,
            q.enqueue_many([[[3., 4.]], [4]]).name, q.close().name, q.size().op.name,
            q.is_closed().op.name, m[0].op.name, u[0].op.name])


@program
def fifo_closed(tf, x):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2, 3]]))
    x.run(q.close())
    x.run(q.is_closed())
    x.run(q.enqueue(1))
    x.run(q.enqueue_many([[1, 2]]))
    x.run(q.enqueue_many([np.zeros([0], np.int32)]))
    x.run(q.dequeue_many(4))
    x.run(q.size())
    x.run(q.dequeue_up_to(2))
    x.run(q.dequeue_up_to(2))
    x.run(q.dequeue_up_to(2))
    x.run(q.dequeue())
    x.run(q.dequeue_many(1))
    x.run(q.dequeue_many(0))
    x.run(q.close())
    x.run(q.close(cancel_pending_enqueues=True))
    x.run(q.size())


@program
def fifo_blocked_dequeue(tf, x):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="q")
    b = x.blocked(q.dequeue())
    x.run(q.enqueue(7))
    b.end()
    b = x.blocked(q.dequeue_many(3))
    x.run(q.enqueue_many([[1, 2]]))
    b.still()
    x.run(q.size())
    x.run(q.enqueue_many([[3, 4]]))
    b.end()
    x.run(q.size())


@program
def fifo_close_with_blocked_dequeues(tf, x):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2]]))
    many, then = x.blocked(q.dequeue_many(3)), x.blocked(q.dequeue())
    x.run(q.size())
    x.run(q.close())
    many.end()
    then.end()
    x.run(q.size())
    x.run(q.dequeue_up_to(7))


@program
def fifo_up_to_at_close(tf, x):
    q = tf.FIFOQueue(10, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2]]))
    up = x.blocked(q.dequeue_up_to(5))
    x.run(q.close())
    up.end()
    x.run(q.dequeue_up_to(5))


@program
def fifo_blocked_enqueue(tf, x):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2]]))
    b = x.blocked(q.enqueue(3))
    x.run(q.size())
    x.run(q.dequeue())
    b.end()
    m = x.blocked(q.enqueue_many([[4, 5, 6]]))
    x.run(q.dequeue())
    m.still()
    x.run(q.dequeue_many(2))
    m.end()
    x.run(q.size())
    x.run(q.dequeue_many(2))


@program
def fifo_close_waits_for_enqueues(tf, x):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2]]))
    put = x.blocked(q.enqueue_many([[3, 4]]))
    close = x.blocked(q.close())
    x.run(q.is_closed())
    late = x.blocked(q.enqueue(9))
    x.run(q.dequeue_many(2))
    put.end()
    close.end()
    late.end()
    x.run(q.is_closed())
    x.run(q.dequeue_up_to(9))
    x.run(q.dequeue())


@program
def fifo_close_cancels_enqueues(tf, x):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([[1, 2]]))
    put, close = x.blocked(q.enqueue(3)), x.blocked(q.close())
    x.run(q.close(cancel_pending_enqueues=True))
    put.end()
    close.end()
    x.run(q.dequeue_up_to(9))
    x.run(q.dequeue())


@program
def fifo_many_larger_than_capacity(tf, x):
    q = tf.FIFOQueue(2, tf.int32, shapes=[[]], name="q")
    put = x.blocked(q.enqueue_many([[1, 2, 3, 4, 5]]))
    x.run(q.dequeue_many(4))
    put.end()
    x.run(q.size())
    take = x.blocked(q.dequeue_many(5))
    x.run(q.enqueue_many([[6, 7, 8, 9]]))
    take.end()


@program
def fifo_without_shapes(tf, x):
    q = tf.FIFOQueue(10, [tf.float32, tf.string], name="q")
    x.run(q.enqueue([[[1., 2.]], "a"]))
    x.run(q.enqueue([7., ["b", "c"]]))
    x.run(q.enqueue_many([[[1.], [2.]], ["d", "e"]]))
    d = q.dequeue()
    x.note([shape(t) for t in d])
    for _ in range(4):
        x.run(d)
    x.run(q.dequeue_many(1))
    x.run(q.dequeue_up_to(1))
    p = tf.placeholder(tf.string)
    x.run(q.enqueue_many([[[1.], [2.]], p]), {p: ["d"]})


@program
def fifo_shape_errors(tf, x):
    q = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2], []], name="q")
    p = tf.placeholder(tf.float32)
    x.run(q.enqueue([p, 1]), {p: [1., 2., 3.]})
    x.run(q.enqueue([p, 1]), {p: 1.})
    x.run(q.enqueue_many([p, [1, 2]]), {p: [[1., 2.], [3., 4.], [5., 6.]]})
    x.run(q.enqueue_many([p, [1, 2]]), {p: [[1.], [2.]]})
    x.fails(lambda: q.enqueue([[1., 2., 3.], 1]))
    x.fails(lambda: q.enqueue_many([[[1., 2.]], [1, 2]]))
    x.fails(lambda: q.enqueue(["text", 1]))
    x.fails(lambda: q.enqueue_many([1., 2]))
    n = tf.placeholder(tf.int32, [])
    x.run(q.dequeue_many(n), {n: -1})
    x.run(q.dequeue_up_to(n), {n: -1})
    x.note([shape(t) for t in q.dequeue_many(n)])
    x.fails(lambda: tf.FIFOQueue(10, tf.float32, shapes=[[None]]))
    x.fails(lambda: tf.FIFOQueue(10, [tf.float32], shapes=[[2], [3]]))
    x.fails(lambda: tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2]]))


@program
def fifo_names(tf, x):
    q = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2], []], names=["f", "i"], name="q")
    x.run(q.enqueue({"f": [1., 2.], "i": 3}))
    x.run(q.enqueue_many({"i": [4, 5], "f": [[1., 2.], [3., 4.]]}))
    x.run(q.dequeue())
    x.run(q.dequeue_many(2))
    x.note(sorted(q.dequeue_up_to(2)))
    x.fails(lambda: q.enqueue([[1., 2.], 3]))
    x.fails(lambda: q.enqueue({"f": [1., 2.]}))
    x.fails(lambda: q.enqueue({"f": [1., 2.], "j": 3}))
    plain_q = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    x.fails(lambda: plain_q.enqueue({"f": 1.}))
    x.fails(lambda: tf.FIFOQueue(10, [tf.float32], names=["a", "b"]))


@program
def fifo_shared(tf, x):
    def made(capacity=10, types=tf.int32, shapes=([],), kind=tf.FIFOQueue, name="both"):
        return kind(capacity, types, shapes=list(shapes) if shapes is not None else None,
                    shared_name=name)
    a, b = made(), made()
    x.run(a.enqueue(5))
    x.run(b.dequeue())
    x.run(made(capacity=11).size())
    x.run(made(types=[tf.int32, tf.int32], shapes=[[], []]).size())
    x.run(made(shapes=None).size())
    x.run(made(shapes=[[2]]).size())
    x.run(a.close())
    x.run(b.dequeue())
    x.run(b.enqueue(1))


@program
def fifo_strings_and_scalars(tf, x):
    q = tf.FIFOQueue(100, [tf.string, tf.bool, tf.complex64, tf.int64], shapes=[[2], [], [], []],
                     name="q")
    x.run(q.enqueue([["a", ""], True, 3., 2**40]))
    x.run(q.enqueue_many([[["x", "y"], ["zz", "w"]], [True, False], [1., 2.], [1, -1]]))
    s, b, c, i = q.dequeue_many(3)
    x.run([s, b, tf.real(c), i])


@program
def fifo_from_list(tf, x):
    qs = [tf.FIFOQueue(10, tf.int32, shapes=[[]]) for _ in range(3)]
    index = tf.placeholder(tf.int32, [])
    q = tf.QueueBase.from_list(index, qs)
    for i, one in enumerate(qs):
        x.run(one.enqueue(10 * i))
    d = q.dequeue()
    x.run(d, {index: 2})
    x.run(d, {index: 0})
    put = q.enqueue(7)
    x.run(put, {index: 1})
    x.run(qs[1].dequeue_many(2))
    x.fails(lambda: tf.QueueBase.from_list(index, [qs[0], tf.FIFOQueue(1, tf.float32)]))
    x.fails(lambda: tf.QueueBase.from_list(index, "no list"))
    x.note(shape(d))


@program
def fifo_unbounded(tf, x):
    q = tf.FIFOQueue(-1, tf.int32, shapes=[[]], name="q")
    x.run(q.enqueue_many([np.arange(500, dtype=np.int32)]))
    x.run(q.size())
    x.run(tf.reduce_sum(q.dequeue_many(500)))


@program
def fifo_in_order_within_a_step(tf, x):
    q = tf.FIFOQueue(10, tf.float32, shapes=[[]], name="q")
    with tf.control_dependencies([q.enqueue(1.)]):
        with tf.control_dependencies([q.enqueue(2.)]):
            first = q.dequeue()
    with tf.control_dependencies([first]):
        second = q.dequeue()
    x.run([first, second])


@program
def fifo_in_a_loop(tf, x):
    q = tf.FIFOQueue(100, tf.int32, shapes=[[]], name="q")

    def body(i, total):
        with tf.control_dependencies([q.enqueue(i * i)]):
            return i + 1, total + q.dequeue()
    x.run(tf.while_loop(lambda i, total: i < 10, body, [0, 0]))
    x.run(q.size())


# ------------------------------------------------------------------------------- PaddingFIFOQueue
@program
def padding(tf, x):
    q = tf.PaddingFIFOQueue(20, [tf.float32, tf.string], shapes=[[None, 2], [None]], name="q")
    p = tf.placeholder(tf.float32)
    s = tf.placeholder(tf.string)
    put = q.enqueue([p, s])
    for rows in (1, 3, 2, 0):
        x.run(put, {p: np.arange(2. * rows).reshape(rows, 2), s: ["ab"] * rows})
    d, m = q.dequeue(), q.dequeue_many(2)
    x.note([shape(t) for t in d] + [shape(t) for t in m])
    x.run(d)
    x.run(m)
    x.run(q.dequeue_many(1))
    x.run(q.enqueue_many([[[[1., 2.], [3., 4.]], [[5., 6.], [7., 8.]]], [["a"], ["b"]]]))
    x.run(put, {p: np.ones([3, 2]), s: ["q", "r"]})
    x.run(q.dequeue_many(3))
    x.run(put, {p: np.ones([3, 3]), s: ["q"]})
    x.run(put, {p: np.ones([3]), s: ["q"]})
    x.run(q.enqueue_many([p, s]), {p: np.ones([2, 3, 3]), s: [["q"], ["r"]]})
    x.run(q.dequeue_many(0))
    x.run(put, {p: np.ones([3, 2]), s: ["q", "r"]})
    x.run(q.close())
    x.run(q.dequeue_many(2))
    x.run(q.dequeue_up_to(2))
    x.run(q.dequeue())


@program
def padding_of_several_dimensions(tf, x):
    q = tf.PaddingFIFOQueue(20, tf.int32, shapes=[[None, 2, None]], name="q")
    p = tf.placeholder(tf.int32)
    put = q.enqueue(p)
    for a, b in ((1, 2), (2, 1), (0, 3), (2, 2)):
        x.run(put, {p: np.arange(a * 2 * b).reshape(a, 2, b) + 1})
    x.run(q.dequeue_many(4))


@program
def padding_errors(tf, x):
    x.fails(lambda: tf.PaddingFIFOQueue(20, tf.int32, shapes=[None]))
    x.fails(lambda: tf.PaddingFIFOQueue(20, [tf.int32, tf.int32], shapes=[[None]]))
    x.fails(lambda: tf.PaddingFIFOQueue(20, tf.int32, shapes=None))
    q = tf.PaddingFIFOQueue(20, tf.int32, shapes=[[None, 2]])
    x.fails(lambda: q.enqueue([[[1, 2, 3]]]))
    x.fails(lambda: q.enqueue([[1, 2]]))


# ------------------------------------------------------------------------------- RandomShuffleQueue
@program
def shuffle_order(tf, x):
    q = tf.RandomShuffleQueue(100, 0, [tf.int32, tf.string], shapes=[[], []], seed=17, name="q")
    x.run(q.enqueue_many([np.arange(40, dtype=np.int32), [str(i) for i in range(40)]]))
    x.run(q.dequeue())
    x.run(q.dequeue_many(10))
    x.run(q.enqueue([77, "t"]))
    x.run(q.dequeue_many(7))
    x.run(q.dequeue_up_to(5))
    x.run(q.dequeue())
    x.run(q.close())
    x.run(q.dequeue_up_to(100))


@program
def shuffle_order_by_the_graph_s_seed(tf, x):
    tf.set_random_seed(5)
    q = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[[]], name="q")
    r = tf.RandomShuffleQueue(100, 0, tf.int32, shapes=[[]], shared_name="shared")
    for one in (q, r):
        x.run(one.enqueue_many([np.arange(20, dtype=np.int32)]))
        x.run(one.dequeue_many(20))


@program
def shuffle_keeps_some(tf, x):
    q = tf.RandomShuffleQueue(10, 3, tf.int32, shapes=[[]], seed=3, name="q")
    x.run(q.enqueue_many([[1, 2, 3, 4]]))
    x.run(q.dequeue())
    b = x.blocked(q.dequeue_many(2))
    x.run(q.enqueue(5))
    b.still()
    x.run(q.size())
    x.run(q.enqueue(6))
    b.end()
    b = x.blocked(q.dequeue_many(5))
    up = x.blocked(q.dequeue_up_to(5))
    x.run(q.close())
    b.end()
    up.end()
    x.run(q.size())
    x.run(q.dequeue())


@program
def shuffle_up_to_at_close_after_some(tf, x):
    q = tf.RandomShuffleQueue(10, 2, tf.int32, shapes=[[]], seed=3, name="q")
    x.run(q.enqueue_many([[1, 2, 3, 4, 5]]))
    up = x.blocked(q.dequeue_up_to(7))
    x.run(q.size())
    x.run(q.close())
    up.end()


@program
def shuffle_errors(tf, x):
    x.run(tf.RandomShuffleQueue(3, 3, tf.int32, shapes=[[]]).size())
    x.run(tf.RandomShuffleQueue(3, -1, tf.int32, shapes=[[]]).size())
    q = tf.RandomShuffleQueue(3, 0, tf.int32)
    x.run(q.dequeue_many(1))
    tf.RandomShuffleQueue(3, 0, tf.int32, shapes=[[]], shared_name="s")
    a = tf.RandomShuffleQueue(5, 1, tf.int32, shapes=[[]], shared_name="t")
    x.run(a.size())
    x.run(tf.RandomShuffleQueue(5, 2, tf.int32, shapes=[[]], shared_name="t").size())
    x.run(tf.RandomShuffleQueue(5, 1, tf.int32, shapes=[[]], shared_name="t", seed=4).size())
    x.run(tf.FIFOQueue(5, tf.int32, shapes=[[]], shared_name="t").size())


# ------------------------------------------------------------------------------- PriorityQueue
@program
def priority(tf, x):
    q = tf.PriorityQueue(100, [tf.string], shapes=[[]], name="q")
    x.note([[d.name for d in q.dtypes], [s.as_list() for s in q.shapes]])
    x.run(q.enqueue([3, "three"]))
    x.run(q.enqueue_many([[5, -7, 4, 2**40], ["five", "minus", "four", "large"]]))
    x.run(q.dequeue())
    x.run(q.dequeue_many(2))
    x.run(q.enqueue([1, "one"]))
    x.run(q.dequeue())
    x.run(q.size())
    x.run(q.close())
    x.run(q.dequeue_many(3))
    x.run(q.dequeue_up_to(3))
    x.run(q.dequeue())


@program
def priority_is_a_scalar(tf, x):
    q = tf.PriorityQueue(100, tf.string, shapes=[[]], name="q")
    p = tf.placeholder(tf.int64)
    x.run(q.enqueue([p, "a"]), {p: [1, 2]})
    x.run(q.enqueue_many([p, ["a", "b"]]), {p: [[1], [2]]})
    x.run(q.size())


@program
def priority_blocked(tf, x):
    q = tf.PriorityQueue(100, [tf.int32], shapes=[[]], name="q")
    b = x.blocked(q.dequeue_many(3))
    x.run(q.enqueue([9, 9]))
    x.run(q.enqueue([1, 1]))
    x.run(q.size())
    x.run(q.enqueue_many([[4, 2], [4, 2]]))
    b.end()
    x.run(q.dequeue())


# ------------------------------------------------------------------------------- accumulators
@program
def accumulator(tf, x):
    a = tf.ConditionalAccumulator(tf.float32, shape=[2], name="a")
    x.run(a.num_accumulated())
    x.run(a.apply_grad([1., 2.]))
    x.run(a.apply_grad([3., 5.]))
    x.run(a.num_accumulated())
    t = a.take_grad(2)
    x.note(shape(t))
    x.run(t)
    x.run(a.num_accumulated())
    x.run(a.apply_grad([8., 8.], local_step=0))         # its step is 1 now: dropped
    x.run(a.num_accumulated())
    x.run(a.set_global_step(5))
    x.run(a.apply_grad([8., 8.], local_step=4))
    x.run(a.apply_grad([7., 8.], local_step=5))
    x.run(a.apply_grad([8., 8.], local_step=6))
    x.run(a.take_grad(1))
    x.run(a.take_grad(0))
    x.run(a.take_grad(-1))
    b = x.blocked(a.take_grad(2))
    x.run(a.apply_grad([1., 1.], local_step=9))
    b.still()
    x.run(a.apply_grad([2., 4.], local_step=9))
    b.end()


@program
def accumulator_shapes(tf, x):
    p = tf.placeholder(tf.float32)
    a = tf.ConditionalAccumulator(tf.float32, shape=[None, 2], name="a")
    put = a.apply_grad(p)
    x.run(put, {p: [[1., 2.]]})
    x.run(put, {p: [[1., 2.], [3., 4.]]})
    x.run(put, {p: [1., 2.]})
    x.run(a.num_accumulated())
    x.fails(lambda: a.apply_grad([1., 2., 3.]))
    free = tf.ConditionalAccumulator(tf.float64, name="free")
    x.run(free.apply_grad(3.))
    x.run(free.apply_grad([3.]))
    x.run(free.take_grad(1))
    x.note(shape(free.take_grad(1)))
    total = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM")
    x.run(total.apply_grad(3.))
    x.run(total.apply_grad(4.))
    x.run(total.take_grad(2))
    half = tf.ConditionalAccumulator(tf.float16, shape=[3])
    for k in range(3):
        x.run(half.apply_grad(np.float16([.1, 1000.25, 3.]) * np.float16(k + 1)))
    x.run(half.take_grad(3))


@program
def sparse_accumulator(tf, x):
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[None, 2], name="a")
    x.run(a.apply_grad([0, 2], [[1., 2.], [3., 4.]]))
    x.run(a.apply_grad([2, 5], [[10., 20.], [7., 7.]], grad_shape=[9, 2]))
    x.run(a.num_accumulated())
    x.run(a.take_grad(2))
    x.run(a.apply_indexed_slices_grad(tf.IndexedSlices(tf.constant([[1., 1.]]), tf.constant([3]),
                                                       tf.constant([9, 2])), local_step=1))
    i = a.take_indexed_slices_grad(1)
    x.run([i.indices, i.values, i.dense_shape])
    x.run(a.apply_grad([0, 2], [[1., 2.], [3., 4.]], local_step=0))
    x.run(a.num_accumulated())
    p = tf.placeholder(tf.float32)
    put = a.apply_grad([0, 2], p, local_step=7)
    x.run(put, {p: [[1.], [2.]]})
    x.run(put, {p: [1., 2.]})
    x.run(put, {p: [[1., 2.]]})
    x.run(a.apply_grad([0], [[1., 2.]], grad_shape=[9, 3], local_step=7))
    total = tf.SparseConditionalAccumulator(tf.float32, shape=[4], reduction_type="SUM")
    x.run(total.apply_grad([1, 2], [1., 2.], grad_shape=[4]))
    x.run(total.apply_grad([0, 2], [5., 7.], grad_shape=[4]))
    x.run(total.take_grad(2))
    b = x.blocked(total.take_grad(1))
    x.run(total.apply_grad([3], [9.], local_step=3))
    b.end()


# ------------------------------------------------------------------------------- barriers
def barrier_of(tf):
    try:
        from pyflow.lib.queue import barriers
        return barriers.Barrier if "pyflow" in tf.__name__ else None
    except ImportError:
        from tensorflow.python.ops import data_flow_ops
        return data_flow_ops.Barrier


@program
def barrier(tf, x):
    b = barrier_of(tf)([tf.float32, tf.int32], shapes=[[], [2]], name="b")
    x.run(b.insert_many(0, ["a", "b", "c"], [1., 2., 3.]))
    x.run([b.ready_size(), b.incomplete_size()])
    x.run(b.insert_many(1, ["c", "a"], [[1, 2], [3, 4]]))
    x.run([b.ready_size(), b.incomplete_size()])
    t = b.take_many(2)
    x.note([shape(t[0]), shape(t[1]), [shape(v) for v in t[2]]])
    x.run([t[1], t[2]])
    x.run(b.insert_many(0, ["b"], [9.]))
    x.run(b.insert_many(0, ["d"], [4.]))
    w = x.blocked(b.take_many(2)[1])
    x.run(b.insert_many(1, ["d", "b"], [[5, 6], [7, 8]]))
    w.end()
    x.run([b.ready_size(), b.incomplete_size()])


@program
def barrier_closing(tf, x):
    b = barrier_of(tf)([tf.float32, tf.int32], shapes=[[], []], name="b")
    x.run(b.insert_many(0, ["a", "b", "c"], [1., 2., 3.]))
    x.run(b.insert_many(1, ["a"], [1]))
    x.run(b.close())
    x.run(b.insert_many(0, ["d"], [4.]))
    x.run(b.insert_many(1, ["b"], [2]))
    x.run(b.take_many(1)[1])
    x.run(b.close())
    x.run(b.insert_many(1, ["c"], [3]))
    x.run(b.insert_many(1, ["e"], [3]))
    x.run(b.take_many(3)[1])
    x.run(b.take_many(3, allow_small_batch=True)[1])
    x.run(b.take_many(3, allow_small_batch=True)[1])
    x.run(b.close(cancel_pending_enqueues=True))


@program
def barrier_small_batches(tf, x):
    b = barrier_of(tf)([tf.float32, tf.int32], shapes=[[], []], name="b")
    small = b.take_many(3, allow_small_batch=True)[1]
    x.run(b.insert_many(0, ["a", "b", "c", "d"], [1., 2., 3., 4.]))
    x.run(b.insert_many(1, ["a", "b"], [1, 2]))
    x.run(b.close())
    x.run(small)                # two are complete: they come at once
    x.run(small)                # none is: an error, though "c" and "d" may come
    x.run(b.insert_many(1, ["c"], [3]))
    x.run(small)


@program
def barrier_cancelling(tf, x):
    b = barrier_of(tf)([tf.float32, tf.int32], shapes=[[], []], name="b")
    x.run(b.insert_many(0, ["a", "b", "c"], [1., 2., 3.]))
    x.run(b.insert_many(1, ["a"], [1]))
    w = x.blocked(b.take_many(2)[1])
    x.run(b.close(cancel_pending_enqueues=True))
    w.end()
    x.run(b.insert_many(1, ["b"], [2]))
    x.run([b.ready_size(), b.incomplete_size()])
    x.run(b.take_many(1)[1])
    x.run(b.close())


# ------------------------------------------------------------------------------- staging
def staging_of(tf):
    if "pyflow" in tf.__name__:
        return tf.contrib.staging
    from tensorflow.python.ops import data_flow_ops
    return data_flow_ops


@program
def staging(tf, x):
    area = staging_of(tf).StagingArea([tf.float32, tf.int32], shapes=[[2], []], shared_name="area",
                                      capacity=2)
    x.run(area.put([tf.constant([1., 2.]), tf.constant(3)]))
    x.run(area.size())
    x.run(area.put([tf.constant([3., 4.]), tf.constant(5)]))
    x.run(area.peek(1))
    x.run(area.size())
    b = x.blocked(area.put([tf.constant([5., 6.]), tf.constant(7)]))
    g = area.get()
    x.note([shape(t) for t in g])
    x.run(g)
    b.end()
    x.run(g)
    x.run(area.clear())
    x.run(area.size())
    b = x.blocked(g)
    x.run(area.put([tf.constant([8., 9.]), tf.constant(9)]))
    b.end()
    b = x.blocked(area.peek(1))
    x.run(area.put([tf.constant([1., 1.]), tf.constant(1)]))
    x.run(area.put([tf.constant([2., 2.]), tf.constant(2)]))
    b.end()


@program
def staging_limits_and_names(tf, x):
    area = staging_of(tf).StagingArea([tf.float32], shapes=[[None]], names=["v"], shared_name="m",
                                      memory_limit=40)
    p = tf.placeholder(tf.float32, [None])
    put = area.put({"v": p})
    x.run(put, {p: np.zeros(11)})
    x.run(put, {p: np.zeros(6)})
    b = x.blocked(put, {p: np.zeros(5)})
    x.run(area.get())
    b.end()
    x.run(area.size())
    x.fails(lambda: area.put([p]))
    x.fails(lambda: area.put({"w": p}))


@program
def staging_maps(tf, x):
    m = staging_of(tf).MapStagingArea([tf.float32, tf.int32], shapes=[[], []], names=["f", "i"],
                                      shared_name="map", ordered=True)
    x.run(m.put(3, {"f": tf.constant(1.), "i": tf.constant(30)}))
    x.run(m.put(1, {"f": tf.constant(2.), "i": tf.constant(10)}))
    x.run(m.put(2, {"f": tf.constant(3.)}))
    x.run([m.size(), m.incomplete_size()])
    x.run(m.put(2, {"f": tf.constant(3.)}))
    b = x.blocked(m.get(2)[1])
    x.run(m.put(2, {"i": tf.constant(20)}))
    b.end()
    x.run(m.peek(3))
    key, values = m.get()
    x.run([key, values])
    x.run(m.get(3, indices=["f"])[1])
    x.run(m.size())
    x.run(m.get(3, indices=["f"])[1])
    x.run(m.get(3, indices=["i"])[1])
    x.run(m.size())
    x.run(m.put(9, {"f": tf.constant(1.), "i": tf.constant(3)}))
    x.run(m.clear())
    x.run([m.size(), m.incomplete_size()])


# ------------------------------------------------------------------------------- input helpers
def runners(tf, x, fetches, most=50):
    """All that fetches give until the end of input."""
    x.session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    x.racing = True
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(x.session, coord)
    for _ in range(most):
        x.run(fetches)
        if isinstance(x.said[-1], list) and x.said[-1][:1] == ["error"]:
            break
    coord.request_stop()
    coord.join(threads)


@program
def producers(tf, x):
    q = tf.train.input_producer(np.arange(6, dtype=np.int32).reshape(3, 2), num_epochs=2,
                                shuffle=False)
    x.note([q.name, shape(q.dequeue())])
    runners(tf, x, q.dequeue())


@program
def shuffled_producers(tf, x):
    q = tf.train.string_input_producer(["a", "b", "c", "d"], num_epochs=3, shuffle=True, seed=7)
    runners(tf, x, q.dequeue())


@program
def ranges_and_slices(tf, x):
    a, b = tf.train.slice_input_producer(
        [np.arange(8, dtype=np.float32).reshape(4, 2), ["a", "b", "c", "d"]], num_epochs=2, seed=3)
    x.note([shape(a), shape(b)])
    runners(tf, x, [a, b])


@program
def producer_errors(tf, x):
    x.fails(lambda: tf.train.string_input_producer([]))
    x.fails(lambda: tf.train.limit_epochs(tf.constant(1), num_epochs=0))
    x.fails(lambda: tf.train.input_producer(tf.placeholder(tf.float32, [None, None])))
    x.fails(lambda: tf.train.slice_input_producer([]))
    x.fails(lambda: tf.train.batch([], 3))
    x.fails(lambda: tf.train.batch([tf.placeholder(tf.float32)], 3))
    x.fails(lambda: tf.train.batch_join([], 3))
    x.fails(lambda: tf.train.batch_join([[tf.constant(1)], [tf.constant(1.)]], 3))
    x.fails(lambda: tf.train.maybe_batch([1.], tf.placeholder(tf.bool), 3))
    x.fails(lambda: tf.train.maybe_batch([1.], [True, False], 3))
    x.fails(lambda: tf.train.maybe_batch([[1.]], [[True]], 3, enqueue_many=True))


@program
def batches(tf, x):
    n = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.batch({"n": n, "sq": tf.cast(n * n, tf.float32)}, 4)
    x.note(sorted((k, shape(v)) for k, v in y.items()))
    runners(tf, x, y)


@program
def batches_with_a_small_one(tf, x):
    n = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.batch([n, tf.fill([n % 3 + 1], n)], 4, dynamic_pad=True,
                       allow_smaller_final_batch=True, name="mine")
    x.note([shape(v) for v in y] + [v.op.name for v in y])
    runners(tf, x, y)


@program
def batches_of_many(tf, x):
    n = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.batch([tf.stack([n, n + 100, n + 200])], 5, enqueue_many=True)
    x.note(shape(y))
    runners(tf, x, y)


@program
def batches_kept(tf, x):
    n = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.maybe_batch([n], tf.equal(n % 2, 0), 2)
    runners(tf, x, y)


@program
def batches_of_many_kept(tf, x):
    n = tf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    rows = tf.stack([n, n + 100, n + 200])
    y = tf.train.maybe_batch([rows], tf.equal(rows % 2, 0), 2, enqueue_many=True)
    runners(tf, x, y)


@program
def batches_of_sparse(tf, x):
    n = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    s = tf.SparseTensor([[0], [2]], tf.stack([n, n * 10]), [4])
    y, m = tf.train.batch([s, n], 2)
    x.note([shape(m), shape(y.values), y.indices.shape.ndims])
    runners(tf, x, [y.indices, y.values, y.dense_shape, m])


@program
def joined_batches(tf, x):
    n = tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
    y = tf.train.batch_join([[n]], 3)
    runners(tf, x, y)


@program
def shuffled_batches(tf, x):
    q = tf.train.range_input_producer(40, num_epochs=1, shuffle=False, capacity=64)
    x.session.run(tf.local_variables_initializer())
    y = tf.train.shuffle_batch([q.dequeue_many(40)], 8, capacity=60, min_after_dequeue=10, seed=5,
                               enqueue_many=True, allow_smaller_final_batch=True)
    x.note(shape(y))
    runners(tf, x, y)


@program
def metagraph_of_runners(tf, x):
    n = tf.train.range_input_producer(6, num_epochs=1, shuffle=False, name="p").dequeue()
    tf.train.batch([n], 3, name="b")
    runner = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)[1]
    message = runner.to_proto()
    x.note([message.queue_name, list(message.enqueue_op_name), message.close_op_name,
            message.cancel_op_name, list(message.queue_closed_exception_types)])
    x.note(runner.to_proto(export_scope="elsewhere") is None)
    scoped = runner.to_proto(export_scope="b")
    x.note([scoped.queue_name, list(scoped.enqueue_op_name)])


@program
def summaries_of_queues(tf, x):
    n = tf.train.range_input_producer(6, num_epochs=1, shuffle=False, capacity=8).dequeue()
    tf.train.batch([n], 3, capacity=10)
    tf.train.shuffle_batch_join([[n]], 3, capacity=10, min_after_dequeue=4)
    found = tf.get_collection(tf.GraphKeys.SUMMARIES)
    x.note([s.name for s in found])
    x.run([s.op.inputs[1] for s in found])
