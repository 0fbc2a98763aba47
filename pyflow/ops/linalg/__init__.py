"""Factorisations and solvers of matrices."""
