"""TensorLists: random programs against Python's lists, what is refused and how, no copies where a
list has one owner.  (Values and gradients against TensorFlow: tests/oracle/cases_lists.py.)

The refusals are those of TensorFlow 2.21, but for three: it aborts the process for an index that is
no scalar, crashes for a negative one in ScatterIntoExistingList, and takes rows of another shape
there.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflow as tf

ROWS = np.arange(6.0, dtype=np.float32).reshape(3, 2)


class Lists:
    """The ops with inputs that no shape function sees, as in a graph that was imported."""

    def ints(self, value):
        return tf.placeholder_with_default(np.asarray(value, np.int32), None)

    def floats(self, value):
        return tf.placeholder_with_default(np.asarray(value, np.float32), None)

    def of(self, value, shape):
        return tf.raw_ops.TensorListFromTensor(tensor=self.floats(value),
                                               element_shape=self.ints(shape))

    def reserve(self, shape, n, dtype=tf.float32):
        return tf.raw_ops.TensorListReserve(element_shape=self.ints(shape),
                                            num_elements=self.ints(n), element_dtype=dtype)

    def empty(self, shape, most=-1):
        return tf.raw_ops.EmptyTensorList(element_shape=self.ints(shape), element_dtype=tf.float32,
                                          max_num_elements=self.ints(most))

    def get(self, handle, index, shape):
        return tf.raw_ops.TensorListGetItem(input_handle=handle, index=self.ints(index),
                                            element_shape=self.ints(shape),
                                            element_dtype=tf.float32)

    def set(self, handle, index, value, **attrs):
        return tf.raw_ops.TensorListSetItem(input_handle=handle, index=self.ints(index),
                                            item=self.floats(value), **attrs)

    def push(self, handle, value):
        return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=self.floats(value))

    def pop(self, handle, shape):
        return tf.raw_ops.TensorListPopBack(input_handle=handle, element_shape=self.ints(shape),
                                            element_dtype=tf.float32)

    def stack(self, handle, shape, n=-1, dtype=tf.float32):
        return tf.raw_ops.TensorListStack(input_handle=handle, element_shape=self.ints(shape),
                                          element_dtype=dtype, num_elements=n)

    def length(self, handle):
        return tf.raw_ops.TensorListLength(input_handle=handle)

    def resize(self, handle, n):
        return tf.raw_ops.TensorListResize(input_handle=handle, size=self.ints(n))

    def gather(self, handle, indices, shape):
        return tf.raw_ops.TensorListGather(input_handle=handle, indices=self.ints(indices),
                                           element_shape=self.ints(shape), element_dtype=tf.float32)

    def scatter(self, value, indices, shape, n=-1):
        return tf.raw_ops.TensorListScatterV2(
            tensor=self.floats(value), indices=self.ints(indices), element_shape=self.ints(shape),
            num_elements=self.ints(n))

    def scatter_into(self, handle, value, indices):
        return tf.raw_ops.TensorListScatterIntoExistingList(
            input_handle=handle, tensor=self.floats(value), indices=self.ints(indices))

    def concat(self, handle, shape, leading):
        return tf.raw_ops.TensorListConcatV2(
            input_handle=handle, element_shape=self.ints(shape), element_dtype=tf.float32,
            leading_dims=np.asarray(leading, np.int64))[0]

    def split(self, value, shape, lengths):
        return tf.raw_ops.TensorListSplit(
            tensor=self.floats(value), element_shape=self.ints(shape),
            lengths=tf.placeholder_with_default(np.asarray(lengths, np.int64), None))


L = Lists()
REFUSED = {
    "access element 3 in a list with 3": lambda: L.get(L.of(ROWS, [2]), 3, [2]),
    "access element -1 in a list with 3": lambda: L.get(L.of(ROWS, [2]), -1, [2]),
    "uninitialized element but": lambda: L.get(L.reserve([-1], 3), 1, [-1]),
    r"element_shape is \[3\], the list's elements have \[2\]":
        lambda: L.get(L.reserve([2], 3), 1, [3]),
    "index must be a scalar": lambda: L.get(L.of(ROWS, [2]), [1, 1], [2]),
    "op elements int32 but list elements float":
        lambda: L.stack(tf.placeholder_with_default(L.of(ROWS, [2]), []), [2], dtype=tf.int32),
    "a list with 4 elements but got a list with 3": lambda: L.stack(L.of(ROWS, [2]), [2], 4),
    "empty list with non-fully-defined": lambda: L.stack(L.reserve([-1], 0), [-1]),
    "only contains uninitialized": lambda: L.stack(L.reserve([-1], 2), [-1]),
    r"during merge: \[1\] vs. \[2\] of element 1":
        lambda: L.stack(L.push(L.push(L.empty(-1), [1]), [1, 2]), -1),
    "modify element 3 in a list with 3": lambda: L.length(L.set(L.of(ROWS, [2]), 3, [1, 2])),
    "modify element -2": lambda: L.length(L.set(L.of(ROWS, [2]), -2, [1, 2])),
    r"Item element shape: \[3\] list shape: \[2\]":
        lambda: L.length(L.set(L.of(ROWS, [2]), 1, [1, 2, 3])),
    "full list list size: 1 max_num": lambda: L.length(L.push(L.push(L.empty([], 1), 1), 2)),
    r"Op element shape: \[\] list shape: \[3\]": lambda: L.length(L.push(L.empty([3]), 1)),
    "pop from an empty list": lambda: L.pop(L.empty([]), []),
    "non negative number, but got -3": lambda: L.length(L.reserve([2], -3)),
    "list of 2147483647 elements is too long": lambda: L.length(L.reserve([2], 2 ** 31 - 1)),
    "elements is too long, at most": lambda: L.length(
        L.set(L.of(ROWS, [2]), 2 ** 31 - 1, [1, 2], resize_if_index_out_of_bounds=True)),
    "fully unknown shape specified as -1": lambda: L.length(L.reserve(3, 3)),
    "Dimension -2 of element_shape": lambda: L.length(L.reserve([-2], 3)),
    r"element_shape must be a vector, got shape \[1,1\]": lambda: L.length(L.reserve([[1]], 3)),
    "element_shape has 40 elements": lambda: L.length(L.reserve([1] * 40, 3)),
    r"too many elements": lambda: L.get(L.reserve([2 ** 31 - 1] * 3, 3), 0, -1),
    "Index 5 out o range": lambda: L.gather(L.of(ROWS, [2]), [0, 5], [2]),
    "all be non-negative, got -1": lambda: L.length(L.scatter(ROWS, [0, 1, -1], [2])),
    "Invalid number of rows in input tensor. Expected: 2":
        lambda: L.length(L.scatter(ROWS, [0, 1], [2])),
    "scatter at index 9 in list with size 4": lambda: L.length(L.scatter(ROWS, [0, 1, 9], [2], 4)),
    "num_elements >= -1, found: -4": lambda: L.length(L.scatter(ROWS, [0, 1, 2], [2], -4)),
    r"list with shape \[3\] from a tensor with shape \[2\]": lambda: L.length(L.of(ROWS, [3])),
    r"at least a vector, but saw shape: \[\]": lambda: L.length(L.of(1.0, [])),
    "Indices must all be non-negative": lambda: L.length(
        L.scatter_into(L.of(ROWS, [2]), [[1, 2]], [-1])),
    r"incompatible shape: \[1\] list shape: \[2\]": lambda: L.length(
        L.scatter_into(L.of(ROWS, [2]), [[1]], [0])),
    "found scalars instead": lambda: L.concat(L.of([1.0, 2.0], []), [], []),
    "give leading_dims": lambda: L.concat(L.reserve([-1, 2], 2), [-1, 2], []),
    "at index 1 but leading_dims": lambda: L.concat(L.reserve([-1, 2], 3), [-1, 2], [1]),
    "Values used: 2": lambda: L.length(L.split(ROWS, [-1, 2], [1, 1])),
    "Invalid value in lengths: -1": lambda: L.length(L.split(ROWS, [-1, 2], [4, -1])),
    r"shape \[\?,3\] but element 0": lambda: L.length(L.split(ROWS, [-1, 3], [1, 2])),
    "size to be non-negative. Got: -1": lambda: L.length(L.resize(L.of(ROWS, [2]), -1)),
    "lengths. One is 3 and the other is 2": lambda: L.length(
        tf.add_n([L.of(ROWS, [2]), L.reserve([2], 2)])),
    "is an optional, expected a list": lambda: L.stack(tf.raw_ops.OptionalNone(), [2]),
    "is a list, expected an optional": lambda: tf.raw_ops.OptionalHasValue(
        optional=L.of(ROWS, [2])),
    "does not have a value": lambda: tf.raw_ops.OptionalGetValue(
        optional=tf.raw_ops.OptionalNone(), output_types=[tf.float32], output_shapes=[None]),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_refused(problem):
    with tf.Graph().as_default(), tf.Session() as session:
        kinds = (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)
        with pytest.raises(kinds, match=problem):
            session.run(REFUSED[problem]())


def test_a_list_is_fetched_and_fed_as_a_handle():
    """Who holds the handle keeps the list's value; other handles are refused."""
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.variant, [])
        changed = L.stack(L.set(fed, 1, [7, 8]), [2])
        kept = L.stack(fed, [2])
        held = session.run(L.of(ROWS, [2]))
        for _ in range(2):
            np.testing.assert_array_equal(session.run(changed, {fed: held})[1], [7, 8])
            np.testing.assert_array_equal(session.run(kept, {fed: held}), ROWS)
        other = session.run(tf.raw_ops.StackV2(max_size=-1, elem_type=tf.float32))
        with pytest.raises((tf.errors.InvalidArgumentError, TypeError), match="expected"):
            session.run(kept, {fed: other})
        with pytest.raises((tf.errors.OpError, TypeError, ValueError)):
            session.run(kept, {fed: np.float32(1)})


