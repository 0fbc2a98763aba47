"""Messages as tensors, tensors as messages."""
