"""Programs of tf.metrics, for pyflow and for TensorFlow: several batches each.

record_metrics.py runs them in TensorFlow, test_metrics.py in pyflow.
"""
import numpy as np

CASES = {}
BATCHES = 3


def case(metric, kinds, **options):
    """A metric of tf.metrics fed `kinds` of arrays, one per placeholder argument."""
    key = metric + "".join(f" {k}={v}" for k, v in options.items() if not callable(v))
    CASES[key] = (metric, kinds, options)


def _array(kind, seed, shape):
    rng = np.random.default_rng(seed)
    return {"float": lambda: rng.normal(size=shape).astype(np.float32),
            "unit": lambda: rng.uniform(0, 1, shape).astype(np.float32),
            "bit": lambda: rng.integers(0, 2, shape).astype(np.int32),
            "class": lambda: rng.integers(0, 4, shape).astype(np.int64),
            "weight": lambda: rng.integers(0, 3, shape).astype(np.float32)}[kind]()


def column(shape):
    return (*shape, 1)


SHAPE = (5, 3)
TWO = {"labels": ("float", SHAPE), "predictions": ("float", SHAPE)}
WEIGHTED = {**TWO, "weights": ("weight", SHAPE)}
case("mean", {"values": ("float", SHAPE)})
case("mean", {"values": ("float", SHAPE), "weights": ("weight", SHAPE)}, name="mine")
case("mean", {"values": ("float", SHAPE), "weights": ("weight", (5, 1))}, name="rows")
case("mean", {"values": ("float", (5,)), "weights": ("weight", (5, 1))}, name="column")
case("mean_tensor", {"values": ("float", SHAPE)})
case("mean_tensor", {"values": ("float", SHAPE), "weights": ("weight", (5, 1))}, name="w")
case("accuracy", {"labels": ("class", SHAPE), "predictions": ("class", SHAPE)})
case("accuracy", {"labels": ("class", (5, 1)), "predictions": ("class", (5,)),
                        "weights": ("weight", (5,))}, name="squeezed")
for error in ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error"):
    case(error, TWO)
    case(error, WEIGHTED, name="weighted")
case("mean_relative_error", {**TWO, "normalizer": ("class", SHAPE)}, cast=("normalizer",))
case("mean_cosine_distance", TWO, dim=1)
case("mean_cosine_distance", {**TWO, "weights": ("weight", (5, 1))}, dim=1, name="w")
case("percentage_below", {"values": ("float", SHAPE)}, threshold=0.3)
BITS = {"labels": ("bit", SHAPE), "predictions": ("bit", SHAPE)}
for count in ("true_positives", "false_negatives", "true_negatives", "false_positives", "precision",
              "recall"):
    case(count, BITS)
    case(count, {**BITS, "weights": ("weight", SHAPE)}, name="weighted")
UNITS = {"labels": ("bit", SHAPE), "predictions": ("unit", SHAPE)}
for count in ("true_positives", "false_negatives", "true_negatives", "false_positives", "precision",
              "recall"):
    case(f"{count}_at_thresholds", UNITS, thresholds=[0.2, 0.5, 0.9])
    case(f"{count}_at_thresholds", {**UNITS, "weights": ("weight", SHAPE)},
         thresholds=[0.2, 0.5], name="weighted")
for curve in ("ROC", "PR"):
    for method in ("trapezoidal", "careful_interpolation", "minoring", "majoring"):
        case("auc", UNITS, curve=curve, summation_method=method)
case("auc", {**UNITS, "weights": ("weight", SHAPE)}, num_thresholds=20)
case("auc", UNITS, thresholds=[0.5, 0.1], name="own")
case("sensitivity_at_specificity", UNITS, specificity=0.6)
case("specificity_at_sensitivity", {**UNITS, "weights": ("weight", SHAPE)}, sensitivity=0.4)
CLASSES = {"labels": ("class", SHAPE), "predictions": ("class", SHAPE)}
for name in ("mean_iou", "mean_per_class_accuracy"):
    case(name, CLASSES, num_classes=4)
    case(name, {**CLASSES, "weights": ("weight", SHAPE)}, num_classes=5, name="weighted")
SCORES = {"labels": ("class", (5, 2)), "predictions": ("unit", (5, 6))}
for name in ("precision_at_k", "recall_at_k", "average_precision_at_k"):
    case(name, SCORES, k=2)
    case(name, {**SCORES, "weights": ("weight", (5,))}, k=3, name="weighted")
    case(name, {"labels": ("class", (5,)), "predictions": ("unit", (5, 6))}, k=1, name="row")
    case(name, SCORES, k=3, sparse=True)
for name in ("precision_at_k", "recall_at_k"):
    case(name, SCORES, k=3, class_id=1)
    case(name, SCORES, k=3, class_id=1, sparse=True)
TOP = {"labels": ("class", (5, 2)), "predictions_idx": ("class", (5, 3))}
for name in ("precision_at_top_k", "recall_at_top_k"):
    case(name, TOP, k=3)
    case(name, TOP)


def answers(tf, key):
    """{what: array or text} of one case: static facts, and values after each batch."""
    name, kinds, options = CASES[key]
    options = dict(options)
    sparse, cast = options.pop("sparse", False), options.pop("cast", ())
    with tf.Graph().as_default() as graph:
        fed = {what: tf.placeholder(
            {"class": tf.int64, "bit": tf.int32}.get(kind, tf.float32), shape)
            for what, (kind, shape) in kinds.items()}
        given = {what: tf.cast(x, tf.float32) if what in cast else x for what, x in fed.items()}
        if sparse:
            where = tf.where(tf.greater_equal(fed["labels"], 0))
            given["labels"] = tf.SparseTensor(where, tf.gather_nd(fed["labels"], where),
                                              tf.shape(fed["labels"], out_type=tf.int64))
        value, update = getattr(tf.metrics, name)(
            metrics_collections=["values"], updates_collections=["updates"], **given, **options)
        said = {"variables": "\n".join(sorted(
            f"{v.name} {v.shape.as_list()} {v.dtype.base_dtype.name}"
            for v in tf.local_variables())),
            "kinds": f"{value.dtype.base_dtype.name} {value.shape.as_list()} {update.dtype.base_dtype.name} "
                     f"{len(tf.get_collection('values'))} {len(tf.get_collection('updates'))} "
                     f"{len(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))}"}
        with tf.Session(graph=graph) as session:
            session.run(tf.local_variables_initializer())
            said["empty"] = session.run(value)
            for i in range(BATCHES):
                feeds = {fed[what]: _array(kind, 10 * i + j, shape)
                         for j, (what, (kind, shape)) in enumerate(kinds.items())}
                said[f"update {i}"] = session.run(update, feeds)
                said[f"value {i}"] = session.run(value)
    return said
