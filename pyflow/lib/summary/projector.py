"""TensorBoard's projector: which variables of a checkpoint are embeddings, and what their rows are.

    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words", "words.tsv"
    projector.visualize_embeddings(writer, config)

Any thread.  Source: TF 1.15's tensorflow.contrib.tensorboard.plugins.projector.
"""
import os

from pyflow.framework import errors

_NAME = "projector_config.pbtxt"


def visualize_embeddings(summary_writer, config):
    """Writes projector_config.pbtxt into the writer's folder, which is made if need be.

    summary_writer: a tf.summary.FileWriter, or a folder; config: a ProjectorConfig. ValueError for a
    writer without folder.
    TF: tf.contrib.tensorboard.plugins.projector.visualize_embeddings."""
    from google.protobuf import text_format
    folder = summary_writer.get_logdir() if hasattr(summary_writer, "get_logdir") else \
        summary_writer
    if folder is None:
        raise ValueError("Summary writer must have a logdir")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, _NAME), "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(config))
    except OSError as error:
        raise errors.of_os_error(error) from None


PUBLIC = {"contrib.tensorboard.plugins.projector.visualize_embeddings": visualize_embeddings}
