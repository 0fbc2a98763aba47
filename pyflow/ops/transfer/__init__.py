"""What leaves the graph or comes into it: files, logging, Python functions, tensors of sessions."""
