"""Types of pyflow.contrib.slim.learning.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
add_gradients_summaries = _contrib.slim.learning.add_gradients_summaries
clip_gradient_norms = _contrib.slim.learning.clip_gradient_norms
create_train_op = _contrib.slim.learning.create_train_op
multiply_gradients = _contrib.slim.learning.multiply_gradients
train = _contrib.slim.learning.train
train_step = _contrib.slim.learning.train_step
