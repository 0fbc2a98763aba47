"""tensorflow.python.feature_column.feature_column: `_DenseColumn`, for columns of other libraries.

    class Length(feature_column._DenseColumn):
        name, _parse_example_spec = "length", {"text": tf.FixedLenFeature([1], tf.string)}
        _variable_shape = tf.TensorShape([1])
        def _transform_feature(self, inputs): return inputs.get("text")
        def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
            return tf.to_float(tf.strings.length(inputs.get(self)))

Callers: tensorflow_hub's text_embedding_column. Thread: the one building the graph.
"""
from pyflow.feature_column.columns import DenseColumn


class _DenseColumn(DenseColumn):
    """A column of numbers by the methods that TensorFlow's columns had in 1.4 to 1.11."""

    @property
    def parse_example_spec(self):
        """What parses its features: _parse_example_spec of the subclass."""
        return self._parse_example_spec

    @property
    def variable_shape(self):
        """The shape of an example: _variable_shape of the subclass."""
        return self._variable_shape

    def transformed(self, features):
        """What is made once of the features: _transform_feature of the subclass."""
        return self._transform_feature(features)

    def dense(self, features, weight_collections=None, trainable=None):
        """The numbers, [batch, ...]: _get_dense_tensor of the subclass."""
        return self._get_dense_tensor(features, weight_collections=weight_collections,
                                      trainable=trainable)
