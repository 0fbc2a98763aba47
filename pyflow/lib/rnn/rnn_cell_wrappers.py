"""Cells made of cells: stacks, dropout, residual connections, devices.

Invariants
  1. A wrapper opens no variable scope of its own: wrapping a cell keeps its variables' names.
  2. MultiRNNCell keeps cell k's variables below multi_rnn_cell/cell_k.
  3. With variational_recurrent the dropout masks are drawn once per step of the session, outside
     the loop over time.

Source: Zaremba et al. 2015 (dropout), Gal and Ghahramani 2016 (variational), Wu et al. 2016
(residual).

Example:  `tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(64) for _ in range(2)])`.
"""
import hashlib
import numbers

from pyflow.framework import graph, nest
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.nn import nn_functions
from pyflow.lib.random import random_functions
from pyflow.lib.rnn.rnn_cell import LSTMStateTuple
from pyflow.lib.rnn.rnn_cell_base import RNNCell, require_cell
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import binary_ops, unary_ops


class MultiRNNCell(RNNCell):
    """Cells one on top of the other: each one's output is the next one's input.

    state_is_tuple False joins the states into one tensor. ValueError for no cells or a cell that
    stands in the list twice with state_is_tuple False; TypeError if `cells` is no list.
    TF: nn.rnn_cell.MultiRNNCell.

        >>> cells = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(n) for n in (8, 4)])
        >>> outputs, state = tf.nn.dynamic_rnn(cells, tf.ones([2, 5, 3]), dtype=tf.float32)
        >>> outputs.shape.as_list(), [s.shape.as_list() for s in state]
        ([2, 5, 4], [[2, 8], [2, 4]])
    """

    def __init__(self, cells, state_is_tuple=True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_sequence(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        for i, cell in enumerate(cells):
            require_cell(f"cells[{i}]", cell)
        nested = [c.state_size for c in cells if nest.is_sequence(c.state_size)]
        if not state_is_tuple and nested:
            raise ValueError(f"Some cells return tuples of states, but the flag state_is_tuple is "
                             f"not set. State sizes are: {[c.state_size for c in cells]}")
        self._cells = cells
        self._state_is_tuple = state_is_tuple

    def _inner_cells(self):
        return self._cells

    @property
    def state_size(self):
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self):
        return self._cells[-1].output_size

    def zero_state(self, batch_size, dtype):
        """Each cell's own zero state."""
        with graph.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs, state):
        """One step of every cell, bottom to top."""
        if self._state_is_tuple and not (nest.is_sequence(state)
                                         and len(state) == len(self._cells)):
            raise ValueError(f"Expected state to be a tuple of length {len(self._cells)}, but "
                             f"received: {state}")
        at, new_states = 0, []
        for i, cell in enumerate(self._cells):
            with vs.variable_scope(f"cell_{i}"):
                if self._state_is_tuple:
                    own = state[i]
                else:
                    own = tensors.slice_(state, [0, at], [-1, cell.state_size])
                    at += cell.state_size
                inputs, new = cell(inputs, own)
                new_states.append(new)
        if self._state_is_tuple:
            return inputs, tuple(new_states)
        return inputs, tensors.concat(new_states, 1)


# ----------------------------------------------------------------------------------------- wrappers
class _Wrapper(RNNCell):
    """A cell around `cell`; in all but `_step` it is that cell."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        require_cell("cell", cell)
        self.cell = self._cell = cell

    def __call__(self, inputs, state, scope=None):
        return self._step(inputs, state, lambda i, s: self.cell(i, s, scope=scope))

    def _inner_cells(self):
        return (self.cell,)

    @property
    def wrapped_cell(self):
        """The cell inside."""
        return self.cell

    @property
    def state_size(self):
        return self.cell.state_size

    @property
    def output_size(self):
        return self.cell.output_size

    def zero_state(self, batch_size, dtype):
        """The wrapped cell's."""
        with graph.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)


class ResidualWrapper(_Wrapper):
    """output = inputs + the cell's output, or residual_fn(inputs, output).

    TypeError or ValueError if they do not have one structure and shape.
    TF: nn.rnn_cell.ResidualWrapper."""

    def __init__(self, cell, residual_fn=None):
        super().__init__(cell)
        self._residual_fn = residual_fn

    def _step(self, inputs, state, call):
        outputs, new_state = call(inputs, state)
        return (self._residual_fn or self._sum)(inputs, outputs), new_state

    @staticmethod
    def _sum(inputs, outputs):
        nest.assert_same_structure(inputs, outputs)
        for x, y in zip(nest.flatten(inputs), nest.flatten(outputs)):
            x.shape.assert_is_compatible_with(y.shape)
        return nest.map_structure(lambda x, y: x + y, inputs, outputs)


