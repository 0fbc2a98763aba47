"""Types of pyflow.nn.rnn_cell.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import nn as _nn
BasicLSTMCell = _nn.rnn_cell.BasicLSTMCell
BasicRNNCell = _nn.rnn_cell.BasicRNNCell
DeviceWrapper = _nn.rnn_cell.DeviceWrapper
DropoutWrapper = _nn.rnn_cell.DropoutWrapper
GRUCell = _nn.rnn_cell.GRUCell
LSTMCell = _nn.rnn_cell.LSTMCell
LSTMStateTuple = _nn.rnn_cell.LSTMStateTuple
MultiRNNCell = _nn.rnn_cell.MultiRNNCell
RNNCell = _nn.rnn_cell.RNNCell
ResidualWrapper = _nn.rnn_cell.ResidualWrapper
