"""Types of pyflow.contrib.layers.summaries.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
summarize_activation = _contrib.layers.summaries.summarize_activation
summarize_activations = _contrib.layers.summaries.summarize_activations
summarize_biases = _contrib.layers.summaries.summarize_biases
summarize_collection = _contrib.layers.summaries.summarize_collection
summarize_tensor = _contrib.layers.summaries.summarize_tensor
summarize_tensors = _contrib.layers.summaries.summarize_tensors
summarize_variables = _contrib.layers.summaries.summarize_variables
summarize_weights = _contrib.layers.summaries.summarize_weights
