"""cleverhans: adversarial digits against a trained softmax; FGM beside its formula in NumPy."""
import numpy as np
import tensorflow as tf
from cleverhans.attacks import FastGradientMethod, ProjectedGradientDescent
from cleverhans.model import CallableModelWrapper
from sklearn.datasets import load_digits

digits = load_digits()
images = (digits.data / 16).astype(np.float32)
labels = np.eye(10, dtype=np.float32)[digits.target]
x = tf.placeholder(tf.float32, [None, 64])
y = tf.placeholder(tf.float32, [None, 10])
w, b = tf.Variable(tf.zeros([64, 10])), tf.Variable(tf.zeros([10]))


def logits(pixels):
    return tf.matmul(pixels, w) + b


loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits(x)))
train = tf.train.AdamOptimizer(0.02).minimize(loss)
right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits(x), 1), tf.argmax(y, 1)), tf.float32))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(150):
        session.run(train, {x: images, y: labels})
    model = CallableModelWrapper(logits, "logits")
    fast = FastGradientMethod(model, sess=session).generate(
        x, y=y, eps=0.2, clip_min=0.0, clip_max=1.0)
    steps = ProjectedGradientDescent(model, sess=session).generate(
        x, y=y, eps=0.2, eps_iter=0.05, nb_iter=10, rand_init=False, clip_min=0.0, clip_max=1.0)
    data = {x: images, y: labels}
    fast, steps = session.run([fast, steps], data)
    clean, by_fast, by_steps = (session.run(right, {x: pixels, y: labels})
                                for pixels in (images, fast, steps))
    weights, scores = session.run([w, logits(x)], data)
odds = np.exp(scores - scores.max(1, keepdims=True))
gradient = (odds / odds.sum(1, keepdims=True) - labels) @ weights.T
wanted = np.clip(images + 0.2 * np.sign(gradient), 0, 1)
print("value clean_accuracy", clean)
print("value fgm_accuracy", by_fast)
print("value pgd_accuracy", by_steps)
print("value pgd_moved", np.abs(steps - images).max())
print("value fgm_off_numpy", np.mean(np.abs(fast - wanted) > 1e-5))
