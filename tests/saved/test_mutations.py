"""2,000 damaged checkpoints and SavedModels; `long.py fuzz-saved` does any number."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import mutations  # noqa: E402


def test_damaged_checkpoints(tmp_path):
    found = mutations.run(mutations.Checkpoints, 1800, 11, tmp_path)
    assert found["read"] > 500 and found["DataLossError"] > 1000     # both ways are taken


def test_damaged_models(tmp_path):
    found = mutations.run(mutations.Models, 200, 12, tmp_path)
    assert found["read"] > 10 and found["ValueError"] > 10 and found["OSError"] > 10
