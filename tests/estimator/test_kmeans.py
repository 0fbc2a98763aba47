"""k-means beside NumPy."""
import numpy as np
import pytest

import pyflow as tf

RS = np.random.RandomState(0)
MEANS = np.array([[0.0, 4.0], [4.0, 0.0], [4.0, 4.0]])
X = (MEANS[RS.randint(0, 3, 90)] + RS.randn(90, 2) * 0.5).astype("f")
FIRST = np.array([[0.0, 3.0], [3.0, 1.0], [3.0, 3.0]], "f")


def lloyd(x, centres, steps):
    for _ in range(steps):
        nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
        centres = np.stack([x[nearest == k].mean(0) for k in range(len(centres))])
    return centres


def test_whole_batches(tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensors(X).repeat(20)
    kmeans = tf.contrib.factorization.KMeansClustering(
        3, str(tmp_path), initial_clusters=FIRST, use_mini_batch=False, relative_tolerance=1e-6)
    kmeans.train(input_fn, steps=2)
    np.testing.assert_allclose(kmeans.cluster_centers(), lloyd(X, FIRST, 2), rtol=1e-5)
    kmeans.train(input_fn)
    assert kmeans.get_variable_value("global_step") < 20
    centres = lloyd(X, FIRST, 20)
    np.testing.assert_allclose(kmeans.cluster_centers(), centres, rtol=1e-4)
    far = ((X[:, None] - centres) ** 2).sum(-1)
    np.testing.assert_allclose(kmeans.score(input_fn), far.min(1).sum(), rtol=1e-4)
    found = [k for k, _ in zip(kmeans.predict_cluster_index(input_fn), range(90))]
    assert found == far.argmin(1).tolist()
    np.testing.assert_allclose(next(kmeans.transform(input_fn)), far[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_mini_batches_of_a_graph(metric):
    """As programs write it, without an Estimator."""
    x = tf.placeholder(tf.float32, [None, 2])
    kmeans = tf.contrib.factorization.KMeans(
        inputs=x, num_clusters=3, distance_metric=metric, use_mini_batch=True, random_seed=4,
        initial_clusters="kmeans_plus_plus")
    _, cluster_idx, scores, known, init_op, train_op = kmeans.training_graph()
    mean = tf.reduce_mean(scores)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert not sess.run(known)
        sess.run(init_op, {x: X})
        before = sess.run(mean, {x: X})
        for at in range(0, 900, 30):
            sess.run(train_op, {x: X[at % 90:at % 90 + 30]})
        after, ids = sess.run([mean, cluster_idx[0]], {x: X})
    assert after < before and sorted(set(ids)) == [0, 1, 2]
    if metric == "squared_euclidean":
        assert after < 0.6                          # 2 * 0.5 ** 2 around true centres


def test_what_is_refused():
    with pytest.raises(ValueError, match="Unsupported distance metric"):
        tf.contrib.factorization.KMeans(tf.zeros([3, 2]), 2, distance_metric="city")
    with tf.Session() as sess, pytest.raises(tf.errors.OpError, match="1 rows for 2 clusters"):
        graph = tf.contrib.factorization.KMeans(tf.zeros([1, 2]), 2).training_graph()
        sess.run(tf.global_variables_initializer())
        sess.run(graph[4])
