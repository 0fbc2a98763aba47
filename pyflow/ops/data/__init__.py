"""Stacks, lists and arrays of tensors; logging, Python functions, sound."""
