"""MNIST as the tutorials read it: files, options, and TensorFlow's order of batches, which was recorded from
tensorflow/contrib/learn/python/learn/datasets/mnist.py of 1.15 (images and labels 0 to 10)."""
import gzip
import struct

import numpy as np
import pytest

import pyflow as tf
from pyflow.examples.tutorials.mnist import input_data

RECORDED = {        # (seed, graph's seed, shuffle, sizes of batches): batches
    (1, None, True, (4,) * 9): [
        [2, 3, 4, 9], [1, 6, 0, 7], [10, 8, 5, 3], [7, 9, 2, 10], [6, 5, 1, 4], [8, 0, 8, 2],
        [6, 0, 3, 5], [7, 4, 1, 10], [9, 0, 6, 5]],
    (None, 7, True, (4,) * 9): [
        [8, 5, 0, 2], [1, 10, 7, 3], [6, 9, 4, 5], [2, 0, 10, 9], [8, 1, 7, 3], [6, 4, 9, 0],
        [1, 2, 4, 7], [6, 5, 3, 8], [10, 1, 7, 9]],
    (3, 7, True, (4,) * 9): [
        [5, 4, 1, 2], [9, 6, 7, 0], [3, 8, 10, 2], [3, 1, 4, 8], [9, 5, 7, 0], [6, 10, 2, 9],
        [0, 4, 6, 8], [7, 1, 5, 3], [10, 0, 6, 8]],
    (1, None, False, (4,) * 9): [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 0, 1],
        [2, 3, 4, 5], [6, 7, 8, 9], [10, 0, 1, 2]],
    (2, None, True, (11, 5, 6, 11, 3)): [
        [4, 1, 9, 5, 0, 7, 2, 3, 6, 10, 8], [1, 4, 3, 2, 9], [6, 5, 8, 10, 0, 7],
        [5, 8, 3, 10, 7, 0, 9, 1, 6, 2, 4], [0, 10, 6]],
}


@pytest.mark.parametrize("case", RECORDED, ids=str)
def test_batches_come_in_tensorflows_order(case):
    seed, of_graph, shuffle, sizes = case
    eleven = np.arange(11, dtype=np.uint8)
    with tf.Graph().as_default():
        if of_graph is not None:
            tf.set_random_seed(of_graph)
        data = input_data.DataSet(eleven.reshape(11, 1, 1, 1), eleven, dtype=tf.uint8, seed=seed)
        batches = [data.next_batch(size, shuffle=shuffle) for size in sizes]
    assert [labels.tolist() for _, labels in batches] == RECORDED[case]
    assert all((images.ravel() == labels).all() for images, labels in batches)
    assert data.epochs_completed == 3


def write(folder, plain=False, dotted=False):
    """Seven training and three test images of 3 x 2 pixels; image i has the value 10 * i."""
    for name, n in (("train", 7), ("t10k", 3)):
        values = np.repeat(np.arange(n, dtype=np.uint8) * 10, 6).tobytes()
        for kind, head, body in (("images-idx3", (0x803, n, 3, 2), values),
                                 ("labels-idx1", (0x801, n), bytes(range(n)))):
            data = struct.pack(f">{len(head)}I", *head) + body
            path = folder / f"{name}-{kind.replace('-', '.') if dotted else kind}-ubyte"
            path.write_bytes(data) if plain else path.with_name(path.name + ".gz").write_bytes(
                gzip.compress(data))


@pytest.mark.parametrize("options", [{}, {"plain": True}, {"plain": True, "dotted": True}], ids=str)
def test_files_compressed_or_not(tmp_path, options):
    write(tmp_path, **options)
    data = input_data.read_data_sets(str(tmp_path), validation_size=2)
    assert data.train.images.dtype == np.float32 and data.train.images.shape == (5, 6)
    np.testing.assert_array_equal(data.train.images[:, 0], np.float32(range(20, 70, 10)) * np.float32(1 / 255))
    assert data.validation.labels.tolist() == [0, 1] and data.test.num_examples == 3
    assert data.train.labels.dtype == np.uint8


