"""Types of pyflow.random.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import random as _random
all_candidate_sampler = _random.all_candidate_sampler
categorical = _random.categorical
fixed_unigram_candidate_sampler = _random.fixed_unigram_candidate_sampler
gamma = _random.gamma
get_seed = _random.get_seed
learned_unigram_candidate_sampler = _random.learned_unigram_candidate_sampler
log_uniform_candidate_sampler = _random.log_uniform_candidate_sampler
multinomial = _random.multinomial
normal = _random.normal
poisson = _random.poisson
set_random_seed = _random.set_random_seed
shuffle = _random.shuffle
stateless_binomial = _random.stateless_binomial
stateless_categorical = _random.stateless_categorical
stateless_gamma = _random.stateless_gamma
stateless_multinomial = _random.stateless_multinomial
stateless_normal = _random.stateless_normal
stateless_poisson = _random.stateless_poisson
stateless_truncated_normal = _random.stateless_truncated_normal
stateless_uniform = _random.stateless_uniform
truncated_normal = _random.truncated_normal
uniform = _random.uniform
uniform_candidate_sampler = _random.uniform_candidate_sampler
