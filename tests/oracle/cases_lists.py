"""TensorLists through tf.raw_ops: every op, values and gradients; lists in loops and branches."""

import numpy as np

from cases import ints, normal, op, value

D = np.float64


def stacked(tf, handle, shape, dtype=None):
    return tf.raw_ops.TensorListStack(input_handle=handle, element_shape=shape,
                                      element_dtype=dtype or tf.float64)


def listed(tf, x, shape=None):
    return tf.raw_ops.TensorListFromTensor(
        tensor=x, element_shape=tf.constant(shape or x.shape.as_list()[1:], tf.int32))


def reserved(tf, shape, count, dtype=None):
    return tf.raw_ops.TensorListReserve(element_shape=tf.constant(shape, tf.int32),
                                        num_elements=count, element_dtype=dtype or tf.float64)


def empty(tf, shape, dtype=None):
    return tf.raw_ops.EmptyTensorList(element_shape=tf.constant(shape, tf.int32),
                                      max_num_elements=-1, element_dtype=dtype or tf.float64)


def push(tf, handle, x):
    return tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=x)


def pop(tf, handle, shape=(-1,)):
    return tf.raw_ops.TensorListPopBack(input_handle=handle, element_shape=tf.constant(shape),
                                        element_dtype=tf.float64)


def item(tf, handle, index, shape):
    return tf.raw_ops.TensorListGetItem(input_handle=handle, index=index,
                                        element_shape=tf.constant(shape, tf.int32),
                                        element_dtype=tf.float64)


def replaced(tf, handle, index, x):
    return tf.raw_ops.TensorListSetItem(input_handle=handle, index=index, item=x)


op("list_from_tensor_stack", lambda tf, x: stacked(tf, listed(tf, x), [3]), normal(4, 3, dtype=D))
op("list_stack_unknown", lambda tf, x: stacked(tf, listed(tf, x, [-1]), [-1]),
   normal(4, 3, dtype=D))
op("list_get", lambda tf, x, i: [item(tf, listed(tf, x), i, [3]), item(tf, listed(tf, x), 0, [3])],
   normal(4, 3, dtype=D), ints(1, 4))
op("list_get_unset", lambda tf, x: [
    item(tf, replaced(tf, reserved(tf, [-1], 3), 1, x), 2, [-1]),
    item(tf, reserved(tf, [2, 2], 3), 0, [2, 2])], normal(3, dtype=D), gradient=False)
op("list_set", lambda tf, x, y, i: stacked(tf, replaced(tf, listed(tf, x), i, y), [3]),
   normal(4, 3, dtype=D), normal(3, dtype=D), ints(0, 4))
op("list_set_keeps_the_old", lambda tf, x, y: (lambda h: [
    stacked(tf, replaced(tf, h, 1, y), [3]), stacked(tf, h, [3])])(listed(tf, x)),
   normal(4, 3, dtype=D), normal(3, dtype=D))
op("list_push_pop", lambda tf, x, y: (lambda popped: [
    popped[1], stacked(tf, popped[0], [3])])(
        pop(tf, push(tf, push(tf, listed(tf, x), y), y * 2.0))),
   normal(2, 3, dtype=D), normal(3, dtype=D))
op("list_push_to_empty", lambda tf, x: stacked(
    tf, push(tf, push(tf, empty(tf, [2, 2]), x), tf.matmul(x, x)), [2, 2]), normal(2, 2, dtype=D))
op("list_length_shape", lambda tf, x: [
    tf.raw_ops.TensorListLength(input_handle=listed(tf, x)),
    tf.raw_ops.TensorListElementShape(input_handle=listed(tf, x, [-1, 2]), shape_type=tf.int64),
    tf.raw_ops.TensorListElementShape(input_handle=tf.raw_ops.TensorListReserve(
        element_shape=tf.constant(-1), num_elements=2, element_dtype=tf.float32),
        shape_type=tf.int32)], normal(4, 3, 2), gradient=False)
op("list_resize", lambda tf, x: [
    stacked(tf, tf.raw_ops.TensorListResize(input_handle=listed(tf, x), size=2), [3]),
    stacked(tf, tf.raw_ops.TensorListResize(input_handle=listed(tf, x), size=6), [3])],
   normal(4, 3, dtype=D))
op("list_gather", lambda tf, x, i: tf.raw_ops.TensorListGather(
    input_handle=listed(tf, x), indices=i, element_shape=tf.constant([3]),
    element_dtype=tf.float64), normal(4, 3, dtype=D), value([2, 0, 3], np.int32))
op("list_scatter", lambda tf, x, i: [
    stacked(tf, tf.raw_ops.TensorListScatter(tensor=x, indices=i, element_shape=tf.constant([3])),
            [3]),
    stacked(tf, tf.raw_ops.TensorListScatterV2(tensor=x, indices=i, element_shape=tf.constant([3]),
                                               num_elements=6), [3])],
   normal(3, 3, dtype=D), value([4, 0, 2], np.int32))
