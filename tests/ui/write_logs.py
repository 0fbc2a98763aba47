"""A log folder with all that TensorBoard shows: a small convnet, trained for a few steps by pyflow.

    python tests/ui/write_logs.py DIR

Writes the event file, a checkpoint and the projector's config into DIR/train, and what the pages
must show, as the session returned it, into DIR/expected.json.  tests/ui/check.py reads both.
"""
import json
import pathlib
import sys

import numpy as np

import pyflow as tf

STEPS, BATCH, SEED = 20, 64, 5
RATE, SECONDS = 4000, 0.25                          # of the sound
NOTES = ["# Digits", "a **convolution**, a hidden layer, *ten* logits"]
# As steps name them: TensorBoard gives each whole name a colour.
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(2)]
DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "data" / "digits.csv.gz"


def digits():
    """(images float32 [n, 8, 8, 1] in 0..1, labels int64 [n])."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.float32)
    order = np.random.default_rng(SEED).permutation(len(table))
    return table[order, :64].reshape(-1, 8, 8, 1) / 16, table[order, 64].astype(np.int64)


def dense(x, units, name, activation=tf.identity):
    """(A layer in a scope of its own, its weights [inputs, units])."""
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.shape[-1], units], tf.float32)
        b = tf.get_variable("b", [units], tf.float32, tf.zeros_initializer())
        return activation(tf.nn.bias_add(tf.matmul(x, w), b), name="out"), w


def network(images):
    """(logits [n, 10], the kernel of the convolution, the weights of the hidden layer); the
    convolution on one device, the rest on another."""
    with tf.device(DEVICES[0]), tf.variable_scope("conv"):
        kernel = tf.get_variable("kernel", [3, 3, 1, 8], tf.float32)
        x = tf.nn.relu(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME", name="convolution"))
        x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", name="pool")
    with tf.device(DEVICES[1]):
        x, hidden = dense(tf.reshape(x, [-1, 4 * 4 * 8], name="flat"), 32, "hidden", tf.nn.relu)
        logits, _ = dense(x, 10, "logits")
    return logits, kernel, hidden


def pitch(step):
    return 440 + 40 * step


def summaries(images, loss, accuracy, kernel, hidden):
    """All of them, of six kinds; the sound is a tone that rises with the step."""
    with tf.name_scope("summaries"):
        tf.summary.scalar("loss", loss)
        tf.summary.scalar("accuracy", accuracy)
        tf.summary.histogram("kernel", kernel)
        tf.summary.histogram("weights", hidden)
        tf.summary.image("digits", images, max_outputs=3)
        at = (np.arange(int(RATE * SECONDS)) / RATE).astype(np.float32)
        hertz = pitch(tf.cast(tf.train.get_global_step(), tf.float32))
        tf.summary.audio("tone", 0.5 * tf.sin(2 * np.pi * hertz * at)[None, :], RATE)
        tf.summary.text("notes", tf.constant(NOTES))
        return tf.summary.merge_all()


def build(images, labels):
    """({what a step's expectations are made of: tensor}, the step that trains)."""
    tf.set_random_seed(SEED)
    tf.train.get_or_create_global_step()
    logits, kernel, hidden = network(images)
    with tf.name_scope("loss"):
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    with tf.name_scope("accuracy"):
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    merged = summaries(images, loss, accuracy, kernel, hidden)
    with tf.name_scope("train"):
        train = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return {"merged": merged, "loss": loss, "accuracy": accuracy, "kernel": kernel,
            "weights": hidden}, train


def project(writer, folder, session):
    """The rows of the hidden layer's weights as points of the projector, named by cell and channel.

    In a file of their own: TensorBoard reads checkpoints where TensorFlow is installed alone."""
    projector = tf.contrib.tensorboard.plugins.projector
    config = projector.ProjectorConfig(model_checkpoint_path="model.ckpt")
    config.embeddings.add(tensor_name="hidden/w", tensor_path="weights.tsv",
                          metadata_path="cells.tsv")
    weights = session.run("hidden/w:0")
    np.savetxt(folder / "weights.tsv", weights, "%.8g", "\t")
    (folder / "cells.tsv").write_text("".join(
        f"row {y} column {x} channel {c}\n" for y in range(4) for x in range(4) for c in range(8)))
    tf.train.Saver().save(session, str(folder / "model.ckpt"))
    projector.visualize_embeddings(writer, config)


def describe(metadata):
    """{node: {device, start, end, bytes}} of a traced step; times in microseconds."""
    found = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            start = node.all_start_micros
            found[node.node_name] = {
                "device": device.device, "start": start, "end": start + node.all_end_rel_micros,
                "bytes": sum(memory.total_bytes for memory in node.memory)}
    return found


def write(folder):
    train_folder = folder / "train"
    train_folder.mkdir(parents=True)
    images, labels = digits()
    x = tf.placeholder(tf.float32, [None, 8, 8, 1], "images")
    y = tf.placeholder(tf.int64, [None], "labels")
    fetches, train = build(x, y)
    curves = {name: [] for name in ("loss", "accuracy")}
    ranges = {name: [] for name in ("kernel", "weights")}
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session, \
            tf.summary.FileWriter(str(train_folder), session.graph) as writer:
        session.run(tf.global_variables_initializer())
        for step in range(STEPS):
            batch = slice(step * BATCH, (step + 1) * BATCH)
            feeds = {x: images[batch], y: labels[batch]}
            found = session.run(fetches, feeds)
            writer.add_summary(found["merged"], step)
            for name in curves:
                curves[name].append(float(found[name]))
            for name in ranges:
                ranges[name].append([float(found[name].min()), float(found[name].max())])
            metadata = tf.RunMetadata()
            session.run(train, feeds, options, metadata)
            if step in (0, STEPS - 1):
                writer.add_run_metadata(metadata, f"step {step}", step)
        project(writer, train_folder, session)
    (folder / "expected.json").write_text(json.dumps({
        "steps": STEPS, "scalars": curves, "histograms": ranges,
        "values": {name: int(found[name].size) for name in ranges},
        "images": images[batch][:3, :, :, 0].tolist(),
        "audio": {"rate": RATE, "seconds": SECONDS, "pitch": pitch(STEPS - 1)},
        "points": list(found["weights"].shape),
        "nodes": describe(metadata), "traced": f"step {STEPS - 1}",
        "graph": sorted(op.name for op in session.graph.get_operations())}))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
