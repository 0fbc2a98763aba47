"""tf.summary: what a program shows in TensorBoard."""
