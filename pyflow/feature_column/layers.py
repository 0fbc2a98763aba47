"""input_layer, linear_model, make_parse_example_spec.

Invariants
    1. Columns count in the order of their names, whatever the order they are given in.
    2. Variables lie in input_layer/COLUMN or linear_model/COLUMN; a scope around them that reuses
       variables, or has a partitioner, is heard.

Thread: the one building the graph.  Source: TF 1.15 tf.feature_column.

    dense = tf.feature_column.input_layer(features, columns)        # [batch, sum of widths]
"""
import pyflow as tf
from pyflow.feature_column.columns import (
    CategoricalColumn, DenseColumn, FeatureColumn, Features, checked_columns, flat)


def input_layer(features, feature_columns, weight_collections=None, trainable=True,
                cols_to_vars=None, cols_to_output_tensors=None):
    """The dense columns' numbers side by side, float32 [batch, sum of widths].

    features: {key: tensor or SparseTensor}. weight_collections: for variables. trainable: whether
    they are. cols_to_vars, cols_to_output_tensors: dicts that are filled, by column. ValueError for
    categorical columns, which indicator_column and embedding_column make dense.
    TF: tf.feature_column.input_layer."""
    columns = checked_columns(feature_columns, FeatureColumn, "a _DenseColumn")
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical "
                f"column with an embedding_column or indicator_column. Given: {column}")
    there = Features(features)
    outputs = []
    with tf.variable_scope(None, default_name="input_layer", values=list(features.values())):
        for column in columns:
            with tf.variable_scope(None, default_name=column.var_scope_name):
                tensor = column.dense(there, weight_collections, trainable)
                output = flat(tensor, column.variable_shape.num_elements())
                outputs.append(output)
                if cols_to_vars is not None:
                    cols_to_vars[column] = tf.get_collection(
                        tf.GraphKeys.GLOBAL_VARIABLES, scope=tf.get_variable_scope().name + "/")
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = output
        return tf.concat(outputs, 1) if len(outputs) > 1 else outputs[0]


def linear_model(features, feature_columns, units=1, sparse_combiner="sum", weight_collections=None,
                 trainable=True, cols_to_vars=None):
    """A linear function of all columns, float32 [batch, units], with a bias.

    Ids count by weights of their own, combined by sparse_combiner ("sum", "mean", "sqrtn"), dense
    columns by a matrix. All begin at zero. cols_to_vars: a dict that is filled, with key "bias"
    too. ValueError for other columns. TF: tf.feature_column.linear_model."""
    columns = checked_columns(feature_columns, (DenseColumn, CategoricalColumn),
                              "either a _DenseColumn or _CategoricalColumn")
    there = Features(features)
    names = list(dict.fromkeys([*(weight_collections or ()), tf.GraphKeys.GLOBAL_VARIABLES,
                                tf.GraphKeys.MODEL_VARIABLES]))
    sums = []
    with tf.variable_scope(None, default_name="linear_model", values=list(features.values())):
        for column in columns:
            with tf.variable_scope(None, default_name=column.var_scope_name) as scope:
                sums.append(_weighted(column, there, units, sparse_combiner, names, trainable))
                if cols_to_vars is not None:
                    cols_to_vars[column] = tf.get_collection(
                        tf.GraphKeys.GLOBAL_VARIABLES, scope=scope.name + "/")
        total = tf.add_n(sums, name="weighted_sum_no_bias")
        bias = tf.get_variable("bias_weights", [units], initializer=tf.zeros_initializer(),
                               trainable=trainable, collections=names)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = list(bias) if hasattr(bias, "_get_variable_list") else [bias]
        return tf.nn.bias_add(total, bias, name="weighted_sum")


def _weighted(column, features, units, combiner, collections, trainable):
    """[batch, units]: the part of one column."""
    sparse = isinstance(column, CategoricalColumn)
    size = column.num_buckets if sparse else column.variable_shape.num_elements()
    weights = tf.get_variable("weights", [size, units], initializer=tf.zeros_initializer(),
                              trainable=trainable, collections=collections)
    if sparse:
        ids, id_weights = column.ids(features)
        rows = tf.sparse_reshape(ids, [ids.dense_shape[0], -1])
        if id_weights is not None:
            id_weights = tf.sparse_reshape(id_weights, [id_weights.dense_shape[0], -1])
    else:
        dense = flat(column.dense(features, collections, trainable), size)
    if not sparse:
        return tf.matmul(dense, weights, name="weighted_sum")
    return tf.nn.safe_embedding_lookup_sparse(weights, rows, id_weights, combiner=combiner,
                                              name="weighted_sum")


def make_parse_example_spec(feature_columns):
    """{key: tf.FixedLenFeature or tf.VarLenFeature} of all columns, for tf.parse_example.

    ValueError for other items, or columns that want a feature in different forms.
    TF: tf.feature_column.make_parse_example_spec."""
    result = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError("All feature_columns must be _FeatureColumn instances. Given: "
                             f"{column}")
        for key, value in column.parse_example_spec.items():
            if key in result and result[key] != value:
                raise ValueError("feature_columns contain different parse_spec for key "
                                 f"{key}. Given {value} and {result[key]}")
            result[key] = value
    return result


PUBLIC = {f"feature_column.{made.__name__}": made for made in (
    input_layer, linear_model, make_parse_example_spec)}
