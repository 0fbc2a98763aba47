"""Types of pyflow.contrib.crf.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
crf_binary_score = _contrib.crf.crf_binary_score
crf_decode = _contrib.crf.crf_decode
crf_log_likelihood = _contrib.crf.crf_log_likelihood
crf_log_norm = _contrib.crf.crf_log_norm
crf_sequence_score = _contrib.crf.crf_sequence_score
crf_unary_score = _contrib.crf.crf_unary_score
viterbi_decode = _contrib.crf.viterbi_decode
