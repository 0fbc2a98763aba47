"""Iterators over datasets: one-shot, initialisable, reinitialisable, feedable.

Invariants
  1. An iterator's elements have its output_types and are compatible with its output_shapes.
  2. `get_next` adds an op; each run of it takes one element. Errors.OutOfRange at the end.

Thread: the one building the graph; the ops run in steps, several at once.
Source: TF 1.15 tf.data.Iterator.

Example:
    iterator = dataset.make_initializable_iterator()
    x, y = iterator.get_next()
    sess.run(iterator.initializer)
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.lib.data import structure
from pyflow.ops.dataset import iterator_ops


class Iterator:
    """The state of reading a dataset. TF: tf.data.Iterator.

    Made by Dataset.make_one_shot_iterator, make_initializable_iterator, Iterator.from_structure
    and Iterator.from_string_handle."""

    def __init__(self, iterator_resource, initializer, output_types, output_shapes,
                 output_classes=None):
        self._iterator_resource, self._initializer = iterator_resource, initializer
        self._types = structure.with_classes(structure.types_of(output_types), output_classes)
        self._shapes = structure.shapes_like(self._types, output_shapes)
        self._classes = output_classes
        self._string_handle = None

    @staticmethod
    def from_structure(output_types, output_shapes=None, shared_name=None, output_classes=None):
        """A reinitialisable iterator: make_initializer(dataset) points it to a dataset of these
        types and shapes.

        output_types: a nest of DTypes; output_shapes: of shapes, unknown where None. shared_name:
        sessions with one name and server share it. TF: tf.data.Iterator.from_structure."""
        types = structure.with_classes(structure.types_of(output_types), output_classes)
        shapes = structure.shapes_like(types, output_shapes)
        resource = iterator_ops.IteratorV2(
            shared_name=shared_name or "", container="", output_types=structure.flat_types(types),
            output_shapes=structure.flat_shapes(types, shapes))
        return Iterator(resource, None, types, shapes, output_classes)

    @staticmethod
    def from_string_handle(string_handle, output_types, output_shapes=None, output_classes=None):
        """A feedable iterator: the one that the string names, another one each step if fed so.

        string_handle: a scalar string tensor, a value of another iterator's string_handle().
        TF: tf.data.Iterator.from_string_handle."""
        types = structure.with_classes(structure.types_of(output_types), output_classes)
        shapes = structure.shapes_like(types, output_shapes)
        handle = ops.convert_to_tensor(string_handle, dtypes.string)
        resource = iterator_ops.IteratorFromStringHandleV2(
            handle, output_types=structure.flat_types(types),
            output_shapes=structure.flat_shapes(types, shapes))
        return Iterator(resource, None, types, shapes, output_classes)

    def __repr__(self):
        return f"<tf.data.Iterator shapes: {self.output_shapes}, types: {self.output_types}>"

    @property
    def initializer(self):
        """The Operation that begins (again) with the first element. ValueError if it has none."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer: use make_initializer(dataset) "
                             "of an iterator from_structure, or make_initializable_iterator().")
        return self._initializer

    def make_initializer(self, dataset, name=None):
        """An Operation that points the iterator to the dataset's first element.

        TypeError for other types or structures, ValueError for shapes that do not fit.
        TF: tf.data.Iterator.make_initializer."""
        with ops.name_scope(name, "make_initializer") as scope:
            structure.same(self._types, dataset._types, "output types")
            for mine, given in zip(structure.flatten(self._types),
                                   structure.flatten(dataset._types)):
                if mine != given:
                    raise TypeError(f"Expected output types {self._types!r} but got dataset with "
                                    f"output types {dataset.output_types!r}.")
            for mine, given in zip(structure.flatten(self._shapes),
                                   structure.flatten(dataset.output_shapes)):
                if not mine.is_compatible_with(given):
                    raise TypeError(f"Expected output shapes compatible with {self._shapes!r} but "
                                    f"got dataset with output shapes {dataset.output_shapes!r}.")
            with ops.colocate_with(self._iterator_resource):
                return iterator_ops.MakeIterator(dataset._variant_tensor,
                                                 self._iterator_resource, name=scope)

    def get_next(self, name=None):
        """The next element: tensors in the structure of output_types; each run takes one.

        OutOfRangeError in the step where there is none. TF: tf.data.Iterator.get_next."""
        flat = iterator_ops.IteratorGetNext(
            self._iterator_resource, output_types=structure.flat_types(self._types),
            output_shapes=structure.flat_shapes(self._types, self._shapes), name=name)
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        return structure.packed(self._types, flat, self._shapes)

    def string_handle(self, name=None):
        """A scalar string tensor that names this iterator, for from_string_handle.
        TF: tf.data.Iterator.string_handle."""
        if name is None and self._string_handle is not None:
            return self._string_handle
        handle = iterator_ops.IteratorToStringHandle(self._iterator_resource, name=name)
        if name is None:
            self._string_handle = handle
        return handle

    @property
    def output_types(self):
        """A nest of DTypes."""
        return structure.shown(self._types)

    @property
    def output_shapes(self):
        """A nest of TensorShapes."""
        return self._shapes

    @property
    def output_classes(self):
        """A nest of classes: tf.Tensor, tf.SparseTensor."""
        return self._classes or structure.classes_of(self._types)


PUBLIC = {"data.Iterator": Iterator}
