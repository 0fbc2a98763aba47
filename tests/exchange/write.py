"""Writes the graphs of all programs, and what they give, for the other side to read.

    PYTHON tests/exchange/write.py LIBRARY FOLDER OUT [PATTERN]

LIBRARY: pyflow or tensorflow.  FOLDER: where samples.py wrote.  OUT: FILE.pickle, and a folder
beside it for SavedModels.  PATTERN: of the programs' names, or several with commas.
"""
import os
import pathlib
import pickle
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs  # noqa: E402
import recording  # noqa: E402


class Tools:
    """What programs may ask for beside `tf`."""

    def __init__(self, tf, library, folder):
        self.tf, self.folder, self.saved = tf, folder, []
        self.function = recording.function_module(library)

    def save(self, session, outputs):
        """A SavedModel and a frozen graph of the session."""
        tf, path = self.tf, os.path.join(self.folder, "model%d" % self.count)
        outputs = {"y%d" % i: y for i, y in enumerate(outputs)}
        values = {n: programs.packed(v) for n, v in session.run(outputs).items()}
        tf.saved_model.simple_save(session, path, {"x": tf.placeholder(tf.float32, [])}, outputs)
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), [y.op.name for y in outputs.values()])
        self.saved.append((path, frozen.SerializeToString(),
                           {n: y.name for n, y in outputs.items()}, values))

    count = 0


def written(tf, tools, program):
    """What is kept of one program."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        with recording.Recorder(tf) as recorder:
            program(tf, tools)
        meta = tf.train.export_meta_graph(graph=graph)
        runs = [run for where, run in recorder.runs if where is graph]
        for session in recorder.kept:
            session.close()
    return {"meta": meta.SerializeToString(), "runs": [tuple(r) for r in runs],
            "gradients": recording.gradients_after_import(tf, meta, runs),
            "shapes": recording.inferred(tf, meta.graph_def)}


def main(library, folder, out, pattern="*"):
    tf = recording.library(library)
    found, failed = {}, {}
    models = out + ".models"
    os.makedirs(models, exist_ok=True)
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
    print("%s %s: %d graphs written, %d not" % (library, tf.__version__, len(found), len(failed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
