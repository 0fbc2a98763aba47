"""What is asked of a feature of a tf.Example: FixedLenFeature and its kin, and an op's arguments.

Invariants
  1. Features are taken in the order of their keys.
  2. A SparseFeature asks for its indices and values as features of their own; the tensors are put
     together afterwards.

Pure but for Asked.defaults, which adds constants.  Who calls it: parsing.py.
Source: TF 1.15 `tf.io.FixedLenFeature` and its kin.
"""
import re
from typing import NamedTuple

from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import as_shape
from pyflow.lib.sparse import sparse_functions
from pyflow.ops.base import tensors


class VarLenFeature(NamedTuple):
    """Any number of values: a SparseTensor of `dtype`. TF: tf.VarLenFeature."""

    dtype: object


class FixedLenFeature(NamedTuple):
    """As many values as `shape` has elements: a tensor of `dtype` and [batch] + shape.

    default_value: for an example without the feature, of that shape, or a scalar where the shape is
    one; None: the feature has to be there. TF: tf.FixedLenFeature.

        >>> example = tf.train.Example()
        >>> example.features.feature["size"].int64_list.value.extend([28, 28])
        >>> kinds = {"size": tf.FixedLenFeature([2], tf.int64),
        ...          "label": tf.FixedLenFeature([], tf.int64, default_value=-1)}
        >>> found = tf.parse_single_example(example.SerializeToString(), kinds)
        >>> sess = tf.Session()
        >>> sess.run(found["size"]), sess.run(found["label"])
        (array([28, 28]), np.int64(-1))
    """

    shape: object
    dtype: object
    default_value: object = None


class FixedLenSequenceFeature(NamedTuple):
    """Any number of blocks of `shape`: a tensor [batch, most of them] + shape, padded.

    allow_missing: True is required by parse_example; of a SequenceExample's list: it may be
    missing. default_value: a scalar to pad with, zero or "" where None.
    TF: tf.FixedLenSequenceFeature."""

    shape: object
    dtype: object
    allow_missing: bool = False
    default_value: object = None


class SparseFeature(NamedTuple):
    """A SparseTensor of `dtype` and shape [batch] + size: values under the key `value_key`, their
    places under `index_key`, an int64 feature, or a list of them, one a dimension.

    size: an int, or a list of them; already_sorted: the places are in order.
    TF: tf.SparseFeature."""

    index_key: object
    value_key: str
    dtype: object
    size: object
    already_sorted: bool = False


class Asked:
    """Keys, types and shapes of features. ValueError for features that do not fit the call.

    features: {key: a feature}; kinds: the classes that are allowed."""

    def __init__(self, features, kinds):
        self.sparse_keys, self.sparse_types = [], []
        self.dense_keys, self.dense_types, self.dense_shapes = [], [], []
        self.dense_defaults = {}
        add = {VarLenFeature: self._add_var_len, SparseFeature: self._add_sparse,
               FixedLenFeature: self._add_fixed, FixedLenSequenceFeature: self._add_sequence}
        for key in sorted(features or {}):
            feature = features[key]
            if not isinstance(feature, tuple(kinds)):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'; "
                                 f"expected {' or '.join(kind.__name__ for kind in kinds)}")
            if isinstance(feature, VarLenFeature | FixedLenFeature | FixedLenSequenceFeature) and \
                    not feature.dtype:
                raise ValueError(f"Missing type for feature {key}. Received feature={feature}")
            add[type(feature)](key, feature)
        both = set(self.dense_keys) & set(self.sparse_keys)
        if both:
            raise ValueError(f"Dense and sparse keys must not intersect; dense_keys: "
                             f"{self.dense_keys}, sparse_keys: {self.sparse_keys}, intersection: "
                             f"{both}")

    def __len__(self):
        return len(self.sparse_keys) + len(self.dense_keys)

    def _add_key(self, key, dtype):
        dtype = dtypes.as_dtype(dtype)
        if key not in self.sparse_keys:
            self.sparse_keys.append(key)
            self.sparse_types.append(dtype)
        elif self.sparse_types[self.sparse_keys.index(key)] != dtype:
            raise ValueError(f"Conflicting type {self.sparse_types[self.sparse_keys.index(key)]} "
                             f"vs {dtype} for feature {key}.")

    def _add_var_len(self, key, feature):
        self._add_key(key, feature.dtype)

    def _add_sparse(self, key, feature):
        for name in ("index_key", "value_key", "dtype"):
            if not getattr(feature, name):
                raise ValueError(f"Missing {name.replace('dtype', 'type')} for SparseFeature "
                                 f"{feature}, feature {key}.")
        places = feature.index_key
        for place in [places] if isinstance(places, str) else sorted(places):
            self._add_key(place, dtypes.int64)
        self._add_key(feature.value_key, feature.dtype)

    def _add_dense(self, key, feature):
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
        self.dense_keys.append(key)
        self.dense_shapes.append(as_shape(feature.shape))
        self.dense_types.append(dtypes.as_dtype(feature.dtype))
        if feature.default_value is not None:
            self.dense_defaults[key] = feature.default_value

    def _add_fixed(self, key, feature):
        self._add_dense(key, feature)
        shape = self.dense_shapes[-1]
        if shape.ndims and shape.as_list()[0] is None:
            raise ValueError(f"First dimension of shape for feature {key} unknown. Consider using "
                             f"FixedLenSequenceFeature. Received feature={feature}.")
        if not shape.is_fully_defined():
            raise ValueError(f"All dimensions of shape for feature {key} need to be known but "
                             f"received {feature.shape!s}.")

    def _add_sequence(self, key, feature):
        self._add_dense(key, feature)
        if feature.allow_missing:
            self.dense_defaults.setdefault(key, None)

    def defaults(self):
        """The defaults as tensors; of no element where there is none."""
        return [self._default(*one) for one in
                zip(self.dense_keys, self.dense_shapes, self.dense_types)]

    def _default(self, key, shape, dtype):
        value = self.dense_defaults.get(key)
        plain = re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
        if shape.ndims and shape.as_list()[0] is None:
            if value is None:
                return graph.convert_to_tensor("" if dtype == dtypes.string else 0, dtype)
            value = graph.convert_to_tensor(value, dtype, name=f"padding_{plain}")
            return tensors.reshape(value, [])
        if value is None:
            return graph.convert_to_tensor([], dtype)
        if isinstance(value, graph.Tensor):
            return value
        value = graph.convert_to_tensor(value, dtype, name=f"key_{plain}")
        return tensors.reshape(value, shape)


def put_together(features, found):
    """{key: tensor} of the keys of `features`: SparseFeatures out of their parts."""
    made = {}
    for key in sorted(features):
        feature = features[key]
        if not isinstance(feature, SparseFeature):
            made[key] = found[key]
            continue
        places = feature.index_key
        places = found[places] if isinstance(places, str) else [found[place] for place in places]
        made[key] = sparse_functions.sparse_merge(places, found[feature.value_key], feature.size,
                                                  already_sorted=feature.already_sorted)
    return made


PUBLIC = {f"{space}{kind.__name__}": kind for space in ("", "io.") for kind in (
    VarLenFeature, FixedLenFeature, FixedLenSequenceFeature, SparseFeature)}
