"""Functions of sparse and ragged tensors."""
