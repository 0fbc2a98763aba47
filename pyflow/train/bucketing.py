"""Batches of elements that are alike: a queue a bucket, and one queue of full batches.

    tensors -> the bucket's queue -> a batch of it -> top queue -> the reader

Invariant: the end of input closes the buckets' queues, and then, when their rests are batched, the
top queue.

Who calls it: users.  Thread: the one building the graph.
Source: TF 1.15 `tf.contrib.training.bucket`, `bucket_by_sequence_length`.
"""
import numpy as np

from pyflow.framework import dtypes, errors, graph
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import scalar, vector
from pyflow.lib.control_flow import cond, grouping
from pyflow.lib.math import logic_functions
from pyflow.lib.math.reductions import reduce_min
from pyflow.lib.queue import queues
from pyflow.lib.summary import summary_functions
from pyflow.ops.base import tensors as tensor_lib
from pyflow.ops.elementwise import logic_ops
from pyflow.train import input_tensors as given
from pyflow.train.input import filled, queue_kind
from pyflow.train.queue_runners import QueueRunner, add_queue_runner

_ENDS = (errors.OutOfRangeError, errors.CancelledError)


def _sizes(batch_size, num_buckets):
    """A static size, or a tensor, a bucket."""
    sizes = (list(batch_size) if isinstance(batch_size, (list, tuple))
             else [batch_size] * num_buckets)
    if len(sizes) != num_buckets:
        raise ValueError("If batch_size is a list it must have num_buckets elements. Found bucket "
                         f"sizes {sizes}, num_buckets {num_buckets}.")
    found = []
    for size in sizes:
        size = graph.convert_to_tensor(size, dtype=dtypes.int32, name="batch_size")
        known = constant_value(size)
        found.append(size if known is None else int(known))
    return found


def _queue_of_bucket(queue, which_bucket, i, tensor_list):
    return cond.cond(logic_ops.Equal(which_bucket, i),
                     lambda: grouping.group(queue.enqueue(tensor_list, name=f"enqueue_{i}")),
                     grouping.no_op)


def bucket(tensors, which_bucket, batch_size, num_buckets, num_threads=1, capacity=32,
           bucket_capacities=None, shapes=None, dynamic_pad=False, allow_smaller_final_batch=False,
           keep_input=True, shared_name=None, name=None):
    """(bucket, batch): batches of elements of one bucket. TF: tf.contrib.training.bucket.

    tensors: a list or dict, one element. which_bucket: an int32 scalar below num_buckets.
    batch_size: one, or one a bucket. capacity: of the queue of batches; bucket_capacities: of the
    buckets' queues, default `capacity` each. The rest: see tf.train.batch, maybe_batch.
    ValueError for lists of other lengths than num_buckets."""
    sizes = _sizes(batch_size, num_buckets)
    capacities = bucket_capacities or [capacity] * num_buckets
    if len(capacities) != num_buckets:
        raise ValueError(f"The list of bucket_capacities ({capacities}) must have the same number "
                         f"of elements as num_buckets ({num_buckets}).")
    tensor_list = given.as_list(tensors)
    with graph.name_scope(name, "bucket", list(tensor_list)):
        tensor_list = given.converted(tensor_list, "bucket")
        keep_input = given.checked_keep_input(keep_input, False)
        tensor_list, packed = given.pack_sparse(tensor_list, False)
        types, shapes = given.types_of([tensor_list]), given.shapes_of([tensor_list], shapes, False)
        which_bucket = graph.convert_to_tensor(which_bucket, dtype=dtypes.int32,
                                               name="which_bucket")
        buckets = [queue_kind(dynamic_pad)(
            capacity=capacities[i], dtypes=types, shapes=shapes, name=f"bucket_queue_{i}",
            shared_name=f"{shared_name}_{i}" if shared_name is not None else None)
            for i in range(num_buckets)]
        top = _top_queue(buckets, types, sizes, capacity, shared_name, allow_smaller_final_batch)
        put = given.if_kept(keep_input, lambda: grouping.group(*(
            _queue_of_bucket(q, which_bucket, i, tensor_list) for i, q in enumerate(buckets))))
        add_queue_runner(QueueRunner(
            buckets[0], [put] * num_threads, queue_closed_exception_types=_ENDS,
            close_op=grouping.group(*(q.close() for q in buckets)),
            cancel_op=grouping.group(*(q.close(cancel_pending_enqueues=True) for q in buckets))))
        _fill_top(top, buckets, sizes, allow_smaller_final_batch)
        summary_functions.scalar(f"bucket/fraction_of_{capacity}_full", filled(top, capacity))
        which, *taken = top.dequeue(name="dequeue_top")
        taken = given.unpack_sparse(taken[0] if len(taken) == 1 else taken, packed)
        return which, given.as_given(tensors, taken)


