"""The nodes of input by queues, by TensorFlow 1.15's names: checkpoints and graphs that are read by
name have them."""
import pyflow as tf


def names():
    return {op.name for op in tf.get_default_graph().get_operations()}


def test_names_of_producers():
    with tf.Graph().as_default():
        tf.train.string_input_producer(["a", "b"], num_epochs=2)
        assert {f"input_producer{rest}" for rest in (
            "", "/limit_epochs", "/limit_epochs/epochs", "/limit_epochs/CountUpTo", "/Identity",
            "/RandomShuffle", "/input_producer_EnqueueMany", "/fraction_of_32_full")} <= names()
        assert not any(name.startswith("input_producer/input_producer/") for name in names())
    with tf.Graph().as_default():
        tf.train.limit_epochs(tf.constant(1.0), 3)
        assert names() == {"Const", *(f"limit_epochs{rest}" for rest in (
            "", "/Const", "/CountUpTo", "/epochs", "/epochs/Assign", "/epochs/read"))}
