"""What sparse ops do with places out of order, twice, at -1, beyond the shape, and none at all.

    python tests/ops/sparse_orders.py > answers.jsonl      # by TensorFlow, 1.15 or 2

`answer(tf, op, places)` runs one op on one list of places; test_sparse_orders.py compares pyflow's
answers with those kept in sparse_orders.json, which is recorded by both TensorFlows:

    python tests/ops/sparse_orders.py --merge answers-1.15.jsonl answers-2.jsonl
"""
import json
import os
import subprocess
import sys

import numpy as np

SHAPE = [3, 4]
PLACES = {
    "in order": [[0, 1], [1, 0], [1, 3], [2, 2]],
    "columns first": [[1, 0], [0, 1], [2, 2], [1, 3]],
    "backwards": [[2, 2], [1, 3], [1, 0], [0, 1]],
    "rows in turn": [[0, 0], [1, 0], [0, 1], [1, 1]],
    "one twice": [[0, 1], [1, 0], [1, 0], [2, 2]],
    "one twice, apart": [[1, 0], [0, 1], [1, 0], [2, 2]],
    "a column of -1": [[0, -1], [0, 1], [1, 0], [2, 2]],
    "a row of -1": [[-1, 1], [0, 1], [1, 0], [2, 2]],
    "the last at -1": [[0, 1], [1, 0], [2, 2], [2, -1]],
    "a column too far": [[0, 1], [1, 0], [1, 4], [2, 2]],
    "a row too far": [[0, 1], [1, 0], [2, 2], [3, 0]],
    "none": [],
}


def parts(places):
    at = np.array(places, np.int64).reshape(-1, 2)
    values = np.array([1.0, 2.0, 4.0, 8.0], np.float32)[:len(at)]
    return at, values, np.array(SHAPE, np.int64)


def other():
    return parts(PLACES["in order"])


def dense():
    return np.arange(1, 13, dtype=np.float32).reshape(SHAPE)


def ops(tf):
    """name -> tensors of (indices, values, shape), all made of placeholders."""
    raw = tf.raw_ops

    def three(a, prefix=""):
        return {prefix + "indices": a[0], prefix + "values": a[1], prefix + "shape": a[2]}

    def gradient(function):
        def of(a):
            y = function(a)
            y = y.values if hasattr(y, "values") else y
            return tf.gradients(y * tf.cast(tf.range(1, tf.size(y) + 1), y.dtype), a[1])
        return of

    def sparse(a):
        return tf.SparseTensor(*a)

    def whole_numbers(a):
        return {"indices": a[0], "values": tf.cast(a[1], tf.int64), "shape": a[2]}

    def sets(a, kind, other_first=False):
        x, y = whole_numbers(a), whole_numbers(other())
        if other_first:
            x, y = y, x
        return raw.SparseToSparseSetOperation(
            set1_indices=x["indices"], set1_values=x["values"], set1_shape=x["shape"],
            set2_indices=y["indices"], set2_values=y["values"], set2_shape=y["shape"],
            set_operation=kind)

    def dense_set(a):
        x = whole_numbers(a)
        return raw.DenseToSparseSetOperation(
            set1=tf.cast(dense(), tf.int64), set2_indices=x["indices"], set2_values=x["values"],
            set2_shape=x["shape"], set_operation="union")

    def pairs(a):
        b = other()
        return {"a_indices": a[0], "a_values": a[1], "a_shape": a[2], "b_indices": b[0],
                "b_values": b[1], "b_shape": b[2]}

    def reduced(op):
        return lambda a: op(input_indices=a[0], input_values=a[1], input_shape=a[2],
                            reduction_axes=[1], keep_dims=False)

    def dense_side(op):
        return lambda a: op(sp_indices=a[0], sp_values=a[1], sp_shape=a[2], dense=dense())

    return {
        "SparseReorder": lambda a: raw.SparseReorder(
            input_indices=a[0], input_values=a[1], input_shape=a[2]),
        "SparseReshape": lambda a: raw.SparseReshape(
            input_indices=a[0], input_shape=a[2], new_shape=[2, 6]),
        "SparseSlice": lambda a: raw.SparseSlice(**three(a), start=[0, 0], size=[2, 3]),
        "SparseSplit": lambda a: raw.SparseSplit(split_dim=np.int64(1), **three(a), num_split=2),
        "SparseConcat": lambda a: raw.SparseConcat(
            indices=[a[0], other()[0]], values=[a[1], other()[1]], shapes=[a[2], other()[2]],
            concat_dim=1),
        "SparseFillEmptyRows": lambda a: raw.SparseFillEmptyRows(
            indices=a[0], values=a[1], dense_shape=a[2], default_value=np.float32(-1)),
        "SparseAdd": lambda a: raw.SparseAdd(**pairs(a), thresh=np.float32(0)),
        "SparseSparseMaximum": lambda a: raw.SparseSparseMaximum(**pairs(a)),
        "SparseSparseMinimum": lambda a: raw.SparseSparseMinimum(**pairs(a)),
        "SparseTensorDenseAdd": lambda a: raw.SparseTensorDenseAdd(
            a_indices=a[0], a_values=a[1], a_shape=a[2], b=dense()),
        "SparseDenseCwiseAdd": dense_side(raw.SparseDenseCwiseAdd),
        "SparseDenseCwiseMul": dense_side(raw.SparseDenseCwiseMul),
        "SparseDenseCwiseDiv": dense_side(raw.SparseDenseCwiseDiv),
        "SparseReduceSum": reduced(raw.SparseReduceSum),
        "SparseReduceMax": reduced(raw.SparseReduceMax),
        "SparseReduceSumSparse": reduced(raw.SparseReduceSumSparse),
        "SparseReduceMaxSparse": reduced(raw.SparseReduceMaxSparse),
        "SparseSoftmax": lambda a: raw.SparseSoftmax(
            sp_indices=a[0], sp_values=a[1], sp_shape=a[2]),
        "SparseTensorDenseMatMul": lambda a: raw.SparseTensorDenseMatMul(
            a_indices=a[0], a_values=a[1], a_shape=a[2], b=dense().T.copy()),
        "SparseToDense": lambda a: raw.SparseToDense(
            sparse_indices=a[0], output_shape=a[2], sparse_values=a[1],
            default_value=np.float32(0), validate_indices=False),
        "SparseToDense, validated": lambda a: raw.SparseToDense(
            sparse_indices=a[0], output_shape=a[2], sparse_values=a[1],
            default_value=np.float32(0), validate_indices=True),
        "union": lambda a: sets(a, "union"),
        "a-b": lambda a: sets(a, "a-b"),
        "b-a, the other first": lambda a: sets(a, "b-a", True),
        "intersection": lambda a: sets(a, "intersection"),
        "union with dense": dense_set,
        "SetSize": lambda a: raw.SetSize(
            set_indices=a[0], set_values=tf.cast(a[1], tf.int64), set_shape=a[2]),
        "serialize": lambda a: tf.deserialize_many_sparse(
            tf.serialize_many_sparse(sparse(a)), tf.float32),
        "EditDistance": lambda a: tf.edit_distance(sparse(a), sparse(other()), normalize=False),
        "gradient of SparseSoftmax": gradient(lambda a: tf.sparse.softmax(sparse(a))),
        "gradient of SparseAdd": gradient(lambda a: tf.sparse.add(sparse(a), sparse(other()))),
        "gradient of SparseAdd, itself": gradient(lambda a: tf.sparse.add(sparse(a), sparse(a))),
        "gradient of SparseReorder": gradient(lambda a: tf.sparse.reorder(sparse(a))),
        "gradient of SparseSlice": gradient(
            lambda a: tf.sparse.slice(sparse(a), [0, 0], [2, 3])),
        "gradient of SparseReduceSum": gradient(lambda a: tf.sparse.reduce_sum(sparse(a), 1)),
        "gradient of SparseFillEmptyRows": gradient(
            lambda a: tf.sparse.fill_empty_rows(sparse(a), tf.constant(0.0))[0]),
        "gradient of SparseTensorDenseMatMul": gradient(
            lambda a: tf.sparse.sparse_dense_matmul(sparse(a), dense().T.copy())),
        "gradient of SparseDenseCwiseMul": gradient(lambda a: sparse(a) * tf.constant(dense())),
    }