def _top_queue(buckets, types, sizes, capacity, shared_name, smaller):
    """Of (bucket, batch); one that pads only because shapes may be unknown."""
    known = not smaller and len(set(sizes)) == 1 and not isinstance(sizes[0], graph.Tensor)
    rows = sizes[0] if known else None
    shapes = [vector(rows).concatenate(shape) for shape in buckets[0].shapes]
    return queues.PaddingFIFOQueue(capacity=capacity, dtypes=[dtypes.int32] + types,
                                   shapes=[scalar()] + shapes, shared_name=shared_name,
                                   name="top_queue")


def _fill_top(top, buckets, sizes, smaller):
    puts = []
    for i, (queue, size) in enumerate(zip(buckets, sizes)):
        take = queue.dequeue_up_to if smaller else queue.dequeue_many
        taken = take(size, name=f"read_bucket_{i}")
        taken = list(taken) if isinstance(taken, (list, tuple)) else [taken]
        puts.append(top.enqueue([graph.convert_to_tensor(i, dtype=dtypes.int32)] + taken,
                                name=f"enqueue_from_bucket_{i}"))
    add_queue_runner(QueueRunner(top, puts, queue_closed_exception_types=_ENDS))


def bucket_by_sequence_length(input_length, tensors, batch_size, bucket_boundaries, num_threads=1,
                              capacity=32, bucket_capacities=None, shapes=None, dynamic_pad=False,
                              allow_smaller_final_batch=False, keep_input=True, shared_name=None,
                              name=None):
    """(lengths, batch): batches of sequences of like length. TF:
    tf.contrib.training.bucket_by_sequence_length.

    input_length: an int32 scalar, the length of this element. bucket_boundaries: increasing ints;
    bucket i has lengths from boundary i - 1 on and below boundary i. TypeError and ValueError for
    other boundaries. The rest: see bucket."""
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError("bucket_boundaries must be a list or tuple, but received: "
                        f"{bucket_boundaries}")
    if not bucket_boundaries:
        raise ValueError("bucket_boundaries must not be empty")
    for low, high in zip(bucket_boundaries[:-1], bucket_boundaries[1:]):
        if not isinstance(low, int) or not isinstance(high, int):
            raise TypeError(f"bucket boundaries must be integers, but saw: {low} and {high}")
        if low >= high:
            raise ValueError("Buckets must contain sequential increasing lengths, but saw: "
                             f"{low} before {high}")
    tensor_list = list(given.as_list(tensors))
    with graph.name_scope(name, "bucket_by_sequence_length", [input_length] + tensor_list):
        input_length = graph.convert_to_tensor(input_length, dtype=dtypes.int32,
                                               name="input_length")
        limits = np.iinfo(np.int32)
        low = np.array([limits.min, *bucket_boundaries], np.int32)
        high = np.array([*bucket_boundaries, limits.max], np.int32)
        inside = logic_ops.LogicalAnd(logic_ops.LessEqual(low, input_length),
                                      logic_ops.Less(input_length, high))
        which = tensor_lib.cast(reduce_min(logic_functions.where(inside)), dtypes.int32)
        _, taken = bucket(
            [input_length] + tensor_list, which, batch_size, len(bucket_boundaries) + 1,
            num_threads=num_threads, capacity=capacity, bucket_capacities=bucket_capacities,
            shapes=None if shapes is None else [scalar()] + list(shapes), dynamic_pad=dynamic_pad,
            allow_smaller_final_batch=allow_smaller_final_batch, keep_input=keep_input,
            shared_name=shared_name)
        return taken[0], given.as_given(tensors, taken[1:] if len(tensor_list) > 1 or not
                                        isinstance(tensors, dict) else taken[1])


PUBLIC = {"contrib.training.bucket": bucket,
          "contrib.training.bucket_by_sequence_length": bucket_by_sequence_length}
