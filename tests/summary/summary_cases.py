"""Summaries whose bytes TensorFlow recorded: CASES[name](tf) gives the summary's tensor.

tf is pyflow, or tensorflow.compat.v1 (record.py)."""
import numpy as np


def numbers(*shape, low=-3.0, high=3.0):
    """Numbers spread over [low, high), the same on every machine."""
    steps = (np.arange(int(np.prod(shape)), dtype=np.int64) * 389 + 113) % 997
    return (low + steps * ((high - low) / 997)).reshape(shape)


def _typed(dtype):
    def scalar(tf):
        return tf.summary.scalar("loss", tf.constant(1234567891, tf.int64) if dtype == "int64" else
                                 tf.cast(tf.constant(2.71828182845, tf.float64), dtype))
    return scalar


def _scoped(tf):
    with tf.name_scope("layer"), tf.name_scope("inner"):
        tf.summary.scalar("loss", tf.constant(1.0))
        return tf.summary.scalar("loss", tf.constant(-0.0))


def _family(tf):
    with tf.name_scope("layer"):
        return tf.summary.scalar("a b(c)", tf.constant(3.5), family="my family")


def _vector(tf):
    return tf.raw_ops.ScalarSummary(tags=tf.constant([["a", ""], ["b/c", "d"]]),
                                    values=tf.constant([[1.0, 0.0], [np.inf, -2.0]]))


def _histogram(values):
    return lambda tf: tf.summary.histogram("weights", tf.constant(values))


def _image(values, **more):
    return lambda tf: tf.summary.image("seen", tf.constant(values), **more)


def _audio(values, rate=44100.0, **more):
    return lambda tf: tf.summary.audio("heard", tf.constant(values), rate, **more)


def _text(tf):
    return tf.summary.text("said", tf.constant([["a *b*", "cé"], ["", "d"]]))


def _described(tf):
    return tf.summary.tensor_summary("kept", tf.constant(numbers(2, 0, 3).astype(np.int32)),
                                     summary_description="words", display_name="Kept")


def _kinds(dtype):
    return lambda tf: tf.summary.tensor_summary("kept", tf.constant(
        numbers(2, 3, low=0, high=9).astype(dtype)), family="f")


def _merged(tf):
    tf.summary.scalar("a", tf.constant(1.0))
    with tf.name_scope("in"):
        tf.summary.histogram("b", tf.constant([1.0, 2.0]), family="f")
        tf.summary.text("c", tf.constant("words"))
        tf.summary.scalar("other", tf.constant(1.0), collections=["others"])
    return tf.summary.merge_all()


def _older(tf):
    return tf.raw_ops.TensorSummary(tensor=tf.constant([True, False]), name="old")


BROKEN = numbers(2, 3, 4, 3).astype(np.float32)
BROKEN[0, 1, 2, 0], BROKEN[1, 0, 0, 2] = np.nan, np.inf
CASES = {
    **{f"scalar {t}": _typed(t) for t in ("float32", "float64", "int64", "int32", "float16",
                                         "bfloat16", "uint8")},
    "scalar in scopes": _scoped, "scalar of a family": _family, "scalars": _vector,
    "histogram": _histogram(numbers(4, 50).astype(np.float32)),
    "histogram float64": _histogram(numbers(300) ** 9),
    "histogram int32": _histogram(numbers(40, low=-1000, high=1000).astype(np.int32)),
    "histogram wide": _histogram(np.array([1e-30, -1e-30, 1e25, -1e25, 0, 1, 1e300])),
    "histogram of nothing": _histogram(np.zeros(0, np.float32)),
    "histogram of zeros": _histogram(np.zeros((3, 2), np.float32)),
    "image uint8": _image(numbers(2, 3, 4, 3, low=0, high=255).astype(np.uint8)),
    "image grey": _image(numbers(5, 6, 2, 1, low=0).astype(np.float32)),
    "image negative": _image(numbers(1, 5, 5, 3).astype(np.float32), max_outputs=1),
    "image broken": _image(BROKEN),
    "image alpha half": _image(numbers(2, 3, 3, 4).astype(np.float16)),
    "image double": _image(numbers(2, 3, 3, 1, low=0, high=1e-3)),
    "image black": _image(np.zeros((1, 2, 2, 1), np.float32), family="f"),
    "audio": _audio(numbers(2, 9, 2, low=-1.2, high=1.2).astype(np.float32)),
    "audio mono": _audio(numbers(4, 7, low=-1, high=1).astype(np.float32), 8000.5, max_outputs=1),
    "audio of nothing": _audio(np.zeros((1, 0, 1), np.float32)),
    "text": _text, "tensor described": _described,
    **{f"tensor {t}": _kinds(t) for t in ("float32", "float64", "int64", "bool", "complex64",
                                         "uint8", "float16")},
    "tensor older": _older, "merged": _merged,
}
