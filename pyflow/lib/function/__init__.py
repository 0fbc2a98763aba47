"""Functions that programs define: Defun, Declare, tf.function."""
