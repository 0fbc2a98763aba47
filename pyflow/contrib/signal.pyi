"""Types of pyflow.contrib.signal.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
frame = _contrib.signal.frame
hamming_window = _contrib.signal.hamming_window
hann_window = _contrib.signal.hann_window
inverse_stft = _contrib.signal.inverse_stft
inverse_stft_window_fn = _contrib.signal.inverse_stft_window_fn
linear_to_mel_weight_matrix = _contrib.signal.linear_to_mel_weight_matrix
mfccs_from_log_mel_spectrograms = _contrib.signal.mfccs_from_log_mel_spectrograms
overlap_and_add = _contrib.signal.overlap_and_add
stft = _contrib.signal.stft
