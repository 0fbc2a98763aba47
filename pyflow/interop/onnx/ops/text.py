"""Ops on strings.  Comparisons and joins are kernels; regular expressions, splitting, case and
n-grams run as Python functions of the step (tf.py_func), so such graphs run where Python is.

Strings are bytes in UTF-8."""

import re

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.registry import converter


def hosted(function, inputs, types, shapes):
    """The function of arrays as a node; its outputs have these types and shapes."""
    made = tf.py_func(function, inputs, types, stateful=False)
    made = made if isinstance(made, (list, tuple)) else [made]
    for tensor, shape in zip(made, shapes):
        tensor.set_shape(shape)
    return list(made)


def _decode(item):
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)


def _encode(item):
    return item.encode("utf-8", "surrogateescape")


def strings(items, shape):
    """An object array of bytes."""
    made = np.empty(len(items), object)
    made[:] = [_encode(item) for item in items]
    return made.reshape(shape)


@converter("StringConcat")
def string_concat(node):
    a, b = node.x(0), node.x(1)
    shape = tf.broadcast_static_shape(a.shape, b.shape)
    dims = a.shape.as_tuple()
    same = dims is not None and dims == b.shape.as_tuple() and None not in dims
    if not same and 0 not in (a.shape.ndims, b.shape.ndims):
        whole = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
        a, b = (_stretched(t, whole) for t in (a, b))
    made = tf.string_join([a, b])
    made.set_shape(shape)
    return made


def _stretched(t, shape):
    """Strings broadcast by picking: their places are numbers."""
    places = tf.reshape(tf.range(tf.size(t)), tf.shape(t))
    return tf.gather(tf.reshape(t, [-1]), tf.broadcast_to(places, shape))


@converter("RegexFullMatch")
def regex_full_match(node):
    try:
        pattern = re.compile(node.attr("pattern"))
    except re.error as error:
        raise node.error(f"pattern {node.attr('pattern')!r} is no regular expression: {error}"
                         ) from None

    def match(x):
        x = np.asarray(x, object)
        found = [pattern.fullmatch(_decode(s)) is not None for s in x.ravel()]
        return np.array(found, bool).reshape(x.shape)
    return hosted(match, [node.x(0)], [tf.bool], [node.shape(0)])


@converter("StringSplit")
def string_split(node):
    """Parts, padded with "" to the most there are, and how many each string has."""
    delimiter, most = node.attr("delimiter", "") or None, node.attr("maxsplit", -1)

    def split(x):
        x = np.asarray(x, object)
        parts = [_decode(s).split(delimiter, -1 if most is None else most) if s else []
                 for s in x.ravel()]        # as in onnxruntime, nothing has no part
        width = max(map(len, parts), default=0)
        flat = [p for row in parts for p in row + [""] * (width - len(row))]
        counts = np.array([len(row) for row in parts], np.int64).reshape(x.shape)
        return strings(flat, (*x.shape, width)), counts
    shape = node.shape(0)
    return hosted(split, [node.x(0)], [tf.string, tf.int64], [(*shape, None), shape])


@converter("StringNormalizer", since=10)
def string_normalizer(node):
    """Takes stop words out of [C] or [1, C] and changes case."""
    action = node.attr("case_change_action", "NONE")
    sensitive = bool(node.attr("is_case_sensitive", 0))
    stop = node.attr("stopwords", [])
    if action not in ("NONE", "LOWER", "UPPER"):
        raise node.error(f"case_change_action {action!r} is none of NONE, LOWER, UPPER")
    rank = node.expect_rank(0, 1, 2)
    change = {"LOWER": _lower, "UPPER": _upper, "NONE": str}[action]
    compare = str if sensitive else (_upper if action == "UPPER" else _lower)
    gone = {compare(w) for w in stop}

    def normalize(x):
        words = [_decode(s) for s in np.asarray(x, object).ravel()]
        kept = [change(w) for w in words if compare(w) not in gone] or [""]
        return strings(kept, (len(kept),) if rank == 1 else (1, len(kept)))
    return hosted(normalize, [node.x(0)], [tf.string], [(None,) if rank == 1 else (1, None)])


def _upper(word):
    """In capitals character by character, as C's towupper: a sharp s has none and stays."""
    return "".join(c.upper() if len(c.upper()) == 1 else
                   c.title() if len(c.title()) == 1 else c for c in word)


def _lower(word):
    """In small letters character by character, as C's towlower."""
    return "".join(c.lower()[0] for c in word)


@converter("TfIdfVectorizer")
def tf_idf_vectorizer(node):
    """Counts of n-grams from a pool, weighted."""
    places, weights = node.attr("ngram_indexes"), node.attr("weights", None)
    least, most = node.attr("min_gram_length"), node.attr("max_gram_length")
    skips, mode = node.attr("max_skip_count"), node.attr("mode")
    grams = _grams(node, places, least, most)
    width = max(places, default=-1) + 1
    if mode not in ("TF", "IDF", "TFIDF") or min(places, default=0) < 0 or width > 1 << 24:
        raise node.error(f"mode {mode!r} or ngram_indexes out of range")
    scale = np.ones(width, np.float32)
    if weights:
        scale[np.array(places[:len(weights)])] = weights

    def row(tokens):
        counts = np.zeros(width, np.float32)
        for n in range(max(least, 1), min(most, len(tokens)) + 1):
            for gap in range(1, min(skips + 2, len(tokens))) if n > 1 else (1,):
                for at in range(len(tokens) - (n - 1) * gap):
                    k = grams.get(tuple(tokens[at:at + (n - 1) * gap + 1:gap]))
                    if k is not None:
                        counts[places[k]] += 1
        return counts

    def vectorize(x):
        x = np.asarray(x)
        rows = [[_decode(t) if isinstance(t, bytes) else t for t in r.tolist()]
                for r in (x if x.ndim == 2 else x.reshape(1, -1))]
        found = np.stack([row(r) for r in rows]) if rows else np.zeros((0, width), np.float32)
        if mode == "IDF":
            found = (found > 0).astype(np.float32)
        found = found * scale if mode != "TF" else found
        return np.asarray(found if x.ndim == 2 else found[0], np.float32)
    shape = node.shape(0)
    return hosted(vectorize, [node.x(0)], [tf.float32], [(*shape[:-1], width)])


def _grams(node, places, least, most):
    """{n-gram: its number} for lengths from `least` to `most`."""
    pool = node.attr("pool_strings", None) or node.attr("pool_int64s", None) or []
    starts = [*node.attr("ngram_counts"), len(pool)]
    grams, k = {}, 0
    for n, (begin, end) in enumerate(zip(starts, starts[1:]), 1):
        if begin < 0 or begin > end or end > len(pool):
            raise node.error(f"ngram_counts {starts[:-1]} do not ascend within {len(pool)} entries")
        for at in range(begin, end - n + 1, n):
            if k >= len(places):
                raise node.error(f"ngram_indexes has {len(places)} entries, more are needed")
            if least <= n <= most:
                grams[tuple(pool[at:at + n])] = k
            k += 1
    return grams
