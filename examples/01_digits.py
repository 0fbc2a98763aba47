"""Trains a small convolutional classifier of handwritten digits, saves it, and restores it in a
new process.

    python examples/01_digits.py                        # the bundled 8x8 digits, three seeds, 30 s
    python examples/01_digits.py --data DIR             # MNIST: softmax regression, then the convnet
    python examples/01_digits.py --restore CHECKPOINT   # what the new process does
"""
import subprocess
import sys
import tempfile
import time

import datasets
import models
import pyflow as tf
from pyflow import progress

#        model, epochs, batch size, Adam's rate, accuracy to reach
DIGITS = [(models.convnet, 40, 50, 2e-3, 0.97)]
MNIST = [(models.softmax_regression, 8, 100, 1e-3, 0.92), (models.convnet, 8, 100, 1e-3, 0.99)]


class Classifier:
    """One graph with its session: `train`, `accuracy`, and the saver of its variables."""

    def __init__(self, model, side, seed, rate):
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            self.x = tf.placeholder(tf.float32, [None, side, side, 1])
            self.y = tf.placeholder(tf.int64, [None])
            self.keep = tf.placeholder_with_default(1.0, [])
            logits = model(self.x, self.keep)
            self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
            self.right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), self.y), tf.int32))
            self.saver = tf.train.Saver()
            self.train_op = tf.train.AdamOptimizer(rate).minimize(self.loss)
            self.init = tf.global_variables_initializer()
        self.session = tf.Session(graph=graph)

    def train(self, data, test, epochs, batch, seed):
        self.session.run(self.init)
        start, steps = time.time(), 0
        for epoch in progress.steps(range(1, epochs + 1), "training"):
            for images, labels in datasets.batches(data, batch, seed * 1000 + epoch):
                _, loss = self.session.run([self.train_op, self.loss], {self.x: images, self.y: labels, self.keep: 0.5})
                steps += 1
            if epoch % max(1, epochs // 8) == 0:
                progress.line(f"  epoch {epoch:3d}  step {steps:5d}  loss {loss:.4f}  test accuracy"
                              f" {self.accuracy(test):.4f}  {time.time() - start:5.1f} s")

    def accuracy(self, data):
        parts = [(data[0][i:i + 1000], data[1][i:i + 1000]) for i in range(0, len(data[0]), 1000)]
        return sum(self.session.run(self.right, {self.x: x, self.y: y}) for x, y in parts) / len(data[0])


def read(folder, seed):
    return datasets.mnist(folder) if folder else datasets.digits(seed)


def restored_accuracy(checkpoint, folder, seed):
    _, test = read(folder, seed)
    classifier = Classifier(models.convnet, test[0].shape[1], seed, 1e-3)
    classifier.saver.restore(classifier.session, checkpoint)
    return classifier.accuracy(test)


def check_new_process(classifier, accuracy, folder, seed):
    with tempfile.TemporaryDirectory() as target:
        path = classifier.saver.save(classifier.session, target + "/digits")
        command = [sys.executable, __file__, "--restore", path, "--seeds", str(seed)]
        command += ["--data", folder] if folder else []
        found = float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(f"a new process restored the checkpoint: test accuracy {found:.4f}")
    if found != accuracy:
        raise SystemExit(f"the restored model has accuracy {found}, not {accuracy}")


def main():
    parser = datasets.Parser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="folder of MNIST's idx files")
    parser.add_argument("--restore", metavar="CHECKPOINT")
    parser.add_argument("--seeds", type=int, nargs="+")
    asked = parser.parse_args()
    seeds = asked.seeds or ([0] if asked.data else [0, 1, 2])
    if asked.restore:
        return print(restored_accuracy(asked.restore, asked.data, seeds[0]))
    for model, epochs, batch, rate, wanted in MNIST if asked.data else DIGITS:
        for seed in seeds:
            data, test = read(asked.data, seed)
            print(f"{model.__name__}, seed {seed}: {len(data[0])} images to train on, {len(test[0])} to test", flush=True)
            classifier = Classifier(model, data[0].shape[1], seed, rate)
            classifier.train(data, test, epochs, batch, seed)
            accuracy = classifier.accuracy(test)
            if accuracy < wanted:
                raise SystemExit(f"test accuracy {accuracy:.4f}, wanted {wanted}")
    check_new_process(classifier, accuracy, asked.data, seed)


if __name__ == "__main__":
    main()
