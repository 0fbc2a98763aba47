"""Types of pyflow.contrib.layers.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
apply_regularization = _contrib.layers.apply_regularization
l1_l2_regularizer = _contrib.layers.l1_l2_regularizer
l1_regularizer = _contrib.layers.l1_regularizer
l2_regularizer = _contrib.layers.l2_regularizer
recompute_grad = _contrib.layers.recompute_grad
sum_regularizer = _contrib.layers.sum_regularizer
variance_scaling_initializer = _contrib.layers.variance_scaling_initializer
xavier_initializer = _contrib.layers.xavier_initializer
xavier_initializer_conv2d = _contrib.layers.xavier_initializer_conv2d
