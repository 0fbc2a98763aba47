"""tf.get_session_handle and kin: tensors that stay in the session.  What happens is what TensorFlow
2.21's compat.v1 did with the same calls, but where a test says otherwise."""
import gc
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow.session import runtime

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
GONE = "The tensor with handle 'GetSessionHandle;%d;.*' is not in the session store"


@pytest.fixture(autouse=True)
def _graph_of_its_own():
    with tf.Graph().as_default():
        yield


@pytest.fixture(name="sess")
def _sess(_graph_of_its_own):
    with tf.Session() as session:
        yield session


@pytest.fixture(name="c")
def _c(_graph_of_its_own):
    return tf.multiply(tf.constant(10.0), tf.constant(5.0), name="c")


def test_the_op_is_colocated_with_its_data(c):
    handle = tf.get_session_handle(c)
    assert (handle.name, handle.dtype, handle.shape) == ("GetSessionHandle:0", tf.string, [])
    assert handle.op.colocation_groups() == [b"loc:@c"] and handle.op.device == ""


def test_a_handle_is_fetched_and_evaluated(sess, c):
    handle = tf.get_session_handle(c)
    first = sess.run(handle)
    many = sess.run([handle, {"x": handle}])
    assert first.handle == str(first) == f"GetSessionHandle;0;{DEVICE}"
    assert many[0].handle == f"GetSessionHandle;1;{DEVICE}" and many[1]["x"].handle == many[0].handle
    value = first.eval()
    assert value == 50 and type(value) is np.float32


def test_a_handle_gives_its_tensor_in_another_run(sess, c):
    h = sess.run(tf.get_session_handle(c))
    holder, tensor = tf.get_session_tensor(h.handle, tf.float32)
    assert (holder.dtype, holder.device, tensor.device) == (tf.string, DEVICE, DEVICE)
    assert tensor.shape.ndims is None and tensor.dtype == tf.float32
    assert sess.run(tensor * 2, {holder: h.handle}) == 100
    names = tf.constant(["a", "bc"])
    assert sess.run(tf.get_session_handle(names)).eval().tolist() == [b"a", b"bc"]


def test_a_handle_is_fed_for_any_tensor(sess, c):
    h = sess.run(tf.get_session_handle(c))
    d = c * c
    assert sess.run(d, {c: h}) == 2500
    assert sess.run([c, d], {c: h}) == [50, 2500]
    assert sess.make_callable(d, [c])(h) == 2500
    run = sess.partial_run_setup([d], [c])
    assert sess.partial_run(run, [d], {c: h}) == [2500]


def test_callables_and_partial_runs_give_handles(sess, c):
    handle = tf.get_session_handle(c)
    assert sess.make_callable(handle)().eval() == 50        # TensorFlow 2.21: only its text
    run = sess.partial_run_setup([handle], [])
    assert sess.partial_run(run, [handle])[0].eval() == 50


def test_the_resource_form(sess, c):
    """In TensorFlow 2.21 what it returns can be used for nothing."""
    h = sess.run(tf.raw_ops.GetSessionHandleV2(value=c))
    assert h.handle == f"GetSessionHandleV2;0;{DEVICE}" and h.eval() == 50
    assert sess.run(c + 1, {c: h}) == 51


def test_what_does_not_fit_is_refused(sess, c):
    h = sess.run(tf.get_session_handle(c))
    whole, pair = tf.placeholder(tf.int32), tf.placeholder(tf.float32, [2])
    holder, tensor = tf.get_session_tensor(h.handle, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32 but that of float32 is provided"):
        sess.run(whole + 1, {whole: h})
    with pytest.raises(tf.errors.InvalidArgumentError, match="string but that of float32"):
        sess.run(tensor, {holder: h})
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(\) for .*'\(2,\)'"):
        sess.run(pair * 1.0, {pair: h})                     # TensorFlow computes with the scalar
    with pytest.raises(tf.errors.InternalError, match="Output 0 of type float does not match "
                       "declared output type int32"):
        sess.run(tensor, {holder: h.handle})
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value"):
        sess.run(tensor)
    with pytest.raises(TypeError, match="`data` must be of type Tensor"):
        tf.get_session_handle(3.0)
    with pytest.raises(TypeError, match="`data` must be of type Tensor"):
        tf.get_session_handle(tf.Variable(1.0))
    for make in (tf.delete_session_tensor, lambda name: tf.get_session_tensor(name, tf.float32)):
        with pytest.raises(ValueError, match="Unknown attribute"):
            make("abc")
    for handles in (["x", "y"], [["x"]]):
        with pytest.raises(ValueError, match="rank 0"):
            tf.raw_ops.GetSessionTensor(handle=handles, dtype=tf.float32)
        with pytest.raises(ValueError, match="rank 0"):
            tf.raw_ops.DeleteSessionTensor(handle=handles)


def test_deleting(sess, c):
    handle, d = tf.get_session_handle(c), c * c
    h = sess.run(handle)
    holder, delete = tf.delete_session_tensor(h.handle)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Failed to delete a tensor with handle 'nonsense' in the session store"):
        sess.run(delete, {holder: "nonsense"})
    assert sess.run(delete, {holder: h.handle}) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="Failed to delete a tensor with handle"):
        sess.run(delete, {holder: h.handle})
    with pytest.raises(tf.errors.InvalidArgumentError, match=GONE % 0):
        h.eval()
    with pytest.raises(tf.errors.InvalidArgumentError, match=GONE % 0):
        sess.run(d, {c: h})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Failed to delete"):
        h.delete()
    h = sess.run(handle)
    h.delete()
    for use in (h.delete, h.eval):
        with pytest.raises(TypeError, match="GetSessionHandle;1;.* may have already been deleted"):
            use()
    with pytest.raises(tf.errors.InvalidArgumentError, match=GONE % 1):
        sess.run(d, {c: h})


