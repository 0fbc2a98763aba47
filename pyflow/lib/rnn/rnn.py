"""Recurrent networks over time as a loop: dynamic_rnn, bidirectional_dynamic_rnn, raw_rnn.

Invariants
  1. Inside, time is the first dimension; batch-major inputs and outputs are transposed.
  2. Beyond a row's sequence_length its output is zero and its state stays as it is.
  3. Inputs are read from, and outputs written to, TensorArrays, one element per time step; the loop
     ends at the longest sequence.

Thread: the one building the graph.  Source: TF 1.15, nn.dynamic_rnn and nn.raw_rnn.

Example:  `outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=n, dtype=tf.float32)`.
"""
from pyflow.framework import dtypes, graph, nest
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.array import slicing_functions
from pyflow.lib.control_flow import logging_functions, while_loop as loops
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.rnn.rnn_cell_base import require_cell, with_batch, zeros_of
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import binary_ops, logic_ops


# ------------------------------------------------------------------------------------ shared pieces
def swap_batch_and_time(x):
    """[a, b, ...] -> [b, a, ...], as far as the rank is known to be 2 or more."""
    rank = x.shape.ndims
    if rank is not None and rank < 2:
        raise ValueError(f"Expected tensor {x.name} to have rank at least 2, but saw shape: "
                         f"{x.shape}")
    if rank is None:
        order = tensors.concat([[1, 0], tensors.range_(2, tensors.rank(x))], 0)
    else:
        order = [1, 0] + list(range(2, rank))
    return tensors.transpose(x, order)


def batch_size_of(flat_inputs):
    """The batch size of time-major inputs: an int if it is known, else a scalar tensor."""
    for x in flat_inputs:
        if x.shape.ndims is None:
            continue
        if x.shape.ndims < 2:
            raise ValueError(f"Expected input tensor {x.name} to have rank at least 2, but saw "
                             f"shape: {x.shape}")
        if x.shape[1].value is not None:
            return x.shape[1].value
    return tensors.shape(flat_inputs[0])[1]


def state_dtype(dtype, state):
    """`dtype`, or the one type of the state's tensors. ValueError if they differ."""
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    found = {t.dtype.base_dtype for t in nest.flatten(state)}
    if not found:
        raise ValueError("Unable to infer dtype from empty state.")
    if len(found) > 1:
        raise ValueError("State has tensors of different inferred_dtypes. Unable to infer a single "
                         f"representative dtype: {sorted(t.name for t in found)}. Give dtype.")
    return found.pop()


def first_state(cell, initial_state, batch_size, dtype):
    """The given initial state, or the cell's."""
    if initial_state is not None:
        return initial_state
    if not dtype:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def lengths_of(sequence_length, batch_size=None):
    """sequence_length as an int32 vector, checked to have `batch_size` elements in the step."""
    lengths = tensors.cast(graph.convert_to_tensor(sequence_length), dtypes.int32)
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(f"sequence_length must be a vector of length batch_size, but saw shape: "
                         f"{lengths.shape}")
    lengths = identity_ops.Identity(lengths, name="sequence_length")
    if batch_size is None:
        return lengths
    known = lengths.shape[0].value if lengths.shape.ndims else None
    if isinstance(batch_size, int) and known is not None:
        if known != batch_size:
            raise ValueError(f"sequence_length must be a vector of length batch_size = "
                             f"{batch_size}, but saw shape: {lengths.shape}")
        return lengths
    shape = tensors.shape(lengths)
    fits = reductions.reduce_all(tensors.equal(shape, tensors.reshape(batch_size, [1])))
    check = logging_functions.Assert(fits, [f"Expected shape for Tensor {lengths.name} is ",
                                            batch_size, " but saw shape: ", shape])
    with graph.control_dependencies([check]):
        return identity_ops.Identity(lengths, name="CheckSeqLen")


