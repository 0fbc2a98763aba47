"""Recurrent networks unrolled in the graph: static_rnn, static_bidirectional_rnn,
static_state_saving_rnn.

Invariants
  1. One copy of the cell's ops per time step; its variables are shared.
  2. Beyond a row's sequence_length its output is zero and its state stays; steps beyond the longest
     sequence are not computed.

Thread: the one building the graph.  Source: TF 1.15, nn.static_rnn.

Example:  `outputs, state = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)`.
"""
from pyflow.framework import dtypes, graph, nest
from pyflow.framework.tensor_shape import unknown_shape
from pyflow.lib.array import slicing_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import reductions
from pyflow.lib.rnn.rnn import first_state, keep_finished, state_dtype
from pyflow.lib.rnn.rnn_cell_base import require_cell, zeros_of
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.containers.tensor_arrays import TensorArray


def _require_inputs(inputs):
    if not nest.is_sequence(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")


def _static_batch(inputs):
    """The batch size all inputs agree on, an int or None. ValueError if a depth is not known."""
    flat = nest.flatten(inputs)
    batch = flat[0].shape.with_rank_at_least(1)[0]
    if flat[0].shape.ndims == 1:          # word ids, before an embedding
        return batch.value
    for x in flat:
        shape = x.shape.with_rank_at_least(2)
        batch = batch.merge_with(shape[0])
        if not shape[1:].is_fully_defined():
            raise ValueError("Input size (depth of inputs) must be accessible via shape inference, "
                             f"but saw shape {shape} for {x.name}.")
    return batch.value


def static_rnn(cell, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
    """`cell` over the list `inputs`, one copy of it per time step: (list of outputs, final state).

    inputs: list of [batch, input size] or of nests of such; sequence_length: int vector [batch];
    initial_state or dtype is needed. TypeError if `cell` is no cell or inputs no sequence,
    ValueError for empty inputs or shapes that do not fit. TF: nn.static_rnn."""
    require_cell("cell", cell)
    _require_inputs(inputs)
    with vs.variable_scope(scope or "rnn") as varscope:
        inputs = [nest.map_structure(graph.convert_to_tensor, x) for x in inputs]
        batch = _static_batch(inputs) or tensors.shape(nest.flatten(inputs)[0])[0]
        state = first_state(cell, initial_state, batch, dtype)
        gate = None if sequence_length is None else _LengthGate(
            sequence_length, cell, batch, state_dtype(dtype, state))
        outputs = []
        for time, x in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()
            if gate is None:
                output, state = cell(x, state)
            else:
                output, state = gate.step(time, state, lambda x=x, s=state: cell(x, s))
            outputs.append(output)
        return outputs, state


class _LengthGate:
    """Steps of rows of different lengths."""

    def __init__(self, sequence_length, cell, batch, dtype):
        lengths = graph.convert_to_tensor(sequence_length, name="sequence_length")
        if lengths.shape.ndims not in (None, 1):
            raise ValueError(f"sequence_length must be a vector of length {batch}, but saw shape: "
                             f"{lengths.shape}")
        self.lengths = tensors.cast(lengths, dtypes.int32)
        self.shortest = reductions.reduce_min(self.lengths)
        self.longest = reductions.reduce_max(self.lengths)
        self.zero = nest.map_structure(lambda s: zeros_of(batch, s, dtype), cell.output_size)

    def step(self, time, state, call):
        """(output, new state) of step `time`, an int."""
        structure, before = (self.zero, state), nest.flatten((self.zero, state))

        def some():
            after = nest.flatten(call())
            return cond(time < self.shortest, lambda: after,
                        lambda: keep_finished(time >= self.lengths, before, after))
        with graph.name_scope("rnn_step"):
            after = cond(time >= self.longest, lambda: list(before), some)
        for t, old in zip(after, before):
            if not isinstance(old, TensorArray):
                t.set_shape(old.shape)
        return nest.pack_sequence_as(structure, after)


def static_state_saving_rnn(cell, inputs, state_saver, state_name, sequence_length=None,
                            scope=None):
    """static_rnn whose state comes from, and goes back to, a state saver between steps of training.

    state_saver: has `state(name)` -> tensor and `save_state(name, tensor)` -> op; state_name: a
    name, or a nest of names like cell.state_size (ValueError otherwise). Fetching the last output
    or the state saves. TF: nn.static_state_saving_rnn.
    Dtypes, shapes, errors: as op Identity."""
    sizes = cell.state_size
    if nest.is_sequence(sizes) != nest.is_sequence(state_name):
        raise ValueError("state_name should be the same type as cell.state_size.  state_name: "
                         f"{state_name}, cell.state_size: {sizes}")
    names = nest.flatten(state_name)
    if len(names) != len(nest.flatten(sizes)):
        raise ValueError(f"#elems(state_name) != #elems(state_size): {len(names)} vs. "
                         f"{len(nest.flatten(sizes))}")
    first = nest.pack_sequence_as(sizes, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, initial_state=first, sequence_length=sequence_length,
                                scope=scope)
    saved = [state_saver.save_state(name, t) for name, t in zip(names, nest.flatten(state))]
    with graph.control_dependencies(saved):
        outputs[-1] = nest.map_structure(identity_ops.Identity, outputs[-1])
        return outputs, nest.map_structure(identity_ops.Identity, state)


# ----------------------------------------------------------------------------------- bidirectional
def _reversed_sequence(steps, lengths):
    """A list of tensors (or nests) in reverse order of time, each row within its length."""
    if lengths is None:
        return list(reversed(steps))
    flat = []
    for sequence in zip(*(nest.flatten(step) for step in steps)):
        shape = unknown_shape(sequence[0].shape.ndims)
        for t in sequence:
            shape = shape.merge_with(t.shape)
        joined = slicing_functions.reverse_sequence(tensors.stack(sequence), lengths, seq_axis=0,
                                                    batch_axis=1)
        flat.append(tensors.unstack(joined, num=len(steps)))
    return [nest.pack_sequence_as(step, list(parts)) for step, parts in zip(steps, zip(*flat))]


def static_bidirectional_rnn(cell_fw, cell_bw, inputs, initial_state_fw=None, initial_state_bw=None,
                             dtype=None, sequence_length=None, scope=None):
    """One cell forwards and one backwards over a list of inputs.

    Returns (list of [forward, backward] outputs joined in depth, forward state, backward state).
    Arguments and errors as static_rnn's. TF: nn.static_bidirectional_rnn.
    Dtypes, shapes, errors: as op ConcatV2."""
    require_cell("cell_fw", cell_fw)
    require_cell("cell_bw", cell_bw)
    _require_inputs(inputs)
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw:
            forward, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype,
                                           sequence_length, scope=fw)
        with vs.variable_scope("bw") as bw:
            backward, state_bw = static_rnn(
                cell_bw, _reversed_sequence(inputs, sequence_length), initial_state_bw, dtype,
                sequence_length, scope=bw)
    backward = _reversed_sequence(backward, sequence_length)
    flat = [tensors.concat([a, b], 1) for a, b in zip(nest.flatten(forward),
                                                      nest.flatten(backward))]
    return nest.pack_sequence_as(forward, flat), state_fw, state_bw


PUBLIC = {
    "nn.static_rnn": static_rnn, "nn.static_state_saving_rnn": static_state_saving_rnn,
    "nn.static_bidirectional_rnn": static_bidirectional_rnn,
}
PUBLIC.update({f"contrib.rnn.{name.rpartition('.')[2]}": found for name, found in PUBLIC.items()})
