"""Symbolic differentiation: `gradients`, its loop state, custom gradients."""
