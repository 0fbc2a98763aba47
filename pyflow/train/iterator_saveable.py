"""Iterators in checkpoints: their position, random streams and buffers, as one string.

Invariants
  1. Restoring gives the exact continuation: what get_next would have given after the save.
  2. A state fits the pipeline that it was saved of; another one is refused with DataLossError.
  3. What is restored before the iterator's dataset is known waits for its initializer, which then
     goes on from it, once: so do monitored sessions, whose local initializers run after a restore.

Thread: the one building the graph.
Source: TF 1.15 tf.data.experimental.make_saveable_from_iterator.

Example:
    iterator = dataset.make_initializable_iterator()
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS,
                         tf.data.experimental.make_saveable_from_iterator(iterator))
    saver = tf.train.Saver()            # saves it beside the variables
"""
from pyflow.framework import graph as ops
from pyflow.lib.data.iterator import Iterator
from pyflow.ops.dataset import iterator_ops
from pyflow.train.saveable import SaveableObject, SaveSpec


class IteratorSaveable(SaveableObject):
    """An iterator as one scalar string of a checkpoint."""

    def __init__(self, resource):
        def state():
            with ops.colocate_with(resource):
                return iterator_ops._SaveIterator(resource)
        spec = SaveSpec(state(), "", resource.op.name + "-state")
        super().__init__(resource, [spec], resource.op.name)

    def restore(self, restored_tensors, restored_shapes):
        with ops.colocate_with(self.op):
            return iterator_ops._RestoreIterator(self.op, restored_tensors[0])


def make_saveable_from_iterator(iterator):
    """A saveable of the iterator's state: for Saver's var_list, or SAVEABLE_OBJECTS.

    Elements that hold resources or
    variants other than windows cannot be saved (UnimplementedError). TypeError for what is no
    Iterator. TF: tf.data.experimental.make_saveable_from_iterator."""
    if not isinstance(iterator, Iterator):
        raise TypeError(f"make_saveable_from_iterator takes a tf.data.Iterator, got {iterator!r}")
    return IteratorSaveable(iterator._iterator_resource)


PUBLIC = {"data.experimental.make_saveable_from_iterator": make_saveable_from_iterator,
          "contrib.data.make_saveable_from_iterator": make_saveable_from_iterator}