def keep_finished(finished, old, new):
    """Rows of `old` where `finished`, else of `new`; scalars and TensorArrays are the new ones."""
    def choose(before, after):
        if isinstance(before, TensorArray) or before.shape.ndims == 0:
            return after
        with graph.colocate_with(after):
            chosen = logic_functions.where(finished, before, after)
        chosen.set_shape(before.shape)
        return chosen
    return nest.map_structure(choose, old, new)


# -------------------------------------------------------------------------------------- dynamic_rnn
def dynamic_rnn(cell, inputs, sequence_length=None, initial_state=None, dtype=None,
                parallel_iterations=None, swap_memory=False, time_major=False, scope=None):
    """`cell` over the time steps of `inputs`, fully unrolled in a loop: (outputs, final state).

    inputs: [batch, time, ...] (or [time, batch, ...] with time_major), or a nest of such;
    sequence_length: int vector [batch]; initial_state or dtype is needed. outputs: [batch, time] +
    cell.output_size, like time_major. parallel_iterations, swap_memory: as for tf.while_loop.
    scope: a variable scope, default "rnn". TypeError if `cell` is no cell, ValueError for shapes
    that do not fit. TF: nn.dynamic_rnn.

        >>> cell = tf.nn.rnn_cell.GRUCell(4)
        >>> outputs, state = tf.nn.dynamic_rnn(cell, tf.ones([2, 5, 3]), dtype=tf.float32)
        >>> outputs.shape.as_list(), state.shape.as_list()
        ([2, 5, 4], [2, 4])
    """
    require_cell("cell", cell)
    with vs.variable_scope(scope or "rnn"):
        flat = [graph.convert_to_tensor(x) for x in nest.flatten(inputs)]
        if not time_major:
            flat = [swap_batch_and_time(x) for x in flat]
        batch = batch_size_of(flat)
        if sequence_length is not None:
            sequence_length = lengths_of(sequence_length, batch)
        state = first_state(cell, initial_state, batch, dtype)
        network = _DynamicLoop(cell, nest.pack_sequence_as(inputs, flat), flat, batch, state, dtype,
                               sequence_length)
        outputs, state = network.run(parallel_iterations or 32, swap_memory)
        if not time_major:
            outputs = nest.map_structure(swap_batch_and_time, outputs)
        return outputs, state


