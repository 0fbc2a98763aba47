"""A variational autoencoder of handwritten digits (Kingma and Welling 2013): what it makes of
images it has not seen, and images that it makes up.

    python examples/vae.py                      # the bundled 8x8 digits
    python examples/vae.py --data DIR           # MNIST's idx files in DIR
    python examples/vae.py --pictures DIR       # writes DIR/reconstructed.png and DIR/sampled.png

The figure is the bound on -log p(image) in nats, of the test images with pixels of 0 or 1: MNIST's
reach 88.3 after 6000 steps, in a minute of one processor.
"""
import pathlib

import numpy as np

import datasets
import pictures
import pyflow as tf


def encoder(images, hidden, latent):
    """Mean and log of the variance of the code, [n, latent] each."""
    with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
        x = tf.layers.dense(tf.layers.flatten(images), hidden, tf.nn.relu, name="hidden1")
        x = tf.layers.dense(x, hidden, tf.nn.relu, name="hidden2")
        return tf.split(tf.layers.dense(x, 2 * latent, name="code"), 2, axis=1)


def decoder(code, hidden, side):
    """Logits of the pixels, [n, side, side, 1]."""
    with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
        x = tf.layers.dense(code, hidden, tf.nn.relu, name="hidden1")
        x = tf.layers.dense(x, hidden, tf.nn.relu, name="hidden2")
        return tf.reshape(tf.layers.dense(x, side * side, name="pixels"), [-1, side, side, 1])


def bound(images, asked):
    """(nats of each image, logits of its reconstruction): what it costs to say the code, and then
    the pixels."""
    mean, log_variance = encoder(images, asked.hidden, asked.latent)
    code = mean + tf.exp(log_variance / 2) * tf.random_normal(tf.shape(mean))
    logits = decoder(code, asked.hidden, int(images.shape[1]))
    pixels = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
    divergence = 0.5 * (tf.square(mean) + tf.exp(log_variance) - 1.0 - log_variance)
    return tf.reduce_sum(pixels, [1, 2, 3]) + tf.reduce_sum(divergence, 1), logits


def binary(images):
    return (images > 0.5).astype(np.float32)


def training_batches(images, batch, seed):
    """Endless shuffled batches; a pixel is white as often as it is bright."""
    def drawn(pixels):
        bright = tf.cast(pixels, tf.float32) / 255.0
        return tf.cast(tf.random_uniform(tf.shape(bright)) < bright, tf.float32)
    data = tf.data.Dataset.from_tensor_slices(np.uint8(np.rint(images * 255)))
    data = data.shuffle(len(images), seed=seed).repeat().batch(batch).map(drawn).prefetch(2)
    return data.make_one_shot_iterator().get_next()


def main(arguments=None):
    parser = datasets.Parser(description=__doc__.split(":", 1)[0])
    parser.add_argument("--data", help="folder of MNIST's idx files")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder to write them to")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=400)
    parser.add_argument("--latent", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    (train, _), (test, _) = datasets.mnist(asked.data) if asked.data else datasets.digits(0)

    tf.set_random_seed(asked.seed)
    batch = training_batches(train, asked.batch, asked.seed)
    images = tf.placeholder_with_default(batch, [None, *train.shape[1:]], "images")
    nats, logits = bound(images, asked)
    reconstructed = tf.sigmoid(logits)
    code = tf.random_normal([100, asked.latent], seed=asked.seed)
    sampled = tf.sigmoid(decoder(code, asked.hidden, train.shape[1]))
    loss = tf.reduce_mean(nats)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdamOptimizer(tf.train.cosine_decay(1e-3, step, asked.steps)).minimize(
        loss, step)

    with tf.train.SingularMonitoredSession(
            [tf.train.StopAtStepHook(last_step=asked.steps), tf.train.NanTensorHook(loss)]
            ) as session:
        while not session.should_stop():
            session.run(train_op)
        session = session.raw_session()
        parts = [binary(test[i:i + 500]) for i in range(0, len(test), 500)]
        found = np.mean(np.concatenate([session.run(nats, {images: part}) for part in parts]))
        shown = binary(test[:50])
        rows = np.stack([shown, session.run(reconstructed, {images: shown})])
        made = session.run(sampled)
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
        # Five bands: ten images, and beneath them what the decoder made of their codes.
        bands = rows.reshape(2, 5, 10, *rows.shape[2:]).swapaxes(0, 1)
        pictures.write(asked.pictures / "reconstructed.png", bands.reshape(-1, *rows.shape[2:]), 10)
        pictures.write(asked.pictures / "sampled.png", made, 10)
    print(f"test bound {found:.2f} nats")
    return found


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.INFO)
    main()
