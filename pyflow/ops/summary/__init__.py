"""Summaries of values for TensorBoard."""
