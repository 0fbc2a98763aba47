"""Types of pyflow.contrib.losses.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
absolute_difference = _contrib.losses.absolute_difference
add_loss = _contrib.losses.add_loss
compute_weighted_loss = _contrib.losses.compute_weighted_loss
cosine_distance = _contrib.losses.cosine_distance
get_losses = _contrib.losses.get_losses
get_regularization_losses = _contrib.losses.get_regularization_losses
get_total_loss = _contrib.losses.get_total_loss
hinge_loss = _contrib.losses.hinge_loss
log_loss = _contrib.losses.log_loss
mean_squared_error = _contrib.losses.mean_squared_error
sigmoid_cross_entropy = _contrib.losses.sigmoid_cross_entropy
softmax_cross_entropy = _contrib.losses.softmax_cross_entropy
sparse_softmax_cross_entropy = _contrib.losses.sparse_softmax_cross_entropy
