"""Random numbers and sampled candidates."""
