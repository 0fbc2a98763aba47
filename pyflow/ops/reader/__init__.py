"""Readers of files that a queue names."""
