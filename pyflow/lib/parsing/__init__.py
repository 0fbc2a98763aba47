"""tf.parse_example and its kin."""
