"""Types of pyflow.distributions.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import distributions as _distributions
Bernoulli = _distributions.Bernoulli
Categorical = _distributions.Categorical
Distribution = _distributions.Distribution
Normal = _distributions.Normal
Uniform = _distributions.Uniform
kl_divergence = _distributions.kl_divergence
