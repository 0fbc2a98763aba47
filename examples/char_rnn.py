"""A character RNN (Karpathy 2015): layers of LSTM that read a text letter by letter, guess the next
one, and then write a text of their own.

    python examples/char_rnn.py --data DIR          # DIR/input.txt, such as Shakespeare's plays
    python examples/char_rnn.py                     # the manual that comes with Python
    python examples/char_rnn.py --logdir train      # keeps checkpoints and summaries, and goes on
    python examples/char_rnn.py --logdir train --steps 0 --start "ROMEO:" --temperature 0.7

The text is read as `batch` streams side by side; the state at the end of a piece is where the next
one starts.  The figure is the mean of -log p(next letter), in nats, over the last twentieth of the
text, which is not trained on: Shakespeare's reach 1.65 after 2000 steps, in two minutes of one
processor.
"""
import os

import numpy as np

import datasets
import pyflow as tf
from pyflow import progress


class Model:
    """The network that reads `letters`, int32 [batch, time], from the state `start` on."""

    def __init__(self, letters, kinds, asked):
        cells = [tf.nn.rnn_cell.LSTMCell(asked.units) for _ in range(asked.layers)]
        cell = tf.nn.rnn_cell.MultiRNNCell(cells)
        self.letters = letters
        self.start = cell.zero_state(tf.shape(letters)[0], tf.float32)
        with tf.variable_scope("char_rnn", reuse=tf.AUTO_REUSE):
            table = tf.get_variable("letters", [kinds, asked.units])
            x = tf.nn.embedding_lookup(table, letters)
            x, self.end = tf.nn.dynamic_rnn(cell, x, initial_state=self.start)
            self.logits = tf.layers.dense(x, kinds, name="logits")

    def loss(self, wanted):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=wanted, logits=self.logits))


def pieces(codes, batch, time):
    """(letters, the letters after them), int32 [batch, time] each: every stream's next piece."""
    count = (len(codes) - 1) // (batch * time)
    streams = codes[:-1][:count * batch * time].reshape(batch, count, time)
    wanted = codes[1:][:count * batch * time].reshape(batch, count, time)
    for k in range(count):
        yield streams[:, k], wanted[:, k]


def mean_loss(session, model, wanted, loss, codes):
    """The loss over all of `codes`, read in ten streams."""
    state, found = None, []
    for x, y in pieces(codes, 10, min(100, len(codes) // 10 - 1)):
        feeds = {model.letters: x, wanted: y}
        if state is not None:
            feeds[model.start] = state
        value, state = session.run([loss, model.end], feeds)
        found.append(value)
    return np.mean(found)


def train(session, asked, model, wanted, train_op, loss, codes):
    """Reads the text again and again; the state is carried over from piece to piece."""
    step = session.run(tf.train.get_global_step())
    with progress.of("training", asked.steps) as shown:
        while step < asked.steps:
            state = None
            for x, y in pieces(codes, asked.batch, asked.time):
                feeds = {model.letters: x, wanted: y}
                if state is not None:
                    feeds[model.start] = state
                _, value, state, step = session.run(
                    [train_op, loss, model.end, tf.train.get_global_step()], feeds)
                shown.set(int(step), loss=float(value))
                if step >= asked.steps:
                    break


def sample(session, model, drawn, temperature, asked, letters):
    """`asked.length` letters that follow `asked.start`, drawn one by one."""
    text, state = [letters.index(c) for c in asked.start if c in letters], None
    read = text
    for _ in range(asked.length):
        feeds = {model.letters: [read], temperature: asked.temperature}
        if state is not None:
            feeds[model.start] = state
        new, state = session.run([drawn, model.end], feeds)
        read = [new[0, 0]]
        text = text + read
    return "".join(letters[c] for c in text)


def main(arguments=None):
    parser = datasets.Parser(description=__doc__.split(":", 1)[0])
    parser.add_argument("--data", help="folder of input.txt")
    parser.add_argument("--logdir", help="checkpoints; without it, nothing is kept")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--time", type=int, default=50, help="letters through which gradients go")
    parser.add_argument("--rate", type=float, default=8e-3, help="Adam's, at the start")
    parser.add_argument("--start", default="The ", help="what the written text starts with")
    parser.add_argument("--length", type=int, default=500, help="letters to write")
    parser.add_argument("--temperature", type=float, default=0.8, help="of writing: 1, as learnt")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    text = datasets.text(asked.data)
    letters = "".join(sorted(set(text)))
    numbers = {letter: k for k, letter in enumerate(letters)}
    codes = np.array([numbers[c] for c in text], np.int32)
    known, unknown = np.split(codes, [len(codes) * 19 // 20])

    tf.set_random_seed(asked.seed)
    model = Model(tf.placeholder(tf.int32, [None, None], "letters"), len(letters), asked)
    wanted = tf.placeholder(tf.int32, [None, None], "wanted")
    loss = model.loss(wanted)
    temperature = tf.placeholder(tf.float32, [], "temperature")
    drawn = tf.multinomial(model.logits[:, -1] / temperature, 1)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(asked.rate, step, max(1, asked.steps), 0.1)
    optimizer = tf.train.AdamOptimizer(rate)
    slopes, variables = zip(*optimizer.compute_gradients(loss))
    slopes, _ = tf.clip_by_global_norm(slopes, 5.0)
    train_op = optimizer.apply_gradients(zip(slopes, variables), step)
    saver = tf.train.Saver()

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        if asked.logdir and tf.train.latest_checkpoint(asked.logdir):
            saver.restore(session, tf.train.latest_checkpoint(asked.logdir))
        train(session, asked, model, wanted, train_op, loss, known)
        if asked.logdir:
            saver.save(session, os.path.join(asked.logdir, "model.ckpt"), step)
        print(sample(session, model, drawn, temperature, asked, letters))
        found = mean_loss(session, model, wanted, loss, unknown)
    print(f"held-out loss {found:.4f} nats a letter")
    return found


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