op("list_scatter_into", lambda tf, x, y, i: stacked(
    tf, tf.raw_ops.TensorListScatterIntoExistingList(input_handle=listed(tf, x), tensor=y,
                                                     indices=i), [3]),
   normal(4, 3, dtype=D), normal(2, 3, dtype=D), value([1, 3], np.int32))
op("list_split_concat", lambda tf, x, n: [
    *tf.raw_ops.TensorListConcatV2(
        input_handle=tf.raw_ops.TensorListSplit(tensor=x, element_shape=tf.constant([-1, 2]),
                                                lengths=n),
        element_shape=tf.constant([-1, 2]), leading_dims=n, element_dtype=tf.float64),
    *tf.raw_ops.TensorListConcat(input_handle=listed(tf, tf.reshape(x, [3, 2, 2])),
                                 element_shape=[2, 2], element_dtype=tf.float64)],
   normal(6, 2, dtype=D), value([1, 3, 2], np.int64))
op("list_concat_unset", lambda tf, x: tf.raw_ops.TensorListConcatV2(
    input_handle=replaced(tf, reserved(tf, [-1, 2], 3), 1, x),
    element_shape=tf.constant([-1, 2]), leading_dims=tf.constant([2, 3, 1], tf.int64),
    element_dtype=tf.float64), normal(3, 2, dtype=D), gradient=False)
op("list_concat_lists", lambda tf, x, y: stacked(tf, tf.raw_ops.TensorListConcatLists(
    input_a=listed(tf, x), input_b=listed(tf, y), element_dtype=tf.float64), [3]),
   normal(2, 3, dtype=D), normal(3, 3, dtype=D), gradient=False)
op("list_of_lists", lambda tf, x: (lambda inner: [
    stacked(tf, inner[1], [3]), tf.raw_ops.TensorListLength(input_handle=inner[0])])(
        tf.raw_ops.TensorListPopBack(
            input_handle=push(tf, push(tf, empty(tf, [], tf.variant), listed(tf, x)),
                              listed(tf, x * 2.0)),
            element_shape=tf.constant([], tf.int32), element_dtype=tf.variant)),
   normal(2, 3, dtype=D), gradient=False)
op("list_zeros_add", lambda tf, x: [
    stacked(tf, tf.zeros_like(listed(tf, x)), [3]),
    stacked(tf, tf.add_n([listed(tf, x), listed(tf, x * 2.0), reserved(tf, [3], 4)]), [3])],
   normal(4, 3, dtype=D), gradient=False)
op("list_used_twice", lambda tf, x: (lambda h: item(tf, h, 0, [3]) * item(tf, h, 1, [3]))(
    listed(tf, x)), normal(2, 3, dtype=D))
op("list_of_strings", lambda tf, x: stacked(
    tf, replaced(tf, listed(tf, tf.as_string(x), [2]), 1, tf.constant(["a", "long string" * 5])),
    [2], tf.string), ints(0, 99, 3, 2), gradient=False)
op("optionals", lambda tf, x: [
    tf.raw_ops.OptionalGetValue(
        optional=tf.raw_ops.OptionalFromValue(components=[x, tf.constant(3)]),
        output_types=[tf.float32, tf.int32], output_shapes=[[2], []])[0],
    tf.raw_ops.OptionalHasValue(optional=tf.raw_ops.OptionalNone()),
    tf.raw_ops.OptionalHasValue(optional=tf.raw_ops.OptionalFromValue(components=[x]))],
   normal(2), gradient=False)


def in_loop(tf, x):
    """Read from one list, written to another, as TensorFlow 2's loops do."""
    source = listed(tf, x)

    def body(i, state, results):
        state = tf.tanh(state + item(tf, source, i, [3]))
        return i + 1, state, replaced(tf, results, i, state * x[0])
    _, last, results = tf.while_loop(
        lambda i, *_: i < 4, body,
        [tf.constant(0), tf.zeros([3], tf.float64), reserved(tf, [3], 4)])
    return [last, stacked(tf, results, [3])]


op("list_in_loop", in_loop, normal(4, 3, dtype=D), gradient=False)    # TensorFlow has none
op("list_grown_in_loop", lambda tf, x: stacked(tf, tf.while_loop(
    lambda i, h: i < 5, lambda i, h: (i + 1, push(tf, h, x * tf.cast(i, tf.float64))),
    [tf.constant(0), empty(tf, [3])])[1], [3]), normal(3, dtype=D))
op("list_in_branch", lambda tf, x: stacked(tf, tf.cond(
    x[0, 0] > 0.0, lambda: replaced(tf, listed(tf, x), 1, x[0] * x[1]),
    lambda: replaced(tf, listed(tf, x), 2, x[3])), [3]), normal(4, 3, dtype=D))
