"""Module paths of TensorFlow 1.x programs: `from pyflow.python.framework import function`."""
