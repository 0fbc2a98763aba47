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
    return dataclasses.replace(model.Row(worker=0.2, server=0.3, wait=0.5, threads=10), **changed)


def step(found, workers, cores, varies=0.0):
    return model.Machine(found, workers, cores, varies).run()


def test_steps_whose_length_is_known():
    assert step(row(), 1, 2).seconds == pytest.approx(1.0)
    assert step(row(), 5, 20).seconds == pytest.approx(1.0)         # a core for each
    assert step(row(), 8, 1).seconds == pytest.approx(8 * 0.5)      # all wait for the one
    assert step(row(), 40, 4).seconds == pytest.approx(40 * 0.5 / 4, rel=0.02)
    assert step(row(threads=1), 8, 20).seconds == pytest.approx(8 * 0.3)    # the server's thread
    assert step(row(), 1, 1, varies=0.5).seconds == pytest.approx(1.0, rel=0.05)
    assert step(row(stays=1.0), 60, 2).seconds == pytest.approx(60 * 0.5 / 2, rel=0.1)


def test_a_thread_that_stays_waits_though_another_core_is_free():
    free, stays = (step(row(wait=0.0, stays=s, threads=1), 1, 2) for s in (0.0, 1.0))
    assert free.seconds == stays.seconds == pytest.approx(0.5) and stays.waited == 0.0
    free, stays = (step(row(wait=1.0, stays=s), 3, 2, varies=0.5) for s in (0.0, 1.0))
    assert stays.seconds > 1.02 * free.seconds and stays.waited > 3 * free.waited


def test_who_looks_has_a_core_and_goes_on_at_once():
    looks = step(row(worker_looks=9.0), 1, 2)
    assert looks.worker == pytest.approx(1.0, rel=0.01) == looks.seconds
    assert step(row(worker_looks=0.1), 1, 2).worker == pytest.approx(0.2 + 0.1, rel=0.01)
    assert step(row(worker_looks=0.1), 1, 1).seconds == pytest.approx(1.0)      # gave up in time
    late = step(row(worker_looks=0.4), 1, 1).seconds    # the server waits until it gives up
    assert late == pytest.approx(1.0 + 0.4 - 0.25)


def test_a_server_with_more_to_do_looks_less_for_it():
    alone = row(server_looks=0.1, threads=1)
    assert step(alone, 1, 2).server == pytest.approx(0.3 + 0.1)
    assert step(row(server_looks=9.0, threads=1), 1, 2).server == pytest.approx(1.0)
    found = [step(alone, n, 10, varies=0.5).server for n in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True)
    assert found[3] == pytest.approx(0.3, rel=0.06)


def test_what_was_put_in_is_fitted():
    real = row(worker=9e-5, server=1e-4, wait=1e-5, worker_looks=8e-5, server_looks=5e-5, stays=0.5,
               threads=1)
    one, two = (dataclasses.astuple(step(real, n, 2, model.VARIES))[:3] for n in (1, 2))
    found = model.fitted(one, two, 2, 1, 2e-4)
    for n in (1, 2, 4):
        assert step(found, n, 2, model.VARIES).seconds == pytest.approx(
            step(real, n, 2, model.VARIES).seconds, rel=0.08)


def test_the_least_of_a_function():
    def function(point):
        return (point[0] - 1.5) ** 2 + 3 * (point[1] + 0.5) ** 2 + (point[0] - 1.5) * point[1]
    x, y = model.least(function, [0.0, 0.0], 0.5, 100)
    assert all(function([x, y]) <= function([x + d, y + e]) for d in (-1e-3, 0, 1e-3)
               for e in (-1e-3, 0, 1e-3))


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
    rows = {key: model.Row(**fields) for key, fields in kept["rows"].items()}
    assert len(rows) == 2 * len(model.ROWS)         # of both libraries
    simulated = {}
    for workers in (1, 2, 4):
        simulated.update(model.simulated(rows, workers, measured["cores"]))
    for key, predicted in kept["predicted"].items():
        assert simulated[key].seconds == pytest.approx(predicted, rel=1e-3)
    for name in model.ROWS:                         # it was fitted on these, and not on four
        for workers in (1, 2):
            key = f"{name} {workers} pyflow"
            assert simulated[key].seconds == pytest.approx(measured["steps"][key][0], rel=0.15)
    found = model.compared(kept["predicted"], measured)
    assert len(found) == len(rows) and model.holds(found), found
    for workers in (1, 2, 4):                       # a table 16 times as large
        small, large = (measured["steps"][f"sparse {n} {workers} pyflow"][0] for n in ("64K", "1M"))
        assert large < 1.2 * small


def test_each_row_has_to_hold():
    def found(*ratios):
        return [(f"row{k} 4 pyflow", ratio, 1.0, ratio) for k, ratio in enumerate(ratios)]
    assert model.holds(found(1.0, 1.34, 0.75))
    assert not model.holds(found(1.0, 1.0, 1.0, 1.4))       # whatever the mean of all is
    assert not model.holds(found(1.0, 0.73)) and not model.holds([])


def test_the_picture():
    rows = {f"{name} pyflow": model.Row(1e-4, 1e-4, 1e-5) for name in model.ROWS}
    model_counts, model.COUNTS = model.COUNTS, (1, 10, 50)
    try:
        root = xml.fromstring(model.drawing(rows))
    finally:
        model.COUNTS = model_counts
    tags = [child.tag.rpartition("}")[2] for child in root]
    assert tags.count("polyline") == 4 and "OSDI" in "".join(root.itertext())
