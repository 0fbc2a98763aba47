"""The model of null steps (benchmarks/simulate_cluster.py): cases whose answers are known, and the
prediction that is kept beside what was measured afterwards."""
import dataclasses
import json
import pathlib
import sys
import xml.etree.ElementTree as xml

import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
import simulate_cluster as model  # noqa: E402 - a benchmark


def row(**changed):
    return dataclasses.replace(model.Row(worker=0.2, server=0.3, wait=0.5), **changed)


def test_steps_whose_length_is_known():
    assert model.on_one_machine(row(), 1, 2) == pytest.approx(1.0)
    assert model.on_one_machine(row(), 5, 10) == pytest.approx(1.0)      # a core for each
    assert model.on_one_machine(row(), 8, 1) == pytest.approx(8 * 0.5)   # all wait for the one
    assert model.on_one_machine(row(), 40, 4) == pytest.approx(40 * 0.5 / 4, rel=0.02)
    assert model.on_one_machine(row(beside=0.5), 8, 1) == pytest.approx(8 * 1.0, rel=0.1)
    slow = model.on_one_machine(row(wait=0.0, contention=1.5), 2, 2)
    assert slow == pytest.approx(0.75)                                   # both cores always busy


def test_what_was_put_in_is_fitted():
    real = row(wait=0.0, contention=1.3)
    one, two = ([model.on_one_machine(real, n, 2), 0.2, 0.3] for n in (1, 2))
    found = model.fitted(one, two, 2)
    assert found.contention == pytest.approx(1.3, rel=0.02) and found.wait < 1e-9
    assert model.on_one_machine(found, 4, 2) == pytest.approx(
        model.on_one_machine(real, 4, 2), rel=0.02)


def test_a_synchronous_step_over_a_network():
    net = model.Network(servers=4, cores=1, card=100.0, latency=0.0, stack=0.0)
    still = model.Row(0.0, 0.0, 0.0)
    one = model.synchronous_step(still, 400.0, 1, net)
    assert one == pytest.approx(1 + 4 + 4 + 1)      # its card takes 4 s each way, and what overlaps
    ten = model.synchronous_step(still, 400.0, 10, net)
    assert 18 < ten < 22                # each server's card: 100 bytes to ten, and from ten
    busy = model.synchronous_step(model.Row(0.0, 40.0, 0.0), 4.0, 10, net)
    assert busy == pytest.approx(2 * 10 * 10.0, rel=0.05)   # 10 s of a server for each, twice


def test_the_prediction_that_is_kept_is_that_of_one_and_two_workers():
    measured = json.loads(model.MEASURED.read_text())
    kept = json.loads(model.MODEL.read_text())
    _, predicted = model.fit(measured)
    assert predicted == pytest.approx(kept["predicted"], rel=1e-3)
    found = model.compared(predicted, measured)
    assert len(found) == 2 * len(model.ROWS)        # of both libraries
    assert abs(model.mean_ratio(found) - 1) <= model.WITHIN
    assert all(1 / 1.5 < ratio < 1.5 for *_, ratio in found), found
    for workers in (1, 2, 4):                       # a table 16 times as large
        small, large = (measured["steps"][f"sparse {n} {workers} pyflow"][0] for n in ("64K", "1M"))
        assert large < 1.2 * small


def test_the_picture():
    rows = {f"{name} pyflow": model.Row(1e-4, 1e-4, 1e-5) for name in model.ROWS}
    model_counts, model.COUNTS = model.COUNTS, (1, 10, 50)
    try:
        root = xml.fromstring(model.drawing(rows))
    finally:
        model.COUNTS = model_counts
    tags = [child.tag.rpartition("}")[2] for child in root]
    assert tags.count("polyline") == 3 and "OSDI" in "".join(root.itertext())
