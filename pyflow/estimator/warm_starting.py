"""Variables that begin with values of another checkpoint: WarmStartSettings, tf.train.warm_start.

Invariants
    1. A variable that is not asked for keeps its initializer.
    2. With a vocabulary of before, rows of words that were known come from the checkpoint; the
       others keep the initial value.

Thread: the one building the graph.  Source: TF 1.15 tf.train.warm_start.

    tf.estimator.WarmStartSettings("old_model", vars_to_warm_start=".*hidden.*")
"""
import collections
import logging
import re

import numpy as np

import pyflow as tf

_log = logging.getLogger("tensorflow")


class VocabInfo(collections.namedtuple("VocabInfo", (
        "new_vocab new_vocab_size num_oov_buckets old_vocab old_vocab_size backup_initializer "
        "axis"))):
    """The vocabularies behind a variable, now and in the checkpoint.

    new_vocab, old_vocab: files with a word a line. new_vocab_size, old_vocab_size (-1: all of the
    file): words used. num_oov_buckets: rows behind the words. backup_initializer: of rows without a
    word in the checkpoint; default zeros. axis: 0, or 1 for columns. ValueError for others.
    TF: tf.train.VocabInfo."""

    __slots__ = ()

    def __new__(cls, new_vocab, new_vocab_size, num_oov_buckets, old_vocab, old_vocab_size=-1,
                backup_initializer=None, axis=0):
        if axis not in (0, 1):
            raise ValueError(f"The only supported values for the axis argument are 0 and 1.  "
                             f"Provided axis: {axis}")
        return super().__new__(cls, new_vocab, new_vocab_size, num_oov_buckets, old_vocab,
                               old_vocab_size, backup_initializer, axis)


class WarmStartSettings(collections.namedtuple("WarmStartSettings", (
        "ckpt_to_initialize_from vars_to_warm_start var_name_to_vocab_info "
        "var_name_to_prev_var_name"))):
    """Which variables begin with which values.

    ckpt_to_initialize_from: a checkpoint or a folder of them (ValueError if empty).
    vars_to_warm_start: a regular expression of names, a list of expressions or variables; default
    all trainable ones; None: only those of var_name_to_vocab_info, {name: VocabInfo}.
    var_name_to_prev_var_name: {name here: name there}. TF: tf.estimator.WarmStartSettings.

        >>> tf.estimator.WarmStartSettings("/tmp/old").vars_to_warm_start
        '.*'
    """

    __slots__ = ()

    def __new__(cls, ckpt_to_initialize_from, vars_to_warm_start=".*", var_name_to_vocab_info=None,
                var_name_to_prev_var_name=None):
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(cls, ckpt_to_initialize_from, vars_to_warm_start,
                               var_name_to_vocab_info or {}, var_name_to_prev_var_name or {})


def default_settings(warm_start_from):
    """WarmStartSettings of a path, or as given. ValueError for another kind."""
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, (str, bytes)):
        return WarmStartSettings(ckpt_to_initialize_from=tf.compat.as_str(warm_start_from))
    raise ValueError("warm_start_from must be a string or a WarmStartSettings, instead got "
                     f"{type(warm_start_from)}")


def warm_start(ckpt_to_initialize_from, vars_to_warm_start=".*", var_name_to_vocab_info=None,
               var_name_to_prev_var_name=None):
    """Lets variables of the default graph begin with a checkpoint's values; arguments as
    WarmStartSettings'.

    ValueError for a name of var_name_to_vocab_info or var_name_to_prev_var_name that is no variable
    asked for. TF: tf.train.warm_start."""
    vocabularies = dict(var_name_to_vocab_info or {})
    before = dict(var_name_to_prev_var_name or {})
    asked = _asked(vars_to_warm_start)
    for name in vocabularies:
        if name not in asked:
            asked[name] = _named(name)
    unused = (set(before) | set(vocabularies)) - set(asked)
    if unused:
        raise ValueError("You provided the following variables in var_name_to_vocab_info or "
                         f"var_name_to_prev_var_name that were not used: {sorted(unused)}.  "
                         "Perhaps you misspelled them?  Here is the list of viable variable names: "
                         f"{sorted(asked)}")
    plain = {}
    for name, variable in asked.items():
        if name in vocabularies:
            _start_rows(variable, ckpt_to_initialize_from, before.get(name, name),
                        vocabularies[name])
        else:
            plain[before.get(name, name)] = variable
    if plain:
        tf.train.init_from_checkpoint(ckpt_to_initialize_from, plain)
    _log.info("Warm-started %d variables.", len(asked))


