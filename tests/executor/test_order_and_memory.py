"""Cheap nodes run in construction order, so temporaries die young; buffers are forwarded; fed and fetched arrays are safe."""
import ctypes
import resource
import sys
import time
import types

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.framework import foreign_arrays

MB = 1 << 20


def peak_of(session, fetch, feeds):
    session.run(fetch, feeds)
    _executor.reset_peak()
    before = _executor.memory_stats()["in_use"]
    session.run(fetch, feeds)
    return _executor.memory_stats()["peak"] - before


def test_temporaries_die_young():
    x = tf.placeholder(tf.float32, [MB // 4])
    total = tf.reduce_sum(x)
    for k in range(50):
        wide = tf.concat([x, x + float(k)], 0)          # 2 MB, read once
        total = total + tf.reduce_sum(wide)
    fed = np.ones(MB // 4, np.float32)
    for threads in (1, 2):
        with tf.Session(threads=threads) as session:
            peak = peak_of(session, total, {x: fed})
        assert peak < 5 * MB, f"{threads} threads: {peak / MB:.1f} MB at once; all temporaries together are 150"


def test_a_frugal_order_is_kept():
    x = tf.placeholder(tf.float32, [MB // 4])
    partial = []
    for k in range(30):                                  # built branch after branch: one branch alive at a time
        branch = tf.tile(x, [4]) * float(k)
        partial.append(tf.reduce_max(tf.tanh(branch)))
    with tf.Session(threads=1) as session:
        assert peak_of(session, tf.add_n(partial), {x: np.ones(MB // 4, np.float32)}) < 10 * MB


def test_chains_run_in_place():
    x = tf.placeholder(tf.float32, [MB // 4])
    y = tf.identity(x * 2.0)
    for _ in range(20):
        y = tf.negative(tf.exp(y * 0.5) - 1.0)
    with tf.Session(threads=1) as session:
        assert peak_of(session, tf.reduce_sum(y), {x: np.zeros(MB // 4, np.float32)}) < 2.5 * MB


def test_memory_comes_back():
    x = tf.placeholder(tf.float32, [None, 100])
    y = tf.matmul(x, x, transpose_b=True)
    with tf.Session() as session:
        session.run(y, {x: np.ones((300, 100), np.float32)})
        before = _executor.memory_stats()["in_use"]
        for _ in range(20):
            session.run(y, {x: np.ones((300, 100), np.float32)})
        assert _executor.memory_stats()["in_use"] == before


def test_fed_arrays_are_never_written():
    x = tf.placeholder(tf.float32, [1000])
    y = tf.negative(tf.identity(tf.reshape(tf.identity(x), [10, 100])))
    fed = np.arange(1000, dtype=np.float32)
    keep = fed.copy()
    with tf.Session() as session:
        session.run([y, tf.sqrt(x), tf.exp(x * 0.0)], {x: fed})
    np.testing.assert_array_equal(fed, keep)


def test_read_only_arrays_are_fed_without_a_copy():
    x = tf.placeholder(tf.float32, [4 * MB])
    y = tf.reduce_max(x)
    fed = np.zeros(4 * MB, np.float32)
    fed.setflags(write=False)
    with tf.Session(threads=1) as session:
        assert peak_of(session, y, {x: fed}) < MB


def test_a_fetched_array_never_changes():
    v = tf.Variable(tf.zeros([3000]))
    bump = tf.assign_add(v, tf.ones([3000]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, alias = session.run([v, v.value()])
        session.run(bump.op)
        assert first.max() == 0 and alias.max() == 0
        first += 5
        np.testing.assert_array_equal(session.run(v), np.ones(3000))


def test_a_fed_array_given_to_a_variable_is_copied():
    x = tf.placeholder(tf.float32, [3000])
    v = tf.Variable(tf.zeros([3000]))
    with tf.Session() as session:
        fed = np.ones(3000, np.float32)
        session.run(tf.assign(v, x).op, {x: fed})
        fed[:] = 7
        np.testing.assert_array_equal(session.run(v), np.ones(3000))


def test_a_fetched_feed_is_the_callers_own():
    x = tf.placeholder(tf.float32, [3000])
    with tf.Session() as session:
        fed = np.ones(3000, np.float32)
        got = session.run(tf.identity(x), {x: fed})
        fed[:] = 7
        assert got.max() == 1


@pytest.mark.parametrize("make", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, 1:], lambda a: np.asfortranarray(a),
                                  lambda a: a.astype(">f4"), lambda a: a[1:2], lambda a: np.broadcast_to(a[0], (4, 5))])
def test_any_layout_can_be_fed(make):
    array = make(np.arange(20, dtype=np.float32).reshape(4, 5))
    x = tf.placeholder(tf.float32, array.shape)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(x + 0.0, {x: array}), array.astype(np.float32))


def test_unaligned_memory_can_be_fed():
    raw = np.zeros(4 * 1000 + 1, np.uint8)[1:].view(np.uint8)
    array = np.frombuffer(raw.data, np.float32)
    x = tf.placeholder(tf.float32, [1000])
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(x + 1.0, {x: array}), array + 1)


@pytest.mark.parametrize("name", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                                  "float32", "float64", "complex64", "complex128", "bfloat16"])
def test_every_element_type_goes_in_and_out(name):
    dtype = tf.as_dtype(name)
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.as_numpy_dtype)
    x = tf.placeholder(dtype, [2, 3])
    with tf.Session() as session:
        got, scalar = session.run([tf.identity(x), x[0, 1]], {x: values})
    assert got.dtype == values.dtype and scalar.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_strings_go_in_and_out():
    x = tf.placeholder(tf.string, [None])
    with tf.Session() as session:
        got = session.run(tf.identity(x), {x: ["", "abc", b"\x00\xff", "é"]})
    assert got.tolist() == [b"", b"abc", b"\x00\xff", "é".encode()]


def test_dlpack_goes_both_ways():
    class Exported:
        """An array that only speaks DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = tf.placeholder(tf.float32, [2, 3])
    with tf.Session() as session:
        got = session.run(x * 2.0, {x: Exported(array)})
    np.testing.assert_array_equal(np.from_dlpack(got), array * 2)


class TorchLike:
    """What of a torch.Tensor matters to who reads it as NumPy: the refusals are torch's and NumPy's."""

    def __init__(self, array, dtype="torch.float32", requires_grad=False, device="cpu"):
        self.array, self.dtype, self.requires_grad, self.device = array, dtype, requires_grad, device

    def detach(self):
        return TorchLike(self.array, self.dtype, False, self.device)

    def view(self, dtype):
        assert dtype == "int16" and self.array.itemsize == 2
        return TorchLike(self.array.view(np.int16), "torch.int16")

    def __dlpack__(self, **options):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.dtype == "torch.bfloat16":
            raise RuntimeError("Unsupported dtype in DLTensor.")
        if self.device != "cpu":
            raise BufferError("Unsupported device in DLTensor.")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        if self.device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to "
                            "copy the tensor to host memory first.")
        return self.array


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16="int16"))


def test_tensors_of_torch_that_want_gradients(torch):
    x = tf.placeholder(tf.float32, [2])
    value = TorchLike(np.array([1.5, 2.5], np.float32), requires_grad=True)
    with tf.Session() as session:
        assert session.run([x * 2.0, tf.constant(value)], {x: value})[0].tolist() == [3.0, 5.0]
        assert session.run(tf.constant(value)).tolist() == [1.5, 2.5]
        rows = TorchLike(np.array([[1.5], [2.5]], np.float32), requires_grad=True)
        assert session.run(tf.matmul([[2.0, 4.0]], rows)).tolist() == [[13.0]]
        assert session.run(x + value, {x: value}).tolist() == [3.0, 5.0]


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_tensors_of_torch_in_bfloat16(torch, dtype, requires_grad):
    exact = np.array([1.5, -2.0, np.inf, 3.0e38], np.float32)
    bits = (exact.view(np.uint32) >> 16).astype(np.uint16)
    values = (bits.astype(np.uint32) << 16).view(np.float32)
    value = TorchLike(bits, "torch.bfloat16", requires_grad)
    x = tf.placeholder(dtype, [None])
    with tf.Session() as session:
        for y in (x, tf.constant(value)):
            got = session.run(tf.cast(y, tf.float32), {x: value})
            np.testing.assert_array_equal(got, values)


def test_bfloat16_of_torch_without_ml_dtypes(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.setattr(tf.bfloat16, "_np", "bfloat16")
    got = foreign_arrays.as_numpy(TorchLike(np.array([0x3FC0], np.uint16), "torch.bfloat16"))
    assert got.dtype == np.float32 and got.tolist() == [1.5]


def test_a_tensor_of_torch_elsewhere(torch):
    """On a GPU: a TypeError that names what was fed and says what to do."""
    x = tf.placeholder(tf.float32, [1], name="x")
    value = TorchLike(np.zeros(1, np.float32), device="cuda:0")
    with tf.Session() as session, pytest.raises(TypeError) as caught:
        session.run(x, {x: value})
    text = str(caught.value)
    assert "'x:0'" in text and "on cuda:0" in text and "Tensor.cpu()" in text
    with pytest.raises(TypeError, match=r"Tensor\.cpu\(\)"):
        tf.constant(value)


def test_repeated_steps_do_not_grow_the_process():
    """A thread's free blocks are used before new ones are asked for, also when its byte count is due."""
    x = tf.placeholder(tf.float32, [4096])
    y = x
    for i in range(60):
        y = tf.tanh(y) + tf.sigmoid(y)

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()
    with tf.Session(threads=1) as session:
        call, values = session.make_callable(y, [x]), np.zeros(4096, np.float32)
        for _ in range(50):
            call(values)
        before = resident()
        for _ in range(400):
            call(values)
        assert resident() - before < 4 << 20


class Text(str):
    """A subclass; its bytes are the str's."""


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (40,), (2, 3, 4), (1,) * 9 + (2,)])
def test_object_arrays_of_text_go_in_and_out(shape):
    rng = np.random.default_rng(3)
    kinds = [lambda s: s, lambda s: s.encode(), Text, np.str_, lambda s: np.bytes_(s.encode())]
    alphabet = list("ab é€😀\n") + ["\x00z"]
    texts = ["".join(rng.choice(alphabet, rng.integers(0, 40))) for _ in range(int(np.prod(shape)))]
    values = np.empty(len(texts), object)
    for i, text in enumerate(texts):
        values[i] = kinds[i % len(kinds)](text)
    values = values.reshape(shape)
    x = tf.placeholder(tf.string, shape)
    with tf.Session() as session:
        made = session.make_callable(tf.identity(x), [x])
        for got in (session.run(tf.identity(x), {x: values}), made(values), session.run(x, {x: values})):
            assert np.shape(got) == shape
            assert [bytes(b) for b in np.ravel(np.array(got, object))] == [t.encode() for t in texts]
            assert all(type(b) is bytes for b in np.ravel(np.array(got, object)))


def test_strided_and_large_strings_go_in_and_out():
    values = np.array([[b"a" * 3000, "b", b"", "c" * 100000], ["d", b"e" * 17, "f" * 16, b"g"]], object)
    x = tf.placeholder(tf.string, None)
    with tf.Session() as session:
        for seen in (values.T, values[:, ::2], values[::-1, 1:], np.asfortranarray(values)):
            got = session.run(tf.concat([x, x], 0), {x: seen})
            want = [[v.encode() if isinstance(v, str) else v for v in row] for row in seen.tolist()]
            assert got.tolist() == want * 2


@pytest.mark.parametrize("wrong", [None, 3, 2.5, ["a"], object()])
def test_what_is_no_text_is_refused_by_place(wrong):
    values = np.empty((2, 3), object)
    values[:] = "a"
    values[1, 1] = wrong
    x = tf.placeholder(tf.string, [2, 3])
    with tf.Session() as session:
        made = session.make_callable(x, [x])
        for attempt in (lambda: session.run(tf.identity(x), {x: values}), lambda: made(values)):
            with pytest.raises(TypeError, match=r"must be strings, got .* at \[1, 1\]"):
                attempt()
        values[1, 1] = "\ud800"
        for attempt in (lambda: session.run(tf.identity(x), {x: values}), lambda: made(values)):
            with pytest.raises(UnicodeEncodeError, match=rf"at \[1, 1\] .* Tensor .{x.name}."):
                attempt()
        values[1, 1] = "b"
        assert session.run(tf.identity(x), {x: values})[1, 1] == b"b"


@pytest.fixture
def after_giving_up_use():
    """Each reader that passes a tensor on and is not its last waits where it gave up its use; how often that was."""
    waited = []

    @ctypes.CFUNCTYPE(None)
    def wait():
        waited.append(1)
        time.sleep(0.06)
    _executor.after_giving_up_use(ctypes.cast(wait, ctypes.c_void_p).value)
    yield waited
    _executor.after_giving_up_use(0)


@pytest.mark.skipif(not _executor.checked_build(), reason="the core calls there in the checking build alone: -Dchecks=true")
def test_what_is_passed_on_is_not_written_over(timing, after_giving_up_use):
    """Another reader, the last, computes in place between the use given up and the reference taken: the reference is first."""
    x = tf.placeholder(tf.float32, [64])
    y = x * 2.0
    with tf.control_dependencies([timing("Sleep")(x, ms=1)]):
        kept = tf.identity(y)
    z = y - timing("Sleep")(x, ms=20)
    with tf.Session(threads=2) as session:
        for _ in range(4):
            del after_giving_up_use[:]
            got, _ = session.run([kept, z], {x: np.ones(64, np.float32)})
            np.testing.assert_array_equal(got, np.full(64, 2, np.float32))
            assert after_giving_up_use
