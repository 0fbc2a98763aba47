"""Module paths of TensorFlow 1.x programs: `from pyflow.examples.tutorials.mnist import input_data`."""
