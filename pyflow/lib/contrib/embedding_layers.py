"""Embeddings in tf.contrib.layers: embed_sequence, embedding_lookup_unique.

Functions only.  Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.

Example:
    vectors = tf.contrib.layers.embed_sequence(words, vocab_size=10000, embed_dim=64)
"""
from pyflow.framework import graph as ops
from pyflow.lib.array import partition_functions
from pyflow.lib.contrib.arg_scope import tables
from pyflow.lib.contrib.model_variables import model_variable
from pyflow.lib.nn import embedding_functions, nn_functions
from pyflow.lib.variables.variable_scope import variable_scope
from pyflow.ops.base import tensors


def embedding_lookup_unique(params, ids, partition_strategy="mod", name=None):
    """tf.nn.embedding_lookup that reads each row once, however often `ids` name it.

    params: of any dtype, [rows, ...] or parts of it; ids: int32 or int64 of any shape, else
    TypeError; the result is ids.shape + params.shape[1:]. ValueError without params.
    TF: tf.contrib.layers.embedding_lookup_unique.

        >>> table = [[1.0, 2.0], [3.0, 4.0]]
        >>> rows = tf.contrib.layers.embedding_lookup_unique(tf.constant(table), [1, 1, 0])
        >>> tf.Session().run(rows).tolist()
        [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    with ops.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = ops.convert_to_tensor(ids)
        unique, index = partition_functions.unique(tensors.reshape(ids, [-1]))
        rows = nn_functions.embedding_lookup(params, unique, partition_strategy)
        found = tensors.gather(rows, index)
        shape = tensors.concat([tensors.shape(ids), tensors.shape(rows)[1:]], 0)
        made = tensors.reshape(found, shape)
        made.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return made


def embed_sequence(ids, vocab_size=None, embed_dim=None, unique=False, initializer=None,
                   regularizer=None, trainable=True, scope=None, reuse=None):
    """Rows of the model variable `embeddings` [vocab_size, embed_dim]: ids.shape + [embed_dim].

    ids: int32 or int64 [batch, length]; the result is float32. unique: each row is read once.
    ValueError unless both sizes are given, or `reuse`, with which none need be.
    TF: tf.contrib.layers.embed_sequence.

        >>> vectors = tf.contrib.layers.embed_sequence([[1, 2, 3]], vocab_size=10, embed_dim=4)
        >>> vectors.shape.as_list()
        [1, 3, 4]
    """
    if not (reuse or vocab_size and embed_dim):
        raise ValueError("Must specify vocab size and embedding dimension when not reusing. Got "
                         f"vocab_size={vocab_size} and embed_dim={embed_dim}")
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        embeddings = model_variable("embeddings", shape=shape, initializer=initializer,
                                    regularizer=regularizer, trainable=trainable)
        lookup = embedding_lookup_unique if unique else nn_functions.embedding_lookup
        return lookup(embeddings, ids)


def safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights=None, combiner=None,
                                 default_id=None, name=None, partition_strategy="div",
                                 max_norm=None):
    """tf.nn.safe_embedding_lookup_sparse; combiner None is "mean".

    sparse_ids: ints of shape [d0, ..., dn]; embedding_weights: floats [rows, ...] or parts of it;
    the result is [d0, ..., d(n-1)] + the row's shape. ValueError without embedding_weights, or for
    another combiner.
    TF: tf.contrib.layers.safe_embedding_lookup_sparse."""
    return embedding_functions.safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner or "mean", default_id, name,
        partition_strategy, max_norm)


PUBLIC = {**tables(embed_sequence, layers=True), **{f"contrib.layers.{f.__name__}": f for f in (
    embedding_lookup_unique, safe_embedding_lookup_sparse)}}
