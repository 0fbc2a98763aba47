"""What test_sync_replicas.py runs on pyflow, and record its answers with on TensorFlow.

    python tests/train/sync_replicas_script.py            # TensorFlow's answers, on compat.v1

Replicas are training operations of one graph, run by threads of one process.
"""
import json
import threading


def replicas(tf, optimizer, aggregate, total, gradients, steps, sparse=False):
    """The variable after each step, global steps, and what is left in the accumulators: replica k
    gives gradients[k] in each of its steps."""
    with tf.Graph().as_default():
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="v")
        step = tf.Variable(0, name="global_step", trainable=False)
        made, train = [], []
        for gradient in gradients:
            sync = tf.train.SyncReplicasOptimizer(optimizer(tf), aggregate, total)
            grad = tf.constant(gradient)
            if sparse:
                grad = tf.IndexedSlices(grad, tf.constant([0, 2], tf.int64),
                                        tf.constant([3, 2], tf.int64))
            train.append(sync.apply_gradients([(grad, v)], global_step=step))
            made.append(sync)
        chief, tokens = made[0], made[0].get_init_tokens_op(aggregate - total)
        coordinator, seen = tf.train.Coordinator(), []
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(chief.chief_init_op)
            for other in made[1:]:
                sess.run(other.local_step_init_op)
            sess.run(tokens)
            chief.get_chief_queue_runner().create_threads(sess, coordinator, daemon=True,
                                                          start=True)
            for _ in range(steps):
                threads = [threading.Thread(target=sess.run, args=(op,)) for op in train]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                seen.append([sess.run(step).item(), sess.run(v).tolist()])
            coordinator.request_stop()
        return seen


def answers(tf):
    """{case: what it gave}."""
    one = [[1.0, 2.0], [0.5, -1.0], [0.0, 4.0]]
    two = [[3.0, 0.0], [0.5, 1.0], [2.0, 0.0]]
    rows = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 0.0], [1.0, 2.0]]]
    return {
        "sgd": replicas(tf, lambda tf: tf.train.GradientDescentOptimizer(0.5), 2, 2, [one, two], 3),
        "momentum": replicas(tf, lambda tf: tf.train.MomentumOptimizer(0.5, 0.9), 2, 2,
                             [one, two], 3),
        "sparse": replicas(tf, lambda tf: tf.train.GradientDescentOptimizer(0.5), 2, 2, rows, 2,
                           sparse=True),
        "one replica, two gradients": replicas(
            tf, lambda tf: tf.train.AdagradOptimizer(0.5), 2, 1, [one], 4),
    }


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow
    tensorflow.disable_eager_execution()
    print(json.dumps(answers(tensorflow)))
