"""Writes the graphs of all programs, and what they give, for the other side to read.

    PYTHON tests/exchange/write.py LIBRARY FOLDER OUT [PATTERN]

LIBRARY: pyflow or tensorflow.  FOLDER: where samples.py wrote.  OUT: FILE.pickle, and a folder
beside it for SavedModels.  PATTERN: of the programs' names, or several with commas.
"""
import os
import pathlib
import pickle
import shutil
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs  # noqa: E402
import recording  # noqa: E402


class Tools:
    """What programs may ask for beside `tf`."""

    def __init__(self, tf, library, folder):
        self.tf, self.folder, self.saved, self.recorder = tf, folder, [], None
        self.format = {"format": "tensorflow"} if library == "pyflow" else {}
        self.function = recording.function_module(library)

    def saver(self):
        """One that writes TensorFlow's checkpoints."""
        return self.tf.train.Saver(**self.format)

    def files(self, name):
        """A folder for a program's files, which are there when it is read, too."""
        path = os.path.join(self.folder, "files-" + name)
        os.makedirs(path, exist_ok=True)
        return path

    def save(self, session, outputs, feeds=None, main_op=None, frozen=True):
        """A SavedModel of the session and, unless it cannot be, a frozen graph."""
        tf, feeds = self.tf, feeds or {}
        self.recorder.paused = True
        path = os.path.join(self.folder, "model%d-%d" % (self.count, len(self.saved)))
        outputs = {"y%d" % i: y for i, y in enumerate(outputs)}
        values = {n: programs.packed(v) for n, v in session.run(outputs, feeds).items()}
        info = {n: tf.saved_model.build_tensor_info(y) for n, y in outputs.items()}
        given = {"x%d" % i: tf.saved_model.build_tensor_info(x) for i, x in enumerate(feeds)
                 if isinstance(x, tf.Tensor)}
        signature = tf.saved_model.build_signature_def(given, info, "tensorflow/serving/predict")
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, main_op=main_op,
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS) or None)
        builder.save()
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(),
            [y.op.name for y in outputs.values()]).SerializeToString() if frozen else None
        self.saved.append((path, frozen, {n: y.name for n, y in outputs.items()},
                           {x.name: programs.packed(v) for x, v in feeds.items()}, values))
        self.recorder.paused = False

    def keep(self, path, feeds):
        """A SavedModel that is there: its default signature, of `feeds` by names of arguments."""
        tf, path = self.tf, os.fsdecode(path)
        with tf.Graph().as_default(), tf.Session() as session:
            meta = tf.saved_model.loader.load(session, ["serve"], path)
            signature = meta.signature_def["serving_default"]
            given = {signature.inputs[n].name: v for n, v in feeds.items()}
            names = {n: info.name for n, info in signature.outputs.items()}
            found = session.run(names, given)
        packed = programs.packed
        self.saved.append((path, None, names, {n: packed(v) for n, v in given.items()},
                           {n: packed(v) for n, v in found.items()}))

    count = 0


def written(tf, tools, program):
    """What is kept of one program."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        with recording.Recorder(tf) as recorder:
            tools.recorder = recorder
            program(tf, tools)
        meta = tf.train.export_meta_graph(graph=graph)
        runs = [run for where, run in recorder.runs if where is graph]
        for session in recorder.kept:
            session.close()
    return {"meta": meta.SerializeToString(), "runs": [tuple(r) for r in runs],
            "collections": recording.collections_after_import(tf, meta),
            "gradients": recording.gradients_after_import(tf, meta, runs),
            "shapes": recording.inferred(tf, meta.graph_def)}


def main(library, folder, out, pattern="*"):
    tf = recording.library(library)
    found, failed = {}, {}
    models = out + ".models"
    shutil.rmtree(models, ignore_errors=True)
    os.makedirs(models)
    tools = Tools(tf, library, models)
    chosen = {name: program for name, program in programs.all_programs(tf, folder).items()
              if programs.is_chosen(name, pattern)}
    numbers = {name: number for number, name in enumerate(chosen)}

    def work(name):
        tools.saved, tools.count = [], numbers[name]
        try:
            return dict(written(tf, tools, chosen[name]), saved=tools.saved)
        except Exception as error:  # noqa: BLE001  what cannot be written is told, and counted
            if os.environ.get("EXCHANGE_TRACE"):
                traceback.print_exc()
            return "%s: %s" % (type(error).__name__, str(error)[:300])

    for name, kept, ended in recording.in_children(chosen, work):
        if isinstance(kept, dict):
            found[name] = kept
        else:
            failed[name] = kept or ended
    with open(out, "wb") as file:
        pickle.dump({"version": tf.__version__, "programs": found, "failed": failed}, file, 4)
    refused = ["%s: %s" % (name, kept["gradients"]) for name, kept in found.items()
               if isinstance(kept["gradients"], str)]
    print("%s %s: %d graphs written, %d not, %d without the gradients that were asked for" % (
        library, tf.__version__, len(found), len(failed), len(refused)))


if __name__ == "__main__":
    main(*sys.argv[1:])
