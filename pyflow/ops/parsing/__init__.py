"""Messages and sound files as tensors, tensors as messages and sound files."""
