"""Functions that programs define: Defun, Declare, tf.function, and gradients of calls."""
