"""Input by queues: producers of elements, and batches of what other operations make.

Invariants
  1. Each function adds its queue, and a QueueRunner in GraphKeys.QUEUE_RUNNERS; nothing flows
     before `tf.train.start_queue_runners`.
  2. How full each queue is, is a summary, as in TensorFlow.
  3. The end of input (limit_epochs: OutOfRangeError) goes from queue to queue: each is closed when
     all of its threads met it, and what is in it is given out first.

Who calls it: users.  Thread: the one building the graph.  Source: TF 1.15 `tf.train.batch` and kin.

Example:
    name = tf.train.string_input_producer(files, num_epochs=2).dequeue()
    x = tf.train.shuffle_batch([parse(name)], 32, capacity=1000, min_after_dequeue=100)
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions, identity_functions
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.queue import queues
from pyflow.lib.random import random_functions
from pyflow.lib.summary import summary_functions
from pyflow.lib.variables import variables
from pyflow.ops.base import tensors as tensor_lib
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.train import input_tensors as given
from pyflow.train.queue_runners import QueueRunner, add_queue_runner


# ------------------------------------------------------------------------------- producers
def limit_epochs(tensor, num_epochs=None, name=None):
    """The tensor, `num_epochs` times; then OutOfRangeError. TF: tf.train.limit_epochs.

    num_epochs: None: for ever; ValueError below 1. The count is a local variable "epochs": run
    tf.local_variables_initializer()."""
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with graph.name_scope(name, "limit_epochs", [tensor]) as scope:
        zero = graph.convert_to_tensor(0, dtype=dtypes.int64)
        epochs = variables.Variable(zero, name="epochs", trainable=False,
                                    collections=[graph.GraphKeys.LOCAL_VARIABLES])
        with graph.control_dependencies([epochs.count_up_to(num_epochs)]):
            return identity_functions.identity(tensor, name=scope)


def input_producer(input_tensor, element_shape=None, num_epochs=None, shuffle=True, seed=None,
                   capacity=32, shared_name=None, summary_name=None, name=None, cancel_op=None):
    """A FIFOQueue of the rows of `input_tensor`, again and again. TF: tf.train.input_producer.

    element_shape: of a row, where the tensor's is not known (ValueError without it). num_epochs:
    then OutOfRangeError (see limit_epochs). shuffle: the rows anew in each epoch, by `seed`.
    capacity, shared_name: the queue's. summary_name: of how full it is. cancel_op: the runner's."""
    with graph.name_scope(name, "input_producer", [input_tensor]):
        input_tensor = graph.convert_to_tensor(input_tensor, name="input_tensor")
        element_shape = input_tensor.shape.with_rank_at_least(1)[1:].merge_with(element_shape)
        if not element_shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or "
                             "`element_shape` must be specified")
        if shuffle:
            input_tensor = random_functions.random_shuffle(input_tensor, seed=seed)
        input_tensor = limit_epochs(input_tensor, num_epochs)
        queue = queues.FIFOQueue(capacity=capacity, dtypes=[input_tensor.dtype.base_dtype],
                                 shapes=[element_shape], shared_name=shared_name, name=name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([input_tensor])],
                                     cancel_op=cancel_op))
        if summary_name is not None:
            summary_functions.scalar(summary_name, filled(queue, capacity))
        return queue


def string_input_producer(string_tensor, num_epochs=None, shuffle=True, seed=None, capacity=32,
                          shared_name=None, name=None, cancel_op=None):
    """A FIFOQueue of strings, for example of files' names. TF: tf.train.string_input_producer.

    string_tensor: a vector; ValueError for an empty list, InvalidArgumentError, in the runner, for
    an empty tensor. The rest: see input_producer.
    num_epochs: how often each string comes, None: for ever; shuffle: in another order each time, by
    seed; capacity: of the queue; shared_name: under which sessions share it; cancel_op: run when
    its threads are stopped.

        >>> queue = tf.train.string_input_producer(["1.csv", "2.csv"], shuffle=False)
        >>> with tf.Session() as sess:
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(sess, coord)
        ...     print(sess.run(queue.dequeue_many(3)))
        ...     coord.request_stop()
        ...     coord.join(threads)
        [b'1.csv' b'2.csv' b'1.csv']
    """
    message = "string_input_producer requires a non-null input tensor"
    if not graph.is_dense_tensor_like(string_tensor) and not len(string_tensor):
        raise ValueError(message)
    with graph.name_scope(name, "input_producer", [string_tensor]) as scope:
        string_tensor = graph.convert_to_tensor(string_tensor, dtype=dtypes.string)
        some = logic_ops.Greater(tensor_lib.size(string_tensor), 0)
        with graph.control_dependencies([logging_functions.Assert(some, [message])]):
            string_tensor = identity_functions.identity(string_tensor)
        return input_producer(string_tensor, [], num_epochs, shuffle, seed, capacity, shared_name,
                              f"fraction_of_{capacity}_full", scope, cancel_op)


def range_input_producer(limit, num_epochs=None, shuffle=True, seed=None, capacity=32,
                         shared_name=None, name=None):
    """A FIFOQueue of the integers below `limit`. TF: tf.train.range_input_producer."""
    with graph.name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(tensor_lib.range_(limit), [], num_epochs, shuffle, seed, capacity,
                              shared_name, f"fraction_of_{capacity}_full", scope)


def slice_input_producer(tensor_list, num_epochs=None, shuffle=True, seed=None, capacity=32,
                         shared_name=None, name=None):
    """One row of each tensor, the same row, another in each step. TF:
    tf.train.slice_input_producer.

    tensor_list: tensors of equal sizes in dimension 0; ValueError for an empty list."""
    with graph.name_scope(name, "input_producer", tensor_list):
        tensor_list = given.converted(tensor_list, "slice_input_producer")
        rows = tensor_lib.shape(tensor_list[0])[0]
        index = range_input_producer(rows, num_epochs=num_epochs, shuffle=shuffle, seed=seed,
                                     capacity=capacity, shared_name=shared_name).dequeue()
        return [gather_functions.gather(t, index) for t in tensor_list]


def match_filenames_once(pattern, name=None):
    """The files that match a pattern, looked up once. TF: tf.train.match_filenames_once.

    A local variable: run tf.local_variables_initializer()."""
    from pyflow.ops.transfer.file_ops import MatchingFiles
    with graph.name_scope(name, "matching_filenames", [pattern]) as scope:
        return variables.Variable(MatchingFiles(pattern), trainable=False, validate_shape=False,
                                  name=scope, collections=[graph.GraphKeys.LOCAL_VARIABLES])


# ------------------------------------------------------------------------------- batches
def filled(queue, capacity, beyond=0):
    """Which part of a queue's capacity, beyond the elements that stay, is taken."""
    size = queue.size()
    if beyond:
        size = binary_ops.Maximum(0, size - beyond)
    return tensor_lib.cast(size, dtypes.float32) * (1.0 / (capacity - beyond))


