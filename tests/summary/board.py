"""A folder of event files with all that TensorBoard shows, and what its own reader finds there.

    python tests/summary/board.py write DIR     # with pyflow
    python tests/summary/board.py read DIR      # with tensorboard, in another environment if need be
"""
import sys

import numpy as np

STEPS = 5


def write(folder):
    import pyflow as tf
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.name_scope("layer"):
            w = tf.Variable(tf.ones([3, 2]), name="w")
            y = tf.matmul(x, w, name="y")
        tf.summary.scalar("loss", tf.reduce_mean(y))
        tf.summary.histogram("weights", w)
        tf.summary.image("seen", tf.reshape(y, [1, -1, 2, 1]), max_outputs=1)
        tf.summary.audio("heard", tf.sin(tf.reshape(x, [1, -1])), 8000, max_outputs=1)
        tf.summary.text("said", tf.constant(["# head", "words"]))
        merged = tf.summary.merge_all()
        session.run(tf.global_variables_initializer())
        with tf.summary.FileWriter(folder, graph) as writer:
            for step in range(STEPS):
                metadata = tf.RunMetadata()
                data = session.run(merged, {x: np.full([4, 3], step)},
                                   tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
                writer.add_summary(data, step)
                writer.add_run_metadata(metadata, f"step {step}", step)
            writer.add_session_log(tf.SessionLog(status=tf.SessionLog.STOP), STEPS)


def read(folder):
    from tensorboard.backend.event_processing import event_accumulator
    found = event_accumulator.EventAccumulator(folder, size_guidance={
        event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    found.Reload()
    tags = found.Tags()
    assert tags["scalars"] == ["loss"] and tags["histograms"] == ["weights"], tags
    assert tags["images"] == ["seen/image"] and tags["audio"] == ["heard/audio"], tags
    assert tags["tensors"] == ["said"] and tags["graph"] and tags["meta_graph"], tags
    assert tags["run_metadata"] == [f"step {i}" for i in range(STEPS)], tags
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [
        (i, 3.0 * i) for i in range(STEPS)]
    histogram = found.Histograms("weights")[-1].histogram_value
    assert histogram.num == 6 and histogram.sum == 6 and sum(histogram.bucket) == 6
    picture, sound = found.Images("seen/image")[0], found.Audio("heard/audio")[1]
    assert (picture.width, picture.height) == (2, 4)
    assert picture.encoded_image_string.startswith(b"\x89PNG")
    assert (sound.sample_rate, sound.length_frames, sound.content_type) == (8000, 12, "audio/wav")
    assert found.SummaryMetadata("said").plugin_data.plugin_name == "text"
    text = found.Tensors("said")[0].tensor_proto
    assert list(text.string_val) == [b"# head", b"words"] and len(found.Tensors("said")) == STEPS
    nodes = {node.name: node for node in found.Graph().node}
    assert nodes["layer/y"].op == "MatMul" and nodes["layer/y"].attr["_output_shapes"].list.shape
    times = {s.node_name: s for d in found.RunMetadata("step 1").step_stats.dev_stats
             for s in d.node_stats}
    assert times["layer/y"].all_end_rel_micros >= 0
    assert times["layer/y"].memory[0].total_bytes == 4 * 2 * 4
    assert all(o.tensor_description.HasField("shape")       # or the graph page shows no stats
               for s in times.values() for o in s.output)
    assert found.MetaGraph().graph_def.node
    return f"{len(nodes)} nodes, {len(times)} timed, {STEPS} steps"


if __name__ == "__main__":
    print({"write": write, "read": read}[sys.argv[1]](sys.argv[2]))
