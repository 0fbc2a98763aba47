"""Feature columns, canned estimators and a model function beside TensorFlow 2.15's answers."""
import json
import pathlib
import sys

import numpy as np
import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import estimator_programs as programs  # noqa: E402

RTOL = 2e-4


def answers(name):
    return json.loads((HERE / "answers" / f"{name}.json").read_text(encoding="utf-8"))


QUICK = ("linear_words", "dnn_normalised", "dnn_classes", "combined_numbers", "head_labels")
CANNED = [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK))
          for name in sorted(answers("canned"))]


@pytest.fixture(scope="module")
def columns():
    return programs.columns(tf)


@pytest.mark.parametrize("name", sorted(answers("columns")))
def test_columns(name, columns):
    wanted = answers("columns")[name]
    np.testing.assert_allclose(columns[name]["value"], wanted["value"], rtol=1e-5, atol=1e-6)
    assert columns[name]["variables"] == wanted["variables"]


def same(got, wanted):
    """Nested dicts and lists of numbers and texts."""
    if isinstance(wanted, dict):
        assert sorted(got) == sorted(wanted)
        for key in wanted:
            same(got[key], wanted[key])
    elif isinstance(wanted, list) and not np.asarray(wanted).dtype.kind == "f":
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            same(one, other)
    elif isinstance(wanted, str):
        assert got == wanted
    else:
        np.testing.assert_allclose(got, wanted, rtol=RTOL, atol=2e-5)


@pytest.mark.parametrize("name", CANNED)
def test_canned(name):
    labels, make = programs.canned_of(tf)[name]
    same(programs.train_canned(tf, make, labels), answers("canned")[name])


def test_a_model_function():
    same(programs.custom(tf), answers("custom"))
