"""Ops that move elements: shapes, slices, joins, pads, gathers, diagonals."""
