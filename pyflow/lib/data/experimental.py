"""tf.data.experimental and tf.contrib.data: transformations for Dataset.apply, and sources.

Invariant: each returns a function Dataset -> Dataset, unless its docstring says otherwise.

Thread: the one building the graph.  Source: TF 1.15 tf.data.experimental.

Example:  `dataset.apply(tf.data.experimental.shuffle_and_repeat(1000))`
"""
import numpy as np

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.op_attrs import FunctionName
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.data import structure
from pyflow.lib.data.dataset import AUTOTUNE, Dataset, _in_common, _seeds, _shape_of, _type_of
from pyflow.lib.data.functions import ElementFunction
from pyflow.lib.math import reductions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.dataset import dataset_ops, iterator_ops, tensorflow_ops
from pyflow.ops.elementwise import logic_ops, unary_ops

ENDLESS = 2 ** 63 - 1


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """shuffle, then repeat: each round in another order.

    Elements of any shapes and dtypes. buffer_size, count (None: without end), seed: scalar ints,
    else TypeError; InvalidArgumentError in the step for a buffer_size below 1.
    TF: tf.data.experimental.shuffle_and_repeat."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False,
                  num_parallel_calls=None):
    """map, then batch: elements of map_func's shapes and dtypes, with a dimension in front.

    batch_size, num_parallel_calls: scalar ints; num_parallel_batches: an int. ValueError for both
    of the latter; InvalidArgumentError in the step for rows of different shapes.
    TF: tf.data.experimental.map_and_batch."""
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("The `num_parallel_batches` and `num_parallel_calls` arguments are "
                         "mutually exclusive.")
    calls = num_parallel_calls
    if num_parallel_batches is not None:
        calls = num_parallel_batches * batch_size
    return lambda dataset: dataset._mapped(map_func, calls, preserve_cardinality=True).batch(
        batch_size, drop_remainder)


def parallel_interleave(map_func, cycle_length, block_length=1, sloppy=False,
                        buffer_output_elements=None, prefetch_input_elements=None):
    """interleave that reads ahead; the order is fixed, `sloppy` too.

    map_func: of an element, a Dataset, whose shapes and dtypes the result has, else TypeError.
    cycle_length, block_length: scalar ints. Other arguments are accepted.
    TF: tf.data.experimental.parallel_interleave."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length,
                                              num_parallel_calls=cycle_length)


