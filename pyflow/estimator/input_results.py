"""What an input function gives, as features, labels and the hooks that go with them.

Thread: the one building the graph.
"""
import functools
import inspect

import pyflow as tf


def arguments_of(function):
    """The names of a function's arguments; of a partial one those left, of an object its
    __call__'s."""
    if isinstance(function, functools.partial):
        given = set(function.keywords)
        return tuple(name for name in arguments_of(function.func)[len(function.args):]
                     if name not in given)
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY,
                              parameter.POSITIONAL_ONLY):
            names.append(name)
    return tuple(names)


class _StartDataset(tf.train.SessionRunHook):
    """Initialises a dataset's iterator in each new session."""

    def __init__(self, iterator):
        self._iterator = iterator

    def begin(self):
        self._op = self._iterator.initializer

    def after_create_session(self, session, coord):
        del coord
        session.run(self._op)


ITERATORS = "iterators"          # the collection of the datasets' iterators


def called(input_fn, mode, params, config):
    """input_fn() with those of mode, params and config that it takes, on the CPU."""
    there = {"mode": mode, "params": params, "config": config}
    wanted = arguments_of(input_fn)
    with tf.device("/cpu:0"):
        return input_fn(**{name: value for name, value in there.items() if name in wanted})


def is_dataset(result):
    """Whether it is a tf.data.Dataset."""
    return isinstance(result, tf.data.Dataset)


def parsed(result):
    """(features, labels or None, hooks) of what an input function returned.

    ValueError for a list or tuple that is no pair."""
    hooks = []
    if is_dataset(result):
        with tf.device("/cpu:0"):
            iterator = result.make_initializable_iterator()
            tf.add_to_collection(ITERATORS, iterator)
            hooks.append(_StartDataset(iterator))
            result = iterator.get_next()
    if isinstance(result, (list, tuple)):
        if len(result) != 2:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
        return result[0], result[1], hooks
    return result, None, hooks


def features_alone(result):
    """(features, hooks, whether the input ends) of what an input function for predictions
    returned."""
    ends = is_dataset(result)
    if ends:
        with tf.device("/cpu:0"):
            iterator = result.make_initializable_iterator()
            result = iterator.get_next()
        hooks = [_StartDataset(iterator)]
    else:
        hooks = []
    if isinstance(result, (list, tuple)):
        result = result[0]
    return result, hooks, ends
