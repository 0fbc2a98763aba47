"""tf.strings and tf.string_*."""
