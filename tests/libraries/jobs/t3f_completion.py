"""t3f: tensor trains beside NumPy; a tensor of low rank is completed from half of it."""
import numpy as np
import t3f
import tensorflow as tf

tf.set_random_seed(0)
r = np.random.RandomState(0)
dense = np.einsum("ai,bi,ci,di->abcd", *(r.randn(6, 3) for _ in range(4))).astype(np.float32)
train_tt = t3f.to_tt_tensor(tf.constant(dense), max_tt_rank=3)
other = np.random.RandomState(1).randn(6, 6, 6, 6).astype(np.float32)
product = t3f.flat_inner(train_tt, t3f.to_tt_tensor(tf.constant(other), max_tt_rank=36))
matrix = r.randn(16, 16).astype(np.float32)
tt_matrix = t3f.to_tt_matrix(tf.constant(matrix), shape=((4, 4), (4, 4)), max_tt_rank=16)
vector = r.randn(16, 1).astype(np.float32)
mapped = t3f.matmul(tt_matrix, tf.constant(vector))
rounded = t3f.round(t3f.add(train_tt, train_tt), max_tt_rank=3)

seen = (r.rand(*dense.shape) < 0.5).astype(np.float32)
guess = t3f.get_variable("guess", initializer=t3f.random_tensor([6] * 4, tt_rank=3))
error = tf.reduce_sum(tf.square(seen * (t3f.full(guess) - dense))) / seen.sum()
step = tf.train.AdamOptimizer(0.02).minimize(error)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    full, product, mapped, rounded = session.run(
        [t3f.full(train_tt), product, mapped, t3f.full(rounded)])
    for _ in range(2500):
        session.run(step)
    completed = session.run(t3f.full(guess))
hidden = 1 - seen
off = max(np.abs(full - dense).max(), abs(product - np.sum(dense * other)) / 100,
          np.abs(mapped - matrix @ vector).max(), np.abs(rounded - 2 * dense).max())
print("value off_numpy", off)
print("value unseen_error", np.linalg.norm(hidden * (completed - dense))
      / np.linalg.norm(hidden * dense))