class _DynamicLoop:
    """One network while its loop is built; inputs are time-major."""

    def __init__(self, cell, inputs, flat_inputs, batch, state, dtype, lengths):
        self.cell, self.inputs, self.flat_inputs = cell, inputs, flat_inputs
        self.batch, self.state, self.lengths = batch, state, lengths
        self.dtype = state_dtype(dtype, state)
        self.steps = tensors.shape(flat_inputs[0])[0]
        self.static_steps, self.static_batch = self._static_sizes()
        with graph.name_scope("dynamic_rnn") as base:
            self.base_name = base

    def _static_sizes(self):
        shapes = [x.shape.with_rank_at_least(3) for x in self.flat_inputs]
        for x, shape in zip(self.flat_inputs, shapes):
            if not shape[2:].is_fully_defined():
                raise ValueError("Input size (depth of inputs) must be accessible via shape "
                                 f"inference, but saw value None for {x.name} of shape {shape}.")
        sizes = [[s[d].value for s in shapes] for d in (0, 1)]
        for found, what in zip(sizes, ("Time steps is", "Batch_size is")):
            if len(set(found)) > 1:
                raise ValueError(f"{what} not the same for all the elements in the input in a "
                                 f"batch: {found}.")
        return sizes[0][0], sizes[1][0]

    def _array(self, name, dtype, element_shape):
        return TensorArray(dtype, size=self.steps, element_shape=element_shape,
                           tensor_array_name=self.base_name + name)

    def _output_shape(self, size):
        if isinstance(size, graph.Tensor):
            return TensorShape(None)
        return with_batch(self.static_batch, size)[1]

    def run(self, parallel_iterations, swap_memory):
        """(time-major outputs, final state)."""
        sizes = nest.flatten(self.cell.output_size)
        self.zero_output = nest.pack_sequence_as(
            self.cell.output_size, [zeros_of(self.batch, s, self.dtype) for s in sizes])
        bound = self.steps
        if self.lengths is not None:      # one step at least: the arrays learn their shape
            longest = binary_ops.Maximum(1, reductions.reduce_max(self.lengths))
            bound = binary_ops.Minimum(self.steps, longest)
        written = tuple(self._array(f"output_{i}", self.dtype, self._output_shape(s))
                        for i, s in enumerate(sizes))
        self.read = [self._array(f"input_{i}", x.dtype, x.shape[1:]).unstack(x)
                     for i, x in enumerate(self.flat_inputs)]
        time = graph.constant(0, dtype=dtypes.int32, name="time")
        _, written, state = loops.while_loop(
            lambda t, *_: t < bound, self._step, (time, written, self.state),
            parallel_iterations=parallel_iterations, maximum_iterations=self.steps,
            swap_memory=swap_memory)
        outputs = [array.stack() for array in written]
        for output, size in zip(outputs, sizes):
            output.set_shape(TensorShape([self.static_steps])
                             .concatenate(self._output_shape(size)))
        return nest.pack_sequence_as(self.cell.output_size, outputs), state

    def _step(self, time, written, state):
        now = [array.read(time) for array in self.read]
        for x, whole in zip(now, self.flat_inputs):
            x.set_shape(whole.shape[1:])
        output, new_state = self.cell(nest.pack_sequence_as(self.inputs, now), state)
        if self.lengths is not None:
            nest.assert_same_structure(self.zero_output, output)
            nest.assert_same_structure(state, new_state)
            finished = time >= self.lengths
            output = keep_finished(finished, self.zero_output, output)
            new_state = keep_finished(finished, state, new_state)
        written = tuple(array.write(time, y) for array, y in zip(written, nest.flatten(output)))
        return time + 1, written, new_state


def bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, sequence_length=None, initial_state_fw=None,
                              initial_state_bw=None, dtype=None, parallel_iterations=None,
                              swap_memory=False, time_major=False, scope=None):
    """One cell forwards and one backwards: ((outputs_fw, outputs_bw), (state_fw, state_bw)).

    Arguments as dynamic_rnn's; the backward cell sees each row reversed within its
    sequence_length, and its outputs are put back in order. TF: nn.bidirectional_dynamic_rnn.
    Dtypes, shapes, errors: as ops ReverseSequence and ReverseV2."""
    require_cell("cell_fw", cell_fw)
    require_cell("cell_bw", cell_bw)
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reversed_in_time(x):
        if sequence_length is not None:
            return slicing_functions.reverse_sequence(x, sequence_length, seq_axis=time_axis,
                                                      batch_axis=batch_axis)
        return slicing_functions.reverse(x, [time_axis])
    shared = dict(sequence_length=sequence_length, dtype=dtype, swap_memory=swap_memory,
                  parallel_iterations=parallel_iterations, time_major=time_major)
    with vs.variable_scope(scope or "bidirectional_rnn"):
        with vs.variable_scope("fw") as fw:
            outputs_fw, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw,
                                               scope=fw, **shared)
        with vs.variable_scope("bw") as bw:
            with graph.name_scope("reverse"):
                backwards = nest.map_structure(
                    lambda x: reversed_in_time(graph.convert_to_tensor(x)), inputs)
            outputs_bw, state_bw = dynamic_rnn(cell_bw, backwards, initial_state=initial_state_bw,
                                               scope=bw, **shared)
    outputs_bw = nest.map_structure(reversed_in_time, outputs_bw)
    return (outputs_fw, outputs_bw), (state_fw, state_bw)


