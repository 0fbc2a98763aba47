"""Types of pyflow.contrib.distributions.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
Bernoulli = _contrib.distributions.Bernoulli
Categorical = _contrib.distributions.Categorical
Distribution = _contrib.distributions.Distribution
Normal = _contrib.distributions.Normal
Uniform = _contrib.distributions.Uniform
kl_divergence = _contrib.distributions.kl_divergence
