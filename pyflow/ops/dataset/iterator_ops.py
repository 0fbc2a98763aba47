"""Iterators over datasets, as resources: the blocks (classes: lib/data/iterator.py).

Invariants
  1. IteratorGetNext's static shapes are its output_shapes.
  2. _SaveIterator and _RestoreIterator are pyflow's: an iterator's state is one string.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/data runs them.
Who calls it: lib/data.  Source: TF 1.15 dataset_ops.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape

COMPONENTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"
METADATA = 'metadata: string = ""'
ANY = "output_types: list(type) >= 0 = [], output_shapes: list(shape) >= 0 = []"


def _scalar(op):
    return TensorShape([])


def _nothing(op):
    return []


def _components(op):
    return list(op.attrs["output_shapes"])


def _block(name, doc, shape_of, gradient_of=UNREGISTERED, **schema):
    @op(name, doc=f"{doc} TF: {name}." if name[0] != "_" else doc, stateful=True, **schema)
    class Block:
        shape = shape_of
        gradient = gradient_of
        reference = None
        samples = None
    return Block


NAMED = f"shared_name: string, container: string, {COMPONENTS}"
Iterator = _block("Iterator", "An iterator that MakeIterator initialises.", _scalar,
                  outputs="handle: resource", attrs=NAMED)
IteratorV2 = _block("IteratorV2", "An iterator that MakeIterator initialises.", _scalar,
                    outputs="handle: resource", attrs=NAMED)
OneShotIterator = _block(
    "OneShotIterator", "An iterator over what the function dataset_factory makes, once.", _scalar,
    outputs="handle: resource", attrs=f"dataset_factory: func, {COMPONENTS}, "
    "container: string = '', shared_name: string = ''")
MakeIterator = _block("MakeIterator", "The iterator begins with the dataset's first element.",
                      _nothing, inputs="dataset: variant, iterator: resource")
IteratorGetNext = _block(
    "IteratorGetNext", "The next element; waits for it. OutOfRangeError at the end.", _components,
    inputs="iterator: resource", outputs="components: output_types", attrs=COMPONENTS)
IteratorGetNextSync = _block(
    "IteratorGetNextSync", "The next element. OutOfRangeError at the end.", _components,
    inputs="iterator: resource", outputs="components: output_types", attrs=COMPONENTS)
IteratorGetNextAsOptional = _block(
    "IteratorGetNextAsOptional", "The next element as an optional, which has no value at the end.",
    _scalar, inputs="iterator: resource", outputs="optional: variant", attrs=COMPONENTS)
IteratorToStringHandle = _block(
    "IteratorToStringHandle", "A string that names the iterator.", _scalar,
    inputs="resource_handle: resource", outputs="string_handle: string")
IteratorFromStringHandleV2 = _block(
    "IteratorFromStringHandleV2", "The iterator that the string names.", _scalar,
    inputs="string_handle: string", outputs="resource_handle: resource", attrs=ANY)
_SaveIterator = _block("_SaveIterator", "The iterator's state, one string.", _scalar,
                       inputs="iterator: resource", outputs="state: string")
_RestoreIterator = _block("_RestoreIterator", "The iterator goes on from a state.", _nothing,
                          inputs="iterator: resource, state: string")
ReduceDataset = _block(
    "ReduceDataset", "The state that `f` makes of initial_state and each element in turn.",
    _components, gradient_of=None,
    inputs="input_dataset: variant, initial_state: Tstate, other_arguments: Targuments",
    outputs="components: output_types", attrs="f: func, Tstate: list(type) >= 1, Targuments: "
    f"list(type) >= 0, {COMPONENTS}, use_inter_op_parallelism: bool = true, {METADATA}")
DatasetToSingleElement = _block(
    "DatasetToSingleElement", "The only element of the dataset. InvalidArgumentError for none, or "
    "for more.", _components, inputs="dataset: variant", outputs="components: output_types",
    attrs=f"{COMPONENTS}, {METADATA}")
