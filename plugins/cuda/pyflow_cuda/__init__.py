"""NVIDIA GPUs for pyflow: a plugin like any other.

The package holds `libpyflow_cuda.so` and `plugin.json`, what the plugin offers, generated from its tables when it was
built and read by pyflow before the library is opened.  There is nothing to call here.
"""
