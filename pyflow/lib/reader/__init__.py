"""tf.TextLineReader and its kin."""
