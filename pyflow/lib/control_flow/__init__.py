"""Conditionals, loops, functions mapped over tensors, checks."""
