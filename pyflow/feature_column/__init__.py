"""tf.feature_column: how a model's input becomes numbers, and linear layers over it.

    columns.py       what columns have in common; the features they are made of, computed once
    numeric.py       numeric_column, bucketized_column
    categorical.py   ids by hash, by number, by vocabulary; crossed, weighted
    dense.py         indicators and embeddings of ids
    layers.py        input_layer, linear_model, make_parse_example_spec
    sequences.py     columns and the input layer of sequences

Dependencies: the library, train for values from checkpoints; estimator stands above.
"""
