"""Converters, a module per family of ops; see ../registry.py."""
