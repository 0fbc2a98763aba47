"""Names of nodes that programs look up: the last of nn.dropout and the pooling of nn.pool have
TensorFlow's."""
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def test_dropout_ends_in_mul_1():
    x = tf.placeholder(tf.float32, [2, 3])
    assert tf.nn.dropout(x, 0.5).name == "dropout/mul_1:0"
    assert tf.nn.dropout(x, 0.5, name="d", noise_shape=[2, 1]).name == "d/mul_1:0"
    assert tf.layers.dropout(x, training=True).name == "dropout_1/dropout/mul_1:0"


@pytest.mark.parametrize("n, dilated, result, pooling", [
    (1, False, "q/Squeeze:0", "q"), (2, False, "q:0", "q"), (3, False, "q:0", "q"),
    (1, True, "q/BatchToSpaceND:0", "q"), (2, True, "q/BatchToSpaceND:0", "q")])
@pytest.mark.parametrize("kind", ["MAX", "AVG"])
def test_the_pooling_has_the_name_given(n, dilated, result, pooling, kind):
    x = tf.zeros([2] + [8] * n + [1])
    y = tf.nn.pool(x, [2] * n, kind, "VALID", dilation_rate=[2 if dilated else 1] * n, name="q")
    assert y.name == result
    assert "Pool" in tf.get_default_graph().get_operation_by_name(pooling).type
    assert tf.nn.pool(x, [2] * n, kind, "SAME").name.startswith(f"{kind.lower()}_pool")
