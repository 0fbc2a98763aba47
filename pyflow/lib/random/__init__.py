"""tf.random and tf.random_*."""