class _InOrder:
    """How the queue of `batch` is made, and what its summary says."""

    def __init__(self, capacity, dynamic_pad, shared_name):
        self.kind = queue_kind(dynamic_pad)
        self.given = dict(capacity=capacity, shared_name=shared_name)

    def make(self, types, shapes):
        return self.kind(dtypes=types, shapes=shapes, **self.given)

    def summarize(self, queue):
        capacity = self.given["capacity"]
        summary_functions.scalar(f"fraction_of_{capacity}_full", filled(queue, capacity))


class _Shuffled(_InOrder):
    """The same of `shuffle_batch`."""

    def __init__(self, capacity, min_after_dequeue, seed, shared_name):
        self.kind = queues.RandomShuffleQueue
        self.given = dict(capacity=capacity, min_after_dequeue=min_after_dequeue, seed=seed,
                          shared_name=shared_name)

    def summarize(self, queue):
        capacity, least = self.given["capacity"], self.given["min_after_dequeue"]
        summary_functions.scalar(f"fraction_over_{least}_of_{capacity - least}_full",
                                 filled(queue, capacity, least))


def queue_kind(dynamic_pad):
    """FIFOQueue, or the one that pads."""
    return queues.PaddingFIFOQueue if dynamic_pad else queues.FIFOQueue


def _put(queue, tensor_list, enqueue_many, keep_input):
    put = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep_input.shape.ndims == 1:
        return put(given.selected_rows(tensor_list, keep_input))
    return given.if_kept(keep_input, lambda: put(tensor_list))


