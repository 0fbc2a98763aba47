"""A short run of the fuzzer (`long.py serve-fuzz` has a long one)."""
import random

import pytest

pytest.importorskip("httptools")
pytest.importorskip("uvicorn")

import serving_fuzz as fuzz  # noqa: E402
from serving_models import Served, write_zoo  # noqa: E402


def test_damaged_requests_are_answered(tmp_path):
    write_zoo(tmp_path / "1")
    with Served({"zoo": tmp_path}) as plain, Served({"zoo": tmp_path}, max_batch=8,
                                                    allowed_sizes=(4, 8)) as batched:
        found = fuzz.run([plain, batched], random.Random(7), 120, 30)
    assert found[200] > 15 and found[400] > 50 and found["head 200"] > 3, found
