"""tensorflow-hub: a module is made, trained, exported, and loaded into another graph; a column."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
from sklearn.datasets import load_digits

digits = load_digits()
data = (digits.data / 16).astype(np.float32)


def build():
    x = tf.placeholder(tf.float32, [None, 64])
    hub.add_signature(inputs=x, outputs=tf.layers.dense(x, 10, name="out"))


def build_lengths():
    """Text -> (its length, one)."""
    texts = tf.placeholder(tf.string, [None])
    length = tf.to_float(tf.strings.length(texts))
    hub.add_signature(inputs=texts, outputs=tf.stack([length, tf.ones_like(length)], 1))


with tempfile.TemporaryDirectory() as folder:
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        module = hub.Module(hub.create_module_spec(build), trainable=True)
        logits = module(data)
        loss = tf.losses.sparse_softmax_cross_entropy(digits.target, logits)
        train = tf.train.AdamOptimizer(0.05).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(150):
                session.run(train)
            wanted = session.run(logits)
            module.export(os.path.join(folder, "module"), session)
    with tf.Graph().as_default(), tf.Session() as session:
        module = hub.Module(os.path.join(folder, "module"))
        logits = module(data)
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        loaded = session.run(logits)
print("value accuracy", np.mean(loaded.argmax(1) == digits.target))
print("value loaded_differs", np.abs(loaded - wanted).max())
with tf.Graph().as_default(), tf.Session() as session:
    column = hub.text_embedding_column("text", hub.create_module_spec(build_lengths))
    found = session.run(tf.feature_column.input_layer({"text": ["four", "letters", ""]}, [column]))
print("value column_right", float(found.tolist() == [[4, 1], [7, 1], [0, 1]]))
