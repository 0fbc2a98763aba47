"""Reads the graphs that another library wrote, runs them, and compares.

    PYTHON tests/exchange/read.py LIBRARY WRITTEN.pickle RESULT.pickle [PATTERN]

Every graph is imported as a MetaGraphDef and as a GraphDef, and its runs are done again: the values
are the writer's, an error is of the same type; collections have as many elements; what the reader
infers of the bare GraphDef contradicts no shape of the writer's.  RESULT: {name: {"result": "ok",
"refused", "values", "shapes", ..., "forms": {form: how many}}}.
"""
import pathlib
import pickle
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs  # noqa: E402
import recording  # noqa: E402

TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-6, "complex64": 1e-4,
             "complex128": 1e-6}


def difference(tf, found, wanted):
    """None, or a sentence."""
    if wanted is None:
        return None
    wanted, found = (widened(tf, data) for data in (wanted, programs.packed(found)))
    if found.shape != wanted.shape:
        return "shape %s, not %s" % (found.shape, wanted.shape)
    if found.dtype != wanted.dtype:
        return "type %s, not %s" % (found.dtype, wanted.dtype)
    if wanted.dtype.name in TOLERANCE:
        limit = TOLERANCE[wanted.dtype.name]
        kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
        found, wanted = found.astype(kind), wanted.astype(kind)
        scale = max(1.0, float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)))
        if not np.allclose(found, wanted, rtol=limit, atol=limit * scale, equal_nan=True):
            with np.errstate(all="ignore"):
                return "differs by %.3g" % np.nanmax(np.abs(found - wanted))
    elif not np.array_equal(found, wanted):
        return "differs: %s, not %s" % (found.ravel()[:5], wanted.ravel()[:5])
    return None


