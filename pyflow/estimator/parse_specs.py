"""What tf.parse_example needs of a canned estimator's columns, label and weight.

Thread: the one building the graph.  Source: TF 1.15 tf.estimator.classifier_parse_example_spec.
"""
import pyflow as tf


def classifier_parse_example_spec(feature_columns, label_key, label_dtype=tf.int64,
                                  label_default=None, weight_column=None):
    """{key: feature} of the columns, of a label [1] and of the weight.

    weight_column: a key or a numeric column. ValueError for a label or weight that is a feature, or
    of another form than a column wants. TF: tf.estimator.classifier_parse_example_spec."""
    return _spec(feature_columns, label_key,
                 tf.FixedLenFeature((1,), label_dtype, label_default), weight_column)


def regressor_parse_example_spec(feature_columns, label_key, label_dtype=tf.float32,
                                 label_default=None, label_dimension=1, weight_column=None):
    """The same with a label [label_dimension]. TF: tf.estimator.regressor_parse_example_spec."""
    return _spec(feature_columns, label_key,
                 tf.FixedLenFeature((label_dimension,), label_dtype, label_default), weight_column)


def _spec(feature_columns, label_key, label, weight_column):
    spec = tf.feature_column.make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise ValueError(f"label should not be used as feature. label_key: {label_key}, features: "
                         f"{spec.keys()}")
    spec[label_key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    if not hasattr(weight_column, "normalizer_fn"):
        raise TypeError("weight_column should be an instance of tf.feature_column.numeric_column. "
                        f"Given type: {type(weight_column)} value: {weight_column}")
    if weight_column.key in spec:
        raise ValueError(f"weight_column should not be used as feature. weight_column: "
                         f"{weight_column.key}, features: {spec.keys()}")
    spec.update(weight_column.parse_example_spec)
    return spec


PUBLIC = {"estimator.classifier_parse_example_spec": classifier_parse_example_spec,
          "estimator.regressor_parse_example_spec": regressor_parse_example_spec}
