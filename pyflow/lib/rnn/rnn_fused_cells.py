"""Recurrent cells whose step, or whole loop over time, is one kernel.

Invariants
  1. LSTMBlockCell has LSTMCell's variables, GRUBlockCellV2 GRUCell's, with the same layout: each
     reads the other's checkpoints.
  2. LSTMBlockFusedCell takes all time steps at once, [time, batch, inputs]; it is a layer, not a
     cell.

Thread: the one building the graph.  Source: TF 1.15, contrib.rnn (lstm_ops, gru_ops).

Example:  `outputs, state = LSTMBlockFusedCell(128)(x_time_major, dtype=tf.float32)`.
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions
from pyflow.lib.math import reductions
from pyflow.lib.nn import nn_functions
from pyflow.lib.rnn.rnn_cell import BIAS, KERNEL, LSTMStateTuple, depth_of
from pyflow.lib.rnn.rnn_cell_base import LayerRNNCell, zeros_of
from pyflow.lib.variables import initializers
from pyflow.ops.base import tensors
from pyflow.ops.rnn import gru_ops, lstm_ops


class _LSTMVariables(LayerRNNCell):
    """What the LSTM blocks share: sizes, variables, peepholes."""

    def __init__(self, num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = -1.0 if cell_clip is None else cell_clip
        self._use_peephole = use_peephole

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        """The number of units."""
        return self._num_units

    num_units = output_size

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_weight(KERNEL, [depth_of(inputs_shape) + n, 4 * n])
        self._bias = self.add_weight(BIAS, [4 * n], initializer=initializers.zeros_initializer())
        if self._use_peephole:
            self._peepholes = [self.add_weight(f"w_{gate}_diag", [n]) for gate in "ifo"]

    def _weights(self, dtype):
        """w, wci, wcf, wco, b, as the ops take them."""
        if self._use_peephole:
            return [self._kernel, *self._peepholes, self._bias]
        return [self._kernel] + [tensors.zeros([self._num_units], dtype)] * 3 + [self._bias]

    def _options(self):
        return {"forget_bias": self._forget_bias, "cell_clip": self._cell_clip,
                "use_peephole": self._use_peephole}


class LSTMBlockCell(_LSTMVariables):
    """LSTMCell whose step is one op; float32 or float16. cell_clip None: no clipping.

    TF: contrib.rnn.LSTMBlockCell."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, dtype=None,
                 reuse=None, name="lstm_cell"):
        super().__init__(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)

    def call(self, inputs, state):
        """One step. ValueError unless the state is a pair."""
        if len(state) != 2:
            raise ValueError(f"Expecting state to be a tuple with length 2, got {state}")
        _, cs, _, _, _, _, h = lstm_ops.LSTMBlockCell(
            inputs, *state, *self._weights(inputs.dtype), **self._options())
        return h, LSTMStateTuple(cs, h)


class GRUBlockCell(LayerRNNCell):
    """A GRU whose step is one op, float32; its variables are w_ru, b_ru, w_c, b_c.

    TF: contrib.rnn.GRUBlockCell."""
    _names = ("w_ru", "b_ru", "w_c", "b_c")

    def __init__(self, num_units=None, cell_size=None, reuse=None, name="gru_cell"):
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ValueError("GRUBlockCell: give num_units (or its older name cell_size)")
        self._num_units = cell_size if num_units is None else num_units

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        n = self._num_units
        rows = depth_of(inputs_shape) + n
        w_ru, b_ru, w_c, b_c = self._names
        ones, zeros = initializers.ones_initializer(), initializers.zeros_initializer()
        self._w_ru = self.add_weight(w_ru, [rows, 2 * n])
        self._b_ru = self.add_weight(b_ru, [2 * n], initializer=ones)
        self._w_c = self.add_weight(w_c, [rows, n])
        self._b_c = self.add_weight(b_c, [n], initializer=zeros)

    def call(self, inputs, state):
        """One step."""
        _, _, _, h = gru_ops.GRUBlockCell(inputs, state, self._w_ru, self._w_c, self._b_ru,
                                          self._b_c)
        return h, h


class GRUBlockCellV2(GRUBlockCell):
    """GRUBlockCell with GRUCell's variable names. TF: contrib.rnn.GRUBlockCellV2."""
    _names = ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")


class LSTMBlockFusedCell(_LSTMVariables):
    """An LSTM over all time steps as one op.

    Called as `layer(inputs, initial_state=None, dtype=None, sequence_length=None)`: inputs [time,
    batch, inputs] or a list of [batch, inputs]; returns the outputs [time, batch, units] (a list
    for a list) and the final LSTMStateTuple. ValueError without initial_state and dtype.
    TF: contrib.rnn.LSTMBlockFusedCell."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None, use_peephole=False, reuse=None,
                 dtype=None, name="lstm_fused_cell"):
        super().__init__(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)

    def __call__(self, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
        as_list = isinstance(inputs, (list, tuple))
        x = tensors.stack(inputs) if as_list else graph.convert_to_tensor(inputs)
        if x.shape.ndims != 3:
            raise ValueError(f"Expecting inputs_shape of size 3, got: {x.shape}")
        self._given = (initial_state, dtype, sequence_length)
        outputs, state = self._apply(x, None, scope)
        return tensors.unstack(outputs, num=len(inputs)) if as_list else outputs, state

    def call(self, inputs, state):
        """All steps."""
        initial_state, dtype, lengths = self._given
        steps, batch = (inputs.shape[d].value or tensors.shape(inputs)[d] for d in (0, 1))
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified")
            initial_state = [zeros_of(batch, self._num_units, dtype)] * 2
        c, h = initial_state
        longest = steps if lengths is None else reductions.reduce_max(lengths)
        _, cs, _, _, _, _, hs = lstm_ops.BlockLSTM(
            tensors.cast(longest, dtypes.int64), inputs, c, h, *self._weights(inputs.dtype),
            **self._options())
        if lengths is None:
            return hs, LSTMStateTuple(cs[-1], hs[-1])
        return self._masked(cs, hs, c, h, steps, batch, lengths)

    def _masked(self, cs, hs, c, h, steps, batch, lengths):
        """Outputs beyond each row's length are zero; its state is the one at its end."""
        lengths = tensors.cast(lengths, dtypes.int32)
        mask = nn_functions.sequence_mask(lengths, steps, dtype=hs.dtype)
        outputs = hs * tensors.expand_dims(tensors.transpose(mask), -1)
        at = tensors.stack([lengths, tensors.range_(0, batch)], axis=1)

        def last(first, whole):
            return gather_functions.gather_nd(
                tensors.concat([tensors.expand_dims(first, 0), whole], 0), at)
        return outputs, LSTMStateTuple(last(c, cs), last(h, hs))


PUBLIC = {
    "contrib.rnn.LSTMBlockCell": LSTMBlockCell, "contrib.rnn.GRUBlockCell": GRUBlockCell,
    "contrib.rnn.GRUBlockCellV2": GRUBlockCellV2,
    "contrib.rnn.LSTMBlockFusedCell": LSTMBlockFusedCell,
}
