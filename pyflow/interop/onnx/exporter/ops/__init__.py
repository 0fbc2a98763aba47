"""Converters of pyflow's ops into ONNX's, a module per family."""