class DeviceWrapper(_Wrapper):
    """The cell's ops on `device`. TF: nn.rnn_cell.DeviceWrapper."""

    def __init__(self, cell, device):
        super().__init__(cell)
        self._device = device

    def zero_state(self, batch_size, dtype):
        with graph.device(self._device):
            return super().zero_state(batch_size, dtype)

    def _step(self, inputs, state, call):
        with graph.device(self._device):
            return call(inputs, state)


def _not_lstm_memory(substate):
    """Dropout spares an LSTM's c and TensorArrays."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, TensorArray)


class DropoutWrapper(_Wrapper):
    """Dropout of the cell's inputs, outputs and new state, kept with the given probabilities.

    Each *_keep_prob is a number or scalar tensor; state_keep_prob spares an LSTM's c (or what
    `dropout_state_filter_visitor` says). variational_recurrent: one mask for all time steps; needs
    dtype, and input_size if inputs are dropped. ValueError for probabilities outside [0, 1].
    TF: nn.rnn_cell.DropoutWrapper."""

    def __init__(self, cell, input_keep_prob=1.0, output_keep_prob=1.0, state_keep_prob=1.0,
                 variational_recurrent=False, input_size=None, dtype=None, seed=None,
                 dropout_state_filter_visitor=None):
        super().__init__(cell, dtype=dtype)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._visitor = dropout_state_filter_visitor or _not_lstm_memory
        self._seed = seed
        self._keep = {"input": _probability("input_keep_prob", input_keep_prob),
                      "state": _probability("state_keep_prob", state_keep_prob),
                      "output": _probability("output_keep_prob", output_keep_prob)}
        self._noise = None
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must be provided")
            self._noise = self._make_noise(input_size)

    def _make_noise(self, input_size):
        noise = {}
        if _drops(self._keep["input"]):
            if input_size is None:
                raise ValueError("When variational_recurrent=True and input_keep_prob < 1.0 or is "
                                 "unknown, input_size must be provided")
            noise["input"] = self._masks("input", input_size)
        noise["state"] = self._masks("state", self.cell.state_size)
        noise["output"] = self._masks("output", self.cell.output_size)
        return noise

    def _masks(self, salt, sizes):
        flat = []
        for i, size in enumerate(nest.flatten(sizes)):
            shape = TensorShape([1]).concatenate(size if isinstance(size, TensorShape) else [size])
            flat.append(random_functions.random_uniform(shape, seed=self._salted(salt, i),
                                                        dtype=self._dtype))
        return flat

    def _salted(self, salt, index):
        if self._seed is None:
            return None
        text = f"{self._seed}{salt}_{index}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropped(self, values, which, visitor=None):
        """`values` with dropout where the visitor says so."""
        keep = self._keep[which]
        if not _drops(keep):
            return values
        number = [-1]

        def drop(wanted, value):
            if not isinstance(wanted, bool):
                parts = [drop(w, v) for w, v in zip(wanted, value)]
                return nest.pack_sequence_as(value, nest.flatten(parts))
            if wanted and nest.is_sequence(value):
                return nest.map_structure(lambda v: drop(True, v), value)
            number[0] += 1
            return self._dropout(value, which, number[0], keep) if wanted else value
        return drop(_wanted(visitor, values), values)

    def _dropout(self, value, which, index, keep):
        if self._noise is None:
            return nn_functions.dropout(value, keep_prob=keep, seed=self._salted(which, index))
        with graph.colocate_with(value):
            kept = graph.convert_to_tensor(keep, dtype=value.dtype)
            mask = unary_ops.Floor(kept + self._noise[which][index])
            result = binary_ops.RealDiv(value, kept) * mask
            result.set_shape(value.shape)
            return result

    def _step(self, inputs, state, call):
        inputs = self._dropped(inputs, "input")
        output, new_state = call(inputs, state)
        new_state = self._dropped(new_state, "state", self._visitor)
        return self._dropped(output, "output"), new_state


def _wanted(visitor, values):
    """Where dropout applies: True, False, or a nest of them beside `values`."""
    if visitor is None:
        return True
    if nest.is_sequence(values) and visitor(values) is True:
        return tuple(_wanted(visitor, v) for v in values)
    return visitor(values)


def _probability(name, value):
    if not isinstance(value, numbers.Real):
        return graph.convert_to_tensor(value)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"Parameter {name} must be between 0 and 1: {value:g}")
    return float(value)


def _drops(keep):
    return not isinstance(keep, float) or keep < 1.0


PUBLIC = {
    "nn.rnn_cell.MultiRNNCell": MultiRNNCell, "nn.rnn_cell.ResidualWrapper": ResidualWrapper,
    "nn.rnn_cell.DeviceWrapper": DeviceWrapper, "nn.rnn_cell.DropoutWrapper": DropoutWrapper,
}
PUBLIC.update({f"contrib.rnn.{name.rpartition('.')[2]}": found for name, found in PUBLIC.items()})
