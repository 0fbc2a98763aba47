"""Handwritten digits as TensorFlow 1.x's tutorials train them: a tf.data pipeline, tf.layers,
summaries, and a MonitoredTrainingSession that goes on where a killed one stood.

    python examples/mnist_tutorial.py                           # the bundled 8x8 digits
    python examples/mnist_tutorial.py --data DIR                # MNIST's idx files in DIR
    tensorboard --logdir train                                  # its curves, images and graph

Kill it (kill -9), start it again: it ends with the same weights, bit for bit.
"""
import hashlib

import datasets
import pyflow as tf
from pyflow import progress


def pipeline(images, labels, batch, seed):
    """An iterator over endless shuffled batches, slightly noisy; saved with the checkpoints."""
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(images), seed=seed).repeat()

    def noisy(image, label):
        return image + tf.random_normal(tf.shape(image), stddev=0.05), label
    data = data.map(noisy, num_parallel_calls=2).batch(batch).prefetch(2)
    iterator = data.make_one_shot_iterator()
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS,
                         tf.data.experimental.make_saveable_from_iterator(iterator))
    return iterator.get_next()


def network(images, training):
    """Logits of ten classes: two convolutions, a hidden layer with dropout."""
    small = images.shape[1] < 20
    x = tf.layers.conv2d(images, 16, 3, padding="same", activation=tf.nn.relu, name="conv1")
    if not small:
        x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.conv2d(x, 32, 3, padding="same", activation=tf.nn.relu, name="conv2")
    x = tf.layers.flatten(tf.layers.max_pooling2d(x, 2, 2))
    x = tf.layers.dense(x, 128, activation=tf.nn.relu, name="hidden")
    x = tf.layers.dropout(x, 0.4, training=training)
    return tf.layers.dense(x, 10, name="logits")


def accuracy_of(session, images, labels, logits, test):
    right = 0
    for i in range(0, len(test[0]), 1000):
        x, y = test[0][i:i + 1000], test[1][i:i + 1000]
        right += (session.run(logits, {images: x, labels: y}).argmax(1) == y).sum()
    return right / len(test[0])


def main():
    parser = datasets.Parser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", help="folder of MNIST's idx files")
    parser.add_argument("--logdir", default="train", help="checkpoints and summaries")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    train, test = datasets.mnist(asked.data) if asked.data else datasets.digits(asked.seed)

    tf.set_random_seed(asked.seed)
    batch = pipeline(*train, 64, asked.seed)
    images = tf.placeholder_with_default(batch[0], [None, *train[0].shape[1:]], "images")
    labels = tf.placeholder_with_default(batch[1], [None], "labels")
    training = tf.placeholder_with_default(False, [], "training")
    logits = network(images, training)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    right = tf.cast(tf.equal(tf.argmax(logits, 1), tf.cast(labels, tf.int64)), tf.float32)
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("batch_accuracy", tf.reduce_mean(right))
    tf.summary.image("digits", images, max_outputs=3)
    for variable in tf.trainable_variables():
        tf.summary.histogram(variable.op.name, variable)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(1e-3).minimize(loss, step)

    hooks = [tf.train.StopAtStepHook(last_step=asked.steps), tf.train.NanTensorHook(loss)]
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=asked.logdir, hooks=hooks, save_checkpoint_secs=None,
            save_checkpoint_steps=asked.save_steps, save_summaries_steps=50) as session:
        while not session.should_stop():
            _, value, at = session.run([train_op, loss, step], {training: True})
            if at % 100 == 0:
                progress.line(f"step {at:5d}  loss {value:.4f}")

    with tf.Session() as session:
        tf.train.Saver(tf.global_variables()).restore(
            session, tf.train.latest_checkpoint(asked.logdir))
        found = accuracy_of(session, images, labels, logits, test)
        digest = hashlib.sha256()
        for variable in sorted(tf.global_variables(), key=lambda v: v.name):
            digest.update(session.run(variable).tobytes())
    print(f"test accuracy {found:.4f}\nsha256 of all variables {digest.hexdigest()}")


if __name__ == "__main__":
    main()
