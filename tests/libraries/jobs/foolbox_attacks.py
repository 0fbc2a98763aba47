"""foolbox: attacks on single digits, through a trained net's gradients and decisions."""
import foolbox
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

tf.set_random_seed(0)
np.random.seed(0)
digits = load_digits()
data = (digits.images / 16).astype(np.float32)[..., None]
images = tf.placeholder(tf.float32, [None, 8, 8, 1])
labels = tf.placeholder(tf.int64, [None])
hidden = tf.layers.dense(tf.layers.flatten(images), 48, tf.nn.relu)
logits = tf.layers.dense(hidden, 10)
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
train = tf.train.AdamOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(150):
        session.run(train, {images: data, labels: digits.target})
    guesses = session.run(tf.argmax(logits, 1), {images: data})
    model = foolbox.models.TensorFlowModel(images, logits, bounds=(0, 1))
    print("value clean_accuracy", np.mean(guesses == digits.target))
    chosen = np.flatnonzero(guesses == digits.target)[:20]
    for name in "GradientSignAttack", "DeepFoolAttack", "SaltAndPepperNoiseAttack":
        attack, found, moved = getattr(foolbox.attacks, name)(model), 0, []
        for i in chosen:
            other = attack(data[i], int(digits.target[i]))
            if other is not None:
                found += session.run(logits, {images: other[None]}).argmax() != digits.target[i]
                moved.append(np.linalg.norm(other - data[i]))
        print("value", name, found / len(chosen))
        print("value", name + "_distance", np.mean(moved))
