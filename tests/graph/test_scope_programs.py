"""Names, devices, control inputs and colocation of random nested scopes equal TensorFlow's
record."""

import json
import os
import types

import pytest
from scope_programs import make_program, run

from pyflow.framework import graph as ops
from pyflow.ops.control import identity_ops

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scope_answers.json")
with open(_PATH) as _f:
    ANSWERS = json.load(_f)

TF = types.SimpleNamespace(
    Graph=ops.Graph, constant=ops.constant, device=ops.device,
    identity=lambda x, name=None: identity_ops.Identity(x, name=name),
    control_dependencies=ops.control_dependencies)


@pytest.mark.parametrize("seed", range(len(ANSWERS)))
def test_program(seed):
    program = make_program(seed)
    assert run(TF, program) == ANSWERS[seed], program