def widened(tf, data):
    """The array; of bfloat16 as float32, which holds all of them."""
    if data[0] != "bfloat16":
        return programs.unpacked(tf, data)
    bits = np.frombuffer(data[2], np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(data[1])


def newer_ops(tf, graph_def, known):
    names = [node.op for node in graph_def.node]
    names += [node.op for f in graph_def.library.function for node in f.node_def]
    functions = {f.signature.name for f in graph_def.library.function}
    return sorted(set(names) - known - functions)


def read(tf, known, kept):
    """{"result": ..., "why": ...} of one program."""
    meta = tf.MetaGraphDef.FromString(kept["meta"])
    newer = newer_ops(tf, meta.graph_def, known)
    if newer:
        return {"result": "unknown ops", "why": " ".join(newer)}
    with tf.Graph().as_default() as graph:
        try:
            tf.train.import_meta_graph(meta)
        except Exception as error:  # noqa: BLE001  the answer
            return {"result": "refused", "why": "%s: %s" % (type(error).__name__, str(error)[:500])}
        why = replayed(tf, graph, kept["runs"]) or collections_differ(graph, kept)
        why = why or gradients_differ(tf, meta, kept)
    if why:
        return {"result": "values", "why": why}
    return read_bare(tf, meta.graph_def, kept)


def read_bare(tf, graph_def, kept):
    """The same of the GraphDef alone."""
    try:
        shapes = recording.inferred(tf, graph_def)
    except ValueError as error:
        return {"result": "shapes", "why": "%s" % error}
    wrong = contradictions(shapes, kept["shapes"])
    if wrong:
        return {"result": "shapes", "why": "; ".join(wrong[:5])}
    why = None
    if not any(run[1] == recording.START for run in kept["runs"]):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            why = replayed(tf, graph, kept["runs"])
    return {"result": "values", "why": "GraphDef: " + why} if why else {"result": "ok", "why": ""}


def collections_differ(graph, kept):
    """What differs in what was imported into collections, or None."""
    found = {key: len(graph.get_collection(key)) for key in kept["collections"]}
    wrong = ["%s has %d, not %d" % (key, found[key], n) for key, n in kept["collections"].items()
             if found[key] != n]
    return "collections: " + "; ".join(wrong) if wrong else None


def replayed(tf, graph, runs):
    """What differs, or None."""
    sessions, coordinator = {}, tf.train.Coordinator()
    try:
        for run in (recording.Run(*r) for r in runs):
            if run.session not in sessions:
                sessions[run.session] = tf.Session(graph=graph)
            if run.fetches == recording.START:
                tf.train.start_queue_runners(sessions[run.session], coordinator)
                continue
            feeds = recording.unpacked_feeds(tf, run)
            try:
                found = sessions[run.session].run(run.fetches, feeds)
            except tf.errors.OpError as error:
                if type(error).__name__ == run.values:
                    continue
                return told(error)
            except (ValueError, TypeError, KeyError) as error:
                return told(error)
            if isinstance(run.values, str):
                return "no %s" % run.values
            for name, value, wanted in zip(run.fetches, found, run.values):
                why = difference(tf, value, wanted)
                if why:
                    return "%s (%s): %s" % (name, type_of(graph, name), why)
    finally:
        coordinator.request_stop()
        for session in sessions.values():
            session.close()
    return None


def told(error):
    """An error's type, and what failed, without where."""
    text = str(error)
    return "%s: %s" % (type(error).__name__, text[max(text.find(") failed: "), 0):][:400])


def gradients_differ(tf, meta, kept):
    """What differs of gradients that are made after the import, or None."""
    wanted = kept.get("gradients")
    if not isinstance(wanted, dict):
        return None
    found = recording.gradients_after_import(
        tf, meta, [recording.Run(*r) for r in kept["runs"]])
    if not isinstance(found, dict):
        return "gradients after the import: %s" % found
    for name in wanted:
        why = difference(tf, programs.unpacked(tf, found[name]), wanted[name]) \
            if name in found else "none"
        if why:
            return "the gradient by %s after the import: %s" % (name, why)
    return None


def type_of(graph, name):
    return graph.get_operation_by_name(name.split(":")[0]).type


def contradictions(ours, theirs):
    """Of the static shapes."""
    found = []
    for name in set(ours) & set(theirs):        # calls that are inlined have nodes more
        for i, (a, b) in enumerate(zip(ours[name].split(";"), theirs[name].split(";"))):
            if a != b and contradict(a, b):
                found.append("%s:%d is (%s), not (%s)" % (name, i, a, b))
    return found


def contradict(a, b):
    if "*" in (a, b):
        return False
    a, b = (x.split(",") if x else [] for x in (a, b))
    return len(a) != len(b) or any(x != y and "?" not in (x, y) for x, y in zip(a, b))


def saved(tf, models):
    """What differs in SavedModels and frozen graphs, or None."""
    for path, frozen, names, feeds, values in models:
        for how in ("SavedModel", "frozen") if frozen else ("SavedModel",):
            with tf.Graph().as_default(), tf.Session() as session:
                if how == "frozen":
                    tf.import_graph_def(tf.GraphDef.FromString(frozen), name="")
                else:
                    meta = tf.saved_model.loader.load(session, ["serve"], path)
                    signature = meta.signature_def["serving_default"]
                    if {n: info.name for n, info in signature.outputs.items()} != names:
                        return "SavedModel: signature %s" % signature
                found = session.run(names, {n: programs.unpacked(tf, a) for n, a in feeds.items()})
            for name, wanted in values.items():
                why = difference(tf, found[name], wanted)
                if why:
                    return "%s: %s: %s" % (how, name, why)
    return None


def answer(tf, known, kept):
    found = read(tf, known, kept)
    if found["result"] == "ok" and kept["saved"]:
        try:
            why = saved(tf, kept["saved"])
        except Exception as error:  # noqa: BLE001  the answer
            why = "%s: %s" % (type(error).__name__, str(error)[:500])
        if why:
            return {"result": "saved", "why": why}
    forms = {"GraphDef": 1, "MetaGraphDef": 1, "SavedModel": len(kept["saved"]),
             "frozen": sum(model[1] is not None for model in kept["saved"]),
             "gradients after the import": int(isinstance(kept["gradients"], dict))}
    return dict(found, forms=forms)


def known_ops(library, tf):
    if library == "pyflow":
        from pyflow.framework import op
        return set(op.op_names())
    import record_ops
    return {op.name for op in record_ops.all_ops()}


def main(library, source, result, pattern="*"):
    tf = recording.library(library)
    with open(source, "rb") as file:
        written = pickle.load(file)
    known, results = known_ops(library, tf), {}
    chosen = {name: kept for name, kept in written["programs"].items()
              if programs.is_chosen(name, pattern)}
    for name, found, ended in recording.in_children(
            chosen, lambda name: answer(tf, known, chosen[name])):
        results[name] = found or {"result": "ended", "why": ended}
    with open(result, "wb") as file:
        pickle.dump({"version": tf.__version__, "results": results}, file, 4)


if __name__ == "__main__":
    main(*sys.argv[1:])
