"""Input functions of what lies in memory: tf.estimator.inputs.

Invariants
    1. Batches run on over the ends of epochs; the last one is as long as rows are left.
    2. Shuffled: each epoch is a new order of all rows, drawn with the graph's seed if it has one.
    3. Rows are copied when their batch is asked for; the graph holds no data.

Threads: the graph's for building; rows are taken on the executor's Python lane.
Source: TF 1.15 tf.estimator.inputs, whose queue shuffles 1,000 rows at a time.

    input_fn = tf.estimator.inputs.numpy_input_fn({"x": x}, y, batch_size=32, shuffle=True)
"""
import numpy as np

import pyflow as tf


def numpy_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000,
                   num_threads=1):
    """An input function that gives batches of the arrays' rows.

    x: {name: array} or an array. y: None, an array or {name: array}. num_epochs: None for ever.
    shuffle: a bool, ValueError otherwise. queue_capacity, num_threads: taken without effect.
    ValueError for arrays of different lengths, when the function is called. TF:
    tf.estimator.inputs.numpy_input_fn.

        >>> fn = tf.estimator.inputs.numpy_input_fn({"x": np.arange(5)}, batch_size=3,
        ...                                         shuffle=False)
        >>> with tf.Session() as sess:
        ...     sess.run(fn()["x"])
        array([0, 1, 2])
    """
    _check_shuffle(shuffle)

    def input_fn():
        features = _sorted_features(x)
        targets = _sorted_targets(y, features)
        columns = [*features.values(), *targets.values()]
        if len({len(column) for column in columns}) > 1:
            shapes = {key: column.shape for key, column in targets.items()}
            raise ValueError(
                "Length of tensors in x and y is mismatched. All elements in x and y must have the "
                f"same length.\nShapes in x: { {k: v.shape for k, v in features.items()} }\n"
                f"Shapes in y: {shapes or None}\n")
        tensors = _tensors(columns, batch_size, num_epochs, shuffle)
        made = dict(zip(features, tensors)) if isinstance(x, dict) else tensors[0]
        if y is None:
            return made
        left = tensors[len(features):]
        return made, dict(zip(targets, left)) if isinstance(y, dict) else left[0]
    return input_fn


def pandas_input_fn(x, y=None, batch_size=128, num_epochs=1, shuffle=None, queue_capacity=1000,
                    num_threads=1, target_column="target"):
    """An input function that gives batches of a DataFrame's rows, {column: tensor}.

    y: None, a Series, or a DataFrame of labels, {column: tensor}. The rest as numpy_input_fn's.
    TypeError without pandas, ValueError for other rows in y. TF:
    tf.estimator.inputs.pandas_input_fn."""
    try:
        import pandas
    except ImportError as error:
        raise TypeError("pandas_input_fn should not be called without pandas installed") from error
    _check_shuffle(shuffle)
    if not isinstance(target_column, str):
        raise TypeError("target_column must be a string type")
    if y is not None:
        if target_column in x:
            raise ValueError(f"Cannot use name {target_column} for target column: DataFrame "
                             f"already has a column with that name: {x.columns}")
        if not np.array_equal(x.index, y.index):
            raise ValueError(f"Index for x and y are mismatched.\nIndex for x: {x.index}\n"
                             f"Index for y: {y.index}\n")
    features = {column: np.asarray(x[column]) for column in x.columns}
    frame = y is not None and isinstance(y, pandas.DataFrame)
    labels = {column: np.asarray(y[column]) for column in y.columns} if frame else y
    targets = list(labels.values()) if frame else [] if y is None else [np.asarray(y)]

    def input_fn():
        tensors = _tensors([*features.values(), *targets], batch_size, num_epochs, shuffle)
        made = dict(zip(features, tensors))
        if y is None:
            return made
        left = tensors[len(features):]
        return made, dict(zip(labels, left)) if frame else left[0]
    return input_fn


def _check_shuffle(shuffle):
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be provided and explicitly set as boolean (it is "
                         f"recommended to set it as True for training); got {shuffle}")


def _sorted_features(x):
    if isinstance(x, dict):
        if not x:
            raise ValueError("x cannot be an empty dict")
        return {key: np.asarray(x[key]) for key in sorted(x)}
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if x.size == 0:
        raise ValueError("x cannot be an empty array")
    return {"__direct_np_input__": x}


def _sorted_targets(y, features):
    if y is None:
        return {}
    if not isinstance(y, dict):
        return {"__target_key__": np.asarray(y)}
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    both = sorted(set(y) & set(features))
    if both:
        raise ValueError(f"{len(both)} duplicate keys are found in both x and y: {set(both)}")
    return {key: np.asarray(y[key]) for key in sorted(y)}


def _tensors(columns, batch_size, num_epochs, shuffle):
    """The next batch of each column's rows."""
    seeds = [seed for seed in tf.get_seed(None) if seed is not None]
    types = [tf.string if column.dtype.kind in "OSU" else tf.as_dtype(column.dtype)
             for column in columns]
    shapes = [[None, *column.shape[1:]] for column in columns]

    def batches():
        for rows in _row_batches(len(columns[0]), batch_size, num_epochs,
                                 np.random.RandomState(seeds or None) if shuffle else None):
            yield tuple(column[rows] for column in columns)
    made = tf.data.Dataset.from_generator(batches, tuple(types), tuple(map(tf.TensorShape, shapes)))
    return made.make_one_shot_iterator().get_next()


def _row_batches(rows, batch_size, num_epochs, random):
    """Arrays of batch_size row numbers, the last one shorter; `random` draws each epoch's order."""
    waiting, epoch = np.zeros(0, np.int64), 0
    while rows and (num_epochs is None or epoch < num_epochs):
        order = np.arange(rows) if random is None else random.permutation(rows)
        waiting, epoch = np.concatenate([waiting, order]), epoch + 1
        while len(waiting) >= batch_size:
            yield waiting[:batch_size]
            waiting = waiting[batch_size:]
    if len(waiting):
        yield waiting


PUBLIC = {"estimator.inputs.numpy_input_fn": numpy_input_fn,
          "estimator.inputs.pandas_input_fn": pandas_input_fn}