def test_options(tmp_path):
    write(tmp_path)
    data = input_data.read_data_sets(tmp_path, one_hot=True, dtype=tf.uint8, reshape=False,
                                     validation_size=0)
    assert data.train.images.shape == (7, 3, 2, 1) and data.train.images.dtype == np.uint8
    assert data.train.labels.dtype == np.float64
    np.testing.assert_array_equal(data.train.labels, np.eye(10)[:7])
    with pytest.raises(ValueError, match="between 0 and 7. Received: 8"):
        input_data.read_data_sets(tmp_path, validation_size=8)
    with pytest.raises(TypeError, match="Invalid image dtype"):
        input_data.read_data_sets(tmp_path, dtype=tf.int32, validation_size=0)


def test_fake_data():
    data = input_data.read_data_sets("nowhere", fake_data=True, one_hot=True)
    images, labels = data.train.next_batch(3, fake_data=True)
    assert data.train.num_examples == 10000
    assert images == [[1] * 784] * 3 and labels == [[1] + [0] * 9] * 3


def test_missing_files_are_named(tmp_path, monkeypatch):
    write(tmp_path)
    (tmp_path / input_data.TEST_LABELS).unlink()
    monkeypatch.delenv("PYFLOW_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as e:
        input_data.read_data_sets(str(tmp_path))
    assert f"{tmp_path} lacks t10k-labels-idx1-ubyte.gz. Put" in str(e.value)
    assert "nothing is downloaded" in str(e.value)


def test_folder_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    write(tmp_path / "mnist")
    monkeypatch.setenv("PYFLOW_DATA", str(tmp_path))
    assert input_data.read_data_sets("MNIST_data", validation_size=1).train.num_examples == 6


@pytest.mark.parametrize("data, message", [
    (b"", "not an idx file"),
    (struct.pack(">2I", 0x801, 4), "not an idx file of bytes with 3 dimensions"),
    (struct.pack(">4I", 0x803, 2, 3, 2) + bytes(11), "its header promises 2 x 3 x 2 bytes, it has 11"),
    (struct.pack(">4I", 0x803, 2**32 - 1, 2**32 - 1, 2**32 - 1), "cut short or damaged"),
    (gzip.compress(struct.pack(">4I", 0x803, 0, 3, 2))[:-9], "damaged gzip data"),
], ids=["empty", "labels", "short", "huge", "gzip"])
def test_damaged_files(tmp_path, data, message):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        input_data.extract_images(str(tmp_path / "f"))


def test_labels_outside_the_classes(tmp_path):
    with pytest.raises(ValueError, match="labels are 3 to 12, expected 0 to 9"):
        input_data.dense_to_one_hot(np.array([3, 12]), 10)


def test_the_tutorials_network():
    from pyflow import _names
    from pyflow.examples.tutorials.mnist import mnist
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 200).astype(np.int32)
    images = rng.normal(0, 0.3, (200, 784)).astype(np.float32)
    images[np.arange(200), labels] += 5
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(1)
        x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int32, [None])
        logits = mnist.inference(x, 32, 16)
        loss, right = mnist.loss(logits, y), mnist.evaluation(logits, y)
        names = [v.op.name for v in tf.global_variables()]
        assert names == [f"{layer}/{kind}" for layer in ("hidden1", "hidden2", "softmax_linear")
                         for kind in ("weights", "biases")]
        step = (mnist.training(loss, 0.3) if "summary" not in _names.NOT_HERE else
                tf.train.GradientDescentOptimizer(0.3).minimize(loss))
        sess.run(tf.global_variables_initializer())
        feed = {x: images, y: labels}
        assert sess.run(right, feed) < 60
        for _ in range(60):
            sess.run(step, feed)
        assert sess.run(right, feed) > 190 and sess.run(loss, feed) < 0.3
