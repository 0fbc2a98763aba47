"""tf.data: input pipelines of datasets, read by iterators."""