def test_a_raw_handle_is_the_callers(sess, c):
    h = sess.run(tf.get_session_handle(c))
    raw = h.get_raw_handle()
    with pytest.raises(TypeError, match="may have already been deleted"):
        h.eval()
    del h
    gc.collect()
    holder, tensor = tf.get_session_tensor(raw, tf.float32)
    for _ in range(30):                                     # dead handles come and go
        sess.run(tf.get_default_graph().get_tensor_by_name("GetSessionHandle:0"))
    assert sess.run(tensor, {holder: raw}) == 50


def test_a_handle_belongs_to_its_session(sess, c):
    h = sess.run(tf.get_session_handle(c))
    holder, tensor = tf.get_session_tensor(h.handle, tf.float32)
    with tf.Session() as other:
        with pytest.raises(tf.errors.InvalidArgumentError, match=GONE % 0):
            other.run(tensor, {holder: h.handle})
        with pytest.raises(tf.errors.InvalidArgumentError, match=GONE % 0):
            other.run(c * c, {c: h})


def test_dead_handles_are_deleted_ten_at_a_time(sess, c):
    handle = tf.get_session_handle(c)
    holder, tensor = tf.get_session_tensor("", tf.float32)
    names = [sess.run(handle).handle for _ in range(9)]
    assert sess.run(tensor, {holder: names[0]}) == 50
    sess.run(handle)
    for name in names:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            sess.run(tensor, {holder: name})


def test_a_closed_session_has_no_tensors(c):
    sess = tf.Session()
    h = sess.run(tf.get_session_handle(c))
    sess.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        h.eval()
    with pytest.raises(RuntimeError, match="closed Session"):
        h.delete()


def test_a_handle_keeps_the_value_of_its_moment(sess):
    v, fed = tf.Variable([1.0, 2.0]), tf.placeholder(tf.float32, [2])
    kept = [tf.get_session_handle(tf.identity(v)), tf.get_session_handle(fed)]
    sess.run(v.initializer)
    array = np.array([7, 8], np.float32)
    a, b = sess.run(kept, {fed: array})
    array[:] = 0
    sess.run(v.assign_add([4.0, 4.0]))
    assert a.eval().tolist() == [1, 2] and b.eval().tolist() == [7, 8]
    assert sess.run(tf.assign_add(v, fed), {fed: a}).tolist() == [6, 8]
    assert a.eval().tolist() == [1, 2]


def test_in_a_loop_every_turn_keeps_its_own(sess):
    def body(i, names):
        return i + 1, names.write(i, tf.raw_ops.GetSessionHandle(value=tf.cast(i * i, tf.float32)))
    names = tf.while_loop(lambda i, _: i < 4, body, [0, tf.TensorArray(tf.string, 4)])[1].stack()
    holder, tensor = tf.get_session_tensor("", tf.float32)
    kept = sess.run(names)
    assert [sess.run(tensor, {holder: name}) for name in kept] == [0, 1, 4, 9]


def test_memory_stays_flat_over_many_handles(sess):
    x = tf.placeholder(tf.float32, [4096])
    handle, y = tf.get_session_handle(x + 1.0), x * 1.0
    array = np.zeros(4096, np.float32)

    def rounds(n):
        h = sess.run(handle, {x: array})
        for i in range(n):
            h = sess.run(handle, {x: h})                    # the last one dies
            if i % 3 == 0:
                sess.run(handle, {x: array}).delete()
        return h
    rounds(50)
    gc.collect()
    before = runtime.executor().memory_stats()["in_use"]
    h = rounds(7500)
    assert h.eval()[0] == 7501
    del h
    gc.collect()
    assert runtime.executor().memory_stats()["in_use"] - before < 12 * 4096 * 4
    assert sess.run(y, {x: array})[0] == 0


def test_closing_frees_what_was_kept(c):
    big = tf.zeros([1 << 18])
    before = runtime.executor().memory_stats()["in_use"]
    sess = tf.Session()
    kept = [sess.run(tf.get_session_handle(big + 1.0)) for _ in range(8)]
    assert runtime.executor().memory_stats()["in_use"] - before >= 8 << 20
    sess.close()
    assert runtime.executor().memory_stats()["in_use"] - before < 2 << 20
    assert len(kept) == 8


def test_threads_keep_and_drop_side_by_side(sess):
    x = tf.placeholder(tf.float32, [])
    handle, y = tf.get_session_handle(x + 1.0), x * 1.0
    wrong = []

    def work(k):
        h = sess.run(handle, {x: float(1000 * k)})
        for i in range(100):
            h = sess.run(handle, {x: h})
            if sess.run(y, {x: h}) != 1000 * k + i + 2:
                wrong.append((k, i))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_gradients_end_at_handles(sess, c):
    holder, tensor = tf.get_session_tensor("", tf.float32)
    assert tf.gradients(tensor, [holder]) == [None]
