"""Arguments of tf.constant, as text; `answer` gives the TensorProto's bytes or the error."""

VALUES = (
    "1", "-1", "2**31", "-2**31", "2**40", "1.5", "True", "1j", "'abc'", "b'\\xff\\x00'",
    "'\\u00e9'", "[1, 2]", "[1, 2.5]", "[[1, 2], [3, 4]]", "[True, False]", "['a', 'bc']",
    "[b'a\\x00', b'']", "[]", "[[]]", "[[], []]", "(1, 2)", "[1, 2**40]", "[1.0, 1j]", "None",
    "[None]", "[1, None]", "[[1], [1, 2]]", "[['a'], ['b', 'c']]", "[1, 'a']", "['a', 1]",
    "[True, 1]", "[True, 2.0]", "np.float64(1.5)", "np.float32(1.5)", "np.int64(7)",
    "np.uint8(7)", "np.bool_(True)", "np.arange(3)", "np.arange(3, dtype='>i4')",
    "np.zeros((0, 2))", "np.ones((2, 2), np.float16)", "np.array(['a', 'b'])",
    "np.array([b'x'], object)", "[np.float32(1), np.float32(2)]", "[np.int64(1), 2]",
    "[np.arange(2), [3, 4]]", "range(3)", "float('nan')", "float('inf')", "1e300", "-0.0", "{}",
    "object()", "300", "2**63", "[2**63]", "2**64",
)
DTYPES = (
    None, "float32", "float64", "float16", "int32", "int64", "uint8", "bool", "string",
    "complex64", "bfloat16", "uint64",
)
SHAPED = (
    ("0", "[2, 2]"), ("[1, 2]", "[4]"), ("[1, 2, 3, 4]", "[2, 2]"), ("[1, 2, 3]", "[2]"),
    ("1", "[]"), ("[]", "[0, 3]"), ("1.5", "[0]"), ("'a'", "[2]"), ("1", "3"),
)


def cases():
    """(value, dtype, shape) texts."""
    return [(v, d, None) for v in VALUES for d in DTYPES] + [(v, None, s) for v, s in SHAPED]


def answer(tf, np, case):
    """["ok", dtype name, hex of the TensorProto] or ["error"]."""
    value, dtype, shape = case
    with tf.Graph().as_default():
        try:
            tensor = tf.constant(eval(value, {"np": np}), dtype and getattr(tf, dtype),
                                 shape=shape and eval(shape))
        except (TypeError, ValueError, OverflowError):
            return ["error"]
        proto = tensor.op.get_attr("value").SerializeToString(deterministic=True)
        return ["ok", tensor.dtype.name, proto.hex()]
