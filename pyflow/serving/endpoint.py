"""One signature of a graph in a session: arrays in, arrays out.

Invariants
    1. The plan is compiled when the endpoint is made: what is missing for it is said then.
    2. Inputs and outputs are in the order of their names.
    3. `batchable` goes from True to False alone: when a batch's output had not a row for each row.

Threads: `run` from any number of threads at once.

    endpoint = Endpoint(session, "serving_default", signature_def)
    [y] = endpoint.run([x], timeout_ms=0)
"""
import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.saved_model import keys, signatures
from pyflow.serving import tensors


class Endpoint:
    """A SignatureDef's inputs and outputs as `tensors.Spec`s, and the step between them.

    Raises what compiling raises: KeyError for a tensor the graph lacks, tf.errors for ops without
    a kernel; UnimplementedError for sparse inputs or outputs.
    """

    def __init__(self, session, name, signature):
        self.name, self.method = name, signature.method_name
        self.inputs = _specs(session.graph, signature.inputs, "input", name)
        self.outputs = _specs(session.graph, signature.outputs, "output", name)
        if not self.outputs:
            raise errors.InvalidArgumentError(None, None, f"signature {name!r} has no outputs")
        self._call = session.make_callable([spec.tensor for spec in self.outputs],
                                           [spec.tensor for spec in self.inputs],
                                           accept_options=True)
        self.batchable = self._is_batchable()

    @property
    def takes_examples(self):
        """True if what it is fed are serialised tf.train.Examples."""
        if len(self.inputs) != 1 or self.inputs[0].dtype != dtypes.string:
            return False
        return (self.method in (keys.CLASSIFY_METHOD_NAME, keys.REGRESS_METHOD_NAME)
                or self.inputs[0].name in (keys.CLASSIFY_INPUTS, "examples"))

    def _is_batchable(self):
        """True if the first dimension of all inputs and outputs is open: each row is an item."""
        return (bool(self.inputs)
                and all(s.dims and s.dims[0] is None for s in self.inputs)
                and all(s.dims is None or s.dims and s.dims[0] is None for s in self.outputs))

    def run(self, arrays, timeout_ms=0):
        """[array] of the outputs. timeout_ms: 0 for none; DeadlineExceededError after it."""
        if not timeout_ms:
            return self._arrays(self._call(*arrays))
        from pyflow.framework import protos
        return self._arrays(self._call(*arrays,
                                       options=protos.RunOptions(timeout_in_ms=timeout_ms)))

    @staticmethod
    def _arrays(results):
        """A text alone comes from a step as bytes."""
        return [np.array(r, object) if type(r) is bytes else r for r in results]


def _specs(graph, infos, what, signature):
    found = []
    for key, tensor_name in signatures.names_of(infos, what, signature).items():
        tensor = graph.get_tensor_by_name(tensor_name)
        shape = tensor.get_shape()
        dims = None if shape.ndims is None else tuple(shape.as_list())
        found.append(tensors.Spec(key, tensor.dtype.base_dtype, dims, tensor))
    return found
