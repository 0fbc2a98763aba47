"""Types of pyflow.contrib.rnn.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
BasicLSTMCell = _contrib.rnn.BasicLSTMCell
BasicRNNCell = _contrib.rnn.BasicRNNCell
DeviceWrapper = _contrib.rnn.DeviceWrapper
DropoutWrapper = _contrib.rnn.DropoutWrapper
GRUBlockCell = _contrib.rnn.GRUBlockCell
GRUBlockCellV2 = _contrib.rnn.GRUBlockCellV2
GRUCell = _contrib.rnn.GRUCell
LSTMBlockCell = _contrib.rnn.LSTMBlockCell
LSTMBlockFusedCell = _contrib.rnn.LSTMBlockFusedCell
LSTMCell = _contrib.rnn.LSTMCell
LSTMStateTuple = _contrib.rnn.LSTMStateTuple
MultiRNNCell = _contrib.rnn.MultiRNNCell
RNNCell = _contrib.rnn.RNNCell
ResidualWrapper = _contrib.rnn.ResidualWrapper
static_bidirectional_rnn = _contrib.rnn.static_bidirectional_rnn
static_rnn = _contrib.rnn.static_rnn
static_state_saving_rnn = _contrib.rnn.static_state_saving_rnn
