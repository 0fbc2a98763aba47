"""Types of pyflow.contrib.rnn.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
AttentionCellWrapper = _contrib.rnn.AttentionCellWrapper
BasicLSTMCell = _contrib.rnn.BasicLSTMCell
BasicRNNCell = _contrib.rnn.BasicRNNCell
DeviceWrapper = _contrib.rnn.DeviceWrapper
DropoutWrapper = _contrib.rnn.DropoutWrapper
EmbeddingWrapper = _contrib.rnn.EmbeddingWrapper
GRUBlockCell = _contrib.rnn.GRUBlockCell
GRUBlockCellV2 = _contrib.rnn.GRUBlockCellV2
GRUCell = _contrib.rnn.GRUCell
InputProjectionWrapper = _contrib.rnn.InputProjectionWrapper
LSTMBlockCell = _contrib.rnn.LSTMBlockCell
LSTMBlockFusedCell = _contrib.rnn.LSTMBlockFusedCell
LSTMCell = _contrib.rnn.LSTMCell
LSTMStateTuple = _contrib.rnn.LSTMStateTuple
LayerNormBasicLSTMCell = _contrib.rnn.LayerNormBasicLSTMCell
MultiRNNCell = _contrib.rnn.MultiRNNCell
OutputProjectionWrapper = _contrib.rnn.OutputProjectionWrapper
RNNCell = _contrib.rnn.RNNCell
ResidualWrapper = _contrib.rnn.ResidualWrapper
UGRNNCell = _contrib.rnn.UGRNNCell
stack_bidirectional_dynamic_rnn = _contrib.rnn.stack_bidirectional_dynamic_rnn
stack_bidirectional_rnn = _contrib.rnn.stack_bidirectional_rnn
static_bidirectional_rnn = _contrib.rnn.static_bidirectional_rnn
static_rnn = _contrib.rnn.static_rnn
static_state_saving_rnn = _contrib.rnn.static_state_saving_rnn
transpose_batch_time = _contrib.rnn.transpose_batch_time
