"""tf functions that move elements: indices, slices, splits, diagonals, placeholders."""
