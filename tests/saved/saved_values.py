"""What the recorded checkpoints hold: arrays of every element type, from seeds; no TensorFlow."""
import numpy as np

PARTS = [(0, 3), (3, 2)]            # rows of the partitioned variable's two parts
ROWS, COLUMNS = 5, 4


def tensors():
    """{name: array} of types that NumPy has; bfloat16 is recorded from float32."""
    rng = np.random.default_rng(17)
    found = {}
    for name in ("float16", "float32", "float64"):
        found[f"plain/{name}"] = rng.standard_normal((3, 2)).astype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(name)
        found[f"plain/{name}"] = np.array([info.min, 0, 1, info.max], name)
    found["plain/bool"] = np.array([[True, False, True]])
    found["plain/complex64"] = np.complex64(rng.standard_normal(3) + 1j * rng.standard_normal(3))
    found["plain/complex128"] = rng.standard_normal(2) + 1j * rng.standard_normal(2)
    found["empty"] = np.zeros((0, 3), np.float32)
    found["scalar"] = np.array(7, np.int64)
    found["texts"] = np.array([[b"a", b""], [b"\x00\xff" * 3, b"x" * 300]], object)
    found["one_text"] = np.array(b"one", object)
    for i in range(40):             # several blocks in the index
        name = f"layer_{i:03d}/a_rather_long_name_of_a_variable/kernel"
        found[name] = np.full(i % 4, i, np.float32)
    return found


def partitioned():
    """The partitioned variable as a whole."""
    return np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) / 8


def some_parts():
    """[(name, slice, array)]: slices of tensors that are not saved as a whole, and whole ones."""
    columns = np.arange(12, dtype=np.int64).reshape(2, 6)
    words = np.array([[b"a", b"bc"]], object)
    return [("rows", "5 4 3,2:0,4", partitioned()[3:]), ("plain", "", np.float64([1.5])),
            ("columns", "2 6 0,2:4,2", columns[:, 4:]), ("columns", "2 6 0,2:0,1", columns[:, :1]),
            ("rows/more", "300 1 299,1:0,1", np.float32([[7]])), ("words", "3 2 1,1:0,2", words)]


def bfloat16_source():
    """float32 values that bfloat16 holds exactly."""
    return np.array([1.0, -2.5, 0.15625, 3e38], np.float32)
