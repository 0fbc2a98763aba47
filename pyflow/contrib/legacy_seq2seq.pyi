"""Types of pyflow.contrib.legacy_seq2seq.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
rnn_decoder = _contrib.legacy_seq2seq.rnn_decoder
sequence_loss = _contrib.legacy_seq2seq.sequence_loss
sequence_loss_by_example = _contrib.legacy_seq2seq.sequence_loss_by_example
