"""Stacks, lists and arrays of tensors."""
