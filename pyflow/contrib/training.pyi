"""Types of pyflow.contrib.training.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
GreedyLoadBalancingStrategy = _contrib.training.GreedyLoadBalancingStrategy
HParams = _contrib.training.HParams
RandomStrategy = _contrib.training.RandomStrategy
StopAfterNEvalsHook = _contrib.training.StopAfterNEvalsHook
add_gradients_summaries = _contrib.training.add_gradients_summaries
bucket = _contrib.training.bucket
bucket_by_sequence_length = _contrib.training.bucket_by_sequence_length
byte_size_load_fn = _contrib.training.byte_size_load_fn
checkpoints_iterator = _contrib.training.checkpoints_iterator
clip_gradient_norms = _contrib.training.clip_gradient_norms
clip_gradient_norms_fn = _contrib.training.clip_gradient_norms_fn
create_train_op = _contrib.training.create_train_op
evaluate_once = _contrib.training.evaluate_once
get_or_create_eval_step = _contrib.training.get_or_create_eval_step
multiply_gradients = _contrib.training.multiply_gradients
wait_for_new_checkpoint = _contrib.training.wait_for_new_checkpoint