# ------------------------------------------------------------------------------------------ raw_rnn
def raw_rnn(cell, loop_fn, parallel_iterations=None, swap_memory=False, scope=None):
    """A recurrent loop in which `loop_fn` decides inputs, outputs and the end.

    loop_fn(time, cell_output, cell_state, loop_state) -> (finished [batch] bool, next_input,
    next_cell_state, emit_output, next_loop_state); called first with time 0 and None for the rest,
    where it gives the initial state and, in emit_output, the structure of what is emitted (None:
    the cell's outputs). Rows that have finished emit zeros and keep their state. Returns the
    TensorArray (or nest of them) of what was emitted, the final state and the final loop_state.
    TypeError if `cell` is no cell or loop_fn is not callable. TF: nn.raw_rnn."""
    require_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with vs.variable_scope(scope or "rnn"):
        time = graph.constant(0, dtype=dtypes.int32)
        finished, inputs, state, emitted, loop_state = loop_fn(time, None, None, None)
        has_loop_state = loop_state is not None
        if not has_loop_state:
            loop_state = graph.constant(0, dtype=dtypes.int32)
        nest.assert_same_structure(state, cell.state_size, check_types=False)
        state = nest.map_structure(graph.convert_to_tensor, state)
        static_batch = _common_batch(nest.flatten(inputs))
        batch = static_batch or tensors.shape(nest.flatten(inputs)[0])[0]
        arrays, zeros = _emission(cell, emitted, state, batch, static_batch)
        body = _raw_body(cell, loop_fn, zeros)
        results = loops.while_loop(
            lambda t, done, *_: logic_ops.LogicalNot(reductions.reduce_all(done)), body,
            [time, finished, inputs, arrays, state, loop_state],
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory)
        arrays, state, loop_state = results[-3:]
        return arrays, state, loop_state if has_loop_state else None


def _common_batch(flat_inputs):
    batch = flat_inputs[0].shape[0] if flat_inputs[0].shape.ndims else as_shape([None])[0]
    for x in flat_inputs:
        if x.shape.ndims:
            batch = batch.merge_with(x.shape[0])
    return batch.value


def _emission(cell, emitted, state, batch, static_batch):
    """(growing TensorArrays, zeros of one step), structured as what loop_fn emits."""
    if emitted is None:
        structure, dtype = cell.output_size, nest.flatten(state)[0].dtype
        kinds = [(size, dtype) for size in nest.flatten(structure)]
    else:
        structure = emitted
        kinds = [(e.shape if e.shape.is_fully_defined() else tensors.shape(e), e.dtype)
                 for e in nest.flatten(emitted)]
    arrays = []
    for i, (size, dtype) in enumerate(kinds):
        known = TensorShape(None) if isinstance(size, graph.Tensor) else \
            with_batch(static_batch, size)[1]
        arrays.append(TensorArray(dtype, size=0, dynamic_size=True, element_shape=known,
                                  tensor_array_name=f"rnn_output_{i}"))
    zeros = [zeros_of(batch, size, dtype) for size, dtype in kinds]
    return nest.pack_sequence_as(structure, arrays), nest.pack_sequence_as(structure, zeros)


def _raw_body(cell, loop_fn, zeros):
    def body(time, finished, inputs, arrays, state, loop_state):
        output, cell_state = cell(inputs, state)
        nest.assert_same_structure(state, cell_state)
        nest.assert_same_structure(cell.output_size, output)
        done, next_inputs, next_state, emitted, next_loop_state = loop_fn(
            time + 1, output, cell_state, loop_state)
        nest.assert_same_structure(state, next_state)
        nest.assert_same_structure(inputs, next_inputs)
        nest.assert_same_structure(arrays, emitted)
        emitted = keep_finished(finished, zeros, emitted)
        next_state = keep_finished(finished, state, next_state)
        arrays = nest.map_structure(lambda array, e: array.write(time, e), arrays, emitted)
        return (time + 1, logic_ops.LogicalOr(finished, done), next_inputs, arrays, next_state,
                loop_state if next_loop_state is None else next_loop_state)
    return body


PUBLIC = {
    "nn.dynamic_rnn": dynamic_rnn, "nn.bidirectional_dynamic_rnn": bidirectional_dynamic_rnn,
    "nn.raw_rnn": raw_rnn,
}
