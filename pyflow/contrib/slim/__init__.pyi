"""Types of pyflow.contrib.slim.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
add_arg_scope = _contrib.slim.add_arg_scope
add_model_variable = _contrib.slim.add_model_variable
apply_regularization = _contrib.slim.apply_regularization
arg_scope = _contrib.slim.arg_scope
arg_scoped_arguments = _contrib.slim.arg_scoped_arguments
assign_from_checkpoint = _contrib.slim.assign_from_checkpoint
assign_from_checkpoint_fn = _contrib.slim.assign_from_checkpoint_fn
assign_from_values = _contrib.slim.assign_from_values
assign_from_values_fn = _contrib.slim.assign_from_values_fn
avg_pool2d = _contrib.slim.avg_pool2d
avg_pool3d = _contrib.slim.avg_pool3d
batch_norm = _contrib.slim.batch_norm
bias_add = _contrib.slim.bias_add
conv1d = _contrib.slim.conv1d
conv2d = _contrib.slim.conv2d
conv2d_in_plane = _contrib.slim.conv2d_in_plane
conv2d_transpose = _contrib.slim.conv2d_transpose
conv3d = _contrib.slim.conv3d
conv3d_transpose = _contrib.slim.conv3d_transpose
convolution = _contrib.slim.convolution
convolution1d = _contrib.slim.convolution1d
convolution2d = _contrib.slim.convolution2d
convolution2d_in_plane = _contrib.slim.convolution2d_in_plane
convolution2d_transpose = _contrib.slim.convolution2d_transpose
convolution3d = _contrib.slim.convolution3d
convolution3d_transpose = _contrib.slim.convolution3d_transpose
dropout = _contrib.slim.dropout
elu = _contrib.slim.elu
embed_sequence = _contrib.slim.embed_sequence
from . import evaluation as evaluation
filter_variables = _contrib.slim.filter_variables
flatten = _contrib.slim.flatten
fully_connected = _contrib.slim.fully_connected
get_local_variables = _contrib.slim.get_local_variables
get_model_variables = _contrib.slim.get_model_variables
get_trainable_variables = _contrib.slim.get_trainable_variables
get_unique_variable = _contrib.slim.get_unique_variable
get_variable_full_name = _contrib.slim.get_variable_full_name
get_variables = _contrib.slim.get_variables
get_variables_by_name = _contrib.slim.get_variables_by_name
get_variables_by_suffix = _contrib.slim.get_variables_by_suffix
get_variables_to_restore = _contrib.slim.get_variables_to_restore
global_variable = _contrib.slim.global_variable
group_norm = _contrib.slim.group_norm
has_arg_scope = _contrib.slim.has_arg_scope
instance_norm = _contrib.slim.instance_norm
l1_l2_regularizer = _contrib.slim.l1_l2_regularizer
l1_regularizer = _contrib.slim.l1_regularizer
l2_regularizer = _contrib.slim.l2_regularizer
layer_norm = _contrib.slim.layer_norm
from pyflow.contrib import layers as layers
from . import learning as learning
linear = _contrib.slim.linear
local_variable = _contrib.slim.local_variable
from pyflow.contrib import losses as losses
max_pool2d = _contrib.slim.max_pool2d
max_pool3d = _contrib.slim.max_pool3d
maxout = _contrib.slim.maxout
from pyflow.contrib import metrics as metrics
from . import model_analyzer as model_analyzer
model_variable = _contrib.slim.model_variable
one_hot_encoding = _contrib.slim.one_hot_encoding
optimize_loss = _contrib.slim.optimize_loss
pool = _contrib.slim.pool
relu = _contrib.slim.relu
relu6 = _contrib.slim.relu6
repeat = _contrib.slim.repeat
scale_gradient = _contrib.slim.scale_gradient
separable_conv2d = _contrib.slim.separable_conv2d
separable_convolution2d = _contrib.slim.separable_convolution2d
softmax = _contrib.slim.softmax
spatial_softmax = _contrib.slim.spatial_softmax
stack = _contrib.slim.stack
sum_regularizer = _contrib.slim.sum_regularizer
summarize_activation = _contrib.slim.summarize_activation
summarize_activations = _contrib.slim.summarize_activations
summarize_biases = _contrib.slim.summarize_biases
summarize_collection = _contrib.slim.summarize_collection
summarize_tensor = _contrib.slim.summarize_tensor
summarize_tensors = _contrib.slim.summarize_tensors
summarize_variables = _contrib.slim.summarize_variables
summarize_weights = _contrib.slim.summarize_weights
unit_norm = _contrib.slim.unit_norm
from . import utils as utils
variable = _contrib.slim.variable
variance_scaling_initializer = _contrib.slim.variance_scaling_initializer
xavier_initializer = _contrib.slim.xavier_initializer
xavier_initializer_conv2d = _contrib.slim.xavier_initializer_conv2d
