"""Types of pyflow.contrib.legacy_seq2seq.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
attention_decoder = _contrib.legacy_seq2seq.attention_decoder
basic_rnn_seq2seq = _contrib.legacy_seq2seq.basic_rnn_seq2seq
embedding_attention_decoder = _contrib.legacy_seq2seq.embedding_attention_decoder
embedding_attention_seq2seq = _contrib.legacy_seq2seq.embedding_attention_seq2seq
embedding_rnn_decoder = _contrib.legacy_seq2seq.embedding_rnn_decoder
embedding_rnn_seq2seq = _contrib.legacy_seq2seq.embedding_rnn_seq2seq
embedding_tied_rnn_seq2seq = _contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq
model_with_buckets = _contrib.legacy_seq2seq.model_with_buckets
one2many_rnn_seq2seq = _contrib.legacy_seq2seq.one2many_rnn_seq2seq
rnn_decoder = _contrib.legacy_seq2seq.rnn_decoder
sequence_loss = _contrib.legacy_seq2seq.sequence_loss
sequence_loss_by_example = _contrib.legacy_seq2seq.sequence_loss_by_example
tied_rnn_seq2seq = _contrib.legacy_seq2seq.tied_rnn_seq2seq