def prefetch_to_device(device, buffer_size=None):
    """prefetch; the copy to the device is the step's own, when it takes the element.

    Elements of any shapes and dtypes. buffer_size: a scalar int, as many as there is time for where
    None; InvalidArgumentError in the step for one below -1. device: accepted.
    TF: tf.data.experimental.prefetch_to_device."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device, source_device="/cpu:0"):
    """The same elements, of any shapes and dtypes: steps copy what they take; never an error.
    target_device, source_device: accepted. TF: tf.data.experimental.copy_to_device."""
    return lambda dataset: dataset


def ignore_errors():
    """The elements, of any shapes and dtypes, without those whose making raises an error.
    TF: tf.data.experimental.ignore_errors."""
    return lambda dataset: dataset._then(dataset_ops.IgnoreErrorsDataset)


def unbatch():
    """The rows of dimension 0 of the elements, of any dtypes.
    ValueError for a scalar, or for components of different lengths; InvalidArgumentError in the
    step where the shapes do not tell.
    TF: tf.data.experimental.unbatch."""
    return lambda dataset: dataset.unbatch()


def enumerate_dataset(start=0):
    """(number, element): the number a scalar int64 from `start` on, else TypeError.
    TF: tf.data.experimental.enumerate_dataset."""
    return lambda dataset: dataset.enumerate(start)


def scan(initial_state, scan_func):
    """scan_func(state, element) -> (next state, element), from initial_state: a nest of tensors.

    States and elements of any shapes and dtypes. TypeError for a next state of another structure
    or other dtypes, and for a scan_func that returns no pair. TF: tf.data.experimental.scan."""
    def apply(dataset):
        state, function = dataset._stepping(initial_state, scan_func, "scan")
        if not isinstance(function.returned, tuple) or len(function.returned) != 2:
            raise TypeError("The scan function must return a pair comprising the new state and the "
                            "output value.")
        later, output = function.returned
        types = structure.map_leaves(_type_of, state)
        structure.same(types, later, "states")
        if [_type_of(t) for t in structure.flatten(later)] != structure.flatten(types):
            raise TypeError(f"The element types for the new state must match the initial state. "
                            f"Expected {types}; got {later}.")
        return dataset._then(
            dataset_ops.ScanDataset, [structure.unwrapped(t) for t in structure.flatten(state)],
            function.captured,
            types=structure.map_leaves(_type_of, output),
            shapes=structure.map_leaves(_shape_of, output), f=FunctionName(function.name),
            Tstate=structure.flat_types(types), Targuments=function.captured_types,
            preserve_cardinality=True)
    return apply


def group_by_window(key_func, reduce_func, window_size=None, window_size_func=None):
    """reduce_func(key, dataset of one key's elements) -> a dataset, whose elements these are.

    key_func: of an element (any shapes and dtypes), a scalar int64; window_size, or
    window_size_func of a key, a scalar int64: how many elements a window has. ValueError unless one
    of both is given, and for other keys; TypeError where reduce_func returns no Dataset.
    TF: tf.data.experimental.group_by_window."""
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func, not both.")
    if window_size is not None:
        def window_size_func(_):
            return ops.convert_to_tensor(window_size, dtypes.int64)

    def apply(dataset):
        types, shapes = dataset._types, dataset._shapes
        key = _int64_function(key_func, "key_func", types, shapes)
        size = _int64_function(window_size_func, "window_size_func", dtypes.int64, structure.SCALAR)
        window = structure.DatasetSpec(types, shapes, Dataset)
        reduced = ElementFunction(reduce_func, "reduce_func", (dtypes.int64, window),
                                  (structure.SCALAR, structure.SCALAR))
        made = reduced.returned
        if not isinstance(made, Dataset):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        return dataset._then(
            dataset_ops.GroupByWindowDataset, key.captured, reduced.captured, size.captured,
            types=made._types, shapes=made._shapes, key_func=FunctionName(key.name),
            reduce_func=FunctionName(reduced.name), window_size_func=FunctionName(size.name),
            Tkey_func_other_arguments=key.captured_types,
            Treduce_func_other_arguments=reduced.captured_types,
            Twindow_size_func_other_arguments=size.captured_types)
    return apply


def _int64_function(function, label, types, shapes):
    def number(*element):
        result = function(*element)
        plain = not isinstance(result, (ops.Tensor, list, tuple))
        return ops.convert_to_tensor(result, dtypes.int64) if plain else result
    made = ElementFunction(number, label, types, shapes)
    if len(made.outputs) != 1 or made.outputs[0].dtype != dtypes.int64 or \
            not made.outputs[0].shape.is_compatible_with([]):
        raise ValueError(f"`{label}` must return a single tf.int64 scalar tensor.")
    return made


def bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes,
                              padded_shapes=None, padding_values=None,
                              pad_to_bucket_boundary=False, no_padding=False,
                              drop_remainder=False):
    """Batches of elements of like length, padded.

    element_length_func: of an element, a scalar int; bucket_boundaries: upper bounds, exclusive;
    bucket_batch_sizes: one more than these. pad_to_bucket_boundary: to the bound less one, rather
    than to the batch's longest. padded_shapes, padding_values, drop_remainder: as padded_batch's;
    no_padding: elements of one shape. ValueError for sizes that do not fit each other.
    TF: tf.data.experimental.bucket_by_sequence_length."""
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    bounds = np.array(bucket_boundaries, np.int64)
    sizes = ops.convert_to_tensor(np.array(bucket_batch_sizes, np.int64))

    def bucket_of(*element):
        length = tensors.cast(element_length_func(*element), dtypes.int64)
        above = tensors.cast(logic_ops.LessEqual(bounds, length), dtypes.int64)
        return reductions.reduce_sum(above)

    def size_of(bucket):
        return tensors.gather(sizes, bucket)

    def padded(bucket, window):
        size = size_of(bucket)
        if no_padding:
            return window.batch(size, drop_remainder)
        shapes = window.output_shapes if padded_shapes is None else padded_shapes
        if pad_to_bucket_boundary:
            # elements of the last bucket have no bound: an element that long is an error, as in TF
            most = tensors.gather(ops.convert_to_tensor(np.append(bounds, -1) - 1), bucket)
            shapes = _bounded(shapes, most)
        return window.padded_batch(size, shapes, padding_values, drop_remainder)
    return lambda dataset: dataset.apply(group_by_window(bucket_of, padded,
                                                         window_size_func=size_of))


def _bounded(shapes, most):
    """Shapes whose unknown sizes are the scalar tensor `most`."""
    def bounded(shape):
        sizes = [most if size is None else ops.convert_to_tensor(size, dtypes.int64)
                 for size in TensorShape(shape).as_list()]
        return tensors.stack(sizes) if sizes else ops.convert_to_tensor(
            np.zeros(0, np.int64))
    return structure.map_leaves(bounded, shapes)


def _directed(selector, datasets):
    first = datasets[0]
    for dataset in datasets[1:]:
        structure.same(first._types, dataset._types, "datasets")
        if structure.flatten(first._types) != structure.flatten(dataset._types):
            raise TypeError("Datasets to be interleaved have different types: "
                            f"{first.output_types} and {dataset.output_types}")
    shapes = first.output_shapes
    for dataset in datasets[1:]:
        shapes = structure.map_leaves(_in_common, shapes, dataset.output_shapes)
    variant = dataset_ops.DirectedInterleaveDataset(
        selector._variant_tensor, [d._variant_tensor for d in datasets],
        output_types=structure.flat_types(first._types),
        output_shapes=structure.flat_shapes(first._types, shapes))
    return Dataset(variant, first._types, shapes, [selector, *datasets])


def sample_from_datasets(datasets, weights=None, seed=None):
    """A Dataset: each element of one of `datasets`, drawn by `weights` (equal where None).

    datasets: of one structure and dtypes, else TypeError; of shapes in common. weights: a vector of
    as many floats (ValueError for another length, TypeError for ints), or a Dataset of such.
    TF: tf.data.experimental.sample_from_datasets."""
    datasets = list(datasets)
    if isinstance(weights, Dataset):
        logits = weights.map(unary_ops.Log)
    else:
        if weights is None:
            weights = np.full(len(datasets), 1.0 / max(len(datasets), 1), np.float32)
        weights = ops.convert_to_tensor(weights, name="weights")
        if weights.dtype not in (dtypes.float32, dtypes.float64):
            raise TypeError("`weights` must be convertible to a tensor of `tf.float32` or "
                            "`tf.float64` elements.")
        if not weights.shape.is_compatible_with([len(datasets)]):
            raise ValueError("`weights` must be a vector of length `len(datasets)`.")
        logits = Dataset.from_tensors(unary_ops.Log(weights)).repeat()
    if len(datasets) == 1:
        return datasets[0]
    selector = logits.map(lambda l: tensors.reshape(random_functions.multinomial(
        tensors.expand_dims(l, 0), 1, seed=seed, output_dtype=dtypes.int64), []))
    return _directed(selector, datasets)


def choose_from_datasets(datasets, choice_dataset):
    """A Dataset: each element of the one of `datasets` that choice_dataset's int64 names.

    choice_dataset: of scalar int64, else TypeError; so for datasets of different dtypes.
    TF: tf.data.experimental.choose_from_datasets."""
    if choice_dataset.output_types != dtypes.int64 or \
            not choice_dataset.output_shapes.is_compatible_with([]):
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _directed(choice_dataset, list(datasets))


def Counter(start=0, step=1, dtype=dtypes.int64):
    """A Dataset of start, start + step, ... without end: scalars of `dtype`.

    start, step: ints, else TypeError; InvalidArgumentError in the step for a step of 0.
    TF: tf.data.experimental.Counter."""
    dtype = dtypes.as_dtype(dtype)
    counted = Dataset.range(start, ENDLESS if step > 0 else -ENDLESS, step)
    return counted if dtype == dtypes.int64 else counted.map(lambda x: tensors.cast(x, dtype))


def RandomDataset(seed=None):
    """A Dataset of random scalar int64 from 0 to 2^32 - 1 without end.
    The same numbers as TensorFlow's of the same seeds. seed: an int, else TypeError.
    TF: tf.data.experimental.RandomDataset."""
    first, second = (ops.convert_to_tensor(part, dtypes.int64) for part in _seeds(seed))
    return Dataset(tensorflow_ops.RandomDataset(
        first, second, output_types=[dtypes.int64], output_shapes=[TensorShape([])]),
        dtypes.int64, TensorShape([]))


def get_single_element(dataset):
    """The only element, as tensors of the Dataset's shapes and dtypes.
    InvalidArgumentError in the step for none, or for more.
    TypeError for what is no Dataset. TF: tf.data.experimental.get_single_element."""
    if not isinstance(dataset, Dataset):
        raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
    flat = iterator_ops.DatasetToSingleElement(dataset._variant_tensor, **dataset._attrs())
    return structure.packed(dataset._types,
                            list(flat) if isinstance(flat, (list, tuple)) else [flat],
                            dataset._shapes)


def take_while(predicate):
    """The elements before the first for which `predicate` is false.
    ValueError for a function of another result than a scalar bool.
    TF: tf.data.experimental.take_while."""
    return lambda dataset: dataset._judged(dataset_ops.TakeWhileDataset, predicate, "take_while")


def batch_and_drop_remainder(batch_size):
    """batch(batch_size, drop_remainder=True): elements of any dtypes, with a dimension in front.

    batch_size: a scalar int, else TypeError; InvalidArgumentError in the step for one below 1, or
    for rows of different shapes. TF: tf.contrib.data.batch_and_drop_remainder."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def make_one_shot_iterator(dataset):
    """dataset.make_one_shot_iterator(): of the dataset's shapes and dtypes.
    ValueError for a dataset that reads a placeholder or a variable.
    TF: tf.compat.v1.data.make_one_shot_iterator."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset, shared_name=None):
    """dataset.make_initializable_iterator(shared_name): of the dataset's shapes and dtypes.
    shared_name: a string; sessions with one name share it. AttributeError for what is no Dataset.
    TF: tf.compat.v1.data.make_initializable_iterator."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator):
    """A nest of DTypes, one for each component, whatever its shape.
    AttributeError for what is neither Dataset nor Iterator.
    TF: tf.compat.v1.data.get_output_types."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator):
    """A nest of shapes (TensorShape), one for each component, whatever its dtype.
    AttributeError for what is neither Dataset nor Iterator.
    TF: tf.compat.v1.data.get_output_shapes."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator):
    """A nest of classes, tf.Tensor for components of any shape and dtype that are dense.
    AttributeError for what is neither Dataset nor Iterator.
    TF: tf.compat.v1.data.get_output_classes."""
    return dataset_or_iterator.output_classes


_EXPERIMENTAL = [
    shuffle_and_repeat, map_and_batch, parallel_interleave, prefetch_to_device, copy_to_device,
    ignore_errors, unbatch, enumerate_dataset, scan, group_by_window, bucket_by_sequence_length,
    sample_from_datasets, choose_from_datasets, Counter, RandomDataset, get_single_element,
    take_while]
_TOP = [make_one_shot_iterator, make_initializable_iterator, get_output_types, get_output_shapes,
        get_output_classes]
PUBLIC = {f"data.{f.__name__}": f for f in _TOP} | {
    f"{module}.{f.__name__}": f for f in _EXPERIMENTAL
    for module in ("data.experimental", "contrib.data")} | {
    "contrib.data.batch_and_drop_remainder": batch_and_drop_remainder,
    "contrib.data.AUTOTUNE": AUTOTUNE}
