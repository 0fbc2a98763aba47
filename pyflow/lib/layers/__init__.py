"""tf.layers: layers that own variables, and functions that make and call them once."""
