"""An estimator's model as a SavedModel: a graph for serving, with a checkpoint's values.

Invariant: the folder appears under its name when it is complete.

Thread: one.  Source: TF 1.15 Estimator.export_saved_model.
"""
import os
import shutil
import time

import pyflow as tf
from pyflow.estimator import outputs
from pyflow.estimator.modes import ModeKeys
from pyflow.saved_model import keys

_TAGS = {ModeKeys.PREDICT: keys.SERVING, ModeKeys.EVAL: "eval", ModeKeys.TRAIN: keys.TRAINING}


def new_folder(base):
    """base/SECONDS, of now or the first second after it that is free; bytes, as TensorFlow's."""
    seconds = int(time.time())
    while os.path.exists(os.path.join(base, str(seconds))):
        seconds += 1
    return os.fsencode(os.path.join(base, str(seconds)))


def export(estimator, base, receiver_fn, assets_extra, as_text, checkpoint_path,
           strip_default_attrs, mode):
    """As Estimator.export_saved_model."""
    base = os.fsdecode(base)
    path = checkpoint_path or estimator.latest_checkpoint()
    if not path and estimator._warm_start:
        path = estimator._warm_start.ckpt_to_initialize_from
        path = tf.train.latest_checkpoint(path) if os.path.isdir(path) else path
    if not path:
        raise ValueError(f"Couldn't find trained model at {estimator.model_dir}.")
    os.makedirs(base, exist_ok=True)
    folder = new_folder(base)
    unfinished = os.path.join(base, f"temp-{os.path.basename(os.fsdecode(folder))}")
    builder = tf.saved_model.Builder(unfinished)
    with estimator._new_graph():
        tf.train.create_global_step()
        _add(builder, estimator, receiver_fn(), path, strip_default_attrs, mode)
    builder.save(as_text)
    for name, source in (assets_extra or {}).items():
        target = os.path.join(unfinished, "assets.extra", os.fsdecode(name))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
    os.rename(unfinished, folder)
    return folder


def _add(builder, estimator, receiver, path, strip_default_attrs, mode):
    spec = estimator._call_model_fn(receiver.features, getattr(receiver, "labels", None), mode,
                                    estimator.config)
    if mode == ModeKeys.PREDICT:
        signatures = outputs.signature_defs(receiver.receiver_tensors, spec.export_outputs,
                                            receiver.receiver_tensors_alternatives)
    else:
        inputs = receiver.receiver_tensors
        inputs = inputs if isinstance(inputs, dict) else {"input": inputs}
        answers = outputs.PredictOutput({**_named(spec.predictions), "loss": spec.loss})
        signatures = {_TAGS[mode]: answers.as_signature_def(inputs)}
    with tf.Session(config=estimator.config.session_config) as session:
        init = spec.scaffold.local_init_op
        if init is None:
            init = tf.train.Scaffold.default_local_init_op()
        saver = spec.scaffold.saver or tf.train.Saver(sharded=True)
        try:
            saver.restore(session, path)
        except tf.errors.NotFoundError as error:
            raise ValueError(
                "Could not load all requested variables from checkpoint. Please make sure your "
                "model_fn does not expect variables that were not saved in the checkpoint.\n\n"
                f"Encountered error with mode `{mode}` while restoring checkpoint from: `{path}`: "
                f"{error.message}") from error
        builder.add_meta_graph_and_variables(
            session, [_TAGS[mode]], signatures,
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS), main_op=init,
            strip_default_attrs=strip_default_attrs)


def _named(predictions):
    return predictions if isinstance(predictions, dict) else {"predictions": predictions}
