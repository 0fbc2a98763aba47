"""Staging areas and staging maps: the blocks (classes: lib/queue/staging.py).

Invariant: an area is known by its container and shared name, or else by the node's name; there is
no handle.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/queues runs them.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape

LIMITS = "capacity: int >= 0 = 0, memory_limit: int >= 0 = 0, "
NAMED = ", container: string = '', shared_name: string = ''"
SOME, ANY = "dtypes: list(type) >= 1", "dtypes: list(type)"


def _scalar(op):
    return TensorShape([])


def _nothing(op):
    return []


def _unknown(op):
    return [unknown_shape() for _ in op.outputs]


def _keyed(op):
    return [TensorShape([]), *_unknown(op)[1:]]


def _block(name, doc, shape_of, types, inputs="", outputs=""):
    @op(name, inputs=inputs, outputs=outputs, attrs=LIMITS + types + NAMED, stateful=True,
        doc=f"{doc} TF: {name}.")
    class Block:
        shape = shape_of
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


Stage = _block("Stage", "Puts a tuple in; waits for room.", _nothing, SOME, inputs="values: dtypes")
Unstage = _block("Unstage", "Takes the first tuple; waits for it.", _unknown, SOME,
                 outputs="values: dtypes")
StagePeek = _block("StagePeek", "The tuple at a place, which stays; waits for it.", _unknown, SOME,
                   inputs="index: int32", outputs="values: dtypes")
StageSize = _block("StageSize", "The number of tuples.", _scalar, ANY, outputs="size: int32")
StageClear = _block("StageClear", "Drops all tuples.", _nothing, ANY)


def _map(prefix, kind):
    """The seven ops of a map."""
    def made(name, doc, shape_of, types, **schema):
        return _block(prefix + name, f"{doc} {kind}", shape_of, types, **schema)
    return [
        made("Stage", "Puts components under a key; waits for room.", _nothing,
             ANY + ", fake_dtypes: list(type) >= 1",
             inputs="key: int64, indices: int32, values: fake_dtypes"),
        made("Unstage", "Takes components of a key that is complete; waits for it.", _unknown, SOME,
             inputs="key: int64, indices: int32", outputs="values: dtypes"),
        made("UnstageNoKey", "Takes components of any complete key, the least.", _keyed, SOME,
             inputs="indices: int32", outputs="key: int64, values: dtypes"),
        made("Peek", "Components of a key that is complete, which stay.", _unknown, SOME,
             inputs="key: int64, indices: int32", outputs="values: dtypes"),
        made("Size", "The number of complete keys.", _scalar, ANY, outputs="size: int32"),
        made("IncompleteSize", "The number of keys that lack components.", _scalar, ANY,
             outputs="size: int32"),
        made("Clear", "Drops all keys.", _nothing, ANY)]


(MapStage, MapUnstage, MapUnstageNoKey, MapPeek, MapSize, MapIncompleteSize, MapClear) = _map(
    "Map", "In no order.")
(OrderedMapStage, OrderedMapUnstage, OrderedMapUnstageNoKey, OrderedMapPeek, OrderedMapSize,
 OrderedMapIncompleteSize, OrderedMapClear) = _map("OrderedMap", "In the order of keys.")
