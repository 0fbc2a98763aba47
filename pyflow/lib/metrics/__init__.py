"""tf.metrics: averages over a stream of batches, kept in local variables."""
