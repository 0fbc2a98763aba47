"""Ops that stand for several: what the passes fuse."""
