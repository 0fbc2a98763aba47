"""Word2vec (Mikolov et al. 2013): vectors of words, such that words which stand beside the same
words are neighbours, and a map of them.

    python examples/word2vec.py --data DIR              # DIR/input.txt, such as Shakespeare's plays
    python examples/word2vec.py                         # the manual that comes with Python
    python examples/word2vec.py --picture words.svg     # the map: t-SNE of the commonest words

Skip-grams, with noise-contrastive estimation or sampled softmax.  The figure is about the last
tenth of the text, which is not trained on: how often the word between its neighbours has a higher
score than another word of the text in its place; chance is 0.5, and 10000 steps on Shakespeare's
plays reach 0.69 in 20 seconds.
"""
import collections
import re

import numpy as np

import datasets
import pictures
import pyflow as tf
from pyflow import progress


def words_of(text, kinds):
    """(the `kinds` commonest words, the text as their numbers; -1 for the rest)."""
    found = re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())
    common = [word for word, _ in collections.Counter(found).most_common(kinds)]
    numbers = {word: k for k, word in enumerate(common)}
    return common, np.array([numbers.get(word, -1) for word in found])


def skip_grams(numbers, window, random):
    """All (word, word at most `window` places away), int [n, 2]; the commonest words are left out
    now and then, as often as Mikolov's formula says."""
    share = np.bincount(numbers[numbers >= 0]) / len(numbers)
    kept = random.random(len(numbers)) < np.sqrt(1e-3 / share[numbers])
    numbers = numbers[kept & (numbers >= 0)]
    pairs = [np.stack([numbers[:-far], numbers[far:]], 1) for far in range(1, window + 1)]
    return np.concatenate(pairs + [pair[:, ::-1] for pair in pairs])


def training_batches(pairs, batch, seed):
    """Endless (words [batch], words near them [batch, 1])."""
    pairs = np.random.default_rng(seed).permutation(pairs).astype(np.int32)
    pairs = pairs[:len(pairs) // batch * batch].reshape(-1, batch, 2)
    data = tf.data.Dataset.from_tensor_slices((pairs[..., 0], pairs[..., 1:]))
    data = data.shuffle(len(pairs), seed=seed).repeat().prefetch(2)
    return data.make_one_shot_iterator().get_next()


def cloze_score(words, near, numbers, window, random):
    """The share of places where the word that stands there has a higher score beside its neighbours
    than a word drawn from the text."""
    numbers = numbers[numbers >= 0]
    around = [near[numbers[k:len(numbers) - 2 * window + k]] for k in range(2 * window + 1)]
    around = sum(around) - around[window]
    there = numbers[window:-window]
    right = (words[there] * around).sum(1)
    wrong = (words[random.permutation(there)] * around).sum(1)
    return (right > wrong).mean()


def main(arguments=None):
    parser = datasets.Parser(description=__doc__.split(":", 1)[0])
    parser.add_argument("--data", help="folder of input.txt")
    parser.add_argument("--loss", choices=["nce", "softmax"], default="nce")
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--words", type=int, default=2000, help="how many of the commonest")
    parser.add_argument("--units", type=int, default=64, help="numbers of a vector")
    parser.add_argument("--window", type=int, default=2)
    parser.add_argument("--noise", type=int, default=64, help="words drawn against each batch")
    parser.add_argument("--rate", type=float, default=1e-2, help="Adam's, at the start")
    parser.add_argument("--picture", help="file to write the map to")
    parser.add_argument("--shown", type=int, default=300, help="words on the map")
    parser.add_argument("--near", nargs="*", default=["king", "thou", "blood", "list", "file"])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    random = np.random.default_rng(asked.seed)
    words, numbers = words_of(datasets.text(asked.data), asked.words)
    known, unknown = np.split(numbers, [len(numbers) * 9 // 10])

    tf.set_random_seed(asked.seed)
    batch = training_batches(skip_grams(known, asked.window, random), asked.batch, asked.seed)
    vectors = tf.get_variable("vectors", [len(words), asked.units],
                              initializer=tf.random_uniform_initializer(-0.5, 0.5))
    weights = tf.get_variable("weights", [len(words), asked.units],
                              initializer=tf.truncated_normal_initializer(stddev=0.05))
    biases = tf.get_variable("biases", [len(words)], initializer=tf.zeros_initializer())
    sampled_loss = {"nce": tf.nn.nce_loss, "softmax": tf.nn.sampled_softmax_loss}[asked.loss]
    loss = tf.reduce_mean(sampled_loss(
        weights=weights, biases=biases, labels=tf.cast(batch[1], tf.int64),
        inputs=tf.nn.embedding_lookup(vectors, batch[0]), num_sampled=asked.noise,
        num_classes=len(words)))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.polynomial_decay(asked.rate, step, asked.steps)
    train_op = tf.train.AdamOptimizer(rate).minimize(loss, step)

    # The five words nearest to each that is asked for, by the cosine.
    unit = tf.nn.l2_normalize(vectors, 1)
    known_words = [word for word in asked.near if word in words]
    looked_at = tf.gather(unit, [words.index(word) for word in known_words])
    _, nearest = tf.nn.top_k(tf.matmul(looked_at, unit, transpose_b=True), 6)

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with progress.of("training", asked.steps) as shown:
            for at in range(1, asked.steps + 1):
                _, value = session.run([train_op, loss])
                shown.set(at, loss=float(value))
        for word, row in zip(known_words, session.run(nearest)):
            print(f"{word}: {', '.join(words[k] for k in row[1:])}")
        if asked.picture:
            some = slice(40, 40 + asked.shown)              # the first are `the`, `and`, ...
            places = pictures.tsne(session.run(unit[some]), asked.seed)
            pictures.scatter(asked.picture, words[some], places)
        found = cloze_score(*session.run([vectors, weights]), unknown, asked.window, random)
    print(f"held-out words told from others {found:.4f}")
    return found


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
