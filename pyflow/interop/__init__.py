"""Graphs to and from other forms: freezing, sub-graphs, ONNX; other runtimes' interfaces."""
