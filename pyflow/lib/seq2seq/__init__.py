"""Decoders, their helpers, attention and beam search."""