# ------------------------------------------------------------------------------- random programs


def change(draw, handle, model):
    """One random op on a list. Returns the new handle and what Python's list becomes."""
    value = np.float32([draw(st.integers(-9, 9)), 1])
    index = draw(st.integers(0, max(0, len(model) - 1)))
    what = draw(st.sampled_from(["set", "push", "pop", "resize", "scatter", "lists", "zeros"]))
    if what == "set" and model:
        return L.set(handle, index, value), model[:index] + [value] + model[index + 1:]
    if what == "pop" and model:
        return L.pop(handle, [2])[0], model[:-1]
    if what == "resize":
        n = draw(st.integers(0, 6))
        return L.resize(handle, n), (model + [None] * n)[:n]
    if what == "scatter":
        grown = (model + [None] * (index + 2 - len(model)))[:max(len(model), index + 2)]
        grown[index], grown[index + 1] = value, value * 2
        return L.scatter_into(handle, [value, value * 2], [index, index + 1]), grown
    if what == "lists":
        return tf.raw_ops.TensorListConcatLists(
            input_a=handle, input_b=L.of([value], [2]), element_dtype=tf.float32), model + [value]
    if what == "zeros":
        return tf.zeros_like(handle), [None if v is None else 0 * v for v in model]
    return L.push(handle, value), model + [value]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_programs(data):
    """Lists branch off each other; each keeps the value it had, whoever works in place."""
    with tf.Graph().as_default(), tf.Session() as session:
        lists = [(L.of(ROWS, [2]), list(ROWS)), (L.reserve([2], 2), [None, None])]
        for _ in range(data.draw(st.integers(1, 8))):
            lists.append(change(data.draw, *data.draw(st.sampled_from(lists[-3:]))))
        kept = lists if data.draw(st.booleans()) else lists[-1:]
        found = session.run([L.stack(handle, [2]) for handle, _ in kept])
    for value, (_, model) in zip(found, kept):
        wanted = np.array([np.zeros(2) if v is None else v for v in model]).reshape(-1, 2)
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.alone
def test_a_loop_writes_in_place():
    """A list with one owner is not copied: twenty times the elements take about that much longer,
    not four hundred times (in CPU time: with one thread the caller does all of it)."""
    import time
    with tf.Graph().as_default(), tf.Session(threads=1) as session:
        n = tf.placeholder(tf.int32, [])
        empty = tf.raw_ops.TensorListReserve(element_shape=tf.constant([], tf.int32),
                                             num_elements=n, element_dtype=tf.float32)
        _, full = tf.while_loop(
            lambda i, _: i < n,
            lambda i, h: (i + 1, tf.raw_ops.TensorListSetItem(
                input_handle=h, index=i, item=tf.cast(i, tf.float32))), [0, empty])
        total = tf.reduce_sum(L.stack(full, []))
        seconds = {}
        for size in (2000, 40000):
            assert session.run(total, {n: size}) == pytest.approx(size * (size - 1) / 2, rel=1e-4)
            took = []
            for _ in range(5):
                start = time.thread_time()
                session.run(total, {n: size})
                took.append(time.thread_time() - start)
            seconds[size] = min(took)
    assert seconds[40000] < 100 * seconds[2000]
