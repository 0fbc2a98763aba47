"""Types of pyflow.losses.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import losses as _losses
Reduction = _losses.Reduction
absolute_difference = _losses.absolute_difference
add_loss = _losses.add_loss
compute_weighted_loss = _losses.compute_weighted_loss
cosine_distance = _losses.cosine_distance
get_losses = _losses.get_losses
get_regularization_loss = _losses.get_regularization_loss
get_regularization_losses = _losses.get_regularization_losses
get_total_loss = _losses.get_total_loss
hinge_loss = _losses.hinge_loss
huber_loss = _losses.huber_loss
log_loss = _losses.log_loss
mean_pairwise_squared_error = _losses.mean_pairwise_squared_error
mean_squared_error = _losses.mean_squared_error
sigmoid_cross_entropy = _losses.sigmoid_cross_entropy
softmax_cross_entropy = _losses.softmax_cross_entropy
sparse_softmax_cross_entropy = _losses.sparse_softmax_cross_entropy
