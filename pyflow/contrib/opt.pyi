"""Types of pyflow.contrib.opt.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
AdaMaxOptimizer = _contrib.opt.AdaMaxOptimizer
AdamWOptimizer = _contrib.opt.AdamWOptimizer
AddSignOptimizer = _contrib.opt.AddSignOptimizer
DecoupledWeightDecayExtension = _contrib.opt.DecoupledWeightDecayExtension
ExternalOptimizerInterface = _contrib.opt.ExternalOptimizerInterface
LARSOptimizer = _contrib.opt.LARSOptimizer
LazyAdamOptimizer = _contrib.opt.LazyAdamOptimizer
MomentumWOptimizer = _contrib.opt.MomentumWOptimizer
MovingAverageOptimizer = _contrib.opt.MovingAverageOptimizer
NadamOptimizer = _contrib.opt.NadamOptimizer
PowerSignOptimizer = _contrib.opt.PowerSignOptimizer
ScipyOptimizerInterface = _contrib.opt.ScipyOptimizerInterface
VariableClippingOptimizer = _contrib.opt.VariableClippingOptimizer
extend_with_decoupled_weight_decay = _contrib.opt.extend_with_decoupled_weight_decay
get_cosine_decay_fn = _contrib.opt.get_cosine_decay_fn
get_linear_decay_fn = _contrib.opt.get_linear_decay_fn
get_restart_decay_fn = _contrib.opt.get_restart_decay_fn
