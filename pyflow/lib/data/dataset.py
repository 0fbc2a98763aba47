"""Dataset: where elements come from, as a chain of transformations.

Invariants
  1. A Dataset holds a variant tensor; making one adds an op, reads nothing.
  2. An element is a tensor, or a nest of tuples and dicts of tensors (structure.py).
  3. The order and the values of elements do not depend on how many calls run at once.

Thread: the one building the graph.  Source: TF 1.15 tf.data.Dataset.

Example:
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.shuffle(1000).repeat().batch(32)
    x, y = dataset.make_one_shot_iterator().get_next()
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.op_attrs import FunctionName
from pyflow.framework.sparse_values import SparseTensor, SparseTensorValue
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow.check_functions import assert_positive
from pyflow.lib.data import generator as generators, padding, structure
from pyflow.lib.data.functions import ElementFunction
from pyflow.lib.data.iterator import Iterator
from pyflow.lib.data.options import Options
from pyflow.lib.files import io_functions
from pyflow.lib.sparse import sparse_functions
from pyflow.ops.base import tensors
from pyflow.ops.dataset import dataset_ops, iterator_ops

AUTOTUNE = -1


class Dataset:
    """A chain of transformations that gives elements. TF: tf.data.Dataset."""

    def __init__(self, variant_tensor, output_types, output_shapes, inputs=()):
        self._variant_tensor = variant_tensor
        self._types, self._shapes = output_types, output_shapes
        self._dataset_inputs = list(inputs)
        self._options = None

    def __repr__(self):
        return f"<{type(self).__name__} shapes: {self._shapes}, types: {self.output_types}>"

    @property
    def output_types(self):
        """A nest of DTypes, as the elements."""
        return structure.shown(self._types)

    @property
    def output_shapes(self):
        """A nest of TensorShapes, as the elements."""
        return self._shapes

    @property
    def output_classes(self):
        """A nest of classes, as the elements: tf.Tensor, tf.SparseTensor."""
        return structure.classes_of(self._types)

    def _attrs(self):
        return {"output_types": structure.flat_types(self._types),
                "output_shapes": structure.flat_shapes(self._types, self._shapes)}

    def _then(self, block, *inputs, types=None, shapes=None, **attrs):
        """The dataset of an op over this one."""
        types = self._types if types is None else types
        shapes = self._shapes if shapes is None else shapes
        variant = block(self._variant_tensor, *inputs, output_types=structure.flat_types(types),
                        output_shapes=structure.flat_shapes(types, shapes), **attrs)
        return Dataset(variant, types, shapes, [self])

    # ------------------------------------------------------------------------------- where from
    @staticmethod
    def from_tensors(tensors):
        """One element: the tensors, or a nest of them. TF: tf.data.Dataset.from_tensors."""
        return _source(dataset_ops.TensorDataset, tensors, lambda shape: shape)

    @staticmethod
    def from_tensor_slices(tensors):
        """An element for each row of dimension 0, the same for all tensors of the nest.

        ValueError for scalars and for different numbers of rows.
        TF: tf.data.Dataset.from_tensor_slices."""
        made = _source(dataset_ops.TensorSliceDataset, tensors, lambda shape: shape[1:])
        return made

    @staticmethod
    def range(*args):
        """range(stop), range(start, stop) or range(start, stop, step): int64 scalars.
        TF: tf.data.Dataset.range."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid arguments to RangeDataset: {args}")
        start, stop, step = {1: (0, *args, 1), 2: (*args, 1)}.get(len(args), args)
        start, stop, step = (_int64(value, name) for value, name in
                             ((start, "start"), (stop, "stop"), (step, "step")))
        types, shapes = dtypes.int64, TensorShape([])
        variant = dataset_ops.RangeDataset(start, stop, step, output_types=[types],
                                           output_shapes=[shapes])
        return Dataset(variant, types, shapes)

    @staticmethod
    def from_generator(generator, output_types, output_shapes=None, args=None):
        """What a Python generator yields: generator(*args) is called anew for each reading.

        output_types: a nest of DTypes, as what is yielded; output_shapes: of shapes, unknown where
        None; args: tensors, given as arrays. TypeError in the step for what does not fit.
        TF: tf.data.Dataset.from_generator."""
        types = structure.types_of(output_types)
        shapes = structure.shapes_like(types, output_shapes)
        return Dataset(generators.variant(generator, types, shapes, args), types, shapes)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None):
        """The paths that match a pattern, or any of several: scalar strings.

        shuffle: in a random order (the default), another one each round; else sorted.
        InvalidArgumentError where none matches. TF: tf.data.Dataset.list_files."""
        pattern = ops.convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
        found = io_functions.matching_files(pattern)
        some = assert_positive(
            tensors.size(found), data=["No files matched pattern: ", pattern],
            message="list_files")
        with ops.control_dependencies([some]):
            found = identity_functions.identity(found)
        dataset = Dataset.from_tensor_slices(found)
        if shuffle is None or shuffle:
            dataset = dataset.shuffle(tensors.size(found, out_type=dtypes.int64), seed=seed)
        return dataset

    @staticmethod
    def zip(datasets):
        """Elements of several datasets side by side, in the nest of the datasets; ends with the
        shortest. TypeError for what is no Dataset. TF: tf.data.Dataset.zip."""
        flat = structure.flatten(datasets)
        for dataset in flat:
            if not isinstance(dataset, Dataset):
                hint = " Write a tuple, not a list." if isinstance(datasets, list) else ""
                raise TypeError("The argument to `Dataset.zip()` must be a nested structure of "
                                f"`Dataset` objects, got {dataset!r}.{hint}")
        types = structure.pack(datasets, [d._types for d in flat])
        shapes = structure.pack(datasets, [d.output_shapes for d in flat])
        variant = dataset_ops.ZipDataset([d._variant_tensor for d in flat],
                                         output_types=structure.flat_types(types),
                                         output_shapes=structure.flat_shapes(types, shapes))
        return Dataset(variant, types, shapes, flat)

    def concatenate(self, dataset):
        """The elements of this one, then of `dataset`, which has the same types.

        TypeError for another structure or types. TF: tf.data.Dataset.concatenate."""
        structure.same(self._types, dataset._types, "datasets to concatenate")
        if structure.flatten(self._types) != structure.flatten(dataset._types):
            raise TypeError(f"Two datasets to concatenate have different types {self._types} and "
                            f"{dataset.output_types}")
        shapes = structure.map_leaves(_in_common, self._shapes, dataset.output_shapes)
        return self._then(dataset_ops.ConcatenateDataset, dataset._variant_tensor, shapes=shapes)

    # ----------------------------------------------------------------------------------- which
    def take(self, count):
        """The first `count` elements; -1: all. TF: tf.data.Dataset.take."""
        return self._then(dataset_ops.TakeDataset, _int64(count, "count"))

    def skip(self, count):
        """All but the first `count` elements; -1: none. TF: tf.data.Dataset.skip."""
        return self._then(dataset_ops.SkipDataset, _int64(count, "count"))

    def repeat(self, count=None):
        """The elements `count` times, or for ever. TF: tf.data.Dataset.repeat."""
        return self._then(dataset_ops.RepeatDataset,
                          _int64(-1 if count is None else count, "count"))

    def shard(self, num_shards, index):
        """Every num_shards-th element, from number `index` on. TF: tf.data.Dataset.shard.

        ValueError for an index outside of [0, num_shards)."""
        known = [constant_value(ops.convert_to_tensor(v)) for v in (num_shards, index)]
        if None not in known:
            if known[0] < 1:
                raise ValueError(f"num_shards must be >= 1; got {known[0]}")
            if not 0 <= known[1] < known[0]:
                raise ValueError(f"index must be in [0, {known[0]}); got {known[1]}")
        return self._then(dataset_ops.ShardDataset, _int64(num_shards, "num_shards"),
                          _int64(index, "index"))

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None):
        """The elements in a random order, drawn from a buffer of buffer_size of them.

        seed: as tf.random_uniform's. reshuffle_each_iteration: another order for each round of
        `repeat` (the default). TF: tf.data.Dataset.shuffle."""
        seed, seed2 = _seeds(seed)
        return self._then(
            dataset_ops.ShuffleDataset, _int64(buffer_size, "buffer_size"), _int64(seed, "seed"),
            _int64(seed2, "seed2"), reshuffle_each_iteration=(
                True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)))

    def enumerate(self, start=0):
        """(number, element), the numbers from `start` on. TF: tf.data.Dataset.enumerate."""
        return Dataset.zip((Dataset.range(start, 2 ** 63 - 1), self))

    def cache(self, filename=""):
        """The elements, kept by the first reading that comes to its end: later ones read those.

        filename: a file to keep them in, beyond the process; memory where it is empty.
        TF: tf.data.Dataset.cache."""
        return self._then(dataset_ops.CacheDataset,
                          ops.convert_to_tensor(filename or "", dtypes.string, name="filename"))

    # ------------------------------------------------------------------------------------- what
    def padded_batch(self, batch_size, padded_shapes, padding_values=None, drop_remainder=False):
        """`batch_size` elements side by side, each padded to padded_shapes.

        padded_shapes: a nest of shapes as the elements'; an unknown size is the largest of the
        batch. padding_values: a nest of scalars; zeros and empty strings where None.
        DataLossError in the step for elements that are larger. TF: tf.data.Dataset.padded_batch."""
        wanted = padding.shapes(padded_shapes, self._types, self._shapes)
        values = padding.values(padding_values, self._types)
        size = _int64(batch_size, "batch_size")
        known = constant_value(size) if drop_remainder is True else None
        rows = TensorShape([None if known is None else int(known)])
        shapes = structure.pack(self._types, [rows.concatenate(shape) for _, shape in wanted])
        variant = dataset_ops.PaddedBatchDatasetV2(
            self._variant_tensor, size, [tensor for tensor, _ in wanted], values,
            ops.convert_to_tensor(drop_remainder, dtypes.bool),
            Toutput_types=structure.flat_types(self._types),
            output_shapes=structure.flatten(shapes))
        return Dataset(variant, self._types, shapes, [self])

    def window(self, size, shift=None, stride=1, drop_remainder=False):
        """Datasets of `size` elements each, one for each component, in the elements' structure.

        shift: from the beginning of one to the next one's, `size` where None; stride: from one
        element of it to the next. TF: tf.data.Dataset.window."""
        spec = [structure.DatasetSpec(t, s, Dataset) for t, s in
                zip(structure.flatten(self._types), structure.flatten(self._shapes))]
        return self._then(
            dataset_ops.WindowDataset, _int64(size, "size"),
            _int64(size if shift is None else shift, "shift"), _int64(stride, "stride"),
            ops.convert_to_tensor(drop_remainder, dtypes.bool),
            types=structure.pack(self._types, spec),
            shapes=structure.map_leaves(lambda _: structure.SCALAR, self._types))

    def unbatch(self):
        """The rows of dimension 0 of the elements. TF: tf.data.experimental.unbatch.

        ValueError for scalars and components of different sizes there, InvalidArgumentError in the
        step where the shapes do not tell."""
        _check_rows(self._shapes)
        shapes = structure.map_leaves(lambda shape: shape[1:], self._shapes)
        if structure.has_sparse(self._types):   # their rows, three strings each
            rows = self.map(_rows_of).unbatch()
            return Dataset(rows._variant_tensor, self._types, shapes, [self])
        return self._then(dataset_ops.UnbatchDataset, shapes=shapes)

    def batch(self, batch_size, drop_remainder=False):
        """`batch_size` elements side by side in a new dimension 0; fewer at the end, unless
        drop_remainder. Their shapes must be equal. TF: tf.data.Dataset.batch."""
        size = _int64(batch_size, "batch_size")
        known = constant_value(size) if drop_remainder is True else None
        rows = TensorShape([None if known is None else int(known)])
        shapes = structure.map_leaves(rows.concatenate, self._shapes)
        return self._then(dataset_ops.BatchDatasetV2, size,
                          ops.convert_to_tensor(drop_remainder, dtypes.bool), shapes=shapes)

    def map(self, map_func, num_parallel_calls=None):
        """`map_func` of each element: of its components where that is a tuple.

        num_parallel_calls: how many run at once (AUTOTUNE: as many as there are threads); the
        order and the values stay the same, random ops in it included. TF: tf.data.Dataset.map."""
        return self._mapped(map_func, num_parallel_calls)

    def _mapped(self, map_func, num_parallel_calls, preserve_cardinality=False):
        """preserve_cardinality: a function that says it is at the end fails."""
        function = ElementFunction(map_func, "map", self._types, self._shapes)
        types = structure.map_leaves(_type_of, function.returned)
        shapes = structure.map_leaves(_shape_of, function.returned)
        more = [] if num_parallel_calls is None else [
            ops.convert_to_tensor(num_parallel_calls, dtypes.int32, name="num_parallel_calls")]
        block = dataset_ops.ParallelMapDataset if more else dataset_ops.MapDataset
        return self._then(block, function.captured, *more, types=types, shapes=shapes,
                          f=FunctionName(function.name), Targuments=function.captured_types,
                          preserve_cardinality=preserve_cardinality)

    def map_with_legacy_function(self, map_func, num_parallel_calls=None):
        """As `map`. TF: tf.data.Dataset.map_with_legacy_function."""
        return self.map(map_func, num_parallel_calls)

    def filter_with_legacy_function(self, predicate):
        """As `filter`. TF: tf.data.Dataset.filter_with_legacy_function."""
        return self.filter(predicate)

    def reduce(self, initial_state, reduce_func):
        """reduce_func(state, element) over all elements, from initial_state: a nest of tensors.

        TypeError where the function's structure or types are not the state's.
        TF: tf.data.Dataset.reduce."""
        state, function = self._stepping(initial_state, reduce_func, "reduce")
        types = structure.map_leaves(_type_of, state)
        structure.same(types, function.returned, "states")
        later = [_type_of(t) for t in structure.flatten(function.returned)]
        if later != structure.flatten(types):
            raise TypeError(f"The element types for the new state must match the initial state. "
                            f"Expected {types}; got {later}.")
        shapes = structure.map_leaves(lambda a, b: _in_common(a.shape, b.shape), state,
                                      function.returned)
        flat = iterator_ops.ReduceDataset(
            self._variant_tensor, [structure.unwrapped(t) for t in structure.flatten(state)],
            function.captured, f=FunctionName(function.name), Tstate=structure.flat_types(types),
            Targuments=function.captured_types, output_types=structure.flat_types(types),
            output_shapes=structure.flat_shapes(types, shapes))
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        return structure.packed(types, flat, shapes)

    def _stepping(self, initial_state, function, label):
        """The state's tensors, and the function of (state, element)."""
        state = structure.map_leaves(_component, initial_state)
        types = (structure.map_leaves(_type_of, state), self._types)
        shapes = (structure.map_leaves(lambda t: _of_rank(t.shape), state), self._shapes)
        return state, ElementFunction(function, label, types, shapes)

    def filter(self, predicate):
        """The elements for which `predicate` gives a true scalar bool.

        ValueError for a function of another result. TF: tf.data.Dataset.filter."""
        return self._judged(dataset_ops.FilterDataset, predicate, "filter")

    def _judged(self, block, predicate, label):
        function = ElementFunction(predicate, label, self._types, self._shapes)
        [verdict] = function.outputs if len(function.outputs) == 1 else [None]
        if verdict is None or verdict.dtype != dtypes.bool or \
                not verdict.shape.is_compatible_with([]):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return self._then(block, function.captured, predicate=FunctionName(function.name),
                          Targuments=function.captured_types)

    def _of_datasets(self, block, function, label, *numbers, **attrs):
        function = ElementFunction(function, label, self._types, self._shapes)
        made = function.returned
        if not isinstance(made, Dataset):
            raise TypeError(f"`map_func` must return a `Dataset` object, got {made!r}.")
        return self._then(block, function.captured, *numbers, types=made._types,
                          shapes=made.output_shapes, f=FunctionName(function.name),
                          Targuments=function.captured_types, **attrs)

    def flat_map(self, map_func):
        """The elements of the datasets that `map_func` makes of elements, one after the other.

        TypeError where it makes no Dataset. TF: tf.data.Dataset.flat_map."""
        return self._of_datasets(dataset_ops.FlatMapDataset, map_func, "flat_map")

    def interleave(self, map_func, cycle_length=AUTOTUNE, block_length=1,
                   num_parallel_calls=None):
        """The elements of the datasets that `map_func` makes, block_length of each in turn.

        cycle_length: how many are open at once. num_parallel_calls: each is read ahead of its
        turn; the order stays the same. TF: tf.data.Dataset.interleave."""
        numbers = [_int64(cycle_length, "cycle_length"), _int64(block_length, "block_length")]
        block = dataset_ops.InterleaveDataset
        if num_parallel_calls is not None:
            block = dataset_ops.ParallelInterleaveDatasetV2
            numbers.append(_int64(num_parallel_calls, "num_parallel_calls"))
        return self._of_datasets(block, map_func, "interleave", *numbers)

    def prefetch(self, buffer_size):
        """The elements, up to buffer_size of them read before they are asked for.
        TF: tf.data.Dataset.prefetch."""
        return self._then(dataset_ops.PrefetchDataset, _int64(
            -1 if buffer_size is None else buffer_size, "buffer_size"))

    def apply(self, transformation_func):
        """What the function makes of this dataset. TypeError if that is no Dataset.
        TF: tf.data.Dataset.apply."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError("`transformation_func` must return a Dataset. Got {}.".format(made))
        return made

    def options(self):
        """The Options given to it and to what it is made of. TF: tf.data.Dataset.options."""
        merged = Options()
        for dataset in self._dataset_inputs:
            merged = merged.merge(dataset.options())
        return merged.merge(self._options) if self._options is not None else merged

    def with_options(self, options):
        """This dataset, with the options; they change no element.
        TF: tf.data.Dataset.with_options."""
        if not isinstance(options, Options):
            raise TypeError(f"`options` must be a `tf.data.Options`, got {options!r}")
        made = Dataset(self._variant_tensor, self._types, self._shapes, [self])
        made._options = options
        return made

    # -------------------------------------------------------------------------------- iterators
    def make_initializable_iterator(self, shared_name=None):
        """An Iterator whose `initializer` must be run first.
        TF: tf.data.Dataset.make_initializable_iterator."""
        iterator = Iterator.from_structure(self._types, self._shapes, shared_name)
        iterator._initializer = iterator.make_initializer(self)
        return iterator

    def make_one_shot_iterator(self):
        """An Iterator that needs no initializer and reads the dataset once.

        ValueError where the dataset captures what has a state, or a placeholder.
        TF: tf.data.Dataset.make_one_shot_iterator."""
        try:
            factory = ElementFunction(lambda: self, "factory", None, None, by_value=True,
                                      allowed_stateful=_dataset_ops_of(self._variant_tensor.op))
        except ValueError as error:
            raise ValueError(
                f"Failed to create a one-shot iterator for a dataset. "
                f"`Dataset.make_one_shot_iterator()` does not support datasets that capture "
                f"stateful objects, such as a Variable or LookupTable. In these cases, consider "
                f"using `Dataset.make_initializable_iterator()`. (Original error: {error})"
            ) from None
        resource = iterator_ops.OneShotIterator(dataset_factory=FunctionName(factory.name),
                                                **self._attrs())
        return Iterator(resource, None, self._types, self._shapes)

    def __iter__(self):
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager "
                           "execution is enabled. In a graph, dataset.make_one_shot_iterator()"
                           ".get_next() is the next element, a new one in each session.run.")


# -------------------------------------------------------------------------------------- particulars
def _source(block, tensors, element_shape):
    slices = block is dataset_ops.TensorSliceDataset
    tensors = structure.map_leaves(_component, tensors)
    types = structure.map_leaves(_type_of, tensors)
    flat = structure.flatten(tensors)
    if slices:
        rows = TensorShape([None])
        for tensor in flat:
            rows = rows.merge_with(tensor.shape.with_rank_at_least(1)[:1])
    shapes = structure.map_leaves(lambda tensor: element_shape(tensor.shape), tensors)
    flat = [_rows_of(t) if slices and isinstance(t, SparseTensor) else structure.unwrapped(t)
            for t in flat]
    variant = block(flat, Toutput_types=structure.flat_types(types),
                    output_shapes=structure.flat_shapes(types, shapes))
    return Dataset(variant, types, shapes)


def _check_rows(shapes):
    """ValueError unless elements of these shapes may have as many rows each."""
    rows = TensorShape([None])
    for shape in structure.flatten(shapes):
        if shape.ndims == 0:
            raise ValueError("Cannot unbatch an input with scalar components.")
        if not rows.is_compatible_with(shape[:1]):
            raise ValueError("Cannot unbatch an input whose components have different batch sizes.")
        rows = rows.merge_with(shape[:1])


def _component(value):
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        return SparseTensor.from_value(value)
    return ops.convert_to_tensor(value, name="component")


def _rows_of(*element):
    """The components, sparse ones as three strings a row."""
    element = element[0] if len(element) == 1 else element
    return structure.map_leaves(
        lambda leaf: sparse_functions.serialize_many_sparse(leaf)
        if isinstance(leaf, SparseTensor) else leaf, element)


def _int64(value, name):
    return ops.convert_to_tensor(value, dtypes.int64, name=name)


def _seeds(seed):
    """(seed, seed2), zeros where neither the op nor the graph has one."""
    seed, seed2 = ops.get_seed(seed)
    if seed is None:
        return 0, 0
    return (seed, seed2) if (seed, seed2) != (0, 0) else (0, 2 ** 31 - 1)


def _type_of(leaf):
    if isinstance(leaf, Dataset):
        return structure.DatasetSpec(leaf._types, leaf._shapes, Dataset)
    if isinstance(leaf, SparseTensor):
        return structure.SparseSpec(leaf.dtype.base_dtype)
    return leaf.dtype.base_dtype


def _shape_of(leaf):
    return TensorShape([]) if isinstance(leaf, Dataset) else leaf.shape


def _of_rank(shape):
    """The shape with its sizes unknown: a state may change them."""
    return TensorShape(None if shape.ndims is None else [None] * shape.ndims)


def _in_common(a, b):
    """The shape that both fit."""
    if a.ndims is None or a.ndims != b.ndims:
        return TensorShape(None)
    return TensorShape([x if x == y else None for x, y in zip(a.as_list(), b.as_list())])


def _dataset_ops_of(op):
    """The dataset ops among an op and what it needs."""
    found, todo = set(), [op]
    while todo:
        op = todo.pop()
        if op in found:
            continue
        if op.type.endswith("Dataset") or op.type.endswith(("DatasetV2", "DatasetV3")):
            found.add(op)
        todo.extend(t.op for t in op.inputs)
    return found


PUBLIC = {"data.Dataset": Dataset, "data.experimental.AUTOTUNE": AUTOTUNE}
