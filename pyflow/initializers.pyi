"""Types of pyflow.initializers.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import initializers as _initializers
constant = _initializers.constant
global_variables = _initializers.global_variables
glorot_normal = _initializers.glorot_normal
glorot_uniform = _initializers.glorot_uniform
he_normal = _initializers.he_normal
he_uniform = _initializers.he_uniform
identity = _initializers.identity
lecun_normal = _initializers.lecun_normal
lecun_uniform = _initializers.lecun_uniform
local_variables = _initializers.local_variables
ones = _initializers.ones
orthogonal = _initializers.orthogonal
random_normal = _initializers.random_normal
random_uniform = _initializers.random_uniform
tables_initializer = _initializers.tables_initializer
truncated_normal = _initializers.truncated_normal
uniform_unit_scaling = _initializers.uniform_unit_scaling
variables = _initializers.variables
variance_scaling = _initializers.variance_scaling
zeros = _initializers.zeros