def plain(x):
    """Lists and numbers of nested results; integers stay integers."""
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if x is None:
        return None
    x = np.asarray(x)
    return {"shape": list(x.shape), "values": [float(round(float(v), 5)) for v in x.ravel()]}


def answer(tf, op, places):
    """Its value, or the name of its error."""
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None]),
               tf.placeholder(tf.int64, [2])]
        try:
            fetched = ops(tf)[op](fed)
            flat = [f for f in (fetched if isinstance(fetched, (list, tuple)) else [fetched])]
            return plain(session.run(flat, dict(zip(fed, parts(places)))))
        except (tf.errors.OpError, ValueError) as error:
            return type(error).__name__


def record():
    """A line an answer; one that ends the process is said, too."""
    done = set(json.loads(os.environ.get("SPARSE_ORDERS_DONE", "[]")))
    if "--child" not in sys.argv:
        while True:
            run = subprocess.run([sys.executable, __file__, "--child"], stdout=subprocess.PIPE,
                                 env={**os.environ, "SPARSE_ORDERS_DONE": json.dumps(sorted(done))})
            begun = None
            for line in run.stdout.decode().splitlines():
                key, _, value = line.partition("\t")
                if value:
                    print(json.dumps([key, json.loads(value)]), flush=True)
                begun = None if value else key
                done.add(key)
            if run.returncode == 0:
                return
            if begun is None:
                raise SystemExit(f"the child ended with {run.returncode}")
            print(json.dumps([begun, "the process ended"]), flush=True)
    try:
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
    except ImportError:
        import tensorflow as tf
    for op in ops_names(tf):
        for name, places in PLACES.items():
            key = op + " | " + name
            if key not in done:
                print(key, flush=True)
                print(key + "\t" + json.dumps(answer(tf, op, places)), flush=True)


def ops_names(tf):
    return list(ops(tf))


def merge(files):
    found = [dict(json.loads(line) for line in open(f)) for f in files]
    table = {}
    for key in found[0]:
        answers = [f[key] for f in found]
        table[key] = answers[:1] if answers[0] == answers[1] else answers
    lines = ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in table.items())
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sparse_orders.json"),
              "w") as f:
        f.write("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    if "--merge" in sys.argv:
        merge(sys.argv[2:])
    else:
        record()
