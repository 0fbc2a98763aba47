"""Parts of tf.contrib that stand on the rest of the library: vocabularies, hyper-parameters, linear-chain
CRFs, losses in contrib's argument order, distributions."""
