"""A convnet on CIFAR-10, as TensorFlow 1.x's tutorial builds it: records of fixed length, decoded,
cropped and mirrored at random by tf.data, batch normalisation, summaries, and a
MonitoredTrainingSession.

    python examples/cifar10.py --data DIR       # CIFAR-10's binary files, plain or .gz
    python examples/cifar10.py                  # the bundled digits as such files
    tensorboard --logdir train                  # its curves, with --logdir train

With 10,000 of the images, 2000 steps reach an accuracy of 0.615 in two minutes of one processor.
"""
import os
import tempfile

import datasets
import pyflow as tf

LABELS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + 3 * 32 * 32


def records(files):
    """The bytes of all images; TensorFlow's own way of saying that files are compressed."""
    compression = "GZIP" if files[0].endswith(".gz") else None
    return tf.data.FixedLengthRecordDataset(files, RECORD, compression_type=compression)


def decode(record):
    """(image float32 [32, 32, 3] in -1..1, label int64) of one record."""
    numbers = tf.decode_raw(record, tf.uint8)
    pixels = tf.transpose(tf.reshape(numbers[1:], [3, 32, 32]), [1, 2, 0])
    return tf.cast(pixels, tf.float32) / 127.5 - 1.0, tf.cast(numbers[0], tf.int64)


def distort(image, label, mirror):
    """Shifted by up to 4 pixels, mirrored or not (digits never are)."""
    image = tf.random_crop(tf.pad(image, [[4, 4], [4, 4], [0, 0]]), [32, 32, 3])
    return (tf.image.random_flip_left_right(image) if mirror else image), label


def training_batches(files, batch, seed, mirror):
    data = records(files).map(decode).cache().shuffle(10000, seed=seed).repeat()
    data = data.map(lambda image, label: distort(image, label, mirror), num_parallel_calls=2)
    return data.batch(batch).prefetch(2).make_one_shot_iterator().get_next()


def test_batches(files):
    return records(files).map(decode).batch(200).make_one_shot_iterator().get_next()


def network(images, widths, training):
    """Logits of ten classes: `widths` is a list of blocks, each of convolutions and a pooling."""
    x = images
    for b, block in enumerate(widths):
        for k, width in enumerate(block):
            name = f"conv{b}{k}"
            x = tf.layers.conv2d(x, width, 3, padding="same", use_bias=False, name=name)
            x = tf.layers.batch_normalization(x, training=training, momentum=0.9, name=name + "_bn")
            x = tf.nn.relu(x)
        x = tf.layers.max_pooling2d(x, 2, 2)
        x = tf.layers.dropout(x, 0.2, training=training)
    x = tf.reduce_mean(x, [1, 2])
    return tf.layers.dense(x, len(LABELS), name="logits")


def training_step(images, labels, asked):
    """(the op that makes a step, its loss)"""
    step = tf.train.get_or_create_global_step()
    with tf.variable_scope("net"):
        logits = network(images, asked.widths, training=True)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    rate = tf.train.cosine_decay(asked.rate, step, asked.steps)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(rate).minimize(loss, step)
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("rate", rate)
    tf.summary.image("images", images, max_outputs=4)
    return train, loss


def test_accuracy(checkpoint, right):
    """Of all test images, in a session of its own: (accuracy, [accuracy of each class])."""
    found = []
    with tf.Session() as session:
        tf.train.Saver(tf.global_variables()).restore(session, checkpoint)
        while True:
            try:
                found.append(session.run(right))
            except tf.errors.OutOfRangeError:
                break
    hits, labels = (sum((list(part[k]) for part in found), []) for k in (0, 1))
    each = [[hit for hit, label in zip(hits, labels) if label == k] for k in range(len(LABELS))]
    return sum(hits) / len(hits), [sum(some) / max(1, len(some)) for some in each]


def main(arguments=None):
    parser = datasets.Parser(description=__doc__.split(":", 1)[0])
    parser.add_argument("--data", help="folder of CIFAR-10's binary files")
    parser.add_argument("--logdir", help="checkpoints and summaries; without it, nothing is kept")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3, help="Adam's, at the start")
    parser.add_argument("--widths", default="32/64/128", help="of convolutions, by block")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    asked.widths = [[int(w) for w in block.split(",")] for block in asked.widths.split("/")]
    with tempfile.TemporaryDirectory() as kept:
        return train_and_test(asked, kept)


def train_and_test(asked, kept):
    if asked.data:
        train_files, test_files = datasets.cifar10(asked.data)
    else:
        train_files, test_files = datasets.digits_as_cifar10(kept, asked.seed)
    print(f"CIFAR-10 from {asked.data}" if asked.data else
          "the bundled digits, as files of CIFAR-10; --data DIR trains with the images themselves")
    logdir = asked.logdir or os.path.join(kept, "train")
    tf.set_random_seed(asked.seed)
    images, labels = training_batches(train_files, asked.batch, asked.seed, bool(asked.data))
    train, loss = training_step(images, labels, asked)
    images, labels = test_batches(test_files)
    with tf.variable_scope("net", reuse=True):
        logits = network(images, asked.widths, training=False)
    right = tf.equal(tf.argmax(logits, 1), labels), labels

    hooks = [tf.train.StopAtStepHook(last_step=asked.steps), tf.train.NanTensorHook(loss)]
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=logdir, hooks=hooks, save_checkpoint_secs=None,
            save_checkpoint_steps=1000, save_summaries_steps=100) as session:
        while not session.should_stop():
            session.run(train)

    accuracy, each = test_accuracy(tf.train.latest_checkpoint(logdir), right)
    if asked.data:
        print(", ".join(f"{name} {share:.2f}" for name, share in zip(LABELS, each)))
    print(f"test accuracy {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
