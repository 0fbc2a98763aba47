"""How many ops are compared with TensorFlow, in value and gradient (test_oracle.py compares them)."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import parity  # noqa: E402


@pytest.mark.long       # test_oracle.py has compared them; this counts
def test_at_least_600_ops_are_compared():
    found = parity.report()
    assert len(found["agree"]) >= 600, {key: len(names) for key, names in found.items()}