def _batched(original, lists, scope, wanted, batch_size, keep_input, enqueue_many, shapes, threads,
             smaller):
    """The batch that comes out of a queue which `lists` of tensors go in, each by its own
    threads."""
    lists = [given.converted(one) for one in lists]
    keep_input = given.checked_keep_input(keep_input, enqueue_many)
    packed = [given.pack_sparse(one, enqueue_many) for one in lists]
    lists = [one for one, _ in packed]
    queue = wanted.make(given.types_of(lists), given.shapes_of(lists, shapes, enqueue_many))
    puts = [op for one in lists
            for op in [_put(queue, one, enqueue_many, keep_input)] * threads]
    add_queue_runner(QueueRunner(queue, puts))
    wanted.summarize(queue)
    take = queue.dequeue_up_to if smaller else queue.dequeue_many
    taken = given.unpack_sparse(take(batch_size, name=scope), packed[0][1])
    return given.as_given(original, taken)


def _flat(lists):
    return [value for one in lists for value in one]


def _batch(tensors, batch_size, keep_input, num_threads, capacity, enqueue_many, shapes,
           dynamic_pad, smaller, shared_name, name):
    tensor_list = given.as_list(tensors)
    with graph.name_scope(name, "batch", list(tensor_list)) as scope:
        wanted = _InOrder(capacity, dynamic_pad, shared_name)
        return _batched(tensors, [tensor_list], scope, wanted, batch_size, keep_input,
                        enqueue_many, shapes, num_threads, smaller)


def _batch_join(tensors_list, batch_size, keep_input, capacity, enqueue_many, shapes, dynamic_pad,
                smaller, shared_name, name):
    lists = given.as_lists(tensors_list)
    with graph.name_scope(name, "batch_join", _flat(lists)) as scope:
        wanted = _InOrder(capacity, dynamic_pad, shared_name)
        return _batched(tensors_list[0], lists, scope, wanted, batch_size, keep_input,
                        enqueue_many, shapes, 1, smaller)


def _shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, keep_input, num_threads, seed,
                   enqueue_many, shapes, smaller, shared_name, name):
    tensor_list = given.as_list(tensors)
    with graph.name_scope(name, "shuffle_batch", list(tensor_list)) as scope:
        wanted = _Shuffled(capacity, min_after_dequeue, seed, shared_name)
        return _batched(tensors, [tensor_list], scope, wanted, batch_size, keep_input,
                        enqueue_many, shapes, num_threads, smaller)


def _shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, keep_input, seed,
                        enqueue_many, shapes, smaller, shared_name, name):
    lists = given.as_lists(tensors_list)
    with graph.name_scope(name, "shuffle_batch_join", _flat(lists)) as scope:
        wanted = _Shuffled(capacity, min_after_dequeue, seed, shared_name)
        return _batched(tensors_list[0], lists, scope, wanted, batch_size, keep_input,
                        enqueue_many, shapes, 1, smaller)


def batch(tensors, batch_size, num_threads=1, capacity=32, enqueue_many=False, shapes=None,
          dynamic_pad=False, allow_smaller_final_batch=False, shared_name=None, name=None):
    """Batches of `batch_size` of what `tensors` give, step by step. TF: tf.train.batch.

    tensors: a list, or a dict, of Tensors or SparseTensors: one element, or, with enqueue_many,
    rows of elements. The result has the same structure and a first dimension of batch_size.
    num_threads: that run the operations behind them. shapes: of the elements, where they are not
    known (ValueError without). dynamic_pad: sizes may differ, and are padded with zeros.
    allow_smaller_final_batch: the last batch has what is left; its first dimension is unknown.
    capacity: how many elements wait; shared_name: under which sessions share the queue.

        >>> numbers = tf.train.batch([tf.train.range_input_producer(4, shuffle=False).dequeue()], 3)
        >>> with tf.Session() as sess:
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(sess, coord)
        ...     print(sess.run(numbers), sess.run(numbers))
        ...     coord.request_stop()
        ...     coord.join(threads)
        [0 1 2] [3 0 1]
    """
    return _batch(tensors, batch_size, True, num_threads, capacity, enqueue_many, shapes,
                  dynamic_pad, allow_smaller_final_batch, shared_name, name)


