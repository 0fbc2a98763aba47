"""Every public name of estimators and columns is explained, and its examples run."""
import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import pyflow as tf
from pyflow import estimator, feature_column

NAMES = {name: value for package in (estimator, feature_column)
         for module in pkgutil.iter_modules(package.__path__)
         for name, value in getattr(importlib.import_module(
             f"{package.__name__}.{module.name}"), "PUBLIC", {}).items()}


def test_all_are_explained():
    assert len(NAMES) > 100
    kinds = [name for name, value in NAMES.items() if callable(value)]
    assert [name for name in kinds if not NAMES[name].__doc__] == []


@pytest.mark.parametrize("name", sorted(
    name for name, value in NAMES.items() if ">>>" in (value.__doc__ or "")))
def test_examples(name):
    [test] = doctest.DocTestFinder(recurse=False).find(NAMES[name], name,
                                                       globs={"tf": tf, "np": np})
    with tf.Graph().as_default():
        said = []
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)
