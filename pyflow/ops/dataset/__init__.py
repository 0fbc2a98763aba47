"""Ops of tf.data: datasets as variants, and iterators over them."""