def maybe_batch(tensors, keep_input, batch_size, num_threads=1, capacity=32, enqueue_many=False,
                shapes=None, dynamic_pad=False, allow_smaller_final_batch=False, shared_name=None,
                name=None):
    """Like batch, of the elements for which `keep_input` is true: a bool scalar, or, with
    enqueue_many, a vector. TF: tf.train.maybe_batch."""
    return _batch(tensors, batch_size, keep_input, num_threads, capacity, enqueue_many, shapes,
                  dynamic_pad, allow_smaller_final_batch, shared_name, name)


def batch_join(tensors_list, batch_size, capacity=32, enqueue_many=False, shapes=None,
               dynamic_pad=False, allow_smaller_final_batch=False, shared_name=None, name=None):
    """Like batch; each entry of `tensors_list` is one element, and has a thread of its own. TF:
    tf.train.batch_join. TypeError where dtypes differ between entries."""
    return _batch_join(tensors_list, batch_size, True, capacity, enqueue_many, shapes, dynamic_pad,
                       allow_smaller_final_batch, shared_name, name)


def maybe_batch_join(tensors_list, keep_input, batch_size, capacity=32, enqueue_many=False,
                     shapes=None, dynamic_pad=False, allow_smaller_final_batch=False,
                     shared_name=None, name=None):
    """Like batch_join, where `keep_input` is true. TF: tf.train.maybe_batch_join."""
    return _batch_join(tensors_list, batch_size, keep_input, capacity, enqueue_many, shapes,
                       dynamic_pad, allow_smaller_final_batch, shared_name, name)


def shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, num_threads=1, seed=None,
                  enqueue_many=False, shapes=None, allow_smaller_final_batch=False,
                  shared_name=None, name=None):
    """Like batch, of elements in random order. TF: tf.train.shuffle_batch.

    capacity, min_after_dequeue: the most elements that wait to be chosen, and the fewest. seed:
    with it the choices are TensorFlow's.
    tensors, batch_size, num_threads, enqueue_many, shapes, allow_smaller_final_batch, shared_name:
    as batch's.

        >>> number = tf.train.range_input_producer(10, shuffle=False).dequeue()
        >>> numbers = tf.train.shuffle_batch([number], 5, capacity=20, min_after_dequeue=10, seed=1)
        >>> with tf.Session() as sess:
        ...     coord = tf.train.Coordinator()
        ...     threads = tf.train.start_queue_runners(sess, coord)
        ...     print(sess.run(numbers).shape)
        ...     coord.request_stop()
        ...     coord.join(threads)
        (5,)
    """
    return _shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, True, num_threads, seed,
                          enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def maybe_shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, keep_input,
                        num_threads=1, seed=None, enqueue_many=False, shapes=None,
                        allow_smaller_final_batch=False, shared_name=None, name=None):
    """Like shuffle_batch, where `keep_input` is true. TF: tf.train.maybe_shuffle_batch."""
    return _shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, keep_input, num_threads,
                          seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, seed=None,
                       enqueue_many=False, shapes=None, allow_smaller_final_batch=False,
                       shared_name=None, name=None):
    """Like shuffle_batch; each entry of `tensors_list` has a thread of its own. TF:
    tf.train.shuffle_batch_join."""
    return _shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, True, seed,
                               enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)


def maybe_shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, keep_input,
                             seed=None, enqueue_many=False, shapes=None,
                             allow_smaller_final_batch=False, shared_name=None, name=None):
    """Like shuffle_batch_join, where `keep_input` is true. TF:
    tf.train.maybe_shuffle_batch_join."""
    return _shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, keep_input,
                               seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                               name)


PUBLIC = {f"train.{f.__name__}": f for f in (
    limit_epochs, input_producer, string_input_producer, range_input_producer,
    slice_input_producer, match_filenames_once, batch, maybe_batch, batch_join, maybe_batch_join,
    shuffle_batch, maybe_shuffle_batch, shuffle_batch_join, maybe_shuffle_batch_join)}
PUBLIC["io.match_filenames_once"] = match_filenames_once