def _asked(patterns):
    """{name: variable or list of a variable's parts} of what is to be started."""
    if patterns is None:
        return {}
    if isinstance(patterns, str):
        return _grouped(tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=patterns))
    if not isinstance(patterns, (list, tuple)):
        raise ValueError("`vars_to_warm_start must be a `list` or `tuple` when used with "
                         f"variables or regular expressions, got {patterns!r}")
    found = []
    for item in patterns:
        found += tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope=item) \
            if isinstance(item, str) else [item]
    return _grouped(found)


def _grouped(found):
    groups = {}
    for variable in found:
        info = getattr(variable, "_get_save_slice_info", lambda: None)()
        if info is None:
            groups[variable.op.name] = variable
        else:
            groups.setdefault(info.full_name, []).append(variable)
    return groups


def _named(name):
    found = _grouped(tf.global_variables())
    if name not in found:
        raise ValueError(f"There is no variable {name!r} to warm-start; there are "
                         f"{', '.join(sorted(found)[:10])}")
    return found[name]


def _start_rows(variable, checkpoint, stored, info):
    """An initializer of rows by word: the checkpoint's where it knew the word. Parts of a
    partitioned variable have their parts of the rows."""
    old = tf.train.load_variable(checkpoint, stored)
    number = {word: at for at, word in enumerate(
        _words(info.old_vocab, info.old_vocab_size))}
    rows = [number.get(word, -1) for word in _words(info.new_vocab, info.new_vocab_size)]
    rows = np.array(rows + [-1] * info.num_oov_buckets)
    for part in variable if isinstance(variable, list) else [variable]:
        cut = part._get_save_slice_info() if isinstance(variable, list) else None
        size = part.get_shape().as_list()
        shape, offset = (cut.full_shape, cut.var_offset) if cut else (size, [0] * len(size))
        if rows.size != shape[info.axis]:
            raise ValueError(f"Variable {stored}: its axis {info.axis} has {shape[info.axis]} rows,"
                             f" its vocabulary {rows.size}")
        known = (rows >= 0).reshape([-1] + [1] * (len(shape) - 1 - info.axis))
        taken = np.take(old, np.maximum(rows, 0), axis=info.axis)
        own = tuple(slice(at, at + n) for at, n in zip(offset, size))
        _start_part(part, np.broadcast_to(known, shape)[own], taken[own], info)


def _start_part(variable, known, taken, info):
    """The variable begins as `taken` where `known`, else as the backup initializer says."""
    make = info.backup_initializer or tf.zeros_initializer()
    fresh = make(list(known.shape), dtype=variable.dtype.base_dtype)
    value = tf.where(tf.constant(known), tf.constant(taken, variable.dtype.base_dtype), fresh)
    variable._initializer_op = variable.assign(value).op
    variable._initial_value = variable._guarded_value = value


def _words(path, size):
    with tf.gfile.GFile(path, "rb") as file:
        words = re.split(rb"\r?\n", file.read())
    if words and not words[-1]:
        words.pop()
    return words if size == -1 else words[:size]


PUBLIC = {
    "estimator.WarmStartSettings": WarmStartSettings,
    "estimator.VocabInfo": VocabInfo,
    "train.VocabInfo": VocabInfo,
    "train.warm_start": warm_start,
}
